"""The process that cuts a pipeline's segments, beside its driver."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from auditor import config
from auditor.background import Backoff, Service
from auditor.durations import durations
from auditor.errors import PartDamaged
from auditor.pipeline.child_process import Child, ignore_signals, log_as_driver, serve
from auditor.pipeline.restaging import repair_all
from auditor.pipeline.segments.registering import registrations_of
from auditor.pipeline.segments.writer import SegmentWriter, open_writer
from auditor.store import open_store

log = logging.getLogger(__name__)


def segment_process(config_file: str, pipeline: str) -> Child:
    """Return the process that cuts a pipeline's segments."""
    return Child(__name__, (config_file, pipeline), f"segments of {pipeline}")


def cutting_service(
    writer: SegmentWriter,
    stopped: threading.Event,
    staged: threading.Event,
    paused: threading.Event,
    mend: Callable[[], None] = lambda: None,
) -> Service:
    """Return what cuts what is staged until ``stopped`` is set; what fails is tried again, damaged parts after ``mend``."""

    def cut() -> None:
        try:
            if not paused.is_set() and writer.step():
                return
        except PartDamaged:
            mend()
            raise
        staged.wait(durations().staged_poll)
        staged.clear()

    failure, fields = f"{writer.pipeline}: its segments wait, and nothing is lost", {"pipeline": writer.pipeline}
    backoff = Backoff(durations().pipeline_first_retry, durations().pipeline_longest_retry)
    return Service("segments", cut, failure=failure, action="segments_failed", fields=fields, backoff=backoff, stopping=stopped)


def _cut(config_file: Path, pipeline: str, level: str) -> None:
    settings = config.load(config_file)
    log_as_driver(settings, level)
    assert settings.store
    with closing(open_store(settings.store.url)) as store:
        writer = open_writer(store, pipeline, settings.pipeline(pipeline), registrations_of(settings, pipeline))
        mend = partial(repair_all, settings, store, pipeline, writer.root)
        serve(lambda stopped, staged, paused: cutting_service(writer, stopped, staged, paused, mend))


if __name__ == "__main__":
    ignore_signals()
    _cut(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
