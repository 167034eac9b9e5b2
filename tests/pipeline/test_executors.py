"""What a pipeline finds out of the executors of its Spark before it runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from auditor.errors import ConfigError, PackageMissing, StagingFailed, StagingFull
from auditor.pipeline.executors import MARKER, Needs, check_executors, find_open_ways, judge
from auditor.pipeline.spark import on_executors, start_session, translate
from dialects import extras
from tests.live import Engines
from tests.pipeline.road import PIPELINE, Road

NEEDS = Needs("3.11", {"auditor": "0.1.0", "pyarrow": "26.0.1"}, "/etc/auditor.yaml", "/staging", "of pipeline shop")
GOOD = {
    "host": "worker-1", "python": "3.11", "packages": dict(NEEDS.packages), "marker": "of pipeline shop", "marker_error": "",
    "write_error": "", "config_error": "",
}  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ({}, ""),
        ({"python": "3.9"}, "the executor on worker-1 runs Python 3.9, and the driver 3.11; set PYSPARK_PYTHON to the same version there"),
        (
            {"packages": {"auditor": None, "pyarrow": None}, "config_error": "No module named 'auditor'"},
            "the executor on worker-1 is missing the packages auditor, pyarrow; run there: pip install auditor pyarrow",
        ),
        ({"packages": {"auditor": "0.1.0", "pyarrow": "1"}}, "the executor on worker-1 has pyarrow 1, and the driver 26.0.1; install the"),
        (
            {"marker": None, "marker_error": "No such file", "write_error": "No such file"},
            "the executor on worker-1 does not see the driver's staging folder /staging (No such file); give staging: path a folder",
        ),
        ({"marker": "of another"}, "the executor on worker-1 does not see the driver's staging folder /staging (another folder is there)"),
        ({"write_error": "Permission denied"}, "the executor on worker-1 cannot write into the staging's folder /staging: Permission"),
        ({"config_error": "$URL is not set"}, "the executor on worker-1 cannot load /etc/auditor.yaml: $URL is not set; put it"),
    ],
)  # fmt: skip
def test_each_thing_that_an_executor_lacks_has_its_sentence(answer: dict[str, Any], sentence: str) -> None:
    assert [one[: len(sentence)] for one in judge(NEEDS, {**GOOD, **answer})] == ([sentence] if sentence else [])


@pytest.mark.slow
@pytest.mark.spark
def test_executors_of_this_process_lack_nothing_but_a_folder_that_they_reach(
    engines: Engines, tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines.live("spark")
    road = Road(tmp_path, f"duckdb:///{tmp_path}/warehouse.duckdb", empty_store)
    assert check_executors(road.settings, road.config_file, PIPELINE) == []
    assert not (road.root / MARKER).exists() and list(road.root.iterdir()) == []
    unreadable = tmp_path / "gone.yaml"
    [sentence] = check_executors(road.settings, unreadable, PIPELINE)
    assert f"cannot load {unreadable}: {unreadable} cannot be read" in sentence
    context = start_session("local[2]").sparkContext
    with (
        monkeypatch.context() as patched,
        pytest.raises(ConfigError, match=r"(?s)3\.9.*Set PYSPARK_PYTHON to the same version"),
    ):
        patched.setattr(context, "pythonVer", "3.9")
        check_executors(road.settings, road.config_file, PIPELINE)
    road.root.rmdir()
    road.root.write_text("a file where the folder should be")
    with pytest.raises(StagingFailed, match=f"the staging's folder {road.root} cannot be created"):
        check_executors(road.settings, road.config_file, PIPELINE)
    road.root.unlink()
    road.close()


def test_what_this_python_lacks_is_said_before_spark_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extras.MODULES, "pipeline", ("pandas", "pandas_of_nobody"))
    with pytest.raises(PackageMissing, match=r"a pipeline needs pandas_of_nobody, which this Python does not have; run: "):
        start_session("local[2]")


OPEN = (
    "customers has masked columns, whose salt tasks get, and Spark does not encrypt what it sends to executors; set spark.authenticate true"
)
CHANNEL = "customers has masked columns, whose salt tasks get, and the way to connect.shop is not encrypted; add ?use_ssl=true to master"
SAFE = {"spark.authenticate": "true", "spark.network.crypto.enabled": "TRUE"}


@pytest.mark.parametrize(
    ("master", "settings", "sentences"),
    [
        ("local[2]", {}, []),
        ("spark://host:7077", {}, [OPEN]),
        ("spark://host:7077", {"spark.authenticate": "true"}, [OPEN]),
        ("spark://host:7077", SAFE, []),
        ("sc://connect.shop", SAFE, [CHANNEL]),
        ("sc://connect.shop?use_ssl=true&token=t", SAFE, []),
        ("sc://localhost", {}, [OPEN]),
    ],
)
def test_a_salt_is_not_sent_so_that_others_can_read_it(master: str, settings: dict[str, str], sentences: list[str]) -> None:
    session: Any = SimpleNamespace(conf=SimpleNamespace(get=settings.get))
    found = find_open_ways(session, master, "customers")
    assert [one[: len(sentence)] for one, sentence in zip(found, sentences, strict=True)] == sentences


def test_an_error_of_a_worker_is_named_by_its_last_line() -> None:
    text = "An exception was thrown from the Python worker. Please see the stack trace below.\nTraceback (most recent call last):\n{}\n"
    missing = translate(
        RuntimeError(text.format("ModuleNotFoundError: No module named 'auditor'\n\tat org.apache.spark.Task.run(Task.java)"))
    )
    assert str(missing) == "Spark ended the batch: ModuleNotFoundError: No module named 'auditor'"
    full = translate(RuntimeError(text.format("auditor.errors.StagingFull: the disk of the staging's folder /s is full")))
    assert isinstance(full, StagingFull) and str(full) == "the disk of the staging's folder /s is full"


class PartitionedList(list[Any]):
    """What a SparkContext makes of a list, and notes into how many partitions."""

    partitions: ClassVar[list[int]] = []
    defaultParallelism = 8

    def parallelize(self, tasks: list[Any], partitions: int) -> PartitionedList:
        self.partitions.append(partitions)
        return PartitionedList(tasks)

    def map(self, function: Callable[[Any], Any]) -> PartitionedList:
        return PartitionedList(map(function, self))

    def collect(self) -> list[Any]:
        return self


@pytest.mark.parametrize(("tasks", "partitions"), [(1, 1), (3, 3), (32, 32), (33, 32), (1000, 32)])
def test_many_tasks_are_few_of_sparks_and_return_in_order(tasks: int, partitions: int) -> None:
    spark: Any = SimpleNamespace(sparkContext=PartitionedList())
    assert on_executors(spark)(str, range(tasks)) == [str(number) for number in range(tasks)]
    assert PartitionedList.partitions.pop() == partitions
