"""Sums that are kept of immutable files: equal to full scans at every version of a table, and read only for files that are new."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.fs import DeltaStorageHandler
from pydantic import ValidationError
from sqlalchemy import select, update

from auditor.config import Audit, ConnectionSettings, Settings
from auditor.model import FilesRead, Plan, Report, Side
from auditor.report import json as report_json
from auditor.report import render
from auditor.report.sentences import files_expected
from auditor.run import audit_run, file_summaries
from auditor.service import planning, running
from auditor.store import Store, open_store
from auditor.store.file_sums import KeptFileSums, file_sums
from tests.delta_history import History
from tests.file_histories import WAYS, assert_as_scanned, follow
from tests.lake import open_writable
from tests.live import Engines
from tests.servers import s3

pytestmark = pytest.mark.delta

SIDES = {"source": "p", "target": "q"}
"""Tables by side."""


def rows_of(first: int, end: int, word: str = "word") -> pa.Table:
    numbers = range(first, end)
    return pa.table(
        {"id": pa.array(numbers, pa.int64()), "word": [f"{word} {n}" for n in numbers], "secret": [f"{n % 7}" for n in numbers]}
    )


class Lake:
    """A folder of Delta tables, a store, and audits with kept sums."""

    def __init__(self, root: Path, store: Store) -> None:
        self.root, self.store, self.s3 = root, store, ""
        self.audits: dict[str, Any] = {}
        self.audit("words", {"table": "a"}, {"table": "b"})

    def audit(self, name: str, source: Any, target: Any, **more: Any) -> None:
        sides = {side: {"connection": "lake", **table} for side, table in (("source", source), ("target", target))}
        self.audits[name] = {**sides, "key": ["id"], "files": "kept", **more}

    def write(self, table: str, *ranges: tuple[int, int], word: str = "word") -> None:
        for first, end in ranges:
            write_deltalake(self.root / table, rows_of(first, end, word), mode="append")

    def run(self, name: str = "words", **overrides: Any) -> Report:
        return running.run_audit(self.settings(), name, store=self.store, overrides=overrides)

    def settings(self) -> Settings:
        urls = {"lake": f"delta://{self.root}", "p": f"parquet://{self.root}", "s3": self.s3}
        settings = {"connections": {name: {"url": url} for name, url in urls.items() if url}, "audits": self.audits}
        return Settings.model_validate(settings)

    def plan(self, name: str = "words") -> Plan:
        settings = self.settings()
        return planning.make_plan(settings, name, settings.audits[name], self.store)

    def files(self, table: str) -> list[Path]:
        return sorted((self.root / table).glob("*.parquet"), key=lambda path: path.name)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    root = tmp_path / "lake"
    root.mkdir()
    with closing(open_store(f"sqlite:///{tmp_path}/store.db")) as store:
        yield Lake(root, store)


def read(report: Report) -> dict[Side, tuple[int, int, int]]:
    """Return how many files each side has, how many were read, and for how many deleted rows were."""
    return {side: (files.files, files.read, files.hidden) for side, files in report.files.items()}


def note_opened(opened: list[str], open_file: Any) -> Any:
    """Return what opens files of object stores, and notes which."""

    def noting(self: Any, path: str) -> Any:
        opened.append(path)
        return open_file(self, path)

    return noting


def overwrite(path: Path, content: Callable[[bytes], bytes]) -> None:
    """Change the content of a file whose size and time stay as they are."""
    state = path.stat()
    path.write_bytes(content(path.read_bytes()))
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert path.stat().st_size == state.st_size


def without_rows(content: bytes) -> bytes:
    """Return a Parquet file with zeros in place of the rows' bytes: its end says what its columns are."""
    end = int.from_bytes(content[-8:-4], "little") + 8
    return content[:4] + bytes(len(content) - end - 4) + content[-end:]


# at every version


def follow_history(root: Path, store: Store, seed: int, count: int, **more: Any) -> tuple[int, int]:
    """Compare so many versions of a random table with full scans; return files there were and were read."""

    def compare(older: int, newest: int) -> dict[Side, FilesRead]:
        return assert_as_scanned(f"delta://{root}", store, {"source": older, "target": newest}, **more)

    return follow(History(root / "t", random.Random(seed)), count, compare)


