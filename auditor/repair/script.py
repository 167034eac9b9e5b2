"""Print a patch: as a script of statements with guards, or as lines for a command that delivers the rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from auditor import canonical
from auditor.config import Audit, ConnectionSettings
from auditor.connections.reader import OnProgress, Reader
from auditor.errors import PatchRefused
from auditor.escaping import csv_line, json_text, sql_comment
from auditor.model import DifferenceKind, Report, Side
from auditor.repair.batch import order_steps, self_references
from auditor.repair.keys import Selection, collect_keys
from auditor.repair.proposal import Proposal, unnamed
from auditor.repair.rows import ExactRow, RowChange, meant_texts
from auditor.repair.target_facts import unwritten_columns
from auditor.store import Store

Format = Literal["sql", "json", "csv"]

VERBS: Mapping[DifferenceKind, str] = {"missing": "insert", "changed": "update", "extra": "delete"}
"""What is done with rows of each kind."""


def print_patch(proposal: Proposal, form: Format, made: str) -> Iterator[str]:
    """Yield the text of a patch as the rows are now, piece by piece; ``made`` is when, for the header.

    Raises PatchRefused where a masked column would be printed, and ValueRefused for a value that cannot be written exactly.
    """
    if masked := sorted(proposal.transfer.masked):
        raise PatchRefused(f"the column {masked[0]!r} is masked, and a masked column is never printed; write --apply")
    match form:
        case "sql":
            yield from sql_script(proposal, made, proposal.changes())
        case "json":
            yield from (json_text(_as_json(proposal, change)) + "\n" for change in _all(proposal))
        case "csv":
            yield from _csv(proposal)


def _all(proposal: Proposal) -> Iterator[RowChange]:
    for changes in proposal.changes():
        yield from changes


def sql_script(proposal: Proposal, made: str, batches: Iterable[Sequence[RowChange]]) -> Iterator[str]:
    """Yield the script of a patch of these batches, piece by piece. It shows values of masked columns."""
    yield "".join(map(sql_comment, _header(proposal, made)))
    writing = proposal.target.writing
    yield "".join(f"{statement};\n" for statement in writing.WRITE_SETTINGS)
    counts: Counter[str] = Counter()
    for changes in batches:
        if not changes:
            continue
        begin = list(writing.BEGIN_WRITES)
        if lock := writing.LOCK_TABLE:
            begin.append(lock.format(table=proposal.table.sql))
        yield "\n" + "".join(f"{statement};\n" for statement in begin)
        for change in in_order(proposal, changes):
            counts[change.kind] += 1
            yield proposal.statement(change) + ";\n"
        yield "COMMIT;\n"
    yield f"\n{sql_comment(_counted(counts))}"


def in_order(proposal: Proposal, changes: Sequence[RowChange]) -> Sequence[RowChange]:
    """Return changes in an order in which a table that refers to itself takes them; as they are for another table."""
    if not proposal.facts.references:
        return changes
    return [step.change for step in order_steps(changes, proposal.transfer.names, (), self_references(proposal))]


def _header(proposal: Proposal, made: str) -> Iterator[str]:
    report, plan, transfer = proposal.report, proposal.transfer.plan, proposal.transfer
    began = f"{report.began:%Y-%m-%d %H:%M:%S} UTC" if report.began else "an unknown time"
    labels: dict[Side, str] = {side: here.label for side, here in plan.sides.items()}
    yield f"Patch of {report.audit}, from run {report.run} of {began}; made by auditor on {made}."
    yield f"It makes rows of the target ({labels['target']}) equal those of the source ({labels['source']}), as both were when it was made."
    yield "Each statement must affect exactly one row. One that affects none found its row changed since: leave it, and audit again."
    yield "An INSERT cannot notice that the source has deleted its row meanwhile: audit again after it."
    if why := unnamed(report.differences) if report.differences is not None else "":
        yield f"Not all: {why}."
    if report.differences is not None and report.differences.extra and not proposal.selection.delete_extra:
        yield "Rows that only the target has are left: write --delete-extra to delete them."
    if cascades := proposal.facts.named("cascade"):
        yield f"Rows of {', '.join(cascades)} that cascading foreign keys delete or change with these are not brought back by an undo."
    if left := unwritten_columns(proposal.facts, proposal.written):
        yield f"Columns that are not written: {', '.join(left)}."
    if transfer.unwritable:
        yield f"Columns that cannot be written: {', '.join(transfer.unwritable)}."


def _counted(counts: Counter[str]) -> str:
    if not counts:
        return "Nothing to change: every row is equal by now, or was not selected."
    parts = [f"{counts[kind]:,} to {verb}" for kind, verb in VERBS.items() if counts[kind]]
    total = sum(counts.values())
    return f"{total:,} {'row' if total == 1 else 'rows'}: {', '.join(parts)}."


def _as_json(proposal: Proposal, change: RowChange) -> dict[str, Any]:
    key = proposal.transfer.plan.key_columns
    return {
        "kind": change.kind,
        "key": {column.name: text for column, text in zip(key, change.key, strict=True)},
        "columns": list(change.columns),
        "source": _by_name(proposal, change.new),
        "target": _by_name(proposal, change.old),
        "sql": proposal.statement(change),
    }


def _by_name(proposal: Proposal, row: ExactRow | None) -> dict[str, str | None] | None:
    return dict(zip(proposal.transfer.names, readable_texts(proposal, row.texts), strict=True)) if row else None


def _csv(proposal: Proposal) -> Iterator[str]:
    """Yield a line for each change: its kind, then the row as it should be; of an extra row as it is. NULL is an empty field, unquoted."""
    names = proposal.transfer.names
    yield csv_line(["auditor_change", *names])
    for change in _all(proposal):
        proposal.statement(change)  # refuses what cannot be written
        row = change.old if change.kind == "extra" else None
        texts = row.texts if row else meant_texts(names, change)
        yield csv_line([VERBS[change.kind], *readable_texts(proposal, texts)])


def readable_texts(proposal: Proposal, texts: Iterable[str | None]) -> list[str | None]:
    """Return the first values of a row, or all, in readable form."""
    columns = proposal.transfer.plan.columns
    return [canonical.readable(column.kind, text) for column, text in zip(columns, texts, strict=False)]


PAGE = 1000
"""Keys that are read at once."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The rows of a run's confirmed differences."""

    columns: tuple[str, ...]
    """The key, by the source's names."""
    ranges: tuple[tuple[int, int], ...]
    """Ranges of keys that are missing entirely on one side, both ends inclusive."""
    keys: tuple[tuple[str, ...], ...]

    @property
    def span(self) -> tuple[int, int] | None:
        """The least and greatest key, of integers; None for other keys."""
        ends = [end for span in self.ranges for end in span]
        try:
            ends += [int(key[0]) for key in self.keys]
        except ValueError:
            return None
        return (min(ends), max(ends)) if ends and len(self.columns) == 1 else None


