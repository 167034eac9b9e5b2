"""Every configuration in the documentation is valid, every command is one, every setting is explained, and the site builds."""

from __future__ import annotations

import copy
import re
import shlex
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.fernet import Fernet

from auditor.cli import main, parser
from auditor.config import Settings, load
from scripts import command_reference, references, settings_reference
from tests import documents

KEYS = {name for name, _ in settings_reference.written_fields(Settings)}
FOREIGN = {"sources", "jobs"}
"""A key of files that belong to other programs: GitHub Actions."""

CONNECTION = {"url": "duckdb:///file.duckdb", "write": {"url": "duckdb:///file.duckdb"}}
SIDES = {"source": {"connection": "shop"}, "target": {"connection": "warehouse"}}
PIPELINE = {
    "source": {"connection": "shop", "tables": ["orders"]},
    "staging": {"path": "/staging"},
    "targets": {"warehouse": {"connection": "warehouse", "schema": "shop"}},
}
PARTS = [
    pytest.param(text, id=f"{page.stem}-{number}")
    for page in documents.PAGES
    for number, text in enumerate(documents.blocks(page, "yaml"), 1)
]
PARSER = parser()
NAMES = {tuple(name.split()[1:]) for name, _, _ in command_reference.commands(PARSER, "auditor")}
WORDS = NAMES | {name[:1] for name in NAMES}


# configurations


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(copy.deepcopy(below))
    for name, value in above.items():
        merged[name] = merge(merged[name], value) if isinstance(value, dict) and isinstance(merged.get(name), dict) else value
    return merged


