"""How Redshift is written to: how tables change, how rows are loaded from files in S3, and what it states of being written to.

It adds, drops and renames columns in transactions, one by each statement. It makes a VARCHAR longer outside of transactions, and changes no
other type: the values then move into another column of the same table, so that its owner, grants, comments, views, distribution key and
sort key stay. https://docs.aws.amazon.com/redshift/latest/dg/r_ALTER_TABLE.html

Rows are loaded from files, by COPY of a manifest. The files are lines of text, not Parquet: as text every value is written as its type
reads it (a VARBYTE's digits, a SUPER's document, a decimal's digits), and what does not fit fails the whole COPY; COPY of Parquet matches
columns by their order alone, and takes few options. https://docs.aws.amazon.com/redshift/latest/dg/copy-parameters-data-format.html

The folder is that of the URL's ``unload_to``, and the role that of its ``unload_role``; see `unload`. This process needs
s3:PutObject, s3:ListBucket and s3:DeleteObject there, the role s3:GetObject and s3:ListBucket. No statement holds a key.

https://docs.aws.amazon.com/redshift/latest/dg/t_Updating_tables_with_DML_commands.html
"""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, ClassVar, Literal

from dialects.alteration import Alteration, Altering, Changes, Retyped
from dialects.catalogue import Table
from dialects.errors import AccessDenied, BadUrl, FilesUnreachable, NoSuchObject, StatementRefused
from dialects.kinds import Kind
from dialects.postgres.writing import PostgresWriting
from dialects.redshift.unload import Unloading, unloading
from dialects.session import DriverLoading, DriverSession
from dialects.table_form import TableForm
from dialects.text_lines import lines_in_utf8, text_lines
from dialects.url import Url
from dialects.writing import LineFormat, Loads, StagedFiles, StoredFile

log = logging.getLogger(__name__)

TABLE_FORM = TableForm(
    enforces_keys=False,
    sized_text="VARCHAR({bytes})", sized_binary="VARBYTE({bytes})",
    table_keys={"dist": "DISTKEY ({columns})", "sort": "SORTKEY ({columns})"}, change=(), change_null="", backslash_escapes=True,
)  # fmt: skip
"""A column's type and whether it may be NULL stay: https://docs.aws.amazon.com/redshift/latest/dg/r_ALTER_TABLE.html"""

FIXED_ENCODINGS = frozenset({"bytedict", "runlength", "text255", "text32k"})
"""Encodings of columns that are not made longer."""

LINES = LineFormat(between="\t", null="\\N", escapes=(("\\", "\\\\"), ("\n", "\\\n"), ("\r", "\\\r"), ("\t", "\\\t")), binary=("", ""))
"""COPY with ESCAPE takes the character after a backslash as it is; it reads a VARBYTE's digits, and parses a SUPER.
https://docs.aws.amazon.com/redshift/latest/dg/copy-parameters-data-conversion.html#copy-escape"""

LONGEST_LINE = 4 << 20
"""Bytes of the longest row that COPY reads. https://docs.aws.amazon.com/redshift/latest/dg/r_COPY.html"""

HELD_BYTES = 8 << 20
"""Bytes of a file's lines that are held in memory; beyond that they lie on disk until they are sent."""

ONE_REQUEST = 5 << 30
"""Bytes of a file that is sent by one request, so that it is there as a whole or not at all: of a larger one, a process that is killed
leaves pieces that no list of the folder shows. https://docs.aws.amazon.com/AmazonS3/latest/userguide/upload-objects.html"""

SLICES = "SELECT COUNT(*) FROM stv_slices WHERE type = 'D'"
"""How many slices hold data, each of which reads a file at a time. Serverless and Multi-AZ refuse STV relations.
https://docs.aws.amazon.com/redshift/latest/dg/r_STV_SLICES.html"""

WHY_NO_FILES = "its files go through S3: add unload_to=s3://bucket/folder and unload_role=ARN to write: url"


@dataclass(frozen=True, slots=True)
class _Stored:
    """How a column is stored."""

    has_default: bool
    encoding: str
    is_distribution_key: bool
    is_sort_key: bool


