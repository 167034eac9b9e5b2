"""A Spark that reads Delta and Iceberg tables: a version for which both have jars, fetched as `make versions` fetches it.

The Spark of this environment may be one for which there are none, so it runs in processes of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.versions import LAKES, VERSIONS, fetch, fetch_jars

NUMBER = "4.1.4"
"""The newest version of Spark for which there are both."""

QUICK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.databricks.delta.snapshotPartitions": "1",
}
"""Settings for small tables: nothing is compiled for a statement, and no log of Delta is read by 50 tasks."""

EXTENSIONS = {
    "Delta": "io.delta.sql.DeltaSparkSessionExtension",
    "Iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}


@dataclass(frozen=True)
class Lakes:
    """A version of Spark with its jars, as files of this machine."""

    packages: Path
    """The folder with the package pyspark."""
    jars: Mapping[str, Sequence[Path]]
    """By the format of tables that they read."""

    @property
    def files(self) -> list[Path]:
        """All jars."""
        return [jar for jars in self.jars.values() for jar in jars]

    @property
    def home(self) -> Path:
        """What SPARK_HOME says."""
        return self.packages / "pyspark"


def find(number: str = NUMBER) -> Lakes:
    """Return a version of Spark with its jars. Raises NotToBeHad, which says why."""
    version = next(one for one in VERSIONS if one.name == f"spark {number}")
    jars = {kind: fetch_jars(names) for kind, names in LAKES[number].items() if names}
    return Lakes(Path(fetch(version)["PYTHONPATH"].partition(":")[0]), jars)


def settings(folder: Path, lakes: Lakes) -> Mapping[str, str]:
    """Return Spark's settings: Delta tables in spark_catalog, Iceberg tables in the catalogue ``ice``, all below a folder."""
    return {
        "spark.jars": ",".join(map(str, lakes.files)),
        "spark.sql.extensions": ",".join(EXTENSIONS[kind] for kind in lakes.jars),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(folder / "iceberg"),
        "spark.sql.warehouse.dir": str(folder / "delta"),
        "spark.sql.shuffle.partitions": "1",
        **QUICK,
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dderby.system.home={folder}",
    }
