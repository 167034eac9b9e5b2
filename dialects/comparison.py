"""SQL for comparisons in filters: the same rows on every engine, whatever collations, padding and odd values a column has."""

from __future__ import annotations

from typing import ClassVar

from dialects.canonical_text import CanonicalText
from dialects.kinds import Kind

ESCAPE = "!"
"""The escape character in rendered patterns of LIKE: engines agree on it, unlike on the backslash."""


class Comparison(CanonicalText):
    """The part of a dialect that writes comparisons."""

    LIKE_OPERAND: ClassVar[str] = ""
    """SQL of a text ``{c}`` that LIKE matches character by character, exactly; empty where that is its ``exact_text``."""

    INDEX_SERVES_LIKE: ClassVar[bool] = False
    """Whether an index on a text column, in the column's own collation, serves LIKE with a fixed beginning."""

    UNICODE_LITERAL: ClassVar[str] = ""
    """A literal of the UTF-8 bytes ``{hex}`` that takes the collation of the column it is compared with; empty where any literal does."""

    UNICODE_COLLATIONS: ClassVar[str] = ""
    """How the names of collations begin whose columns are compared with a UNICODE_LITERAL of any character."""

    END_OF_GROUPED_TEXT: ClassVar[str] = ""
    """Characters that are appended to a text that is grouped, so that blanks at its end count; empty where they do anyway."""

    TIME_IS_NULL: ClassVar[str] = "{c} IS NULL"
    """Whether a date or timestamp ``{c}`` is NULL, and no other value."""

    MIN_CALCULATED_DIGITS: ClassVar[int] = 1
    """Fewest digits of decimals that are added or multiplied, for the result to have as many as it needs."""

    def grouped_text(self, c: str) -> str:
        """A text with END_OF_GROUPED_TEXT, grouped and ordered by its UTF-8 bytes: every character counts, trailing blanks too."""
        return self.bytewise(self.concat([c, self.string_literal(self.END_OF_GROUPED_TEXT)]) if self.END_OF_GROUPED_TEXT else c)

    def text_of_group(self, c: str) -> str:
        """The text that ``grouped_text`` was made of, from a column that holds it."""
        return self.cut_end(c, len(self.END_OF_GROUPED_TEXT)) if self.END_OF_GROUPED_TEXT else c

    def exact_text(self, c: str) -> str:
        """A text that is compared by its UTF-8 bytes: every character counts, trailing blanks too. Such texts are only compared."""
        return self.bytewise(c)

    def like(self, c: str, pattern: str) -> str:
        """Whether a text matches a pattern of LIKE in which ESCAPE is the escape character; by characters, exactly."""
        operand = self.LIKE_OPERAND.format(c=c) if self.LIKE_OPERAND else self.bytewise(c)
        return f"{operand} LIKE {self.string_literal(pattern)} ESCAPE '{ESCAPE}'"

    def plain_literal(self, value: str, collation: str | None) -> str | None:
        """A text literal to compare a column with in the column's own collation, so that an index serves; None if there is none."""
        if not self.UNICODE_LITERAL or (value.isascii() and value.isprintable() and "\\" not in value):
            return self.string_literal(value)
        if collation is None or not collation.startswith(self.UNICODE_COLLATIONS):
            return None  # the column's character set may not have a character, which makes the comparison an error
        return self.UNICODE_LITERAL.format(hex=value.encode().hex())

    def is_null(self, c: str, native: Kind) -> str:
        """Whether a column is NULL."""
        return self.TIME_IS_NULL.format(c=c) if native.name in ("date", "timestamp", "timestamptz") else f"{c} IS NULL"
