"""Templates: how files become named statements, which package one is taken from, what is refused, and how holes are filled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import sql_templates

Packages = Callable[..., list[str]]

COUNT = """
-- name: count
-- One row: how many
-- rows there are.
SELECT COUNT(*)
FROM ${table}

-- name: least
-- One row: the least key.
SELECT MIN(${key})
FROM ${table}
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Packages:
    """Return a function that makes one package of each of these mappings of files to texts, and returns their names."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(*contents: Mapping[str, str]) -> list[str]:
        made = []
        for number, files in enumerate(contents):
            folder = tmp_path / f"{tmp_path.name}_{number}"  # a name of this test alone, because templates are cached by package
            folder.mkdir()
            for name, text in files.items():
                (folder / name).write_text(text, encoding="utf-8")
            made.append(folder.name)
        return made

    return make


def test_a_file_holds_templates_by_name(packages: Packages) -> None:
    (package,) = packages({"rows.sql": COUNT, "README.md": "no template"})
    assert list(sql_templates.templates(package)) == ["count", "least"]
    text = sql_templates.load("count", (package,))
    assert text == "-- One row: how many\n-- rows there are.\nSELECT COUNT(*)\nFROM ${table}\n"
    assert sql_templates.comment(text) == "One row: how many rows there are."
    assert sql_templates.fill(text, {"table": "orders"}) == "SELECT COUNT(*)\nFROM orders"


def test_a_template_is_taken_from_the_first_package_that_has_it(packages: Packages) -> None:
    own, parent = packages({"any.sql": "-- name: count\nSELECT 7"}, {"rows.sql": COUNT})
    assert sql_templates.load("count", (own, parent)) == "SELECT 7\n"
    assert "MIN" in sql_templates.load("least", (own, parent))
    with pytest.raises(LookupError, match=f"there is no template greatest in {own}, {parent}"):
        sql_templates.load("greatest", (own, parent))


def test_a_file_is_read_once(packages: Packages, tmp_path: Path) -> None:
    (package,) = packages({"rows.sql": COUNT})
    sql_templates.load("count", (package,))
    (tmp_path / package / "rows.sql").unlink()
    assert "MIN" in sql_templates.load("least", (package,))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.sql": f"{COUNT}\n-- name: count\nSELECT 1"}, "template count is defined in a.sql of .* and again in a.sql of"),
        ({"a.sql": COUNT, "b.sql": "-- name: least\nSELECT 1"}, "template least is defined in a.sql of .* and again in b.sql of"),
        ({"a.sql": f"-- name: none\n{COUNT}"}, "template none in a.sql of .* has no statement"),
        ({"a.sql": f"{COUNT}\n-- name: none\n-- One row.\n\n-- Later.\n"}, "template none in a.sql of .* has no statement"),
        ({"a.sql": "-- One row.\nSELECT 1\n"}, "line 1 of a.sql of .* is before the first name; begin each template with"),
        ({"a.sql": f"{COUNT}\n-- name: two words\nSELECT 1"}, "line 13 of a.sql of .* is not a name: -- name: two words; write it like"),
        ({"a.sql": f"{COUNT}\n--Name : count_all\nSELECT 1"}, "line 13 of a.sql of .* is not a name"),
    ],
)
def test_a_malformed_file_is_refused(packages: Packages, files: dict[str, str], message: str) -> None:
    (package,) = packages(files)
    with pytest.raises(ValueError, match=message):
        sql_templates.load("count", (package,))


def test_a_package_that_is_not_installed_is_an_error() -> None:
    with pytest.raises(ModuleNotFoundError, match="auditor_of_nobody"):
        sql_templates.load("count", ("auditor_of_nobody",))


def test_unfilled_holes_and_unused_fragments_are_errors() -> None:
    with pytest.raises(ValueError, match="unfilled"):
        sql_templates.fill("SELECT ${a}", {})
    with pytest.raises(ValueError, match="unused"):
        sql_templates.fill("SELECT 1", {"a": "1"})
