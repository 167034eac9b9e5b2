"""The process of one target that one session alone may load, or one producer publish into: its rows do not pass the driver."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from auditor import config
from auditor.background import Service
from auditor.config import Settings
from auditor.pipeline.child_process import Child, ignore_signals, log_as_driver, serve
from auditor.pipeline.merge.load_tasks import LoadTask
from auditor.pipeline.merge.loader import Loader
from auditor.pipeline.merge.positions import Where
from auditor.pipeline.publisher import Publisher
from auditor.store import Store, open_store


@dataclass(frozen=True, slots=True)
class TargetProcess:
    """Runs the loader or the publisher of one target in a process, which is started again when it was killed."""

    work: Literal["loader", "publisher"]
    config_file: str
    pipeline: str
    target: str

    module: str = __name__
    """The main module of the process."""

    def service(self, every: float, stopped: threading.Event, staged: threading.Event, paused: threading.Event) -> Service:
        """Return what merges as a `Loader` does, or publishes as a `Publisher` does, until ``stopped`` is set."""
        arguments = (self.work, self.config_file, self.pipeline, self.target, str(every))
        return Child(self.module, arguments, f"{self.work} of {self.target}").service(f"{self.work} {self.target}", stopped, staged, paused)


def main(arguments: Sequence[str]) -> None:
    """Merge or publish until standard input ends."""
    work, config_file, pipeline, target, every, level = arguments
    settings = config.load(Path(config_file))
    log_as_driver(settings, level)
    assert settings.store
    with closing(open_store(settings.store.url)) as store:
        if work == "publisher":
            serve(partial(Publisher(settings, store, pipeline, target).service, float(every)))
        else:
            serve(partial(_loader(settings, store, config_file, pipeline, target).service, float(every)))


def _loader(settings: Settings, store: Store, config_file: str, pipeline: str, target: str) -> Loader:
    chosen = settings.pipeline(pipeline).table_targets[target]
    root = settings.pipeline(pipeline).staging.path
    where = Where(store, pipeline, config_file, chosen.connection, chosen.schema_, root, _run_here, target, chosen)
    return Loader(where, target, settings.connections[chosen.connection])


def _run_here(function: Callable[[LoadTask], Any], tasks: Sequence[LoadTask]) -> list[Any]:
    return [function(task) for task in tasks]


if __name__ == "__main__":
    ignore_signals()
    main(sys.argv[1:])
