"""A pipeline of many tables: shown in groups, the worst first, its tables found, and the store asked as often as for few tables."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from auditor.api_models.pipeline import MergeState, PipelineStatus
from auditor.cli import main
from auditor.cli._pipeline import print_status
from auditor.config import Settings
from auditor.errors import ConfigError, UnknownPipeline
from auditor.pipeline import part_deletion, watch
from auditor.pipeline.folders import folder_at
from auditor.service.pipeline_problems import look_at_pipelines
from auditor.service.pipeline_status import list_lags, match_tables, status
from auditor.service.table_states import describe_group, group_rows, list_rows, share_reasons
from auditor.store import Store, open_store, parts, pipelines
from auditor.store.pipelines import MergeNews
from tests import many_tables
from tests.many_tables import DELAYED, PIPELINE, STOPPED


def now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path}/auditor.db")
    yield opened
    opened.close()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "staging").mkdir()
    return many_tables.configure(tmp_path, staging={"path": f"{tmp_path}/staging", "budget": "1KB"})


def look(settings: Settings, store: Store) -> PipelineStatus:
    return status(settings, store, PIPELINE, look=False)


def sample(settings: Settings, store: Store) -> None:
    recorder = watch.LagRecorder(store, PIPELINE, list(settings.pipeline(PIPELINE).targets))
    recorder.record(many_tables.progress(now()), now())


def notify(settings: Settings, store: Store) -> None:
    """Look at tables that are all stopped, then all well again."""
    states: tuple[MergeState, ...] = ("stopped", "merged")
    for state in states:
        listed = {table: MergeNews(0, state, state) for table in parts.list_tables(store, PIPELINE)}
        pipelines.report_merges(store, PIPELINE, "lake", listed)
        look_at_pipelines(settings, store, now())


def prune(settings: Settings, store: Store) -> None:
    pipeline = settings.pipeline(PIPELINE)
    root = folder_at(pipeline.staging.path)
    part_deletion.warn_of_budget(store, PIPELINE, pipeline)
    part_deletion.describe_held(store, PIPELINE, pipeline)
    part_deletion.PartDeleter(store, PIPELINE, root).prune(pipeline, settings.keep.parts)


@pytest.mark.parametrize(
    "work",
    [
        look,
        sample,
        prune,
        notify,
        lambda settings, store: match_tables(settings, store, PIPELINE, ["*"]),
        lambda settings, store: list_lags(settings, store, PIPELINE, "crm.table_0000"),
    ],
)
def test_the_store_is_asked_as_often_for_many_tables_as_for_few(
    tmp_path: Path, settings: Settings, work: Callable[[Settings, Store], object]
) -> None:
    counts = []
    for tables in (5, 60):
        store = open_store(f"sqlite:///{tmp_path}/{tables}.db")
        many_tables.create(store, tables, now(), batches=2)
        with many_tables.counted(store) as statements:
            work(settings, store)
        store.close()
        counts.append(len(statements))
    assert counts[0] == counts[1] < 60


def test_tables_are_grouped_the_worst_first(settings: Settings, store: Store) -> None:
    many_tables.create(store, 60, now())
    rows = list_rows(look(settings, store))
    assert [(row.target, row.table, row.state) for row in rows[:4]] == [
        ("warehouse", "crm.table_0000", "stopped"),
        ("warehouse", "crm.table_0012", "lagging"),
        ("warehouse", "crm.table_0004", "delayed"),
        ("warehouse", "crm.table_0008", "waiting"),
    ]
    lines = [describe_group(group) for group in group_rows(rows)]
    assert [line.partition(",")[0] for line in lines] == [
        "warehouse: 1 table stopped",
        "warehouse: 1 table lagging",
        "warehouse: 1 table delayed",
        "warehouse: 1 table waiting",
        "lake: 60 tables merged",
        "warehouse: 56 tables merged",
    ]
    assert lines[1].startswith("warehouse: 1 table lagging, 1 h ") and lines[1].endswith(" behind, 110 events missing")
    assert lines[4].endswith("merged, nothing missing")
    assert "merged, at most " in lines[5] and lines[5].endswith(" s behind, 60 events missing")


def test_a_reason_that_many_tables_share_is_one(settings: Settings, store: Store) -> None:
    listed = many_tables.create(store, 60, now())
    position = pipelines.list_merges(store, PIPELINE)["lake"][listed[0]].position
    pipelines.report_merges(store, PIPELINE, "lake", {table: MergeNews(position, "delayed", DELAYED) for table in listed})
    found = {(one.target, one.state, one.reason): one.tables for one in share_reasons(list_rows(look(settings, store)))}
    assert found == {("lake", "delayed", DELAYED): 60, ("warehouse", "delayed", DELAYED): 1, ("warehouse", "stopped", STOPPED): 1}


def test_the_status_of_many_tables_is_short_and_names_those_that_need_attention(
    settings: Settings, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    many_tables.create(store, 60, now())
    print_status(look(settings, store))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 25
    assert lines[1].startswith("warehouse: 1 table stopped, ")
    assert [line.split()[1] for line in lines if line.split()[-1:] in (["stopped"], ["lagging"], ["delayed"])] == [
        "crm.table_0000", "crm.table_0012", "crm.table_0004",
    ]  # fmt: skip
    assert "warehouse: crm.table_0004: delayed: the connection to warehouse was lost" in lines
    assert "for single tables: auditor pipeline status many --table NAME, or a pattern such as 'crm.*'" in lines
    many_tables.create(store, 20, now(), pipeline="few")
    few = settings.model_copy(update={"pipelines": {"few": settings.pipeline(PIPELINE)}})
    print_status(status(few, store, "few", look=False))
    assert "crm.table_0016" in capsys.readouterr().out, "of few tables each has its line"


def test_tables_are_found_by_name_and_pattern(settings: Settings, store: Store) -> None:
    listed = many_tables.create(store, 60, now())
    assert match_tables(settings, store, PIPELINE, ["*"]) == listed
    assert match_tables(settings, store, PIPELINE, ["crm.*", "table_0001"]) == [*listed[:15], "shop.table_0001"]
    with pytest.raises(ConfigError, match=r"has staged nothing of a table 'shop.nothing'; it has of crm.table_0000, .* and 55 more"):
        match_tables(settings, store, PIPELINE, ["shop.nothing"])
    with pytest.raises(UnknownPipeline):
        match_tables(settings, store, "nowhere", ["*"])
    found = status(settings, store, PIPELINE, look=False, tables=["crm.table_0000", "shop.table_0001"])
    assert list(found.tables) == list(found.targets["lake"].tables) == ["crm.table_0000", "shop.table_0001"]
    assert found.targets["warehouse"].pending_events == 10 and [stop.table for stop in found.stopped] == ["crm.table_0000"]
    assert {migration.table for migration in found.migrations} == {"crm.table_0000"}


def test_the_command_lists_the_tables_that_are_asked_for(tmp_path: Path, store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    many_tables.create(store, 60)
    file = tmp_path / "auditor.yaml"
    settings = {
        "store": {"url": f"sqlite:///{tmp_path}/auditor.db"},
        "connections": {"a": {"url": "mysql://a@localhost/shop"}, "b": {"url": f"duckdb:///{tmp_path}/w.duckdb"}},
        "audits": {},
        "pipelines": {
            PIPELINE: {
                "source": {"connection": "a", "tables": ["*"]},
                "staging": {"path": f"{tmp_path}/staging"},
                "targets": {"warehouse": {"connection": "b", "schema": "shop"}},
            }
        },
    }
    settings["connections"]["b"]["write"] = {"url": f"duckdb:///{tmp_path}/w.duckdb"}  # type: ignore[index]
    file.write_text(json.dumps(settings))
    begin = ["pipeline", "status", PIPELINE, "--config", str(file)]
    assert main([*begin, "--table", "crm.*", "--table", "table_0001"]) == 0
    out = capsys.readouterr().out
    assert out.count("  crm.table_") == 15 and "shop.table_0001" in out and "shop.table_0002" not in out
    assert main([*begin, "--table", "crm.*", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["tables"]) == 15
    assert main([*begin, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["tables"]) == 60, "whatever is printed for people"
    assert main([*begin, "--table", "nothing"]) == 2
    assert "has staged nothing of a table 'nothing'" in capsys.readouterr().err
