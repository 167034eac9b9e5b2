"""The measures of the counts method equal the plain-Python oracle's on every engine, and agree between every pair of engines."""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import cache
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import dialects
from auditor import canonical
from auditor.compare.comparator import align
from auditor.config import Audit
from auditor.model import NULL_PARTITION, SIDES, Chunk, Plan, Side
from auditor.planning import planner as planning
from auditor.planning.columns import Endpoint
from auditor.planning.partitioning import Bounds
from auditor.sql import render
from auditor.summary import arrays, measures
from auditor.summary.arrays import Summaries
from auditor.testing.values import TRICKY_DATES, TRICKY_DOUBLES, TRICKY_TEXT
from dialects import Kind, Session
from tests import tables
from tests.live import LiveEngine, LivePair, engine_params

pytestmark = pytest.mark.engines_in_turn

TABLE = "counts_values"
COLUMNS = [
    ("id", Kind("integer")), ("whole", Kind("integer")), ("unsigned_", Kind("integer", unsigned=True)), ("money", Kind("decimal", 12, 4)),
    ("huge", Kind("decimal", 30, 10)), ("weight", Kind("float64")), ("narrow", Kind("float32")), ("name", Kind("text")),
    ("code", Kind("char", 8)), ("day", Kind("date")), ("at", Kind("timestamp", scale=6)), ("flag", Kind("boolean")),
    ("raw", Kind("binary")),
]  # fmt: skip
SHORT = [text for text in TRICKY_TEXT if len(text) < 100]
EXACT = Context(prec=200)


def _decimal(digits: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**digits - 1
    units = st.sampled_from([most, -most, 0, 1, -1]) | st.integers(-most, most)
    return units.map(lambda value: Decimal(value).scaleb(-scale, EXACT))


def _single(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "whole": st.sampled_from([-(2**63), 2**63 - 1, 0]) | st.integers(-(2**63), 2**63 - 1),
    "unsigned_": st.sampled_from([0, 2**64 - 1, 2**63]) | st.integers(0, 2**64 - 1),
    "money": _decimal(12, 4),
    "huge": _decimal(28, 10),
    "weight": st.sampled_from(TRICKY_DOUBLES) | st.floats(allow_nan=False, allow_infinity=False),
    "narrow": st.sampled_from([0.0, -0.0, 1.5, _single(0.1), -3.5]) | st.floats(-1e6, 1e6, width=32, allow_subnormal=False),
    "name": st.sampled_from(SHORT) | st.text("abc é😀\u0301", max_size=12),
    "code": st.text("abz é😀", max_size=8).map(lambda text: text.rstrip(" ")),
    "day": st.sampled_from(TRICKY_DATES) | st.dates(dt.date(1000, 1, 1)),
    "at": st.sampled_from([dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)])
          | st.datetimes(dt.datetime(1000, 1, 1)),
    "flag": st.booleans(),
    "raw": st.binary(max_size=12),
}  # fmt: skip


@cache
def rows(examples: int) -> list[list[Any]]:
    """Draw rows with Hypothesis, including NULLs."""
    found: list[list[Any]] = []

    @settings(max_examples=examples, phases=[Phase.generate], database=None, derandomize=True, deadline=None)
    @given(st.fixed_dictionaries({name: st.none() | values | values | values for name, values in VALUES.items()}))
    def draw(row: dict[str, Any]) -> None:
        found.append([len(found) - 20, *(row[name] for name, _ in COLUMNS[1:])])

    draw()
    return found


def oracle(kind: Kind, values: Sequence[Any]) -> dict[str, str | None]:
    """Compute the measures of a column in plain Python."""
    present = [value for value in values if value is not None]
    found: dict[str, str | None] = {"nulls": str(len(values) - len(present))}
    ends = {name: canonical.text(kind, pick(present)) if present else None for name, pick in (("min", min), ("max", max))}
    match kind.name:
        case "integer" | "decimal":
            units = sum(int(Decimal(str(canonical.text(kind, value))).scaleb(kind.scale or 0, EXACT)) for value in present)
            return {**found, "sum": f"{Decimal(units).scaleb(-(kind.scale or 0), EXACT):f}" if present else None, **ends}
        case "float64" | "float32" | "date" | "timestamp":
            return {**found, **ends}
        case "boolean":
            return {**found, "true": str(sum(present)) if values else None}
        case _:
            texts = [str(canonical.text(kind, value)) for value in present]
            found["characters"] = str(sum(map(len, texts))) if present else None
            return {**found, "bytes": str(sum(len(text.encode()) for text in texts)) if present else None} if kind.is_free_text else found


