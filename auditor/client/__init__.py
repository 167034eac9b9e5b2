"""Client of a service's HTTP API.

::

    from auditor.client import Client

    with Client("https://auditor.example.org", token) as service:
        run = service.request("orders", reason="after the backfill")
        for seen in service.follow(run.run):
            print(seen.state, seen.progress)
        table = service.differences_arrow(run.run)

Errors of the service are raised as the class of `auditor.errors` that the service raised, if there is one, else by HTTP status.
"""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.client import HTTPException, HTTPResponse
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, overload
from urllib.parse import urlencode

from auditor.api_models import AnyApiModel
from auditor.api_models.access import Event
from auditor.api_models.audit import Audit, AuditDetails, ConsoleScripts, PauseState, Plan, ScheduledAudit, Verification
from auditor.api_models.bisection import Bisection
from auditor.api_models.bootstrap import Bootstrap, BootstrapPlan, CopiedRange
from auditor.api_models.connection import ConnectionCheck, ConnectionSummary
from auditor.api_models.cost import CostKey, Costs
from auditor.api_models.incident import Covered, DifferenceChanges, Incident
from auditor.api_models.pipeline import LagHistory, PipelinePause, PipelineStatus, Refresh, SchemaVersion, StoppedTable, TableEvent
from auditor.api_models.repair import Patch, PatchRow, Repair
from auditor.api_models.report import DayReport, RunReport
from auditor.api_models.run import Difference, Partition, Run
from auditor.api_models.segment import RegisteredEntry, SegmentAuditStatus, SegmentEntry
from auditor.api_models.trace import Trace
from auditor.client.http import MAX_ANSWER, Transport, quoted
from auditor.durations import durations
from auditor.errors import AuditorError, error_named

if TYPE_CHECKING:
    import pyarrow

    from auditor.model import Method, Side

__all__ = ["MAX_ANSWER", "Client"]


