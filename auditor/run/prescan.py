"""Read both sides, stretches first where the plan says so: a signature or digest of each, and by the method only what differs.

What is equal in a stretch is equal in each of its partitions. What is not is read again in the same snapshot, so that a run finds what it
would have found without the pre-scan.

Where the plan expects differences in some stretches, by the writes there, the method reads these at once, before all others.

Chunks of both parts are saved. A run that is resumed continues with the part that was interrupted: stretches that were read before are not
read again, and those of which a chunk was read by the method are left to the method.

A stretch is a union of partitions, and the key of a row, or its time, says in which partition the row lies. How equal rows are distributed
over the partitions of a stretch was not read, and is taken to be even.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from auditor.compare.comparator import Aligned, Flags, align
from auditor.connections.reader import Reader
from auditor.history.handover import Checkpoint
from auditor.model import NULL_PARTITION, SIDES, Chunk, Plan, Side, SidePlan, Verdict, consecutive_ranges
from auditor.planning.chunks import subtract, within
from auditor.planning.prescan import plan_of_stretches
from auditor.quantities import plural
from auditor.run.scan import Stage, kept_siblings, save_nothing, scan
from auditor.sql import render
from auditor.sql.key_number import LETTER_GROUPS
from auditor.summary import arrays
from auditor.summary.arrays import Integers, Summaries

MOST_IN_GROUPS = 0.8
"""Share of the rows beyond which all of them are read again, without a condition for each."""

SOME_PARTITIONS = 64
"""Partitions of which a key is known where a few random keys are needed."""

SavedChunks = dict[Side, list[tuple[Chunk, Summaries]]]


@dataclass(frozen=True, slots=True)
class ReadResult:
    """What a run read of both sides."""

    aligned: Aligned
    note: str = ""
    """What the pre-scan found, for a person; empty if there was none."""
    assumed: tuple[int, ...] = ()
    """Range partitions of equal stretches: each is only assumed to hold a share of its stretch's rows."""
    differing: Plan | None = None
    """The plan of the groups of keys that differ, if the method read only these: no other row can differ. None if it read all."""
    read_by: tuple[Plan, ...] = ()
    """The plans whose statements read the rows."""
    keys: Mapping[Side, Sequence[int]] = field(default_factory=dict)
    """Some keys that each side has, if they are integers."""
    is_resumed: bool = False
    """Whether some of it was read by an earlier attempt."""
    contradicted: int = 0
    """Stretches that differed and whose partitions were all equal, read again in the same snapshot."""

    def doubt(self, verdict: Verdict, reasons: Sequence[str]) -> tuple[Verdict, tuple[str, ...]]:
        """Return the verdict with its reasons: unknown instead of match if the pre-scan and the scan contradict each other."""
        if verdict is not Verdict.MATCH or not self.contradicted:
            return verdict, tuple(reasons)
        sentence = (
            f"{plural(self.contradicted, 'part')} of the table differed in the pre-scan, and all their partitions were equal in the same"
            " snapshot, so nothing is claimed; run the audit again, and report a bug if this repeats"
        )
        return Verdict.UNKNOWN, (*reasons, sentence)


