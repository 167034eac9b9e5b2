"""A standalone cluster of Spark on this machine: a master and two workers, and a Spark Connect server, each a process of Java.

All are in the package pyspark, which has no scripts to start them.
https://spark.apache.org/docs/latest/spark-standalone.html
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import dialects
from dialects.spark import java
from tests.servers.process import free_port

PATIENCE = 300.0
"""Seconds that a process may take to be ready."""

SMALL = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmn32m"


@contextmanager
def cluster(directory: Path, settings: Mapping[str, str]) -> Iterator[str]:
    """Run a master and two workers of one core each for the block, and yield the master's URL.

    ``settings`` are for all of them, and for the executors: those of spark-defaults.conf in the folder ``conf``.
    """
    port, master = free_port(), "org.apache.spark.deploy.master.Master"
    write_settings(directory, settings)
    command = [master, "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    url = f"spark://127.0.0.1:{port}"
    with _process(directory, "master", ["spark-class", *command], "Starting Spark master at"):
        worker = ["spark-class", "org.apache.spark.deploy.worker.Worker", url, "--host", "127.0.0.1", "-c", "1", "-m", "700m"]
        ready = "Successfully registered with master"
        with (
            _process(directory, "worker1", [*worker, "--webui-port", "0", "-d", str(directory / "work1")], ready),
            _process(directory, "worker2", [*worker, "--webui-port", "0", "-d", str(directory / "work2")], ready),
        ):
            yield url


@contextmanager
def connect_server(directory: Path, master: str, home: Path | None = None, memory: str = "500m") -> Iterator[str]:
    """Run a Spark Connect server on a cluster, or at ``local[N]``, for the block, and yield its URL.

    ``home`` is the folder of a package pyspark, by default of the installed one.
    """
    port = free_port()
    options = {"spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": str(port)}
    command = ["spark-submit", "--master", master, "--driver-memory", memory]
    command += [part for name, value in options.items() for part in ("--conf", f"{name}={value}")]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    with _process(directory, "connect", command, "Spark Connect server started", home):
        yield f"sc://127.0.0.1:{port}?connect_timeout={PATIENCE:g}"


def environment(directory: Path, home: Path | None = None) -> dict[str, str]:
    """Return the environment of a process that uses the cluster whose settings are in this directory; ``home`` as above."""
    import pyspark

    package = str(Path(dialects.__file__).parents[1])  # of the tests' own checkout, wherever an executor runs
    own = {
        "JAVA_HOME": str(java.find_java_home(directory)[0]), "SPARK_HOME": str(home or Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "127.0.0.1", "SPARK_CONF_DIR": str(directory / "conf"),
        "SPARK_LOCAL_DIRS": str(directory), "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": package,
    }  # fmt: skip
    return {**os.environ, **own}


def write_settings(directory: Path, settings: Mapping[str, str]) -> None:
    """Write what all processes of this directory are set up with, small unless ``settings`` say otherwise."""
    conf = directory / "conf"
    conf.mkdir()
    small = {
        "spark.executor.memory": "460m", "spark.executor.extraJavaOptions": SMALL, "spark.driver.memory": "500m",
        "spark.ui.enabled": "false", "spark.driver.extraJavaOptions": SMALL, "spark.ui.showConsoleProgress": "false",
    }  # fmt: skip
    (conf / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in {**small, **settings}.items()))


@contextmanager
def _process(directory: Path, name: str, command: list[str], ready: str, home: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command of Spark for the block, which begins once its log says that it is ready."""
    log, found = directory / f"{name}.log", environment(directory, home)
    if command[0] == "spark-class":  # spark-submit would take it for that of a Connect server, too
        found |= {"SPARK_DAEMON_MEMORY": "128m", "SPARK_DAEMON_JAVA_OPTS": SMALL}
    with log.open("wb") as output:
        script = str(Path(found["SPARK_HOME"], "bin", command[0]))
        process = subprocess.Popen([script, *command[1:]], env=found, stdout=output, stderr=output, cwd=directory)
    try:
        until = time.monotonic() + PATIENCE
        while ready not in log.read_text():
            assert process.poll() is None and time.monotonic() < until, log.read_text()[-2000:]
            time.sleep(0.2)
        yield process
    finally:
        process.terminate()
        process.wait()
