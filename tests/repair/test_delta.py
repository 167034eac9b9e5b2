"""Patches of Delta tables: a batch is one commit, made on the version that its rows were read from, or not at all."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from deltalake import DeltaTable

import dialects
from auditor.errors import SerializationConflict, StatementRefused
from auditor.points import armed
from auditor.service import patches
from dialects.delta.session import DeltaSession
from tests import tables
from tests.live import LiveEngine, LivePair, chosen_pairs
from tests.repair import damaged, small
from tests.repair.killed import ROWS as ROWS_OF_A_BATCH
from tests.repair.killed import kill
from tests.repair.test_applied import mend_and_undo
from tests.repair.test_killed import DIFFERENCES, check_journal, finish

SOURCE = ("CREATE TABLE s (id BIGINT PRIMARY KEY, v VARCHAR)", "INSERT INTO s VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, NULL)")
TARGET = (
    "CREATE OR REPLACE TABLE t (id BIGINT, v VARCHAR, own VARCHAR)",
    "INSERT INTO t VALUES (1, 'a', 'x'), (2, 'other', 'y'), (5, 'extra', 'z')",
)

LAKES = [
    *chosen_pairs("duckdb-delta"),
    pytest.param(("duckdb", "parquet"), id="duckdb-parquet", marks=[pytest.mark.duckdb, pytest.mark.parquet, pytest.mark.slow]),
]


@pytest.fixture
def lake(tmp_path: Path) -> LiveEngine:
    (tmp_path / "lake").mkdir()
    tables.execute(LiveEngine("delta", "delta", f"delta://{tmp_path}/lake"), *TARGET)
    return LiveEngine("delta", "delta", f"delta://{tmp_path}/lake")


def delta(lake: LiveEngine) -> DeltaTable:
    return DeltaTable(lake.url.removeprefix("delta://") + "/t")


def rows(lake: LiveEngine) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in delta(lake).to_pyarrow_table().to_pylist())


@pytest.mark.parametrize("pair", LAKES, indirect=True)
def test_every_kind_of_damage_is_mended_and_brought_back(pair: LivePair, tmp_path: Path) -> None:
    mend_and_undo(damaged.make(pair, tmp_path, rows=60, differences=30), 30)


def test_a_batch_is_one_commit_and_keeps_columns_that_are_not_compared(lake: LiveEngine, tmp_path: Path) -> None:
    made = small.make(tmp_path, lake, SOURCE, TARGET, method="exact")
    done = made.apply()
    assert dict(done.patched.counts) == {"inserted": 2, "updated": 1, "deleted": 1}
    assert rows(lake) == [(1, "a", "x"), (2, "b", "y"), (3, "c", None), (4, None, None)]
    found = delta(lake)
    assert (found.version(), found.transaction_version(f"auditor/patch/{done.patched.patch}")) == (1, 1)


def test_a_dry_run_commits_nothing(lake: LiveEngine, tmp_path: Path) -> None:
    made = small.make(tmp_path, lake, SOURCE, TARGET, method="exact")
    done = patches.apply_patch(made.settings, made.store, made.run().run, small.EVERYTHING, dry_run=True)
    assert done.patched.counts.total() == 4 and delta(lake).version() == 0


@pytest.mark.quick_for("commit")
@pytest.mark.parametrize("step", ["begun", "marked", "commit"])
def test_a_row_that_another_writer_changes_meanwhile_is_not_overwritten(lake: LiveEngine, tmp_path: Path, step: str) -> None:
    made = small.make(tmp_path, lake, SOURCE, TARGET, method="exact")

    def overtake() -> None:
        delta(lake).update(updates={"v": "'newer'"}, predicate="id = 2")

    with armed(f"patch.{step}", overtake, nth=1):
        done = made.apply()
    assert done.patched.counts.total() == 4
    wanted = "newer" if step == "begun" else "b"  # later, the batch begins anew, and finds that the source says otherwise
    assert rows(lake)[1] == (2, wanted, "y"), done.patched.counts
    assert [row[0] for row in rows(lake)] == [1, 2, 3, 4]


@pytest.mark.parametrize("step", [pytest.param("commit", marks=pytest.mark.slow), "committed"])
@pytest.mark.parametrize("pair", chosen_pairs("duckdb-delta"), indirect=True)
def test_the_next_start_knows_what_a_killed_patch_committed(
    pair: LivePair, tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auditor.repair.batch.PATCH_BATCH_ROWS", ROWS_OF_A_BATCH)
    both = damaged.make(pair, tmp_path, rows=50, differences=DIFFERENCES)
    run = both.run().run
    assert kill(both, tmp_path, run=run, step=step, nth=2) == -9
    check_journal(both, run)
    finish(both, run)


def test_a_commit_that_was_begun_before_its_fence_is_not_made(lake: LiveEngine) -> None:
    with (
        closing(dialects.connect(f"{lake.url}?access_mode=read_write")) as late,
        closing(dialects.connect(f"{lake.url}?access_mode=read_write")) as settling,
    ):
        assert isinstance(late, DeltaSession) and isinstance(settling, DeltaSession)
        late.execute("BEGIN")
        late.take_out('"t"', "id = 2")
        late.loading.write("UPDATE \"t\" SET v = 'late' WHERE id = 2")
        assert not settling.fence('"t"', "auditor/patch/p", 1)
        with pytest.raises(SerializationConflict, match="others wrote the table while its rows were changed; nothing was written"):
            late.put_back(["id"], {"auditor/patch/p": 1})
        assert late.query('SELECT v FROM "t" WHERE id = 2') == [("other",)]
    assert rows(lake)[1] == (2, "other", "y")


def test_a_session_that_reads_writes_nothing(lake: LiveEngine) -> None:
    with closing(dialects.connect(lake.url)) as session:
        assert isinstance(session, DeltaSession)
        with pytest.raises(StatementRefused, match="t2 may only be read by this session"):
            session.make_table('"t2"', 'CREATE TABLE "t2" (id BIGINT)')
        with pytest.raises(StatementRefused, match="t may only be read"):
            session.mark(("t",), {"auditor/p/t": 0}, {})
    assert delta(lake).version() == 0
