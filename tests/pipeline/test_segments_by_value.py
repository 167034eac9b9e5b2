"""A finding of a segment audit names the customers whose events were lost or changed, and no others."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from auditor import config
from auditor.cli import main
from auditor.config import validate_settings
from auditor.errors import ConfigError
from auditor.model import Verdict
from auditor.pipeline import check as checks
from auditor.pipeline.folders import LocalFolder
from auditor.pipeline.part_writer import write_parts
from auditor.pipeline.segments.registering import registrations_of
from auditor.pipeline.segments.writer import open_writer
from auditor.service import segment_audits, segment_files
from auditor.service.scrub import REMOVED, scrub
from auditor.store import Store, open_store, parts, runs, segment_register, segments
from auditor.summary.bucket_sums import SegmentSums, bucket_of
from tests.binlog import LiveLog
from tests.live import LiveEngine, engine_params
from tests.pipeline.live_segments import LogWriter
from tests.pipeline.test_segments import ITEMS, WIDER, Events, stage, stream
from tests.pipeline.two_writers import ORDERS, SIDES, run, settings_in, stage_all, transactions, verify
from tests.pipeline_events import announce, batch, insert, update
from tests.staged_files import Rows, change_rows


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(f"sqlite:///{tmp_path}/auditor.db")) as opened:
        yield opened


def altered(found: list[Events]) -> list[Events]:
    return [*found[:4], [found[4][0], {**found[4][1], "after": ["11", "ITEM 5"]}], *found[5:]]


def lost(found: list[Events]) -> list[Events]:
    return [*found[:4], found[4][:1], *found[5:]]


def lost_at_the_end(found: list[Events]) -> list[Events]:
    """Lose the last event of a segment, with which the other side's ends."""
    return [*found[:5], found[5][:1], *found[6:]]


def doubled(found: list[Events]) -> list[Events]:
    return [*found[:4], [*found[4], {**found[4][1], "row": 2}], *found[5:]]


def moved(found: list[Events]) -> list[Events]:
    """Make an event one by which a row comes from one customer to another: it is an event of both."""
    [event] = update(ORDERS, 50, (["11", "ada"], ["11", "bob"]))
    return [*found[:4], [found[4][0], {**event, "row": 1}], *found[5:]]


DAMAGES: dict[Callable[[list[Events]], list[Events]], str] = {
    altered: "; by item: 'ITEM 5': 1 event differs; 'item 5': 1 event differs",
    lost: "; by item: 'item 5': eu lacks 1 event",
    lost_at_the_end: "; by item: 'item 6': eu lacks 1 event",
    doubled: "; by item: 'item 5': shop lacks 1 event",
    moved: "; by item: 'ada': 1 event differs; 'bob': 1 event differs; 'item 5': 1 event differs",
}


@pytest.mark.quick_for("lost", "altered", "moved")
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_finding_names_whose_events_differ(store: Store, tmp_path: Path, damage: Callable[[list[Events]], list[Events]]) -> None:
    settings = settings_in(tmp_path, by="item")
    stage_all(settings, store, "shop", transactions(30))
    stage_all(settings, store, "eu", damage(transactions(30)))
    before = segment_audits.concluded_status(settings, store, "zones").tables[0].findings[0]
    assert before.by is None and before.buckets and "the values are not known, which the next run reads" in before.sentence
    report = run(settings, store)
    assert report.verdict is Verdict.MISMATCH and report.reasons[0].endswith(DAMAGES[damage]), report.reasons
    [finding] = segment_audits.status(settings, store, "zones").tables[0].findings
    assert finding.sentence in report.reasons and finding.by == "item"
    named = {one.value for one in finding.values}
    assert {bucket_of(value) for value in named} <= set(finding.buckets or ()), "in the digests by bucket, too"
    [(opened, _)] = verify(settings, store).findings
    assert opened.values and {one.value for one in opened.values.values} == named
    if damage is altered:
        segment_files.copy(settings, store, "zones", "shop", None, by="ada")
        assert run(settings, store).verdict is Verdict.MATCH and segment_register.get_values(store, "zones") == {}


