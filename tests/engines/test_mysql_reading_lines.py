"""Blocks of lines that are cut from what the socket brings hold the texts that the driver reads."""

from __future__ import annotations

import pytest

import dialects
from auditor.errors import EngineError, StatementTimeout
from dialects.mysql.session import MySQLSession
from tests.live import LiveEngine, engine_params

ENGINES = pytest.mark.parametrize("engine", [one for one in engine_params() if one.id in ("mysql", "mariadb")], indirect=True)

LENGTHS = (0, 1, 249, 250, 251, 252, 255, 256, 65_535, 65_536, 300_000, (1 << 24) - 6, (1 << 24) - 5, (1 << 24) - 1, 1 << 24, 17_000_000, 3)
"""Lengths of texts around those at which packets write a length, or a row, otherwise."""

NUMBERS = "WITH RECURSIVE numbers AS (SELECT 0 AS n UNION ALL SELECT n + 1 FROM numbers WHERE n < 300)"
"""A table of 301 rows."""


def read(session: MySQLSession, sql: str) -> list[bytes]:
    """Return the texts of all blocks; they hold no line feeds."""
    found: list[bytes] = []
    for count, block in session.stream_lines(sql):
        assert block is not None and block.endswith(b"\n")
        texts = block.split(b"\n")[:-1]
        assert len(texts) == count
        found += texts
    return found


@pytest.fixture
def session(engine: LiveEngine) -> MySQLSession:
    opened = dialects.connect(engine.url)
    assert isinstance(opened, MySQLSession)
    return opened


@ENGINES
@pytest.mark.slow_on("mysql")  # packets are the same
def test_texts_of_every_length_arrive_whole(session: MySQLSession) -> None:
    sql = " UNION ALL ".join(f"SELECT REPEAT('é', {length // 2}) AS line" for length in LENGTHS)
    assert [len(text) for text in read(session, sql)] == [length // 2 * 2 for length in LENGTHS]
    sql = " UNION ALL ".join(f"SELECT CONCAT(REPEAT('x', {length}), 'y') AS line" for length in LENGTHS)
    assert read(session, sql) == [b"x" * length + b"y" for length in LENGTHS]
    rows = "SELECT CONCAT('row ', a.n * 1000 + b.n) FROM numbers a, numbers b"
    numbers = f"{NUMBERS} {rows}"
    assert sorted(read(session, numbers)) == sorted(str(row[0]).encode() for row in session.query(numbers))
    assert read(session, "SELECT 'x' FROM (SELECT 1) one WHERE 1 = 0") == []
    session.close()


@ENGINES
def test_a_null_is_told_and_the_session_goes_on(session: MySQLSession) -> None:
    sql = "SELECT 'a' UNION ALL SELECT NULL UNION ALL SELECT 'b'"
    assert [block for _, block in session.stream_lines(sql)] == [None]
    assert session.query("SELECT 7") == [(7,)]
    many = (
        "WITH RECURSIVE numbers AS (SELECT 0 AS n UNION ALL SELECT n + 1 FROM numbers WHERE n < 900) SELECT REPEAT('z', 5000) FROM numbers"
    )
    blocks = session.stream_lines(many)
    next(blocks)
    blocks.close()  # type: ignore[attr-defined]
    assert session.query("SELECT 8") == [(8,)]
    session.close()


@ENGINES
def test_an_error_within_a_result_is_the_servers(session: MySQLSession) -> None:
    many = (
        "WITH RECURSIVE numbers AS (SELECT 0 AS n UNION ALL SELECT n + 1 FROM numbers WHERE n < 900) SELECT REPEAT('z', 500) FROM numbers"
    )
    subquery = "(SELECT table_name FROM information_schema.tables)"
    with pytest.raises(EngineError, match="Subquery returns more than 1 row"):
        list(session.stream_lines(f"{many} UNION ALL SELECT {subquery}"))
    assert session.query("SELECT 9") == [(9,)]
    session.close()


@ENGINES
def test_a_statement_that_runs_too_long_ends(engine: LiveEngine) -> None:
    session = dialects.connect(engine.url, statement_timeout=0.5)
    with pytest.raises(StatementTimeout):
        list(session.stream_lines(f"{NUMBERS} SELECT CONCAT('x', COUNT(*)) FROM numbers a, numbers b, numbers c, numbers d GROUP BY a.n"))
    assert session.query("SELECT 9") == [(9,)]
    session.close()
