"""Background work of a process: services, each a thread that does the same work again and again, work side by side, and waits.

Whatever waits does so in short steps, so that Python runs the handlers of signals meanwhile.
"""

from __future__ import annotations

import contextvars
import logging
import math
import threading
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Self, TypeVar

from auditor.durations import durations
from auditor.errors import AuditorError

log = logging.getLogger(__name__)

NEVER = math.inf
"""What the work of a service returns instead of seconds to wait, if it is done for good."""


@dataclass(slots=True)
class Backoff:
    """Seconds to wait after each failure: ``first`` at the first, then twice those before, and never more than ``longest``."""

    first: float
    longest: float
    failures: int = field(default=0, init=False)
    """How many there were since the last success."""
    _wait: float = field(default=0.0, init=False)

    def fail(self) -> float:
        """Count a failure, and return the seconds to wait before the next attempt."""
        self._wait = min(self.longest, 2 * self._wait) if self.failures else self.first
        self.failures += 1
        return self._wait

    def succeed(self) -> None:
        """Begin again with the first wait."""
        self.failures = 0


class Service:
    """Does the same work again and again, in a thread of its own, until it is stopped.

    An error does not end it: it is logged, once as long as the next attempts fail with the same text, and the work is tried again.

    Set ``on_bug`` where a service that makes no progress would go unnoticed: an error outside the tree of errors then ends the service, and
    ``on_bug`` is called with it.
    """

    on_bug: Callable[[Exception], None] | None = None

    def __init__(
        self,
        name: str,
        run_once: Callable[[], float | None],
        every: float = 0.0,
        *,
        failure: str | Callable[[Exception], str] = "",
        action: str = "service_failed",
        fields: Mapping[str, Any] | None = None,
        waits_first: bool = False,
        backoff: Backoff | None = None,
        at_end: Callable[[], None] = lambda: None,
        stopping: threading.Event | None = None,
    ) -> None:
        """``run_once`` returns the seconds to wait until it is called again, None for ``every``, and NEVER if it is done.

        ``failure`` says in the log what an error means, beside its ``action`` and ``fields``. After an error the service waits
        as long as ``backoff`` says, or else ``every`` seconds. ``at_end`` is called in its thread after the last work. ``stopping`` is set
        to stop it, and may be that of several services.
        """
        self.name = name
        self.last_error: Exception | None = None
        """The error of the last attempt; None if it succeeded."""
        self._run_once, self._every, self._waits_first, self._backoff, self._at_end = run_once, every, waits_first, backoff, at_end
        self._failure, self._extra = failure or f"{name} failed", {"action": action, **(fields or {})}
        self._stopping = stopping or threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, also again once the last one has ended."""
        self._thread = threading.Thread(target=self.run, name=self.name, daemon=True)
        self._thread.start()

    def run(self) -> None:
        """Do the work in this thread until the service is stopped, or its work is done."""
        wait = self._every if self._waits_first else 0.0
        try:
            while wait < NEVER and not self._stopping.wait(wait):
                wait = self._attempt()
        finally:
            self._at_end()

    def alive(self) -> bool:
        """Return whether the thread is running."""
        return self._thread is not None and self._thread.is_alive()

    def ask_to_stop(self) -> None:
        """Let the service end after the work under way, and do not wait for it."""
        self._stopping.set()

    def join(self, limit: float | None = None) -> bool:
        """Wait for the end of the thread, ``limit`` seconds at most; return whether it has ended."""
        if self._thread:
            self._thread.join(limit)
        return not self.alive()

    def stop(self, limit: float | None = None) -> bool:
        """Let the service end after the work under way, wait ``limit`` seconds at most, and return whether it has ended."""
        self.ask_to_stop()
        has_ended = self.join(limit)
        if not has_ended:
            log.warning("%s did not end within %g s", self.name, limit, extra={"action": "not_ended"})
        return has_ended

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _attempt(self) -> float:
        """Do the work once, and return the seconds to wait."""
        try:
            wait = self._run_once()
        except Exception as error:  # whatever it is: the service must not end in silence
            if self.on_bug and not isinstance(error, AuditorError):
                self.on_bug(error)
                return NEVER
            wait = self._backoff.fail() if self._backoff else self._every
            self._report(error, wait)
            self.last_error = error
            return wait
        if self._backoff:
            self._backoff.succeed()
        self.last_error = None
        return self._every if wait is None else wait

    def _report(self, error: Exception, wait: float) -> None:
        """Log an error, unless the last attempt failed with the same."""
        before = self.last_error
        if type(error) is type(before) and str(error) == str(before):
            return
        failure, extra = self._failure if isinstance(self._failure, str) else self._failure(error), {**self._extra, "again_in": wait}
        if isinstance(error, AuditorError):
            log.warning("%s: %s", failure, error, extra=extra)
        else:
            log.error("%s: an unexpected %s", failure, type(error).__name__, exc_info=error, extra=extra)


T = TypeVar("T")


def wait_for_first_failure(futures: Collection[Future[T]]) -> tuple[set[Future[T]], set[Future[T]]]:
    """Wait until all have ended or one has failed, and return those that have ended and those that have not.

    Python runs a signal's handler between two steps of the main thread. A wait without a limit is one step: a signal that arrives just
    before it, or that another thread receives, would be handled only when the wait ends, perhaps after hours.
    https://docs.python.org/3/library/signal.html#execution-of-python-signal-handlers
    """
    while True:
        ended, running = wait(futures, durations().signal_poll, return_when=FIRST_EXCEPTION)
        if not running or any(future.exception() for future in ended):
            return ended, running


class Interruption:
    """Asks the work that is under way to stop, and all that begins later. Any thread may ask, and as often as it likes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_asked = False
        self._stops: list[Callable[[], None]] = []

    def ask(self) -> None:
        """Let everything stop."""
        with self._lock:
            self._is_asked = True
            stops = tuple(self._stops)
        for stop in stops:
            stop()

    @contextmanager
    def calling(self, stop: Callable[[], None]) -> Iterator[None]:
        """Call ``stop`` whenever somebody asks during the block, and at once if somebody did before."""
        with self._lock:
            self._stops.append(stop)
            is_asked = self._is_asked
        try:
            if is_asked:
                stop()
            yield
        finally:
            with self._lock:
                self._stops.remove(stop)


def side_by_side(works: Iterable[Callable[[], T]], at_once: int, stopped: threading.Event, interruption: Interruption) -> Generator[T]:
    """Yield what each work returns as it ends, ``at_once`` of them running at most, each in a thread.

    Once ``stopped`` is set none begins, and those under way are asked to stop until they have ended: what they return is yielded. A work
    that raises an error stops the others likewise, and the error is raised when all have ended. No signal interrupts a work.
    """
    left, running, failure = iter(works), set[Future[T]](), list[BaseException]()
    with ThreadPoolExecutor(at_once, thread_name_prefix="work") as threads:
        try:
            while True:
                if not stopped.is_set() and not failure:
                    for work in islice(left, at_once - len(running)):
                        running.add(threads.submit(contextvars.copy_context().run, work))
                if not running:
                    break
                ended, running = wait(running, durations().signal_poll, return_when=FIRST_COMPLETED)
                for future in ended:
                    if error := future.exception():
                        failure.append(error)
                    else:
                        yield future.result()
                if stopped.is_set() or failure:
                    interruption.ask()
        except BaseException:  # raised by the caller between two results, or by a second signal
            interruption.ask()
            raise
    if failure:
        raise failure[0]
