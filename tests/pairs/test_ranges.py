"""Ranges of lost rows and rows outside every partition are compared again; a condition that misses them never makes tables equal."""

from __future__ import annotations

import csv
import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor.config import Audit, ConnectionSettings
from auditor.connections.reader import Reader
from auditor.model import SIDES, RangeDifference, Report, Verdict
from auditor.report import difference_rows
from auditor.run import audit_run, fetch
from dialects import Kind
from tests import tables
from tests.audits import open_plan
from tests.live import LiveEngine, LivePair, engine_params, pair_params

pytestmark = pytest.mark.engines_in_turn

AGAIN = {"recheck": {"times": 1, "wait": "1ms"}}
SETTLED = {"settle": {"column": "moved", "lag": "1m"}}


def run_duckdb_audit(folder: Path, ddl: str, source: Sequence[str], target: Sequence[str], **audit: Any) -> Report:
    """Create two DuckDB tables by ``ddl``, fill each by its statements, and return the report of an audit."""
    for side, statements in zip(SIDES, (source, target), strict=True):
        with duckdb.connect(str(folder / f"{side}.duckdb")) as connection:
            for statement in (ddl, *statements):
                connection.execute(statement)
    return audit_run.run(
        "t", _make_audit("t", "t", audit), {side: ConnectionSettings(url=f"duckdb:///{folder}/{side}.duckdb") for side in SIDES}
    )


def run_pair_audit(pair: LivePair, source: str, target: str, **audit: Any) -> Report:
    """Audit two tables on two live engines and return the report."""
    return audit_run.run("t", _make_audit(source, target, audit), {side: ConnectionSettings(url=getattr(pair, side).url) for side in SIDES})


def _make_audit(source: str, target: str, audit: Mapping[str, Any]) -> Audit:
    ends = {"source": {"connection": "source", "table": source}, "target": {"connection": "target", "table": target}}
    return Audit.model_validate({**ends, **audit})


def counts(report: Report) -> tuple[Verdict, int, int, int]:
    assert report.differences is not None, report.reasons
    return report.verdict, report.differences.missing, report.differences.extra, report.differences.changed


# partitions that are missing on one side

DAYS = "CREATE TABLE t (id BIGINT PRIMARY KEY, day TIMESTAMP, moved TIMESTAMP)"
FALLING = "INSERT INTO t SELECT 1000 - i, TIMESTAMP '2026-01-01' + INTERVAL (i // 10) DAY, '2026-01-01' FROM range(100) r(i)"


@pytest.mark.duckdb
@pytest.mark.parametrize("more", [AGAIN, SETTLED, {**AGAIN, **SETTLED}], ids=["recheck", "settle", "both"])
def test_days_missing_in_the_target_stay_missing_after_a_recheck(tmp_path: Path, more: dict[str, Any]) -> None:
    """Keys descend with time: the greatest key of the last missing day is less than the least key of the first."""
    delete = "DELETE FROM t WHERE day >= '2026-01-09'"
    report = run_duckdb_audit(tmp_path, DAYS, [FALLING], [FALLING, delete], partition={"column": "day"}, **more)
    assert counts(report) == (Verdict.MISMATCH, 20, 0, 0), report.reasons
    assert report.differences is not None
    [span] = report.differences.ranges
    assert (span.first, span.last, span.label, span.rows, span.partitions) == (None, None, "2026-01-09 to 2026-01-10", 20, 2)


@pytest.mark.duckdb
@pytest.mark.parametrize("more", [AGAIN, SETTLED], ids=["recheck", "settle"])
def test_buckets_missing_in_the_target_stay_missing_after_a_recheck(tmp_path: Path, more: dict[str, Any]) -> None:
    report = run_duckdb_audit(tmp_path, DAYS, ["INSERT INTO t (id) VALUES (900000000), (5)"], [], partition={"buckets": 2}, **more)
    assert counts(report) == (Verdict.MISMATCH, 2, 0, 0), report.reasons


@pytest.mark.duckdb
def test_rows_of_missing_buckets_are_counted_once(tmp_path: Path) -> None:
    """The keys of a missing bucket interleave with those of other buckets, some of which have single differences."""
    rows = "INSERT INTO t (id) SELECT i * 1000003 FROM range(40) r(i)"
    delete = "DELETE FROM t WHERE id % 3 <> 0"
    report = run_duckdb_audit(tmp_path, DAYS, [rows], [rows, delete], partition={"buckets": 24}, limits={"max_rows_listed": 0}, **AGAIN)
    assert counts(report) == (Verdict.MISMATCH, 26, 0, 0), report.reasons
    assert report.differences is not None and report.differences.ranges, "at least one whole bucket must be missing"
    assert report.differences.cleared == report.differences.unsettled == 0


