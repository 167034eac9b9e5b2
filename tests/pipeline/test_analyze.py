"""Statistics of a target's table are renewed once enough of it has changed, beside the merge, which never fails for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from auditor import config
from auditor.config import AnalyzeSettings
from auditor.connections.writer import open_writer
from auditor.errors import AccessDenied, ConnectionLost
from auditor.pipeline.check import check_target
from auditor.store import pipelines
from dialects import Session
from tests.live import engine_params
from tests.pipeline.road import PIPELINE, Road, pass_time
from tests.pipeline_events import announce, batch, insert, table

ORDERS = table(id="bigint", item="varchar(40) null")

WITH_STATISTICS = pytest.mark.parametrize("engine", engine_params("postgres", "redshift", "mysql", "mariadb", "duckdb"), indirect=True)


class Analyzed:
    """What each ANALYZE was of, and what the server said."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, road: Road) -> None:
        self.found: list[tuple[str, str]] = []
        self.failure: Exception | None = None
        with open_writer("warehouse", road.settings.connections["warehouse"]) as session:
            loading = type(session.loading)
        renew = loading.analyze

        def analyze(one: Any, name: str) -> str:
            if self.failure:
                raise self.failure
            said = renew(one, name)
            self.found.append((name, said))
            return said

        monkeypatch.setattr(loading, "analyze", analyze)


@pytest.fixture
def analyzed(monkeypatch: pytest.MonkeyPatch, road: Road) -> Iterator[Analyzed]:
    yield Analyzed(monkeypatch, road)


def stage(road: Road, place: int, count: int) -> None:
    rows = ([str(1000 * place + number), "x"] for number in range(count))
    road.stage(batch(*([announce(ORDERS, 1)] if place == 1 else []), insert(ORDERS, 10 * place, *rows)))


def reason(road: Road) -> str:
    return pipelines.list_merges(road.store, PIPELINE)["wh"]["shop.orders"].reason


@pytest.mark.slow_on("redshift")
@WITH_STATISTICS
def test_statistics_are_renewed_after_so_many_changes(road: Road, analyzed: Analyzed) -> None:
    loader = road.loader(analyze=AnalyzeSettings(after_rows=30))
    for place, times in ((1, 0), (2, 1), (3, 1), (4, 2)):
        stage(road, place, 20)
        assert loader.merge_all() == 20
        assert analyzed.found == [(road.dialect.names.table(road.schema, "orders"), "")] * times
    assert loader.merge_all() == 0 and len(analyzed.found) == 2
    assert reason(road) == ""


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_the_engine_then_knows_how_many_rows_a_table_has(road: Road) -> None:
    stage(road, 1, 50)
    road.loader(analyze=AnalyzeSettings(after_rows=50)).merge_all()
    assert road.query(f"SELECT reltuples FROM pg_class WHERE oid = '{road.schema}.orders'::regclass") == [(50.0,)]


@WITH_STATISTICS
def test_none_are_renewed_unless_that_is_asked_for(road: Road, analyzed: Analyzed) -> None:
    stage(road, 1, 50)
    assert road.loader().merge_all() == 50 and analyzed.found == []


@pytest.mark.quick_for("postgres", "duckdb")
@WITH_STATISTICS
def test_failure_is_shown_and_stops_nothing(road: Road, analyzed: Analyzed) -> None:
    loader = road.loader(analyze=AnalyzeSettings(after_rows=10))
    analyzed.failure = AccessDenied("permission denied for table orders")
    stage(road, 1, 10)
    assert loader.merge_all() == 10 and len(road.rows()) == 10
    assert reason(road) == "its statistics were not renewed after 10 changes, which are merged: permission denied for table orders"
    analyzed.failure = ConnectionLost("gone")
    stage(road, 2, 10)
    loader.merge_all()
    assert len(road.rows()) == 20
    analyzed.failure = None
    stage(road, 3, 10)
    pass_time(loader)
    assert loader.merge_all() == 10 and len(road.rows()) == 30
    assert reason(road) == "" and len(analyzed.found) == 1


@pytest.fixture
def session(road: Road) -> Iterator[Session]:
    with open_writer("warehouse", road.settings.connections["warehouse"]) as opened:
        yield opened


@pytest.mark.parametrize("engine", engine_params("postgres", "redshift"), indirect=True)
def test_table_of_another_owner_is_not_passed_by_in_silence(road: Road, session: Session) -> None:
    role = f"{road.schema}_reader"
    stage(road, 1, 1)
    road.loader().merge_all()
    road.execute(f"CREATE ROLE {role}", f"GRANT USAGE ON SCHEMA {road.schema} TO {role}")
    try:
        session.execute(f"SET ROLE {role}")
        said = session.loading.analyze(road.dialect.names.table(road.schema, "orders"))
    finally:
        session.execute("RESET ROLE")
        road.execute(f"REVOKE ALL ON SCHEMA {road.schema} FROM {role}", f"DROP ROLE {role}")
    assert said.startswith("WARNING:") and "orders" in said


@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True)
def test_error_in_a_row_of_the_result_is_one(road: Road, session: Session) -> None:
    stage(road, 1, 1)
    road.loader().merge_all()
    assert "doesn't exist" in session.loading.analyze(road.dialect.names.table(road.schema, "nothing"))


@pytest.mark.parametrize("engine", engine_params("delta", "parquet"), indirect=True)
def test_engine_without_statistics_is_refused(road: Road) -> None:
    text = road.config_file.read_text().replace("schema: ", "analyze: {after_rows: 5}, schema: ")
    road.config_file.write_text(text)
    sentence = f"analyze asks for new statistics after a merge, and {road.dialect.name} has no statement for that; remove it"
    found = check_target(config.load(road.config_file), PIPELINE, "wh", [])
    assert [one.sentence for one in found if one.severity == "error"] == [sentence]
    loader = road.loader(analyze=AnalyzeSettings(after_rows=5))
    stage(road, 1, 10)
    assert loader.merge_all() == 0
    assert reason(road) == sentence
