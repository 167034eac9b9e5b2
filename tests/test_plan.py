"""Planning without any database: what is compared as what, in which partitions, in which chunks, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dialects
from auditor import plan as planning
from auditor.columns import Endpoint
from auditor.config import Audit
from auditor.errors import BadExpression, ColumnRefused, HashMissing, NoKey, NoSuchObject, PlanError
from auditor.model import SIDES, Chunk, Plan, Side
from auditor.plan import CHUNK_ROWS, Bounds
from dialects import Column, Table

Columns = Mapping[str, str]
MAX_PARTITIONS = 65536


def end(dialect: str, columns: Columns, key: Sequence[str] = (), nullable: Sequence[str] = ()) -> Endpoint:
    """A table whose columns have these native types."""
    spoken = dialects.get(dialect)
    described = tuple(Column(name, native, spoken.kind(native), name in nullable) for name, native in columns.items())
    return Endpoint("c", "c: t", spoken, Table(spoken.table("t"), described, tuple(key), None))


def ends(source: Endpoint, target: Endpoint) -> dict[Side, Endpoint]:
    return {"source": source, "target": target}


def audit(renamed: Mapping[str, str] | None = None, **settings: Any) -> Audit:
    tables = {"source": {"connection": "c", "table": "t"}, "target": {"connection": "c", "table": "t", "columns": renamed or {}}}
    return Audit.model_validate({"method": "signature", **tables, **settings})


def draft(source: Endpoint, target: Endpoint, renamed: Mapping[str, str] | None = None, **settings: Any) -> Plan:
    return planning.draft("a", audit(renamed, **settings), ends(source, target))


def finished(native: str, bounds: Bounds, other: Bounds | None = None, *, dialect: str = "mysql", **settings: Any) -> Plan:
    """The plan of two tables with one key column of that type."""
    asked = audit(key=["id"], **settings)
    both = ends(*(end(dialect, {"id": native}, nullable=["id"]),) * 2)
    return planning.finish(planning.draft("a", asked, both), asked, both, {"source": bounds, "target": other or bounds})


# what columns are compared as


@pytest.mark.parametrize(
    ("source", "target", "kind", "lossy"),
    [
        (("mysql", "tinyint(1)"), ("redshift", "boolean"), "boolean", False),
        (("mysql", "bit(1)"), ("postgres", "boolean"), "boolean", False),
        (("mysql", "datetime(6)"), ("redshift", "timestamp without time zone"), "timestamp(6)", False),
        (("mysql", "datetime"), ("redshift", "timestamp without time zone"), "timestamp(6)", False),
        (("mysql", "datetime(6)"), ("postgres", "timestamp(3) without time zone"), "timestamp(3)", True),
        (("mysql", "timestamp(6)"), ("redshift", "timestamp without time zone"), "timestamp(6)", False),
        (("mysql", "datetime"), ("spark", "date"), "date", True),
        (("mysql", "date"), ("redshift", "timestamp without time zone"), "timestamp(6)", False),
        (("mysql", "decimal(10,2)"), ("redshift", "numeric(12,4)"), "decimal(12,4)", False),
        (("mysql", "decimal(12,4)"), ("redshift", "numeric(10,2)"), "decimal(10,2)", True),
        (("mysql", "decimal(10,2)"), ("postgres", "numeric"), "decimal(18)", True),
        (("mysql", "float"), ("redshift", "real"), "float32", False),
        (("mysql", "double"), ("redshift", "real"), "float32", True),
        (("mysql", "enum('a','b')"), ("redshift", "character varying(9)"), "text", False),
        (("mysql", "json"), ("redshift", "super"), "json", False),
        (("mysql", "json"), ("redshift", "character varying(65535)"), "json", False),
        (("mysql", "char(3)"), ("redshift", "character varying(3)"), "char", False),
        (("mysql", "varchar(3)"), ("redshift", "character(3)"), "char", False),
        (("mysql", "bigint unsigned"), ("redshift", "numeric(20,0)"), "unsigned integer", False),
        (("mysql", "int(10) unsigned zerofill"), ("spark", "bigint"), "integer", False),
        (("mysql", "year"), ("duckdb", "SMALLINT"), "integer", False),
        (("mysql", "char(36)"), ("postgres", "uuid"), "uuid", False),
        (("mysql", "binary(16)"), ("postgres", "bytea"), "binary(16)", False),
    ],
)  # fmt: skip
def test_the_shared_kind(source: tuple[str, str], target: tuple[str, str], kind: str, lossy: bool) -> None:
    tables = end(source[0], {"id": "bigint", "v": source[1]}), end(target[0], {"id": "bigint", "v": target[1]})
    made = draft(*tables, key=["id"])
    column = made.columns[1]
    assert (column.name, str(column.kind), column.types) == ("v", kind, {"source": source[1], "target": target[1]})
    assert (column.lossy is not None) == lossy
    assert len(made.lossy) == int(lossy)
    assert column.why


@pytest.mark.parametrize(
    ("source", "target"), [("binary(16)", "uuid"), ("datetime", "integer"), ("float", "numeric(9,2)"), ("blob", "text")]
)
def test_kinds_that_nobody_may_guess(source: str, target: str) -> None:
    with pytest.raises(
        ColumnRefused, match=r"column 'v': .* share no kind; exclude it, or write columns: override: \{v: \{kind: \.\.\.\}\}"
    ):
        draft(end("mysql", {"id": "bigint", "v": source}), end("postgres", {"id": "bigint", "v": target}), key=["id"])


@pytest.mark.parametrize(
    ("source", "target", "rule", "kind"),
    [
        ("binary(16)", "uuid", {"kind": "uuid"}, "uuid"),
        ("double", "numeric(9,2)", {"round": 2}, "rounded(2)"),
        ("decimal(9,4)", "numeric(9,2)", {"kind": "decimal(9,1)"}, "decimal(9,1)"),
        ("datetime(6)", "date", {"kind": "date"}, "date"),
        ("bigint", "text", {"kind": "integer", "expr": {"source": "v", "target": "CAST(v AS BIGINT)"}}, "integer"),
    ],
)
def test_an_override_of_the_kind(source: str, target: str, rule: dict[str, Any], kind: str) -> None:
    tables = end("mysql", {"id": "bigint", "v": source}), end("postgres", {"id": "bigint", "v": target})
    made = draft(*tables, key=["id"], columns={"override": {"V": rule}})
    assert str(made.columns[1].kind) == kind
    assert made.columns[1].why in ("the audit says so", "the audit's expression")


def test_a_kind_that_a_side_cannot_be() -> None:
    tables = end("mysql", {"id": "bigint", "v": "datetime"}), end("postgres", {"id": "bigint", "v": "date"})
    with pytest.raises(ColumnRefused, match="column 'v': the source's datetime cannot be compared as integer"):
        draft(*tables, key=["id"], columns={"override": {"v": {"kind": "integer"}}})


def test_what_else_an_override_does() -> None:
    table = end("mysql", {"id": "bigint", "v": "text"})
    rule = {"trim": True, "case": "lower", "null_as": "-"}
    column = draft(table, table, key=["id"], columns={"override": {"v": rule}}).columns[1]
    assert (column.trim, column.case, column.null_as) == (True, "lower", "-")


def test_an_expression_is_written_in_each_sides_dialect() -> None:
    tables = end("mysql", {"id": "bigint", "v": "text"}), end("postgres", {"ID": "bigint", "val": "text"})
    rule = {"kind": "text", "expr": "IFNULL(v, 'a')"}
    made = draft(*tables, {"v": "val"}, key=["id"], columns={"override": {"v": rule}}, where="`id` <> 5")
    assert made.columns[1].expression == {"source": "(COALESCE(`v`, 'a'))", "target": "(COALESCE(\"val\", 'a'))"}
    assert (made.sides["source"].where, made.sides["target"].where) == ("(`id` <> 5)", '("ID" <> 5)')


def test_a_decimal_with_too_many_digits() -> None:
    tables = end("mysql", {"id": "bigint", "v": "decimal(65,0)"}), end("redshift", {"id": "bigint", "v": "numeric(38,10)"})
    with pytest.raises(ColumnRefused, match="65 digits before the point and 10 behind it are more than"):
        draft(*tables, key=["id"])


# which columns are compared


def test_names_renames_and_what_is_left_out() -> None:
    source = end("mysql", {"Order_ID": "bigint", "Note": "text", "etl": "text", "mine": "text"}, key=["Order_ID"])
    target = end("redshift", {"id": "bigint", "note": "character varying(9)", "loaded": "date"})
    made = draft(source, target, {"order_id": "id"}, columns={"exclude": ["ETL", "mine"]})
    assert [column.name for column in made.key_columns] == ["Order_ID"]
    assert [column.expression for column in made.columns] == [
        {"source": "`Order_ID`", "target": '"id"'},
        {"source": "`Note`", "target": '"note"'},
    ]
    assert made.left_out == ("etl: left out by the audit", "mine: left out by the audit", "loaded: only in the target")


def test_include_leaves_out_the_rest_but_not_the_key() -> None:
    table = end("mysql", {"a": "text", "id": "bigint", "b": "text"}, key=["id"])
    target = end("mysql", {"a": "text", "id": "bigint", "b": "text", "z": "text"})
    made = draft(table, target, columns={"include": ["b"]})
    assert [column.name for column in made.columns] == ["id", "b"]
    assert made.left_out == ("a: left out by the audit", "z: only in the target")


def test_what_a_left_out_column_is_mapped_to_is_not_only_in_the_target() -> None:
    source, target = end("mysql", {"id": "bigint", "a": "text"}, key=["id"]), end("mysql", {"id": "bigint", "x": "text"})
    assert draft(source, target, {"a": "x"}, columns={"exclude": ["a"]}).left_out == ("a: left out by the audit",)


def test_a_column_of_the_target_stands_for_one_of_the_source() -> None:
    source = end("mysql", {"id": "bigint", "a": "text", "b": "text"}, key=["id"])
    target = end("postgres", {"id": "bigint", "a": "text", "b": "text"})
    words = "column 'b' is not in the target .*: its 'b' stands for the source's 'a'; map it under target: columns: .*, or exclude it"
    with pytest.raises(ColumnRefused, match=words):
        draft(source, target, {"a": "b"})
    with pytest.raises(NoSuchObject, match=r"the key's column 'b' .* its 'b' stands for the source's 'a'"):
        draft(source, target, {"a": "b"}, key=["b"])
    made = draft(source, target, {"A": "b", "b": "A"})
    assert [column.expression["target"] for column in made.columns] == ['"id"', '"b"', '"a"']
    left = draft(source, target, {"a": "b"}, columns={"exclude": ["b"]})
    assert [column.expression["target"] for column in left.columns] == ['"id"', '"b"']
    assert left.left_out == ("b: left out by the audit", "a: only in the target")


def test_two_columns_do_not_share_one_of_the_target() -> None:
    target = end("postgres", {"id": "bigint", "v": "text"})
    source = end("mysql", {"id": "bigint", "a": "text", "b": "text"}, key=["id"])
    with pytest.raises(ColumnRefused, match="columns 'a' and 'b' of the source both stand for the target's 'v'"):
        draft(source, target, {"a": "v", "b": "v"})
    with pytest.raises(ColumnRefused, match="columns 'V' and 'v' of the source both stand for the target's 'v'"):
        draft(end("postgres", {"id": "bigint", "V": "text", "v": "text"}, key=["id"]), target)


def test_a_filter_takes_no_column_for_another() -> None:
    source = end("mysql", {"id": "bigint", "a": "int", "b": "int"}, key=["id"])
    target = end("postgres", {"id": "bigint", "b": "integer"})
    rest: dict[str, Any] = {"columns": {"exclude": ["b"]}}
    assert draft(source, target, {"a": "b"}, where="a > 3", **rest).sides["target"].where == '("b" > 3)'
    with pytest.raises(ColumnRefused, match="there is no column 'b'"):
        draft(source, target, {"a": "b"}, where="b > 3", **rest)
    per = {"source": "a > 3", "target": "b > 3"}
    assert draft(source, target, {"a": "b"}, where=per, **rest).sides["target"].where == '("b" > 3)'


def test_renaming_one_of_two_names_that_differ_only_in_case() -> None:
    source = end("postgres", {"id": "bigint", "V": "text", "v": "text"}, key=["id"])
    target = end("postgres", {"id": "bigint", "v": "text", "w": "text"})
    made = draft(source, target, {"V": "w"})
    assert [column.expression["target"] for column in made.columns] == ['"id"', '"w"', '"v"']


def test_names_that_differ_only_in_case_are_told_apart() -> None:
    table = end("postgres", {"id": "bigint", "V": "text", "v": "integer"}, key=["id"])
    assert [(c.name, str(c.kind)) for c in draft(table, table).columns] == [("id", "integer"), ("V", "text"), ("v", "integer")]


def test_everything_that_is_wrong_is_told_at_once() -> None:
    source = end("mysql", {"id": "bigint", "p": "point", "b": "blob", "gone": "text"}, key=["id"])
    target = end("postgres", {"id": "bigint", "p": "point", "b": "integer"})
    with pytest.raises(ColumnRefused) as caught:
        draft(source, target, columns={"exclude": ["absent"]}, where="nope = 1")
    told = str(caught.value)
    assert told.startswith("audit a cannot run as it is:\n  - ")
    for words in ("'absent' that neither side has", "'gone' is not in the target", "type 'point'", "share no kind", "no column 'nope'"):
        assert words in told


def test_a_key_that_is_not_there() -> None:
    table = end("mysql", {"id": "bigint"})
    with pytest.raises(NoKey, match=r"write key: \[column, \.\.\.\]"):
        draft(table, table)
    with pytest.raises(NoSuchObject, match="the key's column 'x' is not in the source"):
        draft(table, table, key=["x"])
    with pytest.raises(NoSuchObject, match=r"the key's column 'id' is not in the target .*; map it under target: columns"):
        draft(table, end("mysql", {"other": "bigint"}), key=["id"])


def test_md5_that_a_server_has_not() -> None:
    old, new = (dialects.get("mysql").for_server(version) for version in ("9.5.0", "9.6.0"))
    tables = [Endpoint("c", "c: t", spoken, end("mysql", {"id": "bigint"}).table) for spoken in (old, new)]
    assert draft(tables[0], tables[0], key=["id"], hash="md5").hash == "md5"
    with pytest.raises(HashMissing, match=r"the target .*component_classic_hashing'.*hash: sha256"):
        draft(tables[0], tables[1], key=["id"], encoding="published")


@pytest.mark.parametrize("where", ["", "id =", "1 = 1) OR (2 = 2", "id = 1 UNION SELECT 1", "id = 1 ORDER BY id", "EXISTS (SELECT 1)"])
def test_what_is_no_filter(where: str) -> None:
    table = end("mysql", {"id": "bigint"})
    with pytest.raises(PlanError) as caught:
        draft(table, table, key=["id"], where=where)
    assert isinstance(caught.value, BadExpression | ColumnRefused)


# partitions


@pytest.mark.parametrize(
    ("native", "bounds", "strategy"),
    [
        ("bigint", Bounds(100_000, 1, 100_000), "range of 3,072 keys"),
        ("bigint", Bounds(100_000, -50_000, 49_999), "range of 3,072 keys"),
        ("bigint", Bounds(100_000, 1, 1_000_000), "range of 30,720 keys"),
        ("bigint", Bounds(1_000, -(2**63), 2**63 - 1), "hash in 1 buckets"),
        ("bigint", Bounds(1_000_000, 1, 2**62), "hash in 326 buckets"),
        ("bigint unsigned", Bounds(100_000, 2**64 - 100_000, 2**64 - 1), "range of 3,072 keys"),
        ("bigint", Bounds(1_000_000_000, 1, 1_000_000_000), "range of 15,264 keys"),
        ("varchar(36)", Bounds(100_000), "hash in 33 buckets"),
        ("varchar(36)", Bounds(10_000_000_000), "hash in 65,536 buckets"),
        ("datetime", Bounds(0), "hash in 1 buckets"),
    ],
)
def test_the_strategy_that_is_chosen(native: str, bounds: Bounds, strategy: str) -> None:
    made = finished(native, bounds).partitioning
    assert str(made) == strategy
    assert made.why


def test_a_composite_key_is_hashed() -> None:
    table = end("mysql", {"a": "bigint", "b": "bigint"}, key=["a", "b"])
    asked, both = audit(), ends(table, table)
    made = planning.finish(planning.draft("a", asked, both), asked, both, dict.fromkeys(SIDES, Bounds(5000)))
    assert (str(made.partitioning), made.sides["source"].chunks) == ("hash in 2 buckets", (Chunk(),))


@pytest.mark.parametrize(
    ("partition", "strategy"),
    [
        ({"size": 8}, "range of 8 keys"),
        ({"strategy": "hash"}, "hash in 33 buckets"),
        ({"buckets": 7}, "hash in 7 buckets"),
        ({"rows": 100}, "range of 100 keys"),
        ({"limit": 10}, "range of 10,016 keys"),
    ],
)
def test_the_partitions_that_are_asked_for(partition: dict[str, Any], strategy: str) -> None:
    assert str(finished("bigint", Bounds(100_000, 1, 100_000), partition=partition).partitioning) == strategy


@pytest.mark.parametrize(
    ("native", "partition", "words"),
    [
        ("text", {"strategy": "range"}, "range partitions need a key of one integer column; write strategy: hash"),
        ("text", {"size": 8}, "range partitions need a key of one integer column"),
        ("bigint", {"strategy": "time"}, "time partitions need a column"),
        ("bigint", {"column": "id"}, "holds no dates or timestamps"),
        ("bigint", {"column": "absent"}, "is not compared"),
        ("bigint unsigned", {"size": 1}, "at least 2 keys; write size: 2 or more"),
    ],
)
def test_partitions_that_do_not_fit(native: str, partition: dict[str, Any], words: str) -> None:
    with pytest.raises(PlanError, match=words):
        finished(native, Bounds(10, 1, 10), partition=partition)


def test_what_partitions_are_cut_by_has_nothing_that_stands_for_null() -> None:
    rule = {"override": {"id": {"null_as": "0"}}}
    assert finished("bigint", Bounds(10, 1, 10), columns=rule).partitioning.strategy == "hash"
    with pytest.raises(PlanError, match="by the column 'id': it cannot have null_as"):
        finished("datetime", Bounds(10), partition={"column": "id"}, columns=rule)


@pytest.mark.parametrize(("unit", "label"), [("hour", "1970-02-02 08:00"), ("day", "2072-02-24"), ("month", "5079-02")])
def test_time_partitions(unit: str, label: str) -> None:
    made = finished("datetime", Bounds(10), partition={"column": "id", "unit": unit}).partitioning
    assert (str(made), made.column, made.label({"hour": 776}.get(unit, 37_309))) == (f"time by {unit}", 0, label)


@pytest.mark.parametrize(
    ("source", "target", "rule"),
    [
        (("mysql", "datetime"), ("spark", "date"), {}),
        (("mysql", "date"), ("redshift", "timestamp without time zone"), {}),
        (("mysql", "date"), ("mysql", "date"), {}),
        (("postgres", "timestamp without time zone"), ("postgres", "timestamp without time zone"), {"kind": "date"}),
    ],
)
def test_days_have_no_hours(source: tuple[str, str], target: tuple[str, str], rule: dict[str, Any]) -> None:
    both = ends(*(end(dialect, {"id": "bigint", "at": native}, key=["id"]) for dialect, native in (source, target)))
    bounds = dict.fromkeys(SIDES, Bounds(10, 1, 10))
    for unit in ("day", "month"):
        asked = audit(partition={"column": "at", "unit": unit}, columns={"override": {"at": rule}})
        assert planning.finish(planning.draft("a", asked, both), asked, both, bounds).partitioning.unit == unit
    asked = audit(partition={"column": "at", "unit": "hour"}, columns={"override": {"at": rule}})
    with pytest.raises(PlanError, match=r"'at' of its time partitions has no hours \(.* and .*, compared as .*\); write unit: day"):
        planning.finish(planning.draft("a", asked, both), asked, both, bounds)


# chunks

KEYS = st.integers(-(2**63), 2**63 - 1)


@given(st.integers(0, 10**10), KEYS, KEYS)
def test_partitions_are_not_too_many(rows: int, one: int, other: int) -> None:
    least, greatest = min(one, other), max(one, other)
    made = finished("bigint", Bounds(rows, least, greatest), Bounds(rows // 2, least, greatest))
    how = made.partitioning
    assert (made.least, made.greatest) == (least, greatest)
    if how.strategy == "range":
        assert greatest // how.size - least // how.size + 1 <= MAX_PARTITIONS + 1
    for side in SIDES:
        here = made.sides[side]
        assert [chunk.null_key for chunk in here.chunks] == ([False, False, True] if here.chunk_keys else [False])


def test_where_chunks_are_not_needed() -> None:
    many = Bounds(10 * CHUNK_ROWS, 1, 10 * CHUNK_ROWS)
    assert finished("bigint", many).sides["source"].chunk_keys == CHUNK_ROWS
    assert finished("bigint", many, dialect="redshift").sides["source"].chunk_keys == 0
    assert finished("bigint", Bounds(CHUNK_ROWS, 1, CHUNK_ROWS)).sides["source"].chunk_keys == 0


@pytest.mark.parametrize(
    ("columns", "nullable", "chunk"),
    [({}, [], False), ({}, ["id"], True), ({"override": {"id": {"expr": "id + 0", "kind": "integer"}}}, [], True)],
)
def test_rows_without_a_key_have_a_chunk_where_there_can_be_any(columns: dict[str, Any], nullable: list[str], chunk: bool) -> None:
    both = ends(*(end("mysql", {"id": "bigint"}, key=["id"], nullable=nullable),) * 2)
    asked = audit(columns=columns)
    made = planning.finish(planning.draft("a", asked, both), asked, both, dict.fromkeys(SIDES, Bounds(10**7, 1, 10**7)))
    assert any(one.null_key for one in made.sides["source"].chunks) == chunk
