"""Part live: what an audit by live summaries costs both servers beside a full one, and what the stream pays for keeping the sums.

The pipeline runs in this process, without Spark: so its CPU time is that of reading, staging and merging alone.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from auditor.model import Verdict
from auditor.pipeline import live
from auditor.pipeline.merge.loader import Loader
from auditor.service import running
from benchmarks.servers import Servers
from benchmarks.stream import TABLE, TABLE_NAME
from tests.live import LiveEngine
from tests.pipeline.aligned_road import AUDIT, AlignedRoad
from tests.servers.process import Unavailable

PAIRS = ("mysql-postgres", "mariadb-postgres", "mysql-duckdb")
LIVE, FULL, LEDGER = "live", "full", "ledger"
SOURCE, TARGET, OWN = "source", "target", "auditor"
BEGUN = 100
"""Rows that come through the pipeline before the others are written on both sides."""

CHANGED = 1000
"""Every so many rows one is changed once the sums are kept."""

EVENTS = 20_000
"""Row events that the pipeline carries in each turn, with live summaries and without them."""

STAGE_EVERY = 1.0
"""Seconds from one look at the log to the next while an audit runs."""

TICKS = os.sysconf("SC_CLK_TCK")
"""Of the times in /proc, per second."""

ROW = (
    "n, n * 7 % 5000, 'paid', n % 99991, n % 50, CONCAT('title of order ', n), CONCAT('a note that is somewhat longer, of order ', n),"
    " TIMESTAMP '2024-01-28 12:34:56', NULL, n / 8e0"
)


@dataclass
class LiveCost:
    """One pair of engines; ``why`` has the reason if it did not run.

    ``cpu`` and ``seconds`` have the figures of each run by audit, live or full: CPU seconds by server and of the auditor's own process,
    of which DuckDB is a part. ``rates`` are events per CPU second of the pipeline's process, with live summaries, with a ledger beside and
    without both; ``with_target`` are the same with the CPU seconds of the target's server, and ``speeds`` events per second.
    """

    pair: str
    rows: int = 0
    cpu: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    rates: dict[str, list[float]] = field(default_factory=dict)
    with_target: dict[str, list[float]] = field(default_factory=dict)
    speeds: dict[str, list[float]] = field(default_factory=dict)
    prescan: dict[str, str] = field(default_factory=dict)
    """What each audit's pre-scan found; empty where it made none."""
    why: str = ""

    def servers(self, audit: str) -> float:
        """Return the CPU seconds of both servers in a run, the median; of DuckDB those of the process that it is a part of."""
        used = self.cpu[audit]
        return median(map(sum, zip(used[SOURCE], used[OWN if self.pair.endswith("duckdb") else TARGET], strict=True)))


def measure(servers: Servers, pair: str, rows: int, repeat: int) -> LiveCost:
    """Measure a pair of engines with tables of ``rows`` rows; the audits take turns, ``repeat`` times each."""
    source, target = pair.split("-")
    try:
        url, into = servers[source].url, "" if target == "duckdb" else servers[target].url
    except Unavailable as reason:
        return LiveCost(pair, why=str(reason))
    print(f"live: {pair}", file=sys.stderr)
    cost = LiveCost(pair, rows)
    with tempfile.TemporaryDirectory(prefix="auditor-live-") as name, closing(_Carried(Path(name), source, url, into)) as road:
        road.fill_both(rows)
        cost.why = _begin(road)
        if not cost.why:
            _compare_audits(road, cost, repeat)
            _compare_streams(road, cost, rows, repeat)
    return cost


class _Carried(AlignedRoad):
    """A pipeline of one table of ten columns, audited with live summaries and without."""

    def __init__(self, folder: Path, source: str, url: str, into: str) -> None:
        super().__init__(folder, LiveEngine(source, "mysql", url), TABLE_NAME, into, "live_cost", "summaries: live")
        audit = self.settings.audits[AUDIT]
        self.settings.audits[FULL] = audit.model_copy(update={"summaries": None, "align": None})

    def fill_both(self, rows: int) -> None:
        """Make the table, let its first rows come through the pipeline, and write the others on both sides."""
        self.log.run(f"DROP TABLE IF EXISTS {TABLE_NAME}", TABLE, f"INSERT INTO {TABLE_NAME} {_rows(0, BEGUN)}")
        self.merge()
        self.log.run("SET sql_log_bin = 0", f"INSERT INTO {TABLE_NAME} {_rows(BEGUN, rows)}", f"ANALYZE TABLE {TABLE_NAME}")
        self.execute(f"INSERT INTO {self.schema}.{TABLE_NAME} {_rows(BEGUN, rows)}")
        self.execute("ANALYZE")

    def arrive(self) -> str:
        """Wait until the target holds what the log has; return why it does not."""
        sums = live.find_sums(self.settings, self.store, AUDIT, self.settings.audits[AUDIT])
        return sums if isinstance(sums, str) else sums.pass_end()


def _rows(first: int, end: int) -> str:
    places = range(len(str(end - 1)))
    digits = " CROSS JOIN ".join(f"({' UNION ALL '.join(f'SELECT {n} AS d' for n in range(10))}) AS t{place}" for place in places)
    number = " + ".join(f"t{place}.d * {10**place}" for place in places)
    return f"SELECT {ROW} FROM (SELECT {number} AS n FROM {digits}) AS numbers WHERE n >= {first} AND n < {end}"


