"""Plan the columns of an audit: find them in both tables by the audit's names, and choose how each is compared.

A column is compared in a kind that both sides share. One that its connection masks is masked, whatever the audit says of it.

Redshift builds no text of more than 65,535 bytes, so the digests of long columns enter the row text there. Whether a row is longer is known
only from its columns' declared lengths, before its values are read, and both sides' row texts must be made alike: so the plan decides, by
the lengths of the side that has the limit.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import NoReturn

from auditor import canonical
from auditor.canonical import Shared
from auditor.compare import tolerance
from auditor.config import Audit, Computed, DialectSql, Override, PerSide, TranslatedSql
from auditor.errors import BadExpression, ColumnRefused, NoKey, NoSuchObject, PlanError
from auditor.model import SIDES, ColumnPlan, Method, NotCompared, Side
from auditor.planning import conventions, times
from auditor.planning.conventions import FoundConvention, Mapped
from auditor.planning.times import CLOCKS, check_fraction, with_rounding
from auditor.sql import user_sql
from dialects import Column, Dialect, Kind, Origins, Place, Table, get
from dialects.hashes import PIECE_BYTES
from dialects.kinds import FREE_TEXT_KINDS

DIGEST_WIDTH = 66
"""Bytes of a digest and the separator after it."""

OTHER_WIDTH = 80
"""Bytes of the longest text of a number, a time or a UUID, and the separator after it."""

RESERVE = 1000
"""Bytes left for the salt."""

MOST_PIECES = 16
"""Pieces of a value whose longest length is not declared: a SUPER beyond 512,000 bytes is not hashed, so that its row is not compared.
Each piece makes every statement longer."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One connected and described side of an audit."""

    connection: str
    """Name of the connection."""
    label: str
    """The connection and the table as configured, for a person: ``shop: orders``."""
    dialect: Dialect
    """The dialect of the server."""
    table: Table
    """Description of the table: columns, primary key, estimated rows."""
    zone: str = ""
    """Time zone of times whose type has none; empty for UTC."""
    masks: frozenset[str] = frozenset()
    """The columns, in lower case, that the connection masks."""
    mask_gap: str = ""
    """Why columns that the connection masks may be shown here under other names, as a sentence; empty if they are not."""
    notes: tuple[str, ...] = ()
    """Sentences about the table for a person."""
    protections: tuple[str, ...] = ()
    """Clauses about what the server may hide from the session: rows or values."""
    hides_columns: bool = False
    """Whether the server shows the session only some of the table's columns."""
    query: str = ""
    """The query that ``table`` describes; empty for a table."""
    reads: tuple[tuple[str, ...], ...] = ()
    """The parts of the name of each table that the query reads."""
    assumed: tuple[str, ...] = ()
    """What is taken for granted of the query, as clauses."""
    follows: FoundConvention | None = None
    """The side's convention, whose own columns ``table`` is without; None for a side without one."""


