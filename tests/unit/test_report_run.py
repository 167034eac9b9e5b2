"""The report of a run in each format: it is complete, hides masked columns, and renders hostile text harmless."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from dataclasses import replace
from functools import cache
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter

from auditor import service
from auditor.config import Settings
from auditor.history.records import to_store_outcome
from auditor.history.stored_plan import dump_plan, load_plan
from auditor.masking import MASK
from auditor.model import (
    Alignment,
    ColumnDifference,
    Comparison,
    Difference,
    Differences,
    Divergent,
    Jaccard,
    LiveCheck,
    Look,
    Measure,
    NotCompared,
    Plan,
    RangeDifference,
    Report,
    Score,
    ShardResult,
    SideCost,
    State,
    Step,
    Suggestion,
    Suggestions,
    Verdict,
)
from auditor.report import html, render
from auditor.report import json as as_json
from auditor.report.heatmap import MAX_CELLS, build_heatmap
from auditor.summary.codec import PartitionMap
from auditor.summary.partition_states import STATES
from tests.unit.test_report_samples import HOSTILE, create_tables, settings, with_keys

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "report.schema.json").read_text(encoding="utf-8"))
VALIDATOR = Draft202012Validator(SCHEMA)
AT = dt.datetime(2026, 3, 18, 6, 30, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """The configuration of the sample, with its tables."""
    directory = tmp_path_factory.mktemp("shop")
    create_tables(directory)
    return with_keys(settings(directory))


def full_report(text: str = "") -> Report:
    """Return a report with every field set; ``text`` is appended to each text from outside."""
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
        reason=f"after the backfill{text}",
        suggestions=Suggestions(why=f"few rows differ{text}", items=(Suggestion("patch", 102, 0.1, 3.0, f"auditor patch bbbb{text}"),)),
        notes=(f"source: something{text} was tried again", "schema: target: column note was added (text)"),
    )  # fmt: skip


def with_plan(report: Report, shop: Settings, **more: Any) -> Report:
    """Return the report with a real plan; ``more`` replaces fields of the plan."""
    plan = _plan_of(shop.model_dump_json(by_alias=True, exclude_unset=True))
    return replace(report, plan=replace(plan, watermark="2026-03-18 06:15:00", snapshot="per_chunk", **more))


@cache
def _plan_of(written: str) -> Plan:
    """The plan of a run, which is as good for all reports."""
    plan = service.run_audit(Settings.model_validate_json(written), "orders").plan
    assert plan
    return plan


def plain(report: Report) -> Any:
    """Return the JSON values of a report."""
    return as_json.report(report).model_dump(mode="json")


def aligned_report(text: str = "") -> Report:
    """Return the full report of a run that is aligned; ``text`` is appended to each text from outside."""
    way = f"the server says in its snapshot where that stands{text}"
    return replace(
        full_report(text),
        aligned=Alignment(position=f"bin.000004:1234{text}", time=AT, way=way, pipeline=f"shop{text}", held_seconds=0.42),
        live=live_check(text, scanned=f"a rescan was asked for{text}"),
    )


def live_check(text: str = "", scanned: str = "") -> LiveCheck:
    """Return what a run says of live summaries; ``text`` is appended to each text from outside."""
    lost = Difference(kind="extra", key={"id": f"7{text}"}, rows={"source": 0, "target": 1})
    places = {"place": f"bin.000004:1234{text}", "began_place": f"bin.000001:4{text}", "proved_place": f"bin.000003:9{text}"}
    return LiveCheck(
        pipeline=f"shop{text}", time=AT, began=AT - dt.timedelta(days=9), proved=AT - dt.timedelta(days=2), scanned=scanned, moved=1,
        lost=(lost,) if scanned else (), lost_partitions=(f"keys 0 to 9{text}",) if scanned else (), **places,
    )  # fmt: skip


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_both_ages_of_live_summaries_are_shown(shop: Settings, form: str) -> None:
    def shown(report: Report) -> str:
        return " ".join(unescape(re.sub(r"<[^>]+>", "", render.run(with_plan(report, shop), None, form))).split())

    full = full_report()
    assert full.comparison
    all_equal = replace(full.comparison, equal=10, target_only=0, skipped=0, skipped_rows=0, divergent=())
    equal = replace(full, verdict=Verdict.MATCH, comparison=all_equal, differences=None, measures=(), live=live_check())
    assert "equals the stream as of bin.000004:1234 (2026-03-18 06:30:00 UTC); the source was not scanned" in shown(equal)
    for one in (equal, replace(equal, verdict=Verdict.MISMATCH)):
        assert re.search("gainst the source up to 2026-03-16 06:30:00 UTC, at bin.000003:9", shown(one))
        assert "keeps the source's summaries since 2026-03-09 06:30:00 UTC, from bin.000001:4 on" in shown(one)
    differs = shown(replace(equal, verdict=Verdict.MISMATCH))
    assert "equals" not in differs and "was compared with the stream as of bin.000004:1234" in differs
    scanned = shown(aligned_report())
    assert "source was scanned at bin.000004:1234 (2026-03-18 06:30:00 UTC): a rescan was asked for" in scanned
    assert "he stream lost this: the end of a row" in scanned and "he stream lost rows of keys 0 to 9" in scanned


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_where_both_sides_were_read_is_shown(shop: Settings, form: str) -> None:
    shown = " ".join(unescape(re.sub(r"<[^>]+>", "", render.run(with_plan(aligned_report(), shop), None, form))).split())
    wanted = ("bin.000004:1234 (2026-03-18 06:30:00 UTC)", "server says in its snapshot where that stands", "still for 0.42 s")
    assert [text for text in wanted if text.lower() not in shown.lower()] == []
    not_aligned = replace(full_report(), not_aligned="the pipeline shop is paused")
    shown = " ".join(unescape(re.sub(r"<[^>]+>", "", render.run(with_plan(not_aligned, shop), None, form))).split())
    assert re.search("not aligned:? the pipeline shop is paused", shown, re.IGNORECASE)


def test_where_both_sides_were_read_is_in_the_json(shop: Settings) -> None:
    found = plain(with_plan(aligned_report(), shop))
    VALIDATOR.validate({**found, "state": "done"})
    assert found["aligned"] == {
        "position": "bin.000004:1234", "time": "2026-03-18T06:30:00Z", "pipeline": "shop", "held_seconds": 0.42,
        "way": "the server says in its snapshot where that stands",
    }  # fmt: skip
    found = plain(replace(full_report(), not_aligned="why"))
    VALIDATOR.validate({**found, "state": "done"})
    assert (found["aligned"], found["not_aligned"], found["live"]) == (None, "why", None)
    live = plain(with_plan(aligned_report(), shop))["live"]
    assert live and (live["proved"]["place"], live["scanned"], live["moved_rows"]) == ("bin.000003:9", "a rescan was asked for", 1)
    assert [(one["kind"], one["key"]) for one in live["lost"]] == [("extra", {"id": 7})] and live["lost_partitions"] == ["keys 0 to 9"]


def test_where_each_shard_was_read_is_shown(shop: Settings) -> None:
    places = ("bin.000004:1234", "bin.000009:77")
    found = [Alignment(position=one, time=AT, way="the server says it", pipeline="shop", held_seconds=0.4) for one in places]
    shards = tuple(ShardResult(label=f"shop{number}: orders", aligned=one) for number, one in enumerate(found))
    whole = Alignment(position=" and ".join(places), time=AT, way="the server says it", pipeline="eu and us", held_seconds=0.4)
    report = with_plan(replace(full_report(), aligned=whole, shards=shards), shop)
    for form in ("text", "markdown", "html"):
        shown = " ".join(unescape(re.sub(r"<[^>]+>", " ", render.run(report, None, form))).split())
        assert "pipelines eu and us held" in shown and all(shown.count(place) >= 2 for place in places), form
    values = plain(report)
    VALIDATOR.validate({**values, "state": "done"})
    assert [one["aligned"] and one["aligned"]["position"] for one in values["shards"]] == list(places)


# completeness

NOT_COMPARED = (
    NotCompared(column="card", how="left out", what="is a secret"),
    NotCompared(column="at", how="cut", what="beyond milliseconds", side="source"),
)

EXPECTED_TEXTS = {
    "verdict": "mismatch", "reason": "102 rows differ", "interval": "98 % to 99.5 %", "published": "0.9375", "kind": "changed, unsettled",
    "range": "keys 100 to 199", "value": "1.50", "column": "price", "in flight": "4 in flight", "cleared": "5 equal on recheck",
    "tolerated": "6 within tolerances", "unsettled": "3 unsettled", "rechecks": "2 rechecks", "measure": "price sum", "deviation": "25%",
    "allowed": "allowed", "step": "sums differ", "schema": "column note was added", "resume": f"auditor resume {'b' * 32}",
    "verified": "2026-03-18 06:30:00 UTC", "watermark": "2026-03-18 06:15:00 UTC", "note": "source: something was tried again",
    "suggestions": "suggested: auditor patch bbbb (102 rows, about 3 s; few rows differ)",
    "asked": "after the backfill",
    "snapshot": "in its own snapshot", "coverage": "4.88%", "left out": "card: is a secret", "cut": "at (source): beyond milliseconds",
}  # fmt: skip


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_the_report_is_complete(shop: Settings, form: str) -> None:
    report = with_plan(full_report(), shop, not_compared=NOT_COMPARED)
    text = unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>|[\\`*]", "", render.run(report, None, form)))).lower()
    missing = [name for name, words in EXPECTED_TEXTS.items() if words.lower() not in text]
    assert missing == []
    assert text.count("column note was added") == 1
    assert "' '" in text and "''" in text and "null" in text


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_the_outcome_comes_first_and_the_method_last(shop: Settings, form: str) -> None:
    """Every format has one order: how many rows differ and which, how sure that is, what to do, the evidence, the method."""
    report = with_plan(full_report(), shop, not_compared=NOT_COMPARED)
    text = unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>|[\\`*:]", " ", render.run(report, None, form))))
    body = text[text.index("102 rows differ") :] if form == "html" else text
    in_order = (
        "102 rows differ", "column note was added", "keys 100 to 199", "98 % to 99.5 %", "Treated as equal at (source)",
        "Suggested auditor patch", "1,000 in the source, 1,098 in the target", "sums differ", "source something",
    )  # fmt: skip
    places = [body.lower().find(words.lower()) for words in in_order]
    assert -1 not in places and places == sorted(places), dict(zip(in_order, places, strict=True))


def test_the_json_is_complete(shop: Settings) -> None:
    found = plain(with_plan(full_report(), shop, not_compared=(*NOT_COMPARED, NotCompared(column="", how="folded", what="all"))))
    VALIDATOR.validate({**found, "state": "done"})
    assert list(found)[:6] == ["audit", "run", "state", "verdict", "method", "reasons"]
    assert found["cheaper_methods"] == [{"method": "counts", "verdict": "mismatch", "seconds": 0.5, "reasons": ["sums differ"]}]
    assert found["measures"][0]["deviation"] == 0.25 and found["verified_through"] == "2026-03-18T06:30:00Z"
    differences, plan = found["differences"], found["plan"]
    assert differences and plan
    assert (differences["unsettled"], differences["in_flight"], differences["tolerated"]) == (3, 4, 6)
    assert (differences["equal_on_recheck"], differences["rechecks"], differences["why_estimated"]) == (5, 2, "too many")
    assert differences["sample"][0]["rechecks"] == [{"at": "2026-03-18T06:30:00Z", "outcome": "moved"}]
    assert plan["not_compared"] == [
        {"column": "card", "side": None, "how": "left out", "what": "is a secret"},
        {"column": "at", "side": "source", "how": "cut", "what": "beyond milliseconds"},
        {"column": None, "side": None, "how": "folded", "what": "all"},
    ]
    assert (plan["watermark"], plan["snapshot"]) == ("2026-03-18 06:15:00", "per_chunk")


@pytest.mark.parametrize("name", ["customers", "orders", "events", "payments", "stock", "returns"])
def test_real_reports_match_the_schema(shop: Settings, name: str) -> None:
    report = service.run_audit(shop, name)
    found = plain(report)
    VALIDATOR.validate({**found, "state": "done"})
    assert set(found) == set(SCHEMA["$defs"]["RunReport"]["properties"])
    for form in render.FORMATS:
        assert render.run(report, None, form)


# masked columns


def test_reports_and_plans_are_stored_as_their_types_are_read(shop: Settings) -> None:
    """They are written without their types, which take longer to build than both texts of a run to write."""
    reports = TypeAdapter(Report)
    odd = replace(full_report("ä\0\n"), seconds=math.nan, covered=math.inf)
    for report in (full_report(), with_plan(full_report(), shop), aligned_report(), odd):
        stored = to_store_outcome(report, None).report
        assert report.differences
        slim = replace(report, differences=replace(report.differences, named=(), ranges=()))
        assert stored == reports.dump_json(slim)
        if report is not odd:
            assert reports.validate_json(stored) == slim
    plan = with_plan(full_report(), shop).plan
    assert plan and dump_plan(plan) == TypeAdapter(Plan).dump_json(plan) and load_plan(dump_plan(plan)) == plan


def test_masked_columns_are_hidden(shop: Settings) -> None:
    report = service.run_audit(shop, "orders")
    assert report.plan
    key = replace(report.plan.columns[0], masked=True)
    report = replace(report, plan=replace(report.plan, columns=(key, *report.plan.columns[1:])))
    for form in render.FORMATS:
        text = render.run(report, None, form)
        assert MASK.replace("*", "\\*") in text or MASK in text
        for secret in ("4711", "12,000", "12000", "11,968", "11968", "29,952", "lost", "card 4711"):
            assert secret not in text, (form, secret)


# hostile text


class Page(HTMLParser):
    """Collects the elements of a page and their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes += attrs


