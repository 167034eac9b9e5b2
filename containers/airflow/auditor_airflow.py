"""Airflow: a sensor that waits until audits have verified everything up to a moment, and an operator that runs an audit.

Both ask a service, ``auditor serve``, through a connection of Airflow: its host is the service's URL, its password a token. They wait in
the triggerer, so that no worker is held. A mismatch fails the task at once, without a retry.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import quote

import httpx
from airflow.sdk import BaseHook, BaseOperator, BaseOperatorLink, BaseSensorOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from airflow.sdk.execution_time.xcom import XCom
from airflow.triggers.base import BaseTrigger, TriggerEvent

OUTAGE = 300.0
"""Seconds for which a service that does not answer is asked again, before the task fails and is retried as its own settings say."""

REPORT_LINES = 15
"""Lines of a run's report that the error of a mismatch has."""

PAGE = "auditor_page"
"""The XCom with the URL of a run's page."""


class Refused(Exception):
    """The service refuses a request, and would again: the audit is unknown, or the token allows too little."""


class Unavailable(Exception):
    """The service does not answer, or asks to be asked later."""


class AuditorVerifiedSensor(BaseSensorOperator):
    """Wait until audits have verified everything up to a moment; fail, without a retry, if a run that began after it found differences.

    ``timeout``, ``soft_fail`` and ``poke_interval`` are as of any sensor. ``verified_through`` is a template, such as
    ``{{ data_interval_end }}``; it needs a zone.
    """

    template_fields: Sequence[str] = ("audits", "verified_through")

    def __init__(self, *, audits: str | Sequence[str], verified_through: str | datetime, conn_id: str = "auditor", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.audits = audits
        self.verified_through = verified_through
        self.conn_id = conn_id

    def execute(self, context: Any) -> None:
        """Wait in the triggerer."""
        audits = [self.audits] if isinstance(self.audits, str) else list(self.audits)
        if not audits:
            raise AirflowFailException("audits names none, and nothing would be verified; name at least one")
        trigger = VerifiedTrigger(self.conn_id, audits, str(self.verified_through), self.poke_interval)
        self.defer(trigger=trigger, method_name="execute_complete", timeout=timedelta(seconds=self.timeout))

    def execute_complete(self, context: Any, event: dict[str, Any]) -> list[str]:
        """Return a sentence for each audit. Fails for all but audits that have verified the moment."""
        _raise_failure(event)
        if event["outcome"] != "verified":
            raise AirflowFailException("\n".join(event["sentences"]))
        return list(event["sentences"])


class VerifiedTrigger(BaseTrigger):
    """Ask until all audits have verified a moment, or one has found a mismatch."""

    def __init__(self, conn_id: str, audits: Sequence[str], through: str, interval: float) -> None:
        super().__init__()
        self.conn_id, self.audits, self.through, self.interval = conn_id, list(audits), through, interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and what it is made with."""
        given = {"conn_id": self.conn_id, "audits": self.audits, "through": self.through, "interval": self.interval}
        return f"{__name__}.VerifiedTrigger", given

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield the one event that ends the wait."""
        verified: dict[str, str] = {}

        async def ask(client: httpx.AsyncClient) -> dict[str, Any] | None:
            for audit in self.audits:
                if audit in verified:
                    continue
                path = f"/audits/{quote(audit, safe='')}/verification"
                found = _answer(await client.get(path, params={"through": self.through}))
                sentence = f"{audit}: {found['outcome']}: {found['sentence']}"
                self.log.info("%s", sentence)
                if found["outcome"] == "mismatch":
                    return {"outcome": "mismatch", "sentences": [sentence]}
                if found["outcome"] == "verified":
                    verified[audit] = sentence
            return {"outcome": "verified", "sentences": list(verified.values())} if len(verified) == len(set(self.audits)) else None

        yield TriggerEvent(await _poll(self, ask))


class RunPage(BaseOperatorLink):
    """A button that leads to the page of the run."""

    name = "Run of the audit"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        """Return the URL of the run's page; empty before there is a run."""
        return XCom.get_value(ti_key=ti_key, key=PAGE) or ""


class AuditorRunOperator(BaseOperator):
    """Run an audit, and wait for its verdict; a mismatch fails the task without a retry, and its error has the head of the report.

    A retry, as after a worker that was lost, takes up the run that an earlier try requested, unless that ended without a verdict.
    A task that somebody cleared requests a new run. Where another run of the audit is under way, which may have begun too early, that is
    waited for first. ``execution_timeout`` limits each wait; the run itself goes on.
    """

    template_fields: Sequence[str] = ("audit",)
    operator_extra_links = (RunPage(),)

    def __init__(self, *, audit: str, poll_interval: float = 10.0, conn_id: str = "auditor", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.audit = audit
        self.poll_interval = poll_interval
        self.conn_id = conn_id

    def execute(self, context: Any) -> None:
        """Request the run, and wait for it in the triggerer."""
        self._request(context)

    def execute_after_another(self, context: Any, event: dict[str, Any]) -> None:
        """Request the run, once another run of the audit has ended."""
        _raise_failure(event)
        self._request(context)

    def _request(self, context: Any) -> None:
        ti = context["ti"]
        connection = BaseHook.get_connection(self.conn_id)
        with _client(connection, httpx.Client) as client:
            run, is_own = self._own_run(client, context, _request_key(context, self.audit))
        ti.xcom_push(key=PAGE, value=f"{_url(connection)}/runs/{run}")
        self.log.info("%s run %s of audit %s", "waiting for" if is_own else "waiting for the end of another", run, self.audit)
        method = "execute_complete" if is_own else "execute_after_another"
        self.defer(trigger=EndedTrigger(self.conn_id, run, self.poll_interval), method_name=method, timeout=self.execution_timeout)

    def _own_run(self, client: httpx.Client, context: Any, key: str) -> tuple[str, bool]:
        """Return the id of this task's run and True, or that of another run of the audit, which prevents one, and False.

        Each try has requested one run at most, so that there are no more without a verdict than tries before this one.
        """
        ti = context["ti"]
        path = f"/audits/{quote(self.audit, safe='')}/runs"
        reason = f"Airflow: {ti.dag_id} {ti.task_id} {ti.run_id}"[:200]
        run: dict[str, Any] = {}
        for _ in range(max(ti.try_number, 1)):
            response = _checked(partial(client.post, path, json={"reason": reason}, headers={"Idempotency-Key": key}))
            if response.status_code == 409 and "Location" in response.headers:
                return response.headers["Location"].rsplit("/", 1)[-1], False
            run = _checked(partial(_answer, response))
            if run["audit"] != self.audit:
                raise AirflowFailException(f"audit {self.audit} has parts of its own; use an operator for each, such as {run['audit']}")
            if run["ended"] is None or _has_verdict(run):
                break
            key = hashlib.sha256(f"{key} {run['run']}".encode()).hexdigest()
        return run["run"], True

    def execute_complete(self, context: Any, event: dict[str, Any]) -> dict[str, Any]:
        """Return the run's id, its verdict and up to which time it verified the target. Fails for all but a match."""
        _raise_failure(event)
        with _client(BaseHook.get_connection(self.conn_id), httpx.Client) as client:
            run = _checked(lambda: _answer(client.get(f"/runs/{event['run']}")))
            if _has_verdict(run) and run["verdict"] == "match":
                return {name: run[name] for name in ("run", "verdict", "within_threshold", "verified_through")}
            report = _checked(lambda: _text(client.get(f"/runs/{event['run']}/report", params={"format": "text"})))
        head = "\n".join(report.splitlines()[:REPORT_LINES])
        if _has_verdict(run):
            raise AirflowFailException(f"audit {self.audit} found a mismatch\n{head}")
        raise AirflowException(f"audit {self.audit} has no verdict: its run is {run['state']}, {run['verdict']}\n{head}")


class EndedTrigger(BaseTrigger):
    """Ask until a run has ended."""

    def __init__(self, conn_id: str, run: str, interval: float) -> None:
        super().__init__()
        self.conn_id, self.awaited, self.interval = conn_id, run, interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and what it is made with."""
        return f"{__name__}.EndedTrigger", {"conn_id": self.conn_id, "run": self.awaited, "interval": self.interval}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield the one event that ends the wait."""

        async def ask(client: httpx.AsyncClient) -> dict[str, Any] | None:
            run = _answer(await client.get(f"/runs/{self.awaited}"))
            return {"outcome": "ended", "run": self.awaited} if run["ended"] else None

        yield TriggerEvent(await _poll(self, ask))


def _has_verdict(run: dict[str, Any]) -> bool:
    return run["state"] == "done" and run["verdict"] in ("match", "mismatch")


def _request_key(context: Any, audit: str) -> str:
    """Return the idempotency key of a task's request: the same for all retries of a task, and another once somebody clears it.

    Airflow adds to ``max_tries`` where a task is cleared. The start of the DAG's run tells two installations of Airflow apart.
    """
    ti = context["ti"]
    parts = [ti.dag_id, ti.run_id, str(context["dag_run"].start_date), ti.task_id, ti.map_index, ti.max_tries, audit]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _raise_failure(event: dict[str, Any]) -> None:
    """Raise what ended a trigger early: a refusal fails the task for good, an outage leaves it to its retries."""
    if event["outcome"] == "refused":
        raise AirflowFailException(event["sentence"])
    if event["outcome"] == "unavailable":
        raise AirflowException(event["sentence"])


# requests


def _url(connection: Any) -> str:
    """Return the service's URL, from a connection as those of HTTP are written: but without a schema it is https."""
    host = connection.host or ""
    base = host if "://" in host else f"{connection.schema or 'https'}://{host}"
    return f"{base.rstrip('/')}:{connection.port}" if connection.port else base.rstrip("/")


def _client(connection: Any, kind: Callable[..., Any]) -> Any:
    headers = {"Authorization": f"Bearer {connection.password}"} if connection.password else {}
    return kind(base_url=f"{_url(connection)}/api/v1", headers=headers, timeout=60.0)


async def _poll(trigger: Any, ask: Callable[[httpx.AsyncClient], Awaitable[dict[str, Any] | None]]) -> dict[str, Any]:
    """Return the first event that ``ask`` has, or one of a refusal, or of a service that was silent for OUTAGE."""
    heard = time.monotonic()
    async with _client(await BaseHook.aget_connection(trigger.conn_id), httpx.AsyncClient) as client:
        while True:
            try:
                if (event := await ask(client)) is not None:
                    return event
                heard = time.monotonic()
            except Refused as error:
                return {"outcome": "refused", "sentence": str(error)}
            except (Unavailable, httpx.TransportError) as error:
                sentence = f"the auditor does not answer: {error or type(error).__name__}"
                trigger.log.warning("%s", sentence)
                if time.monotonic() - heard > OUTAGE:
                    return {"outcome": "unavailable", "sentence": sentence}
            await asyncio.sleep(trigger.interval)


def _checked(work: Callable[[], Any]) -> Any:
    """Return what requests yield; a refusal fails the task for good, an outage leaves it to its retries."""
    try:
        return work()
    except Refused as error:
        raise AirflowFailException(str(error)) from None
    except (Unavailable, httpx.TransportError) as error:
        raise AirflowException(f"the auditor does not answer: {error or type(error).__name__}") from None


def _answer(response: httpx.Response) -> dict[str, Any]:
    """Return the object of an answer. Raises Refused and Unavailable."""
    try:
        found = json.loads(_text(response))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Refused(f"{response.url} is answered by something else than an auditor; the connection's host is its URL")
    return found


def _text(response: httpx.Response) -> str:
    if response.is_success:
        return response.text
    try:
        said = str(response.json()["detail"])
    except (ValueError, KeyError, TypeError):
        said = response.reason_phrase
    sentence = f"{response.status_code}: {said}"
    if response.status_code >= 500 or response.status_code in (408, 429):
        raise Unavailable(sentence)
    if response.status_code in (401, 403):
        sentence += " (the connection's password is a token; AuditorVerifiedSensor needs the scope read, AuditorRunOperator run)"
    raise Refused(f"the auditor refuses: {sentence}")
