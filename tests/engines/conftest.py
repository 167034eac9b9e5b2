"""Fixtures of the tests of one engine."""

from __future__ import annotations

import pytest

from tests.binlog import LiveLog
from tests.live import LiveEngine

ENTRY = "DROP TABLE IF EXISTS entry", "CREATE TABLE entry (id int PRIMARY KEY, t varchar(300))"


@pytest.fixture
def log(engine: LiveEngine) -> LiveLog:
    """The log of the server, with an empty table ``entry``."""
    found = LiveLog(engine.url)
    found.run(*ENTRY)
    return found
