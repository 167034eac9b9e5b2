"""What the client asks of a service about pipelines and their segments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from auditor.client.http import Transport, quoted
from auditor.shapes import AnyShape
from auditor.shapes.lag import LagHistory
from auditor.shapes.pipeline import PipelinePause, PipelineStatus, StoppedTable
from auditor.shapes.refresh import Refresh
from auditor.shapes.segment import RegisteredEntry, SegmentAuditStatus, SegmentEntry


class Pipelines:
    """The part of `auditor.client.Client` that is about pipelines."""

    def __init__(self, service: Transport) -> None:
        self._service = service

    def pipelines(self) -> list[PipelineStatus]:
        """Return the status of all pipelines."""
        return list(self._service.shapes(PipelineStatus, "/pipelines"))

    def pipeline(self, pipeline: str) -> PipelineStatus:
        """Return the status of a pipeline. Raises UnknownPipeline."""
        return self._service.shape(PipelineStatus, "GET", f"/pipelines/{quoted(pipeline)}")

    def pipeline_lag(self, pipeline: str, table: str | None = None, since: str | None = None) -> LagHistory:
        """Return what a pipeline and its targets, or a table in each target, lagged behind; ``since`` is ISO 8601, by default a day ago.

        Raises UnknownPipeline, and ConfigError for a table that the pipeline does not have.
        """
        parameters = {name: value for name, value in (("table", table), ("since", since)) if value is not None}
        query = f"?{urlencode(parameters)}" if parameters else ""
        return self._service.shape(LagHistory, "GET", f"/pipelines/{quoted(pipeline)}/lag{query}")

    def segments(self, pipeline: str, table: str) -> Iterator[SegmentEntry]:
        """Yield the segments of a pipeline's table in the order of the stream. Raises UnknownPipeline."""
        return self._service.shapes(SegmentEntry, f"/pipelines/{quoted(pipeline)}/segments", {"table": table})

    def segment_audits(self) -> list[SegmentAuditStatus]:
        """Return all segment audits with what their sides registered; `request` runs one, like any audit."""
        return list(self._service.shapes(SegmentAuditStatus, "/segments"))

    def segment_audit(self, audit: str) -> SegmentAuditStatus:
        """Return a segment audit with what its sides registered. Raises UnknownAudit."""
        return self._service.shape(SegmentAuditStatus, "GET", f"/segments/{quoted(audit)}")

    def registered_segments(self, audit: str, table: str, side: str) -> Iterator[RegisteredEntry]:
        """Yield the segments that a side registered of a table. Raises UnknownAudit, and ConfigError for another side."""
        return self._service.shapes(RegisteredEntry, f"/segments/{quoted(audit)}/entries", {"table": table, "side": side})

    def refresh_pipeline(self, pipeline: str, **asked: Any) -> list[Refresh]:
        """Ask for existing rows to be sent through a pipeline's stream; ``asked``: ``table``, ``keys``, ``key_list``; by default all.

        Raises UnknownPipeline and RefreshRefused.
        """
        return self._service.shape_list(Refresh, "POST", f"/pipelines/{quoted(pipeline)}/refreshes", asked)

    def pipeline_refreshes(self, pipeline: str) -> list[Refresh]:
        """Return the last refreshes of a pipeline, newest first. Raises UnknownPipeline."""
        return self._service.shape_list(Refresh, "GET", f"/pipelines/{quoted(pipeline)}/refreshes")

    def skip_events(self, pipeline: str, table: str, position: str, reason: str) -> list[StoppedTable]:
        """Let a stopped table go on without the events that stop it at a place. Raises UnknownPipeline and ConfigError."""
        body = {"table": table, "position": position, "reason": reason}
        return self._service.shape_list(StoppedTable, "POST", f"/pipelines/{quoted(pipeline)}/skips", body)

    def pause_pipeline(self, pipeline: str) -> PipelinePause:
        """Let a pipeline stand still after the batch under way. Raises UnknownPipeline."""
        return self._service.shape(PipelinePause, "POST", f"/pipelines/{quoted(pipeline)}/pause")

    def unpause_pipeline(self, pipeline: str) -> PipelinePause:
        """Let a paused pipeline go on. Raises UnknownPipeline."""
        return self._service.shape(PipelinePause, "POST", f"/pipelines/{quoted(pipeline)}/unpause")

    def start_pipeline(self, pipeline: str) -> PipelinePause:
        """Let a pipeline go on, and start its process of the service again at once.

        Raises UnknownPipeline, and ConfigError for one that the service does not run.
        """
        return self._service.shape(PipelinePause, "POST", f"/pipelines/{quoted(pipeline)}/start")

    def _send(self, shape: type[AnyShape], path: str, body: Any = None, idempotency: str | None = None) -> AnyShape:
        return self._service.shape(shape, "POST", path, body, {"Idempotency-Key": idempotency} if idempotency else {})
