"""Choose the columns and types of a target that holds the rows of a source's table, and compare a target with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import sql_templates
from auditor import canonical
from auditor.config import Audit
from auditor.errors import ConfigError
from auditor.model import DefinedColumn, DefinedTable
from dialects import Column, Dialect, Kind, Session, Table
from dialects.kinds import parse_native

LONGEST_KEY_TEXT = 255
"""Characters of a text in a key whose own type states none."""

LONGEST_KEY_BINARY = 255
"""The same in bytes of a binary string."""

ENDLESS_DIGITS = 1000
"""From so many digits on an engine's decimals need state none."""

BYTES_OF_CHARACTER = 4
"""The most bytes of a character in UTF-8."""

LONGEST_SIZED_TEXT = 65_535
"""Bytes of the longest text whose type states its length."""

LONGEST_SIZED_BINARY = 16_777_216
"""Bytes of the longest binary string whose type states its length. https://docs.aws.amazon.com/redshift/latest/dg/r_VARBYTE_type.html"""

BLOBS = {"tinyblob": 255, "blob": 65_535, "mediumblob": 16_777_215}
"""The most bytes of MySQL's and MariaDB's types that have none in their names."""


@dataclass(frozen=True, slots=True)
class Drift:
    """How a target's table is not as it should be."""

    missing: tuple[DefinedColumn, ...]
    changed: tuple[tuple[DefinedColumn, Column], ...]
    """Columns whose type does not hold the source's values, as they should be and as they are."""
    nullability: tuple[tuple[DefinedColumn, Column], ...]
    """Columns of a type that does, but that may be NULL where the source's may not, or the other way round."""
    extra: tuple[str, ...]
    """Columns that only the target has."""
    key: tuple[str, ...]
    """The primary key that is missing there; empty if it has it, or has another."""
    other_key: tuple[str, ...]
    """The primary key that it has instead; empty if it has none."""


def read_comments(session: Session, table: Table) -> dict[str, str]:
    """Return the comments of a described table by column, its own under ''; none where the engine is not asked for them."""
    try:
        template = session.dialect.template("comments")
    except LookupError:
        return {}
    if not table.names:
        return {}
    names = {"schema": session.dialect.names.literal(table.names[-2]), "table": session.dialect.names.literal(table.names[-1])}
    return {str(column or ""): str(comment) for column, comment in session.query(sql_templates.fill(template, names))}


def plan_target(audit: Audit, source: Table, dialect: Dialect, comments: Mapping[str, str]) -> DefinedTable:
    """Return the target that holds the audited columns of a source's table, on an engine. Raises ConfigError for an unknown key."""
    key = _key(audit, source)
    renamed = {name.lower(): other for name, other in audit.target.renamed.items()}
    columns, left_out = [], {}
    for column in _audited(audit, source, key):
        try:
            native = native_type(dialect, column, column.name in key)
        except LookupError as why:
            left_out[column.name] = str(why)
            continue
        name = renamed.get(column.name.lower(), column.name)
        nullable = column.nullable and column.name not in key
        assert column.kind
        columns.append(DefinedColumn(name, native, column.kind, nullable, comments.get(column.name, "")))
    whole = not any(name in left_out for name in key)
    wanted = tuple(renamed.get(name.lower(), name) for name in key) if whole else ()
    return DefinedTable(tuple(columns), wanted, left_out, comments.get("", ""))


def find_drift(schema: DefinedTable, target: Table) -> Drift:
    """Return how a target's table differs from what it should be. Types that hold all of the source's values are left."""
    there = {column.name.lower(): column for column in target.columns}
    wanted = {column.name.lower() for column in schema.columns}
    pairs = [(column, there[column.name.lower()]) for column in schema.columns if column.name.lower() in there]
    changed = tuple((column, existing) for column, existing in pairs if not _holds(existing.kind, column.kind))
    loose = tuple(pair for pair in pairs if pair not in changed and pair[0].nullable != pair[1].nullable)
    has_key, wants_key = [name.lower() for name in target.primary_key], [name.lower() for name in schema.key]
    return Drift(
        missing=tuple(column for column in schema.columns if column.name.lower() not in there),
        changed=changed,
        nullability=loose,
        extra=tuple(column.name for column in target.columns if column.name.lower() not in wanted),
        key=schema.key if schema.key and not has_key else (),
        other_key=target.primary_key if has_key and has_key != wants_key else (),
    )


