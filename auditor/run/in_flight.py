"""Rows in flight: whether they alone can explain a mismatch, and which of them no run has compared for long.

**Mismatches.** A row that was updated after the watermark is left out on the source, and its old version, which is still in the target, is
compared: the partition differs. The method exact names such a row and rechecks it. The other methods name none, and exact none of what it
only estimates; but they can count the source's rows that are younger than the watermark, by partition. Each of these leaves at most one
row on one side only: the old version in the target, or, of a row that was updated after the source was read and has overtaken the
scan, the one that was read. So a partition that differs by more rows than the source has young ones there does differ. Of one that
does not, nothing is claimed.

They are counted after the scan, so that rows updated meanwhile are among them. A deleted row carries no time: it is reported as a
difference, as it is where rows are named.

**Overdue rows.** A row that is written more often than rows settle is younger than the watermark in every run, and one that always changes
between two looks is never confirmed. Either could be damaged for ever without a word, so that runs follow the rows that they leave out.

Where more rows are left out than are followed, those are followed whose key's number is a multiple of a power of 2: the same in every run.
Whatever their number, the stretches are followed of which nothing was compared: neighbouring partitions all of whose rows were young, and
ranges too long to be rechecked row by row that were never seen to stand still.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from auditor.compare import deviations, text_forms
from auditor.compare.comparator import Aligned
from auditor.connections.reader import Reader
from auditor.history import key_digests
from auditor.history.key_digests import Digest
from auditor.history.left_out import MAX_FOLLOWED, Key, LeftOut, LeftOutRow, Span, Stretch, advance, advance_stretches
from auditor.masking import MASKED_KEYS, partition_label
from auditor.model import (
    NULL_PARTITION,
    Chunk,
    Differences,
    Measure,
    Method,
    Overdue,
    OverdueRange,
    Plan,
    RangeDifference,
    Report,
    Side,
    SidePlan,
    consecutive_ranges,
)
from auditor.run.fetch import Fetcher
from auditor.run.scan import scan
from auditor.sql import key_number as sql_key_number
from auditor.sql.render import partition_conditions
from auditor.summary.arrays import Integers, Summaries
from auditor.summary.key_number import key_number
from dialects import Session

MAX_OVERDUE = 100
"""Overdue rows, and stretches of them, that a report names."""

RANGES = 25
"""Key ranges of partitions that one statement reads."""

MAX_IN_SENTENCE = 10
"""Keys, or ranges of keys, in the sentence of a report."""

KEYS = "keys"
"""The positions of stretches in partitions that are ranges of keys, whatever their width."""


def find_unexplained(
    plan: Plan, aligned: Aligned, differences: Differences | None, states: Mapping[int, str], measures: Sequence[Measure]
) -> list[int] | None:
    """Return the partitions (by index) of which only a count or a share says that they differ; None if rows are known to differ.

    ``states`` says how unequal partitions, by id, were settled; ``measures`` are those of the method counts.
    """
    if differences and (differences.missing or differences.extra or differences.changed):
        return None
    unequal = [int(index) for index in np.flatnonzero(aligned.unequal)]
    if differences:
        return [index for index in unequal if states.get(int(aligned.partition[index])) == "estimated"]
    if plan.method == "counts":
        deviating = {measure.partition for measure in measures if not measure.allowed and not deviations.is_distribution(measure)}
        return [index for index in unequal if aligned.partition_id(index) in deviating]
    return unequal


def count_explaining(reader: Reader, plan: Plan, aligned: Aligned, chosen: Sequence[int]) -> int:
    """Return how many rows of the source are in flight if they can be all that differs in these partitions (by index), else 0.

    ``plan`` leaves out what is in flight now, as the open snapshots show the tables.
    """
    young = scan(reader, plan_of_young_rows(plan)).sides["source"]
    return int(young.rows.sum()) if can_explain(plan, aligned, chosen, young) else 0


def plan_of_young_rows(plan: Plan) -> Plan:
    """Return the plan that counts the source's rows in flight as cheaply as possible, and reads nothing of the target."""

    def young(here: SidePlan) -> SidePlan:  # also if the condition is neither true nor false
        return dataclasses.replace(here, settled=f"CASE WHEN {here.settled} THEN 0 ELSE 1 END = 1")

    sides = {side: young(here) if here.settled else here for side, here in plan.sides.items()}
    sides["target"] = dataclasses.replace(plan.sides["target"], chunks=())
    method: Method = "counts" if plan.method == "counts" else "signature"
    return dataclasses.replace(plan, method=method, k=0, t=0, bits=60, sides=sides)


