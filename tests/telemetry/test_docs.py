"""docs/telemetry.md names every counter that the code has."""

import re

from telemetry.scrape.parse import Fault
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "telemetry.md").read_text()


def test_every_fault_is_on_the_page() -> None:
    assert [fault.value for fault in Fault if f"`{fault.value}`" not in PAGE] == []


def test_every_counter_in_the_code_is_on_the_page() -> None:
    sources = [path.read_text() for path in (ROOT / "telemetry").rglob("*.py")]
    names = {name for text in sources for name in re.findall(r'faults\["(\w+)"\]', text)}
    names |= {
        f"scrape_{reason}"
        for text in sources
        for reason in re.findall(r'FetchError\("(\w+)"\)|\.fail\("(\w+)"\)', text)
        for reason in reason
        if reason
    }
    assert len(names) > 15
    missing = sorted(name for name in names if f"`{name}`" not in PAGE)
    assert missing == []
