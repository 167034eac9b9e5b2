"""Measurements as Markdown tables, on the terminal and in RESULTS.md, and as plots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks import outcome, repair_tables
from benchmarks.alarm import Alarm
from benchmarks.capture import OURS, Captured
from benchmarks.copies import Copy
from benchmarks.cost import BARE_SCAN, PUBLISHED_STATEMENT, Cost
from benchmarks.duel import Row
from benchmarks.files import FilesCost
from benchmarks.live import CHANGED, EVENTS, FULL, LEDGER, LIVE, OWN, SOURCE, TARGET, LiveCost
from benchmarks.load import AUDITS, CONCURRENT_AUDITS, HISTORY, SECONDS, SERVICE_NICENESS, Load
from benchmarks.plots import write_dot_plot
from benchmarks.primary import ALONE, CLIENTS, LIMITS, POOL, RATE, Primary
from benchmarks.ratios import BASE, Ratios
from benchmarks.refreshing import Refreshed
from benchmarks.repairing import Repaired
from benchmarks.road import GROUP_NAMES, LATENCIES, Road
from benchmarks.servers import CONDITIONS
from benchmarks.shuffled import ShuffledCost
from benchmarks.start import AUDITS as LISTED_AUDITS
from benchmarks.start import ROWS as FEW_ROWS
from benchmarks.start import Start
from benchmarks.stream import DECODED, OTHER, Stream
from benchmarks.tables import ROWS_PER_TRANSACTION, WATCHED, Tables
from benchmarks.writes import KNOWN, UNKNOWN, WritesCost

COMPARISON_NOTES = f"""\
{CONDITIONS}
Every tool runs in its own process, whose start is part of its time, and connects to both servers through the same counting proxy
(`benchmarks/wire.py`), so bytes, statements and connections are counted at the socket. Memory is the peak of the resident bytes of
the process tree. Before each scenario the servers write their dirty pages and read the tables once; the tools take turns. A
measurement of less than 10 s is repeated up to five times, a longer one up to three times, and the median shown. Each result is
compared with the rows that were damaged; "right" means exactly those keys. Every tool compares all columns besides the key unless
stated otherwise, with its default settings and the same number of connections.
"""
COST_NOTES = """\
Duration of the method's statements on one connection, as a multiple of a bare scan on the same engine: count, least and greatest
key and least SHA-256 of the same row text by partition, with the same optimizer barrier and in the same chunks. DuckDB and Spark use
one thread. The published statement is one statement over the whole table, as printed.
"""
RATIO_NOTES = """\
CPU time of the server for the method's statements on one connection, as a multiple of `SELECT SUM(LENGTH(<row hash>))` over the same row
text. "Floor" is the statement of `exact` with plain columns in place of its words and power sums. UUIDs are VARCHAR(36).

