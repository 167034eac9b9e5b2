"""The digests of a pre-scan on each engine that has them: one hash of the row texts of a stretch, in the order of the key; and the
hashes of the same bytes of each row, where keys are in no order."""

from __future__ import annotations

import datetime as dt
import hashlib
import uuid
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from auditor.config import Audit
from auditor.model import SIDES, Chunk, Plan, Prescan, Side
from auditor.planning.prescan import plan_of_stretches
from auditor.sql import render
from auditor.sql.key_number import partition
from auditor.sql.prescan import LONGEST_VALUE
from auditor.sql.row_text import text
from auditor.summary import arrays
from auditor.summary.arrays import Summaries
from dialects import Kind, Session
from tests import tables
from tests.audits import open_plan
from tests.live import LiveEngine, LivePair, engine_params

pytestmark = pytest.mark.engines_in_turn

DIGESTING = ("mysql", "mariadb", "postgres")
COLUMNS = [
    ("id", Kind("integer")), ("name", Kind("text")), ("short", Kind("char", 8)), ("price", Kind("decimal", 12, 2)),
    ("seen", Kind("timestamp", scale=6)), ("data", Kind("binary")), ("ok", Kind("boolean")), ("size", Kind("float64")),
    ("day", Kind("date")), ("at", Kind("time", scale=3)), ("moment", Kind("timestamptz", scale=6)), ("code", Kind("uuid")),
    ("many", Kind("integer", unsigned=True)),
]  # fmt: skip
TEXTS = ["a", "", None, "|", "a|3b", "|1|2", "é😀", "row\nof two lines", "'quoted' \\", "  blanks  "]
PARTITION, PARTITIONS = 4, 4
"""Keys of a partition, and partitions of a stretch."""

on_digesting = pytest.mark.parametrize("engine", engine_params(*DIGESTING), indirect=True)


def rows() -> list[tuple[Any, ...]]:
    found = []
    for number, key in enumerate([*range(-40, -3), *range(0, 30, 3), 200, 201]):
        seen = dt.datetime(2026, 1, 1) + dt.timedelta(microseconds=[0, 500_000, 123_456, 10][number % 4] + number * 10**7)
        values = TEXTS[number % len(TEXTS)], "ab"[: number % 3], Decimal(number).scaleb(-2), seen if number % 5 else None
        data = bytes([number, 0, 255]) if number % 7 else None
        more = (number % 2 > 0, number / 7, seen.date(), seen.time().replace(microsecond=500_000), seen.replace(tzinfo=dt.UTC))
        others = (*more, uuid.UUID(int=number**20), 2**64 - number - 1)
        found.append((key, *values, data, *(one if (number + place) % 6 else None for place, one in enumerate(others))))
    return found


def plan_of(engine: LiveEngine, name: str, most: int, side: Side = "source") -> tuple[Plan, dict[int, tuple[Any, ...]], Summaries]:
    """Return a plan of digests, what the row texts make of each stretch, and what the statement does, in several chunks."""
    ends = {side: {"connection": side, "table": name} for side in SIDES}
    audit = Audit.model_validate({**ends, "key": ["id"], "partition": {"size": PARTITION}, "method": "exact", "salt": "s4lt"})
    with open_plan(LivePair(engine, engine), audit) as (whole, sessions):
        prescan = Prescan(used=True, why="", partitions=PARTITIONS, digest_rows=most)
        plan, session = plan_of_stretches(replace(whole, prescan=prescan)), sessions[side]
        chunks = [Chunk(end=-16), Chunk(first=-16, end=0), Chunk(first=0), Chunk(null_key=True)]
        names = render.result_columns(plan)
        return plan, expected(plan, side, session), arrays.concatenate([read(plan, side, session, chunk) for chunk in chunks], names)


def read(plan: Plan, side: Side, session: Session, chunk: Chunk) -> Summaries:
    return arrays.read(session.stream(render.summary(plan, side, session.dialect, chunk)), render.result_columns(plan))