def test_segments_of_one_transaction_are_told_apart(store: Store, tmp_path: Path) -> None:
    """They begin and end at one position of the log, and differ by the row within the transaction."""
    settings = settings_in(tmp_path, by="item")
    found = [*transactions(5), insert(ORDERS, 100, *([str(key), f"of {key}"] for key in range(100, 116))), *transactions(30)[12:]]
    wrong = [*found[4][:9], {**found[4][9], "after": ["109", "WRONG"]}, *found[4][10:]]
    stage_all(settings, store, "shop", found)
    stage_all(settings, store, "eu", [*found[:4], wrong, *found[5:]])
    [reason, *_] = run(settings, store).reasons
    assert reason.endswith("; by item: 'WRONG': 1 event differs; 'of 109': 1 event differs")
    [(_, text)] = verify(settings, store).findings
    assert "column item, after: 'of 109' in shop, 'WRONG' in eu" in text
    [mended] = segment_files.copy(settings, store, "zones", "shop", None, by="ada")
    assert len(mended.copied) == 1 and run(settings, store).verdict is Verdict.MATCH
    assert (verify(settings, store).problems, verify(settings, store).findings) == ((), ())


def test_events_in_another_order_are_nobodys(store: Store, tmp_path: Path) -> None:
    settings = settings_in(tmp_path, by="item")
    stage_all(settings, store, "shop", transactions(30))
    root = LocalFolder(tmp_path / "eu")
    [part] = [one.part for one in write_parts(root, [batch(announce(ORDERS, 1), *transactions(30))]) if one.part.rows]
    blocks, checksum = change_rows(root.path / part.path, lambda rows: [*rows[:9], rows[10], rows[9], *rows[11:]])
    schemas = {ORDERS.id: {"columns": [{"name": "id"}, {"name": "item"}]}}
    parts.record_batch(store, "eu", [replace(part, blocks=blocks, checksum=checksum)], schemas, None)
    assert open_writer(store, "eu", settings.pipeline("eu"), registrations_of(settings, "eu")).step()
    assert "; by item: the events of each value are equal, in another order" in run(settings, store).reasons[0]
    assert segment_audits.status(settings, store, "zones").tables[0].findings[0].buckets == []


def test_a_lost_segment_names_all_whose_events_it_had(store: Store, tmp_path: Path) -> None:
    """Those with most events come first, and no more than a sentence can hold."""
    settings = settings_in(tmp_path, by={"shop.orders": "ITEM"})
    settings = settings.model_copy(
        update={
            "pipelines": {
                name: one.model_copy(update={"segment": one.segment.model_copy(update={"rows": 100})})  # type: ignore[union-attr]
                for name, one in settings.pipelines.items()
            }
        }
    )
    for name in SIDES:
        stage_all(settings, store, name, transactions(200))
    listed = segments.list_segments(store, "eu", "shop.orders")[1]
    segments.replace_listed(store, "eu", "shop.orders", ((listed.first, 0), (listed.last, 9)), [], lambda _: None)
    segment_files.reset(settings, store, "zones", by="ada")
    [reason, *_] = run(settings, store).reasons
    assert "eu lacks 1 segment with 100 events (start mismatch); by ITEM: 'a': eu lacks 50 events; 'item 100': eu lacks 1 event;" in reason
    assert reason.endswith("; and 31 values more")
    [finding] = segment_audits.status(settings, store, "zones").tables[0].findings
    assert (len(finding.values), finding.more_values) == (20, 31) and finding.values[0].lacking == {"shop": 0, "eu": 50}


