"""SQL of numbers that hexadecimal digits denote: words of hashes, and the number of a UUID.

``c`` is SQL text of an expression. The SQL yields NULL where ``c`` is NULL.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeAlias

from dialects.canonical_text import CanonicalText

Places: TypeAlias = Sequence[tuple[int, int]]
"""Where digits stand in a text: the 1-based first and the count of each piece."""

UUID_PLACES: Places = ((4, 5), (13, 1), (15, 4), (32, 5))
"""Where the digits stand that make a UUID's number, in its text with hyphens."""

PLAIN_UUID_PLACES: Places = ((4, 5), (12, 5), (28, 5))
"""Where they stand in 32 digits without hyphens."""


class HexNumbers(CanonicalText):
    """The part of a dialect that reads hexadecimal digits."""

    @abstractmethod
    def word(self, digits: str, first: int, count: int) -> str:
        """The number that ``count`` (1 to 15) hexadecimal digits denote, from the 1-based digit ``first``, as a signed 64-bit integer."""

    def code_point(self, c: str) -> str:
        """The number of an ASCII character; any number for other text."""
        return f"ASCII({c})"

    def hex_word(self, digits: str) -> str:
        """The number that a text of exactly 15 hexadecimal digits denotes, as a signed 64-bit integer."""
        return self.word(digits, 1, 15)

    def is_hexadecimal(self, digits: str) -> str:
        """Whether a text that is not empty consists of hexadecimal digits, in small letters or capitals."""
        others = f"RTRIM(LOWER({digits}), '0123456789abcdef')"
        return f"{self.length(others)} = 0"

    def pieces(self, c: str, places: Places) -> str:
        """The pieces of a text at these places, concatenated."""
        return self.concat([f"SUBSTRING({c}, {first}, {count})" for first, count in places])

    def digits_number(self, c: str, places: Places) -> str:
        """The number that the 15 characters of a text at these places denote as hexadecimal digits, a signed 64-bit integer.

        NULL if one of them is no such digit, in small letters or capitals. The text has characters at all these places.
        """
        digits = self.pieces(c, places)
        return f"CASE WHEN {self.is_hexadecimal(digits)} THEN {self.hex_word(digits)} END"

    def uuid_number(self, c: str) -> str:
        """The number that the 4th to 8th, 12th to 16th and 28th to 32nd digits of a value of type uuid denote, a signed 64-bit integer."""
        return self.hex_word(self.pieces(self.as_text(c), UUID_PLACES))

    def uuid_bytes_number(self, c: str) -> str:
        """The number as in ``uuid_number`` of the hexadecimal digits of 16 bytes; NULL if a value has another number of bytes."""
        digits = self.hex_text(c)
        return f"CASE WHEN {self.length(digits)} = 32 THEN {self.hex_word(self.pieces(digits, PLAIN_UUID_PLACES))} END"
