"""Spark's executors: check that they have what a pipeline needs, and run the tasks of a bootstrap's copy on them.

A pipeline needs Python, packages, the configuration, and the staging's folder. A bootstrap brings its tasks: each is a job of its own, so
that what one did is known when it ends, and those that run can be ended without the others.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import dialects
from auditor.config import Settings
from auditor.connections.writer import writing_dialect
from auditor.durations import durations
from auditor.errors import AuditorError, ConfigError, StagingFailed, StatementCancelled
from auditor.pipeline import spark
from auditor.pipeline.folders import folder_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES = {
    "auditor": "auditor",
    "numpy": "numpy",
    "pandas": "pandas",
    "pyarrow": "pyarrow",
    "pydantic": "pydantic",
    "pymysql": "pymysql",
    "yaml": "pyyaml",
    "sqlglot": "sqlglot",
}
"""What all tasks import, and what pip calls it. Tasks that load a target side by side import its driver, too."""

OF_TOPICS = {"confluent_kafka": "confluent-kafka", "fastavro": "fastavro"}
"""What tasks import that read topics."""

LOOPBACK = ("localhost", "127.0.0.1", "::1")

MARKER = ".reached"
"""The file by which an executor finds out whether it sees the driver's folder."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What an executor must have, as JSON values: it travels to hosts where this package may be missing."""

    python: str
    packages: Mapping[str, str]
    """The driver's versions, by the names that are imported."""
    config: str
    root: str
    marker: str
    """What the marker file must contain."""


PROBES = 16
"""Tasks that ask executors of a Spark Connect server, which does not say how many cores they have."""

ENCRYPTED = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
"""What Spark needs so that what it sends to executors cannot be read on the way.
https://spark.apache.org/docs/latest/security.html#network-encryption"""


def check_executors(settings: Settings, config_file: Path, name: str) -> list[str]:
    """Return what is missing on the executors, a sentence each; starts Spark. Raises AuditorError if it cannot be started or asked."""
    session = spark.start_session(settings.pipeline(name).master)
    try:
        return list(find_missing(session, settings, config_file, name))
    finally:
        spark.close_session(session)


def require(session: SparkSession, settings: Settings, config_file: Path, name: str) -> None:
    """Raise ConfigError if something that the pipeline needs is missing on executors."""
    if missing := find_missing(session, settings, config_file, name):
        raise ConfigError(f"pipeline {name!r} cannot run at {settings.pipeline(name).master.partition('?')[0]}: {'; '.join(missing)}")


def find_missing(session: SparkSession, settings: Settings, config_file: Path, name: str) -> list[str]:
    """Return what is missing on the executors of a session, a sentence each. Raises AuditorError if they cannot be asked."""
    pipeline = settings.pipeline(name)
    root = folder_at(pipeline.staging.path)
    root.make()
    try:
        marker = f"of pipeline {name}"
        packages = {**PACKAGES, **_drivers(settings, name), **root.PACKAGES, **(OF_TOPICS if pipeline.topic_source else {})}
        versions = {module: str(import_module(module).__version__) for module in packages}
        needs = Needs(f"{sys.version_info[0]}.{sys.version_info[1]}", versions, str(config_file), str(root), marker)
        root.put(MARKER, marker.encode())
        answers = _ask(session, _questions(needs))
    except OSError as error:
        raise StagingFailed(f"the staging's folder {root} cannot be written: {error.strerror}; correct staging: path") from error
    finally:
        with suppress(OSError):
            root.delete([MARKER])
    sentences = [sentence for answer in answers for sentence in judge(needs, answer)]
    if masked := sorted(table for table, columns in pipeline.columns.items() if columns.mask):
        sentences += find_open_ways(session, pipeline.master, masked[0])
    return list(dict.fromkeys(sentences))


def find_open_ways(session: SparkSession, master: str, table: str) -> Iterator[str]:
    """Yield where the salt of masked columns, which tasks need, would travel so that others on the way can read it."""
    if spark.is_local(master):
        return
    subject = f"{table} has masked columns, whose salt tasks get"
    if any(str(session.conf.get(name, "false")).lower() != value for name, value in ENCRYPTED.items()):
        settings = " and ".join(f"{name} {value}" for name, value in ENCRYPTED.items())
        yield f"{subject}, and Spark does not encrypt what it sends to executors; set {settings} for it, or exclude these columns"
    if spark.is_connect_url(master):
        url = dialects.parse_url(master)
        if url.host not in LOOPBACK and url.option("use_ssl", "false").lower() != "true":
            yield f"{subject}, and the way to {url.host} is not encrypted; add ?use_ssl=true to master, or exclude these columns"


