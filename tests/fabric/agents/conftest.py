"""A real database for threads."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection, connections


@pytest.fixture
def file_database(tmp_path: Path, transactional_db: None) -> Iterator[None]:
    """On SQLite, replace the test run's in-memory database, which threads cannot share, by a file with the same
    schema.
    """
    if connection.vendor != "sqlite":
        yield
        return
    connection.ensure_connection()
    memory = connections["default"]
    path = tmp_path / "threads.sqlite3"
    copy = sqlite3.connect(path)
    memory.connection.backup(copy)
    copy.close()
    name = memory.settings_dict["NAME"]
    del connections["default"]
    connections.settings["default"]["NAME"] = str(path)
    try:
        yield
    finally:
        connections["default"].close()
        del connections["default"]
        connections.settings["default"]["NAME"] = name
        connections["default"] = memory
