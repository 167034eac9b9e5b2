"""What Redshift states of being written to.

https://docs.aws.amazon.com/redshift/latest/dg/t_Updating_tables_with_DML_commands.html
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from dialects.kinds import Kind
from dialects.postgres.writing import PostgresWriting
from dialects.redshift import loading
from dialects.redshift.altering import RedshiftAltering
from dialects.redshift.unload import LINES
from dialects.table_form import TableForm
from dialects.url import Url
from dialects.writing import LineFormat, Loads, StagedFiles, StoredFile

TABLE_FORM = TableForm(
    enforces_keys=False,
    sized_text="VARCHAR({bytes})", sized_binary="VARBYTE({bytes})",
    table_keys={"dist": "DISTKEY ({columns})", "sort": "SORTKEY ({columns})"}, change=(), change_null="", backslash_escapes=True,
)  # fmt: skip
"""A column's type and whether it may be NULL stay: https://docs.aws.amazon.com/redshift/latest/dg/r_ALTER_TABLE.html"""


class S3Files(StagedFiles):
    """Files in S3, which COPY reads."""

    PACKAGES: ClassVar[Mapping[str, str]] = {"boto3": "boto3"}

    def store_lines(self, url: Url, folder: str, name: str, columns: Mapping[str, Kind], rows: Iterable[Any]) -> StoredFile:
        return loading.store_lines(loading.folder_of_files(url), folder, name, columns, rows)

    def store_file(self, url: Url, folder: str, name: str, path: str) -> StoredFile:
        with Path(path).open("rb") as file:
            stored = loading.store_file(loading.folder_of_files(url), folder, name, file)
        return StoredFile(stored, Path(path).stat().st_size, 0)


class RedshiftWriting(PostgresWriting):
    """How Redshift is written to."""

    files = S3Files()
    altering = RedshiftAltering()

    NAME_LIMIT: ClassVar[tuple[int, Literal["bytes", "characters"]] | None] = (127, "bytes")
    """https://docs.aws.amazon.com/redshift/latest/dg/r_names.html"""
    OWN_COLUMNS: ClassVar[frozenset[str]] = frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid", "oid"})
    LOADS: ClassVar[Loads] = "by files"
    MERGES_BY_UPDATE: ClassVar[bool] = False
    CARRIES_ON_RENAME: ClassVar[bool] = False
    STAGING_TABLE = "TEMPORARY TABLE"
    MERGE_SETTINGS = ()
    LOCK_POSITIONS = "LOCK {positions}"
    """Else two merges could each read the position before the other's commit: a transaction sees what was committed before its first
    statement, of which LOCK is none. https://docs.aws.amazon.com/redshift/latest/dg/r_LOCK.html"""
    EQUAL_TEXTS_DIFFER = True
    DELETES_BY_ALIAS = False
    """https://docs.aws.amazon.com/redshift/latest/dg/r_DELETE.html"""
    REFUSES_LONG_VALUES = True
    WRITE_SETTINGS: ClassVar[Sequence[str]] = (
        "SET timezone TO 'UTC'",
        "SET datestyle TO 'ISO, YMD'",
        "SET enable_case_sensitive_identifier TO true",
    )
    BEGIN_WRITES: ClassVar[Sequence[str]] = ("BEGIN",)
    LINES: ClassVar[LineFormat] = LINES
    READS_FILES = True
    LOCK_WRITERS = "LOCK {table}"
    LOCK_TABLE = "LOCK {table}"
    """Rows have no locks, and keys are not enforced. https://docs.aws.amazon.com/redshift/latest/dg/r_LOCK.html"""
    OVERRIDES_IDENTITY = ""
