"""Iceberg tables: snapshots, what their files may hold, deletes, and what is refused rather than read wrongly."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import DecimalType, DoubleType, FloatType, LongType, NestedField, StringType, StructType

import dialects
from auditor.config import Audit, ConnectionSettings
from auditor.errors import BadUrl, EngineError, NoSuchObject
from auditor.model import Report
from auditor.run import audit_run
from dialects import Kind, Place, Session
from dialects.iceberg import snapshot as snapshots
from dialects.iceberg.session import IcebergSession
from scripts.versions import NotToBeHad
from tests import icebergs, tables
from tests.icebergs import commit, data_files, make, positions, spec_of, with_ids, write_file
from tests.live import LiveEngine, engine_params
from tests.servers import spark_lakes

pytestmark = pytest.mark.iceberg
UTC = dt.UTC
EQUALITY, POSITIONS = DataFileContent.EQUALITY_DELETES, DataFileContent.POSITION_DELETES


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Callable[..., Session]]:
    opened: list[Session] = []

    def open_one(more: str = "") -> Session:
        opened.append(dialects.connect(icebergs.url_of(tmp_path, "sales") + more))
        return opened[-1]

    yield open_one
    for session in opened:
        session.close()


def words(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64()), "word": pa.array([f"word {n}" for n in numbers], pa.string())})


def ids(session: Session, table: str = '"words"') -> list[int]:
    return [row[0] for row in session.query(f"SELECT id FROM {table} ORDER BY id")]


def rows(session: Session, table: str = '"words"') -> list[tuple[Any, ...]]:
    return session.query(f"SELECT * FROM {table} ORDER BY ALL")


def audit(tmp_path: Path, **target: Any) -> Report:
    ends = {"source": {"connection": "lake", "table": "other.words"}, "target": {"connection": "lake", "table": "words", **target}}
    lake = ConnectionSettings(url=icebergs.url_of(tmp_path, "sales"))
    return audit_run.run("words", Audit.model_validate({**ends, "key": ["id"], "recheck": {"times": 1, "wait": "0s"}}), {"lake": lake})


def test_an_audit_names_the_rows_that_differ_and_the_snapshots_that_it_read(tmp_path: Path) -> None:
    make(tmp_path, "other.words", words(*range(100)))
    table = make(tmp_path, "sales.words", words(*range(100)))
    first = table.metadata.current_snapshot_id
    table.overwrite(words(*range(1, 101)))
    found = audit(tmp_path)
    assert found.differences is not None and found.plan is not None
    assert [(one.key, one.kind) for one in found.differences.named] == [({"id": "0"}, "missing"), ({"id": "100"}, "extra")]
    assert found.plan.notes[-1] == f'target: snapshot {table.metadata.current_snapshot_id} of "words" is read'
    earlier = audit(tmp_path, version=first)
    assert earlier.verdict == "match" and earlier.plan
    assert earlier.plan.notes[-1] == f'target: snapshot {first} of "words VERSION {first}" is read'


def test_a_snapshot_is_shared_by_sessions_whatever_others_write(tmp_path: Path, connect: Callable[..., Session]) -> None:
    table = make(tmp_path, "sales.words", words(1))
    first, other, outside = connect(), connect(), connect()
    assert ids(first) == ids(outside) == [1]
    first.begin()
    assert ids(first) == [1]
    table.append(words(2))
    assert first.share_snapshot([other], '"words"', None)
    table.append(words(3))
    with table.update_schema() as update:
        update.add_column("late", StringType())
    assert rows(first) == rows(other) == [(1, "word 1")] and ids(outside) == [1, 2, 3]
    first.end()
    assert rows(first)[0] == (1, "word 1", None) and ids(first) == [1, 2, 3] and ids(other) == [1]


def test_places(tmp_path: Path, connect: Callable[..., Session]) -> None:
    make(tmp_path, "sales.Words", words(1))
    table = make(tmp_path, "Other.words", words(2))
    old = table.metadata.snapshots[-1]
    table.overwrite(words(3))
    make(tmp_path, "a.b.words", words(4))
    with table.manage_snapshots() as change:
        change.create_tag(old.snapshot_id, "release").create_branch(old.snapshot_id, "trial")
    session = connect()
    moment = dt.datetime.fromtimestamp(old.timestamp_ms / 1000, UTC).isoformat()
    places = [
        (Place(("words",)), [1]),
        (Place(("other", "WORDS")), [3]),
        (Place(("Other", "words"), version=old.snapshot_id), [2]),
        (Place(("Other", "words"), timestamp=moment), [2]),
        (Place(("a", "b", "words")), [4]),
    ]
    for place, wanted in places:
        (found,) = session.dialect.catalogue.describe(session, place)
        assert ids(session, found.sql) == wanted and found.estimate == 1, place
    for nowhere in (Place(("sales",)), Place(("sales", "other")), Place(("no", "words"))):
        assert session.dialect.catalogue.describe(session, nowhere) == []
    refused = [
        (Place(("Other", "words"), version=7), "Other/words VERSION 7 has no snapshot 7 any more"),
        (Place(("Other", "words"), timestamp="2001-01-01"), "had no snapshot yet at 2001-01-01"),
        (Place((), "/lake/words", "iceberg"), "reads the tables of a catalogue by their names, not /lake/words"),
    ]
    for place, sentence in refused:
        with pytest.raises(EngineError, match=sentence):
            session.dialect.catalogue.describe(session, place)
    listed = [(one.schema, one.name, one.is_visible) for one in session.dialect.catalogue.list_tables(session)]
    assert listed == [("Other", "words", False), ("a.b", "words", False), ("sales", "Words", True)]
    for ref in ("release", "trial"):
        assert ids(connect(f"&ref={ref}"), '"Other"."words"') == [2]


def test_two_tables_that_differ_by_case_are_not_mixed_up(tmp_path: Path, connect: Callable[..., Session]) -> None:
    make(tmp_path, "sales.words", words(1))
    make(tmp_path, "sales.Words", words(2))
    session = connect()
    assert [ids(session), ids(session, '"Words"'), ids(session)] == [[1], [2], [1]]
    with pytest.raises(EngineError, match="a statement reads several tables"):
        session.query('SELECT 1 FROM "words" JOIN "Words" ON TRUE')


@pytest.mark.parametrize("kind", [POSITIONS, EQUALITY], ids=lambda kind: str(kind.name))
def test_deletes_of_two_tables_that_differ_by_case_are_not_mixed_up(tmp_path: Path, connect: Callable[..., Session], kind: Any) -> None:
    for name, number in (("words", 1), ("Words", 2)):
        table = make(tmp_path, f"sales.{name}", words(1, 2, 3))
        if kind == POSITIONS:
            deletes = write_file(table, positions([(data_files(table)[0], number - 1)]), kind)
        else:
            deletes = write_file(table, with_ids(pa.table({"id": pa.array([number], pa.int64())}), (1,)), kind, equality_ids=[1])
        commit(table, deletes=[deletes])
    session = connect()
    assert [ids(session), ids(session, '"Words"'), ids(session)] == [[2, 3], [1, 3], [2, 3]]


def test_a_table_named_files_is_not_mixed_up_with_some_of_its_files(tmp_path: Path, connect: Callable[..., Session]) -> None:
    table = make(tmp_path, "sales.files", words(1, 2))
    for number in (3, 5):
        table.append(words(number, number + 1))
    session = connect()
    paths = [file.path for file in session.dialect.files.list_files(session, '"files"')]
    commit(table, deletes=[write_file(table, positions([(path, 0)]), POSITIONS) for path in paths])
    assert ids(session, '"files"') == [2, 4, 6]
    listed = session.dialect.files.list_files(session, '"files"')
    for file in listed:
        shown = session.dialect.files.show(session, '"files"', [file], '"n"', "hidden")
        assert len(session.query(f"SELECT id FROM {shown}")) == 1
        assert ids(session, '"files"') == [2, 4, 6]


def test_columns_are_found_by_their_ids(tmp_path: Path, connect: Callable[..., Session]) -> None:
    old = pa.table({"id": pa.array([1, 2], pa.int32()), "word": ["a", "b"], "gone": ["x", "y"], "f": pa.array([0.5, None], pa.float32()),
                    "price": pa.array([Decimal("1.50"), None], pa.decimal128(9, 2))})  # fmt: skip
    table = make(tmp_path, "sales.words", old)
    with table.update_schema() as update:
        update.rename_column("word", "label")
        update.delete_column("gone")
        update.update_column("id", field_type=LongType()).update_column("f", field_type=DoubleType())
        update.update_column("price", field_type=DecimalType(14, 2))
    with table.update_schema() as update:
        update.add_column("word", StringType()).add_column("gone", LongType()).move_first("gone")
    new = pa.table({"gone": pa.array([7], pa.int64()), "id": pa.array([3], pa.int64()), "label": ["c"], "f": [0.1],
                    "price": pa.array([Decimal("123456789012.34")], pa.decimal128(14, 2)), "word": ["new"]})  # fmt: skip
    table.append(new)
    session = connect()
    assert rows(session) == [
        (7, 3, "c", 0.1, Decimal("123456789012.34"), "new"),
        (None, 1, "a", 0.5, Decimal("1.50"), None),
        (None, 2, "b", None, None, None),
    ]
    (found,) = session.dialect.catalogue.describe(session, Place(("words",)))
    assert [column.native for column in found.columns] == ["BIGINT", "BIGINT", "VARCHAR", "DOUBLE", "DECIMAL(14,2)", "VARCHAR"]


def test_fields_of_structs_are_found_by_their_ids(tmp_path: Path, connect: Callable[..., Session]) -> None:
    first = pa.table({"id": pa.array([1, 2], pa.int64()), "s": [{"a": 1, "b": "x"}, None], "l": [[{"p": 1}, None], []]})
    table = make(tmp_path, "sales.words", first)
    with table.update_schema() as update:
        update.rename_column(("s", "a"), "c").rename_column(("l", "p"), "q")
    with table.update_schema() as update:
        update.add_column(("s", "a"), StringType()).add_column(("l", "r"), StringType()).move_first(("s", "b"))
    assert rows(connect()) == [
        (1, {"b": "x", "c": 1, "a": None}, [{"q": 1, "r": None}, None]),
        (2, None, []),
    ]


def test_types(tmp_path: Path, connect: Callable[..., Session]) -> None:
    number = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
    columns: dict[str, tuple[pa.DataType, Any, str, str | None]] = {
        "u": (pa.uuid(), number.bytes, "UUID", "uuid"),
        "fixed": (pa.binary(3), b"\x00ab", "BLOB", "binary"),
        "bin": (pa.binary(), b"\xff", "BLOB", "binary"),
        "clock": (pa.time64("us"), dt.time(23, 59, 59, 999999), "TIME", "time"),
        "day": (pa.date32(), dt.date(1, 1, 1), "DATE", "date"),
        "at": (pa.timestamp("us"), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), "TIMESTAMP", "timestamp"),
        "zoned": (pa.timestamp("us", "UTC"), dt.datetime(2500, 1, 1, tzinfo=UTC), "TIMESTAMP WITH TIME ZONE", "timestamptz"),
        "yes": (pa.bool_(), True, "BOOLEAN", "boolean"),
        "m": (pa.map_(pa.string(), pa.int64()), {"k": 1}, "MAP(VARCHAR, BIGINT)", None),
        "big": (pa.decimal128(38, 10), Decimal("1234567890123456789012345678.0123456789"), "DECIMAL(38,10)", "decimal"),
    }
    arrays = {name: pa.array([None if name == "u" else value, None], kind) for name, (kind, value, _, _) in columns.items()}
    arrays["u"] = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([number.bytes, None], pa.binary(16)))
    make(tmp_path, "sales.words", pa.table({"id": pa.array([1, 2], pa.int64()), **arrays}))
    session = connect()
    (found,) = session.dialect.catalogue.describe(session, Place(("words",)))
    assert [(one.native, one.kind.name if one.kind else None) for one in found.columns[1:]] == [one[2:] for one in columns.values()]
    read = rows(session)
    assert read[0] == (1, number, *(value for name, (_, value, _, _) in columns.items() if name != "u"))
    assert read[1] == (2, *[None] * len(columns))


def test_rows_that_files_of_positions_hide(tmp_path: Path, connect: Callable[..., Session]) -> None:
    table = make(tmp_path, "sales.words", words(*range(10)))
    table.append(words(*range(10, 20)))
    old, new = data_files(table)
    commit(table, deletes=[write_file(table, positions([(old, 0), (old, 9), (new, 5), (new, 5), ("file:///no/such", 1)]), POSITIONS)])
    table.append(words(30))
    assert ids(connect()) == [*range(1, 9), 10, 11, 12, 13, 14, 16, 17, 18, 19, 30]
    assert connect().dialect.catalogue.describe(connect(), Place(("words",)))[0].estimate is None


def test_positions_hide_no_rows_of_later_files(tmp_path: Path, connect: Callable[..., Session]) -> None:
    """As when a file is put back that was replaced: its rows are of the commit that it came with."""
    table = make(tmp_path, "sales.words", words(1, 2))
    again = write_file(table, with_ids(words(7, 8), (1, 2)))
    commit(table, deletes=[write_file(table, positions([(again.file_path, 0)]), POSITIONS)])
    commit(table, rows=[again])
    assert ids(connect()) == [1, 2, 7, 8]


def test_rows_that_values_delete(tmp_path: Path, connect: Callable[..., Session]) -> None:
    """Of earlier commits only; NULL deletes NULL; a row that is inserted by the same commit stays."""
    table = make(tmp_path, "sales.words", pa.table({"id": pa.array([1, 2, 3, 4], pa.int64()), "word": ["a", "b", None, "a"]}))
    by_id = write_file(table, with_ids(pa.table({"id": pa.array([2, 9], pa.int64())}), (1,)), EQUALITY, equality_ids=[1])
    by_word = write_file(table, with_ids(pa.table({"word": pa.array([None], pa.string())}), (2,)), EQUALITY, equality_ids=[2])
    both = write_file(
        table, with_ids(pa.table({"id": pa.array([1, 4], pa.int64()), "word": ["a", "x"]}), (1, 2)), EQUALITY, equality_ids=[2, 1]
    )
    put = write_file(table, with_ids(pa.table({"id": pa.array([2], pa.int64()), "word": ["again"]}), (1, 2)))
    commit(table, deletes=[by_id, by_word, both], rows=[put])
    assert rows(connect()) == [(2, "again"), (4, "a")]
    table.append(words(9))
    assert ids(connect()) == [2, 4, 9]


def test_values_delete_by_columns_that_are_dropped_renamed_younger_or_wider(tmp_path: Path, connect: Callable[..., Session]) -> None:
    table = make(tmp_path, "sales.words", pa.table({"id": pa.array([1, 2, 3], pa.int32()), "word": ["a", "b", "c"]}))
    commit(table, deletes=[write_file(table, with_ids(pa.table({"word": ["b"]}), (2,)), EQUALITY, equality_ids=[2])])
    with table.update_schema() as update:
        update.delete_column("word").update_column("id", field_type=LongType())
    with table.update_schema() as update:
        update.rename_column("id", "number")
    with table.update_schema() as update:
        update.add_column("id", LongType())
    commit(table, deletes=[write_file(table, with_ids(pa.table({"x": pa.array([3], pa.int64())}), (1,)), EQUALITY, equality_ids=[1])])
    session = connect()
    assert session.query('SELECT * FROM "words"') == [(1, None)]
    null = with_ids(pa.table({"id": pa.array([None], pa.int64())}), (3,))
    commit(table, deletes=[write_file(table, null, EQUALITY, equality_ids=[3])])
    assert session.query('SELECT * FROM "words"') == [], "a column that is younger than the rows is NULL in them"


def test_deletes_count_in_their_own_partitions(tmp_path: Path, connect: Callable[..., Session]) -> None:
    """But values without a partition delete everywhere."""
    table = make(tmp_path, "sales.words", words())
    spec = spec_of(table, word="identity")
    data = {
        word: write_file(table, with_ids(pa.table({"id": pa.array([1, 2], pa.int64()), "word": [word] * 2}), (1, 2)), partition=[word])
        for word in "ab"
    }
    commit(table, rows=list(data.values()))
    one = with_ids(pa.table({"id": pa.array([1], pa.int64())}), (1,))
    commit(table, deletes=[write_file(table, one, EQUALITY, equality_ids=[1], partition=["a"])])
    assert rows(connect()) == [(1, "b"), (2, "a"), (2, "b")]
    lost = positions([(data["b"].file_path, 0)])
    commit(table, deletes=[write_file(table, lost, POSITIONS, partition=["a"])])
    assert len(rows(connect())) == 3, "the file's partition is another"
    two = with_ids(pa.table({"id": pa.array([2], pa.int64())}), (1,))
    commit(table, deletes=[write_file(table, two, EQUALITY, equality_ids=[1], spec=0)])
    assert rows(connect()) == [(1, "b")] and spec.spec_id == 1


def test_values_delete_everywhere_where_all_fields_of_a_partition_are_void(tmp_path: Path, connect: Callable[..., Session]) -> None:
    """As those are that were removed from a table of the first version, whose files and manifests are read too."""
    table = make(tmp_path, "sales.words", words(1, 2), properties={"format-version": "1"})
    spec_of(table, word="identity")
    table.append(words(3))
    with table.update_spec() as update:
        update.remove_field("word")
    with table.transaction() as transaction:
        transaction.upgrade_table_version(2)
    assert rows(connect()) == [(1, "word 1"), (2, "word 2"), (3, "word 3")] and table.spec().fields
    some = with_ids(pa.table({"id": pa.array([1, 3], pa.int64())}), (1,))
    commit(table, deletes=[write_file(table, some, EQUALITY, equality_ids=[1], partition=[None])])
    session = connect()
    assert rows(session) == [(2, "word 2")]
    listed = session.dialect.files.list_files(session, '"words"')
    assert all(file.hidden for file in listed)
    shown = session.dialect.files.show(session, '"words"', listed, '"n"', "hidden")
    assert sorted(session.query(f"SELECT id FROM {shown}")) == [(1,), (3,)]


@pytest.mark.parametrize(("of_rows", "of_deletes", "left"), [("nan", "nan", [2]), ("0.0", "-0.0", [1, 2]), ("-0.0", "-0.0", [2])])
def test_partitions_of_floating_numbers(
    tmp_path: Path, connect: Callable[..., Session], of_rows: str, of_deletes: str, left: list[int]
) -> None:
    """NaN is one partition, and 0.0 and -0.0 are two: https://iceberg.apache.org/spec/#sorting says so of floating numbers."""
    value = pa.table({"id": pa.array([1, 2], pa.int64()), "x": pa.array([float(of_rows)] * 2, pa.float64())})
    table = make(tmp_path, "sales.words", value.slice(0, 0))
    spec_of(table, x="identity")
    commit(table, rows=[write_file(table, with_ids(value, (1, 2)), partition=[float(of_rows)])])
    one = with_ids(pa.table({"id": pa.array([1], pa.int64())}), (1,))
    commit(table, deletes=[write_file(table, one, EQUALITY, equality_ids=[1], partition=[float(of_deletes)])])
    session = connect()
    assert ids(session) == left
    [file] = session.dialect.files.list_files(session, '"words"')
    assert bool(file.hidden) == (len(left) == 1)


