"""Audits that compare a target with the sums that the stream keeps of its source, without a scan of the source."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from auditor.model import Report, State, Verdict
from auditor.pipeline import live
from auditor.run.locate import decoding
from auditor.run.locate.decoding import Work
from auditor.service import running
from auditor.store import live_epochs, pipelines
from tests.live import Engines
from tests.pipeline.aligned_road import AUDIT, AlignedRoad
from tests.pipeline.road import PIPELINE
from tests.servers.proxy import proxied

pytestmark = [pytest.mark.alone]
TABLE, KEYS = "live_orders", 3000
MILLION = 1_000_000
_numbers = itertools.count()

MARIADB_POSTGRES = pytest.param(("mariadb", "postgres"), marks=[pytest.mark.mariadb, pytest.mark.postgres], id="mariadb-postgres")

MYSQL_POSTGRES = pytest.param(("mysql", "postgres"), marks=[pytest.mark.mysql, pytest.mark.postgres], id="mysql-postgres")


@pytest.fixture(params=[MARIADB_POSTGRES])
def road(request: pytest.FixtureRequest, engines: Engines, tmp_path: Path) -> Iterator[AlignedRoad]:
    source, target = (engines.live(name) for name in request.param)
    into = "" if target.name == "duckdb" else target.url
    more = "summaries: live, rescan: 7d, partition: {size: 256}"
    made = AlignedRoad(tmp_path, source, TABLE, into, f"live_{next(_numbers)}", more)
    made.fill(KEYS)
    yield made
    made.close()


def source_reads(road: AlignedRoad) -> int:
    """How many rows of the table the source's server has read since it began."""
    condition = f"table_schema = '{road.database}' AND table_name = '{TABLE}'"
    return int((road.log.run(f"SELECT rows_read FROM information_schema.table_statistics WHERE {condition}") or [(0,)])[0][0])


def named(report: Report) -> list[tuple[str, str | None]]:
    assert report.differences is not None
    return [(one.kind, one.key["id"]) for one in report.differences.named]


def ranges(report: Report) -> int:
    assert report.differences is not None
    return len(report.differences.ranges)


def test_the_target_is_compared_with_the_stream_and_the_source_is_not_scanned(road: AlignedRoad) -> None:
    road.log.run("SET GLOBAL userstat = 1")
    with road.delivering():
        first = road.audit()
        assert (first.state, first.verdict) == (State.DONE, Verdict.MATCH), first.reasons
        assert first.live and first.aligned and first.live.place == first.aligned.position == first.live.began_place
        assert first.live.scanned == "the stream keeps no summaries of this table yet"
        assert first.verified_through == first.live.proved == first.aligned.time
        road.log.run(
            f"UPDATE {TABLE} SET price = price + 1 WHERE id < 10", f"UPDATE {TABLE} SET id = id + 100000 WHERE id > 2990",
            f"DELETE FROM {TABLE} WHERE id = 20", f"INSERT INTO {TABLE} VALUES (5000, 'new', 1)",
        )  # fmt: skip
        road_end(road)
        before = source_reads(road)
        assert before >= KEYS, "the first run scanned it"
        second = road.audit()
        assert (second.state, second.verdict) == (State.DONE, Verdict.MATCH), second.reasons
        assert (
            second.reasons[0] == f"the target equals the stream as of {second.live and second.live.place}; the source itself was not read"
        )
        assert second.live and not second.live.scanned and not second.aligned and second.live.place != first.live.place
        assert second.verified_through == first.verified_through, "what the log does not say is not known"
        assert (second.cost["source"].scan_bytes, second.cost["source"].seconds) == (0, 0.0)
        schema = road.schema
        road.execute(
            f"UPDATE {schema}.{TABLE} SET price = 7 WHERE id = 77", f"DELETE FROM {schema}.{TABLE} WHERE id = 1500",
            f"INSERT INTO {schema}.{TABLE} VALUES (1000000, 'more', 1)", f"INSERT INTO {schema}.{TABLE} VALUES (20, 'again', 1)",
        )  # fmt: skip
        third = road.audit()
        reads = source_reads(road) - before
    assert third.verdict is Verdict.MISMATCH and third.differences and third.differences.exact
    assert named(third) == [("extra", "20"), ("changed", "77"), ("missing", "1500"), ("extra", "1000000")] and not ranges(third)
    [changed] = (one for one in third.differences.named if one.kind == "changed")
    assert [(one.name, one.source, one.target) for one in changed.columns] == [("price", "1.00", "7.00")]
    road.log.run("SET GLOBAL userstat = 0")
    assert reads < 20, "rows are fetched by key alone"


