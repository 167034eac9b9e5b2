"""Chunk summaries and partition maps as Parquet files in memory, the form in which the store holds them.

A file holds one row per partition, ascending by partition id, and is compressed with zstd. Its schema's metadata name the format
under ``auditor.format`` (``summaries``, ``stretches`` or ``partition_map``) and its version under ``auditor.version``. Reading checks
both, and the CRC of every page.

Format ``summaries``, version 1; n partitions, w words, s syndromes, k minhashes, m measures:

=========================  ===============  ===========================================================================
column                     type             content
=========================  ===============  ===========================================================================
``partition``              int64            partition id; NULL_PARTITION for rows whose key holds a NULL
``rows``                   int64            rows
``unhashed``               int64            ``rows`` minus hashed rows
``key_min``, ``key_max``   int64 or string  least and greatest key, NULL for none; strings where a key exceeds 64 bits
``word_0`` .. w-1          int64            sums of the words of the row hashes
``syndrome_1`` .. s        int64            power sums S_1 .. S_s modulo p = 2^31 - 1
``minhash_0`` .. k-1       int64            minhashes, below 2^31
``measure_0`` .. m-1       string           measures of the method counts as canonical text, NULL for no value
=========================  ===============  ===========================================================================

Format ``stretches``, version 1: as ``summaries``, with the stretches of a pre-scan for partitions.

Format ``partition_map``, version 1:

=========================  ===============  ===========================================================================
column                     type             content
=========================  ===============  ===========================================================================
``partition``              int64            partition id
``state``                  uint8            index into STATES
``similarity``             float32          0 .. 1; NULL where unknown, and where the state is equal (it is 1 there)
``rows_source``            int64            rows of the source
``rows_surplus``           int64            rows of the target minus those of the source
``key_min``, ``key_max``   int64 or string  least and greatest key over both sides; NULL for none, and where the state is equal
=========================  ===============  ===========================================================================

Raise the version whenever a column, its meaning or the order of STATES changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from auditor.errors import StoreError
from auditor.model import Side
from auditor.summary.arrays import Integers, Summaries
from auditor.summary.partition_states import STATES

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

VERSIONS = {"summaries": 1, "stretches": 1, "partition_map": 1}
"""Version of each format that this module writes, and the only one that it reads."""

COLUMNS = {
    "summaries": ("partition", "rows", "unhashed", "key_min", "key_max"),
    "stretches": ("partition", "rows", "unhashed", "key_min", "key_max"),
    "partition_map": ("partition", "state", "similarity", "rows_source", "rows_surplus", "key_min", "key_max"),
}
"""Columns that a file of each format has once."""

NUMBERED = {"word": 0, "syndrome": 1, "minhash": 0, "measure": 0}
"""Prefixes of the numbered columns that follow in ``summaries``, with the number of the first of each."""

DICTIONARY = ("state", "rows_surplus")
"""Columns of few different values."""

FORMAT, VERSION = b"auditor.format", b"auditor.version"
"""Keys of the schema's metadata."""

SummaryKind = Literal["summaries", "stretches"]
"""What summaries are of: partitions, or the stretches of a pre-scan."""

Objects: TypeAlias = "npt.NDArray[np.object_]"


@dataclass(frozen=True, slots=True)
class PartitionMap:
    """The state of every partition of a table after a run: arrays of length n, ascending by partition id.

    ``partition`` is (n,) int64. ``state`` is (n,) uint8, an index into STATES. ``similarity`` is (n,) float32 in 0 .. 1: 1 for equal
    partitions, NaN where it is unknown. ``rows`` maps each side to its (n,) int64 row counts. ``least`` and ``greatest`` are (n,)
    arrays of keys as Python integers; None for equal partitions, whose keys are not stored, and where keys have no order.
    """

    partition: Integers
    state: npt.NDArray[np.uint8]
    similarity: npt.NDArray[np.float32]
    rows: dict[Side, Integers]
    least: Objects
    greatest: Objects

    def __len__(self) -> int:
        return len(self.partition)


