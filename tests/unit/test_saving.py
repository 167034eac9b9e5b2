"""Chunks are saved while their connection reads on: one behind it, all of them before the scan ends, and no error is lost."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest

from auditor.config import Audit, ConnectionSettings
from auditor.errors import StoreError
from auditor.history.handover import NoCheckpoint
from auditor.model import SIDES, Chunk, Plan, Side, Verdict
from auditor.planning import chunks
from auditor.run import audit_run, scan
from auditor.run.scan import BackgroundSaver
from auditor.summary import arrays
from auditor.summary.arrays import Summaries
from dialects import Session

NOTHING = arrays.read([], ["partition_id", "row_count", "hashed", "key_min", "key_max", "word_0", "word_1"])
LONG = 60.0
"""Seconds after which a test fails that waits for another thread."""


def test_one_chunk_at_a_time_is_saved_behind_the_reader() -> None:
    saving, may_end, saved = threading.Event(), threading.Event(), []

    def save(side: Side, chunk: Chunk, part: Summaries, seconds: float, attempts: int) -> None:
        saving.set()
        assert may_end.wait(LONG)
        saved.append(chunk.first)

    with ThreadPoolExecutor(1) as pool, BackgroundSaver(save) as saver:
        saver.save("source", Chunk(0, 1), NOTHING, 0.0, 0)
        assert saving.wait(LONG) and not saved, "the reader has gone on while the chunk is being saved"
        second = pool.submit(saver.save, "source", Chunk(1, 2), NOTHING, 0.0, 0)
        assert not second.done() and not saved
        may_end.set()
        second.result(LONG)
        assert 0 in saved
    assert saved == [0, 1], "the end of the block waits for what is not saved yet"


@pytest.mark.parametrize("later", [1, 0])
def test_an_error_is_raised_with_the_next_chunk_or_at_the_end(later: int) -> None:
    def save(side: Side, chunk: Chunk, part: Summaries, seconds: float, attempts: int) -> None:
        raise StoreError(f"no room for chunk {chunk.first}")

    handed = 0
    with pytest.raises(StoreError, match="chunk 0"), BackgroundSaver(save) as saver:
        saver.save("source", Chunk(0, 1), NOTHING, 0.0, 0)
        handed += 1
        if later:
            saver.save("source", Chunk(1, 2), NOTHING, 0.0, 0)
            handed += 1
    assert handed == 1


def test_the_error_of_the_block_matters_more() -> None:
    def save(side: Side, chunk: Chunk, part: Summaries, seconds: float, attempts: int) -> None:
        raise StoreError("no room")

    with pytest.raises(KeyboardInterrupt), BackgroundSaver(save) as saver:
        saver.save("source", Chunk(0, 1), NOTHING, 0.0, 0)
        raise KeyboardInterrupt


class Patient(NoCheckpoint):
    """A store in which saving the first chunk of each side ends only once that side's next statement has begun."""

    def __init__(self) -> None:
        self.saved: dict[Side, int] = dict.fromkeys(SIDES, 0)
        self.begun: dict[Side, int] = dict.fromkeys(SIDES, 0)
        self.changed = threading.Condition()

    def begin(self, side: Side) -> None:
        with self.changed:
            self.begun[side] += 1
            self.changed.notify_all()

    def save_chunk(self, side: Side, chunk: Chunk, summaries: Summaries, seconds: float, attempts: int) -> None:
        with self.changed:
            if not self.saved[side]:
                assert self.changed.wait_for(lambda: self.begun[side] > 1, LONG), "the server waits for the store between two statements"
            self.saved[side] += 1


@pytest.mark.duckdb
def test_neither_server_waits_for_the_store_between_two_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for side in SIDES:
        with duckdb.connect(str(tmp_path / f"{side}.duckdb")) as connection:
            connection.execute("CREATE TABLE t AS SELECT i AS id, 'v' || i AS v FROM range(1000) r(i)")
    monkeypatch.setattr(chunks, "COLUMN_CHUNK_ROWS", 200)
    store = Patient()
    summarise = scan.summarise

    def begin_and_summarise(plan: Plan, side: Side, chunk: Chunk, session: Session) -> Summaries:
        store.begin(side)
        return summarise(plan, side, chunk, session)

    monkeypatch.setattr(scan, "summarise", begin_and_summarise)
    ends = {side: {"connection": side, "table": "t"} for side in SIDES}
    audit = Audit.model_validate({**ends, "key": ["id"], "partition": {"size": 50}, "prescan": False})
    connections: dict[str, ConnectionSettings] = {side: ConnectionSettings(url=f"duckdb:///{tmp_path}/{side}.duckdb") for side in SIDES}
    report = audit_run.perform("t", audit, connections, checkpoint=store).report
    assert report.verdict is Verdict.MATCH, report.reasons
    assert store.saved == store.begun and min(store.saved.values()) > 2
