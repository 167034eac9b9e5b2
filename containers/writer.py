"""Take and change orders in the source of docker-compose.yml, about ten rows a second, until the process is terminated.

It begins once the pipeline reads the source's log: rows of before would not be in the targets, as nothing copies them.
"""

from __future__ import annotations

import signal
import sys
import threading

from auditor.config import Settings, find_file, load
from auditor.demo.shop import Writer
from auditor.errors import AuditorError
from auditor.store import open_store, pipelines

PIPELINE = "shop"

SIZES, PAUSE = (1, 1, 2, 5, 20), 1.0
"""Orders that one transaction takes, and seconds between two."""

KEPT = 100_000
"""Orders that stay: an installation that runs for weeks does not fill its disk."""


def has_begun(settings: Settings) -> bool:
    """Return whether the pipeline knows where in the source's log it begins."""
    assert settings.store
    store = open_store(settings.store.url)
    try:
        return pipelines.get_pipeline(store, PIPELINE).source_offset is not None
    finally:
        store.close()


def main() -> int:
    """Write until SIGTERM; an error ends the process, and Docker starts it again."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    settings = load(find_file(None))
    try:
        while not has_begun(settings):
            if stop.wait(1.0):
                return 0
        print("writer: the pipeline has begun; orders are taken", file=sys.stderr)
        Writer(settings.connections["shop"].url, SIZES, KEPT).run(stop, PAUSE)
    except AuditorError as error:
        print(f"writer: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