Of MariaDB's floor with integer keys, 1.75 to 1.8, 0.25 to 0.4 is reading the hash's number with CONV, 0.15 storing the derived table that
keeps the optimizer from hashing a row once per sum, 0.25 GROUP BY with its counts, and 0.2 seven sums: so its `exact` cannot cost 1.5
times the base, whatever the sums are. The cheapest signature, without partition, barrier and second word
(`SUM(CAST(CONV(...) AS SIGNED))`), costs 1.35 there and 1.2 on MySQL. Tried and not cheaper: UNCOMPRESSED_LENGTH of eight bytes in the
derived table (on MySQL 0.3 dearer, because its rows then vary in length), MariaDB's COLUMN_GET of a number, and a second derived table
that holds positions and powers.
"""
START_NOTES = f"""\
What commands cost that have little to do: CPU time of their process, and seconds on the clock, medians. Two tables of {FEW_ROWS:,} rows
without a difference, MariaDB to PostgreSQL on this machine; {LISTED_AUDITS} audits of tables in DuckDB, none of which ran before. The
interpreter's own start, and that of the two drivers, are part of what each tool in Python costs.
"""
LOAD_NOTES = f"""\
`auditor serve` runs in one process, its readers in another, and the databases beside them, all on the cores of this machine. The
service has priority over the databases (niceness {SERVICE_NICENESS} of its session), which would run on other machines. It has
{len(AUDITS)} audits with {HISTORY} runs each in the last 30 days. Every client has its own token and connection; every other request
is for the list of audits, the rest for an audit, its history, a run or its differences. "Every 1 s" is the interval between the
requests of one client; "no pause" means that each client sends the next request as soon as it has the response. "Idle" is one client
while nothing else runs. {CONCURRENT_AUDITS} audits run at a time: once alone, then repeatedly for at least {SECONDS:.0f} s while the
clients read. Both alternate, so that other load on the machine affects both figures. Seconds of an audit are medians over all audits;
with several turns, all figures except counts are medians over the turns.
"""
STREAM_NOTES = """\
Rates per second of the reading process's CPU, warm: medians. The log has 100,000 inserts, 20,000 updates and 10,000 deletes of a table of
ten columns (numbers, texts, times, an enumeration) in events of 100 rows or more, and 20,000 updates in transactions of one row each. An
update is one event with two rows. MySQL's connections are encrypted, as it offers that; MariaDB's are not.
"""
ROAD_NOTES = f"""\
`auditor pipeline run` at `local[2]`, with Spark's trigger of 200 ms and `every: 0s`, from a log of one table of ten columns (as above,
without the transactions of one row) that was written before it started; source and targets run on the same cores. "Sustained" is from
the beginning of the first batch to the end of the last merge, "from the start" includes that of Python, Java and Spark. Latency is from
the commit of one row to where a query of PostgreSQL sees it, of {LATENCIES} rows one after the other, once the log is caught up with.
Memory is the PSS of all processes at the moment when together they had most, CPU time that of each group from the start to the last row.
Beside it, mysql-replication with an upsert for each row and a commit for each transaction of the source.

Roads from Kafka read the events of the log from a topic of two partitions, in which our encoder wrote them before, and are compared with
the road from the log to PostgreSQL in the same run.
"""
TABLES_NOTES = f"""\
`auditor pipeline run` as above, from one source to one target, while transactions of {ROWS_PER_TRANSACTION} rows each, of tables chosen
at random, are committed for a minute. Lag is from the commit of a row to where a query of the target sees it, of all rows of up to
{WATCHED} tables. DuckDB's file has blocks of 16 KiB, and is opened for each look, up to ten times a second; the loader waits
meanwhile, and the looks wait for it.
"One row in each" is a single transaction over all changing tables; it is torn while some of its rows are visible and
others not. CPU seconds are those of the pipeline's processes in that minute. "Stop" is from the signal to the end of the process, with ten
seconds of changes still to be carried.
"""
REFRESH_NOTES = """\
`auditor pipeline refresh` of tables of 1,000 rows each, from one source to PostgreSQL, beside `auditor pipeline run` as above, which has
begun, with an empty target. Time is from the start of the command: until it ended, when all rows are in the source's log, and until
PostgreSQL shows them all. Statements are those of all sessions of the source, transactions those of the target; CPU seconds are those of
that time.
"""
CAPTURE_NOTES = """\
Inserts, updates and deletes of a table of ten columns. Both tools have carried a first row when the log begins to be written, and follow
it: neither their starts nor the servers count as CPU seconds. *Alone* stages events in files, and for Debezium hands them to a sink that
does nothing; *into a topic* writes JSON without schemas to one partition; *into PostgreSQL* merges, for Debezium by a sink that does each
batch of up to 20,480 events by COPY, DELETE and INSERT in one transaction. `auditor` carries each event exactly once, Debezium's sinks at
least once. Latency is from the commit of a single row to where PostgreSQL shows it."""

SHUFFLED_NOTES = """Two equal tables of DuckDB, read in ranges of the key: statements of both sides, and seconds of the slower
side's scan, beside one statement a side. Ranges of tables below 10^8 rows, and the seconds that are aimed at, are smaller in proportion."""

WRITES_NOTES = """\
Audits by `method: exact` whose reading is chosen by the writes since the last match, which a column of times counts, beside the same audits
without them, which know what the last runs found. Hot tables are written in a fifth of their keys, uniform ones in every fiftieth row; what
differs was written. They take turns; CPU seconds are those of the servers and the auditor, and hold whatever else the machine did. Ratios
below 1 are won; near 1 both read the same. "At once" are the ranges of keys that the method read before the pre-scan, 0 where none were.
"""

FILES_NOTES = """\
A Delta table of five columns in a thousand files, compared with itself by `method: exact`, so that each file is read once for both sides;
the run without `files: kept` reads both. Bytes are those of the files that were read, and of one side's files in all; CPU seconds are the
auditor's, in whose process DuckDB runs.
"""

