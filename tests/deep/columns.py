"""Columns of random tables: which types they have on either side, which values, and what of a value an audit compares.

`Sort.compared` is the oracle's only word on values: two values of a column are equal if what it makes of them is. It is written from the
documentation (``docs/equality.md``), and calls nothing of the auditor.
"""

from __future__ import annotations

import datetime as dt
import json
import random
import struct
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from auditor.testing.values import TRICKY_CLOCKS, TRICKY_DATES, TRICKY_DOUBLES, TRICKY_TEXT, TRICKY_TIMES
from dialects import Kind

WIDE = Context(prec=100)
CUTTING = frozenset({"clickhouse", "mariadb", "spark"})
"""Engines that cut a finer time to the digits of the column; the others round it."""

Draw = Callable[[random.Random], Any]
Pair = tuple[Kind, Kind]


@dataclass(frozen=True)
class Sort:
    """Columns of one sort."""

    name: str
    pairs: tuple[Pair, ...]
    """The kinds of the source's column and of the target's."""
    draw: Draw
    """Draws a value as the source holds it; never None."""
    compared: Callable[[Any, Pair, str], Any]
    """Returns what of a stored value is compared, for a column of this pair and a target of this engine: hashable, and not for None."""
    store: Callable[[Any, Pair, str], Any] = lambda value, pair, engine: value
    """Returns a value of the source as a correct pipeline stores it in the target's column."""
    is_key: bool = False
    """Whether it serves as a key."""
    is_filtered: bool = True
    """Whether a filter may name it."""
    literal: Callable[[Any], str] = str
    """Writes what is compared as a literal of a filter."""
    measure: str = ""
    """The tolerances that it takes: ``number`` or ``time``."""

    def compared_or_null(self, value: Any, pair: Pair, engine: str) -> Any:
        """Return what is compared of a value, None for NULL."""
        return None if value is None else self.compared(value, pair, engine)


def _pick(tricky: Sequence[Any], other: Draw) -> Draw:
    return lambda chance: chance.choice(tricky) if chance.random() < 0.4 else other(chance)


def _same(value: Any, _pair: Pair, _engine: str) -> Any:
    return value


def _single(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


def _text(alphabet: str, most: int) -> Draw:
    return lambda chance: "".join(chance.choices(alphabet, k=chance.randint(0, most)))


def _quoted(value: Any) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def _at_scale(value: Decimal, scale: int | None) -> Decimal:
    return value if scale is None else value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, WIDE)


def _decimal(value: Any, pair: Pair, _engine: str) -> Decimal:
    found = _at_scale(Decimal(value), pair[1].scale if pair[1].name == "decimal" else 0)
    return found if found else abs(found)


def _decimals(digits: int, scale: int) -> Draw:
    most = 10**digits - 1
    return lambda chance: Decimal(chance.choice([0, most, -most, 1, -1, chance.randint(-most, most), chance.randint(-999, 999)])).scaleb(
        -scale, WIDE
    )


def _float(value: Any, pair: Pair, _engine: str) -> float:
    number = _single(float(value)) if "float32" in {kind.name for kind in pair} else float(value)
    return number or 0.0  # a negative zero is a zero


def _as_float(value: Any, pair: Pair, engine: str) -> Any:
    return _float(value, pair, engine) if pair[1].name.startswith("float") else value


def _singles(chance: random.Random) -> float:
    drawn = _single(chance.choice([0.0, -0.0, 1.5, 0.1, 3e38, -2.25, chance.uniform(-1000, 1000), chance.uniform(-1, 1)]))
    return drawn if not 0 < abs(drawn) < 1.2e-38 else 0.0


def _doubles(chance: random.Random) -> float:
    drawn = chance.random()
    if drawn < 0.3:
        return chance.choice(TRICKY_DOUBLES)
    if drawn < 0.7:
        return round(chance.uniform(-1000, 1000), chance.randint(0, 6))
    return chance.uniform(-1, 1) * 10.0 ** chance.randint(-20, 20)


