"""The Airflow package in a real Airflow: a gate lets the next task begin only for what is verified.

tests/api/test_airflow.py has what needs no Airflow: retries, cleared tasks, outages.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integrations.conftest import ROOT, environment, execute
from tests.programs.serve import Served
from tests.unit.test_docs import recipe

pytestmark = [pytest.mark.slow]
PYTHON = environment("airflow")
DAGS = ROOT / "tests" / "integrations" / "dags"

YESTERDAY = "{{ dag_run.run_after - macros.timedelta(days=1) }}"
GATES: dict[str, dict[str, Any]] = {
    "runs_good": {"audit": "good"},
    "runs_bad": {"audit": "bad"},
    "runs_broken": {"audit": "broken"},
    "runs_unknown": {"audit": "nothing"},
    "waits_for_good": {"audits": "good", "verified_through": YESTERDAY},
    "waits_for_both": {"audits": ["good", "bad"], "verified_through": YESTERDAY},
    "waits_for_unknown": {"audits": "nothing", "verified_through": YESTERDAY},
    "is_denied": {"audits": "good", "verified_through": YESTERDAY, "conn_id": "denied"},
}


@pytest.fixture(scope="module")
def gates(served: Served, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What became of each gate, of the task behind it, and what failed it."""
    home = tmp_path_factory.mktemp("airflow")

    def connection(token: str) -> str:
        return json.dumps({"conn_type": "http", "host": served.url, "password": token})

    variables = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
        "AIRFLOW_CONN_AUDITOR": connection(served.token),
        "AIRFLOW_CONN_DENIED": connection("of nobody"),
        "GATES": json.dumps(GATES),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    execute(home, variables, PYTHON.with_name("airflow"), "db", "migrate")
    found: dict[str, dict[str, Any]] = json.loads(execute(home, variables, PYTHON, DAGS / "gates.py").splitlines()[-1])
    return found


def test_a_match_lets_the_next_task_begin(gates: dict[str, dict[str, Any]], served: Served) -> None:
    run = gates["runs_good"]
    assert (run["gate"], run["publish"], run["returned"]["verdict"]) == ("success", "success", "match")
    assert run["link"] == f"{served.url}/runs/{run['returned']['run']}"
    wait = gates["waits_for_good"]
    assert (wait["gate"], wait["publish"]) == ("success", "success")
    assert wait["returned"][0].startswith("good: verified: everything up to")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("runs_bad", "AirflowFailException: audit bad found a mismatch\nMISMATCH  bad: 1 of 100 rows differs: 1 missing"),
        ("runs_broken", "AirflowException: audit broken has no verdict: its run is failed, unknown"),
        ("runs_unknown", "AirflowFailException: the auditor refuses: 404: there is no audit 'nothing'"),
        ("waits_for_both", "AirflowFailException: bad: mismatch: run "),
        ("waits_for_unknown", "AirflowFailException: the auditor refuses: 404: there is no audit 'nothing'"),
        ("is_denied", "AirflowFailException: the auditor refuses: 401: "),
    ],
)
def test_all_else_stops_it(gates: dict[str, dict[str, Any]], name: str, said: str) -> None:
    gate = gates[name]
    assert (gate["gate"], gate["publish"]) == ("failed", "upstream_failed")
    assert gate["failure"].startswith(said)


def test_a_sensor_whose_time_is_up_fails_as_sensors_do(tmp_path: Path) -> None:
    """``dag.test`` has no limits of triggers, so the task is resumed as the scheduler does it after one."""
    program = """
from airflow.sdk.bases.operator import TriggerFailureReason
from airflow.sdk.exceptions import AirflowSensorTimeout, AirflowSkipException
from auditor_airflow import AuditorVerifiedSensor
for soft_fail in (False, True):
    sensor = AuditorVerifiedSensor(task_id="gate", audits="good", verified_through="2026-01-01", soft_fail=soft_fail)
    try:
        sensor.resume_execution("__fail__", {"error": TriggerFailureReason.TRIGGER_TIMEOUT}, {})
    except (AirflowSensorTimeout, AirflowSkipException) as error:
        print(type(error).__name__)
"""
    printed = execute(tmp_path, {"AIRFLOW_HOME": str(tmp_path)}, PYTHON, "-c", program)
    assert printed.splitlines()[-2:] == ["AirflowSensorTimeout", "AirflowSkipException"]


def test_the_recipe_is_a_dag(tmp_path: Path) -> None:
    (tmp_path / "recipe.py").write_text(recipe("Airflow", "python") + "\nprint(sorted(publish_orders().task_ids))\n", encoding="utf-8")
    printed = execute(tmp_path, {"AIRFLOW_HOME": str(tmp_path)}, PYTHON, tmp_path / "recipe.py")
    assert printed.splitlines()[-1] == "['after', 'before', 'load', 'publish']"
