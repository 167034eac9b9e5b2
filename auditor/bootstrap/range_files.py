"""The rows of ranges as lines: read as the source's server builds them, and kept in files with a manifest."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auditor.errors import BootstrapFailed, BootstrapRefused
from dialects import Session

if TYPE_CHECKING:
    from auditor.store.bootstraps import StoredRange


@dataclass(slots=True)
class Copied:
    """What was read of a range."""

    rows: int = 0
    bytes: int = 0
    sha256: str = ""
    file: str = ""
    snapshot: str = ""
    """The snapshot that it was read in; two ranges of one are of one moment."""

    def stored(self) -> StoredRange:
        """Return it as the journal has it."""
        return {"rows": self.rows, "bytes": self.bytes, "sha256": self.sha256, "file": self.file, "snapshot": self.snapshot}


class Lines:
    """The lines of a range in blocks, counted as they pass. ``failure`` is what the source failed with."""

    def __init__(self, source: Session, sql: str, copied: Copied, check_stopped: Callable[[], None]) -> None:
        self.failure: BaseException | None = None
        self._source, self._sql, self._copied, self._check_stopped = source, sql, copied, check_stopped

    def __iter__(self) -> Iterator[bytes]:
        """Yield blocks of lines. Raises BootstrapFailed for a line that could not be built, and errors of the source."""
        digest = hashlib.sha256()
        try:
            for statement in self._source.dialect.LINE_SETTINGS:
                self._source.execute(statement)
            for rows, block in self._source.stream_lines(self._sql):
                self._check_stopped()
                if block is None:
                    limit = self._source.dialect.LONGEST_TEXT_SETTING or "the limit of its texts"
                    raise BootstrapFailed(f"a row's line is longer than the source can build; raise {limit} there")
                digest.update(block)
                self._copied.bytes += len(block)
                self._copied.rows += rows
                yield block
        except GeneratorExit:
            raise
        except BaseException as error:
            self.failure = error
            raise
        self._copied.sha256 = digest.hexdigest()


MANIFEST = "manifest.json"

SPARE = 1.1
"""How much more room than the estimate a disk must have."""

BLOCK = 1 << 20
"""Bytes of a file that are read at once."""


def name(number: int) -> str:
    """Return the name of a range's file."""
    return f"range-{number:06}.txt"


def check_room(folder: Path, size: int) -> None:
    """Raise BootstrapRefused if the disk has no room for files of about so many bytes."""
    free = shutil.disk_usage(folder).free
    if free < SPARE * size:
        raise BootstrapRefused(
            f"the copy takes about {size / 1e6:,.0f} MB in {folder}, where {free / 1e6:,.0f} MB are free; make room, or set TMPDIR to a"
            " larger disk"
        )


def write(path: Path, blocks: Iterable[bytes]) -> None:
    """Write lines to a file that only its owner may read, durably. Raises BootstrapFailed where the disk is full or cannot be written."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        with os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as file:
            for block in blocks:
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        path.unlink(missing_ok=True)
        raise BootstrapFailed(f"{path} cannot be written: {error.strerror or error}; make room, then run it again to continue") from error


def read(path: Path, add_block: Callable[[bytes], object]) -> Iterator[bytes]:
    """Yield the lines of a file in blocks; ``add_block`` receives all its bytes. Raises BootstrapFailed where it cannot be read.

    A line feed ends a line and stands in none: the formats that are loaded line by line write it otherwise.
    """
    rest = b""
    try:
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                add_block(block)
                end = block.rfind(b"\n") + 1
                if end:
                    yield rest + block[:end]
                    rest = block[end:]
                else:
                    rest += block
    except OSError as error:
        raise BootstrapFailed(f"{path} cannot be read: {error.strerror or error}; run it again to continue") from error
    if rest:
        raise BootstrapFailed(f"{path} was cut within a line; drop the copy with --drop-old --apply, and copy again")


def write_manifest(folder: Path, ranges: Mapping[int, Mapping[str, Any]]) -> None:
    """Write the manifest of all files. Raises BootstrapFailed as ``write`` does."""
    entries = [{key: ranges[number][key] for key in ("file", "rows", "bytes", "sha256")} for number in sorted(ranges)]
    path = folder / MANIFEST
    part = path.with_suffix(".part")
    write(part, [json.dumps({"files": entries}, indent=1).encode() + b"\n"])
    part.replace(path)


def check(folder: Path) -> list[Path]:
    """Return the files of the manifest. Raises BootstrapFailed if one is not what the manifest says."""
    whole = []
    for entry in json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]:
        path = folder / entry["file"]
        if not path.exists() or path.stat().st_size != entry["bytes"] or _digest(path) != entry["sha256"]:
            raise BootstrapFailed(f"{path} is not what {MANIFEST} says of it; drop the copy with --drop-old --apply, and copy again")
        whole.append(path)
    return whole


def damaged(folder: Path, ranges: Mapping[int, Mapping[str, Any]]) -> list[int]:
    """Return the numbers of the ranges whose files are missing or were cut."""
    paths = {number: folder / str(stored["file"]) for number, stored in ranges.items()}
    return [number for number, path in paths.items() if not path.exists() or path.stat().st_size != ranges[number]["bytes"]]


def remove(folder: Path) -> None:
    """Remove the files of a copy, if there are any."""
    shutil.rmtree(folder, ignore_errors=True)


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()
