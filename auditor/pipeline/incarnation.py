"""Hold what a pipeline's store knows against its staged parts, so that a restored or lost one is found out at the start.

The store and the folder of the parts carry the pipeline's incarnation, as each target does (`merge/target_identity.py`), and each has a
last position of its own. In a life without accidents the store is where the last batch was planned from, or where that ends.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from auditor.errors import IncarnationsDiffer, StagingFailed
from auditor.escaping import shell_word
from auditor.pipeline.events import Position, place_text
from auditor.pipeline.folders import Folder
from auditor.store import Store, parts, pipelines

log = logging.getLogger(__name__)

NOTE = "incarnation"
"""The file in the folder of the parts that has the incarnation."""


def check_staging(store: Store, pipeline: str, root: Folder, planned: Any = None) -> None:
    """Check that the folder of the parts belongs to the store; call it before anything is swept, or staged.

    ``planned`` is the offset at which the batch begins that was planned last. Raises IncarnationsDiffer, StagingFailed and StoreError.
    """
    state = pipelines.get_pipeline(store, pipeline)
    try:
        noted = (root.read_note(NOTE) or "").strip()
        begun = bool(state.incarnation) or bool(parts.list_tables(store, pipeline)) or state.source_offset is not None
        if (noted and noted != state.incarnation) or (not noted and not begun and planned is not None):
            theirs = f"incarnation {noted}" if noted else "an earlier life"
            known = f"incarnation {state.incarnation} of it" if state.incarnation else "nothing of it"
            raise IncarnationsDiffer(
                f"pipeline {pipeline}: the parts below {root} belong to {theirs}, and the store knows {known}: the store, or the folder,"
                f" was lost or restored, and rows may be missing in between; {ways_out(pipeline)}"
            )
        _check_not_behind(pipeline, state.source_offset, planned)
        root.put(NOTE, pipelines.begin(store, pipeline).encode())
    except OSError as error:
        raise StagingFailed(f"the staging's folder {root} cannot be read or written: {error.strerror or error}") from error


def _check_not_behind(pipeline: str, offset: Any, planned: Any) -> None:
    """Raise IncarnationsDiffer if the store is before the offset at which a batch was planned: it had been there, and was restored."""
    if planned is not None and offset is not None and order(offset) < order(planned):
        raise IncarnationsDiffer(
            f"pipeline {pipeline}: the store is at {show(offset)}, and a batch was planned from {show(planned)}: the store is older, and"
            f" what was staged in between is missing in it; {ways_out(pipeline)}"
        )


def order(offset: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return what sorts offsets as the stream does."""
    number = str(offset.get("file", "")).rpartition(".")[2]
    return int(offset.get("epoch", 0)), int(number) if number.isdigit() else 0, int(offset["position"])


def packed(offset: Any) -> int:
    """Return the position of a stream's offset as events have theirs; 0 for None."""
    return Position(*order(offset)).pack() if isinstance(offset, Mapping) else 0


def show(offset: Any) -> str:
    """Return an offset for people."""
    return place_text(packed(offset), str(offset["file"])) if isinstance(offset, Mapping) else "no position at all"


def ways_out(pipeline: str) -> str:
    """Return what can be done where the pieces of a pipeline do not belong together."""
    name = shell_word(pipeline)
    return (
        f"restore what belongs together; or read the source's log again from where the targets are: auditor pipeline reset {name}"
        f" --from-targets; or repair tables from segments (auditor segments copy); or forget all positions (auditor pipeline reset {name})"
        " and copy the tables again"
    )
