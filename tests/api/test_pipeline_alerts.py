"""The alerts of pipelines and segment audits: promtool evaluates them over metrics that stay as they are for two days."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from auditor.api import metrics
from auditor.api.dependencies import AppState
from auditor.config import validate_settings
from auditor.store import open_store
from tests.browser import pipeline_samples, segment_samples
from tests.servers.promtool import find_promtool

ALERTS = Path(__file__).parents[2] / "docs" / "alerts.yml"

EXPECTED = {
    ("AuditorPipelineTablePoisoned", "critical", ("shop",)),
    ("AuditorPipelineTableStopped", "critical", ("shop", "warehouse", "shop.payments")),
    ("AuditorPipelineTargetLags", "warning", ("shop", "warehouse")),
    ("AuditorPipelineTargetLags", "warning", ("shop", "lake")),
    ("AuditorPipelineWarns", "warning", ("shop",)),
    ("AuditorPipelinePaused", "warning", ("crm",)),
    ("AuditorPipelineDown", "critical", ("erp",)),
    ("AuditorPipelineLags", "warning", ("erp",)),
    ("AuditorPipelineStagingFails", "critical", ("erp",)),
    ("AuditorPipelineDown", "critical", ("new",)),
}
"""What fires for the samples: each alert with its severity, and of which pipeline, target and table it is."""


EXPECTED_OF_SEGMENTS = {("AuditorSegmentsDiffer", "critical", ("zones",)), ("AuditorSegmentsLag", "warning", ("zones", "new"))}
"""The same of which segment audit, and which of its sides."""


class Pipelines(Collector):
    def __init__(self, app: AppState) -> None:
        self.app = app

    def collect(self) -> Iterator[Metric]:
        return chain(metrics.collect_pipelines(self.app), metrics.collect_segments(self.app))


def test_alerts_fire_for_what_needs_attention_alone(tmp_path: Path) -> None:
    duckdb = f"duckdb:///{tmp_path}/w.duckdb"
    urls = {"mysql": {"url": "mysql://nobody@localhost/shop"}, "warehouse": {"url": duckdb, "write": {"url": duckdb}}}
    pipelines = pipeline_samples.configured(str(tmp_path), "mysql", "warehouse")
    audits = {**segment_samples.CONFIGURED, "zones": {**segment_samples.CONFIGURED["zones"], "max_lag": "0s"}}
    settings = validate_settings({"connections": urls, "audits": {}, "pipelines": pipelines, "segments": audits})
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    pipeline_samples.create(settings, store, dt.datetime.now(dt.UTC))
    segment_samples.create(settings, store, dt.datetime.now(dt.UTC))
    registry = CollectorRegistry()
    registry.register(Pipelines(AppState(settings, store)))
    series = [
        {"series": f"{one.name}{{{_labels(one.labels)}}}", "values": f"{one.value:.3f}x300"}
        for family in registry.collect()
        for one in family.samples
    ]
    store.close()
    expected = [
        {"labels": f'ALERTS{{alertname="{alert}",alertstate="firing",severity="{severity}",{_place(place, names)}}}', "value": 1}
        for names, listed in ((("pipeline", "target", "table"), EXPECTED), (("audit", "side"), EXPECTED_OF_SEGMENTS))
        for alert, severity, place in sorted(listed)
    ]
    check = {"expr": 'ALERTS{alertstate="firing"}', "eval_time": "2d", "exp_samples": expected}
    test = {"interval": "10m", "input_series": series, "promql_expr_test": [check]}
    (tmp_path / "test.yml").write_text(json.dumps({"rule_files": [str(ALERTS)], "evaluation_interval": "10m", "tests": [test]}))
    found = subprocess.run([find_promtool(), "test", "rules", "test.yml"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


def _place(place: tuple[str, ...], names: tuple[str, ...]) -> str:
    return _labels(dict(zip(names, place, strict=False)))


def _labels(labels: dict[str, str]) -> str:
    return ",".join(f"{name}={json.dumps(value)}" for name, value in labels.items())
