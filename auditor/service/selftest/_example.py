"""The published example: 32 rows on two sides, of which two differ, with numbers that every engine must reproduce to the last digit."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from auditor import canonical
from auditor.compare.comparator import align, compare
from auditor.model import SIDES, Chunk, Method, Partitioning, Plan, Score, Side, Verdict
from auditor.service.selftest import _expected
from auditor.service.selftest._bench import Bench, require
from auditor.service.selftest._samples import Sample
from auditor.service.selftest._statements import require_summaries
from auditor.service.selftest._texts import column_plan, plan_of
from auditor.sql import render
from auditor.summary import arrays
from dialects import Kind

GROUP = "published example"
WORDS = (
    "ALPHA", "BRAVO", "CHARLIE", "DELTA", "ECHO", "FOXTROT", "GOLF", "HOTEL", "INDIA", "JULIET", "KILO", "LIMA", "MIKE", "NOVEMBER",
    "OSCAR", "PAPA", "QUEBEC", "ROMEO", "SIERRA", "TANGO", "UNIFORM", "VICTOR", "WHISKEY", "XRAY", "YANKEE", "ZULU", "LOREM", "IPSUM",
    "DOLOR", "SIT", "AMET", "CONSECTETUR",
)  # fmt: skip
CHANGED = "JPARKIE"
"""What rows 16 and 24 of the target hold."""

ROWS: Mapping[Side, tuple[tuple[int, str], ...]] = {
    "source": tuple(enumerate(WORDS)),
    "target": tuple((number, CHANGED if number in (16, 24) else word) for number, word in enumerate(WORDS)),
}
COLUMNS = (("id", Kind("integer")), ("text", Kind("text")))
SIZE, K = 8, 4
SCORE = Score(0.9375, 0.6875, 1.0)
SIMILARITIES = [(2, 0.75), (3, 1.0)]
"""The partitions that differ, and the share of minhashes that they have in common."""


def check_example(bench: Bench) -> None:
    """Compare the published numbers with what the engine computes."""
    tables = {side: bench.table(side, COLUMNS, ROWS[side]) for side in SIDES}
    plan = _plan(bench, tables)
    if bench.dialect.HAS_MD5:
        published = dataclasses.replace(plan, method="minhash", k=K, encoding="published", hash="md5")
        with bench.check(GROUP, "the published encoding", render.summary(published, "source", bench.dialect, Chunk())):
            comparison = compare(align(*(_read(bench, published, side) for side in SIDES)))
            require(comparison.published, SCORE, "the score")
            require([(part.partition, part.similarity) for part in comparison.divergent], SIMILARITIES, "the partitions that differ")
    else:
        bench.skip(GROUP, "the published encoding", "the server has no MD5()")
    for method in ("signature", "minhash", "exact"):
        _check_method(bench, plan, method)


def _check_method(bench: Bench, plan: Plan, method: Method) -> None:
    used = dataclasses.replace(plan, method=method, k=K if method == "minhash" else 0, t=3 if method == "exact" else 0)
    with bench.check(GROUP, f"the method {method}", render.summary(used, "source", bench.dialect, Chunk())):
        comparison = compare(align(*(_read(bench, used, side) for side in SIDES)))
        require(comparison.verdict, Verdict.MISMATCH, "the verdict")
        require([part.partition for part in comparison.divergent], [number for number, _ in SIMILARITIES], "the partitions that differ")


def _plan(bench: Bench, tables: Mapping[Side, str]) -> Plan:
    columns = [column_plan(bench, Sample(name, kind, (), ()), kind) for name, kind in COLUMNS]
    plan = plan_of(bench, columns, "")
    sides = {side: dataclasses.replace(plan.sides[side], table=tables[side]) for side in SIDES}
    return dataclasses.replace(plan, sides=sides, partitioning=Partitioning(strategy="range", size=SIZE))


def _read(bench: Bench, plan: Plan, side: Side) -> arrays.Summaries:
    """Return a side's summaries, once they are what the reference computes. Raises Differs."""
    statement = render.summary(plan, side, bench.dialect, Chunk())
    summaries = bench.summaries(statement, render.result_columns(plan))
    texts = [[canonical.text(kind, value) for (_, kind), value in zip(COLUMNS, row, strict=True)] for row in ROWS[side]]
    require_summaries(summaries, _expected.summaries(plan, texts))
    return summaries
