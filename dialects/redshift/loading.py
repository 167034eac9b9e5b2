"""How rows are loaded into Redshift: from files in S3, by COPY of a manifest.

The files are lines of text, not Parquet: as text every value is written as its type reads it (a VARBYTE's digits, a SUPER's document, a
decimal's digits), and what does not fit fails the whole COPY; COPY of Parquet matches columns by their order alone, and takes few options.
https://docs.aws.amazon.com/redshift/latest/dg/copy-parameters-data-format.html

The folder is that of the URL's ``unload_to``, and the role that of its ``unload_role``; see `unload`. This process needs
s3:PutObject, s3:ListBucket and s3:DeleteObject there, the role s3:GetObject and s3:ListBucket. No statement holds a key.
"""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from dialects.errors import AccessDenied, BadUrl, FilesUnreachable, NoSuchObject, StatementRefused
from dialects.kinds import Kind
from dialects.redshift.unload import LINES, Unloading, unloading
from dialects.session import DriverLoading, DriverSession
from dialects.text_lines import lines_in_utf8, text_lines
from dialects.url import Url
from dialects.writing import StoredFile

log = logging.getLogger(__name__)

LONGEST_LINE = 4 << 20
"""Bytes of the longest row that COPY reads. https://docs.aws.amazon.com/redshift/latest/dg/r_COPY.html"""

HELD_BYTES = 8 << 20
"""Bytes of a file's lines that are held in memory; beyond that they lie on disk until they are sent."""

ONE_REQUEST = 5 << 30
"""Bytes of a file that is sent by one request, so that it is there as a whole or not at all: of a larger one, a process that is killed
leaves pieces that no list of the folder shows. https://docs.aws.amazon.com/AmazonS3/latest/userguide/upload-objects.html"""

SLICES = "SELECT COUNT(*) FROM stv_slices WHERE type = 'D'"
"""How many slices hold data, each of which reads a file at a time. Serverless and Multi-AZ refuse STV relations.
https://docs.aws.amazon.com/redshift/latest/dg/r_STV_SLICES.html"""

WHY_NO_FILES = "its files go through S3: add unload_to=s3://bucket/folder and unload_role=ARN to write: url"


class RedshiftLoading(DriverLoading):
    """How rows are written over Amazon's driver, and from files in S3."""

    def __init__(self, session: DriverSession, folder: Callable[[], Unloading | None]) -> None:
        """``folder`` returns where files go; None if the URL does not say so."""
        super().__init__(session)
        self._folder = folder
        self._slices: int | None = None

    @property
    def _unloading(self) -> Unloading:
        folder = self._folder()
        assert folder
        return folder

    def why_no_files(self) -> str:
        return WHY_NO_FILES if self._folder() is None else ""

    def load_files(self, table: str, columns: Mapping[str, Kind], paths: Sequence[str], folder: str) -> None:
        stored = []
        try:
            for number, path in enumerate(paths):
                with Path(path).open("rb") as file:
                    url = store_file(self._unloading, folder, f"{number:06}.txt", file)
                stored.append(StoredFile(url, Path(path).stat().st_size, 0))
            self.copy_stored(table, list(columns), folder, stored)
        finally:
            with suppress(FilesUnreachable):  # the first failure matters more, and the caller can delete them
                self.remove_stored(folder)

    def copy_stored(self, table: str, columns: Sequence[str], folder: str, files: Sequence[StoredFile]) -> None:
        copy_stored(self._unloading, table, columns, folder, files, self.session.execute)

    def analyze(self, table: str) -> str:
        notices = self.session.connection.notices
        notices.clear()
        super().analyze(table)
        said = [(notice.get(b"S", b"").decode(), notice.get(b"M", b"").decode()) for notice in notices]
        # That too little has changed for new statistics comes as INFO. https://docs.aws.amazon.com/redshift/latest/dg/r_ANALYZE.html
        return " ".join(f"{severity}: {message}" for severity, message in said if severity == "WARNING")

    def count_slices(self) -> int:
        if self._slices is None:
            try:
                [(count,)] = self.session.query(SLICES)
                self._slices = int(count)
            except (AccessDenied, NoSuchObject, StatementRefused) as error:
                log.info("%s does not say how many slices it has: %s", self.session.server, error, extra={"action": "slices_unknown"})
                self._slices = 0
        return self._slices

    def remove_stored(self, folder: str) -> int:
        return remove_stored(self._unloading, folder)


