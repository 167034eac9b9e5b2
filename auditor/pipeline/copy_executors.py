"""Run the tasks of a bootstrap's copy on executors of Spark. The bootstrap brings the tasks.

Each task is a job of its own, so that what one did is known when it ends, and those that run can be ended without the others.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import TypeVar

from auditor.errors import StatementCancelled
from auditor.pipeline import spark
from auditor.waits import waits

Task = TypeVar("Task")
Result = TypeVar("Result")


def run_on_executors(
    master: str, stopped: threading.Event, function: Callable[[Task], Result], tasks: Sequence[Task], at_once: int | None
) -> Generator[Result]:
    """Run a function on tasks, ``at_once`` of them at most, or as many as the executors have cores, and yield its results as they come.

    Starts Spark if it does not run. Raises EngineError and PackageMissing if it cannot be started, PipelineFailed if a task was lost, and
    StatementCancelled once ``stopped`` is set; then the tasks that run are ended.
    """
    if not tasks:
        return
    context = spark.start_session(master).sparkContext
    group = f"auditor-copy-{uuid.uuid4().hex}"

    def run(task: Task) -> Result:
        context.setJobGroup(group, "auditor bootstrap", interruptOnCancel=True)
        try:
            results: list[Result] = context.parallelize([task], 1).map(function).collect()
        except Exception as error:  # of Python or of Java
            raise spark.translate(error) from error
        return results[0]

    most = min(len(tasks), context.defaultParallelism, at_once or len(tasks))
    with ThreadPoolExecutor(most, thread_name_prefix="copies") as pool:
        pending = {pool.submit(run, task) for task in tasks}
        try:
            while pending:
                done, pending = wait(pending, waits().spread_poll, FIRST_COMPLETED)
                if stopped.is_set():
                    raise StatementCancelled
                for future in done:
                    yield future.result()
        finally:
            for future in pending:
                future.cancel()
            if pending:
                context.cancelJobGroup(group)
