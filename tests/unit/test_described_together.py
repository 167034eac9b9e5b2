"""Audits that are planned one after another ask each catalogue once for all of their tables, and spoil nothing for one another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor.config import Settings, validate_settings
from auditor.errors import NoSuchObject
from auditor.service import planning
from auditor.service.table_pairs import propose_audits
from dialects.base import Catalogue
from dialects.duckdb.session import DuckDBSession

SIDES = ("here", "there")


def _settings(folder: Path, tables: int, **more: dict[str, Any]) -> Settings:
    """Return the settings of an audit for each of several tables, after making them."""
    for side in SIDES:
        with duckdb.connect(str(folder / f"{side}.duckdb")) as connection:
            for number in range(tables):
                connection.execute(f"CREATE OR REPLACE TABLE t{number} (id BIGINT PRIMARY KEY, v{number} VARCHAR)")
                connection.execute(f"INSERT INTO t{number} VALUES (1, 'one')")
    sides = dict(zip(("source", "target"), SIDES, strict=True))
    audits: dict[str, Any] = {
        f"a{number}": {side: {"connection": connection, "table": f"t{number}"} for side, connection in sides.items()}
        for number in range(tables)
    }
    connections = {side: {"url": f"duckdb:///{folder}/{side}.duckdb"} for side in SIDES}
    return validate_settings({"connections": connections, "audits": {**audits, **more}})


@pytest.fixture
def catalogue_statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that were asked of the catalogues of DuckDB."""
    seen: list[str] = []
    query = DuckDBSession.query

    def noting(session: DuckDBSession, sql: str) -> list[tuple[Any, ...]]:
        if "FROM duckdb_" in sql:
            seen.append(sql)
        return query(session, sql)

    monkeypatch.setattr(DuckDBSession, "query", noting)
    return seen


@pytest.mark.parametrize("tables", [1, 9])
def test_check_asks_a_catalogue_as_often_for_many_tables_as_for_one(tmp_path: Path, tables: int, catalogue_statements: list[str]) -> None:
    results = list(planning.check(_settings(tmp_path, tables)))
    assert len(catalogue_statements) == 2 * 3
    for number, result in enumerate(results):
        assert result.plan and [column.name for column in result.plan.columns] == ["id", f"v{number}"]


@pytest.mark.parametrize("tables", [1, 9])
def test_proposals_ask_a_catalogue_as_often_for_many_tables_as_for_one(
    tmp_path: Path, tables: int, catalogue_statements: list[str]
) -> None:
    _settings(tmp_path, tables)
    here, there = (f"duckdb:///{tmp_path}/{side}.duckdb" for side in SIDES)
    proposals = propose_audits(here, there)
    assert [proposal.source for proposal in proposals.audits] == [f"t{number}" for number in range(tables)]
    assert len(catalogue_statements) == 2 * (3 + 1)


def test_an_audit_of_a_missing_table_leaves_the_others_as_they_are(tmp_path: Path, catalogue_statements: list[str]) -> None:
    missing = {"source": {"connection": "here", "table": "t0"}, "target": {"connection": "there", "table": "nowhere"}}
    results = {result.audit: result for result in planning.check(_settings(tmp_path, 3, missing=missing))}
    assert isinstance(results["missing"].error, NoSuchObject) and "there is no table nowhere" in str(results["missing"].error)
    assert [name for name, result in results.items() if result.plan] == ["a0", "a1", "a2"]
    # Nothing was found of it, which was not asked again.
    assert len(catalogue_statements) == 3 + 3


def test_tables_that_cannot_be_described_together_are_described_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    describe_each = Catalogue.describe_each

    def refuse_one(catalogue: Catalogue, session: Any, places: Sequence[Any]) -> Any:
        if any(place.parts == ("t1",) for place in places):
            raise NoSuchObject("t1 is not read")
        return describe_each(catalogue, session, places)

    monkeypatch.setattr(Catalogue, "describe_each", refuse_one)
    results = {result.audit: result for result in planning.check(_settings(tmp_path, 3))}
    assert "t1 is not read" in str(results["a1"].error)
    assert results["a0"].plan and results["a2"].plan
