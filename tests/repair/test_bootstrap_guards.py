"""What happens to a bootstrap whose source or target others use at the same time, and how it is stopped and continued."""

from __future__ import annotations

import errno
import threading
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

from auditor.bootstrap import use_cases
from auditor.bootstrap.use_cases import BootstrapResult, Followed
from auditor.errors import BootstrapFailed, StatementCancelled
from auditor.model import Verdict
from auditor.points import armed, followed
from auditor.store import bootstraps as stored
from tests import tables
from tests.durations import SetDurations
from tests.live import Engines, LiveEngine, engine_params, quick_on
from tests.repair import small
from tests.repair.bootstrapped import clean, left
from tests.repair.small import Small

ROWS = 40
WRITTEN = pytest.mark.parametrize(
    "engine", [param for param in quick_on("postgres") if param.id not in ("redshift", "spark")], indirect=True
)
SERVERS = pytest.mark.parametrize(
    "engine", [param for param in quick_on("postgres") if param.id in ("postgres", "mariadb", "mysql")], indirect=True
)
ON_POSTGRES = pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
pytestmark = pytest.mark.mariadb


@pytest.fixture
def both(engine: LiveEngine, engines: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_durations: SetDurations) -> Small:
    """Rows 1 to 40 in a source on MariaDB, in ranges of ten, and a target that lost half of them and has others."""
    monkeypatch.setattr("auditor.bootstrap.plan.RANGE_ROWS", 10)
    set_durations(swap_pauses=(0.05, 0.05))
    clean(engine)
    rows = ", ".join(f"({number}, 'row {number}')" for number in range(1, ROWS + 1))
    kept = ", ".join(f"({number}, 'row {number}')" for number in range(2, ROWS + 1, 2))
    start = ("CREATE TABLE s (id INTEGER PRIMARY KEY, name VARCHAR(20))", f"INSERT INTO s VALUES {rows}")
    end = (
        "DROP TABLE IF EXISTS child", "DROP TABLE IF EXISTS t", "CREATE TABLE t (id INTEGER PRIMARY KEY, name VARCHAR(20))",
        f"INSERT INTO t VALUES {kept}, (50, 'extra')",
    )  # fmt: skip
    return small.make(tmp_path, engine, start, end, source=engines.live("mariadb"))


def copy(both: Small, keys: dict[str, int] | None = None, **about: Any) -> BootstrapResult:
    return use_cases.run_bootstrap(both.settings, both.store, "small", keys, followed=Followed(**about))


def rows_of_source(both: Small) -> list[tuple[Any, ...]]:
    return sorted(tables.query(both.source, "SELECT * FROM s"), key=str)


@WRITTEN
def test_changes_while_rows_are_copied_are_patched_afterwards(both: Small) -> None:
    """All ranges are of one snapshot, so the copy matches it, whatever was changed between them."""
    seen: list[str] = []

    def step(name: str) -> None:
        seen.append(name)
        if seen.count("loaded") == 2 and name == "loaded":
            both.on_source(
                "UPDATE s SET name = 'newer' WHERE id IN (1, 39)", "DELETE FROM s WHERE id = 38", "INSERT INTO s VALUES (60, 'new')"
            )

    with followed("bootstrap", step):
        result = copy(both)
    assert result.rows == ROWS and seen.count("loaded") == 4, seen
    assert result.patched == {"updated": 2, "inserted": 1, "deleted": 1}
    assert result.after and result.after.verdict is Verdict.MATCH
    assert both.rows() == rows_of_source(both)


@ON_POSTGRES
def test_several_connections_copy_in_one_snapshot(both: Small) -> None:
    """The table is locked for a moment, while all of them begin it; what changes afterwards is in none of the ranges."""
    connections = {**both.settings.connections, "a": both.settings.connections["a"].model_copy(update={"connections": 3})}
    both.settings = both.settings.model_copy(update={"connections": connections})
    with armed("bootstrap.loaded", lambda: both.on_source("UPDATE s SET name = 'newer' WHERE id IN (1, 11, 21, 31)"), nth=1):
        result = copy(both)
    (one,) = stored.list_bootstraps(both.store)
    snapshots = {str(each["snapshot"]) for each in stored.list_ranges(both.store, one.bootstrap).values()}
    assert len(snapshots) == 1 and result.patched == {"updated": 4}
    assert both.rows() == rows_of_source(both)


@WRITTEN
def test_a_range_is_copied_anew_and_other_rows_stay(both: Small) -> None:
    both.on_source("UPDATE s SET name = 'not copied' WHERE id = 7")
    result = copy(both, {"from": 20, "to": 60})
    assert result.rows == 21 and result.after and result.after.verdict is Verdict.MATCH
    assert both.rows() == sorted([row for row in rows_of_source(both) if row[0] >= 20 or row[0] % 2 == 0], key=str)
    assert len(tables.query(both.target, f"SELECT * FROM {result.old}")) == 12, "the replaced rows of the range alone"


