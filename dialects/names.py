"""SQL of names and literals."""

from __future__ import annotations

import re
from collections.abc import Mapping


class Names:
    """How an engine writes names and literals."""

    def quote(self, identifier: str) -> str:
        """Return the identifier quoted, so that it may contain any character."""
        return '"' + identifier.replace('"', '""') + '"'

    def literal(self, value: str | int | None) -> str:
        """A literal of text, integer or NULL."""
        if value is None:
            return "NULL"
        return str(value) if isinstance(value, int) else self.string_literal(value)

    def number_literal(self, digits: str) -> str:
        """A literal of exactly this number, of decimal digits with or without a point, after a ``-`` if negative."""
        return digits

    def latest(self, column: str, rows: Mapping[str, str]) -> str:
        """An aggregate: the greatest value of a column among the rows whose other columns, by name, have these values."""
        chosen = " AND ".join(f"{self.quote(name)} = {self.literal(value)}" for name, value in rows.items())
        return f"MAX(CASE WHEN {chosen} THEN {self.quote(column)} END)" if chosen else f"MAX({self.quote(column)})"

    def binary_literal(self, value: bytes) -> str:
        """A literal of these bytes, of the engine's binary type."""
        return f"X'{value.hex()}'"

    def timestamp_literal(self, text: str) -> str:
        """A timestamp literal, without time zone, of a UTC time written ``2001-02-03 04:05:06.000007``."""
        return f"TIMESTAMP {self.string_literal(text)}"

    def date_literal(self, text: str) -> str:
        """A date literal of a day written ``2001-02-03``."""
        return f"DATE {self.string_literal(text)}"

    def table(self, *parts: str) -> str:
        """A table name of the given parts (catalogue, schema, table), each quoted, joined by points."""
        return ".".join(self.quote(part) for part in parts)

    def string_literal(self, value: str) -> str:
        """A text literal that yields exactly ``value``, whatever characters it contains (but U+0000, where text cannot hold it).

        This is standard SQL's, which is wrong where a backslash begins an escape.
        """
        return "'" + value.replace("'", "''") + "'"

    def written_time(self, text: str) -> str:
        """Return how a literal writes a date or timestamp given as canonical text. Raises LookupError, with why, if none does."""
        if re.search(r"-00\b", text.partition(" ")[0]):
            raise LookupError("a date without a month or day, which only MySQL and MariaDB store")
        return text
