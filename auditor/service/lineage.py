"""OpenLineage: the event about a run, with what its verdict asserts of the target's table.

An event has names and verdicts, and no value of any row. It follows the specification 2-0-2 (https://openlineage.io/spec), with the facets
dataQualityAssertions 1-1-0, jobType 2-0-4 and processing_engine 1-1-1.
"""

from __future__ import annotations

import datetime as dt
import uuid
from importlib.metadata import version
from typing import Any

from auditor.config import Audit, OpenLineage
from auditor.model import Report, State, Verdict
from auditor.service.channels import post_json

SPECIFICATION = "https://openlineage.io/spec"

VERSION = version("auditor")

PRODUCER = f"urn:auditor:{VERSION}"

EVENT_TYPES = {State.DONE: "COMPLETE", State.FAILED: "FAIL", State.CANCELLED: "ABORT"}


def run_event(settings: OpenLineage, audit: Audit, report: Report, verdict: Verdict | None, at: dt.datetime) -> dict[str, Any] | None:
    """Return the event about a finished run; None if its target is a query, or its connection has no name under ``datasets``.

    ``verdict`` is the audit's after the run, of a rolling audit that of its whole table; without one the event asserts nothing.
    """
    named = settings.datasets.get(getattr(audit.target, "connection", ""))
    if named is None or audit.queries.get("target") or report.state not in EVENT_TYPES:
        return None
    dataset: dict[str, Any] = {"namespace": named.namespace, "name": named.name.replace("{table}", audit.target.table)}
    if assertions := _assertions(audit, report, verdict):
        facet = _facet("facets/1-1-0/DataQualityAssertionsDatasetFacet.json", assertions=assertions)
        dataset["inputFacets"] = {"dataQualityAssertions": facet}
    engine = _facet("facets/1-1-1/ProcessingEngineRunFacet.json", name="auditor", version=VERSION)
    kind = _facet("facets/2-0-4/JobTypeJobFacet.json", processingType="BATCH", integration="AUDITOR", jobType="AUDIT")
    return {
        "eventType": EVENT_TYPES[report.state],
        "eventTime": at.isoformat(),
        "producer": PRODUCER,
        "schemaURL": f"{SPECIFICATION}/2-0-2/OpenLineage.json#/$defs/RunEvent",
        "run": {"runId": str(uuid.UUID(report.run)), "facets": {"processing_engine": engine}},
        "job": {"namespace": settings.namespace, "name": report.audit, "facets": {"jobType": kind}},
        "inputs": [dataset],
        "outputs": [],
    }


def _facet(schema: str, **fields: Any) -> dict[str, Any]:
    name = schema.rsplit("/", 1)[-1].removesuffix(".json")
    return {"_producer": PRODUCER, "_schemaURL": f"{SPECIFICATION}/{schema}#/$defs/{name}", **fields}


def _assertions(audit: Audit, report: Report, verdict: Verdict | None) -> list[dict[str, Any]]:
    """Return what the verdict says of the table, and of the columns of which the run knows: all after a match of the whole table by
    their values, those in which changed rows differ after a mismatch."""
    if report.state is not State.DONE or verdict not in (Verdict.MATCH, Verdict.MISMATCH):
        return []
    by_counts = report.plan is not None and report.plan.method == "counts"
    assertion = "counts_equal_to_source" if by_counts else "equal_to_source"
    found: list[dict[str, Any]] = [{"assertion": assertion, "success": verdict is Verdict.MATCH}]
    names: list[str] = []
    if verdict is Verdict.MISMATCH and report.differences:
        names = [changed.name for changed in report.differences.columns]
    elif verdict is Verdict.MATCH and report.plan and not by_counts and report.covered == 1 and not report.within_threshold:
        names = [column.name for column in report.plan.columns]
    renamed = audit.target.columns if hasattr(audit.target, "columns") else {}
    return found + [{"assertion": assertion, "success": verdict is Verdict.MATCH, "column": renamed.get(name, name)} for name in names]


def post_event(settings: OpenLineage, event: dict[str, Any]) -> str:
    """Send an event; returns the failure, in words that contain nothing of the URL, or ''."""
    return post_json(settings.url, event, {"Authorization": f"Bearer {settings.token}"} if settings.token else {})
