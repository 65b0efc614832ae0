"""Sites and pods."""

from typing import TypedDict, Unpack
from uuid import UUID

from fabric.core.actor import Actor
from fabric.inventory.models import Pod, Site
from fabric.inventory.services.common import Kind, create, delete, update


class SiteFacts(TypedDict, total=False):
    """What an operator declares of a site."""

    name: str
    slug: str
    description: str


class PodFacts(TypedDict, total=False):
    """What an operator declares of a pod."""

    site_id: UUID
    name: str
    description: str


_SITE = Kind(Site, "site", ("name", "slug", "description"), lambda row: [("name",), ("slug",)], ("pods",))
_POD = Kind(
    Pod,
    "pod",
    ("site_id", "name", "description"),
    lambda row: [("site_id", "name")],
    ("hosts", "switches", "pools"),
)


def create_site(*, actor: Actor, **facts: Unpack[SiteFacts]) -> Site:
    """Declare a site. Raises `NotAllowed`, `Invalid`, `Conflict` (name or slug taken)."""
    return create(_SITE, actor, facts)


def update_site(
    *, actor: Actor, site_id: UUID, expected_version: int | None = None, **facts: Unpack[SiteFacts]
) -> Site:
    """Change what is given of a site. Raises also `NotFound`, `StaleVersion`."""
    return update(_SITE, actor, site_id, expected_version, facts)


def delete_site(*, actor: Actor, site_id: UUID, expected_version: int | None = None, reason: str = "") -> None:
    """Remove a site without pods. Raises `NotAllowed`, `NotFound`, `StaleVersion`, `Blocked`."""
    delete(_SITE, actor, site_id, expected_version, reason)


def create_pod(*, actor: Actor, **facts: Unpack[PodFacts]) -> Pod:
    """Declare a pod of a site. Raises `NotAllowed`, `Invalid`, `Conflict` (name taken in that site)."""
    return create(_POD, actor, facts)


def update_pod(*, actor: Actor, pod_id: UUID, expected_version: int | None = None, **facts: Unpack[PodFacts]) -> Pod:
    """Change what is given of a pod. Raises also `NotFound`, `StaleVersion`."""
    return update(_POD, actor, pod_id, expected_version, facts)


def delete_pod(*, actor: Actor, pod_id: UUID, expected_version: int | None = None, reason: str = "") -> None:
    """Remove a pod without hosts, switches and pools. Raises `NotAllowed`, `NotFound`, `StaleVersion`, `Blocked`."""
    delete(_POD, actor, pod_id, expected_version, reason)
