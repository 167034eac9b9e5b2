"""What was measured, as tables for a person: on the terminal, and in RESULTS.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks import plots
from benchmarks.cost import BARE, PRINTED, Cost
from benchmarks.duel import Row
from benchmarks.load import AT_ONCE, AUDITS, HISTORY, PREFERRED, SECONDS, Load
from benchmarks.servers import CONDITIONS

OURS = "auditor"
HOW = f"""\
{CONDITIONS}
Every tool runs as a process of its own, its start included, and talks to both servers through the same counting proxy
(`benchmarks/wire.py`), so bytes, statements and connections are counted at the socket. Memory is the peak of the resident bytes of
the process tree. Before each scenario the servers write out what they hold back and read the tables once; the tools take turns. A
measurement of less than 10 s is repeated and the median shown. Each answer is compared with the rows that
were really damaged; "right" means exactly those keys. Every tool compares all five columns beside the key unless it says otherwise,
with its default settings and the same number of connections.
"""
COST_HOW = """\
Seconds of one connection running the method's statements, as a multiple of a bare scan of the same engine: count, least and greatest
key and least SHA-256 of the same row text by partition, behind the same barrier and in the same chunks. DuckDB and Spark have one
thread. The published statement is one statement over the whole table, as printed.
"""
LOAD_HOW = f"""\
`auditor serve` in a process, its readers in another, and the databases, all on the cores of this machine; the service goes before the
databases (niceness {PREFERRED} of its session), which stand for machines of their own. The service knows
{len(AUDITS)} audits, of {HISTORY} runs each in the last 30 days. Every client has a token and a connection, and asks for the list of audits
every other time, else for an audit, its history, a run, its differences. "Every 1 s" is how often each of them asks; "at once" means
again as soon as it has its answer, so that one is always being made for it. At rest, one client reads and nothing runs.
{AT_ONCE} audits are carried out at a time: once alone, then over and over for {SECONDS:.0f} s or more while the clients read. Both are
done in turns, so that what else the machine does is in both figures. Seconds of an audit are the middle ones of all that ran; where
there were several turns, all figures but the counts are the middle ones of these.
"""


@dataclass
class Results:
    """Everything that was measured, by one call or by several.

    ``servers`` and ``tools`` say of each name which it was and how it works; ``missing`` why something was left out; ``calls`` when
    and how this module was called.
    """

    machine: str
    costs: list[Cost] = field(default_factory=list)
    duels: list[Row] = field(default_factory=list)
    growth: list[Row] = field(default_factory=list)
    threads: list[Row] = field(default_factory=list)
    loads: list[Load] = field(default_factory=list)
    servers: dict[str, str] = field(default_factory=dict)
    tools: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        """The whole document."""
        parts = ["# Benchmarks", self.machine]
        parts.append("Measured by:\n\n" + "\n".join(f"- {call}" for call in self.calls))
        parts.append("Servers: " + "; ".join(f"{name} {version}" for name, version in self.servers.items()) + ".")
        if self.missing:
            parts.append("Left out:\n\n" + "\n".join(f"- {name}: {why.rstrip('.')}." for name, why in self.missing.items()))
        if self.costs:
            parts += ["## Cost of each method", COST_HOW, self._cost_table()]
        if self.duels:
            parts += ["## The duel", HOW, "\n".join(f"- {name}: {about}" for name, about in self.tools.items())]
            for pair, rows in dict.fromkeys((row.pair, row.rows) for row in self.duels):
                parts += [f"### {pair}, {rows:,} rows", _duel_table([row for row in self.duels if (row.pair, row.rows) == (pair, rows)])]
            parts.append("![seconds](duel-seconds.svg)\n\n![bytes](duel-bytes.svg)")
        if self.growth:
            parts += [
                "## Growth",
                f"{self.growth[0].pair}; ten scattered updates, whatever the size.",
                _sizes_table(self.growth),
                "![growth](growth.svg)",
            ]
        if self.threads:
            rows = self.threads[0].rows
            parts += ["## Connections a side", f"{self.threads[0].pair}, {rows:,} rows.", _threads_table(self.threads)]
        if self.loads:
            parts += ["## Readers beside audits", LOAD_HOW, _load_table(self.loads)]
        return "\n\n".join(part.strip() for part in parts) + "\n"

    def write(self, directory: Path) -> None:
        """RESULTS.md and its drawings."""
        first, rows = (self.duels[0].pair, self.duels[0].rows) if self.duels else ("", 0)
        duels = [row for row in self.duels if row.pair == first and row.seconds is not None]
        drawings = {
            "duel-seconds.svg": plots.dots(f"{first}, {rows:,} rows", "seconds", _by(duels, "seconds")),
            "duel-bytes.svg": plots.dots(f"{first}, {rows:,} rows", "bytes over the wire", _by(duels, "bytes")),
            "growth.svg": plots.dots("10 scattered updates", "seconds", _by(self.growth, "seconds", "rows")),
        }
        (directory / "RESULTS.md").write_text(self.markdown(), encoding="utf-8")
        for name, drawing in drawings.items():
            if drawing:
                (directory / name).write_text(drawing, encoding="utf-8")

    def _cost_table(self) -> str:
        ran = [cost for cost in self.costs if cost.seconds]
        labels = list(dict.fromkeys(label for cost in ran for label in cost.seconds))
        body = [[label, *(_ratio(cost, label) for cost in ran)] for label in labels]
        bare = [["bare scan in seconds", *(f"{cost.seconds[BARE]:.2f}" for cost in ran)]]
        exact = next((label for label in labels if label == "exact, t = 3"), None)
        if exact:
            body.append([
                "exact, t = 3: times cheaper than as printed",
                *(f"{cost.seconds[PRINTED] / cost.seconds[exact]:.1f}" for cost in ran),
            ])  # fmt: skip
        else:
            body.append(["exact", *("not there yet" for _ in ran)])
        left = "".join(f"\n\n{cost.engine}: not run: {cost.why}." for cost in self.costs if cost.why)
        return _table(["multiple of a bare scan", *(cost.engine for cost in ran)], bare + body) + left


def _ratio(cost: Cost, label: str) -> str:
    return f"{cost.seconds[label] / cost.seconds[BARE]:.2f}" if label in cost.seconds else ""


def _duel_table(rows: Sequence[Row]) -> str:
    head = ["scenario", "tool", "seconds", "x auditor", "bytes", "x auditor", "statements", "connections", "peak memory", "answer"]
    body = []
    for row in rows:
        ours = next((one for one in rows if one.scenario == row.scenario and one.tool == OURS), None)
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
    return _table(["rows", "tool", "seconds", "bytes", "statements", "peak memory", "answer"], body)


def _threads_table(rows: Sequence[Row]) -> str:
    body = [[row.scenario, row.tool, str(row.threads), *_figures(row)] for row in rows]
    return _table(["scenario", "tool", "asked for", "seconds", "bytes", "statements", "peak memory", "answer"], body)


def _load_table(loads: Sequence[Load]) -> str:
    head = ["audits, rows", "store", "clients", "each asks", "answers", "errors"]
    head += ["list at rest, p50", "list, p50", "list, p99", "x at rest", "audits alone", "with readers", "x alone"]
    body = []
    for load in loads:
        asks = f"every {load.pause:g} s" if load.pause else "at once"
        counts = [f"{load.answers:,} in {load.seconds:.0f} s", str(len(load.errors))]
        lists = [f"{median(one) * 1000:.1f} ms" for one in (load.idle, load.p50, load.p99)]
        audits = [f"{median(one):.1f} s" for one in (load.alone, load.loaded)]
        which = [f"{load.pair}, {load.rows:,}", load.store, str(load.clients), asks]
        body.append([*which, *counts, *lists, f"{load.slower:.1f}", *audits, f"{load.longer:.2f}"])
    return _table(head, body)


def _figures(row: Row) -> list[str]:
    if row.seconds is None:
        return ["", "", "", "", row.why]
    return [f"{row.seconds:.2f}", f"{row.bytes:,}", f"{row.wire.statements:,}", f"{row.memory / 2**20:,.0f} MB", row.verdict]


def _table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A Markdown table whose columns are aligned in the source too."""
    rows = [list(head), *(list(row) for row in body)]
    rows = [[cell.replace("|", "/").replace("\n", " ") for cell in row] for row in rows]
    widths = [max(len(row[index]) for row in rows) for index in range(len(head))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


def _by(rows: Iterable[Row], figure: str, label: str = "scenario") -> Mapping[str, Mapping[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        if row.seconds is not None:
            name = getattr(row, label)
            found.setdefault(f"{name:,} rows" if isinstance(name, int) else name, {})[row.tool] = getattr(row, figure)
    return found
