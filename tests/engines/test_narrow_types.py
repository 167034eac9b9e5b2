"""Keys and values of every integer width: no engine computes a result in a type too narrow for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

import dialects
from auditor.config import Audit, ConnectionSettings
from auditor.model import SIDES, Chunk, Method, Plan, Report, Side, Verdict
from auditor.planning import planner as planning
from auditor.planning.columns import Endpoint
from auditor.planning.partitioning import MAX_RANGE_KEYS, Bounds
from auditor.run.audit_run import run
from auditor.sql import distributions, render, row_text
from auditor.summary import arrays, measures
from auditor.summary.key_number import P
from dialects import Dialect, Session
from tests import tables
from tests.live import LiveEngine, LivePair, engine_params
from tests.pairs.test_exact import oracle

pytestmark = pytest.mark.engines_in_turn

ONLY_EXTERNAL = {("redshift", "tinyint")}
"""Types that only external tables of an engine have."""

BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "integer": 32, "bigint": 64}


@dataclass(frozen=True)
class Width:
    """An integer type as an engine spells it, and its range."""

    native: str
    least: int
    greatest: int

    @property
    def table(self) -> str:
        return "narrow_" + self.native.replace(" ", "_")

    def sample_keys(self) -> list[int]:
        """Return a hundred keys at each end of the range and around 0, or all keys of a smaller type."""
        spans = [(self.least, self.least + 99), (max(self.least, -50), 49), (self.greatest - 99, self.greatest)]
        return sorted({key for first, last in spans for key in range(first, min(last, self.greatest) + 1) if key >= self.least})


def widths(dialect: Dialect) -> list[Width]:
    """Return every integer type of an engine."""
    found = []
    for name, bits in BITS.items():
        if dialect.types.kind(name) == dialects.Kind("integer") and (dialect.name, name) not in ONLY_EXTERNAL:
            found.append(Width(name, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1))
        for unsigned in (f"u{name}", f"{name} unsigned"):
            if dialect.types.kind(unsigned):
                found.append(Width(unsigned, 0, 2**bits - 1))
    return found


_CREATED: set[str] = set()


def ensure_tables(engine: LiveEngine) -> list[Width]:
    """Create a table for each of the engine's integer types, once per session, and return the types."""
    found = widths(dialects.get(engine.dialect))
    if engine.name not in _CREATED:
        for width in found:
            make_table(engine, width.table, width.native, width.sample_keys())
        _CREATED.add(engine.name)
    return found


def make_table(engine: LiveEngine, table: str, native: str, keys: Sequence[int], changed: int | None = None) -> None:
    """Create a table of these keys; the row of the key ``changed`` has another text."""
    rows = [f"({key}, {key}, '{'changed' if key == changed else f'row {key}'}')" for key in keys]
    tables.execute(
        engine,
        f"DROP TABLE IF EXISTS {table}",
        f"CREATE TABLE {table} (id {native}, n {native}, v VARCHAR(40))",
        *(f"INSERT INTO {table} VALUES {', '.join(rows[start : start + 1000])}" for start in range(0, len(rows), 1000)),
    )


@contextmanager
def open_plan(session: Session, width: Width, **more: Any) -> Iterator[Plan]:
    endpoint = {"connection": "x", "table": width.table}
    audit = Audit.model_validate({"source": endpoint, "target": endpoint, "key": ("id",), **more})
    (table,) = session.dialect.catalogue.describe(session, audit.sources[0].place)
    ends: dict[Side, Endpoint] = {side: Endpoint("x", "x", session.dialect, table) for side in SIDES}
    bounds = Bounds(len(width.sample_keys()), width.least, width.greatest)
    session.begin()
    yield planning.finish(planning.draft("narrow", audit, ends), audit, ends, dict.fromkeys(SIDES, bounds))
    session.end()


def range_partitions(width: Width) -> list[dict[str, int]]:
    """Return range partitionings: few keys, more keys than 32 bits can square, and the maximum number of keys."""
    return [{"size": size} for size in (16, 46656, MAX_RANGE_KEYS) if size <= 2 * (width.greatest - width.least)]


def widths_and_sizes() -> list[Any]:
    """Return every engine with syndromes of every size; a normal run takes the greatest, on Spark the least.

    Only positions and partitions depend on a key's width, and these are the same for any number of syndromes.
    """
    sizes = [(16, 120), (3, 60), (3, 120), (16, 60)]
    return [
        pytest.param(*one.values, t, bits, id=f"{one.id}-{t}-{bits}", marks=[*one.marks, *slow])
        for one in engine_params()
        for t, bits in sizes
        for slow in [[] if (t, bits) == ((3, 120) if one.id == "spark" else (16, 120)) else [pytest.mark.slow]]
    ]


@pytest.mark.quick_for("mysql", "postgres")
@pytest.mark.slow_on("spark")
@pytest.mark.parametrize(("engine", "t", "bits"), widths_and_sizes(), indirect=["engine"])
@pytest.mark.few
def test_summaries_equal_the_oracle_for_every_width(engine: LiveEngine, t: int, bits: int) -> None:
    checked = ensure_tables(engine)
    session = dialects.connect(engine.url)
    try:
        for width in checked:
            rows = [(key, key, f"row {key}") for key in width.sample_keys()]
            for partition in (*range_partitions(width), {"buckets": 7}):
                with open_plan(session, width, partition=partition, t=t, bits=bits, salt="s4lt") as plan:
                    sql = render.summary(plan, "source", session.dialect, Chunk())
                    found = arrays.read(session.stream(sql), render.result_columns(plan))
                expected = oracle(plan, rows)
                assert [int(p) for p in found.partition] == sorted(expected), (width, partition)
                for index, number in enumerate(found.partition):
                    count, words, sums = expected[int(number)]
                    summary = (int(found.rows[index]), [int(w) for w in found.words[index]], [int(s) for s in found.syndromes[index]])
                    assert summary == (count, words, [s % P for s in sums[1:]]), (width, partition)
    finally:
        session.close()


