"""Runs of a slice of a table over HTTP: requests and reports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from auditor import cli, service
from auditor.service.workers import run_pending
from auditor.store import runs
from tests.api.conftest import Service, TemporaryService

INSIDE = {"from": 600, "to": 710}


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Service]:
    """A separate service per test; the test executes its pending runs itself."""
    with TemporaryService(tmp_path) as found:
        yield found


def execute_run(own: Service, wanted: dict[str, Any], audit: str = "orders") -> dict[str, Any]:
    with own.client("run") as client:
        response = client.post(f"/api/v1/audits/{audit}/runs", json=wanted)
        assert response.status_code == 202, response.text
        list(run_pending(own.settings, own.store))
        found: dict[str, Any] = client.get(response.headers["Location"]).json()
        return found


def test_slice_run_compares_only_its_rows(own: Service) -> None:
    found = execute_run(own, {"keys": INSIDE, "reason": "after the backfill"})
    assert (found["verdict"], found["missing"], found["extra"], found["changed"]) == ("mismatch", 1, 0, 0)
    assert found["keys"] == INSIDE and found["times"] is None and found["overrides"] == {"keys": INSIDE}
    assert found["rows"] == {"source": 111, "target": 110}
    assert found["reasons"][0] == "only rows with keys 600 to 710 were compared; nothing is said of others"
    with own.client("read") as client:
        differences = client.get(f"/api/v1/runs/{found['run']}/differences").json()["items"]
        assert [(one["kind"], one["key"]) for one in differences] == [("missing", {"id": "700"})]
        assert client.get(f"/api/v1/runs/{found['run']}/report").json()["slice"] == "rows with keys 600 to 710"


def test_slice_run_does_not_change_the_state_of_the_audit(own: Service) -> None:
    with own.client("read") as client:
        before = client.get("/api/v1/audits/orders").json()
        assert execute_run(own, {"keys": {"from": 1, "to": 10}})["verdict"] == "match"
        after = client.get("/api/v1/audits/orders").json()
        assert after == before and after["latest_run"]["run"] == own.runs["orders"] and after["latest_run"]["verdict"] == "mismatch"
        assert len(client.get("/api/v1/audits/orders/runs").json()["items"]) == 2
    with own.client("read") as client:
        metrics = client.get("/metrics").text
    assert 'auditor_verdict{audit="orders",verdict="mismatch"} 1.0' in metrics


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
def test_invalid_slice_is_rejected(served: Service, wanted: dict[str, Any]) -> None:
    with served.client("run") as client:
        refused = client.post("/api/v1/audits/orders/runs", json=wanted)
    assert refused.status_code == 422 and refused.headers["Content-Type"] == "application/problem+json", refused.text
    assert len(runs.list_runs(served.store, audit="orders")) == 1


def test_idempotency_key_includes_the_slice(own: Service) -> None:
    with own.client("run") as client:
        responses = [
            client.post("/api/v1/audits/orders/runs", json={"keys": keys}, headers={"Idempotency-Key": "k"})
            for keys in (INSIDE, INSIDE, {"from": 600, "to": 711})
        ]
    assert [one.status_code for one in responses] == [202, 202, 422]
    assert responses[0].json()["run"] == responses[1].json()["run"]


def test_slice_by_keys_is_refused_for_text_keys(own: Service) -> None:
    """No run is stored that can only fail."""
    values = service.definition(own.settings.audits["same"])
    own.settings.audits["same"] = own.settings.audits["same"].model_validate({**values, "key": ["name"]})
    before = len(runs.list_runs(own.store, limit=1000))
    refused = own.client("run").post("/api/v1/audits/same/runs", json={"keys": INSIDE})
    assert refused.status_code == 422 and "a range of keys needs a key of one integer column" in refused.json()["detail"]
    assert len(runs.list_runs(own.store, limit=1000)) == before


@pytest.mark.slow
def test_slice_on_command_line(listening: tuple[Service, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found, url = listening
    monkeypatch.setenv("AUDITOR_TOKEN", found.tokens["run"])
    assert cli.main(["run", "orders", "--keys", "1..10", "--server", url, "--quiet"]) == 0
    assert "only rows with keys 1 to 10 were compared; nothing is said of others" in capsys.readouterr().out
    assert cli.main(["run", "orders", "--keys", "600..", "--server", url, "--quiet"]) == 1
    assert cli.main(["history", "orders", "--server", url]) == 0
    assert ": with other settings: keys 1..10" in capsys.readouterr().out
    assert cli.main(["history", "nosuch", "--server", url]) == 2
    assert "there is no audit 'nosuch'" in capsys.readouterr().err
    assert cli.main(["show", "orders", "--server", url]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("orders: MISMATCH\n  "), "not what the slice shows"
    assert "keys 600" not in shown and "7 of 10 equal, 3 differ" in shown.partition("\n\n")[2]
    assert cli.main(["run", "orders", "--times", "2024-01-01..", "--server", url, "--quiet"]) == 2
    assert "the audit names no column of times" in capsys.readouterr().err
