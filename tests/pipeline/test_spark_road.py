"""The whole road on Spark: a stream is staged, and loaded into both targets, by executors where the target allows it."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from auditor import config
from auditor.cli import main
from auditor.connections.writer import open_writer
from auditor.errors import LeaseTaken
from auditor.pipeline.run import Run
from auditor.store import Store, open_store, parts, pipelines, segments
from tests.live import Engines
from tests.pipeline.event_source import EventFiles
from tests.pipeline.running import Running
from tests.pipeline_events import announce, batch, delete, insert, table, update

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

PIPELINE = "shop"
ORDERS = table(id="bigint", item="varchar(40) null", secret="varchar(40) null", mail="varchar(40) null")


class Stream:
    """A pipeline over files of events, into PostgreSQL and DuckDB."""

    def __init__(self, folder: Path, postgres: str) -> None:
        self.folder, self.root, self.files = folder, folder / "staging", 0
        (folder / "events").mkdir()
        self.path = folder / "auditor.yaml"
        duckdb = f"duckdb:///{folder}/warehouse.duckdb"
        self.path.write_text(
            f"""\
connections:
  source: {{url: "mysql://nobody:s3cret@localhost/shop"}}
  pg: {{url: "{postgres}", write: {{url: "{postgres}"}}}}
  duck: {{url: "{duckdb}", write: {{url: "{duckdb}"}}}}
audits: {{}}
keep: {{parts: 0s}}
pipelines:
  {PIPELINE}:
    source: {{connection: source, tables: [orders]}}
    columns: {{orders: {{exclude: [secret], mask: [mail], rename: {{item: thing}}}}}}
    staging: {{path: "{self.root}"}}
    segment: {{rows: 1}}
    targets:
      pg: {{connection: pg, schema: spark_road, every: 0s}}
      duck: {{connection: duck, schema: spark_road, every: 0s}}
"""
        )
        self.settings = config.load(self.path)
        assert self.settings.store
        self.store: Store = open_store(self.settings.store.url)

    def put(self, events: pa.RecordBatch) -> None:
        """Let the stream have one more batch."""
        self.files += 1
        unfinished = self.folder / "events" / f"{self.files:06d}.new"
        pq.write_table(pa.Table.from_batches([events]), unfinished)
        unfinished.rename(unfinished.with_suffix(".parquet"))

    def run(self, **more: Any) -> Run:
        """A run of it."""
        return Run(self.settings, self.path, self.store, PIPELINE, ["pg", "duck"], events=EventFiles, **more)

    def rows(self, connection: str) -> list[tuple[Any, ...]]:
        """What a target has."""
        with open_writer(connection, self.settings.connections[connection]) as session:
            return session.query("SELECT id, thing FROM spark_road.orders ORDER BY 1")

    def segmented(self) -> tuple[int, int] | None:
        """Where the last segment ends."""
        return segments.last_places(self.store, PIPELINE).get("shop.orders")

    def positions(self) -> dict[str, int]:
        """Where the targets said that they stand."""
        merges = pipelines.list_merges(self.store, PIPELINE)
        return {target: found["shop.orders"].position for target, found in merges.items() if "shop.orders" in found}


@pytest.fixture
def stream(engines: Engines, tmp_path: Path) -> Iterator[Stream]:
    engines.live("spark")
    made = Stream(tmp_path, engines.live("postgres").url)
    yield made
    made.store.close()
    with open_writer("pg", made.settings.connections["pg"]) as session:
        session.execute("DROP SCHEMA IF EXISTS spark_road CASCADE")


def order(number: int, item: str) -> list[str | None]:
    return [str(number), item, "hush", "me@home"]


def test_a_stream_reaches_both_targets_and_goes_on_after_it_was_stopped(stream: Stream) -> None:
    stream.put(batch(announce(ORDERS, 1), insert(ORDERS, 10, *(order(n, "pen") for n in range(50)))))
    stream.root.mkdir()
    orphan = stream.root / "batches" / "0000000000000000005.1.arrows"
    orphan.parent.mkdir(mode=0o700)
    orphan.write_bytes(b"of a batch that was never listed")
    with Running(stream.run()) as running:
        running.until(lambda: stream.positions() == {"pg": 10, "duck": 10})
        stream.put(
            batch(announce(ORDERS, 11), update(ORDERS, 20, (order(1, "pen"), order(99, "ink"))), delete(ORDERS, 21, order(2, "pen")))
        )
        running.until(lambda: stream.positions() == {"pg": 21, "duck": 21})
        with pytest.raises(LeaseTaken, match=r"it is taken by process \d+ on"):
            stream.run().run()
    assert running.error is None and not orphan.exists()
    wanted = [(n, "pen") for n in range(50) if n not in (1, 2)] + [(99, "ink")]
    assert stream.rows("pg") == stream.rows("duck") == wanted
    _holds_no_secret(stream)

    def firsts() -> list[int]:
        """The parts that are kept, by their first positions."""
        return [part.first for part in parts.list_parts(stream.store, PIPELINE, "shop.orders", 0)]

    (stream.root / "planned.json").unlink()  # the last batch in the store says where to go on
    stream.put(batch(announce(ORDERS, 22), insert(ORDERS, 30, order(2, "cap"))))
    with Running(stream.run()) as running:
        running.until(lambda: stream.positions() == {"pg": 30, "duck": 30} and stream.segmented() == (30, 0) and 20 not in firsts())
    assert running.error is None
    assert stream.rows("pg") == stream.rows("duck") == sorted([*wanted, (2, "cap")])
    assert len(segments.list_segments(stream.store, PIPELINE, "shop.orders")) == 50 + 1 + 1 + 1
    assert main(["pipeline", "segments", PIPELINE, "--verify", "--config", str(stream.path)]) == 0
    assert firsts() in ([30], [])


def _holds_no_secret(stream: Stream) -> None:
    """Nothing below the staging's folder tells an excluded column, a masked value, or a password; others may not read the parts."""
    files = [path for path in stream.root.rglob("*") if path.is_file()]
    assert files
    for path in files:
        text = path.read_bytes()
        if path.suffix == ".arrows":
            text = json.dumps(pa.ipc.open_stream(path).read_all().to_pylist(), default=str).encode()
            assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert not any(secret in text for secret in (b"hush", b"me@home", b"s3cret")), path
