"""What the stream keeps for live summaries: the source's half of an audit with ``summaries: live``.

`find_sums` is what a run asks. `images` makes texts, hashes and places of events' rows, `staged_sums` the files beside parts,
`published_epochs` tells tasks which epochs there are, and `stream_sums` reads the sums for a run.

Outside stay the run's own half (`auditor.run.live`), which is below pipelines, the tables of epochs and links
(`auditor.store.live_epochs`), and what a merge adds (`auditor.pipeline.merge.live_sums`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.config import Audit, Settings, find_carriers, why_not_aligned

if TYPE_CHECKING:
    from auditor.pipeline.live.stream_sums import StreamSums
    from auditor.store import Store


def find_sums(settings: Settings, store: Store, name: str, audit: Audit) -> StreamSums | str:
    """Return the sums that a pipeline keeps for an audit, or why there are none to be had."""
    if not audit.summaries:
        return ""
    if why := why_not_aligned(audit, settings.pipelines, settings.connections):
        return why
    from auditor.pipeline.live.stream_sums import StreamSums  # which loads what only pipelines need
    from auditor.store.live_epochs import EpochSubject

    [carrier] = find_carriers(audit.sources[0], audit.target, settings.pipelines, settings.connections)
    subject = EpochSubject(name, carrier.pipeline, carrier.target, f"{carrier.database}.{carrier.output}")
    where = audit.where if isinstance(audit.where, str) else ""
    return StreamSums(settings, store, subject, carrier.place, where, audit.ledger)
