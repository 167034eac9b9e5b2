"""A pipeline delivers the source's changes and deletes while a patch writes the same rows: no newer value is overwritten, no ghost stays.

Each of a thousand damaged rows changes once on the source, between the two reads of its batch, before its statements or before its commit,
and its event arrives some milliseconds later. Without one of the three things that a patch does against that, rows are wrong at the end.
"""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from auditor.errors import AuditorError
from auditor.points import followed
from auditor.repair import apply, patching, rows
from auditor.repair.proposal import Proposal
from auditor.service import patches
from auditor.sql.row_changes import RowStatements
from tests import tables
from tests.live import Engines, LiveEngine, engine_params
from tests.repair import small
from tests.repair.small import Small

ROWS = 1000
MOMENTS = ("between", "prepared", "commit")
UPSERT = {
    "postgres": "INSERT INTO t VALUES ({}, '{}') ON CONFLICT (id) DO UPDATE SET name = EXCLUDED.name",
    "mysql": "INSERT INTO t VALUES ({}, '{}') ON DUPLICATE KEY UPDATE name = VALUES(name)",
}
pytestmark = [pytest.mark.slow, pytest.mark.mariadb, pytest.mark.alone]
ENGINES = pytest.mark.parametrize("engine", engine_params("postgres", "mariadb"), indirect=True)


@pytest.fixture
def both(engine: LiveEngine, engines: Engines, tmp_path: Path) -> Small:
    """Half of the rows changed on the target, then half missing there, in batches of their own, and as many that are equal."""
    equal = [f"({number}, 'row {number}')" for number in range(ROWS, 2 * ROWS)]
    values = ", ".join([*equal, *(f"({number}, 'row {number}')" for number in range(ROWS))])
    damaged = ", ".join([*equal, *(f"({number}, 'damaged')" for number in range(ROWS // 2))])
    start = ("CREATE TABLE s (id INTEGER PRIMARY KEY, name VARCHAR(20))", f"INSERT INTO s VALUES {values}")
    end = (
        "DROP TABLE IF EXISTS child", "DROP TABLE IF EXISTS t", "CREATE TABLE t (id INTEGER PRIMARY KEY, name VARCHAR(20))",
        f"INSERT INTO t VALUES {damaged}",
    )  # fmt: skip
    return small.make(tmp_path, engine, start, end, source=engines.live("mariadb"))


class Pipeline:
    """Changes rows of the source, and delivers whole rows and deletes to the target, in order and a little later."""

    def __init__(self, both: Small) -> None:
        self.random = random.Random(3)
        self.when = {number: self.random.choice(MOMENTS) for number in range(ROWS)}
        self._both = both
        self._events: queue.Queue[tuple[float, str] | None] = queue.Queue()
        self._batch: list[int] = []
        self._thread = threading.Thread(target=self._deliver)
        self._opened = tables.open_writable(both.source)
        self._source = self._opened.__enter__()

    def __enter__(self) -> Pipeline:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._events.put(None)
        self._thread.join()
        self._opened.__exit__(None, None, None)

    def reads(self, keys: list[tuple[str | None, ...]]) -> None:
        self._batch = [int(key[0] or 0) for key in keys]

    def step(self, name: str) -> None:
        """Change the rows of the batch whose moment this is."""
        chosen = [number for number in self._batch if self.when.get(number) == name]
        for number in chosen:
            del self.when[number]
            if self.random.random() < (0.0 if number < ROWS // 2 else 0.7 if number < ROWS * 3 // 4 else 1.0):
                self._source.execute(f"DELETE FROM s WHERE id = {number}")
                event = f"DELETE FROM t WHERE id = {number}"
            else:
                self._source.execute(f"UPDATE s SET name = 'newer {number}' WHERE id = {number}")
                event = UPSERT[self._both.target.dialect].format(number, f"newer {number}")
            self._events.put((time.monotonic() + self.random.uniform(0.001, 0.006), event))
        if chosen and name != "commit" and self.random.random() < 0.5:
            self._events.join()  # all of these events arrive before the patch goes on; else some, or none
        elif chosen:
            time.sleep(self.random.uniform(0, 0.1))

    def _deliver(self) -> None:
        with tables.open_writable(self._both.target) as session:
            while (event := self._events.get()) is not None:
                time.sleep(max(0.0, event[0] - time.monotonic()))
                while True:
                    try:
                        session.execute(event[1])
                        self._events.task_done()
                        break
                    except AuditorError as error:  # a deadlock with the patch
                        assert error.retryable, error


def wrong_rows(both: Small, monkeypatch: pytest.MonkeyPatch) -> int:
    """Patch while everything changes, and return how many rows are wrong once all events have arrived."""
    run, read, seen = both.run().run, rows.read_rows, list[Any]()
    with Pipeline(both) as pipeline:

        def between(plan: Any, side: Any, session: Any, keys: Any) -> Any:
            found = read(plan, side, session, keys)
            if writing.is_set() and keys not in seen[-1:]:  # the first of a batch's two reads
                seen.append(keys)
                pipeline.reads(keys)
                pipeline.step("between")
            return found

        writing = threading.Event()
        begin = patching.begin_patch

        def begun(*about: Any) -> None:  # the rows were read once before, to make every statement
            begin(*about)
            writing.set()

        monkeypatch.setattr("auditor.repair.proposal.read_rows", between)
        monkeypatch.setattr("auditor.repair.patching.begin_patch", begun)
        with followed("patch", pipeline.step):
            done = patches.apply_patch(both.settings, both.store, run, small.EVERYTHING)
        assert done.patched.counts.total() > ROWS / 5
    source, target = (set(tables.query(engine, f"SELECT * FROM {name}")) for engine, name in ((both.source, "s"), (both.target, "t")))
    return len({row[0] for row in source ^ target})


@ENGINES
def test_no_newer_value_is_overwritten_and_no_ghost_stays(both: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    assert wrong_rows(both, monkeypatch) == 0


def without_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    guarded: Callable[..., str] = RowStatements.update

    def update(self: RowStatements, old: Any, new: Any, digest: str, columns: Any) -> str:
        sql = guarded(self, old, new, digest, columns)
        return f"{sql[: sql.index(' AND ', sql.index('WHERE'))]}"

    monkeypatch.setattr(RowStatements, "update", update)


def with_swapped_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Proposal.read

    def read(self: Proposal, side: Any, keys: Any) -> Any:
        if side == "target":
            earlier.append(real(self, "source", keys))
            return real(self, "target", keys)
        return earlier.pop() if earlier else real(self, "source", keys)

    earlier: list[Any] = []
    monkeypatch.setattr(Proposal, "read", read)


def without_recheck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "take_back_ghosts", lambda *_: set())


@ENGINES
@pytest.mark.parametrize("mutate", [without_guard, with_swapped_reads, without_recheck])
def test_each_of_the_three_is_needed(mutate: Callable[[pytest.MonkeyPatch], None], both: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch)
    assert wrong_rows(both, monkeypatch) > 0
