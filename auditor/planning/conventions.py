"""Plan the convention of a side: find its columns in the table, and turn it into conditions, columns that are left out, and expressions.

A table in which a tool keeps versions is read with the rank of each row among those of its key. Rows that share the latest version of a key
all have rank 1: they are compared like any rows of one key, so that a tie is a finding, and no row is chosen.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from auditor import conventions
from auditor.canonical import TIMESTAMPS
from auditor.conventions import Convention, Mark, TypeMapping
from auditor.errors import ColumnRefused, NoSuchObject, PlanError
from auditor.model import Followed, NotCompared, Plan, Side, SidePlan, Versions
from auditor.quantities import plural
from auditor.sql.relation import hidden_rows
from dialects import Column, Dialect, Kind, Session, Table
from dialects.kinds import FREE_TEXT_KINDS

UNITS: Mapping[str, tuple[int, int]] = {
    "epoch_seconds": (0, 1_000_000),
    "epoch_milliseconds": (3, 1000),
    "epoch_microseconds": (6, 1),
}
"""Of each unit of time: the digits after the point of a second that it holds, and the microseconds in it."""

NO_MOMENT = -(2**63) + 1
"""The number of a date or time that no unit counts; no tool writes it for one."""

MILLISECOND_DIGITS = 3
"""Most digits after the point of a second for which ``epoch`` means milliseconds."""


@dataclass(frozen=True, slots=True)
class FoundConvention:
    """A convention, and its columns in a table."""

    convention: Convention
    """The convention."""
    deleted: tuple[tuple[Mark, Column], ...] = ()
    """What flags a row as deleted: any of these."""
    current: tuple[Mark, Column] | None = None
    """What only current rows have; None where nothing says so."""
    versions: tuple[Column, ...] = ()
    """The columns of versions, the first of which decides first."""
    metadata: tuple[Column, ...] = ()
    """The tool's own columns."""


def find(convention: Convention, table: Table, what: str) -> FoundConvention:
    """Return a convention with its columns in a table, which ``what`` names. Raises NoSuchObject if they are not there."""
    by_name = {column.name.lower(): column for column in table.columns}
    for group in convention.needs:
        if not any(name in by_name for name in group):
            wanted = " or ".join(group)
            raise NoSuchObject(f"{what} has no column {wanted}, which tables of the convention {convention.name} have{_hint(by_name)}")
    decisive = (*convention.stated, *([convention.current.column] if convention.current else []))
    for name in decisive if any(name.lower() in by_name for name in convention.versions) else (*decisive, *convention.versions[:1]):
        if name.lower() not in by_name:
            there = ", ".join(column.name for column in table.columns)
            raise NoSuchObject(f"{what} has no column {name!r}, which its convention names; it has {there}")
    _check_history(convention, by_name, what)
    current = convention.current
    return FoundConvention(
        convention,
        deleted=tuple((mark, by_name[mark.column.lower()]) for mark in convention.deleted if mark.column.lower() in by_name),
        current=(current, by_name[current.column.lower()]) if current else None,
        versions=tuple(by_name[name.lower()] for name in convention.versions if name.lower() in by_name),
        metadata=tuple(column for column in table.columns if convention.is_own_column(column.name)),
    )


def _in_order(column: Column) -> str:
    """Return the name of a column of versions, and that its values are in the order of text, in which 9 comes after 10."""
    return f"{column.name}{' as text' if column.kind and column.kind.name in FREE_TEXT_KINDS else ''}"


def _hint(columns: Mapping[str, Column]) -> str:
    other = conventions.recognise(columns)
    if other:
        return f"; its columns are those of another: write convention: {other.name}"
    return f"; it has {', '.join(column.name for column in columns.values())}: remove the convention, or state its parts"


def _check_history(convention: Convention, columns: Mapping[str, Column], what: str) -> None:
    """Raise PlanError if a tool closes the versions of the table itself, and the convention takes every row for a current one."""
    other = conventions.recognise(columns)
    if other and other.current and not convention.stated and not convention.current and _tool(other) == _tool(convention):
        raise PlanError(f"{what} keeps closed versions, as its column {other.current.column} says; write convention: {other.name}")


def _tool(convention: Convention) -> str:
    return convention.name.partition("-")[0]


def visible_table(table: Table, found: FoundConvention) -> Table:
    """Return a table without the tool's own columns; one whose primary key has them, or that keeps versions, is without a key."""
    own = {column.name for column in found.metadata}
    keeps_key = not own.intersection(table.primary_key) and not found.versions and found.current is None
    columns = tuple(column for column in table.columns if column.name not in own)
    return dataclasses.replace(table, columns=columns, primary_key=table.primary_key if keeps_key else ())


