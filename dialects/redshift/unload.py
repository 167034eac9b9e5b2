"""Large results of Redshift by way of S3: UNLOAD writes them as Parquet files from all nodes, and they are read from there.

A cursor's result passes the leader node, which keeps all of it meanwhile; an unloaded one does not. Where the URL has a bucket and a
role, rows are fetched so::

    redshift://auditor:...@host/db?unload_to=s3://bucket/auditor&unload_role=arn:aws:iam::123456789012:role/unload&region=eu-central-1

The role writes below ``unload_to`` (s3:PutObject). This process lists, reads and deletes there, with the credentials of the URL
(``access_key_id`` and so on, or ``profile``), or else of its environment. https://docs.aws.amazon.com/redshift/latest/dg/r_UNLOAD.html
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from dialects.base import ColumnBatch
from dialects.errors import BadUrl, UnloadFailed
from dialects.session import FETCHED_ROWS
from dialects.url import Url

ROWS = 100_000
"""Expected rows of a result from which it is unloaded: for fewer, writing and reading files takes longer than a cursor."""

FILE_SIZE = "256 MB"
"""The most that one file holds; each slice writes files of its own."""

_BUCKET = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[\w!.*()/-]*)?")
_ROLE = re.compile(r"default|arn:aws[\w-]*:iam::\d{12}:role/[\w+=,.@/-]+")

_clients: dict[tuple[frozenset[tuple[str, str]], str | None], Any] = {}
"""The clients of this process, by the options of their URLs and by where S3 is. They renew credentials of a role automatically."""


@dataclass(frozen=True, slots=True)
class Unloading:
    """Where results are unloaded."""

    to: str
    """The folder below which each result has one of its own: ``s3://bucket/folder``."""
    role: str
    """The role by which Redshift writes there: its ARN, or ``default``."""
    url: Url
    """The connection's URL, for messages, and for credentials and region."""

    def statement(self, sql: str, folder: str) -> str:
        """Return the UNLOAD of a SELECT to files in ``folder``."""
        quoted = sql.strip().replace("'", "''")
        return f"UNLOAD ('{quoted}') TO '{folder}' IAM_ROLE {self._role} FORMAT AS PARQUET MANIFEST MAXFILESIZE {FILE_SIZE}"

    def fetch(
        self, sql: str, execute: Callable[[str], None], count: Callable[[], int], received: Callable[[int], None]
    ) -> Iterator[ColumnBatch]:
        """Unload the result of a SELECT and yield it in batches of columns; then delete its files.

        ``execute`` runs a statement, ``count`` returns how many rows the last UNLOAD of the session wrote, and ``received`` adds the
        bytes of each file to what the session received. Raises UnloadFailed if the files cannot be read, or hold other rows than were
        written, and what ``execute`` raises; an UNLOAD that fails or is cancelled may have written files, so these are deleted as well.
        """
        folder = f"{self.to.rstrip('/')}/{uuid.uuid4().hex}/"
        try:
            execute(self.statement(sql, folder))
            written, read = count(), 0
            with self._failures(folder):
                files = self._file_system()
                for path, size in manifest_paths(files, folder) if written else ():  # without rows there may be no manifest
                    received(size)
                    for columns in read_batches(files, path):
                        read += len(columns[0])
                        yield columns
        except BaseException:
            with suppress(Exception):  # the first failure matters more
                self.delete(folder)
            raise
        with self._failures(folder):
            self.delete(folder)
        if read != written:
            raise UnloadFailed(f"{self.url}: Redshift unloaded {written:,} rows to {folder}, and its files held {read:,}; run it again")

    def copy_statement(self, table: str, columns: Sequence[str], manifest: str) -> str:
        """Return the COPY of the files of a manifest."""
        return (
            f"COPY {table} ({', '.join(columns)}) FROM '{manifest}' IAM_ROLE {self._role} MANIFEST DELIMITER '\\t' ESCAPE"
            " DATEFORMAT 'auto' TIMEFORMAT 'auto' COMPUPDATE OFF STATUPDATE OFF"
        )

    @property
    def _role(self) -> str:
        return "default" if self.role == "default" else f"'{self.role}'"

    @contextmanager
    def _failures(self, folder: str) -> Iterator[None]:
        """Raise what fails in the block as UnloadFailed."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except (OSError, ValueError, BotoCoreError, ClientError) as error:  # pyarrow's errors are among the first two
            raise UnloadFailed(
                f"{self.url}: what was unloaded to {folder} cannot be read: {error}; allow this process to list, read, write and delete"
                " there, or remove unload_to from the URL"
            ) from error

    def _file_system(self) -> Any:
        from pyarrow.fs import S3FileSystem

        session = self._credentials()
        credentials = session.get_credentials()
        keys = credentials.get_frozen_credentials() if credentials else None
        patience = self.url.patience
        return S3FileSystem(
            access_key=keys and keys.access_key,
            secret_key=keys and keys.secret_key,
            session_token=keys and keys.token,
            region=session.region_name,
            endpoint_override=os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL"),  # as boto3 reads them
            connect_timeout=patience,
            request_timeout=6 * patience,
        )

    def delete(self, folder: str) -> int:
        """Delete the files of a folder and return their number; pyarrow would leave an empty object in the place of the folder above."""
        bucket, _, prefix = folder.removeprefix("s3://").partition("/")
        client, count = self.client(), 0
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
            if objects := [{"Key": item["Key"]} for item in page.get("Contents", [])]:
                client.delete_objects(Bucket=bucket, Delete={"Objects": objects})
                count += len(objects)
        return count

    def client(self) -> Any:
        """Return a client of S3 with the URL's credentials, or those of the environment; to make one takes 100 ms, so that it is kept."""
        from botocore.config import Config

        key = (frozenset(self.url.options.items()), os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL"))
        if key not in _clients:
            patience = self.url.patience
            waits = Config(connect_timeout=patience, read_timeout=6 * patience, retries={"max_attempts": 2})
            _clients[key] = self._credentials().client("s3", config=waits)
        return _clients[key]

    def _credentials(self) -> Any:
        import boto3

        options = self.url.options
        return boto3.Session(
            aws_access_key_id=options.get("access_key_id"),
            aws_secret_access_key=options.get("secret_access_key"),
            aws_session_token=options.get("session_token"),
            profile_name=options.get("profile"),
            region_name=options.get("region"),
        )


def unloading(url: Url) -> Unloading | None:
    """Return where a connection's large results are unloaded; None if its URL has no ``unload_to``. Raises BadUrl."""
    to, role = url.options.get("unload_to"), url.options.get("unload_role")
    if to is None and role is None:
        return None
    if to is None or not _BUCKET.fullmatch(to):
        raise BadUrl(f"{url}: unload_to must be a folder of a bucket, as s3://bucket/folder, beside unload_role; not {to!r}")
    if role is None or not _ROLE.fullmatch(role):
        raise BadUrl(f"{url}: unload_role must be the ARN of a role that may write below unload_to, or the word default; not {role!r}")
    return Unloading(to, role, url)


def manifest_paths(files: Any, folder: str) -> Iterator[tuple[str, int]]:
    """Yield path and size of each file that the manifest lists."""
    with files.open_input_stream(f"{folder.removeprefix('s3://')}manifest") as stream:
        entries = json.loads(stream.read())["entries"]
    for entry in entries:
        yield entry["url"].removeprefix("s3://"), int(entry.get("meta", {}).get("content_length", 0))


def read_batches(files: Any, path: str) -> Iterator[ColumnBatch]:
    """Yield the rows of a Parquet file, by columns, in batches."""
    from pyarrow.parquet import ParquetFile

    with files.open_input_file(path) as opened, ParquetFile(opened) as parquet:
        for batch in parquet.iter_batches(batch_size=FETCHED_ROWS):
            yield [column.to_pylist() for column in batch.columns]
