"""What is kept of immutable files: the sums of each file's rows, by how they were read, and the partitions in which an audit keeps them.

A file's sums are stored as soon as the file was read, several in one transaction: a process that is killed has lost none of them. They are
found by what they are of, and believed only with the checksum that was computed when they were stored.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace

from sqlalchemy import Column, Connection, Index, Table, delete, insert, select, update

from auditor.model import FileLayout, Partitioning
from auditor.store.database import Store, database_time
from auditor.store.schema import MYSQL, Json, Moment, big_integer, long_binary, metadata, short_text

file_layouts = Table(
    "auditor_file_layouts",
    metadata,
    Column("audit", short_text(), primary_key=True),
    Column("partitioning", Json(), nullable=False),
    Column("salt", short_text(64), nullable=False),
    Column("table_rows", big_integer(), nullable=False),
    Column("aim", big_integer(), nullable=False),
    Column("begun_at", Moment(), nullable=False),
    Column("proved_at", Moment()),
    **MYSQL,
)
"""The partitions and the salt that all sums of an audit's files have in common."""

file_sums = Table(
    "auditor_file_sums",
    metadata,
    Column("reading", short_text(64), primary_key=True),
    Column("file", short_text(64), primary_key=True),
    Column("form", short_text(64), nullable=False),
    Column("body", long_binary(), nullable=False),
    Column("check_sum", short_text(64), nullable=False),
    Column("used_at", Moment(), nullable=False),
    Index("auditor_file_sums_file", "file"),
    Index("auditor_file_sums_used", "used_at"),
    **MYSQL,
)
"""Of one file, or of the rows of it that deletes hide (``file``, a digest), read in one way (``reading``, a digest): the sums of its rows,
as `auditor.summary.file_sums` packs them, and what its columns are (``form``)."""

KEEP = dt.timedelta(days=90)
"""How long the sums of a file stay that no run has used."""

USED = dt.timedelta(days=1)
"""After which it is stored anew that sums were used."""

AT_ONCE = 500
"""Files that one statement asks for."""


class KeptFileSums:
    """What a store keeps of files for one audit. Every method raises StoreError."""

    def __init__(self, store: Store, audit: str) -> None:
        self._store = store
        self._audit = audit

    def layout(self) -> FileLayout | None:
        """Return the partitions in which the audit keeps sums; None if it keeps none yet."""
        with self._store.reading() as connection:
            row = connection.execute(select(file_layouts).where(file_layouts.c.audit == self._audit)).one_or_none()
        if row is None:
            return None
        how = Partitioning(**row.partitioning)
        chosen = {"partitioning": how, "salt": row.salt, "rows": row.table_rows, "aim": row.aim}
        return FileLayout(**chosen, begun_at=row.begun_at, proved_at=row.proved_at)

    def begin(self, layout: FileLayout) -> FileLayout:
        """Let the audit keep sums in other partitions from now on; return them, with the time."""
        values = {"salt": layout.salt, "table_rows": layout.rows, "aim": layout.aim, "proved_at": None}
        values["partitioning"] = asdict(layout.partitioning)

        def work(connection: Connection) -> dt.datetime:
            now = database_time(connection)
            connection.execute(delete(file_layouts).where(file_layouts.c.audit == self._audit))
            connection.execute(insert(file_layouts).values(audit=self._audit, begun_at=now, **values))
            return now

        return replace(layout, begun_at=self._store.write(work), proved_at=None)

    def prove(self) -> None:
        """Note that a run has read all files that it needed."""

        def work(connection: Connection) -> None:
            of_audit = file_layouts.c.audit == self._audit
            connection.execute(update(file_layouts).where(of_audit).values(proved_at=database_time(connection)))

        self._store.write(work)

    def forms(self, files: Sequence[str]) -> Mapping[str, str]:
        """Return what the columns of files are, as far as it is known."""
        known: dict[str, str] = {}
        for some in _cut(files):
            with self._store.reading() as connection:
                rows = connection.execute(
                    select(file_sums.c.file, file_sums.c.form).where(file_sums.c.file.in_(some), file_sums.c.form != "")
                )
                known.update((row.file, row.form) for row in rows)
        return known

    def load(self, reading: str, files: Sequence[str]) -> Iterator[tuple[str, bytes | None]]:
        """Yield the sums of those files of which there are any; None for sums that are not what was stored."""
        for some in _cut(files):
            chosen = (file_sums.c.reading == reading, file_sums.c.file.in_(some))
            with self._store.reading() as connection:
                rows = connection.execute(select(file_sums).where(*chosen)).all()
                now = database_time(connection)
            for row in rows:
                body = bytes(row.body)
                yield row.file, body if _check(reading, row.file, row.form, body) == row.check_sum else None
            if old := [row.file for row in rows if row.used_at < now - USED]:
                self._touch(reading, old, now)

    def _touch(self, reading: str, files: Sequence[str], now: dt.datetime) -> None:
        used = update(file_sums).where(file_sums.c.reading == reading, file_sums.c.file.in_(files)).values(used_at=now)
        self._store.write(lambda connection: connection.execute(used) and None)

    def save(self, reading: str, sums: Sequence[tuple[str, str, bytes]]) -> None:
        """Store the sums of files, each with its form, in place of those that there are; all or none."""

        def work(connection: Connection) -> None:
            now = database_time(connection)
            files = [file for file, _, _ in sums]
            connection.execute(delete(file_sums).where(file_sums.c.reading == reading, file_sums.c.file.in_(files)))
            same = {"reading": reading, "used_at": now}
            values = [
                {**same, "file": file, "form": form, "body": body, "check_sum": _check(reading, file, form, body)}
                for file, form, body in sums
            ]
            connection.execute(insert(file_sums), values)

        self._store.write(work)


def delete_unused(connection: Connection, before: dt.datetime) -> int:
    """Delete the sums that no run has used since a moment, and return how many those were."""
    return connection.execute(delete(file_sums).where(file_sums.c.used_at < before)).rowcount


def _cut(files: Sequence[str]) -> Iterator[Sequence[str]]:
    return (files[at : at + AT_ONCE] for at in range(0, len(files), AT_ONCE))


def _check(reading: str, file: str, form: str, body: bytes) -> str:
    return hashlib.sha256(f"{reading}|{file}|{form}|".encode() + body).hexdigest()
