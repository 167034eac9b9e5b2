"""The exact method on live engines: syndromes equal the oracle's, and every difference is named, for every kind of key."""

from __future__ import annotations

import itertools
import random
import re
import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

import dialects
from auditor import canonical
from auditor.compare import syndromes
from auditor.compare.verdict import conclude
from auditor.config import Audit, ConnectionSettings, Threshold
from auditor.model import Chunk, Plan, Report, Score, Side, Verdict
from auditor.planning import chunks, planner
from auditor.planning.columns import Endpoint
from auditor.planning.partitioning import Bounds
from auditor.run import audit_run
from auditor.sql import power_sums, render
from auditor.summary import arrays, key_number
from auditor.summary.key_number import P
from dialects import Kind, Session
from tests import tables
from tests.live import ONLY_TARGETS, LiveEngine, LivePair, each_once, pair_params
from tests.pairs import test_published_example as example

pytestmark = pytest.mark.engines_in_turn

COLUMNS = [("label", Kind("text")), ("price", Kind("decimal", 12, 2)), ("seen", Kind("timestamp", scale=6))]
Row = tuple[Any, ...]


on_each_once = pytest.mark.parametrize("pair", each_once(), indirect=True)


def random_values(generator: random.Random, number: int) -> Row:
    import datetime as dt

    label = generator.choice([None, "", f"row {number}", "a|b~", "é😀"])
    seen = dt.datetime(2024, 1, 1) + dt.timedelta(microseconds=generator.randrange(10**14))
    return label, Decimal(generator.randrange(10**6)).scaleb(-2), generator.choice([None, seen])


@dataclass(frozen=True)
class Case:
    """A kind of key: its columns, some distinct keys, and the partitioning."""

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


def run_audit(pair: LivePair, names: tuple[str, str], key: Sequence[str], partition: dict[str, Any], **more: Any) -> Report:
    audit = Audit.model_validate(
        {
            "source": {"connection": "source", "table": names[0]},
            "target": {"connection": "target", "table": names[1]},
            "key": tuple(key),
            "partition": partition,
            **more,
        }
    )
    return audit_run.run(
        "exact", audit, {"source": ConnectionSettings(url=pair.source.url), "target": ConnectionSettings(url=pair.target.url)}
    )


def make_tables(pair: LivePair, columns: Sequence[tuple[str, Kind]], source: Sequence[Row], target: Sequence[Row]) -> tuple[str, str]:
    """Return the names of two shared tables with these rows; tests must not write to them."""
    return tables.shared_table(pair.source, columns, source), tables.shared_table(pair.target, columns, target)


def pairs_and_cases() -> list[Any]:
    """Return every pair of engines with every kind of key.

    Without --slow, pairs that follow each other on the ring run different halves of the kinds, so that each engine has every kind, as the
    source or as the target; a pair beside the ring runs all but two kinds that are integers as `dense` is.
    """
    params, quick_pairs = [], 0
    for pair in pair_params():
        quick_pairs += pytest.mark.slow not in pair.marks
        for index, case in enumerate(cases()):
            is_beside = str(pair.id).split("-")[1] in ONLY_TARGETS
            quick = case.name not in ("negative", "sparse") if is_beside else (index + quick_pairs) % 2
            marks = [*pair.marks, *([] if quick else [pytest.mark.slow])]
            params.append(pytest.param(pair.values[0], case, id=f"{pair.id}-{case.name}", marks=marks))
    return params


@pytest.mark.slow_on("spark")
@pytest.mark.parametrize(("pair", "case"), pairs_and_cases(), indirect=["pair"])
@pytest.mark.few
def test_every_difference_is_named(pair: LivePair, case: Case) -> None:
    for engine in (pair.source, pair.target):
        if any(kind.name == "uuid" and "uuid" in dialects.get(engine.dialect).types.UNSUPPORTED_VALUES for _, kind in case.columns):
            case = Case(case.name, [(n, Kind("text") if k.name == "uuid" else k) for n, k in case.columns], case.keys, case.partition)
    generator = random.Random(case.name)
    columns = [*case.columns, *COLUMNS]
    source = [(*key, *random_values(generator, number)) for number, key in enumerate(case.keys)]
    width = len(case.columns)
    chosen = generator.sample(range(len(source)), 9)
    missing, changed, extra = chosen[:3], chosen[3:6], chosen[6:]
    target = [row for number, row in enumerate(source) if number not in missing]
    target = [(*row[:width], "changed", *row[width + 1 :]) if row in [source[c] for c in changed] else row for row in target]
    source = [row for number, row in enumerate(source) if number not in extra]
    names = make_tables(pair, columns, source, target)
    report = run_audit(pair, names, [name for name, _ in case.columns], case.partition)
    assert report.verdict is Verdict.MISMATCH, report.reasons
    assert report.differences is not None and report.jaccard and report.plan
    texts = [tuple(canonical.text(kind, part) for (_, kind), part in zip(case.columns, key, strict=True)) for key in case.keys]
    named = {(one.kind, tuple(one.key.values())) for one in report.differences.named}
    expected = {("missing", texts[n]) for n in missing} | {("changed", texts[n]) for n in changed} | {("extra", texts[n]) for n in extra}
    assert named == expected
    assert report.differences.exact
    rows = len(source) + len(target)
    assert report.jaccard.score.value == report.jaccard.least == report.jaccard.most == (rows - 12) / (rows + 12)
    for one in report.differences.named:
        assert [c.name for c in one.columns] == (["label"] if one.kind == "changed" else [])


