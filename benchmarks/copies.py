"""Part repair: how fast a table is copied again, by the direct road and by Spark, beside `mysqldump --tab` and COPY.

All roads take turns in one call, into tables with a primary key that are empty before the first. What is timed is the copy: from the first
row that is read to the last that is loaded. A bootstrap then compares it with the source's snapshot, exchanges the rows, and audits them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import boto3

from benchmarks import process
from benchmarks.servers import Servers
from tests.servers import mysql, postgres, redshift, s3
from tests.servers.process import Unavailable

DIRECT, SPARK, DUMP = "direct", "Spark, warm", "mysqldump --tab, COPY"
COLD = "Spark, first copy"
OURS = (DIRECT, COLD, SPARK)
TARGETS = ("postgres", "redshift")
BUCKET = "copies"
ROLE = "arn:aws:iam::123456789012:role/copy"

SOURCE = """CREATE TABLE copied (id BIGINT PRIMARY KEY, customer INT NOT NULL, status VARCHAR(10) NOT NULL, price DECIMAL(12,2),
 quantity SMALLINT, title VARCHAR(80) CHARACTER SET utf8mb4, note VARCHAR(200) CHARACTER SET utf8mb4,
 created DATETIME(6), day DATE, weight DOUBLE)"""
TARGET = """CREATE TABLE copied (id BIGINT PRIMARY KEY, customer INT NOT NULL, status VARCHAR(10) NOT NULL, price DECIMAL(12,2),
 quantity SMALLINT, title VARCHAR(320), note VARCHAR(800), created TIMESTAMP, day DATE, weight DOUBLE PRECISION)"""
DIGITS = "(SELECT 0 d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6"
DIGITS += " UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)"
THOUSAND = f"SELECT a.d + 10 * b.d + 100 * c.d AS n FROM {DIGITS} a, {DIGITS} b, {DIGITS} c"
FILL = f"""INSERT INTO copied SELECT r, r * 7 % 5000, ELT(1 + r % 3, 'new', 'paid', 'sent'), r * 13 % 100000 / 100, r % 50,
 CONCAT('title of order ', r),
 IF(r % 11 = 0, NULL, CONCAT('a note that is somewhat longer, with a tab\t and a back\\\\slash, of order ', r)),
 TIMESTAMP'2024-01-01 00:00:00.000001' + INTERVAL r * 7 SECOND, DATE'2020-01-01' + INTERVAL r % 3000 DAY, r * 0.37e0 / 3
 FROM (SELECT n + 1000 * {{block}} AS r FROM ({THOUSAND}) thousand) numbered"""

CONFIGURATION = """\
store: {{url: "sqlite:///{folder}/store.db"}}
connections:
  source: {{url: "{source}"}}
  target: {{url: "{target}", write: {{url: "{written}", spark: {{path: "{folder}"}}}}}}
audits:
  copied: {{source: {{connection: source, table: copied}}, target: {{connection: target, table: copied}}, key: [id]}}
"""


@dataclass
class Copy:
    """One road into one target; ``why`` has the reason if it did not run. ``memory`` is the peak of the resident bytes of our processes,
    or of mysqldump and this process."""

    target: str
    road: str
    rows: int
    seconds: list[float] = field(default_factory=list)
    compare: list[float] = field(default_factory=list)
    """Seconds in which the copy was compared with the source's snapshot."""
    whole: list[float] = field(default_factory=list)
    """Seconds of the whole bootstrap, with its comparison, exchange and last audit."""
    memory: int = 0
    load: float = 0.0
    verdict: str = ""
    why: str = ""


def measure(servers: Servers, rows: int, repeat: int, sizes: Sequence[int]) -> Iterator[list[Copy]]:
    """Measure the roads with as many rows as each of the sizes: all targets with ``rows``, else the memory into the first of them.

    Yields what was found of each target.
    """
    try:
        source = servers["mysql"].url
    except Unavailable as reason:
        yield [Copy(target, DIRECT, rows, why=str(reason)) for target in TARGETS]
        return
    for size in sizes:
        fill_source(source, size)
        for target in TARGETS if size == rows else TARGETS[:1]:
            print(f"repair: {size:,} rows into {target}", file=sys.stderr, flush=True)
            try:
                yield _measure_target(servers, source, target, size, repeat if size == rows else 1)
            except Unavailable as reason:
                yield [Copy(target, DIRECT, size, why=str(reason))]


