"""A bootstrap waits while its target is busy, ends where that takes too long or somebody stops it, and leaves the table until then."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from auditor.bootstrap import use_cases
from auditor.bootstrap.use_cases import BootstrapResult, Followed
from auditor.config import ConnectionSettings
from auditor.durations import durations
from auditor.errors import DatabaseBusy, StatementCancelled
from auditor.model import Progress, Verdict
from auditor.points import followed
from auditor.store import bootstraps as stored
from tests.durations import SetDurations
from tests.live import LiveEngine, quick_on
from tests.repair import small
from tests.repair.bootstrapped import clean
from tests.repair.small import Small

pytestmark = pytest.mark.engines_in_turn

WRITTEN = ("postgres", "mariadb", "mysql", "duckdb")
ENGINES = pytest.mark.parametrize("engine", [param for param in quick_on("postgres", "duckdb") if param.id in WRITTEN], indirect=True)
ROWS = 40


@pytest.fixture
def both(engine: LiveEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_durations: SetDurations) -> Small:
    """Rows in four ranges, and a target whose heartbeat says how far it has come."""
    monkeypatch.setattr("auditor.bootstrap.plan.RANGE_ROWS", 10)
    set_durations(load_probe=0.05)
    clean(engine)
    source = ("CREATE TABLE s (id INTEGER PRIMARY KEY, name VARCHAR)", f"INSERT INTO s SELECT i, 'row ' || i FROM range({ROWS}) AS r(i)")
    target = (
        "DROP TABLE IF EXISTS child", "DROP TABLE IF EXISTS t", "CREATE TABLE t (id INTEGER PRIMARY KEY, name VARCHAR(20))",
        "INSERT INTO t VALUES (1, 'x'), (50, 'extra')", "DROP TABLE IF EXISTS beats", "CREATE TABLE beats (beaten TIMESTAMP)",
        f"INSERT INTO beats VALUES ('{now():%Y-%m-%d %H:%M:%S}')",
    )  # fmt: skip
    made = small.make(tmp_path, engine, source, target)
    limit(made)
    return made


def now() -> dt.datetime:
    return dt.datetime.now(dt.UTC).replace(tzinfo=None)


def limit(both: Small, **pause: Any) -> None:
    """Let the target pause where its heartbeat is more than 30 seconds old."""
    limits = {"pause_when": {"lag": "30s", "heartbeat": {"table": "beats", "column": "beaten"}, **pause}}
    before = both.settings.connections["b"].model_dump(exclude_unset=True)
    connections = {**both.settings.connections, "b": ConnectionSettings.model_validate({**before, "limits": limits})}
    both.settings = both.settings.model_copy(update={"connections": connections})


def beat(both: Small, age: float) -> None:
    both.on_target(f"UPDATE beats SET beaten = '{now() - dt.timedelta(seconds=age):%Y-%m-%d %H:%M:%S}'")


class Follower:
    """Lets the target fall behind at a step, and does something once the bootstrap says that it waits."""

    def __init__(self, both: Small, step: str, then: Callable[[], None]) -> None:
        self.steps: list[str] = []
        self.waited_after: list[str] = []
        """The step before each wait for the target."""
        self._both, self._step, self._then = both, step, then

    def step(self, name: str) -> None:
        self.steps.append(name)
        if name == self._step and self.steps.count(name) == 1:
            beat(self._both, age=3600)
            time.sleep(2 * durations().load_probe)  # what was seen of the heartbeat before is believed for so long

    def progress(self, progress: Progress) -> None:
        if progress.side == "target" and progress.doing.startswith("waits: the heartbeat is 3,6"):
            self.waited_after.append(self.steps[-1])
            self._then()

    def copy(self, **more: Any) -> BootstrapResult:
        about = Followed(on_progress=self.progress, **more)
        with followed("bootstrap", self.step):
            return use_cases.run_bootstrap(self._both.settings, self._both.store, "small", followed=about)


@pytest.mark.quick_for("postgres-exchange")
@pytest.mark.parametrize(
    ("step", "waits_after"), [("made", ("made", "loaded")), ("verify", ("verify", "verify"))], ids=["load", "exchange"]
)
@ENGINES
def test_a_load_and_the_exchange_wait_for_the_target(both: Small, step: str, waits_after: tuple[str, str]) -> None:
    """Where the target reads files, all ranges are read before it is waited for."""
    follower = Follower(both, step, lambda: beat(both, age=0))
    result = follower.copy()
    assert follower.waited_after[:1] == [waits_after[both.target.name == "duckdb"]], (follower.steps, follower.waited_after)
    assert result.after and result.after.verdict is Verdict.MATCH and rows(both) == ROWS


def rows(both: Small) -> int:
    return len(both.rows())


@ENGINES
def test_a_patch_follows_an_audit_that_watched_the_load(both: Small) -> None:
    """DuckDB opens a file in one mode only, and the load is watched through a session of its own."""
    both.on_target("DELETE FROM t WHERE id = 1", *(f"INSERT INTO t VALUES ({key}, 'row {key}')" for key in range(2, ROWS)))
    counts = both.apply().patched.counts
    assert (counts["inserted"], counts["deleted"]) == (2, 1) and rows(both) == ROWS


@ENGINES
def test_a_bootstrap_that_is_stopped_while_it_waits_leaves_the_table(both: Small) -> None:
    before, stopped = both.rows(), threading.Event()
    with pytest.raises(StatementCancelled):
        Follower(both, "loaded", stopped.set).copy(stopped=stopped)
    (one,) = stored.list_bootstraps(both.store)
    assert (one.state, one.stage) == ("stopped", "copying") and both.rows() == before
    beat(both, age=0)
    assert use_cases.run_bootstrap(both.settings, both.store, "small").bootstrap == one.bootstrap and rows(both) == ROWS


@pytest.mark.slow
@ENGINES
def test_a_target_that_stays_busy_ends_the_bootstrap_and_leaves_the_table(both: Small) -> None:
    limit(both, give_up=1)
    before = both.rows()
    with pytest.raises(DatabaseBusy, match=r"the heartbeat is 3,6\d\d s behind.*for 1 s; run it again to continue when it is less busy"):
        Follower(both, "loaded", lambda: None).copy()
    assert both.rows() == before and [one.state for one in stored.list_bootstraps(both.store)] == ["failed"]
    limit(both)
    beat(both, age=0)
    steps: list[str] = []
    with followed("bootstrap", steps.append):
        use_cases.run_bootstrap(both.settings, both.store, "small")
    assert steps.count("range") < 4 and rows(both) == ROWS