@on_each_once
@pytest.mark.slow_on("spark")  # whose differences `test_every_difference_is_named` lists
def test_every_row_of_a_key_counts_against_the_threshold(pair: LivePair) -> None:
    """Rows of one key, or of none, are one difference, and as many differing rows as there are."""
    columns = [("id", Kind("integer")), *COLUMNS]
    generator = random.Random(3)
    source: list[Row] = [(n, *random_values(generator, n)) for n in range(100)]
    source += [(None, "no key", Decimal(n), None) for n in range(3)]
    target = [*source, *[source[10]] * 300, source[20]]
    target.remove(source[30])
    target.remove(source[-1])
    target.append((None, "no key", Decimal("7.5"), None))
    names = make_tables(pair, columns, source, target)
    report = run_audit(pair, names, ["id"], {"size": 16}, threshold={"rows": 100})
    assert report.differences is not None and report.comparison, report.reasons
    found = sorted((one.kind, one.key["id"] or "", one.rows["source"], one.rows["target"]) for one in report.differences.named)
    assert found == [("changed", "", 1, 1), ("extra", "10", 0, 300), ("extra", "20", 0, 1), ("missing", "30", 1, 0)]
    assert (report.differences.missing, report.differences.extra, report.differences.changed) == (1, 301, 1)
    assert report.verdict is Verdict.MISMATCH
    for rows, expected in ((302, Verdict.MISMATCH), (303, Verdict.MATCH)):
        assert conclude(report.comparison, report.differences, report.jaccard, Threshold(rows=rows))[0] is expected


