"""Keep, in the transaction of a merge, what it did to the target's rows otherwise than the source's log says.

The rows of the keys that a merge changes are read twice: once it is known which keys these are, before anything is changed, and again
before the staged changes are cleared. Both are a join of the staged keys with the target by its key, summed up by the target itself, with
the expressions by which an audit reads it.

A statement of the ledger that fails would undo the merge. So the merge is then done once more without it, and the ledger ends.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from auditor.connections.writer import create_table
from auditor.errors import AuditorError, ConnectionLost, LiveSummariesWrong, NoSuchObject
from auditor.model import Chunk, LiveEpoch, Partitioning, Plan
from auditor.pipeline.live.images import LOW, WORD, Images, add_up, rows_left
from auditor.run.live import plans, running_sums
from auditor.run.live.ledger import Deviation, Entry, LedgerStatements, fold, read_entries, record
from auditor.run.live.running_sums import Link
from auditor.run.scan import summarise
from auditor.sql import render
from auditor.sql.merge import Bound, MergeStatements
from auditor.store import Store, live_epochs
from auditor.summary.arrays import Integers, Summaries
from dialects import Session

log = logging.getLogger(__name__)

MOST_ENTRIES = 100_000
"""Rows of a ledger after which the older half is folded."""

MOST_CHARACTERS = 4 << 20
"""Characters of the bodies in a ledger's older half beyond which they become one."""

Moment: TypeAlias = Literal["found", "left"]
"""Before a merge changes the target's rows, or after."""

Total: TypeAlias = tuple[int, int, int]
"""A number of rows, and the sums of the two words of the first 60 bits of their hashes."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What the events of a merge say of the target's rows."""

    epoch: LiveEpoch
    plan: Plan
    images: Images
    """The events' rows."""
    is_left: npt.NDArray[np.bool_]
    """Which of these are there after the events."""
    contradicted: frozenset[int]
    """The partitions in which events contradict each other."""

    def total(self, moment: Moment) -> Total:
        """Return the number of the rows of the keys that the events change, and the sums of their words."""
        left = _total(self.images.hashes[self.is_left], 1)
        if moment == "left":
            return left
        changes = _total(self.images.hashes, self.images.sign)
        return left[0] - changes[0], left[1] - changes[1], left[2] - changes[2]

    def sums(self, moment: Moment) -> Summaries:
        """Return the sums of these rows by partition."""
        left = add_up(self.images.chosen(self.is_left), self.plan)
        if moment == "left":
            return left
        return running_sums.changed(running_sums.add([left, running_sums.minus(add_up(self.images, self.plan))]))


def _total(hashes: Integers, signs: Integers | int) -> Total:
    first = hashes[:, 0]
    rows = int(np.sum(signs)) if not isinstance(signs, int) else len(first) * signs
    return rows, int(np.sum(signs * (first >> WORD))), int(np.sum(signs * (first & LOW)))


@dataclass(frozen=True, slots=True)
class Touched:
    """The target's rows of the keys that a merge changes."""

    deviation: Deviation
    """Of what the merge found and left from what the log says."""


class LedgerFailed(Exception):
    """The epoch whose ledger could not be kept in a merge, and the error; the merge was rolled back."""

    def __init__(self, epoch: str, error: AuditorError) -> None:
        super().__init__(epoch, str(error))
        self.epoch, self.error = epoch, error

    def end(self, store: Store, pipeline: str) -> None:
        """End the ledger, so that the merge is done without it. Raises StoreError."""
        reason = f"a merge could not read the target's rows for it: {self.error}"
        live_epochs.end_ledger(store, self.epoch, reason)
        log.warning("%s: a ledger ended: %s", pipeline, reason, extra={"action": "ledger_ended", "epoch": self.epoch})


def expect(epoch: LiveEpoch, plan: Plan, images: Images) -> Expected:
    """Return what the events of a merge, whose rows these are, say of the target's rows."""
    return Expected(epoch, plan, images, *rows_left(images))


def make_table(session: Session, schema: str, epoch: str) -> None:
    """Make the table of ledgers if it is missing. Raises EngineError."""
    ledgers = LedgerStatements(session.dialect, schema)
    try:
        session.query(ledgers.sizes(epoch))
    except NoSuchObject:
        create_table(session, ledgers.create())


def read_touched(
    session: Session, statements: MergeStatements, expected: Mapping[str, Expected], bounds: Sequence[Bound], moment: Moment
) -> dict[str, Summaries]:
    """Return how the target's rows of the keys that a prepared merge changes differ now from what its events say, by epoch and partition.

    Raises LedgerFailed and ConnectionLost.
    """
    differences = {}
    for epoch, one in expected.items():
        try:
            differences[epoch] = _differences(session, one, statements.touched(bounds), moment)
        except ConnectionLost:
            raise
        except AuditorError as error:
            raise LedgerFailed(epoch, error) from error
    return differences


def _differences(session: Session, expected: Expected, tables: Sequence[str], moment: Moment) -> Summaries:
    """Return the differences by partition; where the sums over all partitions are right, these are not read.

    A row's hash covers its key, so that equal sums of 60 bits a row are those of equal rows in whatever partitions.
    """
    plan = expected.plan
    read = _read(session, replace(plan, method="signature", partitioning=Partitioning(strategy="whole")), tables)
    words = read.words.sum(axis=0)
    if (int(read.rows.sum()), int(words[0]), int(words[1])) == expected.total(moment):
        return running_sums.none(*plans.widths(plan))
    return running_sums.changed(running_sums.add([_read(session, plan, tables), running_sums.minus(expected.sums(moment))]))


