"""A service with many small audits and one large one, and processes that execute its runs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

from auditor.store import Store, run_lifecycle
from tests.programs.workers import Serving

AUDITS = 24
SMALL_CHUNKS = {"auditor.planning.chunks.CHUNK_ROWS": 200, "auditor.planning.chunks.COLUMN_CHUNK_ROWS": 200}
QUICK_CHUNK = 1e-4
CHUNKED = {**SMALL_CHUNKS, "durations.chunk_aim": QUICK_CHUNK, "durations.requeue": 0.5}
"""Settings under which the big table is read in a hundred chunks a side."""

Serve = Callable[..., Serving]


def write_settings(folder: Path, store: str) -> Path:
    """Write a configuration file with audits of two DuckDB files, and create these; return its path."""
    with duckdb.connect(str(folder / "a.duckdb")) as source, duckdb.connect(str(folder / "b.duckdb")) as target:
        for connection in (source, target):
            connection.execute("CREATE TABLE t AS SELECT i AS id, 'v' || i AS v FROM range(100) r(i)")
            connection.execute("CREATE TABLE big AS SELECT i AS id, 'v' || i AS v FROM range(20000) r(i)")
        target.execute("DELETE FROM t WHERE id = 7")
        target.execute("DELETE FROM big WHERE id = 7")

    def audit(table: str, **more: Any) -> dict[str, Any]:
        return {"source": {"connection": "a", "table": table}, "target": {"connection": "b", "table": table}, "key": ["id"], **more}

    value = {
        "connections": {side: {"url": f"duckdb:///{folder}/{side}.duckdb"} for side in "ab"},
        "store": {"url": store},
        "service": {"queue": 1000},
        "audits": {
            **{f"a{number}": audit("t") for number in range(AUDITS)},
            "big": audit("big", snapshot="per_chunk", method="signature", partition={"rows": 200}),
            "berlin": audit("t", schedule={"cron": "30 2 * * *", "timezone": "Europe/Berlin"}),
            "york": audit("t", schedule={"cron": "30 1 * * *", "timezone": "America/New_York"}),
        },
    }
    path = folder / "auditor.yaml"
    path.write_text(json.dumps(value))
    return path


def finished_chunks(store: Store, run: str) -> list[tuple[str, int | None]]:
    """Return the side and first partition of each chunk that is stored."""
    return [(one.side, one.first) for one in run_lifecycle.list_chunks(store, run)]


def wait_until(condition: Callable[[], Any], message: str, seconds: float = 60.0) -> None:
    """Wait until the condition holds, and fail with the message after so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, message
        time.sleep(0.1)
