"""Part files: what runs cost that keep the sums of a lake table's files, as new files come, beside one that reads all of them.

A Delta table is compared with itself, so that each file is read once for both sides. The first run reads all files, each further one those
that came since; the last two follow a compaction of the newest files, and read the whole table without kept sums.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from deltalake import DeltaTable, Schema, write_deltalake
from deltalake.transaction import AddAction, RemoveAction

from auditor.config import Settings
from auditor.model import Verdict
from auditor.service import running
from auditor.store import Store, open_store

FILES = 1000
"""Files of the table when it begins."""

NEW = (0, 1, 10, 100)
"""New files before each run after the first."""

ROWS = """
SELECT i AS id, CAST(hash(i) % 100000 AS INTEGER) AS customer, CAST((hash(i + 1) % 1000000) / 100 AS DECIMAL(10, 2)) AS amount,
  TIMESTAMP '2026-01-01' + INTERVAL (i % 31536000) SECOND AS at, 'note ' || (hash(i + 2) % 1000000000) AS note
FROM range({first}, {end}) AS r(i)
"""
"""The rows of a file: five columns of 30 to 40 bytes together."""


@dataclass
class FilesCost:
    """What a run cost."""

    run: str
    """What came before it."""
    rows: int
    files: int
    read: int
    bytes: int
    """Of all files of the version, of one side."""
    read_bytes: int
    seconds: float
    cpu: float
    """CPU seconds of this process."""
    stored: int
    """Bytes of the store afterwards."""
    verdict: str

    @property
    def is_right(self) -> bool:
        """Whether it found that a table equals itself."""
        return self.verdict == Verdict.MATCH


def measure(rows: int, directory: Path) -> list[FilesCost]:
    """Return the cost of each run, in order; ``rows`` are those of the table when it begins."""
    root, store_file = directory / "lake", directory / "files.db"
    try:
        with closing(open_store(f"sqlite:///{store_file}")) as store:
            return [_told(cost) for cost in _measure(rows, root, store, store_file)]
    finally:
        shutil.rmtree(root, ignore_errors=True)
        store_file.unlink(missing_ok=True)


def _measure(rows: int, root: Path, store: Store, store_file: Path) -> Iterator[FilesCost]:
    each = max(1, rows // FILES)
    _append(root, 0, FILES, each)
    yield _run(root, store, store_file, "all files are new")
    count = FILES
    for new in NEW:
        _append(root, count, new, each)
        count += new
        yield _run(root, store, store_file, f"{new} new files" if new != 1 else "1 new file")
    _compact(root, f"id >= {(count - NEW[-1]) * each}")
    yield _run(root, store, store_file, f"{NEW[-1]} files became one")
    yield _run(root, None, store_file, "without kept sums")


def _append(root: Path, first: int, count: int, each: int) -> None:
    """Add so many files to the table, each of so many rows; make the table if there is none."""
    if not count:
        return
    folder = root / "events"
    folder.mkdir(parents=True, exist_ok=True)
    actions: list[AddAction | RemoveAction] = []
    with duckdb.connect() as connection:
        for number in range(first, first + count):
            path = folder / f"part-{number:06}.parquet"
            connection.execute(f"COPY ({ROWS.format(first=number * each, end=(number + 1) * each)}) TO '{path}' (COMPRESSION zstd)")
            stats = f'{{"numRecords": {each}}}'
            actions.append(AddAction(path.name, path.stat().st_size, {}, int(path.stat().st_mtime * 1000), True, stats))
        schema = Schema.from_arrow(connection.sql(ROWS.format(first=0, end=1)).to_arrow_table().schema)
    if not DeltaTable.is_deltatable(str(folder)):
        DeltaTable.create(str(folder), schema)
    DeltaTable(folder).create_write_transaction(actions, "append", schema)


def _compact(root: Path, which: str) -> None:
    """Write the rows of the newest files, which a condition selects, into one, in one commit."""
    folder = root / "events"
    listed = [str(path) for path in sorted(folder.glob("part-*.parquet"))][-NEW[-1] :]
    with duckdb.connect() as connection:
        rows = connection.sql(f"SELECT * FROM READ_PARQUET({listed!r}) ORDER BY id").to_arrow_reader(100_000)
        write_deltalake(folder, rows, mode="overwrite", predicate=which)


def _run(root: Path, store: Store | None, store_file: Path, what: str) -> FilesCost:
    sides: dict[str, Any] = {side: {"connection": "lake", "table": "events"} for side in ("source", "target")}
    audit = {**sides, "key": ["id"], **({"files": "kept"} if store else {})}
    settings = Settings.model_validate({"connections": {"lake": {"url": f"delta://{root}"}}, "audits": {"events": audit}})
    began, cpu = time.monotonic(), time.process_time()
    found = running.run_audit(settings, "events", store=store)
    seconds, spent = time.monotonic() - began, time.process_time() - cpu
    files = DeltaTable(root / "events").get_add_actions()
    sizes = files.column("size_bytes").to_pylist()
    of_both = list(found.files.values())
    return FilesCost(
        what,
        found.comparison.rows["source"] if found.comparison else 0,
        len(sizes),
        sum(read.read for read in of_both) if of_both else 2 * len(sizes),
        sum(sizes),
        sum(read.read_bytes for read in of_both) if of_both else 2 * sum(sizes),
        seconds,
        spent,
        store_file.stat().st_size,
        str(found.verdict),
    )


def _told(cost: FilesCost) -> FilesCost:
    print(f"files, {cost.run}: {cost.read:,} of {cost.files:,} files in {cost.seconds:.2f} s", file=sys.stderr, flush=True)
    return cost
