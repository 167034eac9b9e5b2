"""Comparing saved results: every client's output format gives the verdict of a connected run, or a clear error."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor import service
from auditor.canonical import VERSION
from auditor.cli import main
from auditor.config import Audit, Settings, Threshold, validate_settings
from auditor.errors import ResultError
from auditor.model import SIDES, Comparison, Method, Side, Verdict
from tests.console_formats import FORMATS, Result, as_csv, as_data_api, as_drawn, as_objects

METHODS: tuple[Method, ...] = ("counts", "signature", "minhash", "exact")
ROWS = "SELECT NULLIF(i, 39) AS id, 'v' || i AS v FROM range(40) t(i)"
"""One row has a NULL key, so its partition id is NULL."""
CHANGED = "SELECT id, CASE WHEN id = 20 THEN 'changed' ELSE v END AS v FROM original WHERE id IS NULL OR id NOT BETWEEN 24 AND 31"


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of two databases, which tests must only read."""
    directory = tmp_path_factory.mktemp("databases")
    for side in SIDES:
        with duckdb.connect(str(directory / f"{side}.duckdb")) as connection:
            connection.execute(f"CREATE TABLE original AS {ROWS}")
            connection.execute(f"CREATE TABLE orders AS {CHANGED if side == 'target' else 'SELECT * FROM original'}")
            connection.execute("CREATE TABLE nothing AS SELECT * FROM original WHERE FALSE")
    return directory


@pytest.fixture
def settings(databases: Path) -> Settings:
    return settings_of(databases)


def settings_of(databases: Path) -> Settings:
    """Return an audit that mismatches (orders), one that matches (original), and one of empty tables (nothing)."""
    ends = {side: {"connection": side} for side in SIDES}
    return Settings.model_validate(
        {
            "connections": {side: {"url": f"duckdb:///{databases}/{side}.duckdb"} for side in SIDES},
            "audits": {
                table: {
                    "key": ["id"],
                    "partition": {"strategy": "range", "size": 8},
                    **{side: {**end, "table": table} for side, end in ends.items()},
                }
                for table in ("orders", "original", "nothing")
            },
        }
    )


def statement(settings: Settings, side: Side, audit: str, method: Method) -> str:
    """Return the statement of the console script whose result is saved."""
    script = service.sql(settings, audit, (side,), method)[side]
    (found,) = re.findall(r"^SELECT\n.*?(?=;$)", script, re.MULTILINE | re.DOTALL)
    return str(found)


_RESULTS: dict[tuple[str, ...], Result] = {}


def query_result(settings: Settings, side: Side, audit: str = "orders", method: Method = "minhash") -> Result:
    """Run the console statement of a side, once for each audit and method, and return its column names and rows."""
    asked = (settings.connections[side].url, side, audit, method, settings.audit(audit).model_dump_json())
    if asked not in _RESULTS:
        with duckdb.connect(settings.connections[side].url.removeprefix("duckdb:///"), read_only=True) as connection:
            cursor = connection.execute(statement(settings, side, audit, method))
            _RESULTS[asked] = [column[0] for column in cursor.description], cursor.fetchall()
    names, rows = _RESULTS[asked]
    return list(names), list(rows)


def save_results(directory: Path, settings: Settings, form: str, audit: str = "orders", method: Method = "minhash") -> tuple[Path, Path]:
    """Write both sides' results to files in this format and return their paths."""
    files = []
    for side in SIDES:
        path = directory / f"{side}.txt"
        path.write_text(FORMATS[form](query_result(settings, side, audit, method)), encoding="utf-8", newline="")
        files.append(path)
    return files[0], files[1]


def findings(found: Comparison | None) -> tuple[Any, ...]:
    """Return the findings of a comparison, without the labels of its partitions."""
    assert found
    parts = [(one.partition, one.key_range, one.rows, one.similarity) for one in found.divergent]
    return found.verdict, found.published, found.rows, found.total, found.equal, found.source_only, found.target_only, found.skipped, parts


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("audit", ["orders", "original"])
@pytest.mark.few
def test_saved_results_give_the_findings_of_a_connected_run(tmp_path: Path, settings: Settings, method: Method, audit: str) -> None:
    changed = settings.model_copy(update={"audits": {audit: settings.audit(audit).model_copy(update={"method": method})}})
    connected = service.run_audit(changed, audit)
    found = service.compare_files(*save_results(tmp_path, settings, "csv", audit, method))
    assert found.exit_code == (1 if audit == "orders" else 0)
    assert found.audit == audit
    assert findings(found.comparison) == findings(connected.comparison)


