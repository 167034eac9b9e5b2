"""Hold what a pipeline's store knows against its checkpoint and its staged parts, so that a restored or lost one is found out at the start.

The store, the checkpoint and the folder of the parts carry the pipeline's incarnation, as each target does (`merge/identity.py`), and each
has a last position of its own. In a life without accidents the store is at the checkpoint's last batch, or one ahead of it.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from auditor.errors import IncarnationsDiffer, StagingFailed
from auditor.escaping import shell_word
from auditor.pipeline.events import Position
from auditor.pipeline.folders import Folder, LocalFolder
from auditor.store import Store, parts, pipelines

log = logging.getLogger(__name__)

NOTE = "incarnation"
"""The file in the folder of the parts, and in the checkpoint, that has the incarnation."""


def check_staging(store: Store, pipeline: str, root: Folder, checkpoint: Path | None, planned: Any = None) -> None:
    """Check that the folder of the parts and the checkpoint belong to the store; call it before anything is swept, or staged.

    ``planned`` is the offset at which the batch begins that was planned last, where the driver itself plans. A checkpoint that is older
    than the store is deleted: the stream continues from the store. Raises IncarnationsDiffer, StagingFailed and StoreError.
    """
    state = pipelines.get_pipeline(store, pipeline)
    try:
        _check_folder(store, pipeline, root, checkpoint, state.incarnation)
        # A batch is planned before the store knows anything, and committed only afterwards.
        for known in (_last(checkpoint, "commits"), planned if state.source_offset is not None else None):
            _check_not_behind(pipeline, state.source_offset, known)
        if checkpoint and checkpoint.is_dir():
            _check_checkpoint(pipeline, checkpoint, state.source_offset, state.incarnation)
        incarnation = pipelines.begin(store, pipeline)
        root.put(NOTE, incarnation.encode())
        if checkpoint and checkpoint.is_dir():
            LocalFolder(checkpoint).put(NOTE, incarnation.encode())
    except OSError as error:
        raise StagingFailed(f"the staging's folder {root} cannot be read or written: {error.strerror or error}") from error


def _check_folder(store: Store, pipeline: str, root: Folder, checkpoint: Path | None, known: str) -> None:
    noted = (root.read_note(NOTE) or "").strip()
    begun = bool(known) or bool(parts.list_tables(store, pipeline)) or pipelines.get_pipeline(store, pipeline).source_offset is not None
    if (noted and noted != known) or (not noted and not begun and _last(checkpoint, "commits") is not None):
        known_life = f"incarnation {known} of it" if known else "nothing of it"
        raise IncarnationsDiffer(
            f"pipeline {pipeline}: the parts below {root} belong to {f'incarnation {noted}' if noted else 'an earlier life'}, and the store"
            f" knows {known_life}: the store, or the folder, was lost or restored, and rows may be missing in between; {ways_out(pipeline)}"
        )


def _check_not_behind(pipeline: str, offset: Any, known: Any) -> None:
    """Raise IncarnationsDiffer if the store is before an offset that the stream had reached."""
    if known is not None and (offset is None or order(offset) < order(known)):
        raise IncarnationsDiffer(
            f"pipeline {pipeline}: the store is at {show(offset)}, and its checkpoint at {show(known)}: the store is older, and"
            f" what was staged in between is missing in it; {ways_out(pipeline)}"
        )


def _check_checkpoint(pipeline: str, checkpoint: Path, offset: Any, incarnation: str) -> None:
    """Delete a checkpoint that is not the store's, or older than it: the stream then continues from where the store is."""
    noted = (LocalFolder(checkpoint).read_note(NOTE) or incarnation).strip()
    places = [order(entry) for entry in (_last(checkpoint, "commits"), _last(checkpoint, "offsets")) if entry is not None]
    if noted == incarnation and (offset is None or not places or order(offset) in places):
        return
    shutil.rmtree(checkpoint)
    why = "older than the store" if noted == incarnation else f"that of incarnation {noted}"
    log.warning("%s: the checkpoint is %s; it continues from %s", pipeline, why, show(offset), extra={"action": "checkpoint_dropped"})


def _last(checkpoint: Path | None, folder: str) -> Any:
    """Return the offset of the last batch that Spark planned (``offsets``) or committed (``commits``); None if there is none."""
    numbers = [int(path.name) for path in (checkpoint / folder).glob("*") if path.name.isdigit()] if checkpoint else []
    if not checkpoint or not numbers:
        return None
    try:
        return json.loads((checkpoint / "offsets" / str(max(numbers))).read_text().splitlines()[2])
    except (FileNotFoundError, IndexError, ValueError):  # Spark deletes old ones, and a crash leaves an unfinished one
        return None


def order(offset: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return what sorts offsets as the stream does."""
    number = str(offset.get("file", "")).rpartition(".")[2]
    return int(offset.get("epoch", 0)), int(number) if number.isdigit() else 0, int(offset["position"])


def packed(offset: Any) -> int:
    """Return the position of a stream's offset as events have theirs; 0 for None."""
    return Position(*order(offset)).pack() if isinstance(offset, Mapping) else 0


def show(offset: Any) -> str:
    """Return an offset for people."""
    return f"{offset['file']}:{offset['position']}" if isinstance(offset, Mapping) else "no position at all"


def ways_out(pipeline: str) -> str:
    """Return what can be done where the pieces of a pipeline do not belong together."""
    name = shell_word(pipeline)
    return (
        f"restore what belongs together; or read the source's log again from where the targets are: auditor pipeline reset {name}"
        f" --from-targets; or repair tables from segments (auditor segments copy); or forget all positions (auditor pipeline reset {name})"
        " and copy the tables again"
    )
