"""A service with an audit in each state, and what each of the seven places that report an audit says of it."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import httpx2
import sqlalchemy as sa
from prometheus_client.parser import text_string_to_metric_families

from auditor import config, service
from auditor.api import create_app
from auditor.config import Settings
from auditor.history import records
from auditor.history.handover import Outcome
from auditor.model import Report, State, Verdict
from auditor.report import render
from auditor.report.day import load_day
from auditor.service import notify
from auditor.store import Store, open_store, run_lifecycle
from auditor.store.schema import runs as table
from tests.api.conftest import make_client

OTHER: dict[str, Any] = {"source": {"connection": "source", "table": "other"}, "target": {"connection": "target", "table": "other"}}
SAME: dict[str, Any] = {"source": {"connection": "source", "table": "same"}, "target": {"connection": "target", "table": "same"}}
YOUNG: dict[str, Any] = {"source": {"connection": "source", "table": "young"}, "target": {"connection": "target", "table": "young"}}
DRIFTS: dict[str, Any] = {"source": {"connection": "source", "table": "drifts"}, "target": {"connection": "target", "table": "drifts"}}
ROLLING: dict[str, Any] = {**OTHER, "partition": {"size": 10}, "rolling": {"per_run": "50%"}}
ROWS = 40
CHANGED = 35
"""The key of the row that differs, in the second half of the table."""

Sample = tuple[str, dict[str, str], float]


@dataclass
class Service:
    """The service with its audits, the file of its configuration, and the titles of messages by audit."""

    folder: Path
    settings: Settings
    store: Store
    titles: dict[str, list[str]] = field(default_factory=dict)

    def run(self, audit: str, overrides: dict[str, Any] | None = None) -> Report:
        """Run an audit, and notify its channel."""
        report = service.run_audit(self.settings, audit, store=self.store, overrides=overrides or {})
        self.notify(report)
        return report

    def start(self, audit: str, overrides: dict[str, Any] | None = None) -> str:
        """Start a run that does not end."""
        run, own = uuid.uuid4().hex, service.definition(self.settings.audit(audit))
        run_lifecycle.start_run(self.store, run=run, audit=audit, definition=own, method="exact", overrides=overrides or {})
        return run

    def end_early(self, audit: str, state: State) -> None:
        """Store a run that failed or was cancelled, and notify the channel."""
        run = self.start(audit)
        why = ("no route to host",) if state is State.FAILED else ("the run was cancelled",)
        report = Report(audit=audit, run=run, state=state, verdict=Verdict.UNKNOWN, reasons=why, seconds=1.0, exit_code=3)
        records.save_result(self.store, Outcome(records.with_verified_through(self.store, report)))
        self.notify(report)

    def notify(self, report: Report) -> None:
        """Notify the channel of a run."""
        assert notify.notify_run(self.settings.notify, self.store, report) == []

    def execute(self, sql: str, sides: Sequence[str] = ("source", "target")) -> None:
        """Execute a statement in the databases of these sides."""
        for side in sides:
            with duckdb.connect(str(self.folder / f"{side}.duckdb")) as connection:
                connection.execute(sql)

    def age(self, audit: str, days: float) -> None:
        """Move all runs of an audit into the past."""
        back = dt.timedelta(days=days)
        with self.store.engine.begin() as connection:
            for row in connection.execute(sa.select(table).where(table.c.audit == audit)).all():
                moved = {"started": row.started - back, "ended": row.ended and row.ended - back}
                connection.execute(sa.update(table).where(table.c.number == row.number).values(**moved))


def _within(service: Service) -> None:
    service.run("within")


def _cancelled(name: str) -> Callable[[Service], None]:
    def prepare(service: Service) -> None:
        service.run(name)
        service.end_early(name, State.CANCELLED)

    return prepare


def _failed(name: str) -> Callable[[Service], None]:
    def prepare(service: Service) -> None:
        _cancelled(name)(service)
        service.end_early(name, State.FAILED)

    return prepare


def _looked_at(service: Service) -> None:
    _failed("looked_at")(service)
    assert service.run("looked_at", {"threshold": 0}).verdict is Verdict.MATCH
    assert service.run("looked_at", {"keys": {"from": 0, "to": 9}}).verdict is Verdict.MATCH


def _one_off_only(service: Service) -> None:
    assert service.run("one_off_only", {"threshold": 0}).verdict is Verdict.MATCH


def _rolling(times: int, name: str) -> Callable[[Service], None]:
    def prepare(service: Service) -> None:
        for _ in range(times):
            service.run(name)

    return prepare


def _drifted(service: Service) -> None:
    service.run("drifted")
    service.execute("ALTER TABLE drifts ADD COLUMN more BIGINT")
    assert service.run("drifted").state is State.FAILED


def _stale(service: Service) -> None:
    service.run("stale")
    service.age("stale", 10)


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What all places have to say of an audit in a state, and how it got there."""

    audit: dict[str, Any] = field(default_factory=lambda: OTHER)
    prepare: Callable[[Service], object]
    status: str
    verdict: str | None
    within_threshold: bool = False
    last_run: str | None = "done"
    verified: bool = False
    within_through: bool = False
    titles: tuple[str, ...] = ()
    alerts: tuple[str, ...] = ()


