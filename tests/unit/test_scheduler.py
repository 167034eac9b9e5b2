"""When audits are due: across clock changes, once for all processes, and after missed ticks."""

from __future__ import annotations

import datetime as dt
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml
from cronsim import CronSim

from auditor import config
from auditor.cli import main
from auditor.config import Schedule, Settings
from auditor.errors import QueueFull
from auditor.service import audits, cron, scheduler
from auditor.store import Store, open_store, queue, run_lifecycle, runs
from tests.durations import SetDurations

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
MINUTE, DAY = dt.timedelta(minutes=1), dt.timedelta(days=1)
NOON = dt.datetime(2026, 6, 1, 12, 0, tzinfo=dt.UTC)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path}/store.db")
    yield opened
    opened.close()


def settings(**schedules: Any) -> Settings:
    one = {"source": {"connection": "a", "table": "t"}, "target": {"connection": "a", "table": "t"}, "key": ["id"]}
    scheduled = {name: {**one, "schedule": value} for name, value in schedules.items()}
    return config.validate_settings({"connections": {"a": {"url": "duckdb:///a.duckdb"}}, "audits": scheduled})


def local(zone: str, *moment: int, fold: int = 0) -> dt.datetime:
    year, month, day, hour, minute = moment
    return dt.datetime(year, month, day, hour, minute, tzinfo=ZoneInfo(zone), fold=fold).astimezone(dt.UTC)


@pytest.mark.parametrize(("zone", "day"), [(BERLIN, (2026, 3, 29)), (NEW_YORK, (2026, 3, 8))])
def test_skipped_time_is_due_at_the_end_of_the_gap(zone: str, day: tuple[int, int, int]) -> None:
    one = Schedule(cron="30 2 * * *", timezone=zone)
    found = cron.next_times(one, local(zone, *day, 0, 0) - DAY, 4, "a")
    shown = [at.astimezone(ZoneInfo(zone)).strftime("%d %H:%M") for at in found]
    assert shown == [f"{day[2] - 1:02} 02:30", f"{day[2]:02} 03:00", f"{day[2] + 1:02} 02:30", f"{day[2] + 2:02} 02:30"]


@pytest.mark.parametrize(("zone", "day", "hour"), [(BERLIN, (2026, 10, 25), 2), (NEW_YORK, (2026, 11, 1), 1)])
def test_repeated_time_is_due_once(zone: str, day: tuple[int, int, int], hour: int) -> None:
    one = Schedule(cron=f"30 {hour} * * *", timezone=zone)
    first, second = (local(zone, *day, hour, 30, fold=fold) for fold in (0, 1))
    tomorrow = dt.date(*day) + DAY
    assert second - first == 60 * MINUTE
    assert cron.next_times(one, first - MINUTE, 1, "a") == [first]
    for later in (first, first + 20 * MINUTE, second - MINUTE, second, second + MINUTE):
        assert cron.next_times(one, later, 1, "a") == [local(zone, tomorrow.year, tomorrow.month, tomorrow.day, hour, 30)]
        cron.LAST_TICKS.clear()
        assert cron.last_tick(one, later, "a") == first


@pytest.mark.parametrize("zone", [BERLIN, NEW_YORK, "UTC", "Australia/Lord_Howe", "America/Havana"])
@pytest.mark.parametrize(
    "expression",
    ["30 2 * * *", pytest.param("*/15 * * * *", marks=pytest.mark.slow), "0 * * * *", "30 1,2,3 * * *", "15 */2 * * *"],
)
def test_last_tick_does_not_depend_on_the_start(zone: str, expression: str, request: pytest.FixtureRequest) -> None:
    """For every hour of the months in which clocks change, or every 17th, the last tick is the one found in the list of all ticks."""
    every = 1 if request.config.getoption("--slow") else 17
    one = Schedule(cron=expression, timezone=zone)
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    listed = []
    for tick in cron.iterate_ticks(one, start):
        if tick > start + 366 * DAY:
            break
        listed.append(tick)
    assert listed == sorted(set(listed))
    position = 0
    for number in range(30 * 24, 365 * 24, 1):
        at = start + number * 60 * MINUTE + 7 * MINUTE
        while position + 1 < len(listed) and listed[position + 1] <= at:
            position += 1
        jumps = at.month in (3, 4, 10, 11)
        if (jumps and number % every == 0) or number % 97 == 0:
            cron.LAST_TICKS.clear()
            assert cron.last_tick(one, at, "a") == listed[position], at