def expected(plan: Plan, side: Side, session: Session) -> dict[int, tuple[Any, ...]]:
    """Return by stretch: rows, least and greatest key, and the words of the SHA-256 of the joined row texts."""
    of_stretch: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    for key, row in rows_of(plan, side, session):
        of_stretch[key // plan.partitioning.size].append((key, row))
    found = {}
    for stretch, rows_held in of_stretch.items():
        digest = hashlib.sha256(b"\xfd".join(row for _, row in rows_held)).hexdigest()
        words = tuple(int(digest[start : start + 15], 16) for start in range(0, 60, 15))
        found[stretch] = (len(rows_held), rows_held[0][0], rows_held[-1][0], words)
    return found


def rows_of(plan: Plan, side: Side, session: Session) -> Iterator[tuple[int, bytes]]:
    """Yield each row's key, the number that its column id holds, and its bytes, in the order of the keys."""
    texts = ", ".join(session.dialect.text.utf8(text(column, side, session.dialect)) for column in plan.columns)
    for key, *held in session.query(f"SELECT id, {texts} FROM {plan.sides[side].table} ORDER BY id"):
        yield int(key), plan.salt.encode() + b"".join(joined([column.kind.name for column in plan.columns], held))


def joined(kinds: list[str], held: list[Any]) -> Iterator[bytes]:
    """Yield what stands for each column: a number or a time behind another has a bar before it, and nothing for NULL."""
    before = "free"
    for kind, one in zip(kinds, held, strict=True):
        this = "free" if kind in ("text", "char", "binary") else "closed"
        yield b"|" if before == this == "closed" else b"\xff"
        yield bytes(one) if one is not None else b"" if this == "closed" else b"\xfe"
        before = this


def seen(found: Summaries) -> dict[int, tuple[Any, ...]]:
    return {
        int(found.partition[at]): (int(found.rows[at]), found.least[at], found.greatest[at], tuple(map(int, found.words[at])))
        for at in range(len(found))
    }


@on_digesting
def test_a_digest_is_the_hash_of_the_row_texts_in_key_order(engine: LiveEngine) -> None:
    plan, wanted, found = plan_of(engine, tables.shared_table(engine, COLUMNS, rows(), ["id"]), most=1000)
    assert plan.partitioning.size == PARTITION * PARTITIONS and len(wanted) > 4
    assert seen(found) == wanted
    assert found.hashed.tolist() == found.rows.tolist()


HASHED = [("sha256", DIGESTING), ("md5", ("mariadb", "postgres"))]
"""Hashes, and the engines that have each without more ado."""


@pytest.mark.parametrize(
    ("engine", "hashed"),
    [pytest.param(*one.values, hashed, marks=one.marks) for hashed, names in HASHED for one in engine_params(*names)],
    indirect=["engine"],
)
@pytest.mark.parametrize(("key", "groups"), [(["id"], 64), (["name", "id"], 256), (["id", "code"], 256)])
@pytest.mark.few
def test_rows_in_no_order_are_hashed_by_the_same_bytes(engine: LiveEngine, hashed: str, key: list[str], groups: int) -> None:
    """A group of keys has the sum of its rows' words, which tells a bar in a text from one between columns."""
    name = tables.shared_table(engine, COLUMNS, rows(), ["id"])
    ends = {side: {"connection": side, "table": name} for side in SIDES}
    settings = {"key": key, "partition": {"strategy": "hash", "buckets": 3}, "method": "exact", "salt": "s4lt", "hash": hashed}
    with open_plan(LivePair(engine, engine), Audit.model_validate({**ends, **settings})) as (whole, sessions):
        prescan = Prescan(used=True, why="", groups=groups, hashes_bytes=True)
        plan, session = plan_of_stretches(replace(whole, prescan=prescan)), sessions["source"]
        found = arrays.join_words(read(plan, "source", session, Chunk()))
        digests = [hashlib.new(hashed, row).hexdigest() for _, row in rows_of(plan, "source", session)]
        assert sum((int(high) << 30) + int(low) for high, low in found.words) == sum(int(digest[:15], 16) for digest in digests)
        assert found.hashed.tolist() == found.rows.tolist() and found.rows.sum() == len(digests)
        assert len(found) > 1


@on_digesting
@pytest.mark.parametrize("kind", [Kind("text"), Kind("char", 40)], ids=str)
def test_keys_are_grouped_by_two_of_their_bytes(engine: LiveEngine, kind: Kind) -> None:
    texts = ["", "a", "é", "abcdefg", "abcdefgh", "abcdefgé", "😀😀", "Ω" * 9, "x" * 40, str(uuid.UUID(int=3**80)), "trailing", None]
    name = tables.shared_table(engine, [("id", Kind("integer")), ("c", kind)], list(enumerate(texts)), ["id"])
    ends = {side: {"connection": side, "table": name} for side in SIDES}
    with open_plan(LivePair(engine, engine), Audit.model_validate({**ends, "key": ["c"], "partition": {"buckets": 3}})) as (
        whole,
        sessions,
    ):
        plan = plan_of_stretches(replace(whole, prescan=Prescan(used=True, why="", groups=256, hashes_bytes=True)))
        group = partition(plan, "source", sessions["source"].dialect)
        found = dict(sessions["source"].query(f"SELECT id, {group} FROM {plan.sides['source'].table}"))
    assert found == {number: None if text is None else group_of(text.encode()) for number, text in enumerate(texts)}


def group_of(data: bytes) -> int:
    return (data[-1] & 31 if data else 0) * 32 + (data[7] & 31 if len(data) > 7 else 0)


@on_digesting
def test_more_rows_than_may_be_joined_are_counted_as_not_hashed(engine: LiveEngine) -> None:
    _, wanted, found = plan_of(engine, tables.shared_table(engine, COLUMNS, rows(), ["id"]), most=5)
    for at, (count, *_) in zip(range(len(found)), (wanted[key] for key in sorted(wanted)), strict=True):
        assert found.hashed[at] == (count if count <= 5 else 0)
        assert found.rows[at] == count or (count > 5 and found.rows[at] == 6), "an engine may stop counting beyond"
    assert 0 in found.hashed.tolist() and (found.hashed > 0).any()


@on_digesting
def test_a_row_without_a_text_equals_no_row_of_the_other_side(engine: LiveEngine) -> None:
    """A value of a type without a length that is longer than is read makes the digests of both sides differ."""
    long, kept = "x" * (LONGEST_VALUE + 1), "x" * LONGEST_VALUE
    name = tables.shared_table(engine, COLUMNS[:2], [(1, long), (20, kept), (40, "a")], ["id"])
    source, target = (seen(plan_of(engine, name, most=1000, side=side)[2]) for side in SIDES)
    assert [key for key in source if source[key] != target[key]] == [0]


@on_digesting
def test_numbers_and_times_that_stand_side_by_side_are_told_apart(engine: LiveEngine) -> None:
    """Digits, and NULL, count in the column that holds them; a text that is compared as a number may hold a bar, and is kept apart."""
    columns = [("id", Kind("integer")), ("a", Kind("integer")), ("b", Kind("decimal", 8, 2)), ("c", Kind("date")), ("d", Kind("text"))]
    day = dt.date(2026, 1, 1)
    contents: list[list[tuple[Any, ...]]] = [
        [(1, 12, Decimal(3), day, "x")], [(1, 1, Decimal(23), day, "x")], [(1, None, Decimal(3), day, "x")], [(1, 3, None, day, "x")],
        [(1, None, None, day, "x")], [(1, None, None, None, "x")], [(1, None, None, None, None)], [(1, None, None, None, "")],
        [(1, None, None, day, None)], [(1, 12, Decimal(3), None, "2026-01-01")], [(1, 12, Decimal(3), None, "2026-01-01|x")],
        [(11, 2, Decimal(3), day, "x")],
    ]  # fmt: skip
    digests = [seen(plan_of(engine, tables.shared_table(engine, columns, one, ["id"]), most=1000)[2]) for one in contents]
    assert len({next(iter(one.values()))[3] for one in digests}) == len(contents)


@on_digesting
def test_rows_may_hold_what_ends_a_row(engine: LiveEngine) -> None:
    """Two rows and one row with the separator in its text are different, and so are rows whose texts were moved between columns."""
    columns = [("id", Kind("integer")), ("a", Kind("text")), ("b", Kind("text"))]
    contents: list[list[tuple[Any, ...]]] = [
        [(1, "x", "y"), (2, "x", "y")], [(1, "x", "y|32|1x|1y")], [(1, "x|1y", ""), (2, "x", "y")], [(1, "", "x|1y"), (2, "x", "y")],
        [(1, None, "y"), (2, "x", "y")], [(1, "|2", "y"), (2, "x", "y")],
    ]  # fmt: skip
    digests = [seen(plan_of(engine, tables.shared_table(engine, columns, one, ["id"]), most=1000)[2])[0][3] for one in contents]
    assert len(set(digests)) == len(contents)
