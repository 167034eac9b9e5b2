"""Write one batch of a patch: its statements in an order that no constraint refuses, in one transaction with its mark, read back."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Literal

from auditor.compare.accounting import Key
from auditor.errors import AuditorError, PatchFailed, PatchRefused
from auditor.masking import as_shown
from auditor.points import reach
from auditor.repair.proposal import ROWS_TOGETHER, Proposal
from auditor.repair.rows import ExactRow, RowChange, describe_key, meant_texts, read_rows
from auditor.repair.target_facts import TargetFacts, unwritten_columns
from auditor.repair.target_writer import TargetWriter
from auditor.sql.row_changes import MarkStatements

PATCH_BATCH_ROWS = 100
"""Keys of one batch of a patch, whose rows are locked together for a moment."""

Action = Literal["insert", "update", "delete"]

ACTIONS: dict[str, Action] = {"missing": "insert", "changed": "update", "extra": "delete"}
"""What is done with a row of each kind of change."""


@dataclass(frozen=True, slots=True)
class Step:
    """One statement of a batch. A row of a cycle of unique values is deleted by one step and inserted again by a later one."""

    action: Action
    change: RowChange


@dataclass(frozen=True, slots=True)
class UniqueIndex:
    """A unique index of a target's table, by the places of its columns in a row."""

    places: Sequence[int]
    nulls_equal: bool = False
    """Whether it takes one NULL only, as NULLS NOT DISTINCT does."""
    is_of_expressions: bool = False
    """Whether it is of expressions on these columns, as LOWER(name): texts that differ in case or in blanks around count as one then."""


@dataclass(frozen=True, slots=True)
class SelfReference:
    """A foreign key of a table to itself: the places in a row of the columns that refer, and of those that they refer to."""

    refers: Sequence[int]
    referred: Sequence[int]


def batch_rows(proposal: Proposal) -> int:
    """Return how many rows a batch has at most: of a table that refers to itself more, as a row and those that refer to it go together."""
    return ROWS_TOGETHER if proposal.facts.references else PATCH_BATCH_ROWS


def order_steps(
    changes: Sequence[RowChange],
    names: Sequence[str],
    unique: Sequence[Sequence[int] | UniqueIndex],
    references: Sequence[SelfReference] = (),
) -> list[Step]:
    """Return the steps of a batch in an order in which no unique value is held twice, and no row refers to one that is not there.

    ``unique`` are the unique indexes, or only the places of their columns. Deletes come first where nothing else decides. Raises
    PatchRefused where rows refer to one another in a circle.
    """
    indexes = [index if isinstance(index, UniqueIndex) else UniqueIndex(index) for index in unique]
    split: set[int] = set()
    while True:
        sorter = _sorter(changes, names, indexes, references, split)
        try:
            sorter.prepare()
        except CycleError as error:
            # Its nodes are (change, part); one of the cycle's changed rows is deleted first and inserted last.
            splittable = next((number for number, _ in error.args[1] if changes[number].kind == "changed" and number not in split), None)
            if splittable is None or references:
                raise PatchRefused(
                    "rows refer to one another in a circle, or exchange unique values, so that no order of them is accepted; repair these"
                    " by hand"
                ) from error
            split.add(splittable)
            continue
        return list(_in_order(sorter, changes, split))


def _in_order(sorter: TopologicalSorter[tuple[int, int]], changes: Sequence[RowChange], split: set[int]) -> Iterator[Step]:
    """Yield the steps, each as soon as those before it are done; deletes first."""
    unblocked: list[tuple[bool, int, int]] = []
    while sorter.is_active():
        for number, part in sorter.get_ready():
            heapq.heappush(unblocked, (_step(changes[number], part, number in split).action != "delete", number, part))
        _, number, part = heapq.heappop(unblocked)
        yield _step(changes[number], part, number in split)
        sorter.done((number, part))


def _sorter(
    changes: Sequence[RowChange],
    names: Sequence[str],
    unique: Sequence[UniqueIndex],
    references: Sequence[SelfReference],
    split: set[int],
) -> TopologicalSorter[tuple[int, int]]:
    """Return the graph of the changes: each after those that give up a value that it takes. A split change has two parts, 0 and 1."""
    holders = {value: number for number, change in enumerate(changes) for value in _given_up(change, names, unique)}
    graph: dict[tuple[int, int], set[tuple[int, int]]] = {}
    for number, change in enumerate(changes):
        last = 1 if number in split else 0
        graph[number, 0] = set()
        graph.setdefault((number, last), set())
        if last:
            graph[number, last].add((number, 0))
        for value in _taken(change, names, unique):
            holder = holders.get(value)
            if holder is not None and holder != number:
                graph[number, last].add((holder, 0))
    for reference in references:
        for before, after in _referring(changes, names, reference):
            graph[after, 1 if after in split else 0].add((before, 1 if before in split else 0))
    return TopologicalSorter(graph)


