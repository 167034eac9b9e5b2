"""Faults of every kind, at random batches, and what `auditor bisect` says of when they happened, and who it was."""

from __future__ import annotations

import html
import itertools
import json
import random
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from auditor.api import create_app
from auditor.api_models.bisection import Bisection, Parting
from auditor.cli import main
from auditor.connections.writer import open_writer
from auditor.history.stored_plan import load_plan
from auditor.model import Verdict
from auditor.pipeline import live
from auditor.pipeline.merge.loader import Loader
from auditor.report.formatting import moment
from auditor.run.live import running_sums
from auditor.run.live.ledger import Deviation, Entry, LedgerStatements, record
from auditor.service import bisection, running
from auditor.service.trace import Asked, trace
from auditor.sql.merge import MergeStatements
from auditor.store import live_epochs, tokens
from tests.api.conftest import make_client
from tests.live import Engines
from tests.pipeline.aligned_road import AUDIT, AlignedRoad

pytestmark = [pytest.mark.alone]
TABLE, KEYS, SIZE = "bisected", 400, 64
_numbers = itertools.count()

MYSQL_DUCKDB = pytest.param(("mysql", "duckdb"), marks=[pytest.mark.mysql, pytest.mark.duckdb, pytest.mark.slow], id="mysql-duckdb")
MARIADB_POSTGRES = pytest.param(("mariadb", "postgres"), marks=[pytest.mark.mariadb, pytest.mark.postgres], id="mariadb-postgres")


class Road(AlignedRoad):
    """A pipeline whose audit keeps a ledger, and whose batches this process merges one by one."""

    lost: int | None = None
    """The key whose events are lost before they are staged."""

    def read(self, reader: Any, part: Any) -> list[pa.RecordBatch]:
        found = super().read(reader, part)
        return found if self.lost is None else [without(batch, str(self.lost)) for batch in found]

    def begin(self) -> None:
        """Let the live summaries, and the ledger, begin."""
        with self.delivering():
            report = self.audit()
        self.loader = Loader(self.loader.where, "wh", self.settings.connections["warehouse"])  # the other one has been stopped
        assert report.verdict is Verdict.MATCH, report.reasons

    def batch(self, *statements: str) -> None:
        """Merge what some statements change, in one merge."""
        self.log.run(*statements)
        self.merge()

    def quiet(self, count: int) -> None:
        """Merge so many batches that do as they should, to keys of their own."""
        for number in range(count):
            self.batch(f"UPDATE {TABLE} SET price = price + 1, item = 'quiet {number}' WHERE id BETWEEN 300 AND 320")

    def check(self, *, rescan: bool = False) -> Verdict:
        """Run the audit, and return what it found."""
        with self.delivering():
            report = running.run_audit(self.settings, AUDIT, store=self.store, overrides={"rescan": True} if rescan else {})
        self.loader = Loader(self.loader.where, "wh", self.settings.connections["warehouse"])
        return report.verdict

    def bisect(self) -> Bisection:
        """What the ledger says."""
        return bisection.bisect(self.settings, self.store, AUDIT)

    def edit(self, *statements: str) -> None:
        """Change the target as somebody else does."""
        self.execute(*(statement.replace(TABLE, f"{self.schema}.{TABLE}") for statement in statements))

    def place(self) -> str:
        """Where the source's log ends."""
        return str(self.log.end())


@pytest.fixture(params=[MYSQL_DUCKDB, MARIADB_POSTGRES])
def road(request: pytest.FixtureRequest, engines: Engines, tmp_path: Path) -> Iterator[Road]:
    source, target = (engines.live(name) for name in request.param)
    into = "" if target.name == "duckdb" else target.url
    more = f"summaries: live, ledger: true, partition: {{size: {SIZE}}}"
    made = Road(tmp_path, source, TABLE, into, f"bisected_{next(_numbers)}", more)
    made.fill(KEYS)
    made.begin()
    yield made
    made.close()


def without(batch: pa.RecordBatch, key: str) -> pa.RecordBatch:
    """Return a batch without the events whose row has this key."""
    return batch.filter(pa.array([(row or [None])[0] != key for row in batch["after"].to_pylist()]))


def only(found: Bisection) -> Parting:
    assert len(found.partings) == 1, found
    return found.partings[0]


