"""Make a patch: read the rows of a run's differences again from both sides, and say what makes the target's equal the source's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from auditor.compare.accounting import Key
from auditor.config import Audit, ConnectionSettings
from auditor.connections.reader import OnProgress, Reader
from auditor.errors import PatchRefused, RunOutdated, ValueRefused
from auditor.model import SIDES, Differences, Plan, Report, Side
from auditor.planning import introspect, planner
from auditor.repair.keys import KeyFile, Selection, collect_keys
from auditor.repair.rows import ExactRow, RowChange, Transfer, compare_rows, describe_key, meant_texts, plan_transfer, read_rows
from auditor.repair.target_facts import TargetFacts, check_changes, check_table, read_facts
from auditor.sql.row_changes import RowStatements
from auditor.store import Store
from dialects import Dialect, Table

READ_ROWS = 1000
"""Keys whose rows are read at once where nothing is written."""

ROWS_TOGETHER = 10_000
"""The same of a table that refers to itself, and how many rows a batch of it writes: a row and those that refer to it go together."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What is needed to read and to write the rows of a run's differences."""

    audit: Audit
    report: Report
    reader: Reader
    transfer: Transfer
    facts: TargetFacts
    table: Table
    """The target's table."""
    statements: RowStatements
    written: tuple[str, ...]
    """The target's names of the transfer's columns."""
    keys: KeyFile
    selection: Selection
    accepted: Collection[str]

    @property
    def target(self) -> Dialect:
        """The target's dialect."""
        return self.statements.dialect

    def read_source(self, keys: list[Key]) -> dict[Key, ExactRow]:
        """Return the source's rows of these keys as they are now."""
        return self.read("source", keys)

    def read_changes(self, keys: list[Key]) -> list[RowChange]:
        """Return what would make the target's rows of these keys equal the source's now.

        The target is read first: of a row that the source changes meanwhile, the guard of its statement then still holds the older state.
        """
        target = self.read("target", keys)
        source = self.read("source", keys)
        changes = compare_rows(self.transfer.names, keys, source, target, self.selection.columns)
        chosen = [change for change in changes if self.selection.takes(change.kind)]
        check_changes(self.facts, self.transfer.plan, self.written, chosen, self.accepted)
        return chosen

    def statement(self, change: RowChange) -> str:
        """Return the statement of a change. Raises ValueRefused, with the row's key, for a value that cannot be written exactly."""
        try:
            if change.kind == "missing" and change.new:
                return self.statements.insert(change.new.texts)
            assert change.old
            if change.kind == "extra":
                return self.statements.delete(change.old.texts, change.old.digest)
            meant = meant_texts(self.transfer.names, change)
            return self.statements.update(change.old.texts, meant, change.old.digest, change.columns)
        except ValueRefused as error:
            raise ValueRefused(f"{describe_key(self.transfer.plan, change.key)}: {error}; write it by hand, or leave it out") from error

    def changes(self) -> Iterator[list[RowChange]]:
        """Yield the changes of all selected differences as they are now, in batches that may be empty. Reads both sides."""
        for keys in self.keys.batches(ROWS_TOGETHER if self.facts.references else READ_ROWS):
            yield self.read_changes(keys)

    def read(self, side: Side, keys: list[Key]) -> dict[Key, ExactRow]:
        """Return the rows of these keys that a side has now."""
        plan = self.transfer.plan
        return self.reader.ask_side(side, lambda here, session: read_rows(plan, here, session, keys), fresh=True)


