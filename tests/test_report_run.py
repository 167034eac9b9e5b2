"""The report of one run in each format: everything that is known is told, and nothing that was found acts on what shows it."""

from __future__ import annotations

import datetime as dt
import json
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from auditor import service
from auditor.compare.account import MASK
from auditor.config import Settings
from auditor.model import (
    ColumnDifference,
    Comparison,
    Difference,
    Differences,
    Divergent,
    Jaccard,
    Look,
    Measure,
    RangeDifference,
    Report,
    Score,
    SideCost,
    State,
    Step,
    Verdict,
)
from auditor.packed import STATES, Picture
from auditor.report import html, rendered
from auditor.report import json as as_json
from auditor.report.heat import CELLS, heat
from tests.test_report_samples import HOSTILE, fill, keyed, settings

SAYS = json.loads((Path(__file__).parent.parent / "docs" / "report.schema.json").read_text(encoding="utf-8"))
SCHEMA = Draft202012Validator(SAYS)
AT = dt.datetime(2026, 3, 18, 6, 30, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """The sample's configuration, over tables that exist."""
    directory = tmp_path_factory.mktemp("shop")
    fill(directory)
    return keyed(settings(directory))


def whole(text: str = "") -> Report:
    """A report in which everything is told; ``text`` is in all that others wrote."""
    named = (
        Difference(
            kind="changed", key={"id": f"7{text}"}, rows={"source": 1, "target": 1}, state="unsettled", looks=(Look(AT, "moved"),),
            columns=(ColumnDifference(f"price{text}", f"1.50{text}", None), ColumnDifference("note", " ", "")),
        ),
        Difference(kind="missing", key={"id": f"8{text}"}, rows={"source": 2, "target": 0}),
    )  # fmt: skip
    span = RangeDifference(kind="extra", first=100, last=199, label=f"keys 100 to 199{text}", rows=100, partitions=2, ids=(1, 2))
    differences = Differences(
        missing=2, extra=100, changed=0, exact=False, named=named, ranges=(span,), partitions={"accounted": 1, "estimated": 1},
        unsettled=3, in_flight=4, cleared=5, tolerated=6, looks=2, why=f"too many{text}",
    )  # fmt: skip
    divergent = Divergent(partition=3, key_range=(3, 9), label=f"bucket 3{text}", rows={"source": 9, "target": 8}, similarity=0.25)
    comparison = Comparison(
        verdict=Verdict.MISMATCH, reasons=(), published=Score(0.9375, 0.6875, 1.0), rows={"source": 1000, "target": 1098}, total=10,
        equal=8, source_only=0, target_only=1, skipped=1, skipped_rows=50, divergent=(divergent,),
    )  # fmt: skip
    return Report(
        audit=f"orders{text}", run="b" * 32, state=State.CANCELLED, verdict=Verdict.MISMATCH, reasons=(f"102 rows differ{text}",),
        seconds=12.5, exit_code=1, method="exact", comparison=comparison, differences=differences, began=AT,
        jaccard=Jaccard(score=Score(0.99, 0.98, 0.995), least=0.9, most=1.0, differing=20.0),
        cost={"source": SideCost(statements=3, bytes=1000, scan_bytes=900, seconds=1.5)}, servers={"source": f"MySQL 8.4{text}"},
        measures=(
            Measure(partition=None, label=f"all{text}", name=f"price sum{text}", source="5", target=None, deviation=0.25, allowed=False),
            Measure(partition=1, label="keys 0 to 9", name="rows", source="5", target="6", deviation=0.2, allowed=True),
        ),
        steps=(Step(method="counts", verdict=Verdict.MISMATCH, seconds=0.5, reasons=(f"sums differ{text}",)),),
        schema_changes=(f"target: column note{text} was added (text)",), covered=0.05, verified_through=AT, retries=2, resumable=True,
        notes=(f"source: something{text} was tried again", "schema: target: column note was added (text)"),
    )  # fmt: skip


def planned(report: Report, shop: Settings, **more: Any) -> Report:
    """The report with a real plan, changed as wanted."""
    plan = service.run_audit(shop, "orders").plan
    assert plan
    return replace(report, plan=replace(plan, watermark="2026-03-18 06:15:00", snapshot="per_chunk", **more))


# what is told

EVERYTHING = {
    "verdict": "mismatch", "reason": "102 rows differ", "interval": "0.98", "published": "0.9375", "kind": "changed, unsettled",
    "range": "keys 100 to 199", "value": "1.50", "column": "price", "in flight": "4 in flight", "cleared": "5 equal by now",
    "tolerated": "6 within tolerances", "unsettled": "3 still moving", "looks": "2 looks", "measure": "price sum", "deviation": "25%",
    "allowed": "allowed", "step": "sums differ", "schema": "column note was added", "resume": f"auditor resume {'b' * 32}",
    "verified": "2026-03-18 06:30:00 UTC", "watermark": "2026-03-18 06:15:00 UTC", "note": "source: something was tried again",
    "snapshot": "snapshot of its own", "coverage": "4.88%", "left out": "card is a secret", "cannot see": "beyond milliseconds",
}  # fmt: skip


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_everything_is_told(shop: Settings, form: str) -> None:
    report = planned(whole(), shop, left_out=("card is a secret",))
    assert report.plan
    columns = (report.plan.columns[0], replace(report.plan.columns[1], lossy="beyond milliseconds"), *report.plan.columns[2:])
    report = replace(report, plan=replace(report.plan, columns=columns))
    text = unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>|[\\`*]", "", rendered.run(report, None, form)))).lower()
    missing = [name for name, words in EVERYTHING.items() if words.lower() not in text]
    assert missing == []
    assert text.count("column note was added") == 1
    assert "' '" in text and "''" in text and "null" in text


def test_the_json_of_everything(shop: Settings) -> None:
    found = as_json.report(planned(whole(), shop))
    SCHEMA.validate({**found, "state": "done"})
    assert list(found)[:6] == ["audit", "run", "state", "verdict", "method", "reasons"]
    assert found["steps"] == [{"method": "counts", "verdict": "mismatch", "seconds": 0.5, "reasons": ["sums differ"]}]
    assert found["measures"][0]["deviation"] == 0.25 and found["verified_through"] == "2026-03-18T06:30:00+00:00"
    assert {name: found["differences"][name] for name in ("unsettled", "in_flight", "cleared", "tolerated", "looks")} == {
        "unsettled": 3, "in_flight": 4, "cleared": 5, "tolerated": 6, "looks": 2,
    }  # fmt: skip
    assert found["differences"]["sample"][0]["looks"] == [{"at": "2026-03-18T06:30:00+00:00", "seen": "moved"}]
    assert (found["plan"]["watermark"], found["plan"]["snapshot"]) == ("2026-03-18 06:15:00", "per_chunk")


@pytest.mark.parametrize("name", ["customers", "orders", "events", "payments", "stock", "returns"])
def test_real_reports_are_as_the_schema_says(shop: Settings, name: str) -> None:
    report = service.run_audit(shop, name)
    found = as_json.report(report)
    SCHEMA.validate(found)
    assert set(found) == set(SAYS["$defs"]["report"]["properties"])
    for form in rendered.FORMATS:
        assert rendered.run(report, None, form)


# what is hidden


def test_masked_columns_are_shown_nowhere(shop: Settings) -> None:
    report = service.run_audit(shop, "orders")
    assert report.plan
    key = replace(report.plan.columns[0], masked=True)
    report = replace(report, plan=replace(report.plan, columns=(key, *report.plan.columns[1:])))
    for form in rendered.FORMATS:
        text = rendered.run(report, None, form)
        assert MASK.replace("*", "\\*") in text or MASK in text
        for secret in ("4711", "12,000", "12000", "11,968", "11968", "29,952", "lost", "card 4711"):
            assert secret not in text, (form, secret)


# what is hostile


class Page(HTMLParser):
    """The elements of a page, and their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes += attrs


def check_page(text: str) -> None:
    """A page holds nothing that runs, and nothing that is fetched."""
    page = Page(text)
    assert not page.elements & {"script", "img", "iframe", "link", "object", "form", "base"}
    for name, value in page.attributes:
        assert not name.startswith("on") and name not in ("src", "href", "style")
        assert "url(" not in (value or "")
    assert "@import" not in text and "url(" not in text


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_what_was_found_acts_on_nothing(shop: Settings, form: str) -> None:
    report = planned(whole(HOSTILE), shop, left_out=(HOSTILE,), notes=(HOSTILE,))
    text = rendered.run(report, None, form)
    assert "\x1b" not in text and "\u202e" not in text
    assert "\u241b" in text and "\u27e8U+202E\u27e9" in text
    if form == "html":
        check_page(text)
    if form == "markdown":
        without_code = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text.replace("\\`", ""))
        assert "<" not in without_code
        for line in text.splitlines():
            if line.startswith("| changed"):
                assert len(re.findall(r"(?<!\\)\|", line)) == 6


def test_a_page_needs_nothing_else(shop: Settings) -> None:
    check_page(html.run(service.run_audit(shop, "orders"), None))


# the whole table


def picture(states: list[str]) -> Picture:
    """A picture of partitions in these states."""
    count = len(states)
    state = np.array([STATES.index(one) for one in states], np.uint8)
    similarity = np.where(state == 0, 1.0, np.nan).astype(np.float32)
    keys = np.empty(count, np.object_)
    for index in np.flatnonzero(state):
        keys[index] = int(index) * 64 + 1
    rows = np.full(count, 64, np.int64)
    return Picture(np.arange(count, dtype=np.int64), state, similarity, {"source": rows, "target": rows - (state > 0)}, keys, keys)


def test_a_picture_is_folded_into_the_worst_of_its_cells() -> None:
    found = heat(picture(["equal"] * 998 + ["skipped", "source_only"] + ["equal"] * 999 + ["accounted"]), None)
    assert found and len(found.cells) == CELLS and (found.columns, found.rows, found.each, found.partitions) == (50, 6, 7, 2000)
    assert found.counts == {"equal": 1997, "skipped": 1, "named": 1, "source_only": 1}
    assert [cell.shape for cell in found.cells if cell.shape != "equal"] == ["source_only", "named"]
    assert "keys 127,937 to 127,937" in found.cells[-1].title


def test_a_small_picture_and_none(shop: Settings) -> None:
    found = heat(picture(["equal", "unequal", "target_only"]), None)
    assert found and [cell.shape for cell in found.cells] == ["equal", "differs", "target_only"]
    assert "64 rows in the source, 63 in the target" in found.cells[1].title
    assert heat(picture([]), None) is None
    for count in (1, 49, 50, 51, 299, 300, 301, 12345):
        folded = heat(picture(["equal"] * count), None)
        assert folded and len(folded.cells) == min(CELLS, count)
    check_page(html.run(whole(), picture(["equal", "unequal", "skipped"])))