def plan_side(side: SidePlan, found: FoundConvention, key: Sequence[Column], dialect: Dialect, prefix: str) -> SidePlan:
    """Return a side with the conditions of the rows that count by its convention; ``key`` are the side's columns of the key.

    Raises PlanError if the rows of a key cannot be told apart from those of others.
    """
    quote = dialect.names.quote
    versions, current, current_by = None, "", ""
    if found.versions:
        if loose := next((column for column in key if column.collation), None):
            raise PlanError(
                f"column {loose.name!r}: its collation {loose.collation} takes different keys for one, whose versions cannot be told apart;"
                " read a view that casts it to a binary collation"
            )
        versions = Versions(
            key=tuple(quote(column.name) for column in key), latest=tuple(quote(column.name) for column in found.versions), prefix=prefix
        )
        missing_key = [f"{quote(column.name)} IS NULL" for column in key if column.nullable]  # which are rows of no key, and all shown
        current = f"({' OR '.join([versions.is_latest, *missing_key])})"
        current_by = f"the greatest {' and then '.join(map(_in_order, found.versions))}"
    elif found.current:
        current, current_by = _condition(*found.current, dialect), f"only those whose {found.current[0]} are"
    flags = [_condition(mark, column, dialect) for mark, column in found.deleted]
    follows = Followed(
        convention=found.convention.name,
        current=current,
        current_by=current_by,
        by_version=versions is not None,
        flagged=f"({' OR '.join(flags)})" if flags else "",
        flagged_by=" or ".join(str(mark) for mark, _ in found.deleted),
    )
    where = " AND ".join(part for part in (side.where, follows.counted) if part)
    return dataclasses.replace(side, where=where, versions=versions, follows=follows)


def _condition(mark: Mark, column: Column, dialect: Dialect) -> str:
    """Return SQL that is true where a column has a mark, and false elsewhere, never NULL. Raises ColumnRefused."""
    c = dialect.names.quote(column.name)
    if mark.filled is not None:
        return f"({c} IS {'NOT ' if mark.filled else ''}NULL)"
    kind, value = column.kind, mark.value
    if kind is None:
        raise ColumnRefused(
            f"column {column.name!r}: {dialect.name}'s type {column.native!r} has no canonical text, so it can mark no rows"
        )
    if kind.name in FREE_TEXT_KINDS:
        is_it = dialect.text.is_one_of(dialect.canonical.canonical_text(Kind("text"), c, kind), [value])
    else:
        spelt = {"true": "1", "false": "0"}.get(value, value) if kind.name in ("boolean", "integer", "bit", "decimal") else value
        is_it = f"{dialect.canonical.canonical_text(_plain(kind), c, kind)} = {dialect.names.string_literal(spelt)}"
    return f"({c} IS NOT NULL AND {is_it})"


def _plain(kind: Kind) -> Kind:
    """Return the kind as which a mark is compared: a number by all its digits, a bit by its number."""
    return Kind("decimal") if kind.name == "decimal" else Kind("integer") if kind.name == "bit" else kind


def count_hidden(plan: Plan, side: Side, session: Session) -> SidePlan:
    """Return a side with how many rows its convention hides, which takes one scan; unchanged if it hides none."""
    here = plan.sides[side]
    if here.follows is None or not here.follows.hides_rows:
        return here
    not_current, flagged, *tied = (int(rows or 0) for rows in session.query_row(hidden_rows(here, session.dialect)))
    counted = dataclasses.replace(here.follows, not_current_rows=not_current, flagged_rows=flagged, tied_keys=sum(tied))
    return dataclasses.replace(here, follows=counted)


def hidden_entries(side: Side, follows: Followed) -> Iterator[NotCompared]:
    """Yield what a side's convention hides of its rows, once that was counted."""
    if follows.current:
        rows = plural(follows.not_current_rows or 0, "row is not the current one of its key", "rows are not the current ones of their keys")
        yield NotCompared(column="", how="left out", what=f"{rows} ({follows.current_by})", side=side)
    if follows.flagged:
        rows = plural(follows.flagged_rows or 0, "row is flagged as deleted", "rows are flagged as deleted")
        yield NotCompared(column="", how="left out", what=f"{rows} ({follows.flagged_by})", side=side)


def describe_ties(side: Side, follows: Followed) -> str:
    """Return a sentence about keys that have several rows of their latest version; empty if there are none."""
    if not follows.tied_keys:
        return ""
    keys = plural(follows.tied_keys, "key has", "keys have")
    return f"{side}: {keys} several rows of the latest version ({follows.current_by}): all of them are compared, as none is later"


def find_target_names(source: Sequence[Column], target: Sequence[Column], taken: Mapping[str, str]) -> dict[str, str]:
    """Return the target's name of each column of the source that a tool's rules have given another one.

    Columns of one name, whatever its capitals, are left, and those that are mapped in ``taken``, by the source's name. Of the others two
    belong together if their letters and digits are the same, and no third column's are.
    """
    same = {column.name.lower() for column in source} & {column.name.lower() for column in target}
    here = [column.name for column in source if column.name not in taken and column.name.lower() not in same]
    there = [column.name for column in target if column.name not in taken.values() and column.name.lower() not in same]
    pairs: dict[str, str] = {}
    for name in here:
        folded = conventions.folded_name(name)
        namesakes = [other for other in there if conventions.folded_name(other) == folded]
        if len(namesakes) == 1 and sum(conventions.folded_name(other) == folded for other in here) == 1:
            pairs[name] = namesakes[0]
    return pairs