def test_sums_of_files_are_known_by_columns_with_quotation_marks_too(tmp_path: Path, connect: Callable[..., Session]) -> None:
    table = make(tmp_path, "sales.words", pa.table({"id": pa.array([1], pa.int64()), 'a"b': ["first"], "c": ["second"]}))
    session, statement = connect(), 'SELECT "id", "a""b" FROM "files"'
    assert session.query('SELECT "id", "a""b" FROM "words"') == [(1, "first")]
    before = session.dialect.files.reading(session, '"words"', statement)
    with table.update_schema() as update:
        update.rename_column('a"b', "gone")
    with table.update_schema() as update:
        update.rename_column("c", 'a"b')
    assert session.query('SELECT "id", "a""b" FROM "words"') == [(1, "second")]
    assert session.dialect.files.reading(session, '"words"', statement) != before


def test_partitioned_columns_that_files_lack_are_of_the_metadata(tmp_path: Path, connect: Callable[..., Session]) -> None:
    """As in tables that were taken over from Hive."""
    kinds = {"day": pa.date32(), "at": pa.timestamp("us", "UTC"), "word": pa.string(), "price": pa.decimal128(20, 2), "raw": pa.binary()}
    table = make(
        tmp_path, "sales.words", pa.table({"id": pa.array([], pa.int64()), **{name: pa.array([], kind) for name, kind in kinds.items()}})
    )
    spec_of(table, **dict.fromkeys(kinds, "identity"))
    values = [
        (dt.date(2024, 2, 29), dt.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), "it's %2F", Decimal("-0.10"), b"\x00'"),
        (None, None, None, None, None),
    ]
    stored = [(19782, -1, "it's %2F", Decimal("-0.10"), b"\x00'"), values[1]]
    for number, partition in enumerate(stored):
        commit(table, rows=[write_file(table, with_ids(pa.table({"id": pa.array([number], pa.int64())}), (1,)), partition=partition)])
    assert rows(connect()) == [(0, *values[0]), (1, *values[1])]


