"""Part ratios: the server's CPU time of each method, as a multiple of hashing the same row text.

The base is ``SELECT SUM(LENGTH(<row hash>)) FROM <table>``: what reading, writing out and hashing the rows costs, without any summary.
The floor is the statement of the method exact with plain columns in place of its words and power sums: what the base, the number of the
hash, the optimizer barrier and GROUP BY cost together, which no choice of sums can change. Below it, with integer keys, are "grouped", one
aggregate of the hash for each partition, and "one sum", one sum of a number of the hash: no statement that groups rows costs less than the
first, and none from which rows are decoded less than the second.

CPU time, not duration, because it depends less on what else runs: of a database's server process, of PostgreSQL's the connection's own
process, and of this process with those that it started for engines that run in it.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import dialects
from auditor.model import SIDES, Plan, Prescan
from auditor.planning import prescan
from auditor.planning.prescan import AIM_ROWS, STRETCHES, plan_of_stretches
from auditor.sql import key_number, power_sums, render, row_text
from auditor.sql.key_number import count_groups
from auditor.sql.power_sums import aggregates
from benchmarks import cost, data
from benchmarks.process import process_tree
from benchmarks.servers import Servers
from benchmarks.shapes import SHAPES
from dialects import Dialect, Session
from tests.servers.process import Unavailable

BASE = "base"
ROWS = 300_000
"""Rows of a table, unless the command line says otherwise."""

KEYS: dict[str, tuple[str, dict[str, Any]]] = {
    "integer": ("dense", {}),
    "composite": ("composite", {}),
    "UUID": ("uuid", {"columns": {"override": {"uid": {"kind": "uuid"}}}}),
}
"""Shape of the table and further settings of the audit, by the kind of key. The UUIDs are VARCHAR(36) on each engine."""


@dataclass
class Ratios:
    """Median CPU seconds by label of the case, for one engine and kind of key; ``why`` has the reason if it did not run."""

    engine: str
    key: str
    rows: int
    seconds: dict[str, float] = field(default_factory=dict)
    why: str = ""


def measure(servers: Servers, engine: str, rows: int, directory: Path, repeat: int) -> list[Ratios]:
    """Measure one engine with each kind of key; ``repeat`` is the number of measured runs, of which the first of each case warms up."""
    try:
        url = servers[engine].url
    except Unavailable as reason:
        return [Ratios(engine, key, rows, why=str(reason)) for key in KEYS]
    measured = []
    for key, (name, settings) in KEYS.items():
        shape = SHAPES[name]
        path = data.make_file(directory, shape, rows)
        data.load(engine, url, shape, path)
        table = str(data.spark_path(path)) if engine == "spark" else shape.table
        plan = cost.make_plan(url, table, {"key": list(shape.key), "method": "exact", **settings})
        session = dialects.connect(url)
        try:
            if engine == "duckdb":
                session.execute("SET threads = 1")
            cases = _cases(plan, session)
            measured.append(Ratios(engine, key, rows, _median_seconds(session, cases, repeat, _clock(engine, session))))
        finally:
            session.close()
        for label, seconds in measured[-1].seconds.items():
            print(
                f"  {engine:10} {key:10} {label:12} {seconds:7.3f} s {seconds / measured[-1].seconds[BASE]:6.2f}",
                file=sys.stderr,
                flush=True,
            )
    return measured


def _cases(plan: Plan, session: Session) -> dict[str, list[str]]:
    """Return the statements of each case."""
    dialect = session.dialect
    text = row_text.row_text(plan, "source", dialect)
    stretches = plan_of_stretches(replace(plan, prescan=_prescan(plan, session)))
    bounds = {}
    if plan.partitioning.strategy == "range":
        add, _ = aggregates(plan, dialect)
        bounds["grouped"] = [_grouped(plan, dialect, f"MAX({dialect.hashes.row_hash(text, plan.hash)})")]
        bounds["one sum"] = [_grouped(plan, dialect, add(f"({power_sums.fragments(plan, 'source', dialect)['word']} >> 30)"))]
    return {
        BASE: [f"SELECT SUM(LENGTH({dialect.hashes.row_hash(text, plan.hash)})) FROM {plan.sides['source'].table}"],
        "pre-scan": _summaries(stretches, dialect),
        **bounds,
        "signature": _summaries(replace(plan, method="signature", t=0), dialect),
        "floor": [_plain_sums(plan, dialect)],
        f"exact, t = {plan.t}": _summaries(plan, dialect),
    }


def _prescan(plan: Plan, session: Session) -> Prescan:
    """Return how a run would begin: by digests where the engine has them, by groups of keys that are no single integer elsewhere."""
    size, has_digests = plan.partitioning.size, session.dialect.hashes.MAX_JOINED_BYTES > 0
    if not size and has_digests:
        ends = prescan.read_ends(plan, "source", session)
        cuts = prescan.place_cuts(plan, dict.fromkeys(SIDES, session.dialect), dict.fromkeys(SIDES, ends))
        return Prescan(used=True, why="", groups=len(cuts["source"]) - 1, digest_rows=2 * AIM_ROWS, cuts=dict(cuts))
    if not size:
        return Prescan(used=True, why="", groups=count_groups(plan))
    if has_digests:
        return Prescan(used=True, why="", partitions=AIM_ROWS // size, digest_rows=2 * AIM_ROWS)
    return Prescan(used=True, why="", partitions=-(-(plan.span // size + 1) // STRETCHES))


def _summaries(plan: Plan, dialect: Dialect) -> list[str]:
    return [render.summary(plan, "source", dialect, chunk) for chunk in plan.sides["source"].chunks]


def _grouped(plan: Plan, dialect: Dialect, aggregate: str) -> str:
    """Return the statement of one aggregate for each partition, without an optimizer barrier, as the hash stands in it once."""
    partition = key_number.partition(plan, "source", dialect)
    return f"SELECT {partition}, COUNT(*), {aggregate} FROM {plan.sides['source'].table} GROUP BY 1"


def _plain_sums(plan: Plan, dialect: Dialect) -> str:
    """Return the statement of the method exact with as many sums of a plain column."""
    parts = power_sums.fragments(plan, "source", dialect)
    add, _ = aggregates(plan, dialect)
    column = plan.named(f"hashed_rows.{'x' if plan.partitioning.strategy == 'range' else 'kv'}")
    fence = f", {dialect.OPTIMIZER_BARRIER_COLUMN} AS {plan.named('fence')}" if dialect.OPTIMIZER_BARRIER_COLUMN else ""
    sums = ", ".join([add(column)] * (power_sums.count_sums(plan) + 1))
    return f"""\
