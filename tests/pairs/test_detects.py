"""One changed value makes exactly one partition unequal, for any column, row and change.

On DuckDB Hypothesis chooses the change among 100,000 rows; every engine runs a fixed set of changes. The whole table is summarised once;
a change is then applied to a copy of its own partition's rows, and the summaries of the other partitions are reused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import auditor
from auditor.config import Audit
from auditor.model import Method, Plan, Verdict
from auditor.summary.arrays import Summaries
from dialects import Kind, Session
from tests import tables
from tests.audits import compare_summaries, open_plan, read_summaries
from tests.live import LiveEngine, LivePair

ROWS = 100_000
SIZE = 1_000
METHODS: tuple[Method, ...] = ("signature", "minhash")

BIG = f"""
CREATE TABLE big AS SELECT
  i AS id,
  CASE WHEN i % 7 = 0 THEN NULL ELSE i * 3 END AS amount,
  CAST(i AS DECIMAL(18, 2)) / 4 AS price,
  CASE WHEN i % 11 = 0 THEN NULL ELSE i / 7.0 END AS weight,
  CASE WHEN i % 5 = 0 THEN NULL WHEN i % 5 = 1 THEN '' ELSE 'row ' || i END AS name,
  'note|' || (i % 100) AS note,
  TIMESTAMP '2020-01-01' + INTERVAL (i) SECOND AS made,
  DATE '2020-01-01' + CAST(i % 1000 AS INTEGER) AS day,
  i % 3 = 0 AS flag,
  CAST('raw' || i AS BLOB) AS raw
FROM range({ROWS}) r(i)
"""

CHANGES: dict[str, tuple[str, ...]] = {
    "amount": ("COALESCE(amount, 0) + 1", "COALESCE(-amount - 1, 0)"),
    "price": ("price + 0.01", "-price - 1", "NULL"),
    "weight": ("COALESCE(weight * (1 + 1e-15) + 1e-300, 0)", "COALESCE(-weight - 1, 1)"),
    "name": ("CASE WHEN name IS NULL THEN '' ELSE NULL END", "COALESCE(name, 'NULL') || ' '", "COALESCE(name || 'x', 'NULL')"),
    "note": ("note || '|'", "'NULL'", "replace(note, '|', '|1')", "NULL"),
    "made": ("made + INTERVAL 1 MICROSECOND", "made + INTERVAL 5 HOUR", "NULL"),
    "day": ("day + 1", "NULL"),
    "flag": ("NOT flag", "NULL"),
    "raw": ("raw || '\\x00'::BLOB", "''::BLOB", "NULL"),
    "id": (f"id + {ROWS}",),
}
"""Expressions that always differ from the column's value."""


@dataclass(repr=False)
class Bench:
    """The big table on both sides, its plans, and the source's summaries by method."""

    connection: Any
    session: Session
    plans: dict[Method, Plan]
    whole: dict[Method, Summaries]

    def summarise_changed(self, method: Method, partitions: list[int], statements: list[str]) -> Summaries:
        """Return the target's summaries after the statements, which may change rows of these partitions only."""
        plan = self.plans[method]
        keys = " OR ".join(f"id BETWEEN {p * SIZE} AND {p * SIZE + SIZE - 1}" for p in partitions)
        self.connection.execute(f"CREATE OR REPLACE TABLE part AS SELECT * FROM big WHERE {keys}")
        for statement in statements:
            self.connection.execute(statement)
        target = replace(plan.sides["target"], table='"main"."part"')
        part = read_summaries(replace(plan, sides={**plan.sides, "target": target}), "target", self.session)
        unchanged = ~np.isin(self.whole[method].partition, partitions)
        return Summaries(
            **{name: np.concatenate([getattr(self.whole[method], name)[unchanged], getattr(part, name)]) for name in Summaries.__slots__}
        )

    def unequal_partitions(self, method: Method, partitions: list[int], *statements: str) -> list[int | None]:
        changed = self.summarise_changed(method, partitions, list(statements))
        order = np.argsort(changed.partition, kind="stable")
        changed = Summaries(**{name: getattr(changed, name)[order] for name in Summaries.__slots__})
        found = compare_summaries(self.whole[method], changed)
        assert found.verdict == (Verdict.MISMATCH if found.divergent else Verdict.MATCH)
        return [part.partition for part in found.divergent]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    path: Path = tmp_path_factory.mktemp("detects") / "big.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(BIG)
    engine = LiveEngine("big", "duckdb", f"duckdb:///{path}?access_mode=read_write")
    plans: dict[Method, Plan] = {}
    whole: dict[Method, Summaries] = {}
    with open_plan(LivePair(engine, engine), audit("minhash")) as (plan, sides):
        session = sides["source"]
        session.end()  # leave the snapshot, so that changes are visible
        for method in METHODS:
            plans[method] = replace(plan, method=method, k=plan.k if method == "minhash" else 0)
            whole[method] = read_summaries(plans[method], "source", session)
            assert int(whole[method].rows.sum()) == ROWS
            assert len(whole[method]) == ROWS // SIZE
        with duckdb.connect(str(path)) as connection:
            yield Bench(connection, session, plans, whole)


