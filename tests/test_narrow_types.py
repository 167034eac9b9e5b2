"""Keys and values of every integer width: nothing is computed in a type too narrow for it, on any engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

import dialects
from auditor import distribution, measuring, render, summary
from auditor import plan as planning
from auditor.columns import Endpoint
from auditor.config import Audit, Connection
from auditor.field import P
from auditor.model import SIDES, Chunk, Method, Plan, Report, Side, Verdict
from auditor.plan import SPARSE_KEYS, Bounds
from auditor.run import run
from dialects import Dialect, Session
from tests import tables
from tests.engines import LiveEngine, LivePair, engine_params, ring_params
from tests.test_exact import oracle

BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "integer": 32, "bigint": 64}


@dataclass(frozen=True)
class Width:
    """An integer type as an engine spells it, and what it holds."""

    native: str
    least: int
    greatest: int

    @property
    def table(self) -> str:
        return "narrow_" + self.native.replace(" ", "_")

    def held(self) -> list[int]:
        """A thousand keys at either end of the type and about 0, or every one of a type that holds fewer."""
        spans = [(self.least, self.least + 999), (max(self.least, -500), 499), (self.greatest - 999, self.greatest)]
        return sorted({key for first, last in spans for key in range(first, min(last, self.greatest) + 1) if key >= self.least})


def widths(dialect: Dialect) -> list[Width]:
    """Every integer type of an engine."""
    found = []
    for name, bits in BITS.items():
        if dialect.kind(name) == dialects.Kind("integer"):
            found.append(Width(name, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1))
        for unsigned in (f"u{name}", f"{name} unsigned"):
            if dialect.kind(unsigned):
                found.append(Width(unsigned, 0, 2**bits - 1))
    return found


_MADE: set[str] = set()


def made(engine: LiveEngine) -> list[Width]:
    """The engine's integer types, with a table of each: a key of that type, a value of it, and a text."""
    found = widths(dialects.get(engine.dialect))
    if engine.name not in _MADE:
        for width in found:
            filled(engine, width.table, width.native, width.held())
        _MADE.add(engine.name)
    return found


def filled(engine: LiveEngine, table: str, native: str, keys: Sequence[int], changed: int | None = None) -> None:
    """A table of these keys; the row of one of them with another text."""
    rows = [f"({key}, {key}, '{'changed' if key == changed else f'row {key}'}')" for key in keys]
    tables.execute(
        engine,
        f"DROP TABLE IF EXISTS {table}",
        f"CREATE TABLE {table} (id {native}, n {native}, v VARCHAR(40))",
        *(f"INSERT INTO {table} VALUES {', '.join(rows[start : start + 1000])}" for start in range(0, len(rows), 1000)),
    )


@contextmanager
def planned(session: Session, width: Width, **more: Any) -> Iterator[Plan]:
    here = {"connection": "x", "table": width.table}
    asked = Audit.model_validate({"source": here, "target": here, "key": ("id",), **more})
    (table,) = session.dialect.describe(session, asked.source.place)
    ends: dict[Side, Endpoint] = {side: Endpoint("x", "x", session.dialect, table) for side in SIDES}
    bounds = Bounds(len(width.held()), width.least, width.greatest)
    session.begin()
    yield planning.finish(planning.draft("narrow", asked, ends), asked, ends, dict.fromkeys(SIDES, bounds))
    session.end()


def of_range(width: Width) -> list[dict[str, int]]:
    """Partitions of few keys, of more than a square of 32 bits has room for, and of the most there may be."""
    return [{"size": size} for size in (16, 46656, SPARSE_KEYS) if size <= 2 * (width.greatest - width.least)]


@pytest.mark.parametrize(("t", "bits"), [(3, 60), (16, 120), *(pytest.param(*one, marks=pytest.mark.slow) for one in ((3, 120), (16, 60)))])
def test_summaries_are_the_oracles_whatever_the_width(engine: LiveEngine, t: int, bits: int) -> None:
    checked = made(engine)
    session = dialects.connect(engine.url)
    try:
        for width in checked:
            rows = [(key, key, f"row {key}") for key in width.held()]
            for partition in (*of_range(width), {"buckets": 7}):
                with planned(session, width, partition=partition, t=t, bits=bits, salt="s4lt") as plan:
                    sql = render.summary(plan, "source", session.dialect, Chunk())
                    found = summary.read(session.stream(sql), render.result_columns(plan))
                wanted = oracle(plan, rows)
                assert [int(p) for p in found.partition] == sorted(wanted), (width, partition)
                for index, number in enumerate(found.partition):
                    count, words, sums = wanted[int(number)]
                    told = (int(found.rows[index]), [int(w) for w in found.words[index]], [int(s) for s in found.syndromes[index]])
                    assert told == (count, words, [s % P for s in sums[1:]]), (width, partition)
    finally:
        session.close()


