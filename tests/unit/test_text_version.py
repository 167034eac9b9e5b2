"""What was hashed under another version of canonical texts is refused, and a NULL in a column that should hold none is not hashed."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor import canonical, service
from auditor.config import Settings, validate_settings
from auditor.errors import NotResumable, ResultError
from auditor.history import fingerprint
from auditor.history.stored_plan import dump_plan, load_plan
from auditor.model import SIDES, Progress, Report, State, Verdict
from auditor.service import stored_runs
from auditor.store import Store, open_store
from dialects import Place, Session, Table
from dialects.duckdb.catalogue import DuckDBCatalogue

pytestmark = pytest.mark.duckdb


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(f"sqlite:///{tmp_path}/store.db")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    for side in SIDES:
        with duckdb.connect(str(tmp_path / f"{side}.duckdb")) as connection:
            connection.execute("CREATE TABLE t AS SELECT i AS id, CASE WHEN i <> 7 THEN 'row ' || i END AS v FROM range(100) r(i)")
    ends: dict[str, Any] = {side: {"connection": side, "table": "t"} for side in SIDES}
    connections = {side: {"url": f"duckdb:///{tmp_path / side}.duckdb"} for side in SIDES}
    return validate_settings({"connections": connections, "audits": {"t": {**ends, "key": ["id"]}}})


def test_a_run_of_another_version_is_not_resumed(settings: Settings, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.doing == "finding the rows that differ":
            raise KeyboardInterrupt

    first = service.run_audit(settings, "t", interrupt, store)
    assert first.state is State.CANCELLED and first.resumable and first.plan
    assert first.plan.version == canonical.VERSION and load_plan(dump_plan(first.plan)) == first.plan
    monkeypatch.setattr(canonical, "VERSION", canonical.VERSION + 1)
    assert load_plan(dump_plan(first.plan)) is None
    with pytest.raises(NotResumable, match=r"was begun by another version of the auditor, .* start a new one: auditor run t"):
        stored_runs.resume(settings, store, first.run)


def test_a_plan_from_before_there_were_versions_is_of_another_one(settings: Settings) -> None:
    plan = service.make_plan(settings, "t", settings.audit("t"))
    assert load_plan(dump_plan(dataclasses.replace(plan, version=0))) is None
    assert load_plan(b"{}") is None


def test_fingerprints_contain_the_version(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = service.make_plan(settings, "t", settings.audit("t"))
    definition = settings.audit("t").model_dump(mode="json", by_alias=True, exclude_defaults=True)
    printed, hashed = service.plan_fingerprint(plan), fingerprint.hash_settings(definition)
    monkeypatch.setattr(canonical, "VERSION", canonical.VERSION + 1)
    assert printed.startswith(f"v{canonical.VERSION - 1}_") and service.plan_fingerprint(plan).startswith(f"v{canonical.VERSION}_")
    assert fingerprint.hash_settings(definition) != hashed


def test_saved_results_of_another_version_are_refused_even_as_a_pair(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for side, script in service.sql(settings, "t").items():
        with duckdb.connect(str(tmp_path / f"{side}.duckdb"), read_only=True) as connection:
            statements = [one for one in script.split(";\n") if one.strip()]
            select = next(one for one in statements if "audit_plan" in one.partition("SELECT")[2])
            connection.execute(f"COPY ({select.strip()}) TO '{tmp_path / side}.csv' (HEADER)")
    files = tmp_path / "source.csv", tmp_path / "target.csv"
    assert service.compare_files(*files).verdict is Verdict.MATCH
    monkeypatch.setattr(canonical, "VERSION", canonical.VERSION + 1)
    with pytest.raises(ResultError, match="another version of the auditor, which hashes rows in another way: print both statements again"):
        service.compare_files(*files)


def test_a_null_that_the_catalogue_denies_leaves_the_verdict_unknown(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    described = DuckDBCatalogue.describe

    def deny(self: DuckDBCatalogue, session: Session, place: Place) -> list[Table]:
        tables = described(self, session, place)
        return [
            dataclasses.replace(table, columns=tuple(dataclasses.replace(column, nullable=False) for column in table.columns))
            for table in tables
        ]

    assert service.run_audit(settings, "t").verdict is Verdict.MATCH
    monkeypatch.setattr(DuckDBCatalogue, "describe", deny)
    report: Report = service.run_audit(settings, "t")
    assert report.plan and report.plan.columns[1].never_null == SIDES
    assert report.verdict is Verdict.UNKNOWN and report.reasons