def fill_source(source: str, rows: int) -> None:
    """Make the table that is copied."""
    with closing(mysql.connect(source)) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS copied")
        cursor.execute(SOURCE)
        for block in range(-(-rows // 1000)):
            cursor.execute(FILL.format(block=block))
        cursor.execute("ANALYZE TABLE copied")


def _measure_target(servers: Servers, source: str, target: str, rows: int, repeat: int) -> list[Copy]:
    roads = {name: Copy(target, name, rows, load=os.getloadavg()[0]) for name in (DIRECT, COLD, SPARK)}
    server = servers[target]
    if target == "postgres":
        roads[DUMP] = Copy(target, DUMP, rows, load=os.getloadavg()[0])
    with tempfile.TemporaryDirectory(prefix="copies-", dir=servers.directory) as name:
        folder = Path(name)
        folder.chmod(0o777)  # the server writes its dump there
        _make_target(target, server.url)
        if target == "redshift":
            _measure_stand_in(servers, server, source, folder, roads, repeat)
        else:
            _write_configuration(folder, source, server.url, server.url)
            for turn in range(repeat):
                _dump(roads[DUMP], source, server.url, folder)
                _bootstrap(roads, folder, turn, {})
        _make_target(target, server.url)
    return list(roads.values())


def _measure_stand_in(servers: Servers, server: Any, source: str, folder: Path, roads: dict[str, Copy], repeat: int) -> None:
    bucket = s3.start(servers.directory)
    environment = {"AWS_ENDPOINT_URL": bucket.url, "AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench"}
    try:
        keys = {"aws_access_key_id": "bench", "aws_secret_access_key": "bench"}
        boto3.client("s3", endpoint_url=bucket.url, region_name="us-east-1", **keys).create_bucket(Bucket=BUCKET)
        through = f"&unload_to={quote(f's3://{BUCKET}/auditor', safe='')}&unload_role={quote(ROLE, safe='')}&region=us-east-1"
        _write_configuration(folder, source, server.url, server.url + through)
        with server.unloading_to(bucket.url):
            for turn in range(repeat):
                _bootstrap(roads, folder, turn, environment)
    finally:
        bucket.stop()


def _write_configuration(folder: Path, source: str, target: str, written: str) -> None:
    (folder / "auditor.yaml").write_text(CONFIGURATION.format(folder=folder, source=source, target=target, written=written))


def _bootstrap(roads: dict[str, Copy], folder: Path, turn: int, environment: dict[str, str]) -> None:
    """Copy by the direct road, and by Spark twice: what is read first starts Spark."""
    for first, options in ((DIRECT, ["1"]), (COLD, ["2", "spark"])):
        command = [sys.executable, "-m", "benchmarks.repair_process", "copy", str(folder / "auditor.yaml"), "copied", *options]
        ended = process.run(command, environment={**environment, "PYTHONPATH": str(Path(__file__).parents[1])}, timeout=7200)
        print(f"repair: {first}, turn {turn + 1}: {ended.seconds:.1f} s", file=sys.stderr, flush=True)
        if ended.code:
            roads[first].why = ended.error_message
            print(ended.err[-3000:], file=sys.stderr)
            continue
        for road, figures in zip((roads[first], roads[SPARK]), json.loads(ended.out.splitlines()[-1]), strict=False):
            road.seconds.append(figures["copy"])
            road.compare.append(figures["compare"])
            road.whole.append(figures["whole"])
            road.memory = max(road.memory, ended.memory)
            road.verdict = figures["verdict"]


def _dump(road: Copy, source: str, target: str, folder: Path) -> None:
    """Let the server write the rows into a file, and load that."""
    program = shutil.which("mysqldump")
    if program is None:
        road.why = "mysqldump is not installed"
        return
    parts = urlsplit(source)
    login = [f"--host={parts.hostname}", f"--port={parts.port}", f"--user={parts.username}", "--protocol=tcp"]
    command = [program, "--no-defaults", *login, "--single-transaction", "--skip-lock-tables", "--no-create-info", f"--tab={folder}"]
    command += ["--default-character-set=utf8mb4", "audit", "copied"]
    with closing(postgres.connect(target)) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS dumped")
        cursor.execute("CREATE TABLE dumped (LIKE copied INCLUDING ALL)")
        began = time.monotonic()
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            road.why = (ended.stderr.strip().splitlines() or ["mysqldump failed"])[-1]
            return
        with (folder / "copied.txt").open("rb") as file:
            cursor.copy_expert("COPY dumped FROM STDIN", file, size=1 << 18)
        road.seconds.append(time.monotonic() - began)
        cursor.execute("SELECT COUNT(*) FROM dumped")
        (count,) = cursor.fetchone() or (0,)
        road.verdict = f"{count:,} rows" if count == road.rows else f"WRONG: {count:,} rows"
        cursor.execute("DROP TABLE dumped")
    (folder / "copied.txt").unlink()


def _make_target(target: str, url: str) -> None:
    module: Any = redshift if target == "redshift" else postgres
    with closing(module.connect(url)) as connection:
        cursor = connection.cursor()
        cursor.execute("DROP TABLE IF EXISTS copied")
        cursor.execute(TARGET)