@pytest.mark.slow_on("spark")  # whose source here is that of another pair, too
def test_chunked_reads_include_rows_whose_computed_key_is_null(pair: LivePair, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CHUNK_ROWS", "COLUMN_CHUNK_ROWS"):
        monkeypatch.setattr(chunks, name, 100)
    columns = [("id", Kind("integer")), ("v", Kind("text"))]
    rows = [(n, f"row {n}") for n in range(1000)]
    names = make_tables(pair, columns, [*rows, (None, "lost")], rows)
    computed = {"override": {"id": {"expr": "id + 0", "kind": "integer"}}}
    report = run_audit(pair, names, ["id"], {"size": 10}, columns=computed)
    assert report.plan
    is_cut = bool(report.plan.sides["source"].chunk_keys)
    assert is_cut == dialects.get(pair.source.dialect).FINDS_KEY_RANGES, "the source must be read in chunks where its engine finds ranges"
    assert report.differences is not None, report.reasons
    assert (report.verdict, report.differences.missing, report.differences.extra) == (Verdict.MISMATCH, 1, 0)


def test_null_equals_the_text_of_null_as(engine: LiveEngine) -> None:
    """NULL equals the text of ``null_as`` in a key and in a value, even when that text contains characters of the row encoding."""
    pair = LivePair(engine, engine)
    columns = [("id", Kind("integer")), ("v", Kind("text"))]
    names = make_tables(pair, columns, [(1, None), (2, "b"), (3, None), (None, "c")], [(1, "|2"), (2, "b"), (3, "other"), (0, "c")])
    rules = {"override": {"v": {"null_as": "|2"}, "id": {"null_as": "0"}}}
    report = run_audit(pair, names, ["id"], {}, columns=rules)
    assert report.differences is not None, report.reasons
    assert [(one.kind, one.key) for one in report.differences.named] == [("changed", {"id": "3"})]


@on_each_once
@pytest.mark.slow_on("spark")
def test_contiguous_missing_rows_are_reported_as_ranges(pair: LivePair) -> None:
    columns = [("id", Kind("integer")), *COLUMNS]
    generator = random.Random(5)
    source = [(n, *random_values(generator, n)) for n in range(1000)]
    target = [row for row in source if not 300 <= row[0] < 520 and row[0] < 930]
    names = make_tables(pair, columns, source, target)
    report = run_audit(pair, names, ["id"], {"size": 32})
    assert report.differences is not None, report.reasons
    assert [(one.kind, one.first, one.last, one.rows) for one in report.differences.ranges] == [
        ("missing", 300, 519, 220),
        ("missing", 930, 999, 70),
    ]
    assert report.differences.named == ()
    assert report.differences.missing == 290


@pytest.mark.slow_on("spark")
@pytest.mark.parametrize("partition", [{"size": 64}, pytest.param({"rows": 32, "strategy": "hash"}, marks=pytest.mark.slow)], ids=str)
def test_too_many_differences_to_name_are_named_in_part(pair: LivePair, partition: dict[str, Any]) -> None:
    """Some are named from all over the table by lists and by a second scan of some partitions, and the bounds of the score hold."""
    columns = [("id", Kind("integer")), ("v", Kind("text"))]
    source = [(n, f"row {n}") for n in range(3000)]
    target = [(n, v.upper() if n * 7919 % 100 < 8 else v) for n, v in source if n * 7919 % 100 != 55]
    names = make_tables(pair, columns, source, target)
    report = run_audit(pair, names, ["id"], partition, salt="s4lt", limits={"max_differences": 40, "max_rows_listed": 1000})
    found = report.differences
    assert found and report.jaccard and report.comparison, report.reasons
    assert found.partitions["refined"] and found.partitions["listed"] and found.partitions["estimated"], found.partitions
    changed, missing = 240, 30
    assert 0 < found.changed < changed and 0 < found.missing < missing and not found.exact
    assert {one.kind for one in found.named} == {"changed", "missing"} and 20 <= len(found.named) <= 40
    expected = {str(n) for n, v in source if n * 7919 % 100 < 8}
    for one in found.named:
        if one.kind == "changed":
            assert (
                one.key["id"] in expected and [c.source and c.source.upper() for c in one.columns] == [c.target for c in one.columns] != []
            )
    assert len({one.key_number // 1000 for one in found.named}) == 3, "examples come from all over the table"
    rows, differing = len(source) + len(target), 2 * changed + missing
    assert report.jaccard.least <= (rows - differing) / (rows + differing) <= report.jaccard.most
    said = re.fullmatch(r"about (\d+) of 3,000 rows differ; counted: (\d+) missing, (\d+) changed \(v\)", report.reasons[0])
    assert said, report.reasons
    most = rows * (1 - report.jaccard.least) / (1 + report.jaccard.least)
    assert (int(said[2]), int(said[3])) == (found.missing, found.changed) and found.missing + found.changed < int(said[1]) <= most


QUICK_SUMMARIES = {("range", 3, 60), ("range", 16, 120), ("hash", 3, 120), ("hash", 16, 60), ("time", 3, 120), ("time", 16, 60)}
"""A normal run has every combination of any two of strategy, t and bits."""

SUMMARIES = [
    pytest.param(*one, marks=[] if one in QUICK_SUMMARIES else [pytest.mark.slow])
    for one in itertools.product(("range", "hash", "time"), (1, 3, 5, 16), (60, 120))
]


@pytest.mark.parametrize(("strategy", "t", "bits"), SUMMARIES)
@pytest.mark.few
def test_summaries_equal_the_oracle(engine: LiveEngine, strategy: str, t: int, bits: int) -> None:
    """Words, syndromes, positions and partitions are the same integers as in plain Python, with a salt."""
    rows = oracle_rows()
    ensure_oracle_table(engine, rows)
    session = dialects.connect(engine.url)
    try:
        partitions: dict[str, dict[str, Any]] = {"range": {"size": 16}, "hash": {"buckets": 5}, "time": {"column": "seen", "unit": "month"}}
        plan = make_plan(session, {"strategy": strategy, **partitions[strategy]}, t, bits)
        session.begin()
        sql = render.summary(plan, "source", session.dialect, Chunk())
        found = arrays.read(session.stream(sql), render.result_columns(plan))
        session.end()
    finally:
        session.close()
    expected = oracle(plan, rows)
    assert [int(p) for p in found.partition] == sorted(expected)
    for index, partition in enumerate(found.partition):
        count, words, sums = expected[int(partition)]
        assert (int(found.rows[index]), [int(w) for w in found.words[index]]) == (count, words)
        assert [int(s) for s in found.syndromes[index]] == [s % P for s in sums[1:]]


_CREATED: set[str] = set()


def oracle_rows() -> list[Row]:
    generator = random.Random(2)
    return [(n, *random_values(generator, n)[:2], random_time(generator)) for n in range(-40, 60)]


def random_time(generator: random.Random) -> Any:
    import datetime as dt

    return dt.datetime(1969, 1, 1) + dt.timedelta(seconds=generator.randrange(3 * 365 * 86400))


def ensure_oracle_table(engine: LiveEngine, rows: list[Row]) -> None:
    if engine.name not in _CREATED:
        tables.make(engine, "exact_oracle", [("id", Kind("integer")), *COLUMNS], rows)
        _CREATED.add(engine.name)


def make_plan(session: Session, partition: dict[str, Any], t: int, bits: int) -> Plan:
    endpoint = {"connection": "x", "table": "exact_oracle"}
    values = {"source": endpoint, "target": endpoint, "key": ("id",), "partition": partition, "t": t, "bits": bits, "salt": "s4lt"}
    audit = Audit.model_validate(values)
    table = session.dialect.catalogue.describe(session, audit.sources[0].place)[0]
    ends: dict[Side, Endpoint] = {side: Endpoint("x", "x", session.dialect, table) for side in ("source", "target")}
    bounds: dict[Side, Bounds] = {side: Bounds(100, -40, 59) for side in ("source", "target")}
    return planner.finish(planner.draft("oracle", audit, ends), audit, ends, bounds)


def oracle(plan: Plan, rows: list[Row]) -> dict[int, tuple[int, list[int], list[int]]]:
    by_partition: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for row in rows:
        texts = [canonical.text(column.kind, value) for column, value in zip(plan.columns, row, strict=True)]
        written = zip(plan.columns, texts, strict=True)
        held = [canonical.digest(column.kind, text, column.pieces) if column.digest else text for column, text in written]
        digits = canonical.row_hash(plan.salt + canonical.SEPARATOR + canonical.row_text(held))
        number = key_number.key_number(plan, texts[:1])
        assert number is not None
        hashed = key_number.position_of(number)
        match plan.partitioning.strategy:
            case "range":
                position = (row[0] // plan.partitioning.size, row[0] % plan.partitioning.size + 1)
            case "hash":
                position = (key_number.bucket_of(number, plan.partitioning.buckets), hashed)
            case "time":
                position = ((row[3].year - 1970) * 12 + row[3].month - 1, hashed)
        by_partition[position[0]].append((digits, position[1]))
    result = {}
    for partition, found in by_partition.items():
        words = [canonical.word(digits, 1 + 15 * half, 15) for digits, _ in found for half in range(plan.bits // 60)]
        split = [[w >> 30 for w in words[half :: plan.bits // 60]] for half in range(plan.bits // 60)]
        low = [[w & 2**30 - 1 for w in words[half :: plan.bits // 60]] for half in range(plan.bits // 60)]
        sums = [sum(part) for pair in zip(split, low, strict=True) for part in pair]
        powers = syndromes.power_sums([(x, canonical.word(d, 1, 15) >> 30) for d, x in found], power_sums.count_sums(plan))
        result[partition] = (len(found), sums, powers)
    return result


@on_each_once
@pytest.mark.slow_on("spark")  # of which `test_published_example` reads these numbers
@pytest.mark.alone  # installs MD5() for the whole server
def test_worked_example_has_its_exact_similarity(pair: LivePair) -> None:
    """Two of 32 rows differ: the similarity is exactly 30/34, reported next to the published estimate from four minhashes."""
    words = example.WORDS
    damaged = ["JPARKIE" if n in (16, 24) else word for n, word in enumerate(words)]
    columns = [("id", Kind("integer")), ("text", Kind("text"))]
    names = make_tables(pair, columns, list(enumerate(words)), list(enumerate(damaged)))
    with example.ensure_md5(pair.source, pair.target):
        report = run_audit(pair, names, ["id"], {"size": 8}, k=4, encoding="published")
    assert report.jaccard and report.differences is not None and report.comparison and report.comparison.published
    assert report.jaccard.score == Score(30 / 34, 30 / 34, 30 / 34)
    assert run_audit(pair, names, ["id"], {"size": 8}).jaccard == report.jaccard, "the encoding must not change the exact similarity"
    assert [(one.key, [(c.name, c.source, c.target) for c in one.columns]) for one in report.differences.named] == [
        ({"id": "16"}, [("text", "QUEBEC", "JPARKIE")]),
        ({"id": "24"}, [("text", "YANKEE", "JPARKIE")]),
    ]
    assert report.comparison.published == Score(0.9375, 0.6875, 1.0)