CHANGES = {
    BERLIN: ((2026, 3, 29), (2026, 10, 25)),
    NEW_YORK: ((2026, 3, 8), (2026, 11, 1)),
    "America/Havana": ((2026, 3, 8), (2026, 11, 1)),
    "Africa/Casablanca": ((2026, 2, 15), (2026, 3, 22)),
    "Pacific/Chatham": ((2026, 4, 5), (2026, 9, 27)),
}
"""Dates on which the clock of a time zone changes, in local time."""


@pytest.mark.parametrize("zone", CHANGES)
@pytest.mark.parametrize("expression", ["30 2 * * *", "30 1 * * *", "15 0,1,2,3 * * *", "0 */2 * * *", "*/20 2 * * *", "45 * * * *"])
def test_last_and_next_tick_agree_across_clock_changes(zone: str, expression: str, request: pytest.FixtureRequest) -> None:
    """The last and the next tick of any time near the change are adjacent, and each is found from the other."""
    hours = 24 if request.config.getoption("--slow") else 8
    if (zone, expression) == ("Pacific/Chatham", "0 */2 * * *"):
        pytest.xfail("cronsim 2.8: with a step of hours across a change at 02:45, the ticks depend on the start")
    one = Schedule(cron=expression, timezone=zone)
    for day in CHANGES[zone]:
        noon = dt.datetime(*day, tzinfo=dt.UTC)
        for minutes in range(-hours * 60, hours * 60, 15):
            at = noon + minutes * MINUTE
            cron.LAST_TICKS.clear()
            before = cron.last_tick(one, at, "a")
            cron.LAST_TICKS.clear()
            [after] = cron.next_times(one, at, 1, "a")
            assert before is not None and before <= at < after
            assert cron.next_times(one, before, 1, "a") == [after]
            cron.LAST_TICKS.clear()
            assert cron.last_tick(one, after, "a") == after
            assert cron.last_tick(one, after - MINUTE, "a") == before


def test_reverse_search_of_cronsim_skips_a_tick() -> None:
    """Why `cron` has its own search: if this fails, a newer cronsim may replace it (check Pacific/Chatham too)."""
    within = local(BERLIN, 2026, 10, 25, 2, 10, fold=1)
    found = next(CronSim("30 2 * * *", within.astimezone(ZoneInfo(BERLIN)), reverse=True))
    assert found.astimezone(dt.UTC) == local(BERLIN, 2026, 10, 24, 2, 30)
    assert cron.last_tick(Schedule(cron="30 2 * * *", timezone=BERLIN), within, "a") == local(BERLIN, 2026, 10, 25, 2, 30)


def test_jitter_is_constant_per_audit_and_differs_between_audits() -> None:
    one = Schedule(cron="0 6 * * *", timezone="UTC", jitter=600.0)
    offsets = {name: cron.jitter_offset(one, name) for name in ("orders", "customers", "items", "prices")}
    assert offsets == {name: cron.jitter_offset(one, name) for name in offsets} and len(set(offsets.values())) > 1
    assert all(dt.timedelta() <= late < 10 * MINUTE for late in offsets.values())
    tick = NOON.replace(hour=6)
    late = offsets["orders"]
    assert cron.next_times(one, tick - MINUTE, 1, "orders") == [tick + late]
    assert cron.last_tick(one, tick + late, "orders") == tick
    assert cron.last_tick(one, tick + late - dt.timedelta(seconds=1), "orders") == tick - DAY


def test_rare_ticks_are_found() -> None:
    leap = Schedule(cron="0 0 29 2 *", timezone="UTC")
    assert cron.last_tick(leap, NOON, "a") == dt.datetime(2024, 2, 29, tzinfo=dt.UTC)
    assert cron.next_times(leap, NOON, 1, "a") == [dt.datetime(2028, 2, 29, tzinfo=dt.UTC)]


