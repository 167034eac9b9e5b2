"""Rows that were lost in a lump, or lie in no partition, are found again: no condition that misses them makes tables equal."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor import rows, run
from auditor.config import Audit, Connection
from auditor.model import SIDES, RangeDifference, Report, Verdict
from auditor.scan import Reading
from dialects import Kind
from tests import tables
from tests.audits import planned
from tests.engines import LiveEngine, LivePair, engine_params, pair_params, ring_params

AGAIN = {"recheck": {"times": 1, "wait": "1ms"}}
SETTLED = {"settle": {"column": "moved", "lag": "1m"}}


def audited(folder: Path, ddl: str, source: Sequence[str], target: Sequence[str], **audit: Any) -> Report:
    """The report on two tables in DuckDB, made and filled by statements."""
    for side, statements in zip(SIDES, (source, target), strict=True):
        with duckdb.connect(str(folder / f"{side}.duckdb")) as connection:
            for statement in (ddl, *statements):
                connection.execute(statement)
    return run.run("t", _audit("t", "t", audit), {side: Connection(url=f"duckdb:///{folder}/{side}.duckdb") for side in SIDES})


def between(pair: LivePair, source: str, target: str, **audit: Any) -> Report:
    """The report on two tables of two live engines."""
    return run.run("t", _audit(source, target, audit), {side: Connection(url=getattr(pair, side).url) for side in SIDES})


def _audit(source: str, target: str, audit: Mapping[str, Any]) -> Audit:
    ends = {"source": {"connection": "source", "table": source}, "target": {"connection": "target", "table": target}}
    return Audit.model_validate({**ends, **audit})


def counts(report: Report) -> tuple[Verdict, int, int, int]:
    assert report.differences, report.reasons
    return report.verdict, report.differences.missing, report.differences.extra, report.differences.changed


# partitions that one side lacks

DAYS = "CREATE TABLE t (id BIGINT PRIMARY KEY, day TIMESTAMP, moved TIMESTAMP)"
FALLING = "INSERT INTO t SELECT 1000 - i, TIMESTAMP '2026-01-01' + INTERVAL (i // 10) DAY, '2026-01-01' FROM range(100) r(i)"


@pytest.mark.duckdb
@pytest.mark.parametrize("more", [AGAIN, SETTLED, {**AGAIN, **SETTLED}], ids=["recheck", "settle", "both"])
def test_days_that_the_target_lacks_are_not_cleared(tmp_path: Path, more: dict[str, Any]) -> None:
    """Their keys fall with time, so that the greatest key of the last is less than the least of the first."""
    lost = "DELETE FROM t WHERE day >= '2026-01-09'"
    report = audited(tmp_path, DAYS, [FALLING], [FALLING, lost], partition={"column": "day"}, **more)
    assert counts(report) == (Verdict.MISMATCH, 20, 0, 0), report.reasons
    assert report.differences
    [span] = report.differences.ranges
    assert (span.first, span.last, span.label, span.rows, span.partitions) == (None, None, "2026-01-09 to 2026-01-10", 20, 2)


@pytest.mark.duckdb
@pytest.mark.parametrize("more", [AGAIN, SETTLED], ids=["recheck", "settle"])
def test_buckets_that_the_target_lacks_are_not_cleared(tmp_path: Path, more: dict[str, Any]) -> None:
    report = audited(tmp_path, DAYS, ["INSERT INTO t (id) VALUES (900000000), (5)"], [], partition={"buckets": 2}, **more)
    assert counts(report) == (Verdict.MISMATCH, 2, 0, 0), report.reasons


@pytest.mark.duckdb
def test_rows_of_buckets_are_counted_once(tmp_path: Path) -> None:
    """A bucket's keys lie among those of the others, some of which hold single differences."""
    rows = "INSERT INTO t (id) SELECT i * 1000003 FROM range(40) r(i)"
    lost = "DELETE FROM t WHERE id % 3 <> 0"
    report = audited(tmp_path, DAYS, [rows], [rows, lost], partition={"buckets": 24}, **AGAIN)
    assert counts(report) == (Verdict.MISMATCH, 26, 0, 0), report.reasons
    assert report.differences and report.differences.ranges, "one lacks a bucket"
    assert report.differences.cleared == report.differences.unsettled == 0


