"""Text from outside stays text: each language's own parser finds the same in what is printed with hostile names as with plain ones."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import duckdb
import markdown as python_markdown  # type: ignore[import-untyped]
import pytest
import sqlglot
import yaml
from markdown_it import MarkdownIt

from auditor import escaping, service
from auditor.cli import main
from auditor.config import Settings, add_audits, load
from auditor.model import SIDES, ColumnDifference, Difference, Differences, Report, State, Verdict
from auditor.report import difference_rows, render
from auditor.service import scheduler
from auditor.service.channels import Message
from auditor.service.target_schema import print_schema
from tests.hostile_texts import CONTROLS, LINE_ENDS, TEXTS

DIALECTS = ("mysql", "postgres", "duckdb", "spark")
SHELLS = ("sh", "bash")
LANGUAGES = (*DIALECTS, *SHELLS, "YAML", "JSON", "CSV", "Markdown", "messages")
"""What every hostile text is written in, and read again by a parser that is not ours."""


def is_one_line(text: str) -> bool:
    return text.isprintable() and len(text.splitlines()) <= 1


# languages


@pytest.mark.parametrize("dialect", DIALECTS)
def test_nothing_ends_a_comment_of_sql(dialect: str) -> None:
    script = "".join(escaping.sql_comment(text) + "SELECT 1;\n" for text in TEXTS)
    assert script.count("\n") == 2 * len(TEXTS) and script.replace("\n", "").isprintable()
    found = [one.sql(comments=False) for one in sqlglot.parse(script, dialect=dialect) if one]
    assert found == ["SELECT 1"] * len(TEXTS)
    assert "${" not in script


def test_duckdb_runs_only_what_stands_outside_comments() -> None:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE victim (a INTEGER)")
        connection.execute("".join(escaping.sql_comment(text) for text in TEXTS) + "SELECT 1")
        assert connection.execute("SELECT COUNT(*) FROM victim").fetchall() == [(0,)]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_word_of_a_shell_yields_exactly_the_text(tmp_path: Path, shell: str) -> None:
    texts = [text for text in TEXTS if "\0" not in text]  # which no word can hold
    script = "".join(f"printf '%s\\0' {escaping.shell_word(text)}\n" for text in texts)
    assert subprocess.run([shell, "-n"], input=script.encode(), check=False).returncode == 0
    done = subprocess.run([shell], input=script.encode(), capture_output=True, check=True, cwd=tmp_path)
    assert done.stdout == b"".join(text.encode() + b"\0" for text in texts)
    assert not list(tmp_path.iterdir())
    assert all(escaping.shell_word(text).isprintable() for text in texts if not text.endswith("\n"))


def test_a_comment_of_yaml_and_shells_ends_where_its_line_ends() -> None:
    for text in TEXTS:
        comment = escaping.hash_comment(text, "  ")
        assert is_one_line(comment.removesuffix("\n"))
        assert yaml.safe_load(f"{comment}a: 1\n") == {"a": 1}


def test_yaml_and_json_yield_exactly_the_text_and_show_no_control_character() -> None:
    for text in TEXTS:
        value = {text: [text, {"deep": text}]}
        written, as_json = escaping.yaml_text(value), escaping.json_text(value, indent=2)
        assert yaml.safe_load(written) == value and json.loads(as_json) == value
        assert all(line.isprintable() for line in (written + as_json).split("\n"))
        assert is_one_line(escaping.yaml_scalar(text))
        assert yaml.safe_load(f"{{a: {escaping.yaml_scalar(text)}, b: [{escaping.yaml_scalar(text)}, 1]}}") == {"a": text, "b": [text, 1]}
    assert json.loads(escaping.json_text("\U000e0001é😀")) == "\U000e0001é😀" and "😀" in escaping.json_text("😀")


def test_csv_yields_exactly_the_text() -> None:
    lines = "".join(escaping.csv_line([text, None, 1, text]) for text in TEXTS)
    assert list(csv.reader(io.StringIO(lines, newline=""))) == [[text, "", "1", text] for text in TEXTS]


def tokens(text: str) -> list[tuple[str, str]]:
    """Return the structure of Markdown, without what its texts say."""
    return [(one.type, "") if one.type == "inline" else (one.type, one.tag) for one in MarkdownIt("commonmark").enable("table").parse(text)]


def inline(text: str) -> list[str]:
    return [child.type for one in MarkdownIt("commonmark").enable("table").parse(text) for child in one.children or ()]


class Elements(HTMLParser):
    """The elements of HTML, and its texts."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(f"{tag} {[name for name, _ in attrs]}")

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("pattern", ["## {}\n", "- {}\n- b\n", "| a | b |\n|---|---|\n| {} | c |\n"])
def test_markdown_shows_the_text_and_has_no_markup_of_it(pattern: str) -> None:
    for text in TEXTS:
        if not text.strip():
            continue  # an empty item
        for write in (escaping.markdown_text, escaping.markdown_code):
            shown, plain = pattern.format(write(text)), pattern.format(write("plain"))
            assert tokens(shown) == tokens(plain), (text, shown)
            assert set(inline(shown)) <= {"text", "text_special", *(("code_inline",) if write is escaping.markdown_code else ())}, (
                text,
                shown,
            )
            assert Elements(python_markdown.markdown(shown)).found == Elements(python_markdown.markdown(plain)).found or "~" in shown
        read = Elements(MarkdownIt("commonmark").enable("table").render(pattern.format(escaping.markdown_text(text)))).text
        assert escaping.sentence(text).strip() in read


