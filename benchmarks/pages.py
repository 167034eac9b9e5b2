"""The pages under load of data: 1,000 audits, 100,000 runs, 100,000 differences; CPU of the service and bytes of each answer.

It is ``python -m benchmarks.pages [--directory DIR]``: it makes the store in the directory, or measures the one that is there, and prints
a table. The application answers in this process, without a network, so that its CPU can be measured alone.
"""

from __future__ import annotations

import argparse
import datetime as dt
import gzip
import statistics
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from sqlalchemy import func, insert, select
from starlette.testclient import TestClient

from auditor import service
from auditor.api import create_app
from auditor.config import Settings, validate_settings
from auditor.store import Store, open_store, tokens
from auditor.store.schema import audit_versions, run_documents, runs

AUDITS, RUNS, DIFFERENCES = 1_000, 100_000, 100_000
MISMATCHES = 20
"""Of so many audits one ended in a mismatch; the last runs of the others match."""

REPEAT = 15
"""Requests of each page, of which the median counts, after one that fills the caches."""


@dataclass(frozen=True)
class Cost:
    """What one page takes: CPU seconds of the service, and bytes before and after compression."""

    page: str
    seconds: float
    size: int
    compressed: int


def make_settings(directory: Path) -> Settings:
    """Return settings with AUDITS audits, and one with DIFFERENCES differences."""
    place = {"source": {"connection": "shop", "table": "orders"}, "target": {"connection": "warehouse", "table": "orders"}}
    audits: dict[str, Any] = {
        f"shop{number // 100}.table_{number:04}": {**place, "key": ["id"], "schedule": "15 * * * *"} for number in range(AUDITS)
    }
    wide = {side: {**end, "table": "wide"} for side, end in place.items()}
    audits["wide"] = {**wide, "key": ["id"], "limits": {"max_differences": DIFFERENCES, "max_rows_listed": 10 * DIFFERENCES}}
    return validate_settings(
        {
            "connections": {name: {"url": f"duckdb:///{directory}/{name}.duckdb"} for name in ("shop", "warehouse")},
            "audits": audits,
            "store": {"url": f"sqlite:///{directory}/store.db"},
            "service": {"requests_per_minute": 1_000_000},
        }
    )


def make(directory: Path, settings: Settings) -> None:
    """Make the databases and the store: real runs of three audits, and copies of two of them as the history of the others."""
    for name in ("shop", "warehouse"):
        with duckdb.connect(f"{directory}/{name}.duckdb") as database:
            database.execute("CREATE TABLE orders AS SELECT i AS id, 'name ' || i AS name, i % 7 AS status FROM range(20000) t(i)")
            database.execute(
                f"CREATE TABLE wide AS SELECT i AS id, 'name ' || i AS name, i % 7 AS status FROM range({2 * DIFFERENCES}) t(i)"
            )
    store, (even, damaged) = open_store(settings.store.url), list(settings.audits)[:2]  # type: ignore[union-attr]
    service.run_audit(settings, even, store=store)
    with duckdb.connect(f"{directory}/warehouse.duckdb") as database:
        database.execute("DELETE FROM orders WHERE id % 400 = 0; UPDATE orders SET status = 9 WHERE id % 5001 = 1")
        database.execute("UPDATE wide SET status = 9 WHERE id % 2 = 1")
    service.run_audit(settings, damaged, store=store)
    service.run_audit(settings, "wide", store=store)
    _copy_history(store, even, damaged, [name for name in settings.audits if name != "wide"])
    store.close()


