"""A budget of the day is shared by runs, ends them with a sentence, and is whole again behind midnight, whatever clocks do."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor.config import Budget, ConnectionSettings, Settings, validate_settings
from auditor.connections.budgets import Budgets, ChargedTime, charged_seconds, describe_spent
from auditor.errors import BudgetSpent, ConfigError
from auditor.history.checkpoint import StoreCheckpoint
from auditor.model import DayCost, Report, SideCost, Spent, State, Verdict
from auditor.planning import chunks
from auditor.service import costs as costs_service
from auditor.service import make_plan, run_audit, stored_runs
from auditor.store import Store, costs, open_store, runs
from tests.durations import SetDurations

PRICE = {"usd": 36.0, "per": "hour"}

DAY = dt.datetime.now(dt.UTC).date() + dt.timedelta(days=1)
"""A day that pruning by this host's clock does not take for old."""


def at(days: int, hour: int, minute: int = 0, second: int = 0) -> dt.datetime:
    """Return a time so many days after DAY."""
    return dt.datetime.combine(DAY + dt.timedelta(days=days), dt.time(hour, minute, second), dt.UTC)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path}/store.db")
    yield opened
    opened.close()


class Clock:
    """Stands in for the store's clock."""

    def __init__(self) -> None:
        self.now = at(0, 12)

    def __call__(self, _: Any) -> dt.datetime:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    stand_in = Clock()
    monkeypatch.setattr(costs, "database_time", stand_in)
    return stand_in


def configure(folder: Path, budget: dict[str, Any], limits: dict[str, Any] | None = None, **more: Any) -> Settings:
    """Return two audits of the same connections, which have the same limits."""
    path = folder / "t.duckdb"
    if not path.exists():
        with duckdb.connect(str(path)) as connection:
            for side in ("source", "target"):
                connection.execute(f"CREATE TABLE {side} AS SELECT range AS id, 'row ' || range AS v FROM range(20000)")
    sides = {side: {"connection": "here", "table": side} for side in ("source", "target")}
    audit = {**sides, "key": ["id"], "budget": budget, **more}
    here = {"url": f"duckdb:///{path}", "price": PRICE, "limits": limits or {}}
    return validate_settings({"connections": {"here": here}, "audits": {"orders": audit, "items": audit}})


def statements(report: Report) -> int:
    return sum(cost.spent.statements for cost in report.spent)


def test_a_connections_day_is_shared_by_all_audits_that_use_it(tmp_path: Path, store: Store, clock: Clock) -> None:
    free = run_audit(configure(tmp_path, {}), "orders", store=store)
    assert free.verdict is Verdict.MATCH and statements(free) > 5
    limit = statements(free) + 3
    settings = configure(tmp_path, {}, {"budget": {"statements": limit, "per": "day"}})
    begun = run_audit(settings, "items", store=store)
    assert (begun.verdict, begun.state) == (Verdict.UNKNOWN, State.FAILED) and 3 <= statements(begun) < statements(free), (
        "it ended in the midst"
    )
    by_orders = f"{statements(free)} statements by the audit orders (1 run)"
    assert (
        by_orders in begun.reasons[0] and f" by this run; there is budget again from {at(1, 0):%Y-%m-%d} 00:00 UTC on" in begun.reasons[0]
    )
    none_left = run_audit(settings, "orders", store=store)
    assert none_left.verdict is Verdict.UNKNOWN and none_left.exit_code == 3 and statements(none_left) == 0
    assert none_left.reasons[0].startswith(f"the budget of the connection here is {limit} statements a day, and "), none_left.reasons
    assert by_orders in none_left.reasons[0] and "by the audit items (1 run)" in none_left.reasons[0], none_left.reasons
    assert runs.get_run(store, none_left.run).verdict is Verdict.UNKNOWN