def read(reader: Reader, plan: Plan, checkpoint: Checkpoint, *, count_chunks: bool = False) -> ReadResult:
    """Return both sides' summaries by a plan; chunks are saved, and chunks of an earlier attempt are not read again.

    ``count_chunks`` holds each chunk that has a snapshot of its own against a bare count. Raises errors of the tree, with the side in
    front.
    """
    saved = {side: checkpoint.saved_chunks(side) for side in plan.read_sides}
    if plan.prescan is None or not plan.prescan.used or (plan.partitioning.strategy != "range" and any(saved.values())):
        aligned = scan(reader, plan, Stage(saved=saved, save=checkpoint.save_chunk, count_chunks=count_chunks))
        return ReadResult(aligned, read_by=(plan,), keys=some_keys(aligned), is_resumed=any(saved.values()))
    at_once = [Chunk(first, end) for first, end in plan.prescan.at_once]
    touched = [chunk for side in plan.read_sides for chunk, _ in saved[side]]
    with kept_siblings(reader) as siblings:
        first = None
        if at_once:
            chosen = _plan_of_ranges(plan, at_once, saved)
            first = scan(reader, chosen, Stage(saved=saved, save=checkpoint.save_chunk, siblings=siblings))
        stage = Stage(
            doing="comparing digests",
            saved={side: checkpoint.saved_stretches(side) for side in plan.read_sides},
            skip=[*touched, *at_once],
            save=checkpoint.save_stretches,
            cut=plan.partitioning.size if plan.partitioning.strategy == "range" and not plan.prescan.digest_rows else 0,
            siblings=siblings,
        )
        scanned = scan(reader, plan_of_stretches(plan), stage)
        equal = scanned.equal & ~_find_touched(plan, scanned.partition.tolist(), touched)
        rest = plan_of_rest(reader, plan, scanned, equal, saved, at_once)
        is_partial = rest is not plan
        left_rows = {side: int(scanned.rows[side][~equal].sum()) for side in SIDES} if is_partial else {}
        # The rows of some groups are no chunk of the table: an attempt that continues reads them again.
        save = checkpoint.save_chunk if not is_partial or plan.partitioning.strategy == "range" else save_nothing
        left = {} if first else saved  # what was saved is in the first scan
        again = scan(reader, rest, Stage(saved=left, rows=left_rows, save=save, siblings=siblings)) if rest else None
    read_by_method = [one for one in (first, again) if one is not None]
    aligned = _join(plan, scanned.select(equal) if is_partial else None, read_by_method)
    is_resumed = bool(any(stage.saved.values()) or touched)
    aligned = replace(aligned, shard_rows={} if touched else scanned.shard_rows)
    differing = rest if is_partial and plan.partitioning.strategy == "hash" else None
    # A digest depends on the order of rows with one key as well, and a group of keys that are text on how that is stored.
    is_proof = not (plan.prescan.digest_rows or plan.prescan.groups == LETTER_GROUPS or is_resumed) and reader.saw_one_snapshot
    contradicted = count_contradicted(plan, scanned, again) if is_proof and again is not None else 0
    assumed = partitions_of_stretches(scanned.select(equal), plan)[0].tolist() if plan.partitioning.strategy == "range" else ()
    return ReadResult(
        aligned,
        describe(plan, scanned, equal, is_partial),
        tuple(assumed),
        differing,
        read_by=(plan_of_stretches(plan), *((plan,) if read_by_method else ())),
        keys=some_keys(scanned, *read_by_method),
        is_resumed=is_resumed,
        contradicted=contradicted,
    )


