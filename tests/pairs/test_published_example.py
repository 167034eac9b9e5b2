"""The published example (DESIGN 4.1), reproduced exactly on every engine and on every ordered pair of engines.

The published numbers, the plain-Python oracle and the result of each engine must be equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal

import pytest

import auditor
import dialects
from auditor import canonical
from auditor.config import Audit
from auditor.errors import HashMissing
from auditor.model import SIDES, Method, Plan, Score, Side, Verdict
from auditor.summary.arrays import Summaries
from auditor.summary.minhash import row_minhashes
from dialects import HashAlgorithm, Kind, Session
from tests import tables
from tests.audits import compare_summaries, open_plan, read_summaries, summary_statement
from tests.live import LiveEngine, LivePair, quick_on

pytestmark = pytest.mark.engines_in_turn

WORDS = [
    "ALPHA", "BRAVO", "CHARLIE", "DELTA", "ECHO", "FOXTROT", "GOLF", "HOTEL", "INDIA", "JULIET", "KILO", "LIMA", "MIKE",
    "NOVEMBER", "OSCAR", "PAPA", "QUEBEC", "ROMEO", "SIERRA", "TANGO", "UNIFORM", "VICTOR", "WHISKEY", "XRAY", "YANKEE", "ZULU",
    "LOREM", "IPSUM", "DOLOR", "SIT", "AMET", "CONSECTETUR",
]  # fmt: skip
ROWS: dict[Side, list[tuple[int, str]]] = {
    "source": list(enumerate(WORDS)),
    "target": [(key, "JPARKIE" if key in (16, 24) else word) for key, word in enumerate(WORDS)],
}
COLUMNS = [("id", Kind("integer")), ("text", Kind("text"))]
SIZE, K = 8, 4
METHODS: tuple[Method, ...] = ("counts", "signature", "minhash")
Encoding = Literal["published", "injective"]
COMPONENT = "'file://component_classic_hashing'"

_CREATED: set[str] = set()


def ensure_tables(*engines: LiveEngine) -> None:
    """Create both tables on each engine, once per session."""
    for engine in engines:
        if engine.name not in _CREATED:
            for side in SIDES:
                tables.make(engine, f"nato_{side}", COLUMNS, ROWS[side], key=["id"])
            _CREATED.add(engine.name)


def lacks_md5(engine: LiveEngine) -> bool:
    session = dialects.connect(engine.url)
    session.close()
    return not session.dialect.hashes.HAS_MD5


@contextmanager
def ensure_md5(*engines: LiveEngine) -> Iterator[None]:
    """Install MD5() for the block on servers that lack it, and uninstall it afterwards."""
    lacking = [engine for engine in {engine.name: engine for engine in engines}.values() if lacks_md5(engine)]
    for engine in lacking:
        tables.execute(engine, f"INSTALL COMPONENT {COMPONENT}")
    try:
        yield
    finally:
        for engine in lacking:
            tables.execute(engine, f"UNINSTALL COMPONENT {COMPONENT}")


def audit(encoding: Encoding) -> Audit:
    return Audit.model_validate(
        {
            **{side: {"connection": side, "table": f"nato_{side}"} for side in SIDES},
            "key": ("id",),
            "encoding": encoding,
            "method": "minhash",
            "k": K,
            "partition": {"size": SIZE},
        }
    )


_SUMMARIES: dict[tuple[str, str], Summaries] = {}


def read_both(pair: LivePair, plan: Plan, sides: dict[Side, Session]) -> dict[Side, Summaries]:
    """Return both sides' summaries; the same statement runs on the same engine only once per session."""
    found: dict[Side, Summaries] = {}
    for side in SIDES:
        query = getattr(pair, side).name, summary_statement(plan, side, sides[side])
        if query not in _SUMMARIES:
            _SUMMARIES[query] = read_summaries(plan, side, sides[side])
        found[side] = _SUMMARIES[query]
    return found


def with_method(plan: Plan, method: Method) -> Plan:
    """Return the plan with another method and the default encoding."""
    return replace(plan, method=method, encoding="injective", hash="sha256", salt="", k=K if method == "minhash" else 0)


def with_equal_tables(plan: Plan) -> Plan:
    """Return the plan with the target reading its copy of the source's table."""
    target = plan.sides["target"]
    return replace(plan, sides={**plan.sides, "target": replace(target, table=target.table.replace("nato_target", "nato_source"))})


