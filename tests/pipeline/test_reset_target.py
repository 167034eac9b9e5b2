"""A reset of one target: it begins as one that was just added, and the others go on where they are."""

from __future__ import annotations

import pytest

from auditor.cli import main
from auditor.errors import ConfigError, LeaseTaken
from auditor.service import pipelines as services
from auditor.store import parts, pipelines, refreshes
from auditor.store.refreshes import RefreshScope
from tests.live import engine_params
from tests.pipeline.conftest import AND_LAKES
from tests.pipeline.road import PIPELINE, Road, leased
from tests.pipeline_events import announce, batch, delete, insert, refresh, table, update

ORDERS, ITEMS = table(id="bigint", item="varchar(40) null"), table("items", id="bigint")
FILE = "binlog.000000"
pytestmark = pytest.mark.engines_in_turn


@pytest.fixture
def merged(road: Road) -> Road:
    """A target that holds two orders, of a pipeline with another target that does."""
    road.stage(
        batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"], ["2", "b"], ["3", "c"])),
        batch(announce(ITEMS, 1), insert(ITEMS, 11, ["7"])),
    )
    road.stage(batch(update(ORDERS, 20, (["1", "a"], ["1", "A"])), delete(ORDERS, 21, ["3", "c"])))
    road.loader().merge_all()
    assert road.rows() == [(1, "A"), (2, "b")]
    told = dict.fromkeys(("shop.orders", "shop.items"), pipelines.MergeNews(21, "merged"))
    pipelines.report_merges(road.store, PIPELINE, "other", told)
    return road


def close(road: Road) -> None:
    for loader in road.loaders:
        loader.close()


@pytest.mark.quick_for("duckdb")
@pytest.mark.parametrize("engine", AND_LAKES, indirect=True)
def test_it_takes_the_stream_again_from_its_begin(merged: Road) -> None:
    close(merged)
    services.reset_target(merged.settings, merged.store, PIPELINE, "wh")
    assert {target: sorted(tables) for target, tables in pipelines.list_merges(merged.store, PIPELINE).items()} == {
        "other": ["shop.items", "shop.orders"]
    }
    assert parts.list_tables(merged.store, PIPELINE), "what is staged stays"
    merged.stage(batch(insert(ORDERS, 30, ["4", "d"])))
    loader = merged.loader()
    while loader.merge_all():
        pass
    assert merged.rows() == [(1, "A"), (2, "b"), (4, "d")] and merged.rows("items") == [(7,)]
    reports = pipelines.list_merges(merged.store, PIPELINE)["wh"]
    assert {table: report.state for table, report in reports.items()} == {"shop.orders": "merged", "shop.items": "merged"}


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_a_table_that_was_lost_is_filled_by_a_refresh(merged: Road) -> None:
    """The target was made anew, and the parts of before are deleted: all rows are sent again."""
    close(merged)
    merged.execute(f'DROP TABLE {merged.schema}.orders, {merged.schema}.items, {merged.schema}."auditor_positions"')
    services.reset_target(merged.settings, merged.store, PIPELINE, "wh")
    assert parts.delete_passed(merged.store, PIPELINE, -1, targets=["other"])
    asked = refreshes.request_refresh(merged.store, PIPELINE, "shop.orders", RefreshScope(), "ada")
    nothing = [None, None]
    merged.stage(batch(refresh(ORDERS, 40, ["1", "A"], ["2", "b"], bounds=(nothing, nothing))))
    refreshes.save_progress(merged.store, asked.refresh, "done", {"begin": [FILE, 35, "server", 0], "end": [FILE, 40, "server", 0]})
    parts.record_batch(merged.store, PIPELINE, [], {}, {"epoch": 0, "file": FILE, "position": 41, "server": "server"})
    loader = merged.loader()
    while loader.merge_all():
        pass
    assert merged.rows() == [(1, "A"), (2, "b")]
    assert "send all its rows again" in pipelines.list_merges(merged.store, PIPELINE)["wh"]["shop.items"].reason


@pytest.mark.parametrize("engine", engine_params("duckdb"), indirect=True)
def test_the_command_asks_for_the_name_and_says_what_comes_next(merged: Road, capsys: pytest.CaptureFixture[str]) -> None:
    close(merged)
    about = ["pipeline", "reset", PIPELINE, "--config", str(merged.config_file)]
    assert main([*about, "--target", "warehouse", "--name-again", PIPELINE]) == 2
    assert "has no target 'warehouse'; its targets are wh" in capsys.readouterr().err
    assert main([*about, "--target", "wh", "--name-again", "other"]) == 2
    assert "nothing was reset" in capsys.readouterr().err
    with leased(merged.store), pytest.raises(LeaseTaken):
        services.reset_target(merged.settings, merged.store, PIPELINE, "wh")
    assert main([*about, "--target", "wh", "--name-again", PIPELINE]) == 0
    told = capsys.readouterr().out
    assert "the positions of 2 tables in target wh" in told
    assert "once it runs, send it all rows again with: auditor pipeline refresh shop" in told
    with pytest.raises(ConfigError):
        services.reset_target(merged.settings, merged.store, PIPELINE, "another")
