"""Clients that read from a service, in a separate process.

It is ``python -m tests.programs.readers``, with `Reading` as a JSON object on its input.

Each client has its own token and connection. Its requests alternate between the list of audits and what a person would open next:
an audit, its history, a run, its differences.
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

ROOT = Path(__file__).parents[2]
LIST = "/api/v1/audits"
FIRST = "/api/v1/runs?state=done&limit=1"
TIMEOUT = 60.0


@dataclass(frozen=True)
class Reading:
    """What to read: one client per token. Each sends a request ``pause`` seconds after the last, but not before it has the response."""

    url: str
    tokens: Sequence[str]
    audits: Sequence[str]
    pause: float = 0.0


@dataclass
class Answers:
    """Seconds to the complete response, of the list (``listed``) and of other requests; and the messages of failed requests."""

    listed: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def percentile(self, share: float) -> float:
        """Return the seconds within which this share (0 to 1) of the lists was received; NaN without any."""
        found = sorted(self.listed) or [float("nan")]
        return found[min(len(found) - 1, math.ceil(share * len(found)) - 1)]


@contextmanager
def reads(reading: Reading) -> Iterator[Answers]:
    """Run the clients for the block. The yielded answers are filled in at its end."""
    found = Answers()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.programs.readers"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(json.dumps(dataclasses.asdict(reading)) + "\n")
        process.stdin.flush()
        process.stdout.readline()  # the clients have started
        yield found
        out, error_output = process.communicate(timeout=TIMEOUT)  # closes the input, which stops the clients
        assert process.returncode == 0, error_output
        parsed = Answers(**json.loads(out))
        found.listed, found.others, found.errors = parsed.listed, parsed.others, parsed.errors
    finally:
        process.kill()
        process.communicate()


class _Client:
    """A minimal HTTP client, because one that uses more CPU time would distort the measurement."""

    def __init__(self, url: str, token: str) -> None:
        self._address = urlsplit(url)
        self._token = token
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def get(self, path: str) -> bytes:
        """Return the body of a response with status 200. Raises OSError, asyncio's errors, and ValueError for other responses."""
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


async def _run_client(reading: Reading, number: int, run: str, found: Answers, stopping: asyncio.Event) -> None:
    client, chance = _Client(reading.url, reading.tokens[number]), random.Random(number)
    other_paths = cycle(_other_paths(reading.audits, chance, run))
    next_request = time.monotonic() + chance.uniform(0, reading.pause)  # clients start at different times, like people
    for path in cycle(("list", "other")):
        await asyncio.sleep(max(0.0, next_request - time.monotonic()))
        if stopping.is_set():
            break
        started = time.monotonic()
        next_request = started + reading.pause
        wanted = LIST if path == "list" else next(other_paths)
        try:
            async with asyncio.timeout(TIMEOUT):
                await client.get(wanted)
        except (OSError, EOFError, ValueError, KeyError, TimeoutError) as error:
            found.errors.append(f"{wanted}: {type(error).__name__}: {error}")
            next_request = max(next_request, started + 0.1)
        else:
            (found.listed if path == "list" else found.others).append(time.monotonic() - started)
    client.close()


def _other_paths(audits: Sequence[str], chance: random.Random, run: str) -> list[str]:
    name = chance.choice(audits)
    return [f"{LIST}/{name}", f"{LIST}/{name}/runs?limit=20", f"/api/v1/runs/{run}", f"/api/v1/runs/{run}/differences"]


async def _main() -> None:
    reading = Reading(**json.loads(sys.stdin.readline()))
    found, stopping = Answers(), asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, stopping.set)  # readable at its end, because nothing more is written to it
    probe = _Client(reading.url, reading.tokens[0])
    run = json.loads(await probe.get(FIRST))["items"][0]["run"]
    probe.close()
    print("ready", flush=True)
    await asyncio.gather(*(_run_client(reading, number, run, found, stopping) for number in range(len(reading.tokens))))
    print(json.dumps(dataclasses.asdict(found)))


if __name__ == "__main__":
    asyncio.run(_main())
