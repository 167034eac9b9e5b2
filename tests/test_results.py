"""Saved results, in every form that clients write them, give the verdict of a connected run, or a clear refusal."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor import service
from auditor.cli import main
from auditor.config import Audit, Settings, Threshold
from auditor.errors import ResultError
from auditor.model import SIDES, Comparison, Method, Side, Verdict

METHODS: tuple[Method, ...] = ("counts", "signature", "minhash", "exact")
ROWS = "SELECT NULLIF(i, 39) AS id, 'v' || i AS v FROM range(40) t(i)"
"""One row has no key: its partition's id is NULL."""
CHANGED = "SELECT id, CASE WHEN id = 20 THEN 'changed' ELSE v END AS v FROM original WHERE id IS NULL OR id NOT BETWEEN 24 AND 31"

Result = tuple[list[str], list[tuple[Any, ...]]]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Two databases with an audit that differs, one that does not, and one of empty tables."""
    for side in SIDES:
        with duckdb.connect(str(tmp_path / f"{side}.duckdb")) as connection:
            connection.execute(f"CREATE TABLE original AS {ROWS}")
            connection.execute(f"CREATE TABLE orders AS {CHANGED if side == 'target' else 'SELECT * FROM original'}")
            connection.execute("CREATE TABLE nothing AS SELECT * FROM original WHERE FALSE")
    ends = {side: {"connection": side} for side in SIDES}
    return Settings.model_validate(
        {
            "connections": {side: {"url": f"duckdb:///{tmp_path}/{side}.duckdb"} for side in SIDES},
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
    """The one statement of a console's script whose result is saved."""
    script = service.sql(settings, audit, (side,), method)[side]
    (found,) = re.findall(r"^SELECT\n.*?(?=;$)", script, re.MULTILINE | re.DOTALL)
    return str(found)


def asked(settings: Settings, side: Side, audit: str = "orders", method: Method = "minhash") -> Result:
    with duckdb.connect(settings.connections[side].url.removeprefix("duckdb:///"), read_only=True) as connection:
        cursor = connection.execute(statement(settings, side, audit, method))
        return [column[0] for column in cursor.description], cursor.fetchall()


def as_csv(result: Result, delimiter: str = ",", null: str = "", footer: str = "", end: str = "\n") -> str:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator=end)
    writer.writerows([result[0], *([null if value is None else value for value in row] for row in result[1])])
    return text.getvalue() + footer


def as_objects(result: Result) -> list[dict[str, Any]]:
    return [dict(zip(result[0], row, strict=True)) for row in result[1]]


FORMS: dict[str, Callable[[Result], str]] = {
    "csv": as_csv,
    "csv with a mark in front": lambda result: "\ufeff" + as_csv(result),
    "csv of Windows": lambda result: as_csv(result, end="\r\n"),
    "csv with semicolons": lambda result: as_csv(result, ";"),
    "mysql --batch": lambda result: as_csv(result, "\t", "NULL"),
    "psql --csv": lambda result: as_csv(result, ",", ""),
    "psql --no-align": lambda result: as_csv(result, "|", "", f"({len(result[1])} rows)\n"),
    "COPY": lambda result: as_csv(result, "\t", "\\N"),
    "JSON lines": lambda result: "".join(json.dumps(one) + "\n" for one in as_objects(result)),
    "JSON array": lambda result: json.dumps(as_objects(result), indent=2),
}


def saved(directory: Path, settings: Settings, form: str, audit: str = "orders", method: Method = "minhash") -> tuple[Path, Path]:
    """Both sides' results in a form, as files."""
    files = []
    for side in SIDES:
        path = directory / f"{side}.txt"
        path.write_text(FORMS[form](asked(settings, side, audit, method)), encoding="utf-8", newline="")
        files.append(path)
    return files[0], files[1]


