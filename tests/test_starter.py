"""``auditor init`` writes a configuration that loads, never twice, and never with a password."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import duckdb
import pytest

from auditor.cli import main
from auditor.config import load
from auditor.starter import write
from dialects import parse

SECRETS = {"SOURCE_PASSWORD": "s3cr3t-p@ss/word#", "TARGET_PASSWORD": "other"}


def test_what_it_writes_loads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "auditor.yaml"
    assert main(["init", "--output", str(path)]) == 0
    assert capsys.readouterr() == ("", f"wrote {path}\n")
    settings = load(path, SECRETS)
    assert list(settings.audits) == ["orders"]
    assert parse(settings.connections["source"].url).password == SECRETS["SOURCE_PASSWORD"]


def test_its_comments_are_settings(tmp_path: Path) -> None:
    path = tmp_path / "auditor.yaml"
    write(path)
    head, table, *rest = path.read_text(encoding="utf-8").split("    # target: ")
    (more,) = rest or [table]
    target, *lines = [line.removeprefix("    # ") for line in more.splitlines()]
    kept = "\n".join(f"    {line}" for line in lines if line)
    body = "\n".join(line for line in head.splitlines() if not line.startswith("    target:"))
    path.write_text(f"{body}\n    target: {target}\n{kept}\n", encoding="utf-8")
    audit = load(path, SECRETS).audit("orders")
    assert audit.key == ("order_id",)
    assert audit.columns.override["price"].round == 2
    assert audit.partition.size == 3072


def test_it_overwrites_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "auditor.yaml"
    path.write_text("mine", encoding="utf-8")
    assert main(["init", "--output", str(path)]) == 2
    assert path.read_text(encoding="utf-8") == "mine"
    assert capsys.readouterr().err == f"auditor: {path} exists and is left as it is; write elsewhere with --output FILE\n"


def test_it_cannot_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "absent" / "auditor.yaml"
    assert main(["init", "--output", str(path)]) == 2
    assert capsys.readouterr().err == f"auditor: {path} cannot be written: No such file or directory\n"


@pytest.mark.parametrize("password", ["plain", "s3cr3t-p@ss/word#", "p%40", "a:b", "source"])
def test_a_password_becomes_a_variable(tmp_path: Path, password: str) -> None:
    path = tmp_path / "auditor.yaml"
    encoded = quote(password, safe="")
    write(path, f"mysql://reader:{encoded}@db1:3306/shop?ssl=false")
    text = path.read_text(encoding="utf-8")
    assert 'source: {url: "mysql://reader:${SOURCE_PASSWORD}@db1:3306/shop?ssl=false"}' in text
    assert f":{encoded}@" not in text
    assert parse(load(path, {**SECRETS, "SOURCE_PASSWORD": password}).connections["source"].url).password == password


@pytest.mark.parametrize(
    "url", ["mysql://reader:s3cr3t-p@ss/word#@db1/shop", "mysql://reader:s3c#r3t@db1/shop", "mysql://reader:s3/cr@db/x"]
)
def test_a_password_that_is_not_encoded_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], url: str) -> None:
    path = tmp_path / "auditor.yaml"
    assert main(["init", "--source", url, "--output", str(path)]) == 2
    assert not path.exists()
    error = capsys.readouterr().err
    assert "percent-encode special characters of the password: @ is %40" in error
    assert "s3c" not in error


def databases(directory: Path, source: list[str], target: list[str]) -> tuple[str, str]:
    urls = []
    for side, tables in (("source", source), ("target", target)):
        path = directory / f"{side}.duckdb"
        with duckdb.connect(str(path)) as connection:
            for table in tables:
                connection.execute(f'CREATE TABLE "{table}" (id INTEGER PRIMARY KEY)')
        urls.append(f"duckdb:///{path}")
    return urls[0], urls[1]


def test_tables_on_both_sides_become_audits(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source, target = databases(tmp_path, ["Orders", "items", "no", "a b", "a_b", "mine"], ["orders", "items", "no", "a b", "a_b", "theirs"])
    assert main(["init", "--source", source, "--target", target]) == 0
    assert "with 5 audits: " in capsys.readouterr().err
    settings = load(Path("auditor.yaml"), {})
    tables = {(audit.source.table, audit.target.table) for audit in settings.audits.values()}
    assert tables == {("Orders", "orders"), ("items", "items"), ("no", "no"), ("a b", "a b"), ("a_b", "a_b")}
    assert main(["check"]) == 0


def test_no_table_in_common(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = databases(tmp_path, ["mine"], ["theirs"])
    path = tmp_path / "auditor.yaml"
    assert main(["init", "--source", source, "--target", target, "--output", str(path)]) == 2
    assert not path.exists()
    assert "have no table of the same name" in capsys.readouterr().err