def test_a_link_of_a_key_is_none_in_any_form_of_a_message() -> None:
    for form in ("text", "markdown", "html"):
        for text in TEXTS:
            body = Message("title", (f"differs: changed {text}",)).body(form)
            assert is_one_line(body.replace("\u2060", "")), (form, text)
            assert "](" not in body and "://" not in body and "<!" not in body and "@here" not in body


# what is printed


BREAKS = ("\n", "\u202e", "\x1b[31m")
MORE = ("\r", "\u2028", "\v", "\u0085")


@pytest.fixture(params=[*BREAKS, *(pytest.param(one, marks=pytest.mark.slow) for one in MORE)], ids=ascii)
def hostile(request: pytest.FixtureRequest) -> str:
    return f"xm{request.param}DROP TABLE victim; --{request.param}'\"`[a](http://b)<script>|"


PLAIN = "plain"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def configured(folder: Path, name: str) -> Settings:
    """Return an audit called ``name`` of tables of that name, with columns of it: one is equal, one has no type on MySQL."""
    folder.mkdir(exist_ok=True)
    for side in SIDES:
        with duckdb.connect(str(folder / f"{side}.duckdb")) as connection:
            columns = f"{quoted(f'k{name}')} INTEGER PRIMARY KEY, {quoted(f'v{name}')} VARCHAR, {quoted(f'm{name}')} MAP(VARCHAR, INTEGER)"
            connection.execute(f"CREATE TABLE {quoted(f't{name}')} ({columns})")
            insert = f"INSERT INTO {quoted(f't{name}')} VALUES (?, ?, NULL)"
            connection.executemany(insert, [(number, name if side == "source" else f"{name}2") for number in range(3)])
            connection.execute("CREATE TABLE victim (a INTEGER)")
    sides = {side: {"connection": side, "table": quoted(f"t{name}")} for side in SIDES}
    connections = {side: {"url": f"duckdb:///{folder}/{side}.duckdb"} for side in SIDES}
    return Settings.model_validate(
        {
            "connections": connections,
            "audits": {name: {**sides, "schedule": {"cron": "30 6 * * *"}}},
            "store": {"url": f"sqlite:///{folder}/s"},
        }
    )


def shapes(script: str) -> list[str]:
    """Return the kinds of the statements of a script, by DuckDB's own parser."""
    with duckdb.connect() as connection:
        return [str(one.type) for one in connection.extract_statements(script)]


def comments(script: str) -> int:
    return sum(line.startswith("-- ") for line in script.split("\n"))


def test_scripts_have_the_same_statements(tmp_path: Path, hostile: str) -> None:
    found = {}
    for name in (PLAIN, hostile):
        settings = configured(tmp_path / f"of{len(name)}", name)
        scripts = [
            *service.sql(settings, name).values(),
            "".join(print_schema(settings, name, create=True)),
            "".join(print_schema(settings, name)),
        ]
        found[name] = [(shapes(script), comments(script)) for script in scripts]
        for script in scripts:
            for line in script.split("\n"):
                assert not line.startswith("--") or is_one_line(line)
    assert found[hostile] == found[PLAIN]


def test_a_crontab_has_the_same_lines(tmp_path: Path, hostile: str) -> None:
    texts = []
    for name in (PLAIN, hostile):
        folder = tmp_path / name.replace("/", "")
        texts.append(scheduler.crontab(configured(tmp_path / f"of{len(name)}", name), folder / "auditor.yaml"))
    kinds = [[line[:1] for line in text.split("\n")] for text in texts]
    assert kinds[0] == kinds[1] and all(line.isprintable() for line in texts[1].split("\n"))
    for text in texts:
        (line,) = (line for line in text.split("\n") if line.startswith("*"))
        command = line.removeprefix("* * * * * ").replace("\\%", "%")
        assert subprocess.run(["sh", "-n", "-c", command], check=False).returncode == 0
        job = yaml.safe_load("\n".join(line[4:] for line in text[text.index("#   apiVersion") :].split("\n")))
        assert job["kind"] == "CronJob"


