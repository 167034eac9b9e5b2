"""Rolling audits: the state of the whole table is merged from the latest run of each partition."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor import service
from auditor.config import Settings, validate_settings
from auditor.model import Report, Verdict
from auditor.report.day import load_day
from auditor.service import audits, stored_runs
from auditor.store import Store, open_store

ROWS = 10_000
SIZE = 1000


@pytest.fixture
def rolling(tmp_path: Path) -> Settings:
    for side in ("source", "target"):
        with duckdb.connect(str(tmp_path / f"{side}.duckdb")) as connection:
            connection.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR)")
            connection.execute(f"INSERT INTO t SELECT i, 'v' || i FROM range({ROWS}) r(i)")
    ends = {side: {"connection": side, "table": "t"} for side in ("source", "target")}
    return validate_settings(
        {
            "connections": {side: {"url": f"duckdb:///{tmp_path}/{side}.duckdb"} for side in ends},
            "audits": {"t": {**ends, "rolling": {"per_run": "30%"}, "partition": {"size": SIZE}}},
        }
    )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(f"sqlite:///{tmp_path}/auditor.db")


def execute(tmp_path: Path, side: str, sql: str) -> None:
    with duckdb.connect(str(tmp_path / f"{side}.duckdb")) as connection:
        connection.execute(sql)


def run_times(rolling: Settings, store: Store, times: int) -> list[Report]:
    return [service.run_audit(rolling, "t", store=store) for _ in range(times)]


def test_every_part_is_read_in_turn(rolling: Settings, store: Store) -> None:
    reports = run_times(rolling, store, 4)
    assert [report.plan.partition_ranges for report in reports if report.plan] == [((0, 3),), ((3, 6),), ((6, 9),), ((0, 2), (9, 10))]
    assert {report.verdict for report in reports} == {Verdict.MATCH}
    assert reports[0].coverage == {"rows": pytest.approx(0.3), "partitions": pytest.approx(0.3)}
    assert [bool(report.verified_through) for report in reports] == [False, False, False, True], "only once all partitions were read"
    first = stored_runs.rolling_table(store, "t")
    assert first and (first.verdict, first.partitions, first.partitions_read, first.unequal) == (Verdict.MATCH, 10, 10, 0)


def test_unread_parts_keep_the_table_unknown(rolling: Settings, store: Store) -> None:
    run_times(rolling, store, 2)
    found = stored_runs.rolling_table(store, "t")
    assert found and (found.verdict, found.partitions_read) == (Verdict.UNKNOWN, 6)
    assert "4 were never read" in found.sentence


def test_difference_remains_until_its_part_is_read_again(rolling: Settings, store: Store, tmp_path: Path) -> None:
    execute(tmp_path, "target", "DELETE FROM t WHERE id = 1500")
    assert [report.verdict.value for report in run_times(rolling, store, 2)] == ["mismatch", "match"]
    found = stored_runs.rolling_table(store, "t")
    assert found and (found.verdict, found.unequal) == (Verdict.MISMATCH, 1)
    today = load_day(store, rolling, found.oldest.date()) if found.oldest else None
    assert today and today.entries[0].status == "mismatch", "the daily report covers the whole table"
    execute(tmp_path, "target", "INSERT INTO t VALUES (1500, 'v1500')")
    reports = run_times(rolling, store, 2)
    assert reports[-1].verified_through, "the last run read the part that differed again"
    repaired = stored_runs.rolling_table(store, "t")
    assert repaired and repaired.verdict is Verdict.MATCH


def with_audit(rolling: Settings, /, **audit: Any) -> Settings:
    """Return the settings with some settings of the audit changed."""
    original = rolling.audits["t"].model_dump(by_alias=True, exclude_unset=True)
    return validate_settings({**rolling.model_dump(by_alias=True, exclude_unset=True), "audits": {"t": {**original, **audit}}})


@pytest.mark.slow
def test_partitions_cleared_by_their_run_are_equal(rolling: Settings, store: Store, tmp_path: Path) -> None:
    """A row in flight and a row within its tolerance differ in the scan, yet their runs match."""
    for side in ("source", "target"):
        execute(tmp_path, side, "ALTER TABLE t ADD COLUMN moved TIMESTAMP DEFAULT '2026-01-01'; ALTER TABLE t ADD COLUMN x DOUBLE")
    execute(tmp_path, "source", "UPDATE t SET moved = now() AT TIME ZONE 'UTC' WHERE id = 1500; UPDATE t SET x = 0.004999 WHERE id = 4500")
    execute(tmp_path, "target", "UPDATE t SET x = 0.005001 WHERE id = 4500")
    tolerant = {"columns": {"override": {"x": {"tolerance": {"absolute": 0.01}}}}}
    reports = run_times(with_audit(rolling, settle={"column": "moved", "lag": "1h"}, **tolerant), store, 4)
    assert [report.verdict for report in reports] == [Verdict.MATCH] * 4
    assert [bool(report.comparison and report.comparison.unequal) for report in reports] == [True, True, False, True], (
        "the last run reads the first part again"
    )
    found = stored_runs.rolling_table(store, "t")
    assert found and (found.verdict, found.unequal, found.allowed) == (Verdict.MATCH, 0, 0)
    assert {int(state) for state in found.partition_map.state} == {0} and set(found.partition_map.similarity) == {1.0}
    assert not any(key is not None for key in [*found.partition_map.least, *found.partition_map.greatest])


def test_allowed_differences_are_counted_and_match(rolling: Settings, store: Store, tmp_path: Path) -> None:
    lenient = with_audit(rolling, threshold={"rows": 1})
    execute(tmp_path, "target", "DELETE FROM t WHERE id = 1500")
    assert {report.verdict for report in run_times(lenient, store, 4)} == {Verdict.MATCH}
    found = stored_runs.rolling_table(store, "t")
    assert found and (found.verdict, found.unequal, found.allowed) == (Verdict.MATCH, 1, 1)
    assert "1 differs as last read (1 of them within the threshold)" in found.sentence
    execute(tmp_path, "target", "DELETE FROM t WHERE id IN (4500, 4501)")
    run_times(lenient, store, 3)
    worse = stored_runs.rolling_table(store, "t")
    assert worse and (worse.verdict, worse.unequal, worse.allowed) == (Verdict.MISMATCH, 2, 1)


CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "another target": ({}, {"target": {"connection": "target", "table": "worse"}}),
    "more rows": ({"where": "id > 2999"}, {}),
    "more of a column": ({"columns": {"override": {"v": {"expr": "LEFT(v, 1)", "kind": "text"}}}}, {}),
    "a smaller tolerance": ({"columns": {"override": {"x": {"tolerance": {"absolute": 9}}}}}, {}),
    "a smaller threshold": ({"threshold": {"rows": 50}}, {}),
    "rows without a time": (
        {"settle": {"column": "moved", "lag": "1h", "nulls": "leave_out"}},
        {"settle": {"column": "moved", "lag": "1h"}},
    ),
}
"""Audit settings with which the tables match, and settings with which the first part differs."""


@pytest.mark.slow
def test_allowed_differences_verify_within_the_threshold_only(rolling: Settings, store: Store, tmp_path: Path) -> None:
    execute(tmp_path, "target", "UPDATE t SET v = 'x' WHERE id = 1500")
    lenient = with_audit(rolling, threshold={"rows": 1})
    reports = run_times(lenient, store, 4)
    assert {report.verdict for report in reports} == {Verdict.MATCH}
    assert [report.within_threshold for report in reports] == [True, False, False, True], "row 1,500 is read first and last"
    assert [bool(report.within_threshold_through) for report in reports] == [False, False, False, True], "only once all was read"
    assert not any(report.verified_through for report in reports)
    (one,) = audits.overview(lenient, store)
    assert (
        one.standing.status == "within_threshold" and "1 differs as last read (1 of them within the threshold)" in one.standing.reasons[0]
    )
    execute(tmp_path, "target", "UPDATE t SET v = 'v1500' WHERE id = 1500")
    after = run_times(lenient, store, 4)
    assert after[-1].verified_through and not after[-1].within_threshold_through
    (one,) = audits.overview(lenient, store)
    assert (one.standing.status, one.standing.verified_through) == ("match", after[-1].verified_through)


def lenient_and_strict(rolling: Settings, tmp_path: Path, case: str) -> tuple[Settings, Settings]:
    """Create tables for this case; return the lenient and the strict settings."""
    wrong = {
        "a smaller tolerance": "SELECT * REPLACE (x + 1 AS x)",
        "more of a column": "SELECT * REPLACE ('vv' AS v)",
        "rows without a time": "SELECT * REPLACE (CASE WHEN moved IS NULL THEN 'wrong' ELSE v END AS v)",
    }.get(case, "SELECT * REPLACE ('wrong' AS v, x + 1 AS x)")
    nullified = "UPDATE t SET moved = NULL WHERE id < 3000 AND id % 2 = 0" if case == "rows without a time" else "SELECT 1"
    for side in ("source", "target"):
        execute(
            tmp_path, side, "ALTER TABLE t ADD COLUMN x DOUBLE DEFAULT 0; ALTER TABLE t ADD COLUMN moved TIMESTAMP DEFAULT '2020-01-01'"
        )
        execute(tmp_path, side, nullified)
    execute(
        tmp_path,
        "target",
        f"CREATE TABLE worse AS {wrong} FROM t WHERE id < 3000 AND id % 100 = 0 UNION ALL SELECT * FROM t WHERE id >= 3000 OR id % 100 > 0",
    )
    before, after = CASES[case]
    ends = {"target": {"connection": "target", "table": "t" if case == "another target" else "worse"}, "key": ["id"]}
    return with_audit(rolling, **{**ends, **before}), with_audit(rolling, **{**ends, **after})


@pytest.mark.quick_for("rows without a time", "more of a column", "another target")
@pytest.mark.parametrize("case", CASES)
def test_parts_read_with_other_settings_do_not_count(rolling: Settings, store: Store, tmp_path: Path, case: str) -> None:
    lenient, strict = lenient_and_strict(rolling, tmp_path, case)
    assert [report.verdict for report in run_times(lenient, store, 2)] == [Verdict.MATCH] * 2
    (report,) = run_times(strict, store, 1)
    found = stored_runs.rolling_table(store, "t")
    assert found and found.verdict is Verdict.MISMATCH and found.partitions_read == 3, "partitions read with other settings do not count"
    assert (report.verdict, report.verified_through) == (Verdict.MISMATCH, None)


def verified_through(settings: Settings, store: Store) -> dt.datetime | None:
    (one,) = audits.overview(settings, store)
    return one.standing.verified_through


ALIKE = ("more rows", "more of a column", "a smaller tolerance")
"""Cases that are told from the lenient settings as that of another target is, which the test above asks of each."""


@pytest.mark.quick_for("another target")
@pytest.mark.parametrize("case", [pytest.param(case, marks=[pytest.mark.slow] if case in ALIKE else []) for case in CASES])
def test_verified_time_of_other_settings_is_not_reported(rolling: Settings, store: Store, tmp_path: Path, case: str) -> None:
    lenient, strict = (with_audit(one, rolling=None) for one in lenient_and_strict(rolling, tmp_path, case))
    (first,) = run_times(lenient, store, 1)
    assert (first.verified_through or case == "a smaller threshold") and first.verdict is Verdict.MATCH
    (second,) = run_times(strict, store, 1)
    assert (second.verdict, second.verified_through) == (Verdict.MISMATCH, None)
    assert verified_through(strict, store) is None
    assert verified_through(lenient, store) == first.verified_through, "still valid for the settings that it was verified with"
    assert second.began and [entry.standing.verified_through for entry in load_day(store, strict, second.began.date()).entries] == [None]


@pytest.mark.slow
def test_what_was_verified_of_another_database_or_zone_does_not_count(rolling: Settings, store: Store, tmp_path: Path) -> None:
    """The target's connection moves to a copy that differs, or its times become those of a zone, under the same name."""
    execute(tmp_path, "target", f"ATTACH '{tmp_path}/moved.duckdb' AS moved; COPY FROM DATABASE target TO moved; DETACH moved")
    with duckdb.connect(str(tmp_path / "moved.duckdb")) as connection:
        connection.execute("UPDATE t SET v = 'other' WHERE id = 9500")
    (*_, last) = run_times(rolling, store, 4)
    assert last.verified_through and verified_through(rolling, store) == last.verified_through
    for change in ({"url": f"duckdb:///{tmp_path}/moved.duckdb"}, {"zone": "Europe/Berlin"}):
        one = rolling.connections["target"].model_copy(update=change)
        other = rolling.model_copy(update={"connections": {**rolling.connections, "target": one}})
        assert verified_through(other, store) is None
        (report,) = run_times(other, store, 1)
        assert report.verified_through is None and report.plan and report.plan.partition_ranges == ((0, 3),), "it begins anew"
        found = stored_runs.rolling_table(store, "t")
        assert found and found.partitions_read == 3
    unchanged = rolling.connections["target"].model_copy(update={"url": f"duckdb:///{tmp_path}/target.duckdb?access_mode=automatic"})
    same = rolling.model_copy(update={"connections": {**rolling.connections, "target": unchanged}})
    assert verified_through(same, store) == last.verified_through, "options of a URL do not decide what is compared"


