"""Sums that a change stream keeps: what a row taken away or added changes in its partition's summary, link by link.

Counts, words and power sums are sums over rows, so the summaries at one place of the stream and those at a later one differ by what the
events between them took away and added. A link is that difference between two places. A link's digest covers the epoch, its layout, both
places, the columns and the sums, and each link begins where the one before it ends: a link that is missing, doubled or damaged is found.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from auditor.errors import LiveSummariesWrong
from auditor.summary import arrays
from auditor.summary.arrays import Integers, Summaries, concatenate
from auditor.summary.key_number import P

if TYPE_CHECKING:
    import numpy.typing as npt

FIXED = 2
"""Numbers of a partition before its words: its id, and its rows; all of these have a hash."""


@dataclass(frozen=True, slots=True)
class Link:
    """What the events after one place, up to another, change in the summaries of an epoch."""

    epoch: str
    layout: str
    previous: int
    place: int
    shape: str
    """Digest of the names and types of the compared columns of these events; '' if there are none."""
    body: str
    """The sums, as ``pack`` writes them."""

    @property
    def digest(self) -> str:
        """The SHA-256 of everything else in it, in hexadecimal digits."""
        text = f"{self.epoch}|{self.layout}|{self.previous}|{self.place}|{self.shape}|{self.body}"
        return hashlib.sha256(text.encode()).hexdigest()


def pack(sums: Summaries) -> str:
    """Return sums as text of letters, digits and ``+/=``; '' for none."""
    if not len(sums):
        return ""
    shape = np.array([sums.words.shape[1], sums.syndromes.shape[1]], np.int64)
    matrix = np.column_stack([sums.partition, sums.rows, sums.words, sums.syndromes]).astype("<i8")
    return base64.b64encode(zlib.compress(shape.astype("<i8").tobytes() + matrix.tobytes(), 1)).decode()


def unpack(body: str, words: int, powers: int) -> Summaries:
    """Return the sums that ``pack`` wrote, of so many words and power sums a partition. Raises LiveSummariesWrong."""
    if not body:
        return none(words, powers)
    try:
        numbers = np.frombuffer(zlib.decompress(base64.b64decode(body, validate=True)), "<i8").astype(np.int64)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise LiveSummariesWrong("sums of live summaries cannot be read; they have to start again") from error
    width = FIXED + words + powers
    if len(numbers) < 2 or tuple(numbers[:2]) != (words, powers) or (len(numbers) - 2) % width:
        raise LiveSummariesWrong("sums of live summaries have another form than their plan; they have to start again")
    matrix = numbers[2:].reshape(-1, width)
    return of(matrix[:, 0], matrix[:, 1], matrix[:, FIXED : FIXED + words], matrix[:, FIXED + words :])


def of(partition: Integers, rows: Integers, words: Integers, powers: Integers) -> Summaries:
    """Return summaries of these partitions, without keys."""
    return arrays.of_sums(partition, rows, words, powers % P)


def none(words: int, powers: int) -> Summaries:
    """Return the summaries of no partition."""
    nothing = np.zeros(0, np.int64)
    return of(nothing, nothing, np.zeros((0, words), np.int64), np.zeros((0, powers), np.int64))


def add(parts: Sequence[Summaries]) -> Summaries:
    """Return the sums of summaries and differences, at least one, ascending by partition."""
    bare = [of(part.partition, part.rows, part.words, part.syndromes) for part in parts]
    total = concatenate(bare) if len(bare) > 1 else bare[0]
    return replace(total, syndromes=total.syndromes % P)


def unite(sums: Summaries, ids: Integers) -> Summaries:
    """Return signatures of unions of partitions; ``ids`` are the unions' numbers, (n,) int64."""
    united, place = np.unique(ids, return_inverse=True)
    rows, words = np.zeros(len(united), np.int64), np.zeros((len(united), sums.words.shape[1]), np.int64)
    np.add.at(rows, place, sums.rows)
    np.add.at(words, place, sums.words)
    return of(united, rows, words, np.zeros((len(united), 0), np.int64))


def minus(sums: Summaries) -> Summaries:
    """Return what takes these sums away."""
    return of(sums.partition, -sums.rows, -sums.words, -sums.syndromes)


def apply(base: Summaries, links: Sequence[Link], *, epoch: str, layout: str, begin: int, place: int) -> Summaries:
    """Return the summaries at a place: those at ``begin`` and what the links, in their order, change until there.

    Partitions without a row are left out, as a scan leaves them out. Raises LiveSummariesWrong if a link is missing, or is another's, or
    what remains cannot be the summaries of rows.
    """
    folded = fold(links, epoch=epoch, layout=layout, begin=begin, words=base.words.shape[1], powers=base.syndromes.shape[1])
    if folded.place != place:
        raise LiveSummariesWrong(f"the live summaries are at position {folded.place}, and the target at {place}; they have to start again")
    return _without_empty(add([base, unpack(folded.body, base.words.shape[1], base.syndromes.shape[1])]))


def path(links: Sequence[Link], begin: int, place: int) -> list[Link]:
    """Return those of some links that lead from one place to another, in their order; of several that end at a place the last one counts.

    Raises LiveSummariesWrong if none do.
    """
    ending, found, at = {link.place: link for link in links}, list[Link](), place
    while at > begin:
        if (link := ending.get(at)) is None or link.previous >= at:
            raise LiveSummariesWrong(f"the live summaries are missing what changed up to position {at}; they have to start again")
        found.append(link)
        at = link.previous
    return found[::-1]


def fold(links: Sequence[Link], *, epoch: str, layout: str, begin: int, words: int, powers: int) -> Link:
    """Return one link in the place of all that follow ``begin``, of so many words and power sums a partition.

    Raises LiveSummariesWrong if one is missing, or is another's.
    """
    parts, at, shape = [none(words, powers)], begin, ""
    for link in links:
        if (link.epoch, link.layout, link.previous) != (epoch, layout, at) or link.place <= at:
            raise LiveSummariesWrong(f"the live summaries are missing what changed after position {at}; they have to start again")
        if link.shape and shape not in ("", link.shape):
            raise LiveSummariesWrong("the live summaries are sums over different columns; they have to start again")
        parts.append(unpack(link.body, words, powers))
        at, shape = link.place, link.shape or shape
    return Link(epoch, layout, begin, at, shape, pack(changed(add(parts))))


def changed(sums: Summaries) -> Summaries:
    """Return the sums of partitions in which something changed."""
    return _chosen(sums, (sums.rows != 0) | sums.words.any(axis=1) | sums.syndromes.any(axis=1))


def _without_empty(summaries: Summaries) -> Summaries:
    is_empty = summaries.rows == 0
    rest = summaries.words[is_empty].any() or summaries.syndromes[is_empty].any()
    if (summaries.rows < 0).any() or rest:
        raise LiveSummariesWrong("the live summaries hold sums that no rows have; the stream lost events, and they have to start again")
    return _chosen(summaries, ~is_empty)


def _chosen(sums: Summaries, which: npt.NDArray[np.bool_]) -> Summaries:
    return of(sums.partition[which], sums.rows[which], sums.words[which], sums.syndromes[which])