def audit(table: str = TABLE, **more: Any) -> Audit:
    ends = {side: {"connection": side, "table": table} for side in SIDES}
    return Audit.model_validate({**ends, "key": ["id"], "method": "counts", "allow_empty": True, **more})


@contextmanager
def open_plan(pair: LivePair, audit: Audit) -> Iterator[tuple[Plan, dict[Side, Session]]]:
    """Plan an audit as if its tables were small; yield the plan and one session per side."""
    sides: dict[Side, Session] = {side: dialects.connect(getattr(pair, side).url) for side in SIDES}
    try:
        ends = {}
        for side in SIDES:
            reference = getattr(audit, side)
            (table,) = sides[side].dialect.catalogue.describe(sides[side], reference.place)
            sides[side].begin()
            ends[side] = Endpoint(side, f"{side}: {reference.table}", sides[side].dialect, table)
        yield planning.finish(planning.draft("test", audit, ends), audit, ends, dict.fromkeys(SIDES, Bounds(0, 0, 0))), sides
    finally:
        for session in sides.values():
            session.close()


def read_summaries(plan: Plan, side: Side, session: Session, chunks: Sequence[Chunk] = (Chunk(),)) -> Summaries:
    """Read a side's summaries in these chunks and merge them."""
    names = render.result_columns(plan)
    parts = [arrays.read(session.stream(render.summary(plan, side, session.dialect, chunk)), names) for chunk in chunks]
    return arrays.concatenate(parts, names)


def named_measures(plan: Plan, found: Summaries) -> list[tuple[int, dict[str, str | None]]]:
    """Return for each partition its row count and its measures by name."""
    names = measures.measure_names(plan)
    return [(int(found.rows[i]), dict(zip(names, found.measures[i], strict=True))) for i in range(len(found))]


def expected_measures(plan: Plan, drawn: Sequence[Sequence[Any]]) -> dict[str, str | None]:
    """Compute the measures of these rows with the oracle, in the kinds of the plan."""
    return {
        f"{column.name} {measure}": text
        for index, column in enumerate(plan.columns)
        for measure, text in oracle(column.kind, [row[index] for row in drawn]).items()
    }


@pytest.mark.slow_on("spark")
@pytest.mark.few
def test_every_measure_equals_the_oracle_in_one_chunk_or_many(pair: LivePair, request: pytest.FixtureRequest) -> None:
    drawn = rows(1000 if request.config.getoption("--deep") else 120)
    for engine in {pair.source, pair.target}:
        ensure_table(engine, drawn)
    with open_plan(pair, audit()) as (plan, sides):
        assert str(plan.partitioning) == "the whole table"
        found = {side: read_summaries(plan, side, sides[side]) for side in SIDES}
        for side in SIDES:
            ((count, measured),) = named_measures(plan, found[side])
            assert {name: (measured[name], text) for name, text in expected_measures(plan, drawn).items() if measured[name] != text} == {}
            assert (count, len(measured)) == (len(drawn), len(expected_measures(plan, drawn)))
            pieces = [Chunk(end=0), Chunk(first=0, end=7), Chunk(first=7), Chunk(null_key=True)]
            assert named_measures(plan, read_summaries(plan, side, sides[side], pieces)) == [(len(drawn), expected_measures(plan, drawn))]
        assert align(found["source"], found["target"]).equal.all()


_CREATED: set[tuple[str, int]] = set()


def ensure_table(engine: LiveEngine, drawn: list[list[Any]]) -> None:
    if (engine.name, len(drawn)) not in _CREATED:
        tables.make(engine, TABLE, COLUMNS, drawn)
        _CREATED.add((engine.name, len(drawn)))