DIFFERS = ("MISMATCH, 1 row differs",)
STATES = {
    "never": Expected(audit=SAME, prepare=lambda _: None, status="never", verdict=None, last_run=None, alerts=("AuditorNeverRan",)),
    "one_off_only": Expected(prepare=_one_off_only, status="never", verdict=None, last_run=None, alerts=("AuditorNeverRan",)),
    "running": Expected(
        audit=SAME, prepare=lambda s: s.start("running"), status="running", verdict=None, last_run=None, alerts=("AuditorNeverRan",)
    ),
    "match": Expected(audit=SAME, prepare=lambda s: s.run("match"), status="match", verdict="match", verified=True),
    "stale": Expected(
        audit=SAME, prepare=_stale, status="stale", verdict="match", verified=True, alerts=("AuditorStale",)
    ),
    "within": Expected(
        audit={**OTHER, "threshold": {"rows": 5}}, prepare=_within, status="within_threshold", verdict="match", within_threshold=True,
        within_through=True,
    ),
    "within_score": Expected(
        audit={**OTHER, "threshold": 0.9}, prepare=lambda s: s.run("within_score"), status="within_threshold", verdict="match",
        within_threshold=True, within_through=True,
    ),
    "mismatch": Expected(
        prepare=lambda s: s.run("mismatch"), status="mismatch", verdict="mismatch", titles=DIFFERS, alerts=("AuditorMismatch",)
    ),
    "cancelled": Expected(
        prepare=_cancelled("cancelled"), status="mismatch", verdict="mismatch", last_run="cancelled", titles=DIFFERS,
        alerts=("AuditorMismatch",),
    ),
    "failed": Expected(
        prepare=_failed("failed"), status="mismatch", verdict="mismatch", last_run="failed",
        titles=(*DIFFERS, "run FAILED, last verdict MISMATCH"), alerts=("AuditorFailing", "AuditorMismatch"),
    ),
    "looked_at": Expected(
        prepare=_looked_at, status="mismatch", verdict="mismatch", last_run="failed",
        titles=(*DIFFERS, "run FAILED, last verdict MISMATCH"), alerts=("AuditorFailing", "AuditorMismatch"),
    ),
    "half_way": Expected(
        audit=ROLLING, prepare=_rolling(1, "half_way"), status="unknown", verdict="unknown", alerts=("AuditorUnknown",)
    ),
    "rolled": Expected(
        audit=ROLLING, prepare=_rolling(3, "rolled"), status="mismatch", verdict="mismatch", titles=DIFFERS, alerts=("AuditorMismatch",)
    ),
    "ladder": Expected(
        audit={**OTHER, "ladder": ["counts", "signature", "exact"]}, prepare=lambda s: s.run("ladder"), status="mismatch",
        verdict="mismatch", titles=DIFFERS, alerts=("AuditorMismatch",),
    ),
    "drifted": Expected(
        audit={**DRIFTS, "schema": "strict"}, prepare=_drifted, status="match", verdict="match", last_run="failed", verified=True,
        titles=("run FAILED, last verdict MATCH",), alerts=("AuditorFailing",),
    ),
    "settled": Expected(
        audit={**YOUNG, "where": {"source": "id < 20", "target": "id < 20"}, "settle": {"column": "seen", "lag": "1h"}},
        prepare=lambda s: s.run("settled"), status="match", verdict="match", verified=True,
    ),
    "unsettled": Expected(
        audit={**YOUNG, "where": {"source": "id >= 20", "target": "id >= 20"}, "settle": {"column": "seen", "lag": "1h"}},
        prepare=lambda s: s.run("unsettled"), status="unknown", verdict="unknown", titles=("UNKNOWN",),
        alerts=("AuditorPartlyCovered", "AuditorUnknown"),
    ),
}  # fmt: skip


