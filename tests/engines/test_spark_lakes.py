"""Delta and Iceberg tables through Spark's own catalogues: audits, snapshots, and what is said where a jar is missing or does not fit."""

from __future__ import annotations

import datetime as dt
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

import dialects
from auditor.config import Audit, ConnectionSettings
from auditor.errors import BadUrl, JarsDoNotFit
from auditor.model import Verdict
from auditor.run import audit_run
from dialects import Kind, Place
from dialects.spark import jars
from scripts.versions import LAKES, NotToBeHad
from tests import documents, tables
from tests.live import LiveEngine, engine_params
from tests.servers import spark_cluster, spark_lakes
from tests.servers.spark_lakes import Lakes
from tests.tables import open_writable

pytestmark = pytest.mark.spark
needs_client = pytest.mark.skipif(
    importlib.util.find_spec("grpc") is None, reason="Spark Connect's client is not installed: pip install 'auditor[connect]'"
)
ON_SPARK = pytest.mark.parametrize("engine", engine_params("spark"), indirect=True)

ROWS = 60
DELTA, ICEBERG = "spark_catalog.default.orders", "ice.shop.orders"
COLUMNS = [("id", Kind("integer")), ("name", Kind("text")), ("price", Kind("decimal", 12, 2)), ("made", Kind("timestamp"))]
ORDERS = [(id, f"v{id}", Decimal(id) / 4, dt.datetime(2026, 1, 1) + dt.timedelta(hours=id)) for id in range(ROWS)]
MADE = "TIMESTAMP_NTZ'2026-01-01 00:00:00' + MAKE_DT_INTERVAL(0, CAST(id AS INT))"
FILLED = f"SELECT id, CONCAT('v', id), CAST(id / 4.0 AS DECIMAL(12,2)), {MADE} FROM RANGE(0, {ROWS + 30}, 1, 1)"


def delta(table: str) -> list[str]:
    """Return the statements of a Delta table whose last rows a deletion vector hides, with columns that have been renamed and dropped."""
    return [
        f"CREATE TABLE {table} (id BIGINT, former STRING, price DECIMAL(12,2), made TIMESTAMP_NTZ, gone INT) USING delta TBLPROPERTIES"
        " ('delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'name')",
        f"INSERT INTO {table} SELECT *, 1 FROM ({FILLED})",
        f"ALTER TABLE {table} RENAME COLUMN former TO name",
        f"ALTER TABLE {table} DROP COLUMN gone",
        f"DELETE FROM {table} WHERE id >= {ROWS}",
    ]


def iceberg(table: str) -> list[str]:
    """Return the statements of an Iceberg table whose last rows files of deletes hide, in partitions that are no columns."""
    return [
        f"CREATE NAMESPACE IF NOT EXISTS {table.rpartition('.')[0]}",
        f"CREATE TABLE {table} (id BIGINT, name STRING, price DECIMAL(12,2), made TIMESTAMP_NTZ) USING iceberg PARTITIONED BY"
        " (months(made), bucket(2, id)) TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read',"
        " 'write.update.mode' = 'merge-on-read')",
        f"INSERT INTO {table} {FILLED}",
        f"DELETE FROM {table} WHERE id >= {ROWS}",
    ]


DAMAGE = (
    "UPDATE {table} SET price = price + 0.01 WHERE id = 17",
    "DELETE FROM {table} WHERE id = 42",
    "INSERT INTO {table} SELECT 5000, name, price, made FROM {table} WHERE id = 7",
)
NAMED = {("changed", "17"), ("missing", "42"), ("extra", "5000")}


# what needs no jar


@ON_SPARK
def test_missing_jar_is_named(engine: LiveEngine) -> None:
    """By the data source of a path, and by the class of a catalogue, which is one of the session's own."""
    url = f"{engine.url}&spark.sql.catalog.ice=org.apache.iceberg.spark.SparkCatalog"
    for place, said in (
        (Place((), path="/lake/orders", format="delta"), "Spark finds no delta table at /lake/orders: add the jar that has it"),
        (Place(("ice", "shop", "orders")), r"Spark has no class org\.apache\.iceberg\.spark\.SparkCatalog for its catalogue ice: add the"),
    ):
        with closing(dialects.connect(url)) as session, pytest.raises(JarsDoNotFit, match=said):
            session.dialect.catalogue.describe(session, place)


@ON_SPARK
def test_settings_of_a_second_url_hold_or_are_refused(engine: LiveEngine) -> None:
    with closing(dialects.connect(engine.url)):
        pass
    own = "spark.sql.catalog.second"
    with closing(dialects.connect(f"{engine.url}&{own}=a.Class")) as session, closing(dialects.connect(engine.url)) as other:
        assert (session.spark.conf.get(own), other.spark.conf.get(own, None)) == ("a.Class", None)  # type: ignore[attr-defined]
    for name in ("spark.executor.cores", "spark.sql.extensions", "spark.jars"):
        with pytest.raises(BadUrl, match=f"a Spark runs in this process without {name}, which is set when it starts"):
            dialects.connect(f"{engine.url}&{name}=7")