def test_measures_are_the_oracles_whatever_the_width(engine: LiveEngine) -> None:
    """Sums go far beyond what the column's own type holds, and so do values in units of a hundredth."""
    checked = made(engine)
    session = dialects.connect(engine.url)
    try:
        for width in checked:
            keys = width.held()
            for rule, scale in (({}, 1), ({"n": {"round": 2}}, 100), ({"n": {"round": 15}}, 10**15)):
                with planned(session, width, method="counts", columns={"override": rule}) as plan:
                    sql = render.summary(plan, "source", session.dialect, Chunk())
                    found = summary.read(session.stream(sql), render.result_columns(plan))
                told = dict(zip(measuring.measure_names(plan), found.measures[0], strict=True))
                assert (told["id sum"], told["id min"], told["id max"]) == (str(sum(keys)), str(keys[0]), str(keys[-1])), width
                ends = (str(scale * sum(keys)), str(scale * keys[0]), str(scale * keys[-1]))
                assert (told["n sum"], told["n min"], told["n max"]) == ends, (width, scale)
    finally:
        session.close()


def test_rounded_texts_and_classes_whatever_the_width(engine: LiveEngine) -> None:
    checked = made(engine)
    session = dialects.connect(engine.url)
    try:
        for width in checked:
            ends = (width.least, width.greatest)
            with planned(session, width, columns={"override": {"n": {"round": 15}}}, method="signature") as plan:
                texts = [render.text(column, "source", session.dialect) for column in plan.columns[:2]]
                which = f"id IN ({ends[0]}, {ends[1]})"
                found = session.query(render.rows(plan, "source", session.dialect, which, texts))
                classes = session.query(distribution.classes_sql(plan, plan.columns[1], "source", session.dialect, "1 = 1", 5))
            assert {tuple(_text(part) for part in row[-2:]) for row in found} == {(str(end), str(end * 10**15)) for end in ends}, width
            assert [int(row[1]) for row in classes] == [1] * 5, width
    finally:
        session.close()


def _text(found: Any) -> str:
    return found.decode() if isinstance(found, bytes) else str(found)


def test_histograms_whatever_the_width(engine: LiveEngine) -> None:
    """Borders may lie beyond what the column's type holds, where the other side's values do."""
    checked = made(engine)
    session = dialects.connect(engine.url)
    try:
        for width in checked:
            keys = width.held()
            with planned(session, width, method="counts") as plan:
                parted = distribution.borders(plan.columns[1], str(4 * width.least), str(4 * width.greatest), 64)
                found = session.query(distribution.histogram_sql(plan, plan.columns[1], "source", session.dialect, parted))
            borders = [Decimal(text) for text in parted.texts]
            wanted: dict[int, int] = {}
            for key in keys:
                bucket = sum(border <= key for border in borders)
                wanted[bucket] = wanted.get(bucket, 0) + 1
            assert {int(number): int(rows) for number, rows in found} == wanted, width
    finally:
        session.close()


def audited(pair: LivePair, method: Method, source: str, target: str, **more: Any) -> Report:
    ends = {"source": {"connection": "source", "table": source}, "target": {"connection": "target", "table": target}}
    audit = Audit.model_validate({**ends, "key": ["id"], "method": method, **more})
    return run("narrow", audit, {side: Connection(url=getattr(pair, side).url) for side in SIDES})


@pytest.mark.parametrize("pair", ring_params(), indirect=True)
def test_an_audit_as_it_comes_names_the_row(pair: LivePair) -> None:
    """All settings left alone, every type of the source beside the target's widest."""
    keys = range(1, 1501)
    wide = widths(dialects.get(pair.target.dialect))[-1].native
    for width in widths(dialects.get(pair.source.dialect)):
        held = [key for key in keys if key <= width.greatest]
        filled(pair.source, "narrow_source", width.native, held)
        filled(pair.target, "narrow_target", wide, held, changed=77)
        report = audited(pair, "exact", "narrow_source", "narrow_target")
        assert report.verdict is Verdict.MISMATCH, (width, report.reasons)
        assert report.differences
        named = [(one.kind, one.key, [c.name for c in one.columns]) for one in report.differences.named]
        assert named == [("changed", {"id": "77"}, ["v"])], width


@pytest.mark.parametrize("engine", engine_params("postgres", "duckdb"), indirect=True)
def test_hours_are_counted_beyond_32_bits(engine: LiveEngine) -> None:
    """So far off that the hours until then exceed a narrow integer, though the days do not."""
    dialect = dialects.get(engine.dialect)
    ((hours,),) = tables.query(engine, f"SELECT {dialect.time_index(dialect.moment('290000-01-01 05:00:00'), 'hour')}")
    days = (290_000 - 2000) // 400 * 146_097 + 10_957  # whole cycles of the calendar from 2000-01-01 on
    assert hours == days * 24 + 5 > 2**31
