"""The pointer of a table: one JSON document that lists the files of its newest version, and is replaced at once.

``<table>/current.json`` beside ``<table>/_files/*.parquet``. Readers take the files that it lists, and no others: those of older versions
lie beside them for a while. Engines that read folders leave out names that begin with an underscore, so that the folder itself is never
read as if it were the table.

In a file system the pointer is replaced by a rename under a lock; in S3 by a PUT on condition that it is still the one that was read.
https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dialects import errors, extras

NAME, FOLDER = "current.json", "_files"
FORMAT = 1


class Overtaken(Exception):
    """Another process has replaced the pointer meanwhile."""


@dataclass(frozen=True, slots=True)
class File:
    """A file of rows."""

    path: str
    """Where it is, relative to the table."""
    rows: int
    size: int


@dataclass(frozen=True, slots=True)
class Gone:
    """A file of older versions."""

    path: str
    since: float
    """When it was left out, in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """What a table consists of."""

    version: int
    columns: Mapping[str, str]
    """DuckDB's types by the columns' names, in order."""
    files: Sequence[File] = ()
    marks: Mapping[str, int] = field(default_factory=dict)
    """Numbers of the applications that wrote it, by their names: rows and numbers change together."""
    gone: Sequence[Gone] = ()

    def text(self) -> str:
        """Return the document."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1)


def parse(text: str, where: str) -> Pointer:
    """Return the pointer that a document is. Raises StatementRefused for one of another format."""
    try:
        fields = json.loads(text)
        if fields.pop("format") != FORMAT:
            raise ValueError
        files, gone = [File(**file) for file in fields.pop("files")], [Gone(**file) for file in fields.pop("gone")]
        return Pointer(**fields, files=files, gone=gone)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise errors.StatementRefused(
            f"{where} is no pointer of format {FORMAT}; a newer version of the auditor may have written it"
        ) from None


class LocalPointer:
    """The pointer of a table in a file system, which has renames and locks."""

    def __init__(self, uri: str) -> None:
        self.path = Path(uri, NAME)

    def read(self) -> tuple[Pointer, str] | None:
        """Return the pointer, and what `replace` compares; None if there is no table."""
        try:
            text = self.path.read_text()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return parse(text, str(self.path)), text

    def replace(self, pointer: Pointer, known: str | None) -> None:
        """Put a pointer in the place of the one that `read` returned; of none with None. Raises Overtaken, and OSError."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._locked():
            current = self.read()
            if (current[1] if current else None) != known:
                raise Overtaken
            unfinished = self.path.with_suffix(".unfinished")
            with unfinished.open("w") as handle:
                handle.write(pointer.text())
                handle.flush()
                os.fsync(handle.fileno())
            unfinished.replace(self.path)
            sync(self.path.parent)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self.path.with_name(".lock").open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)  # closing it, and the end of the process, unlock it
            yield


class S3Pointer:
    """The pointer of a table in S3."""

    def __init__(self, uri: str, options: Mapping[str, str]) -> None:
        self.bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        self.key = f"{prefix}/{NAME}".lstrip("/")
        self.uri, self.options = f"s3://{self.bucket}/{self.key}", options

    def read(self) -> tuple[Pointer, str] | None:
        """Return the pointer, and what `replace` compares; None if there is no table."""
        with self._failures():
            client = self._client()
            try:
                response = client.get_object(Bucket=self.bucket, Key=self.key)
            except client.exceptions.NoSuchKey:
                return None
            return parse(response["Body"].read().decode(), self.uri), str(response["ETag"])

    def replace(self, pointer: Pointer, known: str | None) -> None:
        """Put a pointer in the place of the one that `read` returned; of none with None. Raises Overtaken and Unreachable."""
        condition, text = {"IfMatch": known} if known else {"IfNoneMatch": "*"}, pointer.text()
        try:
            with self._failures():
                client = self._client()
                client.put_object(Bucket=self.bucket, Key=self.key, Body=text.encode(), ContentType="application/json", **condition)
        except Overtaken:
            current = self.read()  # the client repeats a PUT whose answer was lost: then it overtook itself
            if current is None or current[0].text() != text:
                raise

    def _client(self) -> Any:
        extras.require("a table in S3", "s3")
        import boto3
        from botocore.config import Config

        place = {"endpoint_url": self.options.get("aws_endpoint_url"), "region_name": self.options.get("aws_region")}
        limits = Config(connect_timeout=10, read_timeout=60, retries={"total_max_attempts": 3})
        return boto3.client("s3", config=limits, **place)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Raise Overtaken where a condition was not fulfilled, and Unreachable for any other error of the client."""
        try:
            yield
        except Exception as error:
            if type(error).__module__.partition(".")[0] not in ("botocore", "boto3"):
                raise
            status = getattr(error, "response", {}).get("ResponseMetadata", {}).get("HTTPStatusCode")
            if status in (409, 412):
                raise Overtaken from error
            raise errors.Unreachable(f"{self.uri}: {error}; check the bucket, the network and the rights") from error


def pointer_of(uri: str, options: Mapping[str, str]) -> LocalPointer | S3Pointer:
    """Return the pointer of the table at a path, or at an URL of S3."""
    return S3Pointer(uri, options) if uri.startswith("s3://") else LocalPointer(uri)


def sync(folder: Path) -> None:
    """Let the names in a folder survive a power failure."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
