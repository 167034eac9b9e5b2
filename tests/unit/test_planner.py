"""Planning without a database: compared columns and their kinds, partitions, chunks, and rejected settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

import dialects
from auditor.config import Audit
from auditor.errors import BadExpression, ColumnRefused, HashMissing, NoKey, NoSuchObject, PlanError
from auditor.model import SIDES, Chunk, Plan, Side
from auditor.planning import planner as planning
from auditor.planning.columns import Endpoint
from auditor.planning.partitioning import Bounds
from dialects import Column, Table

Columns = Mapping[str, str]
MAX_PARTITIONS = 65536


def end(dialect: str, columns: Columns, key: Sequence[str] = (), nullable: Sequence[str] = ()) -> Endpoint:
    """Return an endpoint whose table has columns of these native types."""
    engine = dialects.get(dialect)
    described = tuple(Column(name, native, engine.types.kind(native), name in nullable) for name, native in columns.items())
    return Endpoint("c", "c: t", engine, Table(engine.names.table("t"), described, tuple(key), None))


def ends(source: Endpoint, target: Endpoint) -> dict[Side, Endpoint]:
    return {"source": source, "target": target}


def audit(renamed: Mapping[str, str] | None = None, **settings: Any) -> Audit:
    tables = {"source": {"connection": "c", "table": "t"}, "target": {"connection": "c", "table": "t", "columns": renamed or {}}}
    return Audit.model_validate({"method": "signature", **tables, **settings})


def draft(source: Endpoint, target: Endpoint, renamed: Mapping[str, str] | None = None, **settings: Any) -> Plan:
    return planning.draft("a", audit(renamed, **settings), ends(source, target))


def finish_plan(native: str, bounds: Bounds, other: Bounds | None = None, *, dialect: str = "mysql", **settings: Any) -> Plan:
    """Return the finished plan of two tables with one key column of this type."""
    definition = audit(key=["id"], **settings)
    both = ends(*(end(dialect, {"id": native}, nullable=["id"]),) * 2)
    return planning.finish(planning.draft("a", definition, both), definition, both, {"source": bounds, "target": other or bounds})


# the kinds that columns are compared as


@pytest.mark.parametrize(
    ("source", "target", "kind", "how"),
    [
        (("mysql", "tinyint(1)"), ("redshift", "boolean"), "boolean", "folded"),
        (("mysql", "bit(1)"), ("postgres", "boolean"), "boolean", ""),
        (("mysql", "datetime(6)"), ("redshift", "timestamp without time zone"), "timestamp(6)", ""),
        (("mysql", "datetime"), ("redshift", "timestamp without time zone"), "timestamp(6)", ""),
        (("mysql", "datetime(6)"), ("postgres", "timestamp(3) without time zone"), "timestamp(3) rounded half from 2000", "rounded"),
        (("mysql", "timestamp(6)"), ("redshift", "timestamp without time zone"), "timestamp(6)", "assumed"),
        (("mysql", "datetime"), ("spark", "date"), "date", "cut"),
        (("mysql", "date"), ("redshift", "timestamp without time zone"), "timestamp(6)", ""),
        (("mysql", "decimal(10,2)"), ("redshift", "numeric(12,4)"), "decimal(12,4)", ""),
        (("mysql", "decimal(12,4)"), ("redshift", "numeric(10,2)"), "decimal(10,2)", "rounded"),
        (("mysql", "decimal(10,2)"), ("postgres", "numeric"), "decimal", ""),
        (("postgres", "numeric"), ("postgres", "numeric"), "decimal", ""),
        (("postgres", "numeric"), ("mysql", "varchar(30)"), "text", ""),
        (("postgres", "numeric"), ("redshift", "numeric(38,20)"), "decimal", ""),
        (("postgres", "timestamp(6) without time zone"), ("mysql", "datetime(3)"), "timestamp(3) rounded half up", "rounded"),
        (("postgres", "timestamp(6) with time zone"), ("duckdb", "TIMESTAMP_MS"), "timestamp(3) rounded half from 1970", "assumed rounded"),
        (("postgres", "timestamp(6) without time zone"), ("mysql", "date"), "date rounded half up", "cut"),
        (("duckdb", "TIMESTAMP_NS"), ("spark", "timestamp_ntz"), "timestamp(6)", "cut"),
        (("postgres", "time(6) without time zone"), ("mysql", "time"), "time(0) rounded half up", "rounded"),
        (("mysql", "float"), ("redshift", "real"), "float32", ""),
        (("mysql", "double"), ("redshift", "real"), "float32", "rounded"),
        (("mysql", "enum('a','b')"), ("redshift", "character varying(9)"), "text", ""),
        (("mysql", "json"), ("redshift", "super"), "json", "ignored"),
        (("mysql", "json"), ("redshift", "character varying(65535)"), "json", "ignored"),
        (("mysql", "char(3)"), ("redshift", "character varying(3)"), "char", "padded"),
        (("mysql", "varchar(3)"), ("redshift", "character(3)"), "char", "padded"),
        (("mysql", "bigint unsigned"), ("redshift", "numeric(20,0)"), "unsigned integer", ""),
        (("mysql", "int(10) unsigned zerofill"), ("spark", "bigint"), "integer", ""),
        (("mysql", "year"), ("duckdb", "SMALLINT"), "integer", ""),
        (("mysql", "char(36)"), ("postgres", "uuid"), "uuid", "folded"),
        (("mysql", "binary(16)"), ("postgres", "bytea"), "binary(16)", ""),
    ],
)  # fmt: skip
def test_shared_kind_of_two_native_types(source: tuple[str, str], target: tuple[str, str], kind: str, how: str) -> None:
    tables = end(source[0], {"id": "bigint", "v": source[1]}), end(target[0], {"id": "bigint", "v": target[1]})
    plan = draft(*tables, key=["id"])
    column = plan.columns[1]
    assert (column.name, str(column.kind), column.types) == ("v", kind, {"source": source[1], "target": target[1]})
    assert sorted(one.how for one in plan.not_compared if one.column == "v") == how.split()
    assert column.why


@pytest.mark.parametrize(("source", "target"), [("binary(20)", "uuid"), ("datetime", "integer"), ("float", "date"), ("blob", "text")])
def test_types_without_a_shared_kind_are_rejected(source: str, target: str) -> None:
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
def test_override_sets_the_kind(source: str, target: str, rule: dict[str, Any], kind: str) -> None:
    tables = end("mysql", {"id": "bigint", "v": source}), end("postgres", {"id": "bigint", "v": target})
    plan = draft(*tables, key=["id"], columns={"override": {"V": rule}})
    assert str(plan.columns[1].kind) == kind
    assert plan.columns[1].why in ("the audit says so", "the audit's expression")


def test_override_kind_must_fit_both_sides() -> None:
    tables = end("mysql", {"id": "bigint", "v": "datetime"}), end("postgres", {"id": "bigint", "v": "date"})
    with pytest.raises(ColumnRefused, match="column 'v': the source's datetime cannot be compared as integer"):
        draft(*tables, key=["id"], columns={"override": {"v": {"kind": "integer"}}})


def test_override_sets_trim_case_and_null_as() -> None:
    table = end("mysql", {"id": "bigint", "v": "text"})
    rule = {"trim": True, "case": "lower", "null_as": "-"}
    column = draft(table, table, key=["id"], columns={"override": {"v": rule}}).columns[1]
    assert (column.trim, column.case, column.null_as) == (True, "lower", "-")


def test_expressions_are_translated_to_each_sides_dialect() -> None:
    tables = end("mysql", {"id": "bigint", "v": "text"}), end("postgres", {"ID": "bigint", "val": "text"})
    rule = {"kind": "text", "expr": "IFNULL(v, 'a')"}
    plan = draft(*tables, {"v": "val"}, key=["id"], columns={"override": {"v": rule}}, where="Id <> 5")
    assert plan.columns[1].expression == {"source": "(COALESCE(`v`, 'a'))", "target": "(COALESCE(\"val\", 'a'))"}
    assert (plan.sides["source"].where, plan.sides["target"].where) == ("(`id` <> 5)", '("ID" <> 5)')


def test_decimal_with_too_many_digits_is_rejected() -> None:
    tables = end("mysql", {"id": "bigint", "v": "decimal(65,0)"}), end("redshift", {"id": "bigint", "v": "numeric(38,10)"})
    with pytest.raises(ColumnRefused, match="65 digits before the decimal point and 10 after it are more than"):
        draft(*tables, key=["id"])


# which columns are compared


def test_columns_are_matched_by_name_renamed_and_excluded() -> None:
    source = end("mysql", {"Order_ID": "bigint", "Note": "text", "etl": "text", "mine": "text"}, key=["Order_ID"])
    target = end("redshift", {"id": "bigint", "note": "character varying(9)", "loaded": "date"})
    plan = draft(source, target, {"order_id": "id"}, columns={"exclude": ["ETL", "mine"]})
    assert [column.name for column in plan.key_columns] == ["Order_ID"]
    assert [column.expression for column in plan.columns] == [
        {"source": "`Order_ID`", "target": '"id"'},
        {"source": "`Note`", "target": '"note"'},
    ]
    assert [str(one) for one in plan.not_compared] == [
        "etl: left out by the audit",
        "mine: left out by the audit",
        "loaded (target): only in the target",
        "Note: the capitals of its name are ignored: the target has 'note', not 'Note'",
    ]


def test_include_excludes_other_columns_except_the_key() -> None:
    table = end("mysql", {"a": "text", "id": "bigint", "b": "text"}, key=["id"])
    target = end("mysql", {"a": "text", "id": "bigint", "b": "text", "z": "text"})
    plan = draft(table, target, columns={"include": ["b"]})
    assert [column.name for column in plan.columns] == ["id", "b"]
    assert [str(one) for one in plan.not_compared] == ["a: left out by the audit", "z (target): only in the target"]


def test_target_column_of_an_excluded_column_is_not_reported_as_extra() -> None:
    source, target = end("mysql", {"id": "bigint", "a": "text"}, key=["id"]), end("mysql", {"id": "bigint", "x": "text"})
    plan = draft(source, target, {"a": "x"}, columns={"exclude": ["a"]})
    assert [str(one) for one in plan.not_compared] == ["a: left out by the audit"]


def test_renamed_target_column_is_not_matched_by_its_own_name() -> None:
    source = end("mysql", {"id": "bigint", "a": "text", "b": "text"}, key=["id"])
    target = end("postgres", {"id": "bigint", "a": "text", "b": "text"})
    words = "column 'b' is not in the target .*: its 'b' stands for the source's 'a'; map it under target: columns: .*, or exclude it"
    with pytest.raises(ColumnRefused, match=words):
        draft(source, target, {"a": "b"})
    with pytest.raises(NoSuchObject, match=r"the key's column 'b' .* its 'b' stands for the source's 'a'"):
        draft(source, target, {"a": "b"}, key=["b"])
    plan = draft(source, target, {"A": "b", "b": "A"})
    assert [column.expression["target"] for column in plan.columns] == ['"id"', '"b"', '"a"']
    excluded = draft(source, target, {"a": "b"}, columns={"exclude": ["b"]})
    assert [column.expression["target"] for column in excluded.columns] == ['"id"', '"b"']
    assert [str(one) for one in excluded.not_compared] == ["b: left out by the audit", "a (target): only in the target"]


def test_two_source_columns_cannot_map_to_one_target_column() -> None:
    target = end("postgres", {"id": "bigint", "v": "text"})
    source = end("mysql", {"id": "bigint", "a": "text", "b": "text"}, key=["id"])
    with pytest.raises(ColumnRefused, match="columns 'a' and 'b' of the source both stand for the target's 'v'"):
        draft(source, target, {"a": "v", "b": "v"})
    with pytest.raises(ColumnRefused, match="columns 'V' and 'v' of the source both stand for the target's 'v'"):
        draft(end("postgres", {"id": "bigint", "V": "text", "v": "text"}, key=["id"]), target)


def test_filter_respects_renamed_columns() -> None:
    source = end("mysql", {"id": "bigint", "a": "int", "b": "int"}, key=["id"])
    target = end("postgres", {"id": "bigint", "b": "integer"})
    rest: dict[str, Any] = {"columns": {"exclude": ["b"]}}
    assert draft(source, target, {"a": "b"}, where="a > 3", **rest).sides["target"].where == '("b" > 3)'
    with pytest.raises(ColumnRefused, match=r"where: the column 'b' is not in the target .*: its 'b' stands for the source's 'a'; map it"):
        draft(source, target, {"a": "b"}, where="b > 3", **rest)
    per = {"source": "a > 3", "target": "b > 3"}
    plan = draft(source, target, {"a": "b"}, where=per, **rest)
    assert [plan.sides[side].where for side in SIDES] == ["(a > 3)", "(b > 3)"]


def test_a_filter_of_the_source_alone_leaves_all_rows_of_the_target() -> None:
    source = end("mysql", {"id": "bigint", "a": "int", "secret": "varchar(9)"}, key=["id"])
    target = end("postgres", {"id": "bigint", "b": "integer"})
    rest: dict[str, Any] = {"columns": {"exclude": ["secret"]}, "where_on": "source"}
    plan = draft(source, target, {"a": "b"}, where="secret = 'x' AND (a > 3) IS NOT TRUE", **rest)
    assert plan.sides["target"].where == "" and plan.sides["source"].where.endswith(" ELSE CAST(0 AS DECIMAL(1,0)) END = 0))")
    with pytest.raises(ColumnRefused, match="where: there is no column 'b' in the source; use one of id, a, secret, and write texts"):
        draft(source, target, {"a": "b"}, where="b > 3", **rest)


def test_renaming_is_case_sensitive_if_names_differ_only_in_case() -> None:
    source = end("postgres", {"id": "bigint", "V": "text", "v": "text"}, key=["id"])
    target = end("postgres", {"id": "bigint", "v": "text", "w": "text"})
    plan = draft(source, target, {"V": "w"})
    assert [column.expression["target"] for column in plan.columns] == ['"id"', '"w"', '"v"']


def test_names_that_differ_only_in_case_are_distinct_columns() -> None:
    table = end("postgres", {"id": "bigint", "V": "text", "v": "integer"}, key=["id"])
    assert [(c.name, str(c.kind)) for c in draft(table, table).columns] == [("id", "integer"), ("V", "text"), ("v", "integer")]


def test_all_column_problems_are_reported_at_once() -> None:
    source = end("mysql", {"id": "bigint", "p": "point", "b": "blob", "gone": "text"}, key=["id"])
    target = end("postgres", {"id": "bigint", "p": "point", "b": "integer"})
    with pytest.raises(ColumnRefused) as caught:
        draft(source, target, columns={"exclude": ["absent"]}, where="nope = 1")
    message = str(caught.value)
    assert message.startswith("a:\n  - ")
    for words in ("'absent' that neither side has", "'gone' is not in the target", "share no kind", "no column 'nope'"):
        assert words in message


def test_missing_key_is_rejected() -> None:
    table = end("mysql", {"id": "bigint"})
    with pytest.raises(NoKey, match=r"write key: \[column, \.\.\.\]"):
        draft(table, table)
    with pytest.raises(NoSuchObject, match="the key's column 'x' is not in the source"):
        draft(table, table, key=["x"])
    with pytest.raises(NoSuchObject, match=r"the key's column 'id' is not in the target .*; map it under target: columns"):
        draft(table, end("mysql", {"other": "bigint"}), key=["id"])


def test_md5_is_rejected_if_the_server_lacks_it() -> None:
    old, new = (dialects.get("mysql").for_server(version) for version in ("9.5.0", "9.6.0"))
    tables = [Endpoint("c", "c: t", engine, end("mysql", {"id": "bigint"}).table) for engine in (old, new)]
    assert draft(tables[0], tables[0], key=["id"], hash="md5").hash == "md5"
    with pytest.raises(HashMissing, match=r"the target .*component_classic_hashing'.*hash: sha256"):
        draft(tables[0], tables[1], key=["id"], encoding="published")


@pytest.mark.parametrize("where", ["", "id =", "1 = 1) OR (2 = 2", "id = 1 UNION SELECT 1", "id = 1 ORDER BY id", "EXISTS (SELECT 1)"])
def test_invalid_filters_are_rejected(where: str) -> None:
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
def test_partition_strategy_is_chosen_by_type_and_bounds(native: str, bounds: Bounds, strategy: str) -> None:
    partitioning = finish_plan(native, bounds).partitioning
    assert str(partitioning) == strategy
    assert partitioning.why


@pytest.mark.parametrize(
    ("rows", "settings", "snapshot"),
    [
        (None, {}, "whole"),
        (33_554_432, {}, "whole"),
        (33_554_433, {}, "per_chunk"),
        (33_554_433, {"snapshot": "whole"}, "whole"),
        (1, {"snapshot": "per_chunk"}, "per_chunk"),
    ],
)
def test_one_snapshot_is_held_of_tables_that_are_read_soon(rows: int | None, settings: dict[str, Any], snapshot: str) -> None:
    small, table = end("mysql", {"id": "bigint"}), end("mysql", {"id": "bigint"})
    large = replace(table, table=replace(table.table, estimate=rows))
    for both in (ends(small, large), ends(large, small)):
        assert planning.draft("a", audit(key=["id"], **settings), both).snapshot == snapshot


def test_composite_key_uses_hash_partitions() -> None:
    table = end("mysql", {"a": "bigint", "b": "bigint"}, key=["a", "b"])
    definition, both = audit(), ends(table, table)
    plan = planning.finish(planning.draft("a", definition, both), definition, both, dict.fromkeys(SIDES, Bounds(5000)))
    assert (str(plan.partitioning), plan.sides["source"].chunks) == ("hash in 2 buckets", (Chunk(),))


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
def test_partition_settings_are_applied(partition: dict[str, Any], strategy: str) -> None:
    assert str(finish_plan("bigint", Bounds(100_000, 1, 100_000), partition=partition).partitioning) == strategy


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
def test_invalid_partition_settings_are_rejected(native: str, partition: dict[str, Any], words: str) -> None:
    with pytest.raises(PlanError, match=words):
        finish_plan(native, Bounds(10, 1, 10), partition=partition)


@pytest.mark.parametrize(
    ("rows", "settings", "size"),
    [
        (65_535, {"method": "exact"}, 3072),
        (65_536, {"method": "exact"}, 128),
        (100_000, {"method": "exact"}, 128),
        (1_000_000, {"method": "exact"}, 1024),
        (2_097_152, {"method": "exact"}, 3072),
        (100_000, {"method": "exact", "partition": {"rows": 3072}}, 3072),
        (100_000, {"method": "signature"}, 3072),
    ],
)
def test_the_method_exact_cuts_tables_of_middle_size_finer(rows: int, settings: dict[str, Any], size: int) -> None:
    assert finish_plan("bigint", Bounds(rows, 1, rows), **settings).partitioning.size == size
    assert finish_plan("bigint", Bounds(rows, 1, rows + 100), **settings).partitioning.size in (size, size + 32)  # a multiple of 32
    buckets = finish_plan("varchar(20)", Bounds(rows), **settings).partitioning.buckets
    assert buckets == -(-rows // size)


def test_partition_column_cannot_have_null_as() -> None:
    rule = {"override": {"id": {"null_as": "0"}}}
    assert finish_plan("bigint", Bounds(10, 1, 10), columns=rule).partitioning.strategy == "hash"
    with pytest.raises(PlanError, match="by the column 'id': it cannot have null_as; remove it"):
        finish_plan("datetime", Bounds(10), partition={"column": "id"}, columns=rule)


@pytest.mark.parametrize(("unit", "label"), [("hour", "1970-02-02 08:00"), ("day", "2072-02-24"), ("month", "5079-02")])
def test_time_partition_labels(unit: str, label: str) -> None:
    how = finish_plan("datetime", Bounds(10), partition={"column": "id", "unit": unit}).partitioning
    assert (str(how), how.column, how.label({"hour": 776}.get(unit, 37_309))) == (f"time by {unit}", 0, label)


@pytest.mark.parametrize(
    ("source", "target", "rule"),
    [
        (("mysql", "datetime"), ("spark", "date"), {}),
        (("mysql", "date"), ("redshift", "timestamp without time zone"), {}),
        (("mysql", "date"), ("mysql", "date"), {}),
        (("postgres", "timestamp without time zone"), ("postgres", "timestamp without time zone"), {"kind": "date"}),
    ],
)
def test_hour_partitions_of_a_date_are_rejected(source: tuple[str, str], target: tuple[str, str], rule: dict[str, Any]) -> None:
    both = ends(*(end(dialect, {"id": "bigint", "at": native}, key=["id"]) for dialect, native in (source, target)))
    bounds = dict.fromkeys(SIDES, Bounds(10, 1, 10))
    for unit in ("day", "month"):
        definition = audit(partition={"column": "at", "unit": unit}, columns={"override": {"at": rule}})
        assert planning.finish(planning.draft("a", definition, both), definition, both, bounds).partitioning.unit == unit
    definition = audit(partition={"column": "at", "unit": "hour"}, columns={"override": {"at": rule}})
    with pytest.raises(PlanError, match=r"'at' of its time partitions has no hours \(.* and .*, compared as .*\); write unit: day"):
        planning.finish(planning.draft("a", definition, both), definition, both, bounds)
