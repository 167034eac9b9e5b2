"""The Dagster package in a real Dagster: an asset downstream is materialised only behind an audit that matches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integrations.conftest import ROOT, environment, execute
from tests.programs.serve import Served

pytestmark = [pytest.mark.slow]
PYTHON = environment("dagster")
PROGRAM = ROOT / "tests" / "integrations" / "materialized.py"


def materialize(served: Served, folder: Path, token: str, *audits: str) -> dict[str, Any]:
    printed = execute(folder, {"DAGSTER_HOME": str(folder)}, PYTHON, PROGRAM, served.url, token, *audits)
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return found


def test_only_a_match_lets_the_next_asset_begin(served: Served, tmp_path: Path) -> None:
    found = materialize(served, tmp_path, served.token, "good", "bad", "broken", "nothing")
    good, bad, broken, nothing = (found[name] for name in ("good", "bad", "broken", "nothing"))
    assert not good["errors"], good["errors"][0][-1500:]
    (check,) = good["checks"]
    assert good["materialized"] == ["behind_good", "good"] and check["passed"]
    assert (check["verdict"], check["score"], check["rows of the source"], check["rows of the target"]) == ("match", 1.0, 100, 100)
    assert check["page"].startswith(f"{served.url}/runs/")

    (check,) = bad["checks"]
    assert bad["materialized"] == ["bad"] and not check["passed"]
    assert check["said"].startswith("MISMATCH  bad: 1 of 100 rows differs") and check["rows of the target"] == 99

    (check,) = broken["checks"]
    assert broken["materialized"] == ["broken"] and not check["passed"]
    assert (check["verdict"], check["state"]) == ("unknown", "failed")

    assert nothing["materialized"] == ["nothing"] and not nothing["checks"]
    assert not nothing["success"] and "there is no audit 'nothing'" in "".join(nothing["errors"])


def test_a_token_that_is_refused_lets_nothing_begin(served: Served, tmp_path: Path) -> None:
    found = materialize(served, tmp_path, "aud_of_nobody", "good")["good"]
    assert found["materialized"] == ["good"] and not found["success"]
    assert "Unauthorised" in "".join(found["errors"])
