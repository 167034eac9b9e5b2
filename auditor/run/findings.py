"""What a run finds by one method, and what is said of it: reasons, notes, rows that could not be hashed, and results of each shard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from auditor import canonical
from auditor.compare.accounting import Row
from auditor.compare.comparator import Aligned, compare
from auditor.compare.patterns import fraction_hints
from auditor.config import Audit
from auditor.connections.reader import Reader
from auditor.durations import durations
from auditor.masking import as_shown, partition_label
from auditor.model import (
    Alignment,
    Comparison,
    Difference,
    Differences,
    Jaccard,
    Measure,
    Plan,
    RangeDifference,
    ShardResult,
    Side,
    Verdict,
    side_of,
)
from auditor.planning import planner
from auditor.run.fetch import Fetcher
from auditor.sql import render
from auditor.sql.relation import relation
from dialects import Session

UNHASHED_PARTITIONS = 3
"""Partitions in which rows that could not be hashed are looked for."""

UNHASHED_ROWS = 3
"""Of these, rows of a side that are named."""

MAX_SHARD_RANGES = 100
"""Ranges of missing rows of which every shard is asked how many it holds."""


@dataclass(slots=True)
class Findings:
    """What a run found by one method."""

    aligned: Aligned
    comparison: Comparison
    differences: Differences | None = None
    jaccard: Jaccard | None = None
    states: Mapping[int, str] = field(default_factory=dict)
    """How each unequal partition, by id, was settled."""
    measures: tuple[Measure, ...] = ()
    prescan: str = ""
    """What a pre-scan found, as a sentence; empty if there was none."""
    verdict: Verdict = Verdict.UNKNOWN
    reasons: tuple[str, ...] = ()


def compare_summaries(audit: Audit, reader: Reader, plan: Plan, aligned: Aligned) -> Comparison:
    """Return what the summaries say; unknown if all rows are still in flight."""
    score = audit.threshold.score if plan.method == "counts" else 1.0  # the other methods know a similarity
    comparison = compare(aligned, threshold=score, allow_empty=audit.allow_empty, label=partial(partition_label, plan))
    if comparison.skipped and (named := describe_unhashed(reader, plan, aligned)):
        comparison = replace(comparison, reasons=(f"{comparison.reasons[0]}: {'; '.join(named)}", *comparison.reasons[1:]))
    if comparison.total:
        return comparison
    if plan.partition_ranges:  # some of a table's, which has rows: its other keys are the bounds of these
        comparison = replace(comparison, verdict=Verdict.MATCH, reasons=("neither side has a row in this part of the table",))
    if not plan.watermark or not any(reader.ask_each(lambda side, session: _count_rows(plan, side, session)).values()):
        return comparison
    what = "every row that was read" if plan.partition_ranges or plan.slice else "every row"
    sentence = f"{what} is from the watermark {plan.watermark} UTC on, so nothing was compared yet; run it again later"
    return replace(comparison, verdict=Verdict.UNKNOWN, reasons=(sentence,))


def reasons_of(findings: Findings, plan: Plan | None) -> tuple[str, ...]:
    """Return the reasons of the verdict, with what it does not speak of: the rows outside a slice, and ambiguous row texts."""
    if plan is None:
        return findings.reasons
    outside = [f"only {plan.slice} were compared; nothing is said of others"] if plan.slice else []
    ambiguous = [planner.AMBIGUITY] if plan.encoding == "published" and findings.verdict is Verdict.MATCH else []
    return (*outside, *findings.reasons, *_doubled(findings.differences), *ambiguous)


def _count_rows(plan: Plan, side: Side, session: Session) -> int:
    """Return how many rows a side has, those in flight among them."""
    here = plan.sides[side]
    return int(session.query_row(render.count(session.dialect, relation(here, session.dialect), here.where or "1 = 1"))[0])


def _doubled(differences: Differences | None) -> tuple[str, ...]:
    """Return the sentence about keys that several shards hold, if there are any."""
    doubled = [difference for difference in differences.named if difference.is_doubled] if differences is not None else []
    if not doubled:
        return ()
    where = " and ".join(sorted({shard for difference in doubled for shard in difference.shards}))
    what = "1 key is doubled" if len(doubled) == 1 else f"{len(doubled):,} keys are doubled"
    return (f"{what}: several shards ({where}) hold a row of it, and each row should be on one of them",)


def describe_unhashed(reader: Reader, plan: Plan, aligned: Aligned) -> list[str]:
    """Return a clause for each of the first rows that could not be hashed; nothing if all rows can be by now, or sums alone could not."""
    notes: list[str] = []
    for side in plan.read_sides:
        summaries = aligned.sides[side_of(side)]
        numbers = [int(number) for number in summaries.partition[np.flatnonzero(summaries.rows != summaries.hashed)][:UNHASHED_PARTITIONS]]
        if numbers:
            notes += reader.ask_side(side, partial(_describe_side, reader, plan, numbers))
    return notes


def _describe_side(reader: Reader, plan: Plan, numbers: Sequence[int], side: Side, session: Session) -> list[str]:
    rows = list(Fetcher(plan, side, session, 0).unhashed(numbers))[:UNHASHED_ROWS]
    return [
        f"{reader.name(side)}, key {_unhashed_key(plan, row)}: {_unhashed_cause(plan, row, session.dialect.LONGEST_TEXT_SETTING)}"
        for row in rows
    ]


def _unhashed_key(plan: Plan, row: Row) -> str:
    columns = zip(plan.key_columns, row.key, strict=True)
    texts = (as_shown(canonical.readable(column.kind, text), column.masked) for column, text in columns)
    return ", ".join("NULL" if text is None else text for text in texts)


def _unhashed_cause(plan: Plan, row: Row, setting: str) -> str:
    """Return which columns' texts an engine could not build, and what to do about it."""
    names = [column.name for column, flag in zip(plan.columns, row.texts, strict=True) if flag == "1"]
    what = f"the text of {' and '.join(names)} could not be built" if names else "its columns together are too long a text"
    others = [name for name in names if name not in {column.name for column in plan.key_columns}]
    leave_out = f"write columns: {{exclude: [{', '.join(others) or '...'}]}}"
    return f"{what}; {f'raise {setting} on its server, or ' if setting else ''}{leave_out}"


