"""Spark for a pipeline: the session, in this process or on a Spark Connect server, and tasks on its executors."""

from __future__ import annotations

import hmac
import os
import pickle
import re
import secrets
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlencode

import dialects
from auditor.durations import durations
from auditor.errors import KIND_BY_NAME, AuditorError, PackageMissing, PipelineFailed, error_named
from dialects import extras
from dialects.spark import driver
from dialects.spark.connect import in_thread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_OPTIONS = {
    # Java's heap begins small and grows by need; its own first size is a 64th of the host's memory. Java only hands tasks to Python, for
    # which its first compiler is enough: the second one takes half of the processor's time of a start, and more later than it saves.
    "spark.driver.defaultJavaOptions": "-XX:+UseSerialGC -Xms96m -XX:MinHeapFreeRatio=20 -XX:MaxHeapFreeRatio=40 -XX:TieredStopAtLevel=1",
    # Without it the tasks that stage and those that load would have Python workers of their own, since their environments would differ.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
}
"""Options of a Spark in this process that keep its memory and its start small.
https://spark.apache.org/docs/latest/configuration.html#runtime-environment"""

LOCAL_ENVIRONMENT = {
    # Pools of memory of the C library, of which Java's threads would each begin one. https://man7.org/linux/man-pages/man3/mallopt.3.html
    "MALLOC_ARENA_MAX": "2",
    # Arrow's own pool keeps what batches needed; that of the C library gives it back. https://arrow.apache.org/docs/python/memory.html
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
"""Variables of the environment for the processes of such a Spark, unless they are set."""

PARTITIONS_A_CORE = 4
"""Tasks of Spark for each core, into which those of a batch or a merge are packed if there are more."""

MOST_PARTITIONS = 16
"""The same where the cores are few, or not known."""

SIGNATURE = 32
"""Bytes of the signature in front of a task's result, and of its key."""

RunTasks: TypeAlias = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]
"""Runs a function on tasks, and returns its results in their order."""

_KNOWN_ERROR = re.compile(rf"(?:{'|'.join(sorted({re.escape(kind.__module__) for kind in KIND_BY_NAME.values()}))})\.(\w+): (.+)")
"""How an error of the auditor is written in the text of an error of Spark."""

_PYTHON_ERROR = re.compile(r"(?!py4j|org\.|java)[\w.]*(?:Error|NotFound|Exception): .")
"""The last line of a Python traceback there."""


def start_session(master: str) -> SparkSession:
    """Start Spark, or join the one of this process. Raises EngineError and PackageMissing, which say what is missing."""
    if names := extras.missing("pipeline"):
        raise PackageMissing(extras.explain("a pipeline", names, "pipeline"))
    if is_connect_url(master):
        connected: Any = dialects.connect(master)
        return connected.spark  # type: ignore[no-any-return]
    options = {"master": master}
    if is_local(master):
        options |= LOCAL_OPTIONS
        for name, value in LOCAL_ENVIRONMENT.items():
            os.environ.setdefault(name, value)
    else:  # executors on other hosts call the driver
        host = os.environ.get("SPARK_LOCAL_HOSTNAME") or socket.getfqdn()
        options |= {"spark.driver.bindAddress": "0.0.0.0", "spark.driver.host": host}
    if driver.is_running():  # it is joined as it is: what Spark starts with can no longer be chosen
        options = {name: value for name, value in options.items() if name.startswith("spark.sql.")}
    session: Any = dialects.connect(f"spark://local?{urlencode(options)}")
    spark: SparkSession = session.spark
    spark.sparkContext.setLogLevel("ERROR")  # its warnings of slow batches, several a second on a busy host, hide the pipeline's own lines
    return spark


def is_local(master: str) -> bool:
    """Return whether tasks run in processes of this host, which see its files."""
    return master.startswith("local")


def is_connect_url(master: str) -> bool:
    """Return whether a master is the URL of a Spark Connect server."""
    return master.startswith("sc://")