def _referring(changes: Sequence[RowChange], names: Sequence[str], reference: SelfReference) -> Iterator[tuple[int, int]]:
    """Yield pairs of changes, the first of which has to be done first: a row comes before those that refer to it, and goes after them."""
    old = [change.old.texts if change.old else None for change in changes]
    new = [meant_texts(names, change) if change.new else None for change in changes]
    come = {
        _at(row, reference.referred): number
        for number, row in enumerate(new)
        if row and _at(row, reference.referred) != _at(old[number], reference.referred)
    }
    go = {
        _at(row, reference.referred): number
        for number, row in enumerate(old)
        if row and _at(row, reference.referred) != _at(new[number], reference.referred)
    }
    for number in range(len(changes)):
        before, after = _at(old[number], reference.refers), _at(new[number], reference.refers)
        if after and None not in after and (parent := come.get(after)) is not None and parent != number:
            yield parent, number
        if before and before != after and None not in before and (parent := go.get(before)) is not None and parent != number:
            yield number, parent


def _at(row: Sequence[str | None] | None, places: Sequence[int]) -> tuple[str | None, ...] | None:
    return tuple(row[place] for place in places) if row else None


def _step(change: RowChange, part: int, is_split: bool) -> Step:
    if not is_split:
        return Step(ACTIONS[change.kind], change)
    return Step("insert" if part else "delete", change)


Value = tuple[int, tuple[str | None, ...]]
"""A unique index by its number, and the texts of its columns."""


def _given_up(change: RowChange, names: Sequence[str], unique: Sequence[UniqueIndex]) -> Iterator[Value]:
    if change.old is None:
        return
    after = set(_taken(change, names, unique)) if change.new else set()
    yield from (value for value in _values(change.old.texts, unique) if value not in after)


def _taken(change: RowChange, names: Sequence[str], unique: Sequence[UniqueIndex]) -> Iterator[Value]:
    if change.new:
        yield from _values(meant_texts(names, change), unique)


def _values(texts: Sequence[str | None], unique: Sequence[UniqueIndex]) -> Iterator[Value]:
    for number, index in enumerate(unique):
        values = tuple(texts[place] for place in index.places)
        if index.is_of_expressions:
            values = tuple(text if text is None else text.strip().casefold() for text in values)
        if index.nulls_equal or None not in values:  # else NULLs equal nothing
            yield number, values


Written = Mapping[Key, ExactRow | None]
"""The rows that a batch wrote, as they were read back; None for a row that it deleted. What it left is not among them."""


