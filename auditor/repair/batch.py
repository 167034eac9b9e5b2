"""Write one batch of a patch: in one transaction with its mark, each statement guarded, and read back before the commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from auditor.compare.accounting import MASK, Key
from auditor.errors import AuditorError, PatchFailed, PatchRefused
from auditor.points import reach
from auditor.repair.facts import TargetFacts, unwritten_columns
from auditor.repair.ordering import SelfReference, Step, UniqueIndex, order_steps
from auditor.repair.proposal import Proposal
from auditor.repair.rows import ExactRow, RowChange, describe_key, meant_texts, read_rows
from auditor.sql.changes import MarkStatements
from dialects import Session
from dialects.base import writing_of
from dialects.committing import Committing

Written = Mapping[Key, ExactRow | None]
"""The rows that a batch wrote, as they were read back; None for a row that it deleted. What it left is not among them."""


@dataclass(slots=True)
class Writer:
    """What writes the batches of one patch."""

    proposal: Proposal
    session: Session
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
                self.session.execute("ROLLBACK")
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
        for statement in writing_of(self.proposal.target).BEGIN_WRITES:
            self.session.execute(statement)
        try:
            self._take_out(list(ghosts.values()))
            for key, row in ghosts.items():
                if self.session.write(self.proposal.statements.delete(row.texts, row.digest)):
                    taken.add(key)
        except BaseException:
            with suppress(AuditorError):
                self.session.execute("ROLLBACK")
            raise
        self._end({})
        return taken

    def _take_out(self, rows: Sequence[ExactRow | None]) -> None:
        """Where a batch is a commit, let its statements change these rows alone."""
        if isinstance(self.session, Committing):
            keys = [self.proposal.statements.matches(row.texts) for row in rows if row]
            self.session.take_out(self.proposal.table.sql, " OR ".join(keys))

    def _end(self, marks: Mapping[str, int]) -> None:
        """Commit what was written, or in a dry run roll it back."""
        if isinstance(self.session, Committing) and not self.is_dry:
            self.session.put_back(self.proposal.written[: self.proposal.transfer.plan.key], marks)
        else:
            self.session.execute("ROLLBACK" if self.is_dry else "COMMIT")

    def _begin(self, number: int, rows: Sequence[ExactRow | None]) -> None:
        writing = writing_of(self.proposal.target)
        for statement in writing.BEGIN_WRITES:
            self.session.execute(statement)
        if writing.LOCK_TABLE:
            for table in (*([] if self.is_dry else [self.marks.table]), self.proposal.table.sql):
                self.session.execute(writing.LOCK_TABLE.format(table=table))
        reach("patch.begun")
        self._take_out(rows)
        if not self.is_dry and not isinstance(self.session, Committing):
            self.session.execute(self.marks.insert(number))
        reach("patch.marked")

    def _run(self, statements: Sequence[tuple[Step, str]]) -> set[Key]:
        """Run a batch's statements and return the keys of the rows that were no longer as they were read."""
        left: set[Key] = set()
        has_parts = len({step.change.key for step, _ in statements}) < len(statements)
        counts = iter([] if has_parts else self.session.write_each([sql for _, sql in statements]))
        for step, sql in statements:
            if step.change.key in left:
                continue  # the second part of a row whose first part found it changed
            count = self.session.write(sql) if has_parts else next(counts)
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
        rows = read_rows(plan, "target", self.session, [change.key for change in changes])
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
            shown = (MASK, MASK) if name in self.proposal.transfer.masked else (wanted, got)
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
