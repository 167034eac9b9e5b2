"""Notifications: when to send one, to which channels, and what it says, with messages sent to local servers."""

from __future__ import annotations

import datetime as dt
import json
import logging
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from email import message_from_string, policy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from auditor.config import Channel, Notify, Occasion, Settings
from auditor.durations import durations
from auditor.errors import ConfigError, NotifyError
from auditor.model import ColumnDifference, Difference, Differences, Measure, Report, State, Verdict
from auditor.service import notify
from auditor.service.channels import Message, send
from auditor.store import Store, audit_state, open_store
from auditor.store import notifications as ledger
from auditor.store.audit_state import AuditState
from tests.live import Engines, engine_params
from tests.store import databases
from tests.unit.test_report_samples import HOSTILE, store_past_run

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # a plugin of apprise's imports it

NOW = dt.datetime(2026, 3, 18, 7, 0, tzinfo=dt.UTC)
SECRET = "s3cr3tT0ken"


def report(verdict: Verdict = Verdict.MISMATCH, audit: str = "orders", **more: Any) -> Report:
    named = tuple(
        Difference(kind="changed", key={"id": str(n)}, rows={"source": 1, "target": 1}, columns=(ColumnDifference("card", "4111", "5222"),))
        for n in range(1, 10)
    )
    found = Differences(missing=0, extra=0, changed=9, exact=True, named=named, ranges=(), partitions={}, looks=1)
    settled = Report(
        audit=audit, run="a" * 32, state=State.DONE, verdict=verdict, reasons=("because of this",), seconds=1.5,
        exit_code=verdict.exit_code, method="exact", differences=found if verdict is Verdict.MISMATCH else None,
    )  # fmt: skip
    return replace(settled, **more)


# deciding whether to send


@pytest.mark.parametrize(
    ("notified", "hours_ago", "verdict", "occasion"),
    [
        (None, None, Verdict.MATCH, None),
        (None, None, Verdict.MISMATCH, "mismatch"),
        (None, None, Verdict.UNKNOWN, "unknown"),
        ("match", 1, Verdict.MATCH, None),
        ("match", 1, Verdict.MISMATCH, "mismatch"),
        ("mismatch", 1, Verdict.MISMATCH, None),
        ("mismatch", 23.9, Verdict.MISMATCH, None),
        ("mismatch", 24, Verdict.MISMATCH, "mismatch"),
        ("mismatch", 1, Verdict.UNKNOWN, "unknown"),
        ("unknown", 1, Verdict.UNKNOWN, None),
        ("unknown", 25, Verdict.UNKNOWN, "unknown"),
        ("unknown", 1, Verdict.MISMATCH, "mismatch"),
        ("mismatch", 1, Verdict.MATCH, "recovery"),
        ("unknown", 99, Verdict.MATCH, "recovery"),
        ("mismatch", None, Verdict.MISMATCH, "mismatch"),
    ],
)
def test_occasion_by_last_notification(notified: str | None, hours_ago: float | None, verdict: Verdict, occasion: Occasion | None) -> None:
    before = AuditState(notified_verdict=notified, notified_at=None if hours_ago is None else NOW - dt.timedelta(hours=hours_ago))
    assert notify.choose_occasion(before, report(verdict), NOW, 86400.0, verdict) == occasion


def test_failed_run_is_notified_and_cancelled_run_is_not() -> None:
    failed, cancelled = (report(Verdict.UNKNOWN, state=state) for state in (State.FAILED, State.CANCELLED))
    for notified, verdict in ((None, None), ("mismatch", Verdict.MISMATCH), ("match", Verdict.MATCH)):
        before = AuditState(notified_verdict=notified, notified_at=NOW)
        assert notify.choose_occasion(before, failed, NOW, 60, verdict) == "unknown"
        assert notify.choose_occasion(replace(before, notified_failure=True), failed, NOW, 60, verdict) is None, "told already"
        assert notify.choose_occasion(before, cancelled, NOW, 60, verdict) is None
    told = AuditState(notified_verdict="mismatch", notified_failure=True, notified_at=NOW)
    assert notify.choose_occasion(told, report(), NOW, 60, Verdict.MISMATCH) is None, "that it differs was told before the failure"
    failing = AuditState(notified_failure=True, notified_at=NOW)
    assert notify.choose_occasion(failing, report(Verdict.MATCH), NOW, 60, Verdict.MATCH) == "recovery"


def test_one_off_runs_are_no_occasion() -> None:
    for verdict in Verdict:
        for notified in (None, "mismatch", "match"):
            one_off = report(verdict, other_settings="threshold 0")
            assert notify.choose_occasion(AuditState(notified_verdict=notified), one_off, NOW, 60, verdict) is None


