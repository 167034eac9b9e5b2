"""Ctrl-C at a patch and at a bootstrap, as commands in processes of their own that wait for a lock."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from auditor.bootstrap import use_cases
from auditor.model import Verdict
from auditor.store import bootstraps as stored_bootstraps
from auditor.store import patches
from tests import tables
from tests.live import LiveEngine, engine_params
from tests.programs.forking import Forked
from tests.repair import small
from tests.repair.bootstrapped import clean, left
from tests.repair.small import Small

pytestmark = pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)

ROWS = 150
"""Rows that differ: two batches of a patch."""

WAITING = "SELECT COUNT(*) FROM pg_stat_activity WHERE application_name = 'auditor' AND wait_event_type = 'Lock'"


@pytest.fixture
def both(engine: LiveEngine, tmp_path: Path) -> Small:
    """Rows that all differ, and a configuration file for the command."""
    clean(engine)
    source = ("CREATE TABLE s (id INTEGER PRIMARY KEY, name VARCHAR)", f"INSERT INTO s SELECT i, 'new' FROM range({ROWS}) AS r(i)")
    target = (
        "DROP TABLE IF EXISTS child", "DROP TABLE IF EXISTS t", "CREATE TABLE t (id INTEGER PRIMARY KEY, name VARCHAR(20))",
        f"INSERT INTO t SELECT i, 'old' FROM generate_series(0, {ROWS - 1}) i",
    )  # fmt: skip
    made = small.make(tmp_path, engine, source, target)
    written = made.settings.model_dump(mode="json", by_alias=True, exclude_unset=True)
    written["connections"]["b"]["limits"] = {"lock_timeout": 2}  # a signal is noticed when the statement has waited for so long
    (tmp_path / "auditor.yaml").write_text(json.dumps({**written, "store": {"url": made.store.name}}))
    return made


@contextmanager
def command(folder: Path, *arguments: str) -> Iterator[Forked]:
    """Begin a command in a process of its own."""
    process = Forked("auditor", [*arguments, "--quiet", "--config", str(folder / "auditor.yaml")], folder, stderr=True)
    try:
        yield process
    finally:
        process.kill()


def wait_for_lock(both: Small, process: Forked) -> None:
    """Return once the command waits for a lock."""
    while tables.query(both.target, WAITING) == [(0,)]:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


def test_a_patch_ends_after_the_batch_that_it_writes(both: Small, tmp_path: Path) -> None:
    run = both.run().run
    with tables.open_writable(both.target) as holder:
        holder.execute("BEGIN")
        holder.execute("SELECT * FROM t WHERE id = 7 FOR UPDATE")
        with command(tmp_path, "patch", run, "--apply") as process:
            wait_for_lock(both, process)
            process.send_signal(signal.SIGINT)
            assert process.stderr and process.stderr.readline() == "auditor: stopping after this batch; once more to interrupt it\n"
            holder.execute("ROLLBACK")
            _, errors = process.communicate(timeout=60)
    assert process.returncode == 1, errors
    (patch,) = patches.list_patches(both.store, run)
    assert patch.state == "done" and patch.detail["updated"] == 100 and "it was stopped after a batch" in patch.detail["why"]
    assert tables.query(both.target, "SELECT COUNT(*) FROM t WHERE name = 'new'") == [(100,)]


def test_a_bootstrap_that_is_stopped_leaves_the_table_and_goes_on_later(both: Small, tmp_path: Path) -> None:
    before = both.rows()
    with tables.open_writable(both.target) as holder:
        holder.execute("BEGIN")
        holder.execute("LOCK TABLE t IN ROW EXCLUSIVE MODE")
        with command(tmp_path, "bootstrap", "small", "--apply") as process:
            wait_for_lock(both, process)
            process.send_signal(signal.SIGINT)
            assert process.stderr and process.stderr.readline() == "auditor: stopping; the same command continues from here\n"
            _, errors = process.communicate(timeout=60)
        holder.execute("ROLLBACK")
    assert process.returncode not in (0, 1), errors
    (one,) = stored_bootstraps.list_bootstraps(both.store)
    assert (one.state, one.stage) == ("stopped", "swapping") and both.rows() == before
    result = use_cases.run_bootstrap(both.settings, both.store, "small")
    assert result.bootstrap == one.bootstrap and result.after and result.after.verdict is Verdict.MATCH
    assert left(both.target) == [result.old]
