"""Chunks of a refresh in the stream: each replaces its interval of keys where it stands, and nothing newer."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from auditor.pipeline.events import TableSchema
from auditor.sql.merge import MergeStatements
from dialects import Kind
from tests.pipeline.conftest import COMMITTED, EVERY
from tests.pipeline.road import Road
from tests.pipeline_events import Row, absent, announce, batch, delete, insert, refresh, table, update

pytestmark = pytest.mark.engines_in_turn

INTO_EVERY = pytest.mark.parametrize("engine", [*EVERY, *COMMITTED], indirect=True)

ORDERS = table(id="bigint", item="varchar(40) null")
ITEMS = table("items", ("region", "id"), id="bigint", region="int", item="varchar(40) null")
OPEN: Row = [None, None]


@pytest.mark.parametrize("engine", EVERY, indirect=True)
def test_a_chunk_replaces_its_interval_and_drops_what_the_source_lacks(road: Road) -> None:
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, *([str(n), "old"] for n in range(10)))))
    loader = road.loader()
    loader.merge_all()
    road.execute(f"UPDATE {road.schema}.orders SET item = 'damaged' WHERE id = 4", f"INSERT INTO {road.schema}.orders VALUES (50, 'ghost')")
    chunk = refresh(ORDERS, 30, ["3", "old"], ["4", "old"], bounds=(["2", None], ["6", None]))
    later = [*insert(ORDERS, 31, ["5", "newer"]), *update(ORDERS, 32, (["3", "old"], ["3", "newest"]))]
    road.stage(batch(insert(ORDERS, 20, ["-1", "before"]), update(ORDERS, 21, (["5", "old"], ["5", "stale"])), chunk, later))
    loader.merge_all()
    assert road.rows() == [
        (-1, "before"), (0, "old"), (1, "old"), (2, "old"), (3, "newest"), (4, "old"), (5, "newer"), (7, "old"), (8, "old"), (9, "old"),
        (50, "ghost"),
    ]  # fmt: skip
    road.stage(batch(refresh(ORDERS, 40, ["9", "old"], bounds=(["8", None], OPEN))))
    loader.merge_all()
    assert [row[0] for row in road.rows()][-3:] == [7, 8, 9]


@INTO_EVERY
def test_keys_that_the_source_lacks_go(road: Road) -> None:
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"], ["2", "b"], ["3", "c"])))
    listed = [*absent(ORDERS, 20, ["1", None], ["2", None], ["9", None]), *refresh(ORDERS, 21, ["2", "as it is"])]
    road.stage(batch(listed))
    road.loader().merge_all()
    assert road.rows() == [(2, "as it is"), (3, "c")]


@INTO_EVERY
def test_intervals_of_a_key_of_two_columns(road: Road) -> None:
    rows = [[str(n), str(region), "old"] for region in (1, 2, 3) for n in (1, 2)]
    road.stage(batch(announce(ITEMS, 1), insert(ITEMS, 10, *rows)))
    loader = road.loader()
    loader.merge_all()
    road.stage(batch(refresh(ITEMS, 20, ["2", "1", "new"], bounds=(["1", "1", None], ["1", "2", None]))))
    loader.merge_all()
    assert [row[:2] for row in road.rows("items", '"region", "id"')] == [(1, 1), (2, 1), (2, 2), (1, 3), (2, 3)]
    road.stage(batch(refresh(ITEMS, 30, bounds=([None, "1", None], [None, "2", None]))))
    loader.merge_all()
    assert [row[:2] for row in road.rows("items", '"region", "id"')] == [(1, 1), (2, 1), (1, 3), (2, 3)]


@pytest.mark.quick_for("delta", "duckdb", "mysql", "postgres")
@INTO_EVERY
@pytest.mark.few
def test_random_changes_and_chunks_equal_the_source(road: Road) -> None:
    random_ = random.Random(16)
    source: dict[int, str] = dict.fromkeys(range(0, 40, 2), "begin")
    road.stage(batch(announce(ORDERS, 1)))
    loader, position = road.loader(), 10
    low = -1
    while low < 40:
        events: list[dict[str, object]] = []
        for _ in range(random_.randrange(1, 12)):
            position += 1
            events += _change(random_, source, position)
        if random_.random() < 0.6:
            position, high = position + 1, low + random_.randrange(1, 8)
            rows = [[str(n), item] for n, item in sorted(source.items()) if low < n and (n <= high or high >= 40)]
            ends = ([str(low), None] if low >= 0 else OPEN, [str(high), None] if high < 40 else OPEN)
            events += refresh(ORDERS, position, *rows, bounds=ends)
            low = high
        road.stage(batch(events))
        if random_.random() < 0.5:
            loader.merge_all()
    loader.merge_all()
    assert road.rows() == sorted(source.items())


FILL = [
    *refresh(ORDERS, 10, ["1", "a"], ["2", "b"], bounds=(OPEN, ["2", None])),
    *refresh(ORDERS, 20, ["3", "c"], bounds=(["2", None], ["4", None])),
    *refresh(ORDERS, 30, ["7", "d"], bounds=(["4", None], OPEN)),
]
"""All rows of a table, in three chunks."""


@pytest.mark.parametrize("engine", EVERY, indirect=True)
def test_the_chunks_that_fill_a_new_table_are_merged_as_rows(road: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []
    whole = MergeStatements.list_bounds

    def note(statements: MergeStatements, attempt: str, kinds: Sequence[Kind]) -> str:
        counted.append(attempt)
        return whole(statements, attempt, kinds)

    monkeypatch.setattr(MergeStatements, "list_bounds", note)
    road.stage(batch(announce(ORDERS, 1), FILL, update(ORDERS, 40, (["2", "b"], ["2", "newer"])), delete(ORDERS, 41, ["3", "c"])))
    loader = road.loader()
    assert loader.merge_all() > 0
    assert road.rows() == [(1, "a"), (2, "newer"), (7, "d")]
    assert not counted or road.dialect.writing.LOADS == "by files", "whose rows are read by tasks alone"
    road.execute(f"INSERT INTO {road.schema}.orders VALUES (5, 'ghost')")
    road.stage(batch(refresh(ORDERS, 50, ["7", "d"], bounds=(["4", None], OPEN))))
    loader.merge_all()
    assert road.rows() == [(1, "a"), (2, "newer"), (7, "d")] and counted


@INTO_EVERY
@pytest.mark.parametrize(
    "later",
    [
        refresh(ORDERS, 40, ["1", "a"], bounds=(OPEN, OPEN)),
        [*insert(ORDERS, 40, ["8", "lost"]), *refresh(ORDERS, 41, ["1", "a"], bounds=(OPEN, OPEN))],
        refresh(ORDERS, 40, ["1", "a"], bounds=(OPEN, ["6", None])),
    ],
    ids=["again from the beginning", "behind an insertion", "up to a key"],
)
def test_chunks_that_take_rows_of_a_new_table_away_delete_them(road: Road, later: list[dict[str, object]]) -> None:
    road.stage(batch(announce(ORDERS, 1), FILL, later))
    road.loader().merge_all()
    assert road.rows() == [(1, "a"), *([(7, "d")] if later[0]["after"] == ["6", None] else [])]


@INTO_EVERY
def test_an_empty_table_is_made(road: Road) -> None:
    road.stage(batch(announce(ORDERS, 1), refresh(ORDERS, 10, bounds=(OPEN, OPEN))))
    road.loader().merge_all()
    assert road.rows() == []


def _change(random_: random.Random, source: dict[int, str], position: int) -> list[dict[str, object]]:
    """Change the source by one row, and return the event."""
    schema: TableSchema = ORDERS
    key, item = random_.randrange(45), f"at {position}"
    old = source.pop(key, None)
    if old is None:
        source[key] = item
        return insert(schema, position, [str(key), item])
    if random_.random() < 0.4:
        return delete(schema, position, [str(key), old])
    other = random_.choice([key, *(n for n in range(45) if n not in source)])
    source[other] = item
    return update(schema, position, ([str(key), old], [str(other), item]))
