"""The trial installation of docker-compose.yml: its services run in order, are stopped, and run again with the same volumes.

No container is started: tests/process/composed.py runs the commands of the file. What is asked is what one sees: the API and the pages.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import duckdb
import psycopg2.errors
import pymysql
import pytest

import dialects
from auditor.config import load
from dialects.kinds import Kind
from tests.process.composed import Composition
from tests.process.test_containers import COMPOSE, ROOT, all_instructions
from tests.servers import postgres
from tests.servers.process import open_directory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="each service has a loopback address of its own, as Linux alone has them")

PATIENCE = 240.0

FLIGHTS = {"flights": "mismatch", "flights_quick": "mismatch", "flights_whole": "match", "flights_lake": "mismatch"}
ALIGNED = ("shop_orders_warehouse", "shop_orders_duck", "shop_customers_warehouse")


@pytest.fixture
def trial(monkeypatch: pytest.MonkeyPatch) -> Iterator[Composition]:
    monkeypatch.setenv("SAMPLE_ROWS", "3000")
    for name in ("JAVA_TOOL_OPTIONS", "SPARK_CONF_DIR", "AUDITOR_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    image = all_instructions(COMPOSE["services"]["auditor"]["build"]["target"])
    variables = dict(pair.split("=", 1) for word, rest in image if word == "ENV" for pair in rest.split())
    folder = open_directory()
    composition = Composition(ROOT, COMPOSE, folder, dict(image), variables)
    try:
        yield composition
    finally:
        composition.down()
        subprocess.run(["rm", "-rf", str(folder)], check=True)


def test_stand_in_for_redshift_copies_from_the_bucket(trial: Composition, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    trial.up("redshift", "s3")
    auditor = trial.service("auditor")
    for name, value in auditor.variables.items():
        monkeypatch.setenv(name, value)
    write = load(auditor.mounts["/etc/auditor/auditor.yaml"]).connections["warehouse"].write
    assert write
    (tmp_path / "rows").write_text("1\tone\n2\t\\N\n")
    with closing(dialects.connect(write.url, 60.0, 10.0)) as session:
        session.execute("CREATE TABLE numbers (id BIGINT, name VARCHAR(9))")
        session.loading.load_files("numbers", {"id": Kind("integer"), "name": Kind("text")}, [str(tmp_path / "rows")], "numbers")
        assert [tuple(row) for row in session.query("SELECT id, name FROM numbers ORDER BY id")] == [(1, "one"), (2, None)]


@pytest.mark.slow
def test_trial_installation_shows_a_live_pipeline_and_its_audits_also_when_it_is_started_again(trial: Composition) -> None:
    for start in ("first", "second"):
        try:
            trial.up()
            look_at(trial, start)
        except BaseException:
            print(trial.outputs())
            raise
        trial.down()
    assert trial.logs["sample"] == "sample: data already loaded\n"


def look_at(trial: Composition, start: str) -> None:
    """Hold what the installation shows against what its databases hold."""
    assert verdicts(trial, FLIGHTS) == FLIGHTS
    until(lambda: (shop := json_of(trial, "/api/v1/pipelines/shop"))["running"] and shop["events"])
    numbers = [5_000_000_001, 5_000_000_002][: 1 if start == "first" else 2]
    insert_order(trial, numbers[-1])
    until(lambda: all(is_there(trial, number) for is_there in (in_warehouse, in_duck) for number in numbers))
    status = json_of(trial, "/api/v1/pipelines/shop")
    assert status["stopped"] == [] and status["lag_seconds"] < 60, status
    for target, tables in ((name, one["tables"]) for name, one in status["targets"].items()):
        assert tables.keys() == {"audit.orders", "audit.customers"}, target
        assert {table["state"] for table in tables.values()} <= {"merged"}, (target, tables)
    for audit in ALIGNED:
        run = run_audit(trial, audit)
        assert run["verdict"] == "match", run
        assert json_of(trial, f"/api/v1/runs/{run['run']}/report")["aligned"], audit
    check_segments(trial)
    for path, words in {
        "/": ["flights", "shop_orders_duck"],
        "/pipelines": ["shop"],
        "/pipelines/shop": ["audit.orders", "warehouse", "duck"],
        "/audits/shop_orders_warehouse": ["match"],
        "/audits/flights": ["mismatch"],
    }.items():
        page = read(trial, path, "text/html")
        assert [word for word in words if word not in page] == [], path


def check_segments(trial: Composition) -> None:
    def finished() -> Any:
        return json_of(trial, "/api/v1/pipelines/shop/segments?table=audit.orders")["items"]

    until(finished)
    command = [sys.executable, "-m", "auditor", "pipeline", "segments", "shop", "--verify"]
    environment = {**os.environ, **trial.command(trial.service("auditor")).variables}
    verified = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert verified.returncode == 0, verified.stderr
    assert "audit.orders" in verified.stdout
    assert run_audit(trial, "shop_log")["verdict"] == "match"


def insert_order(trial: Composition, number: int) -> None:
    with pymysql.connect(host=trial.addresses["mysql"], user="root", database="audit", autocommit=True) as connection:
        connection.cursor().execute("INSERT INTO orders VALUES (%s, 1, 'by hand', 1.25, '2026-03-01')", (number,))


def in_warehouse(trial: Composition, number: int) -> bool:
    url = f"postgresql://audit:trial@{trial.addresses['redshift-postgres']}:5432/audit"
    with suppress(psycopg2.errors.UndefinedTable), closing(postgres.connect(url)) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT item FROM shop.orders WHERE id = %s", (number,))
        return cursor.fetchall() == [("by hand",)]
    return False


def in_duck(trial: Composition, number: int) -> bool:
    path = trial.volumes["state"] / "warehouse.duckdb"
    with suppress(duckdb.IOException, duckdb.CatalogException), duckdb.connect(str(path), read_only=True) as connection:
        return connection.execute("SELECT item FROM shop.orders WHERE id = ?", [number]).fetchall() == [("by hand",)]
    return False


def verdicts(trial: Composition, names: Any) -> dict[str, str]:
    return {name: json_of(trial, f"/api/v1/audits/{name}/runs")["items"][-1]["verdict"] for name in names}


def run_audit(trial: Composition, name: str) -> Any:
    answer = urlopen(Request(f"{address(trial)}/api/v1/audits/{name}/runs", b"{}", {"Content-Type": "application/json"}), timeout=30)
    run = json.loads(answer.read())["run"]
    return until(lambda: (found := json_of(trial, f"/api/v1/runs/{run}"))["state"] not in ("pending", "running") and found)


def json_of(trial: Composition, path: str) -> Any:
    return json.loads(read(trial, path, "application/json"))


def read(trial: Composition, path: str, accept: str) -> str:
    with urlopen(Request(address(trial) + path, headers={"Accept": accept}), timeout=30) as answer:
        return str(answer.read().decode())


def address(trial: Composition) -> str:
    return f"http://{trial.addresses['auditor']}:8080"


def until(ask: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (answer := ask()):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    return answer