class NameResolver:
    """Find the audit's column names in both catalogues: exactly as written, else ignoring case if that is unambiguous.

    ``problems`` collects sentences for a person, ``not_compared`` what is left out and names that differ in capitals; ``taken`` maps target
    columns to the source columns mapped to them.
    """

    def __init__(self, audit: Audit, ends: Mapping[Side, Endpoint]) -> None:
        self.audit = audit
        self.ends = ends
        self.problems: list[str] = []
        self.not_compared: list[NotCompared] = []
        self.renamed = {self._source_name(a): b for a, b in audit.target.renamed.items()}
        self.respelt: dict[str, str] = {}
        """The target's names of columns that a tool's rules have given another one, by the source's."""
        if any(end.follows for end in ends.values()):
            self.respelt = conventions.find_target_names(ends["source"].table.columns, ends["target"].table.columns, self.renamed)
            self.renamed |= self.respelt
        self.taken = {column.name: a for a, b in self.renamed.items() if (column := self._find_exact_or_loose("target", b))}

    def find(self, side: Side, name: str) -> Column | None:
        """Return a side's column for the source's ``name``, or None; never a target column to which another one is mapped."""
        if side == "source":
            return self._find_exact_or_loose("source", name)
        in_source = self._source_name(name)
        if in_source in self.renamed:
            return self._find_exact_or_loose("target", self.renamed[in_source])
        column = self._find_exact_or_loose("target", in_source)
        return None if column and column.name in self.taken else column

    def _source_name(self, name: str) -> str:
        """Return the name as the source's catalogue spells it, or as it is if the source has no such column."""
        column = self._find_exact_or_loose("source", name)
        return column.name if column else name

    def _find_exact_or_loose(self, side: Side, name: str) -> Column | None:
        columns = self.ends[side].table.columns
        exact = [c for c in columns if c.name == name]
        loose = [c for c in columns if c.name.lower() == name.lower()]
        return exact[0] if exact else loose[0] if len(loose) == 1 else None

    def key(self) -> list[str]:
        """Return the key's columns by the source's names. Raises NoKey, or NoSuchObject for a column that is missing on a side."""
        key = self.audit.key or self.ends["source"].table.primary_key
        if not key:
            raise NoKey(f"{self.ends['source'].label} has no primary key: write key: [column, ...] in the audit")
        for name in key:
            for side in SIDES:
                if not self.find(side, name):
                    raise NoSuchObject(f"the key's column {name!r} is not in the {side} ({self.ends[side].label}){self.hint(side, name)}")
        return [column.name for name in key if (column := self.find("source", name))]

    def compared_columns(self, key: Sequence[str]) -> list[str]:
        """Return the compared columns by the source's names, the key's first. Adds to ``not_compared`` and ``problems``."""
        rules = self.audit.columns
        excluded = {name.lower() for name in rules.exclude}
        included = {name.lower() for name in rules.include}
        computed = {name.lower(): name for name, rule in rules.override.items() if rule.expr is not None}
        ruled = included | {name.lower() for name in rules.override}
        in_source = [column.name for column in self.ends["source"].table.columns]
        every = [*in_source, *(name for low, name in computed.items() if low not in {c.lower() for c in in_source})]
        self._check_written([*rules.exclude, *rules.include, *rules.override, *self.audit.target.renamed], every)
        wanted = list(key)
        for name in every:
            low = name.lower()
            if name in wanted:
                continue
            if low in excluded or (included and low not in included):
                self.not_compared.append(NotCompared(column=name, how="left out", what="left out by the audit"))
            elif low not in ruled and (unknown := self._without_kind(name)):
                self.not_compared.append(unknown)
            elif low not in computed and not self.find("target", name):
                self.problems.append(f"column {name!r} is not in the target ({self.ends['target'].label}){self.hint('target', name)}")
            else:
                wanted.append(name)
        self._check_shared([name for name in wanted if name.lower() not in computed])
        known = {column.name for name in [*wanted, *every] if (column := self.find("target", name))}
        extra = [c.name for c in self.ends["target"].table.columns if c.name not in known]
        for name in extra:
            maybe = ", or hidden from this user in the source" if self.ends["source"].hides_columns else ""
            what = "left out by the audit" if name.lower() in excluded else f"only in the target{maybe}"
            self.not_compared.append(NotCompared(column=name, how="left out", what=what, side="target"))
        for side, end in self.ends.items():
            for column in end.follows.metadata if end.follows else ():
                what = f"kept by the convention {end.follows.convention.name}" if end.follows else ""
                self.not_compared.append(NotCompared(column=column.name, how="left out", what=what, side=side))
        self._add_loose_names(wanted)
        return wanted

    def _without_kind(self, name: str) -> NotCompared | None:
        """Return the entry of a column whose type has no canonical text on one side; None if it has, or the column is missing on a side."""
        columns = {side: column for side in SIDES if (column := self.find(side, name))}
        for side, column in columns.items():
            if column.kind is None and len(columns) == len(SIDES):
                what = f"{self.ends[side].dialect.name}'s type {column.native} has no canonical text; compare it by {_by_expression(name)}"
                return NotCompared(column=name, how="left out", what=what, side=side)
        return None

    def _add_loose_names(self, wanted: Sequence[str]) -> None:
        """List target columns that were found by a name of other capitals."""
        for name in wanted:
            column = self.find("target", name)
            written = self.renamed.get(name, name)
            if column and name in self.respelt:
                what = f"its name is compared by letters and digits alone: the target has {column.name!r}"
                self.not_compared.append(NotCompared(column=name, how="folded", what=what))
            elif column and column.name != written:
                what = f"the capitals of its name are ignored: the target has {column.name!r}, not {written!r}"
                self.not_compared.append(NotCompared(column=name, how="folded", what=what))

    def hint(self, side: Side, name: str) -> str:
        """Return what to add to the message about a column that is missing on a side: what to do next."""
        if side == "source":
            return ""
        namesake = self._find_exact_or_loose("target", self._source_name(name))
        owner = self.taken.get(namesake.name) if namesake else None
        why = f": its {namesake.name!r} stands for the source's {owner!r}" if namesake and owner else ""
        why += ", or hidden from this user there (GRANT SELECT on it)" if self.ends["target"].hides_columns else ""
        return f"{why}; map it under target: columns: {{source name: target name}}, or exclude it"

    def _check_shared(self, wanted: Sequence[str]) -> None:
        """Report target columns that stand for two columns of the source, because another target column would not be compared then."""
        first_names: dict[str, str] = {}
        for name in wanted:
            column = self.find("target", name)
            first = first_names.setdefault(column.name, name) if column else name
            if column and first != name:
                self.problems.append(
                    f"columns {first!r} and {name!r} of the source both stand for the target's {column.name!r};"
                    " map each to a column of its own under target: columns: {source name: target name}, or exclude one"
                )

    def _check_written(self, written: Sequence[str], every: Sequence[str]) -> None:
        known = {name.lower() for side in SIDES for name in (c.name for c in self.ends[side].table.columns)}
        known |= {name.lower() for name in every}
        self.problems += [f"the audit names a column {name!r} that neither side has" for name in written if name.lower() not in known]

    def for_filter(self, name: str, is_of_both: bool = True) -> dict[Side, Column]:
        """Return both sides' columns of a name that the filter uses; the source's for both, where the filter is of the source alone.

        Raises BadExpression if a side has none.
        """
        source = self.find("source", name)
        target = self.find("target", name) if is_of_both else source
        if source and target:
            return {"source": source, "target": target}
        if source:
            raise BadExpression(f"the column {name!r} is not in the target ({self.ends['target'].label}){self.hint('target', name)}")
        columns = [column.name for column in self.ends["source"].table.columns]
        known = ", ".join(column for column in columns if not is_of_both or self.find("target", column))
        raise BadExpression(f"there is no column {name!r} in the source; use one of {known}, and write texts in single quotes")

    def for_expressions(self, side: Side, shared: bool) -> dict[str, str]:
        """Map the names that may be used in filters and expressions, in lower case, to this side's column names.

        In SQL that is ``shared`` by both sides, a source's name without a target column is left out, because a target column of the same
        name is mapped to another source column.
        """
        names = {c.name.lower(): c.name for c in self.ends[side].table.columns}
        for column in self.ends["source"].table.columns:
            if there := self.find(side, column.name):
                names[column.name.lower()] = there.name
            elif shared:
                names.pop(column.name.lower(), None)
        return names