@pytest.mark.parametrize("way", [0, *(pytest.param(way, marks=pytest.mark.slow) for way in (1, 2)), 3])
def test_sums_are_those_of_a_scan_at_random_versions(tmp_path: Path, way: int) -> None:
    with closing(open_store(f"sqlite:///{tmp_path}/store.db")) as store:
        there, seen = follow_history(tmp_path, store, seed=way, count=5, **WAYS[way])
    assert 0 < seen < there


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(20))
def test_sums_are_those_of_a_scan_at_a_thousand_versions(tmp_path: Path, seed: int) -> None:
    with closing(open_store(f"sqlite:///{tmp_path}/store.db")) as store:
        there, seen = follow_history(tmp_path, store, seed=100 + seed, count=50, **WAYS[seed % len(WAYS)])
    assert 0 < seen < there


# what is read


def test_only_new_files_are_read_and_a_compaction_proves_itself(lake: Lake) -> None:
    lake.write("a", (0, 900))
    lake.write("b", (0, 300), (300, 600), (600, 900))
    first = lake.run()
    assert first.verdict == "match" and read(first) == {"source": (1, 1, 0), "target": (3, 3, 0)}
    assert first.files["target"].why == "no sums were kept yet"
    assert first.plan and first.plan.notes.count('target: version 2 of "b" is read') == 1

    for path in lake.files("b")[1:]:  # of the first the columns' types are read
        overwrite(path, lambda content: bytes(len(content)))
    lake.write("a", (900, 910))
    lake.write("b", (900, 910))
    second = lake.run()
    assert second.verdict == "match" and read(second) == {"source": (2, 1, 0), "target": (4, 1, 0)}
    assert second.comparison and second.comparison.rows == {"source": 910, "target": 910}
    assert second.files["target"].read_bytes < second.files["target"].bytes
    third = lake.run()
    assert third.verdict == "match" and read(third) == {"source": (2, 0, 0), "target": (4, 0, 0)}


def test_versions_of_one_table_share_the_sums_of_its_files(lake: Lake) -> None:
    lake.write("t", (0, 400), (400, 800))
    before = DeltaTable(lake.root / "t").version()
    lake.audit("compaction", {"table": "t", "version": before}, {"table": "t"})
    DeltaTable(lake.root / "t").optimize.compact()
    proved = lake.run("compaction")
    assert proved.verdict == "match" and read(proved) == {"source": (2, 2, 0), "target": (1, 1, 0)}
    lake.write("t", (800, 803))
    DeltaTable(lake.root / "t").delete("id = 5")
    changed = lake.run("compaction")
    assert changed.differences and (changed.differences.missing, changed.differences.extra) == (1, 3)
    assert read(changed)["source"] == (2, 0, 0)
    again = lake.run("compaction")
    assert read(again) == {"source": (2, 0, 0), "target": (changed.files["target"].files, 0, 0)}


def test_new_deletes_are_read_without_the_other_rows(tmp_path: Path, lake: Lake) -> None:
    history = History(lake.root / "t", random.Random(1))
    history.create()
    lake.audit("deleted", {"table": "t", "version": 1}, {"table": "t"})
    assert lake.run("deleted").verdict == "match"
    history.delete()
    found = lake.run("deleted")
    assert read(found) == {"source": (1, 0, 0), "target": (1, 0, 1)}
    assert found.differences and found.differences.missing == len(next(iter(history.versions[-1][1].values())).hidden)
    assert read(lake.run("deleted"))["target"] == (1, 0, 0)


def test_a_plan_says_what_is_new_and_reads_nothing_of_it(tmp_path: Path, lake: Lake) -> None:
    history = History(lake.root / "a", random.Random(1))
    history.create()
    write_deltalake(lake.root / "b", rows_of(0, 100).drop_columns(["secret"]))
    lake.audit("words", {"table": "a"}, {"table": "b"}, partition={"rows": 64})
    [first, second] = [lake.plan().files[side] for side in ("source", "target")]
    assert (first.files, first.new, first.why, second.new) == (1, 1, "no sums were kept yet", 1)
    assert first.new_bytes == first.bytes == sum(path.stat().st_size for path in lake.files("a"))
    found = lake.run()
    planned = lake.plan()
    assert [(files.new, files.hidden, files.new_bytes, files.statements) for files in planned.files.values()] == [(0, 0, 0, 0)] * 2
    assert found.plan and planned.partitioning == found.plan.partitioning and planned.least == 0
    assert [cost.scan_statements for cost in planned.expected] == [0]

    history.delete()
    old = lake.files("b")
    write_deltalake(lake.root / "b", rows_of(100, 110).drop_columns(["secret"]), mode="append")
    [new] = [path for path in lake.files("b") if path not in old]
    overwrite(new, without_rows)
    planned = lake.plan()
    [first, second] = [planned.files[side] for side in ("source", "target")]
    assert (first.new, first.hidden, second.files, second.new, second.statements) == (0, 1, 2, 1, 1)
    assert second.new_bytes == new.stat().st_size < second.bytes
    assert files_expected(first).startswith("0 of 1 file is to be read, 1 more for rows that deletes hide (")
    assert files_expected(second).startswith("1 of 2 files are to be read (")
    assert report_json.plan(planned).files["target"].why is None
    assert lake.run().state == "failed", "a run reads it"