@pytest.mark.duckdb
def test_smaller_partitions_of_a_second_scan_are_not_cleared(tmp_path: Path) -> None:
    """Small tables whose one bucket is cut: some of the pieces are lost whole, and their numbers are not those of the plan."""
    ddl, pieces = "CREATE TABLE t (k VARCHAR PRIMARY KEY, v VARCHAR)", 0
    for seed in range(30):
        folder = tmp_path / str(seed)
        folder.mkdir()
        filled = f"INSERT INTO t SELECT 'k' || hash(i * 1000 + {seed}), 'v' FROM range(5) r(i)"
        lost = f"DELETE FROM t WHERE k IN (SELECT 'k' || hash(i * 1000 + {seed}) FROM range(2) r(i))"
        report = audited(folder, ddl, [filled], [filled, lost], t=1, salt="", **AGAIN)
        assert counts(report) == (Verdict.MISMATCH, 2, 0, 0), (seed, report.reasons)
        assert report.differences and report.plan
        pieces += sum(one.buckets > report.plan.partitioning.buckets for one in report.differences.ranges)
    assert pieces, "a piece was lost whole"


@pytest.mark.duckdb
@pytest.mark.parametrize("condition", ["1 = 0", "id < 0"])
def test_a_range_that_its_condition_does_not_find_is_not_cleared(tmp_path: Path, condition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(_: rows.Fetcher, __: RangeDifference) -> str:
        return condition

    monkeypatch.setattr(rows.Fetcher, "_of_range", wrong)
    report = audited(tmp_path, DAYS, [FALLING], [FALLING, "DELETE FROM t WHERE id > 950"], partition={"size": 10}, **AGAIN)
    assert report.verdict is Verdict.UNKNOWN, report.reasons
    assert report.differences and report.differences.unsettled == 50


# rows that lie in no partition


@pytest.mark.parametrize("pair", pair_params("mysql", "mariadb"), indirect=True)
@pytest.mark.parametrize("damage", ["mangled", "lost"])
def test_what_is_no_day_lies_in_no_partition_and_is_compared(pair: LivePair, damage: str) -> None:
    filled = "(1, '2026-01-01', 'a'), (2, NULL, 'b'), (3, '0000-00-00', 'c'), (4, '2026-02-00', 'd'), (5, '0000-00-00', 'e')"
    for side in SIDES:
        with tables.writing(getattr(pair, side)) as session:
            session.execute("SET SESSION sql_mode = ''")
            session.execute(f"DROP TABLE IF EXISTS days_{side}")
            session.execute(f"CREATE TABLE days_{side} (id INT PRIMARY KEY, d DATE NULL, v VARCHAR(9))")
            session.execute(f"INSERT INTO days_{side} VALUES {filled}")
            if side == "target" and damage == "lost":
                session.execute("DELETE FROM days_target WHERE id = 4")
            elif side == "target":
                session.execute("UPDATE days_target SET v = 'x' WHERE id = 4")
    for more in ({}, AGAIN):
        report = between(pair, "days_source", "days_target", partition={"column": "d"}, **more)
        expected = (Verdict.MISMATCH, 1, 0, 0) if damage == "lost" else (Verdict.MISMATCH, 0, 0, 1)
        assert counts(report) == expected, report.reasons
        assert report.differences and [one.key for one in report.differences.named] == [{"id": "4"}]


ENDLESS = [(native, unit) for native in ("TIMESTAMP", "TIMESTAMPTZ") for unit in ("hour", "day", "month")] + [
    ("DATE", "day"),
    ("DATE", "month"),
]


@pytest.mark.parametrize("pair", pair_params("postgres", "duckdb"), indirect=True)
@pytest.mark.parametrize(("native", "unit"), ENDLESS)
def test_infinity_lies_in_no_partition_and_is_compared(pair: LivePair, native: str, unit: str) -> None:
    filled = "(1, '2026-01-01', 'a'), (2, NULL, 'b'), (3, 'infinity', 'c'), (4, '-infinity', 'd')"
    for side, text in zip(SIDES, ("d", "x"), strict=True):
        create = f"CREATE TABLE endless_{side} (id INT PRIMARY KEY, moment {native}, v VARCHAR(9))"
        insert = f"INSERT INTO endless_{side} VALUES {filled}"
        update = f"UPDATE endless_{side} SET v = '{text}' WHERE id = 4"
        tables.execute(getattr(pair, side), f"DROP TABLE IF EXISTS endless_{side}", create, insert, update)
    report = between(pair, "endless_source", "endless_target", partition={"column": "moment", "unit": unit}, **AGAIN)
    assert counts(report) == (Verdict.MISMATCH, 0, 0, 1), report.reasons


@pytest.mark.duckdb
@pytest.mark.parametrize("partition", [{"buckets": 4}, {"size": 16}], ids=["hash", "range"])
@pytest.mark.parametrize("snapshot", ["whole", "per_chunk"])
def test_a_list_that_misses_rows_makes_nothing_equal(
    tmp_path: Path, partition: dict[str, int], snapshot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every list lacks the very rows that differ: what it shows is equal on both sides, and is not believed."""
    listed = rows.Fetcher.by_partition

    def short(self: rows.Fetcher, partitions: Sequence[int], texts: bool = False) -> Any:
        return (row for row in listed(self, partitions, texts) if int(row.key[0] or 0) % 2)

    monkeypatch.setattr(rows.Fetcher, "by_partition", short)
    filled = "INSERT INTO t SELECT i, 'row ' || i FROM range(64) r(i)"
    spoiled = "UPDATE t SET v = 'x' WHERE id % 2 = 0"
    ddl = "CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR)"
    report = audited(tmp_path, ddl, [filled], [filled, spoiled], partition=partition, snapshot=snapshot, t=1)
    assert report.verdict is Verdict.UNKNOWN and report.exit_code == 3, report.reasons
    assert report.differences and report.differences.unaccounted == 4 and not report.differences.exact
    assert "do not account for it" in " ".join(report.reasons)


@pytest.mark.parametrize("pair", pair_params("postgres"), indirect=True)
@pytest.mark.parametrize("partition", [{"buckets": 4}, {"size": 16}], ids=["hash", "range"])
@pytest.mark.parametrize("keys", ["id % 2 = 0", "id >= 0"], ids=["some", "all"])
def test_what_was_deleted_after_the_scan_differs_no_longer(
    pair: LivePair, partition: dict[str, int], keys: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a snapshot a chunk: lists of fewer rows than were scanned are believed once a second summary says the same."""
    for side, text in zip(SIDES, ("v", "x"), strict=True):
        texts = f"CASE WHEN i % 2 = 0 THEN '{text}' ELSE 'v' END AS v"
        filled = f"CREATE TABLE purged_{side} AS SELECT i AS id, {texts} FROM GENERATE_SERIES(1, 64) i"
        tables.execute(getattr(pair, side), f"DROP TABLE IF EXISTS purged_{side}", filled)
    begin = Reading.begin

    def purged(reading: Reading) -> None:
        for side in SIDES:
            tables.execute(getattr(pair, side), f"DELETE FROM purged_{side} WHERE {keys}")
        begin(reading)

    monkeypatch.setattr(Reading, "begin", purged)
    report = between(pair, "purged_source", "purged_target", key=["id"], partition=partition, t=1, snapshot="per_chunk")
    assert report.verdict is Verdict.MATCH, report.reasons
    assert report.differences and report.differences.vanished and not report.differences.unaccounted


# keys that a side cannot hold

UUIDS = ["6b1f0c2e-3a4d-4c5b-8d6e-7f8091a2b3c4", "not-a-uuid", "", "6B1F0C2E3A4D4C5B8D6E7F8091A2B3C5"]
NUMBERS = ["5", "05", "five", "1) OR (1 = 1", "99999999999999999999999999", "9223372036854775808", "-0", "+5", "5.0", ""]
DATES = ["2026-01-31", "2026-02-30", "0000-01-01", "2026-1-1", "never", ""]
FOREIGN = [(Kind("uuid"), UUIDS), (Kind("integer"), NUMBERS), (Kind("date"), DATES)]


@pytest.mark.parametrize("pair", ring_params(), indirect=True)
@pytest.mark.parametrize(("kind", "texts"), FOREIGN, ids=["uuid", "integer", "date"])
def test_a_key_that_the_other_side_cannot_hold_is_missing_there(pair: LivePair, kind: Kind, texts: Sequence[str]) -> None:
    """Texts that are none of the other side's values are read as no literals; the first alone is there too."""
    first = {"uuid": texts[0], "integer": 5, "date": dt.date(2026, 1, 31)}[kind.name]
    tables.make(pair.source, "foreign_source", [("k", Kind("text")), ("v", Kind("text"))], [(text, "x") for text in texts])
    tables.make(pair.target, "foreign_target", [("k", kind), ("v", Kind("text"))], [(first, "y")])
    for more in ({}, AGAIN):
        report = between(pair, "foreign_source", "foreign_target", key=["k"], **more)
        assert counts(report) == (Verdict.MISMATCH, len(texts) - 1, 0, 1), report.reasons


@pytest.mark.parametrize("pair", pair_params("mysql", "mariadb"), indirect=True)
def test_zero_dates_in_a_key_are_found_again_where_they_are(pair: LivePair) -> None:
    for side in SIDES:
        with tables.writing(getattr(pair, side)) as session:
            session.execute("SET SESSION sql_mode = ''")
            session.execute(f"DROP TABLE IF EXISTS zeros_{side}")
            session.execute(f"CREATE TABLE zeros_{side} (d DATE, n INT, v VARCHAR(9), PRIMARY KEY (d, n))")
            session.execute(f"INSERT INTO zeros_{side} VALUES ('2026-01-01', 1, 'a'), ('0000-00-00', 1, 'b'), ('2026-02-00', 2, 'c')")
            if side == "target":
                session.execute("UPDATE zeros_target SET v = 'x' WHERE n = 1")
    report = between(pair, "zeros_source", "zeros_target", key=["d", "n"], **AGAIN)
    assert counts(report) == (Verdict.MISMATCH, 0, 0, 2), report.reasons


@pytest.mark.parametrize("engine", engine_params("postgres", "duckdb", "redshift", "spark"), indirect=True)
def test_days_that_are_none_are_asked_for_as_texts(engine: LiveEngine) -> None:
    """As MySQL's zero dates come to an engine that refuses them even as a literal; the days beside them are found as ever."""
    tables.make(engine, "nodays", [("d", Kind("date")), ("v", Kind("text"))], [(dt.date(2026, 1, 31), "x"), (None, "y")])
    ends = {side: {"connection": side, "table": "nodays"} for side in SIDES}
    keys: list[tuple[str | None]] = [("0000-00-00",), ("2026-02-00",), ("2026-01-31",), (None,)]
    with planned(LivePair(engine, engine), Audit.model_validate({**ends, "key": ["d"]})) as (plan, sides):
        found = [row.key for row, _ in rows.Fetcher(plan, "source", sides["source"], 200).again(keys, "")]
        assert sorted(found, key=str) == [("2026-01-31",), (None,)]