def can_explain(plan: Plan, aligned: Aligned, chosen: Sequence[int], young: Summaries) -> bool:
    """Whether rows in flight can be all that differs in each of these partitions (by index); ``young`` are the source's."""
    if not int(young.rows.sum()):
        return False
    if plan.partitioning.strategy == "time":  # an update may have moved a row to another partition
        return True
    young_rows = dict(zip(young.partition.tolist(), young.rows.tolist(), strict=True))
    available = [young_rows.get(int(aligned.partition[index]), 0) for index in chosen]
    return bool((np.array(available, np.int64) >= _fewest_differing(plan, aligned, chosen)).all())


def _fewest_differing(plan: Plan, aligned: Aligned, chosen: Sequence[int]) -> Integers:
    """Return the fewest rows that can be on one side only: the gap between row counts, or one on each side if signatures differ."""
    gaps = [abs(int(aligned.rows["source"][index]) - int(aligned.rows["target"][index])) for index in chosen]
    return np.array([gap or (1 if plan.method == "counts" else 2) for gap in gaps], np.int64)


@dataclass(frozen=True, slots=True)
class YoungRows:
    """The source's rows that a scan left out."""

    rows: int = 0
    followed: tuple[Key, ...] = ()
    """The keys of those that are followed."""
    one_in: int = 1
    """The rows of one in so many keys are followed."""
    spans: tuple[Span, ...] = ()
    """Where the source has no other rows."""


@dataclass(frozen=True, slots=True)
class Changing:
    """The differences that a run did not confirm."""

    keys: tuple[Key, ...] = ()
    ranges: tuple[RangeDifference, ...] = ()
    """Those of which no key is known."""


def find_young_rows(reader: Reader, plan: Plan, aligned: Aligned, assumed: Collection[int] = ()) -> YoungRows:
    """Count the source's rows that are younger than the watermark, and list the keys of those that are followed.

    ``assumed`` are partitions of which ``aligned`` only assumes that they hold rows.
    """
    # Rows without a time are compared, or left out because the audit says so.
    young = _with_condition(plan_of_young_rows(plan), lambda _, here: f"{here.settled} AND {here.written} IS NOT NULL")
    reader.report("source", "counting the rows that are too young")
    summaries = scan(reader, young).sides["source"]
    rows, one_in = int(summaries.rows.sum()), 1
    while rows > MAX_FOLLOWED * one_in:
        one_in *= 2

    def list_keys(side: Side, session: Session) -> list[Key]:
        plan = young
        if one_in > 1:
            sample = f"{sql_key_number.key_number(young, side, session.dialect)} % {one_in} = 0"
            plan = _with_condition(young, lambda at, here: f"{here.settled} AND {sample}" if at == side else here.settled)
        fetcher = Fetcher(plan, side, session, 0)
        listed = fetcher.by_partition(summaries.partition.tolist()) if plan.partitioning.strategy == "range" else fetcher.all_rows()
        return [row.key for row in listed]

    followed = tuple(key for keys in reader.ask_source(list_keys) for key in keys) if rows else ()
    settled = aligned.partition[aligned.rows["source"] > 0]
    if doubtful := sorted({*summaries.partition[summaries.partition != NULL_PARTITION].tolist()} & {*assumed}):
        settled = np.union1d(settled[~np.isin(settled, doubtful)], _find_settled(reader, plan, doubtful))
    return YoungRows(rows, followed, one_in, tuple(_spans_without_settled_rows(plan, summaries, settled)))


def _find_settled(reader: Reader, plan: Plan, partitions: Sequence[int]) -> Integers:
    """Return those of these partitions in which the source has rows that are not young."""
    sides = {**plan.sides, "target": dataclasses.replace(plan.sides["target"], chunks=())}
    for side in plan.read_sides:
        if side != "target":
            conditions = partition_conditions(plan, side, reader.session(side).dialect, partitions, RANGES)
            sides[side] = dataclasses.replace(plan.sides[side], chunks=tuple(Chunk(within=condition) for condition in conditions))
    summaries = scan(reader, dataclasses.replace(plan, method="signature", k=0, t=0, bits=60, sides=sides)).sides["source"]
    return summaries.partition[summaries.rows > 0]


