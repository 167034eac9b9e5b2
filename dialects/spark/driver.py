"""What is used of pyspark that it does not promise: whatever begins with an underscore there is used in this module alone.

Pyspark has no public name for the question whether a context was started in this process, nor for the Java process behind one.
"""

from __future__ import annotations

from typing import Any

TRIED = ("4.3.0",)
"""The versions of pyspark on which all of this was tried."""


def is_running() -> bool:
    """Return whether Spark already runs in this process."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


def ask_java(spark: Any) -> None:
    """Ask the Java process of a session something. Raises errors of py4j or of the socket if it has ended."""
    spark.sparkContext._jsc.sc().isStopped()


def temporary_folder(spark: Any) -> str:
    """Return the folder of this process in which a session keeps what its tasks are to read; it lies in ``spark.local.dir``."""
    return str(spark.sparkContext._temp_dir)