SELECT {parts["partition"]}, COUNT(*), {parts["counted"]}, {sums}
FROM (
  SELECT {parts["located"]}, {parts["word"]} AS {plan.named("v")}{fence}
  FROM {plan.sides["source"].table}
  {dialect.OPTIMIZER_BARRIER}
) {plan.named("hashed_rows")}
GROUP BY {parts["partition"]}"""


def _median_seconds(session: Session, cases: dict[str, list[str]], repeat: int, clock: Callable[[], float]) -> dict[str, float]:
    taken: dict[str, list[float]] = {label: [] for label in cases}
    for _ in range(repeat + 1):
        for label, statements in cases.items():
            began = clock()
            for statement in statements:
                session.query(statement)
            taken[label].append(clock() - began)
    return {label: statistics.median(times[1:]) for label, times in taken.items()}


def _clock(engine: str, session: Session) -> Callable[[], float]:
    """Return a function that returns the CPU seconds that the engine has spent so far."""
    if engine in data.MYSQL_FAMILY:
        file, folder = session.query("SELECT @@pid_file, @@datadir")[0]
        pids = [int(Path(folder, file).read_text())]
    elif engine in ("postgres", "redshift"):
        pids = [int(session.query("SELECT pg_backend_pid()")[0][0])]
    else:
        pids = process_tree(os.getpid())
    return lambda: sum(_cpu_seconds(pid) for pid in pids)


def _cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process's threads. https://docs.kernel.org/scheduler/sched-stats.html#proc-pid-schedstat"""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # a thread that has ended meanwhile
            total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9