def _begin(road: _Carried) -> str:
    """Let the stream begin to keep the sums, change some rows of every partition, and return why that failed."""
    with road.delivering():
        begun = running.run_audit(road.settings, AUDIT, store=road.store)
        if begun.verdict is not Verdict.MATCH:
            return f"the first audit ended with {begun.verdict}: {'; '.join(begun.reasons)}"
        road.log.run(f"UPDATE {TABLE_NAME} SET quantity = quantity + 1 WHERE id % {CHANGED} = 0")
        return road.arrive()


def _compare_audits(road: _Carried, cost: LiveCost, repeat: int) -> None:
    """Run both audits in turns while the pipeline runs, after one of each that warms up; the history says that nothing differs."""
    meters = _meters(road)
    for audit in (LIVE, FULL):
        cost.cpu[audit], cost.seconds[audit] = {side: [] for side in meters}, []
    for turn in range(repeat + 1):
        for audit, name in ((LIVE, AUDIT), (FULL, FULL)):
            with road.delivering(STAGE_EVERY):
                if why := road.arrive():
                    raise RuntimeError(why)
                before, began = {side: meter() for side, meter in meters.items()}, time.monotonic()
                report = running.run_audit(road.settings, name, store=road.store)
                seconds, after = time.monotonic() - began, {side: meter() for side, meter in meters.items()}
            if report.verdict is not Verdict.MATCH or (audit == LIVE and (not report.live or report.live.scanned)):
                raise RuntimeError(f"{audit}: {report.verdict}: {'; '.join(report.reasons)}")
            cost.prescan[audit] = next((note for note in report.notes if note.startswith("pre-scan")), "")
            if turn:
                cost.seconds[audit].append(seconds)
                for side in meters:
                    cost.cpu[audit][side].append(after[side] - before[side])


def _meters(road: _Carried) -> dict[str, Callable[[], float]]:
    """Return what reads the CPU seconds that each has used: the servers, with sessions that have ended, and this process."""
    [(file, folder)] = road.log.run("SELECT @@pid_file, @@datadir")
    source = int(Path(folder, file).read_text())
    meters = {SOURCE: lambda: ticks(source) / TICKS, OWN: own_seconds}
    if road.query_dialect != "duckdb":
        [(text,)] = road.query("SELECT pg_read_file('postmaster.pid')")
        postmaster = int(str(text).split("\n", 1)[0])
        meters[TARGET] = lambda: with_children(postmaster)
    return meters


def own_seconds() -> float:
    """Return the CPU seconds of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def with_children(pid: int) -> float:
    """Return the CPU seconds of a server whose sessions are processes: those of one that ends become its parent's."""
    while True:
        sessions = _children(pid)
        with suppress(FileNotFoundError):
            used = sum(ticks(process) for process in (pid, *sessions))
            if sessions == _children(pid):
                return used / TICKS


def ticks(pid: int) -> int:
    """Return the CPU time of a process and of its children that have ended, in ticks."""
    return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _compare_streams(road: _Carried, cost: LiveCost, rows: int, repeat: int) -> None:
    """Carry the same statements in turns: with live summaries, with a ledger beside them, and by tables without both."""
    road.loader = Loader(road.loader.where, "wh", road.settings.connections["warehouse"])  # the one that delivered has been stopped
    carried: dict[str, tuple[AlignedRoad, str]] = {LIVE: (road, TABLE_NAME)}
    meters = _meters(road)
    with ExitStack() as held:
        for label, more in ((LEDGER, "summaries: live, ledger: true"), (FULL, "")):
            folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix=f"auditor-{label}-")))
            carried[label] = (held.enter_context(closing(_beside(road, folder, label, more, rows))), f"{TABLE_NAME}_{label}")
        for turn in range(repeat + 1):
            for label, (of_label, table) in carried.items():
                road.log.run(f"UPDATE {table} SET quantity = (quantity + 1) % 50, weight = {turn} WHERE id < {min(rows, EVENTS)}")
                before, began = {side: meter() for side, meter in meters.items()}, time.monotonic()
                of_label.merge()
                seconds, used = time.monotonic() - began, {side: meter() - before[side] for side, meter in meters.items()}
                if turn:
                    cost.rates.setdefault(label, []).append(min(rows, EVENTS) / used[OWN])
                    cost.with_target.setdefault(label, []).append(min(rows, EVENTS) / (used[OWN] + used.get(TARGET, 0.0)))
                    cost.speeds.setdefault(label, []).append(min(rows, EVENTS) / seconds)


def _beside(road: _Carried, folder: Path, label: str, more: str, rows: int) -> AlignedRoad:
    """Return a pipeline of another table, with rows for the events; its sums and its ledger have begun, if it has any."""
    table = f"{TABLE_NAME}_{label}"
    into = "" if road.query_dialect == "duckdb" else road.settings.connections["warehouse"].url
    made = AlignedRoad(folder, LiveEngine("source", "mysql", road.source_url), table, into, f"live_cost_{label}", more)
    road.log.run(f"DROP TABLE IF EXISTS {table}", f"CREATE TABLE {table} LIKE {TABLE_NAME}")
    road.log.run(f"INSERT INTO {table} SELECT * FROM {TABLE_NAME} WHERE id < {min(rows, EVENTS)}")
    made.merge()
    if more:
        with made.delivering():
            begun = made.audit()
        if begun.verdict is not Verdict.MATCH:
            raise RuntimeError(f"{label}: {begun.verdict}: {'; '.join(begun.reasons)}")
        made.loader = Loader(made.loader.where, "wh", made.settings.connections["warehouse"])
    return made
