"""Write rows in the text format of PostgreSQL's COPY.

https://www.postgresql.org/docs/current/sql-copy.html
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
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
    """A stream of bytes from which COPY reads lines that come in batches."""

    def __init__(self, batches: Iterable[Sequence[str]]) -> None:
        super().__init__()
        self._batches = iter(batches)
        self._left = b""
        self.failure: BaseException | None = None
        """What the batches failed with, of which COPY reports only that it failed."""

    def read(self, size: int = -1) -> bytes:
        """Return up to ``size`` bytes, or without it those of the next batch; none at the end."""
        while not self._left:
            try:
                batch = next(self._batches, None)
            except BaseException as error:
                self.failure = error
                raise
            if batch is None:
                return b""
            self._left = ("\n".join(batch) + "\n").encode() if batch else b""
        taken, self._left = (self._left, b"") if size < 0 else (self._left[:size], self._left[size:])
        return taken


def copy_text(columns: Mapping[str, Kind], rows: Any) -> io.BytesIO:
    """Return the rows of an Arrow table of texts in COPY's text format; see ``Session.load``."""
    return io.BytesIO(lines_in_utf8(text_lines(columns, rows, LINES)))
