"""Whether targets get transactions in an order by which a heartbeat shows what has arrived."""

from __future__ import annotations

from collections.abc import Mapping

from auditor.config._audit import Audit
from auditor.config._carried import find_carriers
from auditor.config._connection import ConnectionSettings
from auditor.config._pipeline import Pipeline


def find_unordered(
    audits: Mapping[str, Audit], pipelines: Mapping[str, Pipeline], connections: Mapping[str, ConnectionSettings]
) -> list[tuple[tuple[str, ...], str]]:
    """Return which audits wait for a heartbeat that may overtake their rows: where that is written, and a sentence."""
    return [
        (
            ("audits", name, "settle", "barrier"),
            f"the pipeline {carrier.pipeline!r} merges each table on its own, so that a heartbeat may arrive before the rows of"
            f" {carrier.table}; remove barrier, and give a lag (lag: 10m)",
        )
        for name, audit in audits.items()
        if audit.settle and audit.settle.barrier is not None
        for read in audit.sources
        for carrier in find_carriers(read, audit.target, pipelines, connections)
    ]
