"""Writers of one server's log cut it alike, with other formats, batches and tasks, and killed again and again."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from auditor import config
from auditor.model import Segment
from auditor.pipeline.segments.writer import check_segment, folder_of
from auditor.store import Store, open_store, segments
from tests.binlog import LiveLog
from tests.live import LiveEngine, engine_params

pytestmark = pytest.mark.alone  # each of them ends where the log ends

ROOT = Path(__file__).parents[2]
KILLS = 20


@pytest.mark.slow  # tests/pipeline/test_segments.py proves the same of staged events in every run
@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True)
def test_writers_of_a_log_agree(engine: LiveEngine, tmp_path: Path) -> None:
    log = LiveLog(engine.url)
    _make_tables(log)
    start = log.end()
    chance = random.Random(4)
    _write(log, chance, 400)
    configs = {name: _configure(tmp_path, name, log.url, form) for name, form in (("calm", "parquet"), ("troubled", "csv"))}
    _run(configs["calm"], "calm", str(start), 1 << 20, 1 << 24, kills=0, chance=chance)
    assert _run(configs["troubled"], "troubled", str(start), 60_000, 400_000, kills=KILLS, chance=chance) == KILLS
    found = {}
    for name, path in configs.items():
        settings = config.load(path)
        assert settings.store
        with closing(open_store(settings.store.url)) as store:
            found[name] = _segments(store, name)
            assert not any(check_segment(folder_of(settings.pipeline(name)), one) for one in found[name])
    plain = {name: [_identity(one) for one in some] for name, some in found.items()}
    assert plain["calm"] == plain["troubled"]
    assert len(plain["calm"]) > 30 and len({one.schema_id for one in found["calm"] if one.table.endswith("orders")}) == 2


def _make_tables(log: LiveLog) -> None:
    for table in ("orders", "notes"):
        log.run(f"DROP TABLE IF EXISTS {table}", f"CREATE TABLE {table} (id int AUTO_INCREMENT PRIMARY KEY, t varchar(300), d datetime(6))")


def _write(log: LiveLog, chance: random.Random, transactions: int) -> None:
    """Commit large and tiny transactions over some seconds, with a change of a table in between."""
    for number in range(transactions):
        if number == transactions // 2:
            log.run("ALTER TABLE orders ADD COLUMN more int NULL")
        rows = ", ".join(f"('{chance.choice(['|', 'é', 'x' * 200, ''])}', NOW(6))" for _ in range(chance.choice([1, 3, 900])))
        table = chance.choice(["orders", "orders", "notes"])
        log.run("BEGIN", f"INSERT INTO {table} (t, d) VALUES {rows}", f"UPDATE {table} SET t = 'u' ORDER BY id DESC LIMIT 3", "COMMIT")
        time.sleep(0.01)


def _configure(folder: Path, name: str, url: str, form: str) -> Path:
    path = folder / name / "auditor.yaml"
    path.parent.mkdir()
    path.write_text(
        f"connections:\n  shop: {{url: '{url}'}}\n  duck: {{url: 'duckdb:///x.duckdb', write: {{url: 'duckdb:///x.duckdb'}}}}\n"
        f"audits: {{}}\npipelines:\n  {name}:\n    source: {{connection: shop, tables: [orders, notes]}}\n"
        f"    staging: {{path: '{path.parent}/staging'}}\n    segment: {{rows: 2500, bytes: 300KB, age: 2s, format: {form}}}\n"
        "    targets: {duck: {connection: duck, schema: main}}\n"
    )
    return path


def _run(path: Path, name: str, start: str, range_bytes: int, batch_bytes: int, kills: int, chance: random.Random) -> int:
    """Run a writer to the end of the log; kill it at random moments, and return how often it was killed."""
    command = [sys.executable, "-m", "tests.pipeline.segmenting", str(path), name, start, str(range_bytes), str(batch_bytes)]
    killed = 0
    while True:
        process = subprocess.Popen(command, cwd=ROOT)
        try:
            code = process.wait(timeout=2 + 4 * chance.random() if killed < kills else 600)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            killed += 1
            continue
        assert code == 0
        return killed


def _identity(one: Segment) -> tuple[object, ...]:
    """What two writers agree on."""
    return one.table, one.gtid, one.last_row, one.rows, one.bytes, one.schema_id, one.sha256


def _segments(store: Store, name: str) -> list[Segment]:
    return [one for table in sorted(segments.last_places(store, name)) for one in segments.list_segments(store, name, table)]
