"""What happens to a patch whose rows others change at the same time, and how it is limited, stopped and tried."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from auditor.errors import ConnectionLost, PatchRefused
from auditor.model import Verdict
from auditor.points import armed
from auditor.repair.keys import Selection
from auditor.service import patches
from auditor.service.patches import Followed
from auditor.store import patches as stored
from tests import tables
from tests.live import Engines, LiveEngine, engine_params, quick_on
from tests.repair import small
from tests.repair.small import Small

PATCHED = ("postgres", "mariadb", "mysql", "redshift")
SERVERS = pytest.mark.parametrize("engine", [param for param in quick_on("postgres") if param.id in PATCHED], indirect=True)


@pytest.fixture
def both(engine: LiveEngine, engines: Engines, tmp_path: Path) -> Small:
    """Rows 1 (missing), 2 (changed), 3 (equal) and 4 (extra), the source on MariaDB so that it can change meanwhile."""
    source = engines.live("mariadb")
    start = ("CREATE TABLE s (id INTEGER PRIMARY KEY, name VARCHAR(20))", "INSERT INTO s VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    end = (
        "DROP TABLE IF EXISTS child", "DROP TABLE IF EXISTS t", "CREATE TABLE t (id INTEGER PRIMARY KEY, name VARCHAR(20))",
        "INSERT INTO t VALUES (2, 'x'), (3, 'c'), (4, 'd')",
    )  # fmt: skip
    return small.make(tmp_path, engine, start, end, source=source)


pytestmark = pytest.mark.mariadb


@SERVERS
def test_rows_that_change_on_the_target_meanwhile_are_left(both: Small) -> None:
    with armed("patch.prepared", lambda: both.on_target("UPDATE t SET name = 'newer' WHERE id IN (2, 4)"), nth=1):
        counts = both.apply().patched.counts
    assert counts == {"inserted": 1, "left": 2}
    assert both.rows() == [(1, "a"), (2, "newer"), (3, "c"), (4, "newer")]


@SERVERS
def test_a_row_that_arrives_meanwhile_is_not_inserted_twice(both: Small) -> None:
    with armed("patch.prepared", lambda: both.on_target("INSERT INTO t VALUES (1, 'a')"), nth=1):
        both.apply()
    assert both.rows() == [(1, "a"), (2, "b"), (3, "c")]


@SERVERS
def test_the_source_is_read_after_the_target(both: Small) -> None:
    """A change that reaches both sides between the two reads is not overwritten: the guard holds the target's older row."""
    from auditor.repair import rows

    read, sides = rows.read_rows, []

    def in_between(plan, side, session, keys):  # type: ignore[no-untyped-def]
        found = read(plan, side, session, keys)
        sides.append(side)
        if side == "target" and sides.count("target") == 2:  # the reads of the batch that is written, not those of the check before
            both.on_source("UPDATE s SET name = 'newer' WHERE id = 2")
            both.on_target("UPDATE t SET name = 'newer' WHERE id = 2")
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("auditor.repair.proposal.read_rows", in_between)
        both.apply()
    assert sides[:4] == ["target", "source", "target", "source"]
    assert both.rows() == [(1, "a"), (2, "newer"), (3, "c")]


@SERVERS
def test_a_row_that_the_source_deletes_before_the_commit_is_taken_back(both: Small) -> None:
    with armed("patch.commit", lambda: both.on_source("DELETE FROM s WHERE id = 1"), nth=1):
        result = both.apply()
    assert result.patched.counts == {"taken back": 1, "updated": 1, "deleted": 1}
    assert both.rows() == [(2, "b"), (3, "c")]
    assert result.after and result.after.verdict is Verdict.MATCH


@SERVERS
def test_unique_values_that_swap_places_are_mended(both: Small) -> None:
    both.on_source("DELETE FROM s", "INSERT INTO s VALUES (1, 'a'), (2, 'b'), (3, 'c'), (5, 'e'), (6, 'd')")
    both.on_target("DELETE FROM t", "INSERT INTO t VALUES (1, 'b'), (2, 'c'), (3, 'a'), (4, 'd'), (5, 'f')")
    if both.target.name != "redshift":
        both.on_target("CREATE UNIQUE INDEX names ON t (name)")
    result = both.apply()
    assert result.after and result.after.verdict is Verdict.MATCH
    assert [row[1] for row in both.rows()] == ["a", "b", "c", "e", "d"]


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_a_swap_that_would_lose_a_column_is_refused(both: Small) -> None:
    both.on_source("UPDATE s SET name = CASE id WHEN 2 THEN 'c' ELSE 'x' END WHERE id > 1")
    both.on_target("ALTER TABLE t ADD COLUMN note VARCHAR(9)", "CREATE UNIQUE INDEX names ON t (name)")
    before = both.rows()
    with pytest.raises(PatchRefused, match="rows swap unique values, and to delete and insert one of them would lose note"):
        both.apply(Selection(only="changed"))
    assert both.rows() == before


