"""Part cost: the duration of each method on each engine, as a multiple of a bare scan.

The bare scan hashes the same row text with SHA-256 and computes the count, the least and greatest key and the least hash of each
partition, with the dialect's optimizer barrier and in the same chunks: the minimum that any method has to spend.
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
from auditor import service
from auditor.config import Settings
from auditor.model import Chunk, Plan
from auditor.sql import key_number, render, row_text
from auditor.summary.minhash import LOW_BITS, MODULUS, constants
from benchmarks import data
from benchmarks.servers import Servers
from benchmarks.shapes import SHAPES
from dialects import Dialect, Session
from tests.servers.process import Unavailable

ENGINES = ("mariadb", "mysql", "postgres", "redshift", "duckdb", "spark")
BARE_SCAN = "bare scan, SHA-256"
PUBLISHED_STATEMENT = "published statement as printed, k = 16, MD5, no barriers"
RUN_ONCE_ABOVE = 20.0
"""Seconds; a case that takes longer is run only once."""

PUBLISHED_K = 16
"""Minhashes in the published statement."""


@dataclass
class Cost:
    """Median seconds by label of the case on one engine; ``why`` has the reason if it did not run."""

    engine: str
    server: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    why: str = ""


def method_settings() -> list[tuple[str, dict[str, Any]]]:
    """Return the auditor's methods: labels and settings of an audit."""
    settings: list[tuple[str, dict[str, Any]]] = [("signature", {"method": "signature"})]
    settings += [(f"minhash, k = {k}", {"method": "minhash", "k": k}) for k in (4, 16, 64)]
    settings += [(f"exact, t = {t}", {"method": "exact", "t": t}) for t in (1, 3, 8)]
    settings.append(("published encoding with barriers, k = 16", {"method": "minhash", "k": PUBLISHED_K, "encoding": "published"}))
    return settings


def measure(servers: Servers, engine: str, rows: int, directory: Path, repeat: int) -> Cost:
    """Measure all cases on one engine; ``repeat`` is the number of measured runs."""
    try:
        url = servers[engine].url
    except Unavailable as reason:
        return Cost(engine, why=str(reason))
    shape = SHAPES["dense"]
    path = data.make_file(directory, shape, rows)
    data.load(engine, url, shape, path)
    table = str(data.spark_path(path)) if engine == "spark" else shape.table
    session = dialects.connect(url)
    try:
        if engine == "duckdb":
            session.execute("SET threads = 1")
        cases = _cases(url, table, session.dialect)
        cost = Cost(engine, session.server, _measure_medians(session, cases, repeat, engine))
    finally:
        session.close()
    return cost


def make_plan(url: str, table: str, settings: dict[str, Any]) -> Plan:
    """Return the plan of an audit of a table against itself, by its key ``id`` unless the settings name another."""
    side = {"connection": "here", "table": table}
    audit = {"source": side, "target": side, "key": ["id"], **settings}
    configuration = Settings.model_validate({"connections": {"here": {"url": url}}, "audits": {"cost": audit}})
    return service.make_plan(configuration, "cost", configuration.audit("cost"))


def _cases(url: str, table: str, dialect: Dialect) -> dict[str, list[str]]:
    plan = make_plan(url, table, {"method": "signature"})
    chunks = plan.sides["source"].chunks
    cases = {
        BARE_SCAN: [bare_scan(plan, dialect, chunk) for chunk in chunks],
        "bare scan, MD5": [bare_scan(replace(plan, hash="md5"), dialect, chunk) for chunk in chunks],
    }
    for label, settings in method_settings():
        plan = make_plan(url, table, settings)
        cases[label] = [render.summary(plan, "source", dialect, chunk) for chunk in plan.sides["source"].chunks]
    cases[PUBLISHED_STATEMENT] = [published_statement(plan, dialect)]
    return cases


def bare_scan(plan: Plan, dialect: Dialect, chunk: Chunk) -> str:
    """Return a statement that hashes every row and yields the least hash of each partition."""
    digest = dialect.hashes.row_hash(row_text.row_text(plan, "source", dialect), plan.hash)
    key = plan.columns[0].expression["source"]
    fence = f", {dialect.OPTIMIZER_BARRIER_COLUMN} AS fence" if dialect.OPTIMIZER_BARRIER_COLUMN else ""
    return f"""\
SELECT partition_id, COUNT(*) AS row_count, MIN(k) AS key_min, MAX(k) AS key_max, MIN(h) AS least
FROM (
  SELECT {key_number.partition(plan, "source", dialect)} AS partition_id, {key} AS k, {digest} AS h{fence}
  FROM {plan.sides["source"].table}
  WHERE {render.where(plan, "source", chunk)}
  {dialect.OPTIMIZER_BARRIER}
) hashed_rows
GROUP BY partition_id
ORDER BY partition_id"""


def published_statement(plan: Plan, dialect: Dialect) -> str:
    """Return the statement as published: words and minhashes over a plain derived table, without chunks or barrier."""
    digest = dialect.hashes.row_hash(row_text.row_text(plan, "source", dialect), "md5")
    words = ", ".join(f"{dialect.numbers.word(digest, 8 * j + 1, 8)} AS w{j}" for j in range(4))
    sums = ", ".join(dialect.numbers.integer_sum(f"w{j}") for j in range(4))
    minima = ", ".join(f"MIN(((w3 * {a} + {b}) % {MODULUS}) & {LOW_BITS})" for a, b in constants(PUBLISHED_K))
    key = plan.columns[0].expression["source"]
    return f"""\
SELECT partition_id, COUNT(*), MIN(k), MAX(k), {sums}, {minima}
FROM (
  SELECT {key_number.partition(plan, "source", dialect)} AS partition_id, {key} AS k, {words}
  FROM {plan.sides["source"].table}
) row_words
GROUP BY partition_id
ORDER BY partition_id"""


def _measure_medians(session: Session, cases: dict[str, list[str]], repeat: int, engine: str) -> dict[str, float]:
    """Return the median seconds of each case. The cases take turns, so that a slow period of the machine affects all of them.

    The first turn warms up caches and Spark's compiler; it counts only for a case that is run once.
    """
    taken: dict[str, list[float]] = {label: [] for label in cases}
    for turn in range(repeat + 1 if repeat > 1 else 1):
        for label, statements in cases.items():
            if taken[label] and taken[label][0] > RUN_ONCE_ABOVE:
                continue
            taken[label].append(_measure_seconds(session, statements))
            print(f"  {engine:10} {label:58} {taken[label][-1]:7.2f} s{'' if turn else ' (warm-up)'}", file=sys.stderr, flush=True)
    return {label: statistics.median(times[1:] or times) for label, times in taken.items()}


def _measure_seconds(session: Session, statements: Sequence[str]) -> float:
    start = time.monotonic()
    for statement in statements:
        session.query(statement)
    return time.monotonic() - start
