"""The page of tried versions is what the last runs found, and says of each version what was tried, or why not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from scripts import versions
from scripts.versions import Cell, Version

REPORT = """<testsuites><testsuite>
<testcase classname="tests.engines.test_one" name="test_a[postgres]"/>
<testcase classname="tests.engines.test_one" name="test_b[postgres]"><failure message="no"/></testcase>
<testcase classname="tests.pairs.test_two" name="test_c[postgres-duckdb]"><skipped message="none here"/></testcase>
</testsuite></testsuites>"""


def test_page_is_what_was_found() -> None:
    assert versions.PAGE.read_text(encoding="utf-8") == versions.page(versions.read(), versions.read_certificates())


def test_failing_tests_are_named(tmp_path: Path) -> None:
    cell = Cell("postgres", versions.VERSIONS[0].number, "2026-01-31", ["tests/engines"], seconds=200)
    (tmp_path / "report.xml").write_text(REPORT)
    versions.count_results(cell, tmp_path / "report.xml")
    assert (cell.passed, cell.skipped, cell.failed) == (1, 1, ["tests/engines/test_one.py::test_b[postgres]"])
    said = versions.page([cell], [])
    assert "1 passed, 1 failed, 1 skipped; only tests/engines |" in said and "- `tests/engines/test_one.py::test_b[postgres]`" in said
    assert "| MySQL 9.7 | not tried: its tests were not run |" in said


def test_run_of_all_tests_fills_the_versions_of_this_machine(tmp_path: Path) -> None:
    """Each test counts for the engines that it names, in the folders of a version's tests."""
    engines = '<properties><property name="engines" value="{}"/></properties>'
    (tmp_path / "report.xml").write_text(
        f"""<testsuites><testsuite>
<testcase classname="tests.engines.test_one" name="a" time="50">{engines.format("postgres")}</testcase>
<testcase classname="tests.pairs.test_two" name="b" time="30">{engines.format("duckdb postgres")}</testcase>
<testcase classname="tests.pairs.test_two" name="c" time="9">{engines.format("duckdb")}<failure message="no"/></testcase>
<testcase classname="tests.store.test_three" name="d" time="7">{engines.format("postgres")}<failure message="no"/></testcase>
</testsuite></testsuites>"""
    )
    found = versions.read_report(Version("postgres", "15", "here"), versions.TESTS, tmp_path / "report.xml")
    assert (found.passed, found.failed, found.seconds) == (2, [], 80)


def test_refused_version_is_no_failing_one(tmp_path: Path) -> None:
    cell = Cell("postgres", "12", "2026-01-31", ["tests/engines"])
    refusal = "dialects.errors.ServerTooOld: postgresql://h/x: PostgreSQL 12.22 is too old: 13 is the oldest that has all; upgrade"
    (tmp_path / "report.xml").write_text(REPORT.replace('message="no"', f'message="{refusal}"'))
    versions.count_results(cell, tmp_path / "report.xml")
    assert versions.summarise(cell) == "refused: PostgreSQL 12.22 is too old: 13 is the oldest that has all"


def test_version_that_is_not_to_be_had_says_why() -> None:
    cell = versions.try_version(Version("mysql", "8.0", "", versions.NOT_FOUND), versions.TESTS)
    assert cell.tests == [] and "certify" in versions.summarise(cell)
    with pytest.raises(SystemExit, match="no version is named so; known: postgres 12"):
        versions.main(["--only", "oracle"])


def test_page_of_lakes_lists_the_jars_that_fit() -> None:
    rows = [f"| {number} | {' | '.join(_jars(names) for names in jars.values())} |" for number, jars in versions.LAKES.items()]
    assert "\n".join(rows) in (versions.ROOT / "docs" / "spark-lakes.md").read_text(encoding="utf-8")


def _jars(names: Sequence[str]) -> str:
    return "<br>".join(f"`{name}`" for name in names) or "none found"
