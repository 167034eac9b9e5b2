"""Metrics for Prometheus, and that the dashboard and the alerts use only existing ones."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from auditor import service
from auditor.api import create_app
from auditor.config import Budget, GuestLimits, Price
from auditor.errors import StoreUnavailable
from auditor.history import checkpoint
from auditor.model import Progress
from auditor.store import audit_state, run_lifecycle, runs
from tests.api.conftest import Service, TemporaryService
from tests.durations import SetDurations
from tests.store.samples import FAILED, start_run

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service; of ``orders`` one run ended before it started, and one since."""
    with TemporaryService(tmp_path_factory.mktemp("metrics")) as found:
        service.run_audit(found.settings, "orders", store=found.store)
        yield found


def read_metrics(own: Service) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Read the metrics and return the value of each sample by its name and labels."""
    text = own.client("read").get("/metrics").raise_for_status().text
    families = text_string_to_metric_families(text)
    return {(one.name, tuple(sorted(one.labels.items()))): one.value for family in families for one in family.samples}


def test_state_of_each_audit(own: Service) -> None:
    found = read_metrics(own)
    orders = (("audit", "orders"),)
    last = runs.get_latest_run(own.store, "orders")
    assert last
    assert found["auditor_score", orders] == last.score
    assert found["auditor_score_lower", orders] == found["auditor_score_upper", orders] == last.score
    assert found["auditor_coverage", orders] == 1
    assert found["auditor_verdict", (("audit", "orders"), ("verdict", "mismatch"))] == 1
    assert found["auditor_verdict", (("audit", "same"), ("verdict", "match"))] == 1
    assert found["auditor_differing_rows", (("audit", "orders"), ("kind", "missing"))] == 1
    same = audit_state.get_state(own.store, "same").verified_through
    assert same and found["auditor_verified_through_timestamp_seconds", (("audit", "same"),)] == same.timestamp()
    assert found["auditor_verified_through_timestamp_seconds", orders] == 0
    assert last.ended and found["auditor_last_run_timestamp_seconds", orders] == last.ended.timestamp()
    never = (("audit", "away"),)  # 0, so that an alert fires for an audit that has never run
    assert found["auditor_verified_through_timestamp_seconds", never] == found["auditor_last_run_timestamp_seconds", never] == 0
    assert found["auditor_store_up", ()] == 1
    assert found["auditor_queue_depth", ()] == 0
    assert found["auditor_patches_waiting", ()] == 0


def test_runs_since_the_start_of_the_process_are_counted_once(own: Service) -> None:
    for _ in range(2):
        found = read_metrics(own)
        labels = (("audit", "orders"), ("settings", "own"), ("state", "done"), ("verdict", "mismatch"))
        assert found["auditor_runs_total", labels] == 1
        assert found["auditor_run_duration_seconds_count", (("audit", "orders"), ("method", "exact"))] == 1
        shop = (("audit", "orders"), ("connection", "shop"), ("side", "source"))
        assert found["auditor_scanned_rows_total", shop] == 2000
        assert found["auditor_received_bytes_total", shop] > 0


def test_waits_are_counted_while_they_last(own: Service, set_durations: SetDurations) -> None:
    set_durations(run_heartbeat=0.02)
    run = start_run(own.store, "waiting")
    store_checkpoint = checkpoint.StoreCheckpoint(own.store, run)
    store_checkpoint.save_progress(Progress("waiting", "source", "waits: Threads_running is 50, and more than 40"))
    store_checkpoint.save_progress(Progress("waiting", "target", "reads"))
    source = (("audit", "waiting"), ("side", "source"))
    until = time.monotonic() + 60
    with store_checkpoint.keep_alive(lambda: None, lambda _: (0, 0)):
        while not (first := read_metrics(own).get(("auditor_database_wait_seconds_total", source))):
            assert time.monotonic() < until, "no wait was counted"
    assert read_metrics(own)["auditor_database_wait_seconds_total", source] >= first
    assert ("auditor_database_wait_seconds_total", (("audit", "waiting"), ("side", "target"))) not in read_metrics(own)
    run_lifecycle.finish_run(own.store, run, FAILED)


def test_errors_are_counted_by_class(own: Service) -> None:
    own.client("read").get("/api/v1/audits/nobody")
    assert read_metrics(own)["auditor_errors_total", (("class", "UnknownAudit"),)] >= 1


def test_failing_store_is_reported(own: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise StoreUnavailable("gone")

    monkeypatch.setattr(runs, "get_active_runs", fails)
    found = read_metrics(own)
    assert found["auditor_store_up", ()] == 0
    assert not any(name == "auditor_score" for name, _ in found)


def get_expressions() -> dict[str, str]:
    """Return every expression of the dashboard and the alerts by the name of its panel, variable or alert."""
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


def test_dashboard_and_alerts_use_only_existing_metrics(own: Service) -> None:
    text = own.client("read").get("/metrics").text
    existing = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    existing |= {f"{name}_{part}" for name in existing for part in ("bucket", "count", "sum")}
    for place, expression in get_expressions().items():
        names = set(re.findall(r"\bauditor_\w+", expression))
        assert names, place
        assert names <= existing, (place, names - existing)
        assert expression.count("(") == expression.count(")"), place
    board = json.loads((DOCS / "grafana-dashboard.json").read_text())
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_what_runs_cost_is_counted_by_audit_and_connection(tmp_path: Path) -> None:
    with TemporaryService(tmp_path) as found:
        priced = {"price": Price(usd=3600, per="hour"), "limits": GuestLimits(budget=Budget(seconds=3600, per="day"))}
        warehouse = found.settings.connections["warehouse"].model_copy(update=priced)
        settings = found.settings.model_copy(update={"connections": {**found.settings.connections, "warehouse": warehouse}})
        found.app = create_app(settings, found.store)
        read_metrics(found)  # runs are counted from now on
        [of_target] = [cost for cost in service.run_audit(settings, "orders", store=found.store).spent if cost.connection == "warehouse"]
        metrics = read_metrics(found)
        counted = {(name, dict(labels).get("connection")): value for (name, labels), value in metrics.items()}
        seconds = {connection: value for (name, connection), value in counted.items() if name == "auditor_statement_seconds_total"}
        usd = {connection: value for (name, connection), value in counted.items() if name == "auditor_cost_usd_total"}
        assert seconds.keys() == {"shop", "warehouse"} and seconds["warehouse"] == pytest.approx(of_target.spent.seconds)
        assert usd == {"warehouse": pytest.approx(of_target.spent.seconds)}, "of what has no price nothing is counted, not zero"
        used = metrics["auditor_day_budget_used", (("name", "warehouse"), ("of", "connection"), ("what", "seconds"))]
        assert used >= of_target.spent.seconds / 3600 > 0
