"""Delete the parts that every target has passed and that were kept long enough.

How long is `Staging.keep` in `config/_pipeline.py`, a setting of the pipeline, and how often it is looked: `retention_poll` in
`auditor/waits.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from auditor.config import Pipeline
from auditor.errors import StagingFailed, StagingFull
from auditor.model import Part
from auditor.pipeline.folders import Folder
from auditor.pipeline.live.staged_sums import sums_path
from auditor.store import Store, live_epochs, parts, pipelines, segments

log = logging.getLogger(__name__)

WARNED_SHARE = 0.8
"""Share of the budget from which it is warned."""


def prune(store: Store, name: str, pipeline: Pipeline, root: Folder) -> int:
    """Delete what no target of a pipeline needs any more, and return the number of parts.

    Where segments are kept, the parts of open segments are needed as well. A part leaves the manifest first: a file that is left by a
    crash in between is swept when the pipeline starts. A target that never reported has passed nothing. Raises StoreError, and
    StagingFailed if a file cannot be deleted.
    """
    deleted = parts.delete_passed(store, name, _passed(store, name, pipeline, pipeline.targets), pipeline.staging.keep)
    _delete_files(store, name, root, deleted)
    return len(deleted)


def make_room(store: Store, name: str, pipeline: Pipeline, root: Folder) -> int:
    """Let the parts of a pipeline keep to their budget before more are staged, and return how many were deleted for that.

    Those that every target has go first, the oldest of them before the others; then, if the settings say so, those that are missing in the
    target which lies furthest behind, so that its tables have to be copied again. Raises StagingFull if that is not enough: staging then
    waits, and the source's log keeps what follows. Raises StoreError and StagingFailed.
    """
    budget = pipeline.staging.budget
    if budget is None or (over := _size(store, name) - budget) <= 0:
        return 0
    deleted = parts.delete_oldest(store, name, _passed(store, name, pipeline, pipeline.targets), over)
    over -= parts.totals(deleted)[1]
    behind = _by_lag(store, name, pipeline)
    for number, target in enumerate(behind[:-1] if pipeline.staging.when_full == "drop" else (), 1):
        if over <= 0:
            break
        dropped = parts.delete_oldest(store, name, _passed(store, name, pipeline, behind[number:]), over)
        over -= parts.totals(dropped)[1]
        deleted += dropped
        if dropped:
            rows, size = parts.totals(dropped)
            extra = {"action": "dropped", "pipeline": name, "target": target, "events": rows, "bytes": size}
            sentence = (
                "%s: %d events that are missing in target %s were dropped, as parts fill their budget; its tables must be copied again"
            )
            log.error(sentence, name, rows, target, extra=extra)
    _delete_files(store, name, root, deleted)
    if over > 0:
        raise StagingFull(f"parts fill the budget of {budget:,} bytes: {describe_held(store, name, pipeline)}; staging waits for it")
    return len(deleted)


def describe_held(store: Store, name: str, pipeline: Pipeline) -> str:
    """Return what is missing in the target that lies furthest behind, since when, and what follows if it stays away."""
    target = _by_lag(store, name, pipeline)[0]
    piles = parts.sum_parts(store, name, _positions(store, name, target) or {"": 0})
    missing = [pile for pile in piles.values() if pile.parts]
    since = min((pile.oldest for pile in missing if pile.oldest), default=None)
    rows, size = sum(pile.rows for pile in missing), sum(pile.bytes for pile in missing)
    committed = f" (committed since {since:%Y-%m-%d %H:%M:%S} UTC)" if since else ""
    return f"{rows:,} events in {size:,} bytes{committed} are missing in target {target}"


def warn_of_budget(store: Store, name: str, pipeline: Pipeline) -> list[str]:
    """Return a sentence if the parts are about to fill their budget, with who holds them and what will happen; none otherwise."""
    budget = pipeline.staging.budget
    if budget is None or (size := _size(store, name)) < WARNED_SHARE * budget or not parts.list_tables(store, name):
        return []
    ends = {
        "wait": "staging will wait for it then, and the source's log must keep what follows",
        "drop": "what is missing there will be dropped then, and its tables must be copied again",
    }
    holders = describe_held(store, name, pipeline)
    return [f"parts take {size:,} of the {budget:,} bytes of their budget: {holders}; {ends[pipeline.staging.when_full]}"]


def _size(store: Store, name: str) -> int:
    return sum(pile.bytes for pile in parts.sum_parts(store, name, {}).values())


def _positions(store: Store, name: str, target: str) -> dict[str, int]:
    return {table: report.position for table, report in pipelines.list_merges(store, name).get(target, {}).items()}


def _by_lag(store: Store, name: str, pipeline: Pipeline) -> list[str]:
    """Return the targets, that first in which most bytes are missing."""

    def missing_bytes(target: str) -> int:
        return sum(pile.bytes for pile in parts.sum_parts(store, name, _positions(store, name, target) or {"": 0}).values())

    return sorted(pipeline.targets, key=missing_bytes, reverse=True)


def _passed(store: Store, name: str, pipeline: Pipeline, targets: Iterable[str]) -> dict[str, int]:
    """Return by table up to where these targets have it, and segments need it no more."""
    positions = [_positions(store, name, target) for target in targets]
    passed = {table: min(of_target.get(table, 0) for of_target in positions) for table in parts.list_tables(store, name)}
    if pipeline.segment:
        free = segments.get_cut(store, name).free
        passed = {table: min(position, free.get(table, 0)) for table, position in passed.items()}
    return passed


def _delete_files(store: Store, name: str, root: Folder, deleted: Sequence[Part]) -> None:
    try:
        epochs = [epoch.id for epoch in live_epochs.list_epochs(store, pipeline=name)] if deleted else []
        root.delete([path for part in deleted for path in (part.path, *(sums_path(part, epoch) for epoch in epochs))])
    except OSError as error:
        raise StagingFailed(f"parts below {root} cannot be deleted: {error.strerror}") from error
    if deleted:
        rows, size = parts.totals(deleted)
        log.info("%s: %d parts with %d events were deleted", name, len(deleted), rows, extra={"action": "pruned", "bytes": size})
