"""Requesting runs of a section of a table over HTTP, and how they are told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from auditor import cli, service
from auditor.service.queueing import work_off
from auditor.store import runs
from tests.api.conftest import Service, made
from tests.api.test_client import listening

__all__ = ["listening"]

INSIDE = {"from": 600, "to": 710}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Service]:
    """A service of its own, whose runs are carried out when a test says so."""
    with made(tmp_path) as found:
        yield found


def carried_out(served: Service, wanted: dict[str, Any], audit: str = "orders") -> dict[str, Any]:
    with served.client("run") as client:
        asked = client.post(f"/api/v1/audits/{audit}/runs", json=wanted)
        assert asked.status_code == 202, asked.text
        list(work_off(served.settings, served.store))
        found: dict[str, Any] = client.get(asked.headers["Location"]).json()
        return found


def test_a_run_of_a_section(served: Service) -> None:
    found = carried_out(served, {"keys": INSIDE, "reason": "after the backfill"})
    assert (found["verdict"], found["missing"], found["extra"], found["changed"]) == ("mismatch", 1, 0, 0)
    assert found["keys"] == INSIDE and found["times"] is None and found["overrides"] == {"keys": INSIDE}
    assert found["rows"] == {"source": 111, "target": 110}
    assert found["reasons"][0] == "only rows with keys 600 to 710 were compared; nothing is said of others"
    with served.client("read") as client:
        differences = client.get(f"/api/v1/runs/{found['run']}/differences").json()["items"]
        assert [(one["kind"], one["key"]) for one in differences] == [("missing", {"id": "700"})]
        assert client.get(f"/api/v1/runs/{found['run']}/report").json()["section"] == "rows with keys 600 to 710"


def test_how_the_audit_stands_is_as_it_was(served: Service) -> None:
    with served.client("read") as client:
        before = client.get("/api/v1/audits/orders").json()
        assert carried_out(served, {"keys": {"from": 1, "to": 10}})["verdict"] == "match"
        after = client.get("/api/v1/audits/orders").json()
        assert after == before and after["latest"]["run"] == served.runs["orders"] and after["latest"]["verdict"] == "mismatch"
        assert len(client.get("/api/v1/audits/orders/runs").json()["items"]) == 2
    with served.client("read") as client:
        told = client.get("/metrics").text
    assert 'auditor_verdict{audit="orders",verdict="mismatch"} 1.0' in told


@pytest.mark.parametrize(
    "wanted",
    [
        {"keys": {}},
        {"keys": None, "times": {}},
        {"keys": {"from": 2, "to": 1}},
        {"keys": {"from": "1 OR 1=1"}},
        {"keys": {"from": "1"}},
        {"keys": {"from": 1.5}},
        {"keys": {"from": 2**64}},
        {"keys": {"to": -(2**63) - 1}},
        {"keys": {"from": 1, "column": "id"}},
        {"keys": [1, 2]},
        {"times": {"from": "2024-01-01' OR '1'='1"}},
        {"times": {"from": 1704067200}},
        {"times": {"from": "2024-01-02", "to": "2024-01-01"}},
        {"times": {"from": "2024-01-01"}},
    ],
)
def test_what_makes_no_section_is_refused(served: Service, wanted: dict[str, Any]) -> None:
    with served.client("run") as client:
        refused = client.post("/api/v1/audits/orders/runs", json=wanted)
    assert refused.status_code == 422 and refused.headers["Content-Type"] == "application/problem+json", refused.text
    assert len(runs.listed(served.store, audit="orders")) == 1


def test_the_same_request_is_the_same_section(served: Service) -> None:
    with served.client("run") as client:
        asked = [
            client.post("/api/v1/audits/orders/runs", json={"keys": keys}, headers={"Idempotency-Key": "k"})
            for keys in (INSIDE, INSIDE, {"from": 600, "to": 711})
        ]
    assert [one.status_code for one in asked] == [202, 202, 422]
    assert asked[0].json()["run"] == asked[1].json()["run"]


def test_an_audit_of_text_keys_fails_clearly(served: Service) -> None:
    """What only the databases know is told by the run."""
    values = service.definition(served.settings.audits["same"])
    audit = served.settings.audits["same"].model_validate({**values, "key": ["name"]})
    served.settings.audits["same"] = audit
    found = carried_out(served, {"keys": INSIDE}, "same")
    assert (found["state"], found["verdict"], found["exit_code"]) == ("failed", "unknown", 2)
    assert "a range of keys needs a key of one integer column" in found["reasons"][0]


def test_from_the_command_line(listening: tuple[Service, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found, url = listening
    monkeypatch.setenv("AUDITOR_TOKEN", found.tokens["run"])
    assert cli.main(["run", "orders", "--keys", "1..10", "--server", url, "--quiet"]) == 0
    assert "only rows with keys 1 to 10 were compared; nothing is said of others" in capsys.readouterr().out
    assert cli.main(["run", "orders", "--keys", "600..", "--server", url, "--quiet"]) == 1
    assert cli.main(["history", "orders", "--server", url]) == 0
    assert "orders (keys 1..10)" in capsys.readouterr().out
    assert cli.main(["run", "orders", "--times", "2024-01-01..", "--server", url, "--quiet"]) == 2
    assert "the audit names no column of times" in capsys.readouterr().err
