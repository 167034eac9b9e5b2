"""The report of a day: what it gathers, in which order, and how each format tells it."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from auditor.config import Settings
from auditor.model import State, Verdict
from auditor.report import daily, day, html, plain, rendered, trend
from auditor.report.day import Day
from auditor.store import Store, open_store, runs, standing
from auditor.store.runs import Point
from tests.test_report_run import check_page
from tests.test_report_samples import HOSTILE, NOW, earlier, made

HOUR = dt.timedelta(hours=1)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Settings, Store]]:
    configured, store = made(tmp_path_factory.mktemp("sample"))
    yield configured, store
    store.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path}/store.db")
    yield opened
    opened.close()


def configured(*names: str, **audit: Any) -> Settings:
    ends = {side: {"connection": "c", "table": "t"} for side in ("source", "target")}
    return Settings.model_validate({"connections": {"c": {"url": "duckdb:///x"}}, "audits": {name: {**ends, **audit} for name in names}})


def gathered(store: Store, *names: str, now: dt.datetime = NOW, **audit: Any) -> Day:
    return day.day(store, configured(*names, **audit), now.date(), now)


# what is gathered


def test_the_sample(sample: tuple[Settings, Store]) -> None:
    found = day.day(sample[1], sample[0], NOW.date(), NOW)
    assert [(one.audit, one.status) for one in found.entries] == [
        ("events", "mismatch"), ("ledger", "mismatch"), ("orders", "mismatch"), ("payments", "unknown"), ("visits", "stale"),
        ("returns", "never"), ("customers", "match"), ("stock", "match"), ("old_stock", "stale"),
    ]  # fmt: skip
    assert [one.audit for one in found.attention] == ["events", "ledger", "orders", "payments", "visits", "returns"]
    assert found.counts == {"mismatch": 3, "unknown": 1, "stale": 1, "never": 1, "match": 2}
    entries = {one.audit: one for one in found.entries}
    orders = entries["orders"]
    assert (orders.same, len(orders.trend), orders.threshold and orders.threshold.score) == (10, 30, 0.999)
    assert orders.report and orders.report.differences and len(orders.report.differences.named) == 8
    assert orders.verified_age and plain.ago(orders.verified_age) == "10 d"
    assert entries["customers"].running == "run cccccccccccc is going on, since 2026-03-18 07:04:00 UTC: reading"
    ledger = entries["ledger"]
    assert ledger.combined and plain.bounds(ledger.combined) == "0.99995"
    assert [leg.status for leg in ledger.legs] == ["mismatch", "match"]
    assert not any(one.audit.startswith("ledger.") for one in found.entries)


def test_a_page_has_links_where_the_file_names_commands(sample: tuple[Settings, Store]) -> None:
    found = day.day(sample[1], sample[0], NOW.date(), NOW)
    links = html.Links(audit=lambda name: f"/a/{name}", run=lambda run: f"/r/{run}")
    part, whole = html.day_part(found, links), html.day(found)
    orders = next(one for one in found.entries if one.audit == "orders")
    assert orders.run and f'<a href="/r/{orders.run.run}">its run</a>' in part
    assert '<a href="/a/orders"><bdi>orders</bdi></a>' in part
    assert "auditor show" not in part and "<body>" not in part and "/a/old_stock" not in part, "which is no longer configured"
    assert f"<code>auditor show {orders.run.run[:12]}</code>" in whole and "<a href" not in whole


def test_rows_and_their_partitions_are_told(sample: tuple[Settings, Store]) -> None:
    found = day.day(sample[1], sample[0], NOW.date(), NOW)
    assert "in the partitions: keys 384 to 447; keys 4,672 to 4,735;" in rendered.day(found, "text").replace("\n", " ")
    page = rendered.day(found, "html")
    assert "Rows that differ" in page and "Partitions that differ" in page and "And 19 more." in page


def test_an_empty_store(store: Store) -> None:
    for names in ((), ("orders",)):
        found = gathered(store, *names)
        assert [one.status for one in found.entries] == ["never"] * len(names)
        for form in rendered.FORMATS:
            assert rendered.day(found, form)
    assert "no audits" in rendered.day(gathered(store), "text") and "There are no audits" in rendered.day(gathered(store), "html")


def test_the_latest_run_of_the_day_or_before(store: Store) -> None:
    for hours, score in ((60, 0.9), (50, 1.0), (30, 0.8), (3, 1.0), (2, 0.7)):
        earlier(store, "a", NOW - hours * HOUR, score)
    now = gathered(store, "a").entries[0]
    assert now.run and now.run.score == 0.7 and now.age == pytest.approx(2 * 3600 - 40)
    yesterday = gathered(store, "a", now=NOW - 24 * HOUR).entries[0]
    assert yesterday.run and yesterday.run.score == 0.8 and len(yesterday.trend) == 3
    past = day.day(store, configured("a"), (NOW - 48 * HOUR).date(), NOW)
    assert past.at == dt.datetime(2026, 3, 17, tzinfo=dt.UTC) and past.entries[0].run and past.entries[0].run.score == 1.0
    assert gathered(store, "a", now=NOW - 100 * HOUR).entries[0].status == "never"


def test_a_run_of_long_ago_is_still_the_latest(store: Store) -> None:
    earlier(store, "a", NOW - dt.timedelta(days=100))
    (entry,) = gathered(store, "a").entries
    assert entry.status == "stale" and entry.why[-1] == "its last run ended 99 d 23 h ago" and entry.run


@pytest.mark.parametrize(("every", "last", "status"), [(1, 23, "match"), (1, 25, "stale"), (168, 300, "match"), (168, 340, "stale")])
def test_stale_is_late_for_its_habits(store: Store, every: int, last: int, status: str) -> None:
    for number in (2, 1, 0):
        earlier(store, "a", NOW - (last + number * every) * HOUR)
    assert gathered(store, "a").entries[0].status == status


def test_a_scheduled_audit_is_late_when_it_was_due(store: Store) -> None:
    earlier(store, "a", NOW - 26 * HOUR)  # at 05:05 on the day before
    weekly: dict[str, Any] = {"schedule": {"cron": "0 6 * * 1", "timezone": "Europe/Berlin"}}
    assert gathered(store, "a", **weekly).entries[0].status == "match"
    assert (
        gathered(store, "a", schedule="30 6 * * *").entries[0].why[-1] == "it was due at 2026-03-17 06:30:00 UTC, and has not begun since"
    )
    earlier(store, "a", NOW - 24 * HOUR)
    assert gathered(store, "a", schedule="30 6 * * *").entries[0].status == "match"
    assert gathered(store, "a", schedule="30 5 * * *").entries[0].status == "stale"


def test_paused_audits_are_not_late(store: Store) -> None:
    earlier(store, "a", NOW - 100 * HOUR)
    standing.update(store, "a", paused=True)
    (entry,) = gathered(store, "a").entries
    assert (entry.status, entry.paused) == ("match", True)


def test_a_first_run_that_is_going_on(store: Store) -> None:
    runs.begin(store, run="a" * 32, audit="a", definition={}, method="exact")
    (entry,) = day.day(store, configured("a"), dt.datetime.now(dt.UTC).date()).entries
    assert entry.status == "unknown" and entry.why == ("its first run is going on",) and "aaaaaaaaaaaa is going on" in entry.running


def test_runs_that_failed_or_were_cancelled_claim_nothing(store: Store) -> None:
    earlier(store, "a", NOW - 2 * HOUR)
    nothing: dict[str, Any] = {"verdict": Verdict.UNKNOWN, "verified_through": None}
    earlier(store, "a", NOW - HOUR, None, state=State.FAILED, reasons=("no route to host",), resumable=True, **nothing)
    (entry,) = gathered(store, "a").entries
    assert (entry.status, entry.why) == ("unknown", ("no route to host",))
    assert entry.verified_through == NOW - 2 * HOUR
    earlier(store, "a", NOW - HOUR / 2, None, state=State.CANCELLED, reasons=("the run was cancelled",), **nothing)
    (entry,) = gathered(store, "a").entries
    assert entry.status == "unknown" and len(entry.trend) == 2


def test_a_report_that_cannot_be_read_is_said_so(store: Store) -> None:
    earlier(store, "a", NOW - HOUR, 0.5, report=b"{}")
    (entry,) = gathered(store, "a").entries
    assert entry.report is None and "its report can no longer be read" in entry.why


def test_an_audit_by_way_of_a_dump_that_was_never_run(store: Store) -> None:
    (entry,) = gathered(store, "a", key=["id"], via={"connection": "c", "table": "dump.parquet"}).entries
    assert (entry.status, [leg.audit for leg in entry.legs]) == ("never", ["a.dump", "a.target"])
    earlier(store, "a.dump", NOW - HOUR)
    (entry,) = gathered(store, "a", key=["id"], via={"connection": "c", "table": "dump.parquet"}).entries
    assert entry.status == "unknown" and "dump and target were never compared" in entry.why


def test_many_runs_are_read_page_by_page(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(day, "PAGE", 3)
    for number in range(8, 0, -1):
        earlier(store, f"a{number % 2}", NOW - number * HOUR)
    found = gathered(store, "a0", "a1")
    assert [len(one.trend) for one in found.entries] == [4, 4]


# how it is told


@pytest.mark.parametrize("form", rendered.FORMATS)
def test_every_format_names_what_differs(sample: tuple[Settings, Store], form: str) -> None:
    text = rendered.day(day.day(sample[1], sample[0], NOW.date(), NOW), form)
    for words in ("events", "returns", "ledger.dump", "4711", "0.965472", "old_stock", "amount sum", "there is no table payments"):
        assert words in text, words
    assert "lost" not in text and "card 4711" not in text
    if form == "html":
        check_page(text)
        assert text.count("<svg") > 10
    if form == "json":
        found = json.loads(text)
        assert list(found) == ["date", "at", "counts", "audits"]
        assert len({tuple(one) for one in found["audits"]}) == 1


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_hostile_names_and_reasons(store: Store, form: str) -> None:
    earlier(store, HOSTILE, NOW - HOUR, 0.5, reasons=(HOSTILE,))
    earlier(store, f"old{HOSTILE}", NOW - HOUR, reasons=(HOSTILE,))
    text = rendered.day(gathered(store, HOSTILE), form)
    assert "\x1b" not in text and "\u202e" not in text
    if form != "text":
        assert "<script" not in text
    if form == "html":
        check_page(text)


# trends


def point(hours: float, score: float | None, verdict: Verdict = Verdict.MATCH) -> Point:
    return Point(run="r", at=NOW - hours * HOUR, verdict=verdict, score=score, lower=score, upper=score)


def test_blocks_are_high_only_for_a_whole_match() -> None:
    bad, none = Verdict.MISMATCH, Verdict.UNKNOWN
    points = [point(5, 1.0), point(4, 0.5, bad), point(3, 0.999999, bad), point(2, None, none), point(1, None, bad)]
    assert trend.blocks(points) == "█▁▇?!"
    assert trend.blocks([]) == "" and trend.blocks([point(1, 0.3, bad)]) == "▁"


def test_more_points_than_room_keep_the_worst() -> None:
    points = [point(1000 - n, 1.0) for n in range(1000)]
    points[437] = point(563, 0.2, Verdict.MISMATCH)
    assert len(trend.blocks(points)) == 30 and trend.blocks(points).count("▁") == 1
    drawn = trend.line(points, NOW - dt.timedelta(days=50), NOW)
    assert drawn and len(drawn.marks) == trend.MOST and sum(mark.verdict == "mismatch" for mark in drawn.marks) == 1


def test_a_line_stays_within_its_drawing() -> None:
    points = [replace(point(h, 0.5), lower=0.1, upper=1.0) for h in (900, 10, 0, -5)]
    drawn = trend.line(points, NOW - dt.timedelta(days=30), NOW)
    assert drawn and all(0 <= mark.x <= drawn.width and 0 <= mark.y <= drawn.height for mark in drawn.marks) and drawn.least == 0.1
    assert trend.line(points[:1], NOW, NOW) is None


# words


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0, "0 s"), (59.6, "1 min"), (3600, "1 h"), (3660, "1 h 1 min"), (90061, "1 d 1 h"), (86405, "1 d"), (-5, "0 s")],
)
def test_ages(seconds: float, told: str) -> None:
    assert plain.ago(seconds) == told


def test_shares_are_never_rounded_to_all_or_nothing() -> None:
    assert [plain.rounded(x) for x in (1.0, 0.0, 0.5, 0.99999999, 1 - 2**-50)] == ["1", "0", "0.5", "0.99999999", "0.99999999999999911"]
    assert [plain.percent(x) for x in (1.0, 0.99999, 0.5, 0.0)] == ["100%", "99.99%", "50.00%", "0.00%"]
    assert daily.word("never") == "never run"
