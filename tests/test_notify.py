"""Who is told what, when: decided by itself, and sent for real to servers of this process."""

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

from auditor import notify
from auditor.config import Channel, Notify, Occasion, Settings
from auditor.errors import ConfigError, NotifyError
from auditor.model import (
    ColumnDifference,
    Difference,
    Differences,
    Measure,
    Report,
    State,
    Verdict,
)
from auditor.store import Store, open_store, standing
from auditor.store import told as ledger
from auditor.store.standing import Standing
from tests.engines import Engines, engine_params
from tests.store import databases
from tests.test_report_samples import HOSTILE, earlier

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


# decide


@pytest.mark.parametrize(
    ("told", "hours_ago", "verdict", "occasion"),
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
def test_occasions(told: str | None, hours_ago: float | None, verdict: Verdict, occasion: Occasion | None) -> None:
    before = Standing(told_verdict=told, told_at=None if hours_ago is None else NOW - dt.timedelta(hours=hours_ago))
    assert notify.decide(before, report(verdict), NOW, 86400.0) == occasion


def test_a_failed_run_is_told_and_a_cancelled_one_is_not() -> None:
    assert notify.decide(Standing(), report(Verdict.UNKNOWN, state=State.FAILED), NOW, 60) == "unknown"
    for told in (None, "mismatch", "match"):
        assert notify.decide(Standing(told_verdict=told), report(Verdict.UNKNOWN, state=State.CANCELLED), NOW, 60) is None


# sending


class Hook:
    """A server that takes messages as JSON."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.status = 200
        self.delay = 0.0
        self.drip = 0
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                hook.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                time.sleep(hook.delay)
                self.send_response(hook.status)
                self.send_header("Content-Length", str(hook.drip))
                self.end_headers()
                for _ in range(hook.drip):
                    self.wfile.write(b".")
                    self.wfile.flush()
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
        return [one["title"] for one in self.got]


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path}/store.db")
    yield opened
    opened.close()


def channels(hook: Hook, **more: Any) -> Notify:
    return Notify(channels={"ops": Channel(url=hook.url)}, **more)


def test_a_mismatch_and_its_recovery(hook: Hook, store: Store) -> None:
    wanted = channels(hook)
    assert notify.tell(wanted, store, report(Verdict.MATCH), NOW) == []
    assert hook.got == []
    assert notify.tell(wanted, store, report(), NOW) == []
    assert notify.tell(wanted, store, report(), NOW + dt.timedelta(hours=1)) == []
    assert hook.titles == ["orders: MISMATCH, 9 rows differ"]
    body = hook.got[0]["message"]
    assert "auditor show aaaaaaaaaaaa" in body and "because of this" in body and "differs: changed 1" in body
    assert "4111" not in body and "5222" not in body
    assert standing.get(store, "orders").told_verdict == "mismatch"
    assert notify.tell(wanted, store, report(), NOW + dt.timedelta(days=1)) == []
    assert notify.tell(wanted, store, report(Verdict.MATCH), NOW + dt.timedelta(days=1, hours=1)) == []
    assert notify.tell(wanted, store, report(Verdict.MATCH), NOW + dt.timedelta(days=1, hours=2)) == []
    assert hook.titles == ["orders: MISMATCH, 9 rows differ"] * 2 + ["orders: MATCH again"]
    assert notify.tell(wanted, store, report(), NOW + dt.timedelta(days=1, hours=3)) == []
    assert len(hook.got) == 4


def test_only_the_channels_that_fit(hook: Hook, store: Store) -> None:
    other = Channel(url=f"{hook.url}&:who=other", on=("unknown",), audits=("payments",))
    wanted = Notify(channels={"ops": Channel(url=hook.url, on=("mismatch",)), "other": other})
    notify.tell(wanted, store, report(Verdict.UNKNOWN, state=State.FAILED), NOW)
    assert hook.got == [] and standing.get(store, "orders").told_verdict is None
    notify.tell(wanted, store, report(Verdict.UNKNOWN, "payments", state=State.FAILED, resumable=True), NOW)
    assert hook.titles == ["payments: UNKNOWN"] and f"auditor resume {'a' * 32}" in hook.got[0]["message"]
    assert hook.got[0]["who"] == "other"


def test_a_recovery_that_nobody_hears_of_makes_the_next_mismatch_news(hook: Hook, store: Store) -> None:
    wanted = Notify(channels={"ops": Channel(url=hook.url, on=("mismatch",))})
    for verdict in (Verdict.MISMATCH, Verdict.MATCH, Verdict.MISMATCH):
        assert notify.tell(wanted, store, report(verdict), NOW) == []
    assert len(hook.got) == 2


def test_a_channel_that_fails_is_tried_again_at_the_next_run(hook: Hook, store: Store, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    hook.status = 503
    (failure,) = notify.tell(channels(hook), store, report(), NOW)
    assert failure == "channel ops: the service answered with the status 503"
    assert standing.get(store, "orders").told_verdict is None
    hook.status = 200
    assert notify.tell(channels(hook), store, report(), NOW) == []
    assert failure in caplog.text
    assert SECRET not in caplog.text and SECRET not in failure


def test_one_channel_that_fails_does_not_repeat_the_other(hook: Hook, store: Store) -> None:
    wanted = Notify(channels={"ops": Channel(url=hook.url), "gone": Channel(url=f"json://127.0.0.1:1/{SECRET}")})
    (failure,) = notify.tell(wanted, store, report(), NOW)
    assert failure == "channel gone: the service could not be reached, or did not answer in time"
    assert notify.tell(wanted, store, report(), NOW) == []
    assert len(hook.got) == 1


@pytest.mark.parametrize("url", [f"nonsense://{SECRET}", "", f"slack://{SECRET}", f"mailto://{SECRET}:{SECRET}@127.0.0.1:1/?to=a@b.c"])
def test_what_cannot_be_told_says_nothing_of_the_url(url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(NotifyError) as refusal:
        notify.send("ops", Channel(url=url), notify.Message("title", ("line",)))
    assert str(refusal.value).startswith("channel ops: ")
    assert SECRET not in str(refusal.value) + caplog.text


def test_a_service_that_does_not_end_is_left_alone(hook: Hook) -> None:
    hook.drip = 50
    began = time.monotonic()
    with pytest.raises(NotifyError, match=r"did not answer within 0\.5 s"):
        notify.send("ops", Channel(url=hook.url), notify.Message("title", ("line",)), seconds=0.5)
    assert time.monotonic() - began < 2
    hook.drip, hook.delay = 0, 1.5
    with pytest.raises(NotifyError, match="could not be reached, or did not answer in time"):
        notify.send("ops", Channel(url=f"{hook.url}&rto=0.2"), notify.Message("title", ("line",)))


def test_what_is_too_much_for_an_hour_is_told_in_one(hook: Hook, store: Store) -> None:
    wanted = channels(hook, most=3)
    for number in range(70):
        assert notify.tell(wanted, store, report(audit=f"a{number}"), NOW + dt.timedelta(seconds=number)) == []
    assert len(hook.got) == 3
    assert standing.get(store, "a69").told_verdict == "mismatch"
    assert notify.tell(wanted, store, report(Verdict.MATCH, "quiet"), NOW + dt.timedelta(minutes=59)) == []
    assert len(hook.got) == 3
    assert notify.tell(wanted, store, report(audit="late"), NOW + dt.timedelta(minutes=61, seconds=10)) == []
    assert hook.titles[3:] == ["auditor: 67 more messages", "late: MISMATCH, 9 rows differ"]
    told = hook.got[3]["message"]
    assert "a3: MISMATCH" in told and "and 17 more" in told
    assert ledger.held(store) == {}


def test_what_was_held_back_is_not_lost_where_it_cannot_be_told(hook: Hook, store: Store) -> None:
    wanted = channels(hook, most=1)
    for number in range(3):
        notify.tell(wanted, store, report(audit=f"a{number}"), NOW)
    hook.status = 500
    assert notify.tell(wanted, store, report(Verdict.MATCH), NOW + dt.timedelta(hours=2))
    assert ledger.held(store)["ops"][0] == 2
    notify.tell(Notify(channels={"new": Channel(url=hook.url)}), store, report(Verdict.MATCH), NOW)
    assert ledger.held(store) == {}


def test_runs_that_end_at_once_share_the_hour(hook: Hook, store: Store) -> None:
    wanted = channels(hook, most=2)
    threads = [threading.Thread(target=notify.tell, args=(wanted, store, report(audit=f"a{n}"), NOW)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(hook.got) == 2 and ledger.held(store)["ops"][0] == 4


def test_a_store_that_fails_fails_no_run(hook: Hook, tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/gone.db")
    store.close()
    (tmp_path / "gone.db").write_text("no database" * 1000)
    (failure,) = notify.tell(channels(hook), store, report(), NOW)
    assert failure.startswith("nobody was told of orders: ")


def settings(hook: Hook, **channel: Any) -> Settings:
    ends = {side: {"connection": "c", "table": "t"} for side in ("source", "target")}
    audits = {"orders": ends, "payments": ends}
    wanted = {"ops": {"url": hook.url, **channel}, "quiet": {"url": hook.url}}
    return Settings.model_validate({"connections": {"c": {"url": "duckdb:///x"}}, "audits": audits, "notify": {"channels": wanted}})


def test_a_test(hook: Hook) -> None:
    assert notify.test(settings(hook), "ops") == ""
    assert hook.titles == ["auditor: a test"]
    hook.status = 401
    assert notify.test(settings(hook), "ops") == "channel ops: the service answered with the status 401"
    with pytest.raises(ConfigError, match=r"no channel 'opps'; did you mean 'ops'\? \(channels here: ops, quiet\)"):
        notify.test(settings(hook), "opps")


def test_a_digest(hook: Hook, store: Store) -> None:
    earlier(store, "orders", NOW - dt.timedelta(hours=1), 0.5)
    assert notify.digest(settings(hook), store, NOW.date(), NOW) == []
    assert hook.got == []
    assert notify.digest(settings(hook, on=["digest"]), store, NOW.date(), NOW) == []
    assert hook.titles == ["Audits on 2026-03-18: 1 mismatch, 1 never run"]
    assert "orders: MISMATCH" in hook.got[0]["message"] and "payments: NEVER RUN" in hook.got[0]["message"]
    notify.digest(settings(hook, on=["digest"], audits=["payments"]), store, NOW.date(), NOW)
    assert hook.titles[1:] == ["Audits on 2026-03-18: 1 never run"]
    hook.status = 500
    assert notify.digest(settings(hook, on=["digest"]), store, NOW.date(), NOW)


# mail


@pytest.fixture
def post() -> Iterator[tuple[int, list[str]]]:
    """A server that takes mail: its port, and what it got."""
    got: list[str] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 here\r\n")
            while line := self.rfile.readline():
                if line.upper().startswith(b"DATA"):
                    self.wfile.write(b"354 go on\r\n")
                    lines: list[str] = []
                    while (text := self.rfile.readline()) != b".\r\n":
                        lines.append(text.decode())
                    got.append("".join(lines))
                self.wfile.write(b"221 bye\r\n" if line.upper().startswith(b"QUIT") else b"250 yes\r\n")

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield server.server_address[1], got
    server.shutdown()
    server.server_close()


def test_mail_is_html_whose_text_is_only_text(post: tuple[int, list[str]]) -> None:
    port, got = post
    channel = Channel(url=f"mailto://127.0.0.1:{port}/?from=auditor@example.org&to=ops@example.org&mode=insecure")
    hostile = report(audit=HOSTILE, reasons=(f"a <b>bold</b> reason {HOSTILE}",))
    notify.send("mail", channel, notify.message(hostile, "mismatch"))
    (text,) = got
    mail = message_from_string(text, policy=policy.default)
    assert "MISMATCH, 9 rows differ" in mail["Subject"] and "\x1b" not in mail["Subject"] and "\u202e" not in mail["Subject"]
    parts = {part.get_content_type(): part.get_content() for part in mail.walk() if not part.is_multipart()}
    assert "<li>a &lt;b&gt;bold&lt;/b&gt; reason &lt;script&gt;" in parts["text/html"]
    assert "<script" not in parts["text/html"] and "\x1b" not in str(parts) and "\u202e" not in str(parts)


# what is said


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_a_message_calls_nobody_and_acts_on_nothing(form: str) -> None:
    hostile = report(audit="@everyone", reasons=(f"<!channel> [link](http://x) {HOSTILE}",))
    body = notify.message(hostile, "mismatch").body(form)
    assert "<!" not in body and "@everyone" not in body and "\x1b" not in body and "\u202e" not in body
    if form != "text":
        assert "<script" not in body


def test_values_are_never_told(hook: Hook) -> None:
    measures = (
        Measure(partition=None, label="the whole table", name="card max", source="4111", target="5222", deviation=None, allowed=False),
        Measure(partition=None, label="the whole table", name="name class Ada", source="1", target="2", deviation=1.0, allowed=False),
    )
    counted = report(method="counts", differences=None, measures=measures, reasons=("card max: 4111 in the source",))
    told = notify.message(counted, "mismatch")
    assert told.title == "orders: MISMATCH, 2 measures differ"
    assert "measures that differ: card max, name class" in told.lines
    assert not any(value in str(told) for value in ("4111", "5222", "Ada"))


def test_a_title_is_short() -> None:
    told: Callable[[str], str] = lambda name: notify.message(report(audit=name), "mismatch").title  # noqa: E731
    assert len(told("x" * 500)) == notify.LONGEST
    one = Differences(missing=1, extra=0, changed=0, exact=True, named=(), ranges=(), partitions={})
    assert notify.message(report(differences=one), "mismatch").title == "orders: MISMATCH, 1 row differs"
    assert notify.message(report(differences=replace(one, exact=False)), "mismatch").title == "orders: MISMATCH, 1 or more row differs"


@pytest.mark.parametrize("name", engine_params("mysql", "mariadb", "postgres"))
def test_the_limit_on_a_server(engines: Engines, name: str) -> None:
    server = engines.live(name).url
    url = databases.create(server)
    store = open_store(url)
    try:
        assert ledger.held(store) == {}
        assert [ledger.admitted(store, "ops", 2, NOW) for _ in range(3)] == [True, True, False]
        ledger.hold(store, "ops", ["größer 🙂"], 3)
        assert ledger.held(store) == {"ops": (3, ["größer 🙂"])}
        ledger.forget(store, "ops")
        assert ledger.held(store) == {}
    finally:
        store.close()
        databases.drop(server, url)
