"""Apply typical pipeline faults to a copy of a table, and list the rows they affect.

The faults are deterministic: the same table always gets the same faults in the same rows, and no row gets two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from auditor.demo.flights import ROWS

Mask = npt.NDArray[np.bool_]
"""One boolean per row."""

Positions = npt.NDArray[np.int64]
"""Row indexes in the table, ascending."""


@dataclass(frozen=True, slots=True)
class Damage:
    """What one fault did to the rows with these keys; ``kind`` is how an audit should classify them (duplicated: extra)."""

    name: str
    what: str
    kind: Literal["missing", "changed", "duplicated"]
    keys: list[int]


Fault = Callable[[pa.Table, Mask, int], tuple[pa.Table, Damage]]
"""Damages at most this many of the rows that the mask marks as intact; returns the new table and the damage."""


def apply_faults(table: pa.Table) -> tuple[pa.Table, list[Damage]]:
    """Apply all FAULTS, scaled down for a table smaller than the data set; return the damaged table and the damage of each fault."""
    share = table.num_rows / ROWS
    damages: list[Damage] = []
    for fault, rows in FAULTS:
        damaged_keys = [key for damage in damages for key in damage.keys]
        intact = ~np.isin(_ids(table), damaged_keys)
        table, damage = fault(table, intact, max(1, round(rows * share)))
        damages += [damage] if damage.keys else []
    return table, damages


def shifted_day(table: pa.Table, intact: Mask, size: int) -> tuple[pa.Table, Damage]:
    """A load converted UTC timestamps from New York time once more, so one day's timestamps are five hours early."""
    dates = table["flight_date"].to_numpy()
    day = dates[len(dates) // 3] if len(dates) else None
    rows = np.flatnonzero((dates == day) & intact)[:size]
    early = pc.subtract(table["scheduled"], pa.scalar(5 * 3600 * 10**6, pa.duration("us")))
    what = f"the scheduled time of {len(rows):,} flights of {day} is five hours early"
    return _with(table, "scheduled", rows, early), Damage("time zone shift", what, "changed", _keys(table, rows))


def lost_batch(table: pa.Table, intact: Mask, size: int) -> tuple[pa.Table, Damage]:
    """A batch failed but its offset was committed, so consecutive rows never arrived."""
    rows = _consecutive(intact, 3 / 5, size)
    what = f"a batch of {len(rows):,} consecutive rows never arrived"
    return _without(table, rows), Damage("lost batch", what, "missing", _keys(table, rows))


def duplicated_batch(table: pa.Table, intact: Mask, size: int) -> tuple[pa.Table, Damage]:
    """A batch was retried after a timeout although the first attempt had succeeded, so its rows exist twice."""
    rows = _consecutive(intact, 4 / 5, size)
    twice = pa.concat_tables([table, table.take(pa.array(rows))]).combine_chunks()
    what = f"a batch of {len(rows):,} rows was loaded twice"
    return twice, Damage("duplicated batch", what, "duplicated", _keys(table, rows))


def late_rows(table: pa.Table, intact: Mask, size: int) -> tuple[pa.Table, Damage]:
    """The pipeline lags, so the newest rows have not arrived yet."""
    rows = np.flatnonzero(intact)[-size:]
    what = f"the newest {len(rows):,} rows have not arrived yet"
    return _without(table, rows), Damage("late rows", what, "missing", _keys(table, rows))


def cut_destination(table: pa.Table, intact: Mask, size: int) -> tuple[pa.Table, Damage]:
    """A staging column was one character too narrow, so some destinations lost their last letter."""
    rows = _scattered(table, intact & (_lengths(table["dest"]) == 3), size, salt=1)
    cut = pc.utf8_slice_codeunits(table["dest"], 0, 2)
    what = f"dest lost its last letter in {len(rows):,} rows"
    return _with(table, "dest", rows, cut), Damage("truncated destination", what, "changed", _keys(table, rows))


def cut_tail_number(table: pa.Table, intact: Mask, size: int) -> tuple[pa.Table, Damage]:
    """A legacy file format held five characters, so some tail numbers lost their sixth."""
    rows = _scattered(table, intact & (_lengths(table["tailnum"]) == 6), size, salt=2)
    cut = pc.utf8_slice_codeunits(table["tailnum"], 0, 5)
    what = f"tailnum was cut to five characters in {len(rows):,} rows"
    return _with(table, "tailnum", rows, cut), Damage("truncated tail number", what, "changed", _keys(table, rows))


def emptied_null(table: pa.Table, intact: Mask, size: int) -> tuple[pa.Table, Damage]:
    """A CSV export wrote NULL as nothing, so the load read an empty string."""
    rows = _scattered(table, intact & _true(pc.is_null(table["tailnum"])), size, salt=3)
    empty = pc.fill_null(table["tailnum"], "")
    what = f"tailnum is an empty string instead of NULL in {len(rows):,} rows"
    return _with(table, "tailnum", rows, empty), Damage("NULL became empty", what, "changed", _keys(table, rows))


def rounded_decimal(table: pa.Table, intact: Mask, size: int) -> tuple[pa.Table, Damage]:
    """A transformation used a type with one decimal place, so some distances were rounded."""
    exact = table["distance_km"]
    rounded = pc.round(exact, ndigits=1, round_mode="half_towards_infinity")
    rows = _scattered(table, intact & _true(pc.not_equal(rounded, exact)), size, salt=4)
    what = f"distance_km was rounded to one decimal place in {len(rows):,} rows"
    return _with(table, "distance_km", rows, rounded), Damage("rounded decimal", what, "changed", _keys(table, rows))


def stale_rows(table: pa.Table, intact: Mask, size: int) -> tuple[pa.Table, Damage]:
    """An update overtook its insert and was dropped, so some rows still hold their first forecast."""
    rows = _scattered(table, intact & _true(pc.greater(table["dep_delay"], 0.0)), size, salt=5)
    forecast = pa.array(np.zeros(table.num_rows))
    what = f"dep_delay is still the first forecast, no delay, in {len(rows):,} rows"
    return _with(table, "dep_delay", rows, forecast), Damage("stale rows", what, "changed", _keys(table, rows))


FAULTS: tuple[tuple[Fault, int], ...] = (
    (shifted_day, 1200),
    (lost_batch, 2000),
    (late_rows, 150),
    (cut_destination, 12),
    (cut_tail_number, 14),
    (emptied_null, 40),
    (rounded_decimal, 30),
    (stale_rows, 7),
    (duplicated_batch, 300),
)
"""Each fault with the maximum number of rows it damages in the whole data set. Faults of consecutive rows come before scattered ones,
which would leave holes; no day has 1,200 flights, so the whole day is shifted."""


def _without(table: pa.Table, rows: Positions) -> pa.Table:
    return table.filter(pa.array(~_mask(table, rows))).combine_chunks()


def _with(table: pa.Table, column: str, rows: Positions, values: pa.ChunkedArray) -> pa.Table:
    """Replace one column of these rows; ``values`` has one value for every row of the table."""
    old = table[column]
    mixed = pc.if_else(pa.array(_mask(table, rows)), pc.cast(values, old.type), old)
    return table.set_column(table.schema.get_field_index(column), column, mixed)


def _mask(table: pa.Table, rows: Positions) -> Mask:
    mask = np.zeros(table.num_rows, dtype=np.bool_)
    mask[rows] = True
    return mask


def _consecutive(intact: Mask, start: float, size: int) -> Positions:
    """Return the first ``size`` intact rows from the fraction ``start`` of the table on; they are consecutive unless a fault is near."""
    first = int(len(intact) * start)
    return first + np.flatnonzero(intact[first:])[:size]


def _scattered(table: pa.Table, candidates: Mask, size: int, salt: int) -> Positions:
    """Return ``size`` candidates spread over the table: those with the smallest multiplicative hash of their key."""
    rows = np.flatnonzero(candidates)
    mixed = (_ids(table)[rows].astype(np.uint64) * np.uint64(2654435761) + np.uint64(salt * 1_000_003)) % np.uint64(2**32)
    return np.sort(rows[np.argsort(mixed, kind="stable")[:size]])


def _keys(table: pa.Table, rows: Positions) -> list[int]:
    return [int(key) for key in _ids(table)[rows]]


def _ids(table: pa.Table) -> npt.NDArray[np.int64]:
    return np.asarray(table["id"].to_numpy(), dtype=np.int64)


def _lengths(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Return the number of characters of each text, 0 for NULL."""
    return np.asarray(pc.fill_null(pc.utf8_length(column), 0).to_numpy(), dtype=np.int64)


def _true(condition: pa.ChunkedArray) -> Mask:
    """Return the condition as a mask, with NULL as False."""
    return np.asarray(pc.fill_null(condition, False).to_numpy(), dtype=np.bool_)