@WRITTEN
def test_the_partitions_that_differed_are_copied_anew_and_no_others(both: Small) -> None:
    both.on_target("DELETE FROM t", *(f"INSERT INTO t VALUES ({number}, 'row {number}')" for number in range(1, ROWS + 1)))
    both.on_target("UPDATE t SET name = 'wrong' WHERE id IN (12, 13, 35)")
    audit = both.settings.audits["small"].model_dump(by_alias=True, exclude_unset=True)
    partitioned = type(both.settings.audits["small"]).model_validate({**audit, "partition": {"strategy": "range", "size": 10}})
    both.settings = both.settings.model_copy(update={"audits": {"small": partitioned}})
    both.run()
    both.on_target("UPDATE t SET name = 'later' WHERE id = 25")

    assert "keys 10..19, 30..39 from" in use_cases.plan_bootstrap(both.settings, both.store, "small", partitions="differing")
    with armed("bootstrap.swapping", lambda: both.on_source("UPDATE s SET name = 'newer' WHERE id = 31")):
        result = use_cases.run_bootstrap(both.settings, both.store, "small", partitions="differing")
    assert result.rows == 20 and result.patched == {"updated": 1}
    assert result.after and result.after.verdict is Verdict.MISMATCH, "what was not asked for still differs"
    assert [row for row in both.rows() if row not in rows_of_source(both)] == [(25, "later")]
    assert len(tables.query(both.target, f"SELECT * FROM {result.old}")) == 20
    both.on_target(f"DROP TABLE {result.old}")  # the next may begin in the same second, after which its own is named
    again = use_cases.run_bootstrap(both.settings, both.store, "small", partitions="0,2..3")
    assert again.rows == 29 and again.after and again.after.verdict is Verdict.MATCH


@WRITTEN
def test_one_that_was_stopped_goes_on_and_copies_changed_ranges_again(both: Small) -> None:
    before, stopped = both.rows(), threading.Event()
    with pytest.raises(StatementCancelled), armed("bootstrap.range", stopped.set, nth=3):
        copy(both, stopped=stopped)
    (one,) = stored.list_bootstraps(both.store)
    assert one.state == "stopped" and len(stored.list_ranges(both.store, one.bootstrap)) == 2
    assert both.rows() == before
    both.on_source("UPDATE s SET name = 'newer' WHERE id = 3")
    again: list[str] = []
    with followed("bootstrap", again.append):
        result = copy(both)
    assert again.count("loaded") == 3, "the two that were missing, and the one that changed"
    assert not result.patched and both.rows() == rows_of_source(both)


@WRITTEN
def test_a_copy_that_differs_from_its_snapshot_is_not_swapped_in(both: Small) -> None:
    before = both.rows()

    def damage() -> None:
        (stage,) = left(both.target)
        both.on_target(f"DELETE FROM {stage} WHERE id = 5", f"UPDATE {stage} SET name = 'wrong' WHERE id = 6")

    differs = pytest.raises(BootstrapFailed, match="id = 5 is missing; id = 6 is changed in name; it was not swapped in")
    with differs, armed("bootstrap.verify", damage, nth=1):
        copy(both)
    assert both.rows() == before
    assert [one.state for one in stored.list_bootstraps(both.store)] == ["failed"]
    assert use_cases.drop_left(both.settings, both.store, "small") == left_before(both)
    assert left(both.target) == [] and copy(both).after


def left_before(both: Small) -> list[str]:
    return [str(stored.list_bootstraps(both.store)[0].detail["stage"])]


@SERVERS
def test_a_table_that_others_hold_is_left_as_it_was(both: Small, set_durations: SetDurations) -> None:
    set_durations(swap_lock=1.0)
    before = both.rows()
    with tables.open_writable(both.target) as holder:
        lock = {"postgres": ("BEGIN", "LOCK TABLE t IN ROW EXCLUSIVE MODE")}.get(both.target.dialect, ("LOCK TABLES t WRITE",))

        def hold() -> None:
            for statement in lock:
                holder.execute(statement)

        in_use = pytest.raises(BootstrapFailed, match="the table was in use whenever its rows were to be exchanged")
        with in_use, armed("bootstrap.swapping", hold, nth=1):
            copy(both)
        holder.execute("ROLLBACK" if both.target.dialect == "postgres" else "UNLOCK TABLES")
    assert both.rows() == before
    steps: list[str] = []
    with followed("bootstrap", steps.append):
        assert copy(both).rows == ROWS
    assert "range" not in steps
    assert both.rows() == rows_of_source(both)


@SERVERS
def test_writers_wait_while_rows_are_exchanged_in_place(both: Small) -> None:
    """A row that arrives between those that are exchanged, and an update of one of them, come after the exchange; readers see a whole."""
    seen: list[Any] = []
    statements = ("INSERT INTO t VALUES (21, 'arrived')", "UPDATE t SET name = 'later' WHERE id = 20")

    def follow(name: str) -> None:
        if name == "swap":
            seen.extend(writers.submit(tables.execute, both.target, statement) for statement in statements)
            seen.append(wait(seen, 0.5, FIRST_COMPLETED).done)
        if name == "cleared":
            seen.append([row for row in both.rows() if row[0] < 40])

    both.on_source("DELETE FROM s WHERE id = 21")
    with ThreadPoolExecutor(2) as writers:
        with followed("bootstrap", follow):
            result = copy(both, {"from": 1, "to": 39})
    *written, early, read = seen
    assert not early and [one.exception() for one in written] == [None, None]
    assert read == sorted([(number, f"row {number}") for number in range(2, 40, 2)], key=str)
    assert len(tables.query(both.target, f"SELECT * FROM {result.old}")) == 19
    assert {row[0] for row in both.rows()} - {row[0] for row in rows_of_source(both)} <= {21, 50}


