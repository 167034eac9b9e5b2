"""Tables as other tools keep them, on live engines: an undamaged one matches, and of a damaged one exactly the damaged rows are named."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

import auditor
from auditor import Report, Verdict, conventions, service
from auditor.config import validate_settings
from auditor.conventions import Convention, Mark, TypeMapping
from auditor.history.stored_plan import dump_plan, load_plan
from auditor.model import Difference
from dialects import Kind
from tests import tables
from tests.live import LivePair, chosen_pairs

SOURCE, TARGET = "convention_orders", "convention_orders_copy"
BASE = (("id", Kind("integer")), ("customerName", Kind("text")), ("amount", Kind("decimal", 10, 2)))
WRITTEN = (("id", Kind("integer")), ("customer_name", Kind("text")), ("amount", Kind("decimal", 10, 2)))

ROWS = {number: (f"customer {number}", Decimal(number) / 4) for number in range(1, 61)}
DELETED = {number: (f"customer {number}", Decimal(number)) for number in (101, 102, 103)}
UPDATED = range(1, 21)
"""Keys that have an older version."""

DAY = dt.datetime(2026, 3, 1, 12)


@dataclass
class Kept:
    """One row of a key, as a tool keeps it."""

    values: tuple[str, Decimal]
    version: int = 1
    deleted: bool = False
    closed: bool = False


def kept_by(known: Convention) -> dict[int, list[Kept]]:
    """Return the rows that a tool keeps, by key: with older versions and deleted rows as far as it keeps them."""
    kept = {number: [Kept(values, version=2)] for number, values in ROWS.items()}
    if known.versions or known.current:
        for number in UPDATED:
            kept[number].insert(0, Kept(("before", Decimal(0)), closed=True))
    if known.deleted or known.current:
        kept |= {number: [Kept(values, version=2, deleted=True, closed=True)] for number, values in DELETED.items()}
    return kept


def damage(known: Convention, kept: dict[int, list[Kept]]) -> set[tuple[str, str]]:
    """Damage a tool's table in each way, and return the differences that it then has."""
    flags = bool(known.deleted or known.current)
    del kept[5]  # missing
    last = kept[7][-1]
    kept[7] = [Kept(("before", Decimal(0)), version=1)]  # stale: its last version never arrived
    kept[9][-1] = Kept(("wrong", last.values[1]), version=2)
    if flags:
        kept[11][-1] = Kept(ROWS[11], version=2, deleted=True, closed=True)
        kept[101][-1] = Kept(DELETED[101], version=2)  # deleted in the source, and not flagged
    else:
        del kept[11]
        kept[101] = [Kept(DELETED[101], version=2)]
    kept[13].append(kept[13][-1])  # twice the latest version
    return {("missing", "5"), ("changed", "7"), ("changed", "9"), ("missing", "11"), ("extra", "101"), ("extra", "13")}


def of_mark(mark: Mark, is_marked: bool) -> tuple[Kind, Any]:
    """Return the type of a mark's column, and its value of a row that has the mark, or has not."""
    if mark.filled is not None:
        return Kind("timestamp", scale=6), DAY if is_marked == mark.filled else None
    if mark.value != "true":
        return Kind("text"), mark.value if is_marked else "u"
    return (Kind("text"), str(is_marked).lower()) if mark.column == "__deleted" else (Kind("boolean"), is_marked)


def of_version(name: str, version: int) -> tuple[Kind, Any]:
    """Return the type of a column of versions, and its value."""
    if name.endswith("_at"):
        return Kind("timestamp", scale=6), DAY + dt.timedelta(seconds=version)
    return (Kind("text"), f"1772366400.{version}") if name == "_dlt_load_id" else (Kind("integer"), 1000 + version)


def own_columns(known: Convention, row: Kept) -> dict[str, tuple[Kind, Any]]:
    """Return the tool's own columns of a row."""
    own: dict[str, tuple[Kind, Any]] = {}
    for group in known.needs:
        own[group[0]] = (Kind("text"), "a")
    for mark in known.deleted[:1]:
        own[mark.column] = of_mark(mark, row.deleted)
    if known.current:
        own[known.current.column] = of_mark(known.current, not row.closed)
    for name in known.versions[-1:] if known.name == "airbyte-append" else known.versions[:2]:
        own[name] = of_version(name, row.version)
    return own


