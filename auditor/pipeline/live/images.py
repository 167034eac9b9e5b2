"""The rows of events before and after: their texts, as an audit reads them, and hashes, partitions and places of these."""

from __future__ import annotations

import datetime as dt
import hashlib
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from auditor import canonical
from auditor.errors import ValueRefused
from auditor.model import ColumnPlan, Plan
from auditor.run.live import running_sums
from auditor.summary.arrays import Integers, Summaries
from auditor.summary.key_number import FACTORS, POSITIONS, P, Q, forms, key_number
from dialects import Kind
from dialects.mysql.expressions import LONGEST_STRIPPED

EXACT = Context(prec=2000)

FLOATS = ("float32", "float64")

WITHOUT_BAR = frozenset(
    {
        "integer",
        "year",
        "decimal",
        "rounded",
        "boolean",
        "bit",
        "float32",
        "float64",
        "date",
        "time",
        "timestamp",
        "timestamptz",
        "binary",
        "uuid",
        "network",
    }
)
"""Kinds whose texts never hold the row encoding's special character."""

OFFSET = 0.3721
"""What is added to a binary logarithm before it is cut, in the canonical text of floats."""

BLANKS = re.compile(r'("(?:[^"\\]|\\.)*")|[ \t\r\n]+', re.DOTALL)


def canonical_texts(texts: pa.Array, column: ColumnPlan) -> pa.Array:
    """Return the canonical texts of a column's values, with the audit's trim, case and null_as; NULL for NULL without null_as.

    Raises ValueRefused for a value whose text cannot be computed here.
    """
    canonical = _of_kind(texts, column)
    if column.trim:
        canonical = pc.utf8_trim(canonical, " ")
    if column.case:
        canonical = (pc.ascii_lower if column.case == "lower" else pc.ascii_upper)(canonical)
    return canonical if column.null_as is None else canonical.fill_null(column.null_as)


def row_texts(columns: list[pa.Array], plans: list[ColumnPlan], salt: str) -> pa.Array:
    """Return the injective row texts of canonical texts, after the salt."""
    escaped = [_in_row(texts, plan) for texts, plan in zip(columns, plans, strict=True)]
    separator = pa.scalar(canonical.SEPARATOR)
    return pc.binary_join_element_wise(*([pa.scalar(salt)] if salt else []), *escaped, separator)


def _in_row(texts: pa.Array, plan: ColumnPlan) -> pa.Array:
    if plan.digest:
        return _each(texts, lambda text: canonical.digest(plan.kind, text, plan.pieces) or "").fill_null(canonical.NULL)
    if plan.kind.name not in WITHOUT_BAR or plan.null_as is not None:
        texts = pc.replace_substring(texts, canonical.BAR, canonical.ESCAPED)
    return texts.fill_null(canonical.NULL) if texts.null_count else texts


def _of_kind(texts: pa.Array, column: ColumnPlan) -> pa.Array:
    kind, native = column.kind, column.native["source"]
    match kind.name:
        case "boolean":
            return pc.if_else(pc.match_substring_regex(texts, "[1-9]"), "1", "0")
        case "integer" | "year" | "decimal" if native.name == "boolean":
            return pc.if_else(pc.match_substring_regex(texts, "[1-9]"), "1", "0")
        case "integer" | "year":
            return _decimals(texts, 0, native)
        case "decimal":
            return _decimals(texts, kind.scale, native)
        case "rounded":
            return _rounded(texts, kind.scale or 0, native, column)
        case "float64" | "float32":
            return _floats(texts, kind, native, column)
        case "date":
            return texts if native.name == "date" else _moments(texts, kind, native)
        case "timestamp" | "timestamptz":
            return _midnights(texts) if native.name == "date" else _moments(texts, kind, native)
        case "time":
            return _moments(texts, kind, native)
        case "bit":
            return _each(texts, lambda text: f"{int(text):0{native.digits or 1}b}")
        case "uuid" if native.name == "binary":
            return pc.replace_substring_regex(texts, "^(.{0,8})(.{0,4})(.{0,4})(.{0,4})(.*)$", r"\1-\2-\3-\4-\5")
        case "json":
            return texts if kind.form == "printed" else _each(texts, lambda text: _without_blanks(text, native))
        case "char":
            return texts if native.name == "char" else pc.utf8_rtrim(texts, " ")
        case _:
            return texts


def _without_blanks(text: str, native: Kind) -> str:
    """Return a document without blanks, unless MySQL keeps them because it is too long."""
    if native.form == "printed" and len(text.encode()) > LONGEST_STRIPPED:
        return text
    return BLANKS.sub(lambda token: token.group(1) or "", text)


def _each(texts: pa.Array, change: Callable[[str], str]) -> pa.Array:
    """Return texts changed one by one; each different one once."""
    if not len(texts):
        return texts
    encoded = texts.dictionary_encode()
    changed = pa.array([change(text) for text in encoded.dictionary.to_pylist()], pa.string())
    return pc.take(changed, encoded.indices)


