"""Choosing the methods of a run: a fixed one, auto, or an escalation ladder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import duckdb
import pytest

from auditor.config import Audit, ConnectionSettings
from auditor.errors import StatementRefused
from auditor.history import handover
from auditor.model import Comparison, Method, State, Verdict
from auditor.planning import cost
from auditor.run import audit_run


def audit(**more: Any) -> Audit:
    here = {"connection": "x", "table": "t"}
    return Audit.model_validate({"source": here, "target": here, "key": ("id",), **more})


def found(unequal: int, skipped: int = 0) -> Comparison:
    """Return a comparison with so many unequal and skipped partitions."""
    return Comparison(
        verdict=Verdict.UNKNOWN, reasons=(), published=None, rows={"source": 9, "target": 9}, total=9, equal=9 - unequal - skipped,
        source_only=0, target_only=0, skipped=skipped, skipped_rows=0, divergent=(cast(Any, object()),) * unequal,
    )  # fmt: skip


def methods_run(definition: Audit, verdicts: dict[Method, Verdict], ended_runs: int) -> list[Method]:
    """Return the methods that a run uses if each ends with its verdict in ``verdicts``."""
    methods: list[Method] = []
    for level in cost.choose_methods(definition):
        methods.append(level)
        if not cost.escalates(definition, level, verdicts[level], found(int(verdicts[level] is MISMATCH)), ended_runs):
            break
    return methods


LADDER = audit(ladder=["counts", "signature", "exact"])
MATCH, MISMATCH, UNKNOWN = Verdict.MATCH, Verdict.MISMATCH, Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("counts", "signature", "ended_runs", "methods"),
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
def test_ladder_escalates_by_verdict_and_run_count(counts: Verdict, signature: Verdict, ended_runs: int, methods: list[Method]) -> None:
    assert methods_run(LADDER, {"counts": counts, "signature": signature, "exact": MISMATCH}, ended_runs) == methods


def test_ladder_with_every_0_escalates_only_on_a_difference() -> None:
    definition = audit(ladder={"levels": ["counts", "exact"], "every": 0})
    assert methods_run(definition, {"counts": MATCH, "exact": MATCH}, 0) == ["counts"]


def test_single_method_does_not_escalate() -> None:
    assert cost.choose_methods(audit(method="signature")) == ("signature",)
    assert not cost.escalates(audit(method="signature"), "signature", MISMATCH, found(1), 0)


def test_ladder_escalates_if_only_a_method_that_sees_more_can_decide() -> None:
    assert cost.escalates(LADDER, "signature", UNKNOWN, found(1), 1)
    assert not cost.escalates(LADDER, "signature", UNKNOWN, found(1, skipped=1), 1), "no method can read the rows that were skipped"
    assert not cost.escalates(LADDER, "exact", UNKNOWN, found(1), 1), "it is the last level"


def test_auto_chooses_by_the_differences_of_earlier_runs() -> None:
    definition = audit(method="auto")
    assert cost.choose_methods(definition) == ("exact",)
    assert cost.choose_methods(definition, [0.5] * 4, ended_runs=4) == ("minhash",)
    assert cost.choose_methods(definition, [1e-6] * 4, ended_runs=4) == ("exact",)
    assert cost.choose_methods(definition, [0.5] * 10, ended_runs=10) == ("exact",)  # every tenth run
    assert cost.choose_methods(definition, [0.5] * 30, ended_runs=31) == ("minhash",)  # the history contains at most 30 runs
    assert cost.choose_methods(definition, [0.05] * 4, rows_each=1, ended_runs=4) == ("exact",)  # partitions of one row always decode


def create_tables(folder: Path) -> tuple[dict[str, Any], dict[str, ConnectionSettings]]:
    """Create two tables that differ in every row; return the audit's sides and key, and its connections."""
    for side, value in (("source", "a"), ("target", "b")):
        with duckdb.connect(str(folder / side)) as connection:
            connection.execute(f"CREATE TABLE t AS SELECT i AS id, '{value}' AS v FROM range(100) r(i)")
    ends: dict[str, Any] = {side: {"connection": side, "table": "t"} for side in ("source", "target")}
    return {**ends, "key": ["id"]}, {side: ConnectionSettings(url=f"duckdb:///{folder / side}") for side in ends}


@pytest.mark.duckdb
def test_run_counts_earlier_finished_runs(tmp_path: Path) -> None:
    definition, connections = create_tables(tmp_path)
    for ended, method in ((30, "exact"), (31, "minhash"), (40, "exact")):
        before = handover.EarlierRuns(ended_runs=ended, differing_shares=(0.5,) * 30)
        report = audit_run.perform("t", Audit.model_validate({**definition, "method": "auto"}), connections, earlier=before).report
        assert report.method == method, report.reasons


@pytest.mark.duckdb
@pytest.mark.parametrize(("failure", "state"), [(StatementRefused, State.FAILED), (KeyboardInterrupt, State.CANCELLED)])
def test_failed_level_does_not_report_the_findings_of_the_level_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: type[BaseException], state: State
) -> None:
    definition, connections = create_tables(tmp_path)

    def fail(*_: object, **__: object) -> None:
        raise failure("no")  # made here: pytest keeps its parameters, and an exception keeps the sessions of the frames it passed

    monkeypatch.setattr(audit_run, "locate_differences", fail)
    outcome = audit_run.perform("t", Audit.model_validate({**definition, "ladder": ["minhash", "exact"]}), connections)
    report = outcome.report
    assert (report.state, report.verdict, report.method) == (state, Verdict.UNKNOWN, "exact")
    assert (report.comparison, report.jaccard, outcome.partition_map) == (None, None, None)
    assert [(step.method, step.verdict) for step in report.steps] == [("minhash", MISMATCH)], "the lower level is reported as a step"
