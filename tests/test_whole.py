"""Rolling audits: every part has its turn, and the whole table is known from the latest look at each of its partitions."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor import service
from auditor.config import Settings, checked
from auditor.model import Report, Verdict
from auditor.report.day import day
from auditor.service import audits
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
    return checked(
        {
            "connections": {side: {"url": f"duckdb:///{tmp_path}/{side}.duckdb"} for side in ends},
            "audits": {"t": {**ends, "rolling": {"per_run": "30%"}, "partition": {"size": SIZE}}},
        }
    )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(f"sqlite:///{tmp_path}/auditor.db")


def changed(tmp_path: Path, side: str, sql: str) -> None:
    with duckdb.connect(str(tmp_path / f"{side}.duckdb")) as connection:
        connection.execute(sql)


def ran(rolling: Settings, store: Store, times: int) -> list[Report]:
    return [service.run_audit(rolling, "t", store=store) for _ in range(times)]


def test_every_part_has_its_turn(rolling: Settings, store: Store) -> None:
    reports = ran(rolling, store, 4)
    assert [report.plan.stretches for report in reports if report.plan] == [((0, 3),), ((3, 6),), ((6, 9),), ((0, 2), (9, 10))]
    assert {report.verdict for report in reports} == {Verdict.MATCH}
    assert reports[0].coverage == {"rows": pytest.approx(0.3), "partitions": pytest.approx(0.3)}
    assert [bool(report.verified_through) for report in reports] == [False, False, False, True], "only when all of it was read"
    first = service.whole(store, "t")
    assert first and (first.verdict, first.partitions, first.read, first.unequal) == (Verdict.MATCH, 10, 10, 0)


def test_a_part_that_was_never_read_is_not_called_equal(rolling: Settings, store: Store) -> None:
    ran(rolling, store, 2)
    found = service.whole(store, "t")
    assert found and (found.verdict, found.read) == (Verdict.UNKNOWN, 6)
    assert "4 were never read" in found.sentence


def test_a_difference_stays_known_until_its_part_is_read_again(rolling: Settings, store: Store, tmp_path: Path) -> None:
    changed(tmp_path, "target", "DELETE FROM t WHERE id = 1500")
    assert [report.verdict.value for report in ran(rolling, store, 2)] == ["mismatch", "match"]
    found = service.whole(store, "t")
    assert found and (found.verdict, found.unequal) == (Verdict.MISMATCH, 1)
    today = day(store, rolling, found.oldest.date()) if found.oldest else None
    assert today and today.entries[0].status == "mismatch", "the report of the day tells of the whole table"
    changed(tmp_path, "target", "INSERT INTO t VALUES (1500, 'v1500')")
    reports = ran(rolling, store, 2)
    assert reports[-1].verified_through, "the part that differed was read again with the last"
    mended = service.whole(store, "t")
    assert mended and mended.verdict is Verdict.MATCH


def altered(rolling: Settings, /, **audit: Any) -> Settings:
    """The settings with these of the audit otherwise."""
    asked = rolling.audits["t"].model_dump(by_alias=True, exclude_unset=True)
    return checked({**rolling.model_dump(by_alias=True, exclude_unset=True), "audits": {"t": {**asked, **audit}}})


def test_what_turned_out_to_be_no_difference_is_equal(rolling: Settings, store: Store, tmp_path: Path) -> None:
    """One row that is in flight, and one that differs within a tolerance: both differ in the scan, and their runs match."""
    for side in ("source", "target"):
        changed(tmp_path, side, "ALTER TABLE t ADD COLUMN moved TIMESTAMP DEFAULT '2026-01-01'; ALTER TABLE t ADD COLUMN x DOUBLE")
    changed(tmp_path, "source", "UPDATE t SET moved = now() AT TIME ZONE 'UTC' WHERE id = 1500; UPDATE t SET x = 0.004999 WHERE id = 4500")
    changed(tmp_path, "target", "UPDATE t SET x = 0.005001 WHERE id = 4500")
    tolerant = {"columns": {"override": {"x": {"tolerance": {"absolute": 0.01}}}}}
    reports = ran(altered(rolling, settle={"column": "moved", "lag": "1h"}, **tolerant), store, 4)
    assert [report.verdict for report in reports] == [Verdict.MATCH] * 4
    assert [bool(report.comparison and report.comparison.unequal) for report in reports] == [True, True, False, True], (
        "the last reads the first again"
    )
    found = service.whole(store, "t")
    assert found and (found.verdict, found.unequal, found.allowed) == (Verdict.MATCH, 0, 0)
    assert {int(state) for state in found.picture.state} == {0} and set(found.picture.similarity) == {1.0}
    assert not any(key is not None for key in [*found.picture.least, *found.picture.greatest])


def test_what_the_threshold_allows_differs_and_is_no_mismatch(rolling: Settings, store: Store, tmp_path: Path) -> None:
    lenient = altered(rolling, threshold={"rows": 1})
    changed(tmp_path, "target", "DELETE FROM t WHERE id = 1500")
    assert {report.verdict for report in ran(lenient, store, 4)} == {Verdict.MATCH}
    found = service.whole(store, "t")
    assert found and (found.verdict, found.unequal, found.allowed) == (Verdict.MATCH, 1, 1)
    assert "1 differs as they were last read (1 of them no more than the audit allows)" in found.sentence
    changed(tmp_path, "target", "DELETE FROM t WHERE id IN (4500, 4501)")
    ran(lenient, store, 3)
    worse = service.whole(store, "t")
    assert worse and (worse.verdict, worse.unequal, worse.allowed) == (Verdict.MISMATCH, 2, 1)


OTHERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "another target": ({}, {"target": {"connection": "target", "table": "worse"}}),
    "more rows": ({"where": "id > 2999"}, {}),
    "more of a row": ({"columns": {"override": {"v": {"expr": "LEFT(v, 1)", "kind": "text"}}}}, {}),
    "a lesser tolerance": ({"columns": {"override": {"x": {"tolerance": {"absolute": 9}}}}}, {}),
    "a lesser threshold": ({"threshold": {"rows": 5000}}, {}),
    "rows without a time": (
        {"settle": {"column": "moved", "lag": "1h", "nulls": "leave_out"}},
        {"settle": {"column": "moved", "lag": "1h"}},
    ),
}
"""Settings by which the tables match, and settings by which the first part differs."""


def both_ways(rolling: Settings, tmp_path: Path, how: str) -> tuple[Settings, Settings]:
    """The audit by lenient settings, and by the others."""
    wrong = {
        "a lesser tolerance": "SELECT * REPLACE (x + 1 AS x)",
        "more of a row": "SELECT * REPLACE ('vv' AS v)",
        "rows without a time": "SELECT * REPLACE (CASE WHEN moved IS NULL THEN 'wrong' ELSE v END AS v)",
    }.get(how, "SELECT * REPLACE ('wrong' AS v, x + 1 AS x)")
    nullified = "UPDATE t SET moved = NULL WHERE id < 3000 AND id % 2 = 0" if how == "rows without a time" else "SELECT 1"
    for side in ("source", "target"):
        changed(
            tmp_path, side, "ALTER TABLE t ADD COLUMN x DOUBLE DEFAULT 0; ALTER TABLE t ADD COLUMN moved TIMESTAMP DEFAULT '2020-01-01'"
        )
        changed(tmp_path, side, nullified)
    changed(tmp_path, "target", f"CREATE TABLE worse AS {wrong} FROM t WHERE id < 3000 UNION ALL SELECT * FROM t WHERE id >= 3000")
    before, after = OTHERS[how]
    ends = {"target": {"connection": "target", "table": "t" if how == "another target" else "worse"}, "key": ["id"]}
    return altered(rolling, **{**ends, **before}), altered(rolling, **{**ends, **after})


@pytest.mark.parametrize("how", OTHERS)
def test_what_was_read_by_other_settings_is_not_of_the_whole(rolling: Settings, store: Store, tmp_path: Path, how: str) -> None:
    lenient, strict = both_ways(rolling, tmp_path, how)
    assert [report.verdict for report in ran(lenient, store, 2)] == [Verdict.MATCH] * 2
    (report,) = ran(strict, store, 1)
    found = service.whole(store, "t")
    assert found and found.verdict is Verdict.MISMATCH and found.read == 3, "what was read before is not taken for read"
    assert (report.verdict, report.verified_through) == (Verdict.MISMATCH, None)


def verified(settings: Settings, store: Store) -> dt.datetime | None:
    (one,) = audits.overview(settings, store)
    return one.verified_through


@pytest.mark.parametrize("how", OTHERS)
def test_what_was_verified_by_other_settings_is_not_told(rolling: Settings, store: Store, tmp_path: Path, how: str) -> None:
    lenient, strict = (altered(one, rolling=None) for one in both_ways(rolling, tmp_path, how))
    (first,) = ran(lenient, store, 1)
    assert first.verified_through and first.verdict is Verdict.MATCH
    (second,) = ran(strict, store, 1)
    assert (second.verdict, second.verified_through) == (Verdict.MISMATCH, None)
    assert verified(strict, store) is None
    assert verified(lenient, store) == first.verified_through, "it holds for the settings that it was found by"
    assert second.began and [entry.verified_through for entry in day(store, strict, second.began.date()).entries] == [None]


def test_a_run_by_other_settings_than_its_audits_says_nothing_of_how_that_stands(rolling: Settings, store: Store, tmp_path: Path) -> None:
    strict = both_ways(altered(rolling, rolling=None), tmp_path, "a lesser threshold")[1]
    allowed: dict[str, Any] = {"threshold": {"rows": 5000}}
    alone = service.run_audit(strict, "t", store=store, overrides=allowed)
    assert (alone.verdict, alone.verified_through) == (Verdict.MATCH, None)
    in_parts = altered(strict, rolling={"per_run": "30%"})
    assert service.run_audit(in_parts, "t", store=store, overrides=allowed).verdict is Verdict.MATCH
    (report,) = ran(in_parts, store, 1)
    assert report.plan and report.plan.stretches == ((0, 3),) and report.verdict is Verdict.MISMATCH


def test_sums_that_match_verify_only_what_is_content_with_sums(rolling: Settings, store: Store) -> None:
    whole = altered(rolling, rolling=None)
    assert service.run_audit(whole, "t", store=store, overrides={"method": "counts"}).verified_through is None
    assert service.run_audit(altered(whole, method="counts"), "t", store=store).verified_through
    assert verified(whole, store) is None


def test_how_it_is_read_changes_nothing(rolling: Settings, store: Store) -> None:
    ran(rolling, store, 2)
    ran(altered(rolling, salt="abc", bits=120), store, 1)
    ran(altered(rolling, method="signature", rolling={"per_run": "10%"}), store, 1)
    found = service.whole(store, "t")
    assert found and (found.verdict, found.read) == (Verdict.MATCH, 10)


def test_a_part_of_which_its_run_claimed_nothing_is_unknown(rolling: Settings, store: Store, tmp_path: Path) -> None:
    for side in ("source", "target"):
        changed(tmp_path, side, "ALTER TABLE t ADD COLUMN moved TIMESTAMP DEFAULT '2026-01-01'")
    changed(tmp_path, "source", "UPDATE t SET v = 'new', moved = now() AT TIME ZONE 'UTC' WHERE id = 1500")
    nameless = altered(rolling, method="signature", settle={"column": "moved", "lag": "1h"})
    assert [report.verdict.value for report in ran(nameless, store, 4)] == ["unknown", "match", "match", "unknown"]
    found = service.whole(store, "t")
    assert found and (found.verdict, found.unequal) == (Verdict.UNKNOWN, 0)


def test_rows_without_a_key_belong_to_the_whole(rolling: Settings, store: Store, tmp_path: Path) -> None:
    for side in ("source", "target"):
        changed(tmp_path, side, "CREATE TABLE n AS SELECT * FROM t; INSERT INTO n VALUES (NULL, 'same')")
    changed(tmp_path, "target", "UPDATE n SET v = 'other' WHERE id IS NULL")
    ends = {side: {"connection": side, "table": "n"} for side in ("source", "target")}
    reports = ran(altered(rolling, key=["id"], **ends), store, 5)
    assert [report.verdict.value for report in reports] == ["mismatch", "match", "match", "mismatch", "match"]
    found = service.whole(store, "t")
    assert found and (found.verdict, found.unequal) == (Verdict.MISMATCH, 1)
    assert not any(report.verified_through for report in reports)


def test_new_keys_are_read_first_and_starve_nothing(rolling: Settings, store: Store, tmp_path: Path) -> None:
    ran(rolling, store, 4)
    for turn in range(4):
        for side in ("source", "target"):
            changed(tmp_path, side, f"INSERT INTO t SELECT i, 'new' FROM range({ROWS + turn * SIZE}, {ROWS + (turn + 1) * SIZE}) r(i)")
        (report,) = ran(rolling, store, 1)
        assert report.plan and (10 + turn, 11 + turn) in [*report.plan.stretches, *_cells(report.plan.stretches)]
        assert sum(end - first for first, end in report.plan.stretches) > 1, "there is room for a part that was read before"


def _cells(stretches: tuple[tuple[int, int], ...]) -> list[tuple[int, int]]:
    return [(cell, cell + 1) for first, end in stretches for cell in range(first, end)]


def test_an_audit_that_is_not_rolling_has_no_parts(rolling: Settings, store: Store) -> None:
    whole = rolling.model_copy(update={"audits": {"t": rolling.audits["t"].model_copy(update={"rolling": None})}})
    ran(whole, store, 1)
    assert service.whole(store, "t") is None
