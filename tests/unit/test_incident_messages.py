"""What Slack, PagerDuty, Opsgenie, a mailbox and a webhook receive from an incident's first message to its recovery, recorded."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from email import message_from_string, policy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import apprise.plugins.opsgenie
import apprise.plugins.pagerduty
import apprise.plugins.slack
import pytest

from auditor import service
from auditor.config import Settings, validate_settings
from auditor.durations import durations
from auditor.model import Verdict
from auditor.service import incidents, notify
from auditor.service.channels import Message, send
from auditor.store import audit_state
from auditor.store import incidents as stored
from tests.unit.test_incidents import Tables
from tests.unit.test_notify import mail_server, report

__all__ = ["mail_server"]

pytestmark = [pytest.mark.duckdb, pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")]

URL = "https://auditor.example.org"


class Recorder:
    """A server that stands in for the services, and records what they are sent."""

    def __init__(self) -> None:
        self.received: list[tuple[str, dict[str, Any]]] = []
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                recorder.received.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
                answer = b"ok" if self.path.startswith("/slack") else b'{"requestId": "1"}'
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def of(self, service: str) -> list[tuple[str, dict[str, Any]]]:
        return [(path.removeprefix(f"/{service}"), body) for path, body in self.received if path.startswith(f"/{service}")]


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    started = Recorder()
    monkeypatch.setattr(apprise.plugins.slack.NotifySlack, "webhook_url", f"{started.url}/slack")
    monkeypatch.setitem(apprise.plugins.pagerduty.PAGERDUTY_API_LOOKUP, "us", f"{started.url}/pagerduty")
    monkeypatch.setitem(apprise.plugins.opsgenie.OPSGENIE_API_LOOKUP, "us", f"{started.url}/opsgenie")
    yield started
    started.server.shutdown()
    started.server.server_close()


class Alerted(Tables):
    """Two tables whose audit notifies all services."""

    def __init__(self, folder: Path, recorder: Recorder, port: int) -> None:
        super().__init__(folder)
        self.urls = {
            "slack": "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7/#ops",
            "pagerduty": "pagerduty://integration@apikey",
            "opsgenie": "opsgenie://b2c3d4e5-f6a7-8901-bcde-f23456789012",
            "mail": f"mailto://127.0.0.1:{port}/?from=auditor@example.org&to=ops@example.org&mode=insecure",
            "webhook": f"{recorder.url.replace('http', 'json')}/webhook",
        }
        self.repeat_after = "1d"

    @property
    def settings(self) -> Settings:
        values = super().settings.model_dump(mode="json", by_alias=True, exclude_unset=True)
        values["connections"] = {side: {"url": f"duckdb:///{self.folder}/{side}.duckdb"} for side in ("source", "target")}
        values["notify"] = {"channels": {name: {"url": url} for name, url in self.urls.items()}, "repeat_after": self.repeat_after}
        return validate_settings({**values, "service": {"public_url": f"{URL}/"}})

    def run(self, **overrides: Any) -> str:
        done = service.run_audit(self.settings, "t", store=self.store, overrides=overrides)
        assert notify.notify_of_run(self.settings, self.store, done) == []
        return done.run


@pytest.fixture
def alerted(tmp_path: Path, recorder: Recorder, mail_server: tuple[int, list[str]]) -> Alerted:
    return Alerted(tmp_path, recorder, mail_server[0])


def tell_story(alerted: Alerted) -> list[str]:
    """Let an audit differ, still differ, differ otherwise, recover and fail; return the runs."""
    alerted.run()
    alerted.damage(7, 8, 9, 10)
    runs = [alerted.run()]
    alerted.repeat_after = "0s"
    runs.append(alerted.run())
    alerted.repeat_after = "1d"
    incidents.acknowledge(alerted.settings, alerted.store, "t", by="ann", why="known", differences="known")
    alerted.run()
    alerted.mend(7)
    alerted.damage(11, 12)
    runs.append(alerted.run())
    alerted.mend(8, 9, 10, 11, 12)
    runs.append(alerted.run())
    alerted.execute("target", "ALTER TABLE t RENAME TO gone")
    runs.append(alerted.run())
    return runs


TITLES = ["t: MISMATCH, 4 rows differ", "t: still MISMATCH, 4 rows differ", "t: MISMATCH changed, 5 rows differ", "t: MATCH again"]
TITLES.append("t: run FAILED, last verdict MATCH")


def test_incident_is_told_to_each_service(alerted: Alerted, recorder: Recorder, mail_server: tuple[int, list[str]]) -> None:
    runs = tell_story(alerted)
    links = [f"{URL}/runs/{run}" for run in runs]
    key = "auditor/t"

    webhook = [body for _, body in recorder.of("webhook")]
    assert [body["title"] for body in webhook] == TITLES
    assert [body["type"] for body in webhook] == ["failure", "failure", "failure", "success", "warning"]
    assert [body["key"] for body in webhook] == [key] * 5
    assert [body["link"] for body in webhook] == links

    pagerduty = [body for _, body in recorder.of("pagerduty")]
    assert [body["event_action"] for body in pagerduty] == ["trigger", "trigger", "trigger", "resolve", "trigger"]
    assert [body["dedup_key"] for body in pagerduty] == [key] * 5
    raised = [body for body in pagerduty if body["event_action"] == "trigger"]
    assert [body["payload"]["severity"] for body in raised] == ["critical", "critical", "critical", "warning"]
    assert [body["links"][0]["href"] for body in raised] == [link for link in links if link != links[3]]
    assert raised[0]["payload"]["summary"].startswith(TITLES[0])

    opsgenie = recorder.of("opsgenie")
    close = "/auditor%2Ft/close?identifierType=alias"
    assert [path for path, _ in opsgenie] == ["", "", "", close, ""]
    opened = [body for path, body in opsgenie if not path]
    assert [body["alias"] for body in opened] == [key] * 4
    assert [body["details"]["type"] for body in opened] == ["failure", "failure", "failure", "warning"]
    assert opened[0]["details"]["link"] == links[0]
    assert opened[0]["message"] == TITLES[0]
    assert opsgenie[3][1]["note"].startswith(TITLES[3])

    slack = [body for _, body in recorder.of("slack")]
    assert [body["attachments"][0]["title"] for body in slack] == TITLES
    colours = [body["attachments"][0]["color"] for body in slack]
    assert colours == [
        apprise.AppriseAsset().color(apprise.NotifyType(kind)) for kind in ("failure", "failure", "failure", "success", "warning")
    ]
    assert all(link in body["attachments"][0]["text"] for link, body in zip(links, slack, strict=True))

    mails = [message_from_string(text, policy=policy.default) for text in mail_server[1]]
    assert [mail["Subject"] for mail in mails] == TITLES
    for mail, link in zip(mails, links, strict=True):
        bodies = [part.get_content() for part in mail.walk() if not part.is_multipart()]
        assert all(link in body for body in bodies)


def test_message_says_which_columns_and_three_keys(alerted: Alerted, recorder: Recorder) -> None:
    tell_story(alerted)
    first, still, changed = [body["message"] for _, body in recorder.of("webhook")][:3]
    assert [line for line in first.split("\n") if line.startswith("differs: ")] == [
        "differs: changed 7",
        "differs: changed 8",
        "differs: changed 9",
    ]
    assert first.startswith("4 of 3,000 rows differ: 4 changed (v)\ndiffers: ")
    assert "columns that differ most often" not in first, "the first line has named the only one"
    assert ": 0 new, 0 gone, 4 the same" in still
    assert ": 2 new, 1 gone, 3 the same" in changed


def test_masked_keys_are_not_sent(alerted: Alerted, recorder: Recorder) -> None:
    alerted.audit = {"columns": {"override": {"id": {"mask": True}}}, "partition": {"strategy": "hash"}}
    alerted.damage(1777)
    alerted.run()
    assert len(recorder.received) == 4, "without the mail"
    assert "1777" not in json.dumps(recorder.received)


def test_muted_incident_is_told_to_nobody_until_it_recovers(alerted: Alerted, recorder: Recorder) -> None:
    alerted.urls = {"webhook": alerted.urls["webhook"]}
    alerted.damage(7)
    alerted.run()
    incidents.acknowledge(alerted.settings, alerted.store, "t", by="ann", why="known", muted=True)
    alerted.repeat_after = "0s"
    alerted.damage(8)
    alerted.run()
    alerted.mend(7, 8)
    alerted.run()
    assert [body["title"] for _, body in recorder.of("webhook")] == ["t: MISMATCH, 1 row differs", "t: MATCH again"]


def test_acknowledged_incident_is_not_repeated(alerted: Alerted, recorder: Recorder) -> None:
    alerted.urls = {"webhook": alerted.urls["webhook"]}
    alerted.damage(7)
    alerted.run()
    incidents.acknowledge(alerted.settings, alerted.store, "t", by="ann", why="known")
    alerted.repeat_after = "0s"
    alerted.damage(8)
    alerted.run()
    assert len(recorder.received) == 1
    incidents.withdraw(alerted.settings, alerted.store, "t", by="ann")
    alerted.run()
    assert recorder.received[1][1]["title"] == "t: still MISMATCH, 2 rows differ"


def test_two_thresholds_warn_and_fail(alerted: Alerted, recorder: Recorder) -> None:
    alerted.urls = {name: alerted.urls[name] for name in ("webhook", "pagerduty")}
    alerted.audit = {"threshold": {"warn": {"rows": 1}, "fail": {"rows": 3}}}
    alerted.damage(1)
    alerted.run()
    assert recorder.received == [] and stored.get_open(alerted.store, "t") is None
    alerted.damage(2)
    alerted.run()
    opened = stored.get_open(alerted.store, "t")
    assert opened is not None and opened.severity == "warning"
    assert audit_state.get_state(alerted.store, "t").notified_verdict == "warning"
    alerted.run()
    alerted.damage(3, 4)
    alerted.run()
    alerted.mend(3, 4)
    alerted.run()
    alerted.mend(2)
    alerted.run()
    told = [(body["title"], body["type"]) for _, body in recorder.of("webhook")]
    assert told == [
        ("t: WARNING, 2 rows differ", "warning"),
        ("t: MISMATCH, 4 rows differ", "failure"),
        ("t: WARNING, 2 rows differ", "warning"),
        ("t: MATCH again within threshold", "success"),
    ]
    assert "this is a warning: the level warn of the threshold allows 1 differing row" in recorder.of("webhook")[0][1]["message"]
    severities = [body.get("payload", {}).get("severity") for _, body in recorder.of("pagerduty")]
    assert severities == ["warning", "critical", "warning", None]
    assert {body["dedup_key"] for _, body in recorder.of("pagerduty")} == {"auditor/t"}
    assert stored.get_open(alerted.store, "t") is None


@pytest.mark.parametrize(
    ("audit", "problem"),
    [
        ({"threshold": {"warn": {"rows": 5}}}, "warn needs fail"),
        ({"threshold": {"warn": {"rows": 5}, "fail": {"rows": 4}}}, "allows more than fail does"),
        ({"threshold": {"warn": 0.9, "fail": 0.99}}, "allows more than fail does"),
        ({"threshold": {"fail": {"rows": 4}, "rows": 4}}, "fail and rows cannot be combined"),
        ({"threshold": {"fail": {"rows": 4, "warn": {"rows": 1}}}}, "write warn beside fail"),
        ({"threshold": {"warn": 0.99, "fail": 0.9}, "method": "counts"}, "threshold: warn and method: counts cannot be combined"),
        ({"threshold": {"warn": 0.99, "fail": 0.9}, "rolling": {"per_run": "10%"}}, "threshold: warn and rolling cannot be combined"),
    ],
)
def test_thresholds_that_contradict_are_refused(tables: Tables, audit: dict[str, Any], problem: str) -> None:
    tables.audit = audit
    with pytest.raises(Exception, match=problem):
        _ = tables.settings


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(tmp_path)


def test_channels_hear_of_audits_of_their_owners(alerted: Alerted, recorder: Recorder) -> None:
    settings = alerted.settings
    webhook = settings.notify.channels["webhook"]
    theirs, others = (webhook.model_copy(update={"owners": (owner,)}) for owner in ("sales", "billing"))
    channels = settings.notify.model_copy(update={"channels": {"theirs": theirs, "others": others}})
    owned = {"t": settings.audits["t"].model_copy(update={"owner": "sales"})}
    assert notify.notify_run(channels, alerted.store, report(audit="t"), audits=owned) == []
    assert len(recorder.received) == 1
    assert notify.notify_run(channels, alerted.store, report(audit="u"), audits={}) == []
    assert len(recorder.received) == 1, "an audit without an owner"


def test_messages_of_no_incident_are_alerts_of_their_own(recorder: Recorder, alerted: Alerted) -> None:
    """A test message must arrive at Opsgenie, where apprise would add a note to an alert that there is not."""
    assert notify.send_test(alerted.settings, "opsgenie") == ""
    ((path, body),) = recorder.of("opsgenie")
    assert path == "" and body["message"] == "auditor: test message" and "alias" not in body


def test_what_a_url_names_itself_stays(recorder: Recorder, alerted: Alerted) -> None:
    alerted.urls["pagerduty"] += "?dedup=mine&click=https://wiki.example.org"
    message = Message("title", ("line",), "failure", "auditor/t", f"{URL}/runs/1")
    send("pagerduty", alerted.settings.notify.channels["pagerduty"], message)
    ((_, body),) = recorder.of("pagerduty")
    assert (body["dedup_key"], body["links"]) == ("mine", [{"href": "https://wiki.example.org"}])


def test_keys_are_stable_and_short() -> None:
    assert notify.incident_key("orders") == "auditor/orders"
    long = notify.incident_key("x" * 255)
    assert len(long) <= notify.MAX_KEY and long == notify.incident_key("x" * 255) != notify.incident_key("y" * 255)


def three_audits(alerted: Alerted) -> Settings:
    """Return settings with two audits more of the same tables."""
    settings = alerted.settings
    return settings.model_copy(update={"audits": dict.fromkeys(("t", "u", "w"), settings.audits["t"])})


def test_runs_that_end_together_are_one_message_but_to_services_of_incidents(alerted: Alerted, recorder: Recorder) -> None:
    alerted.urls = {name: alerted.urls[name] for name in ("webhook", "pagerduty")}
    settings, store = three_audits(alerted), alerted.store
    alerted.damage(7)
    batch = notify.Batch(settings, store)
    for name in settings.audits:
        assert batch.add(settings, service.run_audit(settings, name, store=store)) == []
    assert recorder.received == []
    assert batch.flush() == [] == batch.flush()
    ((_, body),) = recorder.of("webhook")
    assert (body["title"], body["type"]) == ("3 audits: 3 mismatches", "failure")
    assert body["link"] == URL
    for name in settings.audits:
        assert f"{name}: MISMATCH, 1 row differs\n" in body["message"]
    assert body["message"].count("differs: changed 7") == 3
    assert [body["dedup_key"] for _, body in recorder.of("pagerduty")] == ["auditor/t", "auditor/u", "auditor/w"]
    assert all(audit_state.get_state(store, name).notified_verdict == "mismatch" for name in settings.audits)


def test_batch_is_sent_before_another_run_of_an_audit_and_after_a_while(alerted: Alerted, recorder: Recorder) -> None:
    alerted.urls = {"webhook": alerted.urls["webhook"]}
    settings, store = three_audits(alerted), alerted.store
    batch = notify.Batch(settings, store)
    alerted.damage(7)
    batch.add(settings, service.run_audit(settings, "t", store=store))
    alerted.mend(7)
    batch.add(settings, service.run_audit(settings, "t", store=store))
    batch.flush()
    assert [body["title"] for _, body in recorder.of("webhook")] == ["t: MISMATCH, 1 row differs", "t: MATCH again"]
    alerted.damage(7)
    with durations.overridden(notify_batch=0.0):
        batch.add(settings, service.run_audit(settings, "u", store=store))
    assert recorder.received[-1][1]["title"] == "u: MISMATCH, 1 row differs"


def test_recovery_reaches_services_of_incidents_beyond_the_hourly_limit(alerted: Alerted, recorder: Recorder) -> None:
    alerted.urls = {"pagerduty": alerted.urls["pagerduty"]}
    limited = alerted.settings.notify.model_copy(update={"max_per_hour": 1})
    for audit in ("a", "b"):
        assert notify.notify_run(limited, alerted.store, report(audit=audit)) == []
    for audit in ("a", "b"):
        assert notify.notify_run(limited, alerted.store, report(Verdict.MATCH, audit)) == []
    actions = [(body["event_action"], body["dedup_key"]) for _, body in recorder.of("pagerduty")]
    assert actions == [("trigger", "auditor/a"), ("resolve", "auditor/a"), ("resolve", "auditor/b")]