def test_files_without_ids_are_read_by_the_tables_mapping_of_names(tmp_path: Path, connect: Callable[..., Session]) -> None:
    table = make(tmp_path, "sales.words", words())
    with table.update_schema() as update:
        update.rename_column("word", "label")
    commit(table, rows=[write_file(table, words(1, 2))])
    with pytest.raises(EngineError, match=r"its files have no ids of columns, and the table has no schema\.name-mapping\.default"):
        rows(connect())
    mapping = '[{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["label", "word"]}]'
    with table.transaction() as change:
        change.set_properties({"schema.name-mapping.default": mapping})
    session = connect()
    assert rows(session) == [(1, "word 1"), (2, "word 2")]


def test_a_column_whose_files_hold_something_else_has_no_kind(tmp_path: Path, connect: Callable[..., Session]) -> None:
    table = make(
        tmp_path, "sales.words", pa.table({"id": pa.array([], pa.int64()), "n": pa.array([], pa.int32()), "t": pa.array([], pa.string())})
    )
    wrong = pa.table({"id": pa.array([1], pa.int64()), "n": pa.array([2**40], pa.int64()), "t": pa.array([b"x"], pa.binary())})
    commit(table, rows=[write_file(table, with_ids(wrong, (1, 2, 3)))])
    session = connect()
    (found,) = session.dialect.catalogue.describe(session, Place(("words",)))
    assert [(one.native, one.kind is None) for one in found.columns] == [
        ("BIGINT", False),
        ("INTEGER (its files hold BIGINT)", True),
        ("VARCHAR (its files hold BLOB)", True),
    ]
    assert rows(session) == [(1,)]


