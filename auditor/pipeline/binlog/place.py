"""Places in a binary log: a file and an offset in it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from auditor.errors import ConfigError
from auditor.pipeline.events import Position

FIRST_OFFSET = 4
"""Where the first event of a file begins, after the file's four magic bytes."""


_FILE = re.compile(r"[^\x00-\x1f\x7f/\\]{1,512}\.[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a binary log."""

    file: str
    offset: int

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Place:
        """Return the place that ``FILE:POS`` names. Raises ConfigError."""
        file, _, offset = text.rpartition(":")
        if not file or not offset.isdecimal() or not re.search(r"\.\d+$", file):
            raise ConfigError(f"{text!r} is no place in a binary log; write its file and position as in binlog.000012:4567")
        return cls(file, int(offset))

    @classmethod
    def of_server(cls, file: str, offset: int) -> Place:
        """Return a place that a server names. Raises ValueError or OverflowError if no log has it."""
        if not _FILE.fullmatch(file):
            raise ValueError(f"{file[:80]!r} is no file of a binary log")
        place = cls(file, offset)
        place.position(0).pack()
        return place

    @property
    def file_number(self) -> int:
        """The number at the end of the file's name."""
        return int(self.file.rpartition(".")[2])

    @property
    def order(self) -> tuple[int, int]:
        """What sorts places of one server as its log does."""
        return self.file_number, self.offset

    def position(self, epoch: int) -> Position:
        """Return the place as a position of a stream."""
        return Position(epoch, self.file_number, self.offset)
