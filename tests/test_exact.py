"""The exact method on live engines: the same syndromes as the oracle, and every difference named, whatever the key is like."""

from __future__ import annotations

import random
import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

import dialects
from auditor import canonical, plan, render, run, summary
from auditor.columns import Endpoint
from auditor.compare import syndromes
from auditor.config import Audit, Connection
from auditor.field import P
from auditor.model import Chunk, Plan, Report, Score, Side, Verdict
from dialects import Kind, Session
from tests import tables
from tests import test_published_example as example
from tests.engines import LiveEngine, LivePair, pair_params, ring_params

COLUMNS = [("label", Kind("text")), ("price", Kind("decimal", 12, 2)), ("seen", Kind("timestamp", scale=6))]
Row = tuple[Any, ...]


def body(generator: random.Random, number: int) -> Row:
    import datetime as dt

    label = generator.choice([None, "", f"row {number}", "a|b~", "é😀"])
    seen = dt.datetime(2024, 1, 1) + dt.timedelta(microseconds=generator.randrange(10**14))
    return label, Decimal(generator.randrange(10**6)).scaleb(-2), generator.choice([None, seen])


@dataclass(frozen=True)
class Case:
    """A kind of key: its columns and some distinct keys of it."""

    name: str
    columns: Sequence[tuple[str, Kind]]
    keys: Sequence[Row]
    partition: dict[str, Any]


