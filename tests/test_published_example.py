"""The published example (DESIGN 4.1), to the last digit, on every engine and across every ordered pair of them.

Three witnesses agree: the numbers that were published, the plain-Python oracle, and what each engine computes.
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
from auditor.compare.minhash import of_seed
from auditor.config import Audit
from auditor.errors import HashMissing
from auditor.model import SIDES, Method, Plan, Score, Side, Verdict
from auditor.summary import Summaries
from dialects import Algorithm, Kind, Session
from tests import tables
from tests.audits import compared, planned, statement, summarised
from tests.engines import LiveEngine, LivePair

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

_MADE: set[str] = set()


def made(*engines: LiveEngine) -> None:
    """Both tables on each engine, once a run."""
    for engine in engines:
        if engine.name not in _MADE:
            for side in SIDES:
                tables.make(engine, f"nato_{side}", COLUMNS, ROWS[side], key=["id"])
            _MADE.add(engine.name)


def lacks_md5(engine: LiveEngine) -> bool:
    session = dialects.connect(engine.url)
    session.close()
    return not session.dialect.HAS_MD5


@contextmanager
def md5(*engines: LiveEngine) -> Iterator[None]:
    """MD5() on servers that come without it, for the block; what was not there before is taken away again."""
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


_SUMMARISED: dict[tuple[str, str], Summaries] = {}


def both(pair: LivePair, plan: Plan, sides: dict[Side, Session]) -> dict[Side, Summaries]:
    """What both engines say of their tables; the same statement is put to the same engine once a run."""
    found: dict[Side, Summaries] = {}
    for side in SIDES:
        asked = getattr(pair, side).name, statement(plan, side, sides[side])
        if asked not in _SUMMARISED:
            _SUMMARISED[asked] = summarised(plan, side, sides[side])
        found[side] = _SUMMARISED[asked]
    return found


def variant(plan: Plan, method: Method) -> Plan:
    """The plan with another method, in the default encoding."""
    return replace(plan, method=method, encoding="injective", hash="sha256", salt="", k=K if method == "minhash" else 0)


def on_equal_tables(plan: Plan) -> Plan:
    """The plan with the target's copy of the source's table."""
    target = plan.sides["target"]
    return replace(plan, sides={**plan.sides, "target": replace(target, table=target.table.replace("nato_target", "nato_source"))})


def oracle(side: Side, encoding: Encoding, method: Method) -> tuple[list[list[int]], list[list[int]]]:
    """Words and minhashes of each partition of a side, in plain Python."""
    algorithm: Algorithm = "md5" if encoding == "published" else "sha256"
    row_text = canonical.published_row_text if encoding == "published" else canonical.row_text
    words: list[list[int]] = []
    minima: list[list[int]] = []
    for start in range(0, len(WORDS), SIZE):
        texts = [[canonical.text(kind, value) for (_, kind), value in zip(COLUMNS, row, strict=True)] for row in ROWS[side]]
        hashes = [canonical.row_hash(row_text(row), algorithm) for row in texts[start : start + SIZE]]
        rows = [_words(digits, method) for digits in hashes]
        words.append([sum(column) for column in zip(*rows, strict=True)])
        minima.append([min(column) for column in zip(*(of_seed(row[-1], K) for row in rows), strict=True)] if method == "minhash" else [])
    return words, minima


def _words(digits: str, method: Method) -> list[int]:
    if method == "minhash":
        return [canonical.word(digits, 8 * j + 1, 8) for j in range(4)]
    whole = canonical.word(digits, 1, 15)
    return [whole >> 30, whole & (2**30 - 1)]


def check(found: dict[Side, Summaries], encoding: Encoding, method: Method) -> None:
    for side in SIDES:
        assert found[side].partition.tolist() == [0, 1, 2, 3]
        assert found[side].rows.tolist() == found[side].hashed.tolist() == [SIZE] * 4
        assert found[side].least.tolist() == [0, 8, 16, 24]
        assert found[side].greatest.tolist() == [7, 15, 23, 31]
        if method != "counts":
            words, minima = oracle(side, encoding, method)
            assert found[side].words.tolist() == words
            assert found[side].minhashes.tolist() == minima


def test_the_oracle_says_what_was_published() -> None:
    """Partitions 0 and 1 are equal; 2 and 3 are not, and agree on 3/4 and 4/4 of their minhashes."""
    (words, minima), (other_words, other_minima) = (oracle(side, "published", "minhash") for side in SIDES)
    assert [mine == other for mine, other in zip(words, other_words, strict=True)] == [True, True, False, False]
    same = [sum(a == b for a, b in zip(mine, other, strict=True)) for mine, other in zip(minima, other_minima, strict=True)]
    assert same == [4, 4, 3, 4]


def test_every_pair_agrees_to_the_last_digit(pair: LivePair) -> None:
    made(pair.source, pair.target)
    with md5(pair.source, pair.target), planned(pair, audit("published")) as (plan, sides):
        found = both(pair, plan, sides)
        check(found, "published", "minhash")
        comparison = compared(found["source"], found["target"])
        assert comparison.verdict == Verdict.MISMATCH
        assert comparison.published == Score(0.9375, 0.6875, 1.0)
        assert [(part.partition, part.similarity) for part in comparison.divergent] == [(2, 0.75), (3, 1.0)]
        equal = both(pair, on_equal_tables(plan), sides)
        assert compared(equal["source"], equal["target"]).verdict == Verdict.MATCH
        for method in METHODS:
            other = variant(plan, method)
            found = both(pair, other, sides)
            check(found, "injective", method)
            comparison = compared(found["source"], found["target"])
            assert [part.partition for part in comparison.divergent] == [2, 3], method
            equal = both(pair, on_equal_tables(other), sides)
            assert compared(equal["source"], equal["target"]).verdict == Verdict.MATCH, method


@pytest.mark.parametrize("method", METHODS)
def test_a_whole_run_tells_equal_from_unequal(engine: LiveEngine, method: Method) -> None:
    made(engine)
    for table, verdict, divergent in (("nato_source", Verdict.MATCH, []), ("nato_target", Verdict.MISMATCH, [2, 3])):
        report = auditor.audit((engine.url, "nato_source"), (engine.url, table), key=["id"], method=method, partition={"size": SIZE})
        assert report.comparison is not None, report.reasons
        assert report.verdict == verdict
        assert [part.partition for part in report.comparison.divergent] == divergent
        assert report.comparison.total == 4


def test_published_encoding_without_md5_is_refused_before_anything_runs(engine: LiveEngine) -> None:
    """A server that lacks MD5() is found out by the plan, which says what to do."""
    made(engine)
    pair = LivePair(engine, engine)
    if lacks_md5(engine):
        with pytest.raises(HashMissing, match="component_classic_hashing"), planned(pair, audit("published")):
            pass
    else:
        with planned(pair, audit("published")) as (plan, sides):
            check(both(pair, plan, sides), "published", "minhash")
