"""Size and query plans of a store with a thousand runs of 65,536 partitions."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from auditor.store import Store, runs
from auditor.store.runs import select_runs
from auditor.store.schema import differences, run_documents
from auditor.store.schema import runs as table
from auditor.summary.codec import pack_partition_map
from tests.store.samples import add_finished_run
from tests.unit.test_codec import MANY, random_partition_map


@pytest.mark.slow
def test_thousand_runs_fit_in_1_gb_and_are_found_by_index(file_store: Store) -> None:
    """The worst case: every partition unequal, an incompressible report, a hundred differences."""
    drawn = pack_partition_map(random_partition_map(MANY, 1, even=False))
    named = [
        runs.StoredDifference(kind="changed", key={"id": str(number)}, columns=[{"name": "a", "source": "x", "target": "y"}])
        for number in range(100)
    ]
    with closing(file_store.engine.raw_connection()) as connection:
        connection.execute("PRAGMA synchronous = OFF")  # the speed of the disk is not measured
    began = time.perf_counter()
    made = [
        add_finished_run(file_store, f"a{number % 10}", report=os.urandom(100_000), partition_map=drawn, differences=named)
        for number in range(1_000)
    ]
    print(f"\n1,000 runs stored in {time.perf_counter() - began:.1f} s")
    _timed("listed", lambda: runs.list_runs(file_store, limit=1_000))
    _timed("listed of one audit", lambda: runs.list_runs(file_store, audit="a3", limit=1_000))
    _timed("latest", lambda: runs.get_latest_run(file_store, "a3"))
    _timed("find", lambda: runs.get_run(file_store, made[500][:12]))
    _timed("report", lambda: runs.get_report(file_store, made[500]))
    _timed("picture", lambda: runs.get_partition_map(file_store, made[500]))
    _timed("differences", lambda: runs.list_differences(file_store, made[500]))
    statements = {
        "listed": select_runs((), False).limit(50),
        "listed of one audit": select_runs(("audit",), False).params(audit="a3").limit(50),
        "next page": select_runs(("audit", "below"), False).params(audit="a3", below=500).limit(50),
        "find": sa.select(table).where(table.c.run >= "a", table.c.run < "b"),
        "living": sa.select(table).where(table.c.running_audit >= ""),
        "document": sa.select(run_documents).where(run_documents.c.run == 5, run_documents.c.kind == "report"),
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


def _timed(name: str, query: Callable[[], object]) -> None:
    began = time.perf_counter()
    assert query()
    print(f"{name}: {(time.perf_counter() - began) * 1000:.1f} ms")


def _plan(store: Store, statement: sa.Select[tuple[object, ...]]) -> str:
    text = str(statement.compile(store.engine, compile_kwargs={"literal_binds": True}))
    with store.reading() as connection:
        return "; ".join(str(row[3]) for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}"))