def cases() -> list[Case]:
    generator = random.Random(11)
    integer, unsigned = Kind("integer"), Kind("integer", unsigned=True)
    return [
        Case("dense", [("id", integer)], [(n,) for n in range(1, 401)], {"size": 64}),
        Case("negative", [("id", integer)], [(n,) for n in range(-200, 200)], {"size": 64}),
        Case("extreme", [("id", integer)], [(-(2**63) + n,) for n in range(50)] + [(2**63 - 1 - n,) for n in range(50)], {"buckets": 8}),
        Case("unsigned", [("id", unsigned)], [(2**64 - 1 - n,) for n in range(300)], {"size": 64}),
        Case("sparse", [("id", integer)], [(n * 1_000_003,) for n in range(300)], {"rows": 32}),
        Case("text", [("id", Kind("text"))], [(f"k{n} é|~'",) for n in range(300)], {"rows": 32}),
        Case("uuid", [("id", Kind("uuid"))], [(uuid.UUID(int=generator.getrandbits(128), version=4),) for _ in range(300)], {"rows": 32}),
        Case("composite", [("a", integer), ("b", Kind("text"))], [(n // 7, f"x{n % 7}") for n in range(300)], {"rows": 32}),
    ]


def audited(pair: LivePair, key: Sequence[str], partition: dict[str, Any], **more: Any) -> Report:
    audit = Audit.model_validate(
        {
            "source": {"connection": "source", "table": "exact_source"},
            "target": {"connection": "target", "table": "exact_target"},
            "key": tuple(key),
            "partition": partition,
            **more,
        }
    )
    return run.run("exact", audit, {"source": Connection(url=pair.source.url), "target": Connection(url=pair.target.url)})


def filled(pair: LivePair, columns: Sequence[tuple[str, Kind]], source: Sequence[Row], target: Sequence[Row]) -> None:
    tables.make(pair.source, "exact_source", columns, source)
    tables.make(pair.target, "exact_target", columns, target)


def pairs_and_cases() -> list[Any]:
    """Every pair of engines with every kind of key; one kind a pair quickly, the next for each, the others with --slow."""
    params = []
    for number, pair in enumerate(pair_params()):
        for index, case in enumerate(cases()):
            quick = index == number % len(cases())
            marks = [*pair.marks, *([] if quick else [pytest.mark.slow])]
            params.append(pytest.param(pair.values[0], case, id=f"{pair.id}-{case.name}", marks=marks))
    return params


@pytest.mark.parametrize(("pair", "case"), pairs_and_cases(), indirect=["pair"])
def test_every_difference_is_named(pair: LivePair, case: Case) -> None:
    for engine in (pair.source, pair.target):
        if any(kind.name == "uuid" and "uuid" in dialects.get(engine.dialect).GAPS for _, kind in case.columns):
            case = Case(case.name, [(n, Kind("text") if k.name == "uuid" else k) for n, k in case.columns], case.keys, case.partition)
    generator = random.Random(case.name)
    columns = [*case.columns, *COLUMNS]
    source = [(*key, *body(generator, number)) for number, key in enumerate(case.keys)]
    width = len(case.columns)
    chosen = generator.sample(range(len(source)), 9)
    missing, changed, extra = chosen[:3], chosen[3:6], chosen[6:]
    target = [row for number, row in enumerate(source) if number not in missing]
    target = [(*row[:width], "changed", *row[width + 1 :]) if row in [source[c] for c in changed] else row for row in target]
    source = [row for number, row in enumerate(source) if number not in extra]
    filled(pair, columns, source, target)
    report = audited(pair, [name for name, _ in case.columns], case.partition)
    assert report.verdict is Verdict.MISMATCH, report.reasons
    assert report.differences and report.jaccard and report.plan
    texts = [tuple(canonical.text(kind, part) for (_, kind), part in zip(case.columns, key, strict=True)) for key in case.keys]
    named = {(one.kind, tuple(one.key.values())) for one in report.differences.named}
    wanted = {("missing", texts[n]) for n in missing} | {("changed", texts[n]) for n in changed} | {("extra", texts[n]) for n in extra}
    assert named == wanted
    assert report.differences.exact
    rows = len(source) + len(target)
    assert report.jaccard.score.value == report.jaccard.least == report.jaccard.most == (rows - 12) / (rows + 12)
    for one in report.differences.named:
        assert [c.name for c in one.columns] == (["label"] if one.kind == "changed" else [])


def test_duplicates_and_null_keys_are_counted_by_key(pair: LivePair) -> None:
    columns = [("id", Kind("integer")), *COLUMNS]
    generator = random.Random(3)
    source: list[Row] = [(n, *body(generator, n)) for n in range(100)]
    source += [(None, "no key", Decimal(n), None) for n in range(3)]
    target = [*source, source[10], source[10], source[20]]
    target.remove(source[30])
    target.remove(source[-1])
    target.append((None, "no key", Decimal("7.5"), None))
    filled(pair, columns, source, target)
    report = audited(pair, ["id"], {"size": 16})
    assert report.differences, report.reasons
    found = sorted((one.kind, one.key["id"] or "", one.rows["source"], one.rows["target"]) for one in report.differences.named)
    assert found == [("changed", "", 1, 1), ("extra", "10", 0, 2), ("extra", "20", 0, 1), ("missing", "30", 1, 0)]


@pytest.mark.parametrize("pair", ring_params(), indirect=True)
def test_rows_without_a_computed_key_are_read_in_chunks_too(pair: LivePair, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CHUNK_ROWS", "COLUMN_CHUNK_ROWS"):
        monkeypatch.setattr(plan, name, 100)
    columns = [("id", Kind("integer")), ("v", Kind("text"))]
    kept = [(n, f"row {n}") for n in range(1000)]
    filled(pair, columns, [*kept, (None, "lost")], kept)
    computed = {"override": {"id": {"expr": "id + 0", "kind": "integer"}}}
    report = audited(pair, ["id"], {"size": 10}, columns=computed)
    assert report.plan and report.plan.sides["source"].chunk_keys, "read in chunks"
    assert report.differences, report.reasons
    assert (report.verdict, report.differences.missing, report.differences.extra) == (Verdict.MISMATCH, 1, 0)


def test_what_stands_for_null_equals_it(engine: LiveEngine) -> None:
    """In the key and in a value, with the row encoding's own characters in it."""
    pair = LivePair(engine, engine)
    columns = [("id", Kind("integer")), ("v", Kind("text"))]
    filled(pair, columns, [(1, None), (2, "b"), (3, None), (None, "c")], [(1, "|2"), (2, "b"), (3, "other"), (0, "c")])
    rules = {"override": {"v": {"null_as": "|2"}, "id": {"null_as": "0"}}}
    report = audited(pair, ["id"], {}, columns=rules)
    assert report.differences, report.reasons
    assert [(one.kind, one.key) for one in report.differences.named] == [("changed", {"id": "3"})]


def test_stretches_that_one_side_lacks_are_ranges(pair: LivePair) -> None:
    columns = [("id", Kind("integer")), *COLUMNS]
    generator = random.Random(5)
    source = [(n, *body(generator, n)) for n in range(1000)]
    target = [row for row in source if not 300 <= row[0] < 520 and row[0] < 930]
    filled(pair, columns, source, target)
    report = audited(pair, ["id"], {"size": 32})
    assert report.differences, report.reasons
    assert [(one.kind, one.first, one.last, one.rows) for one in report.differences.ranges] == [
        ("missing", 300, 519, 220),
        ("missing", 930, 999, 70),
    ]
    assert report.differences.named == ()
    assert report.differences.missing == 290


@pytest.mark.parametrize("bits", [60, 120])
@pytest.mark.parametrize("t", [3, pytest.param(1, marks=pytest.mark.slow), pytest.param(5, marks=pytest.mark.slow), 16])
@pytest.mark.parametrize("strategy", ["range", "hash", "time"])
def test_summaries_are_the_oracles(engine: LiveEngine, strategy: str, t: int, bits: int) -> None:
    """The same integers as plain Python: words, syndromes, positions, partitions; salted."""
    rows = oracle_rows()
    made_oracle_table(engine, rows)
    session = dialects.connect(engine.url)
    try:
        hows: dict[str, dict[str, Any]] = {"range": {"size": 16}, "hash": {"buckets": 5}, "time": {"column": "seen", "unit": "month"}}
        made = planned(session, {"strategy": strategy, **hows[strategy]}, t, bits)
        session.begin()
        sql = render.summary(made, "source", session.dialect, Chunk())
        found = summary.read(session.stream(sql), render.result_columns(made))
        session.end()
    finally:
        session.close()
    wanted = oracle(made, rows)
    assert [int(p) for p in found.partition] == sorted(wanted)
    for index, partition in enumerate(found.partition):
        count, words, sums = wanted[int(partition)]
        assert (int(found.rows[index]), [int(w) for w in found.words[index]]) == (count, words)
        assert [int(s) for s in found.syndromes[index]] == [s % P for s in sums[1:]]


_MADE: set[str] = set()


def oracle_rows() -> list[Row]:
    generator = random.Random(2)
    return [(n, *body(generator, n)[:2], dt_of(generator)) for n in range(-40, 60)]


def dt_of(generator: random.Random) -> Any:
    import datetime as dt

    return dt.datetime(1969, 1, 1) + dt.timedelta(seconds=generator.randrange(3 * 365 * 86400))


def made_oracle_table(engine: LiveEngine, rows: list[Row]) -> None:
    if engine.name not in _MADE:
        tables.make(engine, "exact_oracle", [("id", Kind("integer")), *COLUMNS], rows)
        _MADE.add(engine.name)


def planned(session: Session, partition: dict[str, Any], t: int, bits: int) -> Plan:
    here = {"connection": "x", "table": "exact_oracle"}
    values = {"source": here, "target": here, "key": ("id",), "partition": partition, "t": t, "bits": bits, "salt": "s4lt"}
    audit = Audit.model_validate(values)
    table = session.dialect.describe(session, audit.source.place)[0]
    ends: dict[Side, Endpoint] = {side: Endpoint("x", "x", session.dialect, table) for side in ("source", "target")}
    bounds: dict[Side, plan.Bounds] = {side: plan.Bounds(100, -40, 59) for side in ("source", "target")}
    return plan.finish(plan.draft("oracle", audit, ends), audit, ends, bounds)


def oracle(made: Plan, rows: list[Row]) -> dict[int, tuple[int, list[int], list[int]]]:
    sorted_out: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for row in rows:
        texts = [canonical.text(column.kind, value) for column, value in zip(made.columns, row, strict=True)]
        digits = canonical.row_hash(made.salt + canonical.SEPARATOR + canonical.row_text(texts))
        key = canonical.word(canonical.row_hash(canonical.row_text(texts[:1])), 1, 15)
        hashed = (key & P) % (P - 1) + 1
        match made.partitioning.strategy:
            case "range":
                place = (row[0] // made.partitioning.size, row[0] % made.partitioning.size + 1)
            case "hash":
                place = ((key >> 31) % made.partitioning.buckets, hashed)
            case "time":
                place = ((row[3].year - 1970) * 12 + row[3].month - 1, hashed)
        sorted_out[place[0]].append((digits, place[1]))
    result = {}
    for partition, found in sorted_out.items():
        words = [canonical.word(digits, 1 + 15 * half, 15) for digits, _ in found for half in range(made.bits // 60)]
        split = [[w >> 30 for w in words[half :: made.bits // 60]] for half in range(made.bits // 60)]
        low = [[w & 2**30 - 1 for w in words[half :: made.bits // 60]] for half in range(made.bits // 60)]
        sums = [sum(part) for pair in zip(split, low, strict=True) for part in pair]
        powers = syndromes.power_sums([(x, canonical.word(d, 1, 15) >> 30) for d, x in found], render.sums(made))
        result[partition] = (len(found), sums, powers)
    return result


def test_the_worked_example(pair: LivePair) -> None:
    """Two of 32 rows differ: a similarity of exactly 30/34, beside the published figures, which four minhashes of that encoding give."""
    words = example.WORDS
    damaged = ["JPARKIE" if n in (16, 24) else word for n, word in enumerate(words)]
    columns = [("id", Kind("integer")), ("text", Kind("text"))]
    filled(pair, columns, list(enumerate(words)), list(enumerate(damaged)))
    with example.md5(pair.source, pair.target):
        report = audited(pair, ["id"], {"size": 8}, k=4, encoding="published")
    assert report.jaccard and report.differences and report.comparison and report.comparison.published
    assert report.jaccard.score == Score(30 / 34, 30 / 34, 30 / 34)
    assert audited(pair, ["id"], {"size": 8}).jaccard == report.jaccard, "whatever the encoding"
    assert [(one.key, [(c.name, c.source, c.target) for c in one.columns]) for one in report.differences.named] == [
        ({"id": "16"}, [("text", "QUEBEC", "JPARKIE")]),
        ({"id": "24"}, [("text", "YANKEE", "JPARKIE")]),
    ]
    assert report.comparison.published == Score(0.9375, 0.6875, 1.0)
