"""Programs that read topics by Spark's own Kafka connector: of its jars, which scripts/kafka.sh fetches, and in a process of their own.

A session of this process has no such jars, and cannot get them once its Java runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.servers.kafka import CACHE
from tests.servers.process import Unavailable
from tests.servers.spark import COMPILES_QUICKLY

JARS = CACHE / "kafka-spark"

BEGINNING = """\
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.bindAddress", "127.0.0.1")
spark = builder.config("spark.sql.shuffle.partitions", "4").config("spark.driver.memory", "2g").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
"""


def run_program(program: str, folder: Path, *arguments: str) -> str:
    """Run a program that finds a session in ``spark``; return what it wrote to standard output. Raises Unavailable."""
    jars = [str(jar) for jar in JARS.glob("*.jar")]
    if not jars:
        raise Unavailable("Spark's Kafka connector is not here: run scripts/kafka.sh, which needs Maven")
    environment = {
        **os.environ,
        **COMPILES_QUICKLY,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder),
        "PYSPARK_SUBMIT_ARGS": f"--jars {','.join(jars)} pyspark-shell",
    }
    done = subprocess.run(
        [sys.executable, "-c", BEGINNING + program, *arguments], cwd=folder, env=environment, text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout
