"""Mend the segments of one side of a segment audit from the other: copied, verified, and then switched in one transaction.

What cannot be copied is known before anything is written. Files of a log that is read anew are deleted once they were found equal: such
segments are read from the log again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from auditor.config import Settings
from auditor.errors import ConfigError, SegmentFailed
from auditor.escaping import shell_word
from auditor.model import RegisteredSegment, Segment
from auditor.pipeline.events import is_of_table, stream_place, table_of_stream
from auditor.pipeline.segments.checking import check_files, list_findings
from auditor.pipeline.segments.folders import Stretch
from auditor.pipeline.segments.log_again import LogAgain
from auditor.pipeline.segments.registering import Registration, by_position, register_of, registrations_of
from auditor.pipeline.segments.sides import Side, find_file, side_of
from auditor.pipeline.segments.verifying import check_segment
from auditor.store import Store, pipelines, segment_register, segments
from auditor.store.segment_register import FIRST

Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Mended:
    """A stretch of a table that was copied from one side to the other, or why it was not."""

    table: str
    first: int
    """Position of the first event."""
    last: int
    copied: tuple[str, ...] = ()
    """Paths of the new files; of one that was only planned, of the files that would be copied."""
    replaced: tuple[str, ...] = ()
    """Paths of the files in which the manifest lists no segment any more; they stay until you delete them."""
    refused: str = ""
    """Why nothing was copied; empty if it was."""
    targets: tuple[str, ...] = ()
    """Targets of the mended pipeline that hold these events already, in their wrong form perhaps."""


def mend(settings: Settings, store: Store, audit: str, good_name: str, table: str | None, *, apply: bool) -> list[Mended]:
    """Copy what differs, is missing or damaged on the side that is not ``good_name`` from that side, and return each stretch.

    Without ``apply`` nothing is written, and the stretches are those that would be copied. Raises ConfigError for a side that cannot be
    mended so, SegmentFailed if a copy cannot be written, StoreError, and, of a side that is a log read anew, EngineError and
    ChangeStreamError.
    """
    register = register_of(settings, audit)
    good = side_of(settings, audit, good_name)
    bad = side_of(settings, audit, next(name for name in register.sides if name != good_name))
    if register.by == "gtid":
        raise ConfigError(
            f"the sides of {audit} read different servers, so that positions in their files differ; copy the table anew instead:"
            f" auditor pipeline refresh {shell_word(bad.name)} --table TABLE --apply"
        )
    if bad.is_anew:
        raise ConfigError(f"{bad.name} is the log as the last run read it, which is not repaired; copy from it: --from {bad.name}")
    with tempfile.TemporaryDirectory(prefix="auditor-segments-") as scratch:
        again = LogAgain(settings, store, bad.name, Path(scratch)) if good.is_anew else None
        planned: list[tuple[_Mending, _Copy]] = []
        for state in segment_register.list_tables(store, audit):
            if is_of_table(state.table, table):
                wrong = [(one.start, one.end) for one in list_findings(store, audit, state)]
                wrong += [(one.start, one.end) for one in check_files(store, audit, bad, state.table)]
                stretches = _Stretches(store, audit, state.table, good.name, bad.name)
                mending = _Mending(settings, store, audit, good, bad, state.table, again)
                planned += [(mending, mending.plan(*one)) for one in stretches.widen(wrong)]
        return [mending.copy(one) if apply else mending.describe(one) for mending, one in planned]


@dataclass(slots=True)
class _Stretches:
    """Widens stretches until they begin and end where segments of both sides do."""

    store: Store
    audit: str
    table: str
    good: str
    bad: str

    def widen(self, wrong: Iterable[tuple[Place, Place]]) -> list[tuple[list[RegisteredSegment], list[RegisteredSegment], Place, Place]]:
        """Return the segments of the good and of the bad side in each stretch, and its bounds; stretches that touch are one."""
        found: list[tuple[list[RegisteredSegment], list[RegisteredSegment], Place, Place]] = []
        entries = {side: _all(self.store, self.audit, self.table, side) for side in (self.good, self.bad)}
        for bounds in sorted(wrong):
            start, end = bounds
            if found and start <= found[-1][-1]:
                if end <= found[-1][-1]:
                    continue
                start = found.pop()[2]
            found.append(self._whole(entries, start, end))
        return found

    def _whole(
        self, entries: Mapping[str, Sequence[RegisteredSegment]], start: Place, end: Place
    ) -> tuple[list[RegisteredSegment], list[RegisteredSegment], Place, Place]:
        while True:
            good, bad = (_overlapping(entries[side], start, end) for side in (self.good, self.bad))
            wider = min([start, *(one.start for one in [*good, *bad])]), max([end, *(one.end for one in [*good, *bad])])
            if wider == (start, end):
                return good, bad, start, end
            start, end = wider


@dataclass(frozen=True, slots=True)
class _Copy:
    """What is to be copied in a stretch, or why nothing is."""

    start: Place
    end: Place
    sources: tuple[Segment, ...] = ()
    refused: str = ""


@dataclass(frozen=True, slots=True)
class _Mending:
    settings: Settings
    store: Store
    audit: str
    good: Side
    bad: Side
    table: str
    again: LogAgain | None
    """Where segments of a log read anew are kept whose files were deleted."""

    def plan(self, good: Sequence[RegisteredSegment], bad: Sequence[RegisteredSegment], start: Place, end: Place) -> _Copy:
        """Return the good side's segments of a stretch, after they were verified; nothing is written. Raises StoreError."""
        standing = [one for one in good if not one.overlap]
        if refused := self._refuse(standing, bad, end):
            return _Copy(start, end, refused=refused)
        sources: list[Segment] = []
        wrong: list[tuple[RegisteredSegment, Segment, str]] = []
        for entry in standing:
            file = find_file(self.store, self.good, entry)
            if file is None:
                return _Copy(start, end, refused=f"{self._cannot}: its manifest does not list it any more")
            sources.append(file)
            if sentence := check_segment(self.good.folder, file):
                wrong.append((entry, file, sentence))
        if wrong and self.again is None:
            return _Copy(start, end, refused=f"{self._cannot}: {wrong[0][2]}")
        if wrong and self.again and (sentence := self.again.fetch([file for _, file, _ in wrong])):
            deleted = "its file was deleted by design, because it was equal to the other side's"
            first = deleted if wrong[0][0].verdict == "match" else wrong[0][2]
            return _Copy(start, end, refused=f"{self._cannot}: {first}, and the log does not yield it again: {sentence}")
        return _Copy(start, end, tuple(sources))

    @property
    def _cannot(self) -> str:
        return f"the segment of {self.good.name} cannot be copied"

    def describe(self, planned: _Copy) -> Mended:
        """Return what `copy` would copy."""
        paths = tuple(one.path for one in planned.sources)
        return Mended(self.table, planned.start[0], planned.end[0], copied=paths, refused=planned.refused)

    def copy(self, planned: _Copy) -> Mended:
        """Copy what is planned, and list it instead of the bad side's segments. Raises SegmentFailed and StoreError."""
        start, end = planned.start, planned.end
        named = Mended(self.table, start[0], end[0])
        if planned.refused:
            return replace(named, refused=planned.refused)
        copies = [self._write(one) for one in planned.sources]
        registrations = [one for one in registrations_of(self.settings, self.bad.name) if one.register.by != "gtid"]
        also = partial(_register, registrations, self.table, start, end, copies)
        gone = segments.replace_listed(self.store, self.bad.listed_as, self.table, (start, end), copies, also)
        emptied = {one.path for one in gone} - segments.find_listed(self.store, self.bad.listed_as, {one.path for one in gone})
        paths = tuple(one.path for one in copies), tuple(sorted(emptied))
        return replace(named, copied=paths[0], replaced=paths[1], targets=tuple(self._targets(start[0])))

    def _refuse(self, good: Sequence[RegisteredSegment], bad: Sequence[RegisteredSegment], end: Place) -> str:
        if not good and not bad and self._left_the_register(end):
            return (
                f"its entries left the register by design, {self.settings.keep.days} days after it was found equal (keep: days), so nothing"
                f" says any more what {self.good.name} has there"
            )
        if not good:
            back = f"copy from {self.bad.name} instead" if not self.good.is_anew else "look at it, and reset the pipeline if it is wrong"
            return f"{self.good.name} has no segment there; {back}"
        behind = _all(self.store, self.audit, self.table, self.good.name, after=good[-1].start)
        if bad and good[-1].end < bad[-1].end and all(one.overlap for one in behind):
            return f"{self.bad.name} has events behind the last segment of {self.good.name}; try again after that one's next segment"
        return ""

    def _left_the_register(self, end: Place) -> bool:
        """Return whether a place is before all that the register still has of both sides."""
        sides = (self.good.name, self.bad.name)
        first = [segment_register.list_entries(self.store, self.audit, self.table, side, limit=1) for side in sides]
        return self.settings.keep.days is not None and all(some and some[0].start > end for some in first)

    def _write(self, one: Segment) -> Segment:
        """Write a copy of a segment into the bad side's folder, under a new name, and verify it. Raises SegmentFailed."""
        found = self.again.read(one) if self.again else None
        events = self.good.folder.read(one) if found is None else found
        stretch = Stretch(one.table, one.first, one.first_row, events.to_batches())
        [(path, blocks)] = self.bad.folder.write([stretch], are_copies=True)
        copied = replace(one, path=path, blocks=blocks)
        if wrong := check_segment(self.bad.folder, copied):
            raise SegmentFailed(f"the copy is wrong, and the manifest stays as it was: {wrong}")
        return copied

    def _targets(self, first: int) -> list[str]:
        merges = pipelines.list_merges(self.store, self.bad.name, tables=[self.table])
        return [name for name, tables in merges.items() if self.table in tables and tables[self.table].position >= first]


