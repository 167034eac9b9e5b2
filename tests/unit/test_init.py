"""``auditor init`` writes a configuration that loads, overwrites nothing, and never contains a password."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import quote

import duckdb
import pytest

from auditor.cli import main
from auditor.config import load
from dialects import parse_url

SECRETS = {"SOURCE_PASSWORD": "s3cr3t-p@ss/word#", "TARGET_PASSWORD": "other"}


def test_written_configuration_loads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "auditor.yaml"
    assert main(["init", "--output", str(path)]) == 0
    assert capsys.readouterr() == ("", f"wrote {path}\n")
    settings = load(path, SECRETS)
    assert list(settings.audits) == ["orders"]
    assert parse_url(settings.connections["source"].url).password == SECRETS["SOURCE_PASSWORD"]


def test_commented_out_settings_are_valid(tmp_path: Path) -> None:
    path = tmp_path / "auditor.yaml"
    assert main(["init", "--output", str(path)]) == 0
    head, table, *rest = path.read_text(encoding="utf-8").split("    # target: ")
    (more,) = rest or [table]
    target, *lines = [line.removeprefix("    # ") for line in more.splitlines()]
    settings_text = "\n".join(f"    {line}" for line in lines if line)
    body = "\n".join(line for line in head.splitlines() if not line.startswith("    target:"))
    path.write_text(f"{body}\n    target: {target}\n{settings_text}\n", encoding="utf-8")
    audit = load(path, SECRETS).audit("orders")
    assert audit.key == ("order_id",)
    assert audit.columns.override["price"].round == 2
    assert audit.partition.size == 3072


def test_existing_file_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "auditor.yaml"
    path.write_text("mine", encoding="utf-8")
    assert main(["init", "--output", str(path)]) == 2
    assert path.read_text(encoding="utf-8") == "mine"
    assert capsys.readouterr().err == f"auditor: {path} already exists; write to another file with --output FILE\n"


def test_unwritable_path_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "absent" / "auditor.yaml"
    assert main(["init", "--output", str(path)]) == 2
    assert capsys.readouterr().err == f"auditor: {path} cannot be written: No such file or directory\n"


@pytest.mark.parametrize("password", ["plain", "s3cr3t-p@ss/word#", "p%40", "a:b", "source"])
def test_password_is_replaced_by_a_variable(tmp_path: Path, password: str) -> None:
    path = tmp_path / "auditor.yaml"
    encoded = quote(password, safe="")
    assert main(["init", "--output", str(path), "--source", f"mysql://reader:{encoded}@db1:3306/shop?ssl=false"]) == 0
    text = path.read_text(encoding="utf-8")
    assert 'source: {url: "mysql://reader:${SOURCE_PASSWORD}@db1:3306/shop?ssl=false"}' in text
    assert f":{encoded}@" not in text
    assert parse_url(load(path, {**SECRETS, "SOURCE_PASSWORD": password}).connections["source"].url).password == password


@pytest.mark.parametrize(
    "url", ["mysql://reader:s3cr3t-p@ss/word#@db1/shop", "mysql://reader:s3c#r3t@db1/shop", "mysql://reader:s3/cr@db/x"]
)
def test_unencoded_password_is_rejected_and_not_repeated(tmp_path: Path, capsys: pytest.CaptureFixture[str], url: str) -> None:
    path = tmp_path / "auditor.yaml"
    assert main(["init", "--source", url, "--output", str(path)]) == 2
    assert not path.exists()
    error = capsys.readouterr().err
    assert "percent-encode special characters of the password: @ is %40" in error
    assert "s3c" not in error


def create_databases(directory: Path, source: str, target: str) -> tuple[str, str]:
    """Return the URLs of two new DuckDB databases, made by these statements."""
    urls = []
    for side, statements in (("source", source), ("target", target)):
        path = directory / f"{side}.duckdb"
        with duckdb.connect(str(path)) as connection:
            connection.execute(statements)
        urls.append(f"duckdb:///{path}")
    return urls[0], urls[1]


def keyed(*tables: str) -> str:
    return "".join(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY);" for table in tables)


def test_tables_on_both_sides_become_audits(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shared = ["items", "no", '"a b"', "a_b", '"a.b/c ""d"""']
    source, target = create_databases(tmp_path, keyed('"Orders"', *shared, "mine"), keyed("orders", *shared, "theirs"))
    assert main(["init", "--source", source, "--target", target]) == 0
    assert capsys.readouterr().err == "wrote auditor.yaml with 6 audits; 2 tables are left out, and its end says why\n"
    settings = load(Path("auditor.yaml"), {})
    tables = {(audit.sources[0].table, audit.target.table) for audit in settings.audits.values()}
    assert tables == {("Orders", "orders"), *((name, name) for name in ("items", "no", "a b", "a_b", '"a.b/c ""d"""'))}
    assert main(["check"]) == 0


