"""What merges did to a target otherwise than the source's log says, batch by batch: its statements, and how they add up.

A merge reads the rows of the keys that it changes before and after it changes them, in its transaction, and adds them up as summaries of
the target are. What the log says that these rows were, and are to be, it has from the stream's sums. An entry holds both differences, which
are empty for a merge that did what it should: then it takes no more than a row. As the stream's sums are known at each place, so is what
merges made of the target: the sums, and all that entries add and take away until there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import sql_templates
from auditor.errors import LiveSummariesWrong
from auditor.run.live import running_sums
from auditor.run.live.statements import EPOCH_CHARACTERS, PIECE, as_text
from auditor.sql.user_sql import checked
from auditor.summary.arrays import Summaries
from dialects import Dialect, Kind

LEDGER = "auditor_ledger"
"""The table of a target that holds the ledgers."""

BETWEEN = "."
"""What stands between the parts of a body; no part has one."""


FOLDED = BETWEEN * 3
"""The body of several merges that did otherwise than the log says, whose differences cancel out."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What the merge of the events after one place, up to another, did to the target's rows otherwise than these say."""

    epoch: str
    previous: int
    place: int
    merged_at: str
    """When, by the clock of the process that merged, ISO 8601 in UTC; of several merges, of the last one."""
    version: str
    """The auditor's version that merged."""
    batches: int = 1
    """How many merges it stands for."""
    body: str = ""
    """The differences, as `record` writes them; '' if the merge did as the log says."""

    @property
    def digest(self) -> str:
        """The SHA-256 of everything else in it, in hexadecimal digits."""
        text = f"{self.epoch}|{self.previous}|{self.place}|{self.merged_at}|{self.version}|{self.batches}|{self.body}"
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Deviation:
    """The differences of an entry, by partition: rows of the target minus what the log says."""

    wrote: Summaries
    """Of the rows that a merge left."""
    replaced: Summaries
    """Of the rows that it found."""
    contradicted: frozenset[int] = frozenset()
    """The partitions of these in which the log's events contradict each other, so that it does not say what the rows were and are to be."""
    misplaced: frozenset[int] = frozenset()
    """The partitions of these in which the merge changed rows of other keys than the log's events, or not all of theirs."""


def record(deviation: Deviation) -> str:
    """Return differences as text; '' for none."""
    wrote, replaced = running_sums.changed(deviation.wrote), running_sums.changed(deviation.replaced)
    if not len(wrote) and not len(replaced):
        return ""
    some = {*wrote.partition.tolist(), *replaced.partition.tolist()}
    named = [",".join(map(str, sorted(some & numbers))) for numbers in (deviation.contradicted, deviation.misplaced)]
    return BETWEEN.join([running_sums.pack(wrote), running_sums.pack(replaced), *named])


def read_deviation(body: str, words: int, powers: int) -> Deviation:
    """Return the differences that `record` wrote, of so many words and power sums a partition. Raises LiveSummariesWrong."""
    wrote, replaced, *named = body.split(BETWEEN)
    numbers = [frozenset(map(int, filter(None, some.split(",")))) for some in named]
    return Deviation(running_sums.unpack(wrote, words, powers), running_sums.unpack(replaced, words, powers), *numbers)


def fold(entries: Sequence[Entry], words: int, powers: int, most: int) -> list[Entry]:
    """Return fewer entries in the place of some that follow each other: merges in a row that did as the log says become one, by version.

    If the bodies of the others have more than ``most`` characters, all become one: in which of its merges something went wrong is lost.
    """
    if sum(len(entry.body) for entry in entries) > most:
        found = [read_deviation(entry.body, words, powers) for entry in entries if entry.body]
        nothing = running_sums.none(words, powers)
        total = Deviation(
            running_sums.add([nothing, *(one.wrote for one in found)]),
            running_sums.add([nothing, *(one.replaced for one in found)]),
            frozenset().union(*(one.contradicted for one in found)),
            frozenset().union(*(one.misplaced for one in found)),
        )
        return [replace(_joined(entries), body=record(total) or FOLDED)]
    folded: list[Entry] = []
    for (is_clean, _), some in groupby(entries, key=lambda entry: (not entry.body, entry.version)):
        listed = list(some)
        folded += [_joined(listed)] if is_clean else listed
    return folded


