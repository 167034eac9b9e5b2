"""What a pre-scan by digests takes from a server: the primary key's order, what the planner expects, and whether that order costs more."""

from __future__ import annotations

import pytest

from dialects import Kind, Place, connect
from tests import tables
from tests.live import LiveEngine, engine_params

DIGESTING = ("mysql", "mariadb", "postgres")
NUMBERS = [("a", Kind("integer")), ("b", Kind("integer")), ("c", Kind("integer"))]

on_digesting = pytest.mark.parametrize("engine", engine_params(*DIGESTING), indirect=True)


@on_digesting
def test_the_columns_of_a_primary_key_come_in_its_order(engine: LiveEngine) -> None:
    name = "key_order"
    tables.make(engine, name, NUMBERS, [(1, 2, 3)], ["c", "a"])
    session = connect(engine.url)
    try:
        (table,) = session.dialect.catalogue.describe(session, Place((name,)))
    finally:
        session.close()
    assert table.primary_key == ("c", "a")
    assert table.yields_in_order


@on_digesting
def test_the_planner_says_how_many_rows_each_range_has(engine: LiveEngine) -> None:
    """About: what matters is which range has nearly all rows. One that has none is expected to have a row at most."""
    name = "key_shares"
    tables.make(engine, name, NUMBERS, [(n if n % 100 else 5000, n, n) for n in range(4000)], ["a", "b"])
    is_mysql = engine.dialect == "mysql"
    tables.execute(engine, f"ANALYZE {'TABLE ' if is_mysql else ''}{name}")
    ranges = [(0, 1000), (1000, 2000), (2000, 5000), (5000, 6000), (9000, 9001)]
    session = connect(engine.url)
    try:
        found = session.dialect.server.estimate_each(
            session, [f"SELECT 1 FROM {name} WHERE a >= {low} AND a < {high}" for low, high in ranges]
        )
        (one,) = session.dialect.server.estimate_each(session, [f"SELECT 1 FROM {name} WHERE a >= 2000 AND a < 5000"])
    finally:
        session.close()
    assert len(found) == len(ranges) and found[-1] <= 1
    for expected, true in zip((*found[:-1], one), (990, 990, 1980, 40, 1980), strict=True):
        assert true / 3 < expected < true * 3, found


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_branches_that_workers_share_are_estimated_as_a_whole(engine: LiveEngine) -> None:
    name = "key_workers"
    tables.make(engine, name, NUMBERS, [(n, n, n) for n in range(4000)], ["a"])
    tables.execute(engine, f"ANALYZE {name}")
    session = connect(engine.url)
    try:
        for setting in ("parallel_setup_cost TO 0", "parallel_tuple_cost TO 0", "min_parallel_table_scan_size TO 0"):
            session.execute(f"SET {setting}")
        statements = [f"SELECT 1 FROM {name} WHERE b >= {low} AND b < {low + 2000}" for low in (0, 2000)]
        assert "Gather" in str(session.query("EXPLAIN (FORMAT JSON) " + " UNION ALL ".join(statements))[0][0])
        found = session.dialect.server.estimate_each(session, statements)
    finally:
        session.close()
    assert len(found) == 2 and all(1900 <= expected <= 4000 for expected in found), found


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
@pytest.mark.parametrize(("ordered", "keeps", "wanted"), [(True, "64kB", True), (False, "64kB", False), (False, "1GB", True)])
def test_rows_in_another_order_are_read_by_the_index_only_from_memory(engine: LiveEngine, ordered: bool, keeps: str, wanted: bool) -> None:
    """The size of the server's memory is fixed when it starts, so a setting of the session stands for it here."""
    name = f"key_memory_{ordered}".lower()
    tables.make(engine, name, NUMBERS, [(n if ordered else n * 7919 % 4001, n, n) for n in range(4000)], ["a"])
    tables.execute(engine, f"ANALYZE {name}")
    session = connect(engine.url)
    try:
        session.execute(f"SET work_mem TO '{keeps}'")
        names = {"schema": "CURRENT_SCHEMA()", "tables": session.dialect.names.literal(name)}
        sql = session.dialect.catalogue_query("estimate", names).replace("'shared_buffers'", "'work_mem'")
        ((_, rows, obstacle),) = session.query(sql)
    finally:
        session.close()
    assert rows == 4000 and obstacle is not wanted