def translate_sql(sql: TranslatedSql, what: str, ends: Mapping[Side, Endpoint], names: NameResolver, side: Side) -> str:
    """Return SQL of the configuration in the dialect of a side. ``what`` names it in messages. Raises BadExpression or PlanError."""
    write = ends[side].dialect
    match sql:
        case PerSide():
            text, read = (sql.source if side == "source" else sql.target), write
        case DialectSql():
            try:
                text, read = sql.sql, get(sql.dialect)
            except LookupError as error:
                raise PlanError(f"{what}: {error}") from None
        case _:
            text, read = sql, ends["source"].dialect
    return user_sql.translate(text, read, write, names.for_expressions(side, not isinstance(sql, PerSide)), what)


def column_plan(audit: Audit, ends: Mapping[Side, Endpoint], names: NameResolver, name: str, method: Method) -> ColumnPlan:
    """Return how a column, given by the source's name, is compared. Raises PlanError."""
    rules = {key.lower(): rule for key, rule in audit.columns.override.items()}
    rule = rules.get(name.lower(), Override())
    by_side = {side: names.find(side, name) for side in SIDES}
    requested = canonical.parse_kind(rule.kind) if rule.kind else None
    if rule.round is not None:
        requested = Kind("rounded", scale=rule.round)
    computed = rule.expr if isinstance(rule.expr, Computed) else None
    if rule.expr is not None and requested and not isinstance(rule.expr, Computed):
        return _plan_of_expression(audit, ends, names, name, method, rule, rule.expr, requested)
    both = {side: column for side, column in by_side.items() if column}
    expression = {side: ends[side].dialect.names.quote(column.name) for side, column in both.items()}
    if computed and requested:
        if "target" not in both:
            raise NoSuchObject(f"column {name!r}, whose source is computed, is not in the target ({ends['target'].label})")
        expression["source"], native_kind = _computed(computed.compute, name, requested, ends["source"])
        both = {"source": Column(name, f"computed: {computed.compute}", native_kind, True), "target": both["target"]}
    masked = rule.mask or any(column.name.lower() in ends[side].masks for side, column in both.items())
    masked = masked or bool(computed and are_mentioned(ends["source"].masks, expression["source"]))
    native = {side: _native_kind(column, name, side, ends[side]) for side, column in both.items()}
    zones = {} if computed else {side: ends[side].zone for side in SIDES}
    taken_to = times.zones_of(audit, rule, name, native, zones) if zones else {}
    for side, zone in taken_to.items():
        expression[side], native[side] = times.take_to(zone, expression[side], native[side], ends[side].dialect)
    mapped = None if requested or taken_to or computed else _mapped(ends, native, expression, name)
    if mapped:
        expression[mapped.side], native[mapped.side] = mapped.expression, mapped.native
    allowed, fine = None, dict[Side, Kind]()
    if rule.tolerance and method != "counts":  # the method counts has counts: allow instead
        _check_tolerance(audit, names, name, masked)
        allowed = tolerance.from_setting(rule.tolerance)
        shared, fine = tolerance.resolve_kinds(name, native, {side: column.native for side, column in both.items()}, allowed)
    else:
        shared = _requested_kind(requested, native, name, both) if requested else _negotiate(native, name, both, mapped)
    if shared.kind.name == "json" and audit.json_ == "text":
        shared = Shared(Kind("json", form="text"), "the audit says so: documents without blanks, keys in each engine's order")
    check_fraction(shared.kind, name, rule.fraction)
    kind = with_rounding(shared.kind, native, ends["target"].dialect, rule.fraction)
    fine = {side: with_rounding(column, native, ends["target"].dialect, rule.fraction) for side, column in fine.items()}
    for compared in {kind, *fine.values()}:
        _check_digits(compared, native, name, ends)
    return ColumnPlan(
        name=name,
        kind=kind,
        native=native,
        expression=expression,
        types={side: column.native for side, column in both.items()},
        why=shared.why,
        trim=rule.trim,
        case=rule.case,
        null_as=rule.null_as,
        masked=masked,
        tolerance=allowed,
        fine=fine,
        by_value=_is_by_value(kind, audit, rule, name, names, method),
        never_null=tuple(side for side, column in both.items() if not column.nullable and side not in taken_to),
        zones=taken_to,
    )


