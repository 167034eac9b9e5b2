"""Sums that are kept of the files of Iceberg tables: equal to full scans at every snapshot, and read only for files that are new."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.manifest import DataFileContent

from auditor.config import Settings
from auditor.model import FilesRead, Report, Side
from auditor.service import running
from auditor.store import Store, open_store
from tests import icebergs
from tests.file_histories import WAYS, assert_as_scanned, follow
from tests.iceberg_history import IcebergHistory, Version
from tests.live import Engines
from tests.servers import s3

pytestmark = pytest.mark.iceberg


POSITIONS, EQUALITY = DataFileContent.POSITION_DELETES, DataFileContent.EQUALITY_DELETES


def rows_of(first: int, end: int, word: str = "word") -> pa.Table:
    numbers = range(first, end)
    return pa.table({"id": pa.array(numbers, pa.int64()), "word": pa.array([f"{word} {n}" for n in numbers], pa.string())})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(f"sqlite:///{tmp_path}/store.db")) as opened:
        yield opened


class Lake:
    """A catalogue with a table, and an audit of its snapshots with kept sums."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.folder, self.store = folder, store
        self.table = icebergs.make(folder, "sales.t", rows_of(0, 0), properties={"format-version": "2"})
        self.url = icebergs.url_of(folder, "sales")

    def run(self, before: int | None = None, **overrides: Any) -> Report:
        """Compare a snapshot, or the current one, with the current one."""
        sides: dict[str, Any] = {side: {"connection": "lake", "table": "t"} for side in ("source", "target")}
        if before is not None:
            sides["source"]["version"] = before
        audit = {**sides, "key": ["id"], "files": "kept", "partition": {"size": 64}}
        settings = {"connections": {"lake": {"url": self.url}}, "audits": {"t": audit}}
        return running.run_audit(Settings.model_validate(settings), "t", store=self.store, overrides=overrides)

    def files(self) -> list[Path]:
        """Return the files of rows, the oldest first."""
        return [Path(path.removeprefix("file://")) for path in icebergs.data_files(self.table)]

    def now(self) -> int:
        number = self.table.refresh().metadata.current_snapshot_id
        assert number is not None
        return number


@pytest.fixture
def lake(tmp_path: Path, store: Store) -> Lake:
    return Lake(tmp_path, store)


def read(report: Report) -> dict[Side, tuple[int, int, int]]:
    """Return how many files each side has, how many were read, and for how many deleted rows were."""
    return {side: (files.files, files.read, files.hidden) for side, files in report.files.items()}


def spoil(path: Path) -> None:
    """Let the content of a file be zeros, with its size and times as they are."""
    state = path.stat()
    path.write_bytes(bytes(state.st_size))
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def follow_history(folder: Path, store: Store, seed: int, count: int, **more: Any) -> tuple[int, int]:
    """Compare so many snapshots of a random table with full scans; return files there were and were read."""
    history = IcebergHistory(folder, random.Random(seed))

    def compare(older: int, newest: int) -> dict[Side, FilesRead]:
        found: dict[Side, Version] = {"source": history.versions[older], "target": history.versions[newest]}
        numbers = {side: version.number for side, version in found.items()}
        rows = {side: version.rows for side, version in found.items()}
        return assert_as_scanned(icebergs.url_of(folder, "sales"), store, numbers, rows=rows, **more)

    return follow(history, count, compare)


@pytest.mark.parametrize("way", [0, *(pytest.param(way, marks=pytest.mark.slow) for way in (1, 2, 3))])
def test_sums_are_those_of_a_scan_at_random_snapshots(tmp_path: Path, store: Store, way: int) -> None:
    there, seen = follow_history(tmp_path, store, way, 8, **WAYS[way])
    assert 0 < seen < there


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(20))
def test_sums_are_those_of_a_scan_at_a_thousand_snapshots(tmp_path: Path, store: Store, seed: int) -> None:
    there, seen = follow_history(tmp_path, store, 100 + seed, 50, **WAYS[seed % len(WAYS)])
    assert 0 < seen < there


# what is read


def test_only_new_files_are_read_and_a_compaction_proves_itself(lake: Lake) -> None:
    for first in (0, 300, 600):
        lake.table.append(rows_of(first, first + 300))
    before = lake.now()
    found = lake.run(before)
    assert found.verdict == "match" and read(found) == {"source": (3, 3, 0), "target": (3, 0, 0)}
    assert found.plan and f'target: snapshot {before} of "t" is read' in found.plan.notes
    lake.table.overwrite(rows_of(0, 900))
    compacted = lake.run(before)
    assert compacted.verdict == "match" and read(compacted) == {"source": (3, 0, 0), "target": (1, 1, 0)}
    lake.table.append(rows_of(900, 905))
    changed = lake.run(before)
    assert changed.differences and changed.differences.extra == 5 and read(changed)["target"] == (2, 1, 0)
    assert changed.comparison and changed.comparison.rows == {"source": 900, "target": 905}
    again = lake.run(before)
    assert read(again) == {"source": (3, 0, 0), "target": (2, 0, 0)} and again.verdict == "mismatch"


