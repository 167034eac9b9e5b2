"""Read and change the files of staged events, as somebody does who may write there."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

Rows = list[dict[str, Any]]


def read_rows(path: Path) -> Rows:
    """Return the events of a file, of all its parts."""
    rows: Rows = pa.ipc.open_stream(path).read_all().to_pylist()
    return rows


def write_rows(path: Path, rows: Rows, schema: pa.Schema | None = None) -> tuple[tuple[tuple[int, int], ...], str]:
    """Write events in the place of those of a file, as one block, and return where it is and its checksum."""
    schema = schema or pa.ipc.open_stream(path).schema
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(pa.RecordBatch.from_pylist([], schema=schema))  # with which the schema is written
        begin = sink.tell()
        writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=schema))
        end = sink.tell()
    content = sink.getvalue().to_pybytes()
    path.write_bytes(content)
    return ((begin, end - begin),), hashlib.sha256(content[begin:end]).hexdigest()


def change_rows(path: Path, change: Callable[[Rows], Rows]) -> tuple[tuple[tuple[int, int], ...], str]:
    """Change the events of a file; return where they are then and their checksum."""
    return write_rows(path, change(read_rows(path)))
