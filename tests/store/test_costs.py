"""What runs cost, on every database of a store: attempts replace their own rows, days are the store's, and processes see each other's."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from auditor import config
from auditor.model import DayCost, Spent
from auditor.service import costs as costs_service
from auditor.store import Store, costs, open_store, pruning
from auditor.store.costs import Attempt
from tests.store.samples import new_audit_name
from tests.store.service import write_settings


def today(store: Store) -> dt.date:
    return costs.read_day(store, (), None)[0].date()


def cost(day: dt.date, audit: str, connection: str, statements: int, usd: float | None) -> DayCost:
    spent = Spent(statements=statements, seconds=statements / 8, bytes=statements * 1_000_000_000, usd=usd)
    return DayCost(day=day, audit=audit, connection=connection, spent=spent)


def attempt(run: str = "") -> Attempt:
    return Attempt(run=run or uuid.uuid4().hex, attempt=uuid.uuid4().hex)


def test_an_attempt_replaces_what_it_stored_and_sees_what_others_spent(store: Store) -> None:
    day, (audit, other), (here, there) = today(store), (new_audit_name(), new_audit_name()), (new_audit_name(), new_audit_name())
    mine = attempt()
    before = Attempt(run=mine.run, attempt="before")
    costs.record_costs(store, before, [cost(day, audit, here, 1, 0.5)])
    for statements in (3, 7):
        costs.record_costs(store, mine, [cost(day, audit, here, statements, None), cost(day - dt.timedelta(1), audit, here, 90, None)])
    costs.record_costs(store, attempt(), [cost(day, other, here, 5, 1.0), cost(day, other, there, 60, 2.0)])
    costs.record_costs(store, attempt(), [cost(day, other, here, 6, 1.0)])
    _, seen = costs.read_day(store, (here,), audit, mine)
    assert [(one.audit, one.connection, one.spent.statements, one.spent.usd, one.runs) for one in seen] == sorted(
        [(audit, here, 1, 0.5, 1), (other, here, 11, 2.0, 2)]
    ), "of this run only what was spent before it was resumed, and nothing of another day or connection"
    [of_run] = costs.list_of_runs(store, [mine.run, "none"])
    assert of_run[here].statements == 1 + 7 + 90 and of_run[here].usd is None, "of which not all is priced"
    [line] = costs.list_costs(store, day, day, ("audit",), [audit])
    assert (line.runs, line.spent.statements, line.spent.usd, line.unpriced) == (1, 8, 0.5, (here,))
    assert line.spent.bytes == 8_000_000_000


def test_costs_are_added_up_by_day_audit_and_connection(store: Store) -> None:
    day, audit, here, there = today(store), new_audit_name(), new_audit_name(), new_audit_name()
    for back in (0, 0, 1, 5):
        then = day - dt.timedelta(days=back)
        costs.record_costs(store, attempt(), [cost(then, audit, here, 2, 0.25), cost(then, audit, there, 1, None)])
    by_day = costs.list_costs(store, day - dt.timedelta(days=2), day, ("day", "audit"), [audit])
    assert [(one.keys["day"], one.runs, one.spent.statements, one.spent.usd) for one in by_day] == [
        (str(day - dt.timedelta(days=1)), 1, 3, 0.25),
        (str(day), 2, 6, 0.5),
    ]
    by_connection = costs.list_costs(store, day - dt.timedelta(days=9), day, ("connection",), [audit])
    found = {one.keys["connection"]: (one.runs, one.spent.statements, one.spent.usd) for one in by_connection}
    assert found == {here: (4, 8, 1.0), there: (4, 4, None)}
    [total] = costs.list_costs(store, day - dt.timedelta(days=9), day, (), [audit])
    assert total.runs == 4 and total.unpriced == (there,)


def test_costs_of_old_days_are_pruned_and_those_of_today_never(file_store: Store) -> None:
    day, audit, now = today(file_store), new_audit_name(), dt.datetime.now(dt.UTC)
    for back in (0, 1, 40):
        costs.record_costs(file_store, attempt(), [cost(day - dt.timedelta(days=back), audit, "c", 1, None)])
    pruning.prune(file_store, runs=None, days=30, now=now)
    assert len(costs.list_costs(file_store, day - dt.timedelta(days=99), day, ("day",))) == 2
    pruning.prune(file_store, runs=0, days=0.001, now=now)
    assert costs.list_costs(file_store, day, day, ("day",))[0].runs == 1


@pytest.mark.slow
@pytest.mark.clock
def test_two_processes_share_the_budget_of_a_day(tmp_path: Path, url: str) -> None:
    """Commands side by side, each of which runs audits one after another, until nothing is left for either."""
    path = write_settings(tmp_path, url)
    values = json.loads(path.read_text())
    limit = 150
    values["connections"]["b"]["limits"] = {"budget": {"statements": limit, "per": "day"}}
    path.write_text(json.dumps(values))
    settings = config.load(path)
    commands = [
        subprocess.Popen(
            [sys.executable, "-m", "auditor", "run", "--config", str(path), "--quiet", "--format", "json", *names],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for names in ([f"a{number}" for number in range(half, half + 10)] for half in (0, 10))
    ]
    reports = [report for command in commands for report in json.loads(command.communicate(timeout=300)[0])]
    store = open_store(url)
    try:
        on_b = {line.connection: line for line in costs_service.list_costs(settings, store, by="connection").lines}["b"]
        [used] = costs_service.list_day_budgets(settings, store)
    finally:
        store.close()
    spent = [next((cost["statements"] for cost in report["cost"]["connections"] if cost["connection"] == "b"), 0) for report in reports]
    assert len(reports) == 20 and sum(spent) == on_b.statements == used.used
    verdicts = [report["verdict"] for report in reports]
    assert "mismatch" in verdicts and verdicts.count("unknown") >= 2
    assert limit <= on_b.statements <= limit + 2 * max(spent), (spent, "each may exceed it by what it spends at the same time")
    refused = [report for report in reports if report["verdict"] == "unknown"]
    assert all(f"the budget of the connection b is {limit} statements a day" in report["reasons"][0] for report in refused)
    assert any("by the audit a1" in report["reasons"][0] and "by the audit a0" in report["reasons"][0] for report in refused) or any(
        "further audit" in report["reasons"][0] for report in refused
    )
