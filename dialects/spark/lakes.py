"""Which state of each table a snapshot of Spark shows: of a Delta table a version, of an Iceberg table a snapshot of its own.

Inside a snapshot the first statement on a table decides, for all later ones and for the sessions that share the snapshot. It also lets
Spark forget what it keeps of the table: a session lists the files of a catalogue's table once, and Iceberg's catalogues hold a table for as
long as it is read again within half a minute, so that a later look at it would see nothing that others write.
https://spark.apache.org/docs/latest/sql-ref-syntax-aux-cache-refresh-table.html
https://docs.delta.io/latest/delta-batch.html#query-an-older-snapshot-of-a-table-time-travel
https://iceberg.apache.org/docs/latest/spark-configuration/#catalog-configuration, https://iceberg.apache.org/docs/latest/spark-queries/#time-travel
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dialects import errors
from dialects.base import Session

_PART = r"`(?:[^`]|``)*+`"
_NAMED = re.compile(
    rf"'(?:[^'\\]|\\.)*+'|\b(FROM|JOIN)\s++((?:{_PART}|(?:delta|iceberg)(?=\.`))(?:\.{_PART})*+)(?!\s+(?:VERSION|TIMESTAMP)\b)|{_PART}",
    re.IGNORECASE | re.DOTALL,
)
"""A table that a statement reads (its templates and dialect quote all names) unless a state of it is asked for; or a literal or name."""

DETAILS = "# Detailed Table Information"
"""What DESCRIBE TABLE EXTENDED has between a table's columns and what else is known of it."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What a snapshot reads where a statement names a table."""

    table: str
    """The table as SQL text."""
    state: str = ""
    """The clause after it that names a state; empty where each statement reads the latest."""
    note: str = ""
    """Which state is read, or why it is not known; empty for a table without states."""

    @property
    def sql(self) -> str:
        return f"{self.table} {self.state}".rstrip()


class LakeSession(Session):
    """A session of Spark whose snapshots read one state of each table that has states."""

    _shown: dict[str, Shown] | None = None
    """What the open snapshot shows, by the table as SQL text; None outside of snapshots."""

    def begin(self) -> None:
        super().begin()
        self._shown = {}

    def end(self) -> None:
        self._shown = None
        super().end()

    def share_snapshot(self, sessions: Sequence[Session], table: str, helper: Session | None) -> bool:
        if not self._find_shown(table).state:
            return False
        assert self._shown is not None
        for session in sessions:
            assert isinstance(session, LakeSession)
            session.begin()
            session._shown = dict(self._shown)
            session._refresh(table)
        return True

    def state_read(self, table: str) -> str:
        return self._find_shown(table).note

    def at_one_state(self, sql: str) -> str:
        """Return a statement in which each table is read in the state that the open snapshot shows; the statement itself outside of one."""
        return _NAMED.sub(lambda match: f"{match[1]} {self._show(match[2]).sql}" if match[2] else match[0], sql)

    def _find_shown(self, table: str) -> Shown:
        """Return what the open snapshot shows of a table, unless the table is files, or a state of it is asked for."""
        return self._show(table) if _NAMED.match(f"FROM {table}") else Shown(table)

    def _show(self, table: str) -> Shown:
        if self._shown is None:
            return Shown(table)
        if table not in self._shown:
            self._shown[table] = Shown(table)  # for the statements that look for its state
            self._shown[table] = self._find_state(table)
        return self._shown[table]

    def _find_state(self, table: str) -> Shown:
        try:
            self._refresh(table)
            rows = [(str(name), str(value)) for name, value, *_ in self.query(f"DESCRIBE TABLE EXTENDED {table}")]
            details = dict(itertools.dropwhile(lambda row: row[0] != DETAILS, rows))
            find = _STATES.get(details.get("Provider", ""))
            return find(self, table) if find else Shown(table)
        except errors.NoSuchObject:
            return Shown(table)  # the statement itself says so, unless it is a name that only the statement has
        except errors.StatementRefused as error:
            return Shown(table, note=f"each statement reads {table} as Spark finds it then: {error}")

    def _refresh(self, table: str) -> None:
        self.execute(f"REFRESH TABLE {table}")

    def find_version(self, table: str) -> Shown:
        """Return the latest version of a Delta table. https://docs.delta.io/latest/delta-utility.html#retrieve-delta-table-history"""
        version = int(self.query(f"DESCRIBE HISTORY {table} LIMIT 1")[0][0])
        return Shown(table, f"VERSION AS OF {version}", f"version {version} of {table} is read")

    def find_snapshot(self, table: str) -> Shown:
        """Return the current snapshot of an Iceberg table; none where it has other columns than the table, as after ADD COLUMN."""
        ((_, number, *_),) = self.query(f"SHOW TBLPROPERTIES {table} ('current-snapshot-id')")
        if not str(number).isdecimal():
            return Shown(table, note=f"each statement reads the latest state of {table}, which has no snapshot yet")
        fixed = Shown(table, f"VERSION AS OF {number}", f"snapshot {number} of {table} is read")
        if self._columns(fixed.sql) != self._columns(table):
            return Shown(table, note=f"each statement reads the latest state of {table}, whose columns changed after its latest snapshot")
        return fixed

    def _columns(self, table: str) -> Mapping[str, str]:
        return {str(name): str(native) for name, native, *_ in self.query(f"DESCRIBE QUERY SELECT * FROM {table}")}


_STATES: Mapping[str, Callable[[LakeSession, str], Shown]] = {"delta": LakeSession.find_version, "iceberg": LakeSession.find_snapshot}
"""What finds the state to be read, by the provider of a table."""
