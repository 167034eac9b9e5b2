"""Audits that read both sides at one position of the stream, while the pipeline runs and others write."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from auditor.connections.connection import Connection
from auditor.connections.reader import OnProgress, ignore_progress
from auditor.errors import NotResumable, StatementRefused
from auditor.history.checkpoint import StoreCheckpoint
from auditor.history.stored_plan import dump_plan
from auditor.model import Plan, Progress, Report, State, Verdict
from auditor.pipeline import aligned
from auditor.pipeline.aligned.stream_hold import StreamHold
from auditor.planning import chunks
from auditor.run import audit_run
from auditor.run.alignment import BY_IDS, BY_LOCK, BY_SERVER
from auditor.service import outcomes, running, stored_runs
from auditor.store import runs
from tests.live import Engines, engine_params
from tests.pipeline.aligned_road import AUDIT, AlignedRoad
from tests.pipeline.road import PIPELINE
from tests.servers import mysql

pytestmark = [pytest.mark.alone]
TABLE, KEYS = "aligned_orders", 2000
_numbers = itertools.count()

MYSQL_DUCKDB = pytest.param(("mysql", "duckdb"), marks=[pytest.mark.mysql, pytest.mark.duckdb], id="mysql-duckdb")
MARIADB_POSTGRES = pytest.param(("mariadb", "postgres"), marks=[pytest.mark.mariadb, pytest.mark.postgres], id="mariadb-postgres")
SLOW_MARIADB_POSTGRES = pytest.param(*MARIADB_POSTGRES.values, marks=[*MARIADB_POSTGRES.marks, pytest.mark.slow], id=MARIADB_POSTGRES.id)
MYSQL_POSTGRES = pytest.param(("mysql", "postgres"), marks=[pytest.mark.mysql, pytest.mark.postgres, pytest.mark.slow], id="mysql-postgres")
MYSQL_MARIADB = pytest.param(("mysql", "mariadb"), marks=[pytest.mark.mysql, pytest.mark.mariadb, pytest.mark.slow], id="mysql-mariadb")
MARIADB_MYSQL = pytest.param(("mariadb", "mysql"), marks=[pytest.mark.mysql, pytest.mark.mariadb, pytest.mark.slow], id="mariadb-mysql")
ON_MYSQL = pytest.mark.parametrize("road", [MYSQL_DUCKDB], indirect=True)


@pytest.fixture
def road(request: pytest.FixtureRequest, engines: Engines, tmp_path: Path) -> Iterator[AlignedRoad]:
    source, target = (engines.live(name) for name in request.param)
    made = AlignedRoad(tmp_path, source, TABLE, "" if target.name == "duckdb" else target.url, f"aligned_{next(_numbers)}")
    made.fill(KEYS)
    yield made
    made.close()


@pytest.mark.clock  # the loader, the writer and the run are three processes, and a hold has a time limit
@pytest.mark.parametrize("road", [SLOW_MARIADB_POSTGRES, MYSQL_DUCKDB, MYSQL_MARIADB, MARIADB_MYSQL], indirect=True)
def test_a_table_that_is_written_to_is_compared_at_one_position(road: AlignedRoad) -> None:
    with road.delivering(), road.written_to(KEYS, 100):
        reports = [road.audit() for _ in range(2)]
    for report in reports:
        assert (report.not_aligned, report.verdict) == ("", Verdict.MATCH), report.reasons
        assert report.aligned and report.plan and report.plan.aligned == report.aligned.position
        assert report.aligned.way == BY_SERVER if "mariadb" in road.source_url else report.aligned.way in (BY_IDS, BY_LOCK)
        assert report.verified_through == report.aligned.time and not report.resumable
    assert reports[0].aligned != reports[1].aligned


@pytest.mark.parametrize("road", [MARIADB_POSTGRES, MYSQL_POSTGRES], indirect=True)
def test_several_connections_read_the_one_snapshot_of_the_target(road: AlignedRoad, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_ROWS", 100)
    monkeypatch.setattr(chunks, "NO_SPILL_FACTOR", 1)
    shared: list[tuple[str, bool]] = []
    share = Connection.share_snapshot

    def watched(connection: Connection, siblings: Sequence[Connection], table: str) -> bool:
        shared.append((connection.side, share(connection, siblings, table)))
        return shared[-1][1]

    monkeypatch.setattr(Connection, "share_snapshot", watched)
    several = {name: one.model_copy(update={"connections": 2}) for name, one in road.settings.connections.items()}
    settings = road.settings.model_copy(update={"connections": several})
    with road.delivering(), road.written_to(KEYS, 100):
        reports = [running.run_audit(settings, AUDIT, store=road.store) for _ in range(2)]
    alone = "one connection read all chunks, for no other could join its snapshot: the run is aligned"
    for report in reports:
        assert (report.not_aligned, report.verdict) == ("", Verdict.MATCH), report.reasons
        assert [any(f"{side}: {alone}" in note for note in report.notes) for side in ("source", "target")] == [True, False]
    assert shared == [("target", True)] * 2


@pytest.mark.slow
@pytest.mark.mysql
@pytest.mark.parametrize("engine", engine_params("redshift"), indirect=True)
def test_the_first_statement_in_redshift_reads_the_position(loaded_url: str, engines: Engines, tmp_path: Path) -> None:
    road = AlignedRoad(tmp_path, engines.live("mysql"), TABLE, loaded_url, f"aligned_{next(_numbers)}")
    road.fill(KEYS)
    try:
        with road.delivering(), road.written_to(KEYS, 50):
            reports = [road.audit() for _ in range(2)]
        assert [(report.not_aligned, report.verdict) for report in reports] == [("", Verdict.MATCH)] * 2
    finally:
        road.close()


class Stub(StreamHold):
    """A hold of a pipeline that stands still: nothing is written, so that the target is where it has to be."""

    position = 0
    ids: Sequence[str] | None = None
    server = ""

    def freeze(self) -> None:
        """Do nothing."""

    def read_server(self) -> str:
        """Return the source's server, or the one that a test names."""
        return self.server or super().read_server()

    def ids_between(self, after: str, until: str) -> Sequence[str] | None:
        """Return what a test says."""
        return self.ids

    def merge_through(self, place: str) -> int:
        """Return where a test says that the target stands."""
        return self.position


