"""The schema in which a certification works: made under a name that nothing has, and dropped with all that is in it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import dialects
from auditor.errors import AuditorError, StatementRefused
from auditor.service.certify.book import Meter
from auditor.sql.literals import value_literal
from auditor.sql.table_definition import keyed_table
from dialects import Dialect, Kind, Session

STATEMENT_BYTES = 100_000
"""Bytes from which an INSERT ends."""

PREFIX = "auditor_certify_"
"""What the names of such schemas begin with."""

STATEMENT_TIMEOUT, LOCK_TIMEOUT = 600.0, 10.0
"""Seconds that a statement may take, and wait for a lock."""


class Scratch:
    """A schema on an engine that belongs to one certification."""

    def __init__(self, url: str, meter: Meter | None = None) -> None:
        self.url = url
        self.name = f"{PREFIX}{secrets.token_hex(4)}"
        self._parsed = dialects.parse_url(url)
        self._meter = meter
        self.dialect: Dialect = dialects.by_scheme(self._parsed.scheme)
        """The dialect; that of the server itself once a session was open."""

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """Open a session that may write for the block, and no longer: an engine that opens files lets no other process in meanwhile."""
        session = self.dialect.connect(self.dialect.addresses.write_url(self._parsed), STATEMENT_TIMEOUT, LOCK_TIMEOUT)
        self.dialect = session.dialect
        try:
            yield session
        finally:
            if self._meter:
                self._meter.add_session(session)
            session.close()

    def make(self) -> None:
        """Make the schema. Raises EngineError if the account may not, or if it is there."""
        if not self.dialect.TABLE_FORM.create_schema:
            raise StatementRefused(f"tables of {self.dialect.name} are files, for which no schema is made")
        with self.writing() as session:
            session.execute(self.dialect.TABLE_FORM.create_schema.format(schema=self.dialect.names.quote(self.name)))

    def drop(self) -> None:
        """Drop the schema with all its tables. Raises EngineError, with the statement that is left to run."""
        statement = self.dialect.TABLE_FORM.drop_schema.format(schema=self.dialect.names.quote(self.name))
        try:
            with self.writing() as session:
                session.execute(statement)
        except AuditorError as error:
            raise StatementRefused(f"the schema {self.name} is still there ({error}); run: {statement}") from error

    def table(self, name: str) -> str:
        """Return the name of a table in the schema as SQL."""
        return self.dialect.names.table(self.name, name)

    def place(self, name: str) -> tuple[str, str]:
        """Return URL and name of a table in the schema, for an audit."""
        return self.url, f"{self.name}.{name}"

    def fill(self, session: Session, name: str, columns: Sequence[tuple[str, Kind]], rows: Sequence[Sequence[Any]]) -> None:
        """Make a table of the engine's types for these kinds, the first column as its key, and insert rows."""
        dialect = session.dialect
        session.execute(keyed_table(dialect, self.table(name), columns))
        pending: list[str] = []
        for row in rows:
            values = (value_literal(dialect, kind, value) for (_, kind), value in zip(columns, row, strict=True))
            pending.append(f"({', '.join(values)})")
            if sum(map(len, pending)) >= STATEMENT_BYTES:
                session.execute(f"INSERT INTO {self.table(name)} VALUES {', '.join(pending)}")
                pending = []
        if pending:
            session.execute(f"INSERT INTO {self.table(name)} VALUES {', '.join(pending)}")
