"""Random tables under random settings: no audit says anything else than the oracle.

`make deep` runs ten thousand, of which an eighth is over columns with names that statements of audits used for themselves. Each wrong
run is printed with the command that repeats it.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product
from pathlib import Path

import pytest

from auditor.model import Side, Verdict
from tests.deep.features import METHODS
from tests.deep.oracle import expect
from tests.deep.runs import RUNS_PER_WORLD, Stage, Tally, duckdb_in, judge
from tests.deep.tables import Rows, draw_world
from tests.live import Engines, LiveEngine, chosen_pairs

SOME = [
    *(pytest.param(*one.values, range(1, 9), marks=one.marks, id=one.id) for one in chosen_pairs("duckdb-duckdb")),
    *(
        pytest.param(*one.values, range(9, 25), marks=[*one.marks, pytest.mark.slow], id=f"{one.id}-more")
        for one in chosen_pairs("duckdb-duckdb")
    ),
    *(pytest.param(*one.values, range(1, 6), marks=one.marks, id=one.id) for one in chosen_pairs("mysql-postgres")),
]
"""Pairs of engines and the seeds of a normal run, and of a slow one; two runs each."""

SHARES = {
    "duckdb-duckdb": 0.65, "mysql-postgres": 0.07, "postgres-mysql": 0.04, "mariadb-redshift": 0.05, "postgres-duckdb": 0.03,
    "duckdb-mariadb": 0.03, "mysql-redshift": 0.03, "postgres-postgres": 0.03, "mysql-spark": 0.01, "duckdb-spark": 0.01,
    "mysql-clickhouse": 0.02, "postgres-clickhouse": 0.02, "duckdb-iceberg": 0.01,
}  # fmt: skip
"""The share of all deep runs, by pair of engines."""

MOST_UNKNOWN = 0.15
"""The greatest share of runs whose verdict may be unknown; most of these compare no row."""

COMBINED = (
    *METHODS, "filter", "settle", "recheck", "tolerance", "slice", "shards", "rolling", "prescan true", "prescan false", "mask",
    "partition hash", "partition range", "partition time", "t 1", "t 3", "t more", "composite key", "text key", "NULL keys",
    "captured names",
)  # fmt: skip
"""Features of which each pair has to occur in many runs."""

APART = frozenset(
    frozenset(pair)
    for pair in (
        *combinations(METHODS, 2),
        *combinations(("partition hash", "partition range", "partition time"), 2),
        *combinations(("t 1", "t 3", "t more"), 2),
        ("prescan true", "prescan false"),
        *product(METHODS[:3], ("t 1", "t 3", "t more", "recheck")),
        *product(("counts", "minhash"), ("prescan true", "prescan false")),
        *product(("counts",), ("partition hash", "partition range", "partition time", "rolling")),
        *product(("rolling",), ("shards", "slice", "composite key", "text key", "partition hash", "partition range", "partition time")),
        *product(("partition range",), ("composite key", "text key")),
    )
)
"""Pairs that cannot be: of one setting's values, or of settings that are refused together."""


def _stage(engines: Engines, names: str, folder: Path) -> Stage:
    def live(name: str, side: str) -> LiveEngine:
        return duckdb_in(folder, side) if name == "duckdb" else engines.live(name)

    source, target = names.split("-")
    return Stage(live(source, "source"), live(target, "target"), duckdb_in(folder, "lake"), folder)


def _play(stage: Stage, seeds: range, numbers: range) -> Tally:
    tally = Tally()
    for seed in seeds:
        for outcome in stage.play(seed, numbers):
            tally.add(outcome)
    return tally


@pytest.mark.quick_for("mysql-postgres")
@pytest.mark.parametrize(("pair", "seeds"), SOME)
def test_some_random_audits_say_what_the_oracle_says(engines: Engines, pair: tuple[str, str], seeds: range, tmp_path: Path) -> None:
    tally = _play(_stage(engines, "-".join(pair), tmp_path), seeds, range(2))
    assert not tally.wrong, f"\n{tally}"


@pytest.mark.deep
@pytest.mark.parametrize("pair", chosen_pairs(*SHARES))
def test_thousands_of_random_audits_say_what_the_oracle_says(
    engines: Engines, pair: tuple[str, str], tmp_path: Path, pytestconfig: pytest.Config, capsys: pytest.CaptureFixture[str]
) -> None:
    names = "-".join(pair)
    runs = round(pytestconfig.getoption("--deep-runs") * SHARES[names])
    first = pytestconfig.getoption("--deep-seed")
    seeds = range(first, first - (-runs // RUNS_PER_WORLD))
    tally = _play(_stage(engines, names, tmp_path), seeds, range(RUNS_PER_WORLD))
    with capsys.disabled():
        print(f"\n{names}: {tally}")
    assert not tally.wrong, f"\n{tally}"
    assert sum(tally.causes.values()) <= MOST_UNKNOWN * tally.runs or tally.runs < 500
    assert tally.taken >= tally.runs // 10 or tally.runs < 100
    if tally.runs > 3_000:
        never = [pair for pair in combinations(sorted(COMBINED), 2) if not tally.pairs[pair] and frozenset(pair) not in APART]
        assert not never, f"these pairs of features were in no run: {never}"


def test_a_verdict_or_a_count_that_is_not_the_oracles_is_noticed(engines: Engines, tmp_path: Path) -> None:
    """A report is judged by what another pair of tables would have to yield."""
    stage = _stage(engines, "duckdb-duckdb", tmp_path)
    noticed = {Verdict.MATCH: 0, Verdict.MISMATCH: 0}
    for seed in range(1, 8):
        world = draw_world(seed, stage.engines)
        features, report = stage.audit_plainly(world)
        right = expect(world, features, world.rows)
        assert not judge(world, features, report, right)
        swapped: dict[Side, Rows] = {"source": world.rows["source"], "target": world.rows["source"]}
        wrong = (
            expect(world, features, swapped)
            if report.verdict is Verdict.MISMATCH
            else replace(right, allowed=frozenset({Verdict.MISMATCH}))
        )
        if report.verdict in noticed:
            assert judge(world, features, report, wrong)
            noticed[report.verdict] += 1
    assert all(noticed.values())