def in_one_merge(monkeypatch: pytest.MonkeyPatch, change: Callable[[MergeStatements, list[str]], list[str]]) -> None:
    """Let merges run other statements than they should, until the monkeypatch is undone."""
    right = MergeStatements.change

    def wrong(self: MergeStatements, bounds: object = ()) -> list[str]:
        return change(self, list(right(self, bounds)))  # type: ignore[arg-type]

    monkeypatch.setattr(MergeStatements, "change", wrong)


DROPS: dict[str, tuple[str, str]] = {
    "update": (f"UPDATE {TABLE} SET price = 77 WHERE id IN (5, 6)", "5"),
    "insert": (f"INSERT INTO {TABLE} VALUES (1000, 'one', 1), (1001, 'two', 1)", "1001"),
    "delete": (f"DELETE FROM {TABLE} WHERE id IN (130, 131)", "130"),
}


@pytest.mark.quick_for("update")
@pytest.mark.parametrize("kind", DROPS)
def test_a_merge_that_drops_a_row_is_named_with_its_first_event(road: Road, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    statement, key = DROPS[kind]
    before = random.randrange(1, 5)
    road.quiet(before)
    with monkeypatch.context() as patched:
        keep = MergeStatements.prepare

        def drop(self: MergeStatements, attempt: str, bounds: object = ()) -> list[str]:
            return [*keep(self, attempt, bounds), f"DELETE FROM {self.last} WHERE id = {key}"]  # type: ignore[arg-type]

        patched.setattr(MergeStatements, "prepare", drop)
        road.batch(statement)
    road.quiet(3)
    known = road.bisect()
    assert known.answer == "different", "the ledger knows it before any run"
    assert road.check() is Verdict.MISMATCH
    found = road.bisect()
    parting = only(found)
    assert (parting.cause, parting.keys, parting.lasts, found.exit_code) == ("merge", [key], True, 1), parting
    assert parting.batch and parting.batch.first == parting.batch.last
    numbers = [parting.batch.first]
    assert found.sentence.startswith(f"equal until batch {numbers[0] - 1:,}, unequal from batch {numbers[0]:,}: ")
    assert parting.first_event and parting.first_event.kind == kind and parting.first_event.place == parting.batch.through
    traced = trace(road.settings, road.store, AUDIT, Asked(hops=True))
    [row] = traced.rows
    merge = f"it was not applied by the merge of {moment(parting.batch.merged_at)} (batch {numbers[0]:,}), as the ledger says"
    assert (row.key["id"], row.hop) == (key, "merge") and merge in row.sentence, row
    assert [(hop.hops, hop.verdict) for hop in traced.hops] == [(["staging"], Verdict.UNKNOWN), (["merge"], Verdict.MISMATCH)]
    assert traced.hops[1].source == f"the stream of {road.name}" and traced.hops[1].position
    road.batch(f"REPLACE INTO {TABLE} VALUES ({key}, 'again', 5)")
    assert road.check() is Verdict.MATCH
    healed = road.bisect()
    assert (healed.answer, only(healed).lasts, only(healed).cause) == ("equal", False, "merge"), healed


def test_a_merge_that_writes_a_wrong_value_is_named(road: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    road.quiet(random.randrange(1, 5))
    with monkeypatch.context() as patched:
        in_one_merge(patched, lambda one, right: [*right, f"UPDATE {one.target} SET price = 9 WHERE id = 7"])
        road.batch(f"UPDATE {TABLE} SET price = 8 WHERE id IN (7, 200)")
    road.quiet(2)
    assert road.check() is Verdict.MISMATCH
    parting = only(road.bisect())
    assert (parting.cause, parting.keys) == ("merge", ["7"]) and parting.batch and parting.batch.version == "0.1.0"
    [row] = trace(road.settings, road.store, AUDIT, Asked()).rows
    merge = f"the merge of {moment(parting.batch.merged_at)} (batch {parting.batch.last:,}) did otherwise than the log says"
    assert row.hop == "merge" and "nor as any event before it that is kept: " + merge in row.sentence, row


def test_an_edit_of_the_target_lies_between_two_runs(road: Road) -> None:
    road.quiet(2)
    assert road.check() is Verdict.MATCH and road.bisect().answer == "equal" and road.bisect().exit_code == 0
    after = road.place()
    road.edit(f"UPDATE {TABLE} SET price = 5.5 WHERE id = 100")
    road.quiet(2)
    assert road.bisect().answer == "equal", "what others changed since the last run is not known, which the sentence says"
    assert road.check() is Verdict.MISMATCH
    through = road.place()
    found = road.bisect()
    parting = only(found)
    assert (parting.cause, parting.after, parting.through, parting.batch) == ("target", after, through, None), found
    [row] = trace(road.settings, road.store, AUDIT, Asked()).rows
    assert row.hop == "merge" and row.sentence.endswith("; auditor bisect says which of these, and when"), row
    road.batch(f"UPDATE {TABLE} SET price = 3 WHERE id = 100")
    healed = road.bisect()
    assert (healed.answer, only(healed).lasts) == ("equal", False), "the merge found the row that the run had found"
    assert road.check() is Verdict.MATCH and road.bisect().answer == "equal"


@pytest.mark.slow
def test_an_edited_row_that_a_merge_replaced_is_bounded_by_that_merge(road: Road) -> None:
    assert road.check() is Verdict.MATCH
    after = road.place()
    road.edit(f"UPDATE {TABLE} SET price = 5.5 WHERE id = 100")
    road.quiet(1)
    road.batch(f"UPDATE {TABLE} SET price = 3 WHERE id = 100")
    by = road.place()
    waiting = road.bisect()
    assert waiting.answer == "unknown" and waiting.exit_code == 3 and "next run tells which" in waiting.why
    road.quiet(1)
    assert road.check() is Verdict.MATCH
    found = road.bisect()
    parting = only(found)
    assert (found.answer, parting.cause, parting.after, parting.through, parting.lasts) == ("equal", "target", after, by, False), found


def test_a_change_without_the_log_is_known_by_a_rescan_and_by_the_merge_that_came_upon_it(road: Road) -> None:
    road.quiet(1)
    road.log.run("SET sql_log_bin = 0", f"UPDATE {TABLE} SET price = 9 WHERE id IN (70, 150)", "SET sql_log_bin = 1")
    road.quiet(1)
    road.batch(f"UPDATE {TABLE} SET price = 10 WHERE id = 150")
    assert road.bisect().answer == "unknown"
    assert road.check() is Verdict.MISMATCH, "the stream's sums lack the change, although the target is right"
    told = only(road.bisect())
    assert (told.cause, told.lasts) == ("log", True) and told.batch is not None
    assert road.check(rescan=True) is Verdict.MISMATCH
    found = road.bisect()
    assert [(one.cause, one.lasts) for one in found.partings] == [("log", False), ("log", True)] or [
        (one.cause, one.lasts) for one in found.partings
    ] == [("log", True), ("log", False)], found
    road.batch(f"UPDATE {TABLE} SET price = 11 WHERE id = 70")
    assert road.check() is Verdict.MATCH and road.bisect().answer == "equal"


def test_why_it_cannot_be_told(road: Road) -> None:
    road.quiet(2)
    ledger = f"{road.schema}.auditor_ledger"
    [(second,)] = road.query(f"SELECT MAX(place) FROM {ledger}")
    road.execute(f"UPDATE {ledger} SET place = place + 1 WHERE place = {second}")
    damaged = road.bisect()
    assert (damaged.answer, damaged.exit_code) == ("unknown", 3) and "is not what was written" in damaged.why
    road.execute(f"DELETE FROM {ledger}")
    assert "the ledger ends at" in road.bisect().why
    road.quiet(1)
    assert "the ledger is missing what was merged after" in road.bisect().why
    [epoch] = live_epochs.list_epochs(road.store, lasting=True)
    live_epochs.end_ledger(road.store, epoch.id, "somebody ended it")
    assert road.bisect().why == "the ledger ended: somebody ended it; begin another one: auditor run aligned --rescan"
    assert road.check(rescan=True) is Verdict.MATCH
    assert road.bisect().answer == "equal" and road.bisect().batches == 0
    audit = road.settings.audits[AUDIT]
    road.settings.audits[AUDIT] = audit.model_copy(update={"ledger": False})
    assert road.bisect().why == bisection.NOT_ASKED
    road.settings.audits[AUDIT] = audit
    [epoch] = live_epochs.list_epochs(road.store, lasting=True)
    live_epochs.end_epoch(road.store, epoch.id, "somebody ended them")
    assert "the live summaries ended, and the ledger with them: somebody ended them" in road.bisect().why


@pytest.mark.slow
def test_a_ledger_that_cannot_be_kept_ends_and_the_merge_is_done(road: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(MergeStatements, "touched", lambda *_: ["no_such_table AS touched"])
        road.batch(f"UPDATE {TABLE} SET price = 12 WHERE id < 10")
    assert road.query(f"SELECT COUNT(*) FROM {road.schema}.{TABLE} WHERE price = 12") == [(10,)]
    assert "the ledger ended: a merge could not read the target's rows for it" in road.bisect().why
    assert road.check() is Verdict.MATCH
    sums = live.find_sums(road.settings, road.store, AUDIT, road.settings.audits[AUDIT])
    assert not isinstance(sums, str)
    epoch = sums.current()
    assert epoch and epoch.state == "kept", "the live summaries go on"


MANY = 100_000
"""Batches of a ledger that is searched."""


@pytest.mark.slow
@pytest.mark.parametrize("road", [MARIADB_POSTGRES], indirect=True)
def test_a_hundred_thousand_batches_are_searched_without_a_scan(road: Road) -> None:
    road.quiet(1)
    road.batch(*(f"UPDATE {TABLE} SET item = 'more {number}'" for number in range(8)))
    ledger = f"{road.schema}.auditor_ledger"
    [epoch] = live_epochs.list_epochs(road.store, lasting=True)
    [(end,)] = road.query(f"SELECT MAX(place) FROM {ledger}")
    step = (int(end) - epoch.position) // MANY
    assert step > 0
    places = [epoch.position + step * number for number in range(MANY)] + [int(end)]
    plan = load_plan(json.dumps(dict(epoch.plan)).encode())
    assert plan is not None
    wrong = running_sums.of(np.array([1]), np.array([-1]), np.array([[-5, -7]]), np.zeros((1, 2 * plan.t - 1), np.int64))
    body = record(Deviation(wrong, running_sums.none(2, 2 * plan.t - 1)))
    guilty = random.randrange(MANY)
    entries = [
        Entry(epoch.id, before, after, "2026-11-29T03:12:04.000+00:00", "0.0.9", body=body if number == guilty else "")
        for number, (before, after) in enumerate(pairwise(places))
    ]
    with open_writer("warehouse", road.settings.connections["warehouse"]) as session:
        statements = LedgerStatements(session.dialect, road.schema)
        session.execute(statements.forget(epoch.id))
        begin = statements.write(entries[0])[0].partition("VALUES")[0]
        for first in range(0, MANY, 5000):
            values = [statements.write(entry)[0].partition("VALUES")[2] for entry in entries[first : first + 5000]]
            session.execute(f"{begin}VALUES {', '.join(values)}")
    began = time.monotonic()
    found = road.bisect()
    print(f"{MANY:,} batches: {time.monotonic() - began:.1f} s")
    parting = only(found)
    assert found.batches == MANY and parting.batch and (parting.batch.first, parting.batch.version) == (guilty + 1, "0.0.9")


def drop_in_merge(monkeypatch: pytest.MonkeyPatch, key: int) -> None:
    """Let merges drop the changes of a key, until the monkeypatch is undone."""
    keep = MergeStatements.prepare

    def drop(self: MergeStatements, attempt: str, bounds: object = ()) -> list[str]:
        return [*keep(self, attempt, bounds), f"DELETE FROM {self.last} WHERE id = {key}"]  # type: ignore[arg-type]

    monkeypatch.setattr(MergeStatements, "prepare", drop)


def spoil(road: Road, kind: str, key: int) -> None:
    """Let the row of a key go wrong in some way, in one batch or beside them."""
    changed = f"UPDATE {TABLE} SET price = price + 5, item = 'last' WHERE id IN ({key}, 300)"
    with pytest.MonkeyPatch.context() as patched:
        match kind:
            case "update dropped" | "delete dropped" | "insert dropped":
                drop_in_merge(patched, key)
                statements = {"update": changed, "delete": f"DELETE FROM {TABLE} WHERE id IN ({key}, 299)"}
                road.batch(
                    statements.get(kind.partition(" ")[0], f"INSERT INTO {TABLE} VALUES ({key + 100_000}, 'new', 1), ({key}, 'new', 1)")
                )
            case "written wrongly":
                in_one_merge(patched, lambda one, right: [*right, f"UPDATE {one.target} SET price = 9.75 WHERE id = {key}"])
                road.batch(changed)
            case "edited":
                road.edit(f"UPDATE {TABLE} SET price = 5.25 WHERE id = {key}")
            case "deleted by others":
                road.edit(f"DELETE FROM {TABLE} WHERE id = {key}")
            case "not in the log":
                road.log.run("SET sql_log_bin = 0", f"UPDATE {TABLE} SET price = 9.25 WHERE id = {key}", "SET sql_log_bin = 1")
            case "not staged":
                road.lost = key
                road.batch(changed)
                road.lost = None


KINDS = {
    "update dropped": ("merge", "merge"), "insert dropped": ("merge", "merge"), "delete dropped": ("merge", "merge"),
    "written wrongly": ("merge", "merge"), "edited": ("target", "merge"), "deleted by others": ("target", "merge"),
    "not in the log": ("log", "log"), "not staged": ("log", "staging"),
}  # fmt: skip
"""What bisect says was the cause, and trace at which hop the row was lost, by what went wrong."""

BATCHES, LONG = 64, 10_000


@pytest.mark.slow
@pytest.mark.parametrize("road", [MARIADB_POSTGRES], indirect=True)
def test_each_fault_at_a_random_batch_of_a_long_chain_is_named(
    road: Road, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each in turn, in a chain of thousands of batches with ``--deep``; it is mended before the next one."""
    batches, chance = LONG if request.config.option.deep else BATCHES, random.Random(49)
    faults = len(KINDS) * (3 if request.config.option.deep else 1)
    places = sorted(chance.sample(range(2, batches - 2), faults))
    began, done = time.monotonic(), 0
    assert road.check() is Verdict.MATCH
    for number, (place, kind) in enumerate(zip(places, itertools.cycle(KINDS), strict=False)):
        cause, hop = KINDS[kind]
        key = 10_000 + number if kind == "insert dropped" else chance.randrange(200)
        road.quiet(max(0, place - done))
        assert road.check() is Verdict.MATCH, kind
        last, known = road.place(), road.bisect().batches
        before = chance.randrange(3)
        road.quiet(before)
        spoil(road, kind, key)
        road.quiet(chance.randrange(1, 3))
        assert road.check(rescan=cause == "log") is Verdict.MISMATCH, kind
        lasting = [parting for parting in road.bisect().partings if parting.lasts]
        assert [parting.cause for parting in lasting] == [cause], (kind, lasting)
        [parting] = lasting
        if cause == "merge":
            assert parting.keys == [str(key)], (kind, parting)
            assert parting.batch and parting.batch.first == parting.batch.last == known + before + 1, (kind, known, before, parting)
        elif cause == "target":
            assert (parting.after, parting.through, parting.batch) == (last, road.place(), None), (kind, parting)
        [row] = trace(road.settings, road.store, AUDIT, Asked()).rows
        assert (row.key["id"], row.outcome, row.hop) == (str(key), "lost", hop), (kind, row)
        road.batch(f"REPLACE INTO {TABLE} VALUES ({key}, 'mended', {number})")  # never with what is there, which would not be logged
        assert road.check() is Verdict.MATCH, kind
        done = place + before
    with capsys.disabled():
        print(f"\n{faults} faults of {len(KINDS)} kinds in {road.bisect().batches:,} batches: {time.monotonic() - began:,.0f} s")


@pytest.mark.parametrize("road", [MARIADB_POSTGRES], indirect=True)
def test_the_command_the_api_and_the_page_say_the_same(road: Road, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["bisect", AUDIT, "--config", str(road.config_file)]
    road.quiet(1)
    assert main(asked) == 0
    assert capsys.readouterr().out.startswith("EQUAL  aligned: the target equals the source's log: the last run found no difference as of ")
    road.edit(f"DELETE FROM {TABLE} WHERE id = 64")
    assert road.check() is Verdict.MISMATCH
    assert main([*asked, "--format", "json"]) == 1
    found = Bisection.from_json(capsys.readouterr().out)
    assert found == road.bisect() and only(found).cause == "target"
    assert main(asked) == 1
    out = capsys.readouterr().out
    assert "others changed rows in the target between " in out and f"in keys {SIZE} to {2 * SIZE - 1}" in out
    secret = tokens.create_token(road.store, name="reader", scope="read")
    with make_client(create_app(road.settings, road.store), headers={"Authorization": f"Bearer {secret}"}) as client:
        assert Bisection.from_json(client.get(f"/api/v1/audits/{AUDIT}/bisection").raise_for_status().text) == found
        assert f'href="/audits/{AUDIT}/bisection"' in client.get(f"/audits/{AUDIT}").raise_for_status().text
        page = html.unescape(client.get(f"/audits/{AUDIT}/bisection").raise_for_status().text)
        assert found.sentence[1:] in page and '<span class="tag">lasts</span>' in page
        road.execute(f"DROP TABLE {road.schema}.auditor_ledger")
        assert "it cannot be told, because the target has no table" in client.get(f"/audits/{AUDIT}/bisection").text.replace("It", "it")
    assert main(asked) == 3 and "it cannot be told, because the target has no table" in capsys.readouterr().out
