"""Dates before Christ, beyond the year 9999 and without end have one text on every engine that holds them, at every precision."""

from __future__ import annotations

from contextlib import closing

import pytest

import dialects
from dialects import Kind, TimeUnit
from tests.live import LiveEngine, engine_params

DATE, STAMP = Kind("date"), Kind("timestamp", scale=6)
POSTGRES = {
    "44 BC": ("DATE '0044-03-15 BC'", "TIMESTAMP '0044-03-15 10:11:12.1236 BC'"),
    "1 BC": ("DATE '0001-12-31 BC'", "TIMESTAMP '0001-12-31 23:59:59.9996 BC'"),
    "44": ("DATE '0044-03-15'", "TIMESTAMP '0044-03-15 10:11:12.1236'"),
    "12024": ("DATE '12024-03-15'", "TIMESTAMP '12024-03-15 10:11:12.1236'"),
}
LITERALS = {
    "postgres": {**POSTGRES, "infinity": ("DATE 'infinity'", "TIMESTAMP 'infinity'")},
    "redshift": POSTGRES,
    "duckdb": {
        "44 BC": ("DATE '0044-03-15 (BC)'", "TIMESTAMP '0044-03-15 (BC) 10:11:12.1236'"),
        "1 BC": ("DATE '0001-12-31 (BC)'", "TIMESTAMP '0001-12-31 (BC) 23:59:59.9996'"),
        "44": ("DATE '0044-03-15'", "TIMESTAMP '0044-03-15 10:11:12.1236'"),
        "12024": ("DATE '12024-03-15'", "TIMESTAMP '12024-03-15 10:11:12.1236'"),
        "infinity": ("DATE 'infinity'", "TIMESTAMP 'infinity'"),
    },
    "spark": {
        "44 BC": ("DATE'-0043-03-15'", "TIMESTAMP_NTZ'-0043-03-15 10:11:12.1236'"),
        "1 BC": ("DATE'0000-12-31'", "TIMESTAMP_NTZ'0000-12-31 23:59:59.9996'"),
        "44": ("DATE'0044-03-15'", "TIMESTAMP_NTZ'0044-03-15 10:11:12.1236'"),
        "12024": ("DATE'+12024-03-15'", "TIMESTAMP_NTZ'+12024-03-15 10:11:12.1236'"),
    },
}
"""A date and a timestamp of each kind of year, as each engine writes them."""

CASES = [(DATE, DATE), (STAMP, DATE), (STAMP, STAMP), (STAMP, Kind("timestamp", scale=3)), (STAMP, Kind("timestamp", scale=0)),
         (DATE, Kind("timestamp", scale=3)), (STAMP, Kind("timestamp", scale=3, rounding="half up"))]  # fmt: skip
"""The column's kind, and the kind as which it is compared."""

EXPECTED = {
    "44 BC": ["0044-03-15 BC", "0044-03-15 BC", "0044-03-15 10:11:12.1236 BC", "0044-03-15 10:11:12.123 BC", "0044-03-15 10:11:12 BC",
              "0044-03-15 00:00:00 BC", "0044-03-15 10:11:12.124 BC"],
    "1 BC": ["0001-12-31 BC", "0001-12-31 BC", "0001-12-31 23:59:59.9996 BC", "0001-12-31 23:59:59.999 BC", "0001-12-31 23:59:59 BC",
             "0001-12-31 00:00:00 BC", "0001-01-01 00:00:00"],
    "44": ["0044-03-15", "0044-03-15", "0044-03-15 10:11:12.1236", "0044-03-15 10:11:12.123", "0044-03-15 10:11:12",
           "0044-03-15 00:00:00", "0044-03-15 10:11:12.124"],
    "12024": ["12024-03-15", "12024-03-15", "12024-03-15 10:11:12.1236", "12024-03-15 10:11:12.123", "12024-03-15 10:11:12",
              "12024-03-15 00:00:00", "12024-03-15 10:11:12.124"],
    "infinity": ["infinity"] * 7,
}  # fmt: skip


@pytest.mark.parametrize("engine", engine_params("postgres", "redshift", "duckdb", "spark"), indirect=True)
def test_eras_have_one_text(engine: LiveEngine) -> None:
    literals = LITERALS[engine.name]
    url = engine.url if engine.dialect != "duckdb" else "duckdb:///:memory:"
    with closing(dialects.connect(url)) as session:
        rows = " UNION ALL ".join(f"SELECT {n} AS n, {day} AS d, {time} AS t" for n, (day, time) in enumerate(literals.values()))
        texts = ", ".join(session.dialect.canonical.canonical_text(kind, "d" if native == DATE else "t", native) for native, kind in CASES)
        got = session.query(f"SELECT n, {texts} FROM ({rows}) eras ORDER BY n")
    assert {name: list(found) for name, (_, *found) in zip(literals, got, strict=True)} == {name: EXPECTED[name] for name in literals}


INDICES = {
    "44 BC": (-17643830, -735160, -24154), "1 BC": (-17259889, -719163, -23629), "44": (-16881182, -703383, -23110),
    "12024": (88133338, 3672222, 120650),
}  # fmt: skip
"""Hours, days and months from 1970-01-01 to the timestamps."""


@pytest.mark.parametrize("engine", engine_params("postgres", "redshift", "duckdb", "spark"), indirect=True)
def test_eras_have_one_time_index(engine: LiveEngine) -> None:
    """The year before the first is 1 BC, which engines number differently."""
    url = engine.url if engine.dialect != "duckdb" else "duckdb:///:memory:"
    with closing(dialects.connect(url)) as session:
        times = [LITERALS[engine.name][name][1] for name in INDICES]
        rows = " UNION ALL ".join(f"SELECT {n} AS n, {time} AS t" for n, time in enumerate(times))
        units: tuple[TimeUnit, ...] = ("hour", "day", "month")
        indices = ", ".join(session.dialect.times.time_index("t", unit) for unit in units)
        found = session.query(f"SELECT n, {indices} FROM ({rows}) eras ORDER BY n")
    assert {name: tuple(row) for name, (_, *row) in zip(INDICES, found, strict=True)} == INDICES
