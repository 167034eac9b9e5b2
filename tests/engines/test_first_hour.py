"""The page of queries for a first hour on a real Redshift: they are twenty, Redshift's own SQL, and the stand-in answers as it says."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest
import sqlglot

import dialects
from tests.live import LiveEngine, engine_params

PAGE = Path(__file__).parents[2] / "docs" / "redshift-first-hour.md"
QUERY = re.compile(r"^### (\d+)\. (.*)\n\n```sql\n(.*?)\n```\n\n(Must be: `(.*)`|Tells \(cluster only\): .+)$", re.MULTILINE)


def queries() -> list[tuple[str, str, str | None]]:
    """Return the title, SQL and wanted answer of each query; no answer where only a cluster has one."""
    return [(title, sql, wanted or None) for _, title, sql, _, wanted in QUERY.findall(PAGE.read_text(encoding="utf-8"))]


def test_there_are_twenty_queries_of_redshift() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert (
        [int(number) for number, *_ in QUERY.findall(text)] == list(range(1, 21)) == [int(n) for n in re.findall(r"^### (\d+)", text, re.M)]
    )
    for _, sql, _ in queries():
        assert len(sqlglot.parse(sql, dialect="redshift")) == 1 and ";" not in sql


@pytest.mark.parametrize("engine", engine_params("redshift"), indirect=True)
def test_answers_are_those_of_the_page(engine: LiveEngine) -> None:
    answered = [(title, sql, wanted) for title, sql, wanted in queries() if wanted is not None]
    assert len(answered) >= 10
    with closing(dialects.connect(engine.url)) as session:
        for title, sql, wanted in answered:
            assert str(session.query(sql)[0][0]) == wanted, title
