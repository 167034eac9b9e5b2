"""Looking again at differences: what is confirmed, cleared, still moving, in flight; and finding rows again by their keys."""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from auditor import recheck, survey
from auditor.config import Audit, Connection, Recheck
from auditor.model import SIDES, Difference, Differences, Plan, RangeDifference, Side
from auditor.rows import Fetcher
from dialects import Kind, Session
from tests import tables
from tests.audits import planned
from tests.engines import LiveEngine, LivePair, engine_params

pytestmark = pytest.mark.duckdb
WAIT = Recheck(times=3, wait="1ms", backoff=1)


class Tables:
    """Both sides' tables in DuckDB, changed at each wait by what a test says."""

    def __init__(self, folder: Any) -> None:
        self.paths = {side: folder / f"{side}.duckdb" for side in SIDES}
        self.execute("source", "CREATE TABLE t (id BIGINT, v VARCHAR, moved TIMESTAMP)")
        self.execute("target", "CREATE TABLE t (id BIGINT, v VARCHAR, moved TIMESTAMP)")
        for side in SIDES:
            self.execute(side, "INSERT INTO t SELECT i, 'row ' || i, '2026-01-01' FROM range(100) r(i)")

    def execute(self, side: Side, sql: str) -> None:
        with duckdb.connect(str(self.paths[side])) as connection:
            connection.execute(sql)

    def look(
        self,
        found: Differences,
        changes: Sequence[Callable[[], object]] = (),
        how: Recheck | None = WAIT,
        settled: str = "",
        sure: bool = True,
    ) -> recheck.Looked:
        """What is left of these differences; one of the changes is made before each look."""
        ends = {side: {"connection": side, "table": "t"} for side in SIDES}
        audit = Audit.model_validate({**ends, "key": ["id"], "partition": {"size": 10}})
        connections: dict[str, Connection] = {side: Connection(url=f"duckdb:///{path}") for side, path in self.paths.items()}
        with survey.opened(audit, connections) as sides:
            plan = survey.planned("t", audit, sides)
        if settled:
            plan = dataclasses.replace(plan, sides={s: dataclasses.replace(plan.sides[s], settled=settled) for s in SIDES})
        waiting = iter(changes)

        def wait(_: str) -> None:
            next(waiting, lambda: None)()

        def ask(work: Callable[[Side], Any]) -> dict[Side, Any]:
            with survey.opened(audit, connections) as now:
                sides.update(now)
                return {side: work(side) for side in SIDES}

        again = recheck.Again(plan, lambda side: sides[side], ask, 200)
        return recheck.look_again(again, found, how, threading.Event(), wait, sure=sure)


@pytest.fixture
def both(tmp_path: Any) -> Tables:
    return Tables(tmp_path)


def differing(*named: Difference, ranges: Sequence[RangeDifference] = (), **counts: int) -> Differences:
    kinds = {kind: sum(one.kind == kind for one in named) for kind in ("missing", "extra", "changed")}
    for one in ranges:
        kinds[one.kind] += one.rows
    partitions = dict.fromkeys(("one_sided", "accounted", "refined", "listed", "estimated"), 0)
    return Differences(**{**kinds, **counts}, exact=True, named=named, ranges=tuple(ranges), partitions=partitions)  # type: ignore[arg-type]


def changed(key: int) -> Difference:
    return Difference(kind="changed", key={"id": str(key)}, rows={"source": 1, "target": 1}, hashes={"source": ("a",), "target": ("b",)})


def missing(first: int, last: int) -> RangeDifference:
    return RangeDifference(kind="missing", first=first, last=last, label="", rows=last - first + 1, partitions=1)


def summary(looked: recheck.Looked) -> dict[str, Any]:
    found = looked.differences
    counts = {name: getattr(found, name) for name in ("missing", "extra", "changed", "unsettled", "in_flight", "cleared")}
    return {name: count for name, count in counts.items() if count}


