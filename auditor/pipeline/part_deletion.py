"""Delete the parts that every target has passed and that were kept long enough, and those for which there is no room.

How long parts are kept is `Retention.parts` in `auditor/config/_store.py`; how many bytes they may take is `Staging.budget` of the pipeline
in `auditor/config/_pipeline.py`. How often parts are deleted: `retention_poll` in `auditor/durations.py`.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from auditor.config import Pipeline
from auditor.errors import StagingFailed, StagingFull
from auditor.model import Part
from auditor.pipeline.emptied_files import EmptiedFiles
from auditor.pipeline.folders import Folder
from auditor.pipeline.live.staged_sums import sums_path
from auditor.pipeline.part_writer import copy_parts
from auditor.pipeline.staged_parts import check_part
from auditor.store import Store, live_epochs, parts
from auditor.store.parts import Pile

log = logging.getLogger(__name__)

USED_SHARE = 0.5
"""Share of a file's bytes below which the parts that are needed in it are copied out: so all files take at most twice as much."""

WARNED_SHARE = 0.8
"""Share of the budget from which it is warned."""


@dataclass(slots=True)
class PartDeleter:
    """Deletes what no target of a pipeline needs any more, again and again."""

    store: Store
    name: str
    root: Folder
    emptied: EmptiedFiles = field(init=False)
    """Files whose parts were copied out of them."""

    def __post_init__(self) -> None:
        self.emptied = EmptiedFiles(self.store, self.name, self.root)

    def prune(self, pipeline: Pipeline, keep: float) -> int:
        """Delete the parts that are not needed and were staged more than ``keep`` seconds ago, and return their number.

        Where segments are kept, the parts of open segments are needed as well. A part leaves the manifest first: a file that is left by a
        crash in between is swept when the pipeline starts. A target that never reported has passed nothing. Raises StoreError, and
        StagingFailed if a file cannot be deleted or written.
        """
        self.emptied.delete()
        targets, segmented = list(pipeline.targets), pipeline.segment is not None
        deleted = parts.delete_passed(self.store, self.name, keep, targets=targets, segmented=segmented)
        self.emptied.add(delete_files(self.store, self.name, self.root, deleted, targets=targets, segmented=segmented))
        return len(deleted)


def make_room(store: Store, name: str, pipeline: Pipeline, root: Folder) -> int:
    """Let the parts of a pipeline keep to their budget before more are staged, and return how many were deleted for that.

    Those that every target has go first, the oldest of them before the others; then, if the settings say so, those that are missing in the
    target which lies furthest behind, so that its tables have to be copied again. Raises StagingFull if that is not enough: staging then
    waits, and the source's log keeps what follows. Raises StoreError and StagingFailed.
    """
    budget = pipeline.staging.budget
    if budget is None or (over := parts.count_bytes(store, name) - budget) <= 0:
        return 0
    targets, segmented = list(pipeline.targets), pipeline.segment is not None
    deleted = parts.delete_oldest(store, name, over, targets=targets, segmented=segmented)
    over -= parts.totals(deleted)[1]
    behind = list(_missing(store, name, pipeline))
    for number, target in enumerate(behind[:-1] if pipeline.staging.when_full == "drop" else (), 1):
        if over <= 0:
            break
        dropped = parts.delete_oldest(store, name, over, targets=behind[number:], segmented=segmented)
        over -= parts.totals(dropped)[1]
        deleted += dropped
        if dropped:
            rows, size = parts.totals(dropped)
            extra = {"action": "dropped", "pipeline": name, "target": target, "events": rows, "bytes": size}
            sentence = (
                "%s: %d events that are missing in target %s were dropped, as parts fill their budget; its tables must be copied again"
            )
            log.error(sentence, name, rows, target, extra=extra)
    emptied = delete_files(store, name, root, deleted, targets=targets, segmented=segmented)
    with _failures(root):
        root.delete(emptied)  # at once, because room is needed; who reads there looks again
    if over > 0:
        raise StagingFull(f"parts fill the budget of {budget:,} bytes: {describe_held(store, name, pipeline)}; staging waits for it")
    return len(deleted)


