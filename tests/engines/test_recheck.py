"""Rechecking differences: which are confirmed, cleared, unsettled or in flight; and fetching rows by their keys."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

import duckdb
import pytest

from auditor.config import Audit, ConnectionSettings, Recheck
from auditor.connections.reader import Reader
from auditor.model import SIDES, Difference, Differences, RangeDifference, Side
from auditor.planning import build
from auditor.run import recheck
from auditor.run.recheck import RangeSuspect, first_suspects
from dialects import Session

pytestmark = [pytest.mark.duckdb, pytest.mark.engines_in_turn]
SIDE_NAMES: dict[Side, str] = {"source": "source", "target": "target"}
WAIT = Recheck(times=3, wait="1ms", backoff=1)


class Tables:
    """Both sides' tables in DuckDB, which a test can change between the looks of a recheck.

    The databases stay open meanwhile, in the mode in which sessions open them too: opening a file anew takes longer than a look.
    """

    def __init__(self, folder: Any) -> None:
        self.paths = {side: folder / f"{side}.duckdb" for side in SIDES}
        self.databases = {side: duckdb.connect(str(path)) for side, path in self.paths.items()}
        self.execute("source", "CREATE TABLE t (id BIGINT, v VARCHAR, moved TIMESTAMP)")
        self.execute("target", "CREATE TABLE t (id BIGINT, v VARCHAR, moved TIMESTAMP)")
        for side in SIDES:
            self.execute(side, "INSERT INTO t SELECT i, 'row ' || i, '2026-01-01' FROM range(100) r(i)")

    def execute(self, side: Side, sql: str) -> None:
        self.databases[side].execute(sql)

    def close(self) -> None:
        for database in self.databases.values():
            database.close()

    def run_recheck(
        self,
        found: Differences,
        changes: Sequence[Callable[[], object]] = (),
        how: Recheck | None = WAIT,
        settled: str = "",
        sure: bool = True,
        compared: Sequence[str] = (),
        known: bool = False,
    ) -> recheck.Rechecked:
        """Recheck these differences, making one of the changes before each look; ``known``: the scan's own sums of the ranges are, too."""
        ends = {side: {"connection": side, "table": "t"} for side in SIDES}
        only = {"columns": {"include": list(compared)}} if compared else {}
        audit = Audit.model_validate({**ends, "key": ["id"], "partition": {"size": 10}, **only})
        connections: dict[str, ConnectionSettings] = {
            side: ConnectionSettings(url=f"duckdb:///{path}?access_mode=read_write") for side, path in self.paths.items()
        }
        reader = _ReopeningReader(connections, changes)
        with Reader("t", SIDE_NAMES, connections, patient=False).open() as planner:
            plan = build.build_plan("t", audit, planner)
        if settled:
            sides = {s: dataclasses.replace(plan.sides[s], settled=settled, written="CAST(moved AS VARCHAR)") for s in SIDES}
            plan = dataclasses.replace(plan, sides=sides)
        spans = [RangeSuspect(one, one.rows, is_complete=sure) for one in found.ranges]
        if known:
            with Reader("t", SIDE_NAMES, connections, patient=False).open() as scanning:
                spans = first_suspects(scanning, plan, found.ranges, one_snapshot=True)
        return recheck.recheck_differences(reader, plan, found, spans, how, 200)


class _ReopeningReader(Reader):
    """A reader that opens new sessions for each query, so that the files can be changed in between, and makes one change per wait."""

    def __init__(self, connections: dict[str, ConnectionSettings], changes: Sequence[Callable[[], object]]) -> None:
        super().__init__("t", SIDE_NAMES, connections, patient=False)
        self._settings = connections
        self._changes = iter(changes)

    def ask(self, work: Callable[[Side, Session], Any], *, fresh: bool = False) -> dict[Side, Any]:
        with Reader("t", SIDE_NAMES, self._settings, patient=False).open() as now:
            return now.ask(work, fresh=fresh)

    def report_both(self, doing: str) -> None:
        next(self._changes, lambda: None)()