def create_service(folder: Path) -> Service:
    """Create two databases, and a service with an audit for each state."""
    values = {
        "connections": {side: {"url": f"duckdb:///{folder}/{side}.duckdb"} for side in ("source", "target")},
        "audits": {name: {**state.audit, "key": ["id"]} for name, state in STATES.items()},
        "store": {"url": f"sqlite:///{folder}/store.db"},
        "notify": {"channels": {"ops": {"url": "json://127.0.0.1"}}},
    }
    (folder / "auditor.yaml").write_text(json.dumps(values))
    settings = config.load(folder / "auditor.yaml")
    assert settings.store
    created = Service(folder, settings, open_store(settings.store.url))
    for name in ("same", "other", "drifts"):
        created.execute(f"CREATE TABLE {name} AS SELECT CAST(i AS BIGINT) AS id, 'v' || i AS v FROM range({ROWS}) r(i)")
    created.execute(f"UPDATE other SET v = 'w' WHERE id = {CHANGED}", ["target"])
    seen = "CASE WHEN i < 20 THEN TIMESTAMP '2024-01-01' ELSE now()::TIMESTAMP END"
    created.execute(f"CREATE TABLE young AS SELECT CAST(i AS BIGINT) AS id, {seen} AS seen FROM range({ROWS}) r(i)")
    return created


@dataclass(frozen=True)
class Places:
    """What the seven places say of all audits, read once."""

    overview: str
    pages: dict[str, str]
    day: dict[str, dict[str, Any]]
    samples: list[Sample]
    api: dict[str, dict[str, Any]]
    titles: dict[str, list[str]]
    shown: dict[str, str]


def read_places(created: Service, show: Callable[[str], str]) -> Places:
    """Read all places; ``show`` returns what the command ``auditor show`` prints of an audit."""
    app = create_app(created.settings, created.store, insecure=True)
    with contextlib.closing(make_client(app)) as client:
        metrics = text_string_to_metric_families(_get(client, "/metrics").text)
        samples = [(one.name, dict(one.labels), float(one.value)) for family in metrics for one in family.samples]
        return Places(
            overview=_get(client, "/").text,
            pages={name: _get(client, f"/audits/{name}").text for name in STATES},
            day={one["audit"]: one for one in _day(created)},
            samples=samples,
            api={one["name"]: one for one in _get(client, "/api/v1/audits?limit=100").json()["items"]},
            titles=created.titles,
            shown={name: show(name) for name in STATES},
        )


def _get(client: httpx2.Client, path: str) -> httpx2.Response:
    return client.get(path).raise_for_status()


def _day(created: Service) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(render.day(load_day(created.store, created.settings, dt.datetime.now(dt.UTC).date()), "json"))[
        "audits"
    ]
    return found


def row_of(overview: str, name: str) -> str:
    """Return the row of an audit in the page of all audits."""
    rows = re.findall(r"<tr class=.*?</tr>", overview, re.DOTALL)
    return next(str(row) for row in rows if f"<bdi>{name}</bdi></a>" in row)


def chosen(samples: Sequence[Sample], metric: str, audit: str, label: str) -> str | None:
    """Return the value of the label whose sample is 1; None if the audit has no samples of this metric."""
    of_audit = {labels[label]: value for name, labels, value in samples if name == metric and labels.get("audit") == audit}
    assert sorted(of_audit.values())[-1:] in ([], [1.0]) and sum(of_audit.values()) <= 1
    return next((word for word, value in of_audit.items() if value), None)


def gauge(samples: Sequence[Sample], metric: str, audit: str) -> float:
    """Return the value of an audit's only sample of a metric."""
    (value,) = (value for name, labels, value in samples if name == metric and labels == {"audit": audit})
    return value
