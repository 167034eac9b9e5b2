"""Sessions that are open before they are asked for: opened early for a run, or left over by the audit before.

Servers answer logins while Python still loads the modules that a run needs later. A session that was opened early waits until a run asks
for one with the same URL and limits; those that nobody asks for are closed.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import dialects
from auditor.durations import durations
from auditor.errors import AuditorError, BadUrl

if TYPE_CHECKING:
    from auditor.config import ConnectionSettings, Settings
    from dialects import Session

_Key = tuple[str, float, float]
"""URL, statement timeout and lock timeout, both in seconds."""

_opening: dict[_Key, list[Future[Session]]] = defaultdict(list)
_lock = threading.Lock()


@contextmanager
def connecting(settings: Settings, audit: str) -> Iterator[None]:
    """Open the sessions of an audit's first statements in the background; those that are not taken are closed after the block.

    Nothing is opened for an audit that the settings do not hold, nor for one by way of a dump, nor where a connection limits statements
    or pauses: its throttle decides when to connect.
    """
    chosen = settings.audits.get(audit)
    names = [place.connection for place in chosen.places.values()] if chosen and not chosen.via else []
    wanted = [settings.connections[name] for name in names if name in settings.connections]
    for connection in wanted:
        if connection.limits.statements is None and connection.limits.pause_when is None:
            _begin(connection)
    try:
        yield
    finally:
        _close_all()


class KeptSessions:
    """Sessions of audits that follow one another: the next one on the same database needs no login, nor to open a file."""

    def __init__(self) -> None:
        self._free: dict[tuple[str, object], list[tuple[Session, float]]] = defaultdict(list)
        """By URL and limits, each with when it was used last (monotonic seconds)."""
        self._lock = threading.Lock()

    def take(self, settings: ConnectionSettings) -> Session | None:
        """Return a session with this URL and these limits; None if there is none that was used just now."""
        with self._lock:
            free = self._free[(settings.url, settings.limits)]
            session, used = free.pop() if free else (None, 0.0)
        if session and time.monotonic() - used > durations().kept_session:  # the server may have ended it
            session.close()
            return None
        return session

    def put(self, settings: ConnectionSettings, session: Session) -> None:
        """Keep a session, in which nothing runs and no snapshot is open, for the next who takes it."""
        with self._lock:
            self._free[(settings.url, settings.limits)].append((session, time.monotonic()))

    def close(self) -> None:
        """Close the sessions that nobody took."""
        for session, _ in (one for free in self._free.values() for one in free):
            session.close()
        self._free.clear()


_kept: list[KeptSessions] = []
"""The sessions of the runs of this process, while it keeps them; the last ones count."""


@contextmanager
def keeping() -> Iterator[None]:
    """Keep the sessions of runs in the block for the next run on the same server."""
    _kept.append(KeptSessions())
    try:
        yield
    finally:
        _kept.pop().close()


def kept_for(url: str) -> KeptSessions | None:
    """Return where sessions are kept now; not those that have a file open, which others may want to write between two runs."""
    return _kept[-1] if _kept and not opens_file(url) else None


def connect(url: str, statement_timeout: float, lock_timeout: float) -> Session:
    """Return a session that was opened early, or a new one. Raises what ``dialects.connect`` raises."""
    with _lock:
        prepared = _opening.get((url, statement_timeout, lock_timeout))
        session = prepared.pop(0) if prepared else None
    return session.result() if session else dialects.connect(url, statement_timeout, lock_timeout)


def opens_file(url: str) -> bool:
    """Return whether a URL's engine opens a file, and asks no server."""
    with suppress(BadUrl):  # then connecting fails, too
        return dialects.by_scheme(dialects.parse_url(url).scheme).OPENS_FILES
    return False


def _begin(connection: ConnectionSettings) -> None:
    key = (connection.url, connection.limits.statement_timeout, connection.limits.lock_timeout)
    opened: Future[Session] = Future()

    def work() -> None:
        try:
            opened.set_result(dialects.connect(*key))
        except BaseException as error:  # raised where the session is asked for
            opened.set_exception(error)

    with _lock:
        _opening[key].append(opened)
    threading.Thread(target=work, name="open session early", daemon=True).start()


def _close_all() -> None:
    """Close the sessions that nobody took, each when its login has ended. Waits for those that only open a file, not for servers."""
    with _lock:
        left = [(url, opened) for (url, *_), sessions in _opening.items() for opened in sessions]
        _opening.clear()
    for url, opened in left:
        if opens_file(url):
            wait([opened])
        opened.add_done_callback(_close)


def _close(opened: Future[Session]) -> None:
    with suppress(AuditorError):  # of a login that failed, and that nobody asked for
        opened.result().close()