def _spans_without_settled_rows(plan: Plan, young: Summaries, settled: Integers) -> Iterator[Span]:
    """Yield the spans of neighbouring partitions in which the source has young rows and no others; ``settled`` hold others."""
    is_keys = _positions(plan) == KEYS
    span: Span | None = None
    place = -1
    for index in np.flatnonzero((young.rows > 0) & (young.partition != NULL_PARTITION) & ~np.isin(young.partition, settled)).tolist():
        partition, rows = int(young.partition[index]), int(young.rows[index])
        first, last = (int(young.least[index]), int(young.greatest[index])) if is_keys else (partition, partition)
        before, place = place, int(np.searchsorted(settled, partition))
        if span and place == before:  # no settled row lies between
            span = Span(span.first, last, span.rows + rows)
            continue
        if span:
            yield span
        span = Span(first, last, rows)
    if span:
        yield span


def _with_condition(plan: Plan, condition: Callable[[Side, SidePlan], str]) -> Plan:
    """Return the plan that reads of the source, or of each of its shards, the rows of a condition."""
    sides = dict(plan.sides)
    for side in plan.read_sides:
        if side != "target":
            sides[side] = dataclasses.replace(sides[side], settled=condition(side, sides[side]))
    return dataclasses.replace(plan, sides=sides)


def _positions(plan: Plan) -> str:
    """Return what the positions of stretches are in a plan's partitions."""
    return KEYS if plan.partitioning.strategy == "range" else str(plan.partitioning)


def follow(earlier: LeftOut, plan: Plan, young: YoungRows, changing: Changing, began: dt.datetime, digest: Digest) -> LeftOut:
    """Return what is left out after this run: what was young, and what was still changing.

    Masked values of keys are replaced by their ``digest``, as those of the ``earlier`` rows are.
    """
    one_in, keys = _sampled(plan, young, changing)
    keys = [key_digests.hide_key(key, plan, digest) for key in keys]

    def was_followed(key: Key) -> bool:
        if not _is_sampled(plan, key, one_in):
            return False
        if not plan.partition_ranges or key[0] is None:
            return True
        partition = int(key[0]) // plan.partitioning.size
        return any(first <= partition < end for first, end in plan.partition_ranges)

    rows = advance(earlier.rows, keys, was_followed, began)
    positions = _positions(plan)
    known = earlier.stretches if earlier.positions == positions else ()
    size = plan.partitioning.size
    read = sorted((first * size, end * size - 1) for first, end in plan.partition_ranges) or None
    spans = (*young.spans, *(span for changing_range in changing.ranges if (span := _span_of_range(plan, changing_range))))
    return LeftOut(rows, advance_stretches(known, spans, read, began), positions, one_in)


def _is_sampled(plan: Plan, key: Key, one_in: int) -> bool:
    """Return whether a key is one of those that are followed. One with a digest was: its own hash is not known."""
    if one_in == 1 or None in key or any(column.masked for column in plan.key_columns):
        return True
    return not (key_number(plan, key) or 0) % one_in


def _sampled(plan: Plan, young: YoungRows, changing: Changing) -> tuple[int, list[Key]]:
    """Return the keys to follow, and that one in so many is followed: as many as fit."""
    one_in, keys = young.one_in, list(dict.fromkeys([*young.followed, *changing.keys]))
    while one_in > 1 or len(keys) > MAX_FOLLOWED:
        keys = [key for key in keys if None not in key and not (key_number(plan, key) or 0) % one_in]
        if len(keys) <= MAX_FOLLOWED:
            break
        one_in *= 2
    return one_in, keys


def _span_of_range(plan: Plan, difference: RangeDifference) -> Span | None:
    """Return the span of a range of differences; None if its partitions are not the plan's."""
    if _positions(plan) == KEYS:
        return None if difference.first is None or difference.last is None else Span(difference.first, difference.last, difference.rows)
    first, last = difference.ids
    is_other = difference.buckets not in (0, plan.partitioning.buckets)
    return None if first is None or last is None or is_other else Span(first, last, difference.rows)