PRIMARY_NOTES = f"""\
An application of {CLIENTS} sessions begins {RATE:.0f} transactions a second: five reads by key of the audited table and one update of
another table. Latency counts from when a transaction was due. Meanwhile audits by the defaults run one after the other, against a copy
in DuckDB, each as a process that begins anew. The application, the server and the auditor share this machine's cores, so that a primary
on a machine of its own feels less. InnoDB's buffer pool has {POOL >> 20} MiB, less than the table. "Kept" is the greatest length of
InnoDB's history list, or the greatest number of dead rows of the written table in PostgreSQL, which snapshots keep from being removed;
"oldest" is the age of PostgreSQL's oldest snapshot in transactions. `pause_when` is `threads_running: 2`, or `active_sessions: 2`.
"""

ALARM_NOTES = """\
The service audits a table of MySQL and PostgreSQL every minute and posts to a webhook. One row of the target is damaged by an UPDATE at
a random moment, and put right at another. Time counts from before the UPDATE to the message; half a minute of it is the wait for the next
run.
"""

LIVE_NOTES = f"""\
An audit by `method: exact` of a table of ten columns in which nothing differs, with `summaries: live` and without, both with a pre-scan
where the audit decides on one after runs that matched. They take turns
while the pipeline runs, which brought a change of one row in {CHANGED} before.
CPU seconds are those of the servers' processes; DuckDB is a part of the auditor's own process, and counts there. A live audit is to take
less than half of both servers' CPU seconds, and to be no slower. "Events per CPU second" are of {EVENTS:,} updates that a pipeline in one
process, without Spark, reads, stages and merges; of them and of the target's server in the next column.
With a ledger, each merge also sums up in the target the rows that it finds and leaves.
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
    threads: list[Row] = field(default_factory=list)
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
    starts: list[Start] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    repaired: list[Repaired] = field(default_factory=list)
    servers: dict[str, str] = field(default_factory=dict)
    tools: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        """Return RESULTS.md."""
        parts = ["# Benchmarks"]
        if self.duels:
            real, stand_in = outcome.apart(self.duels)
            parts += ["## Won and lost", outcome.sentence(real), outcome.NOTES, _table(outcome.HEAD, outcome.table_rows(real))]
            if stand_in:
                parts += ["### On the stand-in for Redshift", outcome.sentence(stand_in), outcome.STAND_IN_NOTES]
                parts.append(_table(outcome.HEAD, outcome.table_rows(stand_in)))
        parts += ["## Machine and versions", self.machine]
        parts.append("Measured by:\n\n" + "\n".join(f"- {call}" for call in self.calls))
        parts.append("Servers: " + "; ".join(f"{name} {version}" for name, version in self.servers.items()) + ".")
        if self.missing:
            parts.append("Left out:\n\n" + "\n".join(f"- {name}: {why.rstrip('.')}." for name, why in self.missing.items()))
        if self.costs:
            parts += ["## Cost of each method", COST_NOTES, self._cost_table()]
        if self.ratios:
            parts += ["## Cost above hashing", RATIO_NOTES, _ratios_table(self.ratios)]
        if self.duels:
            parts += [
                "## Comparison with other tools",
                COMPARISON_NOTES,
                "\n".join(f"- {name}: {description}" for name, description in self.tools.items()),
            ]
            for pair, rows in dict.fromkeys((row.pair, row.rows) for row in self.duels):
                parts += [f"### {pair}, {rows:,} rows", _duel_table([row for row in self.duels if (row.pair, row.rows) == (pair, rows)])]
            parts.append("![seconds](duel-seconds.svg)\n\n![bytes](duel-bytes.svg)")
        if self.growth:
            parts += [
                "## Growth",
                f"{self.growth[0].pair}; ten scattered updates at every size.",
                _sizes_table(self.growth),
                "![growth](growth.svg)",
            ]
        if self.threads:
            rows = self.threads[0].rows
            parts += ["## Connections per side", f"{self.threads[0].pair}, {rows:,} rows.", _threads_table(self.threads)]
        if self.loads:
            parts += ["## Readers during audits", LOAD_NOTES, _load_table(self.loads)]
        if self.streams:
            parts += ["## Reading the binary log", STREAM_NOTES, _stream_table(self.streams)]
        if self.roads:
            parts += ["## From the binary log to merged tables", ROAD_NOTES, _road_table(self.roads)]
        if self.captures:
            parts += ["## Following the binary log, beside Debezium", CAPTURE_NOTES, _capture_table(self.captures)]
        if self.tables:
            parts += ["## Many tables in one pipeline", TABLES_NOTES, _tables_table(self.tables)]
        if self.refreshes:
            parts += ["## First fill of many tables", REFRESH_NOTES, _refresh_table(self.refreshes)]
        if self.lives:
            parts += ["## Audits by live summaries", LIVE_NOTES, _live_table(self.lives)]
        if self.shuffled:
            parts += ["## Keys in another order than rows", SHUFFLED_NOTES, _shuffled_table(self.shuffled)]
        if self.writes:
            parts += ["## Runs that are chosen by writes", WRITES_NOTES, _writes_table(self.writes)]
        if self.files:
            parts += ["## Kept sums of files", FILES_NOTES, _files_table(self.files)]
        if self.primaries:
            parts += ["## What audits do to a primary", PRIMARY_NOTES, _primary_table(self.primaries)]
        if self.alarms:
            parts += ["## From damage to alarm", ALARM_NOTES, _alarm_table(self.alarms)]
        if self.starts:
            parts += ["## The start of commands", START_NOTES, _start_table(self.starts)]
        if self.copies:
            parts += [
                "## Tables copied again",
                repair_tables.COPY_NOTES,
                _table(repair_tables.COPY_HEAD, repair_tables.copy_rows(self.copies)),
            ]
        if self.repaired:
            parts += [
                "## Rows repaired",
                repair_tables.REPAIRED_NOTES,
                _table(repair_tables.REPAIRED_HEAD, repair_tables.repaired_rows(self.repaired)),
            ]
        return "\n\n".join(part.strip() for part in parts) + "\n"

    def write(self, directory: Path) -> None:
        """Write RESULTS.md and its plots to ``directory``."""
        first, rows = (self.duels[0].pair, self.duels[0].rows) if self.duels else ("", 0)
        duels = [row for row in self.duels if (row.pair, row.rows) == (first, rows) and row.seconds is not None]
        title = f"{first}, {rows:,} rows"
        (directory / "RESULTS.md").write_text(self.markdown(), encoding="utf-8")
        write_dot_plot(directory / "duel-seconds.svg", title, "seconds", _values_by_row(duels, "seconds"))
        write_dot_plot(directory / "duel-bytes.svg", title, "bytes over the wire", _values_by_row(duels, "bytes"))
        write_dot_plot(directory / "growth.svg", "10 scattered updates", "seconds", _values_by_row(self.growth, "seconds", "rows"))

    def _cost_table(self) -> str:
        ran = [cost for cost in self.costs if cost.seconds]
        labels = list(dict.fromkeys(label for cost in ran for label in cost.seconds))
        body = [[label, *(_ratio(cost, label) for cost in ran)] for label in labels]
        bare = [["bare scan in seconds", *(f"{cost.seconds[BARE_SCAN]:.2f}" for cost in ran)]]
        exact = next((label for label in labels if label == "exact, t = 3"), None)
        if exact:
            body.append([
                "exact, t = 3: times cheaper than as printed",
                *(f"{cost.seconds[PUBLISHED_STATEMENT] / cost.seconds[exact]:.1f}" for cost in ran),
            ])  # fmt: skip
        else:
            body.append(["exact", *("not supported" for _ in ran)])
        left_out = "".join(f"\n\n{cost.engine}: not run: {cost.why}." for cost in self.costs if cost.why)
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
            *(f"{ratio.seconds[label] / ratio.seconds[BASE]:.2f}" for label in labels),
        ]
        for ratio in ran
    ]
    left_out = "".join(
        f"\n\n{engine}: not run: {why}." for engine, why in {ratio.engine: ratio.why for ratio in ratios if ratio.why}.items()
    )
    return _table(["engine", "key", "rows", "base in seconds", *labels], body) + left_out


def _ratio(cost: Cost, label: str) -> str:
    return f"{cost.seconds[label] / cost.seconds[BARE_SCAN]:.2f}" if label in cost.seconds else ""


def _duel_table(rows: Sequence[Row]) -> str:
    head = ["scenario", "tool", "seconds", "x auditor", "bytes", "x auditor", "statements", "connections", "peak memory", "result"]
    body = []
    for row in rows:
        ours = next((other for other in rows if other.scenario == row.scenario and other.tool == OURS), None)
        if row.seconds is None:
            body.append([row.scenario, row.tool, *[""] * 7, row.why])
            continue
        body.append([
            row.scenario, row.tool, f"{row.seconds:.2f}", _times(row.seconds, ours.seconds if ours else None), f"{row.bytes:,}",
            _times(row.bytes, ours.bytes if ours and ours.seconds else None), f"{row.wire.statements:,}", str(row.wire.connections),
            f"{row.memory / 2**20:,.0f} MB", row.verdict,
        ])  # fmt: skip
    return _table(head, body)


def _times(value: float, ours: float | None) -> str:
    return f"{value / ours:.1f}" if ours else ""


def _sizes_table(rows: Sequence[Row]) -> str:
    body = [[f"{row.rows:,}", row.tool, *_figures(row)] for row in rows]
    return _table(["rows", "tool", "seconds", "bytes", "statements", "peak memory", "result"], body)


def _threads_table(rows: Sequence[Row]) -> str:
    body = [[row.scenario, row.tool, str(row.threads), *_figures(row)] for row in rows]
    return _table(["scenario", "tool", "connections", "seconds", "bytes", "statements", "peak memory", "result"], body)


def _stream_table(streams: Sequence[Stream]) -> str:
    ran = [stream for stream in streams if stream.rates]
    labels = list(dict.fromkeys(label for stream in ran for label in stream.rates))
    body = [[label, *(f"{stream.rates[label]:,.0f}" if label in stream.rates else "" for stream in ran)] for label in labels]
    body.append(["times mysql-replication", *(f"{stream.rates[DECODED] / stream.rates[OTHER]:.1f}" for stream in ran)])
    left_out = "".join(f"\n\n{stream.engine}: not run: {stream.why}." for stream in streams if stream.why)
    return _table(["per CPU second", *(f"{stream.engine} {stream.server.partition('-')[0]}" for stream in ran)], body) + left_out


def _manifest(road: Road) -> str:
    """Return the bytes of a road's greatest manifest, and of the files that it names, with their number if that was measured."""
    return " / ".join(f"{size:,} bytes" for size in road.manifests[:2]) + "".join(f" in {count:,}" for count in road.manifests[2:])