def read_wanted(
    store: Store, report: Report, audit: Audit, connections: Mapping[str, ConnectionSettings], selection: Selection, watch: OnProgress
) -> Wanted:
    """Return the keys of a run's confirmed differences that are selected. Raises PatchRefused and errors of the tree."""
    plan = report.plan
    if plan is None or report.differences is None:
        raise PatchRefused(f"run {report.run} named no rows; run {report.audit} with the method exact")
    if selection.columns:
        raise PatchRefused("whole rows are sent again; leave out --columns")
    ranges: list[tuple[int, int]] = []
    names: dict[Side, str] = {"source": audit.one_source("a patch").connection, "target": audit.target.connection}
    with (
        Reader(report.audit, names, connections, watch).open() as reader,
        collect_keys(store, report.run, plan, reader, selection, ranges if selection.limit is None else None) as file,
    ):
        keys = tuple(tuple(str(text) for text in key) for batch in file.batches(PAGE) for key in batch)
    return Wanted(tuple(column.name for column in plan.key_columns), tuple(ranges), keys)


def print_changes(proposal: Proposal) -> Iterator[str]:
    """Yield a JSON line for each row that differs now: what is done with it, its key, and for an upsert the whole row as texts.

    Raises PatchRefused where a masked column would be printed.
    """
    if masked := sorted(proposal.transfer.masked):
        raise PatchRefused(f"the column {masked[0]!r} is masked, and a masked column is never printed; write --through refresh or --apply")
    table = ".".join(proposal.table.names)
    key = [column.name for column in proposal.transfer.plan.key_columns]
    for changes in proposal.changes():
        for change in changes:
            row: ExactRow | None = change.new
            message: dict[str, object] = {"op": "upsert" if row else "delete", "table": table}
            message["key"] = dict(zip(key, readable_texts(proposal, change.key), strict=False))
            if row:
                message["row"] = dict(zip(proposal.transfer.names, readable_texts(proposal, row.texts), strict=True))
            yield json.dumps(message, ensure_ascii=False) + "\n"
