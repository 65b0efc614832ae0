"""deploy/bootstrap.sh in a checkout of its own, with pythons that are not what one hopes for."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT

GOOD = r"""#!/bin/sh
# A python that makes environments in no time: its pip writes down what it was asked to install.
case "$*" in
  *version_info*) exit 0 ;;
  --version) echo "Python 3.11.99" ;;
  "-m venv .venv")
    mkdir -p .venv/bin; cp "$0" .venv/bin/python
    cat >.venv/bin/pip <<'PIP'
#!/bin/sh
echo "$*" >>.venv/pip-calls
[ -e pip-fails ] && { echo "no such wheel" >&2; exit 1; }
exit 0
PIP
    chmod +x .venv/bin/pip ;;
esac
"""
OLD = """#!/bin/sh
case "$*" in *version_info*) exit 1 ;; --version) echo "Python 3.9.2" ;; esac
"""
NO_VENV = """#!/bin/sh
case "$*" in *version_info*) exit 0 ;; --version) echo "Python 3.11.2" ;; *venv*) exit 1 ;; esac
"""


class Checkout:
    """A copy of what the script needs, and a PATH on which it finds the tests' pythons."""

    def __init__(self, root: Path) -> None:
        self.root = root / "checkout"
        self.bin = root / "bin"
        (self.root / "deploy").mkdir(parents=True)
        self.bin.mkdir()
        shutil.copy(ROOT / "deploy" / "bootstrap.sh", self.root / "deploy")
        (self.root / "requirements.txt").write_text("one==1\n")
        (self.root / "requirements-dev.txt").write_text("-r requirements.txt\ntwo==2\n")
        for tool in ("sh", "dirname", "cat", "cut", "sha256sum", "basename", "rm", "mkdir", "cp", "chmod", "df", "awk"):
            found = shutil.which(tool)
            assert found
            (self.bin / tool).symlink_to(found)
        for tool in ("grep", "tail"):
            (self.bin / tool).symlink_to(shutil.which(tool) or "")

    def python(self, script: str, name: str = "python3") -> None:
        (self.bin / name).write_text(script)
        (self.bin / name).chmod(0o755)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.bin / "sh"), "deploy/bootstrap.sh", *arguments],
            cwd=self.root,
            env={"PATH": str(self.bin)},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    @property
    def installs(self) -> int:
        calls = self.root / ".venv" / "pip-calls"
        return len(calls.read_text().splitlines()) if calls.exists() else 0


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A fresh checkout without a python."""
    return Checkout(tmp_path)


def test_first_run_installs_and_the_second_does_nothing(checkout: Checkout) -> None:
    checkout.python(GOOD)
    assert checkout.run().returncode == 0
    assert checkout.installs == 1
    second = checkout.run()
    assert (second.returncode, second.stdout, checkout.installs) == (0, "", 1)


def test_changed_requirements_are_installed(checkout: Checkout) -> None:
    checkout.python(GOOD)
    checkout.run()
    (checkout.root / "requirements.txt").write_text("one==2\n")
    checkout.run()
    assert checkout.installs == 2


def test_development_install_covers_the_runtime_one(checkout: Checkout) -> None:
    checkout.python(GOOD)
    checkout.run("requirements-dev.txt")
    checkout.run("requirements.txt")
    assert checkout.installs == 1


def test_failed_install_is_one_line_and_is_tried_again(checkout: Checkout) -> None:
    checkout.python(GOOD)
    (checkout.root / "pip-fails").touch()
    failed = checkout.run()
    assert failed.returncode == 2
    assert "could not install requirements.txt: no such wheel" in failed.stderr
    assert failed.stderr.count("\n") == 1
    (checkout.root / "pip-fails").unlink()
    assert checkout.run().returncode == 0
    assert checkout.installs == 2


def test_environment_that_was_left_half_made_is_made_anew(checkout: Checkout) -> None:
    checkout.python(GOOD)
    (checkout.root / ".venv" / "bin").mkdir(parents=True)
    shutil.copy(checkout.bin / "python3", checkout.root / ".venv" / "bin" / "python")
    assert checkout.run().returncode == 0
    assert os.access(checkout.root / ".venv" / "bin" / "pip", os.X_OK)


@pytest.mark.parametrize("script", [OLD, None], ids=["too old", "none at all"])
def test_missing_or_old_python_is_one_line_with_the_remedy(checkout: Checkout, script: str | None) -> None:
    if script:
        checkout.python(script)
    failed = checkout.run()
    assert failed.returncode == 2
    assert "needs Python 3.11 or newer" in failed.stderr
    assert "PYTHON=" in failed.stderr
    assert failed.stderr.count("\n") == 1


def test_newer_python_under_another_name_is_found(checkout: Checkout) -> None:
    checkout.python(OLD)
    checkout.python(GOOD, "python3.12")
    assert checkout.run().returncode == 0


def test_missing_venv_module_is_one_line_with_the_remedy(checkout: Checkout) -> None:
    checkout.python(NO_VENV)
    failed = checkout.run()
    assert failed.returncode == 2
    assert failed.stderr.splitlines()[-1].endswith("apt-get install python3-venv")


def test_full_disk_is_one_line_with_the_remedy(checkout: Checkout) -> None:
    checkout.python(GOOD)
    (checkout.bin / "df").unlink()
    checkout.python('#!/bin/sh\nprintf "Filesystem 1024-blocks Used Available\\n/dev/x 9 9 1000 1%% /\\n"\n', "df")
    failed = checkout.run()
    assert failed.returncode == 2
    assert "needs 1 GiB of free disk" in failed.stderr
    assert failed.stderr.count("\n") == 1