def folder_of_files(url: Url) -> Unloading:
    """Return where files go. Raises BadUrl if the URL does not say so."""
    folder = unloading(url)
    if folder is None:
        raise BadUrl(f"{url}: {WHY_NO_FILES}")
    return folder


def store_lines(to: Unloading, folder: str, name: str, columns: Mapping[str, Kind], rows: Iterable[Any]) -> StoredFile:
    """Write the rows of Arrow tables of texts to a file. Raises StatementRefused for a row that COPY does not read, FilesUnreachable."""
    count = size = 0
    with tempfile.SpooledTemporaryFile(HELD_BYTES) as file:
        for table in rows:
            lines = text_lines(columns, table, LINES)
            _check_lengths(lines)
            size += file.write(lines_in_utf8(lines))
            count += table.num_rows
        file.seek(0)
        return StoredFile(store_file(to, folder, name, file), size, count)


def store_file(to: Unloading, folder: str, name: str, file: IO[bytes]) -> str:
    """Write a file below a folder, and return its URL. Raises FilesUnreachable."""
    url = f"{_below(to, folder)}{name}"
    bucket, _, key = url.removeprefix("s3://").partition("/")
    from boto3.s3.transfer import TransferConfig

    _attempt(to, url, lambda client: client.upload_fileobj(file, bucket, key, Config=TransferConfig(multipart_threshold=ONE_REQUEST)))
    return url


def copy_stored(
    to: Unloading, table: str, columns: Sequence[str], folder: str, files: Sequence[StoredFile], execute: Callable[[str], None]
) -> None:
    """Copy files into a table by ``execute``; names are SQL text. Raises FilesUnreachable, and what ``execute`` raises.

    Each file is mandatory and has its length, so that none is missed.
    https://docs.aws.amazon.com/redshift/latest/dg/loading-data-files-using-manifest.html
    """
    entries = [{"url": file.url, "mandatory": True, "meta": {"content_length": file.bytes}} for file in files]
    manifest = f"{_below(to, folder)}manifest"
    bucket, _, key = manifest.removeprefix("s3://").partition("/")
    body = json.dumps({"entries": entries}).encode()
    _attempt(to, manifest, lambda client: client.put_object(Bucket=bucket, Key=key, Body=body))
    execute(to.copy_statement(table, columns, manifest))


def remove_stored(to: Unloading, folder: str) -> int:
    """Delete what lies below a folder, and return how many files that were. Raises FilesUnreachable."""
    where = _below(to, folder)
    return int(_attempt(to, where, lambda _: to.delete(where)))


def _below(to: Unloading, folder: str) -> str:
    return f"{to.to.rstrip('/')}/{folder}/"


def _check_lengths(lines: Any) -> None:
    import pyarrow.compute as pc

    longest = pc.max(pc.binary_length(lines)).as_py() or 0
    if longest >= LONGEST_LINE:
        raise StatementRefused(
            f"a row takes {longest:,} bytes as text, and COPY reads {LONGEST_LINE:,} at most; exclude the column that is so long"
            " (columns: exclude), or shorten the value in the source"
        )


def _attempt(to: Unloading, what: str, work: Callable[[Any], Any]) -> Any:
    """Return what ``work`` returns of a client of S3. Raises FilesUnreachable."""
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return work(to.client())
    except (OSError, Boto3Error, BotoCoreError, ClientError) as error:
        raise FilesUnreachable(
            f"{to.url}: {what} cannot be written or deleted: {error}; allow this process s3:PutObject, s3:ListBucket and s3:DeleteObject"
            " there"
        ) from error