def _joined(entries: Sequence[Entry]) -> Entry:
    return replace(entries[-1], previous=entries[0].previous, batches=sum(entry.batches for entry in entries))


def check_chain(entries: Sequence[Entry], epoch: str, begin: int) -> None:
    """Raise LiveSummariesWrong if an entry is missing, or is another's: each begins where the one before it ended."""
    at = begin
    for entry in entries:
        if entry.previous != at or entry.epoch != epoch or entry.place <= at:
            raise LiveSummariesWrong(f"the ledger is missing what was merged after position {at}")
        at = entry.place


@dataclass(frozen=True, slots=True)
class LedgerStatements:
    """Statements about the ledgers in one schema of a target."""

    dialect: Dialect
    schema: str

    def create(self) -> str:
        """Return the statement that makes the table if it is missing."""
        text, integer = self.dialect.types.native_type(Kind("text")), self.dialect.types.native_type(Kind("integer"))
        name = self.dialect.TABLE_FORM.key_text.format(characters=EPOCH_CHARACTERS) or text
        return self._fill("ledger_create", text=text, integer=integer, name=name)

    def list(self, epoch: str) -> str:
        """Return the statement that lists the entries of an epoch, as `read_entries` takes them."""
        return self._fill("ledger", epoch=self.dialect.names.literal(epoch))

    def sizes(self, epoch: str) -> str:
        """Return the statement whose row says how many rows and characters the ledger of an epoch has."""
        return self._fill("ledger_sizes", epoch=self.dialect.names.literal(epoch))

    def forget(self, *epochs: str, through: int | None = None) -> str:
        """Return the statement that deletes the ledgers of epochs, of at least one, or what one has up to a place."""
        until = "" if through is None else f" AND place <= {self.dialect.names.literal(through)}"
        return self._fill("ledger_delete", epochs=", ".join(map(self.dialect.names.literal, epochs)), through=until)

    def write(self, entry: Entry) -> Sequence[str]:
        """Return the statements that add an entry."""
        literal = self.dialect.names.literal
        names = ("epoch", "place", "previous", "batches", "merged_at", "version", "digest")
        values = {name: literal(getattr(entry, name)) for name in names}
        pieces = [entry.body[start : start + PIECE] for start in range(0, len(entry.body), PIECE)] or [""]
        return [
            self._fill("ledger_insert", piece=literal(number), size=literal(len(body)), body=literal(body), **values)
            for number, body in enumerate(pieces)
        ]

    def _fill(self, template: str, **fragments: str) -> str:
        ledger = self.dialect.names.table(self.schema, LEDGER)
        return checked(sql_templates.fill(self.dialect.template(template), {"ledger": ledger, **fragments}), self.dialect)


def read_entries(epoch: str, rows: Iterable[Sequence[Any]]) -> list[Entry]:
    """Return the entries of an epoch in their order. Raises LiveSummariesWrong for one whose digest is wrong, or that is not complete."""
    entries: list[Entry] = []
    for place, some in groupby(rows, key=lambda row: int(row[0])):
        pieces = list(some)
        _, _, previous, batches, merged_at, version, digest, _ = pieces[0]
        body = "".join(as_text(piece[7]) for piece in pieces)
        entry = Entry(epoch, int(previous), place, as_text(merged_at), as_text(version), int(batches), body)
        if entry.digest != as_text(digest) or [int(piece[1]) for piece in pieces] != list(range(len(pieces))):
            raise LiveSummariesWrong(f"the ledger's entry at position {place} is not what was written")
        entries.append(entry)
    return entries
