"""The settings under which every statement runs: those on which a result depends, and those by which a server cuts one without an error.

They go with each request, because HTTP has no session that a proxy or a balancer could not change. A profile of the server may lock a
setting, or forbid all of them (``readonly`` is 1): then each has to have its value already, or nothing is read.
https://clickhouse.com/docs/operations/settings/settings
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dialects import errors, settings

_CUTS = ("read", "sort", "result", "distinct", "set", "join", "transfer", "group_by", "timeout")
"""What has a limit under which a profile may have what is beyond left out, and no error: ``<name>_overflow_mode`` is then not throw."""

PINNED = {
    # Which rows there are.
    "final": "1",
    "do_not_merge_across_partitions_select_final": "0",
    "defer_partition_pruning_after_final": "1",
    "use_skip_indexes_if_final": "0",
    "optimize_move_to_prewhere_if_final": "0",
    "apply_prewhere_after_final": "1",
    "apply_row_policy_after_final": "1",
    "query_plan_optimize_lazy_final": "0",
    "apply_deleted_mask": "1",
    "apply_mutations_on_fly": "0",
    "select_sequential_consistency": "1",
    "additional_table_filters": "{}",
    "additional_result_filter": "",
    "stream_like_engine_allow_direct_select": "0",
    "use_query_cache": "0",
    "use_query_condition_cache": "0",
    "skip_unavailable_shards": "0",
    "optimize_skip_unused_shards": "0",
    "distributed_group_by_no_merge": "0",
    "optimize_distributed_group_by_sharding_key": "0",
    "max_parallel_replicas": "1",
    "enable_parallel_replicas": "0",
    # How many of them arrive.
    "limit": "0",
    "offset": "0",
    "extremes": "0",
    "max_result_rows": "0",
    "max_result_bytes": "0",
    "partial_result_on_first_cancel": "0",
    **{f"{name}_overflow_mode": "throw" for name in _CUTS},
    "read_overflow_mode_leaf": "throw",
    "timeout_overflow_mode_leaf": "throw",
    # What a statement means.
    "dialect": "clickhouse",
    "enable_analyzer": "1",
    "prefer_column_name_to_alias": "1",
    "enable_positional_arguments": "1",
    "enable_order_by_all": "0",
    "asterisk_include_materialized_columns": "0",
    "asterisk_include_alias_columns": "0",
    "aggregate_functions_null_for_empty": "1",
    "empty_result_for_aggregation_by_empty_set": "0",
    "count_distinct_implementation": "uniqExact",
    "group_by_use_nulls": "0",
    "join_use_nulls": "1",
    "join_default_strictness": "ALL",
    "transform_null_in": "0",
    "union_default_mode": "",
    "use_variant_as_common_type": "0",
    "cast_keep_nullable": "1",
    "short_circuit_function_evaluation": "enable",
    "decimal_check_overflow": "1",
    "precise_float_parsing": "1",
    "date_time_overflow_behavior": "throw",
    "date_time_input_format": "basic",
    "date_time_output_format": "simple",
    "cast_string_to_date_time_mode": "basic",
    "session_timezone": "UTC",
    "output_format_native_encode_types_in_binary_format": "0",
    # How long a statement may be.
    "max_query_size": str(16 << 20),
    "max_ast_elements": "5000000",
    "max_expanded_ast_elements": "5000000",
    "max_ast_depth": "10000",
    "max_parser_depth": "10000",
}
"""Values by name. A server that does not have one of them does not know what it changes either."""

AT_LEAST = frozenset({"max_query_size", "max_ast_elements", "max_expanded_ast_elements", "max_ast_depth", "max_parser_depth"})
"""Limits of a statement's length: a lower one is an error of a long statement, never another result."""

UNCUT: Mapping[str, str] = {
    name: PINNED[name]
    for name in (
        "limit",
        "offset",
        "max_result_rows",
        "max_result_bytes",
        "result_overflow_mode",
        "read_overflow_mode",
        "additional_result_filter",
    )
}
"""What is sent when the settings themselves are read."""

OF_SOME_VERSIONS = frozenset({
    "defer_partition_pruning_after_final", "apply_prewhere_after_final", "apply_row_policy_after_final",
    "query_plan_optimize_lazy_final", "use_query_condition_cache",
    "use_variant_as_common_type", "cast_string_to_date_time_mode", "enable_parallel_replicas", "enable_analyzer",
    "output_format_native_encode_types_in_binary_format", "partial_result_on_first_cancel", "max_expanded_ast_elements",
    "read_overflow_mode_leaf", "timeout_overflow_mode_leaf", "join_default_strictness", "empty_result_for_aggregation_by_empty_set",
    "date_time_overflow_behavior", "enable_order_by_all",
})  # fmt: skip
"""Settings that a server may not have: what they change it does as they say, or not at all."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting as the server shows it to this user."""

    value: str
    is_locked: bool
    """Whether this user may not set it."""


NO_QUERY_WRITES = "2"
"""The value of ``readonly`` under which nothing is written, and settings can be set."""

WRITING: Mapping[str, str] = {"data_type_default_nullable": "1"}
"""Settings of a session that may write: a column may hold NULL unless its definition says otherwise, as in standard SQL."""


def timeouts(statement_timeout: float, lock_timeout: float) -> dict[str, str]:
    """Return the settings that limit a statement, and its wait for a lock; in seconds."""
    return {"max_execution_time": f"{statement_timeout:g}", "lock_acquire_timeout": str(max(1, round(lock_timeout)))}


def to_send(where: str, wanted: Mapping[str, str], known: Mapping[str, Setting]) -> dict[str, str]:
    """Return which of the wanted settings are sent with each request; ``known`` are those that the server has.

    Raises SessionNotKept, with the next step, if one that must not be changed has another value; ``where`` is the URL.
    """
    have = {name: value for name, value in wanted.items() if name in known}
    is_locked = known["readonly"].value == "1"
    locked = {name: value for name, value in have.items() if is_locked or known[name].is_locked}
    others = settings.find_others(locked, {name: known[name].value for name in locked if name not in AT_LEAST})
    if others:
        why = "this user's profile has readonly = 1, so that no setting can be set" if is_locked else "this user may not set them"
        raise errors.SessionNotKept(
            f"{where}: settings on which results depend have other values, and {why}: {'; '.join(others)}; set readonly = 2 in the"
            " profile, which forbids writing as well, or these values"
        )
    return {name: value for name, value in have.items() if name not in locked}