@ON_POSTGRES
def test_a_filtered_audit_with_a_key_of_text_copies_its_rows_alone(both: Small) -> None:
    """Values are copied as they are, although the audit compares them trimmed, and masked ones are in no message."""
    both.on_source(
        "ALTER TABLE s MODIFY id VARCHAR(9) NOT NULL, ADD secret VARCHAR(20) DEFAULT 'card 4711'",
        "UPDATE s SET name = ' padded ' WHERE id = '8'",
    )
    both.on_target("ALTER TABLE t ALTER id TYPE VARCHAR(9), ADD secret VARCHAR(20)")
    definition = both.settings.audits["small"].model_dump(by_alias=True, exclude_unset=True)
    columns = {"override": {"name": {"trim": True}, "secret": {"mask": True}}}
    audit = type(both.settings.audits["small"]).model_validate({**definition, "where": "id < '3'", "columns": columns})
    both.settings = both.settings.model_copy(update={"audits": {"small": audit}})
    assert "the rows of its filter" in use_cases.plan_bootstrap(both.settings, both.store, "small")
    both.on_target("ALTER TABLE t ALTER secret TYPE VARCHAR(3)")
    with pytest.raises(BootstrapFailed, match="the target did not take the copy: StatementRefused; "):
        copy(both)
    both.on_target("ALTER TABLE t ALTER secret TYPE VARCHAR(20)")
    result = copy(both)
    expected = tables.query(both.source, "SELECT id, name, secret FROM s WHERE id < '3'")
    assert result.rows == len(expected) and result.after and result.after.verdict is Verdict.MATCH
    others = [row for row in both.rows() if row[0] >= "3"]
    assert sorted(expected, key=str) == [row for row in both.rows() if row[0] < "3"]
    assert [row[0] for row in others] == ["30", "32", "34", "36", "38", "4", "40", "50", "6", "8"], "as they were"


@ON_POSTGRES
def test_what_hangs_on_a_table_stays_with_it(both: Small) -> None:
    both.on_target(
        "DROP VIEW IF EXISTS seen",
        "DROP SEQUENCE IF EXISTS numbers",
        "CREATE SEQUENCE numbers OWNED BY t.id",
        "ALTER TABLE t ALTER COLUMN id SET DEFAULT nextval('numbers')",
        "CREATE VIEW seen AS SELECT COUNT(*) FROM t",
        "COMMENT ON TABLE t IS 'the orders'",
        "CREATE INDEX by_name ON t (name)",
    )
    try:
        plan = use_cases.plan_bootstrap(both.settings, both.store, "small")
        assert "swap     in place: so what hangs on the table stays: views, foreign keys, grants, publications, sequences" in plan
        assert "seen: read the table as before" in plan
        copy(both)
        asked = "SELECT (SELECT * FROM seen), obj_description('t'::regclass), pg_get_serial_sequence('t', 'id')"
        assert tables.query(both.target, asked) == [(ROWS, "the orders", "public.numbers")]
        use_cases.drop_left(both.settings, both.store, "small")
        assert left(both.target) == []
    finally:
        both.on_target("DROP VIEW IF EXISTS seen", "DROP TABLE t")


@pytest.mark.parametrize("engine", engine_params("mariadb"), indirect=True)
def test_a_renamed_table_goes_on_numbering_its_rows(both: Small) -> None:
    both.on_target("ALTER TABLE t MODIFY id INTEGER NOT NULL AUTO_INCREMENT", "ALTER TABLE t AUTO_INCREMENT = 500")
    assert "swap     by rename" in use_cases.plan_bootstrap(both.settings, both.store, "small")
    copy(both)
    both.on_target("INSERT INTO t (name) VALUES ('next')")
    assert tables.query(both.target, "SELECT MAX(id) FROM t") == [(500,)]


@pytest.mark.parametrize("engine", engine_params("duckdb"), indirect=True)
def test_a_full_disk_half_way_leaves_the_table_as_it_was(both: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    before, synced = both.rows(), list[int]()

    def fsync(descriptor: int) -> None:
        synced.append(descriptor)
        if len(synced) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("auditor.bootstrap.range_files.os.fsync", fsync)
    with pytest.raises(BootstrapFailed, match="cannot be written: No space left on device; make room, then run it again to continue"):
        copy(both)
    assert both.rows() == before
    steps: list[str] = []
    with followed("bootstrap", steps.append):
        assert copy(both).rows == ROWS
    assert steps.count("loaded") == 3
    assert both.rows() == rows_of_source(both)
