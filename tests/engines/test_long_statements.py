"""Lists of keys, positions and partitions are cut before a server refuses the statement that holds them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import dialects
from auditor.config import Audit
from auditor.model import SIDES
from auditor.run.fetch import Fetcher
from auditor.sql import render
from auditor.summary.key_number import bucket_of, key_number, position_of
from dialects import Kind
from tests import tables
from tests.audits import open_plan
from tests.live import LiveEngine, LivePair, engine_params

PACKET = 65536
KEYS = [f"{number} is a key of forty characters {'x' * 10}" for number in range(900)]
ABSENT = 12_000
"""Positions, and partitions, of no row: many times what the packet holds."""


@pytest.fixture
def small_packet(engine: LiveEngine, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let a statement be short: on MySQL and MariaDB by the server's own limit."""
    if engine.dialect != "mysql":
        monkeypatch.setattr(render, "LIST_BYTES", PACKET // 2)
        yield
        return
    previous = tables.query(engine, "SELECT @@GLOBAL.max_allowed_packet")[0][0]
    tables.execute(engine, f"SET GLOBAL max_allowed_packet = {PACKET}")
    yield
    tables.execute(engine, f"SET GLOBAL max_allowed_packet = {previous}")


@pytest.mark.alone  # the limit is the whole server's
@pytest.mark.usefixtures("small_packet")
@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", "postgres"), indirect=True)
def test_lists_longer_than_a_packet_find_their_rows(engine: LiveEngine) -> None:
    tables.make(engine, "long_lists", [("k", Kind("text")), ("v", Kind("text"))], [(key, "v") for key in KEYS])
    ends = {side: {"connection": side, "table": "long_lists"} for side in SIDES}
    with open_plan(LivePair(engine, engine), Audit.model_validate({**ends, "key": ["k"]})) as (plan, sides):
        session = sides["source"]
        fetch = Fetcher(plan, "source", session, 200)
        numbers_of_keys = [key_number(plan, (key,)) or 0 for key in KEYS]
        places = [(bucket_of(number, plan.partitioning.buckets), position_of(number)) for number in numbers_of_keys]
        wanted = sorted((key,) for key in KEYS)
        assert sorted(row.key for row in fetch.by_place([*((ABSENT, x) for x in range(1, ABSENT)), *places])) == wanted
        assert sorted(row.key for row, _ in fetch.by_canonical_key([(key,) for key in KEYS], "")) == wanted
        numbers = list(range(plan.partitioning.buckets + ABSENT))
        assert len(render.partition_conditions(plan, "source", session.dialect, numbers, 100)) > 1
        assert sorted(row.key for row in fetch.by_partition(numbers)) == wanted


@pytest.mark.parametrize(("sizes", "most", "cut"), [
    ([], None, []),
    ([3, 3, 4], None, [[3, 3, 4]]),
    ([3, 3, 5], None, [[3, 3], [5]]),
    ([99, 1, 99], None, [[99], [1], [99]]),
    ([1, 1, 1, 1, 1], 2, [[1, 1], [1, 1], [1]]),
])  # fmt: skip
def test_batches_are_as_long_as_there_is_room(
    sizes: list[int], most: int | None, cut: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(render, "LIST_BYTES", 10)
    assert list(render.cut_into_batches(sizes, lambda size: size, dialects.get("duckdb"), most)) == cut