@pytest.mark.slow_on("spark")
@pytest.mark.parametrize("how", [{}, {"size": 1000}, {"strategy": "hash"}, {"column": "at", "unit": "month"}])
def test_measures_of_empty_tables_and_null_columns(engine: LiveEngine, how: dict[str, Any]) -> None:
    all_null = [[n, *[None] * (len(COLUMNS) - 1)] for n in range(3)]
    for drawn in ([], all_null):
        table = tables.shared_table(engine, COLUMNS, drawn)
        with open_plan(LivePair(engine, engine), audit(table, partition=how)) as (plan, sides):
            found = read_summaries(plan, "source", sides["source"])
            assert named_measures(plan, found) == ([(3, expected_measures(plan, drawn))] if drawn else [])
            assert found.partition.tolist() == ([NULL_PARTITION if "column" in how else 0] if drawn else [])


@pytest.mark.slow_on("spark")
@pytest.mark.few
def test_sums_exceed_the_range_of_the_column_type(pair: LivePair) -> None:
    """Sums of 64-bit integers and of the greatest decimals do not overflow."""
    columns = [("id", Kind("integer")), ("a", Kind("integer")), ("u", Kind("integer", unsigned=True)), ("d", Kind("decimal", 20, 2))]
    drawn = [[n, 2**63 - 1, 2**64 - 1, Decimal("999999999999999999.99")] for n in range(300)]
    for engine in {pair.source, pair.target}:
        tables.make(engine, "counts_sums", columns, drawn)
    with open_plan(pair, audit("counts_sums")) as (plan, sides):
        for side in SIDES:
            assert named_measures(plan, read_summaries(plan, side, sides[side])) == [(300, expected_measures(plan, drawn))]


@pytest.mark.slow_on("spark")
@pytest.mark.few
def test_values_are_rounded_to_the_coarser_side_before_summing(pair: LivePair) -> None:
    """Each value is rounded before summing; rounding the sum would give another result. The loader takes the day of a time."""
    fine, coarse = Kind("decimal", 12, 4), Kind("decimal", 12, 2)
    drawn = [Decimal(text) for text in ("0.0049", "0.0049", "1.0050", "-2.3351", "-0.0050", "7.1250")]
    rounded = [value.quantize(Decimal("0.01"), ROUND_HALF_UP) for value in drawn]
    moments = [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 1, 1, 0, 0, 0, 1)] * 3
    columns = [("id", Kind("integer")), ("d", fine), ("r", fine), ("at", Kind("timestamp", scale=6)), ("day", Kind("timestamp", scale=6))]
    coarse_columns = [("id", Kind("integer")), ("d", coarse), ("r", fine), ("at", Kind("timestamp", scale=6)), ("day", Kind("date"))]
    tables.make(pair.source, "counts_fine", columns, [[n, v, v, m, m] for n, (v, m) in enumerate(zip(drawn, moments, strict=True))])
    tables.make(
        pair.target,
        "counts_coarse",
        coarse_columns,
        [[n, r, v, m, m.date()] for n, (v, r, m) in enumerate(zip(drawn, rounded, moments, strict=True))],
    )
    settings = audit(columns={"override": {"r": {"round": 1}, "day": {"fraction": "cut"}}}).model_dump(by_alias=True, exclude_unset=True)
    settings["source"]["table"], settings["target"]["table"] = "counts_fine", "counts_coarse"
    with open_plan(pair, Audit.model_validate(settings)) as (plan, sides):
        found = {side: named_measures(plan, read_summaries(plan, side, sides[side]))[0][1] for side in SIDES}
    assert found["source"] == found["target"]
    assert found["source"]["d sum"] == str(sum(rounded))
    units = [int(value.scaleb(1).quantize(Decimal(1), ROUND_HALF_UP)) for value in drawn]
    assert (found["source"]["r sum"], found["source"]["r min"]) == (str(sum(units)), str(min(units)))
    assert (found["source"]["day min"], found["source"]["day max"]) == ("1969-12-31", "2024-01-01")


def test_rounded_floats_have_an_exact_sum(engine: LiveEngine) -> None:
    drawn: list[list[Any]] = [[n, (n * 0.1 - 3), _single(n / 7)] for n in range(60)] + [[60, None, None], [61, 1e300, _single(3e30)]]
    tables.make(engine, "counts_floats", [("id", Kind("integer")), ("w", Kind("float64")), ("n", Kind("float32"))], drawn)
    with open_plan(LivePair(engine, engine), audit("counts_floats", columns={"override": {"w": {"round": 3}, "n": {"round": 2}}})) as (
        plan,
        sides,
    ):
        ((count, found),) = named_measures(plan, read_summaries(plan, "source", sides["source"]))
    for index, (name, scale) in enumerate((("w", 3), ("n", 2)), start=1):
        kind = Kind("rounded", scale=scale)
        texts = [canonical.text(kind, row[index]) for row in drawn if row[index] is not None]
        assert found[f"{name} sum"] == str(sum(int(text) for text in texts if text and "p" not in text))
        assert found[f"{name} max"] == texts[-1]
        assert found[f"{name} min"] == canonical.text(kind, min(row[index] for row in drawn if row[index] is not None))
    assert count == len(drawn)


