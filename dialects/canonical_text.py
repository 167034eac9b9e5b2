"""SQL for canonical text: the characters, equal on every engine for equal values, that are hashed.

The docstring of a method states, in output characters, what the SQL must yield. Parameters: ``c`` is SQL text of an expression, ``native``
the canonical kind of that expression's own type, ``kind`` the kind as which it is compared. The SQL yields NULL where ``c`` is NULL.
``auditor.canonical`` computes the same characters in Python, and the tests compare every engine with it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from string import ascii_lowercase, ascii_uppercase
from typing import ClassVar

from dialects.kinds import FREE_TEXT_KINDS, Kind
from dialects.time_text import TimeText

WHOLE_NUMBER_KINDS = frozenset({"integer", "year", "bit"})
"""Kinds whose values are integers of at most 20 digits."""


INTRICATE_KINDS = frozenset({"json", "nested", "network", "interval"})
"""Kinds whose text takes functions that may yield NULL for reasons of their own."""


class CanonicalText(TimeText):
    """The part of a dialect that writes the SQL of canonical text."""

    name: ClassVar[str]
    """The engine's name: in entry points, template directories and messages."""

    @abstractmethod
    def string_literal(self, value: str) -> str:
        """A text literal that yields exactly ``value``, whatever characters it contains (but U+0000, where text cannot hold it)."""

    def concat(self, parts: Sequence[str]) -> str:
        """The texts concatenated; NULL if any of them is NULL."""
        return "(" + " || ".join(parts) + ")" if len(parts) > 1 else parts[0]

    def join(self, parts: Sequence[str], separator: str) -> str:
        """The texts concatenated with ``separator``, plain characters, between them; NULL if any of them is NULL."""
        between = self.string_literal(separator)
        return self.concat([piece for part in parts for piece in (between, part)][1:])

    def is_one_of(self, c: str, texts: Sequence[str], native_type: str = "") -> str:
        """A condition that holds where text ``c`` is one of these texts, and perhaps where its collation takes it for one.

        ``native_type`` is a column's own type as the catalogue spells it, for an index to serve; empty for any other expression.
        """
        return f"{c} IN ({', '.join(self.string_literal(text) for text in texts)})"

    def replace(self, c: str, old: str, new: str) -> str:
        """Text ``c`` with every ``old`` replaced by ``new``, both plain characters; matched by bytes, not by a collation."""
        return f"REPLACE({c}, {self.string_literal(old)}, {self.string_literal(new)})"

    def bytewise(self, c: str) -> str:
        """Text ``c``, but compared, grouped and ordered by its UTF-8 bytes instead of its column's collation."""
        return c

    def length(self, c: str) -> str:
        """The number of characters (code points) of a text."""
        return f"CHAR_LENGTH({c})"

    def left(self, c: str, count: int) -> str:
        """The first ``count`` characters of a text, all of a shorter one."""
        return f"LEFT({c}, {count})"

    def canonical_text(self, kind: Kind, c: str, native: Kind) -> str:
        """The canonical text of ``c`` compared as ``kind``: the characters that the method of that kind promises below.

        Text that is compared as another kind than text is taken as it is: it must already be in canonical form. Of a UUID, capitals and
        missing hyphens are added. An interval that is compared as text is what its engine prints.
        """
        if native.name in FREE_TEXT_KINDS and kind.name not in FREE_TEXT_KINDS:
            text = self.column_characters(c, native)
            return self._uuid_of_text(text) if kind.name == "uuid" else text
        match kind.name:
            case "boolean":
                return self.boolean_text(c, native)
            case "integer" | "year":
                return self.integer_text(c, native)
            case "decimal":
                return self.full_decimal_text(c, native) if kind.scale is None else self.decimal_text(c, kind.scale, native)
            case "rounded":
                return self.rounded_text(c, kind.scale or 0, native)
            case "float64" | "float32":
                return self.float_text(c, kind, native)
            case "binary":
                return self.hex_text(c)
            case "date":
                return self.date_kind_text(kind, c, native)
            case "time":
                return self.time_kind_text(kind, c, native)
            case "timestamp" | "timestamptz":
                return self.timestamp_kind_text(kind, c, native)
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
                return self.unpadded_characters(c, native)
            case "network":
                return self.network_text(c)
            case _:
                return self.as_text(c) if native.name == "interval" else self.column_characters(c, native)

    def operand_text(self, kind: Kind, c: str, native: Kind) -> str:
        """The canonical text as an operand of ``concat``, or of COALESCE beside a text, where an engine may print a value on its own."""
        return self.canonical_text(kind, c, native)

    def can_fail(self, kind: Kind, native: Kind) -> bool:
        """Return whether canonical text of a value can be NULL, because the engine could not build it."""
        return kind.name in INTRICATE_KINDS or native.name in INTRICATE_KINDS

    def boolean_text(self, c: str, native: Kind) -> str:
        """``1`` for true or a number other than 0, ``0`` for false or 0."""
        if native.name == "boolean":
            return f"CASE WHEN {c} THEN '1' WHEN NOT {c} THEN '0' END"
        return f"CASE WHEN {self.as_number(c, native)} <> 0 THEN '1' WHEN {self.as_number(c, native)} = 0 THEN '0' END"

    def integer_text(self, c: str, native: Kind) -> str:
        """Decimal digits without leading zeros or point, after a ``-`` if negative; decimals are rounded half away from zero."""
        if native.name == "boolean":
            return self.boolean_text(c, native)
        if native.name == "decimal":
            return self.decimal_text(c, 0, native)
        return self.as_text(self.as_number(c, native))

    def as_number(self, c: str, native: Kind) -> str:
        """``c`` as an integer where its type needs a conversion (a bit string); otherwise ``c``."""
        return c

    def as_text(self, c: str) -> str:
        """A number as decimal digits, after a ``-`` if negative; with as many digits after the point as its type has."""
        return f"CAST({c} AS VARCHAR)"

    @abstractmethod
    def decimal_text(self, c: str, scale: int, native: Kind) -> str:
        """Decimal digits, exactly ``scale`` of them after the point (no point for 0) and at least one before it.

        After a ``-`` if negative. Rounded half away from zero; a value that rounds to zero has no ``-``.
        """

    def full_decimal_text(self, c: str, native: Kind) -> str:
        """Decimal digits with all that follow the point but zeros at their end, and no point before none; as in ``decimal_text`` else.

        Where the engine's numbers have them, also ``NaN``, ``Infinity`` and ``-Infinity``.
        """
        if native.name != "decimal" or native.scale == 0:
            return self.integer_text(c, native)
        if native.scale is not None:
            return self.trim_zeros(self.decimal_text(c, native.scale, native))
        text = self.as_text(c)
        return f"CASE WHEN {text} LIKE '%.%' THEN {self.trim_zeros(text)} ELSE {text} END"

    def trim_zeros(self, c: str) -> str:
        return f"RTRIM(RTRIM({c}, '0'), '.')"

    def rounded_text(self, c: str, scale: int, native: Kind) -> str:
        """The value as a number of units of 10^-scale: an integer as in ``integer_text``, rounded half away from zero.

        NaN and floats of magnitude 9 * 10^(18 - scale) or more yield the characters of ``float_text`` instead.
        """
        if native.name not in ("float32", "float64"):
            exact = f"({c})"
            if native.name in WHOLE_NUMBER_KINDS:  # the product may overflow the column's own type
                exact = f"CAST({self.as_number(c, native)} AS DECIMAL(20,0))"
            return self.decimal_text(f"{exact} * {10**scale}", 0, native)
        x = self.as_double(c)
        size = f"FLOOR(ABS({x}) * {self.double_literal(f'1e{scale}')} + {self.double_literal('0.5')})"
        units = self.as_text(self.as_bigint(f"CASE WHEN {x} < 0 THEN -{size} ELSE {size} END"))
        within = f"ABS({x}) < {self.double_literal(f'9e{18 - scale}')}"
        return f"CASE WHEN {within} THEN {units} ELSE {self.float_text(c, Kind('float64'), native)} END"

    # Floats: |x| = m * 2^(e - 53) with e = floor(log2|x| + 0.3721), so m is an integer in (2^52, 2^54). Scaling by powers of two is
    # exact in IEEE 754, so every engine computes the same m. The odd offset moves the values where the last bit of a logarithm could
    # change e away from common numbers such as powers of two.

    def float_text(self, c: str, kind: Kind, native: Kind) -> str:
        """``<m>p<e>``, both decimal integers, after a ``-`` if negative; or ``0``, ``NaN``, ``Infinity``, ``-Infinity``.

        The value is m * 2^(e - 53) with e = floor(log2|x| + 0.3721). Negative zero is ``0``. As float32, the value is first rounded to
        single precision.
        """
        c = c if native.name in ("float32", "float64") else self._number_as_double(c, native)
        narrowed = self.as_single(c) if kind.name == "float32" and native.name != "float32" else c
        x = self.as_double(narrowed)
        size = f"ABS({x})"
        tiny = f"{size} < {self.double_literal('1e-270')}"
        y = f"CASE WHEN {tiny} THEN {size} * {self.power_of_two('1000')} ELSE {size} END"
        e = f"FLOOR({self.log2(y)} + {self.double_literal('0.3721')})"
        m = self.as_text(self.as_bigint(f"({y}) * {self.power_of_two(f'53 - {e}')}"))
        shifted = self.as_text(self.as_bigint(f"{e} - CASE WHEN {tiny} THEN 1000 ELSE 0 END"))
        finite = self.concat([f"CASE WHEN {x} < 0 THEN '-' ELSE '' END", m, "'p'", shifted])
        return f"CASE {self.non_finite_branches(x)}WHEN {x} = 0 THEN '0' ELSE {finite} END"

    def _number_as_double(self, c: str, native: Kind) -> str:
        """An exact number or a boolean as the nearest double."""
        if native.name == "boolean":
            return self.as_double(f"CASE WHEN {c} THEN 1 WHEN NOT {c} THEN 0 END")
        # By way of text, because some engines convert a decimal by a division, which rounds a second time.
        return self.as_double(self.as_text(c) if native.name == "decimal" else self.as_number(c, native))

    def non_finite_branches(self, x: str) -> str:
        """WHEN branches of a CASE that yield ``NaN``, ``Infinity`` and ``-Infinity`` for a double; empty if the engine has none."""
        nan, plus, minus = (self.double_literal(value) for value in ("NaN", "Infinity", "-Infinity"))
        return f"WHEN {x} = {nan} THEN 'NaN' WHEN {x} = {plus} THEN 'Infinity' WHEN {x} = {minus} THEN '-Infinity' "

    @abstractmethod
    def as_double(self, c: str) -> str:
        """A number as a double: the nearest one, exactly the same value for a float."""

    @abstractmethod
    def as_single(self, c: str) -> str:
        """A number rounded to the nearest single-precision float."""

    @abstractmethod
    def double_literal(self, value: str) -> str:
        """A literal of type double; ``value`` is a decimal number, ``NaN``, ``Infinity`` or ``-Infinity``."""

    def power_of_two(self, exponent: str) -> str:
        """2 to an integer exponent (SQL text), exactly, as a double."""
        return f"POWER({self.double_literal('2')}, {exponent})"

    def log2(self, c: str) -> str:
        """The binary logarithm of a positive double, accurate to a few units in the last place."""
        return f"LOG2({c})"

    def as_bigint(self, c: str) -> str:
        """A number without a fraction as a signed 64-bit integer."""
        return f"CAST({c} AS BIGINT)"

    @abstractmethod
    def hex_text(self, c: str) -> str:
        """Two lower-case hexadecimal digits per byte."""

    def uuid_text(self, c: str, native: Kind) -> str:
        """``xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx``, lower-case hexadecimal digits; of a binary column, its 16 bytes in their order."""
        if native.name == "binary":
            return self._with_hyphens(self.hex_text(c))
        # Engines print small digits; what an audit's expression yields may not be of the type uuid.
        return f"LOWER({self.as_text(c)})" if c.startswith("(") else self.as_text(c)

    def _uuid_of_text(self, c: str) -> str:
        """Text in lower case, with hyphens where it has 32 characters."""
        return self.small_digits(f"CASE WHEN {self.length(c)} = 32 THEN {self._with_hyphens(c)} ELSE {c} END")

    def small_digits(self, c: str) -> str:
        """The text of a UUID with its hexadecimal digits in small letters."""
        return f"LOWER({c})"

    def _with_hyphens(self, digits: str) -> str:
        """Text with the hyphens of a UUID; whatever follows its first twenty characters stays, so that no difference is lost."""
        cuts = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 1 << 30))
        pieces = [f"SUBSTRING({digits}, {first}, {length})" for first, length in cuts]
        return self.concat([part for piece in pieces for part in (piece, "'-'")][:-1])

    def bit_text(self, c: str, native: Kind) -> str:
        """One ``0`` or ``1`` per bit, most significant bit first; as many as the type has bits."""
        return self.as_text(c)

    def interval_text(self, c: str, native: Kind) -> str:
        """``<months>m<days>d<microseconds>us``, three decimal integers, each after a ``-`` if negative."""
        raise LookupError(f"{self.name} maps no native type to interval")

    def network_text(self, c: str) -> str:
        """An address or network (IPv4, IPv6, MAC) as PostgreSQL prints it: ``10.0.0.1``, ``10.0.0.0/8``, ``08:00:2b:01:02:03``."""
        return self.as_text(c)

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

    def characters(self, c: str) -> str:
        """The characters of a text, enum or set, unchanged, as text that hashes by its UTF-8 bytes."""
        return c

    def column_characters(self, c: str, native: Kind) -> str:
        """As ``characters``, without a conversion that a column of that kind does not need."""
        return self.characters(c)

    def unpadded_characters(self, c: str, native: Kind) -> str:
        """As ``column_characters``, without trailing spaces (U+0020)."""
        return self.trim_right(self.column_characters(c, native))

    def trim_right(self, c: str) -> str:
        """Text without trailing spaces (U+0020)."""
        return f"RTRIM({c}, ' ')"

    def trim(self, c: str) -> str:
        """Text without leading and trailing spaces (U+0020)."""
        return f"TRIM(BOTH ' ' FROM {c})"

    # Letters beyond A to Z are not folded: LOWER depends on the database's locale, the collation, and the engine's edition of Unicode.

    def lower(self, c: str) -> str:
        """Text with the letters A to Z in lower case; all other characters, letters with accents among them, are unchanged."""
        return f"TRANSLATE({c}, '{ascii_uppercase}', '{ascii_lowercase}')"

    def upper(self, c: str) -> str:
        """Text with the letters a to z in upper case; all other characters, letters with accents among them, are unchanged."""
        return f"TRANSLATE({c}, '{ascii_lowercase}', '{ascii_uppercase}')"