@pytest.fixture
def hold(road: AlignedRoad) -> Stub:
    """A hold of the road's table."""
    made = Stub(road.settings, road.store, PIPELINE, "wh", f"{road.database}.{TABLE}", (road.schema, TABLE))
    made.position = int(road.query(f"SELECT position FROM {road.schema}.auditor_positions WHERE table_name <> ''")[0][0])
    return made


def audit_with(road: AlignedRoad, hold: Stub, on_progress: OnProgress = ignore_progress, **source: object) -> Report:
    """Run the audit by a hold; with other settings of the source's connection, if there are any."""
    connections = {**road.settings.connections, "source": road.settings.connections["source"].model_copy(update=source)}
    report = audit_run.perform(AUDIT, road.settings.audits[AUDIT], connections, on_progress, holds={"source": hold}).report
    assert report.verdict is Verdict.MATCH, report.reasons
    assert (report.aligned is None) == bool(report.not_aligned)
    return report


@ON_MYSQL
def test_a_snapshot_of_mysql_is_proved_by_ids_or_by_a_lock(road: AlignedRoad, hold: Stub) -> None:
    hold.ids = []
    proved = audit_with(road, hold)
    assert proved.aligned and proved.aligned.way == BY_IDS
    hold.ids = None
    locked = audit_with(road, hold)
    assert locked.aligned and locked.aligned.way == BY_LOCK
    hold.ids = ["00000000-0000-0000-0000-000000000001:7"]  # of another server: never executed here
    assert (again := audit_with(road, hold).aligned) and again.way == BY_LOCK


@ON_MYSQL
def test_rows_in_flight_are_no_mismatch_of_a_run_that_is_not_aligned(road: AlignedRoad) -> None:
    """While no process merges, as after a kill, what the source has and the target has not may be on its way."""
    road.log.run(f"INSERT INTO {road.table} VALUES ({KEYS + 1}, 'on its way', 1)")
    unaligned = road.audit()
    assert unaligned.not_aligned.startswith("no process loads the target wh") and unaligned.differences
    assert (unaligned.verdict, unaligned.exit_code, unaligned.differences.missing) == (Verdict.UNKNOWN, 3, 1), unaligned.reasons
    assert any(reason.startswith("the run is not aligned (no process loads") for reason in unaligned.reasons)
    audit = road.settings.audits[AUDIT]
    for more, verdict in (({"recheck": {"times": 1, "wait": "10ms"}}, Verdict.MISMATCH), ({"method": "counts"}, Verdict.UNKNOWN)):
        changed = audit.model_validate({**audit.model_dump(exclude_unset=True), **more})
        report = running.run_audit(road.settings.model_copy(update={"audits": {AUDIT: changed}}), AUDIT, store=road.store)
        assert (bool(report.not_aligned), report.verdict) == (True, verdict), report.reasons
    road.merge()
    assert road.audit().verdict is Verdict.MATCH


