"""The first hour on a real Redshift: the facts that are asked are twenty, Redshift's own SQL, and the stand-in answers as they say."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlglot

from auditor.service.certify import certify
from dialects.redshift.facts import FACTS
from tests.live import LiveEngine, engine_params

PAGE = Path(__file__).parents[2] / "docs" / "redshift-first-hour.md"


def test_there_are_twenty_facts_of_redshift() -> None:
    assert len({fact.name for fact in FACTS}) == len(FACTS) == 20
    for fact in FACTS:
        assert len(sqlglot.parse(fact.sql, dialect="redshift")) == 1 and ";" not in fact.sql
        assert bool(fact.expected) != bool(fact.shows), fact.name
    assert sum(fact.expected is not None for fact in FACTS) == 11
    assert "twenty single answers" in (text := PAGE.read_text(encoding="utf-8")) and "Eleven must be as expected" in text


@pytest.mark.parametrize("engine", engine_params("redshift"), indirect=True)
def test_answers_of_the_stand_in(engine: LiveEngine) -> None:
    found = certify(engine.url, parts=["facts"])
    assert found.verdict == "certified", found.of("failed")
    assert len(found.of("passed")) == 11 and len(found.of("noted")) == 9
    assert "jsonb_build_object" in found.stand_in and "stand-in on PostgreSQL" in found.stand_in
