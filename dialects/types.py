"""An engine's types: the kind of each, and the type of each kind; values of a type, and tables that one session creates for itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from dialects.kinds import Kind, parse_native, refine


class Types:
    """An engine's types."""

    LITERALS_NEED_CAST: ClassVar[bool] = True
    """Whether a text literal must be cast before it can be stored in a column of another type."""

    TYPE_BY_KIND: ClassVar[Mapping[str, str]] = {}
    """Native type by canonical kind name, with ``{digits}`` and ``{scale}`` where the type takes them."""

    CAST_TYPE_BY_KIND: ClassVar[Mapping[str, str | None]] = {}
    """Type names of CAST, where they are not those of columns; None where no cast makes a value of the column's type."""

    UNTRIED_VALUES: ClassVar[Mapping[str, str]] = {}
    """Values that could be stored, but that no manual says how to write: ``nan``, and the reason."""

    LONG_CLOCKS: ClassVar[bool] = False
    """Whether a time of day may be negative, or of more than 24 hours."""

    ZERO_DATES: ClassVar[bool] = False
    """Whether a date may have the year, month or day 0."""

    ORDERS_UUIDS: ClassVar[bool] = False
    """Whether the native type of UUIDs is ordered by their digits."""

    MAX_DECIMAL_DIGITS: ClassVar[int] = 38
    """The maximum precision of a decimal, in digits."""

    KIND_BY_TYPE: ClassVar[Mapping[str, Kind]] = {}
    """Canonical kind by native type name (lower case, without brackets); numbers in the type's brackets refine the kind."""

    UNSUPPORTED_VALUES: ClassVar[Mapping[str, str]] = {}
    """Values without canonical text on this engine: a kind's name, ``nan`` or ``NUL in text``, and the reason of each."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        """The engine's name, for messages."""

    def native_type(self, kind: Kind) -> str:
        """Return the native type that holds values of ``kind``. Raises LookupError if the engine has none."""
        return self._written_type(self.TYPE_BY_KIND, kind)

    def typed_value(self, value: str, kind: Kind) -> str:
        """A literal, or NULL, as a value of the native type that holds ``kind``. Raises LookupError if no cast makes one."""
        return f"CAST({value} AS {self._written_type({**self.TYPE_BY_KIND, **self.CAST_TYPE_BY_KIND}, kind)})"

    def value_of_text(self, text: str, kind: Kind) -> str:
        """Return the value of a column of a kind that the SQL ``text`` has as its text, in the form that ``Loading.load`` takes.

        Raises LookupError if no expression reads it.
        """
        return text if kind.is_free_text and kind.name != "json" else self.typed_value(text, kind)

    def _written_type(self, types: Mapping[str, str | None], kind: Kind) -> str:
        name = f"unsigned {kind.name}" if kind.unsigned else kind.name
        written = types.get(name)
        if written is None:
            raise LookupError(f"{self.engine} has no type for {kind}")
        digits = kind.digits or {"decimal": 38, "char": 1, "bit": 1, "binary": 16}.get(kind.name, 0)
        scale = (0 if kind.name == "decimal" else 6) if kind.scale is None else kind.scale
        return written.format(digits=digits, scale=scale)

    def temporary_table(self, name: str, columns: Sequence[tuple[str, Kind]], rows: Sequence[Sequence[str]]) -> list[str]:
        """Return the statements that create a table which only this session sees and which ends with it, and fill it.

        ``name`` and the columns' names are SQL; ``rows`` are literals as a column of that kind stores them. Raises LookupError for a kind
        that the engine does not store.
        """
        types = ", ".join(f"{column} {self.native_type(kind)}" for column, kind in columns)
        values = ", ".join(f"({', '.join(row)})" for row in rows)
        return [f"CREATE TEMPORARY TABLE {name} ({types})", f"INSERT INTO {name} VALUES {values}"]

    def drop_temporary_table(self, name: str) -> list[str]:
        """Return the statements that drop such a table before its session ends."""
        return [f"DROP TABLE {name}"]

    def values_table(self, name: str, columns: Sequence[tuple[str, Kind]], rows: Sequence[Sequence[str]]) -> str:
        """A derived table of rows of literals, which needs no privilege and stores nothing; names as for ``temporary_table``.

        Raises LookupError for a kind that ``typed_value`` cannot make.
        """
        selects = [
            ", ".join(f"{self.typed_value(value, kind)} AS {column}" for (column, kind), value in zip(columns, row, strict=True))
            for row in rows
        ]
        return f"({' UNION ALL '.join(f'SELECT {select}' for select in selects)}) {name}"

    def document(self, literal: str) -> str:
        """A literal of the text of a JSON document, as a column of documents takes it."""
        return literal

    def kind(self, native: str) -> Kind | None:
        """Return the canonical kind of a native type as the catalogue writes it; None if it has none."""
        parsed = parse_native(native)
        known = self.KIND_BY_TYPE.get(parsed.name) if parsed else None
        return refine(known, parsed) if known and parsed else None