def _mapped(ends: Mapping[Side, Endpoint], native: Mapping[Side, Kind], expression: Mapping[Side, str], name: str) -> Mapped | None:
    """Return how a column is read that a side's tool writes as another type; None if none does. Raises ColumnRefused."""
    dialects = {side: ends[side].dialect for side in SIDES}
    for side in SIDES:
        followed = ends[side].follows
        if followed and (mapped := conventions.map_type(followed.convention, side, native, expression, dialects, name)):
            return mapped
    return None


def _computed(compute: str, name: str, kind: Kind, end: Endpoint) -> tuple[str, Kind]:
    """Return the SQL of a value that the source's row yields, and its kind there. Raises BadExpression."""
    from auditor.sql import filter as portable  # loaded by need: few audits compute a column

    with portable.naming(f"expr of {name}: {compute}", f"write columns: {{override: {{{name}: {{expr: {{source: ..., target: ...}}}}}}}}"):
        written = portable.parse_value(compute)
        columns: dict[str, portable.FilterColumn] = {}
        by_name = {column.name.lower(): column for column in end.table.columns}
        for read in portable.column_names(written):
            if (column := by_name.get(read.lower())) is None:
                raise BadExpression(f"there is no column {read!r} in the source; use one of {', '.join(c.name for c in end.table.columns)}")
            quoted = end.dialect.names.quote(column.name)
            columns[read] = portable.FilterColumn(column.name, dict.fromkeys(SIDES, quoted), dict.fromkeys(SIDES, column))
        value = portable.Renderer(columns, "source", end.dialect).value(portable.bind_value(written))
        typed = portable.of_kind(value, kind, end.dialect)
    return f"({typed.sql})", typed.kind or kind


