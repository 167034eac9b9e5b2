"""Names that statements of audits gave to their own tables and columns, before those of a run began with a prefix of its own.

A table whose columns bear them shows whether any such name is still taken for a column, or a column for such a name.
"""

from __future__ import annotations

TAKEN = (
    "partition_id", "row_count", "key_min", "key_max", "first_key", "end_key", "stretches", "hashed_rows", "ordered_rows",
    "digested_rows", "summed_rows", "valued_rows", "located_rows", "read_rows", "ranked", "ranked_rows", "bucketed_rows",
    "classed_rows", "row_words", "row_hash", "row_text", "hashed", "digest", "digests", "total", "total_rows", "bucket",
    "bucket_rows", "class_text", "class_rows", "class_count", "partition_count", "least", "greatest", "least_text", "greatest_text",
    "fence", "place", "position", "k", "kv", "v", "x", "h", "c", "r", "s", "t", "g", "m", "w0", "w1", "w2", "w3", "v0", "v1", "v2",
    "v3", "t0", "t1", "t2", "t3", "d1", "d5", "x2", "x4", "x8", "word_0", "word_1", "word_2", "word_3", "syndrome_1", "syndrome_2",
    "syndrome_3", "syndrome_5", "syndrome_6", "minhash_0", "minhash_1", "sum_0", "sum_1", "sum_2", "min_0", "min_1", "max_0", "max_1",
    "nulls_0", "nulls_1", "nulls_2", "true_5", "characters_1", "found", "fields", "field", "resolved", "auditor_rank", "auditor_row",
    "auditor_position", "source", "target", "one", "what", "nothing", "line", "pieces", "piece", "number", "n", "name", "kind",
    "seconds", "at", "texts", "text_0", "value", "keys", "shard", "side",
)  # fmt: skip
"""In small letters; each is a name that every engine takes, in quotes."""

FIRST = (
    "partition_id", "first_key", "end_key", "row_count", "key_min", "key_max", "stretches", "hashed_rows", "ordered_rows", "digested_rows",
    "row_hash", "word_0", "syndrome_1", "k", "kv", "v", "x", "h", "c", "t", "s", "w0", "w1",
)  # fmt: skip
"""Those that most statements have."""