class RedshiftAltering(Altering):
    """How Redshift changes the columns of a table."""

    def alter(self, session: Any, table: Table, changes: Changes) -> Alteration:
        if not (changes.retyped or changes.dropped):
            return super().alter(session, table, changes)
        stored = _read_stored(session, table)
        if unseen := [name for name in (*changes.dropped, *(one.column.name for one in changes.retyped)) if name not in stored]:
            return Alteration(refused=f"svv_redshift_columns does not show {unseen[0]} to this user; let the table's owner write to it")
        grown = [one for one in changes.retyped if one.is_longer_text and _can_grow(table, one, stored)]
        moved = [one for one in changes.retyped if one not in grown]
        for name in [*changes.dropped, *(one.column.name for one in moved)]:
            if why := _why_it_stays(table, name, stored):
                return Alteration(refused=why)
        keyed = [one for one in moved if one.column.name in table.primary_key]
        before = [f"ALTER TABLE {table.sql} ALTER COLUMN {session.dialect.names.quote(one.column.name)} TYPE {one.native}" for one in grown]
        key = changes.key or ([changes.renamed.get(name, name) for name in table.primary_key] if keyed else ())
        made = super().alter(session, table, replace(changes, retyped=moved, key=key)).statements
        return Alteration(made, before, moves_rows=bool(moved))

    def _add_key(self, session: Any, table: Table, changes: Changes) -> Sequence[str]:
        # It is no more than a hint, and only for columns that may not be NULL, which none becomes later.
        never_null = {changes.renamed.get(column.name, column.name) for column in table.columns if not column.nullable}
        return super()._add_key(session, table, changes) if set(changes.key) <= never_null else []

    def _retype(self, session: Any, table: Table, one: Retyped, name: str) -> Sequence[str]:
        quote = session.dialect.names.quote
        taken = {column.name.lower() for column in table.columns}
        other = next(quote(free) for number in range(len(taken) + 1) if (free := f"auditor_retyped_{number}") not in taken)
        # A column of the key may not be NULL, and such a one is added with a default alone, which stays.
        needed = f" DEFAULT {_some_value(one)} NOT NULL" if one.column.name in table.primary_key else ""
        return [
            f"ALTER TABLE {table.sql} ADD COLUMN {other} {one.native}{needed}",
            f"UPDATE {table.sql} SET {other} = CAST({quote(name)} AS {one.native})",
            f"ALTER TABLE {table.sql} DROP COLUMN {quote(name)}",
            f"ALTER TABLE {table.sql} RENAME COLUMN {other} TO {quote(name)}",
        ]

    def _add(self, session: Any, table: Table, changes: Changes) -> Sequence[str]:
        # The default stays, because no statement removes it; a merge gives every column a value.
        return [
            f"ALTER TABLE {table.sql} ADD COLUMN {session.dialect.names.quote(one.name)} {one.native}"
            + (f" DEFAULT {one.literal}" if one.literal else "")
            for one in changes.added
        ]


def _read_stored(session: Any, table: Table) -> dict[str, _Stored]:
    literal = session.dialect.names.literal
    # A function of the leader node cannot be asked for together with the view.
    database = literal(str(session.query("SELECT CURRENT_DATABASE()")[0][0]))
    names = {"database": database, "schema": literal(table.names[-2]), "table": literal(table.names[-1])}
    rows = session.query(session.dialect.catalogue_query("column_storage", names))
    return {
        str(column): _Stored(bool(default), str(encoding), bool(distributed), int(sorted_by) != 0)
        for column, default, encoding, distributed, sorted_by in rows
    }


def _can_grow(table: Table, one: Retyped, stored: dict[str, _Stored]) -> bool:
    found = stored[one.column.name]
    return not found.has_default and found.encoding not in FIXED_ENCODINGS and one.column.name not in table.primary_key


def _why_it_stays(table: Table, name: str, stored: dict[str, _Stored]) -> str:
    """Return why a column can neither be dropped nor exchanged for another one; empty if it can."""
    found = stored[name]
    if found.is_distribution_key:
        return f"{name} is its distribution key; run there: ALTER TABLE {table.sql} ALTER DISTSTYLE EVEN, and set it again afterwards"
    if found.is_sort_key:
        return f"{name} is in its sort key; run there: ALTER TABLE {table.sql} ALTER SORTKEY NONE, and set it again afterwards"
    return ""


def _some_value(one: Retyped) -> str:
    """Return the literal of a value of a column's type."""
    kind = one.column.kind
    if kind and kind.name in ("date", "timestamp", "timestamptz"):
        return "'1970-01-01'"
    return "'0'" if kind is None or kind.is_free_text else "''" if kind.name == "binary" else "0"


class RedshiftLoading(DriverLoading):
    """How rows are written over Amazon's driver, and from files in S3."""

    def __init__(self, session: DriverSession, folder: Callable[[], Unloading | None]) -> None:
        """``folder`` returns where files go; None if the URL does not say so."""
        super().__init__(session)
        self._folder = folder
        self._slices: int | None = None

    @property
    def _unloading(self) -> Unloading:
        folder = self._folder()
        assert folder
        return folder

    def why_no_files(self) -> str:
        return WHY_NO_FILES if self._folder() is None else ""

    def load_files(self, table: str, columns: Mapping[str, Kind], paths: Sequence[str], folder: str) -> None:
        stored = []
        try:
            for number, path in enumerate(paths):
                with Path(path).open("rb") as file:
                    url = store_file(self._unloading, folder, f"{number:06}.txt", file)
                stored.append(StoredFile(url, Path(path).stat().st_size, 0))
            self.copy_stored(table, list(columns), folder, stored)
        finally:
            with suppress(FilesUnreachable):  # the first failure matters more, and the caller can delete them
                self.remove_stored(folder)

    def copy_stored(self, table: str, columns: Sequence[str], folder: str, files: Sequence[StoredFile]) -> None:
        copy_stored(self._unloading, table, columns, folder, files, self.session.execute)

    def analyze(self, table: str) -> str:
        notices = self.session.connection.notices
        notices.clear()
        super().analyze(table)
        said = [(notice.get(b"S", b"").decode(), notice.get(b"M", b"").decode()) for notice in notices]
        # That too little has changed for new statistics comes as INFO. https://docs.aws.amazon.com/redshift/latest/dg/r_ANALYZE.html
        return " ".join(f"{severity}: {message}" for severity, message in said if severity == "WARNING")

    def count_slices(self) -> int:
        if self._slices is None:
            try:
                [(count,)] = self.session.query(SLICES)
                self._slices = int(count)
            except (AccessDenied, NoSuchObject, StatementRefused) as error:
                log.info("%s does not say how many slices it has: %s", self.session.server, error, extra={"action": "slices_unknown"})
                self._slices = 0
        return self._slices

    def remove_stored(self, folder: str) -> int:
        return remove_stored(self._unloading, folder)


