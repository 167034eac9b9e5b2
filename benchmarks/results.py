"""Measurements as Markdown tables, on the terminal and in RESULTS.md, and as plots."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import outcome, repair_tables
from benchmarks.alarm import Alarm
from benchmarks.capture import OURS, Captured
from benchmarks.copies import Copy
from benchmarks.cost import BARE_SCAN, PUBLISHED_STATEMENT, Cost
from benchmarks.duel import Row
from benchmarks.files import FilesCost
from benchmarks.in_flight import BATCH, BOUND, EDITED, LOST, InFlight
from benchmarks.live import CHANGED, EVENTS, FULL, LEDGER, LIVE, OWN, SOURCE, TARGET, LiveCost
from benchmarks.load import AUDITS, CONCURRENT_AUDITS, HISTORY, SECONDS, SERVICE_NICENESS, Load
from benchmarks.plots import write_dot_plot
from benchmarks.primary import ALONE, CLIENTS, LIMITS, POOL, RATE, Primary
from benchmarks.ratios import BASE, Ratios
from benchmarks.refreshing import Refreshed
from benchmarks.repairing import Repaired
from benchmarks.road import LATENCIES, Road
from benchmarks.servers import CONDITIONS
from benchmarks.shuffled import ShuffledCost
from benchmarks.start import AUDITS as LISTED_AUDITS
from benchmarks.start import ROWS as FEW_ROWS
from benchmarks.start import Start
from benchmarks.stream import DECODED, OTHER, Stream
from benchmarks.tables import ROWS_PER_TRANSACTION, WATCHED, Tables
from benchmarks.writes import KNOWN, UNKNOWN, WritesCost

EXACT = "exact, t = 3"
"""The label of the method by its defaults among the costs."""

CONDITIONS_NOTES = f"""\
{CONDITIONS}
Each tool runs in its own process, whose start is part of its time, and connects to both servers through the same counting proxy
(`benchmarks/wire.py`). Before each scenario the servers write their dirty pages and read the tables once; the tools take turns. What takes
less than 10 s is repeated up to five times, anything longer up to three times, and the median shown. Every tool compares all columns
besides the key unless stated otherwise, with its default settings and the same number of connections.
"""
COST_NOTES = """\
Duration of the method's statements on one connection, as a multiple of a bare scan on the same engine: count, least and greatest key and
least SHA-256 of the same row text by partition, in the same chunks. DuckDB and Spark use one thread.
"""
RATIO_NOTES = """\
CPU time of the server for the method's statements on one connection, as a multiple of `SELECT SUM(LENGTH(<row hash>))` over the same row
text. With integer keys no statement that groups rows by partition costs less than "grouped", which has one MAX of the hash, and none from
which rows are decoded less than "one sum", as decoding needs numbers; "floor" is `exact` with plain columns in place of its words and power
sums. So on MySQL and MariaDB `exact` in one pass cannot come near the base; the pre-scan, with which runs begin that expect few
differences, can, as it hashes ranges of rows without grouping any. Tried and not cheaper: BIT_XOR of binary hashes, UNCOMPRESSED_LENGTH of
eight bytes, MariaDB's COLUMN_GET of a number, and a second derived table for positions and powers.
"""
START_NOTES = f"""\
What commands cost that have little to do, medians. Two tables of {FEW_ROWS:,} rows without a difference, MariaDB to PostgreSQL;
{LISTED_AUDITS} audits of tables in DuckDB, none of which ran before. The interpreter's own start and that of the drivers are part of it.
"""
LOAD_NOTES = f"""\
`auditor serve` in one process, its readers in another, and the databases beside them, all on the cores of this machine; the service has
priority over the databases (niceness {SERVICE_NICENESS}). It has {len(AUDITS)} audits with {HISTORY} runs each. Each client asks for the
list of audits and for single ones in turn. {CONCURRENT_AUDITS} audits run at a time: once alone, then for at least {SECONDS:.0f} s while
the clients read.
"""
STREAM_NOTES = """\
Rates per second of the reading process's CPU, warm. The log has inserts, updates and deletes of a table of ten columns in events of 100
rows or more, and updates in transactions of one row each.
"""
ROAD_NOTES = f"""\
`auditor pipeline run` at `local[2]` with `every: 0s`, from a log of one table of ten columns that was written before it started; source
and targets run on the same cores. "Sustained" is from the beginning of the first batch to the end of the last merge. Latency is from the
commit of one row to where PostgreSQL shows it, of {LATENCIES} rows. Memory is the PSS of all processes at its peak, CPU time theirs from
the start to the last row. Roads from Kafka read the same events from a topic of two partitions.
"""
TABLES_NOTES = f"""\
`auditor pipeline run` as above, while transactions of {ROWS_PER_TRANSACTION} rows each, of tables chosen at random, are committed for a
minute, 1,000 rows a second. Lag is from the commit of a row to where a query of the target sees it, in up to {WATCHED} tables. "One row in
each" is a single transaction over all changing tables; it is torn while some of its rows are visible and others not. "Stop" is from the
signal to the end of the process, with ten seconds of changes still to be carried.
"""
REFRESH_NOTES = """\
`auditor pipeline refresh` of tables of 1,000 rows each, from one source to PostgreSQL, beside `auditor pipeline run`. Time is from the
start of the command until all rows are in the source's log, and until PostgreSQL shows them all.
"""
CAPTURE_NOTES = """\
Both tools follow the log of a table of ten columns, and have carried a first row when it begins to be written: neither their starts nor the
servers count as CPU seconds. *Alone* stages events in files; Debezium hands them to a sink that does nothing. *Into a topic* writes JSON
without schemas. *Into PostgreSQL* merges; Debezium's sink does each batch of up to 20,480 events by COPY, DELETE and INSERT in one
transaction. `auditor` carries each event exactly once, Debezium's sinks at least once.
"""
SHUFFLED_NOTES = """\
Two equal tables of DuckDB, read in ranges of the key, beside one statement a side: the slower side's seconds.
"""
WRITES_NOTES = """\
Audits by `exact` whose reading is chosen by the writes since the last match, as a multiple of the same audits without them, in turns: below
1 is won, near 1 both read the same. Hot tables are written in a fifth of their keys, uniform ones in every fiftieth row.
"""
FILES_NOTES = """\
A Delta table of five columns compared with itself by `exact`; without `files: kept` both sides are read. CPU seconds are the auditor's, in
whose process DuckDB runs.
"""
PRIMARY_NOTES = f"""\
An application of {CLIENTS} sessions begins {RATE:.0f} transactions a second: five reads by key of the audited table and one update of
another table. Latency counts from when a transaction was due. Meanwhile audits run one after the other, against a copy in DuckDB. All share
this machine's cores, so that a primary on a machine of its own feels less. InnoDB's buffer pool has {POOL >> 20} MiB, less than the table;
misses are those of all sessions, the audit's among them, without what InnoDB reads ahead. "Kept" is the greatest length of InnoDB's history
list, or number of dead rows in PostgreSQL, "oldest" the age of its oldest snapshot in transactions. `pause_when` is `threads_running: 2`,
or `active_sessions: 2`.
"""
ALARM_NOTES = """\
The service audits a table of MySQL and PostgreSQL every minute and posts to a webhook. Time counts from before the UPDATE that damages a
row, or puts it right, to the message; half a minute of it is the wait for the next run.
"""
IN_FLIGHT_NOTES = f"""\
A table of MySQL is written to while a batch sink, which holds a batch back for up to {BATCH:g} s, brings each change to PostgreSQL. Each
audit lets a change take {BOUND:g} s: `history` with that `at_most`, two rechecks after {BOUND / 3:g} and {BOUND / 1.5:g} s, or `settle`
with that lag. Seconds count to the end of the first run that names the wrong row; runs follow each other. A run is false if it names a row
as wrong that is on its way.
"""
LIVE_NOTES = f"""\
An audit by `exact` of a table in which nothing differs, with `summaries: live` and without, in turns, while a pipeline runs that brought a
change of one row in {CHANGED} before. CPU seconds are those of the servers; DuckDB is a part of the auditor's process. "Events per CPU
second" are of {EVENTS:,} updates that a pipeline in one process, without Spark, carries, and with the target's server. With a ledger, each
merge also sums up the rows that it finds and leaves.
"""


@dataclass
class Results:
    """All measurements, of one call or of several.

    ``servers`` has the version by name, ``tools`` a description by name, ``missing`` the reason for each measurement that was left out,
    and ``calls`` the time and command line of each call.
    """

    machine: str
    costs: list[Cost] = field(default_factory=list)
    ratios: list[Ratios] = field(default_factory=list)
    duels: list[Row] = field(default_factory=list)
    growth: list[Row] = field(default_factory=list)
    loads: list[Load] = field(default_factory=list)
    streams: list[Stream] = field(default_factory=list)
    roads: list[Road] = field(default_factory=list)
    captures: list[Captured] = field(default_factory=list)
    tables: list[Tables] = field(default_factory=list)
    refreshes: list[Refreshed] = field(default_factory=list)
    lives: list[LiveCost] = field(default_factory=list)
    shuffled: list[ShuffledCost] = field(default_factory=list)
    writes: list[WritesCost] = field(default_factory=list)
    files: list[FilesCost] = field(default_factory=list)
    primaries: list[Primary] = field(default_factory=list)
    alarms: list[Alarm] = field(default_factory=list)
    in_flight: list[InFlight] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    repaired: list[Repaired] = field(default_factory=list)
    servers: dict[str, str] = field(default_factory=dict)
    tools: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        """Return RESULTS.md: a table a question, those that people ask first at its head."""
        parts = ["# Benchmarks", *self._outcome()]
        if self.growth:
            parts += ["## Growth", f"{self.growth[0].pair}; ten scattered updates at every size.", _sizes_table(self.growth)]
        sections: Sequence[tuple[str, str, Sequence[Any], Callable[[Any], str]]] = (
            ("The start of commands", START_NOTES, self.starts, _start_table),
            ("From damage to alarm", ALARM_NOTES, self.alarms, _alarm_table),
            ("In flight or wrong", IN_FLIGHT_NOTES, self.in_flight, _in_flight_table),
            ("What audits do to a primary", PRIMARY_NOTES, self.primaries, _primary_table),
            ("Audits by live summaries", LIVE_NOTES, self.lives, _live_table),
            ("Kept sums of files", FILES_NOTES, self.files, _files_table),
            ("Runs that are chosen by writes", WRITES_NOTES, self.writes, _writes_table),
            ("Keys in another order than rows", SHUFFLED_NOTES, self.shuffled, _shuffled_table),
            ("From the binary log to merged tables", ROAD_NOTES, self.roads, _road_table),
            ("Following the binary log, beside Debezium", CAPTURE_NOTES, self.captures, _capture_table),
            ("Many tables in one pipeline", TABLES_NOTES, self.tables, _tables_table),
            ("First fill of many tables", REFRESH_NOTES, self.refreshes, _refresh_table),
            ("Reading the binary log", STREAM_NOTES, self.streams, _stream_table),
            ("Tables copied again", repair_tables.COPY_NOTES, self.copies, _copy_table),
            ("Rows repaired", repair_tables.REPAIRED_NOTES, self.repaired, _repaired_table),
            ("Readers during audits", LOAD_NOTES, self.loads, _load_table),
            ("Cost of each method", COST_NOTES, self.costs, _cost_table),
            ("Cost above hashing", RATIO_NOTES, self.ratios, _ratios_table),
        )
        for title, notes, measured, table in sections:
            if measured:
                parts += [f"## {title}", _paragraph(notes), table(measured)]
        return "\n\n".join(part.strip() for part in [*parts, *self._machine()]) + "\n"

    def _outcome(self) -> list[str]:
        """Return the comparison with other tools."""
        if not self.duels:
            return []
        real, stand_in = outcome.apart(self.duels)
        said = f"**{outcome.sentence(real)}** {_paragraph(outcome.NOTES)}"
        parts = ["## Won and lost", said, _table(*outcome.table_rows(real)), "![seconds](duel-seconds.svg)"]
        parts += ["## The tools", _paragraph(outcome.TOOLS_NOTES), _table(*outcome.tool_rows(real, self.tools))]
        if stand_in:
            said = f"{outcome.sentence(stand_in)} {_paragraph(outcome.STAND_IN_NOTES)}"
            parts += ["## On the stand-in for Redshift", said, _table(*outcome.pair_rows(stand_in))]
        return parts

    def _machine(self) -> list[str]:
        """Return where and when all this was measured."""
        dates = sorted(call[:10] for call in self.calls if call[:1].isdigit())
        when = dates[0] if len(set(dates)) == 1 else f"from {dates[0]} to {dates[-1]}" if dates else ""
        runs = f"Measured in {len(dates):,} {'run' if len(dates) == 1 else 'runs'} {when}; `measurements.json` names each, with its load."
        servers = "; ".join(f"{name} {version}" for name, version in self.servers.items())
        missing = "; ".join(f"{name}: {why.rstrip('.')}" for name, why in self.missing.items())
        left_out = f" Left out: {missing}." if missing else ""
        return ["## Machine and versions", f"{self.machine}. {runs} Servers: {servers}.{left_out}", _paragraph(CONDITIONS_NOTES)]

    def write(self, directory: Path) -> None:
        """Write RESULTS.md and its plots to ``directory``."""
        first, rows = (self.duels[0].pair, self.duels[0].rows) if self.duels else ("", 0)
        duels = [row for row in self.duels if (row.pair, row.rows) == (first, rows) and row.seconds is not None]
        title = f"{first}, {rows:,} rows"
        (directory / "RESULTS.md").write_text(self.markdown(), encoding="utf-8")
        write_dot_plot(directory / "duel-seconds.svg", title, "seconds", _values_by_row(duels, "seconds"))


def _cost_table(costs: Sequence[Cost]) -> str:
    ran = [cost for cost in costs if cost.seconds]
    labels = list(dict.fromkeys(label for cost in ran for label in cost.seconds))
    body = [[label, *(_ratio(cost, label) for cost in ran)] for label in labels]
    bare = [["bare scan in seconds", *(f"{cost.seconds[BARE_SCAN]:.2f}" for cost in ran)]]
    if EXACT in labels:
        times = (f"{cost.seconds[PUBLISHED_STATEMENT] / cost.seconds[EXACT]:.1f}" for cost in ran)
        body.append([f"{EXACT}: times cheaper than as printed", *times])
    left_out = "".join(f"\n\n{cost.engine}: not run: {cost.why}." for cost in costs if cost.why)
    return _table(["multiple of a bare scan", *(cost.engine for cost in ran)], bare + body) + left_out


def _ratios_table(ratios: Sequence[Ratios]) -> str:
    ran = [ratio for ratio in ratios if ratio.seconds]
    labels = [label for label in (ran[0].seconds if ran else ()) if label != BASE]
    body = [
        [
            ratio.engine,
            ratio.key,
            f"{ratio.rows:,}",
            f"{ratio.seconds[BASE]:.2f}",
            *(f"{ratio.seconds[label] / ratio.seconds[BASE]:.2f}" if label in ratio.seconds else "" for label in labels),
        ]
        for ratio in ran
    ]
    left_out = "".join(
        f"\n\n{engine}: not run: {why}." for engine, why in {ratio.engine: ratio.why for ratio in ratios if ratio.why}.items()
    )
    return _table(["engine", "key", "rows", "base in seconds", *labels], body) + left_out


def _ratio(cost: Cost, label: str) -> str:
    return f"{cost.seconds[label] / cost.seconds[BARE_SCAN]:.2f}" if label in cost.seconds else ""


def _sizes_table(rows: Sequence[Row]) -> str:
    body = [[f"{row.rows:,}", row.tool, *_figures(row)] for row in rows]
    return _table(["rows", "tool", "seconds", "bytes", "statements", "peak memory", "result"], body)


def _stream_table(streams: Sequence[Stream]) -> str:
    ran = [stream for stream in streams if stream.rates]
    labels = list(dict.fromkeys(label for stream in ran for label in stream.rates))
    body = [
        [
            f"{stream.engine} {stream.server.partition('-')[0]}",
            *(f"{stream.rates[label]:,.0f}" if label in stream.rates else "" for label in labels),
            f"{stream.rates[DECODED] / stream.rates[OTHER]:.1f}",
        ]
        for stream in ran
    ]
    left_out = "".join(f"\n\n{stream.engine}: not run: {stream.why}." for stream in streams if stream.why)
    return _table(["per CPU second", *labels, "times mysql-replication"], body) + left_out


def _road_table(roads: Sequence[Road]) -> str:
    ran = [road for road in roads if road.seconds]
    figures: list[tuple[str, Callable[[Road], str]]] = [
        ("events", lambda road: f"{road.events:,}"),
        ("sustained, events/s", lambda road: f"{road.sustained:,.0f}"),
        ("from the start, events/s", lambda road: f"{road.events / road.seconds:,.0f}"),
        ("times mysql-replication with upserts", lambda road: f"{road.sustained / road.row_by_row:.1f}" if road.row_by_row else ""),
        ("latency p50, longest", lambda road: f"{median(road.latencies):.2f}, {max(road.latencies):.2f} s" if road.latencies else ""),
        ("memory", lambda road: f"{sum(road.memory.values()) / 2**20:,.0f} MiB"),
        ("CPU time", lambda road: f"{sum(road.cpu.values()):.0f} s"),
        ("events per CPU second", lambda road: f"{road.events / sum(road.cpu.values()):,.0f}"),
    ]
    body = [[f"{road.engine} to {road.targets}", *(figure(road) for _, figure in figures)] for road in ran]
    left_out = "".join(f"\n\n{road.engine} to {road.targets}: not run: {road.why}." for road in roads if road.why)
    return _table(["road", *(label for label, _ in figures)], body) + left_out


def _tables_table(measured: Sequence[Tables]) -> str:
    figures: list[tuple[str, Callable[[Tables], str]]] = [
        ("first rows", lambda entry: f"{entry.first:.1f} s"),
        ("lag p50, p99, longest", lambda entry: ", ".join(f"{entry.lags[name]:.2f}" for name in ("p50", "p99", "longest")) + " s"),
        ("lost", lambda entry: f"{entry.missing:,}"),
        ("one row in each", lambda entry: f"{entry.together:.2f} s, torn for {entry.torn:.2f}" if entry.together else "did not arrive"),
        ("CPU s per 1,000 rows", lambda entry: f"{1000 * sum(entry.cpu.values()) / entry.events:.2f}"),
        ("files", lambda entry: f"{entry.files:,}"),
        ("stop", lambda entry: f"{entry.stop:.1f} s"),
    ]
    body = [[entry.target, _carried(entry.scenario), *(figure(entry) for _, figure in figures)] for entry in measured if entry.lags]
    left_out = [f"{entry.target}, {entry.scenario}: not run: {entry.why}." for entry in measured if entry.why]
    return "\n\n".join([_table(["target", "tables", *(label for label, _ in figures)], body), *left_out])


def _carried(scenario: str) -> str:
    """Return how many tables a scenario has, and how many of them change if not all do."""
    tables, changing = re.findall(r"([0-9,]+) (?:tables|change)", scenario)
    return tables if tables == changing else f"{tables}, of which {changing} change"


def _refresh_table(measured: Sequence[Refreshed]) -> str:
    ran = [entry for entry in measured if not entry.why]
    groups = ("command", "driver", "Python workers", "Spark's Java", "source", "target")
    figures: list[tuple[str, Callable[[Refreshed], str]]] = [
        ("sent", lambda entry: f"{entry.sent:.1f} s"),
        ("visible in the target", lambda entry: f"{entry.seconds:.1f} s"),
        ("statements a table in the source", lambda entry: f"{entry.statements / entry.tables:.1f}"),
        ("transactions a table in the target", lambda entry: f"{entry.commits / entry.tables:.1f}"),
        *((f"CPU, {name}", lambda entry, name=name: f"{entry.cpu.get(name, 0.0):.1f} s") for name in groups),
    ]
    body = [[f"{entry.engine}, {entry.tables:,}", *(figure(entry) for _, figure in figures)] for entry in ran]
    left_out = "".join(f"\n\n{entry.tables:,} tables: not run: {entry.why}." for entry in measured if entry.why)
    return _table(["tables", *(label for label, _ in figures)], body) + left_out


def _capture_table(captures: Sequence[Captured]) -> str:
    head = [
        "source",
        "road",
        "tool",
        "events",
        "start",
        "seconds",
        "CPU seconds",
        "events per CPU second",
        "of ours",
        "memory",
        "latency p50",
    ]
    ours = {(one.engine, one.road): one.per_cpu_second for one in captures if one.tool == OURS}
    body = []
    for one in captures:
        if one.why:
            body.append([one.engine, one.road, f"{one.tool}: {one.why}", *[""] * (len(head) - 3)])
            continue
        share = one.per_cpu_second / ours[one.engine, one.road] if ours.get((one.engine, one.road)) else 0.0
        spent = [f"{one.start:.1f} s", f"{one.seconds:.1f}", f"{sum(one.cpu.values()):.1f}", f"{one.per_cpu_second:,.0f}"]
        more = [f"{share:.2f}", f"{one.memory / 2**20:,.0f} MiB", f"{median(one.latencies):.2f} s" if one.latencies else ""]
        body.append([one.engine, one.road, one.tool, f"{one.events:,}", *spent, *more])
    return _table(head, body)


def _shuffled_table(costs: Sequence[ShuffledCost]) -> str:
    head = ["rows are stored", "rows", "statements", "seconds", "one scan", "of one scan"]
    body = [
        [
            cost.order,
            f"{cost.rows:,}",
            f"{cost.statements:,}",
            f"{cost.seconds:.2f}",
            f"{cost.one_scan:.2f}",
            f"{cost.seconds / cost.one_scan:.1f}",
        ]
        for cost in costs
    ]
    return _table(head, body)


def _writes_table(costs: Sequence[WritesCost]) -> str:
    ran = [cost for cost in costs if cost.seconds]
    pairs = list(dict.fromkeys((cost.pair, cost.rows) for cost in ran))
    body = [
        [
            scenario,
            *(
                f"{cost.ratio(cost.seconds):.2f}, {cost.ratio(cost.cpu):.2f}, {cost.bytes[KNOWN] / cost.bytes[UNKNOWN]:.2f}"
                for pair in pairs
                for cost in ran
                if (cost.pair, cost.rows, cost.scenario) == (*pair, scenario)
            ),
        ]
        for scenario in dict.fromkeys(cost.scenario for cost in ran)
    ]
    return _table(["scenario", *(f"{pair}, {rows:,} rows: seconds, CPU, bytes" for pair, rows in pairs)], body)


def _files_table(costs: Sequence[FilesCost]) -> str:
    head = ["before the run", "rows", "files", "read", "MB", "read", "seconds", "CPU seconds", "MB of the store"]
    body = [
        [
            cost.run,
            f"{cost.rows:,}",
            f"{cost.files:,}",
            f"{cost.read:,}",
            f"{cost.bytes / 1e6:,.1f}",
            f"{cost.read_bytes / 1e6:,.1f}",
            f"{cost.seconds:.2f}",
            f"{cost.cpu:.2f}",
            f"{cost.stored / 1e6:,.1f}",
        ]
        for cost in costs
    ]
    return _table(head, body)


def _primary_table(primaries: Sequence[Primary]) -> str:
    head = ["primary, rows", "connection", "p50", "of alone", "p99", "of alone", "kept", "oldest", "misses of 1,000", "seconds of an audit"]
    body = [
        [
            f"{each.engine}, {each.rows:,}",
            setting,
            *(
                text
                for figures in (each.p50, each.p99)
                for text in (f"{1000 * median(figures[setting]):.1f} ms", "" if setting == ALONE else f"{each.ratio(figures, setting):.2f}")
            ),
            f"{median(each.kept[setting]):,.0f}",
            f"{median(each.oldest[setting]):,.0f}" if each.engine == "postgres" else "",
            "" if each.engine == "postgres" else f"{median(each.misses[setting]):.2f}",
            f"{median(each.audits[setting]):.1f}" if setting in each.audits else "",
        ]
        for each in primaries
        if each.p50
        for setting in LIMITS
    ]
    return _table(head, body) + "".join(f"\n\n{each.engine}: not run: {each.why}." for each in primaries if each.why)


def _alarm_table(alarms: Sequence[Alarm]) -> str:
    body = [
        [f"{each.rows:,}", what, str(len(seconds)), *(f"{figure:.1f} s" for figure in (min(seconds), median(seconds), max(seconds)))]
        for each in alarms
        for what, seconds in (("a row goes wrong", each.damaged), ("it is put right", each.recovered))
        if seconds
    ]
    head = ["rows", "from", "times", "least", "median", "greatest"]
    return _table(head, body) + "".join(f"\n\nNot run: {each.why}." for each in alarms if each.why)


def _in_flight_table(ways: Sequence[InFlight]) -> str:
    head = [
        "audit by",
        "a run in which nothing is wrong",
        "its verdicts",
        *(f"{damage}, named after" for damage in (EDITED, LOST)),
        "false runs",
    ]
    body = [
        [
            each.way,
            f"{median(seconds for seconds, _ in each.runs):.1f} s",
            ", ".join(f"{count} {verdict}" for verdict, count in sorted(Counter(verdict for _, verdict in each.runs).items())),
            *(f"{median(each.named[damage]):.1f} s" for damage in (EDITED, LOST)),
            f"{each.false} of {each.of}",
        ]
        for each in ways
        if each.runs
    ]
    return _table(head, body) + "".join(f"\n\n{each.way}: not run: {each.why}." for each in ways if each.why)


def _start_table(starts: Sequence[Start]) -> str:
    ran = [each for each in starts if each.cpu is not None and each.seconds is not None]
    body = [[each.tool, each.command, f"{each.cpu:.2f} s", f"{each.seconds:.2f} s", f"{each.memory / 1e6:.0f} MB"] for each in ran]
    left_out = "".join(f"\n\nNot measured: {each.tool} {each.command}: {each.why.rstrip('.')}." for each in starts if each.why)
    return _table(["tool", "command", "CPU", "clock", "memory"], body) + left_out


def _live_table(lives: Sequence[LiveCost]) -> str:
    ran = [cost for cost in lives if cost.cpu]
    head = [
        "pair, rows",
        "audit",
        "both servers",
        "of full",
        SOURCE,
        TARGET,
        "auditor's process",
        "seconds",
        "events per CPU second",
        "with the target's",
        "events per second",
        "pre-scan",
    ]
    body = []
    for cost in ran:
        for audit in (LIVE, FULL):
            used = cost.cpu[audit]
            each = [f"{median(used[side]):.2f}" if side in used else "" for side in (SOURCE, TARGET, OWN)]
            share = f"{cost.servers(audit) / cost.servers(FULL):.2f}"
            pace = [f"{median(cost.seconds[audit]):.2f}", *_stream_pace(cost, audit)]
            body.append([f"{cost.pair}, {cost.rows:,}", audit, f"{cost.servers(audit):.2f}", share, *each, *pace, cost.prescan[audit]])
        if LEDGER in cost.rates:
            body.append([f"{cost.pair}, {cost.rows:,}", f"{LIVE}, with a ledger", *[""] * 6, *_stream_pace(cost, LEDGER), ""])
    left_out = "".join(f"\n\n{cost.pair}: not run: {cost.why}." for cost in lives if cost.why)
    return _table(head, body) + left_out


def _stream_pace(cost: LiveCost, label: str) -> list[str]:
    return [f"{median(some[label]):,.0f}" if label in some else "" for some in (cost.rates, cost.with_target, cost.speeds)]


def _copy_table(copies: Sequence[Copy]) -> str:
    return _table(repair_tables.COPY_HEAD, repair_tables.copy_rows(copies))


def _repaired_table(repaired: Sequence[Repaired]) -> str:
    return _table(repair_tables.REPAIRED_HEAD, repair_tables.repaired_rows(repaired))


def _load_table(loads: Sequence[Load]) -> str:
    head = ["audits, rows", "store", "clients", "requests", "responses", "errors"]
    head += ["list, idle, p50", "list, p50", "list, p99", "x idle", "audits alone", "with readers", "x alone"]
    body = []
    for load in loads:
        interval = f"every {load.pause:g} s" if load.pause else "no pause"
        counts = [f"{load.answers:,} in {load.seconds:.0f} s", str(len(load.errors))]
        lists = [f"{median(values) * 1000:.1f} ms" for values in (load.idle, load.p50, load.p99)]
        audits = [f"{median(values):.1f} s" for values in (load.alone, load.loaded)]
        which = [f"{load.pair}, {load.rows:,}", load.store, str(load.clients), interval]
        body.append([*which, *counts, *lists, f"{load.latency_ratio:.1f}", *audits, f"{load.duration_ratio:.2f}"])
    return _table(head, body)


def _figures(row: Row) -> list[str]:
    if row.seconds is None:
        return ["", "", "", "", row.why]
    return [f"{row.seconds:.2f}", f"{row.bytes:,}", f"{row.wire.statements:,}", f"{row.memory / 2**20:,.0f} MB", row.verdict]


def _table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table whose columns are aligned in the source too."""
    rows = [list(head), *(list(row) for row in body)]
    rows = [[cell.replace("|", "/").replace("\n", " ") for cell in row] for row in rows]
    widths = [max(len(row[index]) for row in rows) for index in range(len(head))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


def _paragraph(notes: str) -> str:
    """Return notes as one line, as long paragraphs of Markdown are easier to compare so."""
    return " ".join(notes.split())


def _values_by_row(rows: Iterable[Row], figure: str, label: str = "scenario") -> Mapping[str, Mapping[str, float]]:
    values: dict[str, dict[str, float]] = {}
    for row in rows:
        if row.seconds is not None:
            name = getattr(row, label)
            values.setdefault(f"{name:,} rows" if isinstance(name, int) else name, {})[row.tool] = getattr(row, figure)
    return values