@ON_MYSQL
def test_why_a_source_has_no_snapshot_at_a_known_place(road: AlignedRoad, hold: Stub) -> None:
    hold.server = "another"
    assert audit_with(road, hold).not_aligned == "the audit's connection leads to another server than the one whose log the pipeline reads"
    hold.server = ""
    with closing(mysql.connect(road.source_url)) as writer, writer.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute(f"UPDATE {TABLE} SET price = price WHERE id = 1")
        why = audit_with(road, hold).not_aligned
        assert why.startswith("the table is written too often for a snapshot at a known place of the log: source: `audit")
        assert "could not be locked for a moment, as others use it" in why
    reader, place = f"reader{next(_numbers)}", urlsplit(road.source_url)
    grants = (f"CREATE USER {reader} IDENTIFIED BY 'choose-1-Password'", f"GRANT SELECT ON *.* TO {reader}")
    road.log.run(*grants)
    try:
        url = f"mysql://{reader}:choose-1-Password@{place.hostname}:{place.port}{place.path}"
        why = audit_with(road, hold, url=url).not_aligned
        assert why.startswith("the table is written too often") and why.endswith("grant LOCK TABLES and SELECT on it")
    finally:
        road.log.run(f"DROP USER {reader}")
    road.log.run(f"ALTER TABLE {TABLE} ENGINE = MyISAM")
    sentence = "the storage engine of the source's table is MyISAM, which has no snapshots; only InnoDB's are known"
    assert audit_with(road, hold).not_aligned == sentence


@ON_MYSQL
def test_a_target_has_to_show_the_position(road: AlignedRoad, hold: Stub) -> None:
    hold.ids, right = [], hold.position
    hold.position = right + 1
    assert audit_with(road, hold).not_aligned.startswith("the target's snapshot is not at binlog.")
    hold.position = right
    road.execute(f"ALTER TABLE {road.schema}.auditor_positions RENAME TO hidden")
    why = audit_with(road, hold).not_aligned
    assert why.startswith("the target does not say what it holds (")
    assert why.endswith(f"let the audit's user read {road.schema}.auditor_positions there")
    road.execute(f"ALTER TABLE {road.schema}.hidden RENAME TO auditor_positions")


@ON_MYSQL
def test_a_run_that_loses_a_snapshot_reads_the_table_again(road: AlignedRoad, hold: Stub) -> None:
    hold.ids = []
    killed: list[int] = []

    def kill(progress: Progress) -> None:
        if progress.side == "source" and progress.doing in ("summarising", "comparing digests") and not killed:
            with closing(mysql.connect(road.log.url)) as connection, connection.cursor() as cursor:
                killed.extend(mysql.end_sessions(cursor, "info IS NULL AND user = SUBSTRING_INDEX(USER(), '@', 1)"))

    assert audit_with(road, hold, kill).not_aligned == "a snapshot was lost while the table was read, so the table was read again"
    assert killed


@ON_MYSQL
def test_one_connection_reads_where_others_could_not_join_the_snapshot(
    road: AlignedRoad, hold: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold.ids = []
    for name in ("CHUNK_ROWS", "COLUMN_CHUNK_ROWS"):
        monkeypatch.setattr(chunks, name, 100)
    monkeypatch.setattr(chunks, "NO_SPILL_FACTOR", 1)
    several = road.settings.connections["warehouse"].model_copy(update={"connections": 2})
    road.settings = road.settings.model_copy(update={"connections": {**road.settings.connections, "warehouse": several}})
    report = audit_with(road, hold, connections=3)
    alone = "one connection read all chunks, for no other could join its snapshot: the run is aligned"
    assert report.aligned
    assert [any(f"{side}: {alone}" in note for note in report.notes) for side in ("source", "target")] == [True, True], report.notes


@ON_MYSQL
def test_an_aligned_run_is_not_resumed(road: AlignedRoad, hold: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    hold.ids = []
    monkeypatch.setattr(aligned, "find_holds", lambda *_: {"source": hold})

    def fail(*_: object, **__: object) -> None:
        raise StatementRefused("while the table was read")

    monkeypatch.setattr("auditor.run.audit_run.prescan.read", fail)
    found = road.audit()
    assert found.state is State.FAILED and found.plan and found.plan.aligned and not found.resumable
    plan = dump_plan(found.plan)
    monkeypatch.setattr(runs, "get_plan", lambda *_: plan)  # as where the process was killed
    with pytest.raises(NotResumable, match=f"run {found.run} was aligned, and its snapshots ended with it; start a new one"):
        stored_runs.resume(road.settings, road.store, found.run)
    begun: list[Plan | None] = []
    monkeypatch.setattr(stored_runs.Execution, "execute", lambda execution: begun.append(execution.plan))
    claimed = replace(runs.get_run(road.store, found.run), resumable=True)
    stored_runs.run_claimed(road.settings, road.store, claimed, StoreCheckpoint(road.store, found.run), outcomes.save_outcome)
    assert begun == [None], "what a service takes up again begins anew"
