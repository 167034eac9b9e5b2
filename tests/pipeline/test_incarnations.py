"""Store, last plan, parts and target of a pipeline, of which one or two were restored or lost: no row is lost without a word."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxBytes

import dialects
from auditor import config
from auditor.config import Settings
from auditor.connections.writer import open_writer
from auditor.errors import AuditorError, ConfigError, IncarnationsDiffer
from auditor.pipeline.batch_driver import FORMAT, PLANNED, read_plan
from auditor.pipeline.folders import LocalFolder
from auditor.pipeline.incarnation import check_staging
from auditor.pipeline.merge.loader import Loader
from auditor.pipeline.merge.positions import Where
from auditor.pipeline.part_deletion import PartDeleter
from auditor.pipeline.run import Run
from auditor.pipeline.source import EVENT_TYPE, MySQLBinlog
from auditor.pipeline.stage_task import TableRules, read_entries, stage_task
from auditor.pipeline.staged_parts import sweep
from auditor.service import pipelines as service
from auditor.store import open_store, parts, pipelines
from tests.binlog import LiveLog
from tests.live import Engines, LiveEngine, engine_params
from tests.pipeline.road import pass_time

pytestmark = pytest.mark.engines_in_turn

PIPELINE = "shop"
PIECES = ("store", "plan", "parts", "target")
FATES = [(one, fate) for one in PIECES for fate in ("restored", "lost")]
CASES = [(one,) for one in FATES] + [pair for pair in itertools.combinations(FATES, 2) if pair[0][0] != pair[1][0]]
on_both = pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", "mariadb_new", slow=["mariadb_new"]), indirect=True)


class Life:
    """A pipeline's process from its start on: it does what a run does, in this process and without Spark."""

    def __init__(self, folder: Path, target: str, schema: str) -> None:
        self.folder, self.root, self.schema = folder, folder / "staging", schema
        self.settings: Settings = config.load(folder / "auditor.yaml")
        assert self.settings.store
        self.store = open_store(self.settings.store.url)
        self.pipeline, self.target = self.settings.pipeline(PIPELINE), target
        about = (str(folder / "auditor.yaml"), "warehouse", schema, str(self.root))
        where = Where(self.store, PIPELINE, *about, run_here, "wh", self.pipeline.table_targets["wh"])
        self.loader = Loader(where, "wh", self.settings.connections["warehouse"])
        self.run = Run(self.settings, folder / "auditor.yaml", self.store, PIPELINE, ["wh"])

    def start(self) -> None:
        """Do what a run does before it stages."""
        LocalFolder(self.root).make()
        check_staging(self.store, PIPELINE, LocalFolder(self.root), read_plan(LocalFolder(self.root)).get("start"))
        self.run.check_targets()
        sweep(LocalFolder(self.root), parts.list_paths(self.store, PIPELINE))
        self.offset = self.run.start_offset()

    def stage(self) -> None:
        """Stage what the log has by now, as one batch."""
        source = self.pipeline.source
        options = {"config": str(self.folder / "auditor.yaml"), "connection": "source", "tables": ",".join(source.tables)}
        reader: Any = MySQLBinlog({**options, "notes": "true", "start": json.dumps(self.offset)}).streamReader(EVENT_TYPE)
        reader.prepareForTriggerAvailableNow()
        end = reader.latestOffset(self.offset, ReadMaxBytes(64 << 20))
        LocalFolder(self.root).put(PLANNED, json.dumps({"format": FORMAT, "start": self.offset, "end": end}).encode())
        rules = TableRules(self.pipeline, b"salt")
        batches = (stage_task(str(self.root), rules, reader.read(part)) for part in reader.partitions(self.offset, end))
        found, notes = read_entries([entry for batch in itertools.chain(*batches) for entry in batch.to_pylist()])
        schemas = {one.part.schema_id: json.loads(one.schema_json) for one in found if one.schema_json}
        parts.record_batch(self.store, PIPELINE, [one.part for one in found if one.part.rows], schemas, end, notes)
        self.offset = end
        reader.stop()

    def merge(self) -> None:
        pass_time(self.loader)
        self.loader.merge_all()

    def reasons(self) -> list[str]:
        return [one.reason for one in pipelines.list_merges(self.store, PIPELINE).get("wh", {}).values() if one.reason]

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        with open_writer("warehouse", self.settings.connections["warehouse"]) as session:
            return session.query(f"SELECT id, name FROM {self.schema}.{table} ORDER BY id")

    def close(self) -> None:
        self.loader.close()
        self.store.close()


