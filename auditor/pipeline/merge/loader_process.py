"""A loader in a process of its own, for a target that one session alone may load: its rows do not pass the driver."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from auditor import config
from auditor.background import Service
from auditor.pipeline.child_process import Child, ignore_signals, log_as_driver, serve
from auditor.pipeline.merge.load_tasks import LoadTask
from auditor.pipeline.merge.loader import Loader
from auditor.pipeline.merge.positions import Where
from auditor.store import open_store


@dataclass(frozen=True, slots=True)
class LoaderProcess:
    """Runs the loader of one target in a process, which is started again when it was killed."""

    config_file: str
    pipeline: str
    target: str

    module: str = __name__
    """The main module of the process."""

    def service(self, every: float, stopped: threading.Event, staged: threading.Event, paused: threading.Event) -> Service:
        """Return what merges as a `Loader` does, until ``stopped`` is set."""
        arguments = (self.config_file, self.pipeline, self.target, str(every))
        return Child(self.module, arguments, f"loader of {self.target}").service(f"loader {self.target}", stopped, staged, paused)


def load(config_file: Path, pipeline: str, target: str, every: float, level: str) -> None:
    """Run a loader until standard input ends, and log what has at least this level."""
    settings = config.load(config_file)
    log_as_driver(settings, level)
    chosen = settings.pipeline(pipeline).table_targets[target]
    assert settings.store
    with closing(open_store(settings.store.url)) as store:
        root = settings.pipeline(pipeline).staging.path
        where = Where(store, pipeline, str(config_file), chosen.connection, chosen.schema_, root, _run_here, target, chosen)
        loader = Loader(where, target, settings.connections[chosen.connection])
        serve(partial(loader.service, every))


def _run_here(function: Callable[[LoadTask], Any], tasks: Sequence[LoadTask]) -> list[Any]:
    return [function(task) for task in tasks]


if __name__ == "__main__":
    ignore_signals()
    load(Path(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4]), sys.argv[5])
