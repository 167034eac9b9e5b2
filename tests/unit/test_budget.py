"""A budget ends a run with a sentence, and never with a match."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor.config import Audit, ConnectionSettings
from auditor.connections.reader import Reader
from auditor.model import SIDES, Report, State, Verdict
from auditor.planning.build import build_plan
from auditor.run import audit_run


@pytest.fixture
def url(tmp_path: Path) -> str:
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        for side in ("source", "target"):
            connection.execute(f"CREATE TABLE {side} AS SELECT range AS id, 'row ' || range AS v FROM range(20000)")
    return f"duckdb:///{tmp_path}/t.duckdb"


def run(url: str, budget: dict[str, Any], limits: dict[str, Any] | None = None, *, shared: bool = False) -> Report:
    names = ("here", "here") if shared else ("source", "target")
    sides = {side: {"connection": name, "table": side} for side, name in zip(("source", "target"), names, strict=True)}
    audit = Audit.model_validate({**sides, "key": ["id"], "budget": budget})
    return audit_run.run("t", audit, {name: ConnectionSettings.model_validate({"url": url, "limits": limits or {}}) for name in names})


def test_enough_is_no_obstacle_and_the_cost_is_in_the_report(url: str) -> None:
    report = run(url, {"seconds": "10m", "statements": 500, "bytes": "1GB"})
    assert report.verdict is Verdict.MATCH and 5 < report.cost["source"].statements < 100, report.reasons


@pytest.mark.parametrize(
    ("budget", "what"), [({"statements": 5}, " statements"), ({"bytes": "50B"}, " bytes"), ({"seconds": "1ms"}, " seconds")]
)
def test_what_costs_more_is_unknown(url: str, budget: dict[str, Any], what: str) -> None:
    report = run(url, budget)
    assert (report.state, report.verdict) == (State.FAILED, Verdict.UNKNOWN)
    assert what in report.reasons[0] and "the budget of the audit t is" in report.reasons[0], report.reasons


def test_a_connection_has_a_budget_of_its_own_for_both_sides(url: str) -> None:
    report = run(url, {}, {"budget": {"statements": 8}})
    assert report.verdict is Verdict.UNKNOWN and "the budget of the connection " in report.reasons[0], report.reasons
    enough = max(cost.statements for cost in run(url, {}).cost.values()) + 2
    assert run(url, {}, {"budget": {"statements": enough}}).verdict is Verdict.MATCH
    shared = run(url, {}, {"budget": {"statements": enough}}, shared=True)
    assert shared.verdict is Verdict.UNKNOWN and "the budget of the connection here is" in shared.reasons[0], shared.reasons


def test_a_plan_shows_the_budget_beside_what_is_expected(url: str) -> None:
    sides = {side: {"connection": side, "table": side} for side in ("source", "target")}
    audit = Audit.model_validate({**sides, "key": ["id"], "budget": {"statements": 500, "seconds": "10m"}})
    settings = {side: ConnectionSettings.model_validate({"url": url, "limits": {"budget": {"bytes": "1MB"}}}) for side in sides}
    with Reader("t", {side: side for side in SIDES}, settings).open() as reader:
        notes = [note for note in build_plan("t", audit, reader).notes if note.startswith("budget of ")]
    assert notes[0].startswith(
        "budget of the audit t: 600 seconds (what a run needs is not known before one has ended), 500 statements (the scan is expected to"
        " need 2); a run that costs more"
    )
    assert [note[:40] for note in notes[1:]] == [f"budget of the connection {side}: 1,000,0"[:40] for side in SIDES]


@pytest.mark.parametrize("budget", [{"statements": 0}, {"rows": 5}, {"seconds": "much"}])
def test_budgets_that_say_nothing_are_refused(url: str, budget: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="budget"):
        run(url, budget)
