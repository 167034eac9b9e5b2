"""Folders in which a pipeline keeps its parts and notes: a local one, or one of S3, which a cluster's hosts share without a file system.

Each file appears as a whole or not at all. What a folder cannot do is said by its class: a property that is None, or what it needs.
"""

from __future__ import annotations

import datetime as dt
import errno
import os
import shutil
import stat
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, BinaryIO, ClassVar

from auditor.errors import PartDamaged, StagingFailed
from dialects import extras

FOLDER_MODE, FILE_MODE = 0o700, 0o600

WRITTEN_BY_OTHERS = 0o022
"""Permissions of a folder that let others than its owner write into it."""

UNFINISHED = ".unfinished"
"""How the names of local files end that are being written."""

AT_ONCE = 1000
"""Files that one request deletes. https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObjects.html"""

PIECE = 1 << 20
"""Bytes that are held of a file that is copied."""

HELD_BYTES = 32 << 20
"""Bytes of a file of S3 up to which a reader holds it in memory."""


class Folder(ABC):
    """Where files are, by their paths below it; its methods raise OSError unless they say otherwise."""

    PACKAGES: ClassVar[Mapping[str, str]] = {}
    """Packages that each process needs to reach it: distributions by module."""

    @abstractmethod
    def __str__(self) -> str:
        """Return its path or URL, from which `folder_at` makes it again."""

    @property
    @abstractmethod
    def buffer(self) -> str:
        """The place whose disk is filled by a file that is being written."""

    @abstractmethod
    def free_bytes(self) -> int | None:
        """Return how many bytes are free on its disk; None if that is not known."""

    def make(self) -> None:
        """Create the folder, if there is none, so that only its owner can read it; of S3, check it. Raises StagingFailed."""
        try:
            self._make()
        except OSError as error:
            raise StagingFailed(
                f"the staging's folder {self} cannot be created: {error.strerror}; create it, or correct staging: path"
            ) from error

    @abstractmethod
    def _make(self) -> None:
        """Create or check the folder."""

    @abstractmethod
    def new_file(self, folder: str) -> NewFile:
        """Begin a file in a folder below, where it takes its place once it is finished. Raises StagingFailed where others may write."""

    @abstractmethod
    def put(self, path: str, content: bytes | BinaryIO) -> None:
        """Write a file, in the place of one of this name."""

    @abstractmethod
    def get(self, path: str) -> bytes:
        """Return the content of a small file. Raises FileNotFoundError."""

    @abstractmethod
    def open(self, path: str) -> IO[bytes]:
        """Return a file, opened for reading. Raises FileNotFoundError, and PartDamaged where something else has its name."""

    @abstractmethod
    def read(self, path: str, offset: int, size: int) -> bytes:
        """Return so many bytes of a file, or those that it has there. Raises as `open` does."""

    @abstractmethod
    def size(self, path: str) -> int:
        """Return how many bytes a file has. Raises FileNotFoundError."""

    @abstractmethod
    def names(self) -> Iterator[str]:
        """Yield the paths of all files in folders below it."""

    @abstractmethod
    def delete(self, paths: Iterable[str]) -> None:
        """Delete files, some of which may be gone already."""

    @abstractmethod
    def clear(self, notes: Sequence[str], endings: tuple[str, ...]) -> None:
        """Delete the files with these endings, and these notes, and nothing else."""

    def read_note(self, name: str) -> str | None:
        """Return a small file; None if there is none."""
        try:
            return self.get(name).decode()
        except FileNotFoundError:
            return None


class NewFile(ABC):
    """A file that is being written, and takes its place in its folder when it is finished."""

    file: BinaryIO

    @abstractmethod
    def finish(self, name: str) -> None:
        """Let the file take its place in its folder under this name, and close it."""

    def abandon(self) -> None:
        """Delete what was written."""
        self.file.close()


