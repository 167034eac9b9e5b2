"""The pre-scan's statements on each engine: the signature of a stretch is the sum of those of its partitions, in whole words."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from auditor.config import Audit
from auditor.model import NULL_PARTITION, SIDES, Chunk, Plan, Prescan
from auditor.planning.prescan import plan_of_stretches
from auditor.sql import render
from auditor.sql.prescan import count_writes
from auditor.summary import arrays
from auditor.summary.arrays import Summaries
from dialects import Kind, Session
from tests import tables
from tests.audits import open_plan
from tests.live import LiveEngine, LivePair

COLUMNS = [("id", Kind("integer")), ("code", Kind("text")), ("label", Kind("text"))]
ROWS = [(None if key in (3, 4) else key, f"code {key}", f"row {key % 7}") for key in range(-150, 150)]
PARTITIONS = 4
"""Partitions of a stretch."""


def read(plan: Plan, session: Session, chunk: Chunk) -> Summaries:
    return arrays.read(session.stream(render.summary(plan, "source", session.dialect, chunk)), render.result_columns(plan))


def fold(found: Summaries, width: int) -> dict[int, tuple[Any, ...]]:
    """Return rows, hashed rows, least key, greatest key and the sum of whole words by stretch, of so many partitions."""
    parents = [one if one == NULL_PARTITION else one // width for one in found.partition.tolist()]
    folded = {}
    for parent in sorted(set(parents)):
        at = [index for index, one in enumerate(parents) if one == parent]
        keys = [key for index in at for key in (found.least[index], found.greatest[index]) if key is not None]
        folded[parent] = (
            int(found.rows[at].sum()), int(found.hashed[at].sum()), min(keys, default=None), max(keys, default=None),
            sum((int(high) << 30) + int(low) for high, low in found.words[at]),
        )  # fmt: skip
    return folded


@pytest.mark.slow_on("spark")
def test_a_stretch_is_the_sum_of_its_partitions(engine: LiveEngine) -> None:
    name = tables.shared_table(engine, COLUMNS, ROWS)
    ends = {side: {"connection": side, "table": name} for side in SIDES}
    audit = Audit.model_validate({**ends, "key": ["id"], "partition": {"size": 16}, "method": "exact", "salt": "s4lt"})
    with open_plan(LivePair(engine, engine), audit) as (plan, sessions):
        session = sessions["source"]
        stretches = plan_of_stretches(replace(plan, prescan=Prescan(used=True, why="", partitions=PARTITIONS)))
        expected = fold(read(plan, session, Chunk()), PARTITIONS)
        seen = read(stretches, session, Chunk())
        assert fold(seen, 1) == fold(arrays.join_words(seen), 1) == expected
        assert len(expected) == 7, "rows without a key are a stretch of their own"
        assert sum(one[0] for one in expected.values()) == len(ROWS)
        assert not len(read(stretches, session, Chunk(within="1 = 0"))), "no row, no stretch"


WRITTEN = [(*row, dt.datetime(2025, 6, 1) if row[0] is None or row[0] % 40 > 35 else dt.datetime(2025, 4, 30, 23, 59, 59)) for row in ROWS]


@pytest.mark.slow_on("spark")
def test_rows_are_counted_by_spans_of_keys_since_a_moment(engine: LiveEngine) -> None:
    """As a run counts writes by the settle column, of keys below 0 and of none as well."""
    name = tables.shared_table(engine, [*COLUMNS, ("moved", Kind("timestamp", scale=6))], WRITTEN)
    ends = {side: {"connection": side, "table": name} for side in SIDES}
    audit = Audit.model_validate({**ends, "key": ["id"], "partition": {"size": 16}, "where": "id IS NULL OR id < 140"})
    with open_plan(LivePair(engine, engine), audit) as (plan, sessions):
        session = sessions["source"]
        names = session.dialect.names
        since = f"{names.quote('moved')} >= {names.timestamp_literal('2025-05-01 00:00:00.000000')}"
        rows = session.query(count_writes(plan, "source", session.dialect, 64, since))
    found = {None if span is None else int(str(span)): int(str(count)) for span, count in rows}
    keys = [row[0] for row in ROWS if row[0] is None or (row[0] % 40 > 35 and row[0] < 140)]
    assert found == Counter(None if key is None else key // 64 for key in keys)
    assert min(found, key=lambda span: span or 0) == -2 and found[None] == 2