def test_init_writes_a_file_that_means_the_tables(tmp_path: Path, hostile: str) -> None:
    urls = {side: one.url for side, one in configured(tmp_path / "data", hostile).connections.items()}
    path = tmp_path / "auditor.yaml"
    assert main(["init", "--source", urls["source"], "--target", urls["target"], "--output", str(path)]) == 0
    assert all(line.isprintable() for line in path.read_text(encoding="utf-8").split("\n"))
    (audit,) = load(path).audits.values()
    assert audit.one_source("a test").place.parts[-1] == f"t{hostile}"


def test_audits_are_added_to_a_file_under_their_names(tmp_path: Path, hostile: str) -> None:
    path = tmp_path / "auditor.yaml"
    path.write_text("connections:\n  a: {url: duckdb:///a}\naudits:\n", encoding="utf-8")
    table = {"connection": "a", "table": "t"}
    assert add_audits(path, {hostile: {"source": table, "target": table}}) == [hostile]
    assert list(load(path).audits) == [hostile] and all(line.isprintable() for line in path.read_text(encoding="utf-8").split("\n"))


def hostile_report(name: str) -> Report:
    cells = (ColumnDifference(name, name, f"{name}2"),)
    changed = Difference(kind="changed", key={name: name}, rows={"source": 1, "target": 1}, columns=cells)
    named = (changed, Difference(kind="missing", key={name: f"{name}3"}, rows={"source": 1, "target": 0}))
    found = Differences(missing=1, extra=0, changed=1, exact=True, named=named, ranges=(), partitions={}, looks=1)
    return Report(
        audit=name, run="a" * 32, state=State.DONE, verdict=Verdict.MISMATCH, reasons=(name,), seconds=1.5, exit_code=1, method="exact",
        differences=found, reason=name, notes=(name,), schema_changes=(name,), not_aligned=name,
    )  # fmt: skip


def test_reports_have_the_same_structure(hostile: str) -> None:
    plain, found = hostile_report(PLAIN), hostile_report(hostile)
    assert tokens(render.run(found, None, "markdown")) == tokens(render.run(plain, None, "markdown"))
    assert Elements(render.run(found, None, "html")).found == Elements(render.run(plain, None, "html")).found
    for form in ("text", "markdown", "html", "json"):
        assert all(line.isprintable() for line in render.run(found, None, form).split("\n")), form
    assert json.loads(render.run(found, None, "json"))["audit"] == hostile
    assert found.differences
    lines = "".join(difference_rows.csv_lines(difference_rows.as_differences(found.differences), [hostile]))
    assert [len(row) for row in csv.reader(io.StringIO(lines, newline=""))] == [10, 10, 10]


COMMANDS = ("sql", "schema", "patch", "differences", "differences --format json", "ls", "show", "check", "run")


def test_no_command_sends_a_terminal_what_it_acts_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"x{''.join(CONTROLS).replace(chr(0), '')}{''.join(LINE_ENDS)}y[red]"
    settings = configured(tmp_path / "data", name)
    path = tmp_path / "auditor.yaml"
    path.write_text(escaping.yaml_text(settings.model_dump(mode="json", exclude_unset=True)), encoding="utf-8")
    monkeypatch.setenv("TERM", "dumb")
    assert main(["run", name, "--config", str(path), "--quiet"]) == 1
    exact = capsys.readouterr()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for command in COMMANDS:
        words = command.split()
        assert main([*words[:1], *([] if command == "ls" else [name]), *words[1:], "--config", str(path)]) in (0, 1)
        shown = capsys.readouterr()
        assert "\u241b[31m" in shown.out or "033[31m" in shown.out or "u001b[31m" in shown.out, command
        for text in (shown.out, shown.err, exact.out, exact.err):
            assert all(line.isprintable() for line in text.replace("\t", "").split("\n")), command
        assert "[red]" in shown.out or command == "ls"  # whose cells are narrow


def test_what_is_written_to_a_file_holds_names_and_values_exactly(tmp_path: Path, capsys: pytest.CaptureFixture[str], hostile: str) -> None:
    settings = configured(tmp_path / "data", hostile)
    path = tmp_path / "auditor.yaml"
    path.write_text(escaping.yaml_text(settings.model_dump(mode="json", exclude_unset=True)), encoding="utf-8")
    assert main(["run", hostile, "--config", str(path), "--quiet"]) == 1
    capsys.readouterr()
    assert main(["patch", hostile, "--config", str(path), "--quiet"]) == 0
    script = capsys.readouterr().out
    with duckdb.connect(settings.connections["target"].url.removeprefix("duckdb:///")) as connection:
        connection.execute(script)
        assert connection.execute("SELECT COUNT(*) FROM victim").fetchall() == [(0,)]
    assert main(["run", hostile, "--config", str(path), "--quiet"]) == 0