def test_part_of_a_rolling_audit_does_not_hide_what_differs_elsewhere() -> None:
    """A part that could not be compared leaves the table's known mismatch, which was told."""
    before = AuditState(notified_verdict="mismatch", notified_at=NOW)
    assert notify.choose_occasion(before, report(Verdict.UNKNOWN), NOW, 60, Verdict.MISMATCH) is None


# sending


class Hook:
    """A server that receives JSON messages."""

    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []
        self.status = 200
        self.delay = 0.0
        self.drip = self.dripped = 0
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                hook.received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                time.sleep(hook.delay)
                self.send_response(hook.status)
                self.send_header("Content-Length", str(hook.drip))
                self.end_headers()
                for _ in range(hook.drip):
                    self.wfile.write(b".")
                    self.wfile.flush()
                    hook.dripped += 1
                    time.sleep(0.1)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.block_on_close = False
        self.url = f"json://user:{SECRET}@127.0.0.1:{self.server.server_port}/{SECRET}path?+X-Token={SECRET}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def titles(self) -> list[str]:
        return [one["title"] for one in self.received]


@pytest.fixture
def hook() -> Iterator[Hook]:
    receiver = Hook()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path}/store.db")
    yield opened
    opened.close()


def channels(hook: Hook, **more: Any) -> Notify:
    return Notify(channels={"ops": Channel(url=hook.url)}, **more)


def test_mismatch_is_notified_daily_and_recovery_once(hook: Hook, store: Store) -> None:
    config = channels(hook)
    assert notify.notify_run(config, store, report(Verdict.MATCH), NOW) == []
    assert hook.received == []
    assert notify.notify_run(config, store, report(), NOW) == []
    assert notify.notify_run(config, store, report(), NOW + dt.timedelta(hours=1)) == []
    assert hook.titles == ["orders: MISMATCH, 9 rows differ"]
    body = hook.received[0]["message"]
    assert "auditor show aaaaaaaaaaaa" in body and "because of this" in body and "differs: changed 1" in body
    assert "4111" not in body and "5222" not in body
    assert audit_state.get_state(store, "orders").notified_verdict == "mismatch"
    assert notify.notify_run(config, store, report(), NOW + dt.timedelta(days=1)) == []
    assert notify.notify_run(config, store, report(Verdict.MATCH), NOW + dt.timedelta(days=1, hours=1)) == []
    assert notify.notify_run(config, store, report(Verdict.MATCH), NOW + dt.timedelta(days=1, hours=2)) == []
    assert hook.titles == ["orders: MISMATCH, 9 rows differ", "orders: still MISMATCH, 9 rows differ", "orders: MATCH again"]
    assert notify.notify_run(config, store, report(), NOW + dt.timedelta(days=1, hours=3)) == []
    assert len(hook.received) == 4


def test_message_goes_only_to_matching_channels(hook: Hook, store: Store) -> None:
    other = Channel(url=f"{hook.url}&:who=other", on=("unknown",), audits=("payments",))
    config = Notify(channels={"ops": Channel(url=hook.url, on=("mismatch",)), "other": other})
    notify.notify_run(config, store, report(Verdict.UNKNOWN, state=State.FAILED), NOW)
    assert hook.received == [] and audit_state.get_state(store, "orders").notified_verdict is None
    notify.notify_run(config, store, report(Verdict.UNKNOWN, "payments", state=State.FAILED, resumable=True), NOW)
    assert hook.titles == ["payments: run FAILED"] and f"auditor resume {'a' * 32}" in hook.received[0]["message"]
    assert hook.received[0]["who"] == "other"


def test_mismatch_is_notified_again_after_an_unannounced_recovery(hook: Hook, store: Store) -> None:
    config = Notify(channels={"ops": Channel(url=hook.url, on=("mismatch",))})
    for verdict in (Verdict.MISMATCH, Verdict.MATCH, Verdict.MISMATCH):
        assert notify.notify_run(config, store, report(verdict), NOW) == []
    assert len(hook.received) == 2


