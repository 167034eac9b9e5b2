"""From what a run found to its verdict, where a threshold forgives differing rows that no method named."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor import run
from auditor.config import Audit, Connection, Threshold
from auditor.model import SIDES, Comparison, Differences, Jaccard, Report, Score, Verdict
from auditor.verdict import conclude

pytestmark = pytest.mark.duckdb
ROWS = 2000
SIZE = 10


class Tables:
    """Two equal tables, the target of which a test damages."""

    def __init__(self, folder: Path) -> None:
        self.paths = {side: folder / f"{side}.duckdb" for side in SIDES}
        for path in self.paths.values():
            with duckdb.connect(str(path)) as connection:
                connection.execute(f"CREATE TABLE t AS SELECT i AS id, 'row ' || i AS v FROM range({ROWS}) r(i)")

    def damage(self, sql: str) -> None:
        with duckdb.connect(str(self.paths["target"])) as connection:
            connection.execute(sql)

    def run(self, **audit: Any) -> Report:
        ends = {side: {"connection": side, "table": "t"} for side in SIDES}
        connections = {str(side): Connection(url=f"duckdb:///{path}") for side, path in self.paths.items()}
        return run.run("t", Audit.model_validate({**ends, "key": ["id"], "partition": {"size": SIZE}, **audit}), connections)


@pytest.fixture
def both(tmp_path: Path) -> Tables:
    return Tables(tmp_path)


@pytest.mark.parametrize("method", ["signature", "minhash"])
def test_a_threshold_of_rows_is_held_against_all_rows_that_may_differ(both: Tables, method: str) -> None:
    both.damage("UPDATE t SET v = 'x' WHERE id = 7")
    verdicts = {rows: both.run(method=method, threshold={"rows": rows}).verdict for rows in (1, 19, 20)}
    assert verdicts == {1: Verdict.MISMATCH, 19: Verdict.MISMATCH, 20: Verdict.MATCH}, "ten rows on either side"
    allowed = both.run(method=method, threshold={"share": "1%"})
    assert allowed.verdict is Verdict.MATCH and allowed.exit_code == 0
    assert allowed.reasons[-1].endswith("1.0000% of the rows differ, not more than the 1.0000% that the threshold allows")
    assert both.run(method=method, threshold={"share": "0.9%"}).verdict is Verdict.MISMATCH
    assert both.run(method=method).verdict is Verdict.MISMATCH


@pytest.mark.parametrize("method", ["signature", "minhash"])
def test_no_threshold_forgives_more_rows_than_it_says(both: Tables, method: str) -> None:
    """Whatever was damaged: rows changed, lost and invented, scattered and in a lump."""
    chance, matches = random.Random(method), 0
    damaged: set[int] = set()
    for _ in range(12):
        first, count = chance.randrange(ROWS), chance.choice((1, 1, 3, 15))
        damaged |= set(range(first, min(first + count, ROWS)))
        keys = ", ".join(str(key) for key in range(first, first + count))
        both.damage(chance.choice((f"UPDATE t SET v = 'x' WHERE id IN ({keys})", f"DELETE FROM t WHERE id IN ({keys})")))
        for rows in (len(damaged) - 1, 30, 100):
            found = both.run(method=method, threshold={"rows": rows})
            matches += found.verdict is Verdict.MATCH
            assert found.verdict is Verdict.MISMATCH or len(damaged) <= rows, (found.reasons, len(damaged))
    assert matches, "some were allowed"


def compared(verdict: Verdict, skipped: int = 0) -> Comparison:
    """One of a hundred partitions differs."""
    rows: dict[Any, int] = {"source": 1000, "target": 1000}
    none: Any = (object(),)
    return Comparison(
        verdict=verdict, reasons=("1 of 100 partitions differ",), published=None, rows=rows, total=100, equal=99, source_only=0,
        target_only=0, skipped=skipped, skipped_rows=0, divergent=none,
    )  # fmt: skip


def named(**counts: int) -> Differences:
    """What was named in that partition."""
    kinds: dict[str, Any] = {"missing": 0, "extra": 0, "changed": 0, **counts}
    return Differences(exact=True, named=(), ranges=(), partitions={"estimated": 0}, looks=1, **kinds)


SIMILAR = Jaccard(score=Score(0.999, 0.998, 1.0), least=0.9802, most=0.999, differing=1.0)
"""At least 0.9802: at most 20 of the 2,000 rows of both sides are on one side only."""


def test_an_estimate_is_no_bound() -> None:
    """Within the 95 % interval two rows differ; for certain only that twenty may."""
    assert conclude(compared(Verdict.MISMATCH), None, SIMILAR, Threshold(rows=2))[0] is Verdict.MISMATCH
    assert conclude(compared(Verdict.MISMATCH), None, SIMILAR, Threshold(rows=20))[0] is Verdict.MATCH


def test_what_was_not_compared_is_not_forgiven() -> None:
    for verdict in (Verdict.MISMATCH, Verdict.UNKNOWN):
        assert conclude(compared(verdict, skipped=1), None, SIMILAR, Threshold(rows=2000))[0] is Verdict.UNKNOWN
        assert conclude(compared(verdict, skipped=1), None, SIMILAR, Threshold(rows=2))[0] is verdict
    few = conclude(compared(Verdict.MISMATCH, skipped=1), named(changed=1), SIMILAR, Threshold(rows=1))
    assert few[0] is Verdict.UNKNOWN and "was not compared" in few[1][-1]
    assert conclude(compared(Verdict.MISMATCH, skipped=1), named(changed=2), SIMILAR, Threshold(rows=1))[0] is Verdict.MISMATCH


@pytest.mark.parametrize(
    ("changed", "unsettled", "wanted"),
    [(1, 1, Verdict.MATCH), (0, 2, Verdict.MATCH), (1, 2, Verdict.UNKNOWN), (0, 3, Verdict.UNKNOWN), (3, 1, Verdict.MISMATCH)],
)
@pytest.mark.parametrize("threshold", [Threshold(rows=2), Threshold(share=0.002)])
def test_a_threshold_allows_what_is_unsettled_as_if_it_differed(
    changed: int, unsettled: int, wanted: Verdict, threshold: Threshold
) -> None:
    found = conclude(compared(Verdict.MISMATCH), named(changed=changed, unsettled=unsettled), SIMILAR, threshold)
    assert found[0] is wanted, found[1]


@pytest.mark.parametrize(("score", "wanted"), [(0.998, Verdict.MATCH), (0.9985, Verdict.UNKNOWN), (0.9999, Verdict.MISMATCH)])
def test_a_score_is_held_against_the_least_similarity(score: float, wanted: Verdict) -> None:
    """The interval's lower end counts all that is unsettled as different, its upper end as equal."""
    similar = Jaccard(score=Score(0.999, 0.998, 0.999), least=0.998, most=0.999, differing=2)
    found = conclude(compared(Verdict.MISMATCH), named(changed=1, unsettled=1), similar, Threshold(score=score))
    assert found[0] is wanted, found[1]


def test_nothing_unsettled_is_forgiven_without_a_threshold() -> None:
    assert conclude(compared(Verdict.MISMATCH), named(changed=1, unsettled=5), SIMILAR, Threshold())[0] is Verdict.MISMATCH
    assert conclude(compared(Verdict.MISMATCH), named(unsettled=5), SIMILAR, Threshold())[0] is Verdict.UNKNOWN


def test_what_is_in_flight_is_told_by_the_source() -> None:
    found = Differences(missing=0, extra=0, changed=0, exact=True, named=(), ranges=(), partitions={"estimated": 0}, in_flight=3, looks=1)
    verdict, reasons = conclude(compared(Verdict.MISMATCH), found, SIMILAR, Threshold())
    assert verdict is Verdict.MATCH and any("3 rows are in flight: younger than the watermark on the source" in one for one in reasons)
