"""A process that copies a table again, or finds and patches differences, and prints how long each part took as JSON.

python -m benchmarks.repair_process copy FILE AUDIT TIMES [spark] | python -m benchmarks.repair_process patch FILE AUDIT [slowly]
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet  # noqa: F401  # which the store loads when it first packs arrays

import auditor.service.stored_runs  # noqa: F401  # which a run loads in its end
import dialects
from auditor import config, service
from auditor.bootstrap import use_cases
from auditor.config import Settings
from auditor.points import followed
from auditor.repair.keys import Selection
from auditor.service import patches
from auditor.store import Store, open_store
from tests.servers import mysql

BETWEEN_LOOKS = 0.35
"""Seconds that a batch waits before it is looked at: InnoDB keeps what it shows of transactions for a moment."""


def copy(file: Path, settings: Settings, store: Store, audit: str, times: int, by_spark: bool) -> list[dict[str, Any]]:
    """Copy a table again so many times; return seconds of the copy alone and of the whole, and the verdict of the audit at the end."""
    results = []
    for _ in range(times):
        marks: dict[str, float] = {}
        spreading = use_cases.Spreading(file, is_asked=True) if by_spark else None
        began = time.monotonic()
        with followed("bootstrap", marker(marks)):
            result = use_cases.run_bootstrap(settings, store, audit, spreading=spreading)
        marks["end"] = time.monotonic()
        verdict = result.after.verdict.value if result.after else result.not_settled
        figures = {"copy": marks["verify"] - marks["made"], "compare": marks["swapping"] - marks["verify"], "whole": marks["end"] - began}
        results.append({**figures, "rows": result.rows, "verdict": verdict})
        use_cases.drop_left(settings, store, audit)
    return results


def patch(settings: Settings, store: Store, audit: str, slowly: bool) -> dict[str, Any]:
    """Find what differs and patch it; ``slowly`` looks before each commit how many rows are locked on both servers."""
    marks: dict[str, float] = {}
    locked = {"source": 0, "target": 0}

    def look(step: str) -> None:
        marker(marks)(step)
        if slowly and step == "written":
            time.sleep(BETWEEN_LOOKS)
            for side, most in locked.items():
                locked[side] = max(most, locked_rows(settings.connections[side].url))

    for connection in settings.connections.values():  # the program is loaded before the clock starts, as the other tool is
        dialects.by_scheme(dialects.parse_url(connection.url).scheme)
    began = time.monotonic()
    report = service.run_audit(settings, audit, store=store)
    ran = time.monotonic()
    with followed("patch", look):
        result = patches.apply_patch(settings, store, report.run, Selection(delete_extra=True))
    ended = time.monotonic()
    counts = dict(result.patched.counts)
    fixed = marks["noted"]
    return {"find": ran - began, "fix": fixed - ran, "again": ended - fixed, "counts": counts, "locked": locked}


def locked_rows(url: str) -> int:
    """Return how many rows the transaction of a server has locked that has most."""
    with mysql.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT COALESCE(MAX(trx_rows_locked), 0) FROM information_schema.INNODB_TRX")
        (row,) = cursor.fetchall()
        return int(row[0])


def marker(marks: dict[str, float]) -> Callable[[str], None]:
    """Return a follower of steps that notes when each was last begun; ``made`` if it was not is when the first range was."""

    def step(name: str) -> None:
        marks[name] = time.monotonic()
        if name == "range":
            marks.setdefault("made", marks[name])

    return step


def main(arguments: list[str]) -> None:
    """Do what the arguments say."""
    what, file, audit, *more = arguments
    settings = config.load(Path(file))
    assert settings.store
    store = open_store(settings.store.url)
    result: object
    if what == "copy":
        result = copy(Path(file), settings, store, audit, int(more[0]), "spark" in more)
    else:
        result = patch(settings, store, audit, "slowly" in more)
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1:])
