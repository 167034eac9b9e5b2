"""Part repair: from finding 1,000 differences to having repaired them, beside `pt-table-sync --execute`, MariaDB to MariaDB.

Each tool repairs the same damage: 800 rows changed, 100 missing, 100 extra. What is timed is from the beginning of the search, when the
program was loaded (of the other tool: without the seconds of its ``--version``), to the last commit. In a run before, which is not timed,
it is looked at how many rows each server has locked.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import struct
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks import process
from benchmarks.copies import THOUSAND
from benchmarks.repair_process import BETWEEN_LOOKS, locked_rows
from benchmarks.servers import Servers
from tests.servers import mysql
from tests.servers.process import Unavailable

OURS, OTHER = "auditor", "pt-table-sync --execute"
ROWS = 100_000
DIFFERENCES = 1_000
TABLES = {"repaired": "no floats", "repaired_doubles": "a DOUBLE"}
"""The tables, and what their rows have."""

COLUMNS = "id BIGINT PRIMARY KEY, customer INT NOT NULL, status VARCHAR(10), price DECIMAL(12,2), title VARCHAR(80), created DATETIME(6)"
VALUES = "r, r * 7 % 5000, ELT(1 + r % 3, 'new', 'paid', 'sent'), r * 13 % 100000 / 100, CONCAT('title of order ', r),"
VALUES += " TIMESTAMP'2024-01-01 00:00:00.000001' + INTERVAL r * 7 SECOND"
DOUBLE = {"repaired": ("", ""), "repaired_doubles": (", weight DOUBLE", ", r / 3e0")}

CONFIGURATION = """\
store: {{url: "sqlite:///{folder}/store.db"}}
connections:
  source: {{url: "{source}"}}
  target: {{url: "{target}", write: {{url: "{target}"}}}}
audits:
  {table}:
    source: {{connection: source, table: {table}}}
    target: {{connection: target, table: {table}}}
    key: [id]
    prescan: false  # as rows differ all over the table