def told(found: Comparison | None) -> tuple[Any, ...]:
    """What a comparison says, without how its partitions are called."""
    assert found
    parts = [(one.partition, one.key_range, one.rows, one.similarity) for one in found.divergent]
    return found.verdict, found.published, found.rows, found.total, found.equal, found.source_only, found.target_only, found.skipped, parts


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("audit", ["orders", "original"])
def test_every_method_as_a_connected_run(tmp_path: Path, settings: Settings, method: Method, audit: str) -> None:
    changed = settings.model_copy(update={"audits": {audit: settings.audit(audit).model_copy(update={"method": method})}})
    connected = service.run_audit(changed, audit)
    found = service.compare_files(*saved(tmp_path, settings, "csv", audit, method))
    assert found.exit_code == (1 if audit == "orders" else 0)
    assert found.audit == audit
    assert told(found.comparison) == told(connected.comparison)


@pytest.mark.parametrize("form", FORMS)
def test_every_form(tmp_path: Path, settings: Settings, form: str) -> None:
    found = service.compare_files(*saved(tmp_path, settings, form))
    assert told(found.comparison) == told(service.run_audit(settings_of(settings, "minhash"), "orders").comparison)
    assert found.comparison
    assert {one.partition for one in found.comparison.divergent} == {2, 3}
    assert found.comparison.total == 6


def settings_of(settings: Settings, method: Method) -> Settings:
    return settings.model_copy(update={"audits": {"orders": settings.audit("orders").model_copy(update={"method": method})}})


def test_parquet(tmp_path: Path, settings: Settings) -> None:
    files = []
    for side in SIDES:
        path = tmp_path / f"{side}.parquet"
        with duckdb.connect(settings.connections[side].url.removeprefix("duckdb:///"), read_only=True) as connection:
            connection.execute(f"COPY ({statement(settings, side, 'orders', 'minhash')}) TO '{path}'")
        files.append(path)
    found = service.compare_files(files[0], files[1])
    assert told(found.comparison) == told(service.compare_files(*saved(tmp_path, settings, "csv")).comparison)


