"""Audits of lake tables by the sums that the stream keeps of their source and those of the lake's files: nothing is scanned."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from auditor.errors import ConfigError
from auditor.model import Plan, Report, State, Verdict
from auditor.pipeline import live
from auditor.pipeline.merge import live_sums
from auditor.pipeline.merge.loader import Loader
from auditor.pipeline.merge.merge_by_commits import mark_names
from auditor.points import armed
from auditor.run.file_summaries import FileSummaries
from auditor.run.live.running_sums import Link
from auditor.service import planning, running
from auditor.store import live_epochs
from tests import icebergs
from tests.live import Engines
from tests.pipeline.aligned_road import AUDIT, AlignedRoad
from tests.pipeline.live_summing import Killed

pytestmark = [pytest.mark.alone, pytest.mark.mariadb]
TABLE, KEYS, SIZE = "lake_orders", 600, 64


class LakeRoad(AlignedRoad):
    """A pipeline of one table into a lake, and an audit of it with live summaries."""

    def __init__(self, folder: Path, engines: Engines, lake: str, more: str = "", source: str = "mariadb") -> None:
        self.lake = folder / "lake"
        self.lake.mkdir()
        url = icebergs.url_of(self.lake) if lake == "iceberg" else f"{lake}://{self.lake}"
        kept = f"summaries: live, partition: {{size: {SIZE}}}{more}"
        super().__init__(folder, engines.live(source), TABLE, url, "sales", kept)

    def damage(self, changed: Sequence[int] = (), gone: Sequence[int] = (), more: Sequence[int] = ()) -> None:
        """Do to rows of the target what another writer of the table does."""
        keys = ", ".join(map(str, (*changed, *gone)))
        if self.query_dialect == "delta":
            found = DeltaTable(self.lake / self.schema / TABLE)
            if changed:
                price = "CAST('7.77' AS DECIMAL(12, 2))"
                found.update(updates={"price": price}, predicate=f"id IN ({', '.join(map(str, changed))})")
            if gone:
                found.delete(f"id IN ({', '.join(map(str, gone))})")
            if more:
                write_deltalake(self.lake / self.schema / TABLE, self._rows(more), mode="append")
            return
        table = icebergs.open_catalog(self.lake).load_table((self.schema, TABLE))
        if keys:
            table.overwrite(self._rows(changed), f"id IN ({keys})")
        if more:
            table.append(self._rows(more))

    def make_again(self, changed: int) -> int:
        """Make a Delta table anew with the same rows but one, as many versions and the same position; return its last version."""
        path = self.lake / self.schema / TABLE
        found = DeltaTable(path)
        rows, version = pa.table(found.to_pyarrow_table()), found.version()
        marks = [Transaction(name, found.transaction_version(name) or 0) for name in mark_names(self.name, f"{self.database}.{TABLE}")]
        assert all(mark.version for mark in marks)
        shutil.rmtree(path)
        for _ in range(version):
            write_deltalake(path, rows, mode="overwrite")
        damaged = pc.if_else(pc.equal(rows["id"], changed), pa.scalar(Decimal("7.77"), rows["price"].type), rows["price"])
        rows = rows.set_column(rows.column_names.index("price"), "price", damaged)
        write_deltalake(path, rows, mode="overwrite", commit_properties=CommitProperties(app_transactions=marks))
        return DeltaTable(path).version()

    @staticmethod
    def _rows(keys: Sequence[int]) -> pa.Table:
        prices = pa.array([Decimal("7.77")] * len(keys), pa.decimal128(12, 2))
        return pa.table({"id": pa.array(keys, pa.int32()), "item": pa.array([f"item {key}" for key in keys], pa.string()), "price": prices})

    def catch_up(self) -> None:
        """Wait until the target holds what the log has now."""
        sums = live.find_sums(self.settings, self.store, AUDIT, self.settings.audits[AUDIT])
        assert not isinstance(sums, str) and sums.pass_end() == ""

    def versions(self) -> int:
        """How many versions the target's table has."""
        if self.query_dialect == "delta":
            return DeltaTable(self.lake / self.schema / TABLE).version() + 1
        return len(icebergs.open_catalog(self.lake).load_table((self.schema, TABLE)).snapshots())

    def start_loader(self) -> None:
        """Let a new loader merge, in the place of the one that was there."""
        self.loader.close()
        self.loader = Loader(self.loader.where, "wh", self.settings.connections["warehouse"])

    def links(self) -> int:
        """How many links the store has."""
        [epoch] = live_epochs.list_epochs(self.store, lasting=True)
        return len(live_epochs.list_links(self.store, epoch.id))

    def leave_link(self) -> None:
        """Store a link as a loader does whose commit is never made."""
        [epoch] = live_epochs.list_epochs(self.store, lasting=True)
        last = live_epochs.list_links(self.store, epoch.id)[-1].place
        left = Link(epoch.id, epoch.layout, last, last + 1_000_000, "", "")
        live_epochs.add_link(self.store, live_epochs.StoredLink(**_fields(left), digest=left.digest))

    def close(self) -> None:
        """Close everything; the lake is a folder of the test."""
        self.loader.close()
        self.store.close()