@pytest.fixture
def both(tmp_path: Any) -> Iterator[Tables]:
    with closing(Tables(tmp_path)) as found:
        yield found


def make_differences(*named: Difference, ranges: Sequence[RangeDifference] = (), **counts: int) -> Differences:
    kinds = {kind: sum(one.kind == kind for one in named) for kind in ("missing", "extra", "changed")}
    for one in ranges:
        kinds[one.kind] += one.rows
    partitions = dict.fromkeys(("one_sided", "accounted", "refined", "listed", "estimated"), 0)
    return Differences(**{**kinds, **counts}, exact=True, named=named, ranges=tuple(ranges), partitions=partitions)  # type: ignore[arg-type]


def changed(key: int) -> Difference:
    return Difference(kind="changed", key={"id": str(key)}, rows={"source": 1, "target": 1}, hashes={"source": ("a",), "target": ("b",)})


def missing(first: int, last: int) -> RangeDifference:
    return RangeDifference(kind="missing", first=first, last=last, label="", rows=last - first + 1, partitions=1)


def nonzero_counts(result: recheck.Rechecked) -> dict[str, Any]:
    found = result.differences
    counts = {name: getattr(found, name) for name in ("missing", "extra", "changed", "unsettled", "in_flight", "cleared")}
    return {name: count for name, count in counts.items() if count}


def test_lasting_difference_is_confirmed(both: Tables) -> None:
    both.execute("target", "UPDATE t SET v = 'x' WHERE id = 7")
    result = both.run_recheck(make_differences(changed(7)))
    assert nonzero_counts(result) == {"changed": 1}
    [one] = result.differences.named
    assert one.state == "confirmed" and [look.outcome for look in one.looks] == ["moved", "same", "same"]


def test_vanished_difference_is_cleared(both: Tables) -> None:
    result = both.run_recheck(make_differences(changed(7)))
    assert nonzero_counts(result) == {"cleared": 1} and result.cleared == 2 and result.differences.looks == 1


def test_row_still_moving_at_the_last_look_is_unsettled(both: Tables) -> None:
    numbers = itertools.count()

    def move() -> None:
        both.execute("source", f"UPDATE t SET v = 'moved {next(numbers)}' WHERE id = 7")

    result = both.run_recheck(make_differences(changed(7)), [move] * 6)
    assert nonzero_counts(result) == {"unsettled": 1} and result.unsettled == 2 and not result.differences.exact
    assert result.differences.looks == 6, "what moved gets as many looks again"
    for moves in (2, 3, 5):
        result = both.run_recheck(make_differences(changed(7)), [move] * moves)
        assert nonzero_counts(result) == {"changed": 1}, "a row that stopped moving must be confirmed"


def test_only_what_moves_gets_further_looks(both: Tables) -> None:
    both.execute("target", "UPDATE t SET v = 'x' WHERE id IN (7, 8)")
    numbers = itertools.count()

    def move() -> None:
        both.execute("source", f"UPDATE t SET v = 'moved {next(numbers)}' WHERE id = 7")

    result = both.run_recheck(make_differences(changed(7), changed(8)), [move] * 4)
    assert {one.key["id"]: len(one.looks) for one in result.differences.named} == {"7": 5, "8": 3}
    assert nonzero_counts(result) == {"changed": 2}


@pytest.mark.parametrize("side", SIDES)
def test_row_that_changed_and_changed_back_between_looks_has_moved(both: Tables, side: Side) -> None:
    """Only the column that tells when a row was written shows it, and it need not be compared."""
    both.execute("target", "UPDATE t SET v = 'x' WHERE id = 7")
    days = itertools.count(2)

    def there_and_back() -> None:
        both.execute(side, f"UPDATE t SET moved = '2026-01-{next(days):02}' WHERE id = 7")

    for moves, expected in ((6, {"unsettled": 1}), (5, {"changed": 1})):
        found = both.run_recheck(make_differences(changed(7)), [there_and_back] * moves, settled="moved < '2027-01-01'", compared=("v",))
        assert nonzero_counts(found) == expected, moves
        days = itertools.count(12)