def run_here(function: Any, tasks: Any) -> list[Any]:
    return [function(task) for task in tasks]


def lay_out(folder: Path, engine: LiveEngine, target: str, schema: str) -> LiveLog:
    source = LiveLog(engine.url)
    text = f"""\
connections:
  source: {{url: "{engine.url}"}}
  warehouse: {{url: "{target}", write: {{url: "{target}"}}}}
audits: {{}}
store: {{url: "sqlite:///{folder}/auditor.db"}}
pipelines:
  {PIPELINE}:
    source: {{connection: source, tables: ["life_a", "life_b"]}}
    staging: {{path: "{folder}/staging"}}
    targets: {{wh: {{connection: warehouse, schema: {schema}, every: 0s}}}}
"""
    (folder / "auditor.yaml").write_text(text)
    for table in ("life_a", "life_b"):
        source.run(f"DROP TABLE IF EXISTS {table}", f"CREATE TABLE {table} (id INT PRIMARY KEY, name VARCHAR(20))")
    return source


_keys = itertools.count(1)


def change(source: LiveLog, *names: str) -> None:
    for name in names:
        key = next(_keys)
        source.run(f"INSERT INTO {name} VALUES ({key}, 'row {key}')", f"UPDATE {name} SET name = 'changed' WHERE id = {key - 4}")


@pytest.fixture
def duckdb_life(engine: LiveEngine, tmp_path: Path) -> Iterator[tuple[LiveLog, Path]]:
    """A folder with the source's log and, below ``then`` and ``now``, the pieces of a pipeline at two times."""
    now = tmp_path / "live"
    now.mkdir()
    source = lay_out(now, engine, f"duckdb:///{now}/warehouse.duckdb", "shop")
    life = Life(now, "", "shop")
    life.start()
    change(source, "life_a", "life_b")
    life.stage()
    life.merge()
    life.close()
    shutil.copytree(now, tmp_path / "then")
    life = Life(now, "", "shop")
    life.start()
    change(source, "life_a", "life_b", "life_a")
    life.stage()
    life.merge()
    PartDeleter(life.store, PIPELINE, LocalFolder(life.root)).prune(life.pipeline, 0)
    change(source, "life_b")
    life.stage()
    assert life.reasons() == []
    life.close()
    shutil.copytree(now, tmp_path / "now")
    yield source, tmp_path
    source.run("DROP TABLE life_a, life_b")


def damage(folder: Path, then: Path, piece: str, fate: str) -> None:
    names = {"store": ["auditor.db"], "plan": ["staging/planned.json"], "target": ["warehouse.duckdb", "warehouse.duckdb.wal"]}
    names["parts"] = ["staging/incarnation", "staging/batches"]
    for name in names[piece]:
        path, old = folder / name, then / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        if fate == "restored" and old.exists():
            shutil.copytree(old, path) if old.is_dir() else shutil.copy(old, path)


@on_both
def test_of_what_was_restored_or_lost_nothing_is_missing_without_a_word(duckdb_life: tuple[LiveLog, Path]) -> None:
    source, folder = duckdb_life
    ends: dict[str, list[tuple[Any, ...]]] = {"lossless": [], "refused": []}
    for case in CASES:
        live = folder / "-".join(itertools.chain(*case))  # DuckDB keeps a file that this process had open
        shutil.copytree(folder / "now", live)
        text = (live / "auditor.yaml").read_text()
        (live / "auditor.yaml").write_text(text.replace(str(folder / "live"), str(live)))
        for piece, fate in case:
            damage(live, folder / "then", piece, fate)
        life = Life(live, "", "shop")
        try:
            refused = go_on(life, source)
            wanted = {name: list(source.run(f"SELECT id, name FROM {name} ORDER BY id")) for name in ("life_a", "life_b")}
            held = {}
            if not refused:
                with suppress(AuditorError):
                    held = {name: life.rows(name) for name in wanted}
            assert refused or held == wanted, f"{case}: rows are missing, and nothing says so"
            ends["refused" if refused else "lossless"].append((case, refused))
        finally:
            life.close()
    print("\n".join(f"{k}: {c}" for k, v in ends.items() for c in v))
    lossless = {case for case, _ in ends["lossless"]}
    assert (("plan", "lost"),) in lossless and (("plan", "restored"),) in lossless, "the stream goes on from the store"
    for case, reasons in ends["refused"]:
        if case == (("store", "restored"),):
            assert "what was staged in between is missing in it" in reasons[0] and "--from-targets" in reasons[0]


