"""Write rows in the text format of PostgreSQL's COPY.

https://www.postgresql.org/docs/current/sql-copy.html
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from dialects.kinds import Kind

ESCAPES = (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
"""Characters that mean something in COPY's text format, and how they are written, the backslash first.
https://www.postgresql.org/docs/current/sql-copy.html"""


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