def check_page(text: str) -> None:
    """Assert that a page contains no scripts and no external resources."""
    page = Page(text)
    assert not page.elements & {"script", "img", "iframe", "link", "object", "form", "base"}
    for name, value in page.attributes:
        assert not name.startswith("on") and name not in ("src", "style")
        assert name != "href" or (value or "").startswith("#"), "places of the page itself alone"
        assert "url(" not in (value or "")
    assert "@import" not in text and "url(" not in text


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_hostile_text_is_harmless(shop: Settings, form: str) -> None:
    secret = NotCompared(column=HOSTILE, how="left out", what=HOSTILE)
    report = with_plan(aligned_report(HOSTILE), shop, not_compared=(secret,), notes=(HOSTILE,))
    report = replace(report, not_aligned=HOSTILE)
    text = render.run(report, None, form)
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


def test_a_page_is_self_contained(shop: Settings) -> None:
    check_page(html.run(service.run_audit(shop, "orders"), None))


# heat map


def partition_map(states: list[str]) -> PartitionMap:
    """Return a partition map with one partition per state."""
    count = len(states)
    state = np.array([STATES.index(one) for one in states], np.uint8)
    similarity = np.where(state == 0, 1.0, np.nan).astype(np.float32)
    keys = np.empty(count, np.object_)
    for index in np.flatnonzero(state):
        keys[index] = int(index) * 64 + 1
    rows = np.full(count, 64, np.int64)
    return PartitionMap(np.arange(count, dtype=np.int64), state, similarity, {"source": rows, "target": rows - (state > 0)}, keys, keys)


