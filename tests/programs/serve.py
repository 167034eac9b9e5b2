"""Run ``auditor serve`` in a separate process."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auditor import config
from auditor.store import Store, open_store, tokens
from tests.servers.process import free_port

ROOT = Path(__file__).parents[2]
TIMEOUT = 60.0


@dataclass(frozen=True)
class Served:
    """A running service: its URL, its store, a token of scope run, its process id and its log file."""

    url: str
    store: Store
    token: str
    pid: int
    log: Path

    def readers(self, number: int) -> list[str]:
        """Create ``number`` tokens of scope read and return their secrets."""
        existing = len(tokens.list_tokens(self.store))
        return [tokens.create_token(self.store, name=f"reader {existing + one}", scope="read") for one in range(number)]

    def memory(self) -> int:
        """Return the resident memory of the process in bytes."""
        found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text())
        assert found
        return int(found.group(1)) * 1024


@contextmanager
def serve(folder: Path, configured: Mapping[str, Any]) -> Iterator[Served]:
    """Serve for the block with the configuration ``configured``. The output of the service is in ``serve.log`` in ``folder``."""
    settings = config.validate_settings(dict(configured))
    assert settings.store
    path, log, port = folder / "auditor.yaml", folder / "serve.log", free_port()
    path.write_text(json.dumps(configured))
    store = open_store(settings.store.url)
    token = tokens.create_token(store, name="who requests", scope="run")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "auditor", "serve", "--config", str(path), "--port", str(port)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # like a service manager: Linux divides CPU time between sessions first
        )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait(process, url, log)
        yield Served(url, store, token, process.pid, log)
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT) == 0, log.read_text()[-2000:]
    finally:
        process.kill()
        process.wait()
        store.close()


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    until = time.monotonic() + TIMEOUT
    while True:
        try:
            with urllib.request.urlopen(f"{url}/readyz", timeout=TIMEOUT):
                return
        except (urllib.error.URLError, OSError):
            assert process.poll() is None and time.monotonic() < until, log.read_text()[-2000:]
            time.sleep(0.1)
