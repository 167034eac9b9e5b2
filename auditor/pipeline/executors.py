"""Check what a pipeline needs of the executors of its Spark: Python, packages, the configuration, and the staging's folder."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dialects
from auditor.config import Settings
from auditor.connections.writer import writing_dialect
from auditor.errors import AuditorError, ConfigError, StagingFailed
from auditor.pipeline import spark
from auditor.pipeline.staged_parts import make_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES = {
    "auditor": "auditor", "numpy": "numpy", "pandas": "pandas", "pyarrow": "pyarrow", "pydantic": "pydantic", "pymysql": "pymysql",
    "yaml": "pyyaml", "sqlglot": "sqlglot",
}  # fmt: skip
"""What all tasks import, and what pip calls it. Tasks that load a target side by side import its driver, too."""

MARKER = ".reached"
"""The file by which an executor finds out whether it sees the driver's folder."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What an executor must have, as JSON values: it travels to hosts that may lack this package."""

    python: str
    packages: Mapping[str, str]
    """The driver's versions, by the names that are imported."""
    config: str
    root: str
    marker: str
    """What the marker file must contain."""


def check_executors(settings: Settings, config_file: Path, name: str) -> list[str]:
    """Return what the executors lack, a sentence each; starts Spark. Raises AuditorError if it cannot be started or asked."""
    pipeline = settings.pipeline(name)
    root = Path(pipeline.staging.path)
    session = spark.start_session(pipeline.master)
    make_folder(root)
    marker = root / MARKER
    try:
        marker.write_text(f"of pipeline {name}")
        packages = {**PACKAGES, **_drivers(settings, name)}
        versions = {one: str(import_module(one).__version__) for one in packages}
        needs = Needs(f"{sys.version_info[0]}.{sys.version_info[1]}", versions, str(config_file), str(root), marker.read_text())
        answers = _ask(session, _questions(needs))
    except OSError as error:
        raise StagingFailed(f"the staging's folder {root} cannot be written: {error.strerror}; correct staging: path") from error
    finally:
        marker.unlink(missing_ok=True)
    return list(dict.fromkeys(sentence for answer in answers for sentence in judge(needs, answer)))


def judge(needs: Needs, answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield what an executor lacks that gave this answer."""
    host, packages = f"the executor on {answer['host']}", answer["packages"]
    if answer["python"] != needs.python:
        yield f"{host} runs Python {answer['python']}, and the driver {needs.python}; set PYSPARK_PYTHON to the same version there"
    missing = [name for name in needs.packages if packages.get(name) is None]
    if missing:
        yield f"{host} lacks the packages {', '.join(missing)}; run there: pip install {' '.join(map(_pip_name, missing))}"
    for name, version in needs.packages.items():
        if packages.get(name) not in (None, version):
            yield f"{host} has {name} {packages[name]}, and the driver {version}; install the same version there"
    if answer["marker"] != needs.marker:
        reason = answer["marker_error"] or "another folder is there"
        yield f"{host} does not see the driver's staging folder {needs.root} ({reason}); give staging: path a folder that all hosts share"
    elif answer["write_error"]:
        yield f"{host} cannot write into the staging's folder {needs.root}: {answer['write_error']}; correct its owner or its mode"
    if answer["config_error"] and "auditor" not in missing:
        yield f"{host} cannot load {needs.config}: {answer['config_error']}; put it there, with the environment variables that it names"


def _questions(needs: Needs) -> Callable[[int], str]:
    """Return the function that an executor runs. It travels by value, and needs nothing but Python there."""
    names, root, config_file, marker_name = list(needs.packages), needs.root, needs.config, MARKER

    def answer(number: int) -> str:
        import json
        import socket
        import sys
        from importlib import import_module
        from pathlib import Path

        def attempt(work: Callable[[], Any]) -> tuple[Any, str]:
            try:
                return work(), ""
            except Exception as error:
                return None, str(error) or type(error).__name__

        def write() -> None:
            probe = Path(root) / f".probe-{socket.gethostname()}-{number}"
            probe.write_text("a task wrote this")
            probe.unlink()

        def version(name: str) -> Callable[[], str]:
            return lambda: str(import_module(name).__version__)

        def load() -> None:
            from auditor import config

            config.load(Path(config_file))

        marker, marker_error = attempt((Path(root) / marker_name).read_text)
        return json.dumps(
            {
                "host": socket.gethostname(),
                "python": f"{sys.version_info[0]}.{sys.version_info[1]}",
                "packages": {name: attempt(version(name))[0] for name in names},
                "marker": marker,
                "marker_error": marker_error,
                "write_error": attempt(write)[1],
                "config_error": attempt(load)[1],
            }
        )

    return answer


def _ask(session: SparkSession, answer: Callable[[int], str]) -> list[dict[str, Any]]:
    """Return the answers of the executors, of as many tasks as they have cores. Raises AuditorError."""
    context = session.sparkContext
    count = context.defaultParallelism
    try:
        return [json.loads(text) for text in context.parallelize(range(count), count).map(answer).collect()]
    except Exception as error:  # of Python or of Java
        if found := re.search(r"\[PYTHON_VERSION_MISMATCH\] (.+)", str(error)):  # a worker says so before it reads the function
            raise ConfigError(f"{found[1]} Set PYSPARK_PYTHON to the same version on all hosts") from error
        raise spark.translate(error) from error


def _drivers(settings: Settings, name: str) -> dict[str, str]:
    """Return the drivers of targets that tasks load; one that cannot be loaded is reported by the check of targets."""
    found: dict[str, str] = {}
    for target in settings.pipeline(name).targets.values():
        with suppress(AuditorError):
            dialect = writing_dialect(target.connection, settings.connections[target.connection])
            found |= dialect.DRIVERS if dialect.LOADS == "side by side" else dialect.FILE_PACKAGES
    return found


def _pip_name(module: str) -> str:
    """Return what pip calls a package that tasks import."""
    drivers = ({**engine.DRIVERS, **engine.FILE_PACKAGES} for engine in dialects.working())
    return PACKAGES.get(module) or next(found[module] for found in drivers if module in found)