def audit(method: Method, source: str = "big", target: str = "big", size: int = SIZE) -> Audit:
    ends = {side: {"connection": side, "table": table} for side, table in (("source", source), ("target", target))}
    return Audit.model_validate({**ends, "key": ("id",), "k": 4, "method": method, "partition": {"strategy": "range", "size": size}})


@pytest.mark.parametrize("method", METHODS)
def test_unchanged_table_has_no_unequal_partition(bench: Bench, method: Method) -> None:
    assert bench.unequal_partitions(method, [17]) == []


@pytest.mark.quick_for("minhash")
@pytest.mark.parametrize("method", METHODS)
@given(
    row=st.sampled_from([0, SIZE - 1, SIZE, ROWS - 1]) | st.integers(0, ROWS - 1),
    change=st.sampled_from([(column, change) for column, changes in CHANGES.items() if column != "id" for change in changes]),
)
@settings(max_examples=settings().max_examples * 3 // 5)
def test_one_changed_value_makes_one_partition_unequal(bench: Bench, method: Method, row: int, change: tuple[str, str]) -> None:
    column, expression = change
    changed = f"UPDATE part SET {column} = {expression} WHERE id = {row} AND {column} IS DISTINCT FROM ({expression})"
    assert bench.unequal_partitions(method, [row // SIZE], changed) == [row // SIZE]


@pytest.mark.quick_for("minhash")
@pytest.mark.parametrize("method", METHODS)
@given(
    row=st.integers(0, ROWS - 1),
    column=st.sampled_from([column for column in CHANGES if column != "id"]),
    offset=st.integers(1, 499),
)
@settings(max_examples=settings().max_examples * 3 // 10)
def test_values_swapped_between_two_rows_are_detected(bench: Bench, method: Method, row: int, column: str, offset: int) -> None:
    """The multiset of the column's values stays the same, so sums of values alone would not detect it."""
    partition = row // SIZE
    other = partition * SIZE + (row % SIZE + offset) % SIZE
    one, two = (bench.connection.execute(f"SELECT {column} FROM big WHERE id = {key}").fetchone()[0] for key in (row, other))
    swap = f"""UPDATE part SET {column} = (SELECT {column} FROM big b WHERE b.id = CASE WHEN part.id = {row} THEN {other} ELSE {row} END)
               WHERE id IN ({row}, {other})"""
    assert bench.unequal_partitions(method, [partition], swap) == ([partition] if one != two else [])


@pytest.mark.quick_for("signature")
@pytest.mark.parametrize("method", METHODS)
@given(row=st.integers(0, ROWS - 1))
@settings(max_examples=settings().max_examples * 3 // 20)
def test_lost_duplicated_and_moved_rows_are_detected(bench: Bench, method: Method, row: int) -> None:
    here = row // SIZE
    assert bench.unequal_partitions(method, [here], f"DELETE FROM part WHERE id = {row}") == [here]
    assert bench.unequal_partitions(method, [here], f"INSERT INTO part SELECT * FROM part WHERE id = {row}") == [here]
    assert bench.unequal_partitions(method, [here], "DELETE FROM part") == [here]
    assert bench.unequal_partitions(method, [here], f"UPDATE part SET id = id + {ROWS} WHERE id = {row}") == [here, (row + ROWS) // SIZE]


Row = tuple[Any, ...]
APART, SMALL_SIZE = 100, 4
SMALL = [("id", Kind("integer")), ("one", Kind("text")), ("two", Kind("text")), ("price", Kind("decimal", 10, 2))]
TEXTS = (None, "", "left|", "|2")
ROWS_SMALL: list[Row] = [(n, TEXTS[n % 4], f"~right{n}", None if n % 6 == 0 else Decimal(n)) for n in range(16)]


def with_row(key: int, **changed: Any) -> list[Row]:
    names = [name for name, _ in SMALL]
    changed_row = tuple(changed.get(name, value) for name, value in zip(names, ROWS_SMALL[key], strict=True))
    return [*ROWS_SMALL[:key], changed_row, *ROWS_SMALL[key + 1 :]]


FIXED: dict[str, tuple[list[Row], list[int]]] = {
    "nothing": (ROWS_SMALL, []),
    "another order": (ROWS_SMALL[::-1], []),
    "NULL to empty": (with_row(4, one=""), [1]),
    "NULL to the word": (with_row(8, one="NULL"), [2]),
    "NULL to its own mark": (with_row(8, one="|2"), [2]),
    "its own mark to NULL": (with_row(3, one=None), [0]),
    "empty to NULL": (with_row(13, one=None), [3]),
    "a blank at the end": (with_row(9, two="~right9 "), [2]),
    "upper case": (with_row(9, two="~Right9"), [2]),
    "text moved to its neighbour": (with_row(10, one="left", two="|~right10"), [2]),
    "the separator moved": (with_row(10, one="left|~right10", two=""), [2]),
    "texts changed places": (with_row(10, one="~right10", two="left|"), [2]),
    "a cent": (with_row(15, price=Decimal("15.01")), [3]),
    "NULL to zero": (with_row(12, price=Decimal(0)), [3]),
    "two rows' prices swapped": ([*with_row(7, price=Decimal(5))[6:], *with_row(5, price=Decimal(7))[:6]], [1]),
    "a lost row": (ROWS_SMALL[:15], [3]),
    "a duplicated row": ([*ROWS_SMALL, ROWS_SMALL[15]], [3]),
    "another key": (with_row(15, id=16), [3, 4]),
}
"""The target's rows in place of ROWS_SMALL, and the partitions of four keys that differ."""


@pytest.mark.slow_on("spark")
def test_fixed_changes_are_detected_on_every_engine(engine: LiveEngine) -> None:
    """All cases share one table, each with its own range of keys; it has no primary key, so that a row can occur twice."""
    sides = {
        "detect_source": [(APART * copy + row[0], *row[1:]) for copy in range(len(FIXED)) for row in ROWS_SMALL],
        "detect_target": [(APART * copy + row[0], *row[1:]) for copy, (rows, _) in enumerate(FIXED.values()) for row in rows],
    }
    for table, rows in sides.items():
        tables.make(engine, table, SMALL, rows)
    ends = ((engine.url, table) for table in sides)
    report = auditor.audit(*ends, key=["id"], method="signature", partition={"strategy": "range", "size": SMALL_SIZE})
    assert report.comparison is not None, report.reasons
    found = [part.partition for part in report.comparison.divergent]
    wide = APART // SMALL_SIZE
    expected = {name: [copy * wide + partition for partition in there] for copy, (name, (_, there)) in enumerate(FIXED.items())}
    assert {name: [p for p in found if p is not None and p // wide == copy] for copy, name in enumerate(FIXED)} == expected