@ON_SPARK
def test_the_state_of_a_delta_table_is_read_by_few_tasks(engine: LiveEngine) -> None:
    """Unless somebody says by how many."""
    name = "spark.databricks.delta.snapshotPartitions"
    for url, partitions in ((engine.url, "8"), (f"{engine.url}&{name}=50", "50")):
        with closing(dialects.connect(url)) as session:
            assert session.spark.conf.get(name) == partitions  # type: ignore[attr-defined]


@ON_SPARK
def test_next_snapshot_sees_files_that_others_wrote(engine: LiveEngine) -> None:
    """Spark lists the files of a catalogue's table once a session."""
    with open_writable(engine) as session, closing(dialects.connect(engine.url)) as reader:
        session.execute("DROP TABLE IF EXISTS grown")
        session.execute("CREATE TABLE grown (`#id` INT, v STRING) USING parquet")
        session.execute("INSERT INTO grown VALUES (1, 'a')")
        (location,) = [row[1] for row in session.query("DESCRIBE TABLE EXTENDED grown") if row[0] == "Location"]
        (file,) = Path(str(location).removeprefix("file:")).glob("*.parquet")
        counts = []
        for _ in range(2):
            reader.begin()
            counts += reader.query("SELECT COUNT(*) FROM `grown`")
            reader.end()
            shutil.copy(file, file.with_name("other.parquet"))
        (table,) = reader.dialect.catalogue.describe(reader, Place(("grown",)))
        session.execute("DROP TABLE grown")
    assert counts == [(1,), (2,)]
    assert [column.name for column in table.columns] == ["#id", "v"]


UNFIT = {
    "(java.lang.NoSuchMethodError) 'void org.apache.spark.sql.execution.LogicalRDD.<init>(scala.Option)'\nat a.B": "built for another"
    " version of Spark (NoSuchMethodError",
    "x\n: java.lang.NoClassDefFoundError: org/apache/spark/sql/catalyst/plans/logical/IgnoreCachedData": "built for another version of"
    " Spark (no class org.apache.spark.sql.catalyst.plans.logical.IgnoreCachedData)",
    "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found": "Spark has no class"
    " org.apache.hadoop.fs.s3a.S3AFileSystem: add the jar",
    "java.lang.NoClassDefFoundError: org/apache/spark/sql/delta/X": "Spark has no class org.apache.spark.sql.delta.X: add",
    "Cannot find catalog plugin class for catalog 'ice': org.apache.iceberg.spark.SparkCatalog. ": "no class org.apache.iceberg.spark",
    "[UNRESOLVED_COLUMN] there is no NoSuchMethodError": "",
}


@pytest.mark.parametrize("text", UNFIT)
def test_java_says_which_jar(text: str) -> None:
    assert UNFIT[text] in jars.explain(text) and bool(UNFIT[text]) == bool(jars.explain(text))


# with jars


def _find(number: str) -> Lakes:
    try:
        return spark_lakes.find(number)
    except NotToBeHad as reason:
        pytest.skip(f"Spark {number} with jars of lakes: {reason}")


PAGE = Path(__file__).parents[2] / "docs" / "spark-lakes.md"


def _configure(folder: Path, jars: Sequence[Path]) -> Path:
    """Write the configuration that the page shows, for a shop in DuckDB and jars that are here, and return its file."""
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        connection.execute("CREATE TABLE orders (order_id BIGINT PRIMARY KEY, name VARCHAR, price DECIMAL(12,2), made TIMESTAMP)")
        connection.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", ORDERS)
    text = documents.blocks(PAGE, "yaml")[0]
    here = {"spark.jars": ",".join(map(str, jars)), "spark.driver.memory": "1g", **spark_lakes.QUICK}
    text = re.sub(r"spark\.jars\.packages=[^&\\]*", "&".join(f"{name}={value}" for name, value in here.items()), text)
    file = folder / "auditor.yaml"
    file.write_text(text.replace("mysql://reader@db1/shop", f"duckdb:///{folder}/shop.duckdb").replace("/lake/", f"{folder}/"))
    return file


SCRIPT = """
import sys, yaml, dialects
from auditor.cli import main
session = dialects.connect(yaml.safe_load(open(sys.argv[1]))["connections"]["lake"]["url"])
for statement in sys.argv[2:]:
    session.execute(statement)
codes = [main(["run", audit, "--no-store", "--config", sys.argv[1]]) for audit in ("orders_in_delta", "orders_in_iceberg")]
sys.exit(max(codes))
"""


@pytest.mark.slow
def test_documented_configuration_works(tmp_path: Path) -> None:
    """In a process whose PySpark is the one that the jars fit."""
    lakes = _find(spark_lakes.NUMBER)
    made = [*delta(f"delta.`{tmp_path}/orders`"), *iceberg("ice.sales.orders")]
    made += [f"ALTER TABLE {table} RENAME COLUMN id TO order_id" for table in (f"delta.`{tmp_path}/orders`", "ice.sales.orders")]
    command = [sys.executable, "-c", SCRIPT, str(_configure(tmp_path, lakes.files)), *made]
    environment = {**os.environ, "PYTHONPATH": str(lakes.packages), "SPARK_CONF_DIR": str(tmp_path)}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert ended.returncode == 0 and ended.stdout.count("MATCH") == 2, ended.stdout + ended.stderr


