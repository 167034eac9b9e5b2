"""A bootstrap that is killed leaves its table as it was or whole, and the same command goes on with it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from auditor.bootstrap import use_cases
from auditor.model import Verdict
from auditor.points import armed
from auditor.store import bootstraps as stored
from tests.live import LivePair, chosen_pairs
from tests.repair import damaged
from tests.repair.bootstrap_killed import ROWS, STEPS, kill
from tests.repair.bootstrapped import clean, left
from tests.repair.damaged import Damaged

QUICK = [*chosen_pairs("mariadb-postgres")]
EVERY = [*chosen_pairs("mariadb-postgres", "postgres-mariadb", "mariadb-mysql", "mariadb-duckdb", "duckdb-delta")]


@pytest.fixture
def both(pair: LivePair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Damaged]:
    monkeypatch.setattr("auditor.bootstrap.plan.RANGE_ROWS", ROWS)
    clean(pair.target)
    made = damaged.make(pair, tmp_path, rows=60, differences=18)
    yield made
    made.store.close()
    clean(pair.target)


@pytest.mark.parametrize("pair", QUICK, indirect=True)
def test_a_bootstrap_that_is_killed_goes_on_with_what_was_copied(both: Damaged, tmp_path: Path) -> None:
    """It is killed after it loaded the second of four ranges, of which the journal knows one."""
    before = both.read_target()
    assert kill(both, tmp_path, step="loaded", nth=2) == -9
    (one,) = stored.list_bootstraps(both.store)
    assert (one.state, one.stage) == ("running", "copying") and len(stored.list_ranges(both.store, one.bootstrap)) == 1
    assert both.read_target() == before
    plan = use_cases.plan_bootstrap(both.settings, both.store, "all")
    assert f"goes on  with bootstrap {one.bootstrap[:12]}" in plan and "running while copying" in plan
    loaded: list[str] = []
    with armed("bootstrap.loaded", lambda: loaded.append("range")):
        result = use_cases.run_bootstrap(both.settings, both.store, "all")
    assert result.bootstrap == one.bootstrap and len(loaded) == len(one.detail["ranges"]) - 1
    check_whole(both, result)


@pytest.mark.slow
@pytest.mark.parametrize("pair", EVERY, indirect=True)
def test_a_bootstrap_survives_a_kill_at_each_step_and_at_random_moments(both: Damaged, tmp_path: Path) -> None:
    generator = random.Random(9)
    before = both.read_target()
    moments = [(step, 1, 0.0) for step in STEPS]
    moments += [("", generator.randrange(1, 15), generator.random() / 10) for _ in range(20)]
    for step, nth, delay in moments:
        code = kill(both, tmp_path, step=step, nth=nth, delay=delay)
        last = stored.list_bootstraps(both.store)[-1]
        old = str(last.detail["old"])
        assert set(left(both.pair.target)) <= {last.detail["stage"], old}  # nothing that the journal does not name
        if code == 0 or generator.random() < 0.5:
            check_whole(both, use_cases.run_bootstrap(both.settings, both.store, "all") if code else None)
            damage(both)
            before = both.read_target()
        elif last.stage == "copying":
            assert both.read_target() == before
    check_whole(both, use_cases.run_bootstrap(both.settings, both.store, "all"))


def check_whole(both: Damaged, result: use_cases.BootstrapResult | None) -> None:
    """Check that the table holds the source's rows, and that nothing is left beside it once that was dropped."""
    if result is not None:
        assert result.after and result.after.verdict is Verdict.MATCH, result
    names = [name for name, _ in both.columns]
    assert len(both.read_target()) == len(damaged.read_exactly(both.pair.source, "patched_source", names)) == len(both.source)
    assert both.run().verdict is Verdict.MATCH
    assert all(one.state in ("done", "dropped") for one in stored.list_bootstraps(both.store))
    use_cases.drop_left(both.settings, both.store, "all")
    assert left(both.pair.target) == []


def damage(both: Damaged) -> None:
    """Delete some rows of the target, as a pipeline would lose them."""
    from tests import tables

    tables.execute(both.pair.target, "DELETE FROM patched_target WHERE id < 30")