def test_the_command_line(tmp_path: Path, settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = saved(tmp_path, settings, "mysql --batch")
    assert main(["compare", "--source", str(source), "--target", str(target), "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["audit"], found["verdict"], found["partitions"]["unequal"]) == ("orders", "mismatch", 2)


@pytest.mark.parametrize("form", ["csv", "mysql --batch", "JSON array"])
def test_two_empty_results(tmp_path: Path, settings: Settings, form: str) -> None:
    files = saved(tmp_path, settings, form, "nothing")
    assert service.compare_files(*files).verdict == "unknown"
    allowed = settings.audit("nothing").model_copy(update={"allow_empty": True})
    assert service.compare_files(*files, allowed).verdict == "match"


def test_one_empty_result(tmp_path: Path, settings: Settings) -> None:
    source, _ = saved(tmp_path, settings, "csv")
    empty = tmp_path / "empty.csv"
    empty.write_text(as_csv(asked(settings, "target", "nothing")), encoding="utf-8")
    assert service.compare_files(source, empty).verdict == "mismatch"


def test_the_threshold_of_an_audit(tmp_path: Path, settings: Settings) -> None:
    lenient = settings.audit("orders").model_copy(update={"threshold": Threshold(score=0.5)})
    assert service.compare_files(*saved(tmp_path, settings, "csv"), lenient).verdict == "match"


@pytest.mark.parametrize("method", ["signature", "minhash", "exact"])
def test_a_threshold_of_rows(tmp_path: Path, settings: Settings, method: Method) -> None:
    """Two partitions differ: the one of the changed row, whose eight rows on both sides may differ, and one of eight lost rows."""
    files = saved(tmp_path, settings, "csv", method=method)
    for threshold, wanted in ((Threshold(rows=24), "match"), (Threshold(rows=23), "mismatch"), (Threshold(share=0.61), "match")):
        lenient = settings.audit("orders").model_copy(update={"threshold": threshold})
        assert service.compare_files(*files, lenient).verdict == wanted, threshold


def test_minhashes_beside_syndromes(tmp_path: Path, settings: Settings) -> None:
    settings.audits["orders"] = settings.audits["orders"].model_copy(update={"k": 4})
    assert service.compare_files(*saved(tmp_path, settings, "csv", method="exact")).verdict == "mismatch"


def otherwise(settings: Settings, name: str = "orders", **audit: Any) -> Audit:
    asked = settings.audit(name).model_dump(by_alias=True, exclude_unset=True)
    return Audit.model_validate({**asked, **audit})


def test_nothing_is_claimed_where_settings_that_no_result_tells_may_allow_what_differs(tmp_path: Path, settings: Settings) -> None:
    counted = saved(tmp_path, settings, "csv", method="counts")
    every = {f"* {measure}": "100%" for measure in ("sum", "characters", "min", "max", "nulls")}
    found = service.compare_files(*counted, otherwise(settings, counts={"allow": {"rows": "100%", **every}}))
    assert found.verdict is Verdict.UNKNOWN and "a connected run knows: auditor run orders" in found.reasons
    assert service.compare_files(*counted, otherwise(settings, counts={"allow": every})).verdict is Verdict.MISMATCH, "rows are not allowed"
    files = saved(tmp_path, settings, "csv")
    assert service.compare_files(*files, otherwise(settings, settle={"column": "at", "lag": "1h"})).verdict is Verdict.UNKNOWN
    tolerant = otherwise(settings, columns={"override": {"v": {"tolerance": {"absolute": 1}}}})
    assert service.compare_files(*files, tolerant).verdict is Verdict.MISMATCH, "a partition has not as many rows on both sides"


PRINTINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "each with its watermark": ({"settle": {"column": "moved", "lag": "1s"}}, {}),
    "another filter": ({}, {"where": "id < 30"}),
    "another expression": ({}, {"columns": {"override": {"v": {"expr": "v || id", "kind": "text"}}}}),
    "another table": ({}, {"target": {"connection": "target", "table": "orders"}}),
}


@pytest.mark.parametrize("which", PRINTINGS)
def test_results_of_two_printings_about_other_rows(tmp_path: Path, settings: Settings, which: str) -> None:
    files = {side: tmp_path / f"{side}.csv" for side in SIDES}
    for side in SIDES:
        with duckdb.connect(str(tmp_path / f"{side}.duckdb")) as connection:
            for table in ("original", "orders"):
                connection.execute(f"ALTER TABLE {table} ADD COLUMN moved TIMESTAMP DEFAULT '2020-01-01'")
    for side, change in zip(SIDES, PRINTINGS[which], strict=True):
        settings.audits["original"] = otherwise(settings, "original", **change)
        files[side].write_text(as_csv(asked(settings, side, "original")), encoding="utf-8")
    with pytest.raises(ResultError, match="different plans: print both statements again with auditor sql, both at once"):
        service.compare_files(files["source"], files["target"])


# what is refused


def without(result: Result, *names: str) -> Result:
    kept = [index for index, name in enumerate(result[0]) if name not in names]
    return [result[0][index] for index in kept], [tuple(row[index] for index in kept) for row in result[1]]


def replaced(result: Result, name: str, value: object) -> Result:
    index = result[0].index(name)
    return result[0], [(*row[:index], value, *row[index + 1 :]) for row in result[1]]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda r: (r[0], r[1][:-1]), r"holds 4 of 5 partitions: it was cut short"),
        (lambda r: (r[0], [*r[1], *r[1]]), r"holds 10 rows for 5 partitions: save the result of one statement only"),
        (lambda r: without(r, "audit_plan"), r"lacks the column 'audit_plan'"),
        (lambda r: without(r, "partition_id"), r"lacks the column 'partition_id'"),
        (lambda r: without(r, "hashed"), r"lacks the column 'hashed'"),
        (lambda r: without(r, "word_0", "word_1", "word_2", "word_3"), r"lacks the column 'word_0'"),
        (lambda r: without(r, "word_3"), r"lacks the column 'word_3'"),
        (lambda r: replaced(r, "word_2", "abc"), r"holds something that is not a number where one belongs"),
        (lambda r: replaced(r, "partition_count", "many"), r"partition_count should be a number and is 'many'"),
        (lambda r: replaced(r, "partition_count", None), r"partition_count should be a number"),
        (lambda r: replaced(r, "audit_plan", "mine"), r"was not made by auditor sql: its audit_plan is 'mine'"),
        (lambda r: replaced(r, "audit_plan", "orders/0123456789ab/source"), r"is the source's result, given as the target's"),
        (lambda r: replaced(r, "audit_plan", "orders/0123456789ab/target"), r"were made by different plans"),
        (lambda r: without(r, "minhash_15"), r"have different columns"),
    ],
)
def test_a_spoilt_result(tmp_path: Path, settings: Settings, spoil: Callable[[Result], Result], words: str) -> None:
    source, target = saved(tmp_path, settings, "csv")
    for form in (as_csv, lambda result: json.dumps(as_objects(result))):
        target.write_text(form(spoil(asked(settings, "target"))), encoding="utf-8")
        with pytest.raises(ResultError, match=words) as caught:
            service.compare_files(source, target)
        assert caught.value.exit_code == 3


