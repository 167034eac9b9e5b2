"""Summarise tables that consist of immutable files by sums that are kept of each: only files that no run has seen are read.

A table's summary is the sum of its files' less the rows that deletes hide. What a file's sums are known by says all that decides them: the
statement that computes them, with the row's text, filter, salt, partitions and hash; how the table's columns are read from its files; the
engine's version; and what tells the file from every other. So no sums are believed that a statement of today would not give, as far as a
file of equal identity has equal rows: a run that is asked to reads all files again, and names those of which that was wrong.

Sums add up only where partitions and salt are the same. They are chosen once, by the first run, and kept with the sums.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import logging
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Protocol, TypeVar

import numpy as np

from auditor import canonical
from auditor.config import Audit
from auditor.connections.reader import Reader
from auditor.errors import FileSumsWrong, PlanError, ReadingContradicted, StatementCancelled, StoreError
from auditor.history.handover import Checkpoint
from auditor.model import Chunk, FileLayout, FilesExpected, FilesRead, Partitioning, Plan, Prescan, Side
from auditor.planning import build, planner
from auditor.planning.columns import Endpoint
from auditor.planning.partitioning import Bounds
from auditor.run.cross_checks import CrossChecks
from auditor.run.prescan import ReadResult, some_keys
from auditor.run.scan import Stage, scan
from auditor.sql import render
from auditor.sql.power_sums import count_sums
from auditor.summary import arrays, file_sums
from auditor.summary.arrays import Summaries
from auditor.summary.file_sums import FileSums
from dialects import Session
from dialects.data_files import DataFile, Rows

log = logging.getLogger(__name__)

T = TypeVar("T")

VERSION = 1
"""Part of what sums are known by: raise it whenever another sum is computed of the same rows by the same statement."""

ROWS_AT_ONCE, FILES_AT_ONCE = 1 << 21, 256
"""About how many rows, and files, one statement reads at most; a file of more rows is read by a statement of its own."""

FOLDED = 64
"""Files whose sums are in memory before they are added up."""

GROWN = 16
"""How many times more rows than when they were chosen let partitions by hash be chosen anew."""

MOST_PARTITIONS = 4
"""How many times more partitions than an audit aims for at most let partitions by range be chosen anew."""

MOST_NAMED = 20
"""Files that a reason names."""


class KeptSums(Protocol):
    """What is kept for one audit. Every method raises StoreError."""

    def layout(self) -> FileLayout | None:
        """Return the partitions in which the audit keeps sums; None if it keeps none yet."""

    def begin(self, layout: FileLayout) -> FileLayout:
        """Let the audit keep sums in other partitions from now on; return them, with the time."""

    def prove(self) -> None:
        """Note that a run has read all files that it needed."""

    def forms(self, files: Sequence[str]) -> Mapping[str, str]:
        """Return what the columns of files are, by the digest of each, as far as it is known."""

    def load(self, reading: str, files: Sequence[str]) -> Iterator[tuple[str, bytes | None]]:
        """Yield the sums of those files of which there are any; None for sums that are not what was stored."""

    def save(self, reading: str, sums: Sequence[tuple[str, str, bytes]]) -> None:
        """Store the sums of files, each with its form."""


@dataclass(slots=True)
class _Tally:
    """What was read of one side so far."""

    read: int = 0
    read_bytes: int = 0
    hidden: int = 0
    damaged: int = 0
    rows: int = 0
    changed: list[str] = field(default_factory=list)


class FileSummaries:
    """What a run does with the sums that are kept of files, and what it read of each side."""

    def __init__(self, audit: Audit, kept: KeptSums, rescan: bool = False) -> None:
        """``rescan`` asks for all files to be read again."""
        self.read: dict[Side, FilesRead] = {}
        self.note = ""
        """What went wrong with keeping the sums, as a sentence; empty if nothing did."""
        self._audit = audit
        self._kept = kept
        self._checks: CrossChecks | None = None
        self._rescan = rescan
        self._layout: FileLayout | None = None
        self._why = ""
        self._fresh: set[tuple[str, str]] = set()
        """What this run has read itself, by reading and file: the other side may have the same file."""
        self._totals: dict[Side, FileSums] = {}
        self._states: dict[Side, tuple[str, tuple[tuple[str, str], ...]]] = {}
        """By what the sums of each side are known, and of which files they are, each with what hides rows of it."""
        self._statements: dict[Side, str] = {}

    def recall(self, reader: Reader) -> None:
        """Let the sessions ask for what is known of files, before they open tables."""

        def find(identities: Sequence[str]) -> Mapping[str, str]:
            by_digest = {_file_digest(identity): identity for identity in identities}
            try:
                return {by_digest[file]: form for file, form in self._kept.forms(list(by_digest)).items()}
            except StoreError as error:  # then the files say it
                self._fail(error)
                return {}

        for side in self.sides(reader):
            reader.ask_side(side, lambda _, session: session.dialect.files.recall(session, find))

    def sides(self, reader: Reader) -> tuple[Side, ...]:
        """Return the sides of engines whose tables consist of files."""
        return tuple(side for side, here in reader.sides.items() if here.session.dialect.has_files)

    # the plan

    def make_plan(self, reader: Reader, tables: Mapping[Side, Endpoint], draft: Plan, checks: CrossChecks) -> Plan:
        """Return the plan by which both sides are summarised, and read the sides that consist of files. Raises PlanError."""
        self._checks = checks
        sides = self._begin_plan(reader, tables, draft)
        if self._layout is None:
            self._layout = self._begin(self._finish(reader, tables, draft, self._audit, {}))
        self._rescan_if_due(self._layout)
        pinned = replace(draft, partitioning=self._layout.partitioning, salt=self._layout.salt)
        for side in sides:
            self._totals[side] = self._summarise(reader, pinned, side)
        if why := self._why_grown(pinned):
            self._begin_again(why)
            self._layout = self._begin(self._finish(reader, tables, draft, self._audit, {}))
            pinned = replace(draft, partitioning=self._layout.partitioning, salt=self._layout.salt)
            for side in sides:
                self._totals[side] = self._summarise(reader, pinned, side)
        bounds = {side: _bounds_of(total) for side, total in self._totals.items()}
        plan = self._finish(reader, tables, draft, _pinned(self._audit, self._layout.partitioning), bounds)
        return replace(plan, partitioning=self._layout.partitioning, salt=self._layout.salt)

    def follow(self, reader: Reader, tables: Mapping[Side, Endpoint], plan: Plan, checks: CrossChecks) -> Plan:
        """Keep the target's sums in the partitions of a plan, which are those of live summaries, and return it with the target's bounds.

        The target's files are read. Raises PlanError.
        """
        self._checks = checks
        if "target" not in self._begin_plan(reader, tables, plan):
            raise PlanError(f"audit {plan.audit}: the target does not consist of files, whose sums could be kept; remove files")
        if self._layout and (self._layout.partitioning, self._layout.salt) != (plan.partitioning, plan.salt):
            self._begin_again("the live summaries have other partitions")
        if self._layout is None:
            self._layout = self._begin(plan, plan.salt)
        self._rescan_if_due(self._layout)
        self.read_side(reader, plan, "target")
        checks.statements |= {"target (files)": self._statements["target"]}
        bounds = _bounds_of(self._totals["target"])
        finished = self._finish(reader, tables, plan, _pinned(self._audit, plan.partitioning), {"source": bounds, "target": bounds})
        return replace(finished, partitioning=plan.partitioning, salt=plan.salt)

    def read_side(self, reader: Reader, plan: Plan, side: Side) -> Summaries:
        """Return the summaries of a side as it is now, or in the snapshot that is open; only files are read that no run has read."""
        before = self.read.get(side)
        self._totals[side] = self._summarise(reader, plan, side)
        if before and (now := self.read[side]) is not before:  # another version than the one that the plan was made of
            read, read_bytes = min(now.files, before.read + now.read), before.read_bytes + now.read_bytes
            self.read[side] = replace(now, read=read, read_bytes=read_bytes, hidden=before.hidden + now.hidden)
        return self.summaries(plan, side)

    def expect(self, reader: Reader, tables: Mapping[Side, Endpoint], draft: Plan) -> Plan:
        """Return the plan that a run would make now, and which files it would read; none of them is read for that. Raises PlanError.

        Keys of files that are to be read are unknown, so the partitions are those of the rows whose sums are kept.
        """
        sides, layout = self._begin_plan(reader, tables, draft), self._layout
        plan = draft
        if layout is not None:
            self._rescan_if_due(layout)
            plan = replace(draft, partitioning=layout.partitioning, salt=layout.salt)
        files = {side: self._work(reader, plan, side, _SideFiles.expect) for side in sides}
        if layout is not None and (why := self._why_grown(plan)):
            self._begin_again(why)
            files = {side: self._work(reader, plan, side, _SideFiles.expect) for side in sides}
        if self._layout is None:
            return replace(self._finish(reader, tables, draft, self._audit, {}), files=files)
        bounds = {side: _bounds_of(total) for side, total in self._totals.items()}
        plan = self._finish(reader, tables, draft, _pinned(self._audit, self._layout.partitioning), bounds)
        return replace(plan, partitioning=self._layout.partitioning, salt=self._layout.salt, files=files)

    def _begin_plan(self, reader: Reader, tables: Mapping[Side, Endpoint], draft: Plan) -> tuple[Side, ...]:
        """Find in which partitions sums are kept, if they suit, and return the sides that consist of files. Raises PlanError."""

        def why_none(side: Side, session: Session) -> str:
            return session.dialect.files.why_none(session, draft.sides[side].table)

        found = {side: reader.ask_side(side, why_none) for side in self.sides(reader) if not tables[side].query}
        sides, whys = [side for side, why in found.items() if not why], list(filter(None, found.values()))
        if why := why_not(draft, sides, whys):
            raise PlanError(f"audit {draft.audit}: {why}")
        self._layout = self._kept.layout()
        if self._layout is None:
            self._why = "no sums were kept yet"
        elif why := self._why_others(draft, self._layout):
            self._begin_again(why)
        return tuple(sides)

    def _finish(self, reader: Reader, tables: Mapping[Side, Endpoint], draft: Plan, audit: Audit, bounds: Mapping[Side, Bounds]) -> Plan:
        plan = build.finish_plan(draft, audit, reader, tables, bounds)
        return replace(plan, prescan=Prescan(used=False, why="the sums of files are those of every partition"))

    def _begin(self, plan: Plan, salt: str = "") -> FileLayout:
        salt = salt or (secrets.token_hex(8) if self._audit.salt == planner.RANDOM_SALT else plan.salt)
        rows = max((here.estimate or 0 for here in plan.sides.values()), default=0)
        layout = FileLayout(partitioning=plan.partitioning, salt=salt, rows=rows, aim=self._audit.partition.rows)
        try:
            return self._kept.begin(layout)
        except StoreError as error:
            self._fail(error)
            return layout

    def _begin_again(self, why: str) -> None:
        log.info("sums of files begin again: %s", why, extra={"action": "file_sums_again"})
        self._layout, self._why = None, why

    def _why_others(self, draft: Plan, layout: FileLayout) -> str:
        """Return why the sums that are kept are not those that the audit asks for, as a clause; '' if they are."""
        asked, how = self._audit.partition, layout.partitioning
        strategy = asked.strategy or ("hash" if asked.buckets else "range" if asked.size else "time" if asked.column else None)
        if (strategy or how.strategy) != how.strategy or asked.size not in (None, how.size) or asked.buckets not in (None, how.buckets):
            return f"the audit asks for other partitions than {how}"
        if asked.rows != layout.aim and not (asked.size or asked.buckets):
            return f"the audit asks for partitions of about {asked.rows:,} rows in place of {layout.aim:,}"
        if how.strategy == "range" and not draft.has_integer_key:
            return "the key is no integer any more"
        if how.strategy == "time" and (
            asked.column is None or asked.unit != how.unit or draft.columns[how.column].name.lower() != asked.column.lower()
        ):
            return f"the audit asks for other partitions than {how}"
        if self._audit.salt not in (planner.RANDOM_SALT, layout.salt):
            return "the audit's salt changed"
        return ""

    def _why_grown(self, plan: Plan) -> str:
        """Return why the partitions no longer suit the table, as a clause; '' if they do, or the audit itself chose them."""
        layout, asked = self._layout, self._audit.partition
        assert layout is not None
        if asked.size or asked.buckets or layout.partitioning.strategy == "time":
            return ""
        rows = max((int(total.sums.rows.sum()) for total in self._totals.values()), default=0)
        partitions = max((len(total.sums) for total in self._totals.values()), default=0)
        if layout.partitioning.strategy == "hash" and rows > GROWN * max(layout.rows, asked.rows * layout.partitioning.buckets):
            return f"the table has grown to {rows:,} rows, too many for {layout.partitioning.buckets:,} buckets"
        if partitions > MOST_PARTITIONS * asked.limit:
            return f"the table has grown to {partitions:,} partitions"
        return ""

    def _rescan_if_due(self, layout: FileLayout) -> None:
        """Let all files be read again where that was asked for, or is due."""
        if self._rescan:
            self._why = "a rescan was asked for"
            return
        since = _last_read(layout)
        if self._audit.rescan is None or since is None:
            return
        if (dt.datetime.now(dt.UTC) - since).total_seconds() >= self._audit.rescan:
            self._rescan = True
            self._why = f"all files were last read at {since:%Y-%m-%d %H:%M:%S} UTC, longer ago than the audit's rescan allows"

    # what is read

    def read_all(self, reader: Reader, plan: Plan, checkpoint: Checkpoint, checks: CrossChecks) -> ReadResult:
        """Return both sides' summaries: those of files, which `make_plan` has read, and of other sides by a scan, which is checked."""
        known = {side: self.summaries(plan, side) for side in self._totals}
        for side, sums in known.items():
            checkpoint.save_chunk(side, Chunk(), sums, 0.0, 1)
        stage = Stage(save=checkpoint.save_chunk, count_chunks=checks.counts_chunks(plan))
        aligned = scan(reader, plan, stage, known)
        result = ReadResult(aligned, read_by=(plan,), keys=some_keys(aligned))
        if others := tuple(side for side in plan.read_sides if side not in known):
            checks.hold(plan, result, others)
        checks.statements |= {f"{side} (files)": self._statements[side] for side in known}
        return result

    def summaries(self, plan: Plan, side: Side) -> Summaries:
        """Return the summaries of a side that consists of files; `make_plan` has read them."""
        sums = self._totals[side].sums
        return arrays.with_limits(sums, plan.partitioning.size) if plan.partitioning.strategy == "range" else sums

    @property
    def reasons(self) -> tuple[str, ...]:
        """What a run that read all files found of those whose sums were kept, a sentence for each side."""
        return tuple(_changed(side, read.changed) for side, read in self.read.items() if read.changed)

    def prove(self) -> None:
        """Note that the run has read all files, if it did."""
        if self.read and all(read.read == read.files for read in self.read.values()):
            try:
                self._kept.prove()
            except StoreError as error:
                self._fail(error)

    def _summarise(self, reader: Reader, plan: Plan, side: Side) -> FileSums:
        return self._work(reader, plan, side, _SideFiles.run)

    def _work(self, reader: Reader, plan: Plan, side: Side, do: Callable[[_SideFiles], T]) -> T:
        return reader.sides[side].run(lambda session: do(_SideFiles(self, reader, plan, side, session)), fresh=True)

    def _fail(self, error: StoreError) -> None:
        self.note = f"the sums of files are not kept: {error}"
        log.warning("sums of files are not kept: %s", error, extra={"action": "file_sums_not_kept"})