def test_one_that_stays_is_confirmed(both: Tables) -> None:
    both.execute("target", "UPDATE t SET v = 'x' WHERE id = 7")
    looked = both.look(differing(changed(7)))
    assert summary(looked) == {"changed": 1}
    [one] = looked.differences.named
    assert one.state == "confirmed" and [look.seen for look in one.looks] == ["moved", "same", "same"]


def test_one_that_is_gone_is_cleared(both: Tables) -> None:
    looked = both.look(differing(changed(7)))
    assert summary(looked) == {"cleared": 1} and looked.cleared == 2 and looked.differences.looks == 1


def test_one_that_moves_at_the_last_look_is_unsettled(both: Tables) -> None:
    numbers = itertools.count()

    def move() -> None:
        both.execute("source", f"UPDATE t SET v = 'moved {next(numbers)}' WHERE id = 7")

    looked = both.look(differing(changed(7)), [move, move, move])
    assert summary(looked) == {"unsettled": 1} and looked.unsettled == 2 and not looked.differences.exact
    looked = both.look(differing(changed(7)), [move, move])
    assert summary(looked) == {"changed": 1}, "it stood still at the end"


def test_one_that_changes_its_kind_is_told_as_what_it_is(both: Tables) -> None:
    both.execute("target", "UPDATE t SET v = 'x' WHERE id = 7")
    looked = both.look(differing(changed(7)), [lambda: both.execute("target", "DELETE FROM t WHERE id = 7")])
    assert summary(looked) == {"missing": 1}
    looked = both.look(differing(changed(7)), [lambda: None, lambda: None, lambda: both.execute("source", "DELETE FROM t WHERE id = 7")])
    assert summary(looked) == {"cleared": 1}


def test_one_that_is_younger_than_the_watermark_is_in_flight(both: Tables) -> None:
    both.execute("source", "UPDATE t SET v = 'new', moved = '2026-02-01' WHERE id = 7")
    both.execute("target", "UPDATE t SET v = 'lost' WHERE id = 8")
    for how in (None, WAIT):
        looked = both.look(differing(changed(7), changed(8)), how=how, settled="moved < '2026-01-15'")
        assert summary(looked) == {"changed": 1, "in_flight": 1}
        assert [one.key for one in looked.differences.named] == [{"id": "8"}]


SETTLED = "moved < '2026-01-15'"
AHEAD = ["'2999-01-01'", "NULL"]
"""Times that no settled row has: far in the future, and none where the audit leaves out rows without one."""


@pytest.mark.parametrize("moved", AHEAD)
def test_one_that_is_younger_on_the_target_alone_is_not_in_flight(both: Tables, moved: str) -> None:
    both.execute("target", f"UPDATE t SET v = 'x', moved = {moved} WHERE id = 7")
    looked = both.look(differing(changed(7)), how=None, settled=SETTLED)
    assert summary(looked) == {"unsettled": 1} and looked.unsettled == 2, "one look does not tell whether it moves"
    looked = both.look(differing(changed(7)), settled=SETTLED)
    assert summary(looked) == {"changed": 1}
    assert [look.seen for look in looked.differences.named[0].looks] == ["moved", "same", "same"]
    numbers = itertools.count()

    def move() -> None:
        both.execute("target", f"UPDATE t SET v = 'moved {next(numbers)}' WHERE id = 7")

    assert summary(both.look(differing(changed(7)), [move, move, move], settled=SETTLED)) == {"unsettled": 1}


@pytest.mark.parametrize("moved", AHEAD)
def test_one_that_is_younger_on_the_source_is_in_flight_whatever_the_target_says(both: Tables, moved: str) -> None:
    both.execute("source", f"UPDATE t SET v = 'x', moved = {moved} WHERE id = 7")
    for there in ("'2026-01-01'", "'2999-01-01'"):
        both.execute("target", f"UPDATE t SET moved = {there} WHERE id = 7")
        assert summary(both.look(differing(changed(7)), settled=SETTLED)) == {"in_flight": 1}