def test_swapped_files(tmp_path: Path, settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = saved(tmp_path, settings, "csv")
    assert main(["compare", "--source", str(target), "--target", str(source)]) == 3
    assert capsys.readouterr().err == f"auditor: {target} is the target's result, given as the source's\n"


def test_results_of_different_plans(tmp_path: Path, settings: Settings) -> None:
    source, target = saved(tmp_path, settings, "csv")
    target.write_text(as_csv(asked(settings, "target", method="signature")), encoding="utf-8")
    with pytest.raises(ResultError, match="were made by different plans: print both statements again"):
        service.compare_files(source, target)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty; save the statement's result with its header"),
        (b"\n", "lacks the column 'partition_id'"),
        (b"\xff\xfe\x00", "cannot be read"),
        (b"hello\nworld\n", "lacks the column 'partition_id'"),
        (b"{nonsense", "is no JSON"),
        (b"[" * 100_000, "is no JSON"),
        (b'[{"partition_id": ' + b"9" * 5000 + b"}]", "is no JSON"),
        (b"[1, 2]", "should hold one JSON object for each partition"),
        (b'{"a": 1}\n[2]\n', "should hold one JSON object for each partition"),
        (b"partition_id,row_count\n1\n", r"source\.txt:2: 1 values under 2 column names"),
        (b'a,b\n"' + b"x" * 200_000 + b'",1\n', "is no CSV"),
    ],
)
def test_garbage(tmp_path: Path, settings: Settings, content: bytes, words: str) -> None:
    source, target = saved(tmp_path, settings, "csv")
    source.write_bytes(content)
    with pytest.raises(ResultError, match=words):
        service.compare_files(source, target)


def test_no_file_and_no_parquet(tmp_path: Path, settings: Settings) -> None:
    source, target = saved(tmp_path, settings, "csv")
    with pytest.raises(ResultError, match="cannot be read"):
        service.compare_files(source, tmp_path / "absent.csv")
    parquet = tmp_path / "garbage.parquet"
    parquet.write_bytes(b"garbage")
    with pytest.raises(ResultError, match="cannot be read"):
        service.compare_files(parquet, target)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("empty", SIDES)
def test_an_empty_result_need_not_tell_its_columns(tmp_path: Path, settings: Settings, method: Method, empty: Side) -> None:
    files = {side: tmp_path / f"{side}.json" for side in SIDES}
    for side in SIDES:
        files[side].write_text("[]" if side == empty else json.dumps(as_objects(asked(settings, side, "original", method)), default=str))
    report = service.compare_files(files["source"], files["target"])
    assert report.verdict is Verdict.MISMATCH and report.comparison
    assert report.comparison.rows == {side: 0 if side == empty else 40 for side in SIDES}


def test_numbers_that_no_result_has(tmp_path: Path, settings: Settings) -> None:
    source, target = tmp_path / "source.json", saved(tmp_path, settings, "csv")[1]
    rows = as_objects(asked(settings, "source"))
    numbers: list[Any] = [10**30, -(10**30), 2**63, 1e400, "9" * 30, "9" * 5000, "1e400", [], "x"]
    for column in ("partition_id", "row_count", "hashed", "word_0", "partition_count"):
        for number in numbers:
            source.write_text(json.dumps([row | {column: number} for row in rows], default=str))
            with pytest.raises(ResultError, match="source"):
                service.compare_files(source, target)
