"""NULL and the text NULL are told apart wherever a report shows values and keys."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import duckdb
import pytest

from auditor import service
from auditor.config import validate_settings
from auditor.history import records
from auditor.report import formatting, render
from auditor.store import Store, open_store

SHOWN = {"NULL": "'NULL'", "'NULL'": "''NULL''", "NULLS": "NULLS", "null": "null", "": "''", "'": "'"}


@pytest.mark.parametrize(("text", "shown"), SHOWN.items())
def test_text_that_passes_for_null_is_quoted(text: str, shown: str) -> None:
    assert formatting.value(text) == shown
    assert len(set(SHOWN.values())) == len(SHOWN), "no two texts look the same"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, str]:
    """A run over a table in which the text NULL became NULL, and a row of the key NULL is missing."""
    folder = tmp_path_factory.mktemp("null")
    for side, value in (("source", "'NULL'"), ("target", "NULL")):
        with duckdb.connect(f"{folder}/{side}.duckdb") as connection:
            connection.execute(f"CREATE TABLE t AS SELECT 'a' AS id, CAST({value} AS VARCHAR) AS v")
            if side == "source":
                connection.execute("INSERT INTO t VALUES ('NULL', 'x'), (NULL, 'x')")
    ends = {side: {"connection": side, "table": "t"} for side in ("source", "target")}
    urls = {side: {"url": f"duckdb:///{folder}/{side}.duckdb"} for side in ends}
    store = open_store(f"sqlite:///{folder}/store.db")
    settings = validate_settings({"connections": urls, "audits": {"t": {**ends, "key": ["id"]}}})
    return store, service.run_audit(settings, "t", store=store).run


HTML_NULL = '<span class="null">NULL</span>'
FORMS = {
    "text": ("'NULL'", " NULL"),
    "markdown": ("`'NULL'`", "*NULL*"),
    "html": ("<bdi>&#39;NULL&#39;</bdi>", HTML_NULL),
    "json": ('"NULL"', "null"),
}


@pytest.mark.parametrize("form", FORMS)
def test_reports_tell_them_apart(stored: tuple[Store, str], form: str) -> None:
    as_text, as_null = FORMS[form]
    report = records.load_report(*stored)
    assert report is not None
    shown = render.run(report, None, form)
    assert shown.count(as_text) >= 2 and shown.count(as_null) >= 1, shown


def test_csv_tells_them_apart(stored: tuple[Store, str]) -> None:
    from auditor.service import stored_differences

    store, run = stored
    lines = list(stored_differences.as_csv(store, stored_differences.select(store, run, None, None)))
    assert sum('"NULL"' in line for line in lines) == 2
    assert any(',"NULL",,' in line or ',"v","NULL",,' in line for line in lines), "NULL is a cell without quotes"
    assert list(csv.reader(io.StringIO("".join(lines))))


def test_keys_in_sentences_tell_them_apart(tmp_path: Path) -> None:
    ends = {side: {"connection": side, "table": "t"} for side in ("source", "target")}
    urls = {side: {"url": f"duckdb:///{tmp_path}/{side}.duckdb"} for side in ends}
    for side in ends:
        with duckdb.connect(f"{tmp_path}/{side}.duckdb") as connection:
            connection.execute(
                "CREATE TABLE t AS SELECT 'NULL' AS id, 1 AS part, now()::TIMESTAMP AS moved UNION ALL SELECT NULL, 2, now()"
            )
    audit = {**ends, "key": ["id", "part"], "settle": {"column": "moved", "lag": "1h"}, "overdue_after": 2}
    settings = validate_settings({"connections": urls, "audits": {"t": audit}})
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    reports = [service.run_audit(settings, "t", store=store) for _ in range(2)]
    assert "'NULL', 1" in reports[1].reasons[-1] and "NULL, 2" in reports[1].reasons[-1]
