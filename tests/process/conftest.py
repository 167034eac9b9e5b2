"""What every test that starts processes needs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.programs import processes


@pytest.fixture(autouse=True)
def no_process_left() -> Iterator[None]:
    """Kill what a failed test left running."""
    yield
    processes.kill_unfinished()
