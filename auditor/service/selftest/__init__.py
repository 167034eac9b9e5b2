"""Test a connection's own engine: canonical texts, the published example, and every kind of statement, against the reference in Python.

Nothing is written into a schema: the values are in temporary tables where the session may have them, else in derived tables of the
statements themselves. What an engine computes is compared with ``auditor.canonical`` and with plain Python.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass

import dialects
from auditor import canonical
from auditor.compare.comparator import align, compare
from auditor.config import Settings
from auditor.model import SIDES, Chunk, Method, Partitioning, Plan, Score, Side, Verdict
from auditor.service.selftest.bench import Bench, Check, Differs, require
from auditor.service.selftest.pieces import check_pieces
from auditor.service.selftest.server import check_server
from auditor.service.selftest.statements import check_statements, expected_summaries, require_summaries
from auditor.service.selftest.texts import SAMPLES, Sample, catalogue_kind, check_texts, column_plan, plan_of
from auditor.sql import render
from auditor.summary import arrays
from dialects import Kind, Session

__all__ = ["SAMPLES", "Check", "Differs", "Sample", "SelfTest", "catalogue_kind", "check_session", "ignore_check", "selftest"]


@dataclass(frozen=True, slots=True)
class SelfTest:
    """What a self-test found."""

    connection: str
    """Name of the connection."""
    engine: str
    """Name of the dialect."""
    server: str
    """Name and version of the server."""
    tables: str
    """Where the values were, for a person."""
    checks: tuple[Check, ...]
    """All checks, in the order in which they were made."""

    @property
    def failed(self) -> list[Check]:
        """Return the checks that failed."""
        return [check for check in self.checks if check.outcome == "failed"]


def ignore_check(_: Check) -> None:
    """Ignore a check."""


def selftest(settings: Settings, connection: str, on_check: Callable[[Check], None] = ignore_check) -> SelfTest:
    """Test the engine behind a connection. ``on_check`` receives each check as it ends.

    Raises ConfigError for an unknown name, and errors of the tree if the server cannot be reached or the connection is lost.
    """
    configured = settings.connection(connection)
    limits = configured.limits
    with closing(dialects.connect(configured.url, limits.statement_timeout, limits.lock_timeout)) as session:
        return check_session(session, connection, on_check)


def check_session(session: Session, name: str, on_check: Callable[[Check], None] = ignore_check) -> SelfTest:
    """Test the engine behind an open session of the connection ``name``. Raises errors of the tree if the connection is lost."""
    bench = Bench(session, on_check)
    try:
        for part in (check_texts, check_pieces, check_example, check_statements, check_server):
            part(bench)
    finally:
        bench.drop_tables()
    tables = "temporary tables, which end with the session"
    if bench.refusal:
        tables = f"values in each statement, because the session may have no temporary tables: {bench.refusal}"
    return SelfTest(name, session.dialect.name, session.server, tables, tuple(bench.checks))


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
    if bench.dialect.hashes.HAS_MD5:
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
    require_summaries(summaries, expected_summaries(plan, texts))
    return summaries
