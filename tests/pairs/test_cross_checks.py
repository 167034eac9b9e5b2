"""What a run reads is held against a count, against rows that are hashed here, and against the number of rows that a result says it has.

Each fault here would be a match of two tables that differ, if the run believed its own summaries.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from auditor.config import Audit, ConnectionSettings
from auditor.errors import ResultIncomplete
from auditor.history.handover import EarlierRuns, Outcome
from auditor.model import Chunk, Plan, Report, Side, State, Verdict
from auditor.planning import chunks, prescan
from auditor.run import audit_run, cross_checks, scan
from auditor.sql import counts, power_sums, render, row_text
from auditor.sql import prescan as prescan_sql
from dialects import ColumnBatch, Dialect, Kind
from dialects.duckdb.session import DuckDBSession
from dialects.mysql.session import MySQLSession
from dialects.session import DriverSession
from tests import tables
from tests.live import LiveEngine, LivePair, chosen_pairs, engine_params

pytestmark = pytest.mark.engines_in_turn

COLUMNS = [
    ("id", Kind("integer")), ("label", Kind("text")), ("price", Kind("decimal", 12, 2)), ("done", Kind("boolean")),
    ("weight", Kind("float64")), ("seen", Kind("timestamp", scale=6)), ("day", Kind("date")), ("raw", Kind("binary")),
]  # fmt: skip
PAIRS = ("mysql-postgres", "mariadb-redshift", "postgres-duckdb", "duckdb-duckdb")
TEXT_KEY = "label"

on_pairs = pytest.mark.parametrize("pair", chosen_pairs(*PAIRS), indirect=True)


def rows(damage: bool = False) -> list[tuple[Any, ...]]:
    """Return 600 rows; with damage, each tenth has another price."""
    begin = dt.datetime(2024, 2, 28, 23, 59, 59, 120000)

    def others(n: int) -> tuple[Any, ...]:
        seen = begin + dt.timedelta(seconds=n * 1001)
        return (None, None, None, None) if n % 7 == 0 else (n / 7, seen, seen.date(), bytes([n % 256, 0]))

    return [(n, f"row {n} é|", Decimal(n + (damage and n % 10 == 0)).scaleb(-2), n % 3 == 0, *others(n)) for n in range(1, 601)]


def run(pair: LivePair, damage: bool = False, earlier: EarlierRuns | None = None, **settings: Any) -> Outcome:
    definition = {
        "source": {"connection": "source", "table": tables.shared_table(pair.source, COLUMNS, rows(), key=["id"])},
        "target": {"connection": "target", "table": tables.shared_table(pair.target, COLUMNS, rows(damage), key=["id"])},
        "key": ["id"],
        "partition": {"size": 50},
        "salt": "",
        **settings,
    }
    connections = {"source": ConnectionSettings(url=pair.source.url), "target": ConnectionSettings(url=pair.target.url)}
    return audit_run.perform("checked", Audit.model_validate(definition), connections, earlier=earlier)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tables of some hundred rows be pre-scanned by digests."""
    monkeypatch.setattr(prescan, "AIM_ROWS", 32)
    monkeypatch.setattr(prescan, "LEAST_DIGEST_ROWS", 1)


METHODS: list[dict[str, Any]] = [
    {"method": "exact"},
    {"method": "exact", "t": 6, "bits": 120},
    {"method": "exact", "prescan": True},
    {"method": "signature", "prescan": True, "partition": {"buckets": 4}},
    {"method": "exact", "prescan": True, "partition": {"buckets": 4}},
    {"method": "exact", "key": [TEXT_KEY], "partition": {"buckets": 4}},
    {"method": "exact", "key": [TEXT_KEY], "prescan": True, "partition": {}},
    {"method": "minhash"},
    {"method": "counts"},
    {"method": "exact", "columns": {"override": {"label": {"trim": True, "case": "upper", "null_as": "-"}}}},
    {"method": "exact", "where": "price > 2 and done"},
]


@pytest.mark.quick_for(
    "{'method': 'exact'}", "{'method': 'exact', 'prescan': True}", "{'method': 'exact', 't': 6, 'bits': 120}", "{'method': 'minhash'}"
)
@pytest.mark.usefixtures("small")
@on_pairs
@pytest.mark.parametrize("settings", METHODS, ids=str)
@pytest.mark.few
def test_equal_and_damaged_tables_pass_the_checks(pair: LivePair, settings: dict[str, Any]) -> None:
    found = run(pair, **settings)
    assert (found.report.verdict, found.report.state) == (Verdict.MATCH, State.DONE), found.report.reasons
    assert len(found.proved) == 1
    assert run(pair, damage=True, **settings).report.verdict is Verdict.MISMATCH