def _road_table(roads: Sequence[Road]) -> str:
    ran = [road for road in roads if road.seconds]
    figures: list[tuple[str, Callable[[Road], str]]] = [
        ("events", lambda road: f"{road.events:,}"),
        ("load at the start", lambda road: f"{road.load:.1f}"),
        ("sustained, events/s", lambda road: f"{road.sustained:,.0f}"),
        ("from the start, events/s", lambda road: f"{road.events / road.seconds:,.0f}"),
        ("greatest manifest, and its files", _manifest),
        ("mysql-replication with upserts, events/s", lambda road: f"{road.row_by_row:,.0f}" if road.row_by_row else ""),
        ("sustained, times that", lambda road: f"{road.sustained / road.row_by_row:.1f}" if road.row_by_row else ""),
        ("sustained, of the road from the log", lambda road: f"{road.sustained / road.direct:.2f}" if road.direct else ""),
        ("latency p50", lambda road: f"{median(road.latencies):.2f} s" if road.latencies else ""),
        ("latency, longest", lambda road: f"{max(road.latencies):.2f} s" if road.latencies else ""),
        ("peak memory, all", lambda road: f"{sum(road.memory.values()) / 2**20:,.0f} MiB"),
        *((f"- {name}", _memory_of(name)) for name in GROUP_NAMES),
        ("CPU time, all", lambda road: f"{sum(road.cpu.values()):.0f} s"),
        ("events per CPU second", lambda road: f"{road.events / sum(road.cpu.values()):,.0f}"),
        *((f"- {name} ", _cpu_of(name)) for name in GROUP_NAMES),
    ]
    body = [[label, *(figure(road) for road in ran)] for label, figure in figures]
    left_out = "".join(f"\n\n{road.engine} to {road.targets}: not run: {road.why}." for road in roads if road.why)
    return _table(["", *(f"{road.engine} {road.server.partition('-')[0]} to {road.targets}" for road in ran)], body) + left_out