def test_digests_by_bucket_are_the_same_for_every_writer(store: Store, tmp_path: Path) -> None:
    """Whatever its batches, tasks, formats and restarts; without the setting there are none, and all else is the same."""
    found = stream(7, 160)
    settings, without = settings_in(tmp_path, by="item"), settings_in(tmp_path / "without")
    _tell_schemas(store, "shop", "eu", "plain")
    for name, seed in (("shop", 1), ("eu", 2)):
        for number, _ in enumerate(stage(store, Path(settings.pipeline(name).staging.path), name, found, random.Random(seed))):
            if number % 3 == seed - 1:
                writer = open_writer(store, name, settings.pipeline(name), registrations_of(settings, name))
                while writer.step():
                    pass
    for _ in stage(store, Path(without.pipeline("shop").staging.path), "plain", found, random.Random(3)):
        pass
    assert open_writer(store, "plain", without.pipeline("shop")).step()
    for name in SIDES:
        while open_writer(store, name, settings.pipeline(name), registrations_of(settings, name)).step():
            pass
    for table in ("shop.orders", "shop.items"):
        shop, eu, plain = (segments.list_segments(store, name, table) for name in ("shop", "eu", "plain"))
        assert [one.buckets for one in shop] == [one.buckets for one in eu] and {one.buckets for one in plain} == {b""}
        assert [(one.last, one.last_row, one.sha256, one.bytes) for one in shop] == [
            (one.last, one.last_row, one.sha256, one.bytes) for one in plain
        ]
        for one in shop:
            sums = SegmentSums.decode(one.buckets)
            assert sums and int(sums.sums[1].events.sum()) >= one.rows and len(one.buckets) < 100 * (one.rows + 1)
        registered = segment_register.list_entries(store, "zones", table, "shop", with_buckets=True)
        assert [one.buckets for one in registered] == [one.buckets for one in shop]
    assert run(settings, store).verdict is Verdict.MATCH


def _tell_schemas(store: Store, *names: str) -> None:
    """Record the columns of the tables, as a pipeline does with the batch that announces them."""
    for name in names:
        bodies = {one.id: {"columns": [{"name": column.name} for column in one.columns]} for one in (ORDERS, WIDER, ITEMS)}
        parts.record_batch(store, name, [], bodies, None)


def test_masked_values_are_neither_shown_nor_stored(store: Store, tmp_path: Path) -> None:
    settings = settings_in(tmp_path, by="item")
    source = settings.connections["mysql"].model_copy(update={"mask": ("orders.item",)})
    masked = settings.model_copy(update={"connections": {**settings.connections, "mysql": source}})
    stage_all(settings, store, "shop", transactions(30))
    stage_all(settings, store, "eu", altered(transactions(30)))
    assert "'item 5'" in run(settings, store).reasons[0]
    [before] = segment_audits.status(masked, store, "zones").tables[0].findings
    assert before.values == [] and before.by is None, "what was stored before it was masked is not shown"
    assert scrub(masked, store) == 1 and segment_register.get_values(store, "zones") == {}
    [stored] = runs.list_runs(store, audit="zones")
    assert stored.reasons == (REMOVED,) and b"item 5" not in (runs.get_report(store, stored.run) or b"")
    report = run(masked, store)
    assert "; by item: ***: 1 event differs" in report.reasons[0] and "item 5" not in str(segment_register.get_values(store, "zones"))
    [(finding, text)] = verify(masked, store).findings
    assert "column item, after: *** in shop, *** in eu" in text and finding.values and finding.values.values[0].value == "***"


