"""Part alarm: the time from damage to a row of the target until the message about it.

The service audits a table every minute and tells a channel. At random moments a row is damaged, and put right once that was told; the
channel then has to hear of the recovery.
"""

from __future__ import annotations

import http.server
import json
import queue
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import data, process
from benchmarks.servers import Servers
from tests.servers.process import Unavailable, free_port

SOURCE, TARGET = "mysql", "postgres"
DAMAGES = 10
"""Of one repetition."""

MINUTE = 60.0
PATIENCE = 300.0
"""Seconds after which a message counts as lost."""


@dataclass
class Alarm:
    """Seconds from each damage, and from each repair, to the message about it; ``why`` if nothing was measured."""

    rows: int
    damaged: list[float] = field(default_factory=list)
    recovered: list[float] = field(default_factory=list)
    why: str = ""


def measure(servers: Servers, rows: int, repeat: int, directory: Path) -> Alarm:
    """Damage rows of a table that the service audits every minute."""
    found = Alarm(rows)
    try:
        urls = {engine: servers[engine].url for engine in (SOURCE, TARGET)}
    except Unavailable as reason:
        found.why = str(reason)
        return found
    shape = data.damages(rows)[0].shape
    path = data.make_file(directory, shape, rows)
    for engine, url in urls.items():
        data.load(engine, url, shape, path)
    draw = random.Random(11)
    with tempfile.TemporaryDirectory(dir=directory, prefix="alarm-") as folder, _channel() as (port, heard):
        _write_config(Path(folder), urls, shape.table, port)
        with _service(Path(folder)):
            for _ in range(DAMAGES * repeat):
                damage = data.Damage("one row", shape, changed=(draw.randint(1, rows),))
                for seconds, undo, title in ((found.damaged, False, "MISMATCH"), (found.recovered, True, "MATCH")):
                    time.sleep(draw.uniform(0, MINUTE))
                    began = time.monotonic()
                    data.apply_damage(TARGET, urls[TARGET], damage, undo=undo)
                    seconds.append(_wait_for(heard, title) - began)
                print(
                    f"  damage told after {found.damaged[-1]:.1f} s, repair after {found.recovered[-1]:.1f} s", file=sys.stderr, flush=True
                )
    for engine, url in urls.items():
        data.drop(engine, url, shape)
    return found


def _write_config(folder: Path, urls: Mapping[str, str], table: str, port: int) -> None:
    text = json.dumps({
        "store": {"url": "sqlite:///auditor.db"},
        "connections": {side: {"url": urls[engine]} for side, engine in (("source", SOURCE), ("target", TARGET))},
        "audits": {
            "orders": {
                **{side: {"connection": side, "table": table} for side in ("source", "target")},
                "schedule": "* * * * *",
            }
        },
        "notify": {"channels": {"ops": {"url": f"json://127.0.0.1:{port}/"}}},
    })  # fmt: skip
    (folder / "auditor.yaml").write_text(text, encoding="utf-8")


@contextmanager
def _channel() -> Iterator[tuple[int, queue.Queue[tuple[float, str]]]]:
    """Listen to messages for the block: the port, and a queue of when each came and its title."""
    heard: queue.Queue[tuple[float, str]] = queue.Queue()

    class Listener(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            heard.put((time.monotonic(), message["title"]))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Listener) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1], heard
        server.shutdown()


@contextmanager
def _service(folder: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "auditor", "serve", "--port", str(free_port())]
    environment = {**process.inherited_environment(), "PYTHONPATH": str(Path(__file__).parents[1])}
    with (folder / "service.log").open("wb") as log:
        running = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        yield
        if running.poll() is not None:
            raise RuntimeError(f"the service ended:\n{(folder / 'service.log').read_text(errors='replace')[-2000:]}")
    finally:
        running.terminate()
        running.wait(PATIENCE)


def _wait_for(heard: queue.Queue[tuple[float, str]], title: str) -> float:
    """Return when the next message came, which has to be of this verdict. Raises RuntimeError."""
    try:
        at, told = heard.get(timeout=PATIENCE)
    except queue.Empty:
        raise RuntimeError(f"no message came within {PATIENCE:.0f} s; {title} was due") from None
    if f": {title}" not in told:
        raise RuntimeError(f"{title} was due, and this came: {told}")
    return at