def _plan_of_expression(
    audit: Audit,
    ends: Mapping[Side, Endpoint],
    names: NameResolver,
    name: str,
    method: Method,
    rule: Override,
    expression: TranslatedSql,
    kind: Kind,
) -> ColumnPlan:
    """Return how a column is compared that the audit gives an expression and the kind of its values. Raises PlanError."""
    said = {side: translate_sql(expression, f"expr of {name}", ends, names, side) for side in SIDES}
    written = {side: f"({user_sql.typed(sql, ends[side].dialect, kind)})" for side, sql in said.items()}
    return ColumnPlan(
        name=name,
        kind=kind,
        native=dict.fromkeys(SIDES, _expression_kind(kind)),
        expression=written,
        types=dict.fromkeys(SIDES, "an expression"),
        why="the audit's expression",
        trim=rule.trim,
        case=rule.case,
        null_as=rule.null_as,
        masked=rule.mask or any(are_mentioned(ends[side].masks, written[side]) for side in SIDES),
        by_value=_is_by_value(kind, audit, rule, name, names, method),
    )


def _is_by_value(kind: Kind, audit: Audit, rule: Override, name: str, names: NameResolver, method: Method) -> bool:
    """Return whether rows are fetched to compare a column's documents by value: not where their text identifies rows, or is changed."""
    return kind.name == "json" and audit.json_ == "value" and not rule.case and name not in names.key() and method != "counts"


def _check_tolerance(audit: Audit, names: NameResolver, name: str, masked: bool) -> None:
    """Raise ColumnRefused for a tolerance of a column that identifies rows, determines partitions, or is never fetched."""
    if name in names.key():
        raise ColumnRefused(f"column {name!r} is part of the key, which identifies rows: it cannot have a tolerance; remove it")
    if (audit.partition.column or "").lower() == name.lower():
        raise ColumnRefused(f"column {name!r} determines the partitions: it cannot have a tolerance; remove it")
    if masked:
        raise ColumnRefused(f"column {name!r}: the values of a masked column are not fetched; write either mask or tolerance")


def refuse(name: str, problems: Iterable[str]) -> NoReturn:
    """Raise ColumnRefused with all problems of an audit: a single one on its line, several below each other."""
    distinct = list(dict.fromkeys(problems))
    error = ColumnRefused(f"{name}: {distinct[0]}" if len(distinct) == 1 else "\n  - ".join([f"{name}:", *distinct]))
    error.problems = tuple(distinct)
    raise error


def _by_expression(name: str) -> str:
    return f"columns: {{override: {{{name}: {{expr: {{source: ..., target: ...}}, kind: ...}}}}}}"


def _expression_kind(requested: Kind) -> Kind:
    """Return the native kind of an expression: the requested kind without digits, which are unknown."""
    return Kind(requested.name) if requested.name in ("decimal", "timestamp", "timestamptz", "time") else requested


