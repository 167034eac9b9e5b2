"""Delete the parts that every target has passed and that were kept long enough."""

from __future__ import annotations

import logging

from auditor.config import Pipeline
from auditor.errors import StagingFailed
from auditor.pipeline import staged_parts
from auditor.pipeline.live.staged_sums import sums_path
from auditor.pipeline.s3_folder import Folder
from auditor.store import Store, live_epochs, parts, pipelines, segments

log = logging.getLogger(__name__)


def prune(store: Store, name: str, pipeline: Pipeline, root: Folder) -> int:
    """Delete what no target of a pipeline needs any more, and return the number of parts.

    Where segments are kept, the parts of open segments are needed as well. A part leaves the manifest first: a file that is left by a
    crash in between is swept when the pipeline starts. A target that never reported has passed nothing. Raises StoreError, and
    StagingFailed if a file cannot be deleted.
    """
    reports = pipelines.list_merges(store, name)
    tables = parts.list_tables(store, name)
    passed = {
        table: min(reports.get(target, {})[table].position if table in reports.get(target, {}) else 0 for target in pipeline.targets)
        for table in tables
    }
    if pipeline.segment:
        free = segments.get_cut(store, name).free
        passed = {table: min(position, free.get(table, 0)) for table, position in passed.items()}
    deleted = parts.delete_passed(store, name, passed, pipeline.staging.keep)
    try:
        epochs = [epoch.id for epoch in live_epochs.list_epochs(store, pipeline=name)] if deleted else []
        staged_parts.delete(root, [path for part in deleted for path in (part.path, *(sums_path(part, epoch) for epoch in epochs))])
    except OSError as error:
        raise StagingFailed(f"parts below {root} cannot be deleted: {error.strerror}") from error
    if deleted:
        rows, size = parts.totals(deleted)
        log.info("%s: %d parts with %d events were deleted", name, len(deleted), rows, extra={"action": "pruned", "bytes": size})
    return len(deleted)