def test_a_column_that_goes_away_ends_the_digests_with_a_sentence(store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = settings_in(tmp_path, by="item")
    for name in SIDES:
        stage_all(settings, store, name, transactions(12))
    assert run(settings, store).reasons == ("5 segments with 20 events of 1 table are equal",)
    renamed = [{**one, "schema_id": WIDER.id} for events in transactions(24)[12:] for one in events]
    for name in SIDES:
        stage_all(settings, store, name, [renamed])
        parts.record_batch(store, name, [], {WIDER.id: {"columns": [{"name": "id"}, {"name": "thing"}]}}, None)
    other = [{**one, "schema_id": WIDER.id} for events in transactions(36)[24:] for one in events]
    for name in SIDES:
        stage_all(settings, store, name, [other])
    said = (
        "shop.orders has no column 'item', which the pipeline's segment: by: names, so its segments have no digests by bucket; its"
        " columns are id, thing; correct the name, or write by: {TABLE: COLUMN} for the tables that have one"
    )
    report = run(settings, store)
    assert report.verdict is Verdict.MATCH and f"shop: {said}" in report.reasons and f"eu: {said}" in report.reasons
    assert caplog.text.count(said) >= 2, "once for each writer"
    assert segment_audits.status(settings, store, "zones").tables[0].notes == [f"shop: {said}", f"eu: {said}"]


def test_digests_begin_with_the_setting(store: Store, tmp_path: Path) -> None:
    """Segments that were cut before have none, and are opened by value all the same."""
    without, settings = settings_in(tmp_path), settings_in(tmp_path, by="item")
    stage_all(without, store, "shop", transactions(12))
    stage_all(without, store, "eu", altered(transactions(12)))
    report = run(settings, store)
    assert report.reasons[0].endswith("; by item: 'ITEM 5': 1 event differs; 'item 5': 1 event differs")
    assert "shop.orders: segments of eu have no digests by item yet; they begin with the next one that it cuts" in report.reasons
    [finding] = segment_audits.status(settings, store, "zones").tables[0].findings
    assert finding.buckets is None and [one.value for one in finding.values] == ["ITEM 5", "item 5"]


def test_what_cannot_be_opened_says_which_buckets_differ(store: Store, tmp_path: Path) -> None:
    settings = settings_in(tmp_path, by="item")
    stage_all(settings, store, "shop", transactions(12))
    stage_all(settings, store, "eu", altered(transactions(12)))
    for path in (tmp_path / "csv").rglob("*.csv"):
        path.unlink()
    numbers = sorted({bucket_of("item 5"), bucket_of("ITEM 5")})
    [reason, *_] = run(settings, store).reasons
    assert f"; by item buckets {numbers[0]}, {numbers[1]} are unequal; the values are not known: the segment " in reason
    assert "is missing; check that" in reason


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"eu": {"segment": {"rows": 4, "age": "1h", "by": "id"}}}, "'shop' and 'eu' have digests by other columns; give both the same"),
        ({"shop": {"columns": {"orders": {"exclude": ["Item"]}}}}, "segment: by: 'item' is excluded from orders"),
        ({"shop": {"source": {"connection": "mysql", "tables": ["o*"]}, "segment": {"by": {"items": "id"}}}}, "'items' is none of"),
    ],
)
def test_what_cannot_be_done_is_refused(tmp_path: Path, change: dict[str, Any], sentence: str) -> None:
    values = settings_in(tmp_path, by="item").model_dump(mode="json", by_alias=True, exclude_unset=True)
    for name, more in change.items():
        values["pipelines"][name] |= more
    with pytest.raises(ConfigError, match=sentence):
        validate_settings(values)


LIVE = """
connections:
  shop: {{url: '{url}'}}
  duck: {{url: 'duckdb:///{folder}/x.duckdb', write: {{url: 'duckdb:///{folder}/x.duckdb'}}}}
audits: {{}}
pipelines:
  east:
    source: {{connection: shop, tables: [sales, visits]}}
    columns: {{sales: {{rename: {{tenant_id: customer}}}}}}
    staging: {{path: '{folder}/east'}}
    segment: {{rows: 7, age: 1h, by: {{sales: Tenant_ID, visits: tenant_id}}}}
    targets: {{duck: {{connection: duck, schema: main}}}}
  west:
    source: {{connection: shop, tables: [sales, visits]}}
    columns: {{sales: {{rename: {{tenant_id: customer}}}}}}
    staging: {{path: '{folder}/west'}}
    segment: {{rows: 7, age: 1h, path: '{folder}/archive', format: csv, by: {{sales: Tenant_ID, visits: tenant_id}}}}
    targets: {{duck: {{connection: duck, schema: main}}}}
segments:
  zones: {{pipelines: [east, west]}}
"""

