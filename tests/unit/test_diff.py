"""``auditor diff``: formats, exit codes, its arguments, and that it repeats no password."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import duckdb
import pytest
from jsonschema import Draft202012Validator

from auditor.cli import _diff, main

ROOT = Path(__file__).parents[2]
SCHEMA = Draft202012Validator(json.loads((ROOT / "docs" / "report.schema.json").read_text(encoding="utf-8")))
SECRET = "hunter2-4711"


@pytest.fixture
def urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Two databases with a table that differs in three rows, and ``same`` beside it in the first."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUDITOR_CONFIG", raising=False)
    for side in ("source", "target"):
        with duckdb.connect(f"{side}.duckdb") as database:
            database.execute("CREATE TABLE orders AS SELECT i AS id, 'v' || i AS v, i * 2 AS w FROM range(40) r(i)")
            database.execute("CREATE TABLE same AS SELECT * FROM orders")
    with duckdb.connect("target.duckdb") as database:
        database.execute("DELETE FROM orders WHERE id = 3")
        database.execute("UPDATE orders SET v = '=1+1' WHERE id = 7")
        database.execute("INSERT INTO orders VALUES (99, 'x', 198)")
    return f"duckdb:///{tmp_path}/source.duckdb", f"duckdb:///{tmp_path}/target.duckdb"


def test_differences_are_printed_and_nothing_is_stored(urls: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(path.name for path in tmp_path.iterdir())
    assert main(["diff", urls[0], "orders", urls[1], "orders", "-k", "id", "-q"]) == 1
    out, error = capsys.readouterr()
    assert out.startswith("MISMATCH  orders")
    assert "3 of 41 rows differ: 1 missing, 1 extra, 1 changed (v)" in out
    assert error == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_answers_name_options_of_this_command(urls: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", urls[0], "orders", urls[1], "orders", "-q"]) == 2
    assert "has no primary key: name the columns that identify a row: -k COLUMN,.." in capsys.readouterr().out
    with duckdb.connect("target.duckdb") as database:
        database.execute("ALTER TABLE orders DROP COLUMN w")
    assert main(["diff", urls[0], "orders", urls[1], "orders", "-k", "id", "-q"]) == 2
    assert "column 'w' is not in the target (target: orders); name its column there (--rename), or --exclude it" in capsys.readouterr().out


def test_every_setting_with_an_option_is_said_somewhere() -> None:
    said = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "auditor").rglob("*.py") if path.name != "_diff.py")
    said = said.replace("{{", "{").replace("}}", "}")
    assert [setting for setting in _diff.OWN_OPTIONS if setting.removeprefix(" or ") not in said] == []


def test_each_format(urls: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    command = ["diff", urls[0], "orders", urls[1], "orders", "-k", "id", "-q"]
    assert main([*command, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    SCHEMA.validate(found)
    assert [row["key"] for row in found["differences"]["sample"]] == [{"id": 3}, {"id": 7}, {"id": 99}]
    assert found["score"]["jaccard"]["differing_rows"] == 3, "a changed row counts once"
    assert main([*command, "--format", "csv"]) == 1
    out, error = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(row["kind"], row["id"], row["column"], row["target"]) for row in rows] == [
        ("missing", "3", "", ""), ("changed", "7", "v", "'=1+1"), ("extra", "99", "", ""),
    ]  # fmt: skip
    assert error.startswith("auditor: MISMATCH  orders: ")
    assert main([*command, "--format", "markdown"]) == 1
    assert capsys.readouterr().out.startswith("## orders: mismatch, 3 of 41 rows differ: 1 missing, 1 extra, 1 changed (v)\n\n| difference")
    assert main([*command, "--format", "html"]) == 1
    assert capsys.readouterr().out.startswith("<!DOCTYPE html>")


def test_columns_filter_and_limit(urls: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    command = ["diff", urls[0], "orders", urls[1], "orders", "-k", "id", "--json", "-q"]
    assert main([*command, "-c", "w", "-w", "id < 90 and id <> 3"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == {"source": 39, "target": 39}
    assert main([*command, "-c", "v,w", "--where", "id < 90"]) == 1
    assert [row["key"]["id"] for row in json.loads(capsys.readouterr().out)["differences"]["sample"]] == [3, 7]
    assert main([*command, "--limit", "1"]) == 1
    found = json.loads(capsys.readouterr().out)["differences"]
    assert (len(found["sample"]), found["missing"] + found["extra"] + found["changed"]) == (1, 3)


def test_columns_renamed_left_out_and_tolerated(urls: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    with duckdb.connect("target.duckdb") as database:
        database.execute(
            "CREATE TABLE more AS SELECT id, w AS width, v, id / 8 AS price, TIMESTAMP '2026-11-01 00:00:01' AS at FROM same;"
            "UPDATE more SET v = 'other', price = price + 0.01"
        )
    with duckdb.connect("source.duckdb") as database:
        database.execute("CREATE TABLE more AS SELECT *, id / 8 AS price, TIMESTAMP '2026-11-01 00:00:00' AS at FROM same")
    command = ["diff", urls[0], "more", urls[1], "more", "-k", "id", "-q"]
    assert main(command) == 2
    assert "name its column there (--rename), or --exclude it" in " ".join(capsys.readouterr().out.split())
    command += ["--rename", "w=width", "--exclude", "v"]
    assert main([*command, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["differences"]["changed"] == 40
    assert main([*command, "--tolerance", "price=0.02,at=2s"]) == 0
    assert main([*command, "--tolerance", "price=0.02"]) == 1
    assert main([*command, "--exclude", "at,price"]) == 0


@pytest.mark.parametrize(("threshold", "code"), [("0.8", 0), ("0.99", 1), ("rows=3", 0), ("rows=2", 1), ("share=10%", 0), ("share=1%", 1)])
def test_a_threshold(threshold: str, code: int, urls: tuple[str, str]) -> None:
    assert main(["diff", urls[0], "orders", urls[1], "orders", "-k", "id", "-q", "--threshold", threshold]) == code


@pytest.mark.parametrize(
    ("option", "says"),
    [
        (["--rename", "a"], "'a' is not a name and its name in the target; write them with = between"),
        (["--tolerance", "a=b"], "'b' is not a duration"),
        (["--threshold", "some"], "'some' is not a threshold; write a similarity (0.999), rows=10 or share=0.01%"),
    ],
)
def test_values_of_options_are_checked(option: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["diff", "duckdb:///a", "t", "u", *option])
    assert says in capsys.readouterr().err


def test_two_tables_of_one_database(urls: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", urls[0], "orders", "same", "-k", "id", "-q"]) == 0
    assert capsys.readouterr().out.startswith("MATCH  orders")


def test_options_may_stand_between_the_tables(urls: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", urls[0], "same", "-k", "id", urls[1], "same", "-q"]) == 0
    assert capsys.readouterr().out.startswith("MATCH  same")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["{0}", "orders"], 2, "write URL1 TABLE1 URL2 TABLE2, or URL TABLE1 TABLE2"),
        (["{0}", "{1}", "orders"], 2, "write URL1 TABLE1 URL2 TABLE2"),
        (["{0}", "orders", "{1}", "absent", "-k", "id"], 2, "there is no table absent"),
        (["{0}", "orders", "{1}", "orders"], 2, "key"),
        (["{0}", "orders", "{1}", "orders", "-k", "id", "-w", "nothing = 1"], 2, "nothing"),
    ],
)
def test_what_is_wrong_is_said(
    urls: tuple[str, str], capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    assert main(["diff", *(text.format(*urls) for text in arguments), "-q"]) == code
    assert "".join(capsys.readouterr()).count(message) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        [f"mysql://u:{SECRET}@127.0.0.1:1/shop", "orders", f"postgresql://u:{SECRET}@127.0.0.1:1/dwh", "orders"],
        [f"mysql://u:{SECRET}@127.0.0.1:1/shop", f"postgresql://u:{SECRET}@127.0.0.1:1/dwh"],
        [f"mysql://u:{SECRET}@127.0.0.1:1/shop", "orders", "--nothing", f"postgresql://u:p/{SECRET}@127.0.0.1:1/dwh", "orders"],
        [f"mysql://u:{SECRET}@127.0.0.1:1/shop", "orders", f"nonsense://u:{SECRET}@127.0.0.1:x/dwh", "orders"],
        [f"mysql://u:{SECRET}@127.0.0.1:1/shop", "orders", f"postgresql://u@127.0.0.1:1/dwh?password={SECRET}", "--what"],
        [f"mysql://u:x#{SECRET}@127.0.0.1:1/shop", "orders", "orders"],
        ["orders", f"mysql://u:{SECRET}@127.0.0.1:1/shop", "orders", f"mysql://u:{SECRET}@127.0.0.1:1/shop"],
    ],
)
def test_passwords_are_never_printed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main(["diff", *arguments])
    except SystemExit as ended:
        code = int(str(ended.code))
    out, error = capsys.readouterr()
    assert code in (2, 3)
    assert error
    assert SECRET not in out + error
