"""What an engine states of being written to, and how a session loads rows. Only pipelines and repairs write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from dialects.errors import StatementRefused
from dialects.kinds import Kind
from dialects.url import Url

Loads = Literal["side by side", "alone", ""]
"""Who loads rows into one table: several sessions at once, the one session that may write, or nobody, because ``load`` is missing."""


class Writing:
    """The part of a dialect that is about writing."""

    LOADS: ClassVar[Loads] = ""
    """How rows are loaded into a staging table of this engine."""

    STAGING_TABLE: ClassVar[str] = "TABLE"
    """What follows CREATE for a table whose rows may be lost with the server, or with the session where it loads alone."""

    ENFORCES_KEYS: ClassVar[bool] = True
    """Whether a primary key is a constraint, so that it is declared where a table is made."""

    def write_url(self, url: Url) -> Url:
        """Return the URL with which a session may write."""
        return url


class Loading:
    """The part of a session that loads rows."""

    def load(self, table: str, columns: Mapping[str, Kind], rows: Any) -> None:
        """Insert the rows of an Arrow table of texts into a table with these columns; ``table`` is its name as SQL text.

        Texts are what the engine's type of the column's kind reads: numbers in digits, times in ISO format and UTC, texts as they are,
        binary strings in lower-case hexadecimal digits, bit strings in binary digits. Raises EngineError.
        """
        raise StatementRefused("this engine cannot be loaded")
