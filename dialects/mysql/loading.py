"""How rows are loaded into MySQL and MariaDB: by INSERT statements of many rows, and several statements sent at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from dialects import errors
from dialects.kinds import Kind
from dialects.mysql.driver import run_command
from dialects.mysql.writing import LINES
from dialects.session import DriverLoading
from dialects.text_lines import text_lines

INSERT_BYTES = 1 << 20
"""Bytes of one statement that inserts rows of a copy: longer ones are no quicker."""

LINES_AT_ONCE = 2048
"""Lines of a table in memory that are texts of Python at one time."""


class MySQLLoading(DriverLoading):
    """How rows are written over PyMySQL."""

    _several: bool | None = None
    """Whether the server takes several statements at once; None until it was asked."""

    def analyze(self, table: str) -> str:
        # An error of a table is a row of the result. https://dev.mysql.com/doc/refman/9.4/en/analyze-table.html
        rows = self.session.query(self.session.dialect.writing.ANALYZE.format(table=table))
        return " ".join(f"{kind}: {text}" for _, _, kind, text in rows if kind.lower() in ("error", "warning"))

    def write_each(self, statements: Sequence[str]) -> list[int]:
        if len(statements) < 2 or not self._takes_several():
            return super().write_each(statements)
        counts: list[int] = []
        try:
            for some in _joined(statements, self.session.dialect.MAX_STATEMENT_BYTES // 2):
                counts += self.write_at_once(some)
        except errors.StatementRefused:
            if counts:
                raise
            counts = super().write_each(statements)  # the first may be refused only because others follow it, by what is between
            self._several = False
            return counts
        if len(counts) != len(statements):
            raise errors.StatementRefused(f"of {len(statements)} statements that were sent at once, {len(counts)} were answered")
        self.session.statements += len(statements)
        return counts

    def write_at_once(self, sql: str) -> Iterator[int]:
        """Run several statements at once, and yield how many rows each changed; each may take as long as a statement may run."""
        cursor = self.session.connection.cursor()
        try:
            with self.session.waiting():
                cursor.execute(sql)
            has_more = True
            while has_more:
                yield int(cursor.rowcount)
                with self.session.waiting():
                    has_more = bool(cursor.nextset())
        finally:
            with suppress(Exception), self.session.waiting():  # an error of a statement must not be replaced by one of closing
                cursor.close()

    def _takes_several(self) -> bool:
        """Let the server take several statements at once, and return whether it does: what is between may not pass that on.

        https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_set_option.html
        """
        if self._several is None:
            from pymysql.constants.COMMAND import COM_SET_OPTION

            with self.session.waiting():
                try:
                    run_command(self.session.connection, COM_SET_OPTION, b"\0\0")
                    self._several = True
                except Exception as error:
                    if not isinstance(self.session.driver.translate_error(error, ""), errors.StatementRefused):
                        raise
                    self._several = False
        return self._several

    def load(self, table: str, columns: Mapping[str, Kind], rows: Any) -> None:
        # Not by LOAD DATA LOCAL, which makes warnings of values that do not fit, and which servers forbid by default.
        # https://dev.mysql.com/doc/refman/9.4/en/load-data.html
        lines = text_lines(columns, rows, LINES)
        pieces = (lines.slice(first, LINES_AT_ONCE).to_pylist() for first in range(0, len(lines), LINES_AT_ONCE))
        self._insert(table, [self.session.dialect.names.quote(name) for name in columns], pieces)

    def load_lines(self, table: str, columns: Sequence[str], blocks: Iterable[bytes]) -> None:
        self._insert(table, columns, (block.decode().split("\n")[:-1] for block in blocks))

    def _insert(self, table: str, columns: Sequence[str], lines: Iterable[Sequence[str]]) -> None:
        begin = f"INSERT INTO {table} ({', '.join(columns)}) VALUES\n"
        most = self.session.dialect.MAX_STATEMENT_BYTES
        room = min(INSERT_BYTES, most // 2)
        some: list[str] = []
        used = 0
        for line in (line for batch in lines for line in batch):
            size = len(line) if line.isascii() else len(line.encode())
            if len(begin) + size >= most:
                raise errors.StatementRefused(
                    f"a row takes {size:,} bytes in a statement, and the server takes {most:,} at most; raise max_allowed_packet there"
                )
            if some and used + size > room:
                self.session.execute(begin + ",\n".join(some))
                some, used = [], 0
            some.append(line)
            used += size
        if some:
            self.session.execute(begin + ",\n".join(some))


def _joined(statements: Sequence[str], room: int) -> Iterator[str]:
    """Yield statements joined to texts of at most ``room`` bytes; one that is longer stands alone."""
    some: list[str] = []
    used = 0
    for sql in statements:
        size = len(sql.encode()) + 2
        if some and used + size > room:
            yield ";\n".join(some)
            some, used = [], 0
        some.append(sql)
        used += size
    if some:
        yield ";\n".join(some)