def make_target(pair: LivePair, known: Convention, kept: Mapping[int, Sequence[Kept]]) -> None:
    columns = (*WRITTEN, *((name, kind) for name, (kind, _) in own_columns(known, Kept(("", Decimal(0)))).items()))
    rows = [
        (number, *row.values, *(value for _, value in own_columns(known, row).values())) for number, each in kept.items() for row in each
    ]
    tables.make(pair.target, TARGET, columns, rows)


@pytest.fixture
def source(pair: LivePair) -> Iterator[LivePair]:
    tables.make(pair.source, SOURCE, BASE, [(number, *values) for number, values in ROWS.items()], ["id"])
    yield pair
    tables.execute(pair.source, f"DROP TABLE {SOURCE}")


def compare(pair: LivePair, convention: Any, **options: Any) -> Report:
    try:
        return auditor.audit((pair.source.url, SOURCE), (pair.target.url, TARGET), convention=convention, **options)
    finally:
        tables.execute(pair.target, f"DROP TABLE {TARGET}")


def named(report: Report) -> set[tuple[str, str]]:
    assert report.differences is not None, report.reasons
    assert not report.differences.ranges
    return {(difference.kind, next(iter(difference.key.values())) or "") for difference in report.differences.named}


ENGINES = chosen_pairs("mysql-postgres", "mariadb-duckdb", "mysql-redshift")


@pytest.mark.slow_on("mariadb")
@pytest.mark.few
@pytest.mark.parametrize("pair", ENGINES, indirect=True)
@pytest.mark.parametrize("name", conventions.NAMES)
def test_undamaged_table_matches_and_damaged_rows_are_named(source: LivePair, name: str) -> None:
    known = conventions.by_name(name)
    kept = kept_by(known)
    make_target(source, known, kept)
    report = compare(source, name)
    assert report.verdict is Verdict.MATCH, report.reasons
    assert report.plan
    follows = report.plan.sides["target"].follows
    assert follows
    older, deleted = len(UPDATED) if known.versions or known.current else 0, len(DELETED)
    assert (follows.not_current_rows or 0) == older + (deleted if known.current else 0)
    assert (follows.flagged_rows or 0) == (deleted if known.deleted else 0)
    hides = bool(known.deleted or known.current)
    assert any("the source has none of them" in reason for reason in report.reasons) is hides

    expected = damage(known, kept)
    make_target(source, known, kept)
    report = compare(source, name)
    assert report.verdict is Verdict.MISMATCH
    assert named(report) == expected
    assert any("the source has 1 of them (key 11)" in reason for reason in report.reasons) is hides
    ties = [reason for reason in report.reasons if "1 key has several rows of the latest version" in reason]
    assert bool(ties) is bool(known.versions)


@pytest.mark.few
@pytest.mark.parametrize("pair", ENGINES, indirect=True)
@pytest.mark.parametrize("method", ["signature", "counts", "minhash"])
def test_other_methods_compare_the_same_rows(source: LivePair, method: str) -> None:
    known = conventions.by_name("debezium-append")
    kept = kept_by(known)
    make_target(source, known, kept)
    assert compare(source, known.name, method=method).verdict is Verdict.MATCH
    damage(known, kept)
    make_target(source, known, kept)
    report = compare(source, known.name, method=method)
    assert report.verdict is Verdict.MISMATCH
    assert any(f"is not known, as the method {method} names no rows" in reason for reason in report.reasons)


