"""Files of a table: writing rows as new ones, and deleting those that no version has any more."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from dialects.delta.pointer import FOLDER, File, sync

if TYPE_CHECKING:
    import pyarrow as pa

FILE_ROWS = 1_000_000
"""Rows of a file at most: what a merge writes again for one changed row."""

SMALL = FILE_ROWS // 4
"""A file of fewer rows is written again together with new rows, so that many small merges do not leave many small files."""


def write_files(uri: str, options: Mapping[str, str], version: int, batches: Iterable[pa.RecordBatch]) -> list[File]:
    """Write rows as files that belong to this version, and return them; none without rows. Raises OSError."""
    written: list[File] = []
    left = (batch for batch in batches if batch.num_rows)
    first = next(left, None)
    while first is not None:
        path = f"{FOLDER}/{version:09}-{len(written):04}-{secrets.token_hex(4)}.parquet"
        rows, size, first = _write_file(uri, options, path, first, left)
        written.append(File(path, rows, size))
    if written and "://" not in uri:
        sync(Path(uri, FOLDER))
    return written


def _write_file(
    uri: str, options: Mapping[str, str], path: str, first: pa.RecordBatch, left: Iterator[pa.RecordBatch]
) -> tuple[int, int, pa.RecordBatch | None]:
    """Write batches into a file, each as a row group, and return its rows, its bytes, and the first batch of the next one."""
    import pyarrow.parquet as pq

    rows = 0
    batch: pa.RecordBatch | None = first
    with _opened(uri, options, path) as handle:
        with pq.ParquetWriter(handle, first.schema, compression="zstd") as writer:
            while batch is not None and (not rows or rows + batch.num_rows <= FILE_ROWS):
                writer.write_batch(batch)
                rows += batch.num_rows
                batch = next(left, None)
        handle.flush()
        size = int(handle.tell())
        if "://" not in uri:
            os.fsync(handle.fileno())
    return rows, size, batch


def _opened(uri: str, options: Mapping[str, str], path: str) -> IO[bytes] | Any:
    if "://" in uri:
        return _store(uri, options).open_output_stream(path)
    Path(uri, FOLDER).mkdir(parents=True, exist_ok=True)
    return Path(uri, path).open("xb")


def delete_files(uri: str, options: Mapping[str, str], paths: Sequence[str]) -> None:
    """Delete files that may be gone already. Raises OSError."""
    for path in paths:
        if "://" not in uri:
            Path(uri, path).unlink(missing_ok=True)
        else:
            _store(uri, options).delete_file(path)


def list_files(uri: str, options: Mapping[str, str]) -> dict[str, float]:
    """Return the files that lie below a table, with the times (seconds since 1970) at which they were written. Raises OSError."""
    if "://" not in uri:
        folder = Path(uri, FOLDER)
        return {f"{FOLDER}/{file.name}": file.stat().st_mtime for file in folder.iterdir()} if folder.is_dir() else {}
    import pyarrow.fs as files

    infos = _store(uri, options).get_file_info(files.FileSelector(FOLDER, allow_not_found=True))
    return {f"{FOLDER}/{info.base_name}": info.mtime.timestamp() for info in infos if info.mtime}


def _store(uri: str, options: Mapping[str, str]) -> Any:
    import pyarrow.fs as files
    from deltalake.fs import DeltaStorageHandler

    return files.PyFileSystem(DeltaStorageHandler(uri, dict(options)))
