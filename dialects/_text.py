"""Canonical text in SQL: what every engine's values are turned into before anything is hashed.

A method's docstring says, in output characters, what its SQL yields. ``c`` is always SQL text of an expression, ``native``
the kind that the engine's own type of it stands for. Expressions yield SQL NULL for NULL.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from dialects._kinds import FREE_TEXT, Kind

WHOLE = frozenset({"integer", "year", "bit"})
"""Kinds whose values are whole numbers of at most 20 digits."""


class CanonicalText(ABC):
    """The part of a dialect that writes canonical text."""

    name: ClassVar[str]
    """The word for this engine in URLs, templates and messages."""

    @abstractmethod
    def string(self, value: str) -> str:
        """A text literal that reads back as exactly ``value``."""

    def concat(self, parts: Sequence[str]) -> str:
        """Texts one after another; NULL where one of them is NULL."""
        return "(" + " || ".join(parts) + ")" if len(parts) > 1 else parts[0]

    def joined(self, parts: Sequence[str], separator: str) -> str:
        """Texts with a separator between them; NULL where one of them is NULL."""
        between = self.string(separator)
        return self.concat([piece for part in parts for piece in (between, part)][1:])

    def replaced(self, c: str, old: str, new: str) -> str:
        """``c`` with every ``old`` replaced by ``new``, both plain characters, matched byte by byte."""
        return f"REPLACE({c}, {self.string(old)}, {self.string(new)})"

    def bytewise(self, c: str) -> str:
        """A text that is compared, grouped and ordered by its UTF-8 bytes, whatever its column's collation."""
        return c

    def length(self, c: str) -> str:
        """How many characters (code points) a text has."""
        return f"CHAR_LENGTH({c})"

    def text(self, kind: Kind, c: str, native: Kind) -> str:
        """Canonical text of ``c`` as ``kind``; auditor.canonical has the characters of every kind in plain Python."""
        if native.name in FREE_TEXT and kind.name not in FREE_TEXT:
            return self.lower(self.characters(c)) if kind.name == "uuid" else self.characters(c)
        match kind.name:
            case "boolean":
                return self.boolean_text(c, native)
            case "integer" | "year":
                return self.integer_text(c, native)
            case "decimal":
                return self.decimal_text(c, kind.scale or 0, native)
            case "rounded":
                return self.rounded_text(c, kind.scale or 0, native)
            case "float64" | "float32":
                return self.float_text(c, kind, native)
            case "binary":
                return self.hex_text(c)
            case "date":
                return self.date_text(c) if native.name == "date" else f"LEFT({self.timestamp_text(c, native)}, 10)"
            case "time":
                return self._time(self.time_text(c), kind.scale)
            case "timestamp" | "timestamptz":
                return self._timestamp(kind, c, native)
            case "uuid":
                return self.uuid_text(c, native)
            case "bit":
                return self.bit_text(c, native)
            case "interval":
                return self.interval_text(c, native)
            case "json":
                return self.json_text(c, native)
            case "char":
                return self.right_trimmed(self.characters(c))
            case _:
                return self.characters(c)

    def _timestamp(self, kind: Kind, c: str, native: Kind) -> str:
        if native.name == "date":
            zeros = "." + "0" * kind.scale if kind.scale else ""
            return self.concat([self.date_text(c), self.string(" 00:00:00" + zeros)])
        return self.fraction(self.timestamp_text(c, native), 19, kind.scale, max(6, native.scale or 0))

    def _time(self, text: str, wanted: int | None) -> str:
        """``text`` with ``wanted`` digits of the fraction; cut from its end, for hours can be more than two digits."""
        if wanted is None or wanted >= 6:
            return self.fraction(text, 8, wanted)
        return f"LEFT({text}, {self.length(text)} - {6 - wanted if wanted else 7})"

    def fraction(self, text: str, whole: int, wanted: int | None, held: int = 6) -> str:
        """``text`` (``whole`` characters, a point, ``held`` digits) with ``wanted`` digits of the fraction, cut or padded.

        Cut as text, because a cast rounds on some engines and truncates on others.
        """
        if wanted is None or wanted == held:
            return text
        if wanted > held:
            return self.concat([text, self.string("0" * (wanted - held))])
        return f"LEFT({text}, {whole + 1 + wanted if wanted else whole})"

    def boolean_text(self, c: str, native: Kind) -> str:
        """``1`` or ``0``."""
        if native.name == "boolean":
            return f"CASE WHEN {c} THEN '1' WHEN NOT {c} THEN '0' END"
        return f"CASE WHEN {self.number(c, native)} <> 0 THEN '1' WHEN {self.number(c, native)} = 0 THEN '0' END"

    def integer_text(self, c: str, native: Kind) -> str:
        """Decimal digits, a ``-`` before negative ones, no leading zero, no point."""
        if native.name == "boolean":
            return self.boolean_text(c, native)
        if native.name == "decimal":
            return self.decimal_text(c, 0, native)
        return self.as_text(self.number(c, native))

    def number(self, c: str, native: Kind) -> str:
        """``c`` as a number where its type is no number (a bit string)."""
        return c

    def as_text(self, c: str) -> str:
        """A number of whole units as decimal digits."""
        return f"CAST({c} AS VARCHAR)"

    @abstractmethod
    def decimal_text(self, c: str, scale: int, native: Kind) -> str:
        """Digits with exactly ``scale`` of them behind the point (no point for 0), at least one before it, rounded half away
        from zero; never ``-0``."""

    def rounded_text(self, c: str, scale: int, native: Kind) -> str:
        """How many units of 10^-scale, as an integer, rounded half away from zero; a float too large for that as float_text."""
        if native.name not in ("float32", "float64"):
            exact = f"({c})"
            if native.name in WHOLE:  # the column's own type may be too narrow for so many units
                exact = f"CAST({self.number(c, native)} AS DECIMAL(20,0))"
            return self.decimal_text(f"{exact} * {10**scale}", 0, native)
        x = self.double(c)
        size = f"FLOOR(ABS({x}) * {self.double_literal(f'1e{scale}')} + {self.double_literal('0.5')})"
        units = self.as_text(self.bigint(f"CASE WHEN {x} < 0 THEN -{size} ELSE {size} END"))
        within = f"ABS({x}) < {self.double_literal(f'9e{18 - scale}')}"
        return f"CASE WHEN {within} THEN {units} ELSE {self.float_text(c, Kind('float64'), native)} END"

    # floats: |x| = m * 2^(e - 53) with e = floor(log2|x| + 0.3721), so that m is an integer in (2^52, 2^54).
    # Scaling by powers of two is exact in IEEE 754, so every engine finds the same m; the odd offset keeps the places where
    # a logarithm's last bit could decide e away from any natural number.

    def float_text(self, c: str, kind: Kind, native: Kind) -> str:
        """``<m>p<e>``, or ``0``, ``NaN``, ``Infinity``, ``-Infinity``; a ``-`` before negative ones; -0 is ``0``."""
        narrowed = self.single(c) if kind.name == "float32" and native.name != "float32" else c
        x = self.double(narrowed)
        size = f"ABS({x})"
        tiny = f"{size} < {self.double_literal('1e-270')}"
        y = f"CASE WHEN {tiny} THEN {size} * {self.power_of_two('1000')} ELSE {size} END"
        e = f"FLOOR({self.log2(y)} + {self.double_literal('0.3721')})"
        m = self.as_text(self.bigint(f"({y}) * {self.power_of_two(f'53 - {e}')}"))
        shifted = self.as_text(self.bigint(f"{e} - CASE WHEN {tiny} THEN 1000 ELSE 0 END"))
        finite = self.concat([f"CASE WHEN {x} < 0 THEN '-' ELSE '' END", m, "'p'", shifted])
        return f"CASE {self.not_finite(x)}WHEN {x} = 0 THEN '0' ELSE {finite} END"

    def not_finite(self, x: str) -> str:
        """WHEN branches for NaN and the infinities of a double; empty where the engine cannot hold them."""
        nan, plus, minus = (self.double_literal(value) for value in ("NaN", "Infinity", "-Infinity"))
        return f"WHEN {x} = {nan} THEN 'NaN' WHEN {x} = {plus} THEN 'Infinity' WHEN {x} = {minus} THEN '-Infinity' "

    @abstractmethod
    def double(self, c: str) -> str:
        """``c`` as a double."""

    @abstractmethod
    def single(self, c: str) -> str:
        """``c`` rounded to single precision."""

    @abstractmethod
    def double_literal(self, value: str) -> str:
        """A literal of type double."""

    def power_of_two(self, exponent: str) -> str:
        """2 to an integer exponent, as a double."""
        return f"POWER({self.double_literal('2')}, {exponent})"

    def log2(self, c: str) -> str:
        """The binary logarithm of a positive double, to within a few units of its last digit."""
        return f"LOG2({c})"

    def bigint(self, c: str) -> str:
        """A double that is an integer, as a signed 64-bit integer."""
        return f"CAST({c} AS BIGINT)"

    @abstractmethod
    def hex_text(self, c: str) -> str:
        """Two lower-case hexadecimal digits a byte."""

    @abstractmethod
    def date_text(self, c: str) -> str:
        """``YYYY-MM-DD``."""

    @abstractmethod
    def time_text(self, c: str) -> str:
        """``HH:MM:SS.ffffff``."""

    @abstractmethod
    def timestamp_text(self, c: str, native: Kind) -> str:
        """``YYYY-MM-DD HH:MM:SS.ffffff``, in UTC where the type knows its zone; nine digits of the fraction where it holds nine."""

    def uuid_text(self, c: str, native: Kind) -> str:
        """``xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx``, lower case; of 16 bytes in their own order for a binary column."""
        if native.name == "binary":
            digits = self.hex_text(c)
            cuts = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
            pieces = [f"SUBSTRING({digits}, {first}, {length})" for first, length in cuts]
            return self.concat([part for piece in pieces for part in (piece, "'-'")][:-1])
        return self.lower(self.as_text(c))

    def bit_text(self, c: str, native: Kind) -> str:
        """One ``0`` or ``1`` a bit, the highest first."""
        return self.as_text(c)

    def interval_text(self, c: str, native: Kind) -> str:
        """``<months>m<days>d<microseconds>us``."""
        raise LookupError(f"{self.name} maps no native type to interval")

    @abstractmethod
    def json_text(self, c: str, native: Kind) -> str:
        """The document as the engine writes it, without blanks between its tokens.

        Keys stay in the engine's order and numbers in its spelling: there is no common form of these in SQL.
        """

    def characters(self, c: str) -> str:
        """The characters of a text, enum or set, as they are."""
        return c

    def right_trimmed(self, c: str) -> str:
        """Text without the blanks (U+0020) at its end."""
        return f"RTRIM({c}, ' ')"

    def trimmed(self, c: str) -> str:
        """Text without the blanks (U+0020) at either end."""
        return f"TRIM(BOTH ' ' FROM {c})"

    def lower(self, c: str) -> str:
        """Text in lower case; engines agree for ASCII letters."""
        return f"LOWER({c})"

    def upper(self, c: str) -> str:
        """Text in upper case; engines agree for ASCII letters."""
        return f"UPPER({c})"
