"""A table whose columns change while a run reads it: the verdict is unknown and names the column, whenever it happened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from auditor.config import Audit, ConnectionSettings
from auditor.model import SIDES, Progress, Report, Verdict
from auditor.planning import chunks
from auditor.run import audit_run, chunk_queue
from dialects import Kind
from tests import tables
from tests.durations import SetDurations
from tests.live import LiveEngine, engine_params
from tests.servers import mysql
from tests.tables import execute, query

pytestmark = pytest.mark.engines_in_turn

ROWS = 3000
on_servers = pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", "postgres", "redshift", slow=["mariadb"]), indirect=True)

ALTER = {
    "mysql": "ALTER TABLE drift_{side} MODIFY n {type}",
    "postgres": "ALTER TABLE drift_{side} ALTER COLUMN n TYPE {type}",
    "redshift": "ALTER TABLE drift_{side} ALTER COLUMN n TYPE {type}",
}


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_ROWS", 500)
    monkeypatch.setattr(chunk_queue, "GROWTH", 1.0)


def run_audit(engine: LiveEngine, doing: str, change: Callable[[], None], damage: Sequence[str] = (), **more: Any) -> Report:
    """Audit two equal tables, and make one change when a side first does this and has read some rows."""
    for side in SIDES:
        rows = [(number, number % 97, "v") for number in range(ROWS)]
        tables.make(engine, f"drift_{side}", [("id", Kind("integer")), ("n", Kind("decimal", 8, 2)), ("v", Kind("text"))], rows, ["id"])
        execute(engine, f"ANALYZE {'TABLE ' if engine.dialect == 'mysql' else ''}drift_{side}")
    execute(engine, *damage)
    pending = [change]

    def on_progress(progress: Progress) -> None:
        half = progress.side == "source" and progress.done >= ROWS // 3
        if progress.doing.startswith(doing) and (doing != "summarising" or half) and pending:
            pending.pop()()

    ends = {side: {"connection": "here", "table": f"drift_{side}"} for side in SIDES}
    audit = Audit.model_validate({**ends, "key": ["id"], "partition": {"size": 50}, "snapshot": "per_chunk", **more})
    report = audit_run.run("drift", audit, {"here": ConnectionSettings(url=engine.url)}, on_progress)
    assert not pending, "the change was never made"
    return report


def alter(engine: LiveEngine, side: str, type_: str = "VARCHAR(20)") -> Callable[[], None]:
    return lambda: execute(engine, ALTER[engine.dialect].format(side=side, type=type_))


@pytest.mark.quick_for("source-postgres", "target-mysql")
@on_servers
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.few
def test_type_that_changes_during_the_scan_makes_nothing_differ(engine: LiveEngine, side: str) -> None:
    moment = "finding the rows" if engine.dialect == "redshift" else "summarising"  # a column store is read in one statement
    report = run_audit(engine, moment, alter(engine, side), recheck={"times": 1, "wait": "1ms"})
    assert report.verdict is Verdict.UNKNOWN and report.exit_code == 3 and report.differences is None, report.reasons
    assert report.reasons[0].startswith(side) and "column n was " in report.reasons[0] and "run the audit again" in report.reasons[0]


@on_servers
def test_type_that_changes_between_looks_confirms_nothing(engine: LiveEngine) -> None:
    damage = ("UPDATE drift_target SET n = n + 1 WHERE id = 7",)
    report = run_audit(engine, "waits", alter(engine, "target", "DECIMAL(12, 4)"), damage, recheck={"times": 2, "wait": "1ms"})
    assert report.verdict is Verdict.UNKNOWN and report.differences is None and "column n was " in report.reasons[0], report.reasons


@on_servers
def test_added_column_changes_no_verdict(engine: LiveEngine) -> None:
    moment = "finding the rows" if engine.dialect == "redshift" else "summarising"
    report = run_audit(engine, moment, lambda: execute(engine, "ALTER TABLE drift_source ADD COLUMN added INTEGER"))
    assert report.verdict is Verdict.MATCH, report.reasons


def end_other_sessions(engine: LiveEngine) -> None:
    if engine.dialect == "mysql":
        with mysql.connect(engine.url) as session, session.cursor() as cursor:
            mysql.end_sessions(cursor, "db = DATABASE()")
    else:
        query(
            engine,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )


@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", "postgres"), indirect=True)
def test_lost_connection_shows_the_change_before_the_rest_is_read(engine: LiveEngine, set_durations: SetDurations) -> None:
    set_durations(connection_retry_waits=(0.01,) * 5)

    def change() -> None:
        alter(engine, "source")()
        end_other_sessions(engine)

    report = run_audit(engine, "summarising", change)
    assert report.verdict is Verdict.UNKNOWN and report.retries and "column n was " in report.reasons[0], report.reasons
    assert report.comparison is None and report.cost["source"].scan_bytes == 0, "it ended before the scan did"
