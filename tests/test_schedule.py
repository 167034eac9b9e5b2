"""When audits are due: over clocks that jump, once whoever asks, and what becomes of ticks that were missed."""

from __future__ import annotations

import datetime as dt
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from auditor import config, schedule, ticks
from auditor.config import Schedule, Settings
from auditor.errors import QueueFull
from auditor.service import audits
from auditor.store import Store, claims, open_store, queue, runs

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
    found = {name: {**one, "schedule": value} for name, value in schedules.items()}
    return config.checked({"connections": {"a": {"url": "duckdb:///a.duckdb"}}, "audits": found})


def local(zone: str, *moment: int, fold: int = 0) -> dt.datetime:
    year, month, day, hour, minute = moment
    return dt.datetime(year, month, day, hour, minute, tzinfo=ZoneInfo(zone), fold=fold).astimezone(dt.UTC)


@pytest.mark.parametrize(("zone", "day"), [(BERLIN, (2026, 3, 29)), (NEW_YORK, (2026, 3, 8))])
def test_a_time_that_does_not_exist_comes_when_the_clock_has_leapt(zone: str, day: tuple[int, int, int]) -> None:
    one = Schedule(cron="30 2 * * *", timezone=zone)
    found = ticks.next_times(one, local(zone, *day, 0, 0) - DAY, 4, "a")
    shown = [at.astimezone(ZoneInfo(zone)).strftime("%d %H:%M") for at in found]
    assert shown == [f"{day[2] - 1:02} 02:30", f"{day[2]:02} 03:00", f"{day[2] + 1:02} 02:30", f"{day[2] + 2:02} 02:30"]


@pytest.mark.parametrize(("zone", "day", "hour"), [(BERLIN, (2026, 10, 25), 2), (NEW_YORK, (2026, 11, 1), 1)])
def test_a_time_that_comes_twice_is_due_once(zone: str, day: tuple[int, int, int], hour: int) -> None:
    one = Schedule(cron=f"30 {hour} * * *", timezone=zone)
    first, second = (local(zone, *day, hour, 30, fold=fold) for fold in (0, 1))
    tomorrow = dt.date(*day) + DAY
    assert second - first == 60 * MINUTE
    assert ticks.next_times(one, first - MINUTE, 1, "a") == [first]
    for later in (first, first + 20 * MINUTE, second - MINUTE, second, second + MINUTE):
        assert ticks.next_times(one, later, 1, "a") == [local(zone, tomorrow.year, tomorrow.month, tomorrow.day, hour, 30)]
        ticks._FOUND.clear()
        assert ticks.last(one, later, "a") == first


@pytest.mark.parametrize("zone", [BERLIN, NEW_YORK, "UTC", "Australia/Lord_Howe", "America/Havana"])
@pytest.mark.parametrize("cron", ["30 2 * * *", "*/15 * * * *", "0 * * * *", "30 1,2,3 * * *", "15 */2 * * *"])
def test_whoever_asks_whenever_finds_the_same_ticks(zone: str, cron: str) -> None:
    """Over a year of hours: the last tick before a moment is always that of the whole year's list."""
    one = Schedule(cron=cron, timezone=zone)
    begin = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    listed = []
    for tick in ticks._ticks(one, begin):
        if tick > begin + 366 * DAY:
            break
        listed.append(tick)
    assert listed == sorted(set(listed))
    position = 0
    for number in range(30 * 24, 365 * 24, 1):
        at = begin + number * 60 * MINUTE + 7 * MINUTE
        while position + 1 < len(listed) and listed[position + 1] <= at:
            position += 1
        jumps = at.month in (3, 4, 10, 11)
        if jumps or number % 97 == 0:
            ticks._FOUND.clear()
            assert ticks.last(one, at, "a") == listed[position], at


def test_jitter_is_the_same_for_one_name_and_differs_between_names() -> None:
    one = Schedule(cron="0 6 * * *", timezone="UTC", jitter=600.0)
    offsets = {name: ticks.offset(one, name) for name in ("orders", "customers", "items", "prices")}
    assert offsets == {name: ticks.offset(one, name) for name in offsets} and len(set(offsets.values())) > 1
    assert all(dt.timedelta() <= late < 10 * MINUTE for late in offsets.values())
    tick = NOON.replace(hour=6)
    late = offsets["orders"]
    assert ticks.next_times(one, tick - MINUTE, 1, "orders") == [tick + late]
    assert ticks.last(one, tick + late, "orders") == tick
    assert ticks.last(one, tick + late - dt.timedelta(seconds=1), "orders") == tick - DAY


def test_rare_and_impossible_ticks() -> None:
    leap = Schedule(cron="0 0 29 2 *", timezone="UTC")
    assert ticks.last(leap, NOON, "a") == dt.datetime(2024, 2, 29, tzinfo=dt.UTC)
    assert ticks.next_times(leap, NOON, 1, "a") == [dt.datetime(2028, 2, 29, tzinfo=dt.UTC)]


def test_an_audit_is_due_once_at_its_tick(store: Store) -> None:
    here = settings(a="0 12 * * *", b={"cron": "0 12 * * *", "timezone": BERLIN})
    before = NOON - MINUTE
    assert schedule.due(here, store, before) == [] and schedule.tick(here, store, before, "me") == []
    assert schedule.due(here, store, NOON) == [schedule.Due("a", NOON)]
    [run] = schedule.tick(here, store, NOON, "me")
    assert schedule.tick(here, store, NOON, "another") == [] and schedule.due(here, store, NOON + 5 * MINUTE) == []
    found = runs.find(store, run)
    assert (found.audit, found.state, found.requested_by, found.reason) == ("a", "pending", "schedule", "due since 2026-06-01 12:00 UTC")