def test_times_that_spark_wrote_as_int96_are_in_utc(tmp_path: Path, connect: Callable[..., Session]) -> None:
    kinds = {"zoned": pa.timestamp("us", "UTC"), "at": pa.timestamp("us")}
    table = make(
        tmp_path, "sales.words", pa.table({"id": pa.array([], pa.int64()), **{name: pa.array([], kind) for name, kind in kinds.items()}})
    )
    moment = dt.datetime(2500, 1, 1, 1, 2, 3, 456789, UTC)
    held = pa.table({"id": pa.array([1], pa.int64()), "zoned": pa.array([moment], kinds["zoned"]), "at": pa.array([None], kinds["at"])})
    commit(table, rows=[write_file(table, with_ids(held, (1, 2, 3)), use_deprecated_int96_timestamps=True)])
    assert rows(connect()) == [(1, moment)], "a time without a zone as INT96 is not read"


def test_defaults_of_columns_that_are_younger_than_their_rows(tmp_path: Path, connect: Callable[..., Session]) -> None:
    """https://iceberg.apache.org/spec/#default-values"""
    table = make(tmp_path, "sales.words", words(1), properties={"format-version": "2"})
    fields = [
        NestedField(7, "word", StringType(), initial_default="it's"),
        NestedField(8, "f", FloatType(), initial_default=0.5),
        NestedField(9, "s", StructType(NestedField(10, "a", LongType())), required=False),
    ]
    table.metadata.schemas[0] = Schema(table.schema().fields[0], *fields)  # as a table of the third version has it
    session = connect()
    assert isinstance(session, dialects.Session)
    session._pinned = {"words": table}  # type: ignore[attr-defined]
    assert rows(session) == [(1, "it's", 0.5, None)]


