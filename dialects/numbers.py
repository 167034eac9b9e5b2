"""SQL of numbers: their canonical text, exact arithmetic with integers, and the numbers that hexadecimal digits denote.

``c`` is SQL text of an expression, ``native`` the canonical kind of that expression's own type. The SQL yields NULL where ``c`` is NULL.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, TypeAlias

from dialects.kinds import Kind
from dialects.text import Text

WHOLE_NUMBER_KINDS = frozenset({"integer", "year", "bit"})
"""Kinds whose values are integers of at most 20 digits."""

Places: TypeAlias = Sequence[tuple[int, int]]
"""Where digits stand in a text: the 1-based first and the count of each piece."""

UUID_PLACES: Places = ((4, 5), (13, 1), (15, 4), (32, 5))
"""Where the digits stand that make a UUID's number, in its text with hyphens."""

PLAIN_UUID_PLACES: Places = ((4, 5), (12, 5), (28, 5))
"""Where they stand in 32 digits without hyphens."""


class Numbers(ABC):
    """What an engine does with numbers."""

    DOUBLE: ClassVar[str] = "DOUBLE"
    """The type of floats of double precision."""

    SINGLE: ClassVar[str] = "FLOAT"
    """The type of floats of single precision."""

    MIN_CALCULATED_DIGITS: ClassVar[int] = 1
    """Fewest digits of decimals that are added or multiplied, for the result to have as many as it needs."""

    SMALL_SUM_MAX_ROWS: ClassVar[int | None] = None
    """The maximum number of integers that ``small_sum`` adds up exactly; None for no limit."""

    def __init__(self, text: Text) -> None:
        self.text = text

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
        return self.text.as_text(self.as_number(c, native))

    def as_number(self, c: str, native: Kind) -> str:
        """``c`` as an integer where its type needs a conversion (a bit string); otherwise ``c``."""
        return c

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
            return self.text.trim_zeros(self.decimal_text(c, native.scale, native))
        text = self.text.as_text(c)
        return f"CASE WHEN {text} LIKE '%.%' THEN {self.text.trim_zeros(text)} ELSE {text} END"

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
        units = self.text.as_text(self.as_bigint(f"CASE WHEN {x} < 0 THEN -{size} ELSE {size} END"))
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
        m = self.text.as_text(self.as_bigint(f"({y}) * {self.power_of_two(f'53 - {e}')}"))
        shifted = self.text.as_text(self.as_bigint(f"{e} - CASE WHEN {tiny} THEN 1000 ELSE 0 END"))
        finite = self.text.concat([f"CASE WHEN {x} < 0 THEN '-' ELSE '' END", m, "'p'", shifted])
        return f"CASE {self.non_finite_branches(x)}WHEN {x} = 0 THEN '0' ELSE {finite} END"

    def _number_as_double(self, c: str, native: Kind) -> str:
        """An exact number or a boolean as the nearest double."""
        if native.name == "boolean":
            return self.as_double(f"CASE WHEN {c} THEN 1 WHEN NOT {c} THEN 0 END")
        # By way of text, because some engines convert a decimal by a division, which rounds a second time.
        return self.as_double(self.text.as_text(c) if native.name == "decimal" else self.as_number(c, native))

    def non_finite_branches(self, x: str) -> str:
        """WHEN branches of a CASE that yield ``NaN``, ``Infinity`` and ``-Infinity`` for a double; empty if the engine has none."""
        nan, plus, minus = (self.double_literal(value) for value in ("NaN", "Infinity", "-Infinity"))
        return f"WHEN {x} = {nan} THEN 'NaN' WHEN {x} = {plus} THEN 'Infinity' WHEN {x} = {minus} THEN '-Infinity' "

    def as_double(self, c: str) -> str:
        """A number as a double: the nearest one, exactly the same value for a float."""
        return f"CAST({c} AS {self.DOUBLE})"

    def as_single(self, c: str) -> str:
        """A number rounded to the nearest single-precision float."""
        return f"CAST({c} AS {self.SINGLE})"

    def double_literal(self, value: str) -> str:
        """A literal of type double; ``value`` is a decimal number, ``NaN``, ``Infinity`` or ``-Infinity``."""
        return f"CAST('{value}' AS {self.DOUBLE})"

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
    def floor_divide(self, c: str, divisor: int, native: Kind) -> str:
        """floor(c / divisor) of an integer, exact over the type's whole range, as a signed 64-bit integer. ``divisor`` > 0."""

    def shift_right(self, c: str, bits: int) -> str:
        """A non-negative 64-bit integer without its lowest ``bits`` bits: floor(c / 2^bits)."""
        return f"({c} >> {bits})"

    def low_bits(self, c: str, bits: int) -> str:
        """The lowest ``bits`` bits of a non-negative 64-bit integer, as one."""
        return f"({c} & {2**bits - 1})"

    def integer_sum(self, c: str) -> str:
        """The exact sum of 64-bit integers as a signed 64-bit integer."""
        return f"CAST(SUM({c}) AS BIGINT)"

    def number_sum(self, c: str, native: Kind) -> str:
        """The exact sum of integers or decimals of that kind, as a number that may exceed 64 bits."""
        return f"SUM({c})"

    def small_sum(self, c: str) -> str:
        """The exact sum of up to SMALL_SUM_MAX_ROWS integers of 0 .. 2^31 - 1, as a signed 64-bit integer."""
        return self.integer_sum(c)

    def modulo(self, c: str, divisor: int) -> str:
        """What is left of a signed 64-bit integer, an operand, divided by ``divisor`` > 0, with its sign, as a signed 64-bit integer."""
        return f"{c} % {divisor}"

    def column_modulo(self, c: str, divisor: int, native: Kind) -> str:
        """As ``modulo``, of an integer or a decimal without fraction of any width, in whatever type its engine gives it."""
        return self.modulo(c, divisor)

    def remainder(self, c: str, divisor: int, native: Kind) -> str:
        """c - divisor * floor(c / divisor) of an integer: 0 .. divisor - 1, as a signed 64-bit integer. ``divisor`` > 0."""
        rest = self.column_modulo(c, divisor, native)
        if not native.unsigned:
            rest = f"({rest} + CASE WHEN {rest} < 0 THEN {divisor} ELSE 0 END)"
        return self.as_bigint(rest)  # the remainder of a narrow column has its type, in which the square of a position would overflow

    def signed_remainder(self, c: str, divisor: int, native: Kind) -> str:
        """What is left of an integer divided by ``divisor`` > 0, with the integer's sign, as a signed 64-bit integer."""
        return self.as_bigint(self.column_modulo(c, divisor, native))

    @abstractmethod
    def word(self, digits: str, first: int, count: int) -> str:
        """The number that ``count`` (1 to 15) hexadecimal digits denote, from the 1-based digit ``first``, as a signed 64-bit integer."""

    def hex_word(self, digits: str) -> str:
        """The number that a text of exactly 15 hexadecimal digits denotes, as a signed 64-bit integer."""
        return self.word(digits, 1, 15)

    def is_hexadecimal(self, digits: str) -> str:
        """Whether a text that is not empty consists of hexadecimal digits, in small letters or capitals."""
        others = f"RTRIM(LOWER({digits}), '0123456789abcdef')"
        return f"{self.text.length(others)} = 0"

    def pieces(self, c: str, places: Places) -> str:
        """The pieces of a text at these places, concatenated."""
        return self.text.concat([f"SUBSTRING({c}, {first}, {count})" for first, count in places])

    def digits_number(self, c: str, places: Places) -> str:
        """The number that the 15 characters of a text at these places denote as hexadecimal digits, a signed 64-bit integer.

        NULL if one of them is no such digit, in small letters or capitals. The text has characters at all these places.
        """
        digits = self.pieces(c, places)
        return f"CASE WHEN {self.is_hexadecimal(digits)} THEN {self.hex_word(digits)} END"

    def uuid_number(self, c: str) -> str:
        """The number that the 4th to 8th, 12th to 16th and 28th to 32nd digits of a value of type uuid denote, a signed 64-bit integer."""
        return self.hex_word(self.pieces(self.text.as_text(c), UUID_PLACES))

    def uuid_bytes_number(self, c: str) -> str:
        """The number as in ``uuid_number`` of the hexadecimal digits of 16 bytes; NULL if a value has another number of bytes."""
        digits = self.text.hex_text(c)
        return f"CASE WHEN {self.text.length(digits)} = 32 THEN {self.hex_word(self.pieces(digits, PLAIN_UUID_PLACES))} END"
