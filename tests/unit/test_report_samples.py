"""A small store with audits of every status, for the tests of reports and for docs/daily-report.png.

To render the page of the picture: python -m tests.unit.test_report_samples DIRECTORY writes day.html and a page per run there.
"""

from __future__ import annotations

import datetime as dt
import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import sqlalchemy as sa

from auditor import service
from auditor.config import Settings
from auditor.history import records
from auditor.model import Report, State, Verdict
from auditor.report import day, render
from auditor.service.definitions import definition_of_run
from auditor.store import Store, audit_state, open_store, run_lifecycle, runs
from auditor.store.schema import runs as table

NOW = dt.datetime(2026, 3, 18, 7, 5, tzinfo=dt.UTC)
AS_OF = "2026-03-17T22:00:00Z"
HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e`|"

TABLES = {
    "customers": "SELECT CAST(i AS BIGINT) AS id, 'customer ' || i AS name, i % 7 AS region FROM range(4000) t(i)",
    "orders": "SELECT CAST(i AS BIGINT) AS id, i % 997 AS customer, CAST(i * 7 % 1000 / 10.0 AS DECIMAL(9,2)) AS price,"
    " 'card ' || i AS card FROM range(30000) t(i)",
    "events": "SELECT CAST(i AS BIGINT) AS id, i % 5 AS kind, CAST(i * 3 AS BIGINT) AS amount FROM range(6000) t(i)",
    "stock": "SELECT CAST(i AS BIGINT) AS id, i % 50 AS pieces FROM range(3000) t(i)",
    "ledger": "SELECT CAST(i AS BIGINT) AS id, CAST(i * 31 % 500 AS BIGINT) AS cents FROM range(20000) t(i)",
    "visits": "SELECT CAST(i AS BIGINT) AS id, i % 24 AS hour FROM range(9000) t(i)",
}
DAMAGE = (
    "DELETE FROM orders WHERE id BETWEEN 12000 AND 13023 OR id IN (407, 22222, 29000)",
    "UPDATE orders SET price = price + 0.5, card = 'lost' WHERE id IN (4711, 4712, 18001)",
    "UPDATE orders SET price = NULL WHERE id = 25001",
    "INSERT INTO orders VALUES (30007, 1, 9.99, 'twice')",
    "DELETE FROM ledger WHERE id = 19999",
    "UPDATE events SET amount = amount + 1 WHERE id < 3",
)


def settings(directory: Path) -> Settings:
    """Return a configuration with the audits of a small shop."""

    def audit(name: str, **more: Any) -> dict[str, Any]:
        ends = {side: {"connection": side, "table": name} for side in ("source", "target")}
        return {**ends, "partition": {"strategy": "range", "size": 64}, **more}

    masked = {"columns": {"override": {"card": {"mask": True}}}}
    return Settings.model_validate(
        {
            "connections": {
                "files": {"url": "duckdb://"},
                **{one: {"url": f"duckdb:///{directory}/{one}.duckdb"} for one in ("source", "target")},
            },
            "audits": {
                "customers": audit("customers"),
                "orders": audit("orders", threshold=0.999, **masked),
                "events": audit("events", method="counts", partition={}, counts={"classes": ["kind"]}),
                "payments": audit("payments"),
                "stock": audit("stock", ladder=["counts", "exact"]),
                "visits": audit("visits"),
                "returns": audit("returns"),
                "ledger": audit("ledger", via={"connection": "files", "table": f"{directory}/ledger.parquet", "as_of": AS_OF}),
            },
            "keep": {"days": None},
        }
    )


def create_tables(directory: Path) -> None:
    """Create the tables of both sides and damage the target."""
    for side in ("source", "target"):
        with duckdb.connect(str(directory / f"{side}.duckdb")) as connection:
            for name, rows in TABLES.items():
                connection.execute(f"CREATE TABLE {name} AS {rows}")
                connection.execute(f"CREATE UNIQUE INDEX {name}_id ON {name} (id)")
            for statement in DAMAGE if side == "target" else ():
                connection.execute(statement)
            if side == "source":
                connection.execute(f"COPY (SELECT * FROM ledger WHERE id <> 19999) TO '{directory}/ledger.parquet'")


def with_keys(configured: Settings) -> Settings:
    """Return the configuration with the key of each audit, which the tables do not declare."""
    audits = {name: audit.model_copy(update={"key": ("id",)}) for name, audit in configured.audits.items()}
    return configured.model_copy(update={"audits": audits})


def move_run(store: Store, run: str, started: dt.datetime, seconds: float = 40.0) -> str:
    """Change the start time of a run, and return its id."""
    with store.engine.begin() as connection:
        changed = sa.update(table).where(table.c.run == run)
        connection.execute(changed.values(started=started, ended=started + dt.timedelta(seconds=seconds), seconds=seconds))
        connection.execute(changed.where(table.c.verified_through.is_not(None)).values(verified_through=started))
    return run


def store_past_run(
    store: Store,
    audit: str,
    started: dt.datetime,
    score: float | None = 1.0,
    width: float = 0.0,
    *,
    configured: Settings | None = None,
    **more: Any,
) -> str:
    """Store a past run without a report, and return its id."""
    run = f"{random.Random(f'{audit}{started}').getrandbits(128):032x}"
    definition = definition_of_run(configured, configured.audit(audit)) if configured else {}
    run_lifecycle.start_run(store, run=run, audit=audit, definition=definition, method="exact")
    verdict = Verdict.MATCH if score == 1 else Verdict.MISMATCH
    bounds = {} if score is None else {"score": score, "lower": score - width, "upper": min(1.0, score + width)}
    outcome = run_lifecycle.Outcome(
        state=State.DONE, verdict=verdict, exit_code=verdict.exit_code, seconds=1, method="exact", reasons=("as stored",),
        coverage=1.0, rows={"source": 100, "target": 100},
        verified_through=started if score == 1 else None,
    )  # fmt: skip
    run_lifecycle.finish_run(store, run, replace(outcome, **{**bounds, **more}))
    return move_run(store, run, started)


def create_sample(directory: Path, now: dt.datetime = NOW) -> tuple[Settings, Store]:
    """Return the configuration and its store with a month of runs."""
    create_tables(directory)
    configured = with_keys(settings(directory))
    store = open_store(f"sqlite:///{directory}/auditor.db")
    chance = random.Random(1)
    for ago in range(29, 0, -1):
        at = now - dt.timedelta(days=ago, minutes=35)
        store_past_run(store, "customers", at)
        worse = 1.0 if ago > 9 else 1 - 0.0004 * (10 - ago) - 0.0001 * chance.random()
        store_past_run(store, "orders", at, worse, 0.0 if worse == 1 else 0.0003, configured=configured)
        store_past_run(store, "events", at, 1.0 if ago % 11 else 0.97, configured=configured)
        unknown: dict[str, Any] = {"state": State.FAILED, "verdict": Verdict.UNKNOWN}
        store_past_run(store, "payments", at, None if ago in (17, 1) else 1.0, **(unknown if ago in (17, 1) else {}))
        if ago > 3:
            store_past_run(store, "visits", at)
        if ago > 20:
            store_past_run(store, "old_stock", at)
    for number, name in enumerate(("customers", "orders", "events", "payments", "stock")):
        report = service.run_audit(configured, name, store=store)
        move_run(store, report.run, now - dt.timedelta(minutes=90 - 7 * number), report.seconds)
    for hours, leg in zip((6, 1), service.expand_legs(configured, ["ledger"]), strict=True):
        report = service.run_audit(configured, leg, store=store)
        move_run(store, report.run, now - dt.timedelta(hours=hours), report.seconds)
    run_lifecycle.start_run(store, run="c" * 32, audit="customers", definition={}, method="exact")
    run_lifecycle.record_heartbeat(store, "c" * 32, {"source": {"doing": "reading", "done": 1200, "total": 4000}})
    with store.engine.begin() as connection:
        connection.execute(sa.update(table).where(table.c.run == "c" * 32).values(started=now - dt.timedelta(minutes=1)))
    audit_state.update_state(store, "visits", paused=False)
    return configured, store


def load_latest_report(store: Store, audit: str) -> Report:
    """Return the report of an audit's latest run."""
    found = next(one for one in runs.list_runs(store, audit=audit) if one.ended)
    report = records.load_report(store, found.run)
    assert report
    return report


def write_reports(directory: Path) -> None:
    """Write the reports of a new store to files."""
    directory.mkdir(parents=True, exist_ok=True)
    configured, store = create_sample(directory)
    (directory / "day.html").write_text(render.day(day.load_day(store, configured, NOW.date(), NOW), "html"), encoding="utf-8")
    (directory / "day.txt").write_text(render.day(day.load_day(store, configured, NOW.date(), NOW), "text"), encoding="utf-8")
    for name in ("customers", "orders", "events", "payments", "stock"):
        report = load_latest_report(store, name)
        for form, ending in (("html", "html"), ("text", "txt"), ("markdown", "md")):
            text = render.run(report, records.load_partition_map(store, report.run), form)
            (directory / f"{name}.{ending}").write_text(text, encoding="utf-8")
    store.close()


if __name__ == "__main__":
    write_reports(Path(sys.argv[1]))
