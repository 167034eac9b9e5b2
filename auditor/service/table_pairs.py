"""The audits of the tables that two databases have in common: as they are proposed, by their names or by dbt, and as a group has them.

The tables of a group are asked from the databases, or known from earlier runs.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

import dialects
from auditor.config import Audit, AuditGroup, ConnectionSettings, Settings, is_pattern
from auditor.config._base import Strict
from auditor.connections.reader import Reader
from auditor.conventions import folded_name, recognise
from auditor.errors import ColumnRefused, ConfigError, NoSuchObject, PlanError
from auditor.model import HEARTBEAT_TABLE, SIDES, Side
from auditor.planning import introspect, planner
from auditor.planning.columns import Endpoint
from auditor.repair.canary import TABLE as CANARY
from auditor.repair.evidence_heads import HEADS
from auditor.service.definitions import own_definition
from auditor.sql.merge import OWN_TABLES, STAGE
from auditor.sql.row_changes import MARKERS
from dialects import Column, TableName

if TYPE_CHECKING:
    from auditor.store import Store


@dataclass(frozen=True, slots=True)
class Proposal:
    """An audit that can run."""

    source: str
    """The source's table as a configuration names it."""
    target: str
    """The target's."""
    key: tuple[str, ...] = ()
    """The columns that identify a row, by the source's names; empty if the source's primary key does."""
    convention: str = ""
    """The convention that the target's columns are recognised by; empty if they are by none."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A table without an audit: of the source or the target, or of both if it is known which belong together."""

    name: str
    """As a configuration names it."""
    reason: str
    """Why there is no audit, and what would help."""
    source: str = ""
    """The source's table of its audit; empty if it is not known."""
    target: str = ""
    """The target's, likewise."""

    def __str__(self) -> str:
        """Return the line on the table."""
        return f"{self.name}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Proposals:
    """What can be audited of two databases."""

    audits: tuple[Proposal, ...]
    left_out: tuple[LeftOut, ...]
    """The tables that no audit is proposed for."""


def propose_audits(source_url: str, target_url: str) -> Proposals:
    """Match the tables of two databases by name, whatever their schemas, and plan an audit of each pair. Raises AuditorError.

    A target that a tool writes, as its columns say, is proposed with the tool's convention, and may have the name that the tool gives it.
    """
    connections = {"source": ConnectionSettings(url=source_url), "target": ConnectionSettings(url=target_url)}
    with Reader("init", {side: side for side in SIDES}, connections, patient=False).open() as reader:
        tables = reader.ask(lambda _, session: session.dialect.catalogue.list_tables(session))
        pairs, left_out = match_tables(tables["source"], tables["target"])
        respelt, left_out = _match_respelt(tables["source"], tables["target"], pairs, left_out)
        audits = []
        named = [(written(source), written(target)) for source, target in [*pairs, *respelt]]
        together = introspect.DescribedTogether(_audit_of(*pair) for pair in named if _takes_names(*pair))
        for source, target in named:
            proposal = _propose(reader, together, source, target)
            if isinstance(proposal, Proposal):
                audits.append(proposal)
            else:
                left_out.append(LeftOut(source, proposal, source, target))
    return Proposals(tuple(audits), tuple(sorted(left_out, key=str)))


Pairs = list[tuple[TableName, TableName]]
"""Tables of the source, each with that of the target."""


def _match_respelt(
    source: Sequence[TableName], target: Sequence[TableName], pairs: Pairs, left_out: Sequence[LeftOut]
) -> tuple[Pairs, list[LeftOut]]:
    """Return further pairs, of tables whose names have the same letters and digits, and those that have no counterpart."""
    known = {table for pair in pairs for table in pair}
    here, there = ([table for table in tables if table not in known] for tables in (source, target))
    respelt, _ = match_tables(here, there, folded_name)
    matched = {_alone(side, table) for pair in respelt for side, table in zip(SIDES, pair, strict=True)}
    return respelt, [table for table in left_out if table not in matched]


def _alone(side: Side, table: TableName) -> LeftOut:
    """Return a table that has no counterpart on the other side."""
    reason, name = f"only in the {side}", written(table)
    return LeftOut(name, reason, source=name) if side == "source" else LeftOut(name, reason, target=name)


