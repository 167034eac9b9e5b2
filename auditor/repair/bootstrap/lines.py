"""The lines of a range as its source's server builds them, and what was read of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from auditor.errors import BootstrapFailed
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
