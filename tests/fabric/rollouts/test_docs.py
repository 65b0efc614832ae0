"""docs/rollouts.md says what the tables say."""

from fabric.rollouts.domain import TRANSITIONS, UNBLOCKS, ReasonCode, RolloutState
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "rollouts.md").read_text()


def test_page_has_every_state_with_its_verbs() -> None:
    for state in RolloutState:
        verbs = ", ".join(f"`{verb}`" for verb in TRANSITIONS[state]) or "none"
        assert f"| `{state}` | {verbs} |" in PAGE


def test_page_has_every_reason_with_its_remedy() -> None:
    for code in ReasonCode:
        assert f"| `{code}` | {UNBLOCKS[code]} |" in PAGE


def test_page_names_every_failpoint() -> None:
    used = [
        line.split('failpoint("')[1].split('"')[0]
        for path in (ROOT / "fabric" / "rollouts").rglob("*.py")
        for line in path.read_text().splitlines()
        if 'failpoint("' in line
    ]
    assert len(used) >= 8
    for name in used:
        prefix, _, point = name.rpartition(".")
        assert prefix in PAGE, name
        assert point in PAGE, name
