"""What the channels are told about pipelines: each problem once, each recovery once, from the store alone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from auditor.api_models.pipeline import (
    PipelineProblem,
    PipelineProgress,
    PipelineStatus,
    ProblemKey,
    TableState,
    TableStatus,
    TargetStatus,
)
from auditor.config import Pipeline, Settings, validate_settings
from auditor.errors import NotifyError
from auditor.service import notify, pipeline_problems
from auditor.service.channels import Message
from auditor.service.pipeline_problems import PipelineNotices, find_problems, look_at_pipelines, problem_message, recovery_message
from auditor.store import Store, open_store, pipelines
from tests.durations import SetDurations

NOW = dt.datetime(2026, 11, 1, 12, tzinfo=dt.UTC)
LAG, DOWN = ProblemKey("lagging"), ProblemKey("down")


def problem(key: ProblemKey, reason: str, notified: bool = False) -> PipelineProblem:
    return PipelineProblem(**key._asdict(), since=NOW, reason=reason, notified=notified)


def table(state: TableState = "merged", lag: float = 0.0, reason: str = "") -> TableStatus:
    return TableStatus(position=0, through=None, events=0, state=state, reason=reason, pending_events=0, pending_bytes=0, lag_seconds=lag)


def status(tables: dict[str, TableStatus] | None = None, **more: Any) -> PipelineStatus:
    target = TargetStatus(pending_events=0, pending_bytes=0, lag_seconds=0.0, max_lag=660.0, tables=tables or {})
    empty: dict[str, Any] = {name: [] for name in ("warnings", "notes", "stopped", "skipped", "migrations", "live_summaries", "partitions")}
    unknown = dict.fromkeys(PipelineStatus.model_fields)
    plain = {"running": True, "paused": False, "paused_by": "", "reason": "", "seen_at": NOW, "lag_seconds": 1.0, "max_lag": 600.0}
    values = {**unknown, **empty, **plain, "pipeline": "shop", "events": 0, "tables": {}, "targets": {"wh": target}, **more}
    return PipelineStatus.model_validate(values)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (status(), {}),
        (status(lag_seconds=601), {LAG: "staging lies more than 10 min behind the source"}),
        (status(lag_seconds=None), {}),
        (status(running=False, lag_seconds=9999), {DOWN: "no process has reported since 2026-11-01 12:00:00 UTC"}),
        (status(running=False, seen_at=None), {}),
        (status(running=False, paused=True, lag_seconds=9999), {}),
        (status(reason="disk\nfull", lag_seconds=9999), {ProblemKey("failing"): "disk full"}),
        (status({"a": table("waiting"), "b": table("delayed", 659, "gone")}), {}),
        (status({"b": table("delayed", 661, "gone")}), {ProblemKey("lagging", "wh", "b"): "it lies more than 11 min behind staging: gone"}),
        (status({"a": table("stopped", 999, "no key")}, paused=True), {ProblemKey("stopped", "wh", "a"): "no key"}),
    ],
)  # fmt: skip
def test_problems_of_a_status(seen: PipelineStatus, expected: dict[ProblemKey, str]) -> None:
    assert find_problems(seen) == expected


def test_a_lag_that_was_told_of_is_over_at_half_the_limit() -> None:
    known = {LAG: problem(LAG, "lags")}
    assert LAG in find_problems(status(lag_seconds=301), known) and LAG not in find_problems(status(lag_seconds=301))
    assert LAG not in find_problems(status(lag_seconds=299), known)


@pytest.mark.parametrize("graver", [{"paused": True}, {"running": False}, {"reason": "disk full"}, {"lag_seconds": 700.0}])
def test_a_graver_problem_does_not_end_a_lag_that_it_hides(graver: dict[str, Any]) -> None:
    hidden = ProblemKey("lagging", "wh", "a")
    known = {hidden: problem(hidden, "lags", notified=True)}
    assert find_problems(status({"a": table()}, **graver), known)[hidden] == "lags"
    assert hidden not in find_problems(status({"a": table()}, **graver))
    untold = {hidden: problem(hidden, "lags")}
    assert (hidden in find_problems(status({"a": table()}, **graver), untold)) == ("paused" not in graver)


def test_a_pipeline_that_ends_again_and_again_is_down_until_a_process_goes_on() -> None:
    known, now = {DOWN: problem(DOWN, "gone")}, NOW + dt.timedelta(seconds=100)
    for age, is_down in ((5, True), (59, True), (61, False)):
        seen = status(began=now - dt.timedelta(seconds=age))
        assert (DOWN in find_problems(seen, known, now)) == is_down
        assert DOWN not in find_problems(seen, {}, now), "a first start is no problem"
    failing = ProblemKey("failing")
    assert failing in find_problems(status(running=False), {failing: problem(failing, "no java")}), "reported although it comes and goes"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path}/store.db")
    yield opened
    opened.close()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Message]]:
    """The messages that were sent, each with its channel; the channel broken fails."""
    found: list[tuple[str, Message]] = []

    def send(name: str, _: object, message: Message) -> None:
        if name == "broken":
            raise NotifyError("channel broken: the service could not be reached")
        found.append((name, message))

    monkeypatch.setattr(notify, "send", send)
    return found


def settings(folder: Path, **channels: dict[str, Any]) -> Settings:
    duckdb = f"duckdb:///{folder}/warehouse.duckdb"
    urls = {"source": {"url": "mysql://nobody@localhost/shop"}, "warehouse": {"url": duckdb, "write": {"url": duckdb}}}
    targets = {"wh": {"connection": "warehouse", "schema": "shop"}}
    shop = {"source": {"connection": "source", "tables": ["*"]}, "staging": {"path": str(folder)}, "targets": targets}
    made = {name: {"url": "json://127.0.0.1:1/", **values} for name, values in channels.items()}
    orders = {"source": {"connection": "source", "table": "t"}, "target": {"connection": "warehouse", "table": "t"}}
    return validate_settings({"connections": urls, "audits": {"orders": orders}, "pipelines": {"shop": shop}, "notify": {"channels": made}})


def progress(at: dt.datetime, behind: float = 0.0) -> PipelineProgress:
    return PipelineProgress(at=at, current_at=at - dt.timedelta(seconds=behind), lag_bytes=int(behind))


def test_a_dead_pipeline_is_told_of_once_and_so_is_its_recovery(store: Store, tmp_path: Path, sent: list[tuple[str, Message]]) -> None:
    chosen = settings(tmp_path, ops={}, others={"on": ["mismatch"]}, audits={"audits": ["orders"]}, only={"on": ["pipeline"]})
    now = dt.datetime.now(dt.UTC)
    assert look_at_pipelines(chosen, store, now) == [], "it never ran"
    died = now - dt.timedelta(minutes=5)
    pipelines.set_progress(store, "shop", progress(died))
    for after in (0, 60, 119):
        look_at_pipelines(chosen, store, now + dt.timedelta(seconds=after))
    assert not sent, "a process that is started again takes less time"
    for after in (120, 180, 7200):
        look_at_pipelines(chosen, store, now + dt.timedelta(seconds=after))
    assert [(name, message.title) for name, message in sent] == [("ops", "shop: STOPPED"), ("only", "shop: STOPPED")]
    assert sent[0][1].lines == (f"no process has reported since {died:%Y-%m-%d %H:%M:%S} UTC", "more: auditor pipeline status shop")
    sent.clear()
    pipelines.set_progress(store, "shop", progress(now + dt.timedelta(days=1)))
    for after in (7300, 7400):
        look_at_pipelines(chosen, store, now + dt.timedelta(seconds=after))
    assert [message.title for _, message in sent] == ["shop: recovered"] * 2
    assert list(sent[0][1].lines) == [f"no process ran it since {now:%Y-%m-%d %H:%M:%S} UTC"]


def test_stopped_tables_are_told_of_at_once_and_together(store: Store, tmp_path: Path, sent: list[tuple[str, Message]]) -> None:
    chosen, now = settings(tmp_path, ops={}), dt.datetime.now(dt.UTC)
    pipelines.set_progress(store, "shop", progress(now + dt.timedelta(days=1)))
    for number in range(8):
        pipelines.report_merges(
            store, "shop", "wh", {f"shop.t{number}": pipelines.MergeNews(1, "stopped", reason="it has no\nprimary key")}
        )
    for _ in range(2):
        look_at_pipelines(chosen, store, now)
    [(_, message)] = sent
    assert message.title == "shop: 8 TABLES STOPPED"
    assert message.lines[0] == "shop.t0 in wh: it has no primary key"
    assert message.lines[5:] == (
        "and 3 more",
        "more: auditor pipeline status shop",
    )
    pipelines.report_merges(store, "shop", "wh", {"shop.t3": pipelines.MergeNews(2, "merged")})
    look_at_pipelines(chosen, store, now + dt.timedelta(seconds=15))
    assert sent[1][1].title == "shop: recovered in part"
    assert sent[1][1].lines == (f"shop.t3 in wh: was stopped since {now:%Y-%m-%d %H:%M:%S} UTC", "7 other problems are left")


def test_what_no_channel_took_is_told_again(store: Store, tmp_path: Path, sent: list[tuple[str, Message]]) -> None:
    now = dt.datetime.now(dt.UTC)
    pipelines.set_progress(store, "shop", progress(now + dt.timedelta(days=1)))
    pipelines.report_merges(store, "shop", "wh", {"shop.t": pipelines.MergeNews(1, "stopped", reason="no key")})
    broken = settings(tmp_path, broken={})
    assert look_at_pipelines(broken, store, now) == ["channel broken: the service could not be reached"]
    assert len(look_at_pipelines(broken, store, now)) == 1
    assert look_at_pipelines(settings(tmp_path, broken={}, ops={}), store, now) == ["channel broken: the service could not be reached"]
    assert look_at_pipelines(settings(tmp_path, broken={}, ops={}), store, now) == [], "one channel took it"
    assert [name for name, _ in sent] == ["ops"]


def test_a_message_names_the_gravest_and_makes_hostile_names_visible() -> None:
    found = [problem(LAG, "it lags"), problem(ProblemKey("stopped", "w\x1bh", "a\nb"), "no key")]
    message = problem_message("sh\x07op", found)
    assert message.title == "sh␇op: TABLE STOPPED"
    assert message.lines == ("it lags", "a b in w␛h: no key", "more: auditor pipeline status 'sh␇op'")
    owned = Pipeline.model_validate(
        {
            "source": {"connection": "source", "tables": ["*"]},
            "columns": {"t": {"owner": "shop\x1b team", "table": {"name": "u", "when": "a = 1"}}},
            "staging": {"path": "/staging"},
            "targets": {"wh": {"connection": "warehouse", "schema": "shop"}},
        }
    )
    stopped = problem(ProblemKey("stopped", "wh", "shop.t"), "no key")
    assert problem_message("shop", [stopped], owned).lines[0] == "shop.t in wh: no key (owner: shop␛ team)"
    routed = problem(ProblemKey("stopped", "wh", "shop.u"), "no key")
    assert problem_message("shop", [routed], owned).lines[0] == "shop.u in wh: no key (owner: shop␛ team)"
    assert recovery_message("shop", [problem(LAG, "it lags")], 1).lines == (
        "lagged behind since 2026-11-01 12:00:00 UTC",
        "1 other problem is left",
    )


def test_the_thread_survives_errors_and_ends(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_durations: SetDurations
) -> None:
    import threading

    seen, enough = [], threading.Event()

    def look(*_: object) -> list[str]:
        seen.append(1)
        if len(seen) == 1:
            raise RuntimeError("a driver's error")
        if len(seen) == 2:
            raise NotifyError("an error of ours")
        enough.set()
        return []

    monkeypatch.setattr(pipeline_problems, "look_at_pipelines", look)
    set_durations(notices_poll=0.01)
    notices = PipelineNotices(settings(tmp_path), store)
    notices.start()
    assert enough.wait(60)
    notices.stop()
    assert notices.join(60)