@pytest.mark.slow_on("spark")
def test_minimum_and_maximum_of_nan_and_infinity(engine: LiveEngine) -> None:
    if "nan" in dialects.get(engine.dialect).types.UNSUPPORTED_VALUES:
        return
    for name, values, ends in (
        ("inf", [1.0, math.inf, -math.inf, -0.0], ("-Infinity", "Infinity")),
        ("nan", [1.0, math.nan, math.inf], (canonical.text(Kind("float64"), 1.0), "NaN")),
    ):
        tables.make(engine, f"counts_{name}", [("id", Kind("integer")), ("w", Kind("float64"))], list(enumerate(values)))
        with open_plan(LivePair(engine, engine), audit(f"counts_{name}")) as (plan, sides):
            for chunks in ([Chunk()], [Chunk(end=1), Chunk(first=1, end=2), Chunk(first=2)]):
                ((_, found),) = named_measures(plan, read_summaries(plan, "source", sides["source"], chunks))
                assert (found["w min"], found["w max"]) == ends


@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True)
def test_measures_of_zero_dates_zerofill_integers_and_negative_times(engine: LiveEngine) -> None:
    tables.execute(
        engine,
        "DROP TABLE IF EXISTS counts_odd",
        "CREATE TABLE counts_odd (id INT PRIMARY KEY, z INT(8) UNSIGNED ZEROFILL, day DATE, at DATETIME, clock TIME(2),"
        " y YEAR, b BIT(8), t TIMESTAMP NULL)",
        "INSERT INTO counts_odd VALUES (1, 7, '0000-00-00', '0000-00-00 00:00:00', '-01:00:00.50', 2000, b'00000101',"
        " '2020-02-02 02:02:02'), (2, 12, '2024-00-00', '2024-02-29 01:02:03', '838:59:59', 1999, b'00000001', NULL),"
        " (3, 12, '2023-12-31', '2024-02-29 01:02:03', '99:59:59', 1999, b'00000001', NULL)",
    )
    with open_plan(LivePair(engine, engine), audit("counts_odd")) as (plan, sides):
        for chunks in ([Chunk()], [Chunk(end=2), Chunk(first=2, end=3), Chunk(first=3)]):
            ((_, found),) = named_measures(plan, read_summaries(plan, "source", sides["source"], chunks))
            assert (found["z sum"], found["z min"], found["z max"]) == ("31", "7", "12")
            assert (found["day min"], found["day max"]) == ("0000-00-00", "2024-00-00")
            assert (found["at min"], found["at max"]) == ("0000-00-00 00:00:00", "2024-02-29 01:02:03")
            assert (found["clock min"], found["clock max"]) == ("-01:00:00.5", "838:59:59")
            assert (found["y sum"], found["t min"], found["b nulls"]) == ("5998", "2020-02-02 02:02:02", "0")


@pytest.mark.parametrize("engine", engine_params("postgres", "redshift", "duckdb"), indirect=True)
def test_measures_of_years_beyond_9999(engine: LiveEngine) -> None:
    """The texts of these dates sort in another order than the dates themselves."""
    tables.make(engine, "counts_far", [("id", Kind("integer")), ("day", Kind("date"))], [[1, dt.date(9999, 1, 1)], [2, dt.date(1, 1, 1)]])
    tables.execute(engine, "INSERT INTO counts_far VALUES (3, CAST('10000-01-01' AS DATE))")
    with open_plan(LivePair(engine, engine), audit("counts_far")) as (plan, sides):
        for chunks in ([Chunk()], [Chunk(end=3), Chunk(first=3)]):
            ((_, found),) = named_measures(plan, read_summaries(plan, "source", sides["source"], chunks))
            assert (found["day min"], found["day max"]) == ("0001-01-01", "10000-01-01")
