"""A thousand runs of 65,536 partitions in one file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from auditor.packed import pack_picture
from auditor.store import Store, runs
from auditor.store._reading import listing
from auditor.store._schema import differences, documents
from auditor.store._schema import runs as table
from tests.store.samples import ended
from tests.test_packed import MANY, picture


@pytest.mark.slow
def test_a_thousand_runs_are_small_and_found_by_indexes(file_store: Store) -> None:
    """The worst of them: every partition unequal, a report that zlib cannot make smaller, a hundred differences."""
    drawn = pack_picture(picture(MANY, 1, even=False))
    named = [
        runs.Kept(kind="changed", key={"id": str(number)}, columns=[{"name": "a", "source": "x", "target": "y"}]) for number in range(100)
    ]
    with closing(file_store.engine.raw_connection()) as connection:
        connection.execute("PRAGMA synchronous = OFF")  # how fast this machine's disk is says nothing
    began = time.perf_counter()
    made = [ended(file_store, f"a{number % 10}", report=os.urandom(100_000), picture=drawn, differences=named) for number in range(1_000)]
    print(f"\n1,000 runs kept in {time.perf_counter() - began:.1f} s")
    _timed("listed", lambda: runs.listed(file_store, limit=1_000))
    _timed("listed of one audit", lambda: runs.listed(file_store, audit="a3", limit=1_000))
    _timed("latest", lambda: runs.latest(file_store, "a3"))
    _timed("find", lambda: runs.find(file_store, made[500][:12]))
    _timed("report", lambda: runs.report(file_store, made[500]))
    _timed("picture", lambda: runs.picture(file_store, made[500]))
    _timed("differences", lambda: runs.differences(file_store, made[500]))
    statements = {
        "listed": listing((), False).limit(50),
        "listed of one audit": listing(("audit",), False).params(audit="a3").limit(50),
        "next page": listing(("audit", "below"), False).params(audit="a3", below=500).limit(50),
        "find": sa.select(table).where(table.c.run >= "a", table.c.run < "b"),
        "living": sa.select(table).where(table.c.running >= ""),
        "document": sa.select(documents).where(documents.c.run == 5, documents.c.kind == "report"),
        "differences": sa.select(differences).where(differences.c.run == 5, differences.c.number > 3).order_by(differences.c.number),
    }
    for name, statement in statements.items():
        plan = _plan(file_store, statement)
        print(f"{name}: {plan}")
        assert "TEMP B-TREE" not in plan and ("SEARCH" in plan or name == "listed"), name
    file_store.close()
    size = Path(file_store.name.removeprefix("sqlite:///")).stat().st_size
    print(f"{size / 2**20:,.0f} MB")
    assert size < 2**30


def _timed(name: str, ask: Callable[[], object]) -> None:
    began = time.perf_counter()
    assert ask()
    print(f"{name}: {(time.perf_counter() - began) * 1000:.1f} ms")


def _plan(store: Store, statement: sa.Select[tuple[object, ...]]) -> str:
    text = str(statement.compile(store.engine, compile_kwargs={"literal_binds": True}))
    with store.reading() as connection:
        return "; ".join(str(row[3]) for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}"))