@dataclass(frozen=True, slots=True)
class Mapped:
    """How one side of a column is read for the types of a convention."""

    side: Side
    """The side whose expression is replaced."""
    expression: str
    """Its expression."""
    native: Kind
    """The kind of the expression."""
    kind: Kind | None
    """The kind as which both sides are compared; None for the one that they share."""
    why: str
    """Why, for a person."""


@dataclass(frozen=True, slots=True)
class _Pair:
    """A column of both sides, of which a tool writes one."""

    name: str
    side: Side
    """The side that the tool writes."""
    native: Mapping[Side, Kind]
    expression: Mapping[Side, str]
    dialects: Mapping[Side, Dialect]

    @property
    def other(self) -> Side:
        """The side that the tool reads."""
        return "source" if self.side == "target" else "target"


def map_type(
    convention: Convention,
    side: Side,
    native: Mapping[Side, Kind],
    expression: Mapping[Side, str],
    dialects: Mapping[Side, Dialect],
    name: str,
) -> Mapped | None:
    """Return how a column is read that the tool which writes ``side`` writes as another type; None if it does not.

    Raises ColumnRefused for times that have more digits than the tool's unit holds.
    """
    pair = _Pair(name, side, native, expression, dialects)
    for mapping in convention.types:
        written = native[side].name
        mapped = _of_text(mapping, pair) if written in _TEXTS else _of_number(mapping, pair) if written in _NUMBERS else None
        if mapped:
            return dataclasses.replace(mapped, why=f"the convention {convention.name} writes it so ({mapping})")
    return None


_TEXTS, _NUMBERS = ("text", "char"), ("integer", "decimal")


def _of_text(mapping: TypeMapping, pair: _Pair) -> Mapped | None:
    """Return how a column of text is read that holds a boolean or a time."""
    real, dialect = pair.native[pair.other], pair.dialects[pair.side]
    text = dialect.text.column_characters(pair.expression[pair.side], pair.native[pair.side])
    if mapping == "boolean_text" and real.name in ("boolean", "integer", "bit"):  # MySQL's booleans are whole numbers
        text = f"(CASE {dialect.text.lower(text)} WHEN 'true' THEN '1' WHEN 'false' THEN '0' ELSE {text} END)"
        return Mapped(pair.side, text, Kind("text"), real if real.name == "boolean" else None, "")
    kind: Kind | None = None
    if mapping == "clock_text" and real.name == "time":
        text, kind = _without_zeros(text, dialect), real
    elif mapping == "timestamp_text" and real.name in TIMESTAMPS:
        for old, new in (("T", " "), ("Z", ""), ("+00:00", "")):
            text = dialect.text.replace(text, old, new)
        text, kind = _without_zeros(text, dialect), Kind("timestamp", scale=real.scale)
    return Mapped(pair.side, text, Kind("text"), kind, "") if kind else None


def _of_number(mapping: TypeMapping, pair: _Pair) -> Mapped | None:
    """Return how the other side's date or time is read, of which a column of numbers holds days or units of time."""
    real, c, times = pair.native[pair.other], pair.expression[pair.other], pair.dialects[pair.other].times
    number = ""
    if mapping == "days" and real.name == "date":
        number = times.day_index(c)
    elif mapping == "clock_microseconds" and real.name == "time":
        number = times.microseconds(c, real)
    elif mapping.startswith("epoch") and real.name in TIMESTAMPS:
        number = _epoch(mapping, pair)
    # What is no moment, such as an infinite date or MySQL's 0000-00-00, has no number, and is not NULL.
    either = f"(COALESCE({number}, CASE WHEN {c} IS NOT NULL THEN {NO_MOMENT} END))"  # in parentheses, as no column is
    return Mapped(pair.other, either, Kind("integer"), None, "") if number else None


def _epoch(mapping: TypeMapping, pair: _Pair) -> str:
    real, dialect = pair.native[pair.other], pair.dialects[pair.other]
    digits = 6 if real.scale is None else real.scale
    unit = mapping if mapping != "epoch" else "epoch_milliseconds" if digits <= MILLISECOND_DIGITS else "epoch_microseconds"
    held, micros = UNITS[unit]
    if digits > held:
        raise ColumnRefused(
            f"column {pair.name!r}: the {pair.other}'s times have {digits} digits after the point, and {unit} holds {held}; name another"
            " unit in types, or exclude it"
        )
    whole = f"({dialect.times.microseconds(pair.expression[pair.other], real)})"
    return dialect.numbers.floor_divide(whole, micros, Kind("integer")) if micros > 1 else whole


def _without_zeros(text: str, dialect: Dialect) -> str:
    """Return SQL of a time's text without zeros at the end of its fraction."""
    return f"(CASE WHEN {dialect.text.like(text, '%.%')} THEN {dialect.text.trim_zeros(text)} ELSE {text} END)"