def test_deletion_vectors(tmp_path: Path) -> None:
    file, blob = tmp_path / "v.puffin", icebergs.vector([0, 7, 2**33])
    file.write_bytes(b"PFA1" + blob + b"rest")
    io = icebergs.open_catalog(tmp_path)._load_file_io(location=str(file))

    def vector(offset: int, length: int, count: int) -> snapshots.DeleteFile:
        return snapshots.DeleteFile(str(file), 1, count, 1, 0, (), "vector", offset=offset, length=length)

    assert snapshots.read_vector(io, vector(4, len(blob), 3)) == [0, 7, 2**33]
    for about in ((5, len(blob), 3), (4, len(blob) - 1, 3), (4, len(blob), 4)):
        with pytest.raises(EngineError, match="the deletion vector at byte"):
            snapshots.read_vector(io, vector(*about))


def unread(table: Table, what: str) -> None:
    if what == "orc":
        commit(table, rows=[write_file(table, with_ids(words(1), (1, 2)), form=FileFormat.ORC)])
    elif what == "encrypted":
        commit(table, rows=[write_file(table, with_ids(words(1), (1, 2)), key=b"key")])
    elif what == "avro":
        commit(table, deletes=[write_file(table, positions([("x", 1)]), POSITIONS, form=FileFormat.AVRO)])
    elif what == "floats":
        with table.update_schema() as update:
            update.add_column("f", DoubleType())
        commit(table, deletes=[write_file(table, with_ids(pa.table({"f": [0.0]}), (3,)), EQUALITY, equality_ids=[3])])
    elif what == "names":
        with table.update_schema() as update:
            update.add_column("WORD", StringType())
    else:
        file = write_file(table, with_ids(words(1), (1, 2)))
        commit(table, rows=[file, file])


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("orc", "words has files of ORC, which are not read; audit it through Spark"),
        ("encrypted", "words has encrypted files, which are not read"),
        ("avro", "words has files of deletes in AVRO that are not read"),
        ("floats", "words has rows deleted by the values of a column f that is double, which is not read"),
        ("names", "it has several columns word, in small letters and capitals, which DuckDB takes for one"),
        ("twice", "words lists a file twice"),
    ],
)
def test_what_would_be_read_wrongly_is_refused(tmp_path: Path, connect: Callable[..., Session], what: str, sentence: str) -> None:
    unread(make(tmp_path, "sales.words", words(1)), what)
    with pytest.raises(EngineError, match=sentence):
        connect().query('SELECT * FROM "words"')


