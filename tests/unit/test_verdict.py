"""Verdicts with thresholds: how many differing rows are allowed, also by methods that name no rows."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor import service
from auditor.compare.verdict import conclude
from auditor.config import Audit, ConnectionSettings, Settings, Threshold
from auditor.model import SIDES, Comparison, Differences, Jaccard, Report, Score, Verdict
from auditor.report import json as as_json
from auditor.report import render
from auditor.run import audit_run
from auditor.service import notify
from auditor.store import open_store, runs

pytestmark = pytest.mark.duckdb
ROWS = 2000
SIZE = 10


class Tables:
    """Two equal tables whose target a test damages."""

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
        connections = {str(side): ConnectionSettings(url=f"duckdb:///{path}") for side, path in self.paths.items()}
        return audit_run.run("t", Audit.model_validate({**ends, "key": ["id"], "partition": {"size": SIZE}, **audit}), connections)


@pytest.fixture
def both(tmp_path: Path) -> Tables:
    return Tables(tmp_path)


@pytest.mark.quick_for("signature")
@pytest.mark.parametrize("method", ["signature", "minhash"])
def test_row_threshold_counts_all_rows_that_may_differ(both: Tables, method: str) -> None:
    both.damage("UPDATE t SET v = 'x' WHERE id = 7")
    verdicts = {rows: both.run(method=method, threshold={"rows": rows}, salt="s4lt").verdict for rows in (1, 19, 20)}
    assert verdicts == {1: Verdict.UNKNOWN, 19: Verdict.UNKNOWN, 20: Verdict.MATCH}, "all ten rows of both sides may differ"
    assert both.run(method=method, threshold={"rows": 0}).verdict is Verdict.MISMATCH, "at least one does"
    allowed = both.run(method=method, threshold={"share": "1%"})
    assert allowed.verdict is Verdict.MATCH and allowed.exit_code == 0
    assert allowed.reasons[-1].endswith("1.0000% of the rows differ, not more than the 1.0000% that the threshold allows")
    assert both.run(method=method, threshold={"share": "0.9%"}).verdict is Verdict.UNKNOWN
    assert both.run(method=method).verdict is Verdict.MISMATCH


@pytest.mark.quick_for("minhash")
@pytest.mark.parametrize("method", ["signature", "minhash"])
def test_threshold_never_allows_more_rows_than_it_states(both: Tables, method: str, request: pytest.FixtureRequest) -> None:
    """Rows are changed and deleted, scattered and in batches."""
    chance, matches = random.Random(method), 0
    damaged: set[int] = set()
    for _ in range(12 if request.config.getoption("--slow") else 5):
        first, count = chance.randrange(ROWS), chance.choice((1, 1, 3, 15))
        damaged |= set(range(first, min(first + count, ROWS)))
        keys = ", ".join(str(key) for key in range(first, first + count))
        both.damage(chance.choice((f"UPDATE t SET v = 'x' WHERE id IN ({keys})", f"DELETE FROM t WHERE id IN ({keys})")))
        for rows in (len(damaged) - 1, 30, 100):
            found = both.run(method=method, threshold={"rows": rows})
            matches += found.verdict is Verdict.MATCH
            assert found.verdict is not Verdict.MATCH or len(damaged) <= rows, (found.reasons, len(damaged))
    assert matches, "some runs have to match"


def test_every_report_counts_the_rows_of_a_key_that_was_loaded_again_and_again(both: Tables, tmp_path: Path) -> None:
    """The verdict, the report in each format, the stored run (and so metrics and the API) and messages tell one number."""
    both.damage("INSERT INTO t SELECT 7, 'row 7' FROM range(5000)")
    both.damage("INSERT INTO t SELECT 8, 'other' FROM range(2)")
    both.damage("UPDATE t SET v = 'first' WHERE id = 8 AND v = 'row 8'")
    ends: dict[str, Any] = {side: {"connection": side, "table": "t"} for side in SIDES}
    audit: dict[str, Any] = {
        **ends,
        "key": ["id"],
        "partition": {"size": SIZE},
        "threshold": {"rows": 10},
        "recheck": {"times": 1, "wait": "0s"},
    }
    urls = {str(side): {"url": f"duckdb:///{path}"} for side, path in both.paths.items()}
    store = open_store(f"sqlite:///{tmp_path}/runs.db")
    report = service.run_audit(Settings.model_validate({"connections": urls, "audits": {"t": audit}}), "t", store=store)
    (stored,) = runs.list_runs(store, audit="t")
    store.close()
    assert report.verdict is Verdict.MISMATCH, report.reasons
    assert report.reasons[:2] == ("5,003 of 7,002 rows differ: 5,000 extra, 3 changed (v)", "1 changed row was compared by column")
    assert (stored.missing, stored.extra, stored.changed, stored.unsettled) == (0, 5000, 3, 0)
    differing = as_json.report(report).differences
    assert differing and (differing.extra, differing.changed) == (5000, 3)
    assert notify.run_message(report, "mismatch").title == "t: MISMATCH, 5,003 rows differ"
    shown = render.run(report, None, "text")
    assert "5,000 rows, only in the" in shown
    assert both.run(threshold={"rows": 5002}).verdict is Verdict.MISMATCH
    assert both.run(threshold={"rows": 5003}).verdict is Verdict.MATCH


def comparison(verdict: Verdict, skipped: int = 0) -> Comparison:
    """Return a comparison in which one of a hundred partitions differs."""
    rows: dict[Any, int] = {"source": 1000, "target": 1000}
    none: Any = (object(),)
    return Comparison(
        verdict=verdict, reasons=("1 of 100 partitions differ",), published=None, rows=rows, total=100, equal=99, source_only=0,
        target_only=0, skipped=skipped, skipped_rows=0, divergent=none,
    )  # fmt: skip


def differences(**counts: int) -> Differences:
    """Return exact differences with these counts."""
    kinds: dict[str, Any] = {"missing": 0, "extra": 0, "changed": 0, **counts}
    return Differences(exact=True, named=(), ranges=(), partitions={"estimated": 0}, looks=1, **kinds)


SIMILAR = Jaccard(score=Score(0.999, 0.998, 1.0), least=0.9802, most=0.999, differing=1.0)
"""The least similarity 0.9802 means that at most 20 of the 2,000 rows of both sides are on one side only."""


def test_row_threshold_uses_hard_bounds_and_not_estimates() -> None:
    """The 95 % interval allows two differing rows, but only the hard bound of twenty is certain."""
    assert conclude(comparison(Verdict.MISMATCH), None, SIMILAR, Threshold(rows=2))[0] is Verdict.UNKNOWN
    assert conclude(comparison(Verdict.MISMATCH), None, SIMILAR, Threshold(rows=20))[0] is Verdict.MATCH


ESTIMATED = Jaccard(score=Score(0.97, 0.95, 0.98), least=0.9, most=0.99, differing=30.0)
"""Certainly at least 0.9, and at 95 % confidence at most 0.98: of 2,000 rows, 20.2 to 105 are on one side only: 11 or more differ."""


@pytest.mark.parametrize(
    ("threshold", "expected", "number"),
    [
        (Threshold(score=0.9), Verdict.MATCH, "the similarity is at least 0.9, not below the threshold 0.9"),
        (Threshold(score=0.91), Verdict.UNKNOWN, "certainly at least 0.9, and at most 0.98 at 95 % confidence"),
        (Threshold(score=0.98), Verdict.UNKNOWN, "so the threshold 0.98 is undecided"),
        (Threshold(score=0.981), Verdict.MISMATCH, "the similarity is at most 0.98, at 95 % confidence, below the threshold 0.981"),
        (Threshold(rows=105), Verdict.MATCH, "at most 105 differing rows are not more than the 105"),
        (Threshold(rows=104), Verdict.UNKNOWN, "between 11 and 105 rows differ"),
        (Threshold(rows=11), Verdict.UNKNOWN, "undecided"),
        (Threshold(rows=10), Verdict.MISMATCH, "at least 11 differing rows, at 95 % confidence, are more than the 10"),
        (Threshold(share=0.106), Verdict.MATCH, "at most 10.5000% of the rows differ"),
        (Threshold(share=0.05), Verdict.UNKNOWN, "between 1.1000% and 10.5000% of the rows differ"),
        (Threshold(share=0.01), Verdict.MISMATCH, "at least 1.1000%, at 95 % confidence, of the rows differ"),
        (Threshold(score=0.99, rows=105), Verdict.MATCH, "differing rows are not more than"),
        (Threshold(score=0.99, rows=50), Verdict.UNKNOWN, "between 11 and 105 rows differ"),
        (Threshold(), Verdict.MISMATCH, "1 of 100 partitions differ"),
    ],
)
def test_threshold_is_compared_with_certain_and_likely_bounds(threshold: Threshold, expected: Verdict, number: str) -> None:
    verdict, reasons = conclude(comparison(Verdict.MISMATCH), None, ESTIMATED, threshold)
    assert verdict is expected and number in reasons[-1], reasons
    named = conclude(comparison(Verdict.MISMATCH), replace(differences(), partitions={"estimated": 1}), ESTIMATED, threshold)
    assert (named[0] is expected and number in named[1][-1]) or threshold == Threshold(), "also where exact estimates what it cannot name"


@pytest.mark.parametrize(
    ("counts", "allowed", "expected", "said"),
    [
        ({"changed": 1, "undecided": 2}, 3, Verdict.MATCH, "at most 3 differing rows are not more than the 3"),
        ({"changed": 1, "undecided": 2}, 2, Verdict.UNKNOWN, "between 1 and 3 rows differ"),
        ({"changed": 1, "undecided": 2}, 0, Verdict.MISMATCH, "1 differing rows"),
        ({"undecided": 2}, 2, Verdict.MATCH, "at most 2 differing rows are not more than the 2"),
        ({"undecided": 2}, 1, Verdict.UNKNOWN, "2 rows differ in the text of JSON documents"),
        ({"changed": 1, "unsettled": 1, "undecided": 1}, 3, Verdict.MATCH, "at most 3 differing rows"),
        ({"changed": 1, "unsettled": 1, "undecided": 1}, 2, Verdict.UNKNOWN, "between 1 and 3 rows differ"),
    ],
)
def test_rows_whose_documents_were_not_compared_count_as_different_in_what_is_certain(
    counts: dict[str, int], allowed: int, expected: Verdict, said: str
) -> None:
    verdict, reasons = conclude(comparison(Verdict.MISMATCH), differences(**counts), SIMILAR, Threshold(rows=allowed))
    assert verdict is expected and any(said in reason for reason in reasons), reasons


def test_published_score_is_compared_by_counts_alone(both: Tables) -> None:
    """Of 200 partitions one differs: the published score is 0.995, and for all that the sums tell one row of 2,000 or twenty."""
    both.damage("UPDATE t SET v = 'x' WHERE id = 7")
    counts = {score: both.run(method="counts", threshold=score, partition={"strategy": "range", "size": SIZE}) for score in (0.995, 0.996)}
    assert [report.verdict for report in counts.values()] == [Verdict.MATCH, Verdict.MISMATCH], [r.reasons for r in counts.values()]
    assert any("the published score 0.995 is not below the threshold 0.995" in reason for reason in counts[0.995].reasons)
    assert any("the published score 0.995 is below the threshold 0.996" in reason for reason in counts[0.996].reasons)
    exact = both.run(threshold=0.9995)
    assert exact.verdict is Verdict.MISMATCH and "the similarity is 0.999, below the threshold 0.9995" in exact.reasons[-1]
    assert both.run(threshold=0.999).within_threshold and not both.run(threshold=0.999, columns={"exclude": ["v"]}).within_threshold


def test_uncompared_rows_are_not_allowed_by_a_threshold() -> None:
    for verdict in (Verdict.MISMATCH, Verdict.UNKNOWN):
        assert conclude(comparison(verdict, skipped=1), None, SIMILAR, Threshold(rows=2000))[0] is Verdict.UNKNOWN
        assert conclude(comparison(verdict, skipped=1), None, SIMILAR, Threshold(rows=2))[0] is Verdict.UNKNOWN
    few = conclude(comparison(Verdict.MISMATCH, skipped=1), differences(changed=1), SIMILAR, Threshold(rows=1))
    assert few[0] is Verdict.UNKNOWN and "unsettled or uncompared rows" in few[1][-1]
    assert conclude(comparison(Verdict.MISMATCH, skipped=1), differences(changed=2), SIMILAR, Threshold(rows=1))[0] is Verdict.MISMATCH


@pytest.mark.parametrize(
    ("changed", "unsettled", "expected"),
    [(1, 1, Verdict.MATCH), (0, 2, Verdict.MATCH), (1, 2, Verdict.UNKNOWN), (0, 3, Verdict.UNKNOWN), (3, 1, Verdict.MISMATCH)],
)
@pytest.mark.parametrize("threshold", [Threshold(rows=2), Threshold(share=0.002)])
def test_threshold_counts_unsettled_rows_as_differing(changed: int, unsettled: int, expected: Verdict, threshold: Threshold) -> None:
    found = conclude(comparison(Verdict.MISMATCH), differences(changed=changed, unsettled=unsettled), SIMILAR, threshold)
    assert found[0] is expected, found[1]


@pytest.mark.parametrize(("score", "expected"), [(0.998, Verdict.MATCH), (0.9985, Verdict.UNKNOWN), (0.9999, Verdict.MISMATCH)])
def test_score_threshold_applies_to_the_least_similarity(score: float, expected: Verdict) -> None:
    """The interval's lower end counts unsettled rows as different, its upper end as equal."""
    similar = Jaccard(score=Score(0.999, 0.998, 0.999), least=0.998, most=0.999, differing=2)
    found = conclude(comparison(Verdict.MISMATCH), differences(changed=1, unsettled=1), similar, Threshold(score=score))
    assert found[0] is expected, found[1]


def test_unsettled_rows_are_not_allowed_without_a_threshold() -> None:
    assert conclude(comparison(Verdict.MISMATCH), differences(changed=1, unsettled=5), SIMILAR, Threshold())[0] is Verdict.MISMATCH
    assert conclude(comparison(Verdict.MISMATCH), differences(unsettled=5), SIMILAR, Threshold())[0] is Verdict.UNKNOWN


def test_in_flight_rows_match_and_are_explained_in_the_reasons() -> None:
    found = Differences(missing=0, extra=0, changed=0, exact=True, named=(), ranges=(), partitions={"estimated": 0}, in_flight=3, looks=1)
    verdict, reasons = conclude(comparison(Verdict.MISMATCH), found, SIMILAR, Threshold())
    assert verdict is Verdict.MATCH and any("in flight: on the source younger than the watermark" in one for one in reasons)
