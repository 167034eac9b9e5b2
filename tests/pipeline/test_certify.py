"""The command certify: every engine passes, a fault is named, nothing is left behind, and what was not tried is said."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import dialects
from auditor import cli
from auditor.errors import BadUrl, ConfigError, ResultError, ServerTooOld, StatementRefused
from auditor.model.certificate import Certificate, CertifiedCheck
from auditor.report import certificate as report
from auditor.service import certify as service
from auditor.service.certify import PARTS, Scale, certify, estimate
from auditor.service.certify.scratch import PREFIX, Scratch
from dialects.duckdb.dialect import DuckDB
from dialects.duckdb.expressions import DuckDBText, DuckDBTimes
from tests import tables
from tests.live import LiveEngine, engine_params, quick_on

SMALL = Scale(rows=60, steps=("merged",), kinds=frozenset({"whole", "price", "double", "free", "moment", "document"}))
IN_SCHEMA = ("types", "target", "source")
LISTED = {
    "mysql": "SELECT schema_name FROM information_schema.schemata",
    "postgres": "SELECT nspname FROM pg_namespace",
    "redshift": "SELECT nspname FROM pg_namespace",
    "duckdb": "SELECT schema_name FROM information_schema.schemata",
    "spark": "SHOW DATABASES",
}


def left_behind(engine: LiveEngine, url: str) -> list[str]:
    """The schemas of certifications that are still there."""
    rows = tables.query(LiveEngine(engine.name, engine.dialect, url), LISTED[engine.dialect])
    return [str(name) for (name,) in rows if str(name).startswith(PREFIX)]


def names(found: Certificate, outcome: str) -> list[str]:
    return [f"{check.part}: {check.name}: {check.detail}" for check in found.checks if check.outcome == outcome]


@pytest.mark.parametrize("engine", quick_on("mysql"), indirect=True)  # which has every part
@pytest.mark.alone  # the log that it reads is the whole server's
def test_every_engine_passes(engine: LiveEngine, loaded_url: str) -> None:
    parts = ("facts", *IN_SCHEMA)
    found = certify(loaded_url, parts=parts, scale=SMALL)
    assert found.verdict == "certified", (names(found, "failed"), names(found, "refused"), names(found, "not tried"))
    assert not left_behind(engine, loaded_url)
    passed = [check.name for check in found.checks if check.outcome == "passed"]
    assert sum(name.endswith(": damaged") for name in passed) >= 6
    tried = {check.part for check in found.checks if check.outcome == "passed"} - {"scratch"}
    expected = {"redshift": {"facts", "types", "target"}, "mysql": {*IN_SCHEMA}, "mariadb": {*IN_SCHEMA}, "spark": {"types"}}
    assert tried == expected.get(engine.name, {"types", "target"})
    assert "a merge that is killed at the step 'merged' is continued" in passed or engine.name == "spark"
    assert bool(found.stand_in) == (engine.name == "redshift") and found.version and found.server
    assert found.cost.statements > 50 and (found.cost.bytes > 0 or engine.name == "spark")
    assert (found.cost.server_statements is not None) == (engine.name == "redshift")
    told = report.cell(found)
    assert told.outcome == "passed" and told.stand_in == bool(found.stand_in)
    assert str(told).startswith("stand-in: passed" if found.stand_in else "passed; not tried: ")


@contextmanager
def rounding_down(engine: LiveEngine) -> Iterator[None]:
    """Let a function stand before the server's own that cuts a number where it should round it."""
    made = "CREATE FUNCTION public.round(value numeric, places int) RETURNS numeric LANGUAGE sql IMMUTABLE AS 'SELECT trunc($1, $2)'"
    tables.execute(engine, made)
    try:
        yield
    finally:
        tables.execute(engine, "DROP FUNCTION public.round(numeric, int)")


