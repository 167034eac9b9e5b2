"""SQL for canonical text: the characters, equal on every engine for equal values, that are hashed.

The docstring of a method states, in output characters, what the SQL must yield. Parameters: ``c`` is SQL text of an expression, ``native``
the canonical kind of that expression's own type, ``kind`` the kind as which it is compared. The SQL yields NULL where ``c`` is NULL.
``auditor.canonical`` computes the same characters in Python, and the tests compare every engine with it. The text of numbers, dates
and times is in ``dialects.numbers`` and ``dialects.times``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from dialects.kinds import FREE_TEXT_KINDS, Kind
from dialects.times import Times

INTRICATE_KINDS = frozenset({"json", "nested", "network", "interval"})
"""Kinds whose text takes functions that may yield NULL for reasons of their own."""


class Canonical(ABC):
    """How an engine writes the canonical text of each kind."""

    def __init__(self, times: Times) -> None:
        self.times = times
        self.numbers = times.numbers
        self.text = times.text
        self.names = times.names

    def canonical_text(self, kind: Kind, c: str, native: Kind) -> str:
        """The canonical text of ``c`` compared as ``kind``: the characters that the method of that kind promises below.

        Text that is compared as another kind than text is taken as it is: it must already be in canonical form. Of a UUID, capitals and
        missing hyphens are added. An interval that is compared as text is what its engine prints.
        """
        if native.name in FREE_TEXT_KINDS and kind.name not in FREE_TEXT_KINDS:
            text = self.text.column_characters(c, native)
            return self._uuid_of_text(text) if kind.name == "uuid" else text
        match kind.name:
            case "boolean":
                return self.numbers.boolean_text(c, native)
            case "integer" | "year":
                return self.numbers.integer_text(c, native)
            case "decimal":
                return self.numbers.full_decimal_text(c, native) if kind.scale is None else self.numbers.decimal_text(c, kind.scale, native)
            case "rounded":
                return self.numbers.rounded_text(c, kind.scale or 0, native)
            case "float64" | "float32":
                return self.numbers.float_text(c, kind, native)
            case "binary":
                return self.text.hex_text(c)
            case "date":
                return self.times.date_kind_text(kind, c, native)
            case "time":
                return self.times.time_kind_text(kind, c, native)
            case "timestamp" | "timestamptz":
                return self.times.timestamp_kind_text(kind, c, native)
            case "uuid":
                return self.uuid_text(c, native)
            case "bit":
                return self.bit_text(c, native)
            case "interval":
                return self.interval_text(c, native)
            case "json":
                document = c if kind.form == "text" else self.ordered_json(c, native)
                return self.printed_json(document, native) if kind.form == "printed" else self.json_text(document, native)
            case "char":
                return self.text.unpadded_characters(c, native)
            case "network":
                return self.network_text(c)
            case _:
                return self.text.as_text(c) if native.name == "interval" else self.text.column_characters(c, native)

    def operand_text(self, kind: Kind, c: str, native: Kind) -> str:
        """The canonical text as an operand of ``concat``, or of COALESCE beside a text, where an engine may print a value on its own."""
        return self.canonical_text(kind, c, native)

    def can_fail(self, kind: Kind, native: Kind) -> bool:
        """Return whether canonical text of a value can be NULL, because the engine could not build it."""
        return kind.name in INTRICATE_KINDS or native.name in INTRICATE_KINDS

    def uuid_text(self, c: str, native: Kind) -> str:
        """``xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx``, lower-case hexadecimal digits; of a binary column, its 16 bytes in their order."""
        if native.name == "binary":
            return self._with_hyphens(self.text.hex_text(c))
        # Engines print small digits; what an audit's expression yields may not be of the type uuid.
        return f"LOWER({self.text.as_text(c)})" if c.startswith("(") else self.text.as_text(c)

    def _uuid_of_text(self, c: str) -> str:
        """Text in lower case, with hyphens where it has 32 characters."""
        return self.text.small_digits(f"CASE WHEN {self.text.length(c)} = 32 THEN {self._with_hyphens(c)} ELSE {c} END")

    def _with_hyphens(self, digits: str) -> str:
        """Text with the hyphens of a UUID; whatever follows its first twenty characters stays, so that no difference is lost."""
        cuts = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 1 << 30))
        pieces = [f"SUBSTRING({digits}, {first}, {length})" for first, length in cuts]
        return self.text.concat([part for piece in pieces for part in (piece, "'-'")][:-1])

    def bit_text(self, c: str, native: Kind) -> str:
        """One ``0`` or ``1`` per bit, most significant bit first; as many as the type has bits."""
        return self.text.as_text(c)

    def interval_text(self, c: str, native: Kind) -> str:
        """``<months>m<days>d<microseconds>us``, three decimal integers, each after a ``-`` if negative."""
        raise LookupError("this engine maps no native type to interval")

    def network_text(self, c: str) -> str:
        """An address or network (IPv4, IPv6, MAC) as PostgreSQL prints it: ``10.0.0.1``, ``10.0.0.0/8``, ``08:00:2b:01:02:03``."""
        return self.text.as_text(c)

    @abstractmethod
    def json_text(self, c: str, native: Kind) -> str:
        """The JSON document as the engine prints it, without whitespace between tokens.

        Keys keep the engine's order and numbers its spelling: SQL has no common form of these. Of an array or struct (``native`` is
        ``nested``) the document that ``dialects.nested`` describes, the same on every engine.

        It must take time in proportion to the document's length: where the engine cannot do so, a document keeps its whitespace, and is
        compared by its value once it was fetched.
        """

    def ordered_json(self, c: str, native: Kind) -> str:
        """The JSON document with its keys in the order of ``dialects.nested``, and the last of equal ones, if ``native`` has the form
        ``ordered`` and the engine can do so for that document; otherwise ``c``."""
        return c

    def printed_json(self, c: str, native: Kind) -> str:
        """The JSON document in the form ``printed``: one space after each comma and colon. Only of columns of that form, or ``ordered``."""
        return self.json_text(c, native)
