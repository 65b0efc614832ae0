"""A number that says what it is."""

import math
from dataclasses import dataclass
from enum import StrEnum


class Basis(StrEnum):
    """How a parameter came to be known."""

    VENDOR = "vendor"
    PUBLISHED = "published"
    DECLARED = "declared"
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True)
class Quantity:
    """A parameter's value with its unit, its basis and where it was found. Values are finite and not negative."""

    value: float
    unit: str
    basis: Basis
    source: str

    def __post_init__(self) -> None:
        if not math.isfinite(self.value) or self.value < 0:
            raise ValueError(f"{self.value} {self.unit} ({self.source}): give a finite number of at least 0")
