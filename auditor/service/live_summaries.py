"""How a run of an audit with ``summaries: live`` reaches the sums that the pipeline keeps of its table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.config import Audit, Settings, find_carriers, why_not_aligned
from auditor.run.live_summaries import LiveSums

if TYPE_CHECKING:
    from auditor.store import Store


def find_sums(settings: Settings, store: Store, name: str, audit: Audit) -> LiveSums | str:
    """Return the sums that a pipeline keeps for an audit, or why there are none to be had."""
    if not audit.summaries:
        return ""
    if why := why_not_aligned(audit, settings.pipelines, settings.connections):
        return why
    from auditor.pipeline.live_sums import StreamSums  # which loads what only pipelines need
    from auditor.store.live_epochs import EpochSubject

    [carrier] = find_carriers(audit.sources[0], audit.target, settings.pipelines, settings.connections)
    subject = EpochSubject(name, carrier.pipeline, carrier.target, f"{carrier.database}.{carrier.table}")
    where = audit.where if isinstance(audit.where, str) else ""
    return StreamSums(settings, store, subject, carrier.schema, where)