@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres"), indirect=True)
def test_own_convention_states_its_parts(source: LivePair) -> None:
    columns = (*WRITTEN, ("status", Kind("text")), ("changed", Kind("integer")), ("etl_run", Kind("integer")))
    rows: list[tuple[Any, ...]] = [(number, *values, "live", 5, 1) for number, values in ROWS.items()]
    rows += [(number, "before", Decimal(0), "live", None, 1) for number in UPDATED]  # without a version: the oldest
    rows += [(number, *values, "gone", 6, 1) for number, values in {**DELETED, 30: ROWS[30]}.items()]
    stated = {"deleted": {"column": "status", "value": "gone"}, "versions": ["changed"], "metadata": ["etl_*", "status", "changed"]}
    tables.make(source.target, TARGET, columns, rows)
    report = compare(source, stated)
    assert named(report) == {("missing", "30")}
    assert "4 rows of the target are flagged as deleted (status is gone); the source has 1 of them (key 30)" in report.reasons
    assert report.plan
    left_out = {(entry.column, entry.what) for entry in report.plan.not_compared if entry.side == "target"}
    assert ("etl_run", "kept by the convention own") in left_out
    assert ("", "21 rows are not the current ones of their keys (the greatest changed)") in left_out


@pytest.mark.parametrize("pair", chosen_pairs("duckdb-postgres"), indirect=True)
def test_versions_of_text_are_in_the_order_of_text_and_the_report_says_so(source: LivePair) -> None:
    columns = [*WRITTEN, ("version", Kind("text"))]
    rows = [(number, *values, version) for number, values in ROWS.items() for version in ("08", "09")]
    tables.make(source.target, TARGET, columns, [*((1, "before", 0, version) for version in ("9", "10")), *rows])
    report = compare(source, {"versions": ["version"], "metadata": ["version"]})
    assert report.plan and named(report) == {("changed", "1")}
    left_out = [entry.what for entry in report.plan.not_compared if entry.side == "target"]
    assert "62 rows are not the current ones of their keys (the greatest version as text)" in left_out, left_out


@pytest.mark.parametrize("pair", chosen_pairs("duckdb-postgres"), indirect=True)
def test_filter_reads_the_latest_version_alone(source: LivePair) -> None:
    """A row of an older version that meets the filter is no row of the key, whose latest version does not meet it."""
    known = conventions.by_name("stitch-append")
    kept = kept_by(known)
    make_target(source, known, kept)
    assert compare(source, known.name, where="customerName = 'before'", allow_empty=True).verdict is Verdict.MATCH


@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres"), indirect=True)
@pytest.mark.parametrize(
    ("convention", "sentence"),
    [
        ("fivetran", "has no column _fivetran_synced, which tables of the convention fivetran have; its columns are those of another"),
        ({"versions": ["changed_at"]}, "has no column 'changed_at', which its convention names"),
        ({"tool": "debezium", "versions": ["__position"]}, "has no column '__position', which its convention names"),
    ],
)
def test_columns_that_are_not_there_are_refused_by_name(source: LivePair, convention: Any, sentence: str) -> None:
    known = conventions.by_name("debezium")
    make_target(source, known, kept_by(known))
    (reason,) = compare(source, convention).reasons
    assert sentence in reason


@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres"), indirect=True)
def test_history_is_not_taken_for_current_rows(source: LivePair) -> None:
    known = conventions.by_name("fivetran-history")
    columns = (*WRITTEN, *((name, Kind("boolean")) for name in ("_fivetran_active", "_fivetran_start", "_fivetran_synced")))
    tables.make(source.target, TARGET, columns, [(number, *values, True, True, True) for number, values in ROWS.items()])
    (reason,) = compare(source, "fivetran").reasons
    assert reason.endswith(f"keeps closed versions, as its column _fivetran_active says; write convention: {known.name}")


TYPED = (
    ("id", Kind("integer")),
    ("paid", Kind("boolean")),
    ("placed", Kind("timestamp", scale=6)),
    ("seen", Kind("timestamp", scale=3)),
    ("day", Kind("date")),
    ("opens", Kind("time", scale=6)),
)
MOMENT = dt.datetime(2026, 3, 1, 4, 5, 6, 120000)
TYPED_ROWS: list[tuple[Any, ...]] = [
    (1, True, MOMENT, MOMENT, MOMENT.date(), MOMENT.time()),
    (2, False, dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(1969, 12, 31), dt.date(1969, 12, 31), dt.time(23, 59, 59)),
    (3, None, None, None, None, None),
]


