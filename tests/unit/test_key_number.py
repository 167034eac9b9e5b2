"""The numbers of keys: any usual sequence of keys spreads over buckets and positions, and few keys share both."""

from __future__ import annotations

import math
import random
import uuid
from collections import Counter
from collections.abc import Callable, Iterable

import pytest

from auditor import canonical
from auditor.model import SIDES, ColumnPlan, Partitioning, Plan, SidePlan
from auditor.sql import key_number as sql
from auditor.summary import key_number
from auditor.summary.key_number import P
from dialects import Kind, get

INTEGER, UUID, DATE, TEXT = Kind("integer"), Kind("uuid"), Kind("date"), Kind("text")
KEYS = 50_000
BUCKETS = (10, 64, 97, 977)
FIRST_TICK = 0x1EEF0A0B0C0D0E0
"""A time in UUIDs by time: units of 100 nanoseconds since 1582."""


def plan_of(*kinds: Kind, native: Kind | None = None, **more: object) -> Plan:
    side = SidePlan(dialect="duckdb", connection="", label="", table="t", where="")
    columns = tuple(
        ColumnPlan(
            name=f"k{place}",
            kind=kind,
            native={"source": native or kind, "target": kind},
            expression=dict.fromkeys(SIDES, f'"k{place}"'),
            types=dict.fromkeys(SIDES, ""),
            why="",
            **more,  # type: ignore[arg-type]
        )
        for place, kind in enumerate(kinds)
    )
    how = Partitioning(strategy="hash", buckets=64)
    sides = dict.fromkeys(SIDES, side)
    return Plan(audit="a", method="exact", sides=sides, columns=columns, key=len(kinds), partitioning=how, prefix="a_", t=3)


def by_time(tick: int) -> str:
    """Return a UUID of version 1."""
    low, middle, high = tick & 0xFFFFFFFF, tick >> 32 & 0xFFFF, tick >> 48 & 0xFFF | 0x1000
    return f"{low:08x}-{middle:04x}-{high:04x}-9234-aabbccddeeff"


def swapped(text: str) -> str:
    """Return a UUID of version 1 as MySQL's UUID_TO_BIN(..., 1) stores it."""
    digits = text.replace("-", "")
    return str(uuid.UUID(digits[12:16] + digits[8:12] + digits[:8] + digits[16:]))


def by_milliseconds(milliseconds: int, generator: random.Random) -> str:
    """Return a UUID of version 7."""
    return str(uuid.UUID(int=milliseconds << 80 | 7 << 76 | generator.getrandbits(12) << 64 | 2 << 62 | generator.getrandbits(62)))


def random_uuids(generator: random.Random) -> Iterable[str]:
    return (str(uuid.UUID(int=generator.getrandbits(128), version=4)) for _ in range(KEYS))