@pytest.mark.slow
@pytest.mark.parametrize("engine", engine_params("redshift"), indirect=True)
@pytest.mark.alone
def test_a_function_that_rounds_otherwise_is_named(engine: LiveEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output, page = tmp_path / "certificate.json", tmp_path / "certificate.md"
    with rounding_down(engine):
        code = cli.main(["certify", engine.url, "--parts", "selftest,facts", "--output", str(output), "--page", str(page), "-q"])
    printed = capsys.readouterr().out
    assert code == 1 and printed.startswith("FAILED  ") and "NOT THE ENGINE ITSELF" in printed
    found = report.read(output)
    failed = [check for check in found.checks if check.outcome == "failed"]
    assert failed and all("round" in check.name or "rounded" in check.name or "decimal" in check.name for check in failed), failed
    assert any(check.sql for check in failed)
    told = report.cell(found)
    assert told.outcome == "failed" and told.stand_in and told.names and str(told).startswith("stand-in: failed: selftest: ")
    assert page.read_text().startswith("# Not certified: something failed\n") and "## What failed" in page.read_text()


def wrong_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DuckDBTimes, "timestamp_text", lambda self, c, native, scale=None: f"STRFTIME({c}, '%Y-%m-%d %H:%M:%S')")


def wrong_equality(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DuckDBText, "characters", lambda self, c: f"UPPER({c})")