def test_a_young_row_of_the_source_does_not_hide_other_rows_of_its_key(both: Tables) -> None:
    both.execute("source", "INSERT INTO t VALUES (7, 'young', '2026-02-01')")
    assert summary(both.look(differing(changed(7)), settled=SETTLED)) == {"in_flight": 1}
    both.execute("target", "UPDATE t SET v = 'x' WHERE id = 7")
    for how in (None, WAIT):
        looked = both.look(differing(changed(7)), how=how, settled=SETTLED)
        assert summary(looked) == {"changed": 1}, "the settled one has no equal"
    both.execute("source", "UPDATE t SET moved = '2026-02-01' WHERE id = 7")
    assert summary(both.look(differing(changed(7)), settled=SETTLED)) == {"in_flight": 1}
    both.execute("target", "INSERT INTO t SELECT 7, 'again ' || i, '2026-01-01' FROM range(2) r(i)")
    assert summary(both.look(differing(changed(7)), settled=SETTLED)) == {"changed": 1}, "three rows are no older versions of two"


@pytest.mark.parametrize("moved", AHEAD)
def test_a_range_of_the_target_alone_is_not_in_flight(both: Tables, moved: str) -> None:
    both.execute("source", "DELETE FROM t WHERE id >= 50")
    both.execute("target", f"UPDATE t SET moved = {moved} WHERE id >= 50")
    span = dataclasses.replace(missing(50, 99), kind="extra")
    looked = both.look(differing(ranges=[span]), how=None, settled=SETTLED)
    assert summary(looked) == {"unsettled": 50} and looked.differences.ranges[0].state == "unsettled", "it moved since the scan"
    assert summary(both.look(differing(ranges=[span]), settled=SETTLED)) == {"extra": 50}

    def more() -> None:
        both.execute("target", f"INSERT INTO t VALUES (99, 'more', {moved})")

    assert summary(both.look(differing(ranges=[span]), [more, more, more], settled=SETTLED)) == {"unsettled": 50}


@pytest.mark.parametrize("moved", AHEAD)
def test_a_range_that_came_with_wrong_times_is_not_in_flight(both: Tables, moved: str) -> None:
    both.execute("target", f"UPDATE t SET moved = {moved} WHERE id >= 98")
    assert summary(both.look(differing(ranges=[missing(98, 99)]), how=None, settled=SETTLED)) == {"unsettled": 2}
    looked = both.look(differing(ranges=[missing(98, 99)]), settled=SETTLED)
    assert summary(looked) == {"changed": 2}


def test_ranges(both: Tables) -> None:
    both.execute("target", "DELETE FROM t WHERE id >= 50")
    span = missing(50, 99)
    assert summary(both.look(differing(ranges=[span]))) == {"missing": 50}

    def arrive(where: str) -> Callable[[], None]:
        rows = f"SELECT i, 'row ' || i, '2026-01-01' FROM range(50, 100) r(i) WHERE {where}"
        return lambda: both.execute("target", f"INSERT INTO t {rows}")

    looked = both.look(differing(ranges=[span]), [lambda: None, arrive("i <> 60 AND i <> 61")])
    assert summary(looked) == {"missing": 2, "cleared": 48} and looked.cleared == 48, "what never came is named"
    assert [one.key for one in looked.differences.named] == [{"id": "60"}, {"id": "61"}] and not looked.differences.ranges
    looked = both.look(differing(ranges=[missing(60, 61)]), [lambda: None, lambda: None, arrive("i = 60")])
    assert summary(looked) == {"unsettled": 1, "cleared": 1}, "it has just moved"
    looked = both.look(differing(ranges=[missing(60, 61)]), [arrive("i = 61")])
    assert summary(looked) == {"cleared": 2}
    both.execute("source", "DELETE FROM t WHERE id < 10")
    both.execute("target", "DELETE FROM t WHERE id < 10")
    assert summary(both.look(differing(ranges=[missing(0, 9)]))) == {"cleared": 10}
    assert summary(both.look(differing(ranges=[missing(0, 9)]), sure=False)) == {"unsettled": 10}


