"""Changes of Delta tables, each one commit, which carries its application's numbers as transaction ids.

A commit is made on the version that was looked at, or not at all: deltalake would otherwise put it after what others wrote meanwhile,
wherever its own rules see no conflict. What fails because another was quicker is started again from the newest version.

https://github.com/delta-io/delta/blob/master/PROTOCOL.md#transaction-identifiers
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dialects import errors
from dialects.committing import Commit
from dialects.durations import durations

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable

ATTEMPTS = 8
"""How often a commit is tried while others are quicker."""

ADD_COLUMN = re.compile(r'ALTER TABLE (?P<table>(?:"(?:[^"]|"")++"\.?)++) ADD COLUMN (?P<column>"(?:[^"]|"")++") (?P<type>.+)', re.DOTALL)


def quoted(name: str) -> str:
    """Return a name as deltalake's expressions write it."""
    return '"' + name.replace('"', '""') + '"'


def commit_changes(open_newest: Callable[[], DeltaTable], name: str, changes: pa.Table, commit: Commit) -> bool:
    """Make a commit as `Committing.commit` says; ``changes`` are the rows of its table of changes."""
    return _on_newest(open_newest, name, commit.expected, lambda table: merge_changes(table, changes, commit))


def mark(open_newest: Callable[[], DeltaTable], name: str, marks: Mapping[str, int], expected: Mapping[str, int], clear: bool) -> bool:
    """Make a commit as `Committing.mark` says."""

    def write(table: DeltaTable) -> None:
        before = int(table.version())
        if clear:
            table.delete(commit_properties=_properties(marks))
        if int(table.version()) == before:
            _commit_nothing(table, _properties(marks))

    return _on_newest(open_newest, name, expected, write)


def _on_newest(open_newest: Callable[[], DeltaTable], name: str, expected: Mapping[str, int], write: Callable[[DeltaTable], None]) -> bool:
    """Make a commit on the newest version, and again where others are quicker; False unless the version carries what is expected."""
    from deltalake.exceptions import CommitFailedError

    for attempt in range(ATTEMPTS):
        table = open_newest()
        if any((table.transaction_version(mark) or 0) != number for mark, number in expected.items()):
            return False
        try:
            write(table)
            return True
        except CommitFailedError:
            pause(attempt)
    raise errors.SerializationConflict(f"{name}: others wrote it {ATTEMPTS} times while it was written; it is tried again")


def pause(attempt: int) -> None:
    """Wait a random time, growing with the attempts, before a commit that others overtook is made again."""
    time.sleep(random.uniform(0, min(durations().longest_commit_pause, 0.05 * 2**attempt)))


def merge_changes(table: DeltaTable, changes: pa.Table, commit: Commit) -> None:
    """Merge changes into this version. Raises CommitFailedError if it is not the newest."""
    before = int(table.version())
    if changes.num_rows:
        values = {quoted(name): f"changed.{quoted(name)}" for name in commit.columns}
        done: dict[str, Any] = (
            table.merge(
                changes,
                " AND ".join(f"merged.{quoted(name)} = changed.{quoted(name)}" for name in commit.key),
                source_alias="changed",
                target_alias="merged",
                commit_properties=_properties(commit.marks),
            )
            .when_matched_delete(f"changed.{quoted(commit.operation)} = 'd'")
            .when_matched_update(values)
            .when_not_matched_insert(values, f"changed.{quoted(commit.operation)} = 'i'")
            .execute()
        )
        if done["num_source_rows"] != changes.num_rows:
            raise errors.StatementRefused(f"{commit.table}: {changes.num_rows} changes became {done['num_source_rows']} in a merge")
    if int(table.version()) == before:  # a merge that changes no row commits nothing, and with it no mark
        _commit_nothing(table, _properties(commit.marks))


def commit_on(table: DeltaTable, name: str, changes: pa.Table, commit: Commit) -> None:
    """Make a commit on this version. Raises SerializationConflict if it is not the newest."""
    from deltalake.exceptions import CommitFailedError

    try:
        merge_changes(table, changes, commit)
    except CommitFailedError as error:
        raise errors.SerializationConflict(f"{name}: others wrote the table while its rows were changed; nothing was written") from error


def replace_rows(
    open_newest: Callable[[], DeltaTable],
    name: str,
    read: Callable[[], pa.RecordBatchReader],
    condition: str,
    marks: Mapping[str, int],
    expected: Mapping[str, int],
) -> bool:
    """Make a commit as `Committing.replace_rows` says; ``read`` begins to read the rows."""
    from deltalake import write_deltalake

    def write(table: DeltaTable) -> None:
        write_deltalake(table, read(), mode="overwrite", predicate=condition or None, commit_properties=_properties(marks))

    return _on_newest(open_newest, name, expected, write)


def rewrite(table: DeltaTable, name: str, rows: pa.RecordBatchReader, marks: Mapping[str, int]) -> None:
    """Make a commit on this version as `Committing.rewrite` says."""
    from deltalake import write_deltalake
    from deltalake.exceptions import CommitFailedError

    partitions = list(table.metadata().partition_columns) or None
    try:
        write_deltalake(
            table, rows, mode="overwrite", schema_mode="overwrite", partition_by=partitions, commit_properties=_properties(marks)
        )
    except CommitFailedError as error:
        raise errors.SerializationConflict(f"{name}: others wrote the table while its columns were changed; nothing was written") from error


def create_like(uri: str, like: DeltaTable, options: Mapping[str, str]) -> None:
    """Make an empty table with the columns of another. Raises SerializationConflict if there is one."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        DeltaTable.create(uri, like.schema(), mode="error", storage_options=dict(options))
    except DeltaError as error:
        if "already exists" not in str(error):
            raise
        raise errors.SerializationConflict(f"{uri}: another process has made it meanwhile") from error


def fence(open_newest: Callable[[], DeltaTable], name: str, mark: str, number: int) -> bool:
    """Look for a number as `Committing.fence` says: a commit without rows takes the version that another one might still be made on."""
    from deltalake.exceptions import CommitFailedError

    for _ in range(ATTEMPTS):
        table = open_newest()
        if table.transaction_version(mark) == number:
            return True
        with suppress(CommitFailedError):
            _commit_nothing(table, _properties({f"{mark}/void": number}))
            return False
    raise errors.SerializationConflict(f"{name}: others wrote it {ATTEMPTS} times while its commits were looked at; it is tried again")


def _commit_nothing(table: DeltaTable, properties: CommitProperties) -> None:
    table.create_write_transaction([], "append", table.schema(), commit_properties=properties)


def _properties(marks: Mapping[str, int]) -> CommitProperties:
    from deltalake import CommitProperties, Transaction

    return CommitProperties(app_transactions=[Transaction(name, number) for name, number in marks.items()], max_commit_retries=0)


def create(uri: str, options: Mapping[str, str], columns: pa.Schema) -> None:
    """Make an empty table. Raises SerializationConflict if there is one."""
    from deltalake import write_deltalake
    from deltalake.exceptions import DeltaError

    try:
        write_deltalake(uri, columns.empty_table(), mode="error", storage_options=dict(options))
    except DeltaError as error:
        if "already exists" not in str(error):
            raise
        raise errors.SerializationConflict(f"{uri}: another process has made it meanwhile") from error


def add_columns(table: DeltaTable, columns: pa.Schema) -> None:
    """Add columns, which are NULL in the rows that are there."""
    from deltalake import Schema

    table.alter.add_columns(Schema.from_arrow(columns).fields)