def with_left_out(report: Report, left_out: LeftOut | None, young: YoungRows, runs: int) -> Report:
    """Return the report with what ``runs`` runs in a row left out, for which its verdict does not speak."""
    report = dataclasses.replace(report, left_out=young.rows)
    plan = report.plan
    if plan is None or left_out is None:
        return report
    rows = sorted(((key, row) for key, row in left_out.rows.items() if row.runs >= runs), key=lambda item: -item[1].runs)
    stretches = sorted(
        (stretch for stretch in left_out.stretches if stretch.runs >= runs), key=lambda stretch: (-stretch.runs, -stretch.span.rows)
    )
    if not rows and not stretches:
        return report
    outside = [key for key, _ in rows]
    in_stretches = sum(stretch.span.rows for stretch in stretches)
    if _positions(plan) == KEYS:
        outside = [key for key in outside if not any(stretch.span.first <= int(key[0] or 0) <= stretch.span.last for stretch in stretches)]
        count = in_stretches + _count(plan, outside, left_out.one_in)
    else:  # a key does not identify its partition, so that one of both numbers may hold the other
        outside = outside if _count(plan, outside, left_out.one_in) > in_stretches else []
        count = max(in_stretches, _count(plan, outside, left_out.one_in))
    names = [column.name for column in plan.key_columns]
    return dataclasses.replace(
        report,
        reasons=(*report.reasons, _sentence(plan, left_out.one_in, count, outside, rows, stretches, runs)),
        overdue_rows=count,
        overdue=tuple(Overdue(key=dict(zip(names, key, strict=True)), runs=row.runs, since=row.since) for key, row in rows[:MAX_OVERDUE]),
        overdue_ranges=tuple(
            OverdueRange(label=_label(plan, stretch.span), rows=stretch.span.rows, runs=stretch.runs, since=stretch.since)
            for stretch in stretches[:MAX_OVERDUE]
        ),
    )


def _count(plan: Plan, keys: Sequence[Key], one_in: int) -> int:
    """Return about how many rows these keys stand for; those outside the sample were followed before it was drawn."""
    return max(len(keys), one_in * sum(_is_sampled(plan, key, one_in) for key in keys))


def _sentence(
    plan: Plan,
    one_in: int,
    count: int,
    outside: Sequence[Key],
    rows: Sequence[tuple[Key, LeftOutRow]],
    stretches: Sequence[Stretch],
    runs: int,
) -> str:
    since = min([*(row.since for _, row in rows), *(stretch.since for stretch in stretches)])
    is_estimate = one_in > 1 and bool(outside)
    rows_were = "1 row was" if count == 1 else f"{'about ' if is_estimate else ''}{count:,} rows were"
    return (
        f"{rows_were} not compared in the last {runs} runs or more, since {since:%Y-%m-%d %H:%M} UTC, because they were younger than the"
        f" watermark or changing each time, so nothing is said of them{_where(plan, outside, stretches)}"
    )


def _where(plan: Plan, keys: Sequence[Key], stretches: Sequence[Stretch]) -> str:
    """Return stretches and some keys for a person, whole numbers as ranges; empty if they are masked."""
    if plan.hides_ranges or any(column.masked for column in plan.key_columns):
        return ""
    texts = [_label(plan, stretch.span) for stretch in stretches]
    if plan.has_integer_key:
        spans = consecutive_ranges([int(key[0]) for key in keys if key[0] is not None])
        key_texts = [f"{first:,}" if first == last else f"{first:,} to {last:,}" for first, last in spans]
    else:
        key_texts = [", ".join(map(_key_text, key)) for key in keys]
    if key_texts:
        key_texts[0] = f"keys {key_texts[0]}"
    texts += key_texts
    more = f" and {len(texts) - MAX_IN_SENTENCE:,} more" if len(texts) > MAX_IN_SENTENCE else ""
    return f": {'; '.join(texts[:MAX_IN_SENTENCE])}{more}"


def _key_text(text: str | None) -> str:
    return "NULL" if text is None else f"'{text}'" if text_forms.passes_for_null(text) else text


def _label(plan: Plan, span: Span) -> str:
    """Return a span for a person, without values of masked columns."""
    if plan.hides_ranges or _positions(plan) != KEYS:
        first, last = (partition_label(plan, number) for number in (span.first, span.last))
        return first if first == last else f"{first} to {last}"
    if any(column.masked for column in plan.key_columns):
        return MASKED_KEYS
    return f"keys {span.first:,}" if span.first == span.last else f"keys {span.first:,} to {span.last:,}"
