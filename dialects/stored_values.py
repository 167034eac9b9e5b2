"""SQL that stores values: the native type of each kind, values of a type, and tables that one session creates for itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from dialects.comparison import Comparison
from dialects.kinds import Kind


class StoredValues(Comparison):
    """The part of a dialect that writes types and values."""

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

    def native_type(self, kind: Kind) -> str:
        """Return the native type that holds values of ``kind``. Raises LookupError if the engine has none."""
        return self._written_type(self.TYPE_BY_KIND, kind)

    def typed_value(self, value: str, kind: Kind) -> str:
        """A literal, or NULL, as a value of the native type that holds ``kind``. Raises LookupError if no cast makes one."""
        return f"CAST({value} AS {self._written_type({**self.TYPE_BY_KIND, **self.CAST_TYPE_BY_KIND}, kind)})"

    def _written_type(self, types: Mapping[str, str | None], kind: Kind) -> str:
        name = f"unsigned {kind.name}" if kind.unsigned else kind.name
        written = types.get(name)
        if written is None:
            raise LookupError(f"{self.name} has no type for {kind}")
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

    def written_time(self, text: str) -> str:
        """Return how a literal writes a date or timestamp given as canonical text. Raises LookupError, with why, if none does."""
        if re.search(r"-00\b", text.partition(" ")[0]):
            raise LookupError("a date without a month or day, which only MySQL and MariaDB store")
        return text

    def document(self, literal: str) -> str:
        """A literal of the text of a JSON document, as a column of documents takes it."""
        return literal