@pytest.mark.parametrize("engine", engine_params("mariadb"), indirect=True)
def test_what_changes_by_itself_with_an_update_is_kept(both: Small) -> None:
    stamp = "ALTER TABLE t ADD COLUMN at TIMESTAMP NULL DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP"
    both.on_target(stamp)
    both.apply(Selection(only="changed"))
    assert [row[2] for row in both.rows()] == [None, None, None]


@SERVERS
def test_a_dry_run_executes_everything_and_leaves_nothing(both: Small) -> None:
    before = both.rows()
    result = patches.apply_patch(both.settings, both.store, both.run().run, small.EVERYTHING, dry_run=True)
    assert result.patched.counts == {"inserted": 1, "updated": 1, "deleted": 1} and not result.patched.patch
    assert both.rows() == before


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_a_stopped_patch_ends_after_its_batch_and_says_so(both: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("auditor.repair.batch.PATCH_BATCH_ROWS", 1)
    stopped = threading.Event()
    with armed("patch.marked", stopped.set, nth=1):
        result = patches.apply_patch(both.settings, both.store, both.run().run, small.EVERYTHING, Followed(stopped=stopped))
    assert result.patched.stopped and result.patched.counts.total() == 1
    undone = patches.undo_patch(both.settings, both.store, result.patched.patch)
    assert undone.patched.counts.total() == 1


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_only_what_is_selected_is_patched(both: Small) -> None:
    assert "DELETE FROM" not in both.script(Selection()) and "write --delete-extra" in both.script(Selection())
    assert both.apply(Selection(first=2, last=3)).patched.counts == {"updated": 1}
    assert both.apply(Selection(only="extra", delete_extra=True)).patched.counts == {"deleted": 1}
    assert not both.apply(Selection(columns=("name",))).patched.counts.total()
    assert both.apply().patched.counts == {"inserted": 1}
    assert both.rows() == [(1, "a"), (2, "b"), (3, "c")]


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_a_user_who_may_not_make_the_table_of_marks_is_told_what_to_run(both: Small) -> None:
    both.on_target("DROP TABLE IF EXISTS auditor_patch_marks", "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    both.on_target(
        "DROP OWNED BY patcher" if tables.query(both.target, "SELECT 1 FROM pg_roles WHERE rolname = 'patcher'") else "SELECT 1",
        "DROP ROLE IF EXISTS patcher",
        "CREATE ROLE patcher LOGIN PASSWORD 'p'",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON t TO patcher",
    )
    scheme, _, rest = both.target.url.partition("://")
    url = f"{scheme}://patcher:p@{rest.rpartition('@')[2]}"
    connection = both.settings.connections["b"]
    assert connection.write
    limited = connection.model_copy(update={"write": connection.write.model_copy(update={"url": url})})
    settings = both.settings.model_copy(update={"connections": {**both.settings.connections, "b": limited}})
    with pytest.raises(PatchRefused, match=r"may not make the table in which patches are marked.*have an administrator run:\nCREATE TABLE"):
        patches.apply_patch(settings, both.store, both.run().run, small.EVERYTHING)
    both.on_target("GRANT CREATE ON SCHEMA public TO PUBLIC")


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_a_connection_that_is_lost_at_the_commit_is_found_out_at_once(both: Small) -> None:
    ours = "datname = current_database() AND application_name = 'auditor' AND state = 'idle in transaction'"
    kill = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {ours}"
    before, run = both.rows(), both.run().run
    with pytest.raises(ConnectionLost), armed("patch.commit", lambda: tables.query(both.target, kill), nth=1):
        patches.apply_patch(both.settings, both.store, run, small.EVERYTHING)
    (patch,) = stored.list_patches(both.store, run)
    assert patch.state == "failed" and [batch.state for batch in stored.list_batches(both.store, patch.patch)] == ["void"]
    assert both.rows() == before
