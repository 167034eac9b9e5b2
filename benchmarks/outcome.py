"""Who won: one line for each scenario of the comparison, the auditor beside the fastest other tool whose result was right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.auditor_tool import Auditor, AuditorWithoutPrescan
from benchmarks.duel import Row
from benchmarks.replica import TableChecksum
from benchmarks.rivals import TableSync

OURS = (Auditor.name, AuditorWithoutPrescan.name)
ONE_FAMILY = (TableSync.name, TableChecksum.name)
"""Tools that compare MySQL with MySQL alone, by CRC32 of each row, which misses some differences by chance."""

NOTES = """\
Seconds of the auditor with its default settings and no history, and of the fastest other tool that was right; "x" is their ratio, below
1.0 the row is lost. "No pre-scan" is that ratio of a run that begins without one, as after runs that found many differences. Replicas are
compared with Percona's tools, which compare servers of one family by a CRC32 of each row. Rows come from several runs, so that seconds of
one scenario compare with each other and not with those of the next.
"""
STAND_IN_NOTES = """\
The target is PostgreSQL behind a front end that speaks as Redshift does: its hashes are functions that Redshift computes itself, so that
these rows say what a tool sends, and nothing of how fast a Redshift answers.
"""
TOOLS_NOTES = """\
All scenarios on real servers. Times are those of the auditor's run of the same scenario, medians; bytes are counted at the socket of both
servers, memory is the peak of the process and those below it. "Right" names exactly the rows that were damaged.
"""


@dataclass(frozen=True)
class _Bout:
    """One scenario of a pair: the auditor's run, that without a pre-scan, and the fastest other one that was right."""

    ours: Row
    without: Row | None
    other: Row | None

    @property
    def ratio(self) -> float | None:
        """How many times as fast the auditor was; None where no other tool was right."""
        return _ratio(self.other, self.ours)


def apart(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Return the rows of real servers, and those of the stand-in for Redshift."""
    return [row for row in rows if not _is_stand_in(row)], [row for row in rows if _is_stand_in(row)]


def _is_stand_in(row: Row) -> bool:
    return "redshift" in row.pair.split(" to ")


def sentence(rows: Sequence[Row]) -> str:
    """Return how many scenarios the auditor won of those in which another tool was right."""
    ratios = [bout.ratio for bout in _bouts(rows).values() if bout.ratio is not None]
    return f"The auditor was faster in {sum(ratio >= 1 for ratio in ratios)} of {len(ratios)} scenarios."


def table_rows(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Return the head and the lines of the table of scenarios, with the pairs side by side."""
    bouts = _bouts(rows)
    pairs = list(dict.fromkeys(pair for pair, _, _ in bouts))
    head = ["scenario", *(title for pair in pairs for title in (f"{pair}: auditor", "fastest other", "x", "no pre-scan"))]
    lines = []
    for size, scenario in dict.fromkeys((size, scenario) for _, size, scenario in bouts):
        cells = [cell for pair in pairs for cell in _cells(bouts.get((pair, size, scenario)))]
        lines.append([scenario if size == max(size for _, size, _ in bouts) else f"{scenario}, {size:,} rows", *cells])
    return head, lines


def pair_rows(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Return the head and the lines of the table of pairs: how often the auditor was faster, and by how much."""
    lines = []
    bouts = _bouts(rows)
    for pair in dict.fromkeys(pair for pair, _, _ in bouts):
        ratios = {scenario: bout.ratio for (one, _, scenario), bout in bouts.items() if one == pair and bout.ratio is not None}
        if not ratios:
            continue
        least, most = (choose(ratios, key=lambda scenario: ratios[scenario]) for choose in (min, max))
        won = f"{sum(ratio >= 1 for ratio in ratios.values())} of {len(ratios)}"
        lines.append([pair, won, f"{median(ratios.values()):.2f}", *(f"{ratios[one]:.2f}, {one}" for one in (least, most))])
    return ["pair", "won", "median x", "least", "most"], lines


def tool_rows(rows: Sequence[Row], tools: Mapping[str, str]) -> tuple[list[str], list[list[str]]]:
    """Return the head and the lines of the table of tools, with what ``tools`` says of each."""
    ours = {(row.pair, row.rows, row.scenario): row for row in rows if row.tool == Auditor.name and row.seconds}
    lines = []
    for tool in dict.fromkeys(row.tool for row in rows):
        tried = [row for row in rows if row.tool == tool and (row.pair, row.rows, row.scenario) in ours]
        ran = [(row, ours[row.pair, row.rows, row.scenario]) for row in tried if row.seconds]
        if not ran:
            continue
        figures = [
            f"{median((row.seconds or 0.0) / (our.seconds or 1.0) for row, our in ran):.1f}",
            f"{median(row.bytes / our.bytes for row, our in ran):,.1f}",
            f"{median(row.wire.statements for row, _ in ran):,.0f}",
            f"{median(row.memory for row, _ in ran) / 2**20:,.0f} MB",
            f"{sum(row.verdict.startswith('right') for row, _ in ran)} of {len(tried)}",
        ]
        lines.append([tool, *figures, tools.get(tool, "")])
    return ["tool", "times the seconds", "times the bytes", "statements", "memory", "right", "how"], lines


def _bouts(rows: Sequence[Row]) -> dict[tuple[str, int, str], _Bout]:
    """Return what was measured by pair, number of rows and scenario, in the order in which the scenarios were measured."""
    found = {}
    for group in dict.fromkeys((row.pair, row.rows, row.scenario) for row in rows):
        some = [row for row in rows if (row.pair, row.rows, row.scenario) == group]
        ours, without = (next((row for row in some if row.tool == name and row.seconds), None) for name in OURS)
        others = [row for row in some if row.tool not in OURS]
        across = _fastest(row for row in others if row.tool not in ONE_FAMILY)
        if ours:
            found[group] = _Bout(ours, without, across or _fastest(others))
    return found


def _cells(bout: _Bout | None) -> list[str]:
    if bout is None:
        return [""] * 4
    without = _ratio(bout.other, bout.without) if bout.without else None
    figures = [f"{ratio:.2f}" if ratio is not None else "" for ratio in (bout.ratio, without)]
    return [f"{bout.ours.seconds:.2f}", f"{bout.other.tool} {bout.other.seconds:.2f}" if bout.other else "none was right", *figures]


def _fastest(rows: Iterable[Row]) -> Row | None:
    right = [row for row in rows if row.seconds and row.verdict.startswith("right")]
    return min(right, key=lambda row: row.seconds or 0.0, default=None)


def _ratio(other: Row | None, ours: Row) -> float | None:
    return other.seconds / ours.seconds if other and other.seconds and ours.seconds else None