@pytest.mark.slow
@pytest.mark.duckdb
def test_missing_smaller_partitions_of_a_second_scan_stay_missing(tmp_path: Path) -> None:
    """Small tables whose only bucket is split: some smaller partitions are missing entirely and are numbered differently."""
    ddl, pieces = "CREATE TABLE t (k VARCHAR PRIMARY KEY, v VARCHAR)", 0
    for seed in range(10):
        folder = tmp_path / str(seed)
        folder.mkdir()
        fill = f"INSERT INTO t SELECT 'k' || hash(i * 1000 + {seed}), 'v' FROM range(5) r(i)"
        delete = f"DELETE FROM t WHERE k IN (SELECT 'k' || hash(i * 1000 + {seed}) FROM range(2) r(i))"
        report = run_duckdb_audit(folder, ddl, [fill], [fill, delete], t=1, salt="", **AGAIN)
        assert counts(report) == (Verdict.MISMATCH, 2, 0, 0), (seed, report.reasons)
        assert report.differences is not None and report.plan
        pieces += report.differences.partitions["one_sided"]
        assert len(report.differences.named) == 2 and not report.differences.ranges
    assert pieces, "no smaller partition was missing entirely"


@pytest.mark.duckdb
@pytest.mark.parametrize("condition", ["1 = 0", "id < 0"])
def test_range_is_unsettled_if_its_condition_finds_no_rows(tmp_path: Path, condition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong_condition(_: fetch.Fetcher, __: RangeDifference) -> str:
        return condition

    monkeypatch.setattr(fetch.Fetcher, "range_condition", wrong_condition)
    report = run_duckdb_audit(tmp_path, DAYS, [FALLING], [FALLING, "DELETE FROM t WHERE id > 950"], partition={"size": 10}, **AGAIN)
    assert report.verdict is Verdict.UNKNOWN, report.reasons
    assert report.differences is not None and report.differences.unsettled == 50


# rows that are named by their keys, because a range would not say which they are

TEXTS = "CREATE TABLE t (k VARCHAR PRIMARY KEY, v VARCHAR)"
FILLED = "INSERT INTO t SELECT 'k' || i, 'v' FROM range(40) r(i)"


def csv_keys(report: Report, name: str = "k") -> list[str]:
    """Return the key of each difference, as CSV has it."""
    assert report.differences is not None
    lines = difference_rows.csv_lines(difference_rows.as_differences(report.differences), [name])
    return [line[name] for line in csv.DictReader(lines)]


@pytest.mark.duckdb
@pytest.mark.parametrize("more", [{}, AGAIN], ids=["once", "recheck"])
def test_rows_of_buckets_that_one_side_lacks_are_named_by_their_keys(tmp_path: Path, more: dict[str, Any]) -> None:
    """The number of a bucket says nothing of which rows lie in it."""
    extra = [f"x{i}" for i in range(17)]
    fill = "INSERT INTO t SELECT 'x' || i, 'new' FROM range(17) r(i)"
    report = run_duckdb_audit(tmp_path, TEXTS, [FILLED], [FILLED, fill], partition={"buckets": 512}, **more)
    assert counts(report) == (Verdict.MISMATCH, 0, 17, 0), report.reasons
    assert csv_keys(report) == sorted(extra), "in the order of keys"
    assert report.differences and not report.differences.ranges and report.differences.exact
    assert report.jaccard and report.jaccard.least == report.jaccard.most == 40 / 57


@pytest.mark.duckdb
def test_buckets_beyond_the_limits_stay_ranges(tmp_path: Path) -> None:
    report = run_duckdb_audit(
        tmp_path, TEXTS, [FILLED], [FILLED, "DELETE FROM t WHERE k > 'k2'"], partition={"buckets": 512}, limits={"max_differences": 5}
    )
    assert report.differences is not None and (report.differences.missing, report.differences.exact) == (27, True)
    assert len(report.differences.named) == 5 and sum(span.rows for span in report.differences.ranges) == 22


@pytest.mark.duckdb
def test_all_rows_of_a_table_are_said_to_be_all(tmp_path: Path) -> None:
    report = run_duckdb_audit(tmp_path, TEXTS, [FILLED], [], partition={"buckets": 8})
    assert report.differences is not None
    assert [(span.label, span.rows) for span in report.differences.ranges] == [("all rows", 40)]
    assert counts(report) == (Verdict.MISMATCH, 40, 0, 0)


@pytest.mark.duckdb
@pytest.mark.parametrize("partition", [{"size": 8}, {"buckets": 64}, {"column": "day"}], ids=["range", "hash", "time"])
def test_a_partition_of_a_single_row_names_its_key(tmp_path: Path, partition: dict[str, Any]) -> None:
    fill = "INSERT INTO t VALUES (5, '2026-02-01', NULL), (900, '2026-02-02', NULL)"
    report = run_duckdb_audit(tmp_path, DAYS, [fill], [fill, "DELETE FROM t WHERE id = 900"], partition=partition)
    assert counts(report) == (Verdict.MISMATCH, 1, 0, 0), report.reasons
    assert report.differences is not None and not report.differences.ranges
    assert [(one.kind, one.key) for one in report.differences.named] == [("missing", {"id": "900"})]


@pytest.mark.duckdb
@pytest.mark.parametrize(("key", "partition"), [(["a"], {"size": 4}), (["a", "b"], {"buckets": 4})], ids=["range", "hash"])
def test_a_changed_row_without_a_key_has_columns(tmp_path: Path, key: list[str], partition: dict[str, Any]) -> None:
    ddl = "CREATE TABLE t (a BIGINT, b VARCHAR, v VARCHAR)"
    same = "INSERT INTO t SELECT i, 'b', 'v' FROM range(20) r(i)"
    source, target = ([same, f"INSERT INTO t VALUES (NULL, 'x', '{value}')"] for value in ("old", "new"))
    report = run_duckdb_audit(tmp_path, ddl, source, target, key=key, partition=partition)
    assert counts(report) == (Verdict.MISMATCH, 0, 0, 1), report.reasons
    assert report.differences is not None
    [one] = report.differences.named
    assert one.key["a"] is None and [(c.name, c.source, c.target) for c in one.columns] == [("v", "old", "new")]


@pytest.mark.duckdb
@pytest.mark.parametrize("more", [{}, AGAIN], ids=["once", "recheck"])
def test_long_values_are_explained_and_shown_around_their_difference(tmp_path: Path, more: dict[str, Any]) -> None:
    """What explains a change is sought in the values before they are shortened."""
    fill = "INSERT INTO t SELECT 'k' || i, repeat('a', 1000 + i) || 'end' FROM range(20) r(i)"
    cut = "INSERT INTO t SELECT 'k' || i, left(repeat('a', 1000 + i) || 'end', 900) FROM range(20) r(i)"
    report = run_duckdb_audit(tmp_path, TEXTS, [fill], [cut], limits={"value_length": 20}, **more)
    assert counts(report) == (Verdict.MISMATCH, 0, 0, 20), report.reasons
    assert "v: all 20 are the source's cut to 900 characters" in report.reasons
    assert report.differences is not None
    [column] = report.differences.named[0].columns
    assert (column.source, column.target) == ("...aaaaaaaaaaaaaaaaaaaa... (1,003 characters)", "...aaaaaaaaaa (900 characters)")


# rows outside every partition


@pytest.mark.parametrize("pair", pair_params("mysql", "mariadb"), indirect=True)
@pytest.mark.parametrize("damage", ["mangled", "lost"])
@pytest.mark.few
def test_invalid_dates_outside_every_partition_are_compared(pair: LivePair, damage: str) -> None:
    rows = "(1, '2026-01-01', 'a'), (2, NULL, 'b'), (3, '0000-00-00', 'c'), (4, '2026-02-00', 'd'), (5, '0000-00-00', 'e')"
    for side in SIDES:
        with tables.open_writable(getattr(pair, side)) as session:
            session.execute("SET SESSION sql_mode = ''")
            session.execute(f"DROP TABLE IF EXISTS days_{side}")
            session.execute(f"CREATE TABLE days_{side} (id INT PRIMARY KEY, d DATE NULL, v VARCHAR(9))")
            session.execute(f"INSERT INTO days_{side} VALUES {rows}")
            if side == "target" and damage == "lost":
                session.execute("DELETE FROM days_target WHERE id = 4")
            elif side == "target":
                session.execute("UPDATE days_target SET v = 'x' WHERE id = 4")
    for more in ({}, AGAIN):
        report = run_pair_audit(pair, "days_source", "days_target", partition={"column": "d"}, **more)
        expected = (Verdict.MISMATCH, 1, 0, 0) if damage == "lost" else (Verdict.MISMATCH, 0, 0, 1)
        assert counts(report) == expected, report.reasons
        assert report.differences is not None and [one.key for one in report.differences.named] == [{"id": "4"}]


ENDLESS = [(native, unit) for native in ("TIMESTAMP", "TIMESTAMPTZ") for unit in ("hour", "day", "month")] + [
    ("DATE", "day"),
    ("DATE", "month"),
]


@pytest.mark.parametrize("pair", pair_params("postgres", "duckdb"), indirect=True)
@pytest.mark.parametrize(("native", "unit"), ENDLESS)
@pytest.mark.few
def test_infinite_times_outside_every_partition_are_compared(pair: LivePair, native: str, unit: str) -> None:
    rows = "(1, '2026-01-01', 'a'), (2, NULL, 'b'), (3, 'infinity', 'c'), (4, '-infinity', 'd')"
    for side, text in zip(SIDES, ("d", "x"), strict=True):
        create = f"CREATE TABLE endless_{side} (id INT PRIMARY KEY, moment {native}, v VARCHAR(9))"
        insert = f"INSERT INTO endless_{side} VALUES {rows}"
        update = f"UPDATE endless_{side} SET v = '{text}' WHERE id = 4"
        tables.execute(getattr(pair, side), f"DROP TABLE IF EXISTS endless_{side}", create, insert, update)
    report = run_pair_audit(pair, "endless_source", "endless_target", partition={"column": "moment", "unit": unit}, **AGAIN)
    assert counts(report) == (Verdict.MISMATCH, 0, 0, 1), report.reasons


@pytest.mark.duckdb
@pytest.mark.parametrize("partition", [{"buckets": 4}, {"size": 16}], ids=["hash", "range"])
@pytest.mark.parametrize("snapshot", ["whole", "per_chunk"])
def test_listing_that_omits_rows_never_makes_tables_equal(
    tmp_path: Path, partition: dict[str, int], snapshot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every listing omits exactly the rows that differ; the listed rows are equal, but do not account for the mismatch."""
    by_partition = fetch.Fetcher.by_partition

    def omit_even_keys(self: fetch.Fetcher, partitions: Sequence[int], texts: bool = False, expected: int = 0) -> Any:
        return (row for row in by_partition(self, partitions, texts, expected) if int(row.key[0] or 0) % 2)

    monkeypatch.setattr(fetch.Fetcher, "by_partition", omit_even_keys)
    fill = "INSERT INTO t SELECT i, 'row ' || i FROM range(64) r(i)"
    change = "UPDATE t SET v = 'x' WHERE id % 2 = 0"
    ddl = "CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR)"
    report = run_duckdb_audit(tmp_path, ddl, [fill], [fill, change], partition=partition, snapshot=snapshot, t=1, salt="")
    assert report.verdict is Verdict.UNKNOWN and report.exit_code == 3, report.reasons
    assert report.differences is not None and report.differences.unaccounted == 4 and not report.differences.exact
    assert "do not account for it" in " ".join(report.reasons)


@pytest.mark.parametrize("pair", pair_params("postgres"), indirect=True)
@pytest.mark.parametrize("partition", [{"buckets": 4}, {"size": 16}], ids=["hash", "range"])
@pytest.mark.parametrize("keys", ["id % 2 = 0", "id >= 0"], ids=["some", "all"])
def test_rows_deleted_after_the_scan_no_longer_differ(
    pair: LivePair, partition: dict[str, int], keys: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a snapshot per chunk, a listing with fewer rows than were scanned is accepted once a second summary confirms it."""
    for side, text in zip(SIDES, ("v", "x"), strict=True):
        texts = f"CASE WHEN i % 2 = 0 THEN '{text}' ELSE 'v' END AS v"
        create = f"CREATE TABLE purged_{side} AS SELECT i AS id, {texts} FROM GENERATE_SERIES(1, 64) i"
        tables.execute(getattr(pair, side), f"DROP TABLE IF EXISTS purged_{side}", create)
    begin_snapshots = Reader.begin_snapshots

    def delete_and_begin(reader: Reader) -> None:
        for side in SIDES:
            tables.execute(getattr(pair, side), f"DELETE FROM purged_{side} WHERE {keys}")
        begin_snapshots(reader)

    monkeypatch.setattr(Reader, "begin_snapshots", delete_and_begin)
    report = run_pair_audit(pair, "purged_source", "purged_target", key=["id"], partition=partition, t=1, snapshot="per_chunk")
    assert report.verdict is Verdict.MATCH, report.reasons
    assert report.differences is not None and report.differences.vanished and not report.differences.unaccounted


# keys that one side cannot store

UUIDS = ["6b1f0c2e-3a4d-4c5b-8d6e-7f8091a2b3c4", "not-a-uuid", "", "6B1F0C2E3A4D4C5B8D6E7F8091A2B3C5"]
NUMBERS = ["5", "05", "five", "1) OR (1 = 1", "99999999999999999999999999", "9223372036854775808", "-0", "+5", "5.0", ""]
DATES = ["2026-01-31", "2026-02-30", "0000-01-01", "2026-1-1", "never", ""]
FOREIGN = [(Kind("uuid"), UUIDS), (Kind("integer"), NUMBERS), (Kind("date"), DATES)]


@pytest.mark.quick_for("mariadb-postgres-integer", "duckdb-mysql-date", "postgres-duckdb-uuid")
@pytest.mark.slow_on("spark")
@pytest.mark.parametrize(("kind", "texts"), FOREIGN, ids=["uuid", "integer", "date"])
@pytest.mark.few
def test_key_that_the_other_side_cannot_store_is_missing_there(pair: LivePair, kind: Kind, texts: Sequence[str]) -> None:
    """Texts that are not valid values of the other side's type are not sent as its literals; only the first key exists on both sides."""
    first = {"uuid": texts[0], "integer": 5, "date": dt.date(2026, 1, 31)}[kind.name]
    source = tables.shared_table(pair.source, [("k", Kind("text")), ("v", Kind("text"))], [(text, "x") for text in texts])
    target = tables.shared_table(pair.target, [("k", kind), ("v", Kind("text"))], [(first, "y")])
    for more in ({}, AGAIN):
        report = run_pair_audit(pair, source, target, key=["k"], **more)
        assert counts(report) == (Verdict.MISMATCH, len(texts) - 1, 0, 1), report.reasons


@pytest.mark.parametrize("pair", pair_params("mysql", "mariadb"), indirect=True)
def test_rows_with_zero_dates_in_their_key_are_refetched(pair: LivePair) -> None:
    for side in SIDES:
        with tables.open_writable(getattr(pair, side)) as session:
            session.execute("SET SESSION sql_mode = ''")
            session.execute(f"DROP TABLE IF EXISTS zeros_{side}")
            session.execute(f"CREATE TABLE zeros_{side} (d DATE, n INT, v VARCHAR(9), PRIMARY KEY (d, n))")
            session.execute(f"INSERT INTO zeros_{side} VALUES ('2026-01-01', 1, 'a'), ('0000-00-00', 1, 'b'), ('2026-02-00', 2, 'c')")
            if side == "target":
                session.execute("UPDATE zeros_target SET v = 'x' WHERE n = 1")
    report = run_pair_audit(pair, "zeros_source", "zeros_target", key=["d", "n"], **AGAIN)
    assert counts(report) == (Verdict.MISMATCH, 0, 0, 2), report.reasons


@pytest.mark.parametrize("engine", engine_params("postgres", "duckdb", "redshift", "spark"), indirect=True)
def test_invalid_dates_are_fetched_as_texts(engine: LiveEngine) -> None:
    """MySQL's zero dates as keys on an engine that rejects them even as literals; valid dates in the same list are found."""
    tables.make(engine, "nodays", [("d", Kind("date")), ("v", Kind("text"))], [(dt.date(2026, 1, 31), "x"), (None, "y")])
    ends = {side: {"connection": side, "table": "nodays"} for side in SIDES}
    keys: list[tuple[str | None]] = [("0000-00-00",), ("2026-02-00",), ("2026-01-31",), (None,)]
    with open_plan(LivePair(engine, engine), Audit.model_validate({**ends, "key": ["d"]})) as (plan, sides):
        found = [row.key for row, _ in fetch.Fetcher(plan, "source", sides["source"], 200).by_canonical_key(keys, "")]
        assert sorted(found, key=str) == [("2026-01-31",), (None,)]
