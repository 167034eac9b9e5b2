"""Results that a server keeps behind a cursor: each row comes once, in as few exchanges as there can be."""

from __future__ import annotations

import itertools
import re

import pytest

from dialects.session import fetch_through_cursor


class Cursor:
    """A driver's cursor over a server that holds the numbers from 0, and what was sent to it."""

    def __init__(self, rows: int) -> None:
        self.rows = iter(range(rows))
        self.sent: list[str] = []
        self.fetched: list[tuple[int]] = []

    def execute(self, sql: str) -> None:
        self.sent.append(re.sub(r"audit_rows_\d+", "c", sql))
        if fetch := re.search(r"FETCH FORWARD (\d+)", sql):
            self.fetched = [(number,) for number in itertools.islice(self.rows, int(fetch[1]))]

    def fetchall(self) -> list[tuple[int]]:
        return self.fetched


@pytest.mark.parametrize(("rows", "fetches"), [(0, 1), (1, 1), (9, 1), (10, 2), (11, 2), (20, 3), (25, 3)])
@pytest.mark.parametrize("several", [False, True])
def test_every_row_is_fetched_once(rows: int, fetches: int, several: bool) -> None:
    """Where fewer rows than were asked for may not be the last, one more FETCH yields none."""
    cursor = Cursor(rows)
    batches = list(fetch_through_cursor(cursor, "SELECT n FROM t", 10, several_statements=several))
    assert [row for batch in batches for row in batch] == [(number,) for number in range(rows)]
    first = ["DECLARE c CURSOR FOR SELECT n FROM t", "FETCH FORWARD 10 FROM c"]
    expected = [";\n".join(first)] if several else first
    more = fetches - 1 if several or rows % 10 == 0 else fetches
    assert cursor.sent == [*expected, *["FETCH FORWARD 10 FROM c"] * more, "CLOSE c"]
