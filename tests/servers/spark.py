"""Spark in this process, with its own Java process: nothing runs until a session is opened.

Starting means to set the environment that every session of this process then finds: a Java, this very Python
for its workers (PATH's own lacks our packages), loopback addresses, small sizes, a foreign time zone, and a private
directory for whatever Spark writes. The Java process compiles quickly rather than well: tests run each statement once or twice. What it
compiled it keeps: the 48 MB that it has for that otherwise are full after some hundred statements, and then it sweeps and compiles again.
"""

from __future__ import annotations

import os
import shutil
import sys
from importlib.metadata import version
from pathlib import Path

from dialects.errors import DriverMissing
from dialects.spark import java
from tests.servers.process import Server, Unavailable, own_directory

URL = "spark://local?master=local[2]&spark.sql.shuffle.partitions=2"
# https://spark.apache.org/docs/latest/configuration.html
_DEFAULTS = """\
spark.driver.memory            2g
spark.driver.bindAddress       127.0.0.1
spark.driver.host              127.0.0.1
spark.driver.extraJavaOptions  -Dderby.system.home={home} {java}
spark.sql.session.timeZone     America/New_York
spark.sql.warehouse.dir        {home}/warehouse
spark.ui.enabled               false
spark.ui.showConsoleProgress   false
spark.python.authenticate.socketTimeout  5s
"""
COMPILES_QUICKLY = {
    "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1",
    "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""Variables with which every Java process that a test starts, itself or in another process, compiles quickly rather than well: Spark starts
in half the time. The second one is for the process that composes Spark's command."""

_JAVA = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -Xmn450m -XX:MetaspaceSize=256m"
_LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""


def start(directory: Path) -> Server:
    """Prepare Spark, or raise Unavailable."""
    home = own_directory(directory, "spark")
    try:
        java_home, origin = java.find_java_home(home)
    except DriverMissing as error:
        raise Unavailable(str(error)) from error
    conf = home / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(_DEFAULTS.format(home=home, java=_JAVA))
    (conf / "log4j2.properties").write_text(_LOGGING)
    environment = {
        "JAVA_HOME": str(java_home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_CONF_DIR": str(conf),
        "SPARK_LOCAL_DIRS": str(home),
    }
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)

    def stop() -> None:
        _end_session()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        shutil.rmtree(home, ignore_errors=True)

    return Server(url=URL, version=version("pyspark"), how=f"in process, {origin}", stopper=stop)


def _end_session() -> None:
    """Spark removes its own files before the directory goes; the Java process ends with this one."""
    if "pyspark" in sys.modules:
        from pyspark import SparkContext

        if SparkContext._active_spark_context is not None:
            SparkContext._active_spark_context.stop()
