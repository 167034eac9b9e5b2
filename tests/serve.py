"""``auditor serve`` in a process of its own, as somebody would run it."""

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
from tests.servers._process import free_port

ROOT = Path(__file__).parents[1]
PATIENCE = 60.0


@dataclass(frozen=True)
class Served:
    """The service: where it answers, its store, and a token that may request runs."""

    url: str
    store: Store
    token: str
    pid: int
    log: Path

    def readers(self, number: int) -> list[str]:
        """Tokens for so many who read."""
        made = len(tokens.listed(self.store))
        return [tokens.create(self.store, name=f"reader {made + one}", scope="read") for one in range(number)]

    def memory(self) -> int:
        """Bytes of it that are resident."""
        found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text())
        assert found
        return int(found.group(1)) * 1024


@contextmanager
def serve(folder: Path, configured: Mapping[str, Any]) -> Iterator[Served]:
    """Serve in the block. What the service says is in ``serve.log`` of the folder."""
    settings = config.checked(dict(configured))
    assert settings.store
    path, log, port = folder / "auditor.yaml", folder / "serve.log", free_port()
    path.write_text(json.dumps(configured))
    store = open_store(settings.store.url)
    token = tokens.create(store, name="who requests", scope="run")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "auditor", "serve", "--config", str(path), "--port", str(port)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # as a service manager would: Linux shares the processor among sessions first
        )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait(process, url, log)
        yield Served(url, store, token, process.pid, log)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0, log.read_text()[-2000:]
    finally:
        process.kill()
        process.wait()
        store.close()


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    until = time.monotonic() + PATIENCE
    while True:
        try:
            with urllib.request.urlopen(f"{url}/readyz", timeout=PATIENCE):
                return
        except (urllib.error.URLError, OSError):
            assert process.poll() is None and time.monotonic() < until, log.read_text()[-2000:]
            time.sleep(0.1)
