"""Where a self-test works: a session, tables that belong to it alone, and the checks made so far."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal

from auditor.errors import AccessDenied, AuditorError, ConnectionLost, Unreachable
from auditor.sql.literals import value_literal
from auditor.summary import arrays
from auditor.summary.arrays import Summaries
from dialects import Dialect, Kind, Session

Columns = Sequence[tuple[str, Kind]]
"""Names and kinds of a table's columns."""

MOST_EXPRESSIONS = 16
"""Expressions in one statement: engines that compile statements take long for large ones."""

LONGEST_VALUE = 200
"""Characters of a value that a check shows."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was tested."""

    group: str
    """What it belongs to."""
    name: str
    """What was tested: a statement, a method of the dialect, or a column with the kind in which it was compared."""
    outcome: Literal["passed", "failed", "not run"]
    """How it went."""
    detail: str = ""
    """Why it failed or was not run; empty where it passed."""
    sql: str = ""
    """The SQL that failed; empty where none did."""


class Bench:
    """A session under test."""

    def __init__(self, session: Session, report: Callable[[Check], None]) -> None:
        self.session = session
        self.checks: list[Check] = []
        self.refusal = ""
        """Why the session may have no temporary tables; empty as long as it may."""
        self._report = report
        self._tables: list[str] = []

    @property
    def dialect(self) -> Dialect:
        """The dialect of the session."""
        return self.session.dialect

    def note(self, check: Check) -> None:
        """Keep a check and report it."""
        self.checks.append(check)
        self._report(check)

    def skip(self, group: str, name: str, why: str) -> None:
        """Keep that something could not be tested."""
        self.note(Check(group, name, "not run", why))

    @contextmanager
    def check(self, group: str, name: str, sql: str = "") -> Iterator[None]:
        """Keep whether the block passes: it fails by an error of the engine or by ``Differs``, and is not run without the privilege."""
        try:
            yield
        except (ConnectionLost, Unreachable):
            raise
        except AccessDenied as error:
            self.skip(group, name, f"the user lacks a privilege: {' '.join(str(error).split())}")
        except (AuditorError, Differs) as error:
            self.note(Check(group, name, "failed", " ".join(str(error).split()), sql))
        else:
            self.note(Check(group, name, "passed"))

    def table(self, label: str, columns: Columns, rows: Sequence[Sequence[Any]]) -> str:
        """Return SQL for FROM that holds these rows: a temporary table, or a derived one where the session may have none.

        Raises LookupError where it may have none and a column is of a kind that no cast makes.
        """
        dialect, name = self.dialect, f"auditor_selftest_{label}_{secrets.token_hex(4)}"
        if not self.refusal:
            try:
                for statement in dialect.types.temporary_table(dialect.names.quote(name), *self._literals(columns, rows, plain=False)):
                    self.session.execute(statement)
                    self._tables.append(name)
            except (ConnectionLost, Unreachable):
                raise
            except AuditorError as error:
                self.refusal = " ".join(str(error).split())
            else:
                return dialect.names.quote(name)
        return self.derived_table(columns, rows)

    def derived_table(self, columns: Columns, rows: Sequence[Sequence[Any]]) -> str:
        """Return SQL for FROM that holds these rows itself. Raises LookupError if a column is of a kind that no cast makes."""
        return self.dialect.types.values_table(self.dialect.names.quote("made"), *self._literals(columns, rows, plain=True))

    def _literals(self, columns: Columns, rows: Sequence[Sequence[Any]], plain: bool) -> tuple[list[tuple[str, Kind]], list[list[str]]]:
        dialect = self.dialect
        quoted = [(dialect.names.quote(column), kind) for column, kind in columns]
        return quoted, [
            [value_literal(dialect, kind, value, plain=plain) for (_, kind), value in zip(columns, row, strict=True)] for row in rows
        ]

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Hold a snapshot for the block, which an engine may need for results that are read bit by bit."""
        self.session.begin()
        try:
            yield
        finally:
            self.session.end()

    def summaries(self, statement: str, names: Sequence[str]) -> Summaries:
        """Return the summaries that a statement yields, whose columns are ``names``."""
        with self.snapshot():
            return arrays.read(self.session.stream(statement), names)

    def drop_tables(self) -> None:
        """Drop the temporary tables; those that cannot be dropped end with the session."""
        for name in dict.fromkeys(self._tables):
            with suppress(AuditorError):
                for statement in self.dialect.types.drop_temporary_table(self.dialect.names.quote(name)):
                    self.session.execute(statement)

    def values(self, expressions: Sequence[str], table: str, order: str = "") -> list[list[Any] | AuditorError]:
        """Return the values of each expression in the order of the column ``order``, or the error that the engine raises for it."""
        results: list[list[Any] | AuditorError] = []
        for start in range(0, len(expressions), MOST_EXPRESSIONS):
            results += self._values(expressions[start : start + MOST_EXPRESSIONS], table, order)
        return results

    def _values(self, expressions: Sequence[str], table: str, order: str) -> list[list[Any] | AuditorError]:
        """Ask for all at once, and if that fails for half of them, until it is known which of them fail."""
        listed = ", ".join(f"{sql} AS r{index}" for index, sql in enumerate(expressions))
        try:
            rows = self.session.query(f"SELECT {listed} FROM {table}{f' ORDER BY {order}' if order else ''}")
        except (ConnectionLost, Unreachable):
            raise
        except AuditorError as error:
            if len(expressions) == 1:
                return [error]
            middle = len(expressions) // 2
            return [*self._values(expressions[:middle], table, order), *self._values(expressions[middle:], table, order)]
        return [[row[index] for row in rows] for index in range(len(expressions))]


class Differs(Exception):
    """An engine's result is not what the reference computes; the message shows both."""


def require(result: object, expected: object, what: str = "") -> None:
    """Raise Differs unless both are equal."""
    if result != expected:
        raise Differs(f"{f'{what}: ' if what else ''}the engine returns {_shown(result)}, and it must be {_shown(expected)}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}... ({len(text):,} characters)"