def describe_held(store: Store, name: str, pipeline: Pipeline) -> str:
    """Return what is missing in the target that lies furthest behind, since when, and what follows if it stays away."""
    if not (behind := _missing(store, name, pipeline)):
        return "its histories need them"
    target, missing = next(iter(behind.items()))
    since = min((pile.oldest for pile in missing if pile.oldest), default=None)
    rows, size = sum(pile.rows for pile in missing), sum(pile.bytes for pile in missing)
    committed = f" (committed since {since:%Y-%m-%d %H:%M:%S} UTC)" if since else ""
    return f"{rows:,} events in {size:,} bytes{committed} are missing in target {target}"


def warn_of_budget(store: Store, name: str, pipeline: Pipeline) -> list[str]:
    """Return a sentence if the parts are about to fill their budget, with who holds them and what will happen; none otherwise."""
    budget = pipeline.staging.budget
    if budget is None or (size := parts.count_bytes(store, name)) < WARNED_SHARE * budget or not size:
        return []
    ends = {
        "wait": "staging will wait for it then, and the source's log must keep what follows",
        "drop": "what is missing there will be dropped then, and its tables must be copied again",
    }
    holders = describe_held(store, name, pipeline)
    return [f"parts take {size:,} of the {budget:,} bytes of their budget: {holders}; {ends[pipeline.staging.when_full]}"]


def _missing(store: Store, name: str, pipeline: Pipeline) -> dict[str, list[Pile]]:
    """Return what is missing in each target, table by table, that first in which most bytes are."""
    missing = {target: list(piles.values()) for target, piles in parts.sum_missing(store, name, pipeline.targets).items()}
    return dict(sorted(missing.items(), key=lambda item: sum(pile.bytes for pile in item[1]), reverse=True))


def delete_files(
    store: Store, name: str, root: Folder, deleted: Sequence[Part], *, targets: Collection[str] = (), segmented: bool = False
) -> list[str]:
    """Delete the files in which no part is left, and copy what is left of others that are mostly unused; return the paths of these.

    Nothing is copied of a file all of whose parts ``targets``, and segments, do not need any more: they are deleted soon. Raises StoreError
    and StagingFailed.
    """
    if not deleted:
        return []
    paths = {part.path for part in deleted}
    left: dict[str, list[Part]] = {}
    for part in parts.list_parts_of(store, name, paths):
        left.setdefault(part.path, []).append(part)
    epochs = [epoch.id for epoch in live_epochs.list_epochs(store, pipeline=name)]
    with _failures(root):
        root.delete(sorted(paths - left.keys()) + [sums_path(part, epoch) for part in deleted for epoch in epochs])
        young = parts.count_passed(store, name, left, targets=targets, segmented=segmented)
        held = {path: kept for path, kept in left.items() if len(kept) > young.get(path, 0)}
        unused = [path for path, kept in held.items() if parts.totals(kept)[1] < USED_SHARE * _bytes_of(root, path)]
        _gather(store, name, root, [part for path in unused for part in left[path]])
    rows, size = parts.totals(deleted)
    log.info("%s: %d parts with %d events were deleted", name, len(deleted), rows, extra={"action": "pruned", "bytes": size})
    return unused


def _bytes_of(root: Folder, path: str) -> int:
    """Return how many bytes a file has; 0 if it is missing, which is reported when one of its parts is read."""
    try:
        return root.size(path)
    except FileNotFoundError:
        return 0


def _gather(store: Store, name: str, root: Folder, kept: Sequence[Part]) -> None:
    """Copy parts of many files, most of whose other parts are gone, into one; damaged ones stay where they are, to be staged again.

    Files are read, written and listed in this order: whatever ends it in between leaves a file that is swept.
    """
    whole = [part for part in kept if not check_part(root, part)]
    if whole:
        first = min(part.first for part in whole)
        parts.replace_files(store, name, copy_parts(root, whole, f"{first:019d}.{secrets.token_hex(4)}", root))


@contextmanager
def _failures(root: Folder) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StagingFailed(f"parts below {root} cannot be deleted: {error.strerror}") from error