def test_files_and_snapshots_that_are_gone_are_named(tmp_path: Path, connect: Callable[..., Session]) -> None:
    table = make(tmp_path, "sales.words", words(1))
    old = table.metadata.current_snapshot_id
    table.overwrite(words(2))
    session = connect()
    assert old and ids(session) == [2]
    table.maintenance.expire_snapshots().by_id(old).commit()
    with pytest.raises(NoSuchObject, match=f"has no snapshot {old} any more; choose one that is not expired"):
        session.query(f'SELECT * FROM "words VERSION {old}"')
    Path(data_files(table)[0].removeprefix("file://")).unlink()
    with pytest.raises(EngineError, match=r"No files found|No such file"):
        rows(session)
    with pytest.raises(EngineError, match=r"No files found|No such file"):
        rows(connect())


def test_tables_without_rows_are_empty(tmp_path: Path, connect: Callable[..., Session]) -> None:
    table = make(tmp_path, "sales.words", words())
    session = connect()
    assert ids(session) == [] and session.state_read('"words"') == '"words" has no snapshot yet'
    table.append(words(1))
    table.delete("id = 1")
    assert ids(session) == [] and session.state_read('"words"').startswith("snapshot ")


@pytest.mark.parametrize(
    ("url", "error", "sentence"),
    [
        ("iceberg:///sales", BadUrl, "write the catalogue's name after two slashes: iceberg://NAME"),
        ("iceberg://prod?token=s", BadUrl, r"unknown option token;.*come from ~/\.pyiceberg\.yaml or PYICEBERG_CATALOG__NAME__PROPERTY"),
        ("iceberg://u:p@prod", BadUrl, "a catalogue has no user or port here"),
        ("iceberg://prod?type=sql&uri=sqlite:////no/such.db", NoSuchObject, r"there is no file /no/such\.db"),
        ("iceberg://nowhere", EngineError, "iceberg://nowhere/: "),
        ("iceberg://x?type=rest&uri=http://127.0.0.1:1/", EngineError, "iceberg://x/: "),
    ],
)
def test_urls_that_lead_nowhere(url: str, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        dialects.connect(url)


def test_a_password_in_a_uri_is_not_shown(tmp_path: Path) -> None:
    url = "iceberg://prod?type=sql&uri=postgresql%2Bpsycopg2://me:hidden@127.0.0.1:1/x&warehouse=s3://u:hidden@b"
    assert dialects.database_id(url) == "iceberg://prod postgresql+psycopg2://127.0.0.1:1/x s3://b"
    with closing(dialects.connect(url)) as session, pytest.raises(EngineError) as caught:
        session.dialect.catalogue.list_tables(session)
    assert "hidden" not in str(caught.value) and "hidden" not in repr(dialects.parse_url(url))


def test_where_a_catalogue_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__KNOWN__URI", "https://catalogue/")
    addresses = dialects.get("iceberg").addresses
    for url, is_local, is_verified in (
        ("iceberg://known", False, True),
        ("iceberg://other", False, False),
        ("iceberg://known?uri=http://catalogue/", False, False),
        ("iceberg://lake?type=glue", False, True),
        ("iceberg://lake?type=sql&uri=sqlite:////c.db&warehouse=file:///lake", True, False),
        ("iceberg://lake?type=sql&uri=sqlite:////c.db&warehouse=/lake", True, False),
        ("iceberg://lake?type=sql&uri=sqlite:////c.db&warehouse=s3://lake", False, False),
    ):
        found = dialects.parse_url(url)
        assert (addresses.is_local(found), addresses.verifies_server(found)) == (is_local, is_verified), url


SOURCE_COLUMNS = [
    ("id", Kind("integer")), ("word", Kind("text")), ("price", Kind("decimal", 12, 2)), ("made", Kind("timestamp", scale=6)),
    ("day", Kind("date")), ("clock", Kind("time", scale=6)), ("weight", Kind("float64")), ("raw", Kind("binary", 16)),
    ("yes", Kind("boolean")), ("big", Kind("integer", unsigned=True)),
]  # fmt: skip


def source_rows() -> list[tuple[Any, ...]]:
    made: list[tuple[Any, ...]] = []
    for id in range(200):
        if id % 17 == 3:
            made.append((id, *[None] * (len(SOURCE_COLUMNS) - 1)))
            continue
        moment = dt.datetime(1969, 12, 30) + dt.timedelta(days=id * 91, microseconds=id * 37)
        made.append((id, f"größe \U0001f600 {id}", Decimal(id * 101) / 100 - 50, moment, moment.date(), moment.time(), id / 7 - 3,
                     bytes([id % 256]) * 16, id % 2 == 0, 2**64 - 1 - id))  # fmt: skip
    return made


@pytest.mark.parametrize("engine", engine_params("mysql", "postgres"), indirect=True)
def test_each_damaged_column_of_a_source_is_found_and_nothing_else(engine: LiveEngine, tmp_path: Path) -> None:
    """Two audits: of equal rows, of which none differs, and of rows of which each column is damaged in a row of its own."""
    columns = [(name, kind) for name, kind in SOURCE_COLUMNS if engine.name == "mysql" or not kind.unsigned]
    held = [row[: len(columns)] for row in source_rows()]
    lake = LiveEngine("iceberg", "iceberg", icebergs.url_of(tmp_path, "sales"))
    icebergs.open_catalog(tmp_path).create_namespace("sales")
    tables.make(engine, "ice_source", columns, held, key=["id"])
    tables.make(lake, "words", columns, held)
    ends = {"source": {"connection": "shop", "table": "ice_source"}, "target": {"connection": "lake", "table": "words"}}
    connections = {"shop": ConnectionSettings(url=engine.url), "lake": ConnectionSettings(url=lake.url)}
    settings = Audit.model_validate({**ends, "key": ["id"], "recheck": {"times": 1, "wait": "0s"}})
    report = audit_run.run("words", settings, connections)
    assert report.verdict == "match" and report.coverage["rows"] == 1, report.reasons
    damaged = {}
    for place, (name, kind) in enumerate(columns[1:], 1):
        row = list(held[place * 6])
        other = {"text": "x", "boolean": not row[place], "binary": b"\1" * 16}.get(kind.name, held[place * 6 + 1][place])
        row[place] = other if place % 2 else None
        held[place * 6] = tuple(row)
        damaged[str(place * 6)] = {name}
    tables.make(lake, "words", columns, held)
    report = audit_run.run("words", settings, connections)
    assert report.verdict == "mismatch" and report.differences
    assert {one.key["id"]: {column.name for column in one.columns} for one in report.differences.named} == damaged


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    make(tmp_path, "other.words", words(1))
    found = audit(tmp_path)
    assert found.verdict == "unknown" and "target: there is no table words, or this user may not see it" in str(found)


SPARK = """
import json, sys
from pyspark.sql import SparkSession
settings, statements, asked = json.load(open(sys.argv[1]))
builder = SparkSession.builder.master("local[1]")
for name, value in settings.items():
    builder = builder.config(name, value)
session = builder.getOrCreate()
for statement in statements:
    session.sql(statement)
json.dump([[list(row) for row in session.sql(query).collect()] for query in asked], open(sys.argv[2], "w"))
"""

MERGED = "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read'"
STATEMENTS = [
    "CREATE NAMESPACE ice.sales",
    "CREATE TABLE ice.sales.positions (id BIGINT, name STRING, price DECIMAL(9,2), made TIMESTAMP_NTZ, zoned TIMESTAMP) USING iceberg"
    f" PARTITIONED BY (bucket(3, id)) TBLPROPERTIES ('format-version'='2', {MERGED})",
    "INSERT INTO ice.sales.positions SELECT id, CONCAT('v', id), CAST(id / 4 AS DECIMAL(9,2)), TIMESTAMP_NTZ'2024-01-01 00:00:00.123456',"
    " TIMESTAMP'2024-01-01 00:00:00.5' FROM RANGE(0, 200, 1, 2)",
    "DELETE FROM ice.sales.positions WHERE id % 7 = 0",
    "UPDATE ice.sales.positions SET name = 'changed' WHERE id % 11 = 0",
    "ALTER TABLE ice.sales.positions RENAME COLUMN name TO label",
    "ALTER TABLE ice.sales.positions ADD COLUMN name STRING",
    "ALTER TABLE ice.sales.positions ALTER COLUMN price TYPE DECIMAL(14,2)",
    "ALTER TABLE ice.sales.positions DROP PARTITION FIELD bucket(3, id)",
    "INSERT INTO ice.sales.positions SELECT id, 'w', CAST(id AS DECIMAL(14,2)), NULL, NULL, 'new' FROM RANGE(200, 250, 1, 1)",
    "DELETE FROM ice.sales.positions WHERE id BETWEEN 195 AND 210",
    "CREATE TABLE ice.sales.vectors (id INT, f FLOAT, s STRUCT<a: INT, b: STRING>, l ARRAY<STRUCT<x: INT>>, bin BINARY, day DATE,"
    f" ok BOOLEAN) USING iceberg TBLPROPERTIES ('format-version'='3', {MERGED})",
    "INSERT INTO ice.sales.vectors SELECT CAST(id AS INT), CAST(id AS FLOAT) / 3, NAMED_STRUCT('a', CAST(id AS INT), 'b', 'x'),"
    " IF(id % 9 = 0, NULL, ARRAY(NAMED_STRUCT('x', CAST(id AS INT)))), CAST('ab' AS BINARY), DATE'2024-02-29', id % 2 = 0"
    " FROM RANGE(0, 300, 1, 3)",
    "DELETE FROM ice.sales.vectors WHERE id % 5 = 1",
    "DELETE FROM ice.sales.vectors WHERE id % 5 = 2",
    "ALTER TABLE ice.sales.vectors ALTER COLUMN id TYPE BIGINT",
    "ALTER TABLE ice.sales.vectors ALTER COLUMN f TYPE DOUBLE",
    "ALTER TABLE ice.sales.vectors RENAME COLUMN s.b TO c",
    "ALTER TABLE ice.sales.vectors ADD COLUMN s.e STRING",
    "ALTER TABLE ice.sales.vectors ADD COLUMN l.element.y STRING",
    "ALTER TABLE ice.sales.vectors DROP COLUMN ok",
    "ALTER TABLE ice.sales.vectors ADD COLUMN ok INT",
    "INSERT INTO ice.sales.vectors VALUES (9223372036854775807, 0.1D, NULL, ARRAY(), NULL, NULL, 5)",
    "CREATE TABLE spark_catalog.default.hive (id BIGINT, moment TIMESTAMP, word STRING) USING parquet PARTITIONED BY (word)",
    "INSERT INTO spark_catalog.default.hive VALUES (1, TIMESTAMP'1969-12-31 23:59:59.999999', 'p'), (2, NULL, 'it''s %2F')",
    "CREATE TABLE ice.sales.added (id BIGINT, moment TIMESTAMP, word STRING) USING iceberg PARTITIONED BY (word)",
    "CALL ice.system.add_files(table => 'sales.added', source_table => '`spark_catalog`.`default`.`hive`')",
]
"""Merges on read of both versions, columns and partitions that change between them, and files that were none of Iceberg's."""

TEXTS = {
    "positions": ["id", "label", "price", "made", "zoned", "name"],
    "vectors": ["id", "f", "s.a", "s.c", "s.e", "len(l)", "l[1].x", "l[1].y", "bin", "day", "ok"],
    "added": ["id", "moment", "word"],
}


KINDS = {"positions": {"positions"}, "vectors": {"vector"}, "added": set[str]()}


@pytest.mark.slow
def test_tables_that_spark_wrote_are_read_as_spark_reads_them(tmp_path: Path) -> None:
    try:
        lakes = spark_lakes.find()
    except NotToBeHad as reason:
        pytest.skip(f"Spark with jars of Iceberg: {reason}")
    more = {"spark.sql.session.timeZone": "UTC", "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
    of_spark = {"len(l)": "CAST(SIZE(l) AS INT)", "l[1].x": "GET(l, 0).x", "l[1].y": "GET(l, 0).y"}
    asked = [
        f"SELECT {', '.join(f'CAST({of_spark.get(one, one)} AS STRING)' for one in texts)} FROM ice.sales.{name} ORDER BY ALL"
        for name, texts in TEXTS.items()
    ]
    (tmp_path / "run.json").write_text(json.dumps([{**spark_lakes.settings(tmp_path, lakes), **more}, STATEMENTS, asked]))
    command = [sys.executable, "-c", SPARK, str(tmp_path / "run.json"), str(tmp_path / "read.json")]
    environment = {**os.environ, "PYTHONPATH": str(lakes.packages), "SPARK_LOCAL_IP": "127.0.0.1"}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert ended.returncode == 0, ended.stderr
    catalog = icebergs.open_catalog(tmp_path / "own")
    catalog.create_namespace("sales")
    for name in TEXTS:
        newest = max(
            (tmp_path / f"iceberg/sales/{name}/metadata").glob("v*.metadata.json"), key=lambda one: int(one.name[1:].partition(".")[0])
        )
        catalog.register_table(("sales", name), str(newest))
    with closing(dialects.connect(icebergs.url_of(tmp_path / "own", "sales"))) as session:
        for (name, texts), wanted in zip(TEXTS.items(), json.loads((tmp_path / "read.json").read_text()), strict=True):
            (table,) = session.dialect.catalogue.describe(session, Place((name,)))
            read = session.query(f"SELECT {', '.join(texts)} FROM {table.sql}")
            assert sorted(map(as_spark_prints, read), key=str) == sorted(wanted, key=str), name
            assert isinstance(session, IcebergSession)
            opened = session.open(name)
            assert opened and {one.kind for one in opened.snapshot.deletes} == KINDS[name]


def as_spark_prints(row: tuple[Any, ...]) -> list[str | None]:
    """Return the texts of values, as Spark's CAST AS STRING writes them."""
    texts: list[str | None] = []
    for value in row:
        if isinstance(value, dt.datetime):
            text = value.replace(tzinfo=None).isoformat(" ")
            texts.append(text.rstrip("0") if value.microsecond else text)
        else:
            texts.append(value.decode() if isinstance(value, bytes) else None if value is None else str(value))
    return texts
