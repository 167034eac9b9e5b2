"""A session over PySpark in this process, and the translation of the exceptions of PySpark, also through Spark Connect."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dialects import errors
from dialects.base import ColumnBatch, Dialect, arrow_columns
from dialects.session import InProcessSession, text_length
from dialects.spark import jars, settings
from dialects.spark.lakes import LakeSession


class SparkSession(LakeSession, InProcessSession):
    """One Spark session; ``cancel`` interrupts every statement that runs in it."""

    def __init__(self, dialect: Dialect, server: str, spark: Any, timeout: float) -> None:
        super().__init__(dialect, server, timeout)
        self.spark = spark

    def pin(self, statement_timeout: float, lock_timeout: float) -> None:
        super().pin(statement_timeout, lock_timeout)
        settings.restore(self.server, self._read_settings, self._write_setting)

    def _read_settings(self) -> dict[str, str]:
        with self._translated():
            return dict(self.spark.conf.getAll)

    def _write_setting(self, name: str, value: str) -> None:
        with self._translated():
            self.spark.conf.set(name, value)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        with self.time_limit():
            try:
                yield
            except Exception as error:
                known = translate_error(error)
                if known is None:
                    raise
                raise known from error

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        sql = self.at_one_state(sql)
        with self._translated():
            rows = [tuple(row) for row in self.spark.sql(sql).collect()]
        self._result_bytes += text_length(rows)
        return rows

    def execute(self, sql: str) -> None:
        with self._translated():
            self.spark.sql(sql)

    def stream(self, sql: str) -> Iterator[ColumnBatch]:
        sql = self.at_one_state(sql)
        with self._translated():
            table = self.spark.sql(sql).toArrow()
        self._result_bytes += table.nbytes
        for batch in table.to_batches():
            yield arrow_columns(batch)

    def cancel(self) -> None:
        # The Spark session is not shared, so all its operations may be interrupted. Tags belong to the thread that set them, so a tag
        # cannot be used here: cancel is called from another thread.
        self.spark.interruptAll()

    def close(self) -> None:
        """Do nothing: the Spark process keeps running, because other sessions may use it and a new one takes seconds to start."""


_CANCELLED = re.compile(r"JOB_CANCELLED|OPERATION_CANCELL?ED|OPERATION_INTERRUPTED|\bJob \d+ cancelled|InterruptedException")


def translate_error(error: Exception) -> errors.AuditorError | None:
    """Return the error of ``dialects.errors`` for an exception of Spark, its JVM or its network, or None for any other exception."""
    from pyspark.errors import AnalysisException

    if type(error).__module__.split(".")[0] not in ("py4j", "grpc", "pyspark"):
        return None
    if unfit := jars.explain(_with_causes(error)):
        return errors.JarsDoNotFit(unfit)
    if isinstance(error, AnalysisException):
        condition = error.getCondition() or ""
        if condition == "REQUIRES_SINGLE_PART_NAMESPACE":
            return errors.StatementRefused(f"{first_line(error)}; set spark.sql.catalog.NAME if the first part is a catalogue's name")
        missing = condition.startswith(("TABLE_OR_VIEW_NOT_FOUND", "PATH_NOT_FOUND", "UNRESOLVED_COLUMN"))
        return (errors.NoSuchObject if missing else errors.StatementRefused)(first_line(error))
    return errors.StatementCancelled() if _CANCELLED.search(str(error)) else errors.StatementRefused(first_line(error))


def _with_causes(error: Exception) -> str:
    """Return an error's text, and what Java says of it and of its causes."""
    ask = getattr(error, "getStackTrace", None)
    return f"{error}\n{ask() if ask else getattr(error, '_stackTrace', '')}"


_CALLING = re.compile(r"An error occurred while calling \S+\n: ")
"""What py4j says before the exception of Java itself."""


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, without the query plan or the frames of Java that follow."""
    lines = _CALLING.sub("", str(error).strip(), count=1).splitlines()
    return lines[0] if lines else type(error).__name__