def _tables_table(measured: Sequence[Tables]) -> str:
    ran = [entry for entry in measured if entry.lags]
    figures: list[tuple[str, Callable[[Tables], str]]] = [
        ("load at the start", lambda entry: f"{entry.load:.1f}"),
        ("rows", lambda entry: f"{entry.events:,}"),
        ("start to the first rows", lambda entry: f"{entry.first:.1f} s"),
        *((f"lag, {name}", lambda entry, name=name: f"{entry.lags[name]:.2f} s") for name in ("p50", "p99", "longest")),
        ("rows that did not arrive", lambda entry: f"{entry.missing:,}"),
        ("one row in each", lambda entry: f"{entry.together:.2f} s, torn for {entry.torn:.2f} s" if entry.together else "did not arrive"),
        ("CPU seconds per 1,000 rows", lambda entry: f"{1000 * sum(entry.cpu.values()) / entry.events:.2f}"),
        ("files", lambda entry: f"{entry.files:,}"),
        ("stop", lambda entry: f"{entry.stop:.1f} s"),
    ]
    tables = []
    for target in dict.fromkeys(entry.target for entry in ran):
        into = [entry for entry in ran if entry.target == target]
        body = [[label, *(figure(entry) for entry in into)] for label, figure in figures]
        tables.append(_table([f"to {target}", *(entry.scenario for entry in into)], body))
    left_out = [f"{entry.target}, {entry.scenario}: not run: {entry.why}." for entry in measured if entry.why]
    return "\n\n".join([*tables, *left_out])


