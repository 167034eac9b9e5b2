"""The tables of part repair."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from benchmarks.copies import COLD, DIRECT, DUMP, OURS, SPARK, Copy
from benchmarks.repairing import DIFFERENCES, OTHER, TABLES, Repaired

COPY_NOTES = f"""\
From MySQL, ten columns with a primary key, from the first row that is read to the last that is loaded, with digests and journal. "{DUMP}"
is the server's own dump into a file, and that file loaded; "{SPARK}" is the second copy of one process after the "{COLD}". A bootstrap then
compares the copy with its source row by row, exchanges the rows in one transaction, and audits them again; "compared", "whole" and memory
are those of the road "{DIRECT}".
"""
REPAIRED_NOTES = f"""\
MariaDB to MariaDB, {DIFFERENCES:,} differences: 80 % changed rows, 10 % missing, 10 % extra. Seconds are from the beginning of the search
to the last commit, the auditor's with its journal and the reading back of each batch; "process" has the start, too, which for {OTHER} is
what its `--version` takes. Locked rows are the most that one transaction held. "Wrong" are not, to the bit, as in the source afterwards.
"""
COPY_HEAD = ["target", "rows", *(f"{road}, rows/s" for road in (*OURS, DUMP)), "compared, s", "whole, s", "memory"]
REPAIRED_HEAD = ["rows have", "tool", "seconds", "times as fast", "parts, s", "process, s", "locked: target", "source", "wrong", "load"]


def copy_rows(copies: Sequence[Copy]) -> Iterator[list[str]]:
    """Yield a row for each target and size."""
    roads = {(copy.target, copy.rows, copy.road): copy for copy in copies}
    for target, rows in sorted({(copy.target, copy.rows) for copy in copies}):
        found = [roads.get((target, rows, road)) for road in (*OURS, DUMP)]
        paces = [f"{rows / median(copy.seconds):,.0f}" if copy and copy.seconds else copy.why if copy else "" for copy in found]
        direct, *_ = found
        if direct and direct.seconds:
            yield [target, f"{rows:,}", *paces, _median(direct.compare), _median(direct.whole), f"{direct.memory / 2**20:,.0f} MB"]
        else:
            yield [target, f"{rows:,}", *paces, "", "", ""]


def repaired_rows(repaired: Sequence[Repaired]) -> Iterator[list[str]]:
    """Yield a row for each tool and table."""
    for repair in sorted(repaired, key=lambda repair: repair.table):
        begin = [TABLES[repair.table], repair.tool]
        if not repair.seconds:
            yield [*begin, "", "", repair.why, "", "", "", "", f"{repair.load:.1f}"]
            continue
        other = next(
            (two for two in repaired if (two.table, two.tool) == (repair.table, OTHER) and two.seconds and two is not repair), None
        )
        ratio = f"{median(other.seconds) / median(repair.seconds):.1f}" if other else ""
        parts = ", ".join(f"{name} {seconds:.2f}" for name, seconds in repair.parts.items())
        locked = [f"{repair.locked[side]:,}" if side in repair.locked else "" for side in ("target", "source")]
        yield [
            *begin,
            f"{median(repair.seconds):.2f}",
            ratio,
            parts,
            _median(repair.whole),
            *locked,
            f"{repair.wrong:,}",
            f"{repair.load:.1f}",
        ]


def _median(seconds: Sequence[float]) -> str:
    return f"{median(seconds):.2f}" if seconds else ""