def judge(needs: Needs, answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is missing on the executor that gave this answer."""
    host, packages = f"the executor on {answer['host']}", answer["packages"]
    if answer["python"] != needs.python:
        yield f"{host} runs Python {answer['python']}, and the driver {needs.python}; set PYSPARK_PYTHON to the same version there"
    missing = [name for name in needs.packages if packages.get(name) is None]
    if missing:
        yield f"{host} is missing the packages {', '.join(missing)}; run there: pip install {' '.join(map(_pip_name, missing))}"
    for name, version in needs.packages.items():
        if packages.get(name) not in (None, version):
            yield f"{host} has {name} {packages[name]}, and the driver {version}; install the same version there"
    if answer["marker"] != needs.marker:
        reason = answer["marker_error"] or "another folder is there"
        yield f"{host} does not see the driver's staging folder {needs.root} ({reason}); give staging: path a folder that all hosts share,"
        " or s3://bucket/prefix"
    elif answer["write_error"]:
        yield f"{host} cannot write into the staging's folder {needs.root}: {answer['write_error']}; correct its owner or its mode"
    if answer["config_error"] and "auditor" not in missing:
        yield f"{host} cannot load {needs.config}: {answer['config_error']}; put it there, with the environment variables that it names"


def _questions(needs: Needs) -> Callable[[int], str]:
    """Return the function that an executor runs. It travels by value, and needs nothing but Python there."""
    names, root, config_file, marker_name = list(needs.packages), needs.root, needs.config, MARKER
    bucket, _, prefix = root.removeprefix("s3://").partition("/") if root.startswith("s3://") else ("", "", "")

    def answer(number: int) -> str:
        import json
        import socket
        import sys
        from functools import partial
        from importlib import import_module
        from pathlib import Path

        def attempt(work: Callable[[], Any]) -> tuple[Any, str]:
            try:
                return work(), ""
            except Exception as error:
                return None, str(error) or type(error).__name__

        def client() -> Any:
            import boto3

            return boto3.client("s3")

        def read() -> str:
            if bucket:
                return str(client().get_object(Bucket=bucket, Key=f"{prefix}/{marker_name}".lstrip("/"))["Body"].read(), "utf-8")
            return (Path(root) / marker_name).read_text()

        def write() -> None:
            if bucket:
                probe_object = {"Bucket": bucket, "Key": f"{prefix}/.probe-{socket.gethostname()}-{number}".lstrip("/")}
                client().put_object(Body=b"a task wrote this", **probe_object)
                client().delete_object(**probe_object)
                return
            probe = Path(root) / f".probe-{socket.gethostname()}-{number}"
            probe.write_text("a task wrote this")
            probe.unlink()

        def version(name: str) -> str:
            return str(import_module(name).__version__)

        marker, marker_error = attempt(read)
        return json.dumps(
            {
                "host": socket.gethostname(),
                "python": f"{sys.version_info[0]}.{sys.version_info[1]}",
                "packages": {name: attempt(partial(version, name))[0] for name in names},
                "marker": marker,
                "marker_error": marker_error,
                "write_error": attempt(write)[1],
                "config_error": attempt(lambda: import_module("auditor.config").load(Path(config_file)))[1],
            }
        )

    return answer


def _ask(session: SparkSession, answer: Callable[[int], str]) -> list[dict[str, Any]]:
    """Return the answers of the executors, of as many tasks as they have cores. Raises AuditorError."""
    count = PROBES if spark.is_connect(session) else session.sparkContext.defaultParallelism
    try:
        return [json.loads(text) for text in spark.on_executors(session)(answer, range(count))]
    except AuditorError as error:
        if match := re.search(r"\[PYTHON_VERSION_MISMATCH\] (.+)", str(error.__cause__)):  # a worker says so before it reads the function
            raise ConfigError(f"{match[1]} Set PYSPARK_PYTHON to the same version on all hosts") from error
        raise


def _drivers(settings: Settings, name: str) -> dict[str, str]:
    """Return the drivers of targets that tasks load; one that cannot be loaded is reported by the check of targets."""
    drivers: dict[str, str] = {}
    for target in settings.pipeline(name).table_targets.values():
        with suppress(AuditorError):
            dialect = writing_dialect(target.connection, settings.connections[target.connection])
            writing = dialect.writing
            drivers |= dialect.DRIVERS if writing.LOADS == "side by side" else writing.files.PACKAGES if writing.files else {}
    return drivers


def _pip_name(module: str) -> str:
    """Return what pip calls a package that tasks import."""
    engines = dialects.working()
    drivers = [engine.DRIVERS for engine in engines] + [
        engine.writing.files.PACKAGES for engine in engines if engine.is_written and engine.writing.files
    ]
    return {**PACKAGES, **OF_TOPICS}.get(module) or next(names[module] for names in drivers if module in names)


Task = TypeVar("Task")
Result = TypeVar("Result")


def run_on_executors(
    master: str, stopped: threading.Event, function: Callable[[Task], Result], tasks: Sequence[Task], at_once: int | None
) -> Generator[Result]:
    """Run a function on tasks, ``at_once`` of them at most, or as many as the executors have cores, and yield its results as they come.

    Starts Spark if it does not run. Raises EngineError and PackageMissing if it cannot be started, PipelineFailed if a task was lost, and
    StatementCancelled once ``stopped`` is set; then the tasks that run are ended.
    """
    if not tasks:
        return
    context = spark.start_session(master).sparkContext
    group = f"auditor-copy-{uuid.uuid4().hex}"

    def run(task: Task) -> Result:
        context.setJobGroup(group, "auditor bootstrap", interruptOnCancel=True)
        try:
            results: list[Result] = context.parallelize([task], 1).map(function).collect()
        except Exception as error:  # of Python or of Java
            raise spark.translate(error) from error
        return results[0]

    most = min(len(tasks), context.defaultParallelism, at_once or len(tasks))
    with ThreadPoolExecutor(most, thread_name_prefix="copies") as pool:
        pending = {pool.submit(run, task) for task in tasks}
        try:
            while pending:
                done, pending = wait(pending, durations().spread_poll, FIRST_COMPLETED)
                if stopped.is_set():
                    raise StatementCancelled
                for future in done:
                    yield future.result()
        finally:
            for future in pending:
                future.cancel()
            if pending:
                context.cancelJobGroup(group)