def _shorten(value: dt.datetime, pair: Pair, engine: str) -> dt.datetime:
    """Return a time as the target's engine stores it, with the digits of its column."""
    scale = pair[1].scale
    unit = 10 ** (6 - (6 if scale is None else scale))
    rest = value.microsecond % unit
    down = value - dt.timedelta(microseconds=rest)
    if engine in CUTTING or 2 * rest < unit:
        return down
    try:
        return down + dt.timedelta(microseconds=unit)
    except OverflowError:  # the last moment of 9999
        return down


def _moments(chance: random.Random) -> dt.datetime:
    if chance.random() < 0.25:
        return chance.choice([time for time in TRICKY_TIMES if time.year < 9999])
    micros = chance.choice([0, 0, chance.randint(0, 999) * 1000, chance.randint(0, 999_999)])
    if micros % 1000 == 500:  # exact halves of a millisecond are the subject of test_time_rounding
        micros += 1
    day = dt.datetime(2024, 2, 1) if chance.random() < 0.7 else dt.datetime(1900, 1, 1)
    return day + dt.timedelta(seconds=chance.randint(0, 90 * 86_400), microseconds=micros)


def _instants(chance: random.Random) -> dt.datetime:
    return dt.datetime(2024, 3, 1) + dt.timedelta(
        seconds=chance.randint(0, 10**7), microseconds=chance.choice([0, chance.randint(0, 999_999)])
    )


def _identifiers(chance: random.Random) -> uuid.UUID:
    return uuid.UUID(int=chance.getrandbits(128), version=4)


def _documents(chance: random.Random) -> str:
    leaves = [None, True, False, chance.randint(-(2**31), 2**31), "", "a b", "é", '"', "{}[]:,"]
    inner = chance.choice(
        [chance.choice(leaves), [chance.choice(leaves) for _ in range(chance.randint(0, 3))], {"k": chance.choice(leaves)}]
    )
    return json.dumps(chance.choice([inner, [inner, 1], {"a": inner}]), ensure_ascii=False, separators=(",", ":"))


def _timestamp_literal(value: dt.datetime) -> str:
    return f"TIMESTAMP '{value.isoformat(' ', 'microseconds')}'"


LETTERS = "abcABC |~'\"\\%_0123é😀"
INTEGER, UNSIGNED, TEXT, FLOAT32, FLOAT64 = Kind("integer"), Kind("integer", unsigned=True), Kind("text"), Kind("float32"), Kind("float64")
MOMENT, MILLIS = Kind("timestamp", scale=6), Kind("timestamp", scale=3)