@pytest.mark.parametrize("form", FORMATS)
def test_every_file_format_gives_the_same_findings(tmp_path: Path, settings: Settings, form: str) -> None:
    found = service.compare_files(*save_results(tmp_path, settings, form))
    assert findings(found.comparison) == findings(service.run_audit(with_method(settings, "minhash"), "orders").comparison)
    assert found.comparison
    assert {one.partition for one in found.comparison.divergent} == {2, 3}
    assert found.comparison.total == 6


def with_method(settings: Settings, method: Method) -> Settings:
    return settings.model_copy(update={"audits": {"orders": settings.audit("orders").model_copy(update={"method": method})}})


def test_parquet_gives_the_findings_of_csv(tmp_path: Path, settings: Settings) -> None:
    files = []
    for side in SIDES:
        path = tmp_path / f"{side}.parquet"
        with duckdb.connect(settings.connections[side].url.removeprefix("duckdb:///"), read_only=True) as connection:
            connection.execute(f"COPY ({statement(settings, side, 'orders', 'minhash')}) TO '{path}'")
        files.append(path)
    found = service.compare_files(files[0], files[1])
    assert findings(found.comparison) == findings(service.compare_files(*save_results(tmp_path, settings, "csv")).comparison)


def test_compare_command_reports_the_mismatch(tmp_path: Path, settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = save_results(tmp_path, settings, "mysql --batch")
    assert main(["compare", "--source", str(source), "--target", str(target), "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["audit"], found["verdict"], found["partitions"]["unequal"]) == ("orders", "mismatch", 2)


@pytest.mark.parametrize("form", ["csv", "mysql --batch", "JSON array"])
def test_two_empty_results_are_unknown_unless_allow_empty(tmp_path: Path, settings: Settings, form: str) -> None:
    files = save_results(tmp_path, settings, form, "nothing")
    assert service.compare_files(*files).verdict == "unknown"
    allowed = settings.audit("nothing").model_copy(update={"allow_empty": True})
    assert service.compare_files(*files, allowed).verdict == "match"


def test_one_empty_result_is_a_mismatch(tmp_path: Path, settings: Settings) -> None:
    source, _ = save_results(tmp_path, settings, "csv")
    empty = tmp_path / "empty.csv"
    empty.write_text(as_csv(query_result(settings, "target", "nothing")), encoding="utf-8")
    assert service.compare_files(source, empty).verdict == "mismatch"


def test_score_threshold_of_the_audit_applies(tmp_path: Path, settings: Settings) -> None:
    lenient = settings.audit("orders").model_copy(update={"threshold": Threshold(score=0.5)})
    assert service.compare_files(*save_results(tmp_path, settings, "csv"), lenient).verdict == "match"


@pytest.mark.parametrize("method", ["signature", "minhash", "exact"])
def test_row_threshold_counts_all_rows_that_may_differ(tmp_path: Path, settings: Settings, method: Method) -> None:
    """Two partitions differ: one with a changed row, where all eight rows of both sides may differ, and one with eight missing rows."""
    files = save_results(tmp_path, settings, "csv", method=method)
    for threshold, verdict in (
        (Threshold(rows=24), "match"),
        (Threshold(rows=23), "unknown"),
        (Threshold(rows=8), "mismatch"),
        (Threshold(share=0.61), "match"),
    ):
        lenient = settings.audit("orders").model_copy(update={"threshold": threshold})
        assert service.compare_files(*files, lenient).verdict == verdict, threshold


def test_exact_results_may_include_minhashes(tmp_path: Path, settings: Settings) -> None:
    settings.audits["orders"] = settings.audits["orders"].model_copy(update={"k": 4})
    assert service.compare_files(*save_results(tmp_path, settings, "csv", method="exact")).verdict == "mismatch"


def changed_audit(settings: Settings, name: str = "orders", **audit: Any) -> Audit:
    """Return the audit with some settings changed."""
    original = settings.audit(name).model_dump(by_alias=True, exclude_unset=True)
    return Audit.model_validate({**original, **audit})


def test_verdict_is_unknown_if_settings_absent_from_results_could_allow_the_difference(tmp_path: Path, settings: Settings) -> None:
    counted = save_results(tmp_path, settings, "csv", method="counts")
    every = {f"* {measure}": "100%" for measure in ("sum", "characters", "bytes", "min", "max", "nulls")}
    found = service.compare_files(*counted, changed_audit(settings, counts={"allow": {"rows": "100%", **every}}))
    assert found.verdict is Verdict.UNKNOWN and "for a verdict, run the audit with connections: auditor run orders" in found.reasons
    without_rows = changed_audit(settings, counts={"allow": every})
    assert service.compare_files(*counted, without_rows).verdict is Verdict.MISMATCH, "a deviation of rows is not allowed"


@pytest.mark.parametrize(
    ("option", "source", "target", "verdict", "reason"),
    [
        ({"settle": {"column": "at_", "lag": "1s"}}, "('a', 1)", "('b', 1)", Verdict.UNKNOWN, "settle: "),
        ({"settle": {"column": "at_", "lag": "1s"}}, "('a', 1)", "('b', 1), ('b', 1)", Verdict.UNKNOWN, "settle: "),
        ({}, """('{"a": 1, "b": 2}', 1)""", """('{"b": 2, "a": 1.0}', 1)""", Verdict.UNKNOWN, "json: "),
        ({}, """('{"a": 1}', 1)""", """('{"a": 1}', 1), ('{"a": 1}', 1)""", Verdict.MISMATCH, "1 partition differs"),
        ({"json": "text"}, """('{"a": 1, "b": 2}', 1)""", """('{"b": 2, "a": 1.0}', 1)""", Verdict.MISMATCH, "1 partition differs"),
        ({"columns": {"override": {"n": {"tolerance": {"absolute": 0.1}}}}}, "('a', 1)", "('a', 1.09)", Verdict.UNKNOWN, "tolerance: "),
        ({}, "('a', 1)", "('a', 1.04)", Verdict.MISMATCH, "1 partition differs"),
    ],
)
def test_printed_plan_says_that_rows_which_differ_may_be_equal(
    tmp_path: Path, option: dict[str, Any], source: str, target: str, verdict: Verdict, reason: str
) -> None:
    """The two files are enough: nobody has to name the audit, whose settings may have changed since."""
    kind = "JSON" if "{" in source else "VARCHAR"
    for side, rows in (("source", source), ("target", target)):
        with duckdb.connect(str(tmp_path / f"{side}.duckdb")) as connection:
            connection.execute(f"CREATE TABLE t (id INT DEFAULT 1, v {kind}, n DECIMAL(9, 2), at_ TIMESTAMP DEFAULT '2026-01-01')")
            connection.execute(f"INSERT INTO t (v, n) VALUES {rows}")
    ends = {side: {"connection": side, "table": "t"} for side in SIDES}
    urls = {side: {"url": f"duckdb:///{tmp_path}/{side}.duckdb"} for side in SIDES}
    scripts = service.sql(validate_settings({"connections": urls, "audits": {"t": {**ends, "key": ["id"], **option}}}), "t")
    for side, script in scripts.items():
        (found,) = re.findall(r"^SELECT\n.*?(?=;$)", script, re.MULTILINE | re.DOTALL)
        with duckdb.connect(str(tmp_path / f"{side}.duckdb")) as connection:
            connection.execute(found)
            names = [column[0] for column in connection.description or ()]
            (tmp_path / f"{side}.csv").write_text(as_csv((names, connection.fetchall())))
    report = service.compare_files(tmp_path / "source.csv", tmp_path / "target.csv")
    assert report.verdict is verdict and any(one.startswith(reason) for one in report.reasons), report.reasons


CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "different watermarks": ({"settle": {"column": "moved", "lag": "1s"}}, {}),
    "another filter": ({}, {"where": "id < 30"}),
    "another expression": ({}, {"columns": {"override": {"v": {"expr": "v || id", "kind": "text"}}}}),
    "another table": ({}, {"target": {"connection": "target", "table": "orders"}}),
}


@pytest.mark.parametrize("which", CHANGES)
def test_results_of_statements_printed_with_different_settings_are_rejected(tmp_path: Path, databases: Path, which: str) -> None:
    files = {side: tmp_path / f"{side}.csv" for side in SIDES}
    settings = settings_of(tmp_path)
    for side in SIDES:
        shutil.copy(databases / f"{side}.duckdb", tmp_path)
        with duckdb.connect(str(tmp_path / f"{side}.duckdb")) as connection:
            for table in ("original", "orders"):
                connection.execute(f"ALTER TABLE {table} ADD COLUMN moved TIMESTAMP DEFAULT '2020-01-01'")
    for side, change in zip(SIDES, CHANGES[which], strict=True):
        settings.audits["original"] = changed_audit(settings, "original", **change)
        files[side].write_text(as_csv(query_result(settings, side, "original")), encoding="utf-8")
    with pytest.raises(ResultError, match="different plans: print both statements again with one call of auditor sql"):
        service.compare_files(files["source"], files["target"])


# keys named offline


def test_keys_are_named_where_the_power_sums_decode(tmp_path: Path, settings: Settings) -> None:
    found = service.compare_files(*save_results(tmp_path, settings, "psql", method="exact"))
    assert found.notes == ("the row with this key differs, decoded from the power sums without a connection, not fetched: 20",)
    assert found.comparison
    assert [one.label for one in found.comparison.divergent] == ["keys 16 to 23", "keys 24 to 31"]
    assert service.compare_files(*save_results(tmp_path, settings, "csv", method="signature")).notes == ()
    assert service.compare_files(*save_results(tmp_path, settings, "csv", "original", "exact")).notes == ()


@pytest.mark.parametrize("t", [1, 2, 3])
def test_the_named_keys_are_those_that_differ(tmp_path: Path, t: int) -> None:
    """Rows are changed, deleted and added, in partitions of negative keys too; one partition holds more than decodes."""
    differing = {-40, -33, 5, 700} if t > 1 else {-40, 5, 700}
    overloaded = set(range(100, 110))
    for side in SIDES:
        with duckdb.connect(str(tmp_path / f"{side}.duckdb")) as database:
            database.execute("CREATE TABLE orders AS SELECT i AS id, 'v' || i AS v FROM range(-50, 800) r(i) WHERE i <> 700")
            if side == "target":
                changed = ", ".join(map(str, sorted((differing | overloaded) - {5})))
                database.execute(f"UPDATE orders SET v = 'x' WHERE id IN ({changed})")
                database.execute("DELETE FROM orders WHERE id = 5")
                database.execute("INSERT INTO orders VALUES (700, 'new')")
            database.execute("CREATE TABLE original AS SELECT * FROM orders")
            database.execute("CREATE TABLE nothing AS SELECT * FROM orders WHERE FALSE")
    here = settings_of(tmp_path)
    here.audits["orders"] = changed_audit(here, t=t, partition={"strategy": "range", "size": 20})
    named, left = service.compare_files(*save_results(tmp_path, here, "csv", method="exact")).notes
    assert {int(key) for key in named.partition("not fetched: ")[2].split(", ")} == differing
    assert left.startswith("1 partition differs in more rows than the power sums can name")


def test_partitions_by_hash_name_no_keys(tmp_path: Path, settings: Settings) -> None:
    settings.audits["orders"] = changed_audit(settings, partition={"strategy": "hash", "buckets": 4})
    assert service.compare_files(*save_results(tmp_path, settings, "csv", method="exact")).notes == ()


# what is rejected


def test_pages_of_the_data_api_and_cut_tables_are_rejected(tmp_path: Path, settings: Settings) -> None:
    result = query_result(settings, "source")
    path = tmp_path / "source.json"
    path.write_text(json.dumps({**json.loads(as_data_api(result)), "NextToken": "x"}), encoding="utf-8")
    with pytest.raises(ResultError, match="the first page of a result of Redshift's Data API"):
        service.compare_files(path, path)
    path.write_text(json.dumps({"ColumnMetadata": [{}], "Records": []}), encoding="utf-8")
    with pytest.raises(ResultError, match="is not a result of Redshift's Data API"):
        service.compare_files(path, path)
    drawn = as_drawn(result, "", "----").splitlines()
    path.write_text("\n".join(drawn[:4]), encoding="utf-8")
    with pytest.raises(ResultError, match="contains 2 of 6 partitions"):
        service.compare_files(path, path)
    path.write_text("\n".join([*drawn[:4], "1 | 2"]), encoding="utf-8")
    with pytest.raises(ResultError, match=r":5: 2 values for \d+ columns"):
        service.compare_files(path, path)


def without(result: Result, *names: str) -> Result:
    remaining = [index for index, name in enumerate(result[0]) if name not in names]
    return [result[0][index] for index in remaining], [tuple(row[index] for index in remaining) for row in result[1]]


def replaced(result: Result, name: str, value: object) -> Result:
    index = result[0].index(name)
    return result[0], [(*row[:index], value, *row[index + 1 :]) for row in result[1]]


@pytest.mark.parametrize(
    ("tamper", "words"),
    [
        (lambda r: (r[0], r[1][:-1]), r"contains 4 of 5 partitions: save it again"),
        (lambda r: (r[0], [*r[1], *r[1]]), r"contains 10 rows for 5 partitions: save the result of one statement only"),
        (lambda r: (r[0], [r[1][0], *r[1][:-1]]), r"contains a partition twice: it was edited"),
        (lambda r: replaced((r[0], r[1][:-1]), "partition_count", 4), r"contains partitions of 31 rows, and the statement counted 32"),
        (lambda r: replaced(r, "row_count", 7), r"contains partitions of 35 rows, and the statement counted 32: it was edited"),
        (lambda r: replaced(r, "total_rows", "x"), r"total_rows must be a number, not 'x'"),
        (lambda r: without(r, "total_rows"), r"lacks the column 'total_rows'"),
        (lambda r: without(r, "audit_plan"), r"lacks the column 'audit_plan'"),
        (lambda r: without(r, "partition_id"), r"lacks the column 'partition_id'"),
        (lambda r: without(r, "hashed"), r"lacks the column 'hashed'"),
        (lambda r: without(r, "word_0", "word_1", "word_2", "word_3"), r"lacks the column 'word_0'"),
        (lambda r: without(r, "word_3"), r"lacks the column 'word_3'"),
        (lambda r: replaced(r, "word_2", "abc"), r"contains an invalid or too large number"),
        (lambda r: replaced(r, "partition_count", "many"), r"partition_count must be a number, not 'many'"),
        (lambda r: replaced(r, "partition_count", None), r"partition_count must be a number"),
        (lambda r: replaced(r, "audit_plan", "mine"), r"is not the result of a statement from auditor sql: its audit_plan is 'mine'"),
        (lambda r: replaced(r, "audit_plan", f"orders/v{VERSION}_0123456789ab/source"), r"is the result of the source, not of the target"),
        (lambda r: replaced(r, "audit_plan", f"orders/v{VERSION}_0123456789ab/target"), r"come from different plans"),
        (lambda r: replaced(r, "audit_plan", "orders/0123456789ab/target"), r"another version of the auditor, which hashes"),
        (lambda r: without(r, "minhash_15"), r"have different columns"),
    ],
)
def test_tampered_results_are_rejected(tmp_path: Path, settings: Settings, tamper: Callable[[Result], Result], words: str) -> None:
    source, target = save_results(tmp_path, settings, "csv")
    for form in (as_csv, lambda result: json.dumps(as_objects(result))):
        target.write_text(form(tamper(query_result(settings, "target"))), encoding="utf-8")
        with pytest.raises(ResultError, match=words) as caught:
            service.compare_files(source, target)
        assert caught.value.exit_code == 3


def test_swapped_files_are_rejected(tmp_path: Path, settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = save_results(tmp_path, settings, "csv")
    assert main(["compare", "--source", str(target), "--target", str(source)]) == 3
    assert capsys.readouterr().err == f"auditor: {target} is the result of the target, not of the source: check --source and --target\n"


def test_results_of_different_plans_are_rejected(tmp_path: Path, settings: Settings) -> None:
    source, target = save_results(tmp_path, settings, "csv")
    target.write_text(as_csv(query_result(settings, "target", method="signature")), encoding="utf-8")
    with pytest.raises(ResultError, match="come from different plans: print both statements again"):
        service.compare_files(source, target)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty: save the result of the statement with its header"),
        (b"\n", "lacks the column 'partition_id'"),
        (b"\xff\xfe\x00", "cannot be read"),
        (b"hello\nworld\n", "lacks the column 'partition_id'"),
        (b"{nonsense", "is not valid JSON"),
        (b"[" * 100_000, "is not valid JSON"),
        (b'[{"partition_id": ' + b"9" * 5000 + b"}]", "is not valid JSON"),
        (b"[1, 2]", "must contain one JSON object per partition"),
        (b'{"a": 1}\n[2]\n', "must contain one JSON object per partition"),
        (b"partition_id,row_count\n1\n", r"source\.txt:2: 1 values for 2 columns"),
        (b'a,b\n"' + b"x" * 200_000 + b'",1\n', "is not valid CSV"),
    ],
)
def test_garbage_files_are_rejected(tmp_path: Path, settings: Settings, content: bytes, words: str) -> None:
    source, target = save_results(tmp_path, settings, "csv")
    source.write_bytes(content)
    with pytest.raises(ResultError, match=words):
        service.compare_files(source, target)


def test_missing_and_invalid_files_are_rejected(tmp_path: Path, settings: Settings) -> None:
    source, target = save_results(tmp_path, settings, "csv")
    with pytest.raises(ResultError, match="cannot be read"):
        service.compare_files(source, tmp_path / "absent.csv")
    parquet = tmp_path / "garbage.parquet"
    parquet.write_bytes(b"garbage")
    with pytest.raises(ResultError, match="cannot be read"):
        service.compare_files(parquet, target)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("empty", SIDES)
def test_empty_json_result_without_columns_is_accepted(tmp_path: Path, settings: Settings, method: Method, empty: Side) -> None:
    files = {side: tmp_path / f"{side}.json" for side in SIDES}
    for side in SIDES:
        result = query_result(settings, side, "original", method)
        files[side].write_text("[]" if side == empty else json.dumps(as_objects(result), default=str))
    report = service.compare_files(files["source"], files["target"])
    assert report.verdict is Verdict.MISMATCH and report.comparison
    assert report.comparison.rows == {side: 0 if side == empty else 40 for side in SIDES}


def test_impossible_numbers_are_rejected(tmp_path: Path, settings: Settings) -> None:
    source, target = tmp_path / "source.json", save_results(tmp_path, settings, "csv")[1]
    rows = as_objects(query_result(settings, "source"))
    numbers: list[Any] = [10**30, -(10**30), 2**63, 1e400, "9" * 30, "9" * 5000, "1e400", [], "x"]
    for column in ("partition_id", "row_count", "hashed", "word_0", "partition_count"):
        for number in numbers:
            source.write_text(json.dumps([row | {column: number} for row in rows], default=str))
            with pytest.raises(ResultError, match="source"):
                service.compare_files(source, target)


def test_a_result_with_more_power_sums_than_any_plan_is_refused(settings: Settings, tmp_path: Path) -> None:
    files = {}
    for side in SIDES:
        names, rows = query_result(settings, side, method="exact")
        more = [f"syndrome_{number}" for number in range(len([name for name in names if name.startswith("syndrome_")]) + 1, 40)]
        files[side] = tmp_path / f"{side}.csv"
        files[side].write_text(as_csv(([*names, *more], [(*row, *(0 for _ in more)) for row in rows])), encoding="utf-8")
    with pytest.raises(ResultError, match="more power sums than any plan"):
        service.compare_files(files["source"], files["target"])