def test_a_range_in_flight(both: Tables) -> None:
    both.execute("target", "DELETE FROM t WHERE id >= 50")
    both.execute("source", "UPDATE t SET moved = '2026-02-01' WHERE id >= 50")
    looked = both.look(differing(ranges=[missing(50, 99)]), how=None, settled="moved < '2026-01-15'")
    assert summary(looked) == {"in_flight": 50} and looked.cleared == 50


def test_what_was_not_named_is_not_believed(both: Tables) -> None:
    both.execute("target", "UPDATE t SET v = 'x' WHERE id = 7")
    looked = both.look(differing(changed(7), changed=500, extra=3))
    assert summary(looked) == {"changed": 1, "unsettled": 502} and looked.unsettled == 499 * 2 + 3


# keys

HOSTILE = [
    "a", "A", "a ", " a", "á", "a\u0301", "ß", "ss", "it's", '"', "\\", "\\'", "a\\", "%", "_",
    "", " ", "'' OR 1=1 --", "\t", "a\nb", "🐘", "🐘 ",
    "ﬀ", "i", "İ", "ı", "null", "NULL", "X'41'", "${hole}", "日本", "\u200b", "a \n\n b", "\x1e", "a\u2028b", "a\u00a0", "0", "00",
    "1e3",
]  # fmt: skip
SERVERS = engine_params("mysql", "mariadb", "postgres", "duckdb")


def found_again(
    engine: LiveEngine, kinds: Sequence[tuple[str, Kind]], rows: Sequence[Sequence[Any]], key: Sequence[str], **audit: Any
) -> None:
    """Every row is found by its own key, each alone and all at once, and no row by a key that is not its own."""
    tables.make(engine, "again", [*kinds, ("v", Kind("text"))], [(*row, f"row {number}") for number, row in enumerate(rows)])
    ends = {side: {"connection": side, "table": "again"} for side in SIDES}
    wanted = Audit.model_validate({**ends, "key": key, **audit})
    with planned(LivePair(engine, engine), wanted) as (plan, sides):
        fetch = Fetcher(plan, "source", sides["source"], 200)
        every = _all(plan, sides["source"])
        assert len(every) == len(rows)
        keys = list(dict.fromkeys(row_key for row_key, _ in every))
        assert sorted(repr((row.key, row.texts)) for row, _ in fetch.again(keys, "")) == sorted(map(repr, every))
        for one in keys:
            alone = sorted(repr((row.key, row.texts)) for row, _ in fetch.again([one], ""))
            assert alone == sorted(repr(row) for row in every if row[0] == one), one


def _all(plan: Plan, session: Session) -> list[tuple[Any, Any]]:
    fetch = Fetcher(plan, "source", session, 200)
    return [(row.key, row.texts) for row in fetch._rows("1 = 1", texts=True)]


@pytest.mark.parametrize("engine", SERVERS, indirect=True)
@pytest.mark.parametrize("rules", [{}, {"k": {"case": "lower"}}, {"k": {"trim": True}}], ids=["plain", "lower", "trim"])
def test_rows_of_hostile_texts_are_found_again(engine: LiveEngine, rules: dict[str, Any]) -> None:
    found_again(engine, [("k", Kind("text"))], [(text,) for text in [*HOSTILE, None]], ["k"], columns={"override": rules})


@pytest.mark.parametrize("engine", SERVERS, indirect=True)
def test_rows_of_composite_keys_are_found_again(engine: LiveEngine) -> None:
    numbers = [0, -1, 2**63 - 1, -(2**63), None]
    rows = [(number, text) for number in numbers for text in ("a", "A ", "it's", None)]
    found_again(engine, [("n", Kind("integer")), ("k", Kind("text"))], rows, ["n", "k"])


