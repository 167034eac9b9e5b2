"""What the Python package returns and raises: reports that iterate and export, wrong arguments, and the assertion for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from jsonschema import Draft202012Validator

import auditor
from auditor import errors, testing
from auditor.api_models.report import RunReport
from auditor.model import ColumnDifference, Difference, Differences, RangeDifference
from auditor.report.difference_rows import as_difference, key_kinds, to_arrow, to_flat_arrow

SCHEMA = Draft202012Validator(json.loads((Path(__file__).parents[2] / "docs" / "report.schema.json").read_text(encoding="utf-8")))


@pytest.fixture
def sides(tmp_path: Path) -> tuple[tuple[str, str], tuple[str, str]]:
    """Two tables of 1,000 rows, of which the second lacks row 3 and a range, and has another value in row 7."""
    for side in ("source", "target"):
        with duckdb.connect(str(tmp_path / f"{side}.duckdb")) as database:
            database.execute("CREATE TABLE t AS SELECT i AS id, 'v' || i AS v FROM range(1000) r(i)")
    with duckdb.connect(str(tmp_path / "target.duckdb")) as database:
        database.execute("DELETE FROM t WHERE id = 3 OR id >= 500")
        database.execute("UPDATE t SET v = NULL WHERE id = 7")
    return (f"duckdb:///{tmp_path}/source.duckdb", "t"), (f"duckdb:///{tmp_path}/target.duckdb", "t")


def audit(sides: tuple[tuple[str, str], tuple[str, str]], **options: Any) -> auditor.Report:
    return auditor.audit(*sides, key=["id"], partition={"strategy": "range", "size": 100}, **options)


def test_differences_iterate_and_have_a_length(sides: Any) -> None:
    report = audit(sides)
    found = report.differences
    assert found is not None
    assert [type(one) for one in found] == [RangeDifference, Difference, Difference]
    assert len(found) == 3
    assert bool(found)
    assert [one.key for one in found if isinstance(one, Difference)] == [{"id": "3"}, {"id": "7"}]


def test_differences_are_true_where_rows_differ_but_none_is_listed(sides: Any) -> None:
    found = audit(sides, limits={"max_differences": 0}, where="id < 500").differences
    assert found is not None
    assert (list(found), bool(found)) == ([], True)
    equal = auditor.audit(sides[0], sides[0], key=["id"]).differences
    assert equal is not None
    assert (list(equal), bool(equal)) == ([], False)


@pytest.mark.parametrize("name", ["missing", "extra", "changed", "unsettled", "unaccounted", "estimated"])
def test_no_difference_is_false(name: str) -> None:
    counts: dict[str, Any] = {"missing": 0, "extra": 0, "changed": 0}
    none = Differences(**counts, exact=True, named=(), ranges=(), partitions={})
    assert not none
    assert Differences(**{**counts, name: 1}, exact=False, named=(), ranges=(), partitions={})


def test_reports_become_plain_values_and_tables(sides: Any) -> None:
    report = audit(sides)
    SCHEMA.validate(report.to_model().model_dump(mode="json"))
    assert RunReport.from_json(report.to_json()) == report.to_model()
    table = report.to_arrow()
    assert table.schema.field("id").type == pa.int64()
    first, missing, changed = table.to_pylist()
    assert (first["kind"], first["range_first"], first["range_last"], first["rows_in_source"], first["id"]) == (
        "missing",
        500,
        999,
        500,
        None,
    )
    assert (missing["kind"], missing["id"], missing["range"], missing["columns"]) == ("missing", 3, None, [])
    assert (changed["id"], changed["columns"]) == (7, [{"name": "v", "source": "v7", "target": None, "reason": ""}])
    assert list(report.to_pandas()["kind"]) == ["missing", "missing", "changed"]
    assert str(report).startswith("MISMATCH  audit")


def test_a_report_without_differences_by_key_gives_an_empty_table(sides: Any) -> None:
    report = audit(sides, method="counts")
    assert report.differences is None
    assert report.to_arrow().num_rows == 0
    broken = auditor.audit(sides[0], (sides[1][0], "absent"), key=["id"])
    assert (broken.exit_code, broken.to_arrow().num_rows) == (2, 0)


def test_masked_keys_are_exported_nowhere(sides: Any) -> None:
    masked = {"override": {"id": {"mask": True}, "v": {"mask": True}}}
    report = auditor.audit(*sides, key=["id"], columns=masked, where="id < 500")
    texts = (report.to_json(), str(report), report._repr_html_(), str(report.to_arrow().to_pylist()))
    assert not [text for text in texts if "v7" in text]
    assert set(report.to_arrow().column("id").to_pylist()) == {"***"}


def test_keys_beyond_64_bits_and_names_that_are_taken_stay_readable() -> None:
    row = Difference(kind="missing", key={"state": "18446744073709551615"}, rows={"source": 1, "target": 0})
    table = to_arrow([as_difference(1, row)], {"state": "integer"})
    assert table.column("key_state").to_pylist() == ["18446744073709551615"]
    assert table.column("state").to_pylist() == ["confirmed"]
    assert key_kinds(None) == {}


def test_a_notebook_shows_the_page_in_a_frame_of_its_own(sides: Any) -> None:
    page = audit(sides, name='a"><script>')._repr_html_()
    assert page.startswith("<iframe srcdoc=")
    assert "<script>" not in page


def test_a_data_frame_is_flat(sides: Any) -> None:
    pytest.importorskip("pandas", reason="to_pandas() needs pandas")
    frame = audit(sides).to_pandas()
    assert list(frame.columns) == [
        "kind", "state", "id", "range", "range_first", "range_last", "rows_in_source", "rows_in_target", "shards", "column", "source",
        "target", "reason",
    ]  # fmt: skip
    assert list(frame["kind"]) == ["missing", "missing", "changed"]
    changed = frame.iloc[2]
    assert (changed["id"], changed["column"], changed["source"], changed["target"]) == (7, "v", "v7", None)
    assert list(frame["column"])[:2] == [None, None]


def test_a_flat_table_has_a_row_for_each_column_that_differs() -> None:
    columns = (ColumnDifference("a", "1", "2"), ColumnDifference("b", None, "x"))
    row = Difference(kind="changed", key={"source": "5"}, rows={"source": 1, "target": 1}, columns=columns)
    table = to_flat_arrow([as_difference(1, row)], {"source": "integer"})
    assert table.column("key_source").to_pylist() == [5, 5]
    assert [table.column(name).to_pylist() for name in ("column", "source", "target")] == [["a", "b"], ["1", None], ["2", "x"]]


def test_to_pandas_says_what_is_missing(sides: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    report = audit(sides)
    monkeypatch.setattr("auditor.result.find_spec", lambda _: None)
    with pytest.raises(errors.PackageMissing, match="pip install pandas"):
        report.to_pandas()


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("mysql://u:s3cret@h/d", "mysql://u:s3cret@h/d", "source: a URL alone names no table"),
        (("duckdb:///a", "t"), "t", "target: a text names no table"),
        (("duckdb:///a",), ("duckdb:///a", "t"), "source: write a pair"),
        (("t", "duckdb:///s3cret"), ("duckdb:///a", "t"), "source: the URL comes first"),
        (("duckdb:///a", None), ("duckdb:///a", "t"), "source: write a pair"),
        (("nonsense", "t"), ("duckdb:///a", "t"), "must have the form"),
    ],
)
def test_wrong_arguments_are_named(source: Any, target: Any, message: str) -> None:
    with pytest.raises(errors.AuditorError, match=message) as raised:
        auditor.audit(source, target)
    assert "s3cret" not in str(raised.value)
    with pytest.raises(errors.AuditorError, match=message):
        testing.assert_equal(source, target)


def test_a_key_that_is_a_text_is_refused() -> None:
    with pytest.raises(errors.ConfigError, match=r"key=\['id'\]"):
        auditor.audit(("duckdb:///a", "t"), ("duckdb:///a", "t"), key="id")


def test_assert_equal_fails_with_the_report(sides: Any) -> None:
    assert testing.assert_equal(sides[0], sides[0], key=["id"]).verdict is auditor.Verdict.MATCH
    with pytest.raises(AssertionError, match=r"MISMATCH  t: .*501 missing, 1 changed"):
        testing.assert_equal(*sides, key=["id"])
    with pytest.raises(AssertionError, match="there is no table absent"):
        testing.assert_equal(sides[0], (sides[1][0], "absent"), key=["id"])
    with pytest.raises(AssertionError, match="UNKNOWN  t"):
        testing.assert_equal(*sides, key=["id"], where="id < 0")
