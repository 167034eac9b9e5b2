"""Say what keeps refreshes of a pipeline from running, and what they cost its tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from auditor.config import Settings
from auditor.errors import AuditorError, EngineError, RefreshRefused
from auditor.pipeline.binlog.dump import log_ignores
from auditor.pipeline.binlog.refreshes import CHUNKS, refreshes_of
from auditor.pipeline.events import TableSchema
from auditor.pipeline.refresh.keys import KeyColumns
from auditor.pipeline.refresh.source_tables import RIGHTS, ask, check_server, fill, has_chunks, open_writer, rights_needed

RIGHTS_NEEDED = ("CREATE", "DROP", "SELECT", "INSERT", "UPDATE", "DELETE")


def find_obstacles(settings: Settings, name: str, schemas: Sequence[TableSchema]) -> Iterator[tuple[str, str]]:
    """Yield what refreshes lack and cost: what it is about, and a sentence. Nothing is written. ``schemas`` are the source's tables."""
    try:
        with closing(open_writer(settings, name)) as connection:
            for sentence in _check_source(connection, refreshes_of(settings, name).schema):
                yield "refreshes", sentence
    except (EngineError, RefreshRefused) as error:
        yield "refreshes", str(error)
    for schema in schemas:
        if schema.key and (sentence := _cost(settings, name, schema)):
            yield f"refreshes of {schema.table}", sentence


def _check_source(connection: Any, schema: str) -> Iterator[str]:
    if check_server(connection) != "BLACKHOLE":
        yield (
            "the source has no engine BLACKHOLE, so refresh tables hold a chunk's rows until it is written; on MariaDB run: INSTALL SONAME"
            " 'ha_blackhole', there and on its replicas"
        )
    if log_ignores(connection, schema):
        yield f"the source does not log what is written into {schema}; correct its settings binlog_do_db and binlog_ignore_db"
    granted_rights = _rights(connection, schema)
    lacking = [right for right in RIGHTS_NEEDED if not granted_rights & {right, "ALL PRIVILEGES"}]
    if lacking and has_chunks(connection, schema):
        yield (
            f"the user that writes has {schema}.{CHUNKS} alone, so rows travel through the auditor, twice into the source's log, and stay"
            f" locked until they are back: chunks are smaller; for less, run: {RIGHTS.format(schema=schema)}"
        )
    elif lacking:
        yield f"the user that writes needs {', '.join(lacking)} on {schema}.*; run: {rights_needed(schema)}"


def _rights(connection: Any, schema: str) -> set[str]:
    """Return the rights that the user was granted on all tables of a schema."""
    rights: set[str] = set()
    for (line,) in ask(connection, fill("grants")):
        granted = re.match(r"GRANT (.+) ON (\S+) TO", str(line))
        if granted and granted[2].replace("`", "").replace("\\", "") in ("*.*", f"{schema}.*"):
            rights |= {right.strip().upper() for right in granted[1].split(",")}
    return rights


def _cost(settings: Settings, name: str, schema: TableSchema) -> str:
    """Return what a refresh of a table costs beyond reading it; '' for nothing."""
    key = KeyColumns(schema)
    try:
        assert key.chunked
    except AuditorError as error:
        return f"only keys that are listed can be sent again: {error}"
    rules = settings.pipeline(name).columns_of(schema.table)
    if any(column.lower() in {masked.lower() for masked in rules.mask} for column in schema.key):
        return "its key is masked, and digests have no order: rows that only a target has stay there"
    if not key.is_ordered:
        return (
            f"engines order {key.columns[0].type} differently: its first chunk empties the table in targets, which fills up again after it"
        )
    return ""
