"""The canary table of drills, which is damaged to be found: made, read, damaged and dropped, and never taken for somebody else's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import dialects
from auditor.config import ConnectionSettings, TableRef
from auditor.connections.writer import open_patch_session, patching_dialect
from auditor.errors import AuditorError, ConfigError, DrillFailed, NoSuchObject
from auditor.sql.literals import value_literal
from auditor.sql.table_definition import keyed_table
from dialects import Dialect, Kind, Session

TABLE = "auditor_drill"
"""The name of the canary on both sides."""

COLUMNS = (("id", Kind("integer")), ("note", Kind("text")))
"""Its columns, of which the first is the key."""

NUMBER = 16
"""Its rows."""

DAMAGED = 7
"""The key of the row that is damaged."""

DAMAGE = "damaged by auditor drill"
"""What the damaged row says instead of its note."""

NOTE = re.compile(r"canary (?P<key>\d+) of auditor drill (?P<drill>[0-9a-f]{8})")
"""The note of a row, which names the drill that made it: rows of an earlier one are told from those that a pipeline has to bring."""

Row = tuple[object, ...]


def rows_of(drill: str) -> list[Row]:
    """Return the rows of the canary of a drill."""
    return [(number, f"canary {number} of auditor drill {drill}") for number in range(1, NUMBER + 1)]


def damaged_rows(drill: str) -> list[Row]:
    """Return the same with the damaged row."""
    return [(key, DAMAGE if key == DAMAGED else note) for key, note in rows_of(drill)]


def drill_of(rows: Sequence[Row]) -> str:
    """Return the drill that made rows; '' if they are not those of one canary, be it a damaged one."""
    found = next((NOTE.fullmatch(str(row[-1])) for row in rows if row and NOTE.fullmatch(str(row[-1]))), None)
    drill = found["drill"] if found else ""
    return drill if drill and set(rows) <= {*rows_of(drill), *damaged_rows(drill)} else ""


@dataclass(frozen=True, slots=True)
class Canary:
    """A canary on one side."""

    ref: TableRef
    connection: ConnectionSettings

    def __str__(self) -> str:
        return f"{self.ref.table} of {self.ref.connection}"

    def why_not_written(self) -> str:
        """Return why the connection cannot change rows; '' if it can."""
        try:
            dialect = patching_dialect(self.ref.connection, self.connection)
        except ConfigError as error:
            return str(error)
        if dialect.writing.WRITES_COMMITS:
            commits = f"tables of {dialect.name} are made and changed by commits, and a drill does so by statements"
            return f"the connection {self.ref.connection!r}: {commits}"
        return ""

    def read(self) -> list[Row] | None:
        """Return the rows by key; None if there is no such table. Raises EngineError."""
        limits = self.connection.limits
        try:
            session = dialects.connect(self.connection.url, limits.statement_timeout, limits.lock_timeout)
        except NoSuchObject:  # a file that no pipeline has made yet
            return None
        with closing(session):
            return self._read(session)

    def make(self, drill: str) -> None:
        """Make the table of a drill, in place of one that an earlier drill left; nothing is left of it if that fails.

        Raises DrillFailed for a table of somebody else, and EngineError.
        """
        self.drop()
        with closing(self._open()) as session:
            create, insert = self._statements(session.dialect, drill)
            session.execute(create)
            try:
                session.execute(insert)
            except AuditorError:
                session.execute(f"DROP TABLE {self._sql(session.dialect)}")
                raise

    def check_own(self, rows: Sequence[Row]) -> None:
        """Raise DrillFailed unless rows are a canary's, be it a damaged one."""
        if not drill_of(rows):
            raise DrillFailed(f"{self} is not a drill's: it has other rows. A drill touches no table but its own; drop it, or rename it")

    def damage(self, drill: str) -> None:
        """Damage a row. Raises DrillFailed if the table is not as this drill made it."""
        self._write(DAMAGE)
        if self.read() != damaged_rows(drill):
            raise DrillFailed(f"{self} has other rows than those of this drill")

    def mend(self, drill: str) -> None:
        """Take the damage back, where no patch did."""
        self._write(str(rows_of(drill)[DAMAGED - 1][1]))

    def drop(self) -> None:
        """Drop the table, if it is there. Raises DrillFailed for a table of somebody else, and EngineError."""
        with closing(self._open()) as session:
            there = self._read(session)
            if there is not None:
                self.check_own(there)
                session.execute(f"DROP TABLE {self._sql(session.dialect)}")

    def script(self, drill: str) -> str:
        """Return the statements that make the table, each on a line."""
        dialect = dialects.by_scheme(dialects.parse_url(self.connection.url).scheme)
        return "".join(f"\n{statement};" for statement in self._statements(dialect, drill))

    def _open(self) -> Session:
        return open_patch_session(self.ref.connection, self.connection)

    def _read(self, session: Session) -> list[Row] | None:
        try:
            return sorted(tuple(row) for row in session.query(f"SELECT * FROM {self._sql(session.dialect)}"))
        except NoSuchObject:
            return None

    def _write(self, note: str) -> None:
        with closing(self._open()) as session:
            names, literal = session.dialect.names, value_literal(session.dialect, COLUMNS[1][1], note)
            where = f"{names.quote('id')} = {DAMAGED}"
            session.execute(f"UPDATE {self._sql(session.dialect)} SET {names.quote('note')} = {literal} WHERE {where}")

    def _statements(self, dialect: Dialect, drill: str) -> list[str]:
        values = (
            ", ".join(value_literal(dialect, kind, value) for (_, kind), value in zip(COLUMNS, row, strict=True)) for row in rows_of(drill)
        )
        insert = f"INSERT INTO {self._sql(dialect)} VALUES {', '.join(f'({row})' for row in values)}"
        return [keyed_table(dialect, self._sql(dialect), COLUMNS), insert]

    def _sql(self, dialect: Dialect) -> str:
        return dialect.names.table(*self.ref.place.parts)