def folder_of_files(url: Url) -> Unloading:
    """Return where files go. Raises BadUrl if the URL does not say so."""
    folder = unloading(url)
    if folder is None:
        raise BadUrl(f"{url}: {WHY_NO_FILES}")
    return folder


def store_lines(to: Unloading, folder: str, name: str, columns: Mapping[str, Kind], rows: Iterable[Any]) -> StoredFile:
    """Write the rows of Arrow tables of texts to a file. Raises StatementRefused for a row that COPY does not read, FilesUnreachable."""
    count = size = 0
    with tempfile.SpooledTemporaryFile(HELD_BYTES) as file:
        for table in rows:
            lines = text_lines(columns, table, LINES)
            _check_lengths(lines)
            size += file.write(lines_in_utf8(lines))
            count += table.num_rows
        file.seek(0)
        return StoredFile(store_file(to, folder, name, file), size, count)


def store_file(to: Unloading, folder: str, name: str, file: IO[bytes]) -> str:
    """Write a file below a folder, and return its URL. Raises FilesUnreachable."""
    url = f"{_below(to, folder)}{name}"
    bucket, _, key = url.removeprefix("s3://").partition("/")
    from boto3.s3.transfer import TransferConfig

    _attempt(to, url, lambda client: client.upload_fileobj(file, bucket, key, Config=TransferConfig(multipart_threshold=ONE_REQUEST)))
    return url


def copy_stored(
    to: Unloading, table: str, columns: Sequence[str], folder: str, files: Sequence[StoredFile], execute: Callable[[str], None]
) -> None:
    """Copy files into a table by ``execute``; names are SQL text. Raises FilesUnreachable, and what ``execute`` raises.

    Each file is mandatory and has its length, so that none is missed.
    https://docs.aws.amazon.com/redshift/latest/dg/loading-data-files-using-manifest.html
    """
    entries = [{"url": file.url, "mandatory": True, "meta": {"content_length": file.bytes}} for file in files]
    manifest = f"{_below(to, folder)}manifest"
    bucket, _, key = manifest.removeprefix("s3://").partition("/")
    body = json.dumps({"entries": entries}).encode()
    _attempt(to, manifest, lambda client: client.put_object(Bucket=bucket, Key=key, Body=body))
    execute(to.copy_statement(table, columns, manifest))


def remove_stored(to: Unloading, folder: str) -> int:
    """Delete what lies below a folder, and return how many files that were. Raises FilesUnreachable."""
    where = _below(to, folder)
    return int(_attempt(to, where, lambda _: to.delete(where)))


def _below(to: Unloading, folder: str) -> str:
    return f"{to.to.rstrip('/')}/{folder}/"


def _check_lengths(lines: Any) -> None:
    import pyarrow.compute as pc

    longest = pc.max(pc.binary_length(lines)).as_py() or 0
    if longest >= LONGEST_LINE:
        raise StatementRefused(
            f"a row takes {longest:,} bytes as text, and COPY reads {LONGEST_LINE:,} at most; exclude the column that is so long"
            " (columns: exclude), or shorten the value in the source"
        )


def _attempt(to: Unloading, what: str, work: Callable[[Any], Any]) -> Any:
    """Return what ``work`` returns of a client of S3. Raises FilesUnreachable."""
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return work(to.client())
    except (OSError, Boto3Error, BotoCoreError, ClientError) as error:
        raise FilesUnreachable(
            f"{to.url}: {what} cannot be written or deleted: {error}; allow this process s3:PutObject, s3:ListBucket and s3:DeleteObject"
            " there"
        ) from error


class S3Files(StagedFiles):
    """Files in S3, which COPY reads."""

    PACKAGES: ClassVar[Mapping[str, str]] = {"boto3": "boto3"}

    def store_lines(self, url: Url, folder: str, name: str, columns: Mapping[str, Kind], rows: Iterable[Any]) -> StoredFile:
        return store_lines(folder_of_files(url), folder, name, columns, rows)

    def store_file(self, url: Url, folder: str, name: str, path: str) -> StoredFile:
        with Path(path).open("rb") as file:
            stored = store_file(folder_of_files(url), folder, name, file)
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
