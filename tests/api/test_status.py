"""An audit's status: the overview, its page, the daily report, metrics, API, notifications and command line agree in every state."""

from __future__ import annotations

import io
import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from auditor import cli
from auditor.history.audit_status import LABELS, STATUSES, status_label
from auditor.service import notify
from tests.api import states
from tests.api.states import STATES, Places, Sample
from tests.servers.promtool import find_promtool

pytestmark = pytest.mark.duckdb
ALERTS = Path(__file__).parents[2] / "docs" / "alerts.yml"


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    """What all places say of an audit in each state."""
    created = states.create_service(tmp_path_factory.mktemp("standing"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(notify, "send", lambda _, __, message, *___: sent.append(message.title))
        for name, state in STATES.items():
            sent: list[str] = []
            created.titles[name] = sent
            state.prepare(created)
    config = str(created.folder / "auditor.yaml")

    def show(name: str) -> str:
        printed = io.StringIO()
        with redirect_stdout(printed), redirect_stderr(io.StringIO()):
            code = cli.main(["show", name, "--config", config])
        return printed.getvalue() if STATES[name].last_run or STATES[name].status == "running" else f"{code}"

    yield states.read_places(created, show)
    created.store.close()


@pytest.mark.parametrize("name", STATES)
def test_overview(places: Places, name: str) -> None:
    expected, row = STATES[name], states.row_of(places.overview, name)
    assert row.startswith(f'<tr class="row-{expected.status}">') and f'class="verdict {expected.status}"' in row
    assert f"{status_label(expected.status)}</span>" in row  # type: ignore[arg-type]
    assert ("The last run failed on" in row, "The last run was cancelled on" in row) == _early_ends(name)
    assert ("within threshold: " in row) == expected.within_through
    assert ('data-name="verified"><span class="soft">never' in row) == (not expected.verified)


@pytest.mark.parametrize("name", STATES)
def test_page(places: Places, name: str) -> None:
    expected, page = STATES[name], places.pages[name]
    head = page[(start := page.index('<header class="top">')) : page.index("</header>", start)]
    assert f'class="verdict {expected.status}"' in head
    assert ("The last run failed on" in page, "The last run was cancelled on" in page) == _early_ends(name)
    assert ("Not everything is equal" in page) == expected.within_threshold
    assert ("within threshold through" in page) == expected.within_through
    marks = ("with other settings: threshold 0" in page, "with other settings: keys 0..9" in page)
    assert marks == (name in ("looked_at", "one_off_only"), name == "looked_at")


@pytest.mark.parametrize("name", STATES)
def test_daily_report(places: Places, name: str) -> None:
    expected, entry = STATES[name], places.day[name]
    last = entry["last_run"]
    assert (entry["status"], last and last["state"]) == (expected.status, expected.last_run)
    assert entry["verdict"] == expected.verdict and entry["within_threshold"] == expected.within_threshold
    assert (entry["verified_through"] is not None, entry["within_threshold_through"] is not None) == _verified(name)


@pytest.mark.parametrize("name", STATES)
def test_metrics(places: Places, name: str) -> None:
    expected, samples = STATES[name], places.samples
    assert states.chosen(samples, "auditor_status", name, "status") == expected.status
    assert states.chosen(samples, "auditor_verdict", name, "verdict") == expected.verdict
    assert states.chosen(samples, "auditor_last_run_state", name, "state") == expected.last_run
    times = ("verified_through", "within_threshold_through")
    assert tuple(states.gauge(samples, f"auditor_{time}_timestamp_seconds", name) > 0 for time in times) == _verified(name)
    assert (states.gauge(samples, "auditor_last_verdict_timestamp_seconds", name) > 0) == (expected.verdict is not None)


@pytest.mark.parametrize("name", STATES)
def test_api(places: Places, name: str) -> None:
    expected, standing = STATES[name], places.api[name]["status"]
    last = standing["last_run"]
    assert (standing["status"], standing["verdict"], last and last["state"]) == (expected.status, expected.verdict, expected.last_run)
    assert standing["within_threshold"] == expected.within_threshold
    assert (standing["verified_through"] is not None, standing["within_threshold_through"] is not None) == _verified(name)
    assert (standing["run"] is not None) == (expected.verdict is not None)


@pytest.mark.parametrize("name", STATES)
def test_notifications(places: Places, name: str) -> None:
    assert places.titles[name] == [f"{name}: {title}" for title in STATES[name].titles]


@pytest.mark.parametrize("name", STATES)
def test_command_line(places: Places, name: str) -> None:
    expected, shown = STATES[name], places.shown[name]
    if name in ("never", "one_off_only"):
        return
    assert shown.startswith(f"{name}: {status_label(expected.status).upper()}"), shown  # type: ignore[arg-type]
    head, _, report = shown.partition("\n\n")
    assert ("the last run failed on" in head, "the last run was cancelled on" in head) == _early_ends(name)
    assert ("verified through" in head, "within threshold through" in head) == _verified(name)
    if expected.verdict and "rolling" not in expected.audit:
        assert report.startswith(expected.verdict.upper()), "the report is that of the last verdict"


def _verified(name: str) -> tuple[bool, bool]:
    return STATES[name].verified, STATES[name].within_through


def _early_ends(name: str) -> tuple[bool, bool]:
    return STATES[name].last_run == "failed", STATES[name].last_run == "cancelled"


def test_every_status_is_among_the_states() -> None:
    assert {state.status for state in STATES.values()} == set(STATUSES) and set(LABELS) <= set(STATUSES)


# alerts

DAY = 86400
EVALUATED_AT = 3 * DAY
"""Seconds after the first sample at which the alerts are evaluated: later than each of them waits."""


def test_alerts(places: Places, tmp_path: Path) -> None:
    """promtool evaluates the rules over the metrics of audits that stay in their states for three days."""
    series = [{"series": _series_name(one), "values": f"{_value(one):.3f}x{EVALUATED_AT // 600}"} for one in places.samples]
    firing = [(alert, name) for name, state in STATES.items() for alert in state.alerts]
    expected = [
        {"labels": f'ALERTS{{alertname="{alert}",alertstate="firing",{_labels(alert, name)}}}', "value": 1} for alert, name in firing
    ]
    test = {
        "rule_files": [str(ALERTS)],
        "evaluation_interval": "10m",
        "tests": [
            {
                "interval": "10m",
                "input_series": series,
                "promql_expr_test": [{"expr": 'ALERTS{alertstate="firing"}', "eval_time": f"{EVALUATED_AT}s", "exp_samples": expected}],
            }
        ],
    }
    (tmp_path / "test.yml").write_text(json.dumps(test))
    found = subprocess.run([find_promtool(), "test", "rules", "test.yml"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


def _labels(alert: str, audit: str) -> str:
    severity = {"AuditorMismatch": "critical", "AuditorPartlyCovered": "info"}.get(alert, "warning")
    return f'audit="{audit}",severity="{severity}"'


def _series_name(sample: Sample) -> str:
    labels = ",".join(f"{name}={json.dumps(value)}" for name, value in sample[1].items())
    return f"{sample[0]}{{{labels}}}" if labels else sample[0]


def _value(sample: Sample) -> float:
    """Return a sample's value; a time as it would be if the alerts were evaluated now, whose clock begins at 0."""
    name, _, value = sample
    return value - time.time() + EVALUATED_AT if name.endswith("_timestamp_seconds") and value else value
