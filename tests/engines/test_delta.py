"""Delta tables: versions, what their files may hold, and what is refused rather than read wrongly."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import dialects
from auditor.config import Audit, ConnectionSettings, TableRef
from auditor.errors import BadUrl, EngineError, NoSuchObject, SnapshotLost
from auditor.model import Report
from auditor.run import audit_run
from dialects import Place, Session
from tests.deltas import write_table
from tests.live import Engines
from tests.servers import s3

pytestmark = pytest.mark.delta
UTC = dt.UTC


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Callable[[], Session]]:
    opened: list[Session] = []

    def open_one() -> Session:
        opened.append(dialects.connect(f"delta://{tmp_path}"))
        return opened[-1]

    yield open_one
    for session in opened:
        session.close()


def rows_of(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64()), "word": [f"word {n}" for n in numbers]})


def ids(session: Session, table: str = '"words"') -> list[int]:
    return [row[0] for row in session.query(f"SELECT id FROM {table} ORDER BY id")]


def audit(tmp_path: Path, **target: Any) -> Report:
    settings = {"source": {"connection": "lake", "table": "sales.words"}, "target": {"connection": "lake", "table": "words", **target}}
    lake = ConnectionSettings(url=f"delta://{tmp_path}")
    return audit_run.run("words", Audit.model_validate({**settings, "key": ["id"], "recheck": {"times": 1, "wait": "0s"}}), {"lake": lake})


def test_an_audit_names_the_rows_that_differ_and_the_versions_that_it_read(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "sales/words", rows_of(*range(100)))
    write_deltalake(tmp_path / "words", rows_of(*range(100)))
    write_deltalake(tmp_path / "words", rows_of(*range(1, 101)), mode="overwrite")
    found = audit(tmp_path)
    assert found.differences is not None and found.plan is not None
    assert [(one.key, one.kind) for one in found.differences.named] == [({"id": "0"}, "missing"), ({"id": "100"}, "extra")]
    assert found.plan.notes[-2:] == ('source: version 0 of "sales"."words" is read', 'target: version 1 of "words" is read')
    earlier = audit(tmp_path, version=0)
    assert earlier.verdict == "match" and earlier.plan
    assert earlier.plan.notes[-1] == 'target: version 0 of "words VERSION 0" is read'


def test_a_snapshot_is_a_version_that_other_sessions_share(tmp_path: Path, connect: Callable[[], Session]) -> None:
    write_deltalake(tmp_path / "words", rows_of(1))
    first, other, outside = connect(), connect(), connect()
    assert ids(first) == ids(outside) == [1]
    first.begin()
    assert ids(first) == [1]
    write_deltalake(tmp_path / "words", rows_of(2), mode="append")
    assert first.share_snapshot([other], '"words"', None)
    write_deltalake(tmp_path / "words", rows_of(3), mode="append")
    assert ids(first) == ids(other) == [1] and ids(outside) == [1, 2, 3]
    assert first.state_read('"words"') == 'version 0 of "words" is read'
    first.end()
    assert ids(first) == [1, 2, 3] and ids(other) == [1]


@pytest.mark.parametrize("versions", [[3], [2], [3, 1], [2, 4, 4]], ids=str)
def test_a_table_that_was_made_anew_is_another(tmp_path: Path, connect: Callable[[], Session], versions: list[int]) -> None:
    """With as many versions as before, or fewer, or more: a session that stays open must not take it for the one that it knows."""
    session, number, path = connect(), 0, tmp_path / "words"
    for count in [3, *versions]:
        if path.exists():
            shutil.rmtree(path)
        for _ in range(count):
            number += 1
            write_deltalake(path, rows_of(number), mode="overwrite")
        assert ids(session) == [number]
        session.begin()
        assert ids(session) == [number] and session.state_read('"words"') == f'version {count - 1} of "words" is read'
        session.end()
        assert ids(session, '"words VERSION 0"') == [number - count + 1]
        write_deltalake(path, rows_of(0), mode="append")
        assert ids(session) == [0, number]


def test_sessions_that_share_a_snapshot_read_the_same_table(tmp_path: Path, connect: Callable[[], Session]) -> None:
    session, other, path = connect(), connect(), tmp_path / "words"
    write_deltalake(path, rows_of(1))
    session.begin()
    assert session.share_snapshot([other], '"words"', None)
    shutil.rmtree(path)
    write_deltalake(path, rows_of(2))
    with pytest.raises(SnapshotLost, match="words was made anew while it was read"):
        ids(other)


def test_places(tmp_path: Path, connect: Callable[[], Session]) -> None:
    write_deltalake(tmp_path / "Words", rows_of(1))
    write_deltalake(tmp_path / "sales/words", rows_of(2))
    write_deltalake(tmp_path / "sales/words", rows_of(3), mode="overwrite")
    when = dt.datetime.fromtimestamp(DeltaTable(tmp_path / "sales/words").history()[-1]["timestamp"] / 1000, UTC).isoformat()
    session = connect()
    places = [
        (Place(("words",)), [1]),
        (Place(("SALES", "words")), [3]),
        (Place(("sales", "words"), version=0), [2]),
        (Place((), "sales/words", "delta", timestamp=when), [2]),
        (Place((), f"{tmp_path}/sales/words", "parquet", version=0), [2]),
    ]
    for place, wanted in places:
        (table,) = session.dialect.catalogue.describe(session, place)
        assert ids(session, table.sql) == wanted and table.estimate == 1, place
    for nowhere in (Place(("sales",)), Place(("sales", "other")), Place(("a", "b", "c")), Place((), f"{tmp_path}/other", "delta")):
        assert session.dialect.catalogue.describe(session, nowhere) == []
    with pytest.raises(EngineError, match="sales/words"):
        session.dialect.catalogue.describe(session, Place(("sales", "words"), version=7))
    listed = [(one.schema, one.name) for one in session.dialect.catalogue.list_tables(session)]
    assert listed == [("", "Words"), ("sales", "words")]


@pytest.mark.parametrize("names", [("words", "Words"), ("sales/words", "Sales/words")], ids="-".join)
def test_two_tables_that_differ_by_case_are_not_mixed_up(tmp_path: Path, connect: Callable[[], Session], names: tuple[str, str]) -> None:
    """Nor are the rows that deletion vectors hide in each."""
    for name, hidden in zip(names, (0, 1), strict=True):
        rows = {"f.parquet": pa.table({"id": [1, 2]})}
        write_table(tmp_path / name, {"id": "long"}, rows, features=["deletionVectors"], deleted={"f.parquet": [hidden]})
    session, (first, second) = connect(), ['"' + name.replace("/", '"."') + '"' for name in names]
    assert [ids(session, first), ids(session, second), ids(session, first)] == [[2], [1], [2]]
    with pytest.raises(EngineError, match="a statement reads several tables"):
        session.query(f"SELECT 1 FROM {first} JOIN {second} ON TRUE")


def test_sums_of_files_are_known_by_columns_with_quotation_marks_too(tmp_path: Path, connect: Callable[[], Session]) -> None:
    rows, readings = pa.table({"id": [1], "p": ["first"], "q": ["second"]}), set[str]()
    for physical in ("p", "q"):
        mapped: dict[str, Any] = {"physical": {"id": "id", 'a"b': physical}, "configuration": {"delta.columnMapping.mode": "name"}}
        write_table(tmp_path / physical, {"id": "long", 'a"b': "string"}, {"f.parquet": rows}, features=["columnMapping"], **mapped)
        session = connect()
        readings.add(session.dialect.files.reading(session, f'"{physical}"', 'SELECT "id", "a""b" FROM "files"'))
    assert len(readings) == 2


def test_partitions_are_read_from_the_log(tmp_path: Path, connect: Callable[[], Session]) -> None:
    days = [dt.date(1, 1, 1), dt.date(2024, 2, 29), None]
    times = [dt.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), None, dt.datetime(2024, 2, 29, 1, 2, 3, 4, UTC)]
    texts, numbers = ["a/b [*]?", None, "it's %2F"], [Decimal("0.10"), Decimal("12345678901234567890.01"), None]
    kinds = {"day": pa.date32(), "at": pa.timestamp("us", "UTC"), "text": pa.string(), "amount": pa.decimal128(38, 2)}
    columns = [pa.array(values, kind) for values, kind in zip((days, times, texts, numbers), kinds.values(), strict=True)]
    rows = pa.table([pa.array([1, 2, 3], pa.int64()), *columns], names=["id", *kinds])
    write_deltalake(tmp_path / "parts", rows, partition_by=list(kinds))
    assert connect().query('SELECT * FROM "parts" ORDER BY id') == list(zip((1, 2, 3), days, times, texts, numbers, strict=True))


def test_rows_that_deletion_vectors_hide_are_not_read(tmp_path: Path, connect: Callable[[], Session]) -> None:
    files = {"a.parquet": rows_of(*range(10)), "b.parquet": rows_of(*range(10, 15)), "c.parquet": rows_of(20, 21)}
    hidden = {"a.parquet": [0, 4, 9], "c.parquet": [0, 1]}
    write_table(tmp_path / "words", {"id": "long", "word": "string"}, files, features=["deletionVectors"], deleted=hidden)
    assert ids(connect()) == [1, 2, 3, 5, 6, 7, 8, *range(10, 15)]


def test_columns_that_were_renamed_added_or_written_as_other_types(tmp_path: Path, connect: Callable[[], Session]) -> None:
    times = [dt.datetime(1, 1, 1), dt.datetime(2500, 1, 1, 1, 2, 3, 456789), None]
    old = pa.table({"col-1": pa.array([1, 2, 3], pa.int32()), "at": pa.array(times, pa.timestamp("us"))})
    new = pa.table({"col-1": pa.array([4], pa.int64()), "note": ["new"]})
    fields = {"id": "long", "at": "timestamp", "note": "string", "later": "decimal(10,2)"}
    mode, names = {"delta.columnMapping.mode": "name"}, {**dict(zip(fields, fields, strict=True)), "id": "col-1"}
    write_table(
        tmp_path / "t",
        fields,
        {"a.parquet": old, "b.parquet": new},
        features=["columnMapping"],
        configuration=mode,
        physical=names,
        int96=True,
    )
    session = connect()
    found = session.query('SELECT * FROM "t" ORDER BY id')
    assert found == [(n, at and at.replace(tzinfo=UTC), None, None) for n, at in enumerate(times, 1)] + [(4, None, "new", None)]
    (table,) = session.dialect.catalogue.describe(session, Place(("t",)))
    assert [column.native for column in table.columns] == ["BIGINT", "TIMESTAMP WITH TIME ZONE", "VARCHAR", "DECIMAL(10,2)"]


def test_a_column_whose_files_hold_something_else_has_no_kind(tmp_path: Path, connect: Callable[[], Session]) -> None:
    struct = {"type": "struct", "fields": [{"name": "a", "type": "long", "nullable": True, "metadata": {}}]}
    rows = pa.table({"id": pa.array([1], pa.int64()), "raw": [b"x"], "nano": pa.array([1], pa.timestamp("ns")), "s": [{"a": 1}]})
    fields = {"id": "long", "raw": "string", "nano": "timestamp_ntz", "s": struct, "v": "variant"}
    write_table(tmp_path / "t", fields, {"a.parquet": rows}, features=["variantType", "timestampNtz"])
    session = connect()
    (table,) = session.dialect.catalogue.describe(session, Place(("t",)))
    assert [column.native for column in table.columns] == [
        "BIGINT", "VARCHAR (its files hold BLOB)", "TIMESTAMP (its files hold TIMESTAMP_NS)", "STRUCT(a BIGINT)",
        "variant (read by Spark only)",
    ]  # fmt: skip
    assert [column.kind is None for column in table.columns] == [False, True, True, False, True]
    assert session.query('SELECT * FROM "t"') == [(1, {"a": 1})]


@pytest.mark.parametrize(
    ("features", "mode", "sentence"),
    [
        (["typeWidening"], "none", "t uses the features typeWidening, which the auditor does not read; drop them, or audit it on Spark"),
        (["columnMapping"], "id", "t maps its columns by id, which the auditor does not read; audit it on Spark"),
    ],
)
def test_what_would_be_read_wrongly_is_refused(
    tmp_path: Path, connect: Callable[[], Session], features: list[str], mode: str, sentence: str
) -> None:
    given = {"id": "col-1"} if mode == "id" else None
    configuration = {"delta.columnMapping.mode": mode}
    write_table(tmp_path / "t", {"id": "long"}, {"a.parquet": rows_of(1)}, features=features, configuration=configuration, physical=given)
    session = connect()
    with pytest.raises(EngineError, match=sentence):
        session.dialect.catalogue.describe(session, Place(("t",)))


def test_tables_without_files_are_empty(tmp_path: Path, connect: Callable[[], Session]) -> None:
    write_deltalake(tmp_path / "words", rows_of())
    assert ids(connect()) == []


@pytest.mark.parametrize(
    ("url", "error", "sentence"),
    [
        ("delta://lake/orders", BadUrl, "write an absolute path with three slashes: delta:///lake/sales"),
        ("delta+s3:///orders", BadUrl, r"write the bucket: delta\+s3://bucket/prefix"),
        (
            "delta+s3://b/x?aws_secret_access_key=s",
            BadUrl,
            "unknown option aws_secret_access_key;.*keys and secrets come from the environment",
        ),
        ("delta:///no/such/folder", NoSuchObject, "there is no folder /no/such/folder"),
    ],
)
def test_urls_that_lead_nowhere(url: str, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        dialects.connect(url)


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "sales/words", rows_of(1))
    found = audit(tmp_path)
    assert found.verdict == "unknown" and "target: there is no table words, or this user may not see it" in str(found)
    assert TableRef(connection="lake", table="words", version=3).place == Place(("words",), version=3)
    assert "there is no table words@0, or" in str(audit(tmp_path, version=0))


def test_tables_in_s3(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = engines.companion("s3", s3.start).url
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"AWS_{name}", "tests")
    boto3.client("s3", region_name="us-east-1", endpoint_url=endpoint).create_bucket(Bucket="delta-read")
    options = {"aws_endpoint_url": endpoint, "aws_region": "us-east-1", "aws_allow_http": "true"}
    rows = pa.table({"id": pa.array(range(4), pa.int64()), "word": ["a/b [*]", "a/b [*]", None, "%2F"]})
    write_deltalake("s3://delta-read/lake/sales/words", rows, partition_by=["word"], storage_options=options)
    url = "delta+s3://delta-read/lake?" + "&".join(f"{name}={value}" for name, value in options.items())
    with closing(dialects.connect(url)) as session:
        assert [(one.schema, one.name) for one in session.dialect.catalogue.list_tables(session)] == [("sales", "words")]
        (table,) = session.dialect.catalogue.describe(session, Place(("sales", "words")))
        assert session.query(f"SELECT * FROM {table.sql} ORDER BY id") == list(zip(range(4), rows["word"].to_pylist(), strict=True))
        assert session.dialect.catalogue.describe(session, Place(("sales", "other"))) == []
