"""Writing the tick log: one row per source and tick, all of a tick in one short transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import IntegrityError, transaction

from telemetry.models import Layout, Source, Tick


@dataclass(frozen=True, slots=True)
class SourceKey:
    """Identity and membership of a source at the time of writing."""

    key: str
    name: str
    kind: str
    agent_id: UUID | None = None
    pool_id: UUID | None = None
    host_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class LayoutKey:
    """An ordered list of canonical series texts and its digest."""

    digest: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TickRow:
    """One answer, ready to be stored; `values` is `codec.encode_tick`'s blob."""

    source: SourceKey
    at_ms: int
    layout: LayoutKey
    values: bytes
    complete: bool = True


class TickLog:
    """The writer. Remembers ids of sources and layouts; one thread uses it at a time."""

    def __init__(self) -> None:
        self._sources: dict[SourceKey, int] = {}
        self._layouts: dict[str, int] = {}

    def append(self, rows: Sequence[TickRow]) -> None:
        """Store `rows` in one transaction; a row that is there already (same source and time) stays as it is.

        Raises `django.db.Error` when the database cannot: nothing of `rows` is stored then; give them again later.
        """
        try:
            self._append(rows)
        except IntegrityError:  # a source or layout that we remember is gone: the database was restored or purged
            self._sources.clear()
            self._layouts.clear()
            self._append(rows)

    def _append(self, rows: Sequence[TickRow]) -> None:
        for row in rows:
            if row.source not in self._sources:
                self._sources[row.source] = _source_id(row.source)
            if row.layout.digest not in self._layouts:
                self._layouts[row.layout.digest] = layout_id(row.layout)
        with transaction.atomic():
            Tick.objects.bulk_create(
                [
                    Tick(
                        source_id=self._sources[row.source],
                        at_ms=row.at_ms,
                        layout_id=self._layouts[row.layout.digest],
                        complete=row.complete,
                        values=row.values,
                    )
                    for row in rows
                ],
                ignore_conflicts=True,
            )


def layout_id(layout: LayoutKey) -> int:
    """Return the id of the layout's row, making it where there is none."""
    row, _ = Layout.objects.get_or_create(digest=layout.digest, defaults={"series": "\n".join(layout.texts)})
    return row.pk


def _source_id(source: SourceKey) -> int:
    row, _ = Source.objects.update_or_create(
        key=source.key,
        defaults={
            "name": source.name,
            "kind": source.kind,
            "agent_id": source.agent_id,
            "pool_id": source.pool_id,
            "host_id": source.host_id,
        },
    )
    return row.pk
