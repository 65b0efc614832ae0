"""The README tells the truth about settings and commands."""

import re
from pathlib import Path

from agent.config import AgentConfig
from fabric.env import Env

ROOT = Path(__file__).resolve().parent.parent.parent


def test_settings_table_names_every_variable_and_its_meaning() -> None:
    readme = (ROOT / "README.md").read_text()
    rows = {m[1]: m[2] for m in re.finditer(r"^\| `([A-Z0-9_]+)` \| [^|]* \| (.*?) \|$", readme, re.M)}
    for name, field in Env.model_fields.items():
        variable = str(field.validation_alias or f"FABRIC_{name}".upper())
        assert rows.get(variable) == (field.description or "").replace("|", "\\|"), f"README's row for {variable}"


def test_readme_commands_exist_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`make ([\w-]+)`", (ROOT / "README.md").read_text()):
        assert re.search(rf"^{target}:", makefile, re.M), f"make {target}"


def test_agent_page_names_every_setting_of_the_agent() -> None:
    page = (ROOT / "docs" / "agent.md").read_text()
    named = set(re.findall(r"`(KVAGENT_[A-Z_]+)`", page))
    assert named == {f"KVAGENT_{name}".upper() for name in AgentConfig.model_fields}