def notes_of(
    reader: Reader,
    plan: Plan | None,
    comparison: Comparison | None,
    named: Sequence[Difference],
    *,
    schema_changes: Sequence[str],
    is_resumed: bool,
    asks_recheck: bool,
    share_read: float,
    prescan: str,
    live: str,
    files: str,
    uncounted: str,
) -> tuple[str, ...]:
    """Return the notes of a run, a sentence each.

    ``share_read`` is the share of partitions that it read, 0 to 1; ``prescan`` says what the pre-scan found, empty if there was none;
    ``live`` why live summaries did not begin with the run's scan, ``files`` why sums of files were not kept, and ``uncounted`` why its rows
    were not counted in another way.
    """
    notes = [*(f"schema: {change}" for change in schema_changes), *([prescan] if prescan else []), *([files] if files else [])]
    if plan and plan.barrier:
        notes.append(plan.barrier)
    if is_resumed:
        notes.append("the run was resumed: chunks that were read before were not read again")
    for place, connection in reader.sides.items():
        side = reader.name(place)
        notes += [f"{side}: {note}" for note in connection.server_notes]
        if connection.retries:
            notes.append(f"{side}: {_times(connection.retries, 'a transient error was', 'transient errors were')} retried")
        if connection.snapshots_lost and plan and plan.snapshot == "whole":
            lost = _times(connection.snapshots_lost, "snapshot was", "snapshots were")
            notes.append(f"{side}: {lost} lost, so what was read later shows the table as it was later")
        if connection.snapshots_given_up:
            given_up = _times(connection.snapshots_given_up, "a snapshot was", "snapshots were")
            pause = f"a pause of more than {durations().snapshot_in_pause / 60:g} minutes"
            notes.append(f"{side}: {given_up} given up in {pause}, so what was read later shows the table as it was later")
        if connection.snapshots_not_held:
            ended = _times(connection.snapshots_not_held, "a connection was", "connections were")
            notes.append(
                f"{side}: {ended} lost after the last row was read, so the session could not be asked at the end whether it was the one"
                " that the run began with"
            )
    for place, why in sorted(reader.alone.items()):
        notes.append(f"{reader.name(place)}: one connection read all chunks, for no other could join its snapshot: {why}")
    for place in sorted(reader.unshared):
        notes.append(
            f"{reader.name(place)}: this engine or user cannot share a snapshot, so further connections read each chunk in one of its own"
        )
    if asks_recheck and plan and plan.method != "exact" and comparison and comparison.unequal:
        notes.append(f"nothing was rechecked: the method {plan.method} names no rows")
    notes += fraction_hints(plan, named) if plan else []
    notes += [note for note in (live, uncounted) if note]
    if share_read < 1:
        notes.append(f"{share_read:.2%} of the table's partitions were read in this run")
    return tuple(notes)


