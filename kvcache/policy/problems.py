"""What is wrong with a policy, field by field."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One field at fault: its dotted path (empty for the whole document), what is wrong, and what would be right."""

    field: str
    problem: str
    remedy: str = ""

    def __str__(self) -> str:
        where = f"{self.field}: " if self.field else ""
        remedy = f" ({self.remedy})" if self.remedy else ""
        return f"{where}{self.problem}{remedy}"


class PolicyError(ValueError):
    """A policy that cannot be used; `problems` lists every field at fault and is never empty."""

    def __init__(self, problems: Iterable[FieldProblem]) -> None:
        self.problems: list[FieldProblem] = list(problems)
        super().__init__("; ".join(str(problem) for problem in self.problems))
