"""Iceberg tables in catalogues of servers, Iceberg's own REST server, Hive and Glue: filled by a pipeline, read by an audit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from auditor.config import Audit, ConnectionSettings
from auditor.model import Verdict
from auditor.run import audit_run
from dialects.iceberg import commits
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline_events import announce, batch, delete, insert, table
from tests.servers import iceberg_catalogues

pytestmark = [pytest.mark.iceberg, pytest.mark.slow]
ORDERS = table(id="bigint", item="varchar(40) null")
MARK = f"auditor/{PIPELINE}/shop.orders"


@pytest.fixture(params=["rest", "hive", "glue"])
def properties(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """What leads to a catalogue of each kind."""
    for name, value in {"ACCESS_KEY_ID": "tests", "SECRET_ACCESS_KEY": "tests", "REGION": "eu-central-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    with iceberg_catalogues.started(request.param, tmp_path) as found:
        yield found


@pytest.fixture
def road(properties: dict[str, str], tmp_path: Path, empty_store: Path) -> Iterator[Road]:
    options = "&".join(f"{name}={value}" for name, value in properties.items())
    made = Road(tmp_path, f"iceberg://default/sales?{options}", empty_store, "sales")
    yield made
    for loader in made.loaders:
        loader.close()
    made.store.close()


def test_a_pipeline_fills_a_table_beside_another_writer_and_an_audit_reads_it(
    road: Road, properties: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = load_catalog("default", **properties)
    road.stage(batch(announce(ORDERS, 1), *(insert(ORDERS, 10 + number, [str(number), "a"]) for number in range(20))))
    road.loader().merge_all()
    write, quicker = commits.write, [1000]

    def overtaken(*given: Any, **named: Any) -> None:
        if quicker:
            others = pa.table({"id": pa.array([quicker.pop()], pa.int64()), "item": ["of another writer"]})
            catalog.load_table("sales.orders").append(others)
        write(*given, **named)

    monkeypatch.setattr(commits, "write", overtaken)
    road.stage(batch(delete(ORDERS, 40, ["3", "a"]), insert(ORDERS, 41, ["50", "b"])))
    assert road.loader().merge_all() == 2 and not quicker
    found = catalog.load_table("sales.orders")
    assert commits.read_marks(found, "orders", [MARK]) == [41]
    assert sorted(found.scan().to_arrow()["id"].to_pylist()) == [*range(3), *range(4, 20), 50, 1000]

    catalog.create_namespace("other")
    copy = catalog.create_table("other.orders", found.schema())
    copy.append(pa.table({"id": pa.array([*range(20), 50], pa.int64()), "item": ["a"] * 20 + ["c"]}))
    ends = {side: {"connection": "lake", "table": name} for side, name in (("source", "other.orders"), ("target", "sales.orders"))}
    lake = ConnectionSettings(url=road.settings.connections["warehouse"].url)
    report = audit_run.run("orders", Audit.model_validate({**ends, "key": ["id"]}), {"lake": lake})
    assert report.verdict is Verdict.MISMATCH and report.differences is not None, report.reasons
    named = [(one.kind, one.key["id"]) for one in report.differences.named]
    assert named == [("missing", "3"), ("changed", "50"), ("extra", "1000")]