"""


@dataclass
class Repaired:
    """How one tool repaired one table; ``why`` has the reason if it did not run."""

    tool: str
    table: str
    rows: int
    seconds: list[float] = field(default_factory=list)
    """From the beginning of the search to the last commit."""
    whole: list[float] = field(default_factory=list)
    """From the start of the process to the last commit."""
    parts: dict[str, float] = field(default_factory=dict)
    """Of the last run, seconds of what it did: ``find``, ``fix``."""
    locked: dict[str, int] = field(default_factory=dict)
    """Rows that one transaction had locked at most, by side."""
    wrong: int = 0
    """Rows of the target that are not as in the source afterwards."""
    load: float = 0.0
    why: str = ""


def measure(servers: Servers, rows: int, repeat: int) -> Iterator[list[Repaired]]:
    """Measure both tools, with and without a column of floats; yield what was measured of each table."""
    try:
        source, target = servers["mariadb"].url, servers["replica"].url
    except Unavailable as reason:
        yield [Repaired(OURS, table, rows, why=str(reason)) for table in TABLES]
        return
    for table in TABLES:
        ours, other = (Repaired(tool, table, rows, load=os.getloadavg()[0]) for tool in (OURS, OTHER))
        print(f"repair: {rows:,} rows of {table}", file=sys.stderr, flush=True)
        _fill(source, table, rows)
        with tempfile.TemporaryDirectory(prefix="repairing-") as folder:
            for turn in range(repeat + 1):
                is_timed = turn > 0
                for repair, work in ((ours, _repair), (other, _repair_by_other)):
                    if not repair.why:
                        _damage(source, target, table, rows)
                        work(repair, Path(folder), source, target, is_timed)
                        repair.wrong = _count_wrong(source, target, table)
        yield [ours, other]


def _repair(repair: Repaired, folder: Path, source: str, target: str, is_timed: bool) -> None:
    (folder / "auditor.yaml").write_text(CONFIGURATION.format(folder=folder, source=source, target=target, table=repair.table))
    command = [sys.executable, "-m", "benchmarks.repair_process", "patch", str(folder / "auditor.yaml"), repair.table]
    environment = {"PYTHONPATH": str(Path(__file__).parents[1]), "PYTHONDONTWRITEBYTECODE": ""}  # compiled once, as an installed one is
    ended = process.run([*command, *([] if is_timed else ["slowly"])], environment=environment)
    if ended.code:
        repair.why = ended.error_message
        return
    figures = json.loads(ended.out.splitlines()[-1])
    if is_timed:
        repair.seconds.append(figures["find"] + figures["fix"])
        repair.whole.append(ended.seconds - figures["again"])
        repair.parts = {"find": figures["find"], "fix": figures["fix"]}
    else:
        repair.locked = figures["locked"]


def _repair_by_other(repair: Repaired, folder: Path, source: str, target: str, is_timed: bool) -> None:
    if not shutil.which("pt-table-sync"):
        repair.why = "not installed; install it with: apt-get install percona-toolkit"
        return
    ends = [f"h=127.0.0.1,P={urlsplit(url).port},u=root,D=audit,t={repair.table}" for url in (source, target)]
    command = ["pt-table-sync", "--execute", "--no-check-slave", "--no-check-triggers", "--no-check-child-tables", *ends]
    if is_timed:
        begun = process.run(["pt-table-sync", "--version"])
        ended = process.run(command)
        repair.seconds.append(ended.seconds - begun.seconds)
        repair.whole.append(ended.seconds)
    else:
        with _looking(repair, {"source": source, "target": target}):
            ended = process.run(command)
    if ended.code not in (0, 2):  # 2: there were differences
        repair.why = ended.error_message


@contextmanager
def _looking(repair: Repaired, urls: dict[str, str]) -> Iterator[None]:
    """Look how many rows are locked during the block."""
    done = threading.Event()
    repair.locked = dict.fromkeys(urls, 0)

    def look() -> None:
        while not done.wait(BETWEEN_LOOKS):
            for side, url in urls.items():
                repair.locked[side] = max(repair.locked[side], locked_rows(url))

    thread = threading.Thread(target=look, name="looking", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _fill(url: str, table: str, rows: int) -> None:
    column, value = DOUBLE[table]
    with closing(mysql.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS {table}")
        cursor.execute(f"CREATE TABLE {table} ({COLUMNS}{column}) DEFAULT CHARSET utf8mb4")
        for block in range(-(-rows // 1000)):
            numbered = f"SELECT n + {1000 * block} AS r FROM ({THOUSAND}) thousand"
            cursor.execute(f"INSERT INTO {table} SELECT {VALUES}{value} FROM ({numbered}) numbered")
        cursor.execute(f"ANALYZE TABLE {table}")


def _damage(source: str, target: str, table: str, rows: int) -> None:
    """Make the target's table equal the source's but for 800 rows changed, 100 missing and 100 extra."""
    _fill(target, table, rows)
    hit = random.Random(5).sample(range(rows), DIFFERENCES * 9 // 10)
    changed, missing = hit[: DIFFERENCES * 8 // 10], hit[DIFFERENCES * 8 // 10 :]
    has_floats = DOUBLE[table][0]
    with closing(mysql.connect(target)) as connection, connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {table} WHERE id IN ({', '.join(map(str, missing))})")
        what = "weight = weight + 1" if has_floats else "title = 'damaged'"
        cursor.execute(f"UPDATE {table} SET {what} WHERE id IN ({', '.join(map(str, changed))})")
        numbered = f"SELECT n + {rows} AS r FROM ({THOUSAND}) thousand WHERE n < {DIFFERENCES // 10}"
        cursor.execute(f"INSERT INTO {table} SELECT {VALUES}{DOUBLE[table][1]} FROM ({numbered}) numbered")


def _count_wrong(source: str, target: str, table: str) -> int:
    """Return how many rows differ by their very bits, those on one side alone included."""
    sides = []
    for url in (source, target):
        with closing(mysql.connect(url)) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {table}")
            sides.append({row[0]: tuple(struct.pack("d", value) if isinstance(value, float) else value for value in row) for row in cursor})
    return sum(sides[0].get(key) != sides[1].get(key) for key in {*sides[0], *sides[1]})
