"""Spark for a pipeline: the session, tasks on its executors, and the streaming query over the source."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import dialects
from auditor import errors
from auditor.errors import AuditorError, PackageMissing, PipelineFailed
from auditor.pipeline.merge.load import LoadTask
from auditor.pipeline.staging import Staging

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource
    from pyspark.sql.streaming.query import StreamingQuery

DRIVER_PACKAGES = ("pyspark", "pandas")
"""What Spark needs in this Python: its sources in Python ask for pandas, and use only Arrow."""

CHECKPOINT = "checkpoint"
"""The folder of the streaming query's checkpoint, below that of the staging."""

LOCAL_OPTIONS = {
    # Java's heap begins small and grows by need; its own first size is a 64th of the host's memory.
    "spark.driver.defaultJavaOptions": "-XX:+UseSerialGC -Xms96m -XX:MinHeapFreeRatio=20 -XX:MaxHeapFreeRatio=40",
    # Without it the tasks that stage and those that load would have Python workers of their own, since their environments would differ.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
}
"""Options of a Spark in this process that keep its memory small.
https://spark.apache.org/docs/latest/configuration.html#runtime-environment"""

LOCAL_ENVIRONMENT = {
    # Pools of memory of the C library, of which Java's threads would each begin one. https://man7.org/linux/man-pages/man3/mallopt.3.html
    "MALLOC_ARENA_MAX": "2",
    # Arrow's own pool keeps what batches needed; that of the C library gives it back. https://arrow.apache.org/docs/python/memory.html
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
"""Variables of the environment for the processes of such a Spark, unless they are set."""

_KNOWN_ERROR = re.compile(r"(?:auditor|dialects)\.errors\.(\w+): (.+)")
"""How an error of the auditor stands in the text of an error of Spark."""


def start_session(master: str) -> SparkSession:
    """Start Spark, or join the one of this process. Raises EngineError and PackageMissing, which say what is missing."""
    if missing := [name for name in DRIVER_PACKAGES if find_spec(name) is None]:
        raise PackageMissing(f"pipelines need {' and '.join(missing)}, which this Python lacks; pip install 'auditor[pipeline]'")
    options = {"master": master}
    if master.startswith("local"):
        options |= LOCAL_OPTIONS
        for name, value in LOCAL_ENVIRONMENT.items():
            os.environ.setdefault(name, value)
    else:  # executors on other hosts call the driver
        options |= {"spark.driver.bindAddress": "0.0.0.0", "spark.driver.host": socket.getfqdn()}
    session: Any = dialects.connect(f"spark://local?{urlencode(options)}")
    spark: SparkSession = session.spark
    spark.sparkContext.setLogLevel("ERROR")  # its warnings of slow batches, several a second on a busy host, hide the pipeline's own lines
    return spark


def check_alive(spark: SparkSession) -> None:
    """Raise PipelineFailed if Spark's Java process has ended: nothing can be run in this process from then on."""
    try:
        spark.sparkContext._jsc.sc().isStopped()
    except Exception as error:  # py4j's own, or of the socket
        raise PipelineFailed("Spark's Java process ended; start the pipeline again, which goes on where it stopped") from error


def on_executors(spark: SparkSession | None) -> Callable[[Callable[[LoadTask], Any], Sequence[LoadTask]], list[Any]]:
    """Return a function that runs a function on tasks and returns its results in order: side by side on the executors, or here without."""

    def run(function: Callable[[LoadTask], Any], tasks: Sequence[LoadTask]) -> list[Any]:
        if spark is None:
            return [function(task) for task in tasks]
        try:
            return list(spark.sparkContext.parallelize(tasks, len(tasks)).map(function).collect())
        except Exception as error:  # of Python or of Java
            raise translate(error) from error

    return run


def start_query(
    spark: SparkSession, events: type[DataSource], options: dict[str, str], root: Path, staging: Staging, every: float
) -> StreamingQuery:
    """Start the query that reads a source of events and stages its batches, from its checkpoint if there is one. Raises AuditorError."""
    try:
        source = staging.source(events)
        spark.dataSource.register(source)
        stream = spark.readStream.format(source.name()).options(**options).load()
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