def pack_summaries(summaries: Summaries, kind: SummaryKind = "summaries") -> bytes:
    """Return summaries as a Parquet file of the current version; those of a pre-scan are of the ``kind`` stretches."""
    columns: dict[str, Any] = {
        "partition": summaries.partition,
        "rows": summaries.rows,
        "unhashed": summaries.rows - summaries.hashed,
        "key_min": _key_column(summaries.least),
        "key_max": _key_column(summaries.greatest),
        **_numbered("word", summaries.words),
        **_numbered("syndrome", summaries.syndromes),
        **_numbered("minhash", summaries.minhashes),
        **_numbered("measure", summaries.measures),
    }
    return _write(kind, columns)


def unpack_summaries(data: bytes) -> tuple[SummaryKind, Summaries]:
    """Return the summaries that ``pack_summaries`` packed, and their kind.

    Raises StoreError where the bytes are damaged, hold another format, or have another version.
    """
    stored, table = _read(("summaries", "stretches"), data)
    rows = _integers(table, "rows")
    kind: SummaryKind = "stretches" if stored == "stretches" else "summaries"
    return kind, Summaries(
        partition=_integers(table, "partition"),
        rows=rows,
        hashed=rows - _integers(table, "unhashed"),
        least=_keys(table, "key_min"),
        greatest=_keys(table, "key_max"),
        words=_matrix(table, "word"),
        syndromes=_matrix(table, "syndrome"),
        minhashes=_matrix(table, "minhash"),
        measures=_texts(table, "measure"),
    )


def pack_partition_map(partition_map: PartitionMap) -> bytes:
    """Return a partition map as a Parquet file of the current version."""
    equal = partition_map.state == STATES.index("equal")
    source, target = partition_map.rows["source"], partition_map.rows["target"]
    least, greatest = partition_map.least.copy(), partition_map.greatest.copy()
    least[equal] = greatest[equal] = None
    columns: dict[str, Any] = {
        "partition": partition_map.partition,
        "state": partition_map.state,
        "similarity": _column(partition_map.similarity, ~equal & ~np.isnan(partition_map.similarity)),
        "rows_source": source,
        "rows_surplus": target - source,
        "key_min": _key_column(least),
        "key_max": _key_column(greatest),
    }
    return _write("partition_map", columns)


def unpack_partition_map(data: bytes) -> PartitionMap:
    """Return the partition map that ``pack_partition_map`` packed.

    Raises StoreError where the bytes are damaged, hold another format, or have another version.
    """
    _, table = _read(("partition_map",), data)
    state = np.array(table.column("state").to_numpy(), np.uint8)
    if len(state) and state.max() >= len(STATES):
        raise StoreError(f"a stored partition map holds the unknown state {state.max()}; start a new run")
    similarity = np.array(table.column("similarity").to_numpy(), np.float32)  # NULL becomes NaN
    similarity[state == STATES.index("equal")] = 1.0
    source = _integers(table, "rows_source")
    rows: dict[Side, Integers] = {"source": source, "target": source + _integers(table, "rows_surplus")}
    return PartitionMap(_integers(table, "partition"), state, similarity, rows, _keys(table, "key_min"), _keys(table, "key_max"))


def _write(kind: str, columns: dict[str, Any]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrays = {name: column if isinstance(column, pa.Array) else _column(column) for name, column in columns.items()}
    table = pa.table(arrays).replace_schema_metadata({FORMAT: kind, VERSION: str(VERSIONS[kind])})
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        compression="zstd",
        use_dictionary=[name for name in DICTIONARY if name in columns] or False,
        column_encoding={field.name: encoding for field in table.schema if (encoding := _encoding(field))},
        write_statistics=False,
        write_page_checksum=True,
    )
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _encoding(field: pa.Field) -> str | None:
    """Return the encoding that zstd compresses best, by measurement: bytes by place for hash values, deltas for other integers."""
    import pyarrow as pa

    if field.name in DICTIONARY or not (pa.types.is_int64(field.type) or pa.types.is_floating(field.type)):
        return None
    hashed = field.name.startswith(("word", "syndrome", "minhash"))
    return "BYTE_STREAM_SPLIT" if hashed or pa.types.is_floating(field.type) else "DELTA_BINARY_PACKED"