def test_failed_message_is_sent_at_the_next_run(hook: Hook, store: Store, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    hook.status = 503
    (failure,) = notify.notify_run(channels(hook), store, report(), NOW)
    assert failure == "channel ops: the service answered with status 503"
    assert audit_state.get_state(store, "orders").notified_verdict is None
    hook.status = 200
    assert notify.notify_run(channels(hook), store, report(), NOW) == []
    assert failure in caplog.text
    assert SECRET not in caplog.text and SECRET not in failure


def test_failing_channel_does_not_repeat_messages_of_others(hook: Hook, store: Store) -> None:
    config = Notify(channels={"ops": Channel(url=hook.url), "gone": Channel(url=f"json://127.0.0.1:1/{SECRET}")})
    (failure,) = notify.notify_run(config, store, report(), NOW)
    assert failure == "channel gone: the service could not be reached or did not answer in time"
    assert notify.notify_run(config, store, report(), NOW) == []
    assert len(hook.received) == 1


@pytest.mark.parametrize("url", [f"nonsense://{SECRET}", "", f"slack://{SECRET}", f"mailto://{SECRET}:{SECRET}@127.0.0.1:1/?to=a@b.c"])
def test_errors_of_a_channel_do_not_reveal_its_url(url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(NotifyError) as refusal:
        send("ops", Channel(url=url), Message("title", ("line",)))
    assert str(refusal.value).startswith("channel ops: ")
    assert SECRET not in str(refusal.value) + caplog.text


def test_slow_service_times_out(hook: Hook) -> None:
    hook.drip = 50
    with durations.overridden(send_limit=0.5), pytest.raises(NotifyError, match=r"did not answer within 0\.5 s"):
        send("ops", Channel(url=hook.url), Message("title", ("line",)))
    assert hook.dripped < hook.drip, "the whole answer was waited for"
    hook.drip, hook.delay = 0, 1.5
    with pytest.raises(NotifyError, match="could not be reached or did not answer in time"):
        send("ops", Channel(url=f"{hook.url}&rto=0.2"), Message("title", ("line",)))


def test_messages_beyond_the_hourly_limit_are_summarised(hook: Hook, store: Store) -> None:
    config = channels(hook, max_per_hour=3)
    for number in range(70):
        assert notify.notify_run(config, store, report(audit=f"a{number}"), NOW + dt.timedelta(seconds=number)) == []
    assert len(hook.received) == 3
    assert audit_state.get_state(store, "a69").notified_verdict == "mismatch"
    assert notify.notify_run(config, store, report(Verdict.MATCH, "quiet"), NOW + dt.timedelta(minutes=59)) == []
    assert len(hook.received) == 3
    assert notify.notify_run(config, store, report(audit="late"), NOW + dt.timedelta(minutes=61, seconds=10)) == []
    assert hook.titles[3:] == ["auditor: 67 more messages", "late: MISMATCH, 9 rows differ"]
    summary = hook.received[3]["message"]
    assert "a3: MISMATCH" in summary and "and 17 more" in summary
    assert ledger.list_held_messages(store) == {}


def test_held_messages_remain_if_sending_fails(hook: Hook, store: Store) -> None:
    config = channels(hook, max_per_hour=1)
    for number in range(3):
        notify.notify_run(config, store, report(audit=f"a{number}"), NOW)
    hook.status = 500
    assert notify.notify_run(config, store, report(Verdict.MATCH), NOW + dt.timedelta(hours=2))
    assert ledger.list_held_messages(store)["ops"][0] == 2
    notify.notify_run(Notify(channels={"new": Channel(url=hook.url)}), store, report(Verdict.MATCH), NOW)
    assert ledger.list_held_messages(store) == {}


def test_concurrent_runs_share_the_hourly_limit(hook: Hook, store: Store) -> None:
    config = channels(hook, max_per_hour=2)
    threads = [threading.Thread(target=notify.notify_run, args=(config, store, report(audit=f"a{n}"), NOW)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(hook.received) == 2 and ledger.list_held_messages(store)["ops"][0] == 4


def test_broken_store_is_reported_and_not_raised(hook: Hook, tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/gone.db")
    store.close()
    (tmp_path / "gone.db").write_text("no database" * 1000)
    failures = notify.notify_run(channels(hook), store, report(), NOW)
    assert any(failure.startswith("no notification was sent about orders: ") for failure in failures)


def settings(hook: Hook, **channel: Any) -> Settings:
    ends = {side: {"connection": "c", "table": "t"} for side in ("source", "target")}
    audits = {"orders": ends, "payments": ends}
    config = {"ops": {"url": hook.url, **channel}, "quiet": {"url": hook.url}}
    return Settings.model_validate({"connections": {"c": {"url": "duckdb:///x"}}, "audits": audits, "notify": {"channels": config}})


def test_test_message_is_sent_and_reports_failure(hook: Hook) -> None:
    assert notify.send_test(settings(hook), "ops") == ""
    assert hook.titles == ["auditor: test message"]
    hook.status = 401
    assert notify.send_test(settings(hook), "ops") == "channel ops: the service answered with status 401"
    with pytest.raises(ConfigError, match=r"no channel 'opps'; did you mean 'ops'\? \(channels here: ops, quiet\)"):
        notify.send_test(settings(hook), "opps")


def test_digest_summarises_the_day_for_its_channels(hook: Hook, store: Store) -> None:
    store_past_run(store, "orders", NOW - dt.timedelta(hours=1), 0.5)
    assert notify.send_digest(settings(hook), store, NOW.date(), NOW) == []
    assert hook.received == []
    assert notify.send_digest(settings(hook, on=["digest"]), store, NOW.date(), NOW) == []
    assert hook.titles == ["Audits on 2026-03-18: 1 mismatch, 1 never run"]
    assert "orders: MISMATCH" in hook.received[0]["message"] and "payments: NEVER RUN" in hook.received[0]["message"]
    notify.send_digest(settings(hook, on=["digest"], audits=["payments"]), store, NOW.date(), NOW)
    assert hook.titles[1:] == ["Audits on 2026-03-18: 1 never run"]
    hook.status = 500
    assert notify.send_digest(settings(hook, on=["digest"]), store, NOW.date(), NOW)


# mail


@pytest.fixture
def mail_server() -> Iterator[tuple[int, list[str]]]:
    """A mail server: its port and the mails it received."""
    mails: list[str] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 here\r\n")
            while line := self.rfile.readline():
                if line.upper().startswith(b"DATA"):
                    self.wfile.write(b"354 go on\r\n")
                    lines: list[str] = []
                    while (text := self.rfile.readline()) != b".\r\n":
                        lines.append(text.decode())
                    mails.append("".join(lines))
                self.wfile.write(b"221 bye\r\n" if line.upper().startswith(b"QUIT") else b"250 yes\r\n")

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield server.server_address[1], mails
    server.shutdown()
    server.server_close()


def test_mail_escapes_html_and_control_characters(mail_server: tuple[int, list[str]]) -> None:
    port, mails = mail_server
    channel = Channel(url=f"mailto://127.0.0.1:{port}/?from=auditor@example.org&to=ops@example.org&mode=insecure")
    hostile = report(audit=HOSTILE, reasons=(f"a <b>bold</b> reason {HOSTILE}",))
    send("mail", channel, notify.run_message(hostile, "mismatch"))
    (text,) = mails
    mail = message_from_string(text, policy=policy.default)
    assert "MISMATCH, 9 rows differ" in mail["Subject"] and "\x1b" not in mail["Subject"] and "\u202e" not in mail["Subject"]
    parts = {part.get_content_type(): part.get_content() for part in mail.walk() if not part.is_multipart()}
    assert "<li>a &lt;b&gt;bold&lt;/b&gt; reason &lt;script&gt;" in parts["text/html"]
    assert "<script" not in parts["text/html"] and "\x1b" not in str(parts) and "\u202e" not in str(parts)


# contents of messages


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_message_contains_no_mentions_markup_or_control_characters(form: str) -> None:
    hostile = report(audit="@everyone", reasons=(f"<!channel> [link](http://x) {HOSTILE}",))
    body = notify.run_message(hostile, "mismatch").body(form)
    assert "<!" not in body and "@everyone" not in body and "\x1b" not in body and "\u202e" not in body
    if form != "text":
        assert "<script" not in body


def test_message_contains_no_values(hook: Hook) -> None:
    measures = (
        Measure(partition=None, label="the whole table", name="card max", source="4111", target="5222", deviation=None, allowed=False),
        Measure(partition=None, label="the whole table", name="name class Ada", source="1", target="2", deviation=1.0, allowed=False),
    )
    counted = report(method="counts", differences=None, measures=measures, reasons=("card max: 4111 in the source",))
    message = notify.run_message(counted, "mismatch")
    assert message.title == "orders: MISMATCH, 2 measures differ"
    assert "measures that differ: card max, name class" in message.lines
    assert not any(value in str(message) for value in ("4111", "5222", "Ada"))


def test_title_is_limited_in_length() -> None:
    title: Callable[[str], str] = lambda name: notify.run_message(report(audit=name), "mismatch").title  # noqa: E731
    assert len(title("x" * 500)) == notify.MAX_TITLE
    one = Differences(missing=1, extra=0, changed=0, exact=True, named=(), ranges=(), partitions={})
    assert notify.run_message(report(differences=one), "mismatch").title == "orders: MISMATCH, 1 row differs"
    assert notify.run_message(report(differences=replace(one, exact=False)), "mismatch").title == "orders: MISMATCH, 1 or more row differs"


@pytest.mark.parametrize("name", engine_params("mysql", "mariadb", "postgres"))
def test_hourly_limit_on_a_server_store(engines: Engines, name: str) -> None:
    server = engines.live(name).url
    url = databases.create(server)
    store = open_store(url)
    try:
        assert ledger.list_held_messages(store) == {}
        assert [ledger.reserve_message(store, "ops", 2, NOW) for _ in range(3)] == [True, True, False]
        ledger.hold_messages(store, "ops", ["größer 🙂"], 3)
        assert ledger.list_held_messages(store) == {"ops": (3, ["größer 🙂"])}
        ledger.clear_held_messages(store, "ops")
        assert ledger.list_held_messages(store) == {}
    finally:
        store.close()
        databases.drop(server, url)