def _read(session: Session, plan: Plan, tables: Sequence[str]) -> Summaries:
    side = plan.sides["target"]
    if side.dialect != session.dialect.name:
        raise LiveSummariesWrong(f"the audit reads the target as {side.dialect}, and merges write it as {session.dialect.name}")
    parts = [running_sums.none(*plans.widths(plan))]
    for table in tables:
        of_rows = replace(plan, sides={**plan.sides, "target": replace(side, table=table)}, prescan=None)
        summaries = summarise(of_rows, "target", Chunk(), session)
        if (summaries.hashed != summaries.rows).any():
            raise LiveSummariesWrong("the target cannot hash each of its rows")
        parts.append(running_sums.add([summaries]))
    return running_sums.add(parts)


def compare_touched(
    session: Session,
    statements: MergeStatements,
    expected: Mapping[str, Expected],
    found: Mapping[str, Summaries],
    left: Mapping[str, Summaries],
) -> dict[str, Touched]:
    """Return what a merge did, by epoch, whose staged changes are not cleared yet. Raises LedgerFailed and ConnectionLost.

    ``found`` and ``left`` are the differences that `read_touched` returned before it and after it.
    """
    touched = {}
    for epoch, one in expected.items():
        wrote, replaced = left[epoch], found[epoch]
        deviation = Deviation(wrote, replaced, one.contradicted)
        if only := {*replaced.partition.tolist()} - {*wrote.partition.tolist()}:
            try:
                deviation = _compare_keys(session, statements, one, deviation, only)
            except ConnectionLost:
                raise
            except AuditorError as error:
                raise LedgerFailed(epoch, error) from error
        touched[epoch] = Touched(deviation)
    return touched


def _compare_keys(
    session: Session, statements: MergeStatements, expected: Expected, deviation: Deviation, numbers: Collection[int]
) -> Deviation:
    """Return a deviation with the partitions, of these, in which other keys are staged than the log's events have, or fewer.

    A merge that did not stage a deletion finds nothing and leaves nothing, as one whose row somebody else had deleted.
    """
    plan, side = expected.plan, expected.plan.sides["target"]
    key = {session.dialect.names.quote(name) for name in statements.key}
    if not {column.expression["target"] for column in plan.key_columns} <= key:  # deletions are staged without their values
        return replace(deviation, contradicted=deviation.contradicted | frozenset(numbers))
    of_stage = replace(plan, sides={**plan.sides, "target": replace(side, table=statements.last)}, prescan=None)
    staged: set[tuple[int, int]] = set()
    for sql in render.places(of_stage, "target", session.dialect, sorted(numbers)):
        staged |= {(int(partition), int(place)) for partition, place in session.query(sql)}
    images = expected.images
    which = np.isin(images.partition, sorted(numbers))
    stated = set(zip(images.partition[which].tolist(), images.x[which].tolist(), strict=True))
    misplaced = {partition for partition, _ in stated - staged}
    others = {partition for partition, _ in staged - stated} - misplaced
    if side.conditions:  # rows are staged that the audit does not compare
        return replace(deviation, contradicted=deviation.contradicted | others, misplaced=frozenset(misplaced))
    return replace(deviation, misplaced=frozenset(misplaced | others))


def enter(expected: Expected, touched: Touched | None, link: Link) -> Entry:
    """Return the entry of a merge. Raises LedgerFailed if it merged events and did not read the rows that they touch."""
    if touched is None and len(expected.images):
        raise LedgerFailed(expected.epoch.id, LiveSummariesWrong("this way of merging does not keep one"))
    body = record(touched.deviation) if touched else ""
    now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
    return Entry(expected.epoch.id, link.previous, link.place, now, version("auditor"), body=body)


def statements(session: Session, schema: str, plan: Plan, entry: Entry, *, is_full: bool) -> Sequence[str]:
    """Return the statements that add an entry to its ledger; with ``is_full``, which is now and then, fold what is too long before it.

    Of a ledger that is damaged they delete what is there: who reads it then finds that this is missing.
    """
    ledgers = LedgerStatements(session.dialect, schema)
    if not is_full:
        return ledgers.write(entry)
    rows, characters = map(int, session.query(ledgers.sizes(entry.epoch))[0])
    if rows <= MOST_ENTRIES and characters <= 2 * MOST_CHARACTERS:
        return ledgers.write(entry)
    try:
        entries = read_entries(entry.epoch, session.query(ledgers.list(entry.epoch)))
    except LiveSummariesWrong as error:
        log.warning("a ledger is damaged: %s", error, extra={"action": "ledger_damaged", "epoch": entry.epoch})
        return [ledgers.forget(entry.epoch), *ledgers.write(entry)]
    older = entries[: (len(entries) + 1) // 2]
    folded = [sql for one in fold(older, *plans.widths(plan), MOST_CHARACTERS) for sql in ledgers.write(one)]
    return [ledgers.forget(entry.epoch, through=older[-1].place), *folded, *ledgers.write(entry)]
