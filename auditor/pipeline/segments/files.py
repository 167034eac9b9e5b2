"""An archive of segments, with a file for each: Parquet, or CSV of one dialect, in a folder or below an S3 URL, for other programs to read.

Each file appears as a whole or not at all.

The CSV is RFC 4180 in UTF-8 with a header and LF; every text stands in quotation marks, and NULL is an empty field without them. ``time``
is ISO 8601 in UTC with six digits of the second; ``before`` and ``after`` are JSON arrays of texts and nulls.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from auditor.errors import SegmentFailed
from auditor.model import Segment
from auditor.pipeline.events import ARROW_SCHEMA
from auditor.pipeline.folders import FILE_MODE, FOLDER_MODE
from auditor.pipeline.segments.folders import Blocks, SegmentFolder, Stretch
from auditor.pipeline.staged_parts import ROWS_PER_GROUP, folder_name
from dialects import extras

Format = Literal["parquet", "csv"]

LISTS = ("before", "after")

ONE_REQUEST = 5 << 30
"""Bytes of a segment that S3 takes by one request, so that a process that is killed leaves no pieces there."""

_CSV = pcsv.WriteOptions(include_header=True, quoting_style="all_valid")
_TEXTS = {name: pa.string() for name in ARROW_SCHEMA.names}


@dataclass(frozen=True, slots=True)
class Archive(SegmentFolder):
    """A local folder, or ``s3://bucket/prefix``, whose files can be encrypted by a key of AWS KMS."""

    path: str
    form: Format
    kms_key: str | None = None

    @property
    def url(self) -> str:
        """The folder's path, or its URL."""
        return self.path

    @property
    def is_s3(self) -> bool:
        """Return whether the files are objects of S3."""
        return self.path.startswith("s3://")

    def write(self, stretches: Iterable[Stretch], *, are_copies: bool = False) -> list[tuple[str, Blocks]]:
        """Write a file for each segment, in the place of one of its name."""
        return [(self._write(stretch, f".{uuid4().hex[:8]}" if are_copies else ""), ()) for stretch in stretches]

    def _write(self, stretch: Stretch, mark: str) -> str:
        path = f"{folder_name(stretch.table)}/{stretch.first:019d}-{stretch.first_row}{mark}.{self.form}"
        with self._failures(path), tempfile.TemporaryDirectory(dir=None if self.is_s3 else self._made(path)) as temporary:
            unfinished = Path(temporary) / "unfinished"
            with os.fdopen(os.open(unfinished, os.O_CREAT | os.O_WRONLY, FILE_MODE), "wb") as handle:
                (_write_parquet if self.form == "parquet" else _write_csv)(handle, stretch.events)
                handle.flush()
                os.fsync(handle.fileno())
            if self.is_s3:
                self._upload(unfinished, path)
            else:
                unfinished.replace(Path(self.path) / path)
        return path

    def read(self, segment: Segment) -> pa.Table:
        """Return the events of a segment's file."""
        path = segment.path
        if segment.blocks:
            raise SegmentFailed(f"the segment {path} of {segment.table} is in the staging's folder; remove segment: path to read it")
        with self._failures(path):
            if not self.is_s3:
                return _read(Path(self.path) / path)
            with tempfile.TemporaryDirectory() as temporary:
                found = Path(temporary, Path(path).name)
                bucket, key = self._object(path)
                self._client().download_file(bucket, key, str(found))
                return _read(found)

    def place_of(self, segment: Segment) -> str:
        """Return the path of a segment's file."""
        return f"{self.path}/{segment.path}"

    def _made(self, path: str) -> Path:
        """Create the folders of a local file, readable by their owner alone, and return the inmost."""
        folder = Path(self.path)
        folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        (folder / path).parent.mkdir(mode=FOLDER_MODE, exist_ok=True)
        return (folder / path).parent

    def _upload(self, file: Path, path: str) -> None:
        bucket, key = self._object(path)
        extra = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": self.kms_key} if self.kms_key else {}
        client = self._client()
        from boto3.s3.transfer import TransferConfig

        whole = TransferConfig(multipart_threshold=ONE_REQUEST)
        client.upload_file(str(file), bucket, key, ExtraArgs=extra, Config=whole)

    def _object(self, path: str) -> tuple[str, str]:
        bucket, _, prefix = self.path.removeprefix("s3://").partition("/")
        return bucket, "/".join(one for one in (prefix.strip("/"), path) if one)

    def _client(self) -> Any:
        extras.require("a folder of segments in S3", "s3")
        import boto3  # which takes a while to import

        return boto3.client("s3")

    @contextmanager
    def _failures(self, path: str) -> Iterator[None]:
        """Raise what fails in the block as SegmentFailed, with the file's place."""
        try:
            yield
        except FileNotFoundError as error:
            raise SegmentFailed(f"the segment {self.path}/{path} is missing; check that this process reaches its folder") from error
        except (OSError, pa.ArrowException, ValueError, KeyError) as error:  # of an edited CSV: no JSON, no UTF-8, or another header
            raise SegmentFailed(f"the segment {self.path}/{path}: {error}") from error
        except Exception as error:
            if not self.is_s3 or type(error).__module__.partition(".")[0] not in ("botocore", "boto3"):
                raise
            raise SegmentFailed(
                f"the segment {self.path}/{path}: {error}; check the bucket, and the credentials of this process"
            ) from error


