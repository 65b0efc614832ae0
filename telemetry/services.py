"""Writes of telemetry that people ask for: which targets beside the agents are scraped."""

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction

from fabric.agents.models import Agent
from fabric.audit.services import record
from fabric.core.actor import Actor, Role
from fabric.core.crypto import decrypt_field, encrypt_field, field_aad
from fabric.core.errors import Conflict, Invalid, NotAllowed, NotFound, Problem
from fabric.pools.models import Pool
from telemetry.domain import label_problems, token_problems, url_problems
from telemetry.models import ScrapeTarget, TargetKind

_FACTS = ("kind", "url", "agent_id", "pool_id", "enabled", "labels")


def register_target(
    *,
    actor: Actor,
    name: str,
    kind: str,
    url: str,
    bearer_token: str | None = None,
    agent_id: UUID | None = None,
    pool_id: UUID | None = None,
    enabled: bool = True,
    labels: Mapping[str, str] | None = None,
) -> ScrapeTarget:
    """Register a scrape target, or bring the one of that name to these values; the same values again change nothing.

    `bearer_token`: None keeps the stored one, an empty text removes it. `pool_id` says whose traffic it measures.

    Raises:
        NotAllowed: the actor is no operator.
        Invalid: a field cannot be used; also a new URL without its token, which would be sent to whoever sits there.
        Conflict: two callers registered the same new name at once.
    """
    if not actor.may(Role.OPERATOR):
        raise NotAllowed("Only operators register scrape targets.")
    wanted = {
        "kind": kind,
        "url": url,
        "agent_id": agent_id,
        "pool_id": pool_id,
        "enabled": enabled,
        "labels": dict(labels or {}),
    }
    with transaction.atomic():
        target = ScrapeTarget.objects.select_for_update().filter(name=name).first()
        problems = list(_problems(name, wanted, bearer_token, target))
        if problems:
            raise Invalid("The target cannot be registered.", problems)
        if target is None:
            target = _insert(actor, name, wanted, bearer_token or "")
        else:
            _change(actor, target, wanted, bearer_token)
    return target


def remove_target(*, actor: Actor, target_id: UUID) -> None:
    """Stop scraping a target; what was stored of it stays. Raises `NotAllowed`, `NotFound`."""
    if not actor.may(Role.OPERATOR):
        raise NotAllowed("Only operators remove scrape targets.")
    with transaction.atomic():
        target = ScrapeTarget.objects.select_for_update().filter(pk=target_id).first()
        if target is None:
            raise NotFound("There is no such scrape target.")
        record(actor=actor, verb="remove", obj=target, before=_facts(target), after={})
        target.delete()


def bearer_of(target: ScrapeTarget) -> str:
    """Return the token in clear, for the scraper alone. Raises `CryptoError` when it cannot be opened."""
    if not target.bearer_token_encrypted:
        return ""
    return decrypt_field(target.bearer_token_encrypted, aad=_aad(target)).decode()


def _insert(actor: Actor, name: str, wanted: Mapping[str, Any], bearer_token: str) -> ScrapeTarget:
    target = ScrapeTarget(name=name, **wanted)
    _seal(target, bearer_token)
    try:
        with transaction.atomic():
            target.save(force_insert=True)
    except IntegrityError as error:
        raise Conflict("Somebody registered a target of that name just now; try again.") from error
    after = _facts(target) | {"has_token": bool(bearer_token)}
    record(actor=actor, verb="register", obj=target, before={}, after=after)
    return target


def _change(actor: Actor, target: ScrapeTarget, wanted: dict[str, Any], bearer_token: str | None) -> None:
    before = _facts(target)
    for name, value in wanted.items():
        setattr(target, name, value)
    after = _facts(target)
    changed = [name for name in _FACTS if before[name] != after[name]]
    renewed = bearer_token is not None and bearer_token != bearer_of(target)
    if not changed and not renewed:
        return
    if renewed:
        _seal(target, bearer_token or "")
    target.save(update_fields=[*wanted, "bearer_token_encrypted", "updated_at"])
    record(
        actor=actor,
        verb="change",
        obj=target,
        before={name: before[name] for name in changed},
        after={name: after[name] for name in changed} | ({"token_renewed": True} if renewed else {}),
    )


def _problems(
    name: str, wanted: Mapping[str, Any], token: str | None, target: ScrapeTarget | None
) -> Iterator[Problem]:
    if not 1 <= len(name) <= 100 or not name.isprintable() or name != name.strip():
        yield Problem("name", "1 to 100 printable characters without blanks around", "choose another name")
    if wanted["kind"] not in TargetKind.values:
        yield Problem("kind", f"{wanted['kind'][:32]!r} is no kind of target", f"give {', '.join(TargetKind.values)}")
    stored = bool(target and target.bearer_token_encrypted)
    yield from url_problems(wanted["url"], with_token=bool(token) or (token is None and stored))
    if token:
        yield from token_problems(token)
    if target and stored and token is None and target.url != wanted["url"]:
        yield Problem("bearer_token", "a changed URL needs the token once more", "give it, or an empty one")
    yield from label_problems(wanted["labels"])
    if wanted["agent_id"] and not Agent.objects.filter(pk=wanted["agent_id"]).exists():
        yield Problem("agent", "there is no such agent", "give the id of an agent, or leave it out")
    if wanted["pool_id"] and not Pool.objects.filter(pk=wanted["pool_id"]).exists():
        yield Problem("pool", "there is no such pool", "give the id of a pool, or leave it out")


def _seal(target: ScrapeTarget, token: str) -> None:
    target.bearer_token_encrypted = encrypt_field(token.encode(), aad=_aad(target)) if token else ""


def _facts(target: ScrapeTarget) -> dict[str, Any]:
    return {name: getattr(target, name) for name in _FACTS}


def _aad(target: ScrapeTarget) -> str:
    return field_aad("telemetry_scrapetarget", "bearer_token_encrypted", target.pk)