SORTS = (
    Sort("whole", ((INTEGER, INTEGER), (INTEGER, Kind("decimal", 20, 0)), (Kind("decimal", 20, 0), INTEGER)),
         _pick([0, 1, -1, 2**63 - 1, -(2**63), 2**53 + 1], lambda chance: chance.randint(-1000, 100_000)), _same, is_key=True,
         measure="number"),
    Sort("unsigned", ((UNSIGNED, UNSIGNED), (UNSIGNED, Kind("decimal", 20, 0))),
         _pick([0, 1, 2**63, 2**64 - 1, 2**63 - 1], lambda chance: chance.randint(0, 100_000)), _same, is_key=True),
    Sort("price", ((Kind("decimal", 10, 2), Kind("decimal", 10, 2)), (Kind("decimal", 10, 2), Kind("decimal", 12, 4)),
                   (Kind("decimal", 10, 2), Kind("decimal", 12, 1))), _decimals(10, 2), _decimal, _decimal, is_key=True, measure="number"),
    Sort("exact", ((Kind("decimal", 38, 10), Kind("decimal", 38, 10)), (Kind("decimal", 38, 10), Kind("decimal", 36, 6))),
         _decimals(28, 10), _decimal, _decimal, measure="number"),
    Sort("tiny", ((Kind("decimal", 6, 6), Kind("decimal", 6, 6)), (Kind("decimal", 6, 6), Kind("decimal", 18, 9))), _decimals(6, 6),
         _decimal, _decimal, measure="number"),
    Sort("double", ((FLOAT64, FLOAT64),), _doubles, _float, is_filtered=False, measure="number"),
    Sort("single", ((FLOAT32, FLOAT32), (FLOAT32, FLOAT64), (FLOAT64, FLOAT32)), _singles, _float, _as_float, is_filtered=False),
    Sort("number", ((Kind("decimal", 10, 2), FLOAT64), (INTEGER, FLOAT64)),
         lambda chance: chance.randint(-(10**7), 10**7), _float, _as_float, is_filtered=False),
    Sort("truth", ((Kind("boolean"), Kind("boolean")), (Kind("boolean"), INTEGER)), lambda chance: chance.random() < 0.5,
         lambda value, *_: bool(value), literal=lambda value: str(value).upper(), is_filtered=False),
    Sort("free", ((TEXT, TEXT),), _pick([text for text in TRICKY_TEXT if text.isprintable()], _text(LETTERS, 12)), _same, literal=_quoted),
    Sort("odd", ((TEXT, TEXT),), _pick(TRICKY_TEXT, _text(LETTERS + "\n\t\x01", 30)), _same, is_filtered=False),
    Sort("word", ((TEXT, TEXT),), _text("abAB1é", 6), _same, is_key=True, literal=_quoted),
    Sort("label", ((TEXT, Kind("char", 12)), (Kind("char", 12), Kind("char", 12)), (Kind("char", 12), TEXT)),
         lambda chance: _text("abc |~é😀", 12)(chance).rstrip(" "), lambda value, *_: value.rstrip(" "), literal=_quoted),
    Sort("bytes", ((Kind("binary"), Kind("binary")),), _pick([b"", b"\x00", b"\x00\xff\x10", b"|~'\\"], lambda chance: chance.randbytes(
        chance.randint(0, 20))), _same, is_filtered=False),
    Sort("day", ((Kind("date"), Kind("date")), (Kind("date"), MOMENT), (MOMENT, Kind("date"))),
         _pick(TRICKY_DATES, lambda chance: dt.date(2024, 1, 1) + dt.timedelta(chance.randint(0, 400))),
         lambda value, *_: value.date() if isinstance(value, dt.datetime) else value, is_key=True, literal=lambda value: f"DATE '{value}'"),
    Sort("moment", ((MOMENT, MOMENT), (MOMENT, MILLIS), (MILLIS, MOMENT)), _moments, _shorten, _shorten, literal=_timestamp_literal,
         measure="time"),
    Sort("instant", ((Kind("timestamptz", scale=6), Kind("timestamptz", scale=6)), (Kind("timestamptz", scale=6), MOMENT)), _instants,
         _same, is_filtered=False),
    Sort("clock", ((Kind("time", scale=6), Kind("time", scale=6)),), _pick(TRICKY_CLOCKS, lambda chance: dt.time(
        chance.randrange(24), chance.randrange(60), chance.randrange(60), chance.choice([0, chance.randrange(10**6)]))), _same,
         is_filtered=False),
    Sort("id", ((Kind("uuid"), Kind("uuid")), (Kind("uuid"), TEXT)), _identifiers, lambda value, *_: str(value),
         lambda value, pair, _: str(value) if pair[1].name == "text" else value, is_key=True, is_filtered=False),
    Sort("flags", ((Kind("bit", 12), Kind("bit", 12)),), lambda chance: chance.randrange(1 << 12), _same, is_filtered=False),
    Sort("year", ((Kind("year"), Kind("year")), (Kind("year"), INTEGER)), lambda chance: chance.randint(1901, 2155), _same,
         is_filtered=False),
    Sort("document", ((Kind("json"), Kind("json")), (Kind("json"), TEXT)), _documents, _same, is_filtered=False),
)  # fmt: skip
BY_NAME = {sort.name: sort for sort in SORTS}


def cut(value: dt.datetime, kind: Kind) -> dt.datetime:
    """Return a time without what is finer than a kind's digits of a second."""
    unit = 10 ** (6 - (6 if kind.scale is None else kind.scale))
    return value.replace(microsecond=value.microsecond // unit * unit)


def held(value: Any, kind: Kind) -> Any:
    """Return a drawn value as a source's column of this kind can hold it."""
    return cut(value, kind) if isinstance(value, dt.datetime) else value