def some_keys(*scanned: Aligned) -> dict[Side, list[int]]:
    """Return the least and greatest keys of some partitions of each side, where they are integers."""
    keys: dict[Side, list[int]] = {side: [] for side in SIDES}
    for side, here in ((side, here) for each in scanned for side, here in each.sides.items()):
        step = max(1, len(here) // SOME_PARTITIONS)
        first = random.randrange(step)
        keys[side] += [int(key) for ends in (here.least, here.greatest) for key in ends[first::step] if key is not None]
    return keys


def _find_touched(plan: Plan, numbers: Sequence[int], chunks: Sequence[Chunk]) -> Flags:
    """Return which stretches hold rows that were read by the method before, (n,) bool."""
    return np.array([any(_overlaps(plan, number, chunk) for chunk in chunks) for number in numbers], np.bool_)


def _overlaps(plan: Plan, number: int, chunk: Chunk) -> bool:
    if chunk == Chunk():  # rows without a key among them
        return True
    if number == NULL_PARTITION:
        return chunk.null_key
    width = keys_of_stretch(plan)
    return Chunk(number * width, (number + 1) * width).overlaps(chunk)


def keys_of_stretch(plan: Plan) -> int:
    """Return how many keys a stretch of key ranges has."""
    return plan.partitioning.size * (plan.prescan.partitions if plan.prescan else 1)


def _plan_of_ranges(plan: Plan, chosen: Sequence[Chunk], saved: SavedChunks) -> Plan:
    """Return the plan that reads these ranges of keys, in this order, but for what was saved of them."""

    def restrict(side: Side) -> SidePlan:
        here, done = plan.sides[side], [chunk for chunk, _ in saved[side]]
        read = [piece for chunk in chosen for piece in within(here, chunk)]
        return replace(here, chunks=tuple(rest for piece in read for rest in subtract(piece, done)))

    return replace(plan, sides={**plan.sides, **{side: restrict(side) for side in plan.read_sides}})


def plan_of_rest(
    reader: Reader, plan: Plan, scanned: Aligned, equal: Flags, saved: SavedChunks, at_once: Sequence[Chunk] = ()
) -> Plan | None:
    """Return the plan that reads what is not known to be equal; None if nothing is left.

    ``saved`` are chunks of either side, and ``at_once`` stretches of both, that the method has read.
    """
    left = {int(number) for number in scanned.partition[~equal]}
    skipped = [chunk for chunks in saved.values() for chunk, _ in chunks]
    if any(chunk.null_key for chunk in skipped):
        left.add(NULL_PARTITION)
    if skipped and plan.least is not None and plan.greatest is not None:
        width = keys_of_stretch(plan)
        grid = range(plan.least // width, plan.greatest // width + 1)
        left |= {number for number, touched in zip(grid, _find_touched(plan, grid, skipped), strict=True) if touched}
    if not left and not skipped:
        return None
    if not equal.any() and not at_once:
        return plan
    if plan.partitioning.strategy == "hash":
        return _plan_of_groups(reader, plan, scanned, sorted(left))
    spans = key_spans(plan, sorted(left - {NULL_PARTITION}))
    null = (Chunk(null_key=True),) if NULL_PARTITION in left else ()

    def restrict(side: Side) -> SidePlan:
        here = plan.sides[side]
        done = [*at_once, *(chunk for chunk, _ in saved[side])]
        pieces = [piece for first, end in spans for piece in subtract(Chunk(first, end), done)]
        no_key = null if not {Chunk(), *null} & set(done) else ()
        return replace(here, chunks=(*join_small(pieces, here.chunk_keys, plan.columns[0].expression[side]), *no_key))

    return replace(plan, sides={**plan.sides, **{side: restrict(side) for side in plan.read_sides}})


def _plan_of_groups(reader: Reader, plan: Plan, scanned: Aligned, numbers: Sequence[int]) -> Plan:
    """Return the plan that reads the rows of these groups of keys, or ``plan`` itself if that would save little.

    The rows of the other groups are taken to be distributed evenly over the buckets. So there have to be some in each: else a bucket with
    rows of one side alone would seem to have no others.
    """
    is_left = np.isin(scanned.partition, numbers)
    rows = scanned.rows["source"] + scanned.rows["target"]
    if rows[is_left].sum() > MOST_IN_GROUPS * rows.sum() or scanned.rows["source"][~is_left].sum() < plan.partitioning.buckets:
        return plan
    grouped = plan_of_stretches(plan)

    def restrict(side: Side) -> SidePlan:
        here = plan.sides[side]
        condition = render.group_condition(grouped, side, reader.session(side).dialect, numbers)
        return replace(here, where=f"({here.where}) AND ({condition})" if here.where else f"({condition})")

    return replace(plan, sides={**plan.sides, **{side: restrict(side) for side in plan.read_sides}})


def key_spans(plan: Plan, numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return the keys of stretches as ranges, first (inclusive) to end (exclusive), without partitions that the run does not read."""
    size, partitions = plan.partitioning.size, keys_of_stretch(plan) // plan.partitioning.size
    spans = [(first * partitions, (last + 1) * partitions) for first, last in consecutive_ranges(numbers)]
    if plan.partition_ranges:
        spans = [(max(a, c), min(b, d)) for a, b in spans for c, d in plan.partition_ranges if max(a, c) < min(b, d)]
    return [(first * size, end * size) for first, end in spans]


def join_small(pieces: Sequence[Chunk], most: int, key: str) -> list[Chunk]:
    """Return the ranges of keys as chunks, in which small ranges are read together: of at most ``most`` keys each, 0 for no limit."""
    batches: list[list[Chunk]] = []
    room = 0.0
    for piece in pieces:
        first, end = piece.bounds
        room -= end - first
        if not batches or (most and room < 0):
            batches.append([])
            room = most - (end - first)
        batches[-1].append(piece)
    return [batch[0] if len(batch) == 1 else _one_chunk(batch, key) for batch in batches]


def _one_chunk(batch: Sequence[Chunk], key: str) -> Chunk:
    spans = " OR ".join(f"({key} >= {chunk.first} AND {key} < {chunk.end})" for chunk in batch)
    return Chunk(first=batch[0].first, end=batch[-1].end, within=spans)


def _join(plan: Plan, equal: Aligned | None, by_method: Sequence[Aligned]) -> Aligned:
    """Return what all parts of the run found, by partition: the ``equal`` stretches, and what was read ``by_method``."""
    if equal is None:
        [everything] = by_method
        return everything
    names = render.result_columns(plan)
    known = arrays.of_equal(*partitions_of_stretches(equal, plan), names)
    sides = {side: arrays.concatenate([*(one.sides[side] for one in by_method), known], names) for side in SIDES}
    return align(sides["source"], sides["target"])


def count_contradicted(plan: Plan, scanned: Aligned, again: Aligned) -> int:
    """Return how many stretches differ although none of their partitions does."""
    if plan.partitioning.strategy != "range":
        return int(bool(again.equal.all()))
    partitions = keys_of_stretch(plan) // plan.partitioning.size
    parents = np.where(again.partition == NULL_PARTITION, NULL_PARTITION, again.partition // partitions)
    return int((~np.isin(scanned.partition[~scanned.equal], parents[~again.equal])).sum())


def describe(plan: Plan, scanned: Aligned, equal: Flags, is_partial: bool) -> str:
    """Return what a pre-scan found, as a sentence; empty if there are no rows. ``is_partial`` says that only what differs was read."""
    count, left = len(equal), int((~equal).sum())
    if not count:
        return ""
    table = "the rest of the table" if plan.prescan and plan.prescan.at_once else "the table"
    if not left:
        return f"pre-scan: {'the only part' if count == 1 else f'all {count:,} parts'} of {table} {'is' if count == 1 else 'are'} equal"
    differ = f"{left:,} of {count:,} parts of {table} {'differs' if left == 1 else 'differ'}"
    return f"pre-scan: {differ}, and {('was' if left == 1 else 'were') if is_partial else 'all were'} read in full"


def partitions_of_stretches(stretches: Aligned, plan: Plan) -> tuple[Integers, Integers]:
    """Return the partitions of equal stretches, ascending by id, and the rows of each; ``plan`` is that of the partitions.

    Of key ranges these are all from the least to the greatest key of each stretch, one without a row among them. Of buckets of a hash
    these are all, each with the same share of the rows.
    """
    ids = [_ids_of(stretches, index, plan) for index in range(len(stretches.partition))]
    rows = [_spread(int(stretches.rows["source"][index]), len(partitions)) for index, partitions in enumerate(ids)]
    if not ids:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    if plan.partitioning.strategy == "hash":  # each bucket has rows of every stretch
        total = int(stretches.rows["source"].sum())
        buckets = np.arange(min(plan.partitioning.buckets, total), dtype=np.int64)
        return buckets, _spread(total, len(buckets))
    partition = np.concatenate(ids)
    order = np.argsort(partition, kind="stable")
    return partition[order], np.concatenate(rows)[order]


def _ids_of(stretches: Aligned, index: int, plan: Plan) -> Integers:
    how, number = plan.partitioning, stretches.partition[index]
    if how.strategy != "range" or number == NULL_PARTITION:
        return np.array([number], np.int64)
    least, greatest = stretches.key_range(index)
    assert least is not None and greatest is not None, "rows with an integer key have a least and a greatest one"
    ids = np.arange(least // how.size, greatest // how.size + 1, dtype=np.int64)
    if not plan.partition_ranges:
        return ids
    return ids[np.logical_or.reduce([(ids >= first) & (ids < end) for first, end in plan.partition_ranges])]


def _spread(rows: int, partitions: int) -> Integers:
    """Return the rows of each partition if they are distributed evenly."""
    borders = np.arange(partitions + 1, dtype=np.int64) * rows // partitions
    return np.diff(borders)