def _native_kind(column: Column, name: str, side: Side, end: Endpoint) -> Kind:
    if column.kind is None:
        raise ColumnRefused(
            f"column {name!r}: {end.dialect.name}'s type {column.native!r} of the {side} has no canonical text;"
            f" exclude it, or compare it by {_by_expression(name)}"
        )
    return column.kind


def _negotiate(native: Mapping[Side, Kind], name: str, both: Mapping[Side, Column], mapped: Mapped | None) -> Shared:
    shared = Shared(mapped.kind, mapped.why) if mapped and mapped.kind else canonical.shared_kind(native["source"], native["target"])
    if shared is None:
        types = " and ".join(both[side].native for side in SIDES)
        raise ColumnRefused(
            f"column {name!r}: {types} share no kind; exclude it, or write columns: override: {{{name}: {{kind: ...}}}} (or round:, expr:)"
        )
    return shared


def _requested_kind(kind: Kind, native: Mapping[Side, Kind], name: str, both: Mapping[Side, Column]) -> Shared:
    for side in SIDES:
        if not canonical.can_render(kind, native[side]):
            raise ColumnRefused(
                f"column {name!r}: the {side}'s {both[side].native} cannot be compared as {kind}; write another kind, or expr:"
            )
    if kind.name in CLOCKS and kind.scale is None:  # with all the digits that either side has
        kind = dataclasses.replace(kind, scale=max(6, *(part.scale or 0 for part in native.values())))
    return Shared(kind, "the audit says so")


def _check_digits(kind: Kind, native: Mapping[Side, Kind], name: str, ends: Mapping[Side, Endpoint]) -> None:
    if kind.name != "decimal":
        return
    for side in SIDES:
        if native[side].scale == kind.scale:
            continue  # shown as it is, without a conversion
        whole = (native[side].digits or 0) - (native[side].scale or 0)
        most = ends[side].dialect.types.MAX_DECIMAL_DIGITS
        if whole + (kind.scale or 0) > most:
            raise ColumnRefused(
                f"column {name!r}: {whole} digits before the decimal point and {kind.scale} after it are more than the {most} that"
                f" {ends[side].dialect.name} computes with; write columns: override: {{{name}: {{kind: 'decimal(38,{most - whole})'}}}}"
            )


def masked_columns(patterns: Iterable[str], place: Place, columns: Iterable[str]) -> frozenset[str]:
    """Return the columns of a table, in lower case, that one of the patterns (``table.column``) masks.

    Capitals do not matter. Names of tables are compared from their last part, as far as both have parts, so that a pattern with a schema
    also masks a table that is named without one. For files the table is the name of the file or the folder without its extension; a path
    with wildcards can mean any file, so for it the pattern's table is ignored.
    """
    names = [column.lower() for column in columns]
    split = [pattern.lower().rpartition(".") for pattern in patterns]
    wanted = [column for table, _, column in split if _is_table(table.split("."), place)]
    return frozenset(name for name in names if any(fnmatchcase(name, column) for column in wanted))


def is_named(patterns: Iterable[str], place: Place) -> bool:
    """Return whether one of the patterns (``table`` or ``schema.table``) names this table."""
    return any(_is_table(pattern.lower().split("."), place) for pattern in patterns)


def is_masked_table(patterns: Iterable[str], place: Place) -> bool:
    """Return whether one of the patterns masks columns of this table."""
    return is_named((pattern.rpartition(".")[0] for pattern in patterns), place)


def masked_in_query(patterns: Iterable[str], tables: Iterable[Sequence[str]], columns: Iterable[str]) -> frozenset[str]:
    """Return the columns of a query of these tables, in lower case, that have the name of a column which one of the patterns masks."""
    patterns, columns = tuple(patterns), tuple(columns)
    return frozenset[str]().union(*(masked_columns(patterns, Place(tuple(parts)), columns) for parts in tables))


def find_gap(patterns: Iterable[str], label: str, origins: Origins, kind: str = "a view") -> str:
    """Return why what is called ``label``, of a kind, may show masked columns of other tables under other names; empty if it does not."""
    patterns = tuple(patterns)
    read = [Place(names) for names in origins.tables if is_masked_table(patterns, Place(names))]
    if origins.is_view and read:
        return f"{label} is {kind}, and reads {read[0]}, of which columns are masked: they are masked here under the same names alone"
    if patterns and origins.unknown:
        return f"{label}: {origins.unknown}, so columns that are masked elsewhere are masked here by its own name alone"
    return ""


