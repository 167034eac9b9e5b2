"""Who won: one line for each scenario of the comparison, the auditor beside the fastest other tool whose result was right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.auditor_tool import Auditor, AuditorWithoutPrescan
from benchmarks.duel import Row
from benchmarks.replica import TableChecksum
from benchmarks.rivals import TableSync

OURS = (Auditor.name, AuditorWithoutPrescan.name)
ONE_FAMILY = (TableSync.name, TableChecksum.name)
"""Tools that compare MySQL with MySQL alone, by CRC32 of each row, which misses some differences by chance."""

HEAD = ("pair", "rows", "scenario", "auditor", "fastest other", "times as fast", "without pre-scan", "pt-table-*, CRC32", "load")
NOTES = """\
Seconds of the auditor with its default settings and no history, and of the fastest other tool that compares across engines and was
right; "times as fast" is their ratio, below 1.0 the row is lost. "Without pre-scan" is the same ratio of a run that begins without one,
as after runs that found many differences. The tools of Percona's toolkit compare servers of one family by a CRC32 of each row; their
ratio stands beside. "Load" is the machine's load average when the scenario began, where it was recorded. Rows come from several runs,
on machines of one kind and of different speed, and a tool that a later run left out keeps its earlier row: seconds of different runs
("Measured by", below) do not compare.
"""


STAND_IN_NOTES = """\
The target here is PostgreSQL behind a front end that speaks as Redshift does: its hashes are functions that Redshift computes itself, so
these rows say what a tool sends, and nothing of how fast a Redshift answers.
"""


def apart(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Return the rows of real servers, and those of the stand-in for Redshift."""
    return [row for row in rows if not _is_stand_in(row)], [row for row in rows if _is_stand_in(row)]


def _is_stand_in(row: Row) -> bool:
    return "redshift" in row.pair.split(" to ")


def table_rows(rows: Sequence[Row]) -> list[list[str]]:
    """Return the lines of the table below `HEAD`, in the order in which the scenarios were measured."""
    groups = dict.fromkeys((row.pair, row.rows, row.scenario) for row in rows)
    lines = [_line([row for row in rows if (row.pair, row.rows, row.scenario) == group]) for group in groups]
    return [line for line in lines if line]


def sentence(rows: Sequence[Row]) -> str:
    """Return how many scenarios the auditor won of those in which another tool was right."""
    ratios = [float(line[5]) for line in table_rows(rows) if line[5]]
    return f"The auditor was faster in {sum(ratio >= 1 for ratio in ratios)} of {len(ratios)} scenarios."


def _line(rows: Sequence[Row]) -> list[str]:
    ours, without = (next((row for row in rows if row.tool == name and row.seconds), None) for name in OURS)
    if not ours or not ours.seconds:
        return []
    others = [row for row in rows if row.tool not in OURS]
    best = _fastest(row for row in others if row.tool not in ONE_FAMILY)
    percona = _fastest(row for row in others if row.tool in ONE_FAMILY)
    return [
        ours.pair,
        f"{ours.rows:,}",
        ours.scenario,
        f"{ours.seconds:.2f}",
        f"{best.tool} {best.seconds:.2f}" if best else "none was right",
        _ratio(best, ours),
        _ratio(best, without) if without else "",
        f"{percona.tool} {_ratio(percona, ours)}" if percona else "",
        f"{ours.load:.1f}" if ours.load else "",
    ]


def _fastest(rows: Iterable[Row]) -> Row | None:
    right = [row for row in rows if row.seconds and row.verdict.startswith("right")]
    return min(right, key=lambda row: row.seconds or 0.0, default=None)


def _ratio(other: Row | None, ours: Row) -> str:
    return f"{other.seconds / ours.seconds:.2f}" if other and other.seconds and ours.seconds else ""
