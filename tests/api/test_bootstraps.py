"""Bootstraps over HTTP: planned with the scope repair, followed by anybody who may read, and shown on the audit's page."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from auditor.bootstrap import use_cases
from auditor.bootstrap.use_cases import Followed
from auditor.door_words import in_requests
from auditor.errors import BootstrapFailed
from auditor.points import armed
from tests.api.conftest import Service
from tests.api.test_answers import list_all
from tests.api.test_metrics import read_metrics
from tests.api.test_patches import get, writable


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Service]:
    """A service whose target may be written to."""
    with writable(tmp_path) as found:
        yield found


def test_a_bootstrap_is_planned_and_nothing_is_written(own: Service) -> None:
    path = "/api/v1/audits/orders/bootstrap-plan"
    assert own.client("run").get(path).status_code == 403
    plan = own.client("repair").get(path, params={"from": 1, "to": 7}).json()
    assert plan["text"].startswith("bootstrap of orders: keys 1..7 from shop: orders to warehouse: orders")
    assert plan["swap"] == "in place" and plan["why"] == "only a range of keys is copied" and plan["ranges"] == 1 and plan["rows"] > 0
    assert plan["command"] == "auditor bootstrap orders --keys 1..7 --apply"
    assert get(own, "/audits/orders/bootstraps")["items"] == []
    refused = own.client("repair").get(path, params={"source": "nowhere"})
    assert refused.status_code == 409 and "there is no connection 'nowhere'" in refused.json()["detail"]
    refused = own.client("repair").get(path, params={"partitions": "differing", "from": 1})
    assert refused.status_code == 422 and refused.json()["detail"] == "keys and partitions both choose rows; leave one out"


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("use --limit or --keys, raise max_rows", "use limit or keys, raise max_rows"),
        ("write --delete-extra; run: auditor patch a --limit 5", "write delete_extra; run: auditor patch a --limit 5"),
        ("start the server with --log-bin", "start the server with --log-bin"),
        ("write --key-list, or --keys", "write keys, or keys"),
    ],
)
def test_errors_are_in_the_words_of_requests(message: str, shown: str) -> None:
    assert in_requests(message) == shown


def test_a_plan_says_when_executors_of_spark_would_make_the_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dialects.duckdb.dialect.DuckDB.OPENS_FILES", False)  # a file is read by one process, as a server is not
    with writable(tmp_path, run=False, spark={"above": 3}) as own:
        planned = own.client("repair").get("/api/v1/audits/orders/bootstrap-plan").json()
        assert "by Spark: its executors read ranges" in planned["text"], planned
        few = own.client("repair").get("/api/v1/audits/orders/bootstrap-plan", params={"from": 1, "to": 2}).json()
        assert "by files that the target reads" in few["text"], few


def test_a_bootstrap_that_failed_goes_on_and_is_done_is_followed(own: Service) -> None:
    def fail() -> None:
        raise BootstrapFailed("for the test")

    with pytest.raises(BootstrapFailed), armed("bootstrap.verify", fail):
        use_cases.run_bootstrap(own.settings, own.store, "orders", followed=Followed("ada"))
    (listed,) = get(own, "/audits/orders/bootstraps")["items"]
    assert (listed["state"], listed["stage"], listed["requested_by"], listed["why"]) == ("failed", "copying", "ada", "BootstrapFailed")
    assert listed["progress"]["ranges"] == listed["progress"]["of_ranges"] == 1 and not listed["is_at_work"] and listed["keys"] == ""
    assert (
        f"goes on  with bootstrap {listed['bootstrap'][:12]}"
        in own.client("repair").get("/api/v1/audits/orders/bootstrap-plan").json()["text"]
    )
    assert "failed while copying" in shown(own)
    result = use_cases.run_bootstrap(own.settings, own.store, "orders")
    done = get(own, f"/bootstraps/{listed['bootstrap'][:8]}")
    assert (done["state"], done["stage"], done["old"], done["why"]) == ("done", "settled", result.old, "")
    assert result.after and done["after_run"] == result.after.run and done["progress"]["rows"] == result.rows
    last, rate = ("auditor_last_bootstrap_timestamp_seconds", "auditor_last_bootstrap_rows_per_second")
    metrics = read_metrics(own)
    assert abs(metrics[last, (("audit", "orders"),)] - time.time()) < 60 and metrics[last, (("audit", "same"),)] == 0
    assert 0 < metrics[rate, (("audit", "orders"),)] <= result.rows and (rate, (("audit", "same"),)) not in metrics
    (copied,) = list_all(own, f"/api/v1/bootstraps/{listed['bootstrap']}/ranges", 5)
    assert copied["rows"] == result.rows and len(copied["sha256"]) == 64 and copied["first"] is None
    assert result.old in shown(own) and f"/runs/{result.after.run}" in shown(own)
    use_cases.drop_left(own.settings, own.store, "orders")
    assert get(own, f"/bootstraps/{listed['bootstrap']}")["old_dropped"] and "dropped" in shown(own)
    assert own.client("read").get("/api/v1/bootstraps/ffff").status_code == 404


def shown(own: Service) -> str:
    """Return the section of the audit's page about bootstraps."""
    page = own.client("read").get("/audits/orders").text
    found = re.search(r'<h2 id="bootstraps">.*?</table>', page, re.S)
    assert found
    return found[0]
