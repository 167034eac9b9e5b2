"""Segment audits: two writers of one stream in Parquet and CSV are compared, told what is wrong, and mended."""

from __future__ import annotations

import datetime as dt
import random
import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import boto3
import pytest

from auditor.config import validate_settings
from auditor.errors import ConfigError, SegmentFailed
from auditor.model import Verdict
from auditor.pipeline.segments.registering import registrations_of
from auditor.pipeline.segments.sides import side_of
from auditor.pipeline.segments.writer import open_writer
from auditor.service import notify, segment_audits, segment_files
from auditor.store import Store, open_store, pipelines, runs, segments
from tests.live import Engines
from tests.pipeline.test_segments import Events, stage, stream
from tests.pipeline.two_writers import ORDERS, SIDES, first_file, run, settings_in, stage_all, transactions, verify
from tests.pipeline_events import update
from tests.servers import s3


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(f"sqlite:///{tmp_path}/auditor.db")) as opened:
        yield opened


@pytest.fixture
def s3_folder(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder of S3 of the test's own."""
    values = {"ENDPOINT_URL": engines.companion("s3", s3.start).url, "ACCESS_KEY_ID": "tests", "SECRET_ACCESS_KEY": "tests"}
    for name, value in {**values, "DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    bucket = f"segments-{uuid.uuid4().hex[:12]}"
    boto3.client("s3").create_bucket(Bucket=bucket)
    return f"s3://{bucket}/eu"


def test_writers_of_other_formats_and_batches_match(store: Store, tmp_path: Path) -> None:
    """Each registers as it cuts, so that a run finds everything compared already; its result is kept like that of any run."""
    settings = settings_in(tmp_path)
    found = stream(7, 60)
    for name, seed in (("shop", 1), ("eu", 2)):
        writer = open_writer(store, name, settings.pipeline(name), registrations_of(settings, name))
        for _ in stage(store, Path(settings.pipeline(name).staging.path), name, found, random.Random(seed)):
            while writer.step():
                pass
    report = run(settings, store)
    assert (report.verdict, report.exit_code) == (Verdict.MATCH, 0) and report.reasons[0].endswith("of 2 tables are equal")
    shown = segment_audits.overview(settings, store, "zones")
    assert all(one.state.matches > 3 and not one.findings for one in shown.tables)
    assert shown.standing.status == "match" and shown.standing.verified_through == report.verified_through is not None
    assert runs.get_run(store, report.run).verdict is Verdict.MATCH
    found_files = list(segment_files.verify(settings, store, "zones"))
    assert [(one.problems, one.findings) for one in found_files] == [((), ())] * 2 and sum(one.segments for one in found_files) > 20


def test_an_audit_that_came_later_catches_up(store: Store, tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    silent = settings.model_copy(update={"segments": {}})
    for name in SIDES:
        stage_all(silent, store, name, transactions(20))
    assert run(settings, store).verdict is Verdict.MATCH
    [one] = segment_audits.overview(settings, store, "zones").tables
    assert one.state.matches == len(segments.list_segments(store, "shop", "shop.orders"))
    assert segment_audits.compare(settings, store, "zones")[0][0].state == one.state and run(settings, store).verdict is Verdict.MATCH


def test_the_slower_side_is_awaited_up_to_the_limit(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_in(tmp_path, max_lag="5m")
    assert run(settings, store).reasons == ("neither shop nor eu has a finished segment yet",)
    stage_all(settings, store, "shop", transactions(20))
    alone = run(settings, store)
    assert (alone.verdict, alone.reasons[0]) == (Verdict.UNKNOWN, "no two segments are equal yet, so nothing was verified")
    stage_all(settings, store, "eu", transactions(12))
    report = run(settings, store)
    assert report.verdict is Verdict.MATCH and "eu is awaited for shop.orders" in report.reasons[1]
    monkeypatch.setattr(segment_audits, "current_time", lambda: dt.datetime.now(dt.UTC) + dt.timedelta(minutes=6))
    late = run(settings, store)
    assert (late.verdict, late.exit_code) == (Verdict.UNKNOWN, 3)
    said = r"shop.orders: eu is behind: 6 min .* shop had a segment that it still lacks \(4 by now\), and max_lag is 5 min"
    assert re.match(said, late.reasons[0])
    assert notify.run_message(late, "unknown").title == "zones: UNKNOWN"


DAMAGES: dict[str, tuple[Callable[[list[Events]], list[Events]], str, str]] = {
    "altered value": (
        lambda found: [*found[:4], [found[4][0], {**found[4][1], "after": ["11", "ITEM 5"]}], *found[5:]],
        "content mismatch",
        "column item, after: 'item 5' in shop, 'ITEM 5' in eu",
    ),
    "another kind": (
        lambda found: [*found[:4], update(ORDERS, 50, (["10", "z"], ["10", "a"]), (["11", "z"], ["11", "item 5"])), *found[5:]],
        "content mismatch",
        "kind: 'insert' in shop, 'update' in eu",
    ),
}


@pytest.mark.parametrize("damage", ["altered value", pytest.param("another kind", marks=pytest.mark.slow)])
def test_what_differs_is_named_down_to_the_column_and_mended(store: Store, tmp_path: Path, damage: str) -> None:
    change, verdict, sentence = DAMAGES[damage]
    settings = settings_in(tmp_path)
    stage_all(settings, store, "shop", transactions(30))
    stage_all(settings, store, "eu", change(transactions(30)))
    report = run(settings, store)
    assert (report.verdict, report.exit_code) == (Verdict.MISMATCH, 1) and verdict in report.reasons[0] and "000" in report.reasons[0]
    [(_, text), *_] = verify(settings, store).findings
    assert sentence in text
    pipelines.report_merges(store, "eu", "wh", {"shop.orders": pipelines.MergeNews(10_000, "merged")})
    found = segment_files.copy(settings, store, "zones", "shop", None, by="ada")
    assert found and all(one.copied and not one.refused for one in found)
    told = list(segment_files.tell_copied(settings, found, "shop", "eu", "binlog.000007"))
    assert told[-1] == "target wh holds shop.orders as it was staged: auditor pipeline refresh eu --table orders --apply"
    assert run(settings, store).verdict is Verdict.MATCH
    assert (verify(settings, store).problems, verify(settings, store).findings) == ((), ())
    assert segment_files.copy(settings, store, "zones", "shop", None, by="ada") == []


def lose(found: list[Events]) -> list[Events]:
    """Leave out one event of a transaction."""
    return [*found[:4], found[4][:1], *found[5:]]


def double(found: list[Events]) -> list[Events]:
    """Bring one event of a transaction twice."""
    return [*found[:4], [*found[4], {**found[4][1], "row": 2}], *found[5:]]


@pytest.mark.quick_for("shop-lose")
@pytest.mark.parametrize(
    ("ahead", "change", "sentence"),
    [
        ("shop", lose, "eu lacks this"),
        ("eu", double, "shop lacks this"),
        pytest.param("shop", double, "shop lacks this", marks=pytest.mark.slow),
        pytest.param("eu", lose, "eu lacks this", marks=pytest.mark.slow),
    ],
)
def test_segments_that_end_elsewhere_are_mended_and_their_writer_goes_on_behind_the_copies(
    store: Store, tmp_path: Path, ahead: str, change: Callable[[list[Events]], list[Events]], sentence: str
) -> None:
    """The writer is that of a running pipeline, which counts on from its own last segment until these are replaced."""
    settings = settings_in(tmp_path)
    found = {"shop": transactions(80), "eu": change(transactions(80))}
    staged = {"shop": 30, "eu": 30} | {ahead: 33}
    writers = {name: stage_all(settings, store, name, found[name][: staged[name]]) for name in SIDES}
    report = run(settings, store)
    assert (report.verdict, report.exit_code) == (Verdict.MISMATCH, 1)
    assert sentence in verify(settings, store).findings[0][1]
    if ahead == "eu":
        [refused] = segment_files.copy(settings, store, "zones", "shop", None, by="ada")
        assert not refused.copied and run(settings, store).verdict is Verdict.MISMATCH
        assert refused.refused == "eu has events behind the last segment of shop; try again after that one's next segment"
        stage_all(settings, store, "shop", found["shop"][30:40], writers["shop"])
    [mended] = segment_files.copy(settings, store, "zones", "shop", None, by="ada")
    assert mended.copied and not mended.refused and run(settings, store).verdict is Verdict.MATCH
    stage_all(settings, store, "eu", found["eu"][staged["eu"] :], writers["eu"])
    stage_all(settings, store, "shop", found["shop"][40 if ahead == "eu" else staged["shop"] :], writers["shop"])
    assert run(settings, store).verdict is Verdict.MATCH
    listed = [segments.list_segments(store, name, "shop.orders") for name in SIDES]
    assert [one.sha256 for one in listed[0]] == [one.sha256 for one in listed[1]] and len(listed[0]) == 39
    assert (verify(settings, store).problems, verify(settings, store).findings) == ((), ())


def test_a_segment_that_ended_while_copies_were_written_is_not_lost(store: Store, tmp_path: Path) -> None:
    """It begins in the stretch, and reaches behind it."""
    settings = settings_in(tmp_path)
    stage_all(settings, store, "eu", transactions(30))
    listed = segments.list_segments(store, "eu", "shop.orders")
    stretch = (listed[2].first, listed[2].first_row), (listed[3].last, listed[3].last_row - 1)
    with pytest.raises(SegmentFailed, match=r"eu ended a segment of .* meanwhile, and nothing was replaced; run the command again"):
        segments.replace_listed(store, "eu", "shop.orders", stretch, listed[2:3], lambda _: None)
    assert segments.list_segments(store, "eu", "shop.orders") == listed and segments.get_cut(store, "eu").replacements == 0


def test_a_lost_segment_and_one_from_nowhere(store: Store, tmp_path: Path) -> None:
    """What the good side lacks is not taken from the other one."""
    settings = settings_in(tmp_path)
    for name in SIDES:
        stage_all(settings, store, name, transactions(30))
    path, listed = first_file(settings, store, "eu", 3)
    segments.replace_listed(store, "eu", "shop.orders", ((listed.first, 0), (listed.last, 9)), [], lambda _: None)
    segment_files.reset(settings, store, "zones", by="ada")
    report = run(settings, store)
    assert f"eu lacks 1 segment with {listed.rows} events (start mismatch)" in report.reasons[0]
    [refused] = segment_files.copy(settings, store, "zones", "eu", None, by="ada")
    assert refused.refused == "eu has no segment there; copy from shop instead"
    [mended] = segment_files.copy(settings, store, "zones", "shop", None, by="ada")
    assert mended.copied and path.with_suffix(".csv").exists() and run(settings, store).verdict is Verdict.MATCH


def test_files_on_s3_are_verified_and_mended(store: Store, tmp_path: Path, s3_folder: str) -> None:
    settings = settings_in(tmp_path)
    there = settings.pipeline("eu").model_copy(update={"segment": settings.pipeline("eu").segment.model_copy(update={"path": s3_folder})})  # type: ignore[union-attr]
    settings = settings.model_copy(update={"pipelines": {**settings.pipelines, "eu": there}})
    for one in SIDES:
        stage_all(settings, store, one, transactions(12))
    assert verify(settings, store).problems == ()
    _, listed = first_file(settings, store, "eu")
    bucket, _, prefix = s3_folder.removeprefix("s3://").partition("/")
    key = f"{prefix}/{listed.path}"
    body = boto3.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    boto3.client("s3").put_object(Bucket=bucket, Key=key, Body=body.replace(b"item 1", b"item !"))
    found = verify(settings, store)
    [(problem, text)] = found.problems
    assert problem.sentence.startswith(f"{s3_folder}/shop.orders/")
    assert "column item, after: 'item 1' in shop, 'item !' in eu" in text
    [mended] = segment_files.copy(settings, store, "zones", "shop", None, by="ada")
    assert mended.copied and verify(settings, store).problems == ()


def test_writers_of_other_servers_compare_by_global_id_or_are_refused(store: Store, tmp_path: Path) -> None:
    """The replica's log has other positions; positions in files of one are not those of the other, so that they are not copied."""
    settings = settings_in(tmp_path, replica=True)
    stage_all(settings, store, "shop", transactions(20))
    shifted = [[{**one, "position": int(str(one["position"])) + 777} for one in events] for events in transactions(20)]
    stage_all(settings, store, "eu", shifted)
    assert run(settings, store).verdict is Verdict.MATCH
    with pytest.raises(ConfigError, match="the sides of zones read different servers, so that positions in their files differ"):
        segment_files.copy(settings, store, "zones", "shop", None, by="ada")
    other = [[{**one, "gtid": str(one["gtid"]).replace("0-1-", "5-1-")} for one in events] for events in transactions(60)[30:]]
    stage_all(settings, store, "eu", [[{**one, "position": int(str(one["position"])) + 2000} for one in events] for events in other])
    report = run(settings, store)
    assert report.verdict is Verdict.UNKNOWN and "so that they have no common order" in report.reasons[0]
    segment_files.reset(settings, store, "zones", by="ada")
    none = settings_in(tmp_path / "none", replica=True)
    with closing(open_store(f"sqlite:///{tmp_path}/none.db")) as another:
        stage_all(none, another, "shop", [[{**one, "gtid": None} for one in events] for events in transactions(20)])
        assert "segments of shop.orders from shop have no global ids" in run(none, another).reasons[0]


def test_sides_are_fixed_until_a_reset(store: Store, tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    for one in SIDES:
        stage_all(settings, store, one, transactions(12))
    assert run(settings, store).verdict is Verdict.MATCH
    moved = run(settings_in(tmp_path, replica=True), store)
    assert moved.exit_code == 2 and "by gtid; forget it with: auditor segments reset zones" in moved.reasons[0]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"segments": {"z": {"pipelines": ["shop", "shop"]}}}, "'shop' cannot be compared with itself"),
        ({"segments": {"z": {"pipelines": ["shop", "nope"]}}}, "there is no pipeline 'nope'"),
        ({"eu": {"segment": None}}, "the pipeline 'eu' keeps no segments; add segment: {} to it"),
        ({"eu": {"segment": {"rows": 5}}}, "'shop' and 'eu' cut at other places; give both the same segment: rows"),
        ({"eu": {"columns": {"orders": {"exclude": ["item"]}}}}, "'shop' and 'eu' have other columns"),
    ],
    ids=["itself", "unknown", "none kept", "cut otherwise", "other columns"],
)
def test_what_cannot_be_compared_is_refused(tmp_path: Path, change: dict[str, Any], sentence: str) -> None:
    values = settings_in(tmp_path).model_dump(mode="json", by_alias=True, exclude_unset=True)
    values["pipelines"]["eu"] |= change.pop("eu", {})
    with pytest.raises(ConfigError, match=sentence):
        validate_settings({**values, **change})


def test_sides_have_names(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'us' is no side of zones; its sides are shop and eu"):
        side_of(settings_in(tmp_path), "zones", "us")