def test_deletes_are_read_once_and_without_the_files_that_they_leave_alone(lake: Lake) -> None:
    for first in (0, 100, 200, 300):
        lake.table.append(rows_of(first, first + 100))
    before = lake.now()
    assert lake.run().verdict == "match"
    old = lake.files()
    rows = icebergs.positions([(f"file://{old[0]}", 3), (f"file://{old[1]}", 4)])
    icebergs.commit(lake.table, deletes=[icebergs.write_file(lake.table, rows, POSITIONS)])
    spoiled = max(old[2:])  # of the files of one form the least is opened
    content = spoiled.read_bytes()
    spoil(spoiled)
    hidden = lake.run()
    assert hidden.verdict == "match" and hidden.comparison and hidden.comparison.rows["target"] == 398
    assert read(hidden) == {"source": (4, 0, 4), "target": (4, 0, 0)}, "the second side has what the first one read"
    assert read(lake.run()) == {"source": (4, 0, 0), "target": (4, 0, 0)}
    state = spoiled.stat()
    spoiled.write_bytes(content)
    os.utime(spoiled, ns=(state.st_atime_ns, state.st_mtime_ns))
    gone = icebergs.with_ids(pa.table({"id": pa.array([5, 4000], pa.int64())}), (1,))
    icebergs.commit(lake.table, deletes=[icebergs.write_file(lake.table, gone, EQUALITY, equality_ids=[1])])
    found = lake.run(before)
    assert found.differences and found.differences.missing == 3 and read(found)["target"] == (4, 0, 4)
    lake.table.append(rows_of(400, 401))
    later = lake.run(before)
    assert later.differences and later.differences.extra == 1 and read(later)["target"] == (5, 1, 0)


def test_files_that_were_replaced_or_are_gone(lake: Lake) -> None:
    lake.table.append(rows_of(0, 100))
    before = lake.now()
    assert lake.run().verdict == "match"
    [path] = lake.files()
    content = path.read_bytes()
    other = icebergs.write_file(lake.table, icebergs.with_ids(rows_of(0, 100, "lord"), (1, 2)))
    path.write_bytes(Path(other.file_path.removeprefix("file://")).read_bytes())
    replaced = lake.run(before)
    assert read(replaced)["source"] == (1, 1, 0), "its time is another"
    path.unlink()
    missing = lake.run()
    assert missing.exit_code == 2 and "which is not there any more; expire_snapshots deletes files" in missing.reasons[0]
    path.write_bytes(content)
    assert lake.run().verdict == "match"


@pytest.mark.slow
def test_tables_in_s3(lake: Lake, engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = engines.companion("s3", s3.start).url
    for name, value in {"ACCESS_KEY_ID": "tests", "SECRET_ACCESS_KEY": "tests", "REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    boto3.client("s3", region_name="us-east-1", endpoint_url=endpoint).create_bucket(Bucket="iceberg-sums")
    options = {
        "type": "sql", "uri": f"sqlite:///{lake.folder}/s3.db", "warehouse": "s3://iceberg-sums/lake", "s3.endpoint": endpoint,
        "s3.region": "us-east-1",
    }  # fmt: skip
    catalog = load_catalog("default", **options)
    catalog.create_namespace("sales")
    lake.table = catalog.create_table("sales.t", schema=rows_of(0, 0).schema)
    lake.url = "iceberg://default/sales?" + "&".join(f"{name}={value}" for name, value in options.items())
    lake.table.append(rows_of(0, 50))
    lake.table.append(rows_of(50, 100))
    assert read(lake.run()) == {"source": (2, 2, 0), "target": (2, 0, 0)}
    lake.table.append(rows_of(100, 101))
    found = lake.run()
    assert found.verdict == "match" and read(found) == {"source": (3, 1, 0), "target": (3, 0, 0)}
    boto3.client("s3", region_name="us-east-1", endpoint_url=endpoint).delete_object(
        Bucket="iceberg-sums", Key=icebergs.data_files(lake.table)[0].removeprefix("s3://iceberg-sums/")
    )
    assert "which is not there any more" in lake.run().reasons[0]
