"""A folder of S3 for parts: what a cluster's hosts share without a file system between them. Each file appears as a whole or not at all.

Credentials, region and endpoint come from the environment of each process, as boto3 finds them.
"""

from __future__ import annotations

import datetime as dt
import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, BinaryIO, TypeAlias

from dialects import extras

AT_ONCE = 1000
"""Files that one request deletes. https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObjects.html"""

PIECE = 1 << 20
"""Bytes that are held of a file that is copied."""


@dataclass(frozen=True, slots=True)
class S3Folder:
    """What is below ``s3://bucket/prefix``; its methods raise OSError as those of a file system do."""

    url: str

    def __str__(self) -> str:
        return self.url

    @property
    def bucket(self) -> str:
        """Return the bucket's name."""
        return self.url.removeprefix("s3://").partition("/")[0]

    def key(self, path: str) -> str:
        """Return the key of a file."""
        prefix = self.url.removeprefix("s3://").partition("/")[2].strip("/")
        return f"{prefix}/{path}".lstrip("/")

    def put(self, path: str, content: bytes | BinaryIO) -> None:
        """Write a file, in the place of one of this name, by one request."""
        with _failures(path):
            _client().put_object(Bucket=self.bucket, Key=self.key(path), Body=content)

    def put_locked(self, path: str, content: bytes, until: dt.datetime) -> None:
        """Write a file that nobody can change or delete before a moment, not even the account's owner.

        Raises OSError also where the bucket took the file and did not lock it.
        https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-lock.html
        """
        with _failures(path):
            lock = {"ObjectLockMode": "COMPLIANCE", "ObjectLockRetainUntilDate": until, "ChecksumAlgorithm": "SHA256"}
            _client().put_object(Bucket=self.bucket, Key=self.key(path), Body=content, **lock)
            head = _client().head_object(Bucket=self.bucket, Key=self.key(path))
        if head.get("ObjectLockMode") != "COMPLIANCE":
            raise OSError(errno.EPERM, "the bucket does not lock objects; create it with object lock", path)

    def get(self, path: str) -> bytes:
        """Return the content of a small file. Raises FileNotFoundError."""
        with _failures(path):
            content: bytes = _client().get_object(Bucket=self.bucket, Key=self.key(path))["Body"].read()
            return content

    def copy_to(self, path: str, file: IO[bytes]) -> None:
        """Append the content of a file to one that is open. Raises FileNotFoundError."""
        with _failures(path):
            for piece in _client().get_object(Bucket=self.bucket, Key=self.key(path))["Body"].iter_chunks(PIECE):
                file.write(piece)

    def names(self) -> Iterator[str]:
        """Yield the paths of all files."""
        with _failures(self.url):
            pages = _client().get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=self.key(""))
            for page in pages:
                for entry in page.get("Contents", ()):
                    yield str(entry["Key"]).removeprefix(self.key(""))

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files, some of which may be gone already."""
        listed = [{"Key": self.key(path)} for path in paths]
        with _failures(self.url):
            for start in range(0, len(listed), AT_ONCE):
                done = _client().delete_objects(Bucket=self.bucket, Delete={"Objects": listed[start : start + AT_ONCE], "Quiet": True})
                if failed := done.get("Errors"):
                    raise OSError(errno.EIO, f"{failed[0]['Key']}: {failed[0]['Message']}")

    def check(self) -> None:
        """Check that the bucket is there and may be read."""
        with _failures(self.url):
            _client().head_bucket(Bucket=self.bucket)


Folder: TypeAlias = Path | S3Folder
"""Where parts are."""


def folder_at(path: str) -> Folder:
    """Return the folder of a path, or of a URL of S3."""
    return S3Folder(path.rstrip("/")) if path.startswith("s3://") else Path(path)


def write_note(root: Folder, name: str, text: str) -> None:
    """Write a small file beside the parts, which appears as a whole or not at all. Raises OSError."""
    if isinstance(root, S3Folder):
        root.put(name, text.encode())
        return
    unfinished = root / f"{name}.new"
    unfinished.write_text(text)
    unfinished.replace(root / name)


def read_note(root: Folder, name: str) -> str | None:
    """Return a small file beside the parts; None if there is none. Raises OSError."""
    try:
        return root.get(name).decode() if isinstance(root, S3Folder) else (root / name).read_text()
    except FileNotFoundError:
        return None


@cache
def _client() -> Any:
    """Return this process's client, which takes a while to make; its threads share it."""
    import boto3
    from botocore.config import Config

    return boto3.client("s3", config=Config(connect_timeout=10, read_timeout=60, retries={"total_max_attempts": 4, "mode": "standard"}))


@contextmanager
def _failures(place: str) -> Iterator[None]:
    """Raise errors of the client as OSError."""
    try:
        yield
    except ImportError:
        raise OSError(errno.ENOENT, extras.explain("a folder in S3", ["boto3"], "s3")) from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("botocore", "boto3"):
            raise
        code = getattr(error, "response", {}).get("Error", {}).get("Code")
        raise OSError(errno.ENOENT if code in ("NoSuchKey", "404") else errno.EIO, f"{error}", place) from error
