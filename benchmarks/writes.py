"""Part writes: what a run costs whose reading is chosen by the distribution of writes, beside one that knows only what earlier runs found.

Both runs have the same history, which a first run of the damaged tables writes; the second kind does not know when the tables were last
equal, so that it knows no writes. The runs take turns.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median

import dialects
from auditor.config import Audit, ConnectionSettings
from auditor.history.handover import EarlierRuns
from auditor.model import SIDES, Report, Side, parse_time
from auditor.run import audit_run
from benchmarks.live import TICKS, own_seconds, ticks, with_children
from benchmarks.servers import Servers
from tests.servers.process import Unavailable

PAIRS = ("mysql-postgres", "duckdb-duckdb")
KNOWN, UNKNOWN = "by writes", "by runs"
LAST_MATCH = parse_time("2025-05-01")
EARLY, LATE = "TIMESTAMP '2025-01-01 00:00:00'", "TIMESTAMP '2025-06-01 00:00:00'"

TAIL, SPOTS = "n >= {rows} * 8 DIV 10", "n % ({rows} DIV 5) < {rows} DIV 25"
"""Conditions of the fifth of the keys in which a hot table is written: its end, or five places."""

SCENARIOS: dict[str, tuple[str, str]] = {
    "uniform, nothing differs": ("n % 50 = 0", "1 = 0"),
    "uniform, 10 rows differ": ("n % 50 = 0", "n % ({rows} DIV 10) = 0"),
    "uniform, 0.1 % differ": ("n % 50 = 0", "n % 1000 = 0"),
    "hot end, nothing differs": (TAIL, "1 = 0"),
    "hot end, 200 rows differ": (TAIL, f"{TAIL} AND n % ({{rows}} DIV 1000) = 0"),
    "hot end, 1 % of it differs": (TAIL, f"{TAIL} AND n % 100 = 0"),
    "five hot places, 0.1 % differ": (SPOTS, f"{SPOTS} AND n % 1000 = 0"),
}
"""Conditions of the rows that were written since the last match, and of those that differ, by what they are called."""

ROW = (
    "n, n * 7 % 5000, 'paid', n % 99991, n % 50, CONCAT('title of order ', n), CONCAT('a note that is somewhat longer, of order ', n),"
    " CASE WHEN {written} THEN {late} ELSE {early} END"
)
COLUMNS = (
    "id BIGINT PRIMARY KEY, customer INTEGER, status VARCHAR(20), amount INTEGER, quantity INTEGER, title VARCHAR(60), note VARCHAR(120),"
    " moved {moment} NOT NULL"
)


@dataclass
class WritesCost:
    """One scenario on a pair of engines; ``why`` has the reason if it did not run.

    By how a run was chosen, by writes or by runs alone: ``seconds`` and ``cpu`` (CPU seconds of servers and auditor) of each run, ``bytes``
    received of both sides. ``at_once`` are the ranges of keys that a run by writes read before the pre-scan.
    """

    pair: str
    scenario: str
    rows: int
    seconds: dict[str, list[float]] = field(default_factory=dict)
    cpu: dict[str, list[float]] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)
    at_once: int = 0
    same: bool = True
    """Whether both found the same rows."""
    why: str = ""

    def ratio(self, figures: Mapping[str, list[float]]) -> float:
        """Return the median by writes as a multiple of that by runs alone."""
        return median(figures[KNOWN]) / median(figures[UNKNOWN])


def measure(servers: Servers, pair: str, rows: int, repeat: int, words: Sequence[str] = ()) -> Iterator[WritesCost]:
    """Measure a pair of engines, and yield each scenario; ``words`` choose those whose name has one of them."""
    names = [name for name in SCENARIOS if not words or any(word in name for word in words)]
    source, _, target = pair.partition("-")
    try:
        with _urls(servers, source, target) as urls:
            for name in names:
                yield _measure(urls, pair, name, rows, repeat)
    except Unavailable as reason:
        yield from (WritesCost(pair, name, rows, why=str(reason)) for name in names)


@contextmanager
def _urls(servers: Servers, source: str, target: str) -> Iterator[dict[Side, str]]:
    with tempfile.TemporaryDirectory(prefix="auditor-writes-") as folder:
        urls: dict[Side, str] = {}
        for side, engine in zip(SIDES, (source, target), strict=True):
            file = f"duckdb:///{Path(folder, side)}.duckdb?access_mode=read_write"
            urls[side] = file if engine == "duckdb" else servers[engine].url
        yield urls


def _measure(urls: Mapping[Side, str], pair: str, name: str, rows: int, repeat: int) -> WritesCost:
    cost = WritesCost(pair, name, rows)
    written, differs = (condition.format(rows=rows) for condition in SCENARIOS[name])
    for side in SIDES:
        _fill(urls[side], rows, written, differs if side == "target" else "1 = 0")
    meters = _meters(urls)
    first = _run(urls, EarlierRuns())
    histories = {KNOWN: _history(first), UNKNOWN: replace(_history(first), verified_through=None)}
    found = {}
    for turn in range(repeat + 1):
        for how, earlier in histories.items():
            before, began = sum(meter() for meter in meters), time.monotonic()
            report = found[how] = _run(urls, earlier)
            seconds, used = time.monotonic() - began, sum(meter() for meter in meters) - before
            if turn:  # the first of each warms up
                cost.seconds.setdefault(how, []).append(seconds)
                cost.cpu.setdefault(how, []).append(used)
            assert report.plan is not None, report.reasons
            cost.bytes[how] = sum(report.cost[side].bytes for side in SIDES)
            if how == KNOWN and report.plan.prescan:
                cost.at_once = len(report.plan.prescan.at_once)
    cost.same = len({(report.verdict, _named(report)) for report in found.values()}) == 1
    said = f"{cost.ratio(cost.seconds):.2f} of the seconds, {cost.ratio(cost.cpu):.2f} of the CPU time; same: {cost.same}"
    print(f"  {pair} {name}: {said}; {cost.bytes}; {cost.at_once} ranges at once", file=sys.stderr, flush=True)
    return cost


def _named(report: Report) -> frozenset[str | None]:
    return frozenset(row.key["id"] for row in report.differences.named) if report.differences else frozenset()


def _history(report: Report) -> EarlierRuns:
    """Return what three runs like this one leave, after one that found all equal."""
    comparison = report.comparison
    assert comparison is not None, report.reasons
    return EarlierRuns(
        unequal_shares=(comparison.unequal / comparison.total,) * 3,
        unequal_keys=tuple(part.key_range[0] for part in comparison.divergent if part.key_range),
        verified_through=LAST_MATCH,
    )


def _run(urls: Mapping[Side, str], earlier: EarlierRuns) -> Report:
    ends = {side: {"connection": side, "table": "written"} for side in SIDES}
    audit = Audit.model_validate({**ends, "key": ["id"], "settle": {"column": "moved", "lag": "1s"}})
    connections: dict[str, ConnectionSettings] = {side: ConnectionSettings(url=urls[side]) for side in SIDES}
    return audit_run.perform("writes", audit, connections, earlier=earlier).report


def _fill(url: str, rows: int, written: str, differs: str) -> None:
    """Make the table, with an index of the times on servers, and let the rows that differ have another status."""
    session = dialects.connect(url)
    moment = "DATETIME(6)" if session.dialect.name in ("mysql", "mariadb") else "TIMESTAMP(6)"
    div = "DIV" if session.dialect.name in ("mysql", "mariadb") else "//" if session.dialect.name == "duckdb" else "/"
    written, differs = (condition.replace("DIV", div) for condition in (written, differs))
    row = ROW.format(written=written, late=LATE, early=EARLY).replace("'paid'", f"CASE WHEN {differs} THEN 'open' ELSE 'paid' END")
    places = range(len(str(rows - 1)))
    digits = " CROSS JOIN ".join(f"({' UNION ALL '.join(f'SELECT {n} AS d' for n in range(10))}) AS t{place}" for place in places)
    number = " + ".join(f"t{place}.d * {10**place}" for place in places)
    statements = [
        "DROP TABLE IF EXISTS written",
        f"CREATE TABLE written ({COLUMNS.format(moment=moment)})",
        f"INSERT INTO written SELECT {row} FROM (SELECT {number} AS n FROM {digits}) AS numbers WHERE n < {rows} ORDER BY n",
        *(["CREATE INDEX written_moved ON written (moved)"] if session.dialect.ROW_STORE else []),
        *(["ANALYZE TABLE written"] if moment == "DATETIME(6)" else ["ANALYZE"]),
    ]
    try:
        for statement in statements:
            session.execute(statement)
    finally:
        session.close()


def _meters(urls: Mapping[Side, str]) -> list[Callable[[], float]]:
    """Return what reads the CPU seconds that the servers and this process have used."""
    meters = [own_seconds]
    for url in urls.values():
        session = dialects.connect(url)
        try:
            if session.dialect.name == "mysql":
                file, folder = session.query_row("SELECT @@pid_file, @@datadir")
                meters.append(partial(_seconds, int(Path(str(folder), str(file)).read_text())))
            elif session.dialect.name == "postgres":
                [text] = session.query_row("SELECT pg_read_file('postmaster.pid')")
                meters.append(partial(with_children, int(str(text).split("\n", 1)[0])))
        finally:
            session.close()
    return meters


def _seconds(pid: int) -> float:
    return ticks(pid) / TICKS
