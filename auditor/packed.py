"""Arrays as bytes, to be kept: the summaries of a chunk, and the picture of a whole run.

Integers are kept as their differences from the one before where they ascend, with the sign in the lowest bit, and byte by
byte: first the lowest byte of all of them, then the next. So a run of ids, or of counts that are much alike, takes next to nothing.
No pickle is read or written: what is kept may have been tampered with.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from auditor.errors import StoreError
from auditor.model import Side
from auditor.summary import Integers, Summaries

STATES = ("equal", "accounted", "listed", "refined", "estimated", "unequal", "source_only", "target_only", "skipped")
"""What became of a partition."""

Objects = npt.NDArray[np.object_]
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Picture:
    """A whole table, partition by partition, ascending by id: arrays of one length.

    ``state`` is the position in STATES; ``similarity`` is NaN where it is not known, and 1 where the partition is equal.
    ``least`` and ``greatest`` are keys, or None; those of equal partitions are not kept.
    """

    partition: Integers
    state: npt.NDArray[np.uint8]
    similarity: npt.NDArray[np.float32]
    rows: dict[Side, Integers]
    least: Objects
    greatest: Objects

    def __len__(self) -> int:
        return len(self.partition)


def pack_summaries(found: Summaries) -> bytes:
    """The summaries as bytes."""
    tables = {name: _planes(getattr(found, name)) for name in ("words", "syndromes", "minhashes")}
    return _packed(
        partition=_planes(_steps(found.partition)),
        rows=_planes(found.rows),
        hashed=_planes(found.hashed - found.rows),
        measures=_text(found.measures.tolist()),
        shape=np.array([found.measures.shape[1]]),
        **tables,
        **_keys(found.least, found.greatest),
    )


def unpack_summaries(kept: bytes) -> Summaries:
    """The summaries, as they were packed. Raises StoreError where the bytes are damaged."""
    with _Unpacked(kept) as parts:
        rows = _whole(parts["rows"])
        least, greatest = _unkeyed(parts)
        measures = np.empty((len(rows), int(parts["shape"][0])), np.object_)
        measures[:] = np.array(_untext(parts["measures"]), np.object_).reshape(measures.shape)
        return Summaries(
            partition=np.cumsum(_whole(parts["partition"])),
            rows=rows,
            hashed=_whole(parts["hashed"]) + rows,
            least=least,
            greatest=greatest,
            measures=measures,
            **{name: _whole(parts[name]) for name in ("words", "syndromes", "minhashes")},
        )


def pack_picture(picture: Picture) -> bytes:
    """The picture as bytes."""
    told = picture.state != 0
    source, target = picture.rows["source"], picture.rows["target"]
    return _packed(
        partition=_planes(_steps(picture.partition)),
        state=picture.state,
        similarity=_planes(picture.similarity[told].astype("<f4").view("<i4").astype(np.int64)),
        source=_planes(source),
        target=_planes(target - source),
        **_keys(picture.least[told], picture.greatest[told]),
    )


def unpack_picture(kept: bytes) -> Picture:
    """The picture, as it was packed. Raises StoreError where the bytes are damaged."""
    with _Unpacked(kept) as parts:
        state = parts["state"]
        told = state != 0
        similarity = np.ones(len(state), np.float32)
        similarity[told] = _whole(parts["similarity"]).astype("<i4").view("<f4")
        least, greatest = np.empty(len(state), np.object_), np.empty(len(state), np.object_)
        least[told], greatest[told] = _unkeyed(parts)
        source = _whole(parts["source"])
        rows: dict[Side, Integers] = {"source": source, "target": source + _whole(parts["target"])}
        return Picture(np.cumsum(_whole(parts["partition"])), state, similarity, rows, least, greatest)


def _packed(**parts: npt.NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **parts)
    return file.getvalue()


class _Unpacked:
    """The arrays by name; whatever damage comes to light while they are read is a StoreError."""

    def __init__(self, kept: bytes) -> None:
        self._kept = kept

    def __enter__(self) -> dict[str, npt.NDArray[Any]]:
        try:
            with np.load(io.BytesIO(self._kept), allow_pickle=False) as parts:
                return dict(parts)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise StoreError("what was kept of a run is damaged; start a new run") from error

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, (KeyError, ValueError, IndexError)):
            raise StoreError("what was kept of a run is not what this version keeps; start a new run") from error


def _steps(numbers: Integers) -> Integers:
    """What each adds to the one before; beyond 64 bits both ways wrap around, and `cumsum` wraps back."""
    with np.errstate(over="ignore"):
        return np.diff(numbers, prepend=np.int64(0))


def _planes(numbers: Integers) -> Bytes:
    signed = (numbers << 1) ^ (numbers >> 63)
    return np.moveaxis(np.ascontiguousarray(signed, "<i8").view(np.uint8).reshape(*numbers.shape, 8), -1, 0)


def _whole(planes: Bytes) -> Integers:
    if planes.shape[0] != 8:
        raise ValueError("not the eight bytes of integers")
    signed = np.ascontiguousarray(np.moveaxis(planes, 0, -1)).view("<u8")[..., 0]
    return ((signed >> np.uint64(1)) ^ -(signed & np.uint64(1))).view(np.int64)


def _keys(least: Objects, greatest: Objects) -> dict[str, npt.NDArray[Any]]:
    """Keys in the order of partitions, the least before the greatest: in ranges of keys each is little more than the one before."""
    keys = [key for pair in zip(least, greatest, strict=True) for key in pair]
    there = np.array([key is not None for key in keys], bool)
    numbers = [key for key in keys if key is not None]
    try:
        held = _planes(_steps(np.array(numbers, np.int64)))
    except OverflowError:  # keys beyond 64 bits
        held = _text([str(key) for key in numbers])
    return {"keys": held, "keyed": np.packbits(there), "pairs": np.array([len(least)])}


def _unkeyed(parts: dict[str, npt.NDArray[Any]]) -> tuple[Objects, Objects]:
    count, held = int(parts["pairs"][0]), parts["keys"]
    there = np.unpackbits(parts["keyed"], count=2 * count).astype(bool)
    keys = np.empty(2 * count, np.object_)
    keys[there] = [int(key) for key in _untext(held)] if held.ndim == 1 else np.cumsum(_whole(held)).tolist()
    return keys[0::2], keys[1::2]


def _text(value: Any) -> Bytes:
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


def _untext(kept: Bytes) -> Any:
    return json.loads(kept.tobytes())