def test_an_audits_day_is_its_own_and_is_whole_again_behind_midnight(tmp_path: Path, store: Store, clock: Clock) -> None:
    settings = configure(tmp_path, {"statements": 8, "per": "day"})
    first = run_audit(settings, "orders", store=store)
    assert first.verdict is Verdict.UNKNOWN and "the budget of the audit orders is 8 statements a day" in first.reasons[0]
    for_items = run_audit(settings, "items", store=store)
    assert statements(for_items) > 0, "the other audit has a budget of its own"
    assert statements(run_audit(settings, "orders", store=store)) == 0
    clock.now = at(1, 0, 0, 1)
    assert statements(run_audit(settings, "orders", store=store)) > 0
    clock.now = at(0, 23)  # set back: what was spent that day still counts
    assert statements(run_audit(settings, "orders", store=store)) == 0
    clock.now = at(1, 0, 30)
    assert statements(run_audit(settings, "orders", store=store)) == 0, "and the day after is no second time whole"


@pytest.mark.slow
def test_a_run_is_resumed_on_another_day(
    tmp_path: Path, store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch, set_durations: SetDurations
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_ROWS", 200)
    monkeypatch.setattr(chunks, "COLUMN_CHUNK_ROWS", 200)
    set_durations(chunk_aim=1e-4)
    chunked: dict[str, Any] = {"snapshot": "per_chunk", "method": "signature", "partition": {"rows": 200}}
    settings = configure(tmp_path, {"statements": 250, "per": "day"}, **chunked)
    first = run_audit(settings, "orders", store=store)
    assert first.verdict is Verdict.UNKNOWN and first.resumable and "a day" in first.reasons[0], first.reasons
    same_day = stored_runs.resume(settings, store, first.run)
    assert statements(same_day) == 0 and "(1 run)" in same_day.reasons[0], same_day.reasons
    reports = [same_day]
    while reports[-1].resumable and len(reports) < 20:
        clock.now += dt.timedelta(days=1)
        reports.append(stored_runs.resume(settings, store, first.run))
    assert reports[-1].verdict is Verdict.MATCH and len(reports) > 2, [report.reasons for report in reports]
    found = costs_service.list_costs(settings, store, first=DAY)
    assert [line.day for line in found.lines] == [DAY + dt.timedelta(days=day) for day in range(len(reports))]
    assert all(line.statements < 300 for line in found.lines) and found.total.runs == 1
    assert found.total.statements == statements(first) + sum(map(statements, reports)), "nothing is counted twice, and nothing lost"


def test_a_run_continues_the_same_day_with_a_larger_budget(
    tmp_path: Path, store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch, set_durations: SetDurations
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_ROWS", 2000)
    monkeypatch.setattr(chunks, "COLUMN_CHUNK_ROWS", 2000)
    set_durations(chunk_aim=1e-4)
    chunked: dict[str, Any] = {"snapshot": "per_chunk", "method": "signature", "partition": {"rows": 200}}
    limits = {"statements": 25, "per": "day"}
    first = run_audit(configure(tmp_path, limits, **chunked), "orders", store=store)
    assert first.resumable, first.reasons
    raised = stored_runs.resume(configure(tmp_path, {**limits, "statements": 500}, **chunked), store, first.run)
    assert raised.verdict is Verdict.MATCH, raised.reasons


def test_what_a_killed_process_had_stored_still_counts(tmp_path: Path, store: Store, set_durations: SetDurations) -> None:
    """It stores its costs while it runs; what never comes is the end of the block."""
    set_durations(costs_shared=0.01)
    settings = configure(tmp_path, {})
    run, ran = run_audit(settings, "orders", store=store).run, {"source": 0}
    before = costs_service.list_costs(settings, store).total.statements
    budgets = Budgets("orders", Budget(), {"source": "here"}, settings.connections, lambda _: SideCost(statements=ran["source"]))
    with budgets.shared(StoreCheckpoint(store, run).share_costs):
        with budgets.statement("source"):
            ran["source"] = 4
        until = time.monotonic() + 30
        while costs_service.list_costs(settings, store).total.statements < before + 4:
            assert time.monotonic() < until
            time.sleep(0.01)


def test_runs_that_were_pruned_still_count(tmp_path: Path, store: Store, clock: Clock) -> None:
    settings = configure(tmp_path, {"statements": 10, "per": "day"})
    from auditor.store import pruning

    run_audit(settings, "orders", store=store)
    pruning.prune(store, runs=0, days=None, now=clock.now)
    assert not runs.list_runs(store) and statements(run_audit(settings, "orders", store=store)) == 0


def test_without_a_store_there_is_no_day(tmp_path: Path) -> None:
    report = run_audit(configure(tmp_path, {"statements": 500, "per": "day"}), "orders")
    assert report.verdict is Verdict.UNKNOWN and report.exit_code == 2, report.reasons
    assert report.reasons == (
        "the budget of the audit orders is per: day, which needs a store; run the audit without --no-store, or write per: run",
    )


def test_a_budget_in_usd_ends_a_run(tmp_path: Path, store: Store, clock: Clock) -> None:
    free = run_audit(configure(tmp_path, {}), "orders", store=store)
    [cost] = free.spent
    assert cost.spent.usd == pytest.approx(cost.spent.seconds * 0.01) and cost.basis == "36 USD for an hour of statements"
    spent = run_audit(configure(tmp_path, {"usd": 1e-6, "per": "day"}), "orders", store=store)
    assert spent.verdict is Verdict.UNKNOWN and "the budget of the audit orders is 1e-06 USD a day" in spent.reasons[0]
    in_run = run_audit(configure(tmp_path, {"usd": 1e-6}), "items", store=store)
    assert (
        in_run.verdict is Verdict.UNKNOWN and "USD, and the budget of the audit items is 1e-06 USD; raise budget: usd" in in_run.reasons[0]
    )


def test_a_plan_says_what_the_last_runs_cost(tmp_path: Path, store: Store, clock: Clock) -> None:
    settings = configure(tmp_path, {"seconds": "1h", "usd": 5, "per": "day"})
    before = make_plan(settings, "orders", settings.audits["orders"], store)
    assert [(one.connection, one.runs, one.usd) for one in before.expected] == [("here", 0, None)]
    ended = [run_audit(settings, "orders", store=store) for _ in range(3)]
    [expected] = make_plan(settings, "orders", settings.audits["orders"], store).expected
    median = sorted(report.spent[0].spent.seconds for report in ended)[1]
    assert expected.runs == 3 and expected.seconds == pytest.approx(median) and expected.usd == pytest.approx(median * 0.01)
    [note] = [note for note in make_plan(settings, "orders", settings.audits["orders"], store).notes if note.startswith("budget of ")]
    assert note.startswith("budget of the audit orders a day (UTC): 3,600 seconds (the last runs needed ") and note.endswith(
        "; beyond it runs are unknown until the next day"
    )


def test_midnight_in_the_midst_of_a_run() -> None:
    """What was spent before it is of the day before; what others spent then no longer counts."""
    here = ConnectionSettings.model_validate({"url": "duckdb:///t.duckdb", "limits": {"budget": {"statements": 10, "per": "day"}}})
    ran = {"source": 0}
    budgets = Budgets("t", Budget(), {"source": "here"}, {"here": here}, lambda _: SideCost(statements=ran["source"]))
    evening = dt.datetime(2026, 3, 1, 23, 59, 59, 900_000, tzinfo=dt.UTC)
    of_others = DayCost(day=evening.date(), audit="other", connection="here", spent=Spent(statements=7), runs=2)
    shared: list[list[DayCost]] = []

    def share(audit: str, mine: Any, connections: Any) -> tuple[dt.datetime, list[DayCost]]:
        assert (audit, *connections) == ("t", "here")
        shared.append(list(mine))
        return (evening, [of_others]) if len(shared) == 1 else (evening + dt.timedelta(minutes=1), [])

    with budgets.shared(share):
        with budgets.statement("source"):
            ran["source"] = 3
        with pytest.raises(BudgetSpent, match=r"10 statements are used on 2026-03-01 .* 7 statements by the audit other \(2 runs\)"):
            with budgets.statement("source"):
                pass
        time.sleep(0.15)
        with budgets.statement("source"):
            ran["source"] = 5
    by_day = {cost.day.isoformat(): cost.spent.statements for cost in shared[-1]}
    assert by_day == {"2026-03-01": 3, "2026-03-02": 2}


def test_two_runs_at_once_know_of_each_other(tmp_path: Path, store: Store, set_durations: SetDurations) -> None:
    """Neither alone would spend the budget; each learns of the other's costs while both run."""
    set_durations(costs_shared=0.02)
    here = ConnectionSettings.model_validate({"url": "duckdb:///t.duckdb", "limits": {"budget": {"statements": 100, "per": "day"}}})
    settings = configure(tmp_path, {})
    ids = [run_audit(settings, name, store=store).run for name in ("orders", "items")]
    costs_before = costs_service.list_costs(settings, store).total.statements
    ran, ends = [0, 0], [threading.Event(), threading.Event()]
    reasons: list[str] = []

    def spend(number: int) -> None:
        budgets = Budgets(f"a{number}", Budget(), {"source": "here"}, {"here": here}, lambda _: SideCost(statements=ran[number]))
        with budgets.shared(StoreCheckpoint(store, ids[number]).share_costs):
            try:
                while ran[number] < 1000:
                    with budgets.statement("source"):
                        ran[number] += 1
                        ends[number].wait(0.01)
            except BudgetSpent as error:
                reasons.append(str(error))

    with ExitStack() as stack:
        threads = [threading.Thread(target=spend, args=(number,)) for number in (0, 1)]
        for thread in threads:
            thread.start()
            stack.callback(thread.join)
    assert len(reasons) == 2 and 100 <= costs_before + sum(ran) < 160, (costs_before, ran)
    assert any("by the audit a0" in reason or "by the audit a1" in reason for reason in reasons), reasons


def test_charged_time_is_that_of_stretches_with_a_least_length() -> None:
    assert charged_seconds([], 60) == 0
    assert charged_seconds([(0, 1)], 60) == 60 and charged_seconds([(0, 61)], 60) == 61
    assert charged_seconds([(0, 1), (30, 40)], 60) == 60 and charged_seconds([(0, 1), (50, 70)], 60) == 70
    assert charged_seconds([(0, 1), (100, 101)], 60) == 120 and charged_seconds([(5, 9), (0, 10), (8, 20)], 0) == 20
    running = ChargedTime(60)
    running.begin(1000)
    assert [running.seconds(at) for at in (1000, 1030, 1090)] == [60, 60, 90]
    running.begin(1100)
    running.end(1110)
    running.end(1120)
    assert running.seconds(5000) == 120


def test_many_spenders_are_named_in_short() -> None:
    day = dt.date(2026, 3, 1)
    others = [DayCost(day=day, audit=f"a{n}", connection="c", spent=Spent(bytes=n)) for n in range(1, 9)]
    said = describe_spent("the connection c", "bytes", 30, 36, dt.datetime(2026, 3, 1, 20, tzinfo=dt.UTC), 0, others)
    assert "8 bytes by the audit a8 (1 run)" in said and "a4" in said and "a3" not in said and "the rest by 3 further audits" in said


WRONG: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"limits": {"budget": {"usd": 5}}}, {}, "connections.c: limits: budget: usd is given without a price"),
    ({}, {"usd": 5, "per": "day"}, "usd: the connection c has no price"),
    ({}, {"per": "day"}, "per: day is given without a limit"),
    ({}, {"seconds": 5, "per": "week"}, "budget"),
    ({"price": {"usd": 0, "per": "hour"}}, {}, "price"),
    ({"price": {"usd": 1, "per": "rpu_hour"}}, {}, "needs units"),
    ({"price": {"usd": 1, "per": "hour", "units": 8}}, {}, "units belongs to"),
    ({"price": {"usd": 1, "per": "rpu_hour", "units": 8}}, {}, "rpu_hour is no unit of duckdb"),
]


@pytest.mark.parametrize(("connection", "budget", "why"), WRONG)
def test_prices_and_budgets_that_do_not_fit_are_refused(connection: dict[str, Any], budget: dict[str, Any], why: str) -> None:
    sides = {side: {"connection": "c", "table": side} for side in ("source", "target")}
    with pytest.raises(ConfigError, match=why.replace("(", r"\(")):
        validate_settings({"connections": {"c": {"url": "duckdb:///t.duckdb", **connection}}, "audits": {"a": {**sides, "budget": budget}}})


def test_what_is_priced_by_its_engines_units_is_accepted() -> None:
    for url, per in (("redshift://u@h/d", "rpu_hour"), ("sc://h:15002", "executor_hour")):
        ConnectionSettings.model_validate({"url": url, "price": {"usd": 0.36, "per": per, "units": 8}})
