"""The threads of a world: the load, the stream that stages, and the loader that merges and is started again after a crash."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from auditor.errors import AuditorError, PartDamaged
from auditor.pipeline.merge.load_tasks import close_sessions
from auditor.pipeline.merge.loader import Loader
from tests.faults.world import LOOK, Crashed, World
from tests.pipeline.road import leased


@contextmanager
def running(world: World) -> Iterator[None]:
    """Write, stage and merge in threads for the block."""
    stopped = threading.Event()
    threads = [world.load, *(threading.Thread(target=_guarded(world, work, stopped)) for work in (_stage, _load))]
    with leased(world.store):
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stopped.set()
            world.load.stop()
            for thread in threads:
                thread.join()
    assert not world.failures, world.failures


def _guarded(world: World, work: Callable[[World, threading.Event], None], stopped: threading.Event) -> Callable[[], None]:
    def run() -> None:
        try:
            work(world, stopped)
        except BaseException as error:
            world.failures.append(error)
            raise

    return run


def _stage(world: World, stopped: threading.Event) -> None:
    while not stopped.wait(LOOK):
        try:
            if not world.halted.is_set():
                world.stage()
        except PartDamaged as error:  # the process that cuts segments tries again, and the loader has the part staged again
            world.note(f"segments wait: {error}")
        except AuditorError as error:  # the real pipeline stops here, and is started again
            world.report(f"staging stopped: {error}")


def _load(world: World, stopped: threading.Event) -> None:
    while not stopped.is_set():
        try:
            world.loader.service(0.0, stopped, threading.Event(), threading.Event()).run()
        except Crashed:  # and a supervisor starts it again
            close_sessions()
            world.loader = Loader(world.loader.where, "wh", world.settings.connections["warehouse"])