def _decimals(texts: pa.Array, scale: int | None, native: Kind) -> pa.Array:
    """Return numbers with so many digits after the point; with all of them but zeros at their end for None."""
    if native.name == "year":
        texts = pc.replace_substring_regex(texts, "^0+([0-9])", r"\1")
    has = (native.scale or 0) if native.name == "decimal" else 0
    if scale is None:
        return texts if not has else pc.ascii_rtrim(pc.ascii_rtrim(texts, "0"), ".")
    if scale == has:
        return texts
    if scale > has:
        zeros = ("" if has else ".") + "0" * (scale - has)
        return pc.binary_join_element_wise(texts, zeros, "")
    return _each(texts, lambda text: _shortened(Decimal(text), scale))


def _shortened(value: Decimal, scale: int) -> str:
    rounded = value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, EXACT)
    return f"{rounded if rounded else abs(rounded):f}"


def _rounded(texts: pa.Array, scale: int, native: Kind, column: ColumnPlan) -> pa.Array:
    if native.name not in FLOATS:
        return _each(texts, lambda text: _shortened(Decimal(text).scaleb(scale, EXACT), 0))
    doubles = _doubles(texts, native, column)
    values = doubles.to_numpy(zero_copy_only=False)
    with np.errstate(invalid="ignore", over="ignore"):
        units = np.floor(np.abs(values) * float(f"1e{scale}") + 0.5)
        is_whole = np.abs(values) < float(f"9e{18 - scale}")
    whole = pa.array(np.where(is_whole, np.copysign(units, values), 0).astype(np.int64)).cast(pa.string())
    return pc.if_else(doubles.is_valid(), pc.if_else(pa.array(is_whole), whole, _float_texts(doubles)), None)


def _doubles(texts: pa.Array, native: Kind, column: ColumnPlan) -> pa.Array:
    """Return numbers as the nearest doubles; those of a FLOAT are exactly what it holds."""
    try:
        return texts.cast(pa.float32()).cast(pa.float64()) if native.name == "float32" else texts.cast(pa.float64())
    except pa.ArrowInvalid as error:
        raise ValueRefused(f"{column.name} holds a number that no float is") from error


def _floats(texts: pa.Array, kind: Kind, native: Kind, column: ColumnPlan) -> pa.Array:
    doubles = _doubles(texts, native, column)
    if kind.name == "float32" and native.name != "float32":
        narrow = doubles.cast(pa.float32(), safe=False).cast(pa.float64())
        if pc.any(pc.is_inf(narrow)).as_py() or column.tolerance:
            raise ValueRefused(f"{column.name} holds a number beyond single precision, as which it is compared")
        doubles = narrow
    return _float_texts(doubles)


def _float_texts(doubles: pa.Array) -> pa.Array:
    """Return ``<m>p<e>`` with m * 2^(e - 53) the value, or ``0``; see ``Dialect.float_text``."""
    values = doubles.fill_null(0.0).to_numpy(zero_copy_only=False)
    size = np.abs(values)
    shift = np.where(size < 1e-270, 1000, 0)
    scaled = np.where(size == 0, 1.0, size) * np.where(shift, 2.0**1000, 1.0)
    logarithm = np.log2(scaled)
    exponent = np.floor(logarithm + OFFSET)
    near = np.flatnonzero(np.abs(logarithm + OFFSET - np.rint(logarithm + OFFSET)) < 1e-9)
    for index in near:
        exponent[index] = math.floor(math.log2(scaled[index]) + OFFSET)
    exponent = exponent.astype(np.int64)
    half = (53 - exponent) // 2  # 2^(53 - e) may be beyond what a double holds
    mantissa = (np.ldexp(np.ldexp(scaled, half), 53 - exponent - half)).astype(np.int64)
    written = pc.binary_join_element_wise(pa.array(mantissa).cast(pa.string()), pa.array(exponent - shift).cast(pa.string()), "p")
    signed = pc.if_else(pa.array(values < 0), pc.binary_join_element_wise("-", written, ""), written)
    return pc.if_else(doubles.is_valid(), pc.if_else(pa.array(size == 0), "0", signed), None)


