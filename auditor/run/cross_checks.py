"""Hold what a run read of its tables against what is read in another way: a bare count, and a few rows that are hashed here.

Both run in the snapshots of the run. Either of them failing ends the run, whose verdict is unknown then: the statements that summarise are
not those that they are believed to be, whatever both sides' summaries say of each other.

* *Rows.* A statement that counts, in whose scope is nothing but the table, finds as many rows as were summarised; with a filter, those
  that meet it, that do not, and for which that is unknown add up to all. Statements of a shape that was not proved yet are held against a
  count of the whole table, others against that of a random range of keys, or now and then of the whole table where keys are no ranges.
* *Witnesses.* A few random rows are fetched as plain values. `auditor.compare.witness` says what they are in a summary, and the run's own
  statements, for these rows alone, have to yield the same.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypeVar

import sql_templates
from auditor import canonical
from auditor.compare import witness
from auditor.compare.comparator import Aligned
from auditor.connections.reader import Reader
from auditor.errors import ReadingContradicted, StatementTimeout
from auditor.model import NULL_PARTITION, Chunk, ColumnPlan, Plan, Side, side_of
from auditor.planning.chunks import CHUNK_ROWS
from auditor.planning.prescan import plan_of_stretches
from auditor.run.fetch import Fetcher
from auditor.run.prescan import ReadResult
from auditor.run.scan import hold_count
from auditor.sql import render, row_text
from auditor.sql.prescan import stretch_condition
from auditor.sql.relation import relation
from auditor.sql.user_sql import checked
from auditor.summary import arrays
from dialects import Dialect, Session

T = TypeVar("T")

WITNESSES = 4
"""Rows of each side that are hashed here."""

MOST_WITNESSES = 64
"""Rows that the condition of the witnesses' keys may find; more are not looked at."""

WHOLE_COUNTS = 16
"""Of so many runs by statements of a proved shape, one counts a whole table whose key is no range."""

FAR = 1.5
"""How many times more rows the server's planner may expect than were read, or fewer, before they are all counted."""

NUMBERS = re.compile(r"\d+")