@pytest.mark.slow
def test_jars_of_another_version_are_named(tmp_path: Path) -> None:
    """By the installed Spark, for which there are none."""
    config = _configure(tmp_path, _find(spark_lakes.NUMBER).files)
    command = [sys.executable, "-m", "auditor", "run", "orders_in_iceberg", "--no-store", "--config", str(config)]
    environment = {**os.environ, "SPARK_CONF_DIR": str(tmp_path)}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert ended.returncode == 2 and "a jar was built for another version of Spark (" in ended.stderr, ended.stderr


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Spark Connect server of a version."""
    lakes, folder = _find(request.param), tmp_path_factory.mktemp("lakes")
    spark_cluster.write_settings(folder, spark_lakes.settings(folder, lakes))
    with spark_cluster.connect_server(folder, "local[1]", lakes.home, "1g") as url:
        yield url


ON_EACH = pytest.mark.parametrize("server", [number for number, jars in LAKES.items() if all(jars.values())], indirect=True)
TABLES = {DELTA: delta(DELTA), ICEBERG: iceberg(ICEBERG)}
EACH_TABLE = pytest.mark.parametrize("table", TABLES)


@pytest.mark.slow
@needs_client
@pytest.mark.parametrize("engine", engine_params("mysql"), indirect=True)
@EACH_TABLE
@ON_EACH
def test_tables_match_until_they_are_damaged(engine: LiveEngine, server: str, table: str) -> None:
    tables.make(engine, "lake_orders", COLUMNS, ORDERS, key=["id"])
    with closing(dialects.connect(server)) as session:
        for statement in TABLES[table]:
            session.execute(statement)
    connections = {"shop": ConnectionSettings(url=engine.url), "lake": ConnectionSettings(url=server)}
    ends = {"source": {"connection": "shop", "table": "lake_orders"}, "target": {"connection": "lake", "table": table}}
    audit = Audit.model_validate({**ends, "key": ["id"]})
    report = audit_run.run("lake", audit, connections)
    assert report.verdict is Verdict.MATCH, report.reasons
    assert report.plan and any(re.search(r"target: (version|snapshot) \d+ of \S+ is read", note) for note in report.plan.notes)
    with closing(dialects.connect(server)) as session:
        for statement in DAMAGE:
            session.execute(statement.format(table=table))
    report = audit_run.run("lake", audit, connections)
    assert report.verdict is Verdict.MISMATCH, report.reasons
    assert report.differences and {(one.kind, one.key["id"]) for one in report.differences.named} == NAMED


@pytest.mark.slow
@needs_client
@EACH_TABLE
@ON_EACH
def test_snapshot_reads_one_state(server: str, table: str) -> None:
    """Whatever others write, also in sessions that share it; the next one reads what they wrote, which Iceberg's catalogue kept back."""
    with (
        closing(dialects.connect(server)) as reader,
        closing(dialects.connect(server)) as other,
        closing(dialects.connect(server)) as writer,
    ):
        form = "delta" if table == DELTA else "iceberg"
        writer.execute("CREATE NAMESPACE IF NOT EXISTS ice.shop")
        writer.execute(f"CREATE TABLE {table}_read USING {form} AS SELECT id FROM RANGE(0, 10, 1, 1)")
        (found,) = reader.dialect.catalogue.describe(reader, Place(tuple(f"{table}_read".split("."))))
        count = f"SELECT COUNT(*) FROM {found.sql}"
        other.query(count)
        reader.begin()
        before = reader.query(count)
        writer.execute(f"DELETE FROM {table}_read WHERE id < 3")
        assert reader.share_snapshot([other], found.sql, None)
        assert reader.query(count) == other.query(count) == before
        reader.end()
        reader.begin()
        assert reader.query(count) == [(before[0][0] - 3,)]


@pytest.mark.slow
@needs_client
@ON_EACH
def test_iceberg_table_of_another_form_than_its_snapshot_is_read_as_it_is(server: str) -> None:
    """One whose columns changed after its latest snapshot, and one without any; the note says so."""
    with closing(dialects.connect(server)) as session:
        session.execute("CREATE NAMESPACE IF NOT EXISTS ice.shop")
        session.execute("CREATE TABLE ice.shop.formed (id BIGINT) USING iceberg")
        for statement, said in (
            ("SELECT 1", "has no snapshot yet"),
            ("INSERT INTO ice.shop.formed VALUES (1)", "snapshot "),
            ("ALTER TABLE ice.shop.formed ADD COLUMN late INT", "columns changed after its latest snapshot"),
        ):
            session.execute(statement)
            session.begin()
            assert said in session.state_read("`ice`.`shop`.`formed`")
            assert len(session.query("SELECT * FROM `ice`.`shop`.`formed`")) == (said != "has no snapshot yet")
            session.end()
