"""Read the events of segments from the source's log again, whose files were deleted: those of a log read anew, once they were found equal.

What the log yields is taken only if it is what was hashed. It is kept in a folder of temporary files until it is copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from auditor.config import Settings
from auditor.errors import ChangeStreamError, PartsGone
from auditor.model import Segment
from auditor.pipeline.events import place_text
from auditor.pipeline.folders import LocalFolder
from auditor.pipeline.restaging import read_source_again
from auditor.pipeline.segments.folders import JoinedFiles, Stretch
from auditor.pipeline.segments.verifying import check_segment
from auditor.store import Store

Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class LogAgain:
    """Segments of one pipeline's stream that were read from its source's log again."""

    settings: Settings
    store: Store
    pipeline: str
    scratch: Path
    """A folder of temporary files."""
    _found: dict[tuple[str, Place], Segment] = field(default_factory=dict)
    """What was read, by table and first place, and where it is in the folder."""

    def fetch(self, wanted: Sequence[Segment]) -> str:
        """Read segments of one table in one pass over the log, and return why the log does not yield them; '' if it does.

        Raises EngineError, and ChangeStreamError where another try may succeed.
        """
        if self.settings.pipeline(self.pipeline).tracker:
            return "the pipeline's tracker does not know the columns of then"
        ordered = sorted(wanted, key=lambda one: (one.first, one.first_row))
        read: list[Segment] = []
        try:
            written = self._folder.write(self._stretches(ordered, read), are_copies=True)
        except (ChangeStreamError, PartsGone) as error:
            if error.retryable:
                raise
            return str(error)
        for one, (path, blocks) in zip(read, written, strict=True):
            self._found[one.table, (one.first, one.first_row)] = replace(one, path=path, blocks=blocks)
        if missing := next((one for one in ordered if one not in read), None):
            return f"it has no events of {missing.table} from {place_text(missing.first)} to {place_text(missing.last)} any more"
        if other := next((one for one in read if check_segment(self._folder, self._found[one.table, (one.first, one.first_row)])), None):
            place = f"{place_text(other.first)} to {place_text(other.last)}"
            return f"it has other events of {other.table} from {place} now, or the pipeline's columns are others"
        return ""

    def read(self, segment: Segment) -> pa.Table | None:
        """Return the events of a segment that was fetched; None of another one."""
        found = self._found.get((segment.table, (segment.first, segment.first_row)))
        return self._folder.read(found) if found else None

    @property
    def _folder(self) -> JoinedFiles:
        return JoinedFiles(LocalFolder(self.scratch))

    def _stretches(self, ordered: Sequence[Segment], read: list[Segment]) -> Iterator[Stretch]:
        """Yield each segment with the events that the log has of it, and append those of which it has any."""
        for number, pieces in groupby(self._pieces(ordered), key=lambda piece: piece[0]):
            one = ordered[number]
            read.append(one)
            yield Stretch(one.table, one.first, one.first_row, (events for _, events in pieces))

    def _pieces(self, ordered: Sequence[Segment]) -> Iterator[tuple[int, pa.RecordBatch]]:
        within = ordered[0].first, ordered[-1].last
        for batch in read_source_again(self.settings, self.store, self.pipeline, ordered[0].table, within, str(self.scratch)):
            rows = batch.filter(pc.not_equal(batch["kind"], "schema"))
            for number, one in enumerate(ordered):
                events = rows.filter(_between(rows, (one.first, one.first_row), (one.last, one.last_row)))
                if events.num_rows:
                    yield number, events


def _between(rows: pa.RecordBatch, first: Place, last: Place) -> pa.Array:
    position, row = rows["position"], rows["row"]
    begun = pc.or_(pc.greater(position, first[0]), pc.and_(pc.equal(position, first[0]), pc.greater_equal(row, first[1])))
    ended = pc.or_(pc.less(position, last[0]), pc.and_(pc.equal(position, last[0]), pc.less_equal(row, last[1])))
    return pc.and_(begun, ended)