def complete(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration in which a part that a page shows stands: with the connections, tables and targets that it leaves out."""
    audits = {}
    for name, audit in part.get("audits", {}).items():
        sides = SIDES if "tables" in audit else {side: {**one, "table": name} for side, one in SIDES.items()}
        sides = {side: one for side, one in sides.items() if not any(form in audit.get(side, {}) for form in ("broker", "query"))}
        audits[name] = merge(sides, audit)
    pipelines = {
        name: merge({**PIPELINE, "source": {}} if "broker" in pipeline.get("source", {}) else PIPELINE, pipeline)
        for name, pipeline in part.get("pipelines", {}).items()
    }
    connections = dict.fromkeys(("shop", "warehouse", "dwh", "lake"), CONNECTION) | part.get("connections", {})
    return merge(part, {"connections": connections, "audits": audits, "pipelines": pipelines})


@pytest.mark.parametrize("text", PARTS)
def test_configurations_are_valid(text: str, tmp_path: Path) -> None:
    part = yaml.safe_load(text)
    if not KEYS & set(part):
        assert FOREIGN & {str(key) for key in part}, f"neither a configuration nor known to be something else: {text}"
        return
    path = tmp_path / "auditor.yaml"
    written = re.sub(r"\btrue:", "on:", yaml.safe_dump(complete(part))).replace("${file:/run/secrets/wh}", "${WH}")  # on is a name
    path.write_text(written, encoding="utf-8")
    load(path, dict.fromkeys(re.findall(r"\$\{(\w+)\}", written), "value") | {"AUDITOR_JOURNAL_KEY": Fernet.generate_key().decode()})


def test_a_wrong_configuration_would_be_found(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="unknown setting 'tresholds'"):
        test_configurations_are_valid("audits: {orders: {tresholds: 1}}", tmp_path)
    with pytest.raises(AssertionError, match="neither"):
        test_configurations_are_valid("conections: {}", tmp_path)


# commands


def problem(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return why the parser refuses a command; empty if it takes it."""
    text = re.sub(r"[\[\]]", "", command).replace("FROM..TO", "1..2").replace("COMMAND", "run").strip(" .:")
    words = [word.split("|")[0] if re.fullmatch(r"[a-z]+(\|[a-z]+)+", word) else word for word in shlex.split(text, comments=True)]
    words = ["1" if word in ("N", "SECONDS") else word for word in words if word != "..."]
    if tuple(words) in WORDS:
        return ""  # the command is spoken of
    try:
        options, rest = PARSER.parse_known_args(words)
    except SystemExit as ended:
        return "" if ended.code == 0 else capsys.readouterr().err.splitlines()[-1]
    return "" if not rest or (hasattr(options, "tables") and not any(word.startswith("-") for word in rest)) else f"{words}: {rest}"


@pytest.mark.parametrize("page", documents.PAGES, ids=lambda page: page.stem)
def test_commands_are_those_of_the_parser(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = list(documents.commands_in_blocks(page))
    shown = [command for command, certain in found if certain or command.split()[0] in {name[0] for name in WORDS}]
    wrong = {command: why for command in (*shown, *documents.commands_in_text(page)) if (why := problem(command, capsys))}
    assert not wrong


def test_a_wrong_command_would_be_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no command 'runn'; did you mean 'run'" in problem("runn orders", capsys)
    assert "unrecognized" in problem("run orders --fast", capsys) or "--fast" in problem("run orders --fast", capsys)
    assert "required" in problem("differences --format csv", capsys)


# settings


def test_every_setting_has_its_sentence() -> None:
    for section in settings_reference.sections():
        explained = settings_reference.sentences(section.model)
        missing = [name for name, _ in settings_reference.written_fields(section.model) if name not in explained]
        assert not missing, f"{section.model.__name__} in auditor/config: write what {missing} means in a text below the field"
        assert section.model.__doc__


@pytest.mark.parametrize("name", references.REFERENCES)
def test_references_are_those_of_the_models_and_the_parser(name: str) -> None:
    assert (references.DOCS / name).read_text(encoding="utf-8") == references.page_with_reference(name), "write it again: make references"


def test_reference_has_every_key_where_it_is_written() -> None:
    text = settings_reference.reference()
    for heading in (
        "connections: NAME: limits: pause_when:",
        "audits: NAME: columns: override: NAME:",
        "pipelines: NAME: staging:",
        "keep:",
    ):
        assert f"### `{heading}`" in text
    assert "| `statement_timeout` | duration: `90s`, `15m`, `2h`, `7d` | `1h` |" in text
    assert "| `method` | `counts`, `signature`, `minhash`, `exact`, `auto` | `exact` |" in text
    assert "| `schedule` | cron expression or [settings](#audits-name-schedule) |" in text
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= set(re.findall(r"\{ #(\S+) \}", text))


# the site


class Requests(HTMLParser):
    """Collects the addresses that a browser loads by itself for a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("script", "img", "iframe", "source", "video"):
            self.found.append(given.get("src") or "")
        elif tag == "link" and given.get("rel") not in ("canonical", "next", "prev"):
            self.found.append(given.get("href") or "")


def test_site_builds_without_warnings_and_loads_nothing_from_other_hosts(tmp_path: Path) -> None:
    documents.build_site(tmp_path)
    pages = [page for page in tmp_path.rglob("*.html") if page.name != "404.html"]
    assert {page.stem for page in documents.PAGES[2:]} | {"index", "contributing", "changelog", "benchmarks"} == {
        page.stem for page in pages
    }
    for page in pages:
        requests = Requests()
        requests.feed(page.read_text(encoding="utf-8"))
        assert requests.found
        assert not [one for one in requests.found if re.match(r"[a-z]+:|//", one) and not one.startswith("data:")], page.name
    for sheet in tmp_path.rglob("*.css"):
        assert not re.findall(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//[^)]*", sheet.read_text(encoding="utf-8")), sheet.name
    assert "Columns that are not compared." in (tmp_path / "configuration.html").read_text(encoding="utf-8")
    assert "auditor pipeline reset" in (tmp_path / "commands.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", documents.PAGES, ids=lambda page: page.stem)
def test_files_that_are_named_exist(page: Path) -> None:
    named = re.findall(r"`((?:auditor|dialects|sql_templates|tests|scripts|benchmarks|docs)/[\w/.*-]+)`", page.read_text(encoding="utf-8"))
    assert not [name for name in named if not any(documents.ROOT.glob(name.rstrip("/")))]


def test_each_section_of_the_settings_has_an_anchor_of_its_own() -> None:
    anchors = re.findall(r"\{ #([\w-]+) \}", (documents.ROOT / "docs" / "configuration.md").read_text(encoding="utf-8"))
    assert len(anchors) > 50 and len(set(anchors)) == len(anchors)


# README


def test_readme_is_short() -> None:
    assert len((documents.ROOT / "README.md").read_text(encoding="utf-8").split()) <= 700


@pytest.mark.slow
def test_demonstration_prints_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "-q"]) == 1
    printed = [documents.plain(line) for line in capsys.readouterr().out.splitlines()]
    (readme,) = [
        lines for block in documents.blocks(documents.PAGES[0]) for command, lines in documents.sessions(block) if "demo" in command
    ]
    (report,) = [block.splitlines() for block in documents.blocks(documents.ROOT / "docs" / "reports.md", "text")]
    assert [line for line in [*readme, *report] if documents.plain(line) not in printed] == []