@pytest.mark.slow
def test_run_with_overrides_does_not_change_the_audits_standing(rolling: Settings, store: Store, tmp_path: Path) -> None:
    strict = lenient_and_strict(with_audit(rolling, rolling=None), tmp_path, "a smaller threshold")[1]
    allowed: dict[str, Any] = {"threshold": {"rows": 50}}
    overridden = service.run_audit(strict, "t", store=store, overrides=allowed)
    assert (overridden.verdict, overridden.verified_through) == (Verdict.MATCH, None)
    in_parts = with_audit(strict, rolling={"per_run": "30%"})
    assert service.run_audit(in_parts, "t", store=store, overrides=allowed).verdict is Verdict.MATCH
    (report,) = run_times(in_parts, store, 1)
    assert report.plan and report.plan.partition_ranges == ((0, 3),) and report.verdict is Verdict.MISMATCH


def test_matching_counts_verify_only_a_counts_audit(rolling: Settings, store: Store) -> None:
    whole = with_audit(rolling, rolling=None)
    assert service.run_audit(whole, "t", store=store, overrides={"method": "counts"}).verified_through is None
    assert service.run_audit(with_audit(whole, method="counts"), "t", store=store).verified_through
    assert verified_through(whole, store) is None


def test_method_and_hash_settings_keep_the_parts_read(rolling: Settings, store: Store) -> None:
    run_times(rolling, store, 2)
    run_times(with_audit(rolling, salt="abc", bits=120), store, 1)
    run_times(with_audit(rolling, method="signature", rolling={"per_run": "10%"}), store, 1)
    found = stored_runs.rolling_table(store, "t")
    assert found and (found.verdict, found.partitions_read) == (Verdict.MATCH, 10)


