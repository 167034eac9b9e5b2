"""Incidents over HTTP, by the client, and by the command line with --server."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator

import pytest

from auditor import service
from auditor.cli import main
from auditor.client import Client
from auditor.errors import NoIncident, NoReport, UnknownAudit
from auditor.store import events
from tests.api.conftest import Service, TemporaryService

LATER = dt.datetime(2099, 1, 1, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that the requests of this module change, and whose audit `orders` differs."""
    with TemporaryService(tmp_path_factory.mktemp("incidents")) as found:
        yield found


def test_incident_is_acknowledged_muted_and_taken_back(own: Service) -> None:
    client, place = own.client("run"), "/api/v1/audits/orders/acknowledgement"
    (listed,) = client.get("/api/v1/incidents").json()["items"]
    assert (listed["audit"], listed["state"], listed["severity"]) == ("orders", "open", "mismatch")
    assert listed["first_run"] == listed["last_run"] == own.runs["orders"]
    body = {"why": "a known backfill", "until": LATER.isoformat(), "differences": "known"}
    known = client.put(place, json=body).json()
    assert known["state"] == "acknowledged"
    assert known["acknowledgement"] | {"at": ""} == {
        "by": "the run token", "at": "", "why": "a known backfill", "muted": False, "until": "2099-01-01T00:00:00Z", "differences": "known",
        "run": own.runs["orders"],
    }  # fmt: skip
    assert client.put(place, json={"why": "rows of a test", "muted": True}).json()["state"] == "muted"
    assert client.get("/api/v1/audits/orders").json()["incident"]["state"] == "muted"
    assert client.get("/api/v1/audits/same").json()["incident"] is None
    assert 'auditor_incident{audit="orders",state="muted"} 1.0' in own.client("read").get("/metrics").text
    assert client.delete(place).json()["state"] == "open"
    text = own.client("read").get("/metrics").text
    assert 'auditor_incident{audit="orders",state="open"} 1.0' in text and 'auditor_incident{audit="same",state="open"} 0.0' in text
    told = [(event.actor, event.action) for event in reversed(events.list_events(own.store, limit=3))]
    assert told == [("the run token", what) for what in ("incident acknowledged", "incident muted", "acknowledgement ended")]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"why": ""},
        {"why": "  "},
        {"why": "x" * 501},
        {"why": "x", "until": "2020-01-01T00:00:00Z"},
        {"why": "x", "until": "2099-01-01T00:00:00"},
        {"why": "x", "until": 4070908800},
        {"why": "x", "differences": "some"},
        {"why": "x", "muted": "yes"},
        {"why": "x", "who": "somebody else"},
    ],
)
def test_wrong_acknowledgement_is_refused(own: Service, body: dict[str, object]) -> None:
    assert own.client("run").put("/api/v1/audits/orders/acknowledgement", json=body).status_code == 422
    assert own.client("run").get("/api/v1/audits/orders").json()["incident"]["state"] == "open"


def test_without_incident_there_is_nothing_to_acknowledge(own: Service) -> None:
    for method in ("PUT", "DELETE"):
        answer = own.client("run").request(method, "/api/v1/audits/same/acknowledgement", json={"why": "x"} if method == "PUT" else None)
        assert answer.status_code == 409 and answer.json()["detail"].startswith("audit same has no open incident")
        answer = own.client("run").request(method, "/api/v1/audits/none/acknowledgement", json={"why": "x"} if method == "PUT" else None)
        assert answer.status_code == 404


def test_errors_are_in_the_words_of_their_door(
    listening: tuple[Service, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    served, url = listening
    client = served.client("run")
    answer = client.put("/api/v1/audits/same/acknowledgement", json={"why": "x"})
    assert answer.json()["detail"] == "audit same has no open incident; list the incidents with: GET /api/v1/incidents"
    assert client.get("/api/v1/runs/abcd").json()["detail"] == "there is no run 'abcd'; list the runs with: GET /api/v1/runs"
    page = client.get("/runs/abcd").text
    assert "list the runs" in page and "auditor runs" not in page
    monkeypatch.setenv("AUDITOR_TOKEN", served.tokens["run"])
    for command, expected in (
        ("acknowledge same --why x", f"list the incidents with: auditor incidents --server {url}"),
        ("show abcd", f"there is no run 'abcd'; list the runs with: auditor runs --server {url}"),
        ("show order", "there is no run and no audit that ran called 'order'; did you mean 'orders'"),
        ("differences order", "did you mean 'orders'"),
        ("cancel order", "did you mean 'orders'"),
    ):
        assert main([*command.split(), "--server", url]) == 2, command
        assert expected in capsys.readouterr().err, command
    assert main(["cancel", "orders", "--server", url]) == 0
    assert "orders" in capsys.readouterr().out


def test_client_and_command_line(
    listening: tuple[Service, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served, url = listening
    with Client(url, served.tokens["run"]) as client:
        assert [incident.audit for incident in client.incidents()] == ["orders"] == [one.audit for one in client.incidents("orders")]
        assert client.acknowledge("orders", why="known", until=LATER).state == "acknowledged"
        assert client.withdraw_acknowledgement("orders").state == "open"
        with pytest.raises(NoIncident):
            client.acknowledge("same", why="known")
        with pytest.raises(UnknownAudit):
            client.withdraw_acknowledgement("none")
        with pytest.raises(NoReport):
            client.changes(served.runs["orders"])
        second = service.run_audit(served.settings, "orders", store=served.store).run
        changes = client.changes(second, shown=2)
        assert (changes.earlier, changes.new, changes.gone, changes.same) == (served.runs["orders"], 0, 0, 3)
        assert len(changes.same_rows) == 2 and changes == client.changes(second, served.runs["orders"], shown=2)
    monkeypatch.setenv("AUDITOR_TOKEN", served.tokens["run"])
    assert main(["acknowledge", "orders", "--why", "rows of a test", "--mute", "--server", url]) == 0
    assert capsys.readouterr().out == "orders: incident 1 is muted by the run token: rows of a test\n"
    assert main(["incidents", "--json", "--server", url]) == 0
    assert json.loads(capsys.readouterr().out)[0]["state"] == "muted"
    assert main(["incidents", "none", "--server", url]) == 2
    assert main(["acknowledge", "orders", "--withdraw", "--server", url]) == 0
