"""Load the files of a copy into its table, and say what a target did not take."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from contextlib import suppress

import dialects
from auditor.errors import AuditorError, BootstrapFailed
from auditor.model import Chunk
from auditor.points import reach
from auditor.repair.bootstrap import files
from auditor.repair.bootstrap.job import BootstrapJob
from auditor.repair.bootstrap.plan import BootstrapPlan
from auditor.store import bootstraps
from dialects import Session
from dialects.base import writing_of
from dialects.committing import Committing

log = logging.getLogger(__name__)


def load_from_here(job: BootstrapJob, plan: BootstrapPlan, bootstrap: str) -> None:
    """Load all files of a copy, in one transaction of the target. Raises BootstrapFailed."""
    files.write_manifest(job.files_of(bootstrap), bootstraps.list_ranges(job.store, bootstrap))
    paths = [str(path) for path in files.check(job.files_of(bootstrap)) if path.stat().st_size]
    native = {column.expression["target"]: column.native["target"] for column in plan.columns}

    def load(session: Session) -> None:
        if paths or isinstance(session, Committing):
            session.load_files(plan.statements.stage, native, paths, stored_folder(session, bootstrap))

    load_at_once(job, plan, load)


def load_at_once(job: BootstrapJob, plan: BootstrapPlan, load: Callable[[Session], None]) -> None:
    """Replace all rows of the copy by what ``load`` loads, in one transaction of the target. Raises BootstrapFailed."""
    with job.open_writer() as session:
        reach("bootstrap.load")
        try:
            if isinstance(session, Committing):
                load(session)  # in place of all rows that are there
                return
            session.execute("BEGIN")
            session.execute(plan.statements.clear(plan.statements.stage, Chunk()))
            load(session)
            session.execute("COMMIT")
        except AuditorError as error:
            with suppress(AuditorError):  # there may be no transaction
                session.execute("ROLLBACK")
            raise target_failure(error, plan) from error


def stored_folder(session: Session, bootstrap: str) -> str:
    """Return a new folder for files that an engine reads elsewhere, below that of its connection; delete what killed attempts left."""
    _remove_stored(session, bootstrap)
    return f"{_folder_of(bootstrap)}/{uuid.uuid4().hex}"


def remove_files(job: BootstrapJob, bootstrap: str) -> None:
    """Remove the files of a copy: those here, and what killed attempts left where its engine reads them."""
    files.remove(job.files_of(bootstrap))
    if writing_of(dialects.by_scheme(dialects.parse_url(job.target.url).scheme)).LOADS == "by files":
        with job.open_writer() as session:
            _remove_stored(session, bootstrap)


def _remove_stored(session: Session, bootstrap: str) -> None:
    if writing_of(session.dialect).LOADS != "by files" or session.why_no_files():
        return
    folder = _folder_of(bootstrap)
    try:
        if count := session.remove_stored(folder):
            log.info("%d files below %s, which a killed attempt left, were deleted", count, folder, extra={"action": "files_deleted"})
    except AuditorError as error:
        log.warning("files below %s remain: %s", folder, error, extra={"action": "files_remain"})


def _folder_of(bootstrap: str) -> str:
    return f"bootstrap-{bootstrap}"


def target_failure(error: AuditorError, plan: BootstrapPlan) -> BootstrapFailed:
    """Return the error of a target that did not take rows; of masked columns it shows nothing."""
    what = type(error).__name__ if plan.hides_values else str(error)
    return BootstrapFailed(f"the target did not take the copy: {what}; {plan.table.sql} is as it was")