def _times(count: int, singular: str, plural: str) -> str:
    return singular if count == 1 else f"{count:,} {plural}"


def name_shards_of_ranges(reader: Reader, plan: Plan, differences: Differences) -> Differences:
    """Return the differences with the shards that hold the rows of missing ranges, as they are now; unchanged without shards."""
    if not reader.shards:
        return differences
    ranges = [
        _name_shards(reader, plan, span) if span.kind == "missing" and place < MAX_SHARD_RANGES else span
        for place, span in enumerate(differences.ranges)
    ]
    return replace(differences, ranges=tuple(ranges))


def _name_shards(reader: Reader, plan: Plan, span: RangeDifference) -> RangeDifference:
    rows = reader.ask_source(lambda side, session: Fetcher(plan, side, session, 0).sum_range(span)[0])
    counts = {plan.sides[side].label: count for side, count in zip(reader.shards, rows, strict=True) if count}
    return replace(span, shards=counts)


def shard_results(reader: Reader, plan: Plan, findings: Findings | None, aligned: Mapping[Side, Alignment]) -> tuple[ShardResult, ...]:
    """Return what was found of each shard, as far as the run got, and where it was read; nothing for a source of one table."""
    return tuple(_shard_result(reader, plan, findings, side, aligned.get(side)) for side in reader.shards)


def _shard_result(reader: Reader, plan: Plan, findings: Findings | None, side: Side, aligned: Alignment | None) -> ShardResult:
    label, main = plan.sides[side].label, reader.sides[side]
    known = ShardResult(
        label=label,
        server=main.server,
        rows=findings.aligned.shard_rows.get(side) if findings else None,
        snapshots_lost=main.snapshots_lost + main.snapshots_given_up,
        cost=reader.cost(side) if main.server else None,
        aligned=aligned if findings else None,
    )
    if findings is None or findings.differences is None:
        equal = findings is not None and findings.verdict is Verdict.MATCH and not findings.comparison.unequal
        return replace(known, verdict=Verdict.MATCH if equal else Verdict.UNKNOWN)
    differences = findings.differences
    mine = [difference for difference in differences.named if label in difference.shards and difference.state == "confirmed"]
    missing = sum(difference.row_count for difference in mine if difference.kind == "missing" and not difference.is_doubled)
    missing += sum(span.shards.get(label, 0) for span in differences.ranges if span.state == "confirmed")
    changed = sum(difference.row_count for difference in mine if difference.kind == "changed" and not difference.is_doubled)
    doubled = sum(difference.is_doubled for difference in mine)
    verdict = Verdict.MISMATCH if missing or changed or doubled else Verdict.MATCH if _is_complete(differences) else Verdict.UNKNOWN
    return replace(known, missing=missing, changed=changed, doubled=doubled, verdict=verdict)


def _is_complete(differences: Differences) -> bool:
    """Whether every difference is counted, and those of shards are listed with them, so that a shard without any has none."""
    listed = sum(difference.row_count for difference in differences.named) + sum(span.rows for span in differences.ranges)
    unnamed = [span for span in differences.ranges if span.kind == "missing" and not span.shards]
    return differences.exact and not unnamed and listed >= differences.missing + differences.extra + differences.changed