@contextmanager
def propose(
    store: Store,
    report: Report,
    audit: Audit,
    connections: Mapping[str, ConnectionSettings],
    selection: Selection,
    accepted: Collection[str],
    on_progress: OnProgress,
) -> Iterator[Proposal]:
    """Yield the proposal of a run's patch, with both sides' sessions open; one with ``limit`` 0 has no keys.

    Raises PatchRefused, RunOutdated and errors of the tree.
    """
    stored = report.plan
    if stored is None or report.differences is None:
        raise PatchRefused(f"run {report.run} named no rows; run {report.audit} with the method exact")
    names: dict[Side, str] = {"source": audit.one_source("a patch").connection, "target": audit.target.connection}
    with Reader(report.audit, names, connections, on_progress).open() as reader:
        tables = introspect.describe_tables(reader, audit)
        plan = planner.draft(report.audit, audit, tables, "exact")
        _check_columns(stored, plan, report)
        dialect = reader.session("target").dialect
        if not dialect.is_written:
            raise PatchRefused(f"the rows of {dialect.name}'s tables cannot be changed one by one; copy the range again")
        transfer = plan_transfer(plan, audit, dialect)
        _check_selection(selection, transfer)
        table = tables["target"].table
        facts = reader.ask_side("target", lambda _, session: read_facts(session, table))
        written = _target_names(transfer.plan, table, dialect)
        check_table(facts, written, written[: plan.key], accepted)
        statements = RowStatements(
            transfer.plan,
            dialect,
            computed=[dialect.names.quote(name) for name in facts.named("generated")],
            touched=[dialect.names.quote(name) for name in facts.named("on update")],
            overriding=bool(set(facts.named("identity")) & set(written)),
            unwritable=transfer.unwritable,
        )
        with collect_keys(store, report.run, stored, reader, selection) as keys:
            yield Proposal(audit, report, reader, transfer, facts, table, statements, written, keys, selection, accepted)


def count_changes(proposal: Proposal) -> Counter[str]:
    """Return how many rows would be changed, by kind, after a check that each can be written. Reads both sides once."""
    counts: Counter[str] = Counter()
    for changes in proposal.changes():
        for change in changes:
            proposal.statement(change)
            counts[change.kind] += 1
    return counts


def unnamed(differences: Differences) -> str:
    """Return why more rows may differ than a run named; empty if every difference is known."""
    if differences.estimated:
        return f"about {differences.estimated:,} further rows differ in partitions that were estimated"
    if differences.unaccounted or differences.vanished or not differences.exact:
        return "further rows may differ, which the run did not name"
    named = sum(difference.row_count for difference in differences.named if difference.state == "confirmed")
    named += sum(span.rows for span in differences.ranges if span.state == "confirmed")
    counted = differences.missing + differences.extra + differences.changed
    return f"{counted - named:,} more rows differ than could be listed" if counted > named else ""


def _check_columns(stored: Plan, plan: Plan, report: Report) -> None:
    """Raise RunOutdated if the audit's tables, or their columns, are no longer those of the run."""
    for side in SIDES:
        if stored.sides[side].table != plan.sides[side].table:
            raise RunOutdated(
                f"the {side} of {report.audit} is {plan.sides[side].table} by now, and run {report.run} is of {stored.sides[side].table};"
                f" run {report.audit} again"
            )
    before, now = ([(column.name, column.types, column.native) for column in each.columns] for each in (stored, plan))
    if before != now or stored.version != plan.version:
        raise RunOutdated(f"the tables' columns changed since run {report.run}; run {report.audit} again, and patch from that run")


def _check_selection(selection: Selection, transfer: Transfer) -> None:
    unknown = [name for name in selection.columns if name not in transfer.names]
    if unknown:
        raise PatchRefused(f"the audit compares no column {unknown[0]!r}; it compares {', '.join(transfer.names)}")
    if selection.column and selection.column not in transfer.names:
        raise PatchRefused(f"the audit compares no column {selection.column!r}; it compares {', '.join(transfer.names)}")
    if (selection.first is not None or selection.last is not None) and not transfer.plan.has_integer_key:
        raise PatchRefused("--keys needs a key of one integer column; leave it out")


def _target_names(plan: Plan, table: Table, dialect: Dialect) -> tuple[str, ...]:
    """Return the target's own names of a plan's columns; '' for a column that is an expression."""
    by_sql = {dialect.names.quote(column.name): column.name for column in table.columns}
    return tuple(by_sql.get(column.expression["target"], "") for column in plan.columns)
