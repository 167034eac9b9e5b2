"""What a session of DuckDB has as it is delivered: settings that change what is read, and the functions that statements call.

A process that has opened the same file may have set them for all of its connections, and a macro of the database takes the place of a
function of its name. The table in docs/sessions.md says of the other settings why they do not matter.
https://duckdb.org/docs/stable/configuration/overview
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dialects.errors import StatementRefused

DEFAULTS: Mapping[str, str] = {
    "default_order": "ASCENDING",
    "default_null_order": "NULLS_LAST",
    "default_collation": "",
    "integer_division": "false",
    "ieee_floating_point_ops": "true",
    "order_by_non_integer_literal": "false",
    "scalar_subquery_error_on_multiple_rows": "true",
    "Calendar": "gregorian",
    "binary_as_string": "false",
    "python_enable_replacements": "false",  # else the name of a table that is missing may be that of a variable of this process
    "arrow_lossless_conversion": "false",
    "arrow_large_buffer_size": "false",
    "enable_http_metadata_cache": "false",
    "parquet_metadata_cache": "false",
}

CALLS: Mapping[str, str] = {
    "abs": "abs(-2) = 2", "floor": "floor(2.5) = 2", "sum": "sum(2) = 2", "count": "count(*) = 1", "min": "min('b') = 'b'",
    "max": "max('b') = 'b'", "replace": "replace('abc', 'b', 'x') = 'axc'", "substr": "substr('abcd', 2, 2) = 'bc'",
    "left": "left('abc', 2) = 'ab'", "lower": "lower('Ab') = 'ab'", "length": "length('abc') = 3", "trim": "trim(' a ', ' ') = 'a'",
    "encode": "encode('a') = 'a'::BLOB", "md5": "left(md5('a'), 4) = '0cc1'", "sha256": "left(sha256('a'), 4) = 'ca97'",
    "strftime": "strftime(TIMESTAMP '2001-02-03 04:05:06', '%Y%S') = '200106'",
}  # fmt: skip
"""What the functions that statements call most must yield."""

_READ = "SELECT {}, {}".format(
    ", ".join(f"current_setting('{name}')" for name in DEFAULTS), ", ".join(f"({call}) IS TRUE" for call in CALLS.values())
)


NO_FILES: Mapping[str, str] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "enable_external_access": "false",  # last: it cannot be turned on again in this process while the file is open
}
"""Settings under which views of a file that somebody else made read nothing else of this machine or its network."""


def refuse_files(connection: Any) -> None:
    """Let a file's views read no other files, unless this process had opened the file itself and so decides what may be read.

    The configuration is not locked: it is that of all connections of the process to the file, whose sessions set their time zone.
    https://duckdb.org/docs/stable/operations_manual/securing_duckdb/overview
    """
    if connection.execute("SELECT * FROM duckdb_connection_count()").fetchall()[0][0] == 1:
        for name, value in NO_FILES.items():
            connection.execute(f"SET GLOBAL {name} = {value}")


def restore(query: Callable[[str], list[tuple[Any, ...]]]) -> None:
    """Set what somebody has changed as DuckDB delivers it. Raises StatementRefused where a macro takes the place of a function."""
    values = query(_READ)[0]
    own = [name for name, is_right in zip(CALLS, values[len(DEFAULTS) :], strict=True) if not is_right]
    if own:
        raise StatementRefused(
            f"the database has macros that take the place of functions of DuckDB's own: {', '.join(own)}; give them other names"
        )
    for (name, wanted), value in zip(DEFAULTS.items(), values[: len(DEFAULTS)], strict=True):
        if str(value).lower() != wanted.lower():
            try:
                query(f"SET SESSION {name} = '{wanted}'")
            except StatementRefused:  # by a version that has it for the whole process only
                query(f"SET GLOBAL {name} = '{wanted}'")