def _midnights(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(texts, " 00:00:00", "")


def _moments(texts: pa.Array, kind: Kind, native: Kind) -> pa.Array:
    """Return times with at most ``kind.scale`` digits of their fractions, and no zeros at their end; of a date, its day."""
    kept = 0 if kind.name == "date" else kind.scale
    has = 6 if native.scale is None else native.scale
    if kind.rounding and kept is not None and has > kept:
        return _each(texts, lambda text: _rounded_time(text, kind, native))
    return _cut(texts, kind, native)


def _cut(texts: pa.Array, kind: Kind, native: Kind) -> pa.Array:
    """Return times whose fractions are cut; what is left of a negative time can be zero, which has no sign."""
    has = 6 if native.scale is None else native.scale
    if kind.name == "date":
        return pc.utf8_slice_codeunits(texts, 0, 10)
    if not has:
        return texts
    if kind.scale is not None and kind.scale < has:
        texts = pc.utf8_slice_codeunits(texts, 0, stop=-(has - kind.scale if kind.scale else has + 1))
        if native.name == "time":
            texts = pc.replace_substring_regex(texts, r"^-(00:00:00(\.0*)?)$", r"\1")
        if not kind.scale:
            return texts
    return pc.ascii_rtrim(pc.ascii_rtrim(texts, "0"), ".")


def _rounded_time(text: str, kind: Kind, native: Kind) -> str:
    """Return a rounded time; cut if it is a date with zeros, to which the source adds nothing."""
    if native.name == "time":
        sign, clock = text.startswith("-"), text.lstrip("-")
        hours, minutes, seconds = clock.split(":")
        size = dt.timedelta(hours=int(hours), minutes=int(minutes), microseconds=int(Decimal(seconds) * 1_000_000))
        return canonical.text(kind, -size if sign else size) or ""
    try:
        return canonical.text(kind, dt.datetime.fromisoformat(text)) or ""
    except ValueError:
        cut: str = _cut(pa.array([text]), kind, native)[0].as_py()
        return cut


WORD = 30
"""Bits of a word."""

LOW = (1 << WORD) - 1

Unsigned = npt.NDArray[np.uint64]

SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""An odd factor, by which numbers of partitions are spread over 64 bits."""


@dataclass(frozen=True, slots=True)
class Images:
    """Rows that were taken away (-1) or added (+1): n of them, in any order."""

    position: Integers
    """Of their events in the stream."""
    row: Integers
    """The events' numbers within their transactions."""
    sign: Integers
    partition: Integers
    x: Integers
    """The row's position in its partition."""
    hashes: Integers
    """The first 60 bits of their row hashes, or the next as well, (n, 1) or (n, 2)."""

    def __len__(self) -> int:
        return len(self.position)

    def chosen(self, which: npt.NDArray[np.bool_]) -> Images:
        """Return some of them."""
        return Images(*(getattr(self, name)[which] for name in Images.__slots__))


def joined(some: Sequence[Images]) -> Images:
    """Return the rows of several, of at least one."""
    return Images(*(np.concatenate([getattr(images, name) for images in some]) for name in Images.__slots__))


def no_images(plan: Plan) -> Images:
    """Return no rows, as wide as those of a plan."""
    nothing = np.zeros(0, np.int64)
    return Images(nothing, nothing, nothing, nothing, nothing, np.zeros((0, plan.bits // 60), np.int64))


def hash_rows(columns: Sequence[pa.Array], plan: Plan) -> tuple[Integers, Integers, Integers]:
    """Return partitions, positions in them and hashes of rows; ``columns`` are the texts that events have of the plan's columns.

    Raises ValueRefused.
    """
    texts = [canonical_texts(column, column_plan) for column, column_plan in zip(columns, plan.columns, strict=True)]
    return *_places(columns[: plan.key], texts[: plan.key], plan), hash_texts(texts, plan)


def hash_texts(texts: Sequence[pa.Array], plan: Plan) -> Integers:
    """Return the hashes of rows, (n, 1) or (n, 2), from the canonical texts of the plan's columns."""
    rows = row_texts(list(texts), list(plan.columns), plan.salt)
    digest, count = (hashlib.sha256 if plan.hash == "sha256" else hashlib.md5), plan.bits // 60
    size = 15 * count // 2 + count % 2
    numbers = [int.from_bytes(digest(row).digest()[:size], "big") for row in rows.cast(pa.binary()).to_pylist()]
    if count == 1:
        return np.fromiter((number >> 4 for number in numbers), np.int64, len(numbers)).reshape(-1, 1)
    pairs = [(number >> 60, number & ((1 << 60) - 1)) for number in numbers]
    return np.array(pairs, np.int64).reshape(-1, 2)


def _places(columns: Sequence[pa.Array], texts: Sequence[pa.Array], plan: Plan) -> tuple[Integers, Integers]:
    """Return partitions and positions in them by keys, their own texts and canonical ones."""
    how = plan.partitioning
    if how.strategy == "range":
        size = how.size
        keys = _whole(columns[how.column])
        return np.asarray(keys // size, np.int64), np.asarray(keys % size, np.int64) + 1
    numbers = _key_numbers(columns, texts, plan)
    return numbers * numbers % P % how.buckets, numbers % POSITIONS + 1


def _whole(texts: pa.Array) -> Integers | Unsigned:
    if texts.null_count:
        raise ValueRefused("a row without a key came through the stream")
    keys: Integers | Unsigned
    try:
        keys = texts.cast(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        keys = texts.cast(pa.uint64()).to_numpy(zero_copy_only=False)
    return keys


def _key_numbers(columns: Sequence[pa.Array], texts: Sequence[pa.Array], plan: Plan) -> Integers:
    shapes = forms(plan)
    if shapes and set(shapes) == {"whole"}:
        total = np.zeros(len(columns[0]), np.int64)
        for column, factor in zip(columns, FACTORS, strict=False):
            keys = _whole(column)
            rest = np.fmod(keys, Q) if keys.dtype == np.int64 else (keys % np.uint64(Q)).astype(np.int64)
            total += (np.asarray(rest, np.int64) + Q) * factor
        return total % P
    lists = zip(*(column_texts.to_pylist() for column_texts in texts), strict=True)
    numbers = [key_number(plan, key) for key in lists]
    if None in numbers:
        raise ValueRefused("a key has no place among the partitions: it is a date that is no day")
    return np.fromiter((number or 0 for number in numbers), np.int64, len(numbers))


def add_up(images: Images, plan: Plan) -> Summaries:
    """Return what images change in the sums of their partitions, ascending by partition."""
    powers = 2 * plan.t - 1 if plan.method == "exact" else 0
    words = 2 * images.hashes.shape[1]
    if not len(images):
        return running_sums.none(words, powers)
    order = np.argsort(images.partition, kind="stable")
    partition, sign, x = images.partition[order], images.sign[order], images.x[order] % P
    hashes = images.hashes[order]
    halves = [half for column in hashes.T for half in (column >> WORD, column & LOW)]
    starts = np.flatnonzero(np.diff(partition, prepend=partition[0] - 1))
    symbol, sums = halves[0], []
    term = symbol
    for _ in range(powers):
        term = term * x % P
        sums.append(np.add.reduceat(sign * term, starts) % P)
    none = np.zeros((len(starts), 0), np.int64)
    return running_sums.of(
        partition[starts],
        np.add.reduceat(sign, starts),
        np.column_stack([np.add.reduceat(sign * half, starts) for half in halves]),
        np.column_stack(sums) if sums else none,
    )


def rows_left(images: Images) -> tuple[npt.NDArray[np.bool_], frozenset[int]]:
    """Return which images are rows that are there after all events, and the partitions in which the events contradict each other.

    A row hash covers the key, so equal hashes are states of one row: it is left if the last of them was added. Of one place in a partition
    more than one row that was there before, or is left, shows that the log does not hold all changes, unless keys share the place; so does
    a state that is added or taken away twice in a row.
    """
    if _are_single(images):
        return images.sign > 0, frozenset()
    states = (*images.hashes.T, images.x, images.partition)
    order = np.lexsort((images.sign, images.row, images.position, *states))
    sign, sorted_states = images.sign[order], np.column_stack([column[order] for column in states])
    begins = np.append(True, (np.diff(sorted_states, axis=0) != 0).any(axis=1))
    ends = np.append(begins[1:], True)
    is_left, was_there = ends & (sign > 0), begins & (sign < 0)
    doubled = ~begins & np.append(False, sign[1:] == sign[:-1])
    partition, places = images.partition[order], sorted_states[:, -2:]
    contradicted = {*partition[doubled].tolist()}
    for chosen in (is_left, was_there):
        found, counts = np.unique(places[chosen], axis=0, return_counts=True)
        contradicted.update(found[counts > 1, 1].tolist())
    left = np.zeros(len(images), np.bool_)
    left[order[is_left]] = True
    return left, frozenset(contradicted)


def _are_single(images: Images) -> bool:
    """Return whether each place in a partition has at most one row that was taken away, and then at most one that was added.

    True for most merges, and found much sooner than what is left of rows that changed several times. Places are compared by numbers that
    two of them may share, of which it returns False.
    """
    numbers = images.partition.view(np.uint64) * SPREAD + images.x.view(np.uint64)
    added, removed = np.flatnonzero(images.sign > 0), np.flatnonzero(images.sign < 0)
    if any(len(np.unique(numbers[some])) < len(some) for some in (added, removed)):
        return False
    _, first, second = np.intersect1d(numbers[removed], numbers[added], assume_unique=True, return_indices=True)
    before, after = removed[first], added[second]
    position = images.position
    later = (position[before] > position[after]) | ((position[before] == position[after]) & (images.row[before] > images.row[after]))
    return not later.any()


def columns_of(rows: pa.ListArray, width: int, indexes: Sequence[int]) -> list[pa.Array]:
    """Return columns of row images, of the rows that are there."""
    values = rows.flatten()
    count = len(values) // width
    places = np.arange(count) * width
    return [pc.take(values, pa.array(places + index)) for index in indexes]