class Client:
    """A service and the token to use it with. ``timeout`` is in seconds, per request.

    Every method raises Unreachable if the service cannot be reached, and Unauthorised or Forbidden for a token that does not allow it.
    As a context manager it ends the streams that `follow` and `pipeline_events` opened.
    """

    def __init__(self, url: str, token: str | None = None, timeout: float = 60.0) -> None:
        self._service = Transport(url, token, timeout)
        self.url = self._service.url
        self._streams: set[HTTPResponse] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the streams that `follow` and `pipeline_events` opened and that were not read to their end."""
        for stream in list(self._streams):
            stream.close()
        self._streams.clear()

    def audits(self) -> list[Audit]:
        """Return all audits, each with its status and latest run."""
        return list(self._service.models(Audit, "/audits"))

    def audit(self, name: str) -> AuditDetails:
        """Return one audit. Raises UnknownAudit."""
        return self._service.model(AuditDetails, "GET", f"/audits/{quoted(name)}")

    def plan(self, audit: str) -> Plan:
        """Plan an audit now, by asking both databases. Raises UnknownAudit, and the error that prevents the plan."""
        return self._service.model(Plan, "GET", f"/audits/{quoted(audit)}/plan")

    def sql(self, audit: str, side: Side | None = None, method: Method | None = None) -> ConsoleScripts:
        """Return the SQL to paste into each side's console, or one side's; ``method`` replaces the audit's. Raises as `plan` does."""
        parameters = {name: value for name, value in (("side", side), ("method", method), ("format", "json")) if value}
        return self._service.model(ConsoleScripts, "GET", f"/audits/{quoted(audit)}/sql?{urlencode(parameters)}")

    def define(self, name: str, definition: Mapping[str, Any], *, replace: bool = False) -> AuditDetails:
        """Define an audit between two configured connections, or ``replace`` one that was defined over HTTP.

        ``definition`` has ``source`` and ``target``, each with ``connection`` and ``table``, and settings of an audit. Raises ConfigError,
        and the error that prevents its plan.
        """
        if replace:
            return self._service.model(AuditDetails, "PUT", f"/audits/{quoted(name)}", dict(definition))
        return self._service.model(AuditDetails, "POST", "/audits", {**definition, "name": name})

    def drop(self, name: str) -> None:
        """Delete an audit that was defined over HTTP; its runs stay. Raises UnknownAudit."""
        self._service.request("DELETE", f"/audits/{quoted(name)}")

    def pause(self, audit: str) -> PauseState:
        """Stop scheduling an audit. Raises UnknownAudit."""
        return self._service.model(PauseState, "POST", f"/audits/{quoted(audit)}/pause")

    def unpause(self, audit: str) -> PauseState:
        """Schedule a paused audit again. Raises UnknownAudit."""
        return self._service.model(PauseState, "POST", f"/audits/{quoted(audit)}/unpause")

    def incidents(self, audit: str | None = None) -> Iterator[Incident]:
        """Yield the incidents, of all audits or of one, open and closed, newest first."""
        yield from self._service.models(Incident, "/incidents", {"audit": audit} if audit else {})

    def schedules(self, times: int = 1) -> Iterator[ScheduledAudit]:
        """Yield when each scheduled audit is due, with the next ``times`` (at most 20), in the order of their names."""
        yield from self._service.models(ScheduledAudit, "/schedules", {"times": times})

    def connections(self) -> Iterator[ConnectionSummary]:
        """Yield the connections of the service and their limits, without where they lead."""
        yield from self._service.models(ConnectionSummary, "/connections", {})

    def check_connection(self, name: str) -> ConnectionCheck:
        """Let the service connect to a database, and return whether it answers. Raises UnknownConnection."""
        return self._service.model(ConnectionCheck, "POST", f"/connections/{quoted(name)}/check")

    def acknowledge(
        self, audit: str, *, why: str, muted: bool = False, until: dt.datetime | None = None, differences: Covered = "all"
    ) -> Incident:
        """Acknowledge an audit's open incident: nobody is notified again of what is known; ``muted``: of nothing that the incident has.

        It ends with the incident, at ``until``, and with ``differences="known"`` with the first run that finds a new differing row.
        Raises UnknownAudit, NoIncident and ConfigError.
        """
        body = {"why": why, "muted": muted, "until": until.isoformat() if until else None, "differences": differences}
        return self._service.model(Incident, "PUT", f"/audits/{quoted(audit)}/acknowledgement", body)

    def withdraw_acknowledgement(self, audit: str) -> Incident:
        """Withdraw the acknowledgement of an audit's open incident. Raises UnknownAudit and NoIncident."""
        return self._service.model(Incident, "DELETE", f"/audits/{quoted(audit)}/acknowledgement")

    def changes(self, run: str, since: str | None = None, *, shown: int = 10) -> DifferenceChanges:
        """Return which differing rows of a run are new, gone or the same since an earlier run of its audit, by default the last done one.

        Up to ``shown`` rows of each kind are in it. Raises UnknownRun, ConfigError for runs of different audits, and NoReport if there is
        no earlier run.
        """
        parameters = {"shown": str(shown), **({"since": since} if since else {})}
        return self._service.model(DifferenceChanges, "GET", f"/runs/{quoted(run)}/changes?{urlencode(parameters)}")

    def request(self, audit: str, *, reason: str = "", overrides: Mapping[str, Any] = {}, idempotency: str | None = None) -> Run:
        """Request a run of an audit; ``overrides`` are settings of this run, such as ``method``, or ``keys`` or ``times`` for a slice.

        ``idempotency`` is a key with which the request can be repeated without creating a second run. Raises AlreadyRunning if a run of
        the audit is waiting or running, UnknownAudit, ConfigError and QueueFull.
        """
        return self._send(Run, f"/audits/{quoted(audit)}/runs", {**overrides, "reason": reason}, idempotency)

    def request_ad_hoc(self, definition: Mapping[str, Any], *, reason: str = "", idempotency: str | None = None) -> Run:
        """Request one run of an audit that ``definition`` defines, as for `define`.

        Raises ConfigError, the error that prevents its planning, and QueueFull.
        """
        return self._send(Run, "/runs", {**definition, "reason": reason}, idempotency)

    def runs(self, audit: str | None = None, state: str | None = None, limit: int = 50) -> list[Run]:
        """Return the newest runs, of all audits or of one."""
        parameters = {"audit": audit, "state": state, "limit": min(max(limit, 1), 1000)}
        runs = self._service.models(Run, "/runs", {name: value for name, value in parameters.items() if value is not None})
        return list(islice(runs, max(limit, 0)))

    def run(self, run: str) -> Run:
        """Return the progress and result of a run. Raises UnknownRun."""
        return self._service.model(Run, "GET", f"/runs/{quoted(run)}")

    def wait(self, run: str, watch: Callable[[Run], None] = lambda _: None, seconds: float | None = None) -> Run:
        """Return the run once it has ended, or after ``seconds``. Calls ``watch`` with the run after each request."""
        deadline = None if seconds is None else time.monotonic() + seconds
        last_response = time.monotonic()
        while True:
            try:
                current = self.run(run)
                last_response = time.monotonic()
            except AuditorError as error:
                if not error.retryable or time.monotonic() - last_response > durations().client_outage:
                    raise
            else:
                watch(current)
                if current.ended is not None or (deadline is not None and time.monotonic() >= deadline):
                    return current
            time.sleep(durations().client_poll)

    def follow(self, run: str) -> Iterator[Run]:
        """Yield the run whenever it changes, the ended run last; the service sends it, so that no change is asked for in vain.

        A stream that breaks off is opened again where it stood. Raises UnknownRun.
        """
        last, heard = "", time.monotonic()
        while True:
            try:
                for name, data, number in self._events(run, last):
                    last, heard = number, time.monotonic()
                    if name == "end":
                        return
                    yield self._service.parse(Run, json.loads(data))
            except AuditorError as error:
                if not error.retryable or time.monotonic() - heard > durations().client_outage:
                    raise
            time.sleep(durations().client_poll)

    def _events(self, run: str, last: str) -> Iterator[tuple[str, str, str]]:
        """Yield name, data and id of the events of one stream until it ends or breaks off."""
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last} if last else {})}
        stream = self._service.open("GET", f"/runs/{quoted(run)}/events", headers=headers)
        self._streams.add(stream)
        event: dict[str, str] = {}
        try:
            for line in stream:
                field, _, value = line.decode().rstrip("\r\n").partition(": ")
                if field:
                    event[field] = value
                    continue
                if "data" in event:
                    yield event.get("event", ""), event["data"], event.get("id", "")
                event = {}
        except (OSError, HTTPException) as error:
            raise self._service.unreachable(error) from None
        finally:
            stream.close()
            self._streams.discard(stream)

    @overload
    def report(self, run: str, format: Literal["json"] = "json") -> RunReport: ...
    @overload
    def report(self, run: str, format: Literal["text", "markdown", "html"]) -> str: ...
    @overload
    def report(self, run: str, format: str) -> RunReport | str: ...
    def report(self, run: str, format: str = "json") -> RunReport | str:
        """Return the report of a run that has ended: a model, or a string for the formats text, markdown and html."""
        path = f"/runs/{quoted(run)}/report?{urlencode({'format': format})}"
        return self._service.model(RunReport, "GET", path) if format == "json" else self._service.request("GET", path).decode()

    def evidence(self, run: str) -> bytes:
        """Return the file of evidence of a run, which ``auditor verify`` reads. Raises UnknownRun and NoEvidence."""
        return self._service.request("GET", f"/runs/{quoted(run)}/evidence")

    @overload
    def day(self, day: str, format: Literal["json"] = "json") -> DayReport: ...
    @overload
    def day(self, day: str, format: Literal["text", "markdown", "html"]) -> str: ...
    @overload
    def day(self, day: str, format: str) -> DayReport | str: ...
    def day(self, day: str, format: str = "json") -> DayReport | str:
        """Return the report on all audits of a day, such as ``2026-03-01``; formats as of `report`. Raises UnknownDay."""
        path = f"/days/{quoted(day)}/report?{urlencode({'format': format})}"
        return self._service.model(DayReport, "GET", path) if format == "json" else self._service.request("GET", path).decode()

    def differences(self, run: str, **filters: str) -> Iterator[Difference]:
        """Yield the stored differences of a run, optionally only those of one ``kind`` or ``state``."""
        return self._service.models(Difference, f"/runs/{quoted(run)}/differences", filters)

    def trace(self, run: str, keys: Sequence[str] = (), limit: int = 20, *, hops: bool = False) -> Trace:
        """Return at which hop rows of a run were lost: those of ``keys``, or else its first differences.

        With ``hops`` and without keys each hop is audited as a whole, too, which reads whole tables.
        """
        parameters = urlencode([*(("key", key) for key in keys), ("limit", limit), *([("hops", "true")] if hops else [])])
        return self._service.model(Trace, "GET", f"/runs/{quoted(run)}/trace?{parameters}")

    def differences_arrow(self, run: str, **filters: str) -> pyarrow.Table:
        """Return the same as an Arrow table, whose columns `auditor.report.difference_rows.to_arrow` describes."""
        from auditor.report.difference_rows import report_key_kinds, to_arrow

        return to_arrow(self.differences(run, **filters), report_key_kinds(self.report(run)))

    def partitions(self, run: str, state: str | None = None) -> Iterator[Partition]:
        """Yield the partitions of a run, optionally only those in one state, such as ``unequal``."""
        return self._service.models(Partition, f"/runs/{quoted(run)}/partitions", {"state": state} if state else {})

    def bisect(self, audit: str) -> Bisection:
        """Return at which merge an audit's target and its source parted, and who parted them. Raises UnknownAudit."""
        return self._service.model(Bisection, "GET", f"/audits/{quoted(audit)}/bisection")

    def costs(self, since: dt.date | None = None, days: int | None = None, by: CostKey | None = None) -> Costs:
        """Return what audits cost since a day, or in the last ``days`` (7), by day and audit, or by one of them or by connection."""
        given = {"since": since.isoformat() if since else None, "days": days, "by": by}
        query = urlencode({name: value for name, value in given.items() if value is not None})
        return self._service.model(Costs, "GET", f"/costs?{query}" if query else "/costs")

    def verification(self, audit: str, through: dt.datetime) -> Verification:
        """Return whether an audit has verified everything up to a moment, or found a mismatch since. Raises UnknownAudit."""
        query = urlencode({"through": through.isoformat()})
        return self._service.model(Verification, "GET", f"/audits/{quoted(audit)}/verification?{query}")

    def cancel(self, run: str) -> Run:
        """Request that a run be cancelled. Raises UnknownRun."""
        return self._send(Run, f"/runs/{quoted(run)}/cancel")

    def resume(self, run: str) -> Run:
        """Resume a run that ended early. Raises UnknownRun and NotResumable."""
        return self._send(Run, f"/runs/{quoted(run)}/resume")

    def repairs(self, run: str) -> Iterator[Repair]:
        """Yield the repairs recorded for a run, newest first. Raises UnknownRun."""
        return self._service.models(Repair, f"/runs/{quoted(run)}/repairs")

    def repair(self, repair: str) -> Repair:
        """Return one repair. Raises UnknownRepair."""
        return self._service.model(Repair, "GET", f"/repairs/{quoted(repair)}")

    def record_repair(self, run: str, kind: str, note: str, *, idempotency: str | None = None, **more: Any) -> Repair:
        """Record what was done elsewhere to correct the target after a run; ``more``: its ``rows`` and ``keys``. Raises UnknownRun."""
        return self._send(Repair, f"/runs/{quoted(run)}/repairs", {"kind": kind, "note": note, **more}, idempotency)

    def plan_bootstrap(self, audit: str, **choice: Any) -> BootstrapPlan:
        """Return what a bootstrap of an audit's target would do; ``choice``: ``keys`` (``from``, ``to``), ``partitions``, ``source``.

        Raises BootstrapRefused.
        """
        query = urlencode({**choice.pop("keys", {}), **choice})
        return self._service.model(BootstrapPlan, "GET", f"/audits/{quoted(audit)}/bootstrap-plan?{query}")

    def bootstraps(self, audit: str) -> Iterator[Bootstrap]:
        """Yield the bootstraps of an audit, newest first. Raises UnknownAudit."""
        return self._service.models(Bootstrap, f"/audits/{quoted(audit)}/bootstraps")

    def bootstrap(self, bootstrap: str) -> Bootstrap:
        """Return a bootstrap with its progress. Raises UnknownBootstrap."""
        return self._service.model(Bootstrap, "GET", f"/bootstraps/{quoted(bootstrap)}")

    def bootstrap_ranges(self, bootstrap: str) -> Iterator[CopiedRange]:
        """Yield the ranges of keys that a bootstrap copied. Raises UnknownBootstrap."""
        return self._service.models(CopiedRange, f"/bootstraps/{quoted(bootstrap)}/ranges")

    def propose_patch(self, run: str, *, idempotency: str | None = None, **selection: Any) -> Patch:
        """Propose a patch of a run's target, and write nothing; ``selection``: ``only``, ``keys``, ``columns``, ``limit``, ...

        Raises UnknownRun and PatchRefused.
        """
        return self._send(Patch, f"/runs/{quoted(run)}/patches", selection, idempotency)

    def patches(self, run: str) -> Iterator[Patch]:
        """Yield the patches of a run, oldest first. Raises UnknownRun."""
        return self._service.models(Patch, f"/runs/{quoted(run)}/patches")

    def patch(self, patch: str) -> Patch:
        """Return a patch with its progress. Raises UnknownPatch."""
        return self._service.model(Patch, "GET", f"/patches/{quoted(patch)}")

    def patch_rows(self, patch: str) -> Iterator[PatchRow]:
        """Yield the rows of a patch. Raises UnknownPatch."""
        return self._service.models(PatchRow, f"/patches/{quoted(patch)}/rows")

    def patch_sql(self, patch: str) -> str:
        """Return the SQL of a proposed patch, to paste into a console. Raises UnknownPatch and PatchRefused."""
        return self._service.request("GET", f"/patches/{quoted(patch)}/sql").decode()

    def apply_patch(self, patch: str, rows: int, *, idempotency: str) -> Patch:
        """Have a proposed patch written into the target; ``rows`` is the patch's own number of rows, as the caller saw it.

        A repetition with the same ``idempotency`` writes nothing again. Raises UnknownPatch and PatchRefused.
        """
        return self._send(Patch, f"/patches/{quoted(patch)}/apply", {"rows": rows}, idempotency)

    def undo_patch(self, patch: str, rows: int, *, idempotency: str) -> Patch:
        """Have the rows that a patch wrote written back; ``rows`` is how many it wrote. Returns the undo, which is a patch, too."""
        return self._send(Patch, f"/patches/{quoted(patch)}/undo", {"rows": rows}, idempotency)

    def pipelines(self) -> list[PipelineStatus]:
        """Return the status of all pipelines."""
        return list(self._service.models(PipelineStatus, "/pipelines"))

    def pipeline(self, pipeline: str, table: str | None = None) -> PipelineStatus:
        """Return the status of a pipeline; with ``table`` of this table alone, or of those that match a pattern.

        Raises UnknownPipeline, and ConfigError if the pipeline has no such table.
        """
        query = f"?{urlencode({'table': table})}" if table is not None else ""
        return self._service.model(PipelineStatus, "GET", f"/pipelines/{quoted(pipeline)}{query}")

    def pipeline_lag(self, pipeline: str, table: str | None = None, since: str | None = None) -> LagHistory:
        """Return what a pipeline and its targets, or a table in each target, lagged behind; ``since`` is ISO 8601, by default a day ago.

        Raises UnknownPipeline, and ConfigError for a table that the pipeline does not have.
        """
        parameters = {name: value for name, value in (("table", table), ("since", since)) if value is not None}
        query = f"?{urlencode(parameters)}" if parameters else ""
        return self._service.model(LagHistory, "GET", f"/pipelines/{quoted(pipeline)}/lag{query}")

    def segments(self, pipeline: str, table: str) -> Iterator[SegmentEntry]:
        """Yield the segments of a pipeline's table in the order of the stream. Raises UnknownPipeline."""
        return self._service.models(SegmentEntry, f"/pipelines/{quoted(pipeline)}/segments", {"table": table})

    def pipeline_schemas(self, pipeline: str, table: str) -> Iterator[SchemaVersion]:
        """Yield the versions of a pipeline's table in the order of the stream. Raises UnknownPipeline and ConfigError."""
        return self._service.models(SchemaVersion, f"/pipelines/{quoted(pipeline)}/schemas", {"table": table})

    def segment_audits(self) -> list[SegmentAuditStatus]:
        """Return all segment audits with what their sides registered; `request` runs one, like any audit."""
        return list(self._service.models(SegmentAuditStatus, "/segments"))

    def segment_audit(self, audit: str) -> SegmentAuditStatus:
        """Return a segment audit with what its sides registered. Raises UnknownAudit."""
        return self._service.model(SegmentAuditStatus, "GET", f"/segments/{quoted(audit)}")

    def registered_segments(self, audit: str, table: str, side: str) -> Iterator[RegisteredEntry]:
        """Yield the segments that a side registered of a table. Raises UnknownAudit, and ConfigError for another side."""
        return self._service.models(RegisteredEntry, f"/segments/{quoted(audit)}/entries", {"table": table, "side": side})

    def pipeline_events(
        self, pipeline: str, table: str, start: str = "earliest", *, follow: bool = False, limit: int | None = None
    ) -> Iterator[TableEvent]:
        """Yield the events of a pipeline's table in Debezium's form, behind ``earliest``, ``latest`` or the position of an earlier one.

        With ``follow`` it goes on with what is staged later; a stream that breaks off is opened again behind the last event. Raises
        UnknownPipeline, ConfigError, PartsGone if events were deleted, and TableStopped where they cannot be had.
        """
        left, heard = limit, time.monotonic()
        while True:
            parameters = {"table": table, "from": start, "follow": str(follow).lower(), **({"limit": left} if left is not None else {})}
            try:
                for line in self._lines(f"/pipelines/{quoted(pipeline)}/events?{urlencode(parameters)}"):
                    heard = time.monotonic()
                    if not line:
                        continue
                    event = self._service.parse(TableEvent, line)
                    start, left = event.position or start, None if left is None else left - 1
                    yield event
                if not follow or left == 0:
                    return
            except AuditorError as error:
                if not (follow and error.retryable) or time.monotonic() - heard > durations().client_outage:
                    raise
            time.sleep(durations().client_poll)

    def _lines(self, path: str) -> Iterator[Any]:
        """Yield the JSON values of lines, and None for an empty one, until the stream ends. Raises the error that a last line has."""
        stream = self._service.open("GET", path, headers={"Accept": "application/x-ndjson"})
        self._streams.add(stream)
        try:
            for line in stream:
                value = json.loads(line) if line.strip() else None
                if value and "error" in value:
                    raise error_named(value["error"]["type"], value["error"]["detail"], AuditorError)
                yield value
        except (OSError, HTTPException, ValueError) as error:  # a line that was cut is no JSON
            raise self._service.unreachable(error) from None
        finally:
            stream.close()
            self._streams.discard(stream)

    def refresh_pipeline(self, pipeline: str, **asked: Any) -> list[Refresh]:
        """Ask for existing rows to be sent through a pipeline's stream; ``asked``: ``table``, ``keys``, ``key_list``; by default all.

        Raises UnknownPipeline and RefreshRefused.
        """
        return self._service.model_list(Refresh, "POST", f"/pipelines/{quoted(pipeline)}/refreshes", asked)

    def pipeline_refreshes(self, pipeline: str) -> list[Refresh]:
        """Return the last refreshes of a pipeline, newest first. Raises UnknownPipeline."""
        return self._service.model_list(Refresh, "GET", f"/pipelines/{quoted(pipeline)}/refreshes")

    def skip_events(self, pipeline: str, table: str, position: str, reason: str) -> list[StoppedTable]:
        """Let a stopped table go on without the events that stop it at a place. Raises UnknownPipeline and ConfigError."""
        body = {"table": table, "position": position, "reason": reason}
        return self._service.model_list(StoppedTable, "POST", f"/pipelines/{quoted(pipeline)}/skips", body)

    def pause_pipeline(self, pipeline: str) -> PipelinePause:
        """Let a pipeline stand still after the batch under way. Raises UnknownPipeline."""
        return self._service.model(PipelinePause, "POST", f"/pipelines/{quoted(pipeline)}/pause")

    def unpause_pipeline(self, pipeline: str) -> PipelinePause:
        """Let a paused pipeline go on. Raises UnknownPipeline."""
        return self._service.model(PipelinePause, "POST", f"/pipelines/{quoted(pipeline)}/unpause")

    def start_pipeline(self, pipeline: str) -> PipelinePause:
        """Let a pipeline go on, and start its process of the service again at once.

        Raises UnknownPipeline, and ConfigError for one that the service does not run.
        """
        return self._service.model(PipelinePause, "POST", f"/pipelines/{quoted(pipeline)}/start")

    def events(self) -> Iterator[Event]:
        """Yield the log of requests that changed something, newest first."""
        return self._service.models(Event, "/events")

    def _send(self, model: type[AnyApiModel], path: str, body: Any = None, idempotency: str | None = None) -> AnyApiModel:
        return self._service.model(model, "POST", path, body, {"Idempotency-Key": idempotency} if idempotency else {})
