"""What runs on real servers cost: in seconds of statements, and by a record like Redshift's of when statements ran.

The stand-in for Redshift has views with made rows in place of SYS_QUERY_HISTORY and SYS_SERVERLESS_USAGE. That the statements find these
columns and add them up is proved so; what Amazon writes there, when, for whom, and what it charges is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from auditor.config import Settings, validate_settings
from auditor.model import SIDES, ConnectionCost, Report, Side, Verdict
from auditor.report import render
from auditor.service import costs, run_audit
from auditor.store import open_store
from dialects import Kind
from tests import tables
from tests.live import LiveEngine, LivePair, chosen_pairs, engine_params

COLUMNS = [("id", Kind("integer")), ("v", Kind("text"))]
RPU = {"usd": 0.36, "per": "rpu_hour", "units": 8}


def settings_of(urls: Mapping[Side, str], price: dict[str, Any], **audit: Any) -> Settings:
    sides = {side: {"connection": side, "table": f"priced_{side}"} for side in SIDES}
    connections = {side: {"url": urls[side], **({"price": price} if side == "target" else {})} for side in SIDES}
    return validate_settings({"connections": connections, "audits": {"priced": {**sides, "key": ["id"], **audit}}})


@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres", "postgres-duckdb"), indirect=True)
def test_what_a_run_costs_on_each_server_is_reported_and_stored(pair: LivePair, tmp_path: Path) -> None:
    for side in SIDES:
        tables.make(getattr(pair, side), f"priced_{side}", COLUMNS, [(n, f"v{n}") for n in range(3000)], key=["id"])
    urls = {side: getattr(pair, side).url for side in SIDES}
    settings = settings_of(urls, {"usd": 3.6, "per": "hour"})
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    try:
        report = run_audit(settings, "priced", store=store)
        found = costs.list_costs(settings, store, by="connection")
    finally:
        store.close()
    assert report.verdict is Verdict.MATCH
    by_name = {cost.connection: cost for cost in report.spent}
    for side in SIDES:
        assert (
            by_name[side].spent.statements == report.cost[side].statements > 3 and by_name[side].spent.bytes == report.cost[side].bytes > 0
        )
    assert by_name["source"].spent.usd is None and "the connection has no price" in by_name["source"].basis
    assert by_name["target"].spent.usd == pytest.approx(by_name["target"].spent.seconds / 1000)
    text, as_json = render.run(report, None, "text"), render.run(report, None, "json")
    assert "3.6 USD for an hour of statements" in text and "costs in USD are unknown: the connection has no price" in text
    assert '"usd": null' in as_json and "USD" in render.run(report, None, "html")
    lines = {line.connection: line for line in found.lines}
    for side in SIDES:
        spent = by_name[side].spent
        assert (lines[side].statements, lines[side].bytes, lines[side].runs) == (spent.statements, spent.bytes, 1)
        assert lines[side].seconds == pytest.approx(spent.seconds)
    assert found.total.usd == lines["target"].usd == pytest.approx(by_name["target"].spent.usd) and lines["source"].usd is None
    assert found.total.unpriced == ("source",)


@pytest.mark.slow
@pytest.mark.parametrize("engine", engine_params("spark"), indirect=True)
def test_executor_seconds_are_those_of_the_executors_that_are_kept(engine: LiveEngine) -> None:
    for side in SIDES:
        tables.make(engine, f"priced_{side}", COLUMNS, [(n, f"v{n}") for n in range(20)], key=["id"])
    price = {"usd": 0.9, "per": "executor_hour", "units": 4}
    report = run_audit(settings_of(dict.fromkeys(SIDES, engine.url), price), "priced")
    cost = next(cost for cost in report.spent if cost.connection == "target")
    assert report.verdict is Verdict.MATCH, report.reasons
    assert cost.spent.usd == pytest.approx(cost.spent.seconds * 4 * 0.9 / 3600, rel=0.05), "one session ran one statement at a time"
    assert "executor seconds as this process saw them, 0.9 USD for 3,600" in cost.basis


@contextmanager
def recorded(engine: LiveEngine, spans: int, seconds: int, usage: str = "") -> Iterator[None]:
    """Let the server's record hold so many statements of each session, at once, of so many seconds; ``usage`` is a SELECT of RPUs."""
    times = f"{seconds}000000 AS elapsed_time, 0 AS queue_time, {seconds}000000 AS execution_time"
    rows = f"SELECT pg_backend_pid() AS session_id, CAST(GETDATE() AS TIMESTAMP) AS start_time, {times} FROM generate_series(1, {spans})"
    tables.execute(engine, f"CREATE VIEW sys_query_history AS {rows}")
    if usage:
        end = "CAST(GETDATE() AS TIMESTAMP) AS end_time"
        tables.execute(engine, f"CREATE VIEW sys_serverless_usage AS SELECT compute_capacity, compute_seconds, {end} FROM ({usage}) made")
    try:
        yield
    finally:
        tables.execute(engine, "DROP VIEW sys_query_history", *(["DROP VIEW sys_serverless_usage"] if usage else []))