def propose_from_dbt(manifest: Path, source_url: str, target_url: str) -> Proposals:
    """Plan an audit of each table that a manifest of dbt says the source of: ``meta: {auditor: {source: shop.orders, key: [id]}}``.

    It may be of a source, model, snapshot or seed. Sources of dbt without it are left out by name. Raises ConfigError if the manifest
    cannot be read, and AuditorError.
    """
    declared = _read_manifest(manifest)
    connections = {"source": ConnectionSettings(url=source_url), "target": ConnectionSettings(url=target_url)}
    home = dialects.parse_url(target_url).database or ""
    audits, left_out = list[Proposal](), list[LeftOut]()
    pairs = [(table.source, table.place) for table in declared if table.source is not None]
    together = introspect.DescribedTogether(_audit_of(*pair) for pair in pairs if _takes_names(*pair))
    with Reader("init", {side: side for side in SIDES}, connections, patient=False).open() as reader:
        for table in declared:
            place = table.place
            if table.source is None:
                proposal: Proposal | str = "a source of dbt that no meta: {auditor: {source: ...}} says the origin of"
            elif table.database and table.database.lower() not in (home.lower(), Path(home).stem.lower()):
                proposal = f"dbt has it in the database {table.database}, and the target's URL is of another"
            else:
                proposal = _propose(reader, together, table.source, place, table.key)
            if isinstance(proposal, Proposal):
                audits.append(proposal)
            else:
                left_out.append(LeftOut(place, proposal, table.source or "", place))
    return Proposals(tuple(audits), tuple(sorted(left_out, key=str)))


