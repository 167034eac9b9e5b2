"""Spark for a pipeline: the session, tasks on its executors, and the streaming query over the source."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import dialects
from auditor import errors
from auditor.errors import AuditorError, PipelineFailed
from auditor.pipeline.merge.load import LoadTask
from auditor.pipeline.staging import Staging

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CHECKPOINT = "checkpoint"
"""The folder of the streaming query's checkpoint, below that of the staging."""

_KNOWN_ERROR = re.compile(r"(?:auditor|dialects)\.errors\.(\w+): (.+)")
"""How an error of the auditor stands in the text of an error of Spark."""


def start_session(master: str) -> SparkSession:
    """Start Spark, or join the one of this process. Raises EngineError, which says what is missing."""
    options = {"master": master}
    if not master.startswith("local"):  # executors on other hosts call the driver
        options |= {"spark.driver.bindAddress": "0.0.0.0", "spark.driver.host": socket.getfqdn()}
    session: Any = dialects.connect(f"spark://local?{urlencode(options)}")
    spark: SparkSession = session.spark
    return spark


def on_executors(spark: SparkSession) -> Callable[[Callable[[LoadTask], Any], Sequence[LoadTask]], list[Any]]:
    """Return a function that runs a function on tasks, side by side on the executors, and returns its results in order."""

    def run(function: Callable[[LoadTask], Any], tasks: Sequence[LoadTask]) -> list[Any]:
        try:
            return list(spark.sparkContext.parallelize(tasks, len(tasks)).map(function).collect())
        except Exception as error:  # of Python or of Java
            raise translate(error) from error

    return run


def start_query(
    spark: SparkSession, options: dict[str, str], root: Path, staging: Staging, every: float, source: str = "mysql_binlog"
) -> StreamingQuery:
    """Start the query that reads a source and stages its batches, from its checkpoint if there is one. Raises AuditorError."""
    try:
        stream = spark.readStream.format(source).options(**options).load()
        writer = stream.writeStream.foreachBatch(staging.foreach_batch).option("checkpointLocation", str(root / CHECKPOINT))
        return writer.trigger(processingTime=f"{max(0, round(every * 1000))} milliseconds").start()
    except Exception as error:
        raise translate(error) from error


def translate(error: BaseException) -> AuditorError:
    """Return the auditor's error of which Spark tells in its own, or PipelineFailed with its first line."""
    if isinstance(error, AuditorError):
        return error
    found = _KNOWN_ERROR.findall(str(error))
    for name, message in reversed(found):
        known = getattr(errors, name, None)
        if isinstance(known, type) and issubclass(known, AuditorError):
            return known(message.strip())
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return PipelineFailed(f"Spark ended the query: {lines[0] if lines else type(error).__name__}")
