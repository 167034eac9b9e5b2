"""The report of a day: what it loads, in which order, and how each format renders it."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from auditor.config import Settings
from auditor.history.audit_status import status_label
from auditor.model import State, Verdict
from auditor.quantities import format_duration
from auditor.report import day, formatting, html, render, sparkline
from auditor.report.day import Day
from auditor.store import Store, audit_state, open_store, run_lifecycle
from auditor.store.runs import ScorePoint
from tests.unit.test_report_run import check_page
from tests.unit.test_report_samples import HOSTILE, NOW, create_sample, store_past_run

HOUR = dt.timedelta(hours=1)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Settings, Store]]:
    configured, store = create_sample(tmp_path_factory.mktemp("sample"))
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


def load(store: Store, *names: str, now: dt.datetime = NOW, **audit: Any) -> Day:
    return day.load_day(store, configured(*names, **audit), now.date(), now)


# loading


def test_the_sample(sample: tuple[Settings, Store]) -> None:
    found = day.load_day(sample[1], sample[0], NOW.date(), NOW)
    assert [(one.audit, one.status) for one in found.entries] == [
        ("events", "mismatch"), ("ledger", "mismatch"), ("orders", "mismatch"), ("payments", "stale"), ("visits", "stale"),
        ("returns", "never"), ("customers", "match"), ("stock", "match"), ("old_stock", "stale"),
    ]  # fmt: skip
    assert [one.audit for one in found.attention] == ["events", "ledger", "orders", "payments", "visits", "returns"]
    assert found.counts == {
        "mismatch": 3, "unknown": 0, "stale": 2, "never": 1, "running": 0, "within_threshold": 0, "match": 2,
    }  # fmt: skip
    entries = {one.audit: one for one in found.entries}
    orders = entries["orders"]
    assert (orders.streak, len(orders.trend), orders.threshold and orders.threshold.score) == (10, 30, 0.999)
    assert orders.report and orders.report.differences is not None and len(orders.report.differences.named) == 8
    assert orders.verified_age and format_duration(orders.verified_age) == "10 d"
    assert entries["customers"].running == "run cccccccccccc has been running since 2026-03-18 07:04:00 UTC: reading"
    ledger = entries["ledger"]
    assert ledger.combined and formatting.bounds(ledger.combined) == "0.99995"
    assert [leg.status for leg in ledger.legs] == ["mismatch", "match"]
    assert not any(one.audit.startswith("ledger.") for one in found.entries)


def test_a_fragment_has_links_and_a_file_names_commands(sample: tuple[Settings, Store]) -> None:
    found = day.load_day(sample[1], sample[0], NOW.date(), NOW)
    links = html.Links(audit=lambda name: f"/a/{name}", run=lambda run: f"/r/{run}")
    fragment, page = html.day_fragment(found, links), html.day(found)
    orders = next(one for one in found.entries if one.audit == "orders")
    assert orders.run and f'<a href="/r/{orders.run.run}">this run</a>' in fragment
    assert '<a href="/a/orders"><bdi>orders</bdi></a>' in fragment
    assert "auditor show" not in fragment and "<body>" not in fragment and "/a/old_stock" not in fragment, "no longer configured"
    assert f"<code>auditor show {orders.run.run[:12]}</code>" in page and '<a href="/' not in page


def test_rows_and_their_partitions_are_listed(sample: tuple[Settings, Store]) -> None:
    found = day.load_day(sample[1], sample[0], NOW.date(), NOW)
    assert "in the partitions: keys 384 to 447; keys 4,672 to 4,735;" in render.day(found, "text").replace("\n", " ")
    page = render.day(found, "html")
    assert "Rows that differ" in page and "Partitions that differ" in page and "<summary>And 19 more</summary>" in page
    events = next(one for one in found.entries if one.audit == "orders")
    assert events.report and events.report.comparison
    labels = [one.label for one in events.report.comparison.divergent]
    assert len(labels) == 24 and all(f"<bdi>{label}</bdi>" in page for label in labels), "all are there, folded"


def test_a_report_has_an_index_at_its_head(sample: tuple[Settings, Store]) -> None:
    found = day.load_day(sample[1], sample[0], NOW.date(), NOW)
    page = html.day(found)
    index = page[page.index('aria-label="Index"') : page.index("<h2>Needs attention")]
    assert re.findall(r'href="#([\w-]+)"', index) == [*(f"audit-{number}" for number in range(1, 7)), "other-audits"]
    for place, entry in enumerate(found.attention, 1):
        assert f'<a href="#audit-{place}"><bdi>{entry.audit}</bdi></a>' in index and f'<section id="audit-{place}"' in page
    assert ">3 other audits</a>" in index and '<h2 id="other-audits">' in page


def test_an_empty_store(store: Store) -> None:
    for names in ((), ("orders",)):
        found = load(store, *names)
        assert [one.status for one in found.entries] == ["never"] * len(names)
        for form in render.FORMATS:
            assert render.day(found, form)
    assert "no audits" in render.day(load(store), "text") and "There are no audits" in render.day(load(store), "html")


def test_the_latest_run_of_the_day_or_before(store: Store) -> None:
    for hours, score in ((60, 0.9), (50, 1.0), (30, 0.8), (3, 1.0), (2, 0.7)):
        store_past_run(store, "a", NOW - hours * HOUR, score)
    now = load(store, "a").entries[0]
    assert now.run and now.run.score == 0.7 and now.age == pytest.approx(2 * 3600 - 40)
    yesterday = load(store, "a", now=NOW - 24 * HOUR).entries[0]
    assert yesterday.run and yesterday.run.score == 0.8 and len(yesterday.trend) == 3
    past = day.load_day(store, configured("a"), (NOW - 48 * HOUR).date(), NOW)
    assert past.at == dt.datetime(2026, 3, 17, tzinfo=dt.UTC) and past.entries[0].run and past.entries[0].run.score == 1.0
    assert load(store, "a", now=NOW - 100 * HOUR).entries[0].status == "never"


def test_an_old_run_is_still_the_latest(store: Store) -> None:
    store_past_run(store, "a", NOW - dt.timedelta(days=100))
    (entry,) = load(store, "a").entries
    assert entry.status == "stale" and entry.reasons[-1] == "its last verdict is 100 days old" and entry.run


@pytest.mark.parametrize(("every", "last", "status"), [(1, 23, "match"), (1, 25, "stale"), (168, 300, "match"), (168, 340, "stale")])
def test_an_unscheduled_audit_is_stale_after_twice_its_usual_interval(store: Store, every: int, last: int, status: str) -> None:
    for number in (2, 1, 0):
        store_past_run(store, "a", NOW - (last + number * every) * HOUR)
    assert load(store, "a").entries[0].status == status


def test_a_scheduled_audit_is_stale_when_late(store: Store) -> None:
    store_past_run(store, "a", NOW - 26 * HOUR)  # at 05:05 on the day before
    weekly: dict[str, Any] = {"schedule": {"cron": "0 6 * * 1", "timezone": "Europe/Berlin"}}
    assert load(store, "a", **weekly).entries[0].status == "match"
    assert (
        load(store, "a", schedule="30 6 * * *").entries[0].reasons[-1] == "it was due at 2026-03-17 06:30:00 UTC and has not started since"
    )
    store_past_run(store, "a", NOW - 24 * HOUR)
    assert load(store, "a", schedule="30 6 * * *").entries[0].status == "match"
    assert load(store, "a", schedule="30 5 * * *").entries[0].status == "stale"


def test_paused_audits_are_not_stale(store: Store) -> None:
    store_past_run(store, "a", NOW - 100 * HOUR)
    audit_state.update_state(store, "a", paused=True)
    (entry,) = load(store, "a").entries
    assert (entry.status, entry.paused) == ("match", True)


def test_a_first_run_in_progress(store: Store) -> None:
    run_lifecycle.start_run(store, run="a" * 32, audit="a", definition={}, method="exact")
    (entry,) = day.load_day(store, configured("a"), dt.datetime.now(dt.UTC).date()).entries
    assert (
        entry.status == "running"
        and entry.reasons == ("its first run has not ended yet",)
        and "aaaaaaaaaaaa has been running" in entry.running
    )


def test_failed_and_cancelled_runs_stand_beside_the_last_verdict(store: Store) -> None:
    store_past_run(store, "a", NOW - 3 * HOUR, 0.7)
    nothing: dict[str, Any] = {"verdict": Verdict.UNKNOWN, "verified_through": None}
    store_past_run(store, "a", NOW - HOUR, None, state=State.FAILED, reasons=("no route to host",), resumable=True, **nothing)
    found = load(store, "a")
    (entry,) = found.attention
    assert entry.status == "mismatch" and entry.run and entry.run.score == 0.7 and entry.age == pytest.approx(3 * 3600 - 40)
    note = "the last run failed on 2026-03-18 06:05 UTC: no route to host"
    assert entry.standing.last_run == note
    for form in render.FORMATS:
        assert form == "json" or note in " ".join(render.day(found, form).split()), form
    store_past_run(store, "a", NOW - HOUR / 2, None, state=State.CANCELLED, reasons=("the run was cancelled",), **nothing)
    (entry,) = load(store, "a").entries
    assert entry.status == "mismatch" and len(entry.trend) == 2 and "was cancelled on" in entry.standing.last_run


def test_match_whose_last_run_failed_needs_attention(store: Store) -> None:
    store_past_run(store, "a", NOW - 2 * HOUR)
    store_past_run(store, "a", NOW - HOUR, None, state=State.FAILED, verdict=Verdict.UNKNOWN, reasons=("no route to host",))
    (entry,) = load(store, "a").attention
    assert entry.status == "match" and entry.standing.has_failed and entry.age == pytest.approx(2 * 3600 - 40)


def test_a_corrupt_report_is_mentioned(store: Store) -> None:
    store_past_run(store, "a", NOW - HOUR, 0.5, report=b"{}")
    (entry,) = load(store, "a").entries
    assert entry.report is None and "its report cannot be read any more" in entry.reasons


def test_a_proxy_audit_that_never_ran(store: Store) -> None:
    (entry,) = load(store, "a", key=["id"], via={"connection": "c", "table": "dump.parquet"}).entries
    assert (entry.status, [leg.audit for leg in entry.legs]) == ("never", ["a.dump", "a.target"])
    store_past_run(store, "a.dump", NOW - HOUR)
    (entry,) = load(store, "a", key=["id"], via={"connection": "c", "table": "dump.parquet"}).entries
    assert entry.status == "unknown" and "dump and target were never compared" in entry.reasons


def test_runs_are_loaded_in_pages(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(day, "PAGE_SIZE", 3)
    for number in range(8, 0, -1):
        store_past_run(store, f"a{number % 2}", NOW - number * HOUR)
    found = load(store, "a0", "a1")
    assert [len(one.trend) for one in found.entries] == [4, 4]


# formats


@pytest.mark.parametrize("form", [form for form in render.FORMATS if form != "junit"])
def test_every_format_names_what_differs(sample: tuple[Settings, Store], form: str) -> None:
    text = render.day(day.load_day(sample[1], sample[0], NOW.date(), NOW), form)
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
    store_past_run(store, HOSTILE, NOW - HOUR, 0.5, reasons=(HOSTILE,))
    store_past_run(store, f"old{HOSTILE}", NOW - HOUR, reasons=(HOSTILE,))
    text = render.day(load(store, HOSTILE), form)
    assert "\x1b" not in text and "\u202e" not in text
    if form != "text":
        assert "<script" not in text
    if form == "html":
        check_page(text)


# trends


def point(hours: float, score: float | None, verdict: Verdict = Verdict.MATCH) -> ScorePoint:
    return ScorePoint(run="r", at=NOW - hours * HOUR, verdict=verdict, score=score, lower=score, upper=score)


def test_only_a_score_of_1_is_a_full_block() -> None:
    bad, none = Verdict.MISMATCH, Verdict.UNKNOWN
    points = [point(5, 1.0), point(4, 0.5, bad), point(3, 0.999999, bad), point(2, None, none), point(1, None, bad)]
    assert sparkline.blocks(points) == "█▁▇?!"
    assert sparkline.blocks([]) == "" and sparkline.blocks([point(1, 0.3, bad)]) == "▁"


def test_downsampling_keeps_the_worst() -> None:
    points = [point(1000 - n, 1.0) for n in range(1000)]
    points[437] = point(563, 0.2, Verdict.MISMATCH)
    assert len(sparkline.blocks(points)) == 30 and sparkline.blocks(points).count("▁") == 1
    drawn = sparkline.line(points, NOW - dt.timedelta(days=50), NOW)
    assert drawn and len(drawn.marks) == sparkline.MAX_POINTS and sum(mark.verdict == "mismatch" for mark in drawn.marks) == 1


def test_a_line_stays_inside_its_drawing() -> None:
    points = [replace(point(h, 0.5), lower=0.1, upper=1.0) for h in (900, 10, 0, -5)]
    drawn = sparkline.line(points, NOW - dt.timedelta(days=30), NOW)
    assert drawn and all(0 <= mark.x <= drawn.width and 0 <= mark.y <= drawn.height for mark in drawn.marks) and drawn.lowest == 0.1
    assert sparkline.line(points[:1], NOW, NOW) is None


# formatting


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.6, "1 min"), (3600, "1 h"), (3660, "1 h 1 min"), (90061, "1 d 1 h"), (86405, "1 d"), (-5, "0 s")],
)
def test_durations(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_shares_are_never_rounded_to_0_or_1() -> None:
    assert [formatting.rounded(x) for x in (1.0, 0.0, 0.5, 0.99999999, 1 - 2**-50)] == [
        "1",
        "0",
        "0.5",
        "0.99999999",
        "0.99999999999999911",
    ]
    assert [formatting.percent(x) for x in (1.0, 0.99999, 0.5, 0.0)] == ["100%", "99.99%", "50.00%", "0.00%"]
    assert status_label("never") == "never run"
