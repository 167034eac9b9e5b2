"""The Airflow package against the API, without Airflow: its classes are stood in for, the requests are real.

tests/integrations/test_airflow.py runs the same package in a real Airflow.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from auditor.service.workers import request_run, run_pending
from tests.api.conftest import Service, TemporaryService
from tests.unit.test_docs import decorator, recipe, stand_in

MODULE = Path(__file__).parents[2] / "containers" / "airflow" / "auditor_airflow.py"


class Deferred(BaseException):
    """What ``defer`` of a task raises."""

    def __init__(self, trigger: Any, method_name: str, timeout: Any) -> None:
        super().__init__()
        self.trigger, self.method, self.timeout = trigger, method_name, timeout


class Task:
    """An operator or sensor of Airflow, as far as the package uses it."""

    execution_timeout = None
    log = SimpleNamespace(info=lambda *_: None, warning=lambda *_: None)

    def __init__(self, *, timeout: float = 60.0, poke_interval: float = 0.01, **_: Any) -> None:
        self.timeout, self.poke_interval = timeout, poke_interval

    def defer(self, **how: Any) -> None:
        raise Deferred(**how)

    def __rshift__(self, other: object) -> object:
        return other


class FailedError(Exception):
    """AirflowException: a task may be retried."""


class FailedForGoodError(FailedError):
    """AirflowFailException: it is not retried."""


class Waiting:
    """A client whose requests are awaited."""

    def __init__(self, client: Any) -> None:
        self.client = client

    async def __aenter__(self) -> Waiting:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def get(self, *path: Any, **more: Any) -> Any:
        return self.client.get(*path, **more)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Service]:
    with TemporaryService(tmp_path, run=False) as found:
        yield found


@pytest.fixture
def package(own: Service, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The package's module, whose connections lead to the service in this process; their password names the scope of the token."""

    async def connected(conn_id: str) -> SimpleNamespace:
        return SimpleNamespace(host="http://localhost", schema=None, port=None, password=conn_id)

    hook = SimpleNamespace(get_connection=lambda conn_id: asyncio.run(connected(conn_id)), aget_connection=connected)
    classes = {
        "dag": decorator,
        "task": lambda _: Task,
        "BaseOperator": Task,
        "BaseSensorOperator": Task,
        "BaseOperatorLink": object,
        "BaseHook": hook,
    }
    errors = {"AirflowException": FailedError, "AirflowFailException": FailedForGoodError}
    for module in (
        stand_in("airflow"),
        stand_in("airflow.sdk", **classes),
        stand_in("airflow.sdk.exceptions", **errors),
        stand_in("airflow.sdk.execution_time"),
        stand_in("airflow.sdk.execution_time.xcom", XCom=object),
        stand_in("airflow.triggers"),
        stand_in("airflow.triggers.base", BaseTrigger=Task, TriggerEvent=SimpleNamespace),
    ):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(sys.modules, "httpx", httpx2)
    spec = importlib.util.spec_from_file_location("auditor_airflow", MODULE)
    assert spec and spec.loader
    found: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)

    def client(connection: Any, kind: Any) -> Any:
        made = own.client(connection.password, base_url="http://localhost/api/v1")
        return Waiting(made) if kind is httpx2.AsyncClient else made

    monkeypatch.setattr(found, "_client", client)
    monkeypatch.setattr(found, "TriggerEvent", lambda payload: SimpleNamespace(payload=payload))
    return found


def context(try_number: int = 1, max_tries: int = 2, **other: Any) -> dict[str, Any]:
    """What Airflow hands a task: its instance and the DAG's run."""
    about = {"dag_id": "daily", "run_id": "scheduled__1", "task_id": "audit", "map_index": -1, **other}
    pushed: dict[str, str] = {}
    ti = SimpleNamespace(**about, try_number=try_number, max_tries=max_tries, xcom_push=pushed.setdefault, pushed=pushed)
    ti.xcom_push = lambda key, value: pushed.update({key: value})
    return {"ti": ti, "dag_run": SimpleNamespace(start_date=dt.datetime(2026, 11, 1, tzinfo=dt.UTC))}


def deferred(work: Any, *given: Any) -> Deferred:
    with pytest.raises(Deferred) as raised:
        work(*given)
    return raised.value


def event_of(trigger: Any) -> dict[str, Any]:
    """The event that ends a trigger, which is made again from what it serialises, as Airflow makes it in another process."""
    _, given = trigger.serialize()

    async def first() -> Any:
        return (await type(trigger)(**given).run().__anext__()).payload

    found: dict[str, Any] = asyncio.run(first())
    return found


def finish(own: Service) -> None:
    """Run all runs that were requested."""
    for _ in run_pending(own.settings, own.store):
        pass


def test_a_retry_takes_up_the_run_and_a_cleared_task_requests_another(own: Service, package: Any) -> None:
    task = package.AuditorRunOperator(audit="same", conn_id="run")
    first, retry = deferred(task.execute, context(1)), deferred(task.execute, context(2))
    assert first.method == retry.method == "execute_complete"
    assert first.trigger.awaited == retry.trigger.awaited
    finish(own)
    event = event_of(first.trigger)
    assert event == {"outcome": "ended", "run": first.trigger.awaited}
    assert task.execute_complete(context(), event)["verdict"] == "match"
    assert deferred(task.execute, context(3)).trigger.awaited == first.trigger.awaited, "its verdict was not lost with the worker"
    for other in (context(3, max_tries=5), context(1, map_index=4), context(1, run_id="scheduled__2")):
        again = deferred(task.execute, other)
        assert again.trigger.awaited != first.trigger.awaited
        assert other["ti"].pushed == {"auditor_page": f"http://localhost/runs/{again.trigger.awaited}"}
        finish(own)