@pytest.mark.quick_for("mysql", "postgres", "redshift")
@pytest.mark.slow_on("spark")
@pytest.mark.few
def test_measures_equal_the_oracle_for_every_width(engine: LiveEngine) -> None:
    """Sums exceed the range of the column's own type, and so do values scaled by the rounding."""
    checked = ensure_tables(engine)
    session = dialects.connect(engine.url)
    try:
        for width in checked:
            keys = width.sample_keys()
            for rule, scale in (({}, 1), ({"n": {"round": 2}}, 100), ({"n": {"round": 15}}, 10**15)):
                with open_plan(session, width, method="counts", columns={"override": rule}) as plan:
                    sql = render.summary(plan, "source", session.dialect, Chunk())
                    found = arrays.read(session.stream(sql), render.result_columns(plan))
                by_name = dict(zip(measures.measure_names(plan), found.measures[0], strict=True))
                assert (by_name["id sum"], by_name["id min"], by_name["id max"]) == (str(sum(keys)), str(keys[0]), str(keys[-1])), width
                ends = (str(scale * sum(keys)), str(scale * keys[0]), str(scale * keys[-1]))
                assert (by_name["n sum"], by_name["n min"], by_name["n max"]) == ends, (width, scale)
    finally:
        session.close()


@pytest.mark.slow_on("spark")
def test_rounded_texts_and_classes_for_every_width(engine: LiveEngine) -> None:
    checked = ensure_tables(engine)
    session = dialects.connect(engine.url)
    try:
        for width in checked:
            ends = (width.least, width.greatest)
            with open_plan(session, width, columns={"override": {"n": {"round": 15}}}, method="signature") as plan:
                texts = [row_text.text(column, "source", session.dialect) for column in plan.columns[:2]]
                which = f"id IN ({ends[0]}, {ends[1]})"
                found = session.query(render.rows(plan, "source", session.dialect, which, texts))
                classes = session.query(distributions.classes(plan, plan.columns[1], "source", session.dialect, 5))
            assert {tuple(_text(part) for part in row[-2:]) for row in found} == {(str(end), str(end * 10**15)) for end in ends}, width
            assert [int(row[1]) for row in classes] == [1] * 5, width
    finally:
        session.close()


def _text(found: Any) -> str:
    return found.decode() if isinstance(found, bytes) else str(found)


@pytest.mark.slow_on("spark")
def test_histograms_for_every_width(engine: LiveEngine) -> None:
    """Bucket borders may exceed the range of the column's type, because the other side's values may."""
    checked = ensure_tables(engine)
    session = dialects.connect(engine.url)
    try:
        for width in checked:
            keys = width.sample_keys()
            with open_plan(session, width, method="counts") as plan:
                histogram_borders = distributions.borders(plan.columns[1], str(4 * width.least), str(4 * width.greatest), 64)
                found = session.query(distributions.histogram(plan, plan.columns[1], "source", session.dialect, histogram_borders))
            borders = [Decimal(text) for text in histogram_borders.texts]
            expected: dict[int, int] = {}
            for key in keys:
                bucket = sum(border <= key for border in borders)
                expected[bucket] = expected.get(bucket, 0) + 1
            assert {int(number): int(rows) for number, rows in found} == expected, width
    finally:
        session.close()


def run_audit(pair: LivePair, method: Method, source: str, target: str, **more: Any) -> Report:
    ends = {"source": {"connection": "source", "table": source}, "target": {"connection": "target", "table": target}}
    audit = Audit.model_validate({**ends, "key": ["id"], "method": method, **more})
    return run("narrow", audit, {side: ConnectionSettings(url=getattr(pair, side).url) for side in SIDES})


@pytest.mark.slow_on("spark")  # whose summaries equal the oracle's for every width, and which is a target here
def test_default_audit_names_the_changed_row_for_every_width(pair: LivePair) -> None:
    """With default settings, each type of the source is compared with the target's widest type."""
    keys = range(1, 601)
    wide = widths(dialects.get(pair.target.dialect))[-1].native
    for width in widths(dialects.get(pair.source.dialect)):
        present_keys = [key for key in keys if key <= width.greatest]
        make_table(pair.source, "narrow_source", width.native, present_keys)
        make_table(pair.target, "narrow_target", wide, present_keys, changed=77)
        report = run_audit(pair, "exact", "narrow_source", "narrow_target")
        assert report.verdict is Verdict.MISMATCH, (width, report.reasons)
        assert report.differences is not None
        named = [(one.kind, one.key, [c.name for c in one.columns]) for one in report.differences.named]
        assert named == [("changed", {"id": "77"}, ["v"])], width


@pytest.mark.parametrize("engine", engine_params("postgres", "duckdb"), indirect=True)
def test_hour_index_exceeds_32_bits(engine: LiveEngine) -> None:
    """A time so far in the future that its number of hours exceeds 32 bits, though the number of days does not."""
    dialect = dialects.get(engine.dialect)
    ((hours,),) = tables.query(
        engine, f"SELECT {dialect.times.time_index(dialect.names.timestamp_literal('290000-01-01 05:00:00'), 'hour')}"
    )
    days = (290_000 - 2000) // 400 * 146_097 + 10_957  # whole 400-year cycles from 2000-01-01 on
    assert hours == days * 24 + 5 > 2**31
