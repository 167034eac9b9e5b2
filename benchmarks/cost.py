"""Part (a): what each method costs each engine, as a multiple of a bare scan.

The bare scan hashes the same row text with SHA-256 and takes a count, the least and greatest key and the least hash of each
partition, behind the dialect's barrier, in the same chunks. Whoever scans the table at all has to pay that much.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import dialects
from auditor import render, service
from auditor.compare.minhash import MASK, MODULUS, constants
from auditor.config import Settings
from auditor.model import Chunk, Plan
from benchmarks import data, ours
from benchmarks.servers import Servers
from dialects import Dialect, Session
from tests.servers._process import Unavailable

ENGINES = ("mariadb", "mysql", "postgres", "redshift", "duckdb", "spark")
BARE = "bare scan, SHA-256"
PRINTED = "published statement as printed, k = 16, MD5, no barriers"
SLOW = 20.0
"""Seconds beyond which a case is run once only."""
PUBLISHED_K = 16


@dataclass
class Cost:
    """The cases of one engine: label to median seconds, in order; ``why`` instead where it did not run."""

    engine: str
    server: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    why: str = ""


def methods() -> list[tuple[str, dict[str, Any]]]:
    """The auditor's own methods: a label and the audit's settings."""
    found: list[tuple[str, dict[str, Any]]] = [("signature", {"method": "signature"})]
    found += [(f"minhash, k = {k}", {"method": "minhash", "k": k}) for k in (4, 16, 64)]
    if ours.EXACT and ours.SYNDROMES:
        found += [(f"exact, t = {t}", {"method": "exact", ours.SYNDROMES: t}) for t in (1, 3, 8)]
    found.append(("published encoding with barriers, k = 16", {"method": "minhash", "k": PUBLISHED_K, "encoding": "published"}))
    return found


def measure(servers: Servers, engine: str, rows: int, directory: Path, repeat: int) -> Cost:
    """All cases on one engine."""
    try:
        url = servers[engine].url
    except Unavailable as reason:
        return Cost(engine, why=str(reason))
    shape = data.SHAPES["dense"]
    path = data.make_file(directory, shape, rows)
    data.load(engine, url, shape, path)
    table = str(data.spark_path(path)) if engine == "spark" else shape.table
    session = dialects.connect(url)
    try:
        if engine == "duckdb":
            session.execute("SET threads = 1")
        cases = _cases(url, table, session.dialect)
        cost = Cost(engine, session.server, _medians(session, cases, repeat, engine))
    finally:
        session.close()
    return cost


def _plan(url: str, table: str, settings: dict[str, Any]) -> Plan:
    side = {"connection": "here", "table": table}
    audit = {"source": side, "target": side, "key": ["id"], **settings}
    whole = Settings.model_validate({"connections": {"here": {"url": url}}, "audits": {"cost": audit}})
    return service.planned(whole, "cost", whole.audit("cost"))


def _cases(url: str, table: str, dialect: Dialect) -> dict[str, list[str]]:
    plan = _plan(url, table, {"method": "signature"})
    chunks = plan.sides["source"].chunks
    cases = {
        BARE: [bare(plan, dialect, chunk) for chunk in chunks],
        "bare scan, MD5": [bare(replace(plan, hash="md5"), dialect, chunk) for chunk in chunks],
    }
    for label, settings in methods():
        plan = _plan(url, table, settings)
        cases[label] = [render.summary(plan, "source", dialect, chunk) for chunk in plan.sides["source"].chunks]
    cases[PRINTED] = [printed(plan, dialect)]
    return cases


def bare(plan: Plan, dialect: Dialect, chunk: Chunk) -> str:
    """A scan that hashes every row and keeps the least hash of each partition."""
    digest = dialect.row_hash(render.row_text(plan, "source", dialect), plan.hash)
    key = plan.columns[0].expression["source"]
    return f"""\
SELECT partition_id, COUNT(*) AS row_count, MIN(k) AS key_min, MAX(k) AS key_max, MIN(h) AS least
FROM (
  SELECT {render.partition(plan, "source", dialect)} AS partition_id, {key} AS k, {digest} AS h{dialect.FENCE_COLUMN}
  FROM {plan.sides["source"].table}
  WHERE {render.where(plan, "source", chunk)}
  {dialect.FENCE}
) hashed_rows
GROUP BY partition_id
ORDER BY partition_id"""


def printed(plan: Plan, dialect: Dialect) -> str:
    """The published statement as it was printed: words and minhashes over a plain derived table, one statement, no barrier."""
    digest = dialect.row_hash(render.row_text(plan, "source", dialect), "md5")
    words = ", ".join(f"{dialect.word(digest, 8 * j + 1, 8)} AS w{j}" for j in range(4))
    sums = ", ".join(dialect.integer_sum(f"w{j}") for j in range(4))
    minima = ", ".join(f"MIN(((w3 * {a} + {b}) % {MODULUS}) & {MASK})" for a, b in constants(PUBLISHED_K))
    key = plan.columns[0].expression["source"]
    return f"""\
SELECT partition_id, COUNT(*), MIN(k), MAX(k), {sums}, {minima}
FROM (
  SELECT {render.partition(plan, "source", dialect)} AS partition_id, {key} AS k, {words}
  FROM {plan.sides["source"].table}
) row_words
GROUP BY partition_id
ORDER BY partition_id"""


def _medians(session: Session, cases: dict[str, list[str]], repeat: int, engine: str) -> dict[str, float]:
    """Median seconds of each case; the cases take turns, so that a slow minute of the machine is shared by all.

    The first turn warms up the caches and Spark's compiler, and counts only for a case that is run once.
    """
    taken: dict[str, list[float]] = {label: [] for label in cases}
    for turn in range(repeat + 1 if repeat > 1 else 1):
        for label, statements in cases.items():
            if taken[label] and taken[label][0] > SLOW:
                continue
            taken[label].append(_timed(session, statements))
            print(f"  {engine:10} {label:58} {taken[label][-1]:7.2f} s{'' if turn else ' (warms up)'}", file=sys.stderr, flush=True)
    return {label: statistics.median(times[1:] or times) for label, times in taken.items()}


def _timed(session: Session, statements: Sequence[str]) -> float:
    began = time.monotonic()
    for statement in statements:
        session.query(statement)
    return time.monotonic() - began