def road_end(road: AlignedRoad) -> None:
    """Wait until the target holds what the log has now."""
    sums = live.find_sums(road.settings, road.store, AUDIT, road.settings.audits[AUDIT])
    assert not isinstance(sums, str) and sums.pass_end() == ""


def test_what_the_log_does_not_say_is_found_by_a_rescan_and_by_nothing_else(road: AlignedRoad) -> None:
    with road.delivering():
        assert road.audit().verdict is Verdict.MATCH
        road.log.run(
            "SET sql_log_bin = 0", f"UPDATE {TABLE} SET price = 9 WHERE id = 700", f"DELETE FROM {TABLE} WHERE id = 1701",
            f"INSERT INTO {TABLE} VALUES (3050, 'silent', 1), (7000, 'in a partition of its own', 1)", "SET sql_log_bin = 1",
            f"UPDATE {TABLE} SET price = 2 WHERE id = 3",
        )  # fmt: skip
        road_end(road)
        unseen = road.audit()
        assert unseen.verdict is Verdict.MATCH and unseen.live and not unseen.live.lost
        proved = unseen.live.proved
        rescan = running.run_audit(road.settings, AUDIT, store=road.store, overrides={"rescan": True})
        assert rescan.verdict is Verdict.MISMATCH and rescan.live and rescan.live.scanned == "a rescan was asked for", rescan.reasons
        found = sorted((one.kind, one.key["id"]) for one in rescan.live.lost)
        lost = [("changed", "700"), ("extra", "1701"), ("missing", "3050"), ("missing", "7000")]
        assert found == lost and not rescan.live.lost_partitions
        assert sorted(named(rescan)) == lost and not ranges(rescan) and not rescan.other_settings
        assert rescan.live.proved > proved and rescan.live.proved == rescan.aligned.time  # type: ignore[union-attr]
        after = road.audit()
        assert sorted(named(after)) == lost and not ranges(after), "the sums were set right, and the target was not"
        assert after.live and not after.live.scanned
        again = running.run_audit(road.settings, AUDIT, store=road.store, overrides={"rescan": True})
        assert again.live and again.live.scanned and not again.live.lost and sorted(named(again)) == lost


def test_a_row_that_moved_on_is_told_and_settled_by_its_events(road: AlignedRoad, monkeypatch: pytest.MonkeyPatch) -> None:
    with road.delivering():
        assert road.audit().verdict is Verdict.MATCH
        road.execute(f"UPDATE {road.schema}.{TABLE} SET price = 8 WHERE id IN (5, 6)")
        written, fetch = list[Work](), decoding.fetch_positions

        def write_then_fetch(work: Work, positions: Mapping[int, Sequence[int]]) -> object:
            if not written:
                written.append(work)
                road.log.run(f"UPDATE {TABLE} SET price = 3 WHERE id = 5")
            return fetch(work, positions)

        monkeypatch.setattr(decoding, "fetch_positions", write_then_fetch)
        found = road.audit()
    assert found.verdict is Verdict.MISMATCH and named(found) == [("changed", "6")] and found.differences
    assert found.live and found.live.moved == 1 and found.differences.cleared == 0


