"""The navigation: every main page once, with its icon and its key after `g`."""

from dataclasses import dataclass

from django.urls import reverse_lazy
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from fabric.core.actor import Actor, Role


@dataclass(frozen=True, slots=True)
class Item:
    """One link. `key` is pressed after `g`; `role` is what its page needs."""

    label: str | Promise
    url: str | Promise
    icon: str
    key: str = ""
    role: Role = Role.VIEWER


@dataclass(frozen=True, slots=True)
class Group:
    """Links that belong together."""

    label: str | Promise
    items: tuple[Item, ...]


GROUPS = (
    Group(
        _("Fabric"),
        (
            Item(_("Overview"), reverse_lazy("telemetry:overview"), "chart", "o"),
            Item(_("Agents"), reverse_lazy("agents:list"), "agent", "a"),
            Item(_("Pools"), reverse_lazy("pools:list"), "pool", "p"),
            Item(_("Policies"), reverse_lazy("policies:list"), "policy", "y"),
            Item(_("Rollouts"), reverse_lazy("rollouts:list"), "rollout", "r"),
        ),
    ),
    Group(
        _("Inventory"),
        (
            Item(_("Sites"), reverse_lazy("inventory:sites"), "site"),
            Item(_("Pods"), reverse_lazy("inventory:pods"), "pod"),
            Item(_("Hosts"), reverse_lazy("inventory:hosts"), "host", "h"),
            Item(_("DPUs"), reverse_lazy("inventory:dpus"), "dpu"),
            Item(_("SSDs"), reverse_lazy("inventory:ssds"), "ssd"),
            Item(_("Switches"), reverse_lazy("inventory:switches"), "switch"),
        ),
    ),
    Group(
        _("Records"),
        (
            Item(_("Audit log"), reverse_lazy("audit:list"), "audit", "u"),
            Item(_("People"), reverse_lazy("accounts:people"), "user", role=Role.ADMIN),
            Item(_("API"), reverse_lazy("api-docs"), "api"),
            Item(_("Site admin"), reverse_lazy("admin:index"), "key", role=Role.ADMIN),
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A link as the template draws it."""

    label: str
    url: str
    icon: str
    key: str
    current: bool


@dataclass(frozen=True, slots=True)
class Section:
    """A titled list of links as the template draws it."""

    label: str
    entries: list[Entry]


def sections_for(actor: Actor, path: str) -> list[Section]:
    """Return what `actor` may open; the entry with the longest address that begins `path` is the current one."""
    allowed = [(group, [item for item in group.items if actor.may(item.role)]) for group in GROUPS]
    addresses = [str(item.url) for _, items in allowed for item in items]
    current = max((a for a in addresses if a == path or (a != "/" and path.startswith(a))), key=len, default="")
    return [
        Section(
            str(group.label),
            [Entry(str(item.label), str(item.url), item.icon, item.key, str(item.url) == current) for item in items],
        )
        for group, items in allowed
    ]