@dataclass(frozen=True, slots=True)
class LocalFolder(Folder):
    """A folder of this host, or one that hosts share by a file system."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    @property
    def buffer(self) -> str:
        """The folder itself."""
        return f"the staging's folder {self.path}"

    def free_bytes(self) -> int | None:
        """Return how many bytes are free on its disk; None if that cannot be found out."""
        try:
            return shutil.disk_usage(self.path).free
        except OSError:
            return None

    def _make(self) -> None:
        self.path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)

    def new_file(self, folder: str) -> NewFile:
        """Begin a file under another name, in a folder that only its owner may write to."""
        self.make()
        place = self.path / folder
        place.mkdir(mode=FOLDER_MODE, exist_ok=True)
        if place.is_symlink() or place.stat().st_mode & WRITTEN_BY_OTHERS:
            raise StagingFailed(f"the folder {place} is a link, or others may write into it; find out who made it, and delete it")
        return _LocalFile(place)

    def put(self, path: str, content: bytes | BinaryIO) -> None:
        """Write a file under another name, and rename it."""
        place = self.path / path
        if place.parent != self.path:
            place.parent.mkdir(mode=FOLDER_MODE, exist_ok=True)
        number, name = tempfile.mkstemp(UNFINISHED, f"{place.name}.", place.parent)
        unfinished = Path(name)
        try:
            with os.fdopen(number, "wb") as file:
                if isinstance(content, bytes):
                    file.write(content)
                else:
                    shutil.copyfileobj(content, file, PIECE)
            unfinished.replace(place)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise

    def get(self, path: str) -> bytes:
        """Return the content of a file."""
        return (self.path / path).read_bytes()

    def open(self, path: str) -> IO[bytes]:
        """Open a file for reading that is one itself: no link to another one, and nothing that a reader would wait for."""
        place = self.path / path
        try:
            number = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            raise PartDamaged(f"the part {place} is a link to another file; find out who may write there") from error
        if not stat.S_ISREG(os.fstat(number).st_mode):
            os.close(number)
            raise PartDamaged(f"the part {place} is no file; find out who may write there")
        return os.fdopen(number, "rb")

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Return so many bytes of a file."""
        with self.open(path) as file:
            file.seek(offset)
            return file.read(size)

    def size(self, path: str) -> int:
        """Return how many bytes a file has."""
        return (self.path / path).stat().st_size

    def names(self) -> Iterator[str]:
        """Yield the paths of the files in folders."""
        return (str(path.relative_to(self.path)) for path in self.path.glob("*/*"))

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files."""
        for path in paths:
            (self.path / path).unlink(missing_ok=True)

    def clear(self, notes: Sequence[str], endings: tuple[str, ...]) -> None:
        """Delete notes, and the folders that have such files, or nothing."""
        self.delete(notes)
        for path in self.path.iterdir() if self.path.exists() else ():
            names = [file.name for file in path.iterdir()] if path.is_dir() else [path.name]
            if path.is_dir() and (not names or any(name.endswith(endings) for name in names)):
                shutil.rmtree(path)


class _LocalFile(NewFile):
    def __init__(self, folder: Path) -> None:
        # Another host may still write the same file for a task that counts as lost, in a process of the same number.
        number, name = tempfile.mkstemp(UNFINISHED, dir=folder)
        self._unfinished = Path(name)
        self.file = os.fdopen(number, "wb")

    def finish(self, name: str) -> None:
        """Let the file survive a power failure, and rename it."""
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        self._unfinished.replace(self._unfinished.with_name(name))
        _sync(self._unfinished.parent)

    def abandon(self) -> None:
        """Delete the file, also where closing it fails on a full disk."""
        try:
            self.file.close()
        finally:
            self._unfinished.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    """Let the names in a folder survive a power failure."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