def _write_parquet(handle: Any, batches: Iterable[pa.RecordBatch]) -> None:
    with pq.ParquetWriter(handle, ARROW_SCHEMA, compression="zstd") as writer:
        for group in _groups(batches):
            writer.write_table(group, row_group_size=ROWS_PER_GROUP)


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield events in groups of a fixed number, so that a file's bytes do not depend on the batches in which they were staged."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        left = batch
        while rows + left.num_rows >= ROWS_PER_GROUP:
            wanted = ROWS_PER_GROUP - rows
            yield pa.Table.from_batches([*held, left.slice(0, wanted)]).combine_chunks()
            held, rows, left = [], 0, left.slice(wanted)
        if left.num_rows:
            held, rows = [*held, left], rows + left.num_rows
    if held:
        yield pa.Table.from_batches(held).combine_chunks()


def _write_csv(handle: Any, batches: Iterable[pa.RecordBatch]) -> None:
    with pcsv.CSVWriter(handle, pa.schema(_TEXTS), write_options=_CSV) as writer:
        for batch in batches:
            writer.write_batch(_as_texts(batch))


def _as_texts(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the events with every field as a text."""
    texts = {name: batch[name].cast(pa.string()) for name in ARROW_SCHEMA.names if name not in LISTS and name != "time"}
    texts["time"] = pc.strftime(batch["time"], format="%Y-%m-%dT%H:%M:%SZ")
    for name in LISTS:
        values = (None if row is None else json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in batch[name].to_pylist())
        texts[name] = pa.array(values, pa.string())
    return pa.RecordBatch.from_pydict({name: texts[name] for name in ARROW_SCHEMA.names})


def _read(path: Path) -> pa.Table:
    if path.suffix == ".parquet":
        return pq.read_table(path, schema=ARROW_SCHEMA)
    options = pcsv.ConvertOptions(column_types=_TEXTS, strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""])
    texts = pcsv.read_csv(path, parse_options=pcsv.ParseOptions(newlines_in_values=True), convert_options=options)
    columns = {name: texts[name] for name in texts.column_names}
    for name in LISTS:
        rows = [None if row is None else json.loads(row) for row in texts[name].to_pylist()]
        columns[name] = pa.chunked_array([pa.array(rows, ARROW_SCHEMA.field(name).type)])
    return pa.Table.from_arrays([columns[field.name].cast(field.type) for field in ARROW_SCHEMA], schema=ARROW_SCHEMA)
