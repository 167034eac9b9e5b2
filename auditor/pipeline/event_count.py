"""Count the events of a task as they are decoded, and compare that with what was written: none is lost or doubled unnoticed between."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.errors import StagingFailed

FACTOR = np.uint64(0x9E3779B97F4A7C15)
"""Odd, so that rows of one position weigh differently from positions."""

MODULUS = 1 << 64

COMES, LEAVES = pa.array(["insert", "update", "refresh"]), pa.array(["delete", "update"])
"""Kinds of events after which a table has a row, and of those before which it had one."""

BUG = "nothing of this batch was staged; report this as a bug of the pipeline"


@dataclass(slots=True)
class Tally:
    """How many events there are, and a sum over their places in the stream modulo 2^64: equal for the same events in any order."""

    events: int = 0
    places: int = 0

    def add(self, events: pa.RecordBatch | pa.Table) -> None:
        """Add events, none of which announces a schema."""
        if events.num_rows:
            position, row = (events[name].to_numpy(zero_copy_only=False).astype(np.uint64) for name in ("position", "row"))
            self.add_up(Tally(events.num_rows, int((position + row * FACTOR).sum(dtype=np.uint64))))

    def add_up(self, other: Tally) -> None:
        """Add another tally."""
        self.events, self.places = self.events + other.events, (self.places + other.places) % MODULUS


def check_routes(table: str, decoded: pa.RecordBatch, projected: Iterable[pa.RecordBatch]) -> None:
    """Check that each row of a table which is split over several came into one of them, and left one. Raises StagingFailed."""
    listed = list(projected)
    for kinds, what in ((COMES, "came into"), (LEAVES, "left")):
        wanted, found = Tally(), Tally()
        wanted.add(_of_kinds(decoded, kinds))
        for batch in listed:
            found.add(_of_kinds(batch, kinds))
        if wanted != found:
            raise StagingFailed(
                f"{wanted.events:,} rows of {table} were decoded, and {found.events:,} {what} the tables of its routes; {BUG}"
            )


def _of_kinds(events: pa.RecordBatch, kinds: pa.Array) -> pa.RecordBatch:
    return events.filter(pc.is_in(events["kind"], kinds))


@dataclass(slots=True)
class EventCount:
    """What a task is to write of each table, ``database.table``."""

    tables: dict[str, Tally] = field(default_factory=dict)

    def take(self, table: str, decoded: pa.RecordBatch, projected: Iterable[pa.RecordBatch], refused: int, leaves_out: bool) -> None:
        """Take rows that were decoded for a table of the stream, what is to be written of them, and how many are noted as refused.

        ``leaves_out`` says that rules of the pipeline may leave some out. Raises StagingFailed if others are missing.
        """
        before, after = decoded.num_rows, Tally()
        for batch in projected:
            after.add(batch)
        if not leaves_out and before != after.events + refused:
            raise StagingFailed(f"{before:,} events of {table} were decoded, and {after.events + refused:,} projected; {BUG}")
        self.tables.setdefault(table, Tally()).add_up(after)

    def check(self, written: Mapping[str, Tally]) -> None:
        """Raise StagingFailed unless exactly the events that were taken are in the parts that were written, by table."""
        for table in sorted({*self.tables, *written}):
            wanted, in_parts = self.tables.get(table, Tally()), written.get(table, Tally())
            if wanted.events != in_parts.events:
                raise StagingFailed(f"{wanted.events:,} events of {table} were decoded, and {in_parts.events:,} came into parts; {BUG}")
            if wanted != in_parts:
                raise StagingFailed(
                    f"the {in_parts.events:,} events of {table} that came into parts are not those that were decoded; {BUG}"
                )