@dataclass(slots=True)
class CrossChecks:
    """The checks of one run."""

    reader: Reader
    proved: frozenset[str] = frozenset()
    """The shapes of statements, as `shape_of` says them, whose rows earlier runs counted in full."""
    chance: random.Random = field(default_factory=random.SystemRandom)
    counted: list[str] = field(default_factory=list)
    """The shapes whose rows this run counted in full."""
    note: str = ""
    """Why rows were not held against a count; empty if they were."""
    statements: dict[str, str] = field(default_factory=dict)
    """The statements by which the sides were summarised, as `statements_of` returns them."""

    def hold(self, plan: Plan, result: ReadResult, sides: Sequence[Side] = ()) -> None:
        """Hold what was read by a plan against the checks, of ``sides`` or of all that are read. Raises ReadingContradicted."""
        read = tuple(sides) or plan.read_sides
        self.statements = statements_of(plan, self.reader, read)
        self._hold_witnesses(plan, result, read)
        if self.counts_chunks(plan):
            self.counted.append(shape_of(plan, self.reader))
        elif plan.snapshot == "whole" and not result.is_resumed:
            self._hold_counts(plan, result.aligned, read)

    def counts_chunks(self, plan: Plan) -> bool:
        """Return whether each chunk of a run is counted in the snapshot that it is read in; otherwise only a random one is."""
        return plan.snapshot == "per_chunk" and shape_of(plan, self.reader) not in self.proved

    def hold_files(self, plan: Plan, side: Side, rows: int, keys: Sequence[int], session: Session, *, witnesses: bool) -> None:
        """Hold what was read of some files, the table of a plan, against a bare count of their rows, and with ``witnesses`` against a few
        of these that are hashed here. Call it in the snapshot that was read; ``keys`` are some that the files have, if keys are integers.

        Raises ReadingContradicted.
        """
        if witnesses and (shown := _without_masked(plan)):
            chosen = _choose_keys(shown, side, keys, session, self.chance)
            if wrong := chosen and _find_wrong(shown, [shown], side, chosen, session):
                raise ReadingContradicted(f"{wrong}, so nothing is claimed about the tables; report this as a bug")
        if not hold_count(plan, side, [[]], rows, session):
            raise ReadingContradicted(
                f"{side}: files that never change were counted twice, and differently; nothing is claimed about the tables"
            )

    # rows

    def _hold_counts(self, plan: Plan, aligned: Aligned, sides: Sequence[Side]) -> None:
        shape = shape_of(plan, self.reader)
        in_full = shape not in self.proved or self._is_far(plan, aligned)
        span = None if in_full else self._choose_span(plan, aligned)
        if not in_full and span is None and self.chance.randrange(WHOLE_COUNTS):
            return
        expected = {side: _rows_read(plan, aligned, side, span) for side in sides}

        late: list[Side] = []

        def count(side: Side, session: Session) -> bool:
            wanted = expected[side]
            try:
                return wanted is None or hold_count(plan, side, self._pieces(plan, side, span), wanted, session)
            except StatementTimeout:
                late.append(side)
                return False

        is_held = all(self._ask(sides, count))
        for side in late:  # some engines refuse to continue in a transaction in which a statement failed
            self.reader.sides[side].renew_snapshot()
        if late:
            self.note = f"the rows of the {late[0]} were not held against a count of the table, which took longer than a statement may"
        elif not is_held:
            self.note = "the rows that were read were not held against a count of the table, which changes while it is read"
        elif span is None and None not in expected.values():
            self.counted.append(shape)

    def _pieces(self, plan: Plan, side: Side, span: tuple[int, int] | None) -> list[list[Chunk]]:
        """Return the ranges of keys to count by a statement each: several for a table that took longer to read than a statement may."""
        limit = self.reader.sides[side].settings.limits.statement_timeout
        count = math.ceil(self.reader.scan_seconds[side] / (limit / 4)) if self.reader.scan_seconds[side] > limit / 2 else 1
        if span is not None or plan.partition_ranges or plan.least is None or plan.greatest is None or count == 1:
            return [_ranges(plan, span)]
        cuts = [plan.least + (plan.greatest - plan.least) * number // count for number in range(1, count)]
        bounds = [None, *sorted(set(cuts)), None]
        return [[Chunk(first=first, end=end)] for first, end in pairwise(bounds)] + [[Chunk(null_key=True)]]

    def _is_far(self, plan: Plan, aligned: Aligned) -> bool:
        """Return whether the planner of a server expects a very different number of rows: reason to count, and no more than that."""
        if plan.partition_ranges or any(here.conditions for here in plan.sides.values()):
            return False
        for side in ("source", "target"):
            estimate, rows = plan.sides[side].estimate, int(aligned.rows[side].sum())
            if estimate and not estimate / FAR <= rows <= estimate * FAR:
                return True
        return False

    def _choose_span(self, plan: Plan, aligned: Aligned) -> tuple[int, int] | None:
        """Return a random range of partitions, first and end, of about as many rows as a chunk has at least; None if they are no ranges.

        Not all of its partitions need have been read.
        """
        if plan.partitioning.strategy != "range" or plan.least is None or plan.greatest is None or aligned.shard_rows:
            return None
        ranges = _read_ranges(plan)
        first, end = self.chance.choice(ranges)
        # The partitions of an equal stretch are only assumed to hold a share of its rows each, so all that were read of it are counted.
        width = plan.prescan.partitions if plan.prescan and plan.prescan.used else max(1, CHUNK_ROWS // 4 // plan.rows_per_partition)
        number = self.chance.randrange(first // width, (end - 1) // width + 1) if end > first else 0
        return number * width, (number + 1) * width

    # witnesses

    def _hold_witnesses(self, plan: Plan, result: ReadResult, sides: Sequence[Side]) -> None:
        shown = _without_masked(plan)
        plans = [by for plan_read in result.read_by if (by := _without_masked(plan_read))]
        if shown is None or not plans:
            return

        def check(side: Side, session: Session) -> None:
            keys = _choose_keys(shown, side, result.keys.get(side_of(side), ()), session, self.chance)
            # Without a snapshot a row may change between two statements, but hardly twice.
            for _ in range(2):
                if not (wrong := keys and _find_wrong(shown, plans, side, keys, session)):
                    return
            raise ReadingContradicted(f"{wrong}, so nothing is claimed about the tables; report this as a bug")

        self._ask(sides, check)

    def _ask(self, sides: Sequence[Side], work: Callable[[Side, Session], T]) -> list[T]:
        """Return what work returns of each side, of all in parallel; each in a snapshot of its own unless one is open.

        Some drivers begin a transaction with any statement, and hold the table's lock until somebody ends it.
        """
        if tuple(sides) == tuple(self.reader.sides):
            return list(self.reader.on_sides(lambda side: self.reader.ask_side(side, work, fresh=True)).values())
        return [self.reader.ask_side(side, work, fresh=True) for side in sides]


def statements_of(plan: Plan, reader: Reader, sides: Sequence[Side]) -> dict[str, str]:
    """Return the statement that summarises each side, without the limits of chunks; with a pre-scan also that of its stretches.

    The latter names each stretch of a chunk of keys where it reads digests: it is that of the key 0.
    """
    read = [("", plan, Chunk())]
    if plan.prescan and plan.prescan.used:
        stretches = plan_of_stretches(plan)
        is_listed = stretches.digest_rows and stretches.partitioning.strategy == "range"
        read.append((" (stretches)", stretches, Chunk(first=0, end=1) if is_listed else Chunk()))
    return {f"{side}{of}": render.summary(by, side, reader.session(side).dialect, chunk) for side in sides for of, by, chunk in read}


def shape_of(plan: Plan, reader: Reader) -> str:
    """Return a digest of what decides which rows a run's statements read: their text without numbers, the servers and their settings."""
    plans = [plan_of_stretches(plan), plan] if plan.prescan and plan.prescan.used else [plan]
    said: list[object] = [canonical.VERSION]
    for side in plan.read_sides:
        dialect = reader.session(side).dialect
        key = plan.least or 0
        chunk = Chunk(first=key, end=key + 1) if plan.partitioning.strategy == "range" else Chunk()
        said += [reader.sides[side].server, *dialect.pin_statements(1, 1)]
        said += [NUMBERS.sub("0", render.summary(replace(by, salt="0" if by.salt else ""), side, dialect, chunk)) for by in plans]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:32]


def _read_ranges(plan: Plan) -> Sequence[tuple[int, int]]:
    """Return the ranges of partitions, first and end, that a plan reads of a table whose keys have bounds."""
    size, (least, greatest) = plan.partitioning.size, (plan.least or 0, plan.greatest or 0)
    return plan.partition_ranges or ((least // size, greatest // size + 1),)


def _ranges(plan: Plan, span: tuple[int, int] | None) -> list[Chunk]:
    """Return the ranges of keys to count: of the span, of the partitions of a rolling audit, or none for the whole table."""
    size = plan.partitioning.size
    if span is not None:
        both = [(max(first, span[0]), min(end, span[1])) for first, end in _read_ranges(plan)]
        return [Chunk(first=first * size, end=end * size) for first, end in both if first < end]
    if not plan.partition_ranges:
        return []
    return list(plan.sides["target"].chunks)


def _rows_read(plan: Plan, aligned: Aligned, side: Side, span: tuple[int, int] | None) -> int | None:
    """Return how many rows were summarised of a table, or of partitions of it; None of a shard whose own rows are not known."""
    if side_of(side) != side or side not in aligned.rows:
        return aligned.shard_rows.get(side)
    if span is None:
        return int(aligned.rows[side].sum())
    chosen = (aligned.partition >= span[0]) & (aligned.partition < span[1]) & (aligned.partition != NULL_PARTITION)
    return int(aligned.rows[side][chosen].sum())


# witnesses


def _without_masked(plan: Plan) -> Plan | None:
    """Return the plan without masked columns, whose values are not fetched; None if one of them is in the key or decides a partition."""
    if any(column.masked for column in plan.key_columns) or plan.columns[plan.partitioning.column].masked:
        return None
    shown = tuple(column for column in plan.columns if not column.masked)
    at = shown.index(plan.columns[plan.partitioning.column])
    return replace(plan, columns=shown, partitioning=replace(plan.partitioning, column=at))


def _choose_keys(plan: Plan, side: Side, known: Sequence[int], session: Session, chance: random.Random) -> list[str]:
    """Return conditions that each select a row by its key; empty if there are no rows, or no index would find them.

    Keys that are integers are chosen from ``known``, keys that exist; of others, and where stretches between cuts were read, which name no
    key, the first are taken of a random range, or of all rows.
    """
    if plan.has_integer_key and not (plan.prescan and plan.prescan.cuts):
        keys = sorted({chance.choice(known) for _ in range(WITNESSES)}) if known else []
        return [f"{plan.columns[0].expression[side]} = {key}" for key in keys]
    fetcher = Fetcher(plan, side, session, 0)
    if (plan.sides[side].estimate or 0) >= CHUNK_ROWS and not fetcher.finds_keys_by_index:
        return []
    within = ""
    if plan.prescan and plan.prescan.cuts:
        within = stretch_condition(plan_of_stretches(plan), side, [chance.randrange(1, len(plan.prescan.cuts[side]))])
    texts = [row_text.text(column, side, session.dialect) for column in plan.key_columns]
    rows = session.query(_values(plan, side, texts, within, session.dialect) + f"\nLIMIT {WITNESSES}")
    texts_of_keys = {tuple(None if text is None else _as_text(text) for text in row) for row in rows}
    return [fetcher.keys_condition([key]) for key in texts_of_keys if None not in key and fetcher.can_hold(key)]


def _find_wrong(plan: Plan, plans: Sequence[Plan], side: Side, keys: Sequence[str], session: Session) -> str:
    """Return what of a few rows is not what it should be in the summaries of these plans, as a clause; empty if nothing is."""
    texts: dict[str, list[witness.Texts]] = {}
    for by in plans:
        # The rows of a stretch between cuts are in an order that only the engine knows.
        is_digest, has_cuts = bool(by.digest_rows), bool(by.prescan and by.prescan.cuts)
        which = " OR ".join(f"({key})" for key in (keys[:1] if is_digest and has_cuts else keys))
        rows = texts[which] = texts[which] if which in texts else _fetch_texts(plan, side, which, session)
        if not rows or len(rows) > (1 if is_digest and has_cuts else MOST_WITNESSES):
            continue
        chunk = Chunk(within=which)
        if is_digest and not has_cuts:
            numbers = [int(texts[0] or 0) for texts in rows]
            chunk = replace(chunk, first=min(numbers), end=max(numbers) + 1)
        summaries = arrays.read(session.summarise(render.summary(by, side, session.dialect, chunk)), render.result_columns(by))
        if int(summaries.hashed.sum()) < len(rows):
            continue  # a row whose text cannot be built is not compared, which the report says
        wanted, got = witness.expected(by, rows), witness.read(by, summaries)
        if wrong := [name for name in wanted if wanted[name] != got[name]]:
            name = wrong[0]
            return f"{side}: {name} of {len(rows)} rows are {got[name]} in the summary, and {wanted[name]} by their plain values"
    return ""


def _values(plan: Plan, side: Side, values: Sequence[str], which: str, dialect: Dialect) -> str:
    """Return the statement of values of rows, in whose scope are no names but the table's own."""
    conditions = [f"({condition})" for condition in (*plan.sides[side].conditions, which) if condition]
    holes = {"values": ", ".join(values), "table": relation(plan.sides[side], dialect), "where": " AND ".join(conditions) or "1 = 1"}
    return checked(sql_templates.fill(dialect.template("values"), holes), dialect)


def _fetch_texts(plan: Plan, side: Side, which: str, session: Session) -> list[witness.Texts]:
    """Return the canonical texts of rows: of plain values as they are computed here, of others as the server renders each on its own."""
    columns, dialect = plan.columns, session.dialect
    plain = [witness.is_plain(column, side) for column in columns]

    def fetch() -> list[tuple[object, ...]]:
        values = [
            column.expression[side] if is_plain else _served_text(column, side, dialect)
            for column, is_plain in zip(columns, plain, strict=True)
        ]
        return session.query(_values(plan, side, values, which, dialect))

    try:
        rows = fetch()
    except (ValueError, OverflowError):  # a driver that cannot hold a date, as PostgreSQL's infinity
        plain = [
            is_plain and column.native[side].name not in ("date", "timestamp") for column, is_plain in zip(columns, plain, strict=True)
        ]
        rows = fetch()
    odd = [
        is_plain and not all(witness.fits(column, side, row[index]) for row in rows)
        for index, (column, is_plain) in enumerate(zip(columns, plain, strict=True))
    ]
    if any(odd):
        plain = [is_plain and not is_odd for is_plain, is_odd in zip(plain, odd, strict=True)]
        rows = fetch()
    return [
        tuple(
            witness.plain_text(column, value) if is_plain else None if value is None else _as_text(value)
            for column, value, is_plain in zip(columns, row, plain, strict=True)
        )
        for row in rows
    ]


def _served_text(column: ColumnPlan, side: Side, dialect: Dialect) -> str:
    """Return SQL of a column's canonical text, or of its digest where it may be too long for an engine to build."""
    return row_text.digest(column, side, dialect) if column.pieces else row_text.text(column, side, dialect)


def _as_text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
