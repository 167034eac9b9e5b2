"""Tasks of the Airflow package, each the gate of a DAG of its own; executed in a real Airflow, it prints what became of each as JSON.

It is the folder of DAGs at the same time, since ``dag.test`` runs only what is there. Triggers run in line.
"""

from __future__ import annotations

import json
import os
from typing import Any

from airflow.sdk import DAG, task
from auditor_airflow import AuditorRunOperator, AuditorVerifiedSensor

WANTED: dict[str, dict[str, Any]] = json.loads(os.environ["GATES"])
"""By its name the arguments of each gate: a sensor's, or with ``audit`` an operator's."""

FAILURES: dict[str, str] = {}


def note_failure(context: Any) -> None:
    """Keep what failed a task."""
    error = context["exception"]
    FAILURES[context["ti"].dag_id] = f"{type(error).__name__}: {error}"


def dag_of(name: str, arguments: dict[str, Any]) -> DAG:
    """Return a DAG of a gate, and a task that may begin only behind it."""
    with DAG(name, schedule=None, catchup=False) as dag:
        if "audit" in arguments:
            gate = AuditorRunOperator(task_id="gate", poll_interval=0.2, on_failure_callback=note_failure, **arguments)
        else:
            gate = AuditorVerifiedSensor(task_id="gate", poke_interval=0.2, on_failure_callback=note_failure, **arguments)

        @task  # type: ignore[untyped-decorator]
        def publish() -> None:
            """Begin only behind the gate."""

        gate >> publish()
    return dag


DAGS = {name: dag_of(name, arguments) for name, arguments in WANTED.items()}
globals().update(DAGS)

if __name__ == "__main__":
    found = {}
    for name, dag in DAGS.items():
        run = dag.test()
        tasks = {one.task_id: one for one in run.get_task_instances()}
        found[name] = {
            "gate": tasks["gate"].state,
            "publish": tasks["publish"].state,
            "failure": FAILURES.get(name),
            "returned": tasks["gate"].xcom_pull(task_ids="gate"),
            "link": tasks["gate"].xcom_pull(task_ids="gate", key="_link_RunPage"),
        }
    print(json.dumps(found))