@pytest.mark.parametrize("engine", SERVERS, indirect=True)
def test_rows_of_unsigned_keys_are_found_again(engine: LiveEngine) -> None:
    found_again(engine, [("n", Kind("integer", unsigned=True))], [(number,) for number in (0, 1, 2**63, 2**64 - 1)], ["n"])


@pytest.mark.parametrize("engine", SERVERS, indirect=True)
def test_rows_of_dates_are_found_again(engine: LiveEngine) -> None:
    days = [dt.date(2026, 1, 31), dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2024, 2, 29), None]
    found_again(engine, [("d", Kind("date"))], [(day,) for day in days], ["d"])


@pytest.mark.parametrize("engine", engine_params("postgres", "duckdb"), indirect=True)
def test_rows_before_christ_are_found_again(engine: LiveEngine) -> None:
    tables.execute(engine, "DROP TABLE IF EXISTS again_bc", "CREATE TABLE again_bc (d DATE, v TEXT)")
    bc = "'0044-03-15 BC'" if engine.dialect == "postgres" else "'0044-03-15 (BC)'"
    tables.execute(engine, f"INSERT INTO again_bc VALUES ({bc}, 'a'), ('infinity', 'b'), ('2026-01-01', 'c')")
    ends = {side: {"connection": side, "table": "again_bc"} for side in SIDES}
    with planned(LivePair(engine, engine), Audit.model_validate({**ends, "key": ["d"]})) as (plan, sides):
        every = _all(plan, sides["source"])
        fetch = Fetcher(plan, "source", sides["source"], 200)
        assert sorted(row.key for row, _ in fetch.again([key for key, _ in every], "")) == sorted(key for key, _ in every)


@pytest.fixture(params=engine_params("mysql", "mariadb", "postgres"), scope="module")
def texts(request: pytest.FixtureRequest, engines: Any) -> Iterator[tuple[LiveEngine, Plan, dict[Side, Session]]]:
    """A table of an engine with a text for a key, its plan, and sessions."""
    engine = engines.live(request.param)
    tables.make(engine, "again_texts", [("k", Kind("text")), ("v", Kind("text"))], [])
    ends = {side: {"connection": side, "table": "again_texts"} for side in SIDES}
    with planned(LivePair(engine, engine), Audit.model_validate({**ends, "key": ["k"]})) as (plan, sides):
        yield engine, plan, sides


anything = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(anything, st.sampled_from(HOSTILE)), min_size=1, max_size=20))
def test_rows_of_any_text_are_found_again(texts: tuple[LiveEngine, Plan, dict[Side, Session]], keys: list[str]) -> None:
    engine, plan, sides = texts
    session = sides["source"]
    literals = ", ".join(f"({session.dialect.string(key)}, 'x')" for key in keys)
    session.end()
    tables.execute(engine, "DELETE FROM again_texts", f"INSERT INTO again_texts VALUES {literals}")
    session.begin()
    wanted = list(dict.fromkeys(key for key, _ in _all(plan, session)))
    assert sorted(wanted) == sorted({(key,) for key in keys})
    assert sorted(row.key for row, _ in Fetcher(plan, "source", session, 200).again(wanted, "")) == sorted((key,) for key in keys)


@pytest.mark.parametrize("engine", engine_params("postgres", "mysql"), indirect=True)
def test_a_key_that_an_engine_cannot_hold_is_not_there(engine: LiveEngine) -> None:
    tables.make(engine, "again_nul", [("k", Kind("text")), ("v", Kind("text"))], [("a", "x")])
    ends = {side: {"connection": side, "table": "again_nul"} for side in SIDES}
    with planned(LivePair(engine, engine), Audit.model_validate({**ends, "key": ["k"]})) as (plan, sides):
        assert [row.key for row, _ in Fetcher(plan, "source", sides["source"], 200).again([("a",), ("a\x00b",)], "")] == [("a",)]
