"""What a session of PostgreSQL sets when it begins: all parameters that could change, cut or end what it reads.

The table in docs/sessions.md says of the others why they do not matter.
https://www.postgresql.org/docs/current/runtime-config.html
"""

from __future__ import annotations

from collections.abc import Mapping

RESULTS: Mapping[str, str] = {
    "client_encoding": "'UTF8'",
    "quote_all_identifiers": "off",  # otherwise the catalogue writes the type text as "text"
    "TimeZone": "'UTC'",
    "DateStyle": "'ISO, YMD'",
    "IntervalStyle": "'postgres'",
    "bytea_output": "'hex'",
    "standard_conforming_strings": "on",
    "extra_float_digits": "1",
    "gin_fuzzy_search_limit": "0",  # else rows that a GIN index finds are left out at random
    "transform_null_equals": "off",
    "array_nulls": "on",
    "lc_monetary": "'C'",
    "lc_numeric": "'C'",
    "lc_time": "'C'",
    "default_transaction_isolation": "'read committed'",
    "exit_on_error": "off",  # else a refused statement ends the session
    "idle_in_transaction_session_timeout": "0",
}
"""What every role may set, as SQL text."""

PLANS: Mapping[str, str] = {
    # Compiling expressions saves more time than it takes on every chunk of a scan, optimizing them on large ones, inlining on none.
    "jit": "on",
    "jit_above_cost": "50000",
    "jit_inline_above_cost": "-1",
    "jit_optimize_above_cost": "200000",
}

NOT_SETTABLE: Mapping[str, str] = {"zero_damaged_pages": "off", "ignore_checksum_failure": "off"}
"""What only superusers set, and makes rows or values of damaged pages vanish with no more than a warning."""

NEWER_TIMEOUTS = ("idle_session_timeout", "transaction_timeout")
"""Time limits of PostgreSQL 14 and 17."""

_NO_LIMITS = ", ".join(
    f"CASE WHEN pg_catalog.current_setting('{name}', true) IS NOT NULL THEN pg_catalog.set_config('{name}', '0', false) END"
    for name in NEWER_TIMEOUTS
)
_PATH = """pg_catalog.set_config('search_path', pg_catalog.array_to_string(ARRAY(
  SELECT pg_catalog.quote_ident(CAST(schema AS text))
  FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS path (schema, place)
  WHERE schema OPERATOR(pg_catalog.<>) CAST('pg_catalog' AS pg_catalog.name)
  ORDER BY place
), ', '), false)"""
ADJUST = f"SELECT {_NO_LIMITS}, {_PATH}"
"""Lifts the limits that only newer servers have, and takes pg_catalog out of the session's path: where it is not named it is searched
first, so that no function of a schema in the path stands in for one of the server's own.
https://www.postgresql.org/docs/current/runtime-config-client.html#GUC-SEARCH-PATH"""

HELD: Mapping[str, str] = {**RESULTS, **NOT_SETTABLE}
"""What is read back and held."""

_VALUES = ", ".join(f"pg_catalog.current_setting('{name}', true)" for name in HELD)
READ = f"SELECT {_VALUES}"

MARK = "auditor.session"
"""What holds a session's mark: a setting with a point in its name may have any value.
https://www.postgresql.org/docs/current/runtime-config-custom.html"""

PLACE = (
    "pg_catalog.concat(pg_catalog.inet_server_addr(), ':', pg_catalog.inet_server_port(),"
    " ' up since ', pg_catalog.date_trunc('second', pg_catalog.pg_postmaster_start_time() AT TIME ZONE 'UTC'))"
)
"""SQL of where the server says that it is, and since when it runs.
https://www.postgresql.org/docs/current/functions-info.html"""

SIGNS = (
    "rds.extensions", "babelfishpg_tsql.migration_mode", "cloudsql.iam_authentication", "alloydb.iam_authentication",
    "google_columnar_engine.enabled", "azure.extensions",
)  # fmt: skip
"""Settings by which services and extensions are known: see ``dialects.versions``."""

_SETTINGS = "".join(f", CASE WHEN pg_catalog.current_setting('{name}', true) IS NOT NULL THEN '{name}' END" for name in SIGNS)
READ_SERVER = (
    f"SELECT pg_catalog.pg_backend_pid(), {PLACE}, pg_catalog.version(), pg_catalog.concat_ws(' ',"
    f" CASE WHEN pg_catalog.to_regproc('aurora_version') IS NOT NULL THEN 'aurora_version' END{_SETTINGS}),"
    " (SELECT pg_catalog.string_agg(CAST(extname AS text), ' ') FROM pg_catalog.pg_extension)"
)
"""The session's process, where its server is, and what it says of itself."""

READ_BACK = (
    f"SELECT pg_catalog.pg_backend_pid(), pg_catalog.current_setting('{MARK}', true), {PLACE},"
    f" pg_catalog.current_setting('transaction_isolation'), {_VALUES}"
)
"""Which session answers: its process, its mark, where its server says that it is, its isolation now, and what is held."""


def statements(statement_timeout: float, lock_timeout: float) -> list[str]:
    """Return the statements that make a session's settings; timeouts in seconds."""
    limits = {
        "lock_timeout": str(max(1, round(lock_timeout * 1000))),
        "statement_timeout": str(max(1, round(statement_timeout * 1000))),
    }
    return [f"SET {name} TO {value}" for name, value in {**RESULTS, **PLANS, **limits}.items()]