def _read(kinds: Sequence[str], data: bytes) -> tuple[str, pa.Table]:
    """Return the format of a Parquet file, one of ``kinds``, and its table, after checking format and version. Raises StoreError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True) as file:
            metadata = file.schema_arrow.metadata or {}
            stored, version = metadata.get(FORMAT, b"").decode(), metadata.get(VERSION, b"").decode()
            if stored in kinds and version == str(VERSIONS[stored]):
                table = file.read()
                _check_columns(stored, table.column_names)
                return stored, table
    except (pa.ArrowException, OSError, ValueError) as error:
        raise StoreError(f"stored {kinds[0]} are damaged, or were written by an older version of the auditor; start a new run") from error
    if stored not in kinds:
        raise StoreError(f"stored {kinds[0]} are expected, and the stored format is {stored!r}; start a new run")
    raise StoreError(
        f"stored {stored} have format version {version or 'unknown'}, and this auditor reads version {VERSIONS[stored]};"
        " start a new run, or use the version of the auditor that wrote them"
    )


def _check_columns(kind: str, names: Sequence[str]) -> None:
    """Raise ValueError for columns other than the format's: they are named in the footer, which no checksum protects."""
    counts = Counter(name.rpartition("_")[0] for name in names[len(COLUMNS[kind]) :])
    numbered = [f"{name}_{first + index}" for name, first in NUMBERED.items() for index in range(counts[name])]
    if list(names) != [*COLUMNS[kind], *numbered]:
        raise ValueError(f"unexpected columns: {', '.join(names)}")


def _numbered(name: str, matrix: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of an (n, width) array by their names in the file."""
    return {f"{name}_{index}": column for index, column in enumerate(matrix.T, NUMBERED[name])}


def _named(table: pa.Table, name: str) -> list[str]:
    return [column for column in table.column_names if column.startswith(f"{name}_")]


def _integers(table: pa.Table, name: str) -> Integers:
    chunks = [np.from_dlpack(chunk) for chunk in table.column(name).chunks]  # not by to_numpy, which imports pandas too: see _column
    return np.concatenate([np.zeros(0, np.int64), *chunks], dtype=np.int64)


def _matrix(table: pa.Table, name: str) -> Integers:
    columns = _named(table, name)
    return np.stack([_integers(table, column) for column in columns], axis=1) if columns else np.zeros((len(table), 0), np.int64)


def _texts(table: pa.Table, name: str) -> Objects:
    columns = _named(table, name)
    texts = np.empty((len(table), len(columns)), np.object_)
    for index, column in enumerate(columns):
        texts[:, index] = table.column(column).to_pylist()
    return texts


def _key_column(keys: Objects) -> pa.Array:
    known = keys != None  # noqa: E711  each key, not the array
    try:
        return _column(np.where(known, keys, 0).astype(np.int64), known)
    except OverflowError:
        texts = np.empty(len(keys), np.object_)
        texts[known] = keys[known].astype(str)
        return _column(texts)


def _column(values: npt.NDArray[Any], known: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Return numbers, or texts and None, as an Arrow array, with NULL where they are not ``known``.

    From buffers: by ``pa.array`` Arrow would import pandas, if it is installed, which takes longer than to audit a small table.
    """
    import pyarrow as pa

    if values.dtype != np.object_:
        bits = None if known is None or known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))
        return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [bits, pa.py_buffer(np.ascontiguousarray(values))])
    texts = [b"" if text is None else text.encode() for text in values]
    bits = pa.py_buffer(np.packbits(values != None, bitorder="little"))  # noqa: E711
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), len(values), [bits, pa.py_buffer(ends), pa.py_buffer(b"".join(texts))])


def _keys(table: pa.Table, name: str) -> Objects:
    """Return keys as Python integers, which have no greatest value."""
    keys = np.empty(len(table), np.object_)
    keys[:] = [None if key is None else int(key) for key in table.column(name).to_pylist()]
    return keys
