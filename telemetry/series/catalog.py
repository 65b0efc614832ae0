"""The closed catalogue of source metrics: which series are kept, what kind each is, and which selectors read it."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from weakref import WeakValueDictionary

from telemetry.series.text import SeriesTextError, parse_series, series_text


class Kind(StrEnum):
    """How a metric behaves over time."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Family:
    """One source metric.

    `per_host` marks what every agent of a host reports alike: it is counted once per host. `absent_is_none` says that a
    label set which an exposed counter lacks has not occurred yet and counts as zero; without it, it is unknown.
    """

    name: str
    kind: Kind
    per_host: bool = False
    absent_is_none: bool = True

    def sample_names(self) -> tuple[str, ...]:
        """Return the names under which its samples are exposed."""
        if self.kind is Kind.HISTOGRAM:
            return (f"{self.name}_bucket", f"{self.name}_sum", f"{self.name}_count")
        return (self.name,)


@dataclass(frozen=True, slots=True, eq=False)
class Selector:
    """Series of one sample name whose labels match; made by `select`, so that equal selectors are one object.

    `name` is a sample name (`x_total`, `x_count`) or, for the buckets of a histogram, the family's name.
    """

    name: str
    family: Family
    where: tuple[tuple[str, re.Pattern[str]], ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether every named label matches its pattern in full."""
        return all(pattern.fullmatch(labels.get(label, "")) for label, pattern in self.where)

    def __str__(self) -> str:
        if not self.where:
            return self.name
        inner = ",".join(
            f'{label}="{p.pattern}"' if re.escape(p.pattern) == p.pattern else f'{label}=~"{p.pattern}"'
            for label, p in self.where
        )
        return f"{self.name}{{{inner}}}"


@lru_cache(maxsize=1024)
def select(family: Family, suffix: str = "", **where: str) -> Selector:
    """Return the selector of a family with label patterns (regular expressions matched in full, as PromQL's `=~`).

    `suffix` picks `_sum` or `_count` of a histogram; without it a histogram's selector reads the buckets.
    """
    patterns = tuple((label, re.compile(pattern)) for label, pattern in sorted(where.items()))
    return Selector(family.name + suffix, family, patterns)


class Series:
    """One interned series: compare by identity. `group` is the text without `le`: buckets of one histogram share it."""

    __slots__ = ("__weakref__", "bound", "group", "kind", "monotone", "name", "selectors", "text")

    def __init__(self, name: str, labels: Mapping[str, str], family: Family, selectors: tuple[Selector, ...]) -> None:
        self.name = name
        self.text = series_text(name, labels)
        self.kind = family.kind
        self.selectors = selectors
        self.monotone = family.kind is not Kind.GAUGE
        self.bound: float | None = None
        self.group = self.text
        if family.kind is Kind.HISTOGRAM:
            others = {key: value for key, value in labels.items() if key != "le"}
            self.group = series_text(family.name, others)
            if name.endswith("_bucket"):
                self.bound = float(labels["le"])

    def __repr__(self) -> str:
        return f"Series({self.text})"


class Catalog:
    """All families and the selectors over them. Interns series, so that a series is parsed in full only when new."""

    def __init__(self, families: Iterable[Family], selectors: Iterable[Selector] = ()) -> None:
        chosen = list(dict.fromkeys(selectors))
        self.families = {family.name: family for family in (*families, *(s.family for s in chosen))}
        self.by_sample = {name: family for family in self.families.values() for name in family.sample_names()}
        self._selectors: dict[str, list[Selector]] = {}
        for selector in chosen:
            self._selectors.setdefault(selector.name, []).append(selector)
        self._interned: WeakValueDictionary[str, Series] = WeakValueDictionary()

    def series(self, name: str, labels: Mapping[str, str]) -> Series | None:
        """Return the interned series, or None when its name is not in the catalogue.

        Raises `SeriesTextError` for a bucket without a readable `le`.
        """
        family = self.by_sample.get(name)
        if family is None:
            return None
        found = self._interned.get(text := series_text(name, labels))
        if found is not None:
            return found
        if family.kind is Kind.HISTOGRAM and name.endswith("_bucket"):
            _check_bound(labels.get("le", ""))
            candidates = self._selectors.get(family.name, [])
        else:
            candidates = self._selectors.get(name, [])
        series = Series(name, labels, family, tuple(s for s in candidates if s.matches(labels)))
        self._interned[text] = series
        return series

    def from_text(self, text: str) -> Series | None:
        """Return the series of a canonical text, or None when the catalogue (no longer) knows its name."""
        try:
            name, labels, _ = parse_series(text)
            return self.series(name, labels)
        except SeriesTextError:
            return None


def _check_bound(text: str) -> None:
    try:
        bad = math.isnan(float(text))
    except ValueError:
        bad = True
    if bad:
        raise SeriesTextError(f"histogram bucket with le={text!r}")
