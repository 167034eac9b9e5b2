"""The text of events whose SHA-256 is a segment's digest: the same for every writer, format and server of one stream.

An event is its kind, its transaction's global id, its row within the transaction, the values before and the values after. Each of these
fields and values ends with ``|1``; ``|`` within a text is written ``|0``, and NULL is ``|2``, as in the text of a row. How many values
there are say the kind and the table's columns, so different events of one schema have different texts, also when they are joined.
Positions and times are left out: they differ between a server and its replica. That is version 1 of the text, the only one so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa
import pyarrow.compute as pc

from auditor import canonical

EventTexts = Callable[[pa.RecordBatch], pa.BinaryArray]
"""Returns the text of each event of a batch with the fields of `events.ARROW_SCHEMA`."""


def first_texts(events: pa.RecordBatch) -> pa.BinaryArray:
    """Return the texts of version 1."""
    fields = [events["kind"], _escape(events["gtid"]), events["row"].cast(pa.string())]
    end = pa.scalar("", pa.string())  # what is behind the last separator
    images = [_image(events["before"]), _image(events["after"])]
    head = pc.binary_join_element_wise(*fields, end, canonical.SEPARATOR)
    return pc.binary_join_element_wise(head, *images, "").cast(pa.binary())


TEXTS: dict[int, EventTexts] = {1: first_texts}
"""The texts that this release makes, by their version; a digest is compared with one of the same version alone.

A release that changes the text adds a version and keeps the one before, so that its writers can be compared with those of the release
before it while both run."""

SIZED_BY = 1
"""The version whose text decides how large an event is. It stays, whichever versions are hashed: else writers would cut at other places."""


def choose_versions(writers: Iterable[Iterable[int] | None]) -> tuple[int, ...]:
    """Return the versions in which a writer hashes its events, the newest first.

    That is the newest one, and for each other writer the newest that both make. ``writers`` are the versions that the others make; None for
    a writer that has not said so, which may be of the release before.
    """
    newest = max(TEXTS)
    before = max((version for version in TEXTS if version < newest), default=newest)
    chosen = {newest}
    for versions in writers:
        chosen |= {before} if versions is None else {max(TEXTS.keys() & set(versions), default=newest)}
    return tuple(sorted(chosen, reverse=True))


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