def test_a_retry_after_a_run_without_a_verdict_requests_another(own: Service, package: Any) -> None:
    task = package.AuditorRunOperator(audit="away", conn_id="run")
    first = deferred(task.execute, context(1))
    finish(own)
    with pytest.raises(FailedError, match="audit away has no verdict: its run is failed") as raised:
        task.execute_complete(context(1), event_of(first.trigger))
    assert not isinstance(raised.value, FailedForGoodError), "the database may be back when the task is tried again"
    second, lost = deferred(task.execute, context(2)), deferred(task.execute, context(3))
    assert first.trigger.awaited != second.trigger.awaited == lost.trigger.awaited


def test_a_mismatch_fails_for_good_with_the_head_of_the_report(own: Service, package: Any) -> None:
    task = package.AuditorRunOperator(audit="orders", conn_id="run")
    wait = deferred(task.execute, context())
    finish(own)
    with pytest.raises(FailedForGoodError, match="found a mismatch\nMISMATCH  orders: 3 of 2,00") as raised:
        task.execute_complete(context(), event_of(wait.trigger))
    assert len(str(raised.value).splitlines()) == 1 + package.REPORT_LINES


def test_another_run_is_waited_for_and_not_taken_for_the_own(own: Service, package: Any) -> None:
    other = request_run(own.settings, own.store, "same").run
    task = package.AuditorRunOperator(audit="same", conn_id="run")
    wait = deferred(task.execute, context())
    assert (wait.method, wait.trigger.awaited) == ("execute_after_another", other)
    finish(own)
    after = deferred(task.execute_after_another, context(), event_of(wait.trigger))
    assert after.method == "execute_complete" and after.trigger.awaited != other


def test_the_sensor_waits_for_all_audits_and_stops_at_a_mismatch(own: Service, package: Any) -> None:
    def sensor(*audits: str, through: str = "2026-01-01 00:00:00+00:00", conn_id: str = "read") -> Any:
        return package.AuditorVerifiedSensor(audits=audits, verified_through=through, conn_id=conn_id, timeout=5)

    waiting = deferred(sensor("same").execute, {})
    assert waiting.timeout == dt.timedelta(seconds=5)
    request_run(own.settings, own.store, "same")

    async def seen_later() -> Any:
        running = asyncio.ensure_future(waiting.trigger.run().__anext__())
        await asyncio.sleep(0.05)
        assert not running.done(), "nothing has been verified yet"
        finish(own)
        return (await running).payload

    (sentence,) = sensor("same").execute_complete({}, asyncio.run(seen_later()))
    assert sentence.startswith("same: verified: everything up to")
    request_run(own.settings, own.store, "orders")
    finish(own)
    wait = deferred(sensor("same", "orders").execute, {})
    with pytest.raises(FailedForGoodError, match=r"^orders: mismatch: run [0-9a-f]{12}, which began at"):
        sensor("same").execute_complete({}, event_of(wait.trigger))
    with pytest.raises(FailedForGoodError, match="names none"):
        sensor().execute({})


@pytest.mark.parametrize(
    ("audit", "through", "scope", "said"),
    [
        ("nothing", "2026-01-01T00:00:00Z", "read", "404: there is no audit 'nothing'"),
        ("same", "None", "read", "422: query.through"),
        ("same", "1796004031", "read", "422: query.through"),
        ("same", "2026-01-01", None, r"401: .*the connection's password is a token"),
    ],
)
def test_what_the_service_refuses_fails_for_good(package: Any, audit: str, through: str, scope: str | None, said: str) -> None:
    sensor = package.AuditorVerifiedSensor(audits=audit, verified_through=through, conn_id=scope)
    event = event_of(deferred(sensor.execute, {}).trigger)
    with pytest.raises(FailedForGoodError, match=f"the auditor refuses: {said}"):
        sensor.execute_complete({}, event)
    task = package.AuditorRunOperator(audit="same", conn_id="read")
    with pytest.raises(FailedForGoodError, match=r"403: .*AuditorRunOperator run"):
        task.execute(context())


def test_an_outage_is_outlasted_and_then_left_to_retries(own: Service, package: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    answered = package._client

    class Away(Waiting):
        asked = 0

        async def get(self, *path: Any, **more: Any) -> Any:
            Away.asked += 1
            if Away.asked < 3:
                raise httpx2.ConnectError("refused")
            return await super().get(*path, **more)

    monkeypatch.setattr(package, "_client", lambda connection, kind: Away(answered(connection, httpx2.Client)))
    sensor = package.AuditorVerifiedSensor(audits="nothing", verified_through="2026-01-01", conn_id="read")
    trigger = deferred(sensor.execute, {}).trigger
    assert event_of(trigger)["outcome"] == "refused" and Away.asked == 3
    Away.asked = 0
    monkeypatch.setattr(package, "OUTAGE", -1.0)
    with pytest.raises(FailedError, match="the auditor does not answer: refused") as raised:
        sensor.execute_complete({}, event_of(trigger))
    assert not isinstance(raised.value, FailedForGoodError)


@pytest.mark.parametrize(
    ("host", "schema", "port", "url"),
    [
        ("auditor.example.org", None, None, "https://auditor.example.org"),
        ("auditor", "http", 8080, "http://auditor:8080"),
        ("https://example.org/auditor/", "http", None, "https://example.org/auditor"),
    ],
)
def test_url_of_a_connection(package: Any, host: str, schema: str | None, port: int | None, url: str) -> None:
    assert package._url(SimpleNamespace(host=host, schema=schema, port=port)) == url


def test_the_recipe_names_what_there_is(package: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "auditor_airflow", package)
    exec(compile(recipe("Airflow", "python"), "recipes.md", "exec"), {})