def test_every_name_that_is_proposed_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also names with characters that YAML refuses unless they are escaped."""
    monkeypatch.chdir(tmp_path)
    names = [
        "a\x85b",
        "del\x7f",
        "tab\tname",
        "new\nline",
        "a\u200bb",
        "\ufeffbom",
        "line\u2028end",
        "emoji\U0001f642",
        "back\\slash",
        "null",
    ]
    tables = keyed(*(f'"{name}"' for name in names))
    source, target = create_databases(tmp_path, tables, tables)
    assert main(["init", "--source", source, "--target", target]) == 0
    assert {audit.sources[0].table for audit in load(Path("auditor.yaml"), {}).audits.values()} == set(names)
    assert main(["check"]) == 0


SOURCE = """
CREATE SCHEMA shop; CREATE SCHEMA other;
CREATE TABLE shop.orders (id INTEGER PRIMARY KEY); CREATE TABLE shop.twice (id INTEGER PRIMARY KEY);
CREATE TABLE other.twice (id INTEGER PRIMARY KEY); CREATE TABLE shop.everywhere (id INTEGER PRIMARY KEY);
CREATE TABLE keyless (id INTEGER); CREATE TABLE "Keyed_There" (a INTEGER, "B" INTEGER); CREATE VIEW seen AS SELECT 1 AS id;
CREATE TABLE short (id INTEGER PRIMARY KEY, note VARCHAR); CREATE TABLE mine (id INTEGER PRIMARY KEY);
CREATE TABLE "a
b" (id INTEGER PRIMARY KEY); CREATE TABLE "${HOME}" (id INTEGER PRIMARY KEY);
"""
TARGET = """
CREATE SCHEMA lake; CREATE SCHEMA shop;
CREATE VIEW lake.orders AS SELECT 1 AS id; CREATE TABLE shop.twice (id INTEGER PRIMARY KEY);
CREATE TABLE main.everywhere (id INTEGER); CREATE TABLE lake.everywhere (id INTEGER);
CREATE TABLE keyless (id INTEGER); CREATE TABLE keyed_there (a INTEGER, b INTEGER, PRIMARY KEY (a, b)); CREATE TABLE seen (id INTEGER);
CREATE TABLE short (id INTEGER PRIMARY KEY); CREATE TABLE theirs (id INTEGER PRIMARY KEY); CREATE TABLE "${HOME}" (id INTEGER);
"""


def test_each_table_that_cannot_be_audited_has_a_line_that_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source, target = create_databases(tmp_path, SOURCE, TARGET)
    assert main(["init", "--source", source, "--target", target]) == 0
    settings = load(Path("auditor.yaml"), {})
    assert {(audit.sources[0].table, audit.target.table, audit.key) for audit in settings.audits.values()} == {
        ("shop.orders", "lake.orders", ()),
        ("shop.twice", "shop.twice", ()),
        ("Keyed_There", "keyed_there", ("a", "B")),
    }
    assert main(["check"]) == 0
    written = Path("auditor.yaml").read_text(encoding="utf-8")
    comments = written.split("take the marks of comments away:\n")[1].splitlines()
    assert [line.removeprefix("  # ") for line in comments if not re.match(r"  # (  |\w+:$)", line)] == [
        "${HOME}: a configuration takes the ${ in its name for a variable",
        "a␊b: only in the source",
        "keyless: no primary key on either side; write its audit with key: [column, ...]",
        "mine: only in the source",
        "other.twice: another table of the source has the same name as the target's",
        "seen: a view, which has no primary key; write its audit with key: [column, ...]",
        "shop.everywhere: can be any of the target's lake.everywhere, main.everywhere",
        "short: column 'note' is not in the target (target: short);"
        " map it under target: columns: {source name: target name}, or exclude it",
        "theirs: only in the target",
    ]
    audits = "".join(f"  {line.removeprefix('  # ')}\n" for line in comments if re.match(r"  # (  |\w+:$)", line))
    Path("auditor.yaml").write_text(f"{written}\n{audits}", encoding="utf-8")
    found = {name: audit for name, audit in load(Path("auditor.yaml"), {}).audits.items() if name not in settings.audits}
    assert {(audit.sources[0].table, audit.target.table, audit.key) for audit in found.values()} == {
        ("a\nb", "TABLE", ()), ("keyless", "keyless", ("COLUMN",)), ("mine", "TABLE", ()), ("other.twice", "TABLE", ()),
        ("seen", "seen", ("COLUMN",)), ("shop.everywhere", "TABLE", ()), ("short", "short", ()), ("TABLE", "theirs", ()),
    }  # fmt: skip


def test_sides_without_a_common_table_are_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = create_databases(tmp_path, keyed("mine"), keyed("theirs"))
    path = tmp_path / "auditor.yaml"
    assert main(["init", "--source", source, "--target", target, "--output", str(path)]) == 2
    assert not path.exists()
    error = capsys.readouterr().err
    assert "no table can be audited as it is" in error
    assert "\n  - mine: only in the source\n  - theirs: only in the target" in error


# by a manifest of dbt


def dbt_table(kind: str, name: str, origin: object = None, **more: object) -> dict[str, object]:
    """Return a table as a manifest has it; tests/integrations/test_dbt.py reads what dbt itself writes."""
    meta = {} if origin is None else {"auditor": origin}
    names = {"name": "another", "identifier" if kind == "source" else "alias": name}
    return {
        "resource_type": kind,
        "unique_id": f"{kind}.shop.{name}",
        "database": "target",
        "schema": "main",
        "meta": meta,
        **names,
        **more,
    }


def write_manifest(path: Path, *tables: dict[str, object], version: str = "v12") -> str:
    made = {
        kind: {str(one["unique_id"]): one for one in tables if (one["resource_type"] == "source") is is_source} for kind, is_source in KINDS
    }
    address = f"https://schemas.getdbt.com/dbt/manifest/{version}.json"
    path.write_text(json.dumps({"metadata": {"dbt_schema_version": address}, **made}), encoding="utf-8")
    return str(path)


KINDS = (("sources", True), ("nodes", False))


def test_a_manifest_says_which_tables_are_audited(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source, target = create_databases(
        tmp_path,
        "CREATE SCHEMA shop; CREATE TABLE shop.orders (id INTEGER PRIMARY KEY); CREATE TABLE shop.lines (id INTEGER, n INTEGER);",
        "CREATE TABLE raw_orders (id INTEGER); CREATE TABLE orders (id INTEGER); CREATE VIEW lines AS SELECT 1 AS id, 2 AS n;",
    )
    manifest = write_manifest(
        tmp_path / "manifest.json",
        dbt_table("source", "raw_orders", {"source": "shop.orders"}),
        dbt_table("source", "unsaid"),
        dbt_table("source", "absent", {"source": "shop.orders"}),
        dbt_table("source", "elsewhere", {"source": "shop.orders"}, database="other"),
        dbt_table("model", "lines", None, config={"meta": {"auditor": {"source": "shop.lines", "key": ["id", "n"]}}}),
        dbt_table("model", "orders"),
        dbt_table("test", "unique"),
    )
    assert main(["init", "--source", source, "--target", target, "--from-dbt", manifest]) == 0
    assert capsys.readouterr().err == "wrote auditor.yaml with 2 audits; 3 tables are left out, and its end says why\n"
    audits = load(Path("auditor.yaml"), {}).audits.values()
    found = {(audit.sources[0].table, audit.target.table, audit.key) for audit in audits}
    assert found == {("shop.orders", "main.raw_orders", ()), ("shop.lines", "main.lines", ("id", "n"))}
    assert main(["check"]) == 0
    comments = Path("auditor.yaml").read_text(encoding="utf-8").split("take the marks of comments away:\n")[1].splitlines()
    left_out = [line.removeprefix("  # ") for line in comments if not re.match(r"  # (  |\w+:$)", line)]
    assert len(left_out) == 3 and left_out[0].startswith("main.absent: target: there is no table main.absent")
    assert left_out[1] == "main.elsewhere: dbt has it in the database other, and the target's URL is of another"
    assert left_out[2] == "main.unsaid: a source of dbt that no meta: {auditor: {source: ...}} says the origin of"


@pytest.mark.parametrize(
    ("table", "version", "said"),
    [
        (dbt_table("source", "a", {"key": ["id"]}), "v12", "meta: auditor: of source.shop.a: source: Field required"),
        (dbt_table("source", "a", {"source": "b", "keys": ["id"]}), "v12", "keys: Extra inputs are not permitted"),
        (dbt_table("source", "a"), "v20", "is a manifest of the version https://schemas.getdbt.com/dbt/manifest/v20.json"),
        (dbt_table("source", "a"), "v12", "no table can be audited as it is; say in dbt where tables come from"),
    ],
)
def test_a_manifest_that_says_nothing_usable_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], table: dict[str, object], version: str, said: str
) -> None:
    source, target = create_databases(tmp_path, keyed("a"), keyed("a"))
    manifest = write_manifest(tmp_path / "manifest.json", table, version=version)
    command = ["init", "--source", source, "--target", target, "--output", str(tmp_path / "new.yaml"), "--from-dbt"]
    assert main([*command, manifest]) == 2
    assert said in capsys.readouterr().err
    assert main([*command, str(tmp_path / "absent.json")]) == 2
    assert "No such file or directory; dbt writes it with: dbt parse" in capsys.readouterr().err
    (tmp_path / "manifest.json").write_text("[]", encoding="utf-8")
    assert main([*command, manifest]) == 2
    assert "is no manifest of dbt" in capsys.readouterr().err
    assert main(["init", "--from-dbt", manifest, "--output", str(tmp_path / "new.yaml")]) == 2
    assert "--from-dbt needs --source and --target" in capsys.readouterr().err
    assert not (tmp_path / "new.yaml").exists()