def test_difference_that_changes_its_kind_is_reported_by_the_last_kind(both: Tables) -> None:
    both.execute("target", "UPDATE t SET v = 'x' WHERE id = 7")
    result = both.run_recheck(make_differences(changed(7)), [lambda: both.execute("target", "DELETE FROM t WHERE id = 7")])
    assert nonzero_counts(result) == {"missing": 1}
    result = both.run_recheck(
        make_differences(changed(7)), [lambda: None, lambda: None, lambda: both.execute("source", "DELETE FROM t WHERE id = 7")]
    )
    assert nonzero_counts(result) == {"cleared": 1}


def test_row_newer_than_the_watermark_is_in_flight(both: Tables) -> None:
    both.execute("source", "UPDATE t SET v = 'new', moved = '2026-02-01' WHERE id = 7")
    both.execute("target", "UPDATE t SET v = 'lost' WHERE id = 8")
    for how in (None, WAIT):
        result = both.run_recheck(make_differences(changed(7), changed(8)), how=how, settled="moved < '2026-01-15'")
        assert nonzero_counts(result) == {"changed": 1, "in_flight": 1}
        assert [one.key for one in result.differences.named] == [{"id": "8"}]


SETTLED = "moved < '2026-01-15'"
AHEAD = ["'2999-01-01'", "NULL"]
"""Times that are never settled: one far in the future, and NULL."""


@pytest.mark.quick_for("NULL")
@pytest.mark.parametrize("moved", AHEAD)
def test_row_newer_on_the_target_only_is_not_in_flight(both: Tables, moved: str) -> None:
    both.execute("target", f"UPDATE t SET v = 'x', moved = {moved} WHERE id = 7")
    result = both.run_recheck(make_differences(changed(7)), how=None, settled=SETTLED)
    assert nonzero_counts(result) == {"unsettled": 1} and result.unsettled == 2, "a single look cannot decide whether the row still moves"
    result = both.run_recheck(make_differences(changed(7)), settled=SETTLED)
    assert nonzero_counts(result) == {"changed": 1}
    assert [look.outcome for look in result.differences.named[0].looks] == ["moved", "same", "same"]
    numbers = itertools.count()

    def move() -> None:
        both.execute("target", f"UPDATE t SET v = 'moved {next(numbers)}' WHERE id = 7")

    assert nonzero_counts(both.run_recheck(make_differences(changed(7)), [move] * 6, settled=SETTLED)) == {"unsettled": 1}


@pytest.mark.parametrize("moved", AHEAD)
def test_row_newer_on_the_source_is_in_flight_for_any_target_time(both: Tables, moved: str) -> None:
    both.execute("source", f"UPDATE t SET v = 'x', moved = {moved} WHERE id = 7")
    for there in ("'2026-01-01'", "'2999-01-01'"):
        both.execute("target", f"UPDATE t SET moved = {there} WHERE id = 7")
        assert nonzero_counts(both.run_recheck(make_differences(changed(7)), settled=SETTLED)) == {"in_flight": 1}


def test_row_in_flight_does_not_hide_other_rows_of_its_key(both: Tables) -> None:
    both.execute("source", "INSERT INTO t VALUES (7, 'young', '2026-02-01')")
    assert nonzero_counts(both.run_recheck(make_differences(changed(7)), settled=SETTLED)) == {"in_flight": 1}
    both.execute("target", "UPDATE t SET v = 'x' WHERE id = 7")
    for how in (None, WAIT):
        result = both.run_recheck(make_differences(changed(7)), how=how, settled=SETTLED)
        assert nonzero_counts(result) == {"changed": 1}, "the settled row has no equal in the target; the young one may still arrive"
    both.execute("source", "UPDATE t SET moved = '2026-02-01' WHERE id = 7")
    assert nonzero_counts(both.run_recheck(make_differences(changed(7)), settled=SETTLED)) == {"in_flight": 2}
    both.execute("target", "INSERT INTO t SELECT 7, 'again ' || i, '2026-01-01' FROM range(2) r(i)")
    assert nonzero_counts(both.run_recheck(make_differences(changed(7)), settled=SETTLED)) == {"extra": 3}, (
        "three target rows cannot be older versions of two source rows"
    )


