"""Clients that read from a service, all in one process of their own: ``python -m tests.readers`` with `Reading` as JSON on its input.

Each client has a token and a connection of its own. It asks for the list of audits every other time, and for what a person
would look at next in between: an audit, its history, a run, its differences.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import math
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[1]
LIST = "/api/v1/audits"
FIRST = "/api/v1/runs?state=done&limit=1"
TIMEOUT = 60.0


@dataclass(frozen=True)
class Reading:
    """Who reads: a client for each token. It asks again ``pause`` seconds after it asked last, or as soon as it has the answer."""

    url: str
    tokens: Sequence[str]
    audits: Sequence[str]
    pause: float = 0.0


@dataclass
class Answers:
    """Seconds until each answer was there whole, of the list and of everything else; ``errors`` are the answers that were none."""

    listed: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def percentile(self, share: float) -> float:
        """The seconds within which this share of the lists came."""
        found = sorted(self.listed) or [float("nan")]
        return found[min(len(found) - 1, math.ceil(share * len(found)) - 1)]


@contextmanager
def reads(reading: Reading) -> Iterator[Answers]:
    """Let the clients read for the block; at its end the answers are there."""
    found = Answers()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.readers"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(json.dumps(dataclasses.asdict(reading)) + "\n")
        process.stdin.flush()
        process.stdout.readline()  # they begin
        yield found
        out, said = process.communicate(timeout=TIMEOUT)  # which closes their input
        assert process.returncode == 0, said
        told = Answers(**json.loads(out))
        found.listed, found.others, found.errors = told.listed, told.others, told.errors
    finally:
        process.kill()
        process.communicate()


class _Client:
    """HTTP in its barest form: a client that took much of the processor would be what is measured."""

    def __init__(self, url: str, token: str) -> None:
        self._address = urlsplit(url)
        self._token = token
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def get(self, path: str) -> bytes:
        """The body of an answer with status 200. Raises OSError, asyncio's errors and ValueError."""
        host, port = self._address.hostname or "", self._address.port
        if self._streams is None:
            self._streams = await asyncio.open_connection(host, port)
        reader, writer = self._streams
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {self._token}\r\n\r\n".encode())
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
            body = await reader.readexactly(int(fields["content-length"]))
        except BaseException:
            self.close()
            raise
        if not head.startswith("http/1.1 200 "):
            raise ValueError(f"{head.splitlines()[0]}: {body[:300]!r}")
        return body

    def close(self) -> None:
        if self._streams:
            self._streams[1].close()
            self._streams = None


async def _reads(reading: Reading, number: int, run: str, found: Answers, ended: asyncio.Event) -> None:
    client, draw = _Client(reading.url, reading.tokens[number]), random.Random(number)
    others = cycle(_others(reading.audits, draw, run))
    due = time.monotonic() + draw.uniform(0, reading.pause)  # as people do, they do not all begin at once
    for path in cycle(("list", "other")):
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        if ended.is_set():
            break
        began = time.monotonic()
        due = began + reading.pause
        wanted = LIST if path == "list" else next(others)
        try:
            async with asyncio.timeout(TIMEOUT):
                await client.get(wanted)
        except (OSError, EOFError, ValueError, KeyError, TimeoutError) as error:
            found.errors.append(f"{wanted}: {type(error).__name__}: {error}")
            due = max(due, began + 0.1)
        else:
            (found.listed if path == "list" else found.others).append(time.monotonic() - began)
    client.close()


def _others(audits: Sequence[str], draw: random.Random, run: str) -> list[str]:
    name = draw.choice(audits)
    return [f"{LIST}/{name}", f"{LIST}/{name}/runs?limit=20", f"/api/v1/runs/{run}", f"/api/v1/runs/{run}/differences"]


async def _main() -> None:
    reading = Reading(**json.loads(sys.stdin.readline()))
    found, ended = Answers(), asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, ended.set)  # which is closed, for nothing more is written there
    first = _Client(reading.url, reading.tokens[0])
    run = json.loads(await first.get(FIRST))["items"][0]["run"]
    first.close()
    print("ready", flush=True)
    await asyncio.gather(*(_reads(reading, number, run, found, ended) for number in range(len(reading.tokens))))
    print(json.dumps(dataclasses.asdict(found)))


if __name__ == "__main__":
    asyncio.run(_main())