CASES: dict[str, tuple[Plan, Callable[[random.Random], Iterable[tuple[str, ...]]]]] = {
    "one after the other": (plan_of(INTEGER), lambda _: ((str(n),) for n in range(KEYS))),
    "negative": (plan_of(INTEGER), lambda _: ((str(-n),) for n in range(KEYS))),
    "multiples of 1,024": (plan_of(INTEGER), lambda _: ((str(n * 1024),) for n in range(KEYS))),
    "numbers of 62 bits": (plan_of(INTEGER), lambda _: ((str(n << 22 | 5),) for n in range(KEYS))),
    "lines of orders": (plan_of(INTEGER, INTEGER), lambda _: ((str(n // 4), str(n % 4)) for n in range(KEYS))),
    "tenants": (plan_of(INTEGER, INTEGER), lambda _: ((str(n % 10), str(n // 10)) for n in range(KEYS))),
    "a square": (plan_of(INTEGER, INTEGER), lambda _: ((str(n // 224), str(n % 224)) for n in range(KEYS))),
    "four columns": (plan_of(*[INTEGER] * 4), lambda _: ((str(n % 2), str(n % 3), str(n // 50), str(n % 50)) for n in range(KEYS))),
    "days and numbers": (plan_of(DATE, INTEGER), lambda _: ((f"2024-{n % 12 + 1:02}-{n % 28 + 1:02}", str(n)) for n in range(KEYS))),
    "UUIDs at random": (plan_of(UUID), lambda generator: ((text,) for text in random_uuids(generator))),
    "UUIDs by time": (plan_of(UUID), lambda _: ((by_time(FIRST_TICK + 13 * n),) for n in range(KEYS))),
    "UUIDs by time, swapped": (plan_of(UUID), lambda _: ((swapped(by_time(FIRST_TICK + 13 * n)),) for n in range(KEYS))),
    "UUIDs of one millisecond": (plan_of(UUID), lambda generator: ((by_milliseconds(1_700_000_000_000, generator),) for _ in range(KEYS))),
    "UUIDs by milliseconds": (plan_of(UUID), lambda generator: ((by_milliseconds(1_700_000_000_000 + n, generator),) for n in range(KEYS))),
    "UUIDs that count": (plan_of(UUID), lambda _: ((str(uuid.UUID(int=n)),) for n in range(KEYS))),
    "UUIDs that count at their beginning": (plan_of(UUID), lambda _: ((str(uuid.UUID(int=n << 96)),) for n in range(KEYS))),
    "a UUID and a number": (plan_of(UUID, INTEGER), lambda _: ((str(uuid.UUID(int=n // 9)), str(n % 9)) for n in range(KEYS))),
    "texts": (plan_of(TEXT), lambda _: ((f"key {n}",) for n in range(KEYS))),
}


@pytest.mark.quick_for(
    "one after the other",
    "numbers of 62 bits",
    "tenants",
    "days and numbers",
    "UUIDs by time",
    "UUIDs that count at their beginning",
    "texts",
)
@pytest.mark.parametrize("name", CASES)
def test_keys_spread_over_buckets_and_positions(name: str) -> None:
    """Chi-square of the rows of buckets stays within six standard deviations of random ones, and few keys share bucket and position."""
    plan, keys = CASES[name]
    numbers = [key_number.key_number(plan, key) for key in keys(random.Random(7))]
    assert all(number is not None and 0 <= number <= P for number in numbers)
    known = [number for number in numbers if number is not None]
    for buckets in BUCKETS:
        counts, expected = Counter(key_number.bucket_of(number, buckets) for number in known), KEYS / buckets
        chi_square = sum((counts[bucket] - expected) ** 2 / expected for bucket in range(buckets))
        assert chi_square < buckets + 6 * math.sqrt(2 * buckets), buckets
    places = {(key_number.bucket_of(number, 49), key_number.position_of(number)) for number in known}
    at_random = 49 * key_number.POSITIONS * (1 - math.exp(-KEYS / (49 * key_number.POSITIONS)))
    assert KEYS - len(places) < 5 * (KEYS - at_random), "more keys than five times those of random ones share bucket and position"
    assert {key_number.position_of(number) for number in known} <= set(range(1, key_number.POSITIONS + 1))


def test_finer_buckets_lie_whole_within_coarser_ones() -> None:
    plan = plan_of(INTEGER)
    for n in range(1000):
        number = key_number.key_number(plan, (str(n),))
        assert number is not None
        assert key_number.bucket_of(number, 12 * 64) % 64 == key_number.bucket_of(number, 64)


@pytest.mark.parametrize(
    ("plan", "shapes"),
    [
        (plan_of(INTEGER, DATE, UUID), ("whole", "date", "uuid")),
        (plan_of(UUID, native=Kind("binary", 16)), ("uuid",)),
        (plan_of(UUID, native=Kind("char", 36)), ("uuid",)),
        (plan_of(INTEGER, native=Kind("decimal", 20, 0)), ("whole",)),
        (plan_of(INTEGER, native=Kind("decimal", 20, 2)), ()),
        (plan_of(INTEGER, native=Kind("decimal")), ()),
        (plan_of(INTEGER, native=TEXT), ()),
        (plan_of(INTEGER, TEXT), ()),
        (plan_of(DATE, native=Kind("timestamp", scale=6)), ()),
        (plan_of(UUID, trim=True), ()),
        (plan_of(INTEGER, null_as="0"), ()),
        (plan_of(*[INTEGER] * 5), ()),
    ],
)
def test_only_columns_that_both_sides_hold_as_numbers_need_no_hash(plan: Plan, shapes: tuple[str, ...]) -> None:
    assert key_number.forms(plan) == shapes
    rendered = sql.key_number(plan, "source", get("duckdb"))
    assert ("SHA256" in rendered) == (not shapes or plan.columns[-1].native["source"].name in ("char", "binary"))


def test_a_key_without_a_number_has_no_place() -> None:
    assert key_number.key_number(plan_of(INTEGER, INTEGER), ("1", None)) is None
    assert key_number.key_number(plan_of(TEXT), (None,)) is None
    for text in ("infinity", "-infinity", "0000-00-00", "2024-00-10"):
        assert key_number.key_number(plan_of(DATE), (text,)) is None
    garbage = key_number.key_number(plan_of(UUID), ("no UUID",))
    word = canonical.word(canonical.row_hash("no UUID"), 1, 15)
    assert garbage == (word % key_number.Q + key_number.Q) * key_number.FACTORS[0] % P