def test_row_in_flight_is_not_counted_among_missing_rows_of_its_key(both: Tables) -> None:
    """The target lacks both rows of a key, of which one is young: one row is missing, as the scan says."""
    absent = Difference(kind="missing", key={"id": "7"}, rows={"source": 1, "target": 0}, hashes={"source": ("a",), "target": ()})
    both.execute("source", "INSERT INTO t VALUES (7, 'young', '2026-02-01')")
    both.execute("target", "DELETE FROM t WHERE id = 7")
    for how in (None, WAIT):
        assert nonzero_counts(both.run_recheck(make_differences(absent), how=how, settled=SETTLED)) == {"missing": 1}
    both.execute("target", "INSERT INTO t VALUES (7, 'young', '2026-02-01')")
    assert nonzero_counts(both.run_recheck(make_differences(absent), settled=SETTLED)) == {"missing": 1}, "the young one has arrived"


@pytest.mark.quick_for("NULL")
@pytest.mark.parametrize("moved", AHEAD)
def test_extra_range_is_never_in_flight(both: Tables, moved: str) -> None:
    both.execute("source", "DELETE FROM t WHERE id >= 50")
    both.execute("target", f"UPDATE t SET moved = {moved} WHERE id >= 50")
    span = dataclasses.replace(missing(50, 99), kind="extra")
    result = both.run_recheck(make_differences(ranges=[span]), how=None, settled=SETTLED)
    assert nonzero_counts(result) == {"unsettled": 50} and result.differences.ranges[0].state == "unsettled", (
        "rows that moved since the scan must be unsettled"
    )
    assert nonzero_counts(both.run_recheck(make_differences(ranges=[span]), settled=SETTLED)) == {"extra": 50}

    def insert() -> None:
        both.execute("target", f"INSERT INTO t VALUES (99, 'more', {moved})")

    found = both.run_recheck(make_differences(ranges=[span]), [insert] * 6, settled=SETTLED)
    assert nonzero_counts(found) == {"extra": 49, "unsettled": 7}, "the rows that stand still are confirmed"
    both.execute("target", "DELETE FROM t WHERE v = 'more'")
    found = both.run_recheck(make_differences(ranges=[span]), [insert] * 3, settled=SETTLED)
    assert nonzero_counts(found) == {"extra": 53}


def test_young_rows_that_the_scan_did_not_count_are_no_extra_rows(both: Tables) -> None:
    both.execute("source", "DELETE FROM t WHERE id >= 50")
    both.execute("target", "UPDATE t SET moved = '2026-02-01' WHERE id >= 90")
    span = dataclasses.replace(missing(50, 99), kind="extra", rows=40)
    for how in (None, WAIT):
        result = both.run_recheck(make_differences(ranges=[span]), how=how, settled=SETTLED, sure=False)
        assert nonzero_counts(result) == {"extra": 40}
    one_was_written_again = dataclasses.replace(span, rows=41)
    both.execute("target", "UPDATE t SET moved = '2026-02-02' WHERE id = 95")
    result = both.run_recheck(make_differences(ranges=[one_was_written_again]), settled=SETTLED, sure=False)
    assert nonzero_counts(result) == {"extra": 41}
    assert {"95"} < {key for one in result.differences.named for key in one.key.values()}


