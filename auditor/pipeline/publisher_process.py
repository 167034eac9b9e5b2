"""The process that publishes into the topics of one target: its producer is the only one with its name."""

from __future__ import annotations

import sys
import threading
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from auditor import config
from auditor.background import Service
from auditor.pipeline.child_process import Child, ignore_signals, log_as_driver, serve
from auditor.pipeline.publisher import Publisher
from auditor.store import open_store


@dataclass(frozen=True, slots=True)
class PublisherProcess:
    """Runs the publisher of one target in a process, which is started again when it was killed."""

    config_file: str
    pipeline: str
    target: str
    module: str = __name__

    def service(self, every: float, stopped: threading.Event, staged: threading.Event, paused: threading.Event) -> Service:
        """Return what publishes as a `Publisher` does, until ``stopped`` is set."""
        arguments = (self.config_file, self.pipeline, self.target, str(every))
        return Child(self.module, arguments, f"publisher of {self.target}").service(f"publisher {self.target}", stopped, staged, paused)


def publish(config_file: Path, pipeline: str, target: str, every: float, level: str) -> None:
    """Run a publisher until standard input ends, and log what has at least this level."""
    settings = config.load(config_file)
    log_as_driver(settings, level)
    assert settings.store
    with closing(open_store(settings.store.url)) as store:
        serve(partial(Publisher(settings, store, pipeline, target).service, every))


if __name__ == "__main__":
    ignore_signals()
    publish(Path(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4]), sys.argv[5])
