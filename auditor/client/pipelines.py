"""What the client asks of a service about pipelines and their segments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from auditor.client.http import Transport, quoted

if TYPE_CHECKING:
    from auditor.client.lag_types import LagHistory
    from auditor.client.pipeline_types import BootstrapEntry, PipelinePause, PipelineStatus, SegmentEntry, StoppedTable
    from auditor.client.segment_types import RegisteredEntry, SegmentAuditStatus


class Pipelines:
    """The part of `auditor.client.Client` that is about pipelines."""

    def __init__(self, service: Transport) -> None:
        self._service = service

    def pipelines(self) -> list[PipelineStatus]:
        """Return all pipelines with how they stand."""
        return list(self._service.pages("/pipelines"))

    def pipeline(self, pipeline: str) -> PipelineStatus:
        """Return how a pipeline stands. Raises UnknownPipeline."""
        found: PipelineStatus = self._service.json("GET", f"/pipelines/{quoted(pipeline)}")
        return found

    def pipeline_lag(self, pipeline: str, table: str | None = None, since: str | None = None) -> LagHistory:
        """Return what a pipeline and its targets, or a table in each target, lagged behind; ``since`` is ISO 8601, by default a day ago.

        Raises UnknownPipeline, and ConfigError for a table that the pipeline does not have.
        """
        parameters = {name: value for name, value in (("table", table), ("since", since)) if value is not None}
        query = f"?{urlencode(parameters)}" if parameters else ""
        found: LagHistory = self._service.json("GET", f"/pipelines/{quoted(pipeline)}/lag{query}")
        return found

    def segments(self, pipeline: str, table: str) -> Iterator[SegmentEntry]:
        """Yield the segments of a pipeline's table in the order of the stream. Raises UnknownPipeline."""
        return self._service.pages(f"/pipelines/{quoted(pipeline)}/segments", {"table": table})

    def segment_audits(self) -> list[SegmentAuditStatus]:
        """Return all segment audits with what their sides registered; `request` runs one, like any audit."""
        return list(self._service.pages("/segments"))

    def segment_audit(self, audit: str) -> SegmentAuditStatus:
        """Return a segment audit with what its sides registered. Raises UnknownAudit."""
        found: SegmentAuditStatus = self._service.json("GET", f"/segments/{quoted(audit)}")
        return found

    def registered_segments(self, audit: str, table: str, side: str) -> Iterator[RegisteredEntry]:
        """Yield the segments that a side registered of a table. Raises UnknownAudit, and ConfigError for another side."""
        return self._service.pages(f"/segments/{quoted(audit)}/entries", {"table": table, "side": side})

    def bootstrap_pipeline(self, pipeline: str, **asked: Any) -> list[BootstrapEntry]:
        """Ask for existing rows to be sent through a pipeline's stream; ``asked``: ``table``, ``keys``, ``key_list``; by default all.

        Raises UnknownPipeline and BootstrapRefused.
        """
        found: list[BootstrapEntry] = self._post(f"/pipelines/{quoted(pipeline)}/bootstrap", asked)
        return found

    def pipeline_bootstraps(self, pipeline: str) -> list[BootstrapEntry]:
        """Return the last bootstraps of a pipeline, newest first. Raises UnknownPipeline."""
        found: list[BootstrapEntry] = self._service.json("GET", f"/pipelines/{quoted(pipeline)}/bootstraps")
        return found

    def skip_events(self, pipeline: str, table: str, position: str, reason: str) -> list[StoppedTable]:
        """Let a stopped table go on without the events that stop it at a place. Raises UnknownPipeline and ConfigError."""
        found: list[StoppedTable] = self._post(
            f"/pipelines/{quoted(pipeline)}/skips", {"table": table, "position": position, "reason": reason}
        )
        return found

    def pause_pipeline(self, pipeline: str) -> PipelinePause:
        """Let a pipeline stand still after the batch under way. Raises UnknownPipeline."""
        found: PipelinePause = self._service.json("POST", f"/pipelines/{quoted(pipeline)}/pause")
        return found

    def unpause_pipeline(self, pipeline: str) -> PipelinePause:
        """Let a paused pipeline go on. Raises UnknownPipeline."""
        found: PipelinePause = self._service.json("POST", f"/pipelines/{quoted(pipeline)}/unpause")
        return found

    def start_pipeline(self, pipeline: str) -> PipelinePause:
        """Let a pipeline go on, and start its process of the service again at once.

        Raises UnknownPipeline, and ConfigError for one that the service does not run.
        """
        found: PipelinePause = self._service.json("POST", f"/pipelines/{quoted(pipeline)}/start")
        return found

    def _post(self, path: str, body: Any = None, idempotency: str | None = None) -> Any:
        return self._service.json("POST", path, body, {"Idempotency-Key": idempotency} if idempotency else {})
