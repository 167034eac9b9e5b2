"""Tell which transactions of a binary log a pipeline wrote: each begins with a row of the table of positions, which names the pipeline.

So a server needs no setting and a user no right for that, and it is known before the transaction's other rows are read.
"""

from __future__ import annotations

import struct
from collections.abc import Set

from auditor.errors import LogRefused
from auditor.pipeline.binlog.row_decoder import Decoder
from auditor.pipeline.binlog.table_map import TableMap
from auditor.sql.merge import POSITIONS


class Origins:
    """The table of positions in a log, and the pipelines whose transactions are left out."""

    def __init__(self, table: TableMap, decode: Decoder, left_out: Set[str]) -> None:
        self.table, self._decode, self._left_out = table, decode, left_out
        names = [column.name for column in table.columns]
        self._width = len(names)
        self._place = names.index("pipeline") if "pipeline" in names else None

    def is_left_out(self, event: bytes, at: int, stop: int) -> bool:
        """Return whether rows of this event name a pipeline that is left out. Raises LogRefused for rows that cannot be read."""
        if self._place is None:
            return False  # somebody else's table of the same name
        values: list[str | bytes | None] = []
        try:
            self._decode(event, at, stop, values.extend, values.extend)
        except (ValueError, IndexError, KeyError, OverflowError, struct.error) as error:
            raise LogRefused(f"a row of {self.table.name} cannot be decoded ({error}); report this") from error
        names = (value.decode() if isinstance(value, bytes) else value for value in values[self._place :: self._width])
        return any(name in self._left_out for name in names)


def is_positions(name: str) -> bool:
    """Return whether a table is one of positions, which is never replicated."""
    return name == POSITIONS
