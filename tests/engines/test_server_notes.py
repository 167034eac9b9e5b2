"""What a server says of itself is read when a connection is made, and noted in every report where it was not tried."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from html import unescape

import pytest

import auditor
import dialects
from auditor.report import render
from dialects import Kind, versions
from tests import tables
from tests.live import LiveEngine, engine_params

pytestmark = pytest.mark.engines_in_turn

KNOWN = {product: replace(tried, versions=("0.1", "0.2")) for product, tried in versions.TRIED.items() if tried.versions}


@pytest.mark.quick_for("duckdb", "postgres", "mariadb", "mysql")
@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", "postgres", "redshift", "duckdb", "spark"), indirect=True)
def test_a_version_that_was_not_tried_is_noted_in_every_report(engine: LiveEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    tables.make(engine, "noted", [("id", Kind("integer"))], [(1,)], key=["id"])
    monkeypatch.setattr(versions, "TRIED", {**versions.TRIED, **KNOWN})
    with closing(dialects.connect(engine.url)) as session:
        assert not session.variants, "the product itself"
        product, version = versions.parse(session.server)
    note = f"{product} {version}: not tried; newest tried 0.2" if version else versions.note_version(product)
    found = auditor.audit((engine.url, "noted"), (engine.url, "noted"), key=["id"])
    failed = auditor.audit((engine.url, "noted"), (engine.url, "missing"), key=["id"])
    assert (found.verdict, failed.verdict) == ("match", "unknown"), (found.reasons, failed.reasons)
    for report in (found, failed):
        assert [one for one in report.notes if "not tried" in one] == [f"source: {note}", f"target: {note}"]
        for form in render.FORMATS:
            assert f"ource: {note}" in " ".join(unescape(render.run(report, None, form)).split()).replace("\\", ""), form
