"""docs/replay.md names every setting with its default and meaning."""

import re

from bench.replay.config import ReplayOptions
from tests.conftest import ROOT


def test_page_lists_every_setting_with_its_meaning() -> None:
    page = (ROOT / "docs" / "replay.md").read_text()
    rows = {m[1]: (m[2], m[3]) for m in re.finditer(r"^\| `(FABRIC_\w+)` \| (.*?) \| (.*?) \|$", page, re.M)}
    assert set(rows) == {f"FABRIC_REPLAY_{name}".upper() for name in ReplayOptions.model_fields}
    for name, field in ReplayOptions.model_fields.items():
        default, meaning = rows[f"FABRIC_REPLAY_{name}".upper()]
        assert meaning == field.description
        if field.default is not None:
            shown = ",".join(field.default) if isinstance(field.default, list) else str(field.default)
            assert default == f"`{shown}`"
