"""The history of what pipelines lag behind, and their problems, on every database."""

from __future__ import annotations

import datetime as dt
import itertools

import pytest

from auditor.api_models.pipeline import ProblemKey
from auditor.errors import StoreError
from auditor.store import Store, lags, pipelines
from auditor.store.lags import HOUR, NOTHING, SPAN, Lag
from auditor.store.lags import lags as table

NOON = dt.datetime(2026, 11, 1, 12, tzinfo=dt.UTC)
_numbers = itertools.count()


@pytest.fixture
def pipeline() -> str:
    """The name of a new pipeline: tests share the store."""
    return f"lags-{next(_numbers)}"


def seconds(count: float) -> dt.timedelta:
    return dt.timedelta(seconds=count)


def test_at_most_one_look_is_stored_for_each_span(store: Store, pipeline: str) -> None:
    for after in (1, 29, 30, 59, 61):
        lags.record_lag(store, pipeline, NOON + seconds(after), Lag(after, 7, 2.5), {})
    assert [(one.at, one.span, one.lag) for one in lags.list_lags(store, pipeline, NOON)] == [
        (NOON, SPAN, Lag(1, 7, 2.5)),
        (NOON + seconds(30), SPAN, Lag(30, 7, 2.5)),
        (NOON + seconds(60), SPAN, Lag(61, 7, 2.5)),
    ]
    assert [one.lag.seconds for one in lags.list_lags(store, pipeline, NOON + seconds(30))] == [30, 61], "the first ended at its begin"


def test_tables_are_found_by_their_names_alone(store: Store, pipeline: str) -> None:
    odd = 'shop.a"b\n["wh","shop.orders",9,9,9]\u2028é'
    found = {
        ("wh", "shop.orders"): Lag(1.5, 2**40, 0.25),
        ("wh", odd): Lag(None, None, 3.0),
        ("wh", "shop.idle"): NOTHING,
        ("wh", ""): Lag(2, 1, 1),
    }
    lags.record_lag(store, pipeline, NOON, Lag(None, None, 0.0), found)
    places = [*found, ("wh", "shop.order"), ("w", "shop.orders")]
    listed = lags.list_table_lags(store, pipeline, places, NOON)
    assert {place: [one.lag for one in points] for place, points in listed.items()} == {
        **{place: [lag] for place, lag in found.items()}, ("wh", "shop.order"): [NOTHING], ("w", "shop.orders"): [NOTHING],
    }  # fmt: skip
    assert [one.lag for one in lags.list_lags(store, pipeline, NOON)] == [Lag(None, None, 0.0)]


def test_old_looks_become_the_maxima_of_their_hours(store: Store, pipeline: str) -> None:
    for after in range(0, 2 * HOUR, 600):
        peak = 100.0 if after in (1200, HOUR + 600) else 1.0
        tables = {("wh", "a"): Lag(peak / 2, after, 1.0), **({("wh", "b"): Lag(5.0, 1, 9.0)} if after == 600 else {})}
        lags.record_lag(store, pipeline, NOON + seconds(after), Lag(peak, None, after), tables)
    later = NOON + lags.FINE + seconds(HOUR + 1800)
    for _ in range(2):
        lags.thin(store, pipeline, later)
    whole = lags.list_lags(store, pipeline, NOON)
    assert [(one.at, one.span) for one in whole] == [(NOON, HOUR), *((NOON + seconds(HOUR + 600 * n), SPAN) for n in range(6))]
    assert whole[0].lag == Lag(100.0, None, 3000)
    listed = lags.list_table_lags(store, pipeline, [("wh", "a"), ("wh", "b")], NOON)
    assert listed["wh", "a"][0].lag == Lag(50.0, 3000, 1.0) and listed["wh", "b"][0].lag == Lag(5.0, 1, 9.0)
    assert {one.lag for one in listed["wh", "b"][1:]} == {NOTHING}
    assert lags.list_lags(store, pipeline, NOON + seconds(1800))[0].at == NOON, "its hour reaches behind that moment"
    lags.thin(store, pipeline, NOON + lags.KEPT + seconds(60))
    assert [one.at for one in lags.list_lags(store, pipeline, NOON)] == [NOON + seconds(HOUR)], "what is older than a month is gone"
    pipelines.forget(store, pipeline)
    assert lags.list_lags(store, pipeline, NOON) == []


def test_a_damaged_look_is_an_error_that_says_what_to_do(store: Store, pipeline: str) -> None:
    lags.record_lag(store, pipeline, NOON, Lag(0.0, 0, 0.0), {})
    store.write(lambda connection: connection.execute(table.update().where(table.c.pipeline == pipeline).values(tables=b"torn")))
    with pytest.raises(StoreError, match="corrupt; forget its history with auditor pipeline reset"):
        lags.list_table_lags(store, pipeline, [("wh", "a")], NOON)


def test_who_paused_a_pipeline_first_is_stored_until_it_goes_on(store: Store, pipeline: str) -> None:
    pipelines.set_paused(store, pipeline, True, "ada")
    pipelines.set_paused(store, pipeline, True, "bob")
    state = pipelines.get_pipeline(store, pipeline)
    assert (state.paused, state.paused_by) == (True, "ada") and state.paused_at
    pipelines.set_paused(store, pipeline, False, "bob")
    state = pipelines.get_pipeline(store, pipeline)
    assert (state.paused, state.paused_by, state.paused_at) == (False, "", None)


def test_a_problem_is_told_of_once_after_its_patience_and_once_when_it_is_over(store: Store, pipeline: str) -> None:
    down, table = ProblemKey("down"), ProblemKey("stopped", "wh", "shop.orders")
    patience = {"down": 60.0, "stopped": 0.0}

    def look(after: float, found: dict[ProblemKey, str]) -> tuple[list[ProblemKey], list[ProblemKey]]:
        due, over = pipelines.update_problems(store, pipeline, found, NOON + seconds(after), lambda one: patience[one.key.kind])
        return [one.key for one in due], [one.key for one in over]

    both = {down: "gone", table: "no key"}
    assert look(0, both) == ([table], [])
    assert look(30, both) == ([], [])
    assert look(60, {**both, table: "another reason"}) == ([down], [])
    assert look(90, both) == ([], [])
    found = [(one.key, one.since, one.reason, one.notified) for one in pipelines.list_problems(store, pipeline)]
    assert found == [(down, NOON, "gone", True), (table, NOON, "no key", True)]
    pipelines.set_unnotified(store, pipeline, [down])
    assert look(100, both) == ([down], []), "no channel could be told"
    assert look(110, {table: "no key"}) == ([], [down])
    assert look(120, {down: "gone again"}) == ([], [table])
    assert look(130, {}) == ([], []), "it was over before anybody was told"
    assert pipelines.list_problems(store, pipeline) == []