# whom to believe


def test_a_file_that_was_replaced_is_read_again(lake: Lake) -> None:
    lake.write("a", (0, 100))
    lake.write("b", (0, 100))
    assert lake.run().verdict == "match"
    write_deltalake(lake.root / "c", rows_of(0, 100, "lord"))
    [path], [other] = lake.files("b"), lake.files("c")
    content = other.read_bytes()
    assert len(content) == path.stat().st_size
    path.write_bytes(content)  # which has another time
    found = lake.run()
    assert found.differences and found.differences.changed == 100 and read(found)["target"] == (1, 1, 0)


def test_a_rescan_names_files_that_were_replaced_without_a_trace(lake: Lake) -> None:
    lake.write("a", (0, 100))
    lake.write("b", (0, 100))
    assert lake.run().verdict == "match"
    write_deltalake(lake.root / "c", rows_of(0, 100, "lord"))
    [path], [other] = lake.files("b"), lake.files("c")
    overwrite(path, lambda _: other.read_bytes())
    trusting = lake.run()
    assert trusting.verdict == "match" and read(trusting)["target"] == (1, 0, 0)
    assert "a file of the same path, size and times of writing" in render.run(trusting, None, "markdown")
    found = lake.run(rescan=True)
    assert found.differences and found.differences.changed == 100
    assert f"target: 1 file holds other rows than when first read: {path.name}" in found.reasons
    assert not found.files["source"].changed and found.files["target"].why == "a rescan was asked for"
    assert lake.run().verdict == "mismatch"  # the sums are those of today's rows from here on


def test_a_rescan_is_due_after_the_time_that_the_audit_says(lake: Lake) -> None:
    lake.write("a", (0, 10))
    lake.write("b", (0, 10))
    assert lake.run().verdict == "match"
    lake.audit("words", {"table": "a"}, {"table": "b"}, rescan="1s")
    lake.store.write(
        lambda connection: connection.exec_driver_sql("UPDATE auditor_file_layouts SET proved_at = '2026-01-01 00:00:00.000000'") and None
    )
    due = lake.run()
    assert read(due)["target"] == (1, 1, 0) and due.files["target"].why.startswith("all files were last read at 2026-01-01 00:00:00 UTC")


@pytest.mark.parametrize("damage", ["body", *(pytest.param(what, marks=pytest.mark.slow) for what in ("check_sum", "another form"))])
def test_damaged_sums_are_read_again_and_said(lake: Lake, damage: str) -> None:
    lake.write("a", (0, 100))
    lake.write("b", (0, 50), (50, 100))
    assert lake.run().verdict == "match"
    [row, *_] = _stored(lake)
    values = {"body": {"body": row.body[:-1] + bytes([row.body[-1] ^ 1])}, "check_sum": {"check_sum": "0" * 64}}
    changed = values.get(damage) or {"body": row.body.replace(b'"form": 1', b'"form": 0')}
    lake.store.write(
        lambda connection: connection.execute(update(file_sums).where(file_sums.c.file == row.file).values(**changed)) and None
    )
    found = lake.run()
    assert found.verdict == "match" and sum(files.read for files in found.files.values()) == 1
    assert sum(files.damaged for files in found.files.values()) == 1
    assert sum(files.damaged for files in lake.run().files.values()) == 0