def test_of_ticks_that_were_missed_the_last_is_caught_up_or_none(store: Store) -> None:
    here = settings(a={"cron": "0 * * * *"}, b={"cron": "0 * * * *", "catch_up": "none"})
    assert schedule.tick(here, store, NOON + 30 * MINUTE, "me") == []  # both are seen for the first time, and have missed nothing
    assert schedule.due(here, store, NOON + DAY + 7 * MINUTE) == [schedule.Due("a", NOON + DAY)]
    assert [one.audit for one in schedule.due(here, store, NOON + DAY + 4 * MINUTE)] == ["a", "b"]
    assert len(schedule.tick(here, store, NOON + DAY + 7 * MINUTE, "me")) == 1
    assert schedule.due(here, store, NOON + DAY + 8 * MINUTE) == []
    assert [one.audit for one in schedule.due(here, store, NOON + DAY + 60 * MINUTE)] == ["a", "b"]


def test_what_was_scheduled_when_a_process_died_is_taken_up_by_the_next(store: Store) -> None:
    here = settings(a="0 12 * * *")
    schedule.tick(here, store, NOON - 60 * MINUTE, "killed before its first tick")
    assert len(schedule.tick(here, store, NOON + 180 * MINUTE, "started later")) == 1


def test_a_paused_audit_is_not_due(store: Store) -> None:
    real = dt.datetime.now(dt.UTC)
    here = settings(a="* * * * *")
    audits.pause(here, store, "a", by="me")
    assert schedule.due(here, store, real) == [] and schedule.tick(here, store, real, "me") == []
    audits.unpause(here, store, "a", by="me")
    later = real + 2 * MINUTE
    assert [one.audit for one in schedule.due(here, store, later)] == ["a"]
    assert not [one for one in schedule.due(here, store, real - MINUTE) if one.tick > real]


def test_a_clock_that_is_set_back_brings_no_tick_twice(store: Store) -> None:
    here = settings(a="*/10 * * * *")
    made = []
    for minutes in (0, 10, 20, 12, 5, 10, 21, 30):
        made += schedule.tick(here, store, NOON + minutes * MINUTE, "me")
        for run in made:
            runs.ask_cancel(store, run)
    assert len(made) == 4


def test_a_tick_that_finds_the_queue_full_is_due_as_before(store: Store) -> None:
    here = settings(a="0 12 * * *", b="0 12 * * *")
    here = here.model_copy(update={"service": here.service.model_copy(update={"queue": 1})})
    with pytest.raises(QueueFull):
        schedule.tick(here, store, NOON, "me")
    assert [one.audit for one in schedule.due(here, store, NOON + MINUTE)] == ["b"]
    assert queue.claim(store)
    assert len(schedule.tick(here, store, NOON + MINUTE, "me")) == 1


def test_a_tick_joins_the_run_that_waits(store: Store) -> None:
    here = settings(a="*/10 * * * *")
    assert len(schedule.tick(here, store, NOON, "me")) == 1
    assert schedule.tick(here, store, NOON + 10 * MINUTE, "me") == [] and schedule.due(here, store, NOON + 11 * MINUTE) == []
    assert queue.waiting(store) == 1


def test_a_ticker_tells_a_failure_once_and_goes_on(store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(schedule, "PERIOD", 0.01)
    here = settings(a="0 12 * * *")
    calls: list[dt.datetime] = []

    def failing(*arguments: Any) -> list[str]:
        calls.append(arguments[2])
        raise QueueFull("full") if len(calls) < 10 else RuntimeError("a bug")

    monkeypatch.setattr(schedule, "tick", failing)
    ticker = schedule.Ticker(here, store, "me", clock=lambda: NOON)
    ticker.start()
    while len(calls) < 12:
        time.sleep(0.01)
    ticker.stop()
    assert [record.getMessage() for record in caplog.records].count("what is due has to wait: full") == 1


def test_what_cron_is_given_runs(tmp_path: Path) -> None:
    text = schedule.crontab(settings(a="30 6 * * *"), tmp_path / "50%'s" / "auditor.yaml")
    [line] = [line for line in text.splitlines() if not line.startswith("#")]
    assert line.startswith("* * * * * ") and "50\\%" in line
    assert shlex.split(line.removeprefix("* * * * * ").replace("\\%", "%"))[-1].endswith("50%'s/auditor.yaml")
    assert "a: 30 6 * * * (UTC)" in text and "kind: CronJob" in text


def test_a_schedule_that_is_changed_has_missed_nothing_before_its_last_tick(store: Store) -> None:
    assert len(schedule.tick(settings(a="0 * * * *"), store, NOON, "me")) == 1
    assert schedule.due(settings(a="30 11 * * *"), store, NOON + 10 * MINUTE) == []
    assert schedule.due(settings(a="5 12 * * *"), store, NOON + 10 * MINUTE) == [schedule.Due("a", NOON + 5 * MINUTE)]


def test_many_audits_at_once(store: Store) -> None:
    here = settings(**{f"a{number}": "* * * * *" for number in range(1_500)})
    assert len(schedule.due(here, store, NOON)) == 1_500


def test_claims_of_long_ago_do_not_stand_in_the_way(store: Store) -> None:
    here = settings(a="0 12 * * *")
    claims.claim(store, "a", NOON - 40 * DAY, "me")
    assert [one.tick for one in schedule.due(here, store, NOON - 60 * MINUTE)] == [NOON - DAY]
