"""The Dagster package against the API, without Dagster: its names are stood in for, the requests are real.

tests/integrations/test_dagster.py runs the same package in a real Dagster.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from auditor.errors import UnknownAudit
from auditor.service.workers import request_run
from tests.api.conftest import Service
from tests.durations import SetDurations
from tests.unit.test_docs import decorator, recipe, stand_in

MODULE = Path(__file__).parents[2] / "containers" / "dagster" / "auditor_dagster.py"


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch, set_durations: SetDurations) -> Any:
    """The package's module, whose checks are plain functions with the arguments of their decorator."""
    set_durations(client_poll=0.05)

    def asset_check(**arguments: Any) -> Any:
        return lambda function: SimpleNamespace(run=function, **arguments)

    result = {"AssetCheckResult": SimpleNamespace, "MetadataValue": SimpleNamespace(url=str, md=str)}
    types = {"AssetCheckExecutionContext": object, "AssetChecksDefinition": object, "AssetKey": str, "Definitions": SimpleNamespace}
    monkeypatch.setitem(sys.modules, "dagster", stand_in("dagster", asset=decorator, asset_check=asset_check, **result, **types))
    spec = importlib.util.spec_from_file_location("auditor_dagster", MODULE)
    assert spec and spec.loader
    found: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    monkeypatch.setattr(found, "POLL", 0.05)
    return found


CONTEXT = SimpleNamespace(run=SimpleNamespace(run_id="of a test"), log=SimpleNamespace(info=lambda _: None))


def test_only_a_match_passes(listening: tuple[Service, str], package: Any) -> None:
    service, url = listening
    audits = {"same": "same", "orders": "orders", "away": "away", "slash": "with/slash", "nothing": "nothing"}
    same, orders, away, slash, nothing = package.build_auditor_checks(url, service.tokens["run"], audits)
    assert all(check.blocking for check in (same, orders, away)) and slash.name == "auditor_with_slash"
    passed = same.run(CONTEXT)
    assert passed.passed and passed.metadata["verdict"] == "match" and passed.metadata["rows of the target"] == 2000
    failed = orders.run(CONTEXT)
    assert not failed.passed and failed.description.startswith("MISMATCH  orders: 3 of 2,00")
    unknown = away.run(CONTEXT)
    assert not unknown.passed and unknown.metadata["verdict"] == "unknown" and "score" not in unknown.metadata
    with pytest.raises(UnknownAudit):
        nothing.run(CONTEXT)


def test_a_run_that_is_under_way_is_not_taken_for_the_own(listening: tuple[Service, str], package: Any) -> None:
    service, url = listening
    earlier = request_run(service.settings, service.store, "same").run
    (check,) = package.build_auditor_checks(url, service.tokens["run"], {"same": "same"})
    assert not check.run(CONTEXT).metadata["page"].endswith(earlier)


def test_the_recipe_names_what_there_is(package: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "auditor_dagster", package)
    monkeypatch.setenv("AUDITOR_TOKEN", "aud_of_a_test")
    names: dict[str, Any] = {}
    exec(compile(recipe("Dagster", "python"), "recipes.md", "exec"), names)
    (check,) = names["definitions"].asset_checks
    assert check.asset == "orders" and check.blocking