def _copy_history(store: Store, even: str, damaged: str, names: Sequence[str]) -> None:
    """Insert copies of the run that matched, and as the latest of every MISMATCHES-th audit of the one that did not, with its report."""
    with store.reading() as connection:
        rows = {row.audit: dict(row._mapping) for row in connection.execute(select(runs).where(runs.c.audit.in_([even, damaged])))}
        version = dict(connection.execute(select(audit_versions).where(audit_versions.c.audit == even)).one()._mapping)
        numbers = {rows[name]["number"]: name for name in rows}
        last = connection.execute(select(func.max(runs.c.number))).scalar_one()
        bodies = [row._mapping for row in connection.execute(select(run_documents).where(run_documents.c.run.in_(numbers)))]
    documents = {name: [dict(body) for body in bodies if numbers[body["run"]] == name] for name in rows}
    now, each = dt.datetime.now(dt.UTC), RUNS // len(names)
    copies, number = [], last + 1
    attached = []
    for age in range(each - 1, -1, -1):
        at = now - dt.timedelta(minutes=20) - age * dt.timedelta(days=29) / each
        for place, name in enumerate(names):
            like = damaged if place % MISMATCHES == 1 and age < 1 + place % 5 else even
            copies.append({**rows[like], "number": number, "run": uuid.uuid4().hex, "audit": name, "started": at,
                           "ended": at + dt.timedelta(seconds=rows[like]["seconds"])})  # fmt: skip
            if age == 0:
                attached += [{**document, "run": number} for document in documents[like]]
            number += 1

    def work(connection: Any) -> None:
        connection.execute(insert(audit_versions), [{**version, "audit": name} for name in names if name not in (even, damaged)])
        connection.execute(insert(runs), copies)
        connection.execute(insert(run_documents), attached)

    store.write(work)


def measure(client: TestClient, page: str, path: str) -> Cost:
    """Return what a page costs. Raises AssertionError for one that fails."""
    seconds: list[float] = []
    for turn in range(REPEAT + 1):
        began = time.process_time()
        answer = client.get(path, headers={"Accept-Encoding": "identity"})
        spent = time.process_time() - began
        assert answer.status_code == 200, (path, answer.status_code, answer.text[:500])
        if turn:
            seconds.append(spent)
    return Cost(page, statistics.median(seconds), len(answer.content), len(gzip.compress(answer.content, 6)))


def main() -> None:
    """Make or open the store, measure the pages, and print a line for each."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--directory", type=Path, required=True, help="where the databases and the store are")
    directory = options.parse_args().directory
    settings = make_settings(directory)
    if not (directory / "store.db").exists():
        directory.mkdir(parents=True, exist_ok=True)
        make(directory, settings)
    store = open_store(settings.store.url)  # type: ignore[union-attr]
    secret = tokens.create_token(store, name=f"benchmark {uuid.uuid4().hex[:8]}", scope="define")
    client = TestClient(create_app(settings, store), base_url="http://localhost", headers={"Authorization": f"Bearer {secret}"})
    with store.reading() as connection:
        wide = connection.execute(select(runs.c.run).where(runs.c.audit == "wide")).scalar_one()
        total = connection.exec_driver_sql("SELECT (SELECT count(*) FROM auditor_runs), (SELECT count(*) FROM auditor_differences)").one()
    print(f"{len(settings.audits):,} audits, {total[0]:,} runs, {total[1]:,} differences")
    for page, path in pages(wide).items():
        cost = measure(client, page, path)
        print(
            f"{cost.page:38} {cost.seconds * 1000:8.1f} ms {cost.size / 1000:9.1f} kB {cost.compressed / 1000:8.1f} kB compressed",
            flush=True,
        )


def pages(run: str) -> dict[str, str]:
    """Return the paths of the measured pages, by what they are; ``run`` is the one with the differences."""
    return {
        "overview": "/",
        "overview, sorted by rows that differ": "/?sort=rows&down=1",
        "day": "/day",
        "run": f"/runs/{run}",
        "run, rows of a column": f"/runs/{run}?column=status",
        "run, a row by its key": f"/runs/{run}?key=777",
        "run, rows by key": f"/runs/{run}?order=-key",
        "audit": "/audits/wide",
        "runs": "/runs",
        "runs, by verdict": "/runs?verdict=mismatch",
        "schedules": "/schedules",
        "list of audits (API)": "/api/v1/audits",
        "differences (API)": f"/api/v1/runs/{run}/differences",
    }


if __name__ == "__main__":
    main()
