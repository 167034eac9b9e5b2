"""Propose audits for two databases: those of their tables that can be audited as they are, and why the others cannot."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from auditor.config import Audit, ConnectionSettings
from auditor.connections.reader import Reader
from auditor.errors import ColumnRefused, NoSuchObject, PlanError
from auditor.model import SIDES
from auditor.planning import introspect, planner
from dialects import Column, TableName


@dataclass(frozen=True, slots=True)
class Proposal:
    """An audit that can run."""

    source: str
    """The source's table as a configuration names it."""
    target: str
    """The target's."""
    key: tuple[str, ...] = ()
    """The columns that identify a row, by the source's names; empty if the source's primary key does."""


@dataclass(frozen=True, slots=True)
class Proposals:
    """What can be audited of two databases."""

    audits: tuple[Proposal, ...]
    left_out: tuple[str, ...]
    """A line for each table that no audit is proposed for, with the reason."""


def propose_audits(source_url: str, target_url: str) -> Proposals:
    """Match the tables of two databases by name, whatever their schemas, and plan an audit of each pair. Raises AuditorError."""
    connections = {"source": ConnectionSettings(url=source_url), "target": ConnectionSettings(url=target_url)}
    with Reader("init", {side: side for side in SIDES}, connections, patient=False).open() as reader:
        tables = reader.ask(lambda _, session: session.dialect.catalogue.list_tables(session))
        pairs, left_out = match_tables(tables["source"], tables["target"])
        audits = []
        for source, target in pairs:
            proposal = _propose(reader, written(source), written(target))
            if isinstance(proposal, Proposal):
                audits.append(proposal)
            else:
                left_out.append(f"{written(source)}: {proposal}")
    return Proposals(tuple(audits), tuple(sorted(left_out)))


def match_tables(source: Sequence[TableName], target: Sequence[TableName]) -> tuple[list[tuple[TableName, TableName]], list[str]]:
    """Return the pairs of tables of one name, and a line for each table of either side that has no counterpart.

    A schema decides only where it has the same name on both sides, because a database of one engine is a schema of another. The case of
    letters decides only where two tables of a side differ in nothing else.
    """
    candidates = {side: _by_name(tables) for side, tables in zip(SIDES, (source, target), strict=True)}
    pairs: list[tuple[TableName, TableName]] = []
    left_out: list[str] = []
    for table in source:
        namesakes = candidates["target"][table.name.lower()]
        if not namesakes:
            left_out.append(f"{written(table)}: only in the source")
            continue
        if table.is_view:
            left_out.append(f"{written(table)}: a view, which has no primary key; write its audit with key: [column, ...]")
            continue
        here = [candidate for candidate in candidates["source"][table.name.lower()] if not candidate.is_view]
        there = _counterparts(table, here, namesakes)
        if len(there) == 1:
            pairs.append((table, there[0]))
        elif there:
            left_out.append(
                f"{written(table)}: can be any of the target's {', '.join(written(candidate, whole=True) for candidate in there)}"
            )
        else:
            left_out.append(f"{written(table)}: another table of the source has the same name as the target's")
    named = set(candidates["source"])
    left_out += [f"{written(table)}: only in the target" for table in target if table.name.lower() not in named]
    return pairs, left_out


def _by_name(tables: Sequence[TableName]) -> Mapping[str, list[TableName]]:
    by_name: defaultdict[str, list[TableName]] = defaultdict(list)
    for table in tables:
        by_name[table.name.lower()].append(table)
    return by_name


def _counterparts(table: TableName, here: Sequence[TableName], there: Sequence[TableName]) -> list[TableName]:
    """Return the tables of the target that a table of the source can stand for: of the same schema, else spelled the same, else any.

    ``here`` are the source's tables of that name, ``table`` among them; one that a namesake fits better is left to it.
    """

    def closeness(source_table: TableName, other: TableName) -> tuple[bool, bool]:
        return source_table.schema.lower() == other.schema.lower(), source_table.name == other.name

    best = max((closeness(table, other) for other in there), default=(False, False))
    return [
        other
        for other in there
        if closeness(table, other) == best and all(candidate is table or closeness(candidate, other) < best for candidate in here)
    ]


def _propose(reader: Reader, source: str, target: str) -> Proposal | str:
    """Return the audit of two tables, or why it cannot run."""
    if "${" in source + target:
        return "a configuration takes the ${ in its name for a variable"
    values = {"source": {"connection": "source", "table": source}, "target": {"connection": "target", "table": target}}
    try:
        ends = introspect.describe_tables(reader, Audit.model_validate(values))
        key: tuple[str, ...] = ()
        if not ends["source"].table.primary_key:
            if not ends["target"].table.primary_key:
                return "no primary key on either side; write its audit with key: [column, ...]"
            key = _key_of_target(ends["source"].table.columns, ends["target"].table.primary_key)
        planner.draft(source, Audit.model_validate({**values, "key": key}), ends)
    except (PlanError, NoSuchObject) as error:
        problems = (error.problems if isinstance(error, ColumnRefused) else ()) or (str(error),)
        return "; ".join(" ".join(problem.split()) for problem in problems)
    return Proposal(source, target, key)


def _key_of_target(columns: Sequence[Column], key: Sequence[str]) -> tuple[str, ...]:
    """Return the target's primary key by the source's names of its columns, where it has them."""
    named = {column.name.lower(): column.name for column in columns}
    return tuple(named.get(name.lower(), name) for name in key)


def written(table: TableName, whole: bool = False) -> str:
    """Return a table's name as a configuration writes it: without its schema where that is enough, unless ``whole``."""
    return quote_parts(*([] if table.is_visible and not whole else [table.schema]), table.name)


def quote_parts(*parts: str) -> str:
    """Join the parts of a table's name as a configuration writes it, quoting parts with a dot, a quote or a slash."""
    quoted = ('"' + part.replace('"', '""') + '"' for part in parts)
    return ".".join(part if re.fullmatch(r"[^.\"`/]+", part) else in_quotes for part, in_quotes in zip(parts, quoted, strict=True))