def find_typing_errors(patterns: Iterable[str], place: Place, columns: Iterable[str]) -> list[str]:
    """Return the patterns that name this table, not a pattern of tables, and none of its columns."""
    names = [column.lower() for column in columns]
    misspelt = []
    for pattern in patterns:
        table, _, column = pattern.lower().rpartition(".")
        is_named = not any(mark in table for mark in "*?[") and _is_table(table.split("."), place)
        if is_named and not any(fnmatchcase(name, column) for name in names):
            misspelt.append(pattern)
    return misspelt


def _is_table(pattern: Sequence[str], place: Place) -> bool:
    if place.path is not None:
        path = PurePosixPath(place.path.lower())
        return any(mark in place.path for mark in "*?[") or fnmatchcase(path.name.partition(".")[0], pattern[-1])
    parts = [part.lower() for part in place.parts]
    return all(fnmatchcase(part, wanted) for part, wanted in zip(reversed(parts), reversed(pattern), strict=False))


def are_mentioned(masks: Iterable[str], sql: str) -> bool:
    """Return whether SQL contains the name of a masked column, which makes its result a masked value."""
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", sql, re.IGNORECASE) for name in masks)


def hash_long_columns(columns: Sequence[ColumnPlan], ends: Mapping[Side, Endpoint]) -> tuple[ColumnPlan, ...]:
    """Return the columns of an injective row text, those with a digest that would make it too long for a side's engine.

    First those of which a single value can be too long, then the widest, and no more than are needed.
    """
    chosen = tuple(columns)
    for side in SIDES:
        most = ends[side].dialect.hashes.MAX_TEXT_BYTES
        if most is not None:
            chosen = _fit(tuple(_cut(column, side, most) for column in chosen), side, most)
    return chosen


def note_digests(columns: Sequence[ColumnPlan]) -> list[str]:
    """Return the sentence of a plan about columns that are hashed on their own; empty where none is."""
    names = [column.name for column in columns if column.digest]
    if not names:
        return []
    listed = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return [f"the row text holds the SHA-256 of {listed} instead of the text, because an engine builds no text as long as all may be"]


def _cut(column: ColumnPlan, side: Side, most: int) -> ColumnPlan:
    """Return a column with a digest of pieces if its own text may be too long on this side, without the text of the whole row."""
    native = column.native[side]
    is_document = native.name == "json"
    is_long = column.kind.name == "binary" and (native.bytes is None or 2 * native.bytes > most)
    if not (is_document or is_long) or column.trim or column.case or column.null_as is not None:
        return column
    pieces = MOST_PIECES if native.bytes is None else math.ceil(native.bytes / PIECE_BYTES)
    return dataclasses.replace(column, digest=True, pieces=max(pieces, column.pieces))


def _fit(columns: tuple[ColumnPlan, ...], side: Side, most: int) -> tuple[ColumnPlan, ...]:
    widths = [_width(column, side, most) for column in columns]
    hashed = set[int]()
    for index in sorted(range(len(columns)), key=lambda place: -widths[place]):
        if sum(widths) + RESERVE <= most or widths[index] <= OTHER_WIDTH:
            break
        widths[index] = DIGEST_WIDTH
        hashed.add(index)
    return tuple(dataclasses.replace(column, digest=True) if index in hashed else column for index, column in enumerate(columns))


def _width(column: ColumnPlan, side: Side, most: int) -> int:
    """Return the bytes that a column takes at most in the row text: each character may be a bar, which is written as two."""
    native = column.native[side]
    if column.digest:
        return DIGEST_WIDTH
    if column.kind.name == "binary":
        return OTHER_WIDTH + 2 * (native.bytes or most)
    if native.name not in FREE_TEXT_KINDS:
        return OTHER_WIDTH
    return OTHER_WIDTH + 2 * (most if native.bytes is None else native.bytes)