@dataclass(slots=True)
class BatchWriter:
    """What writes the batches of one patch."""

    proposal: Proposal
    target: TargetWriter
    marks: MarkStatements
    is_dry: bool
    """Whether every batch is rolled back in the end."""
    at_commit: bool = False
    """Whether the last batch came as far as its commit, and it is not known whether that was done."""

    def write(self, number: int, changes: Sequence[RowChange]) -> Written:
        """Write a batch, or nothing of it: in a dry run everything is rolled back in the end.

        Returns what was written. A row that changed on the target since it was read is left. Raises PatchFailed where a row read back is
        not as it was meant, or a statement hit several rows, and EngineError; the batch is rolled back then, unless the connection was
        lost during the commit.
        """
        steps = order_steps(changes, self.proposal.transfer.names, unique_indexes(self.proposal), self_references(self.proposal))
        self._check_splits(steps)
        statements = [(step, self._statement(step)) for step in steps]
        try:
            self._begin(number, [change.old or change.new for change in changes])
            left = self._run(statements)
            reach("patch.written")
            written = self._read_back([change for change in changes if change.key not in left])
        except BaseException:
            with suppress(AuditorError):  # the connection may be lost, and with it the transaction
                self.target.session.execute("ROLLBACK")
            raise
        reach("patch.commit")
        self.at_commit = not self.is_dry
        self._end({self.marks.name: number})
        self.at_commit = False
        reach("patch.committed")
        return written

    def take_back(self, ghosts: Mapping[Key, ExactRow]) -> set[Key]:
        """Delete rows that this patch inserted, as far as they still are as they were read back; return the keys of those."""
        taken: set[Key] = set()
        session = self.target.session
        for statement in self.proposal.target.writing.BEGIN_WRITES:
            session.execute(statement)
        try:
            self._take_out(list(ghosts.values()))
            for key, row in ghosts.items():
                if session.loading.write(self.proposal.statements.delete(row.texts, row.digest)):
                    taken.add(key)
        except BaseException:
            with suppress(AuditorError):
                session.execute("ROLLBACK")
            raise
        self._end({})
        return taken

    def _take_out(self, rows: Sequence[ExactRow | None]) -> None:
        """Prepare to change these rows."""
        self.target.begin_batch(self.proposal.table.sql, (self.proposal.statements.matches(row.texts) for row in rows if row))

    def _end(self, marks: Mapping[str, int]) -> None:
        """Commit what was written, or in a dry run roll it back."""
        if self.is_dry:
            self.target.session.execute("ROLLBACK")
        else:
            self.target.commit_batch(self.proposal.written[: self.proposal.transfer.plan.key], marks)

    def _begin(self, number: int, rows: Sequence[ExactRow | None]) -> None:
        dialect, session = self.proposal.target, self.target.session
        for statement in dialect.writing.BEGIN_WRITES:
            session.execute(statement)
        if dialect.writing.LOCK_TABLE:
            for table in (*([] if self.is_dry else [self.marks.table]), self.proposal.table.sql):
                session.execute(dialect.writing.LOCK_TABLE.format(table=table))
        reach("patch.begun")
        self._take_out(rows)
        if not self.is_dry:
            self.target.mark_batch(self.marks, number)
        reach("patch.marked")

    def _run(self, statements: Sequence[tuple[Step, str]]) -> set[Key]:
        """Run a batch's statements and return the keys of the rows that were no longer as they were read."""
        left: set[Key] = set()
        has_parts = len({step.change.key for step, _ in statements}) < len(statements)
        counts = iter([] if has_parts else self.target.session.loading.write_each([sql for _, sql in statements]))
        for step, sql in statements:
            if step.change.key in left:
                continue  # the second part of a row whose first part found it changed
            count = self.target.session.loading.write(sql) if has_parts else next(counts)
            if count == 0:
                left.add(step.change.key)
            elif count > 1:
                where = describe_key(self.proposal.transfer.plan, step.change.key)
                raise PatchFailed(f"{where}: the {step.action} hit {count:,} rows instead of one; the batch was rolled back")
        return left

    def _statement(self, step: Step) -> str:
        change = step.change
        if step.action == "insert" and change.kind == "changed":
            return self.proposal.statements.insert(meant_texts(self.proposal.transfer.names, change))
        if step.action == "delete":
            assert change.old
            return self.proposal.statements.delete(change.old.texts, change.old.digest)
        return self.proposal.statement(change)

    def _check_splits(self, steps: Sequence[Step]) -> None:
        """Raise PatchRefused if a row that swaps unique values cannot be deleted and inserted without loss."""
        facts = self.proposal.facts
        for step in steps:
            if step.action != "delete" or step.change.kind != "changed":
                continue
            lost = unwritten_columns(facts, self.proposal.written)
            if lost or facts.named("cascade"):
                why = f"would lose {', '.join(lost)}" if lost else f"would reach {', '.join(facts.named('cascade'))}"
                where = describe_key(self.proposal.transfer.plan, step.change.key)
                raise PatchRefused(f"{where}: rows swap unique values, and to delete and insert one of them {why}; repair these by hand")

    def _read_back(self, changes: Sequence[RowChange]) -> Written:
        """Return the rows of these changes as the transaction sees them. Raises PatchFailed where one is not as it was meant."""
        plan, names = self.proposal.transfer.plan, self.proposal.transfer.names
        rows = read_rows(plan, "target", self.target.session, [change.key for change in changes])
        for change in changes:
            meant, row = (meant_texts(names, change) if change.new else None), rows.get(change.key)
            if (row.texts if row else None) == meant:
                continue
            where = describe_key(plan, change.key)
            if row is None or meant is None:
                raise PatchFailed(
                    f"{where}: the row {'is not there' if meant else 'is still there'} after its statement; it was rolled back"
                )
            name, wanted, got = next((n, a, b) for n, a, b in zip(names, meant, row.texts, strict=True) if a != b)
            shown = [as_shown(text, name in self.proposal.transfer.masked) for text in (wanted, got)]
            raise PatchFailed(
                f"{where}: the column {name!r} holds {shown[1]!r} after its statement, not {shown[0]!r}; the batch was rolled back:"
                " look for triggers, and for what the column's type cuts or rounds"
            )
        return {change.key: rows.get(change.key) for change in changes}


def unique_indexes(proposal: Proposal) -> list[UniqueIndex]:
    """Return each unique index that is made of compared columns alone, or of expressions on these; that of the key is left out."""
    places = {name: place for place, name in enumerate(proposal.written)}
    key = frozenset(proposal.written[: proposal.transfer.plan.key])
    facts: TargetFacts = proposal.facts
    nulls, indexes = facts.named("nulls equal"), list[UniqueIndex]()
    for name in facts.named("unique"):
        columns = facts.columns_of("expression of", name) or facts.columns_of("unique", name)
        if frozenset(columns) != key and set(columns) <= set(places):
            is_of_expressions = bool(facts.columns_of("expression of", name))
            indexes.append(UniqueIndex([places[column] for column in sorted(columns)], name in nulls, is_of_expressions))
    return indexes


def self_references(proposal: Proposal) -> list[SelfReference]:
    """Return the foreign keys of the table to itself whose columns are compared."""
    places = {name: place for place, name in enumerate(proposal.written)}
    facts: TargetFacts = proposal.facts
    references = []
    for refers, referred in facts.references.values():
        if {*refers, *referred} <= set(places):
            references.append(SelfReference([places[column] for column in refers], [places[column] for column in referred]))
    return references
