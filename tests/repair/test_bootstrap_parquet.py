"""A table of Parquet files with a pointer is copied anew as a Delta table is: one new pointer lists the rows, or the one before stays."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dialects
from auditor.bootstrap import use_cases
from auditor.connections.writer import open_patch_session
from auditor.errors import StatementRefused
from auditor.model import Verdict
from dialects.committing import Commit, Committing
from dialects.delta.pointer import Pointer, pointer_of
from tests.live import LiveEngine
from tests.repair import small
from tests.repair.bootstrapped import left
from tests.repair.small import Small
from tests.repair.test_bootstrap_delta import SOURCE, TARGET, WANTED


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Small:
    """Rows 1 to 40 in four ranges, and a table that lost half of them and has others."""
    monkeypatch.setattr("auditor.bootstrap.plan.RANGE_ROWS", 10)
    (tmp_path / "lake").mkdir()
    return small.make(tmp_path, LiveEngine("parquet", "delta", f"parquet://{tmp_path}/lake"), SOURCE, TARGET)


def pointer(both: Small) -> Pointer:
    found = pointer_of(both.target.url.removeprefix("parquet://") + "/t", {}).read()
    assert found
    return found[0]


def rows(both: Small) -> list[tuple[Any, ...]]:
    folder = both.target.url.removeprefix("parquet://") + "/t"
    paths = [f"{folder}/{file.path}" for file in pointer(both).files]
    return duckdb.execute(f"SELECT id, v FROM read_parquet({paths}) ORDER BY id").fetchall()


@pytest.mark.slow
def test_a_range_and_then_the_table_are_replaced(both: Small) -> None:
    before = rows(both)
    use_cases.run_bootstrap(both.settings, both.store, "small", {"from": 11, "to": 30})
    assert rows(both) == sorted([*WANTED[10:30], *(row for row in before if not 11 <= row[0] <= 30)])
    result = use_cases.run_bootstrap(both.settings, both.store, "small")
    assert rows(both) == WANTED and result.after and result.after.verdict is Verdict.MATCH
    assert f"auditor/patch/{result.bootstrap}" in pointer(both).marks
    assert left(both.target) == [] and use_cases.drop_left(both.settings, both.store, "small") == []


def test_a_row_outside_of_what_is_replaced_is_refused(both: Small) -> None:
    before = rows(both)
    with (
        closing(open_patch_session("b", both.settings.connections["b"])) as session,
        pytest.raises(StatementRefused, match="outside of what is replaced"),
    ):
        assert isinstance(session, Committing)
        session.replace_rows('"t"', "SELECT 99 AS id, 'x' AS v", '"id" < 50', {}, {})
    assert rows(both) == before


@pytest.mark.parametrize("taken", ["file_index", "File_Row_Number"])
def test_a_column_with_a_name_that_writing_needs_is_refused(tmp_path: Path, taken: str) -> None:
    """It would say in which files rows stand, so that others were written anew than those that a commit changes."""
    (tmp_path / "lake").mkdir()
    url = dialects.parse_url(f"parquet://{tmp_path}/lake")
    dialect = dialects.by_scheme("parquet")
    with closing(dialect.connect(dialect.addresses.write_url(url), 60)) as session:
        assert isinstance(session, Committing)
        session.make_table('"t"', f'CREATE TABLE "t" ("id" BIGINT, "{taken}" BIGINT)')
        session.execute(f'CREATE TEMPORARY TABLE changes AS SELECT \'i\' AS auditor_op, 1 AS "id", 2 AS "{taken}_"')
        commit = Commit('"t"', "changes", ["id"], ["id"], {}, {})
        with pytest.raises(StatementRefused, match="rename the column"):
            session.commit(commit)
