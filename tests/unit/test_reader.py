"""Work on both sides in parallel, and which error is raised if both fail."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from types import FrameType

import pytest

import dialects
from auditor.config import ConnectionSettings
from auditor.connections.reader import Reader, on_both_sides
from auditor.errors import NoSuchObject, StatementCancelled, StatementRefused
from auditor.model import Side
from dialects import Session, Url
from dialects.duckdb.dialect import DuckDB


@pytest.mark.parametrize("failing", ["source", "target"])
def test_original_error_is_raised_instead_of_the_cancellation_it_caused(failing: Side) -> None:
    """The failing side cancels the other, which may raise first."""
    cancelled, ended = threading.Event(), threading.Event()

    def work(side: Side) -> None:
        if side != failing:
            cancelled.wait(10)
            ended.set()
            raise StatementCancelled
        cancelled.set()
        ended.wait(10)
        raise StatementRefused("the reason")

    with pytest.raises(StatementRefused, match="the reason"):
        on_both_sides(work, cancelled.set)


def test_no_thread_still_opens_a_file_when_the_other_side_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that ended while a thread is in DuckDB's C++ would be aborted, and its exit code lost."""
    began, open_it = threading.Event(), DuckDB.connect

    def connect(dialect: DuckDB, url: Url, *limits: float) -> Session:
        if url.database == ":memory:":
            began.set()
            time.sleep(0.5)
        else:
            began.wait(10)
        return open_it(dialect, url, *limits)

    monkeypatch.setattr(DuckDB, "connect", connect)
    connections = {name: ConnectionSettings(url=f"duckdb:///{path}") for name, path in (("a", f"{tmp_path}/none.db"), ("b", ":memory:"))}
    reader = Reader("t", {"source": "a", "target": "b"}, connections, patient=False)
    with pytest.raises(NoSuchObject, match="there is no file"), reader.open():
        pass
    assert not [thread.name for thread in threading.enumerate() if thread.name == "connect"]


@pytest.mark.parametrize(
    ("path", "mode", "sentence"),
    [("none.db", "read_only", "there is no file"), ("none/a.db", "read_write", "there is no folder"), ("", "read_only", "is a folder")],
)
def test_path_that_leads_to_no_file_is_an_error_of_the_tree(tmp_path: Path, path: str, mode: str, sentence: str) -> None:
    with pytest.raises(NoSuchObject, match=sentence):
        dialects.connect(f"duckdb:///{tmp_path}/{path}?access_mode={mode}")


def test_interrupt_is_raised_instead_of_a_cancellation() -> None:
    def work(side: Side) -> None:
        raise KeyboardInterrupt if side == "target" else StatementCancelled

    with pytest.raises(KeyboardInterrupt):
        on_both_sides(work, lambda: None)


def test_signal_is_handled_though_it_did_not_interrupt_the_wait() -> None:
    """A signal that another thread receives leaves the main thread's wait as it is, as does one that comes just before the wait."""
    cancelled = threading.Event()
    in_time: list[bool] = []

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    def work(side: Side) -> None:
        if side == "source":
            time.sleep(0.2)  # until the main thread waits
            signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        in_time.append(cancelled.wait(10))
        raise StatementCancelled

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            on_both_sides(work, cancelled.set)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert in_time == [True, True]
