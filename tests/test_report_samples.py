"""A small store with audits that end in every way, for the reports' tests and for docs/daily-report.png.

To make the picture's page anew: python -m tests.test_report_samples DIRECTORY, which writes day.html and a page a run there.
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

from auditor import keep, service
from auditor.config import Audit, Settings
from auditor.model import Report, State, Verdict
from auditor.report import day, rendered
from auditor.store import Store, open_store, runs, standing
from auditor.store._schema import runs as table

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
    """Audits of a small shop."""

    def audit(name: str, **more: Any) -> dict[str, Any]:
        ends = {side: {"connection": side, "table": name} for side in ("source", "target")}
        return {**ends, "partition": {"strategy": "range", "size": 64}, **more}

    masked = {"columns": {"override": {"card": {"mask": True}}}}
    return Settings.model_validate(
        {
            "connections": {side: {"url": f"duckdb:///{directory}/{side}.duckdb"} for side in ("source", "target")},
            "audits": {
                "customers": audit("customers"),
                "orders": audit("orders", threshold=0.999, **masked),
                "events": audit("events", method="counts", partition={}, counts={"classes": ["kind"]}),
                "payments": audit("payments"),
                "stock": audit("stock", ladder=["counts", "exact"]),
                "visits": audit("visits"),
                "returns": audit("returns"),
                "ledger": audit("ledger", via={"connection": "source", "table": f"{directory}/ledger.parquet", "as_of": AS_OF}),
            },
            "keep": {"days": None},
        }
    )


def fill(directory: Path) -> None:
    """Make both sides' tables, and damage the target."""
    for side in ("source", "target"):
        with duckdb.connect(str(directory / f"{side}.duckdb")) as connection:
            for name, rows in TABLES.items():
                connection.execute(f"CREATE TABLE {name} AS {rows}")
                connection.execute(f"CREATE UNIQUE INDEX {name}_id ON {name} (id)")
            for statement in DAMAGE if side == "target" else ():
                connection.execute(statement)
            if side == "source":
                connection.execute(f"COPY (SELECT * FROM ledger WHERE id <> 19999) TO '{directory}/ledger.parquet'")


def keyed(configured: Settings) -> Settings:
    """The audits with their key, which the tables do not declare."""
    audits = {name: audit.model_copy(update={"key": ("id",)}) for name, audit in configured.audits.items()}
    return configured.model_copy(update={"audits": audits})


def moved(store: Store, run: str, started: dt.datetime, seconds: float = 40.0) -> str:
    """Let a run have begun at another time."""
    with store.engine.begin() as connection:
        changed = sa.update(table).where(table.c.run == run)
        connection.execute(changed.values(started=started, ended=started + dt.timedelta(seconds=seconds), seconds=seconds))
        connection.execute(changed.where(table.c.verified_through.is_not(None)).values(verified_through=started))
    return run


def earlier(
    store: Store,
    audit: str,
    started: dt.datetime,
    score: float | None = 1.0,
    width: float = 0.0,
    *,
    asked: Audit | None = None,
    **more: Any,
) -> str:
    """A run of the past without a report."""
    run = f"{random.Random(f'{audit}{started}').getrandbits(128):032x}"
    runs.begin(store, run=run, audit=audit, definition=service.definition(asked) if asked else {}, method="exact")
    verdict = Verdict.MATCH if score == 1 else Verdict.MISMATCH
    bounds = {} if score is None else {"score": score, "lower": score - width, "upper": min(1.0, score + width)}
    outcome = runs.Outcome(
        state=State.DONE, verdict=verdict, exit_code=verdict.exit_code, seconds=1, method="exact", reasons=("as told",),
        coverage=1.0, rows={"source": 100, "target": 100},
        verified_through=started if score == 1 else None,
    )  # fmt: skip
    runs.finish(store, run, replace(outcome, **{**bounds, **more}))
    return moved(store, run, started)


def made(directory: Path, now: dt.datetime = NOW) -> tuple[Settings, Store]:
    """The configuration and its store, with a month of runs."""
    fill(directory)
    configured = keyed(settings(directory))
    store = open_store(f"sqlite:///{directory}/auditor.db")
    chance = random.Random(1)
    for ago in range(29, 0, -1):
        at = now - dt.timedelta(days=ago, minutes=35)
        earlier(store, "customers", at)
        worse = 1.0 if ago > 9 else 1 - 0.0004 * (10 - ago) - 0.0001 * chance.random()
        earlier(store, "orders", at, worse, 0.0 if worse == 1 else 0.0003, asked=configured.audit("orders"))
        earlier(store, "events", at, 1.0 if ago % 11 else 0.97, asked=configured.audit("events"))
        unknown: dict[str, Any] = {"state": State.FAILED, "verdict": Verdict.UNKNOWN}
        earlier(store, "payments", at, None if ago in (17, 1) else 1.0, **(unknown if ago in (17, 1) else {}))
        if ago > 3:
            earlier(store, "visits", at)
        if ago > 20:
            earlier(store, "old_stock", at)
    for number, name in enumerate(("customers", "orders", "events", "payments", "stock")):
        report = service.run_audit(configured, name, store=store)
        moved(store, report.run, now - dt.timedelta(minutes=90 - 7 * number), report.seconds)
    for hours, leg in zip((6, 1), service.expanded(configured, ["ledger"]), strict=True):
        report = service.run_audit(configured, leg, store=store)
        moved(store, report.run, now - dt.timedelta(hours=hours), report.seconds)
    runs.begin(store, run="c" * 32, audit="customers", definition={}, method="exact")
    runs.beat(store, "c" * 32, {"source": {"doing": "reading", "done": 1200, "total": 4000}})
    with store.engine.begin() as connection:
        connection.execute(sa.update(table).where(table.c.run == "c" * 32).values(started=now - dt.timedelta(minutes=1)))
    standing.update(store, "visits", paused=False)
    return configured, store


def report_of(store: Store, audit: str) -> Report:
    """The report of an audit's latest run."""
    found = next(one for one in runs.listed(store, audit=audit) if one.ended)
    report = keep.report(store, found.run)
    assert report
    return report


def main(directory: Path) -> None:
    """Write the pages of a new store."""
    directory.mkdir(parents=True, exist_ok=True)
    configured, store = made(directory)
    (directory / "day.html").write_text(rendered.day(day.day(store, configured, NOW.date(), NOW), "html"), encoding="utf-8")
    (directory / "day.txt").write_text(rendered.day(day.day(store, configured, NOW.date(), NOW), "text"), encoding="utf-8")
    for name in ("customers", "orders", "events", "payments", "stock"):
        report = report_of(store, name)
        for form, ending in (("html", "html"), ("text", "txt"), ("markdown", "md")):
            text = rendered.run(report, keep.picture(store, report.run), form)
            (directory / f"{name}.{ending}").write_text(text, encoding="utf-8")
    store.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