def test_a_cell_shows_the_worst_of_its_partitions() -> None:
    found = build_heatmap(partition_map(["equal"] * 998 + ["skipped", "source_only"] + ["equal"] * 999 + ["accounted"]), None)
    assert found and len(found.cells) == MAX_CELLS and (found.columns, found.rows) == (50, 6)
    assert (found.partitions_per_cell, found.partitions) == (7, 2000)
    assert found.counts == {"equal": 1997, "skipped": 1, "named": 1, "source_only": 1}
    assert [cell.shape for cell in found.cells if cell.shape != "equal"] == ["source_only", "named"]
    assert "keys 127,937 to 127,937" in found.cells[-1].title


def test_small_and_empty_partition_maps(shop: Settings) -> None:
    found = build_heatmap(partition_map(["equal", "unequal", "target_only"]), None)
    assert found and [cell.shape for cell in found.cells] == ["equal", "differs", "target_only"]
    assert "64 rows in the source, 63 in the target" in found.cells[1].title
    assert build_heatmap(partition_map([]), None) is None
    for count in (1, 49, 50, 51, 299, 300, 301, 12345):
        folded = build_heatmap(partition_map(["equal"] * count), None)
        assert folded and len(folded.cells) == min(MAX_CELLS, count)
    check_page(html.run(full_report(), partition_map(["equal", "unequal", "skipped"])))


@pytest.mark.parametrize("format", ["text", "markdown", "html"])
def test_one_row_is_not_written_as_rows(format: Any) -> None:
    report = full_report()
    assert report.differences is not None
    lone = Difference(kind="missing", key={"id": "8"}, rows={"source": 1, "target": 0})
    span = replace(report.differences.ranges[0], first=100, last=100, label="key 100", rows=1)
    shown = render.run(replace(report, differences=replace(report.differences, named=(lone,), ranges=(span,))), None, format)
    assert shown.count("1 row, only in the ") == 2 and "1 rows" not in shown
