"""A masked key: neither its values nor their range appear in a report, on a page or in an API answer."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor import service
from auditor.api import create_app
from auditor.config import Settings, validate_settings
from auditor.history import records
from auditor.history.records import as_run
from auditor.report import day, day_text, listing, render, text
from auditor.report import json as as_json
from auditor.store import Store, open_store, runs, tokens

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Starlette recommends another HTTP client; this one does here
    from starlette.testclient import TestClient

BASE, ROWS, SIZE = 918_273_000_000, 3000, 64
GREATEST = 7_654_321
AT = dt.datetime(1987, 6, 5)
FROM, TO = BASE + 1000, BASE + 1100
GUESSED = hashlib.sha256(b"confidential 0").hexdigest()[:10]
SECRETS = ("918273", str(BASE // SIZE)[:6], str(GREATEST)[:6], "1987-06", "confidential", GUESSED)
"""Prefixes of the keys, of their partitions' ids and of the greatest sparse key (its span), the year of the times, the classes, and
the hash that anybody who guesses a class can compute."""

AUDITS: dict[str, dict[str, Any]] = {
    "dense": {},
    "bucketed": {"partition": {"strategy": "hash", "buckets": 8}},
    "one-sided": {"source": "half", "partition": {"strategy": "hash", "buckets": 64}},
    "sparse": {"source": "sparse"},
    "alike": {"method": "minhash", "partition": {"buckets": 40}},
    "counted": {"method": "counts", "partition": {"buckets": 40}},
    "classes": {"method": "counts", "counts": {"classes": ["word"], "histogram": [{"column": "id", "buckets": 4}]}},
}

OVER_HTTP = [form for form in render.FORMATS if form != "junit"]


def settings(directory: Path) -> Settings:
    def audit(more: dict[str, Any]) -> dict[str, Any]:
        table = more.get("source", "t")
        masked = {"columns": {"override": {name: {"mask": True} for name in ("id", "at", "word")}}, "key": ["id"]}
        return {**masked, **more, **{side: {"connection": side, "table": table} for side in ("source", "target")}}

    return validate_settings(
        {
            "connections": {side: {"url": f"duckdb:///{directory}/{side}.duckdb"} for side in ("source", "target")},
            "audits": {name: audit(more) for name, more in AUDITS.items()},
            "store": {"url": f"sqlite:///{directory}/runs.db"},
        }
    )


@pytest.fixture(scope="module")
def hidden(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Settings, Store]]:
    directory = tmp_path_factory.mktemp("masked")
    columns = f"TIMESTAMP '{AT}' + INTERVAL (i % 400) HOUR AS at, 'confidential ' || (i % 3) AS word"
    for side in ("source", "target"):
        with duckdb.connect(f"{directory}/{side}.duckdb") as connection:
            connection.execute(f"CREATE TABLE t AS SELECT ({BASE} + i)::BIGINT AS id, {columns} FROM range({ROWS}) r(i)")
            connection.execute(
                f"CREATE TABLE sparse AS SELECT (i * {GREATEST} // {ROWS - 1})::BIGINT AS id, {columns} FROM range({ROWS}) r(i)"
            )
            connection.execute(f"CREATE TABLE half AS SELECT * FROM t WHERE id < {BASE + 40}")
            if side == "target":
                connection.execute(f"DELETE FROM t WHERE id BETWEEN {FROM} AND {TO} OR id = {BASE + 7}")
                connection.execute(f"UPDATE t SET word = 'other' WHERE id = {BASE + 2500}")
                connection.execute(f"UPDATE sparse SET word = 'other' WHERE id = {GREATEST}")
                connection.execute(f"DELETE FROM half WHERE id < {BASE + 20}")
    configured = settings(directory)
    store = open_store(f"sqlite:///{directory}/runs.db")
    for name in configured.audits:
        report = service.run_audit(configured, name, store=store)
        assert report.verdict.value == "mismatch", (name, report.reasons)
    yield configured, store
    store.close()


def secrets_in(text: str) -> list[str]:
    """Return the secrets that a text contains, with or without thousands separators, and their context."""
    plain = re.sub(r"\b[0-9a-f]{32}\b", "", text).replace(",", "").replace("&#44;", "")  # random ids contain any four digits
    return [f"{secret} in ...{plain[max(0, plain.index(secret) - 60) : plain.index(secret) + 30]}" for secret in SECRETS if secret in plain]


@pytest.mark.parametrize("name", AUDITS)
def test_reports_of_runs_hide_them(hidden: tuple[Settings, Store], name: str) -> None:
    _, store = hidden
    for run in runs.list_runs(store, audit=name):
        report = records.load_report(store, run.run)
        assert report
        for form in render.FORMATS:
            assert secrets_in(render.run(report, records.load_partition_map(store, run.run), form)) == [], form
        shown = as_run(run)
        assert secrets_in(render.plain_text(listing.runs([shown]))) == secrets_in(shown.to_json()) == []


@pytest.mark.parametrize("name", AUDITS)
def test_plans_hide_them(hidden: tuple[Settings, Store], name: str) -> None:
    configured, _ = hidden
    plan = service.make_plan(configured, name, configured.audits[name])
    assert secrets_in(render.plain_text(text.plan(plan))) == secrets_in(as_json.plan(plan).to_json()) == []
    assert all(secrets_in(script) == [] for script in service.sql(configured, name).values())


def test_reports_of_days_hide_them(hidden: tuple[Settings, Store]) -> None:
    configured, store = hidden
    found = day.load_day(store, configured, dt.datetime.now(dt.UTC).date())
    assert {one.status for one in found.entries} == {"mismatch"}
    for form in render.FORMATS:
        assert secrets_in(render.day(found, form)) == [], form
    assert all(secrets_in(line) == [] for entry in found.entries for line in day_text.lines(entry))


def test_pages_and_answers_hide_them(hidden: tuple[Settings, Store]) -> None:
    configured, store = hidden
    client = TestClient(create_app(configured, store), raise_server_exceptions=False, base_url="http://localhost")
    client.headers["Authorization"] = f"Bearer {tokens.create_token(store, name='all', scope='define')}"
    paths = ["/", "/day", "/api/v1/audits", "/api/v1/runs", "/api/v1/events", "/metrics"]
    paths += [f"/api/v1/days/{dt.datetime.now(dt.UTC).date()}/report?format={form}" for form in OVER_HTTP]
    for name in AUDITS:
        audit = name.replace(" ", "%20")
        paths += [f"/audits/{audit}", f"/audits/{audit}/sql"] + [f"/api/v1/audits/{audit}{of}" for of in ("", "/plan", "/sql", "/runs")]
        for run in (one.run for one in runs.list_runs(store, audit=name)):
            paths += [f"/runs/{run}", f"/runs/{run}/live", *(f"/runs/{run}/report.{form}" for form in OVER_HTTP)]
            paths += [f"/api/v1/runs/{run}{of}" for of in ("", "/report", "/partitions?limit=500", "/events")]
            if "counts" not in str(configured.audits[name].method) and name != "alike":
                paths += [f"/runs/{run}/differences.{form}" for form in ("csv", "ndjson")]
                paths += [f"/api/v1/runs/{run}/differences?format={form}" for form in ("json", "csv", "ndjson")]
    for path in paths:
        answer = client.get(path)
        assert answer.status_code == 200, (path, answer.text[:200])
        assert secrets_in(answer.text) == [], path