def test_audit_is_due_once_per_tick(store: Store) -> None:
    loaded = settings(a="0 12 * * *", b={"cron": "0 12 * * *", "timezone": BERLIN})
    before = NOON - MINUTE
    assert scheduler.due_audits(loaded, store, before) == [] and scheduler.request_due(loaded, store, before, "me") == []
    assert scheduler.due_audits(loaded, store, NOON) == [scheduler.DueAudit("a", NOON)]
    [run] = scheduler.request_due(loaded, store, NOON, "me")
    assert scheduler.request_due(loaded, store, NOON, "another") == [] and scheduler.due_audits(loaded, store, NOON + 5 * MINUTE) == []
    found = runs.get_run(store, run)
    assert (found.audit, found.state, found.requested_by, found.reason) == ("a", "pending", "schedule", "due since 2026-06-01 12:00 UTC")


def test_missed_ticks_are_caught_up_once_or_not_at_all(store: Store) -> None:
    loaded = settings(a={"cron": "0 * * * *"}, b={"cron": "0 * * * *", "catch_up": "none"})
    assert scheduler.request_due(loaded, store, NOON + 30 * MINUTE, "me") == []  # both are new, so no tick was missed
    assert scheduler.due_audits(loaded, store, NOON + DAY + 7 * MINUTE) == [scheduler.DueAudit("a", NOON + DAY)]
    assert [one.audit for one in scheduler.due_audits(loaded, store, NOON + DAY + 4 * MINUTE)] == ["a", "b"]
    assert len(scheduler.request_due(loaded, store, NOON + DAY + 7 * MINUTE, "me")) == 1
    assert scheduler.due_audits(loaded, store, NOON + DAY + 8 * MINUTE) == []
    assert [one.audit for one in scheduler.due_audits(loaded, store, NOON + DAY + 60 * MINUTE)] == ["a", "b"]


def test_next_process_runs_ticks_missed_by_a_killed_one(store: Store) -> None:
    loaded = settings(a="0 12 * * *")
    scheduler.request_due(loaded, store, NOON - 60 * MINUTE, "killed before its first tick")
    assert len(scheduler.request_due(loaded, store, NOON + 180 * MINUTE, "started later")) == 1


def test_paused_audit_is_not_due(store: Store) -> None:
    real = dt.datetime.now(dt.UTC)
    loaded = settings(a="* * * * *")
    audits.pause(loaded, store, "a", by="me")
    assert scheduler.due_audits(loaded, store, real) == [] and scheduler.request_due(loaded, store, real, "me") == []
    audits.unpause(loaded, store, "a", by="me")
    later = real + 2 * MINUTE
    assert [one.audit for one in scheduler.due_audits(loaded, store, later)] == ["a"]
    assert not [one for one in scheduler.due_audits(loaded, store, real - MINUTE) if one.tick > real]


def test_clock_set_back_repeats_no_tick(store: Store) -> None:
    loaded = settings(a="*/10 * * * *")
    requested = []
    for minutes in (0, 10, 20, 12, 5, 10, 21, 30):
        requested += scheduler.request_due(loaded, store, NOON + minutes * MINUTE, "me")
        for run in requested:
            run_lifecycle.request_cancel(store, run)
    assert len(requested) == 4


def test_tick_stays_due_while_the_queue_is_full(store: Store) -> None:
    loaded = settings(a="0 12 * * *", b="0 12 * * *")
    loaded = loaded.model_copy(update={"service": loaded.service.model_copy(update={"queue": 1})})
    with pytest.raises(QueueFull):
        scheduler.request_due(loaded, store, NOON, "me")
    assert [one.audit for one in scheduler.due_audits(loaded, store, NOON + MINUTE)] == ["b"]
    assert queue.claim_run(store)
    assert len(scheduler.request_due(loaded, store, NOON + MINUTE, "me")) == 1


def test_tick_joins_a_waiting_run(store: Store) -> None:
    loaded = settings(a="*/10 * * * *")
    assert len(scheduler.request_due(loaded, store, NOON, "me")) == 1
    assert (
        scheduler.request_due(loaded, store, NOON + 10 * MINUTE, "me") == []
        and scheduler.due_audits(loaded, store, NOON + 11 * MINUTE) == []
    )
    assert queue.count_waiting(store) == 1