def run(engine: LiveEngine, **audit: Any) -> tuple[Report, ConnectionCost]:
    for side in SIDES:
        tables.make(engine, f"priced_{side}", COLUMNS, [(n, f"v{n}") for n in range(20)], key=["id"])
    report = run_audit(settings_of(dict.fromkeys(SIDES, engine.url), RPU, **audit), "priced")
    return report, next(cost for cost in report.spent if cost.connection == "target")


USD_PER_RPU_SECOND = 0.36 / 3600


@pytest.mark.parametrize("engine", engine_params("redshift"), indirect=True)
def test_rpu_seconds_are_those_of_the_servers_record(engine: LiveEngine) -> None:
    usage = "SELECT 12.0 AS compute_capacity, 5 AS compute_seconds UNION ALL SELECT 20, 5 UNION ALL SELECT 0, 0"
    with recorded(engine, 500, 90, usage):
        report, cost = run(engine)
    assert report.verdict is Verdict.MATCH and cost.spent.usd == pytest.approx(90 * 16 * USD_PER_RPU_SECOND)
    assert cost.basis.startswith("at most, as if nothing else ran there: 1,440 RPU-seconds as the server recorded"), cost.basis
    assert "16 units by the server" in cost.basis
    with recorded(engine, 500, 2):  # SYS_SERVERLESS_USAGE may be read by superusers alone
        _, cost = run(engine)
    assert cost.spent.usd == pytest.approx(60 * 8 * USD_PER_RPU_SECOND), "60 seconds are charged at least"
    assert "8 units by the price" in cost.basis


@pytest.mark.parametrize("engine", engine_params("redshift"), indirect=True)
def test_a_record_that_lacks_statements_does_not_make_a_run_cheaper(engine: LiveEngine) -> None:
    with recorded(engine, 2, 1):
        _, cost = run(engine)
    assert cost.spent.usd is not None and cost.spent.usd >= 60 * 8 * USD_PER_RPU_SECOND * 0.999
    assert f"the server recorded 2 of {cost.spent.statements} statements" in cost.basis or "as the server recorded" in cost.basis
    with recorded(engine, 2, 500):
        _, cost = run(engine)
    assert cost.spent.usd == pytest.approx(500 * 8 * USD_PER_RPU_SECOND)


@pytest.mark.parametrize("engine", engine_params("redshift"), indirect=True)
def test_a_budget_in_usd_counts_the_charge_of_the_first_minute(engine: LiveEngine) -> None:
    report, cost = run(engine, budget={"bytes": "1GB"})
    assert report.verdict is Verdict.MATCH and cost.spent.usd and cost.spent.usd >= 0.999 * 60 * 8 * USD_PER_RPU_SECOND
    sides = dict.fromkeys(SIDES, engine.url)
    values = settings_of(sides, RPU).model_dump(mode="json", by_alias=True, exclude_unset=True)
    values["connections"]["target"]["limits"] = {"budget": {"usd": 0.04}}
    report = run_audit(validate_settings(values), "priced")
    assert (
        report.verdict is Verdict.UNKNOWN
        and "the run has cost 0.048 USD, and the budget of the connection target is 0.04" in report.reasons[0]
    )
