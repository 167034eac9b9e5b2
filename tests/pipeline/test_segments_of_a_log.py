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
from auditor.errors import StoreError
from auditor.model import Segment
from auditor.pipeline.segments.verifying import check_segment
from auditor.pipeline.segments.writer import folder_of
from auditor.store import Store, open_store, pipelines, segments
from tests.binlog import LiveLog
from tests.live import LiveEngine, engine_params

pytestmark = pytest.mark.alone  # each of them ends where the log ends

ROOT = Path(__file__).parents[2]
TRANSACTIONS, KILLS = 3_300, 20
"""The transactions make a million events; each writer is killed so often."""


@pytest.mark.slow  # tests/pipeline/test_segments.py proves the same of staged events in every run
@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True)
def test_writers_of_a_log_agree(engine: LiveEngine, tmp_path: Path) -> None:
    log = LiveLog(engine.url)
    _make_tables(log)
    start = log.end()
    chance = random.Random(4)
    _write(log, chance)
    configs = {name: _configure(tmp_path, name, log.url, form) for name, form in (("large", ""), ("small", "csv"))}
    assert _run(configs["large"], "large", str(start), 1 << 20, 1 << 21, chance) == KILLS
    assert _run(configs["small"], "small", str(start), 60_000, 400_000, chance) == KILLS
    found = {}
    for name, path in configs.items():
        settings = config.load(path)
        with closing(_store_of(path)) as store:
            found[name] = _segments(store, name)
            assert not any(check_segment(folder_of(settings.pipeline(name)), one) for one in found[name])
    plain = {name: [_identity(one) for one in some] for name, some in found.items()}
    assert plain["large"] == plain["small"]
    assert len(plain["large"]) > 300 and len({one.schema_id for one in found["large"] if one.table.endswith("orders")}) == 2
    events = sum(one.rows for one in found["large"])
    print(f"\n{engine.name}: {events:,} events in {len(plain['large']):,} segments of each writer, cut alike")
    assert events > 950_000


def _make_tables(log: LiveLog) -> None:
    for table in ("orders", "notes"):
        log.run(f"DROP TABLE IF EXISTS {table}", f"CREATE TABLE {table} (id int AUTO_INCREMENT PRIMARY KEY, t varchar(300), d datetime(6))")


def _write(log: LiveLog, chance: random.Random) -> None:
    """Commit large and tiny transactions over some seconds, with a change of a table in between."""
    for number in range(TRANSACTIONS):
        if number == TRANSACTIONS // 2:
            log.run("ALTER TABLE orders ADD COLUMN more int NULL")
        rows = ", ".join(f"('{chance.choice(['|', 'é', 'x' * 200, ''])}', NOW(6))" for _ in range(chance.choice([1, 3, 900])))
        table = chance.choice(["orders", "orders", "notes"])
        log.run("BEGIN", f"INSERT INTO {table} (t, d) VALUES {rows}", f"UPDATE {table} SET t = 'u' ORDER BY id DESC LIMIT 3", "COMMIT")
        time.sleep(0.002)


def _configure(folder: Path, name: str, url: str, form: str) -> Path:
    path = folder / name / "auditor.yaml"
    path.parent.mkdir()
    kept = f", path: '{path.parent}/archive', format: {form}" if form else ""
    path.write_text(
        f"connections:\n  shop: {{url: '{url}'}}\n  duck: {{url: 'duckdb:///x.duckdb', write: {{url: 'duckdb:///x.duckdb'}}}}\n"
        f"audits: {{}}\npipelines:\n  {name}:\n    source: {{connection: shop, tables: [orders, notes]}}\n"
        f"    staging: {{path: '{path.parent}/staging'}}\n    segment: {{rows: 2500, bytes: 300KB, age: 2s{kept}}}\n"
        "    targets: {duck: {connection: duck, schema: main}}\n"
    )
    return path


def _run(path: Path, name: str, start: str, range_bytes: int, batch_bytes: int, chance: random.Random) -> int:
    """Run a writer to the end of the log; kill it at random moments after its batches, and return how often it was killed."""
    command = [sys.executable, "-m", "tests.pipeline.segmenting", str(path), name, start, str(range_bytes), str(batch_bytes)]
    killed = 0
    with closing(_store_of(path)) as store:
        for _ in range(KILLS):
            process = subprocess.Popen(command, cwd=ROOT)
            _await_batches(process, store, name, chance.choice((1, 2)))
            time.sleep(chance.uniform(0, 0.3))
            process.kill()
            killed += process.wait() != 0
    subprocess.run(command, cwd=ROOT, check=True)
    return killed


def _store_of(path: Path) -> Store:
    settings = config.load(path)
    assert settings.store
    return open_store(settings.store.url)


def _await_batches(process: subprocess.Popen[bytes], store: Store, name: str, batches: int) -> None:
    """Wait until a writer has staged so many batches, or has ended."""
    seen = _offset(store, name)
    while batches and process.poll() is None:
        time.sleep(0.02)
        if (now := _offset(store, name)) != seen:
            seen, batches = now, batches - 1


def _offset(store: Store, name: str) -> object:
    try:
        return pipelines.get_pipeline(store, name).source_offset
    except StoreError:
        return None


def _identity(one: Segment) -> tuple[object, ...]:
    """What two writers agree on."""
    return one.table, one.gtid, one.last_row, one.rows, one.bytes, one.schema_id, one.sha256


def _segments(store: Store, name: str) -> list[Segment]:
    return [one for table in sorted(segments.last_places(store, name)) for one in segments.list_segments(store, name, table)]