class _Origin(Strict):
    """What ``meta: {auditor: ...}`` of a manifest says of a table."""

    source: str
    key: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _DbtTable:
    """A table of a manifest. ``source`` and ``key`` are as an audit has them; None for a source of dbt that says none."""

    database: str
    schema: str
    name: str
    source: str | None
    key: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Its name as a configuration writes it."""
        return quote_parts(*filter(None, (self.schema, self.name)))


def _read_manifest(path: Path) -> list[_DbtTable]:
    """Return the tables of a manifest that have an origin, and all sources. Raises ConfigError."""
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        version = str(manifest["metadata"]["dbt_schema_version"])
        nodes = [*manifest["sources"].values(), *manifest["nodes"].values()]
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}; dbt writes it with: dbt parse") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ConfigError(f"{path} is no manifest of dbt; dbt writes it as target/manifest.json with: dbt parse") from None
    if not version.endswith("/manifest/v12.json"):
        raise ConfigError(f"{path} is a manifest of the version {version}; v12 can be read, which dbt 1.8 and later 1.x write")
    tables = []
    for node in nodes:
        meta = {**((node.get("config") or {}).get("meta") or {}), **(node.get("meta") or {})}
        if "auditor" not in meta and node["resource_type"] != "source":
            continue
        try:
            origin = _Origin.model_validate(meta["auditor"]) if "auditor" in meta else None
        except ValidationError as error:
            what = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
            raise ConfigError(f"{path}: meta: auditor: of {node['unique_id']}: {what}; write {{source: shop.orders, key: [id]}}") from None
        name = node["identifier"] if node["resource_type"] == "source" else node["alias"]
        known = (origin.source, origin.key) if origin else (None,)
        tables.append(_DbtTable(node["database"] or "", node["schema"] or "", name, *known))
    return tables


OWN_NAMES = frozenset(name.lower() for name in (*OWN_TABLES, MARKERS, HEARTBEAT_TABLE, HEADS, CANARY))
"""Tables that the auditor makes in databases: of pipelines, patches, heartbeats, evidence and drills."""

OWN_PATTERNS = re.compile(rf"{STAGE}[0-9a-f]+|auditor_new_[0-9a-f]{{16}}", re.IGNORECASE)
"""Tables in which pipelines and bootstraps prepare rows."""

REPLACED = re.compile(r"_old_\d{8}_\d{6}")
"""How the name of a table ends that has the rows which a bootstrap replaced, behind the name of the table whose they were."""

REPLACED_LENGTH = len("_old_20261123_011237")


def is_own(name: str) -> bool:
    """Return whether the auditor makes tables of a name for itself."""
    return name.lower() in OWN_NAMES or OWN_PATTERNS.fullmatch(name) is not None


def _is_replaced(name: str, beside: Sequence[TableName]) -> bool:
    """Return whether a table is called as what a bootstrap replaced of one of the tables ``beside``."""
    of, end = name[:-REPLACED_LENGTH], name[-REPLACED_LENGTH:]
    return bool(of) and REPLACED.fullmatch(end) is not None and any(table.name.startswith(of) and table.name != name for table in beside)


def match_tables(
    source: Sequence[TableName], target: Sequence[TableName], called: Callable[[str], str] = str.lower
) -> tuple[Pairs, list[LeftOut]]:
    """Return the pairs of tables of one name, and the tables of either side that have no counterpart.

    Names are the same if what ``called`` returns of them is.

    A schema decides only where it has the same name on both sides, because a database of one engine is a schema of another. The case of
    letters decides only where two tables of a side differ in nothing else. Tables that the auditor made itself are no tables of either.
    """
    source, target = ([table for table in tables if not is_own(table.name)] for tables in (source, target))
    candidates = {side: _by_name(tables, called) for side, tables in zip(SIDES, (source, target), strict=True)}
    pairs: Pairs = []
    left_out: list[LeftOut] = []
    for table in source:
        namesakes = candidates["target"][called(table.name)]
        if not namesakes:
            left_out.append(_alone("source", table))
            continue
        if table.is_view:
            reason = "a view, which has no primary key; write its audit with key: [column, ...]"
            left_out.append(LeftOut(written(table), reason, written(table), written(namesakes[0]) if len(namesakes) == 1 else ""))
            continue
        here = [candidate for candidate in candidates["source"][called(table.name)] if not candidate.is_view]
        there = _counterparts(table, here, namesakes)
        if len(there) == 1:
            pairs.append((table, there[0]))
        elif there:
            reason = f"can be any of the target's {', '.join(written(candidate, whole=True) for candidate in there)}"
            left_out.append(LeftOut(written(table), reason, written(table)))
        else:
            left_out.append(LeftOut(written(table), "another table of the source has the same name as the target's", written(table)))
    named = set(candidates["source"])
    alone = [table for table in target if called(table.name) not in named]
    left_out += [_alone("target", table) for table in alone if not _is_replaced(table.name, target)]
    return pairs, left_out


def _by_name(tables: Sequence[TableName], called: Callable[[str], str]) -> Mapping[str, list[TableName]]:
    by_name: defaultdict[str, list[TableName]] = defaultdict(list)
    for table in tables:
        by_name[called(table.name)].append(table)
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


def _takes_names(source: str, target: str) -> bool:
    """Return whether a configuration takes the names of two tables as they are, and none for a variable."""
    return "${" not in source + target


def _audit_of(source: str, target: str, convention: str = "", key: tuple[str, ...] = ()) -> Audit:
    """Return the audit of two tables."""
    values: dict[str, Any] = {side: {"connection": side, "table": table} for side, table in zip(SIDES, (source, target), strict=True)}
    values["target"] |= {"convention": convention} if convention else {}
    return Audit.model_validate(values | ({"key": key} if key else {}))


def _propose(reader: Reader, together: introspect.DescribedTogether, source: str, target: str, key: tuple[str, ...] = ()) -> Proposal | str:
    """Return the audit of two tables, by this key or else by a primary key, or why it cannot run."""
    if not _takes_names(source, target):
        return "a configuration takes the ${ in its name for a variable"
    try:
        ends = introspect.describe_tables(reader, _audit_of(source, target), together)
        known = recognise(_own_names(ends))
        if known:
            ends = introspect.describe_tables(reader, _audit_of(source, target, known.name), together)
        if not key and not ends["source"].table.primary_key:
            if not ends["target"].table.primary_key:
                return "no primary key on either side; write its audit with key: [column, ...]"
            key = _key_of_target(ends["source"].table.columns, ends["target"].table.primary_key)
        planner.draft(source, _audit_of(source, target, known.name if known else "", key), ends)
    except (PlanError, NoSuchObject) as error:
        problems = (error.problems if isinstance(error, ColumnRefused) else ()) or (str(error),)
        return "; ".join(" ".join(problem.split()) for problem in problems)
    return Proposal(source, target, key, known.name if known else "")


def _own_names(ends: Mapping[Side, Endpoint]) -> set[str]:
    """Return the names of columns that only the target has, in lower case."""
    here, there = ({column.name.lower() for column in ends[side].table.columns} for side in SIDES)
    return there - here


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


def expand_groups(settings: Settings, wanted: Sequence[str] = ()) -> tuple[Settings, list[str], frozenset[str]]:
    """Ask both databases for the tables of each group that is wanted (default: all).

    Returns the settings with an audit ``group.table`` for each table that both sides have, a line for each table without an audit, with
    the reason, and the groups that were asked for. Raises ConfigError if a group has no audit, and EngineError.
    """
    group_audits: dict[str, Audit] = {}
    left_out: list[str] = []
    groups = [name for name in settings.groups if not wanted or any(_means(pattern, name) for pattern in wanted)]
    for name in groups:
        audits, lines = _audits_of_group(name, settings.groups[name], settings)
        group_audits |= audits
        left_out += [_without_audit(name, line) for line in lines]
    known = settings.model_copy(update={"audits": {**group_audits, **settings.audits}}) if group_audits else settings
    return known, left_out, frozenset(groups)


def _without_audit(group: str, line: str) -> str:
    """Return a sentence that a table of a group has no audit, and why."""
    table, is_alone, side = line.rpartition(": only in the ")
    return f"{group}: {table} is only in the {side}, so it has no audit" if is_alone else f"{group}: {line}; it has no audit"


def _means(wanted: str, group: str) -> bool:
    """Return whether a name or pattern may be of an audit of a group."""
    first, dot, _ = wanted.partition(".")
    return group == first or (is_pattern(wanted) and (not dot or fnmatchcase(group, first)))


def _audits_of_group(name: str, group: AuditGroup, settings: Settings) -> tuple[dict[str, Audit], list[str]]:
    connections = {side: getattr(group.template, side).connection for side in SIDES}
    with Reader(name, connections, settings.connections, patient=False).open() as reader:
        tables = reader.ask(lambda _, session: session.dialect.catalogue.list_tables(session))
    meant = [table for table in tables["source"] if group.matches(table.schema, table.name)]
    patterns = [pattern.rpartition(".")[2] for pattern in group.tables]
    called = folded_name if group.template.target.follows else str.lower
    there = {called(table.name) for table in meant}
    others = [
        table for table in tables["target"] if called(table.name) in there or any(fnmatchcase(table.name, pattern) for pattern in patterns)
    ]
    pairs, left_out = match_tables(meant, others, called)
    if not pairs:
        reasons = "".join(f"\n  - {line}" for line in left_out)
        raise ConfigError(f"audits.{name}: no table that matches {', '.join(group.tables)} is on both sides; check tables:{reasons}")
    audits = {f"{name}.{label}": group.audit(written(source), written(other)) for label, source, other in _labelled(pairs)}
    return audits, list(map(str, left_out))


def _labelled(pairs: Sequence[tuple[TableName, TableName]]) -> list[tuple[str, TableName, TableName]]:
    """Return each pair with a label of its own: the table's name, with its schema where that is needed."""
    often = Counter(source.name for source, _ in pairs)
    return [(source.name if often[source.name] == 1 else f"{source.schema}.{source.name}", source, other) for source, other in pairs]


def expand_known_groups(settings: Settings, store: Store) -> Settings:
    """Return the settings with those audits of groups that have runs, under the group's settings of today. Raises StoreError."""
    if not settings.groups:
        return settings
    from auditor.store import runs  # which loads the store's library, and audits may be proposed without a store

    group_audits: dict[str, Audit] = {}
    for name, latest in runs.list_latest_runs(store).items():
        group = settings.groups.get(name.partition(".")[0])
        if group is None or name in settings.audits or not latest:
            continue
        stored = own_definition(latest[0])
        tables = [side.get("table") if isinstance(side := stored.get(key), Mapping) else None for key in SIDES]
        if isinstance(tables[0], str) and isinstance(tables[1], str):  # else of an audit of another form that had this name
            group_audits[name] = group.audit(tables[0], tables[1])
    return settings.model_copy(update={"audits": {**group_audits, **settings.audits}}) if group_audits else settings
