"""Write rows in the text format of PostgreSQL's COPY.

https://www.postgresql.org/docs/current/sql-copy.html
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from typing import Any

from dialects.kinds import Kind
from dialects.text_lines import lines_in_utf8, text_lines
from dialects.writing import LineFormat

ESCAPES = (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
"""Characters that mean something in COPY's text format, and how they are written, the backslash first.
https://www.postgresql.org/docs/current/sql-copy.html"""


LINES = LineFormat(between="\t", null="\\N", escapes=ESCAPES, binary=("\\\\x", ""))
"""Rows in COPY's text format."""


class LineStream(io.RawIOBase):
    """A stream of bytes from which COPY reads blocks of lines."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        super().__init__()
        self._blocks = iter(blocks)
        self._block = memoryview(b"")
        self.failure: BaseException | None = None
        """What the blocks failed with, of which COPY reports only that it failed."""

    def read(self, size: int = -1) -> bytes:
        """Return up to ``size`` bytes, or without it those that are left of a block; none at the end."""
        while not self._block:
            try:
                block = next(self._blocks, None)
            except BaseException as error:
                self.failure = error
                raise
            if block is None:
                return b""
            self._block = memoryview(block)
        taken, self._block = (self._block, memoryview(b"")) if size < 0 else (self._block[:size], self._block[size:])
        return bytes(taken)


def copy_text(columns: Mapping[str, Kind], rows: Any) -> io.BytesIO:
    """Return the rows of an Arrow table of texts in COPY's text format; see ``Session.load``."""
    return io.BytesIO(lines_in_utf8(text_lines(columns, rows, LINES)))