def is_connect(spark: SparkSession) -> bool:
    """Return whether a session is one on a Spark Connect server: without a Java process here, and without its context."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def check_alive(spark: SparkSession) -> None:
    """Raise PipelineFailed if nothing can be run with a session any more.

    Spark's Java process, or the session on a server, has ended; or the folder of its temporary files is gone, as cleaners of /tmp remove
    what is some days old there (https://www.freedesktop.org/software/systemd/man/latest/tmpfiles.d.html).
    """
    folder = ""
    try:
        if is_connect(spark):
            in_thread(lambda: spark.version, "alive").result(durations().spark_answer)
        else:
            driver.ask_java(spark)
            folder = driver.temporary_folder(spark)
    except Exception as error:  # py4j's own, of gRPC, or of the socket
        what = "the Spark Connect server ended its session, or does not answer" if is_connect(spark) else "Spark's Java process ended"
        raise PipelineFailed(f"{what}; start the pipeline again, which continues where it stopped") from error
    if folder and not Path(folder).is_dir():
        raise PipelineFailed(
            f"Spark's temporary files, {folder}, were removed; start the pipeline again, which continues where it stopped, and let"
            " SPARK_LOCAL_DIRS name a folder that nothing cleans"
        )


def close_session(spark: SparkSession) -> None:
    """End a session on a Spark Connect server, whose open channel would keep this process from ending; none of this process."""
    if is_connect(spark):
        with suppress(Exception):  # the server ends it after an hour
            in_thread(spark.client.release_session, "release").result(durations().spark_release)
        with suppress(Exception):
            in_thread(spark.client.close, "close").result(durations().spark_release)


def on_executors(spark: SparkSession | None) -> RunTasks:
    """Return a function that runs a function on tasks and returns its results in order: side by side on the executors, or here without.

    Of many tasks, several are one of Spark's, which takes some 20 ms for each: a merge may load a part of each of a thousand tables.
    """

    def run(function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        if spark is None or not tasks:
            return [function(task) for task in tasks]
        try:
            most = MOST_PARTITIONS if is_connect(spark) else max(MOST_PARTITIONS, PARTITIONS_A_CORE * spark.sparkContext.defaultParallelism)
            count = min(len(tasks), most)
            order = [number for first in range(count) for number in range(first, len(tasks), count)]  # neighbours are often of one table
            run_all = _over_connect if is_connect(spark) else _over_rdd
            results = dict(zip(order, run_all(spark, function, [tasks[number] for number in order], count), strict=True))
        except Exception as error:  # of Python or of Java
            raise translate(error) from error
        return [results[number] for number in range(len(tasks))]

    return run


def _over_rdd(spark: SparkSession, function: Callable[[Any], Any], tasks: Sequence[Any], partitions: int) -> list[Any]:
    return list(spark.sparkContext.parallelize(tasks, partitions).map(function).collect())


def _over_connect(spark: SparkSession, function: Callable[[Any], Any], tasks: Sequence[Any], partitions: int) -> list[Any]:
    """Run a function on tasks; there are no RDDs over Spark Connect, so they are numbers of a range."""

    key = secrets.token_bytes(SIGNATURE)

    def work(batches: Iterator[Any]) -> Iterator[Any]:  # it travels by value, and needs nothing but Arrow there
        import hmac
        import pickle

        import pyarrow as pa

        for batch in batches:
            numbers = batch.column(0).to_pylist()
            bodies = [pickle.dumps(function(tasks[number])) for number in numbers]
            signed = [
                hmac.digest(key, number.to_bytes(8, "big") + body, "sha256") + body for number, body in zip(numbers, bodies, strict=True)
            ]
            results = pa.array(signed, pa.binary())
            yield pa.RecordBatch.from_arrays([pa.array(numbers, pa.int64()), results], ["number", "result"])

    frame: Any = spark.range(0, len(tasks), 1, partitions)
    rows = sorted(frame.mapInArrow(work, "number BIGINT, result BINARY").collect())
    return [verified_result(key, row["number"], bytes(row["result"])) for row in rows]


def verified_result(key: bytes, number: int, result: bytes) -> Any:
    """Return the result of a task, which it signed with the key that it was given. Raises PipelineFailed for another signature."""
    signature, body = result[:SIGNATURE], result[SIGNATURE:]
    if not hmac.compare_digest(signature, hmac.digest(key, number.to_bytes(8, "big") + body, "sha256")):
        raise PipelineFailed(f"the result of task {number} was not signed by the task that this process sent; it is not read")
    return pickle.loads(body)


def translate(error: BaseException) -> AuditorError:
    """Return the auditor's error of which Spark tells in its own, or PipelineFailed with its first line."""
    if isinstance(error, AuditorError):
        return error
    errors = _KNOWN_ERROR.findall(str(error))
    if errors:
        name, message = next((pair for pair in reversed(errors) if pair[0] in KIND_BY_NAME), errors[-1])
        return error_named(name, message.strip(), PipelineFailed)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    raised = [line for line in lines[1:] if _PYTHON_ERROR.match(line)]  # of a worker; the first line only says that there is one
    return PipelineFailed(f"Spark ended the batch: {(raised[-1:] or lines[:1] or [type(error).__name__])[0]}")
