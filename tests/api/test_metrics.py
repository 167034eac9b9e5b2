"""What Prometheus is told, and that the dashboard and the alerts ask for nothing else."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from auditor import kept, service
from auditor.errors import StoreUnavailable
from auditor.model import Progress
from auditor.store import runs, standing
from tests.api.conftest import Service, made
from tests.store.samples import FAILED, begun

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service of which one run has ended before it began, and one since."""
    with made(tmp_path_factory.mktemp("metrics")) as found:
        service.run_audit(found.settings, "orders", store=found.store)
        yield found


def read(own: Service) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Each sample's value."""
    text = own.client("read").get("/metrics").raise_for_status().text
    families = text_string_to_metric_families(text)
    return {(one.name, tuple(sorted(one.labels.items()))): one.value for family in families for one in family.samples}


def test_how_an_audit_stands(own: Service) -> None:
    found = read(own)
    orders = (("audit", "orders"),)
    last = runs.latest(own.store, "orders")
    assert last
    assert found["auditor_score", orders] == last.score
    assert found["auditor_score_lower", orders] == found["auditor_score_upper", orders] == last.score
    assert found["auditor_coverage", orders] == 1
    assert found["auditor_verdict", (("audit", "orders"), ("verdict", "mismatch"))] == 1
    assert found["auditor_verdict", (("audit", "same"), ("verdict", "match"))] == 1
    assert found["auditor_differing_rows", (("audit", "orders"), ("class", "missing"))] == 1
    same = standing.get(own.store, "same").verified_through
    assert same and found["auditor_verified_timestamp_seconds", (("audit", "same"),)] == same.timestamp()
    assert found["auditor_verified_timestamp_seconds", orders] == 0
    assert last.ended and found["auditor_last_run_timestamp_seconds", orders] == last.ended.timestamp()
    never = (("audit", "away"),)  # an alert sees it all the same
    assert found["auditor_verified_timestamp_seconds", never] == found["auditor_last_run_timestamp_seconds", never] == 0
    assert found["auditor_up", ()] == 1
    assert found["auditor_queue_depth", ()] == 0


def test_runs_since_the_process_began_are_counted_once(own: Service) -> None:
    for _ in range(2):
        found = read(own)
        labels = (("audit", "orders"), ("state", "done"), ("verdict", "mismatch"))
        assert found["auditor_runs_total", labels] == 1
        assert found["auditor_run_duration_seconds_count", (("audit", "orders"), ("method", "exact"))] == 1
        shop = (("audit", "orders"), ("connection", "shop"), ("side", "source"))
        assert found["auditor_scanned_rows_total", shop] == 2000
        assert found["auditor_scanned_bytes_total", shop] > 0


def test_waits_are_counted_while_they_last(own: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "BEAT", 0.02)
    run = begun(own.store, "waiting")
    mine = kept.Kept(own.store, run)
    mine.told(Progress("waiting", "source", "waits: Threads_running is 50, and more than 40"))
    mine.told(Progress("waiting", "target", "reads"))
    source = (("audit", "waiting"), ("side", "source"))
    until = time.monotonic() + 60
    with mine.alive(lambda: None, lambda _: (0, 0)):
        while not (first := read(own).get(("auditor_waited_seconds_total", source))):
            assert time.monotonic() < until, "nothing was counted"
    assert read(own)["auditor_waited_seconds_total", source] >= first
    assert ("auditor_waited_seconds_total", (("audit", "waiting"), ("side", "target"))) not in read(own)
    runs.finish(own.store, run, FAILED)


def test_errors_by_class(own: Service) -> None:
    own.client("read").get("/api/v1/audits/nobody")
    assert read(own)["auditor_errors_total", (("class", "UnknownAudit"),)] >= 1


def test_a_store_that_fails_is_told_of(own: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise StoreUnavailable("gone")

    monkeypatch.setattr(runs, "living", fails)
    found = read(own)
    assert found["auditor_up", ()] == 0
    assert not any(name == "auditor_score" for name, _ in found)


def asked() -> dict[str, str]:
    """Every expression of the dashboard and the alerts, by what it is for."""
    board = json.loads((DOCS / "grafana-dashboard.json").read_text())
    rules = yaml.safe_load((DOCS / "alerts.yml").read_text())
    found = {f"{panel['title']}: {target['refId']}": target["expr"] for panel in board["panels"] for target in panel.get("targets", ())}
    found |= {f"variable {one['name']}": one["query"] for one in board["templating"]["list"] if one["type"] == "query"}
    for group in rules["groups"]:
        for rule in group["rules"]:
            assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
            assert {"summary", "description"} <= set(rule["annotations"])
            found[rule["alert"]] = rule["expr"]
    return found


def test_the_dashboard_and_the_alerts_ask_for_what_there_is(own: Service) -> None:
    text = own.client("read").get("/metrics").text
    there = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    there |= {f"{name}_{part}" for name in there for part in ("bucket", "count", "sum")}
    for place, expression in asked().items():
        names = set(re.findall(r"\bauditor_\w+", expression))
        assert names, place
        assert names <= there, (place, names - there)
        assert expression.count("(") == expression.count(")"), place
    board = json.loads((DOCS / "grafana-dashboard.json").read_text())
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