def test_ticker_logs_a_failure_once_and_continues(
    store: Store, monkeypatch: pytest.MonkeyPatch, set_durations: SetDurations, caplog: pytest.LogCaptureFixture
) -> None:
    set_durations(ticker_poll=0.01)
    loaded = settings(a="0 12 * * *")
    calls: list[dt.datetime] = []

    def failing(*arguments: Any) -> list[str]:
        calls.append(arguments[2])
        raise QueueFull("full") if len(calls) < 10 else RuntimeError("a bug")

    monkeypatch.setattr(scheduler, "request_due", failing)
    ticker = scheduler.Ticker(loaded, store, "me", clock=lambda: NOON)
    ticker.start()
    while len(calls) < 12:
        time.sleep(0.01)
    ticker.stop()
    assert [record.getMessage() for record in caplog.records].count("due runs were postponed: full") == 1


def test_printed_crontab_line_is_quoted_correctly(tmp_path: Path) -> None:
    text = scheduler.crontab(settings(a="30 6 * * *"), tmp_path / "50%'s" / "auditor.yaml")
    [line] = [line for line in text.splitlines() if not line.startswith("#")]
    assert line.startswith("* * * * * ") and "50\\%" in line
    assert shlex.split(line.removeprefix("* * * * * ").replace("\\%", "%"))[-1].endswith("50%'s/auditor.yaml")
    assert "a: 30 6 * * * (UTC)" in text and "kind: CronJob" in text


def test_a_crontab_names_the_variables_that_the_configuration_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "auditor.yaml"
    path.write_text(
        "# ${COMMENTED} is read by nobody\n"
        'connections:\n  c: {url: "mysql://reader:${SHOP_PASSWORD}@db/shop"}\n  d: {url: "duckdb:///${file:/dev/null}"}\n'
        'notify: {channels: {ops: {url: "${OPS_URL}"}, more: {url: "json://${OPS_HOST}/${SHOP_PASSWORD}"}}}\n'
        "audits:\n  a: {source: {connection: c, table: t}, target: {connection: d, table: t}, schedule: '30 6 * * *'}\n"
        f"store: {{url: 'sqlite:///{tmp_path}/s.db'}}\n"
    )
    for name, value in (("SHOP_PASSWORD", "s3cr3t-4711"), ("OPS_URL", "json://ops"), ("OPS_HOST", "ops")):
        monkeypatch.setenv(name, value)
    assert main(["crontab", "--config", str(path)]) == 0
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    assert [line for line in lines if line.endswith("=")] == ["# SHOP_PASSWORD=", "# OPS_URL=", "# OPS_HOST="] and "s3cr3t" not in printed
    job = yaml.safe_load("\n".join(line.removeprefix("#   ") for line in lines[lines.index("#   apiVersion: batch/v1") :]))
    [container] = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert [one["name"] for one in container["env"]] == ["SHOP_PASSWORD", "OPS_URL", "OPS_HOST"]
    assert container["env"][0]["valueFrom"] == {"secretKeyRef": {"name": "auditor", "key": "SHOP_PASSWORD"}}


def test_changed_schedule_is_not_due_for_ticks_before_the_last_claim(store: Store) -> None:
    assert len(scheduler.request_due(settings(a="0 * * * *"), store, NOON, "me")) == 1
    assert scheduler.due_audits(settings(a="30 11 * * *"), store, NOON + 10 * MINUTE) == []
    assert scheduler.due_audits(settings(a="5 12 * * *"), store, NOON + 10 * MINUTE) == [scheduler.DueAudit("a", NOON + 5 * MINUTE)]


def test_many_audits_are_due_at_once(store: Store) -> None:
    loaded = settings(**{f"a{number}": "* * * * *" for number in range(1_500)})
    assert len(scheduler.due_audits(loaded, store, NOON)) == 1_500


def test_old_claims_do_not_block_new_ticks(store: Store) -> None:
    loaded = settings(a="0 12 * * *")
    queue.claim_tick(store, "a", NOON - 40 * DAY, "me")
    assert [one.tick for one in scheduler.due_audits(loaded, store, NOON - 60 * MINUTE)] == [NOON - DAY]