@pytest.mark.quick_for("True-postgres-duckdb", "False-duckdb-postgres")
@pytest.mark.few
@pytest.mark.parametrize(
    "pair", chosen_pairs("postgres-duckdb", "duckdb-postgres", "postgres-redshift", "redshift-postgres"), indirect=True
)
@pytest.mark.parametrize("as_text", [True, False])
def test_types_that_tools_write_otherwise_are_compared_by_value(pair: LivePair, as_text: bool) -> None:
    """Booleans and times as text, and dates and times as numbers: equal ones match, and a value that is off by one is named."""
    epoch = dt.datetime(1970, 1, 1)

    def written(row: tuple[Any, ...]) -> list[Any]:
        number, paid, placed, seen, day, opens = row
        if paid is None:
            return [number, *[None] * 5]
        if as_text:
            return [number, str(paid).upper(), f"{placed.isoformat()}Z", f"{seen:%Y-%m-%d %H:%M:%S.%f}", day.isoformat(), opens.isoformat()]
        midnight = dt.datetime.combine(epoch, opens)
        unit = dt.timedelta(microseconds=1000 if pair.source.name == "postgres" else 1)  # others have no timestamps of three digits
        micros = (placed - epoch) // dt.timedelta(microseconds=1), (seen - epoch) // unit
        return [number, str(paid).lower(), *micros, (day - epoch.date()).days, (midnight - epoch) // dt.timedelta(microseconds=1)]

    kind = Kind("text") if as_text else Kind("integer")
    columns = [("id", Kind("integer")), ("paid", Kind("text")), *((name, kind) for name, _ in TYPED[2:])]
    types = ["boolean_text", "timestamp_text", "clock_text"] if as_text else ["boolean_text", "epoch", "days", "clock_microseconds"]
    tables.make(pair.source, SOURCE, TYPED, TYPED_ROWS, ["id"])
    rows = [written(row) for row in TYPED_ROWS]
    tables.make(pair.target, TARGET, columns, rows)
    report = compare(pair, {"types": types})
    assert report.verdict is Verdict.MATCH, report.reasons
    for place in range(1, 6):
        wrong = [list(row) for row in rows]
        wrong[0][place] = f"{wrong[0][place]}1" if isinstance(wrong[0][place], str) else wrong[0][place] + 1
        tables.make(pair.target, TARGET, columns, wrong)
        report = compare(pair, {"types": types})
        assert named(report) == {("changed", "1")}
        assert report.differences
        assert [column.name for column in report.differences.named[0].columns] == [TYPED[place][0]]
    tables.execute(pair.source, f"DROP TABLE {SOURCE}")


def written_as(mapping: TypeMapping, value: Any) -> tuple[Kind, Any]:
    """Return the type of a column of a tool that writes values so, and such a value."""
    midnight, epoch = dt.datetime.min, dt.datetime(1970, 1, 1)
    match mapping:
        case "boolean_text":
            return Kind("text"), (value is not None and str(value).lower()) or None
        case "clock_text":
            return Kind("text"), value and value.isoformat()
        case "timestamp_text":
            return Kind("text"), value and f"{value.isoformat()}Z"
        case "days":
            return Kind("integer"), value and (value - epoch.date()).days
        case "clock_microseconds":
            return Kind("integer"), value and (dt.datetime.combine(midnight, value) - midnight) // dt.timedelta(microseconds=1)
    assert mapping == "epoch"
    return Kind("integer"), value and (value - epoch) // dt.timedelta(microseconds=1)


MAPPED: Mapping[str, Sequence[TypeMapping]] = {
    "boolean": ["boolean_text"],
    "timestamp": ["epoch", "timestamp_text"],
    "date": ["days"],
    "time": ["clock_microseconds", "clock_text"],
}
"""What a tool may be known to write in place of a type."""


@pytest.mark.slow_on("mariadb")
@pytest.mark.few
@pytest.mark.parametrize("pair", ENGINES, indirect=True)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in ("airbyte", "debezium", "dms") else pytest.mark.slow) for name in conventions.NAMES]
)
def test_types_of_each_tool_are_compared_by_value(pair: LivePair, name: str) -> None:
    """Each column that a tool is known to write otherwise, in each such way, beside the same column as it is: any damage is named."""
    known = conventions.by_name(name)
    source_columns, values, target_columns, targets = (
        [TYPED[0]],
        [[row[0]] for row in TYPED_ROWS],
        [TYPED[0]],
        [[row[0]] for row in TYPED_ROWS],
    )
    for place in (1, 2, 4, 5):
        column, kind = TYPED[place]
        for mapping in (None, *(each for each in MAPPED[kind.name] if each in known.types)):
            source_columns.append((f"{column}_{mapping or 'same'}", kind))
            written = [(kind, row[place]) if mapping is None else written_as(mapping, row[place]) for row in TYPED_ROWS]
            target_columns.append((source_columns[-1][0], written[0][0]))
            for number, row in enumerate(TYPED_ROWS):
                values[number].append(row[place])
                targets[number].append(written[number][1])
    assert {mapping for each in MAPPED.values() for mapping in each} >= set(known.types)
    own = own_columns(known, Kept(("", Decimal(0))))
    target_columns += [(column, kind) for column, (kind, _) in own.items()]
    rows = [[*row, *(value for _, value in own.values())] for row in targets]
    tables.make(pair.source, SOURCE, source_columns, values, ["id"])
    tables.make(pair.target, TARGET, target_columns, rows)
    report = compare(pair, name)
    assert report.verdict is Verdict.MATCH, report.reasons
    damaged = [list(row) for row in rows]
    for place in range(1, len(source_columns)):
        damaged[place % 2][place] = None
    tables.make(pair.target, TARGET, target_columns, damaged)
    report = compare(pair, name)
    assert named(report) == {("changed", "1"), ("changed", "2")}
    assert report.differences
    found = {column.name for row in report.differences.named for column in row.columns}
    assert found == {column for column, _ in source_columns[1:]}
    tables.execute(pair.source, f"DROP TABLE {SOURCE}")


