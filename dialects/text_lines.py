"""Write the rows of an Arrow table of texts as lines that an engine loads; see ``LineFormat``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dialects.kinds import Kind
from dialects.writing import LineFormat


def text_lines(columns: Mapping[str, Kind], rows: Any, form: LineFormat) -> Any:
    """Return an Arrow array with a line for each row, without line feeds after them; the texts are those of ``Session.load``."""
    import pyarrow as pa
    import pyarrow.compute as pc

    between, around = (pa.scalar(text, pa.large_string()) for text in (form.between, ""))
    texts = [_written(rows[name].combine_chunks().cast(pa.large_string()), kind, form) for name, kind in columns.items()]
    lines = pc.binary_join_element_wise(*texts, between, null_handling="replace", null_replacement=form.null)
    if form.begin or form.end:
        lines = pc.binary_join_element_wise(pa.scalar(form.begin, pa.large_string()), lines, pa.scalar(form.end, pa.large_string()), around)
    return lines


def _written(text: Any, kind: Kind, form: LineFormat) -> Any:
    """Return values with what stands around them; NULL stays NULL."""
    import pyarrow as pa
    import pyarrow.compute as pc

    marks = (form.quote, form.quote)
    if kind.name == "binary" and form.binary:
        marks = form.binary
    elif kind.name == "bit" and form.bits:
        marks = form.bits
    elif kind.name in form.bare:
        marks = ("", "")
    elif kind.is_free_text:
        for character, written in form.escapes:
            text = pc.replace_substring(text, character, written)
    if marks == ("", ""):
        return text
    first, last, nothing = (pa.scalar(mark, pa.large_string()) for mark in (*marks, ""))
    return pc.binary_join_element_wise(first, text, last, nothing)


def lines_in_utf8(lines: Any) -> memoryview | bytes:
    """Return the lines, as computed just now, as bytes with a line feed after each."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ended = pc.binary_join_element_wise(lines, pa.scalar("\n", pa.large_string()), pa.scalar("", pa.large_string()))
    characters = ended.buffers()[2]  # of all lines, one after the other
    return memoryview(characters) if len(ended) and characters else b""
