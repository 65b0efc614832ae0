"""Serves Plotly's bundle out of the installed `plotly` package: no CDN, no copy in the repository."""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

from django.contrib.staticfiles.finders import BaseFinder
from django.core.checks import CheckMessage, Error
from django.core.files.storage import FileSystemStorage

PUBLIC_PATH = "plotly/plotly.min.js"
_FILE = "plotly.min.js"
Messages = list[CheckMessage]  # named here: inside the finder `list` is its method


class _Bundle(FileSystemStorage):
    """The directory of the package's data, shown under `plotly/`."""

    prefix = "plotly"


class PlotlyFinder(BaseFinder):
    """Finds exactly one file, `plotly/plotly.min.js`; nothing else of the package is exposed."""

    def __init__(self, app_names: Any = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._directory = Path(str(files("plotly") / "package_data"))
        self.storage = _Bundle(location=self._directory)

    def find(self, path: str, find_all: bool = False, **kwargs: Any) -> Any:
        """Return the bundle's file name for its public path, else nothing."""
        wanted = Path(path).as_posix() == PUBLIC_PATH and (self._directory / _FILE).is_file()
        found = str(self._directory / _FILE)
        if find_all:
            return [found] if wanted else []
        return found if wanted else []

    def list(self, ignore_patterns: Any) -> Iterator[tuple[str, FileSystemStorage]]:
        """Yield the bundle for `collectstatic`."""
        if (self._directory / _FILE).is_file():
            yield _FILE, self.storage

    def check(self, **kwargs: Any) -> Messages:
        """Report a `plotly` package without its bundle."""
        if (self._directory / _FILE).is_file():
            return []
        return [Error("the installed plotly package has no plotly.min.js", hint="pip install -r requirements.txt")]