PARQUET = pytest.param("parquet", marks=[pytest.mark.parquet, pytest.mark.slow], id="parquet")
LAKES = [pytest.param(name, marks=getattr(pytest.mark, name), id=name) for name in ("delta", "iceberg")]


@pytest.fixture(params=LAKES)
def road(request: pytest.FixtureRequest, engines: Engines, tmp_path: Path) -> Iterator[LakeRoad]:
    made = LakeRoad(tmp_path, engines, request.param, ", files: kept")
    made.fill(KEYS)
    yield made
    made.close()


def die() -> None:
    raise Killed


def named(report: Report) -> list[tuple[str, str | None]]:
    assert report.differences is not None and not report.differences.ranges
    return [(one.kind, one.key["id"]) for one in report.differences.named]


def is_live(report: Report) -> bool:
    """Whether a run compared with the sums; it scanned the source else, as both sides stood at one position."""
    assert report.live is not None and report.state is State.DONE, report.reasons
    assert bool(report.live.scanned) == bool(report.aligned)
    return not report.live.scanned


def test_neither_side_is_scanned_and_what_others_wrote_is_named(road: LakeRoad) -> None:
    with road.delivering():
        first = road.audit()
        assert first.verdict is Verdict.MATCH and not is_live(first), first.reasons
        assert first.aligned and first.live and first.live.place == first.aligned.position
        assert first.files["target"].read == first.files["target"].files
        road.log.run(
            f"UPDATE {TABLE} SET price = price + 1 WHERE id < 10", f"UPDATE {TABLE} SET id = id + 100000 WHERE id > 590",
            f"DELETE FROM {TABLE} WHERE id = 20", f"INSERT INTO {TABLE} VALUES (5000, 'new', 1)",
        )  # fmt: skip
        road.catch_up()
        second = road.audit()
        assert second.verdict is Verdict.MATCH and is_live(second), second.reasons
        assert second.reasons[0].endswith("the source itself was not read")
        assert (second.cost["source"].scan_bytes, second.cost["source"].seconds) == (0, 0.0)
        planned = planning.make_plan(road.settings, AUDIT, road.settings.audits[AUDIT], road.store)
        assert planned.notes[-1] == planning.LIVE_SUMMARIES_COST and "target" in planned.files
        again, versions = road.audit(), road.versions()
        assert again.verdict is Verdict.MATCH and is_live(again)
        assert (again.files["target"].read, again.files["target"].read_bytes) == (0, 0), "no file is new"
        road.damage(changed=[77], gone=[300], more=[20, 1_000_000])
        third = road.audit()
        assert third.verdict is Verdict.MISMATCH and is_live(third)
        assert named(third) == [("extra", "20"), ("changed", "77"), ("missing", "300"), ("extra", "1000000")]
        [changed] = (one for one in third.differences.named if one.kind == "changed")  # type: ignore[union-attr]
        assert [(one.name, one.source, one.target) for one in changed.columns] == [("price", "1.00", "7.77")]
    assert road.versions() > versions and road.links()