def oracle(side: Side, encoding: Encoding, method: Method) -> tuple[list[list[int]], list[list[int]]]:
    """Compute the words and minhashes of each partition of a side in plain Python."""
    algorithm: HashAlgorithm = "md5" if encoding == "published" else "sha256"
    row_text = canonical.published_row_text if encoding == "published" else canonical.row_text
    words: list[list[int]] = []
    minima: list[list[int]] = []
    for start in range(0, len(WORDS), SIZE):
        texts = [[canonical.text(kind, value) for (_, kind), value in zip(COLUMNS, row, strict=True)] for row in ROWS[side]]
        hashes = [canonical.row_hash(row_text(row), algorithm) for row in texts[start : start + SIZE]]
        rows = [_words(digits, method) for digits in hashes]
        words.append([sum(column) for column in zip(*rows, strict=True)])
        minima.append(
            [min(column) for column in zip(*(row_minhashes(row[-1], K) for row in rows), strict=True)] if method == "minhash" else []
        )
    return words, minima


def _words(digits: str, method: Method) -> list[int]:
    if method == "minhash":
        return [canonical.word(digits, 8 * j + 1, 8) for j in range(4)]
    whole = canonical.word(digits, 1, 15)
    return [whole >> 30, whole & (2**30 - 1)]


def assert_equals_oracle(found: dict[Side, Summaries], encoding: Encoding, method: Method) -> None:
    for side in SIDES:
        assert found[side].partition.tolist() == [0, 1, 2, 3]
        assert found[side].rows.tolist() == found[side].hashed.tolist() == [SIZE] * 4
        assert found[side].least.tolist() == [0, 8, 16, 24]
        assert found[side].greatest.tolist() == [7, 15, 23, 31]
        if method != "counts":
            words, minima = oracle(side, encoding, method)
            assert found[side].words.tolist() == words
            assert found[side].minhashes.tolist() == minima


def test_oracle_reproduces_the_published_numbers() -> None:
    """Partitions 0 and 1 are equal; 2 and 3 differ, and share 3/4 and 4/4 of their minhashes."""
    (words, minima), (other_words, other_minima) = (oracle(side, "published", "minhash") for side in SIDES)
    assert [mine == other for mine, other in zip(words, other_words, strict=True)] == [True, True, False, False]
    same = [sum(a == b for a, b in zip(mine, other, strict=True)) for mine, other in zip(minima, other_minima, strict=True)]
    assert same == [4, 4, 3, 4]


@pytest.mark.slow_on("spark")
@pytest.mark.alone  # installs MD5() for the whole server
@pytest.mark.few
def test_every_pair_reproduces_the_published_numbers(pair: LivePair) -> None:
    ensure_tables(pair.source, pair.target)
    with ensure_md5(pair.source, pair.target), open_plan(pair, audit("published")) as (plan, sides):
        found = read_both(pair, plan, sides)
        assert_equals_oracle(found, "published", "minhash")
        comparison = compare_summaries(found["source"], found["target"])
        assert comparison.verdict == Verdict.MISMATCH
        assert comparison.published == Score(0.9375, 0.6875, 1.0)
        assert [(part.partition, part.similarity) for part in comparison.divergent] == [(2, 0.75), (3, 1.0)]
        equal = read_both(pair, with_equal_tables(plan), sides)
        assert compare_summaries(equal["source"], equal["target"]).verdict == Verdict.MATCH
        for method in METHODS:
            other = with_method(plan, method)
            found = read_both(pair, other, sides)
            assert_equals_oracle(found, "injective", method)
            comparison = compare_summaries(found["source"], found["target"])
            assert [part.partition for part in comparison.divergent] == [2, 3], method
            equal = read_both(pair, with_equal_tables(other), sides)
            assert compare_summaries(equal["source"], equal["target"]).verdict == Verdict.MATCH, method


@pytest.mark.slow_on("spark")  # the test above has each method's statements there, and those of the exact method whole runs
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.few
def test_whole_run_distinguishes_equal_from_unequal_tables(engine: LiveEngine, method: Method) -> None:
    ensure_tables(engine)
    for table, verdict, divergent in (("nato_source", Verdict.MATCH, []), ("nato_target", Verdict.MISMATCH, [2, 3])):
        report = auditor.audit((engine.url, "nato_source"), (engine.url, table), key=["id"], method=method, partition={"size": SIZE})
        assert report.comparison is not None, report.reasons
        assert report.verdict == verdict
        assert [part.partition for part in report.comparison.divergent] == divergent
        assert report.comparison.total == 4


@pytest.mark.alone
@pytest.mark.parametrize("engine", quick_on("mysql", "duckdb"), indirect=True)
def test_published_encoding_without_md5_is_refused_by_the_plan(engine: LiveEngine) -> None:
    """Planning detects a server without MD5() and raises an error that says what to do.

    Without --slow on MySQL, which lacks it, and on one engine that has it, as the test of every pair finds of the others.
    """
    ensure_tables(engine)
    pair = LivePair(engine, engine)
    if lacks_md5(engine):
        with pytest.raises(HashMissing, match="component_classic_hashing"), open_plan(pair, audit("published")):
            pass
    else:
        with open_plan(pair, audit("published")) as (plan, sides):
            assert_equals_oracle(read_both(pair, plan, sides), "published", "minhash")