def test_why_there_is_no_comparison_with_the_stream(road: AlignedRoad) -> None:
    alone = running.run_audit(road.settings, AUDIT)
    assert alone.state is State.FAILED and alone.reasons == (
        "summaries: live needs the pipeline that keeps them: this run is not stored, so it cannot ask the pipeline",
    )
    pipelines.set_paused(road.store, PIPELINE, True)
    [paused] = road.audit().reasons
    assert paused == (
        "the stream keeps no summaries of this table yet, and the source is scanned for them only in line with it: the pipeline shop is"
        " paused; let it continue with: auditor pipeline unpause shop"
    )
    pipelines.set_paused(road.store, PIPELINE, False)
    with road.delivering():
        assert road.audit().verdict is Verdict.MATCH
        [epoch] = live_epochs.list_epochs(road.store, audit=AUDIT, lasting=True)
        live_epochs.end_epoch(road.store, epoch.id, "somebody ended it")
        again = road.audit()
        assert again.live and again.live.scanned == "the live summaries ended: somebody ended it" and again.verdict is Verdict.MATCH
        audit = road.settings.audits[AUDIT]
        road.settings.audits[AUDIT] = audit.model_copy(update={"partition": audit.partition.model_copy(update={"size": 128})})
        other = road.audit()
        assert other.live and other.live.scanned == "the live summaries ended: the audit asks for other partitions than range of 256 keys"
        assert other.plan and other.plan.partitioning.size == 128 and road.audit().live.scanned == ""  # type: ignore[union-attr]
        road.log.run(f"UPDATE {TABLE} SET price = 2 WHERE id = 3")
        road_end(road)
        road.execute(f"UPDATE {road.schema}.auditor_live_sums SET body = ''")
        broken = road.audit()
        assert broken.live and "they have to start again" in broken.live.scanned and broken.verdict is Verdict.MATCH
        road.log.run(f"UPDATE {TABLE} SET price = 3 WHERE id = 3")
        road_end(road)
        road.execute(f"DROP TABLE {road.schema}.auditor_live_sums")
        lost = road.audit()
        assert lost.live and lost.verdict is Verdict.MATCH
        assert lost.live.scanned.endswith(f"the target has no table {road.schema}.auditor_live_sums, which holds them")
    road.execute(f"ALTER TABLE {road.schema}.auditor_positions RENAME TO hidden")
    [hidden] = road.audit().reasons
    assert hidden.endswith(f"let the audit's user read {road.schema}.auditor_positions there")
    road.execute(f"ALTER TABLE {road.schema}.hidden RENAME TO auditor_positions")


def rows_read(road: AlignedRoad) -> int:
    """How many rows the source's statements have read."""
    [(_, count)] = road.log.run("SHOW GLOBAL STATUS LIKE 'Innodb_rows_read'")
    return int(count)


@pytest.mark.slow
@pytest.mark.parametrize("road", [MYSQL_POSTGRES], indirect=True)
def test_a_million_rows_cost_no_scan_of_the_source(road: AlignedRoad) -> None:
    digits = " CROSS JOIN ".join(f"({' UNION ALL '.join(f'SELECT {n} AS d' for n in range(10))}) AS t{place}" for place in range(6))
    number = " + ".join(f"t{place}.d * {10**place}" for place in range(6))
    many = f"SELECT n, CONCAT('item ', n), n % 997 FROM (SELECT {number} AS n FROM {digits}) AS numbers WHERE n >= {KEYS}"
    road.log.run("SET sql_log_bin = 0", f"INSERT INTO {TABLE} {many}", "SET sql_log_bin = 1")
    road.execute(f"INSERT INTO {road.schema}.{TABLE} {many}", "ANALYZE")
    road.log.run(f"ANALYZE TABLE {TABLE}")
    live = road.settings.audits[AUDIT]
    sizeless = live.partition.model_copy(update={"size": None})
    live = road.settings.audits[AUDIT] = live.model_copy(update={"partition": sizeless})
    road.settings.audits["full"] = live.model_copy(update={"summaries": None, "rescan": None, "align": None})
    with road.delivering():
        begun = road.audit()
        road.log.run(f"UPDATE {TABLE} SET price = price + 1 WHERE id % 1000 = 0")
        road_end(road)
    assert begun.verdict is Verdict.MATCH and begun.live, begun.reasons
    with proxied(road.source_url) as proxy:
        source = road.settings.connections["source"]
        road.settings.connections["source"] = source.model_copy(update={"url": proxy.url})
        for name in (AUDIT, "full"):
            before, proxy.log[:] = rows_read(road), []
            report = running.run_audit(road.settings, name, store=road.store)
            assert report.verdict is Verdict.MATCH, report.reasons
            scans = [text for _, text in proxy.log if b"AS partition_id" in text]
            assert bool(scans) == (name == "full"), "the source is scanned by the full audit alone"
            read = rows_read(road) - before
            assert (read >= MILLION) if name == "full" else (read < MILLION // 1000), f"{name}: the source read {read:,} rows"
        road.settings.connections["source"] = source