MARIADB = pytest.param("mariadb", id="mariadb", marks=[pytest.mark.mariadb])


@pytest.mark.slow_on("mysql")
@pytest.mark.alone  # it reads where the log ends
@pytest.mark.parametrize("engine", [*engine_params("mysql"), MARIADB], indirect=True)
def test_the_customer_of_a_lost_event_is_named(
    engine: LiveEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two pipelines read one server's log, in other batches; one of them loses an event of one customer among many."""
    log = LiveLog(engine.url)
    for name in ("sales", "visits"):
        log.run(f"DROP TABLE IF EXISTS {name}", f"CREATE TABLE {name} (id int PRIMARY KEY, tenant_id int NULL, t varchar(30))")
    path = tmp_path / "auditor.yaml"
    path.write_text(LIVE.format(url=log.url, folder=tmp_path))
    settings = config.load(path)
    assert settings.store
    with closing(open_store(settings.store.url)) as store:
        writers = [LogWriter(settings, path, store, name) for name in ("east", "west")]
        chance = random.Random(5)
        for key in range(60):
            tenant = "NULL" if key % 20 == 0 else str(chance.randrange(40))
            log.run(f"INSERT INTO sales VALUES ({key}, {tenant}, 'row {key}')", f"INSERT INTO visits VALUES ({key}, 1, 'v')")
        log.run("UPDATE sales SET tenant_id = 4711 WHERE id = 33", "DELETE FROM sales WHERE id = 34")

        def lose(rows: Rows) -> Rows:
            return [row for row in rows if not (row["kind"] == "insert" and row["table"] == "sales" and row["after"][0] == "31")]

        [(victim,)] = log.run("SELECT tenant_id FROM sales WHERE id = 31")
        writers[0].read(batch_bytes=1500, range_bytes=700)
        writers[1].read(lose)
        report = segment_audits.run(settings, store, "zones")
        assert report.verdict is Verdict.MISMATCH
        assert [reason for reason in report.reasons if "; by " in reason] == [
            reason for reason in report.reasons if reason.endswith(f"; by Tenant_ID: '{victim}': west lacks 1 event")
        ], report.reasons
        [sales, visits] = sorted(segment_audits.status(settings, store, "zones").tables, key=lambda one: one.table)
        assert len(sales.findings) == 1 and visits.findings == [] and visits.matches > 5

        segment_files.reset(settings, store, "zones", by="ada")
        log.run("ALTER TABLE visits RENAME COLUMN tenant_id TO guest")
        for key in range(100, 130):
            log.run(f"INSERT INTO visits VALUES ({key}, 1, 'v')")
        for writer in writers:
            writer.read()
        renamed = segment_audits.run(settings, store, "zones").reasons
        said = (
            f"{log.database}.visits has no column 'tenant_id', which the pipeline's segment: by: names, so its segments have no digests by"
            " bucket;"
        )
        assert [reason for reason in renamed if "has no column" in reason] == [
            f"{name}: {said} its columns are id, guest, t; correct the name, or write by: {{TABLE: COLUMN}} for the tables that have one"
            for name in ("east", "west")
        ]
        refused = [one.sentence for one in checks.check(settings, "east", b"salt") if "segment: by:" in one.sentence]
        assert [one.partition(";")[0] + ";" for one in refused] == [said], "the check names the table that lacks the column"
    monkeypatch.chdir(tmp_path)
    assert main(["segments", "status", "zones", "--config", str(path)]) == 1
    assert f"by Tenant_ID: '{victim}': west lacks 1 event" in capsys.readouterr().out
