"""A Delta table is copied anew by a commit beside it, which is audited, and one that replaces its rows, or none of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from auditor.bootstrap import use_cases
from auditor.bootstrap.use_cases import BootstrapResult
from auditor.errors import BootstrapFailed, BootstrapRefused
from auditor.model import Verdict
from auditor.points import armed, followed
from auditor.store import bootstraps as stored
from dialects.delta.session import DeltaSession
from tests.live import LiveEngine, LivePair, chosen_pairs
from tests.repair import damaged, small
from tests.repair.bootstrap_killed import kill
from tests.repair.bootstrapped import clean, left, opened
from tests.repair.small import Small

SOURCE = ("CREATE TABLE s (id BIGINT PRIMARY KEY, v VARCHAR)", "INSERT INTO s SELECT i, 'row ' || i FROM range(1, 41) AS r(i)")
TARGET = ("CREATE OR REPLACE TABLE t (id BIGINT, v VARCHAR)", "INSERT INTO t SELECT i, 'old ' || i FROM range(1, 51, 2) AS r(i)")


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Small:
    """Rows 1 to 40 in four ranges, and a Delta table that lost half of them and has others."""
    monkeypatch.setattr("auditor.bootstrap.plan.RANGE_ROWS", 10)
    (tmp_path / "lake").mkdir()
    return small.make(tmp_path, LiveEngine("delta", "delta", f"delta://{tmp_path}/lake"), SOURCE, TARGET)


def delta(both: Small) -> DeltaTable:
    return DeltaTable(both.target.url.removeprefix("delta://") + "/t")


def rows(both: Small, version: int | None = None) -> list[tuple[Any, ...]]:
    table = delta(both)
    if version is not None:
        table.load_as_version(version)
    return sorted(tuple(row.values()) for row in table.to_pyarrow_table().to_pylist())


def copy(both: Small, keys: dict[str, int] | None = None) -> BootstrapResult:
    return use_cases.run_bootstrap(both.settings, both.store, "small", keys)


WANTED = [(number, f"row {number}") for number in range(1, 41)]


def test_a_table_is_replaced_by_one_commit(both: Small) -> None:
    before = rows(both)
    plan = use_cases.plan_bootstrap(both.settings, both.store, "small")
    assert "swap     by commit: one commit replaces the rows, and readers see the version before until then" in plan
    assert "--drop-old" not in plan and "the replaced rows stay in the files of the version before until VACUUM" in plan
    result = copy(both)
    assert result.rows == 40 and result.old == "the version before" and result.after and result.after.verdict is Verdict.MATCH
    assert rows(both) == WANTED and delta(both).version() == 1 and rows(both, 0) == before
    assert delta(both).transaction_version(f"auditor/patch/{result.bootstrap}") == 1
    assert left(both.target) == [] and use_cases.drop_left(both.settings, both.store, "small") == []


def test_a_range_is_replaced_and_other_rows_stay(both: Small) -> None:
    before = rows(both)
    result = copy(both, {"from": 11, "to": 30})
    assert result.rows == 20 and delta(both).version() == 1
    assert rows(both) == sorted([*WANTED[10:30], *(row for row in before if not 11 <= row[0] <= 30)])


@pytest.mark.slow
def test_a_copy_that_differs_is_not_committed_and_what_was_read_is_not_read_again(both: Small) -> None:
    before = rows(both)

    def damage() -> None:
        (stage,) = left(both.target)
        DeltaTable(f"{both.target.url.removeprefix('delta://')}/{stage}").delete("id = 5")

    differs = pytest.raises(BootstrapFailed, match=r"id = 5 is missing; it was not swapped in")
    with differs, armed("bootstrap.verify", damage, nth=1):
        copy(both)
    assert rows(both) == before and delta(both).version() == 0 and len(left(both.target)) == 1
    both.on_source("UPDATE s SET v = 'newer' WHERE id = 15")
    steps: list[str] = []
    with followed("bootstrap", steps.append):
        result = copy(both)
    assert steps.count("range") <= 1 and result.after and result.after.verdict is Verdict.MATCH
    assert rows(both) == [(number, "newer" if number == 15 else text) for number, text in WANTED] and left(both.target) == []


def test_what_others_commit_meanwhile_is_replaced_with_the_rest(both: Small) -> None:
    """As the exchange of rows does elsewhere: the source is right, and what it says later is patched afterwards."""
    with armed("bootstrap.swap", lambda: delta(both).update(updates={"v": "'newer'"}, predicate="id = 3"), nth=1):
        result = copy(both)
    assert rows(both) == WANTED and result.after and result.after.verdict is Verdict.MATCH


def test_a_filtered_audit_is_refused(both: Small) -> None:
    definition = both.settings.audits["small"].model_dump(by_alias=True, exclude_unset=True)
    audit = type(both.settings.audits["small"]).model_validate({**definition, "where": "id < 10"})
    both.settings = both.settings.model_copy(update={"audits": {"small": audit}})
    with pytest.raises(
        BootstrapRefused, match=r"compares only some rows of .*t.*, which one commit cannot replace; copy a range with --keys"
    ):
        copy(both)
    assert delta(both).version() == 0 and stored.list_bootstraps(both.store) == []


@pytest.mark.parametrize("pair", chosen_pairs("duckdb-delta"), indirect=True)
def test_every_kind_of_value_is_copied(pair: LivePair, tmp_path: Path) -> None:
    clean(pair.target)
    both = damaged.make(pair, tmp_path, rows=60, differences=30)
    result = use_cases.run_bootstrap(both.settings, both.store, "all")
    assert result.rows == len(both.source) and result.after and result.after.verdict is Verdict.MATCH, (result.not_settled, result.after)
    assert result.after.jaccard and result.after.jaccard.score.lower == 1 and left(pair.target) == []


@pytest.mark.slow
@pytest.mark.parametrize("step", [pytest.param("loaded", marks=pytest.mark.slow), pytest.param("swap", marks=pytest.mark.slow), "swapped"])
def test_one_that_is_killed_goes_on(both: Small, tmp_path: Path, step: str) -> None:
    before = rows(both)
    both.store.close()
    assert kill(both, tmp_path, step=step, audit="small") == -9
    (one,) = stored.list_bootstraps(both.store)
    assert rows(both) == (WANTED if step == "swapped" else before) and left(both.target) == [one.detail["stage"]]
    result = copy(both)
    assert result.bootstrap == one.bootstrap and result.after and result.after.verdict is Verdict.MATCH
    assert rows(both) == WANTED and left(both.target) == []


def test_a_commit_of_a_process_that_was_given_up_is_not_made(both: Small) -> None:
    """The next start found that it had ended, by a commit without rows."""
    mark = "auditor/patch/b"
    with opened(both.target) as session:
        assert isinstance(session, DeltaSession)
        assert not session.fence('"t"', mark, 1)
        assert not session.replace_rows('"t"', "SELECT 1 AS id, 'x' AS v", "", {mark: 1}, {f"{mark}/void": 0})
        assert rows(both) == rows(both, 0)
        assert session.replace_rows('"t"', "SELECT 1 AS id, 'x' AS v", "", {mark: 2}, {f"{mark}/void": 1})
    assert rows(both) == [(1, "x")]
