"""SQL for exact arithmetic with integers: sums, bits and remainders, the same on every engine."""

from __future__ import annotations

from typing import ClassVar

from dialects.canonical_text import CanonicalText
from dialects.kinds import Kind


class Arithmetic(CanonicalText):
    """The part of a dialect that adds up and divides integers."""

    SMALL_SUM_MAX_ROWS: ClassVar[int | None] = None
    """The maximum number of integers that ``small_sum`` adds up exactly; None for no limit."""

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
