"""The audits of a group, one for each table that both sides have: asked from the databases, or known from earlier runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from auditor.config import Audit, AuditGroup, Settings, is_pattern, validate_audit
from auditor.connections.reader import Reader
from auditor.errors import ConfigError
from auditor.model import SIDES
from auditor.service.definitions import own_definition
from auditor.service.proposals import match_tables, written
from auditor.store import runs
from dialects import TableName

if TYPE_CHECKING:
    from auditor.store import Store


def expand(settings: Settings, wanted: Sequence[str] = ()) -> tuple[Settings, list[str], list[str]]:
    """Ask both databases for the tables of each group that is wanted (default: all).

    Returns the settings with an audit ``group.table`` for each table that both sides have, ``wanted`` with a group's name replaced by
    those of its audits, and a line for each table without an audit, with the reason. Raises ConfigError if a group has no audit, and
    EngineError.
    """
    group_audits: dict[str, Audit] = {}
    left_out: list[str] = []
    names: list[str] = []
    groups = [name for name in settings.groups if not wanted or any(_means(pattern, name) for pattern in wanted)]
    for name in groups:
        audits, lines = _audits(name, settings.groups[name], settings)
        group_audits |= audits
        left_out += [f"{name}: {line}" for line in lines]
    for pattern in wanted:
        names += (
            [audit for audit in group_audits if audit.startswith(f"{pattern}.")]
            if pattern in groups and pattern not in settings.audits
            else [pattern]
        )
    return settings.model_copy(update={"audits": {**group_audits, **settings.audits}}) if group_audits else settings, names, left_out


def _means(wanted: str, group: str) -> bool:
    """Return whether a name or pattern may be of an audit of a group."""
    first, dot, _ = wanted.partition(".")
    return group == first or (is_pattern(wanted) and (not dot or fnmatchcase(group, first)))


def _audits(name: str, group: AuditGroup, settings: Settings) -> tuple[dict[str, Audit], list[str]]:
    connections = {side: getattr(group.template, side).connection for side in SIDES}
    with Reader(name, connections, settings.connections, patient=False).open() as reader:
        tables = reader.ask(lambda _, session: session.dialect.catalogue.list_tables(session))
    meant = [table for table in tables["source"] if group.matches(table.schema, table.name)]
    patterns = [pattern.rpartition(".")[2] for pattern in group.tables]
    there = {table.name.lower() for table in meant}
    others = [
        table for table in tables["target"] if table.name.lower() in there or any(fnmatchcase(table.name, pattern) for pattern in patterns)
    ]
    pairs, left_out = match_tables(meant, others)
    if not pairs:
        reasons = "".join(f"\n  - {line}" for line in left_out)
        raise ConfigError(f"audits.{name}: no table that matches {', '.join(group.tables)} is on both sides; check tables:{reasons}")
    return {f"{name}.{label}": group.audit(written(source), written(other)) for label, source, other in _labelled(pairs)}, left_out


def _labelled(pairs: Sequence[tuple[TableName, TableName]]) -> list[tuple[str, TableName, TableName]]:
    """Return each pair with a label of its own: the table's name, with its schema where that is needed."""
    often = Counter(source.name for source, _ in pairs)
    return [(source.name if often[source.name] == 1 else f"{source.schema}.{source.name}", source, other) for source, other in pairs]


def expand_from_store(settings: Settings, store: Store) -> Settings:
    """Return the settings with those audits of groups that have runs, under the group's settings of today. Raises StoreError."""
    if not settings.groups:
        return settings
    group_audits: dict[str, Audit] = {}
    for name, latest in runs.list_latest_runs(store).items():
        group = settings.groups.get(name.partition(".")[0])
        if group is None or name in settings.audits or not latest:
            continue
        try:
            last = validate_audit(own_definition(latest[0]))
        except ConfigError:  # a run of another version, which says nothing of the tables
            continue
        group_audits[name] = group.audit(last.one_source("a group of tables").table, last.target.table)
    return settings.model_copy(update={"audits": {**group_audits, **settings.audits}}) if group_audits else settings