def test_sums_that_do_not_fit_each_other_are_read_again(lake: Lake) -> None:
    history = History(lake.root / "t", random.Random(2))
    history.create()
    history.delete()
    lake.audit("deleted", {"table": "t"}, {"table": "t"})
    assert lake.run("deleted").verdict == "match"
    kept = KeptFileSums(lake.store, "deleted")
    stored = _stored(lake)
    hidden, whole = (next(row for row in stored if bool(row.form) is has_form) for has_form in (False, True))
    kept.save(hidden.reading, [(hidden.file, "", whole.body)])  # with a checksum of its own: only their sum can tell
    kept.save(whole.reading, [(whole.file, whole.form, hidden.body)])
    found = lake.run("deleted")
    assert found.verdict == "match" and found.files["source"].why == "sums that were kept did not fit each other"


def test_another_version_of_the_algorithm_reads_all_again(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.write("a", (0, 10))
    lake.write("b", (0, 10))
    lake.run()
    monkeypatch.setattr(file_summaries, "VERSION", file_summaries.VERSION + 1)
    assert read(lake.run()) == {"source": (1, 1, 0), "target": (1, 1, 0)}


def test_audits_of_the_same_files_that_read_them_differently_share_nothing(lake: Lake) -> None:
    lake.write("a", (0, 100))
    write_deltalake(lake.root / "b", rows_of(0, 100).set_column(2, "secret", pa.array(["x"] * 100)))
    same = {"salt": "same", "partition": {"size": 16}}
    lake.audit("all", {"table": "a"}, {"table": "b"}, **same)
    lake.audit("some", {"table": "a"}, {"table": "b"}, columns={"exclude": ["secret"]}, **same)
    lake.audit("few", {"table": "a"}, {"table": "b"}, columns={"exclude": ["secret"]}, where="id < 20", **same)
    lake.audit("hidden", {"table": "a"}, {"table": "b"}, columns={"override": {"secret": {"mask": True}}}, **same)
    verdicts = {name: (found.verdict, read(found)["target"]) for name in lake.audits if name != "words" for found in [lake.run(name)]}
    assert verdicts == {
        "all": ("mismatch", (1, 1, 0)), "some": ("match", (1, 1, 0)), "few": ("match", (1, 1, 0)),
        "hidden": ("mismatch", (1, 0, 0)),  # a mask changes what is shown, and not what is summed
    }  # fmt: skip


def test_a_missing_file_fails_the_run_although_its_sums_are_kept(lake: Lake) -> None:
    lake.write("a", (0, 20))
    lake.write("b", (0, 10), (10, 20))
    assert lake.run().verdict == "match"
    lake.files("b")[0].unlink()
    found = lake.run()
    assert found.verdict == "unknown" and "which is not there any more; VACUUM deletes files" in found.reasons[0]


def test_a_table_made_again_is_another(lake: Lake) -> None:
    history = History(lake.root / "t", random.Random(5))
    history.create()
    lake.audit("again", {"table": "t"}, {"table": "t"})
    lake.run("again")
    history.create()
    path = lake.files("t")[0]
    os.utime(path, ns=(0, 0))
    assert read(lake.run("again"))["target"][:2] == (1, 0) and lake.run("again").files["source"].read == 0
    first = {row.file for row in _stored(lake)}
    history.create()
    os.utime(lake.files("t")[0], ns=(0, 0))
    lake.run("again")
    assert len({row.file for row in _stored(lake)} - first) == 1


def test_sums_begin_again_where_the_audit_asks_for_other_partitions(lake: Lake) -> None:
    lake.write("a", (0, 100))
    lake.write("b", (0, 100))
    lake.run()
    lake.audit("words", {"table": "a"}, {"table": "b"}, partition={"size": 10})
    found = lake.run()
    assert found.verdict == "match" and found.comparison and found.comparison.total == 10
    assert found.files["target"].why.startswith("the audit asks for other partitions than range of")
    lake.audit("words", {"table": "a"}, {"table": "b"}, partition={"rows": 30000})
    assert lake.run().files["target"].why == "the audit asks for partitions of about 30,000 rows in place of 3,072"
    assert read(lake.run())["target"] == (1, 0, 0)


def test_a_store_that_fails_does_not_change_what_a_run_finds(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    from auditor.errors import StoreError

    def fail(*_: object) -> None:
        raise StoreError("the disk is full")

    lake.write("a", (0, 10))
    lake.write("b", (0, 11))
    for name in ("forms", "load", "save"):
        monkeypatch.setattr(KeptFileSums, name, fail)
    found = lake.run()
    assert found.verdict == "mismatch" and "the sums of files are not kept: the disk is full" in found.notes


def test_a_run_that_is_not_stored_reads_all_files(lake: Lake) -> None:
    lake.write("a", (0, 10))
    lake.write("b", (0, 10))
    lake.run()
    audit = Audit.model_validate(lake.audits["words"])
    found = audit_run.run("words", audit, {"lake": ConnectionSettings(url=f"delta://{lake.root}")})
    assert found.verdict == "match" and not found.files and audit_run.FILES_NOT_STORED in found.notes


def test_reports_say_what_was_read(lake: Lake) -> None:
    lake.write("a", (0, 10))
    lake.write("b", (0, 10))
    lake.run()
    found = lake.run()
    assert "0 of 1 file was read (0 bytes of " in render.run(found, None, "markdown")
    [source, target] = report_json.report(found).files
    assert (source.side, target.side, target.files, target.read, target.why) == ("source", "target", 1, 0, None)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"method": "minhash"}, "files: kept needs sums, which the method minhash does not only use"),
        ({"rolling": {"per_run": 0.5}}, "files: kept and rolling cannot be combined"),
        ({"files": None, "rescan": "7d"}, "rescan belongs to summaries: live and to files: kept"),
    ],
)
def test_settings_that_sums_of_files_cannot_serve(lake: Lake, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        Audit.model_validate({**lake.audits["words"], **settings})


def test_tables_with_a_pointer(lake: Lake) -> None:
    with open_writable(f"parquet://{lake.root}") as session:
        session.execute("CREATE TABLE p AS SELECT i AS id, 'word ' || i AS word FROM range(100) AS r(i)")
        session.execute("CREATE TABLE q AS SELECT i AS id, 'word ' || i AS word FROM range(1, 100) AS r(i)")
    lake.audits["pointed"] = {**lake.audits["words"], **{side: {"connection": "p", "table": name} for side, name in SIDES.items()}}
    for expected in (1, 0):
        found = lake.run("pointed")
        assert found.differences and found.differences.missing == 1
        assert read(found) == {"source": (1, expected, 0), "target": (1, expected, 0)}


@pytest.mark.slow
def test_tables_in_s3(lake: Lake, engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = engines.companion("s3", s3.start).url
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"AWS_{name}", "tests")
    boto3.client("s3", region_name="us-east-1", endpoint_url=endpoint).create_bucket(Bucket="file-sums")
    options = {"aws_endpoint_url": endpoint, "aws_region": "us-east-1", "aws_allow_http": "true"}
    rows = rows_of(0, 20).set_column(1, "word", pa.array(["a/b [*]", "%2F", None, "x"] * 5))
    lake.s3 = "delta+s3://file-sums/lake?" + "&".join(f"{name}={value}" for name, value in options.items())
    lake.audits["remote"] = {**lake.audits["words"], **{side: {"connection": "s3", "table": name} for side, name in SIDES.items()}}
    opened: list[str] = []
    monkeypatch.setattr(DeltaStorageHandler, "open_input_file", note_opened(opened, DeltaStorageHandler.open_input_file))
    for table in SIDES.values():
        write_deltalake(f"s3://file-sums/lake/{table}", rows, partition_by=["word"], storage_options=options)
    assert lake.run("remote").verdict == "match"
    for table in SIDES.values():
        write_deltalake(f"s3://file-sums/lake/{table}", rows_of(20, 22), mode="append", storage_options=options)
    opened.clear()
    found = lake.run("remote")
    assert found.verdict == "match" and read(found) == {"source": (6, 2, 0), "target": (6, 2, 0)}
    assert len(set(opened)) == 2 * (2 + 1)  # the new files of each, and one for the columns' types


def test_tables_that_are_no_files_are_refused(lake: Lake, tmp_path: Path) -> None:
    sides = {side: {"connection": "db", "table": "t"} for side in ("source", "target")}
    audit = Audit.model_validate({**sides, "key": ["id"], "files": "kept"})
    found = audit_run.perform("t", audit, {"db": ConnectionSettings(url=_database(tmp_path))}, files=KeptFileSums(lake.store, "t")).report
    assert found.exit_code == 2 and "needs a side whose tables consist of immutable files" in found.reasons[0]


def _database(tmp_path: Path) -> str:
    import duckdb

    with duckdb.connect(f"{tmp_path}/t.duckdb") as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS id")
    return f"duckdb:///{tmp_path}/t.duckdb"


def _stored(lake: Lake) -> list[Any]:
    with lake.store.reading() as connection:
        return list(connection.execute(select(file_sums).order_by(file_sums.c.file)).all())