@pytest.mark.slow
@pytest.mark.parametrize("road", LAKES[:1], indirect=True)
def test_a_table_that_is_made_anew_while_it_is_audited_is_read_again(road: LakeRoad, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the same version and states the same position: what the run has read of the table before says nothing of it."""
    follow, made = FileSummaries.follow, list[int]()

    def replaced(self: FileSummaries, *given: Any) -> Plan:
        plan = follow(self, *given)
        if not made:
            made.append(road.make_again(changed=77))
        return plan

    with road.delivering():
        assert road.audit().verdict is Verdict.MATCH
        assert is_live(road.audit())
    monkeypatch.setattr(FileSummaries, "follow", replaced)
    report = road.audit()
    assert made and report.verdict is not Verdict.MATCH, report.reasons
    assert report.verdict is Verdict.UNKNOWN or named(report) == [("changed", "77")]
    again = road.audit()
    assert again.verdict is Verdict.MISMATCH and named(again) == [("changed", "77")], again.reasons


@pytest.mark.slow
@pytest.mark.parametrize("road", LAKES[:1], indirect=True)
def test_what_the_log_does_not_say_is_found_by_a_rescan(road: LakeRoad) -> None:
    with road.delivering():
        assert road.audit().verdict is Verdict.MATCH
        road.log.run(
            "SET sql_log_bin = 0", f"UPDATE {TABLE} SET price = 9 WHERE id = 100", "SET sql_log_bin = 1",
            f"UPDATE {TABLE} SET price = 2 WHERE id = 3",
        )  # fmt: skip
        road.catch_up()
        unseen = road.audit()
        assert unseen.verdict is Verdict.MATCH and is_live(unseen)
        rescan = running.run_audit(road.settings, AUDIT, store=road.store, overrides={"rescan": True})
        assert not is_live(rescan) and named(rescan) == [("changed", "100")]
        assert rescan.files["target"].read == rescan.files["target"].files
        after = road.audit()
        assert is_live(after) and named(after) == [("changed", "100")], "the sums were set right, and the target was not"


@pytest.mark.parametrize("point", ["merge.commit", pytest.param("merge.committed", marks=pytest.mark.slow), "merge.report"])
@pytest.mark.parametrize("road", LAKES[:1], indirect=True)
def test_a_loader_that_dies_beside_a_commit_leaves_sums_that_fit(road: LakeRoad, point: str) -> None:
    with road.delivering():
        assert road.audit().verdict is Verdict.MATCH
    road.log.run(f"UPDATE {TABLE} SET price = 5 WHERE id < 50")
    road.stage()
    road.start_loader()
    with pytest.raises(Killed), armed(point, die):
        road.loader.merge_all()
    road.start_loader()
    with road.delivering():
        road.log.run(f"DELETE FROM {TABLE} WHERE id = 8")
        road.catch_up()
        report = road.audit()
        assert report.verdict is Verdict.MATCH and is_live(report), report.reasons


@pytest.mark.parametrize("road", LAKES[1:], indirect=True)
def test_links_are_folded_and_a_missing_one_ends_the_sums(road: LakeRoad, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_sums, "MOST_ROWS", 6)
    monkeypatch.setattr(live_sums, "UNFOLDED", 2)
    with road.delivering():
        assert road.audit().verdict is Verdict.MATCH
    road.start_loader()
    for number in range(1, 13):
        road.log.run(f"UPDATE {TABLE} SET price = {number + 5} WHERE id < {number}")
        road.merge()
        if number == 3:
            road.leave_link()
        assert 0 < road.links() <= 6
    with road.delivering():
        report = road.audit()
        assert report.verdict is Verdict.MATCH and is_live(report), report.reasons
        [epoch] = live_epochs.list_epochs(road.store, lasting=True)
        last = live_epochs.list_links(road.store, epoch.id)[-1]
        live_epochs.fold_links(road.store, live_epochs.StoredLink(**{**_fields(last), "previous": last.previous + 1}))
        lost = road.audit()
        assert lost.verdict is Verdict.MATCH and not is_live(lost)
        assert "not what was written" in lost.live.scanned  # type: ignore[union-attr]
        assert is_live(road.audit())


def _fields(link: live_epochs.StoredLink | Link) -> dict[str, Any]:
    return {name: getattr(link, name) for name in link.__slots__}


@pytest.mark.parametrize("road", [PARQUET], indirect=True)
def test_parquet_with_a_pointer_says_where_it_stands(road: LakeRoad) -> None:
    with road.delivering():
        assert not is_live(road.audit())
        road.log.run(f"UPDATE {TABLE} SET price = price + 1 WHERE id < 10")
        road.catch_up()
        report = road.audit()
        assert report.verdict is Verdict.MATCH and is_live(report), report.reasons


@pytest.mark.delta
def test_a_lake_is_scanned_beside_the_sums_of_its_source_where_no_sums_of_files_are_kept(engines: Engines, tmp_path: Path) -> None:
    road = LakeRoad(tmp_path, engines, "delta")
    road.fill(KEYS)
    with road.delivering():
        assert not is_live(road.audit())
        road.damage(changed=[77])
        report = road.audit()
        assert is_live(report) and named(report) == [("changed", "77")] and not report.files
    road.close()


@pytest.mark.slow
@pytest.mark.parametrize("road", LAKES[:1], indirect=True)
def test_a_table_that_the_source_emptied_is_scanned_again(road: LakeRoad) -> None:
    road.notes = True
    with road.delivering():
        assert road.audit().verdict is Verdict.MATCH
        road.log.run(f"TRUNCATE TABLE {TABLE}", f"INSERT INTO {TABLE} VALUES (1, 'alone', 1)")
        road.catch_up()
        report = road.audit()
        assert report.verdict is Verdict.MATCH and not is_live(report)
        assert report.live and "the source emptied the table" in report.live.scanned
        assert is_live(road.audit())


@pytest.mark.delta
def test_a_ledger_is_refused_which_commits_have_no_room_for(engines: Engines, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="are written by commits of single tables, which have no room for a ledger; remove ledger"):
        LakeRoad(tmp_path, engines, "delta", ", ledger: true")


@pytest.mark.slow
@pytest.mark.parametrize("source", [pytest.param(name, marks=getattr(pytest.mark, name), id=name) for name in ("mysql", "mariadb")])
@pytest.mark.parametrize("lake", LAKES)
def test_random_statements_and_damage_are_told_apart(engines: Engines, tmp_path: Path, lake: str, source: str) -> None:
    drawn = random.Random(f"{source} {lake}")
    road = LakeRoad(tmp_path, engines, lake, ", files: kept", source)
    road.fill(KEYS)
    wrong: dict[int, str] = {}
    alive, runs = set(range(KEYS)), 0
    with road.delivering():
        road.audit()
        for number in range(40):
            written = []
            for key in drawn.sample([key for key in range(KEYS) if key not in wrong], drawn.randint(1, 30)):
                if drawn.random() < 0.2:
                    written.append(f"DELETE FROM {TABLE} WHERE id = {key}")
                    alive.discard(key)
                else:
                    written.append(f"REPLACE INTO {TABLE} VALUES ({key}, 'item {drawn.random()}', {drawn.randint(10, 90)})")
                    alive.add(key)
            road.log.run(*written)
            road.catch_up()
            full = {
                part for part, count in Counter(key // SIZE for key in wrong).items() if count == 3
            }  # what the sums of a partition name
            if drawn.random() < 0.4:
                key = drawn.choice(sorted(key for key in alive - wrong.keys() if key // SIZE not in full))
                wrong[key] = drawn.choice(["changed", "missing"])
                road.damage(changed=[key] * (wrong[key] == "changed"), gone=[key] * (wrong[key] == "missing"))
            overrides = {"rescan": True} if drawn.random() < 0.15 else {}
            report = running.run_audit(road.settings, AUDIT, store=road.store, overrides=overrides)
            runs += 1
            assert report.verdict is (Verdict.MISMATCH if wrong else Verdict.MATCH), (number, report.reasons)
            if wrong:
                assert named(report) == [(kind, str(key)) for key, kind in sorted(wrong.items())], number
    assert runs == 40 and len(wrong) > 5
    road.close()
