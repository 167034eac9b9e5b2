"""Connections that send nothing, or not enough: the service answers others meanwhile, and logs little."""

from __future__ import annotations

import logging
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2
import pytest
import uvicorn
from fastapi import FastAPI, Request

from auditor.api import connections, middleware
from tests.api.conftest import make_settings
from tests.durations import SetDurations
from tests.programs.serve import serve
from tests.servers.process import free_port

TIMEOUT = 20.0


def small_app() -> FastAPI:
    """Return an application that answers at once."""
    app = FastAPI()
    app.add_middleware(middleware.BodySizeMiddleware, max_bytes=1000)

    @app.get("/")
    def get() -> str:
        return "here"

    @app.post("/")
    async def post(request: Request) -> int:
        return len(await request.body())

    return app


@contextmanager
def served(limits: connections.Limits) -> Iterator[int]:
    """Serve within these limits, and yield the port."""
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(small_app(), port=port, http=limits.protocol(), ws="none", log_config=None))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield port
    finally:
        server.should_exit = True
        thread.join()


def half_open(stack: ExitStack, port: int, sent: bytes = b"GET / HT") -> socket.socket:
    one = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT))
    one.sendall(sent)
    return one


def ends(one: socket.socket, within: float) -> bool:
    """Return whether the service closes a connection within so many seconds."""
    one.settimeout(within)
    try:
        while one.recv(4096):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


def test_head_of_a_request_has_a_deadline(set_durations: SetDurations) -> None:
    set_durations(request_head=0.5)
    with served(connections.Limits(100)) as port, ExitStack() as stack:
        silent, partial = half_open(stack, port, b""), half_open(stack, port)
        reused = half_open(stack, port, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert reused.recv(4096).startswith(b"HTTP/1.1 200")
        reused.sendall(b"GET / HTTP/1.1\r\n")
        assert all(ends(one, TIMEOUT) for one in (silent, partial, reused))


def test_body_of_a_request_has_a_deadline(set_durations: SetDurations) -> None:
    set_durations(request_body=1.0)
    with served(connections.Limits(100)) as port, ExitStack() as stack:
        slow = half_open(stack, port, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc")
        assert slow.recv(4096).startswith(b"HTTP/1.1 408")
        assert httpx2.post(f"http://127.0.0.1:{port}/", content=b"abc").json() == 3


def test_those_who_wait_make_room_for_those_who_send() -> None:
    for limits in (connections.Limits(5), connections.Limits(100, total=5), connections.Limits(1, ["127.0.0.0/8"], total=5)):
        with served(limits) as port, ExitStack() as stack:
            waiting = [half_open(stack, port) for _ in range(12)]
            assert httpx2.get(f"http://127.0.0.1:{port}/", timeout=TIMEOUT).json() == "here"
            assert ends(waiting[0], TIMEOUT), "the oldest made room"
            assert not ends(waiting[-1], 0.2)


def test_answered_connections_keep_their_place(caplog: pytest.LogCaptureFixture) -> None:
    with served(connections.Limits(3)) as port, ExitStack() as stack:
        busy = [half_open(stack, port, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc") for _ in range(3)]
        time.sleep(0.2)
        assert all(ends(half_open(stack, port), TIMEOUT) for _ in range(4)), "refused, as none of the three waits for a head"
        for one in busy:
            one.sendall(b"defghi")
            assert one.recv(4096).startswith(b"HTTP/1.1 200")
    assert sum("a limit of connections was reached" in one.message for one in caplog.records) == 1, "logged once a minute"


def test_lack_of_files_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    log, once = logging.getLogger("asyncio"), connections.OncePerMinute()
    log.addFilter(once)
    try:
        for _ in range(1000):
            log.error("socket.accept() out of system resource\nsocket: 7")
            log.error("another error")
    finally:
        log.removeFilter(once)
    assert sum("out of system" in one.message for one in caplog.records) == 1
    assert sum("another" in one.message for one in caplog.records) == 1000


@pytest.mark.slow
def test_service_answers_beside_more_connections_than_it_may_open_files(tmp_path: Path) -> None:
    settings = make_settings(tmp_path)
    configured = {**settings.model_dump(mode="json", by_alias=True, exclude_unset=True), "audits": {}}
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    with ExitStack() as stack:
        try:
            found = stack.enter_context(serve(tmp_path, configured))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        port = int(found.url.rpartition(":")[2])
        for _ in range(400):
            half_open(stack, port)
        for _ in range(5):
            assert httpx2.get(f"{found.url}/healthz", timeout=TIMEOUT).status_code == 200
        assert found.log.stat().st_size < 100_000