@dataclass(frozen=True, slots=True)
class S3Folder(Folder):
    """What is below ``s3://bucket/prefix``.

    Credentials, region and endpoint come from the environment of each process, as boto3 finds them.
    """

    PACKAGES = {"boto3": "boto3"}

    url: str

    def __str__(self) -> str:
        return self.url

    @property
    def buffer(self) -> str:
        """This host's folder for temporary files: a file is sent by one request, once it is whole."""
        return tempfile.gettempdir()

    def free_bytes(self) -> None:
        """Return None: there is no disk."""

    @property
    def bucket(self) -> str:
        """Return the bucket's name."""
        return self.url.removeprefix("s3://").partition("/")[0]

    def key(self, path: str) -> str:
        """Return the key of a file."""
        prefix = self.url.removeprefix("s3://").partition("/")[2].strip("/")
        return f"{prefix}/{path}".lstrip("/")

    def new_file(self, folder: str) -> NewFile:
        """Begin a file in a local one without a name."""
        return _S3File(self, folder)

    def put(self, path: str, content: bytes | BinaryIO) -> None:
        """Write a file, in the place of one of this name, by one request."""
        with _failures(path):
            s3_client().put_object(Bucket=self.bucket, Key=self.key(path), Body=content)

    def put_locked(self, path: str, content: bytes, until: dt.datetime) -> None:
        """Write a file that nobody can change or delete before a moment, not even the account's owner.

        Raises OSError also where the bucket took the file and did not lock it.
        https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-lock.html
        """
        with _failures(path):
            lock = {"ObjectLockMode": "COMPLIANCE", "ObjectLockRetainUntilDate": until, "ChecksumAlgorithm": "SHA256"}
            s3_client().put_object(Bucket=self.bucket, Key=self.key(path), Body=content, **lock)
            head = s3_client().head_object(Bucket=self.bucket, Key=self.key(path))
        if head.get("ObjectLockMode") != "COMPLIANCE":
            raise OSError(errno.EPERM, "the bucket does not lock objects; create it with object lock", path)

    def get(self, path: str) -> bytes:
        """Return the content of a small file. Raises FileNotFoundError."""
        with _failures(path):
            content: bytes = s3_client().get_object(Bucket=self.bucket, Key=self.key(path))["Body"].read()
            return content

    def open(self, path: str) -> IO[bytes]:
        """Return a copy of a file; a large one is on the disk."""
        with ExitStack() as failed:
            copy = failed.enter_context(tempfile.SpooledTemporaryFile(HELD_BYTES))
            with _failures(path):
                for piece in s3_client().get_object(Bucket=self.bucket, Key=self.key(path))["Body"].iter_chunks(PIECE):
                    copy.write(piece)
            copy.seek(0)
            failed.pop_all()
        return copy

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Return so many bytes of a file, by one request; none where it is shorter."""
        asked = f"bytes={offset}-{offset + size - 1}"
        try:
            with _failures(path):
                content: bytes = s3_client().get_object(Bucket=self.bucket, Key=self.key(path), Range=asked)["Body"].read()
        except OSError as error:
            if _code(error.__cause__) != "InvalidRange":
                raise
            return b""
        return content

    def size(self, path: str) -> int:
        """Return how many bytes a file has."""
        with _failures(path):
            return int(s3_client().head_object(Bucket=self.bucket, Key=self.key(path))["ContentLength"])

    def names(self) -> Iterator[str]:
        """Yield the paths of all files."""
        with _failures(self.url):
            pages = s3_client().get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=self.key(""))
            for page in pages:
                for entry in page.get("Contents", ()):
                    yield str(entry["Key"]).removeprefix(self.key(""))

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files, some of which may be gone already."""
        listed = [{"Key": self.key(path)} for path in paths]
        with _failures(self.url):
            for start in range(0, len(listed), AT_ONCE):
                done = s3_client().delete_objects(Bucket=self.bucket, Delete={"Objects": listed[start : start + AT_ONCE], "Quiet": True})
                if failed := done.get("Errors"):
                    raise OSError(errno.EIO, f"{failed[0]['Key']}: {failed[0]['Message']}")

    def _make(self) -> None:
        """Check that the bucket is there and may be read."""
        with _failures(self.url):
            s3_client().head_bucket(Bucket=self.bucket)

    def clear(self, notes: Sequence[str], endings: tuple[str, ...]) -> None:
        """Delete the files in folders with these endings, and notes."""
        self.delete([*sorted(path for path in self.names() if path.endswith(endings) and path.count("/") == 1), *notes])


class _S3File(NewFile):
    def __init__(self, root: S3Folder, folder: str) -> None:
        self._root, self._folder = root, folder
        self.file = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `finish` or `abandon`)

    def finish(self, name: str) -> None:
        """Send the file."""
        self.file.seek(0)
        self._root.put(f"{self._folder}/{name}", self.file)
        self.file.close()


def folder_at(path: str) -> Folder:
    """Return the folder of a path, or of a URL of S3."""
    return S3Folder(path.rstrip("/")) if path.startswith("s3://") else LocalFolder(Path(path))


@cache
def s3_client() -> Any:
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
        raise OSError(errno.ENOENT if _code(error) in ("NoSuchKey", "404") else errno.EIO, f"{error}", place) from error


def _code(error: BaseException | None) -> str | None:
    code: str | None = getattr(error, "response", {}).get("Error", {}).get("Code")
    return code
