"""Patch a target by what delivers to it: name the keys whose rows are sent again, or hand changes as JSON lines to a team's own path."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from auditor.config import Audit, ConnectionSettings
from auditor.connections.reader import OnProgress, Reader
from auditor.errors import PatchRefused
from auditor.model import Report, Side
from auditor.repair.keys import Selection, collect_keys
from auditor.repair.proposal import Proposal
from auditor.repair.rows import ExactRow
from auditor.repair.script import readable_texts
from auditor.store import Store

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
