"""A small application that works on a database: short transactions at a fixed pace, in a process of its own.

It is ``python -m benchmarks.oltp``, with `Work` as a JSON object on its input, and prints the seconds of each transaction when its input
is closed. They count from when a transaction was due, so that what waits for a slow one is not left out.
"""

from __future__ import annotations

import dataclasses
import json
import math
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.servers import mysql, postgres

READS, RANGE = 4, 20
"""Rows that a transaction reads one by one, and rows that it reads as a range, before it updates one."""

WRITTEN = "primary_written"
"""The table of which a transaction updates a row."""

WRITTEN_ROWS = 100_000


@dataclass(frozen=True)
class Work:
    """``clients`` sessions that begin ``rate`` transactions a second together; they read ``table``, which has ``rows`` rows."""

    engine: str
    url: str
    table: str
    rows: int
    clients: int
    rate: float


@dataclass
class Latencies:
    """Seconds of each transaction, and the messages of those that failed."""

    seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def percentile(self, share: float) -> float:
        """Return the seconds within which this share (0 to 1) of the transactions was done. Raises IndexError without any."""
        found = sorted(self.seconds)
        return found[min(len(found) - 1, math.ceil(share * len(found)) - 1)]


@contextmanager
def works(work: Work) -> Iterator[Latencies]:
    """Let the application work for the block. The yielded latencies are filled in at its end. Raises RuntimeError if it fails."""
    found = Latencies()
    command = [sys.executable, "-m", "benchmarks.oltp"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin and process.stdout
        process.stdin.write(json.dumps(dataclasses.asdict(work)) + "\n")
        process.stdin.flush()
        if process.stdout.readline() != "began\n":
            raise RuntimeError("the application did not begin; its errors are above")
        yield found
        said, _ = process.communicate()
        if process.returncode:
            raise RuntimeError("the application failed; its errors are above")
    values = json.loads(said)
    found.seconds, found.errors = values["seconds"], values["errors"]


def fill(engine: str, url: str) -> None:
    """Make the table that is written."""
    connection = _connect(engine, url)
    cursor = connection.cursor()
    cursor.execute(f"DROP TABLE IF EXISTS {WRITTEN}")
    cursor.execute(f"CREATE TABLE {WRITTEN} (id INT PRIMARY KEY, balance BIGINT NOT NULL, note VARCHAR(100) NOT NULL)")
    for start in range(0, WRITTEN_ROWS, 5_000):
        rows = ", ".join(f"({number}, 0, 'account {number}')" for number in range(start, start + 5_000))
        cursor.execute(f"INSERT INTO {WRITTEN} VALUES {rows}")
    connection.close()


def _connect(engine: str, url: str) -> Any:
    return postgres.connect(url) if engine == "postgres" else mysql.connect(url)


def main() -> None:
    """Work until the input is closed."""
    work = Work(**json.loads(sys.stdin.readline()))
    found, stopped = Latencies(), threading.Event()
    connections = [_connect(work.engine, work.url) for _ in range(work.clients)]
    begin = time.monotonic() + 0.1
    clients = [
        threading.Thread(target=_client, args=(work, number, connection, begin, stopped, found), daemon=True)
        for number, connection in enumerate(connections)
    ]
    for client in clients:
        client.start()
    print("began", flush=True)
    sys.stdin.read()
    stopped.set()
    for client in clients:
        client.join()
    print(json.dumps(dataclasses.asdict(found)))


def _client(work: Work, number: int, connection: Any, begin: float, stopped: threading.Event, found: Latencies) -> None:
    draw, interval, cursor = random.Random(number), work.clients / work.rate, connection.cursor()
    due = begin + interval * number / work.clients
    while not stopped.wait(max(0.0, due - time.monotonic())):
        try:
            for statement in _transaction(work, draw):
                cursor.execute(statement)
                if cursor.description:
                    cursor.fetchall()
        except Exception as error:  # of either driver
            found.errors.append(f"{type(error).__name__}: {error}")
            cursor.execute("ROLLBACK")
        found.seconds.append(time.monotonic() - due)
        due += interval


def _transaction(work: Work, draw: random.Random) -> Sequence[str]:
    first = draw.randrange(work.rows)
    return (
        "BEGIN",
        *(f"SELECT * FROM {work.table} WHERE id = {draw.randrange(work.rows)}" for _ in range(READS)),
        f"SELECT * FROM {work.table} WHERE id BETWEEN {first} AND {first + RANGE - 1}",
        f"UPDATE {WRITTEN} SET balance = balance + 1 WHERE id = {draw.randrange(WRITTEN_ROWS)}",
        "COMMIT",
    )


if __name__ == "__main__":
    main()
