"""The text of events whose SHA-256 is a segment's digest: the same for every writer, format and server of one stream.

An event is its kind, its transaction's global id, its row within the transaction, the values before and the values after. Each of these
fields and values ends with ``|1``; ``|`` within a text is written ``|0``, and NULL is ``|2``, as in the text of a row. How many values
there are say the kind and the table's columns, so different events of one schema have different texts, also when they are joined.
Positions and times are left out: they differ between a server and its replica.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from auditor import canonical

VERSION = 1
"""Version of the text; segments of another version are not compared."""


def event_texts(events: pa.RecordBatch) -> pa.BinaryArray:
    """Return the text of each event of a batch with the fields of `events.ARROW_SCHEMA`."""
    fields = [events["kind"], _escape(events["gtid"]), events["row"].cast(pa.string())]
    end = pa.scalar("", pa.string())  # what is behind the last separator
    images = [_image(events["before"]), _image(events["after"])]
    head = pc.binary_join_element_wise(*fields, end, canonical.SEPARATOR)
    return pc.binary_join_element_wise(head, *images, "").cast(pa.binary())


def text_bytes(texts: pa.BinaryArray) -> memoryview:
    """Return the joined texts of an array as they lie in memory."""
    _, offsets, values = texts.buffers()
    if values is None or not len(texts):
        return memoryview(b"")
    ends = memoryview(offsets).cast("i")
    return memoryview(values)[ends[texts.offset] : ends[texts.offset + len(texts)]]


def _escape(values: pa.Array) -> pa.Array:
    return pc.fill_null(pc.replace_substring(values, canonical.BAR, canonical.ESCAPED), canonical.NULL)


def _image(rows: pa.ListArray) -> pa.Array:
    """Return the values of each row, every one with a separator behind it; '' for a row that is not there."""
    values = pc.binary_join_element_wise(_escape(rows.flatten()), pa.scalar("", pa.string()), canonical.SEPARATOR)
    lengths = pc.fill_null(pc.list_value_length(rows), 0)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])
    return pc.binary_join(pa.ListArray.from_arrays(offsets, values), "")