@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres", "mariadb-duckdb"), indirect=True)
def test_bits_of_mysql_are_booleans_of_a_tool(pair: LivePair) -> None:
    tables.execute(pair.source, f"CREATE TABLE {SOURCE} (id int PRIMARY KEY, paid bit(1))")
    tables.execute(pair.source, f"INSERT INTO {SOURCE} VALUES (1, b'1'), (2, b'0'), (3, NULL), (4, b'1')")
    tables.make(pair.target, TARGET, [TYPED[0], ("paid", Kind("text"))], [(1, "TRUE"), (2, "false"), (3, None), (4, "false")])
    report = compare(pair, {"types": ["boolean_text"]})
    tables.execute(pair.source, f"DROP TABLE {SOURCE}")
    assert named(report) == {("changed", "4")}, report.reasons


@pytest.mark.parametrize("pair", chosen_pairs("postgres-duckdb"), indirect=True)
def test_units_that_hold_too_few_digits_are_refused(pair: LivePair) -> None:
    columns = [("id", Kind("integer")), ("placed", Kind("integer"))]
    tables.make(pair.source, SOURCE, [TYPED[0], TYPED[2]], [(1, MOMENT)], ["id"])
    tables.make(pair.target, TARGET, columns, [(1, 1)])
    (reason,) = compare(pair, {"types": ["epoch_milliseconds"]}).reasons
    assert "the source's times have 6 digits after the point, and epoch_milliseconds holds 3" in reason
    tables.execute(pair.source, f"DROP TABLE {SOURCE}")


@pytest.mark.parametrize("pair", chosen_pairs("postgres-duckdb"), indirect=True)
def test_convention_of_the_source(pair: LivePair) -> None:
    """A table that a tool writes is the source of an audit, too: what it flags is missing there, and extra in the target."""
    known = conventions.by_name("fivetran")
    kept = kept_by(known)
    columns = (*WRITTEN, *((name, kind) for name, (kind, _) in own_columns(known, Kept(("", Decimal(0)))).items()))
    rows = [(key, *row.values, *(value for _, value in own_columns(known, row).values())) for key, each in kept.items() for row in each]
    tables.make(pair.source, SOURCE, columns, rows)
    tables.make(pair.target, TARGET, BASE, [(number, *values) for number, values in {**ROWS, 101: DELETED[101]}.items()])
    values = {
        "connections": {side: {"url": getattr(pair, side).url} for side in ("source", "target")},
        "audits": {
            "orders": {
                "source": {"connection": "source", "table": SOURCE, "convention": "fivetran"},
                "target": {"connection": "target", "table": TARGET},
                "key": ["id"],
            }
        },
    }
    report = service.run_audit(validate_settings(values), "orders")
    tables.execute(pair.source, f"DROP TABLE {SOURCE}")
    tables.execute(pair.target, f"DROP TABLE {TARGET}")
    assert report.differences
    assert [(row.kind, row.key) for row in report.differences.named if isinstance(row, Difference)] == [("extra", {"id": "101"})]
    sentence = "3 rows of the source are flagged as deleted (_fivetran_deleted is true); the target has 1 of them (key 101)"
    assert sentence in report.reasons


