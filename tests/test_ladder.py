"""Which methods a run goes through."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor import ladder, naming, run
from auditor.config import Audit, Connection
from auditor.errors import StatementRefused
from auditor.model import Method, State, Verdict


def audit(**more: Any) -> Audit:
    here = {"connection": "x", "table": "t"}
    return Audit.model_validate({"source": here, "target": here, "key": ("id",), **more})


def climbed(wanted: Audit, verdicts: dict[Method, Verdict], ended_runs: int) -> list[Method]:
    """The levels that a run goes through when each ends with that verdict."""
    gone: list[Method] = []
    for level in ladder.levels(wanted):
        gone.append(level)
        if not ladder.goes_up(wanted, level, verdicts[level], ended_runs):
            break
    return gone


LADDER = audit(ladder=["counts", "signature", "exact"])
MATCH, MISMATCH, UNKNOWN = Verdict.MATCH, Verdict.MISMATCH, Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("counts", "signature", "ended_runs", "gone"),
    [
        (MATCH, MATCH, 1, ["counts"]),
        (MISMATCH, MATCH, 1, ["counts", "signature"]),
        (MISMATCH, MISMATCH, 1, ["counts", "signature", "exact"]),
        (UNKNOWN, MISMATCH, 1, ["counts"]),
        (MATCH, MATCH, 0, ["counts", "signature", "exact"]),
        (MATCH, MATCH, 9, ["counts"]),
        (MATCH, MATCH, 10, ["counts", "signature", "exact"]),
        (UNKNOWN, MATCH, 10, ["counts"]),
    ],
)
def test_levels_are_climbed(counts: Verdict, signature: Verdict, ended_runs: int, gone: list[Method]) -> None:
    assert climbed(LADDER, {"counts": counts, "signature": signature, "exact": MISMATCH}, ended_runs) == gone


def test_without_every_only_a_difference_leads_up() -> None:
    wanted = audit(ladder={"levels": ["counts", "exact"], "every": 0})
    assert climbed(wanted, {"counts": MATCH, "exact": MATCH}, 0) == ["counts"]


def test_without_a_ladder_there_is_one_level() -> None:
    assert ladder.levels(audit(method="signature")) == ("signature",)
    assert not ladder.goes_up(audit(method="signature"), "signature", MISMATCH, 0)


def test_auto_is_chosen_by_what_the_last_runs_found() -> None:
    wanted = audit(method="auto")
    assert ladder.levels(wanted) == ("exact",)
    assert ladder.levels(wanted, [0.5] * 4, ended_runs=4) == ("minhash",)
    assert ladder.levels(wanted, [1e-6] * 4, ended_runs=4) == ("exact",)
    assert ladder.levels(wanted, [0.5] * 10, ended_runs=10) == ("exact",)  # every tenth run
    assert ladder.levels(wanted, [0.5] * 30, ended_runs=31) == ("minhash",)  # of a history that is kept no longer than this
    assert ladder.levels(wanted, [0.05] * 4, rows_each=1, ended_runs=4) == ("exact",)  # one row decodes whatever differs


def tables(folder: Path) -> tuple[dict[str, Any], dict[str, Connection]]:
    """Two tables of which every row differs: an audit's sides and key, and its connections."""
    for side, value in (("source", "a"), ("target", "b")):
        with duckdb.connect(str(folder / side)) as connection:
            connection.execute(f"CREATE TABLE t AS SELECT i AS id, '{value}' AS v FROM range(100) r(i)")
    ends: dict[str, Any] = {side: {"connection": side, "table": "t"} for side in ("source", "target")}
    return {**ends, "key": ["id"]}, {side: Connection(url=f"duckdb:///{folder / side}") for side in ends}


@pytest.mark.duckdb
def test_a_run_knows_how_many_have_ended(tmp_path: Path) -> None:
    wanted, connections = tables(tmp_path)
    for ended, method in ((30, "exact"), (31, "minhash"), (40, "exact")):
        before = run.Before(runs=ended, shares=(0.5,) * 30)
        report = run.perform("t", Audit.model_validate({**wanted, "method": "auto"}), connections, before=before).report
        assert report.method == method, report.reasons


@pytest.mark.duckdb
@pytest.mark.parametrize(("failure", "state"), [(StatementRefused("no"), State.FAILED), (KeyboardInterrupt(), State.CANCELLED)])
def test_a_level_that_ends_early_is_not_told_by_what_the_level_below_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException, state: State
) -> None:
    wanted, connections = tables(tmp_path)

    def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr(naming, "name_differences", fail)
    outcome = run.perform("t", Audit.model_validate({**wanted, "ladder": ["minhash", "exact"]}), connections)
    report = outcome.report
    assert (report.state, report.verdict, report.method) == (state, Verdict.UNKNOWN, "exact")
    assert (report.comparison, report.jaccard, outcome.picture) == (None, None, None)
    assert [(step.method, step.verdict) for step in report.steps] == [("minhash", MISMATCH)], "there it is told as that level's"
