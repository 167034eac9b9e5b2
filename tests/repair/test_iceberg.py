"""Patches and bootstraps of Iceberg tables: each is one snapshot, made of the one that its rows were read from, or not at all."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import Table

import dialects
from auditor.bootstrap import use_cases
from auditor.errors import SerializationConflict, StatementRefused
from auditor.model import Verdict
from auditor.points import armed
from dialects.iceberg import commits
from dialects.iceberg.written_session import WritableIcebergSession
from tests import icebergs, tables
from tests.live import LiveEngine, LivePair, chosen_pairs
from tests.repair import damaged, small
from tests.repair.test_applied import mend_and_undo
from tests.repair.test_delta import SOURCE, TARGET


@pytest.fixture
def lake(tmp_path: Path) -> LiveEngine:
    icebergs.open_catalog(tmp_path / "lake").create_namespace("sales")
    made = LiveEngine("iceberg", "iceberg", icebergs.url_of(tmp_path / "lake", "sales"))
    tables.execute(made, *TARGET)
    return made


def table(lake: LiveEngine) -> Table:
    return icebergs.open_catalog(Path(dialects.parse_url(lake.url).options["uri"].removeprefix("sqlite:///")).parent).load_table("sales.t")


def rows(lake: LiveEngine) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in table(lake).scan().to_arrow().to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize("pair", chosen_pairs("duckdb-iceberg"), indirect=True)
def test_every_kind_of_damage_is_mended_and_brought_back(pair: LivePair, tmp_path: Path) -> None:
    mend_and_undo(damaged.make(pair, tmp_path, rows=60, differences=30), 30)


def test_a_batch_is_one_snapshot_and_keeps_columns_that_are_not_compared(lake: LiveEngine, tmp_path: Path) -> None:
    made = small.make(tmp_path, lake, SOURCE, TARGET, method="exact")
    before = len(table(lake).snapshots())
    done = made.apply()
    assert dict(done.patched.counts) == {"inserted": 2, "updated": 1, "deleted": 1}
    assert rows(lake) == [(1, "a", "x"), (2, "b", "y"), (3, "c", None), (4, None, None)]
    found = table(lake)
    assert len(found.snapshots()) == before + 1 and commits.read_marks(found, "t", [f"auditor/patch/{done.patched.patch}"]) == [1]


def test_a_row_that_another_writer_changes_meanwhile_is_not_overwritten(lake: LiveEngine, tmp_path: Path) -> None:
    made = small.make(tmp_path, lake, SOURCE, TARGET, method="exact")
    other = pa.table({"id": pa.array([9], pa.int64()), "v": ["other"], "own": ["o"]})
    with armed("patch.commit", lambda: table(lake).append(other), nth=1):
        done = made.apply()
    assert (9, "other", "o") in rows(lake) and done.patched.counts.total() == 4


def test_a_commit_that_was_begun_before_its_fence_is_not_made(lake: LiveEngine) -> None:
    url = f"{lake.url}&access_mode=read_write"
    with closing(dialects.connect(url)) as session, closing(dialects.connect(url)) as other:
        assert isinstance(session, WritableIcebergSession) and isinstance(other, WritableIcebergSession)
        session.execute("BEGIN")
        session.take_out('"t"', "id = 1")
        session.execute("UPDATE \"t\" SET v = 'late'")
        assert other.fence('"t"', "auditor/patch/x", 1) is False
        with pytest.raises(SerializationConflict, match="others wrote the table while its rows were changed; nothing was written"):
            session.put_back(["id"], {"auditor/patch/x": 1})
        assert other.fence('"t"', "auditor/patch/x", 1) is False and rows(lake)[0] == (1, "a", "x")


def test_a_session_that_reads_writes_nothing(lake: LiveEngine) -> None:
    with closing(dialects.connect(lake.url)) as session:
        assert isinstance(session, WritableIcebergSession)
        with pytest.raises(StatementRefused, match="t may only be read by this session"):
            session.mark(("sales", "t"), {"m": 1}, {})


def test_a_table_and_a_range_are_replaced_by_one_snapshot(tmp_path: Path) -> None:
    source = ("CREATE TABLE s (id BIGINT PRIMARY KEY, v VARCHAR)", "INSERT INTO s SELECT n, 'row ' || n FROM RANGE(1, 41) t(n)")
    target = ("CREATE OR REPLACE TABLE t (id BIGINT, v VARCHAR)", "INSERT INTO t SELECT n, 'old' FROM RANGE(20, 60) t(n)")
    icebergs.open_catalog(tmp_path / "lake").create_namespace("sales")
    lake = LiveEngine("iceberg", "iceberg", icebergs.url_of(tmp_path / "lake", "sales"))
    both = small.make(tmp_path, lake, source, target)
    use_cases.run_bootstrap(both.settings, both.store, "small", {"from": 11, "to": 30})
    assert rows(lake) == [(n, f"row {n}") for n in range(11, 31)] + [(n, "old") for n in range(31, 60)]
    result = use_cases.run_bootstrap(both.settings, both.store, "small", None)
    assert result.rows == 40 and result.after and result.after.verdict is Verdict.MATCH
    assert rows(lake) == [(n, f"row {n}") for n in range(1, 41)] and len(table(lake).snapshots()) == 3
    assert [name for _, name in icebergs.open_catalog(tmp_path / "lake").list_tables("sales")] == ["t"]