def _refresh_table(measured: Sequence[Refreshed]) -> str:
    ran = [entry for entry in measured if not entry.why]
    groups = ("command", "driver", "Python workers", "Spark's Java", "source", "target")
    figures: list[tuple[str, Callable[[Refreshed], str]]] = [
        ("load at the start", lambda entry: f"{entry.load:.1f}"),
        ("sent", lambda entry: f"{entry.sent:.1f} s"),
        ("visible in the target", lambda entry: f"{entry.seconds:.1f} s"),
        ("statements a table in the source", lambda entry: f"{entry.statements / entry.tables:.1f}"),
        ("transactions a table in the target", lambda entry: f"{entry.commits / entry.tables:.1f}"),
        *((f"CPU, {name}", lambda entry, name=name: f"{entry.cpu.get(name, 0.0):.1f} s") for name in groups),
    ]
    body = [[label, *(figure(entry) for entry in ran)] for label, figure in figures]
    left_out = "".join(f"\n\n{entry.tables:,} tables: not run: {entry.why}." for entry in measured if entry.why)
    return _table(["", *(f"{entry.engine}, {entry.tables:,} tables" for entry in ran)], body) + left_out


def _memory_of(group: str) -> Callable[[Road], str]:
    return lambda road: f"{road.memory[group] / 2**20:,.0f}" if group in road.memory else ""


def _cpu_of(group: str) -> Callable[[Road], str]:
    return lambda road: f"{road.cpu[group]:.0f}" if group in road.cpu else ""


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
    head = ["pair", "rows", "scenario", "at once", "seconds", "without", "ratio", "CPU seconds", "without", "ratio", "bytes", "without"]
    body = [
        [
            cost.pair,
            f"{cost.rows:,}",
            cost.scenario,
            f"{cost.at_once:,}",
            *(f"{median(cost.seconds[how]):.2f}" for how in (KNOWN, UNKNOWN)),
            f"{cost.ratio(cost.seconds):.2f}",
            *(f"{median(cost.cpu[how]):.2f}" for how in (KNOWN, UNKNOWN)),
            f"{cost.ratio(cost.cpu):.2f}",
            *(f"{cost.bytes[how]:,}" for how in (KNOWN, UNKNOWN)),
        ]
        for cost in costs
        if cost.seconds
    ]
    return _table(head, body)


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


def _values_by_row(rows: Iterable[Row], figure: str, label: str = "scenario") -> Mapping[str, Mapping[str, float]]:
    values: dict[str, dict[str, float]] = {}
    for row in rows:
        if row.seconds is not None:
            name = getattr(row, label)
            values.setdefault(f"{name:,} rows" if isinstance(name, int) else name, {})[row.tool] = getattr(row, figure)
    return values