@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres"), indirect=True)
def test_rows_that_the_tool_has_not_brought_are_left_out_by_its_heartbeat(pair: LivePair) -> None:
    """A row that was changed after the last heartbeat in the target is in flight, though the target has an older version of it."""
    now = dt.datetime.now(dt.UTC).replace(tzinfo=None, microsecond=0)
    long_ago, recent = now - dt.timedelta(days=3), now - dt.timedelta(minutes=5)
    at = ("updated", Kind("timestamp", scale=6))
    changed = {number: (f"customer {number}", recent if number == 3 else long_ago) for number in range(1, 31)}
    tables.make(pair.source, SOURCE, [*BASE[:2], at], [(number, *values) for number, values in changed.items()], ["id"])
    columns = [*WRITTEN[:2], at, ("__op", Kind("text")), ("__lsn", Kind("integer"))]
    rows = [(number, "before" if number == 3 else values[0], long_ago, "c", 1) for number, values in changed.items()]
    rows += [(8, "customer 8", long_ago, "u", 2), (9, "wrong", long_ago, "u", 2)]
    tables.make(pair.target, TARGET, columns, rows)
    beats = [at, ("__op", Kind("text"))]
    tables.make(pair.target, "convention_beats", beats, [(now - dt.timedelta(minutes=10), "u"), (long_ago, "c")])
    settle = {"column": "updated", "heartbeat": {"table": "convention_beats", "column": "updated"}}
    report = compare(pair, "debezium-append", settle=settle)
    tables.execute(pair.source, f"DROP TABLE {SOURCE}")
    tables.execute(pair.target, "DROP TABLE convention_beats")
    assert named(report) == {("changed", "9")}, report.reasons
    assert report.plan
    assert load_plan(dump_plan(report.plan)) == report.plan  # as it is stored


@pytest.mark.parametrize("pair", chosen_pairs("mysql-duckdb", "mariadb-duckdb", "postgres-duckdb"), indirect=True)
def test_dates_that_are_no_moment_are_not_null(pair: LivePair) -> None:
    """No number of days or seconds is that of 0000-00-00, or of infinity, so that a tool's NULL differs from them."""
    columns = [("id", Kind("integer")), ("day", Kind("date")), ("at_", Kind("timestamp", scale=3))]
    tables.make(pair.source, SOURCE, columns, [(1, DAY.date(), DAY), (2, None, None), (3, None, None)], ["id"])
    odd = "0000-00-00" if pair.source.dialect == "mysql" else "infinity"
    mode = ["SET SESSION sql_mode = ''"] if pair.source.dialect == "mysql" else []
    tables.execute(pair.source, *mode, f"UPDATE {SOURCE} SET day = '{odd}', at_ = '{odd}' WHERE id = 3")
    written = [("id", Kind("integer")), ("day", Kind("integer")), ("at_", Kind("integer")), ("__op", Kind("text"))]
    since = DAY - dt.datetime(1970, 1, 1)
    rows = [(1, since.days, since // dt.timedelta(milliseconds=1), "c"), (2, None, None, "c"), (3, None, None, "c")]
    tables.make(pair.target, TARGET, written, rows)
    report = compare(pair, "debezium", key=["id"])
    assert report.differences and [(one.key["id"], [column.name for column in one.columns]) for one in report.differences.named] == [
        ("3", ["day", "at_"])
    ]