@pytest.mark.quick_for("wrong_equality")
@pytest.mark.parametrize(("fault", "named"), [(wrong_rounding, "(moment)"), (wrong_equality, "(free)")])
def test_damage_that_an_audit_does_not_see_is_named(
    fault: Callable[[pytest.MonkeyPatch], None], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both sides have the fault, so audits alone find nothing: the reference in Python does."""
    fault(monkeypatch)
    found = certify(f"duckdb:///{tmp_path}/new.duckdb", parts=["types"], scale=SMALL)
    failed = [check for check in found.checks if check.outcome == "failed"]
    assert found.verdict == "failed" and all(named in check.name for check in failed), names(found, "failed")
    assert any("damage that was not named: " in check.detail for check in failed)


@pytest.mark.parametrize("engine", engine_params("postgres", "mysql"), indirect=True)
def test_nothing_is_left_after_an_interrupt(engine: LiveEngine) -> None:
    def interrupt(check: CertifiedCheck) -> None:
        if check.part == "types":
            assert left_behind(engine, engine.url)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        certify(engine.url, parts=["types"], scale=SMALL, on_check=interrupt)
    assert not left_behind(engine, engine.url)


@pytest.mark.slow
@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_an_engine_of_ones_own_holds_the_other_side(engine: LiveEngine, tmp_path: Path) -> None:
    found = certify(f"duckdb:///{tmp_path}/new.duckdb", engine.url, parts=["types"], scale=SMALL)
    assert found.verdict == "certified" and found.against == "postgres", names(found, "failed")
    assert not left_behind(engine, engine.url)


@pytest.mark.parametrize("engine", engine_params("postgres", "mysql"), indirect=True)
def test_an_account_that_may_only_read(engine: LiveEngine) -> None:
    parts = urlsplit(engine.url)
    reader = parts._replace(netloc=f"certify_reader:a-Long1Password@127.0.0.1:{parts.port}").geturl()
    database = parts.path.lstrip("/")
    at = "@'%'" if engine.name == "mysql" else ""
    tables.execute(engine, *(
        ("CREATE USER certify_reader@'%' IDENTIFIED BY 'a-Long1Password'", f"GRANT SELECT ON {database}.* TO certify_reader@'%'")
        if engine.name == "mysql" else ("CREATE ROLE certify_reader LOGIN PASSWORD 'a-Long1Password'",)
    ))  # fmt: skip
    try:
        found = certify(reader, parts=IN_SCHEMA, scale=SMALL)
    finally:
        tables.execute(engine, f"DROP {'USER' if at else 'ROLE'} certify_reader{at}")
    assert found.verdict == "not tried" and "a-Long1Password" not in found.model_dump_json()
    told = names(found, "not tried")
    assert any(one.startswith("types: everything: no schema could be made") and "denied" in one for one in told), told
    assert report.cell(found).outcome == "not tried" and len(report.cell(found).names) == len(IN_SCHEMA)


def test_a_schema_that_is_there_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"duckdb:///{tmp_path}/new.duckdb"
    monkeypatch.setattr(secrets, "token_hex", lambda _: "00c0ffee")
    with Scratch(url).writing() as session:
        session.execute(f"CREATE SCHEMA {PREFIX}00c0ffee")
        session.execute(f"CREATE TABLE {PREFIX}00c0ffee.mine AS SELECT 1 AS n")
    found = certify(url, parts=["types"], scale=SMALL)
    assert found.verdict == "not tried" and "already exists" in names(found, "not tried")[0]
    with Scratch(url).writing() as session:
        assert session.query(f"SELECT n FROM {PREFIX}00c0ffee.mine") == [(1,)]


def test_a_schema_that_cannot_be_dropped_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = SMALL.samples[:1]
    monkeypatch.setattr(service, "samples", lambda: few)
    monkeypatch.setattr(DuckDB, "TABLE_FORM", replace(DuckDB.TABLE_FORM, drop_schema="DROP SCHEMA {schema}, nothing"))
    assert cli.main(["certify", f"duckdb:///{tmp_path}/new.duckdb", "--parts", "types", "-q"]) == 1
    printed = capsys.readouterr()
    assert "is still there" in printed.err and "; run: DROP SCHEMA " in printed.err and "FAILED: scratch: " in printed.out


def test_time_that_is_over_is_said(tmp_path: Path) -> None:
    found = certify(f"duckdb:///{tmp_path}/new.duckdb", parts=["types", "target"], scale=SMALL, minutes=0)
    assert found.verdict == "not tried" and all(
        "the time limit of 0 minutes was over" in one or "it comes after '60 rows are loaded'" in one for one in names(found, "not tried")
    )
    assert [check.outcome for check in found.checks if check.part == "scratch"] == ["passed", "passed"]


def test_a_server_that_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(*_: object) -> None:
        raise ServerTooOld("DuckDB 0.1 is too old")

    monkeypatch.setattr(DuckDB, "connect", refuse)
    output = tmp_path / "certificate.json"
    assert cli.main(["certify", f"duckdb:///{tmp_path}/new.duckdb", "--output", str(output), "-q"]) == 2
    assert capsys.readouterr().out.startswith("REFUSED  a server (duckdb)")
    assert str(report.cell(report.read(output))) == "refused: DuckDB 0.1 is too old"


def test_the_command_on_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    few = SMALL.samples[:2]
    monkeypatch.setattr(service, "samples", lambda: few)
    url, output = f"duckdb:///{tmp_path}/new.duckdb", tmp_path / "certificate.json"
    assert cli.main(["certify", url, "--dry-run"]) == 0
    printed = capsys.readouterr()
    assert "to be tried: selftest, types, target; about " in printed.out and "not to be tried: source: duckdb has no log" in printed.out
    assert not list(tmp_path.iterdir())
    assert cli.main(["certify", url, "--parts", "types", "--output", str(output)]) == 0
    printed = capsys.readouterr()
    assert "about " in printed.err and "rows written" in printed.err
    assert printed.out.startswith("CERTIFIED  DuckDB ") and "becomes a cell" in printed.out
    assert json.loads(output.read_text())["format"] == "auditor certificate 1" and url not in output.read_text()
    found = report.read(output)
    assert str(report.cell(found)) == "passed" and found.of("noted") == []
    assert report.markdown(found).startswith("# Certified\n")
    assert cli.main(["certify", url, "--parts", "source", "--json", "-q"]) == 3
    assert json.loads(capsys.readouterr().out)["checks"][0]["detail"] == "duckdb has no log that pipelines read"


def test_what_cannot_be_certified(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no part 'tests' to try; choose from selftest, facts, types, target, source"):
        certify(f"duckdb:///{tmp_path}/new.duckdb", parts=["tests"])
    with pytest.raises(ConfigError, match="a database in memory is gone with each session"):
        certify("duckdb:///:memory:")
    with pytest.raises(BadUrl):
        certify("nothing://here")
    with pytest.raises(StatementRefused, match="tables of delta are files"):
        Scratch(f"delta://{tmp_path}").make()
    (tmp_path / "other.json").write_text('{"format": "auditor certificate 0"}')
    with pytest.raises(ResultError, match=r"other\.json is no certificate of this version of the auditor"):
        report.read(tmp_path / "other.json")


@pytest.mark.slow
def test_costs_are_told_before(tmp_path: Path) -> None:
    """What is announced is of the order of what is then counted."""
    url = f"duckdb:///{tmp_path}/new.duckdb"
    announced = estimate(url, ["types", "target"], SMALL)
    found = certify(url, parts=["types", "target"], scale=SMALL)
    assert found.verdict == "certified", names(found, "failed")
    assert announced.statements / 3 < found.cost.statements < announced.statements * 3
    whole = estimate("redshift://wh/dev")
    assert whole.parts == ("selftest", "facts", "types", "target") and whole.statements > announced.statements
    assert set(estimate("delta:///lake").lacking) == {*PARTS} - {"selftest"}
    assert dialects.get("delta").name == "delta"
