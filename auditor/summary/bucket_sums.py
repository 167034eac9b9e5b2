"""Sums of the hashes of events by bucket: 256 buckets, by a hash of the value that a column has in an event.

A sum does not depend on the order of events, and sums of two sets of events add up. A bucket with equal sums has the same events, but for
one chance in 2 ** 128. Stored are the buckets that have events, 25 bytes each.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from auditor.canonical import BAR, ESCAPED, NULL
from auditor.errors import SegmentFailed

if TYPE_CHECKING:
    import numpy.typing as npt

BUCKETS = 256

HASH_BYTES = 16
"""Bytes of an event's hash that are added up, as two words of 64 bits, modulo 2 ** 64."""

FORMAT = 1
"""First byte of stored sums."""

_HEAD, _VERSION = struct.Struct(">BH"), struct.Struct(">HH")
_STORED = np.dtype([("bucket", "u1"), ("events", ">u8"), ("words", ">u8", (2,))])


def bucket_of(text: str | None) -> int:
    """Return the bucket of a value, by the text that events have of it; None, for NULL, is a value of its own."""
    return hashlib.sha256((NULL if text is None else text.replace(BAR, ESCAPED)).encode()).digest()[0]


@dataclass(frozen=True, slots=True)
class BucketSums:
    """How many events each bucket has, (256,) uint64, and the sums of their hashes, (256, 2) uint64."""

    events: npt.NDArray[np.uint64] = field(default_factory=lambda: np.zeros(BUCKETS, np.uint64))
    words: npt.NDArray[np.uint64] = field(default_factory=lambda: np.zeros((BUCKETS, 2), np.uint64))

    @classmethod
    def of(cls, buckets: npt.NDArray[np.integer], hashes: bytes) -> BucketSums:
        """Return the sums of events, given by the bucket of each and by their hashes, of HASH_BYTES each."""
        words = np.frombuffer(hashes, ">u8").reshape(-1, 2).astype(np.uint64)
        sums = cls(np.bincount(buckets, minlength=BUCKETS).astype(np.uint64))
        order = np.argsort(buckets, kind="stable")
        present, starts = np.unique(buckets[order], return_index=True)
        if len(present):
            sums.words[present] = np.add.reduceat(words[order], starts, axis=0)
        return sums

    def __add__(self, other: BucketSums) -> BucketSums:
        return BucketSums(self.events + other.events, self.words + other.words)

    def find_unequal(self, other: BucketSums) -> tuple[int, ...]:
        """Return the buckets that do not have the same events."""
        differs = (self.events != other.events) | (self.words != other.words).any(axis=1)
        return tuple(np.flatnonzero(differs).tolist())


@dataclass(frozen=True, slots=True)
class SegmentSums:
    """The sums of a segment's events."""

    by: str
    """The source's column whose values decide on the bucket."""
    sums: Mapping[int, BucketSums]
    """By the version of the events' text; none where the segment's table has no such column."""

    def encode(self) -> bytes:
        """Return what is stored of them."""
        name = self.by.encode()
        pieces = [_HEAD.pack(FORMAT, len(name)), name]
        for version, sums in sorted(self.sums.items()):
            present = np.flatnonzero(sums.events)
            stored = np.empty(len(present), _STORED)
            stored["bucket"], stored["events"], stored["words"] = present, sums.events[present], sums.words[present]
            pieces += [_VERSION.pack(version, len(present)), stored.tobytes()]
        return b"".join(pieces)

    @classmethod
    def decode(cls, stored: bytes) -> SegmentSums | None:
        """Return the sums that ``encode`` stored; None of a segment without any. Raises SegmentFailed if they are damaged."""
        if not stored:
            return None
        try:
            form, length = _HEAD.unpack_from(stored)
            if form != FORMAT:
                raise SegmentFailed(f"the digests by bucket of a segment have format {form}, which this release does not read; upgrade it")
            by, at = stored[_HEAD.size : _HEAD.size + length].decode(), _HEAD.size + length
            found: dict[int, BucketSums] = {}
            while at < len(stored):
                version, count = _VERSION.unpack_from(stored, at)
                rows = np.frombuffer(stored, _STORED, count, at + _VERSION.size)
                sums = found[version] = BucketSums()
                sums.events[rows["bucket"]], sums.words[rows["bucket"]] = rows["events"], rows["words"]
                at += _VERSION.size + rows.nbytes
        except (struct.error, ValueError) as error:
            raise SegmentFailed(f"the digests by bucket of a segment are damaged: {error}; reset its audit's register") from error
        return cls(by, found)


def find_unequal(first: Iterable[bytes], second: Iterable[bytes]) -> tuple[str, tuple[int, ...]] | None:
    """Return by which column the segments of two sides have digests, and the buckets in which they do not have the same events.

    ``first`` and ``second`` are the stored sums of each side's segments, which add up. None where the two cannot be compared: without sums,
    or with sums by other columns or of other versions of the events' text. Raises SegmentFailed.
    """
    sides = [[SegmentSums.decode(stored) for stored in side] for side in (first, second)]
    known = [sums for side in sides for sums in side if sums is not None]
    if not known or len(known) < sum(map(len, sides)) or len({sums.by for sums in known}) > 1:
        return None
    versions = set[int].intersection(*(set(sums.sums) for sums in known))
    if not versions:
        return None
    totals = [reduce(BucketSums.__add__, (sums.sums[max(versions)] for sums in side if sums), BucketSums()) for side in sides]
    return known[0].by, totals[0].find_unequal(totals[1])