def test_part_with_an_unknown_run_is_unknown(rolling: Settings, store: Store, tmp_path: Path) -> None:
    for side in ("source", "target"):
        execute(tmp_path, side, "ALTER TABLE t ADD COLUMN moved TIMESTAMP DEFAULT '2026-01-01'")
    execute(tmp_path, "source", "UPDATE t SET v = 'new', moved = now() AT TIME ZONE 'UTC' WHERE id = 1500")
    signature_only = with_audit(rolling, method="signature", settle={"column": "moved", "lag": "1h"})
    assert [report.verdict.value for report in run_times(signature_only, store, 4)] == ["unknown", "match", "match", "unknown"]
    found = stored_runs.rolling_table(store, "t")
    assert found and (found.verdict, found.unequal) == (Verdict.UNKNOWN, 0)
    assert "0 differ as last read, 1 could not be decided, for which the runs that read them say why" in found.sentence


def test_rows_with_null_keys_count_in_the_whole_table(rolling: Settings, store: Store, tmp_path: Path) -> None:
    for side in ("source", "target"):
        execute(tmp_path, side, "CREATE TABLE n AS SELECT * FROM t; INSERT INTO n VALUES (NULL, 'same')")
    execute(tmp_path, "target", "UPDATE n SET v = 'other' WHERE id IS NULL")
    ends = {side: {"connection": side, "table": "n"} for side in ("source", "target")}
    reports = run_times(with_audit(rolling, key=["id"], **ends), store, 5)
    assert {report.verdict.value for report in reports} == {"mismatch"}, "they are of no range of keys, and each run reads them"
    found = stored_runs.rolling_table(store, "t")
    assert found and (found.verdict, found.unequal) == (Verdict.MISMATCH, 1)
    assert not any(report.verified_through for report in reports)


def test_new_keys_are_read_first_without_starving_old_ones(rolling: Settings, store: Store, tmp_path: Path) -> None:
    run_times(rolling, store, 4)
    for turn in range(4):
        for side in ("source", "target"):
            execute(tmp_path, side, f"INSERT INTO t SELECT i, 'new' FROM range({ROWS + turn * SIZE}, {ROWS + (turn + 1) * SIZE}) r(i)")
        (report,) = run_times(rolling, store, 1)
        assert report.plan and (10 + turn, 11 + turn) in [*report.plan.partition_ranges, *_single_partitions(report.plan.partition_ranges)]
        assert sum(end - first for first, end in report.plan.partition_ranges) > 1, "the run also reads partitions read before"


def _single_partitions(ranges: tuple[tuple[int, int], ...]) -> list[tuple[int, int]]:
    return [(cell, cell + 1) for first, end in ranges for cell in range(first, end)]


def test_audit_that_is_not_rolling_has_no_rolling_table(rolling: Settings, store: Store) -> None:
    whole = rolling.model_copy(update={"audits": {"t": rolling.audits["t"].model_copy(update={"rolling": None})}})
    run_times(whole, store, 1)
    assert stored_runs.rolling_table(store, "t") is None
