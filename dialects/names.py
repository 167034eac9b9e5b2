"""SQL of names and literals."""

from __future__ import annotations

from abc import abstractmethod

from dialects.canonical_text import CanonicalText
from dialects.kinds import Kind


class Names(CanonicalText):
    """The part of a dialect that writes names and literals."""

    @abstractmethod
    def quote(self, identifier: str) -> str:
        """Return the identifier quoted, so that it may contain any character."""

    def literal(self, value: str | int | None) -> str:
        """A literal of text, integer or NULL."""
        if value is None:
            return "NULL"
        return str(value) if isinstance(value, int) else self.string_literal(value)

    @abstractmethod
    def binary_literal(self, value: bytes) -> str:
        """A literal of these bytes, of the engine's binary type."""

    def timestamp_literal(self, text: str) -> str:
        """A timestamp literal, without time zone, of a UTC time written ``2001-02-03 04:05:06.000007``."""
        return f"TIMESTAMP {self.string_literal(text)}"

    def date_literal(self, text: str) -> str:
        """A date literal of a day written ``2001-02-03``."""
        return f"DATE {self.string_literal(text)}"

    def wall_time(self, c: str, native: Kind, zone: str) -> str:
        """The timestamp, without time zone, that clocks of an IANA zone show at the times of ``c``, which are those of UTC."""
        utc = c if native.name == "timestamptz" else f"({c} AT TIME ZONE 'UTC')"
        return f"({utc} AT TIME ZONE {self.string_literal(zone)})"

    def table(self, *parts: str) -> str:
        """A table name of the given parts (catalogue, schema, table), each quoted, joined by points."""
        return ".".join(self.quote(part) for part in parts)
