"""The tables of part repair."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from benchmarks.copies import DUMP, SPARK, Copy
from benchmarks.repairing import DIFFERENCES, OTHER, TABLES, Repaired

COPY_NOTES = f"""\
From MySQL, a table of ten columns with a primary key, about 150 bytes a row as text. "Copy" is from the first row that is read to the
last that is loaded, with digests and journal; "{DUMP}" is the server's own dump into a file on its disk, and that
file loaded into a table with a primary key. A bootstrap then compares the copy with its source row by row, exchanges the rows in one
transaction, and audits them again ("whole"). "{SPARK}" is at `local[2]`, the second copy of one process, while the first also starts
Spark. Memory is the peak of the resident bytes of our processes, Spark's Java among them. The roads take turns; servers and roads share
the cores. Medians.
"""
REPAIRED_NOTES = f"""\
MariaDB to MariaDB, {DIFFERENCES:,} differences: 80 % of them changed rows, 10 % missing, 10 % extra. Seconds are from the beginning of
the search, once the program and its libraries are loaded, to the last commit, the auditor's with its journal and the reading back of
each batch; "process" has that loading too, which for {OTHER} is what its `--version` takes. The auditor's audit has
`prescan: false`, as rows differ all over the table. Locked rows are those that one transaction held at most, looked at in a run before.
"Wrong" are rows that are not, to the bit, as in the source afterwards. The auditor's second audit of the keys is not among the seconds.
Tools take turns; medians.
"""
COPY_HEAD = ["target", "rows", "road", "copy, s", "rows/s", "of the dump", "compared, s", "whole, s", "memory", "result", "load"]
REPAIRED_HEAD = ["rows have", "tool", "seconds", "times as fast", "parts, s", "process, s", "locked: target", "source", "wrong", "load"]


def copy_rows(copies: Sequence[Copy]) -> Iterator[list[str]]:
    """Yield a row for each road."""
    for copy in sorted(copies, key=lambda copy: (copy.target, copy.rows)):
        begin = [copy.target, f"{copy.rows:,}", copy.road]
        if not copy.seconds:
            yield [*begin, *[""] * 6, copy.why, f"{copy.load:.1f}"]
            continue
        dump = next((other for other in copies if (other.target, other.rows, other.road) == (copy.target, copy.rows, DUMP)), None)
        rate = copy.rows / median(copy.seconds)
        ratio = f"{rate / (dump.rows / median(dump.seconds)):.2f}" if dump and dump.seconds and dump is not copy else ""
        figures = [f"{median(copy.seconds):.2f}", f"{rate:,.0f}", ratio, _median(copy.compare), _median(copy.whole)]
        memory = f"{copy.memory / 2**20:,.0f} MB" if copy.memory else ""
        yield [*begin, *figures, memory, copy.verdict, f"{copy.load:.1f}"]


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
