"""One object of waits: tests set fields for a block, every thread sees it, and every field is read where something waits."""

from __future__ import annotations

import re
import threading
from dataclasses import fields, replace
from pathlib import Path

import pytest

from auditor.waits import Waits, waits
from dialects.waits import SessionWaits
from tests.programs import processes
from tests.waits import SetWaits

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("kind", "package"), [(Waits, "auditor"), (SessionWaits, "dialects")])
def test_every_wait_is_read_at_its_time(kind: type, package: str) -> None:
    sources = [path.read_text() for path in (ROOT / package).rglob("*.py")]
    read = {name for source in sources for name in re.findall(r"\bwaits\(\)\.(\w+)", source)}
    assert {field.name for field in fields(kind)} == read
    at_import = [line for source in sources for line in source.split("\n") if re.match(r"\w.*\bwaits\(\)", line)]
    defaults = [line for source in sources for line in re.findall(r"def .*=\s*waits\(\).*", source)]
    assert at_import == defaults == []


def test_waits_are_set_for_a_block_in_every_thread(set_waits: SetWaits) -> None:
    usual, seen = waits(), []
    with waits.overridden(worker_poll=7.0), waits.overridden(retries=()):
        thread = threading.Thread(target=lambda: seen.append((waits().worker_poll, waits().retries)))
        thread.start()
        thread.join()
    assert (seen, waits()) == ([(7.0, ())], usual)
    set_waits(worker_poll=8.0, cancel_grace=9.0)
    assert waits().worker_poll == 8.0


def test_a_block_that_ends_later_restores_only_its_own() -> None:
    usual, first, second = waits(), waits.overridden(worker_poll=7.0), waits.overridden(requeue=7.0)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert (waits().worker_poll, waits().requeue) == (usual.worker_poll, 7.0)
    second.__exit__(None, None, None)
    assert waits() == usual


def test_an_unknown_wait_is_an_error(set_waits: SetWaits) -> None:
    with pytest.raises(TypeError, match="wroker_poll"):
        set_waits(wroker_poll=1.0)


def test_processes_that_tests_start_take_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    before = waits()
    with SetWaits() as until_end:
        monkeypatch.setattr(processes, "_waits", until_end)
        processes.apply({"waits.retries": [0.1, 0.2]})
        assert waits() == replace(before, retries=(0.1, 0.2))
    assert waits() == before