def go_on(life: Life, source: LiveLog, *tables: str) -> list[str]:
    """Start what was damaged, and let it read what happens then; return why it, or a table, does not go on."""
    try:
        life.start()
        change(source, *(tables or ("life_a", "life_b")))
        for _ in range(2):
            life.stage()
            life.merge()
    except (IncarnationsDiffer, ConfigError) as error:
        return [str(error)]
    return life.reasons()


@pytest.mark.quick_for("restored", "lost")
@pytest.mark.parametrize("into", ["duckdb", pytest.param("postgres", marks=pytest.mark.postgres)])
@on_both
@pytest.mark.parametrize("fate", ["restored", "lost"])
def test_a_stream_is_read_again_from_where_the_targets_stand(
    engine: LiveEngine, engines: Engines, tmp_path: Path, into: str, fate: str
) -> None:
    schema = "life_again"
    source = lay_out(tmp_path, engine, f"duckdb:///{tmp_path}/w.duckdb" if into == "duckdb" else engines.live("postgres").url, schema)
    life = Life(tmp_path, "", schema)
    with open_writer("warehouse", life.settings.connections["warehouse"]) as session:
        session.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    life.start()
    change(source, "life_a", "life_b")
    life.stage()
    life.merge()
    shutil.copy(tmp_path / "auditor.db", tmp_path / "older.db")
    change(source, "life_a")
    life.stage()
    life.merge()
    change(source, "life_b", "life_a")
    life.stage()
    life.close()
    shutil.move(tmp_path / "older.db", tmp_path / "auditor.db") if fate == "restored" else (tmp_path / "auditor.db").unlink()
    life = Life(tmp_path, "", schema)
    with pytest.raises(IncarnationsDiffer, match="--from-targets"):
        life.start()
    place = service.reset(life.settings, life.store, PIPELINE, from_targets=True)
    assert place.rpartition(":")[2].isdigit()
    life.close()
    life = Life(tmp_path, "", schema)
    assert go_on(life, source) == []
    assert {name: life.rows(name) for name in ("life_a", "life_b")} == {
        name: list(source.run(f"SELECT id, name FROM {name} ORDER BY id")) for name in ("life_a", "life_b")
    }
    with open_writer("warehouse", life.settings.connections["warehouse"]) as session:
        session.execute(f"DROP SCHEMA {schema} CASCADE")
    life.close()
    source.run("DROP TABLE life_a, life_b")


@on_both
def test_each_schema_of_a_target_says_whose_it_is(engine: LiveEngine, tmp_path: Path) -> None:
    source = lay_out(tmp_path, engine, f"duckdb:///{tmp_path}/w.duckdb", "shop")
    source.run("DROP DATABASE IF EXISTS life_other", "CREATE DATABASE life_other", "CREATE TABLE life_other.life_c LIKE life_a")
    text = (tmp_path / "auditor.yaml").read_text()
    text = text.replace("schema: shop", 'schema: "at_{database}"').replace('"life_b"]', '"life_other.life_c"]')
    (tmp_path / "auditor.yaml").write_text(text)
    home = dialects.parse_url(engine.url).database
    places = {"life_a": f"at_{home}.life_a", "life_other.life_c": "at_life_other.life_c"}
    life = Life(tmp_path, "", "")
    life.start()
    change(source, *places)
    life.stage()
    life.merge()
    assert life.reasons() == []
    life.close()
    for path in (tmp_path / "auditor.db", tmp_path / "staging"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    change(source, *places)
    life = Life(tmp_path, "", "")
    life.start()  # nothing tells yet which schemas there are
    change(source, *places)
    life.stage()
    life.merge()
    assert all("target wh was filled by incarnation" in one and "--from-targets" in one for one in life.reasons()) and life.reasons()
    assert service.reset(life.settings, life.store, PIPELINE, from_targets=True)
    life.close()
    life = Life(tmp_path, "", "")
    assert go_on(life, source, *places) == []
    with open_writer("warehouse", life.settings.connections["warehouse"]) as session:
        for there, here in places.items():
            wanted = list(source.run(f"SELECT id, name FROM {there} ORDER BY id"))
            assert session.query(f"SELECT id, name FROM {here} ORDER BY id") == wanted and len(wanted) == 4
    assert service.reset(life.settings, life.store, PIPELINE) == ""
    with open_writer("warehouse", life.settings.connections["warehouse"]) as session:
        assert [session.query(f"SELECT COUNT(*) FROM {one.split('.')[0]}.auditor_positions")[0][0] for one in places.values()] == [0, 0]
    life.close()
    source.run("DROP DATABASE life_other", "DROP TABLE life_a, life_b")