def _key(audit: Audit, source: Table) -> tuple[str, ...]:
    """Return the audit's key, or else the source's primary key, as the source spells it."""
    by_name = {column.name.lower(): column.name for column in source.columns}
    unknown = [name for name in audit.key if name.lower() not in by_name]
    if unknown:
        raise ConfigError(f"the source has no column {unknown[0]!r}, which the audit's key names; it has {', '.join(by_name.values())}")
    return tuple(by_name[name.lower()] for name in audit.key) or source.primary_key


def _audited(audit: Audit, source: Table, key: Sequence[str]) -> Iterator[Column]:
    included = {name.lower() for name in audit.columns.include}
    excluded = {name.lower() for name in audit.columns.exclude}
    for column in source.columns:
        name = column.name.lower()
        if column.name in key or ((not included or name in included) and name not in excluded):
            yield column


def native_type(dialect: Dialect, column: Column, in_key: bool) -> str:
    """Return the target's type for a source's column. Raises LookupError, with why, if it has none that holds every value."""
    kind, form = column.kind, dialect.TABLE_FORM
    if kind is None or kind.name == "nested":
        raise LookupError(f"{column.native} has no type there that an audit compares")
    if kind.name in ("text", "char", "enum", "set"):
        return _text(dialect, column, kind, in_key)
    if kind.name == "binary" and in_key and form.key_binary:
        return form.key_binary.format(bytes=kind.digits or kind.bytes or LONGEST_KEY_BINARY)
    if kind.name == "binary" and form.sized_binary:
        return form.sized_binary.format(bytes=min(LONGEST_SIZED_BINARY, _binary_bytes(column, kind)))
    if kind.name == "decimal":
        return _decimal(dialect, column, kind)
    if kind.name == "bit" and kind.digits is None and "{digits}" in dialect.types.TYPE_BY_KIND.get("bit", ""):
        raise LookupError(f"{column.native} states no number of bits, which {dialect.name} needs")
    return dialect.TABLE_FORM.type_by_kind.get(kind.name) or dialect.types.native_type(kind)


def _text(dialect: Dialect, column: Column, kind: Kind, in_key: bool) -> str:
    form, characters = dialect.TABLE_FORM, _characters(column, kind)
    if in_key and form.key_text:
        return form.key_text.format(characters=min(characters or LONGEST_KEY_TEXT, LONGEST_KEY_TEXT))
    if form.sized_text and characters:
        return form.sized_text.format(bytes=min(LONGEST_SIZED_TEXT, BYTES_OF_CHARACTER * characters))
    if kind.name == "char" and 1 <= (characters or 0) <= LONGEST_KEY_TEXT and not form.sized_text:
        return dialect.types.native_type(Kind("char", characters))
    return dialect.types.native_type(Kind("text"))


def _characters(column: Column, kind: Kind) -> int | None:
    """Return how many characters a text has at most, as its type states; None if it states none."""
    if kind.name in ("enum", "set"):
        return None
    native = parse_native(column.native.partition(" character set")[0])
    return kind.digits or (native.number(0, 0) if native else 0) or None


def _binary_bytes(column: Column, kind: Kind) -> int:
    """Return how many bytes a binary string has at most, as its type states."""
    native = parse_native(column.native)
    return kind.digits or kind.bytes or (native.number(0, 0) if native else 0) or BLOBS.get(column.native.lower(), LONGEST_SIZED_BINARY)


def _decimal(dialect: Dialect, column: Column, kind: Kind) -> str:
    written = dialect.types.TYPE_BY_KIND["decimal"]
    if kind.digits is None or kind.scale is None:
        if dialect.types.MAX_DECIMAL_DIGITS < ENDLESS_DIGITS:
            raise LookupError(f"{column.native} states no digits, and {dialect.name} needs a number of them; choose one")
        return written.partition("(")[0]
    if kind.digits > dialect.types.MAX_DECIMAL_DIGITS:
        raise LookupError(f"{column.native} has more digits than the {dialect.types.MAX_DECIMAL_DIGITS} of {dialect.name}'s decimals")
    return dialect.types.native_type(kind)


def _holds(target: Kind | None, source: Kind) -> bool:
    """Return whether a target's column of one kind can hold every value of the source's kind."""
    return target is not None and canonical.holds(target, source)
