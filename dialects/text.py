"""SQL of texts: what they consist of, and comparisons, which are the same on every engine, whatever collations and padding a column has.

``c`` is SQL text of an expression, ``native`` the canonical kind of that expression's own type. The SQL yields NULL where ``c`` is NULL.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from string import ascii_lowercase, ascii_uppercase
from typing import ClassVar

from dialects.kinds import Kind
from dialects.names import Names

ESCAPE = "!"
"""The escape character in rendered patterns of LIKE: engines agree on it, unlike on the backslash."""


class Text(ABC):
    """What an engine does with texts."""

    TEXT_TYPE: ClassVar[str] = "VARCHAR"
    """The type to which values are cast to be texts."""

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

    def __init__(self, names: Names) -> None:
        self.names = names

    def concat(self, parts: Sequence[str]) -> str:
        """The texts concatenated; NULL if any of them is NULL."""
        return "(" + " || ".join(parts) + ")" if len(parts) > 1 else parts[0]

    def join(self, parts: Sequence[str], separator: str) -> str:
        """The texts concatenated with ``separator``, plain characters, between them; NULL if any of them is NULL."""
        between = self.names.string_literal(separator)
        return self.concat([piece for part in parts for piece in (between, part)][1:])

    def is_one_of(self, c: str, texts: Sequence[str], native_type: str = "") -> str:
        """A condition that holds where text ``c`` is one of these texts, and perhaps where its collation takes it for one.

        ``native_type`` is a column's own type as the catalogue spells it, for an index to serve; empty for any other expression.
        """
        return f"{c} IN ({', '.join(self.names.string_literal(text) for text in texts)})"

    def replace(self, c: str, old: str, new: str) -> str:
        """Text ``c`` with every ``old`` replaced by ``new``, both plain characters; matched by bytes, not by a collation."""
        return f"REPLACE({c}, {self.names.string_literal(old)}, {self.names.string_literal(new)})"

    def bytewise(self, c: str) -> str:
        """Text ``c``, but compared, grouped and ordered by its UTF-8 bytes instead of its column's collation."""
        return c

    def length(self, c: str) -> str:
        """The number of characters (code points) of a text."""
        return f"CHAR_LENGTH({c})"

    def byte_length(self, c: str) -> str:
        """The number of bytes of a text in UTF-8."""
        return f"OCTET_LENGTH({self.utf8(c)})"

    def left(self, c: str, count: int) -> str:
        """The first ``count`` characters of a text, all of a shorter one."""
        return f"LEFT({c}, {count})"

    def as_text(self, c: str) -> str:
        """A number as decimal digits, after a ``-`` if negative; with as many digits after the point as its type has."""
        return f"CAST({c} AS {self.TEXT_TYPE})"

    def trim_zeros(self, c: str) -> str:
        """Digits with a point, without the zeros at their end, nor a point that is then last."""
        return f"RTRIM(RTRIM({c}, '0'), '.')"

    def hex_text(self, c: str) -> str:
        """Two lower-case hexadecimal digits per byte."""
        return f"LOWER(HEX({c}))"

    def small_digits(self, c: str) -> str:
        """The text of a UUID with its hexadecimal digits in small letters."""
        return f"LOWER({c})"

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

    def cut_end(self, text: str, count: int) -> str:
        """``text`` without its last ``count`` characters."""
        return f"LEFT({text}, {self.length(text)} - {count})"

    def grouped_text(self, c: str) -> str:
        """A text with END_OF_GROUPED_TEXT, grouped and ordered by its UTF-8 bytes: every character counts, trailing blanks too."""
        return self.bytewise(self.concat([c, self.names.string_literal(self.END_OF_GROUPED_TEXT)]) if self.END_OF_GROUPED_TEXT else c)

    def text_of_group(self, c: str) -> str:
        """The text that ``grouped_text`` was made of, from a column that holds it."""
        return self.cut_end(c, len(self.END_OF_GROUPED_TEXT)) if self.END_OF_GROUPED_TEXT else c

    def exact_text(self, c: str) -> str:
        """A text that is compared by its UTF-8 bytes: every character counts, trailing blanks too. Such texts are only compared."""
        return self.bytewise(c)

    def like(self, c: str, pattern: str) -> str:
        """Whether a text matches a pattern of LIKE in which ESCAPE is the escape character; by characters, exactly."""
        operand = self.LIKE_OPERAND.format(c=c) if self.LIKE_OPERAND else self.bytewise(c)
        return f"{operand} LIKE {self.names.string_literal(pattern)} ESCAPE '{ESCAPE}'"

    def plain_literal(self, value: str, collation: str | None) -> str | None:
        """A text literal to compare a column with in the column's own collation, so that an index serves; None if there is none."""
        if not self.UNICODE_LITERAL or (value.isascii() and value.isprintable() and "\\" not in value):
            return self.names.string_literal(value)
        if collation is None or not collation.startswith(self.UNICODE_COLLATIONS):
            return None  # the column's character set may not have a character, which makes the comparison an error
        return self.UNICODE_LITERAL.format(hex=value.encode().hex())

    def is_null(self, c: str, native: Kind) -> str:
        """Whether a column is NULL."""
        return self.TIME_IS_NULL.format(c=c) if native.name in ("date", "timestamp", "timestamptz") else f"{c} IS NULL"

    def code_point(self, c: str) -> str:
        """The number of an ASCII character; any number for other text."""
        return f"ASCII({c})"

    @abstractmethod
    def utf8(self, text: str) -> str:
        """The UTF-8 bytes of a text, of the engine's binary type."""

    def stored_text(self, text: str) -> str:
        """A text of at most 255 characters that is not cut where it is stored in a derived table."""
        return text