def _register(
    registrations: Sequence[Registration], table: str, start: Place, end: Place, copies: Sequence[Segment], connection: Any
) -> None:
    for one in registrations:
        entries = [by_position(copy) for copy in copies]
        segment_register.replace_segments(connection, one.register.audit, one.side, table, start, end, entries)


def _all(store: Store, audit: str, table: str, side: str, after: Place = FIRST) -> list[RegisteredSegment]:
    found: list[RegisteredSegment] = []
    while page := segment_register.list_entries(store, audit, table, side, after=after):
        found += page
        after = page[-1].start
    return found


def _overlapping(entries: Sequence[RegisteredSegment], start: Place, end: Place) -> list[RegisteredSegment]:
    return [one for one in entries if one.start <= end and one.end >= start]


def repair_hint(settings: Settings, bad: str, target: str, table: str) -> str:
    """Return the commands that mend a table of a pipeline's target that was built from wrong events."""
    table = table_of_stream(table)
    name = table.partition(".")[2]
    chosen = settings.pipeline(bad).table_targets.get(target)
    place = (chosen.connection, ".".join(chosen.place_of(table))) if chosen else None
    audits = [audit for audit, one in settings.audits.items() if (one.target.connection, one.target.table) == place]
    audited = f"auditor run {shell_word(audits[0])}, then auditor patch {shell_word(audits[0])} --apply; or " if audits else ""
    refreshed = f"auditor pipeline refresh {shell_word(bad)} --table {shell_word(name)} --apply"
    return f"target {target} holds {table} as it was staged: {audited}{refreshed}"


def describe(one: Mended, file: str) -> str:
    """Return where a stretch stands; ``file`` is any file of the log."""
    return f"{one.table} {stream_place(one.table, one.first, file)} to {stream_place(one.table, one.last, file)}"