@dataclass(slots=True)
class _SideFiles:
    """Reads one side in one snapshot."""

    run_of: FileSummaries
    reader: Reader
    plan: Plan
    side: Side
    session: Session
    tally: _Tally = field(default_factory=_Tally)
    reading: str = ""
    width: tuple[int, int] = (0, 0)
    total_rows: int = 0
    checked: bool = False

    def run(self) -> FileSums:
        """Return the sums of the version's rows."""
        table, dialect = self.plan.sides[self.side].table, self.session.dialect
        files = self._list_files()
        state = (self.reading, tuple((file.identity, file.hidden) for file in files))
        if self.run_of._states.get(self.side) == state:
            return self.run_of._totals[self.side]
        self.total_rows = sum(file.rows or 0 for file in files)
        total = self._all_of(files, "all")
        if deleted := [file for file in files if file.hidden]:
            total = self._subtract(total, self._all_of(deleted, "hidden"), files, deleted)
        self.run_of.read[self.side] = FilesRead(
            state=self.session.state_read(table),
            files=len(files),
            read=self.tally.read,
            bytes=sum(file.bytes for file in files),
            read_bytes=self.tally.read_bytes,
            hidden=self.tally.hidden,
            rows=int(total.sums.rows.sum()),
            trusts=dialect.files.TRUSTS,
            why=self.run_of._why,
            since=_last_read(self.run_of._layout) if self.run_of._layout and self.tally.read < len(files) else None,
            damaged=self.tally.damaged,
            changed=tuple(self.tally.changed),
        )
        self.run_of._states[self.side] = state
        return total

    def expect(self) -> FilesExpected:
        """Return what is to be read, and note the sums of the other files as the side's; without a layout all is to be read."""
        files = self._list_files()
        deleted, known, hidden = [file for file in files if file.hidden], _Adder(self.width), _Adder(self.width)
        new, rows = [(file, "") for file in files], [(file, "") for file in deleted]
        if self.run_of._layout is not None:
            new, rows = self._find(files, "all", {}, known), self._find(deleted, "hidden", {}, hidden)
        self.run_of._totals[self.side] = known.total()
        return FilesExpected(
            files=len(files),
            new=len(new),
            hidden=len(rows),
            bytes=sum(file.bytes for file in files),
            new_bytes=sum(file.bytes for file, _ in (*new, *rows)),
            statements=sum(1 for _ in _batches(new, "all")) + sum(1 for _ in _batches(rows, "hidden")),
            why=self.run_of._why,
        )

    def _list_files(self) -> Sequence[DataFile]:
        """Return the version's files, and find by what their sums are known."""
        table = self.plan.sides[self.side].table
        self.width = (self.plan.bits // 30, count_sums(self.plan) - 1) if self.plan.method == "exact" else (2, 0)
        files = self.session.dialect.files.list_files(self.session, table)
        self.reading = self._digest_of_reading(table) if self.run_of._layout else ""
        return files

    def _subtract(self, total: FileSums, hidden: FileSums, files: Sequence[DataFile], deleted: Sequence[DataFile]) -> FileSums:
        """Return the sums of the rows that are left; where they cannot be those of rows, all files are read again, once."""
        try:
            return file_sums.subtract(total, hidden, *self.width)
        except FileSumsWrong:
            if self.run_of._rescan:
                raise
            self.run_of._rescan, self.run_of._why = True, "sums that were kept did not fit each other"
            total, hidden = self._all_of(files, "all"), self._all_of(deleted, "hidden")
            return file_sums.subtract(total, hidden, *self.width)

    def _all_of(self, files: Sequence[DataFile], rows: Rows) -> FileSums:
        """Return the sums of the rows of files, read or kept."""
        adder, before = _Adder(self.width), dict[str, bytes]()
        for batch in _batches(self._find(files, rows, before, adder), rows):
            if self.reader.stopped.is_set():
                raise StatementCancelled
            self._read(batch, rows, before, adder)
        return adder.total()

    def _find(self, files: Sequence[DataFile], rows: Rows, before: dict[str, bytes], adder: _Adder) -> list[tuple[DataFile, str]]:
        """Add the sums that are kept, as `_load` does, and return the files that have none, each with what it is known by."""
        by_digest = {_file_digest(file.identity, file.hidden if rows == "hidden" else ""): file for file in files}
        if len(by_digest) != len(files):
            raise FileSumsWrong(f"{self.side}: two files of the table are known by the same identity; report this as a bug")
        found = self._load(by_digest, before, adder)
        return [(file, digest) for digest, file in by_digest.items() if digest not in found]

    def _load(self, by_digest: Mapping[str, DataFile], before: dict[str, bytes], adder: _Adder) -> set[str]:
        """Add the sums that are kept, and return of which files; in a rescan note in ``before`` those that this run has not read."""
        found: set[str] = set()
        try:
            for digest, body in self.run_of._kept.load(self.reading, list(by_digest)):
                sums = self._unpacked(body)
                if sums is None:
                    self.tally.damaged += 1
                elif self.run_of._rescan and (self.reading, digest) not in self.run_of._fresh:
                    before[digest] = file_sums.fingerprint(sums)
                else:
                    adder.add(sums)
                    found.add(digest)
        except StoreError as error:
            self.run_of._fail(error)
        return found

    def _unpacked(self, body: bytes | None) -> FileSums | None:
        try:
            return file_sums.unpack(body, *self.width) if body is not None else None
        except FileSumsWrong:
            return None

    def _read(self, batch: Sequence[tuple[DataFile, str]], rows: Rows, before: Mapping[str, bytes], adder: _Adder) -> None:
        """Read some files, and keep their sums."""
        files, dialect = [file for file, _ in batch], self.session.dialect
        doing = "reading files" if rows == "all" else "reading deleted rows"
        self.reader.report(self.side, doing, self.tally.rows, max(self.total_rows, self.tally.rows))
        number = dialect.names.quote(self.plan.named(render.FILE_NUMBER))
        relation = dialect.files.show(self.session, self.plan.sides[self.side].table, files, number, rows)
        plan = _reading_from(self.plan, self.side, relation)
        statement = render.summary(plan, self.side, dialect, Chunk(), by_file=number)
        try:
            parts = read_by_file(self.session, statement, plan, len(files))
            self._check(plan, parts)
        except ReadingContradicted:
            self._confirm(files)
            raise
        self._confirm(files)
        if unhashed := sum(int((part.rows != part.hashed).sum()) for part in parts):
            raise PlanError(
                f"{self.side}: rows of {unhashed:,} partitions could not be hashed, so no sums of files are kept; remove files: kept"
            )
        bodies = []
        for (file, digest), part in zip(batch, parts, strict=True):
            sums = file_sums.of_rows(part)
            adder.add(sums)
            bodies.append((digest, file.form if rows == "all" else "", file_sums.pack(sums)))
            if digest in before and file_sums.fingerprint(sums) != before[digest]:
                self.tally.changed.append(file.path.rpartition("/")[2])  # folders can be named by values of masked columns
        self._keep(bodies)
        self.tally.rows += sum(int(part.rows.sum()) for part in parts)
        self.tally.read_bytes += sum(file.bytes for file in files)
        if rows == "all":
            self.tally.read += len(files)
        else:
            self.tally.hidden += len(files)

    def _confirm(self, files: Sequence[DataFile]) -> None:
        self.session.dialect.files.confirm(self.session, self.plan.sides[self.side].table, files)

    def _keep(self, bodies: Sequence[tuple[str, str, bytes]]) -> None:
        try:
            self.run_of._kept.save(self.reading, bodies)
            self.run_of._fresh.update((self.reading, digest) for digest, _, _ in bodies)
        except StoreError as error:
            self.run_of._fail(error)

    def _check(self, plan: Plan, parts: Sequence[Summaries]) -> None:
        """Hold what was read against a bare count, and once against a few rows that are hashed here."""
        checks = self.run_of._checks
        assert checks is not None, "they are given with the plan"
        keys = [int(key) for part in parts for key in part.least[:2] if key is not None][:16]
        rows = sum(int(part.rows.sum()) for part in parts)
        checks.hold_files(plan, self.side, rows, keys, self.session, witnesses=not self.checked)
        self.checked = self.checked or rows > 0

    def _digest_of_reading(self, table: str) -> str:
        """Return what decides the sums of any file: see the module's text."""
        dialect = self.session.dialect
        number = dialect.names.quote(self.plan.named(render.FILE_NUMBER))
        plan = _reading_from(self.plan, self.side, dialect.names.quote("files"))
        statement = render.summary(plan, self.side, dialect, Chunk(), by_file=number)
        self.run_of._statements[self.side] = statement
        reading = dialect.files.reading(self.session, table, statement)
        pinned = dialect.pin_statements(1, 1)
        said = [VERSION, file_sums.FORM, canonical.VERSION, dialect.name, self.session.server, pinned, statement, reading]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()


@dataclass(slots=True)
class _Adder:
    """Adds up sums, a few at a time."""

    width: tuple[int, int]
    parts: list[FileSums] = field(default_factory=list)

    def add(self, sums: FileSums) -> None:
        """Add the sums of one more file."""
        self.parts.append(sums)
        if len(self.parts) >= FOLDED:
            self.parts = [self.total()]

    def total(self) -> FileSums:
        """Return the sum of all."""
        return file_sums.add(self.parts, *self.width)


def why_not(plan: Plan, sides: Sequence[Side], whys: Sequence[str]) -> str:
    """Return why no sums of files can be kept for a plan, as a sentence; '' if they can. ``whys`` say why other sides are no files."""
    if not sides:
        about = f": {'; '.join(dict.fromkeys(whys))}" if whys else ", as those of Delta and Iceberg do"
        return f"files: kept needs a side whose tables consist of immutable files{about}; remove files"
    if plan.method not in ("signature", "exact"):
        return f"files: kept needs sums, and the method {plan.method} takes minima and maxima too; use exact or signature"
    if plan.k or plan.encoding == "published":
        return "files: kept needs sums, and minhashes are minima; remove k and encoding: published"
    if plan.now:
        return "files: kept needs a filter that means the same tomorrow; write a literal in place of now or today"
    if plan.watermark or any(here.settled for here in plan.sides.values()):
        return "files: kept is of all rows, and settle leaves some out; remove one of them"
    if any(plan.sides[side].versions or plan.sides[side].follows for side in sides):
        return "files: kept reads files one by one, and a convention looks at several rows of a key; remove one of them"
    return ""


def read_by_file(session: Session, statement: str, plan: Plan, count: int) -> list[Summaries]:
    """Return the summaries of each of so many files by a statement that summarises each on its own. Raises EngineError."""
    names = render.result_columns(plan)
    columns: list[list[Any]] = [[] for _ in range(len(names) + 1)]
    for batch in session.summarise(statement):
        for column, values in zip(columns, batch, strict=True):
            numbers: Any = values
            column.append(numbers if isinstance(numbers, np.ndarray) else np.array(numbers, np.object_))  # with a NULL it is a list
    whole: list[Any] = [np.concatenate(column) if column else np.zeros(0, np.int64) for column in columns]
    places = np.array(whole.pop(), np.int64)
    order = np.argsort(places, kind="stable")
    ends = np.searchsorted(places[order], np.arange(count + 1))
    return [arrays.read([[column[order[first:end]] for column in whole]], names) for first, end in pairwise(ends.tolist())]


def _reading_from(plan: Plan, side: Side, relation: str) -> Plan:
    """Return the plan with a relation in place of a side's table."""
    return replace(plan, sides={**plan.sides, side: replace(plan.sides[side], table=relation, chunks=(Chunk(),), chunk_keys=0)})


def _batches(files: Sequence[tuple[DataFile, str]], rows: Rows) -> Iterator[list[tuple[DataFile, str]]]:
    batch: list[tuple[DataFile, str]] = []
    used = 0
    for file, digest in files:
        size = (file.rows if rows == "all" or file.hidden_rows is None else file.hidden_rows) or 0
        if batch and (used + size > ROWS_AT_ONCE or len(batch) >= FILES_AT_ONCE):
            yield batch
            batch, used = [], 0
        batch.append((file, digest))
        used += size
    if batch:
        yield batch


def _file_digest(identity: str, hidden: str = "") -> str:
    return hashlib.sha256(json.dumps([identity, hidden]).encode()).hexdigest()


def _changed(side: Side, files: Sequence[str]) -> str:
    named, more = ", ".join(files[:MOST_NAMED]), len(files) - MOST_NAMED
    holds = "1 file holds" if len(files) == 1 else f"{len(files):,} files hold"
    return f"{side}: {holds} other rows than when first read: {named}{f' and {more:,} more' if more > 0 else ''}"


def _last_read(layout: FileLayout) -> dt.datetime | None:
    """Return when all files were last read; when their sums began where no single run has read them all."""
    return layout.proved_at or layout.begun_at


def _bounds_of(total: FileSums) -> Bounds:
    return Bounds(int(total.sums.rows.sum()), total.least, total.greatest)


def _pinned(audit: Audit, how: Partitioning) -> Audit:
    """Return the audit with these partitions."""
    if how.strategy == "time":
        return audit
    settings = {"strategy": how.strategy, "size": how.size or None, "buckets": how.buckets or None}
    return audit.model_copy(update={"partition": audit.partition.model_copy(update=settings)})
