"""Summaries that engines return in their own order."""

from __future__ import annotations

from auditor.model import NULL_PARTITION
from auditor.summary import arrays
from dialects import ColumnBatch


def test_summaries_are_ascending_wherever_an_engine_sorts_null() -> None:
    """The partition of rows without a key is the least id; most engines return it last."""
    batch: ColumnBatch = [(3, 12, None), (1, 2, 4), (1, 2, 4), (None, None, None), (None, None, None), (10, 20, 40)]
    found = arrays.read([batch], ["partition_id", "row_count", "hashed", "key_min", "key_max", "word_0"])
    assert found.partition.tolist() == [NULL_PARTITION, 3, 12]
    assert found.rows.tolist() == [4, 1, 2] and found.words.tolist() == [[40], [10], [20]]
