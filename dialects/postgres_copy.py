"""Write rows in the text format of PostgreSQL's COPY.

https://www.postgresql.org/docs/current/sql-copy.html
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dialects.kinds import Kind
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
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = []
    for name, kind in columns.items():
        text = rows[name].combine_chunks().cast(pa.large_string())
        if kind.name == "binary":
            text = pc.binary_join_element_wise(pa.scalar("\\\\x", pa.large_string()), text, pa.scalar("", pa.large_string()))
        elif kind.is_free_text:
            for character, written in ESCAPES:
                text = pc.replace_substring(text, character, written)
        texts.append(text)
    tab, none = pa.scalar("\t", pa.large_string()), "\\N"
    lines = pc.binary_join_element_wise(*texts, tab, null_handling="replace", null_replacement=none)
    ended = pc.binary_join_element_wise(lines, pa.scalar("\n", pa.large_string()), pa.scalar("", pa.large_string()))
    characters = ended.buffers()[2]  # of all lines, one behind the other, as computed just now
    return io.BytesIO(characters if len(ended) and characters else b"")
