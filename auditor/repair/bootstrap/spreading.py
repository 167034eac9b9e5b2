"""Copy ranges of the source by executors: they read each into a file, and load or store the files; no row passes this process.

Where the engine names its snapshots, all executors read in the one that this process holds open. Elsewhere each range is read in a
snapshot of its own, and what the copy is compared with is begun when the last was read.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress
from functools import partial

from auditor.errors import AuditorError, BootstrapFailed
from auditor.points import reach
from auditor.repair.bootstrap import files, tasks
from auditor.repair.bootstrap.copying import Copying
from auditor.repair.bootstrap.job import Executors
from auditor.repair.bootstrap.loading import load_at_once, load_from_here, stored_folder, target_failure
from auditor.store import bootstraps
from dialects import Session
from dialects.base import writing_of
from dialects.writing import StoredFile


def copy(copying: Copying, numbers: Sequence[int], *, loaded_before: bool) -> None:
    """Copy the ranges of these numbers, and those that were read before and not loaded; leave a snapshot of the source open.

    ``loaded_before`` says that rows of them may be in the copy. Raises errors of the tree.
    """
    job, plan, bootstrap = copying.job, copying.plan, copying.bootstrap
    assert job.executors
    _read(copying, job.executors, numbers)
    ranges = bootstraps.list_ranges(job.store, bootstrap)
    files.write_manifest(job.files_of(bootstrap), ranges)
    copying.target.wait_until_calm()
    if not writing_of(plan.target).READS_FILES:
        _load_side_by_side(copying, job.executors, loaded_before=loaded_before)
    elif writing_of(plan.target).LOADS == "by files":
        _store_and_load(copying, job.executors)
    else:
        load_from_here(job, plan, bootstrap)


def _read(copying: Copying, executors: Executors, numbers: Sequence[int]) -> None:
    """Let executors read ranges into files."""
    job, plan, main = copying.job, copying.plan, copying.main
    shared = ""
    if plan.is_one_moment:
        main.begin_snapshot()
        shared = main.run(lambda session: session.export_snapshot())
    folder = job.files_of(copying.bootstrap)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    todo = []
    for number in numbers:
        sql, path = plan.read(plan.ranges[number], main.session.dialect), str(folder / files.name(number))
        todo.append(tasks.ReadTask(executors.config_file, job.audit.sources[0].connection, number, sql, path, shared))
    reach("bootstrap.range")
    with closing(executors.run(tasks.read_range, todo, main.settings.limits.statements)) as results:
        for number, result in results:
            if isinstance(result, AuditorError):
                raise result
            result.snapshot = copying.snapshot if shared else f"{copying.attempt}/own"
            copying.note(number, result)
            reach("bootstrap.read")
    main.begin_snapshot()


def _load_side_by_side(copying: Copying, executors: Executors, *, loaded_before: bool) -> None:
    """Let executors load files, each in a transaction of its own."""
    job, plan = copying.job, copying.plan
    statements, folder = plan.statements, job.files_of(copying.bootstrap)
    ranges = {number: file for number, file in bootstraps.list_ranges(job.store, copying.bootstrap).items() if not file.get("loaded")}
    load = partial(tasks.LoadTask, executors.config_file, job.audit.target.connection)
    todo = []
    for number, file in sorted(ranges.items()):
        clear = statements.clear(statements.stage, plan.ranges[number]) if loaded_before else ""
        todo.append(load(number, str(folder / file["file"]), file["sha256"], statements.stage, tuple(statements.columns), clear))
    reach("bootstrap.load")
    with closing(executors.run(tasks.load_range, todo, job.target.limits.statements)) as results:
        for number, error in results:
            if isinstance(error, BootstrapFailed):
                raise error
            if error is not None:
                raise target_failure(error, plan) from error
            reach("bootstrap.loaded")
            bootstraps.save_range(job.store, copying.bootstrap, number, {**ranges[number], "loaded": True})


def _store_and_load(copying: Copying, executors: Executors) -> None:
    """Let executors store files where the target's engine reads them, and load them all at once."""
    job, plan = copying.job, copying.plan
    path, ranges = job.files_of(copying.bootstrap), bootstraps.list_ranges(job.store, copying.bootstrap)
    store = partial(tasks.StoreTask, executors.config_file, job.audit.target.connection)

    def load(session: Session) -> None:
        folder = stored_folder(session, copying.bootstrap)
        stored_ranges = [(number, file) for number, file in sorted(ranges.items()) if file["bytes"]]
        todo = [store(number, str(path / file["file"]), file["sha256"], folder) for number, file in stored_ranges]
        stored: list[StoredFile] = []
        try:
            with closing(executors.run(tasks.store_range, todo, None)) as results:
                for _, result in results:
                    if isinstance(result, AuditorError):
                        raise result
                    stored.append(result)
            if stored:
                session.copy_stored(plan.statements.stage, list(plan.statements.columns), folder, stored)
        finally:
            with suppress(AuditorError):  # the first failure matters more, and what remains is deleted by the next attempt
                session.remove_stored(folder)

    load_at_once(job, plan, load)
