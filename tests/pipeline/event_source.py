"""A streaming source of Spark for tests: each Parquet file of a folder, in the order of their names, is a batch of events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType, TimestampType

TEXTS = ArrayType(StringType(), containsNull=True)
EVENT = StructType(
    [StructField(name, StringType(), nullable=False) for name in ("kind", "database", "table", "schema_id")]
    + [StructField("gtid", StringType())]
    + [StructField(name, LongType(), nullable=False) for name in ("position", "row")]
    + [StructField("time", TimestampType(), nullable=False), StructField("before", TEXTS), StructField("after", TEXTS)]
)


class EventFiles(DataSource):
    """The source; its option ``connection`` is the folder."""

    @classmethod
    def name(cls) -> str:
        return "event_files"

    def schema(self) -> StructType:
        return EVENT

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        del schema
        return _Reader(Path(self.options["config"]).parent / "events", json.loads(self.options.get("start", '{"position": 0}')))


class _Reader(DataSourceStreamReader):
    def __init__(self, folder: Path, start: dict[str, Any]) -> None:
        self.folder, self.start = folder, int(start["position"])

    def initialOffset(self) -> dict[str, Any]:
        return {"file": "x", "position": self.start}

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        del limit
        return {"file": "x", "position": min(len(list(self.folder.glob("*.parquet"))), int(start["position"]) + 1)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        chosen = sorted(self.folder.glob("*.parquet"))[start["position"] : end["position"]]
        return [InputPartition(str(path)) for path in chosen]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        yield from pq.read_table(partition.value).to_batches()