def cut(batches: Iterator[ColumnBatch], rows: int) -> Iterator[ColumnBatch]:
    for batch in batches:
        yield [column[:rows] for column in batch]
        return


@on_pairs
@pytest.mark.parametrize("left", [0, 1, 5])
def test_result_that_is_cut_is_no_result(pair: LivePair, left: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for session in (DriverSession, DuckDBSession):
        whole: Callable[..., Iterator[ColumnBatch]] = session.stream
        monkeypatch.setattr(session, "stream", lambda self, sql, whole=whole: cut(whole(self, sql), left))
    report = run(pair, damage=True).report
    assert (report.verdict, report.exit_code) == (Verdict.UNKNOWN, ResultIncomplete.exit_code)
    assert "of a result" in report.reasons[0]


@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True)
def test_limit_of_the_server_that_comes_after_the_settings_is_noticed(engine: LiveEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = MySQLSession.begin

    def limited(session: MySQLSession) -> None:
        session.execute("SET SESSION sql_select_limit = 5")
        begin(session)

    monkeypatch.setattr(MySQLSession, "begin", limited)
    report = run(LivePair(engine, engine), damage=True).report
    assert report.verdict is Verdict.UNKNOWN
    assert "sql_select_limit" in report.reasons[0]


@pytest.mark.usefixtures("small")
@on_pairs
@pytest.mark.parametrize("prescan", [False, True])
def test_rows_that_no_chunk_reads_are_noticed(pair: LivePair, prescan: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    where = render.where

    def half(plan: Plan, side: Side, chunk: Chunk) -> str:
        return f"{where(plan, side, chunk)} AND {plan.columns[0].expression[side]} % 10 <> 0"

    monkeypatch.setattr(render, "where", half)
    report = run(pair, damage=True, prescan=prescan).report
    assert report.verdict is Verdict.UNKNOWN
    assert "540" in report.reasons[0] and "600" in report.reasons[0], report.reasons


@pytest.mark.usefixtures("small")
@on_pairs
@pytest.mark.parametrize("settings", [one for one in METHODS if one["method"] != "counts"], ids=str)
@pytest.mark.few
def test_values_that_are_rendered_wrongly_are_noticed(pair: LivePair, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A column that takes no part in the hash, as where a name is bound to another column, is a match of tables that differ in it."""

    def without_price(render_row: Callable[[Plan, Side, Dialect], str]) -> Callable[[Plan, Side, Dialect], str]:
        def rendered(plan: Plan, side: Side, dialect: Dialect) -> str:
            columns = [
                replace(one, expression={**one.expression, side: "CAST(0 AS DECIMAL(12, 2))"}) if one.name == "price" else one
                for one in plan.columns
            ]
            return render_row(replace(plan, columns=tuple(columns)), side, dialect)

        return rendered

    for module in (render, power_sums):
        monkeypatch.setattr(module, "row_text", without_price(row_text.row_text))
    monkeypatch.setattr(prescan_sql, "row_bytes", without_price(prescan_sql.row_bytes))
    report = run(pair, damage=True, **settings).report
    assert report.verdict is Verdict.UNKNOWN
    assert "by their plain values" in report.reasons[0], report.reasons


@on_pairs
def test_measures_that_are_rendered_wrongly_are_noticed(pair: LivePair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "addend", lambda column, *_: "1")
    report = run(pair, damage=True, method="counts").report
    assert report.verdict is Verdict.UNKNOWN
    assert "by their plain values" in report.reasons[0], report.reasons


def _counts(pair: LivePair, earlier: EarlierRuns, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> tuple[Outcome, list[str]]:
    """Return the outcome of a run, and the ranges that were counted, '' for a whole table."""
    counted: list[str] = []
    hold = scan.hold_count

    def spy(plan: Plan, side: Side, pieces: list[list[Chunk]], *more: Any) -> bool:
        counted.append(f"{side} {pieces[0][0].first}..{pieces[0][0].end}" if pieces[0] else side)
        return hold(plan, side, pieces, *more)

    with monkeypatch.context() as patch:
        patch.setattr(cross_checks, "hold_count", spy)
        return run(pair, earlier=earlier, **settings), counted


@pytest.mark.parametrize("pair", chosen_pairs("duckdb-duckdb"), indirect=True)
def test_statements_of_a_proved_shape_are_held_against_a_range(pair: LivePair, monkeypatch: pytest.MonkeyPatch) -> None:
    first, counted = _counts(pair, EarlierRuns(), monkeypatch)
    assert sorted(counted) == ["source", "target"]
    later, counted = _counts(pair, EarlierRuns(proved=frozenset(first.proved)), monkeypatch)
    assert len(counted) == 2 and all(".." in one for one in counted)
    assert later.report.verdict is Verdict.MATCH and not later.proved
    _, counted = _counts(pair, EarlierRuns(proved=frozenset(first.proved)), monkeypatch, t=2)
    assert sorted(counted) == ["source", "target"], "statements of another shape"


@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres"), indirect=True)
def test_all_that_was_read_of_an_equal_stretch_is_counted(pair: LivePair, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rolling run reads two parts of one stretch: only the sum of their rows is known."""
    monkeypatch.setattr(prescan, "AIM_ROWS", 1000)
    monkeypatch.setattr(prescan, "LEAST_DIGEST_ROWS", 1)
    settings: dict[str, Any] = {"prescan": True, "rolling": {"per_run": "20%"}}
    proved = run(pair, earlier=EarlierRuns(choose_partitions=lambda _: ((0, 1), (11, 13))), **settings).proved
    for _ in range(4):
        report = run(pair, earlier=EarlierRuns(proved=frozenset(proved), choose_partitions=lambda _: ((0, 1), (11, 13))), **settings).report
        assert report.plan and report.plan.prescan and report.plan.prescan.digest_rows
        assert report.verdict is Verdict.MATCH, report.reasons


@pytest.mark.parametrize("pair", chosen_pairs("duckdb-duckdb"), indirect=True)
def test_each_chunk_of_a_snapshot_of_its_own_is_counted_in_it(pair: LivePair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "COLUMN_CHUNK_ROWS", 100)
    first = run(pair, snapshot="per_chunk")
    assert (first.report.verdict, len(first.proved)) == (Verdict.MATCH, 1), first.report.reasons
    where = render.where
    monkeypatch.setattr(render, "where", lambda plan, side, chunk: f"{where(plan, side, chunk)} AND id % 10 <> 0")
    for proved in (frozenset[str](), frozenset(first.proved)):
        report: Report = run(pair, damage=True, snapshot="per_chunk", earlier=EarlierRuns(proved=proved)).report
        assert report.verdict is Verdict.UNKNOWN and "bare count" in report.reasons[0], report.reasons


@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres", "mariadb-duckdb", "postgres-mysql"), indirect=True)
@pytest.mark.parametrize("method", ["exact", "counts"])
def test_no_text_is_cut_on_its_way(pair: LivePair, method: str) -> None:
    """A server that stores computed texts in a table of its own may take them for shorter than they are: of DECIMAL(6,6) by a sign."""
    columns = [("id", Kind("integer")), ("part", Kind("decimal", 6, 6))]
    values = {1: "-0.000001", 2: "-0.123456", 3: "0.5"}
    names = [
        tables.shared_table(one, columns, [(n, Decimal(part)) for n, part in {**values, **changed}.items()], key=["id"])
        for one, changed in ((pair.source, {}), (pair.target, {1: "0.000000", 2: "-0.123457"}))
    ]
    sides = {side: {"connection": side, "table": name} for side, name in zip(("source", "target"), names, strict=True)}
    tolerant = {"override": {"part": {"tolerance": {"relative": 1e-9}}}} if method == "exact" else {}
    audit = Audit.model_validate({**sides, "method": method, "columns": tolerant})
    report = audit_run.run(
        "cut", audit, {"source": ConnectionSettings(url=pair.source.url), "target": ConnectionSettings(url=pair.target.url)}
    )
    assert report.verdict is Verdict.MISMATCH, report.reasons
    if report.differences:
        shown = [(one.source, one.target) for difference in report.differences.named for one in difference.columns]
        assert shown == [("-0.000001", "0.000000"), ("-0.123456", "-0.123457")]
    else:
        least = next(one for one in report.measures if str(one.name) == "part min")
        assert (least.source, least.target) == ("-0.123456", "-0.123457")
