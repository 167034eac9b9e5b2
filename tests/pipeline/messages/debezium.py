"""The real Debezium, embedded in a process of its own, from the folder of jars that AUDITOR_TEST_DEBEZIUM names."""

from __future__ import annotations

import base64
import json
import os
import queue
import shutil
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

VARIABLE = "AUDITOR_TEST_DEBEZIUM"
PROGRAM = Path(__file__).parent / "DebeziumLines.java"

NEEDS = (
    pytest.mark.skipif(VARIABLE not in os.environ, reason=f"Debezium is not installed: name a folder of its jars in {VARIABLE}"),
    pytest.mark.skipif(shutil.which("java") is None, reason="there is no Java 17 here, which runs Debezium"),
)

SERVER_ID = 223_344
LOG_OPTIONS = ("--gtid-mode=ON", "--enforce-gtid-consistency=ON", f"--server-id={SERVER_ID}")


@dataclass(frozen=True)
class Message:
    topic: str
    key: Any
    value: Any
    headers: dict[str, Any]
    texts: tuple[str | None, str | None] = (None, None)
    """The key and the value as they are in a topic."""


class Debezium:
    """The connector, embedded in a process of its own."""

    def __init__(self, folder: Path, url: str, options: dict[str, str]) -> None:
        place = urlsplit(url)
        given = {
            "name": "engine", "connector.class": "io.debezium.connector.mysql.MySqlConnector", "topic.prefix": "shop",
            "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore", "database.hostname": "127.0.0.1",
            "database.port": str(place.port), "database.user": "root", "database.password": "", "database.server.id": "5555",
            "database.include.list": "audit", "schema.history.internal": "io.debezium.relational.history.MemorySchemaHistory",
            "snapshot.mode": "no_data", "snapshot.locking.mode": "none", "provide.transaction.metadata": "true",
            "database.ssl.mode": "disabled", "driver.allowPublicKeyRetrieval": "true",
        } | options  # fmt: skip
        settings = folder / "connector.properties"
        settings.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
        command = ["java", "-Xmx600m", "-XX:TieredStopAtLevel=1", "-cp", f"{os.environ[VARIABLE]}/*", str(PROGRAM), str(settings)]
        self._errors = folder / "errors.txt"
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True)
        self._lines: queue.Queue[str] = queue.Queue()
        self._follower = threading.Thread(target=self._follow, daemon=True)
        self._follower.start()
        self._wait_for("Connected to 127.0.0.1")

    def _follow(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self._lines.put(line)

    def _wait_for(self, words: str) -> None:
        deadline = time.monotonic() + 120
        while words not in self._errors.read_text():
            assert self._process.poll() is None and time.monotonic() < deadline, self._errors.read_text()[-2000:]
            time.sleep(0.2)

    def until(self, topic: str) -> list[Message]:
        """Return the messages up to the first one of a topic."""
        found = []
        while True:
            found.append(self._read(90))
            if found[-1].topic == topic:
                return found

    def _read(self, seconds: float) -> Message:
        kind, *parts = self._lines.get(timeout=seconds).split()
        assert kind == "message", (_text(parts[0]), self._errors.read_text()[-2000:])
        headers = dict(part.split("=", 1) for part in parts[3:])
        loaded = {name: _load(text) for name, text in headers.items()}
        return Message(parts[0], _load(parts[1]), _load(parts[2]), loaded, (_text(parts[1]), _text(parts[2])))

    def next_message(self, seconds: float) -> Message | None:
        """Return the next message; None if none comes in so many seconds."""
        try:
            return self._read(seconds)
        except queue.Empty:
            return None

    def stop(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(60)
        self._follower.join(10)
        self._process.stdout.close()


def _text(field: str) -> str | None:
    return None if field == "-" else base64.b64decode(field[1:]).decode()


def _load(field: str) -> Any:
    text = _text(field)
    return None if text is None else json.loads(text)