def test_extra_range_is_in_flight_as_far_as_young_rows_of_the_source_explain_it(both: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neighbouring rows that were all written again since the watermark look like an extra range: the target has their old versions."""
    both.execute("source", "UPDATE t SET v = 'new', moved = '2026-02-01' WHERE id >= 90")
    span = dataclasses.replace(missing(90, 99), kind="extra")
    for how in (None, WAIT):
        result = both.run_recheck(make_differences(ranges=[span]), how=how, settled=SETTLED, known=True)
        assert nonzero_counts(result) == {"in_flight": 10}
    both.execute("source", "DELETE FROM t WHERE id >= 97")
    result = both.run_recheck(make_differences(ranges=[span]), how=None, settled=SETTLED, known=True)
    assert nonzero_counts(result) == {"extra": 3, "in_flight": 7}

    monkeypatch.setattr(recheck, "MAX_LISTED_ROWS", 5)
    for how in (None, WAIT):
        result = both.run_recheck(make_differences(ranges=[span]), how=how, settled=SETTLED, known=True)
        assert nonzero_counts(result) == {"extra": 3, "in_flight": 7}, "rows too many to list are told by their number"
    both.execute("source", "UPDATE t SET id = id + 50 WHERE id BETWEEN 47 AND 49")
    both.execute("source", "UPDATE t SET moved = '2026-02-01' WHERE id >= 97")
    result = both.run_recheck(make_differences(ranges=[span]), how=None, settled=SETTLED, known=True)
    assert nonzero_counts(result) == {"unsettled": 10}, "as many young rows as extra ones can explain all of them"


@pytest.mark.parametrize("moved", AHEAD)
def test_range_with_wrong_times_in_the_target_is_not_in_flight(both: Tables, moved: str) -> None:
    both.execute("target", f"UPDATE t SET moved = {moved} WHERE id >= 98")
    assert nonzero_counts(both.run_recheck(make_differences(ranges=[missing(98, 99)]), how=None, settled=SETTLED)) == {"unsettled": 2}
    result = both.run_recheck(make_differences(ranges=[missing(98, 99)]), settled=SETTLED)
    assert nonzero_counts(result) == {"changed": 2}


def test_ranges_are_confirmed_cleared_or_split(both: Tables) -> None:
    both.execute("target", "DELETE FROM t WHERE id >= 50")
    span = missing(50, 99)
    assert nonzero_counts(both.run_recheck(make_differences(ranges=[span]))) == {"missing": 50}

    def arrive(where: str) -> Callable[[], None]:
        rows = f"SELECT i, 'row ' || i, '2026-01-01' FROM range(50, 100) r(i) WHERE {where}"
        return lambda: both.execute("target", f"INSERT INTO t {rows}")

    result = both.run_recheck(make_differences(ranges=[span]), [lambda: None, arrive("i <> 60 AND i <> 61")])
    assert nonzero_counts(result) == {"missing": 2, "cleared": 48} and result.cleared == 48, "rows that never arrived must be named"
    assert [one.key for one in result.differences.named] == [{"id": "60"}, {"id": "61"}] and not result.differences.ranges
    result = both.run_recheck(make_differences(ranges=[missing(60, 61)]), [lambda: None, lambda: None, arrive("i = 60")])
    assert nonzero_counts(result) == {"missing": 1, "cleared": 1}, "what is left of a range gets a look of its own"
    result = both.run_recheck(make_differences(ranges=[missing(60, 61)]), [arrive("i = 61")])
    assert nonzero_counts(result) == {"cleared": 2}
    both.execute("source", "DELETE FROM t WHERE id < 10")
    both.execute("target", "DELETE FROM t WHERE id < 10")
    assert nonzero_counts(both.run_recheck(make_differences(ranges=[missing(0, 9)]))) == {"cleared": 10}
    assert nonzero_counts(both.run_recheck(make_differences(ranges=[missing(0, 9)]), sure=False)) == {"unsettled": 10}


def test_survivors_of_a_range_do_not_confirm_the_rest(both: Tables) -> None:
    """Rows of a range that the source deleted, too, differ no longer; one unit, rows, counts what became of them."""
    both.execute("target", "DELETE FROM t WHERE id >= 50")

    def delete() -> None:
        both.execute("source", "DELETE FROM t WHERE id >= 50 AND id <> 77")

    result = both.run_recheck(make_differences(ranges=[missing(50, 99)]), [lambda: None, delete])
    assert nonzero_counts(result) == {"missing": 1, "cleared": 49} and result.cleared == 49
    result = both.run_recheck(make_differences(ranges=[missing(50, 99)]), how=None)
    assert nonzero_counts(result) == {"missing": 1, "cleared": 49}, "one look counts them too"
    assert [one.rows for one in result.differences.ranges] == [1]
    both.execute("source", "UPDATE t SET moved = '2026-02-01' WHERE id = 77")
    both.execute("source", "INSERT INTO t SELECT i, 'row ' || i, '2026-01-01' FROM range(50, 60) r(i)")
    result = both.run_recheck(make_differences(ranges=[missing(50, 99)]), how=None, settled=SETTLED)
    assert nonzero_counts(result) == {"missing": 10, "in_flight": 1, "cleared": 39}


def test_large_range_is_counted_again_and_confirmed_once_it_stands_still(both: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recheck, "MAX_LISTED_ROWS", 20)
    both.execute("target", "DELETE FROM t WHERE id >= 50")
    keys = itertools.count(50)

    def delete() -> None:
        both.execute("source", f"DELETE FROM t WHERE id = {next(keys)}")

    result = both.run_recheck(make_differences(ranges=[missing(50, 99)]), [delete] * 3)
    assert nonzero_counts(result) == {"missing": 47, "cleared": 3}
    assert nonzero_counts(both.run_recheck(make_differences(ranges=[missing(53, 99)]), [delete] * 6)) == {"unsettled": 47}


def test_duplicates_that_stand_still_within_a_range_are_confirmed(both: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    both.execute("target", "INSERT INTO t SELECT * FROM t WHERE id >= 50")
    span = dataclasses.replace(missing(50, 99), kind="extra")
    for how in (None, Recheck(times=1, wait="1ms"), WAIT):
        for most in (100_000, 20):
            monkeypatch.setattr(recheck, "MAX_LISTED_ROWS", most)
            result = both.run_recheck(make_differences(ranges=[span]), how=how, known=True)
            assert nonzero_counts(result) == {"extra": 50} and not result.differences.named, (how, most)
    monkeypatch.setattr(recheck, "MAX_LISTED_ROWS", 100_000)
    result = both.run_recheck(make_differences(ranges=[span]))
    assert nonzero_counts(result) == {"extra": 50} and len(result.differences.named) == 50, "without sums, its rows are compared"


def test_key_named_by_several_differences_is_named_once(both: Tables) -> None:
    both.execute("target", "DELETE FROM t WHERE id >= 90")
    both.execute("target", "INSERT INTO t VALUES (95, 'here', '2026-01-01')")
    result = both.run_recheck(make_differences(dataclasses.replace(changed(95), kind="extra"), ranges=[missing(90, 99)]))
    keys = [one.key["id"] for one in result.differences.named]
    assert len(keys) == len(set(keys)) == 10 and nonzero_counts(result) == {"missing": 9, "changed": 1, "cleared": 1}


def test_range_newer_than_the_watermark_is_in_flight(both: Tables) -> None:
    both.execute("target", "DELETE FROM t WHERE id >= 50")
    both.execute("source", "UPDATE t SET moved = '2026-02-01' WHERE id >= 50")
    result = both.run_recheck(make_differences(ranges=[missing(50, 99)]), how=None, settled="moved < '2026-01-15'")
    assert nonzero_counts(result) == {"in_flight": 50} and result.cleared == 50


def test_differences_without_names_are_unsettled(both: Tables) -> None:
    both.execute("target", "UPDATE t SET v = 'x' WHERE id = 7")
    result = both.run_recheck(make_differences(changed(7), changed=500, extra=3))
    assert nonzero_counts(result) == {"changed": 1, "unsettled": 502} and result.unsettled == 499 * 2 + 3
