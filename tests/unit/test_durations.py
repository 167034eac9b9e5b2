"""One object of durations: tests set fields for a block, every thread sees it, and every field is read where something waits."""

from __future__ import annotations

import re
import threading
from dataclasses import fields, replace
from pathlib import Path

import pytest

from auditor.durations import Durations, durations
from dialects.durations import SessionDurations
from tests.durations import SetDurations
from tests.programs import processes

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("kind", "package"), [(Durations, "auditor"), (SessionDurations, "dialects")])
def test_every_duration_is_read_at_its_time(kind: type, package: str) -> None:
    sources = [path.read_text() for path in (ROOT / package).rglob("*.py")]
    read = {name for source in sources for name in re.findall(r"\bdurations\(\)\.(\w+)", source)}
    assert {field.name for field in fields(kind)} == read
    at_import = [line for source in sources for line in source.split("\n") if re.match(r"\w.*\bdurations\(\)", line)]
    defaults = [line for source in sources for line in re.findall(r"def .*=\s*durations\(\).*", source)]
    assert at_import == defaults == []


def test_timeouts_are_set_for_a_block_in_every_thread(set_durations: SetDurations) -> None:
    usual, seen = durations(), []
    with durations.overridden(worker_poll=7.0), durations.overridden(connection_retry_waits=()):
        thread = threading.Thread(target=lambda: seen.append((durations().worker_poll, durations().connection_retry_waits)))
        thread.start()
        thread.join()
    assert (seen, durations()) == ([(7.0, ())], usual)
    set_durations(worker_poll=8.0, cancel_grace=9.0)
    assert durations().worker_poll == 8.0


def test_a_block_that_ends_later_restores_only_its_own() -> None:
    usual, first, second = durations(), durations.overridden(worker_poll=7.0), durations.overridden(requeue=7.0)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert (durations().worker_poll, durations().requeue) == (usual.worker_poll, 7.0)
    second.__exit__(None, None, None)
    assert durations() == usual


def test_an_unknown_timeout_is_an_error(set_durations: SetDurations) -> None:
    with pytest.raises(TypeError, match="wroker_poll"):
        set_durations(wroker_poll=1.0)


def test_processes_that_tests_start_take_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = durations()
    with SetDurations() as until_end:
        monkeypatch.setattr(processes, "UNTIL_END", until_end)
        processes.apply({"durations.connection_retry_waits": [0.1, 0.2]})
        assert durations() == replace(before, connection_retry_waits=(0.1, 0.2))
    assert durations() == before
