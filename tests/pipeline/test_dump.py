"""Dumps of a source with Spark: exact for every kind, of one snapshot, registered as the proxy, and kept as many as configured."""

from __future__ import annotations

import datetime as dt
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from auditor import config, service
from auditor.config import Settings
from auditor.errors import AuditorError, ColumnRefused, ConfigError, DatabaseBusy
from auditor.model import Verdict
from auditor.pipeline import dump as dumping
from auditor.pipeline.dump import write_dump
from auditor.planning import proxy
from auditor.service import dumps
from auditor.store import Store, open_store
from auditor.testing.columns import draw_rows, supported_columns
from auditor.testing.values import adapt
from dialects import Kind, get
from tests import tables
from tests.live import LiveEngine, engine_params

pytestmark = pytest.mark.engines_in_turn

SOURCES = engine_params("mysql", "mariadb", "postgres")
LAKE = "duckdb:///:memory:"


def write_config(folder: Path, engine: LiveEngine, table: str, **more: Any) -> Path:
    """Write a configuration whose audit dumps a table of this engine into a folder beside it."""
    import yaml

    via = {"connection": "lake", "table": f"{folder}/dumps/current/*.parquet"}
    orders = {"source": {"connection": "shop", "table": table}, "target": {"connection": "shop", "table": table}, "key": ["n"], "via": via}
    values = {
        "connections": {"shop": {"url": engine.url, "connections": 3}, "lake": {"url": LAKE}},
        "audits": {"orders": {**orders, **more}},
        "store": {"url": f"sqlite:///{folder}/store.db"},
    }
    path = folder / "auditor.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    found = open_store(f"sqlite:///{tmp_path}/store.db")
    yield found
    found.close()


def written(path: Path, settings: Settings, store: Store, monkeypatch: pytest.MonkeyPatch) -> dumping.Dumped:
    """Dump without Spark: the task runs in this process."""
    monkeypatch.setattr("auditor.pipeline.spark.start_session", lambda _: None)
    monkeypatch.setattr("auditor.pipeline.dump.dump", lambda _, task: _raised(write_dump(task)))
    return dumps.dump(settings, store, path, "orders", "local[1]")[1]


def _raised(found: dumping.Dumped | AuditorError) -> dumping.Dumped:
    if isinstance(found, AuditorError):
        raise found
    return found


def make_table(engine: LiveEngine, name: str, count: int) -> Sequence[tuple[str, Kind]]:
    """Make a table with a column of every kind that the engine stores, with edges and NULLs."""
    dialect = get(engine.dialect)
    columns = supported_columns(dialect)
    rows = [[number, *(adapt(family, row[family.name], kind) for family, kind in columns)] for number, row in enumerate(draw_rows(count))]
    described = [("n", Kind("integer")), *((family.column(kind), kind) for family, kind in columns)]
    tables.make(engine, name, described, rows, ["n"])
    return described


@pytest.mark.slow_on("mysql")
@pytest.mark.parametrize("engine", SOURCES, indirect=True)
def test_a_dump_of_every_kind_equals_its_source(engine: LiveEngine, tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = make_table(engine, "dump_kinds", 120)
    path = write_config(tmp_path, engine, "dump_kinds")
    settings = config.load(path)
    monkeypatch.setattr(dumping, "FILE_ROWS", 40)
    before = dt.datetime.now(dt.UTC) - dt.timedelta(minutes=1)
    found = written(path, settings, store, monkeypatch)
    assert found.files >= 3 and found.rows >= 120 and found.connections == 3 and found.as_of > before
    assert found.position and not found.why_unknown
    report = service.run_audit(settings, "orders.dump", store=store)
    assert report.verdict is Verdict.MATCH, (report.reasons, report.differences)
    assert report.jaccard and report.jaccard.least == 1 and report.plan
    assert len(report.plan.columns) == len(columns), report.plan.not_compared
    assert service.run_audit(settings, "orders.target", store=store).verdict is Verdict.MATCH
    assert service.combined(settings, store, "orders").verdict is Verdict.MATCH


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_dumps_are_registered_and_kept_and_one_that_fails_leaves_the_present_one(
    engine: LiveEngine, tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables.make(engine, "dump_kept", [("n", Kind("integer")), ("name", Kind("text"))], [(1, "a"), (2, None)], ["n"])
    path = write_config(tmp_path, engine, "dump_kept")
    settings, root = config.load(path), tmp_path / "dumps"
    for _ in range(3):
        written(path, settings, store, monkeypatch)
    kept = sorted(one.name for one in root.iterdir() if one.is_dir() and not one.is_symlink())
    assert len(kept) == 2 and (root / "current").resolve().name == kept[-1]
    via = settings.audits["orders"].via
    assert via and proxy.as_of(via) == pq_moment(root / "current")

    monkeypatch.setattr(dumping, "to_arrow", _refuse)
    with pytest.raises(ColumnRefused):
        written(path, settings, store, monkeypatch)
    assert sorted(one.name for one in root.iterdir() if one.is_dir() and not one.is_symlink()) == kept


def _refuse(*_: Any) -> Any:
    raise ColumnRefused("a value")


def pq_moment(folder: Path) -> dt.datetime:
    (file,) = folder.glob("*.parquet")
    assert [stat.S_IMODE(one.stat().st_mode) for one in (folder.resolve().parent, folder.resolve(), file)] == [0o700, 0o700, 0o600]
    return dt.datetime.fromisoformat((pq.read_metadata(file).metadata or {})[proxy.AS_OF.encode()].decode())


@pytest.mark.parametrize("engine", engine_params("duckdb"), indirect=True)
def test_what_cannot_be_dumped_is_refused(engine: LiveEngine, tmp_path: Path, store: Store) -> None:
    path = write_config(tmp_path, engine, "orders")
    settings = config.load(path)
    folder = dumps.dumps_folder("orders", settings.audits["orders"])
    with dumps.written_alone(folder), pytest.raises(DatabaseBusy, match="another dump is being written"), dumps.written_alone(folder):
        pass
    for via in (None, {"connection": "lake", "table": "dumps/orders.parquet"}):
        other = config.load(write_config(tmp_path, engine, "orders", via=via))
        with pytest.raises(ConfigError, match=r"via: \{"):
            dumps.dump(other, store, path, "orders", "local[1]")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_the_rows_of_a_dump_pass_neither_the_driver_nor_java(engine: LiveEngine, tmp_path: Path, store: Store) -> None:
    import resource

    peaks, tasks = [], []
    for count in (1_000_000, 10_000_000):
        with tables.open_writable(engine) as session:
            session.execute("DROP TABLE IF EXISTS dump_many")
            session.execute(
                f"CREATE TABLE dump_many AS SELECT g AS n, 'row ' || g AS name, g * 1.5 AS price FROM generate_series(1, {count}) AS g"
            )
        path = write_config(tmp_path, engine, "dump_many")
        _, found = dumps.dump(config.load(path), store, path, "orders", "local[1]")
        assert found.rows == count
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        tasks.append(found.memory / 2**20)
    print(f"driver {peaks} MiB, task {tasks} MiB")
    assert peaks[1] < peaks[0] + 40 and tasks[1] < tasks[0] + 150
