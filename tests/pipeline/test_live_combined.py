"""Live summaries together with masks, tolerances and runs that end early: what is compared, or why not."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from auditor.errors import NotResumable
from auditor.model import Report, State, Verdict
from auditor.pipeline import live
from auditor.report import json as report_json
from auditor.run.live import comparison
from auditor.service import running, stored_runs
from auditor.store import live_epochs
from tests.live import Engines
from tests.pipeline.aligned_road import AUDIT, AlignedRoad

pytestmark = [pytest.mark.alone, pytest.mark.mariadb, pytest.mark.postgres]
TABLE, KEYS = "live_combined", 600
_numbers = itertools.count()


@contextmanager
def carried(engines: Engines, folder: Path, more: str = "", columns: str = "{}") -> Iterator[AlignedRoad]:
    """A pipeline that delivers for the block, and an audit by live summaries of its table."""
    about = (TABLE, engines.live("postgres").url, f"combined_{next(_numbers)}", f"summaries: live, partition: {{size: 64}}{more}")
    with closing(AlignedRoad(folder, engines.live("mariadb"), *about, columns=columns)) as made:
        made.fill(KEYS)
        with made.delivering():
            yield made


def arrive(road: AlignedRoad) -> None:
    sums = live.find_sums(road.settings, road.store, AUDIT, road.settings.audits[AUDIT])
    assert not isinstance(sums, str) and sums.pass_end() == ""


def live_audit(road: AlignedRoad) -> Report:
    found = road.audit()
    assert found.state is State.DONE and found.live and not found.live.scanned, found.reasons
    return found


def named(report: Report) -> list[tuple[str, str | None]]:
    assert report.differences is not None
    return [(one.kind, one.key["id"]) for one in report.differences.named]


@pytest.mark.slow
def test_values_of_a_masked_column_are_compared_and_not_shown(engines: Engines, tmp_path: Path) -> None:
    with carried(engines, tmp_path, ", columns: {override: {item: {mask: true}}}") as road:
        assert road.audit().verdict is Verdict.MATCH
        road.log.run(f"UPDATE {TABLE} SET item = CONCAT('hush ', id) WHERE id < 90")
        arrive(road)
        assert live_audit(road).verdict is Verdict.MATCH
        road.execute(f"UPDATE {road.schema}.{TABLE} SET item = 'secret' WHERE id = 7")
        found = live_audit(road)
    assert named(found) == [("changed", "7")] and found.differences
    assert [one.name for one in found.differences.named[0].columns] == ["item"]
    assert not any(text in report_json.report(found).to_json() for text in ("hush", "secret"))


def test_a_column_that_the_pipeline_masks_is_left_out_of_the_audit(engines: Engines, tmp_path: Path) -> None:
    with carried(engines, tmp_path, ", columns: {exclude: [item]}", columns=f"{{{TABLE}: {{mask: [item]}}}}") as road:
        assert road.audit().verdict is Verdict.MATCH
        road.log.run(f"UPDATE {TABLE} SET item = 'other', price = 3 WHERE id < 90")
        arrive(road)
        assert live_audit(road).verdict is Verdict.MATCH
        road.execute(f"UPDATE {road.schema}.{TABLE} SET item = 'not compared', price = 4 WHERE id = 7")
        assert named(live_audit(road)) == [("changed", "7")]


@pytest.mark.slow
def test_a_deviation_within_the_tolerance_is_no_difference(engines: Engines, tmp_path: Path) -> None:
    with carried(engines, tmp_path, ", columns: {override: {price: {tolerance: {absolute: 0.05}}}}") as road:
        assert road.audit().verdict is Verdict.MATCH
        road.log.run(f"UPDATE {TABLE} SET price = id / 8 WHERE id < 90", f"DELETE FROM {TABLE} WHERE id = 50")
        arrive(road)
        assert live_audit(road).verdict is Verdict.MATCH
        table = f"{road.schema}.{TABLE}"
        road.execute(f"UPDATE {table} SET price = price + 0.04 WHERE id IN (6, 7)", f"UPDATE {table} SET price = 99 WHERE id = 9")
        found = live_audit(road)
        assert found.verdict is Verdict.MISMATCH and named(found) == [("changed", "9")]
        road.execute(f"UPDATE {table} SET price = price + 0.04 WHERE id BETWEEN 10 AND 40", f"UPDATE {table} SET price = 1.12 WHERE id = 9")
        many = live_audit(road)
        assert many.verdict is Verdict.UNKNOWN and many.reasons[-1] == (
            "the rows that differ may all be within their tolerances, which only a check of each shows: auditor run aligned --rescan"
        )
        settled = running.run_audit(road.settings, AUDIT, store=road.store, overrides={"rescan": True})
    assert settled.verdict is Verdict.MATCH and settled.live and settled.live.scanned == "a rescan was asked for", settled.reasons


def test_a_run_that_ended_early_is_not_resumed(engines: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with carried(engines, tmp_path) as road:

        def refuse(report: Report) -> None:
            assert report.state is State.CANCELLED and not report.resumable
            with pytest.raises(NotResumable, match=r"cannot be resumed: it stored nothing to go on from, or that no longer holds; start"):
                stored_runs.resume(road.settings, road.store, report.run)

        with monkeypatch.context() as patch:
            patch.setattr(comparison, "compare_scan", interrupt)
            refuse(road.audit())
        [ended] = live_epochs.list_epochs(road.store, audit=AUDIT)
        assert (ended.state, ended.reason) == ("ended", "the run that scanned the source for them failed")
        begun = road.audit()
        assert (
            begun.verdict is Verdict.MATCH
            and begun.live
            and begun.live.scanned.startswith("the live summaries ended: the run that scanned")
        )
        road.log.run(f"UPDATE {TABLE} SET price = 3 WHERE id < 90")
        arrive(road)
        with monkeypatch.context() as patch:
            patch.setattr(comparison, "compare", interrupt)
            refuse(road.audit())
        assert live_audit(road).verdict is Verdict.MATCH, "the sums go on as they were"
