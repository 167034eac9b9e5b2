"""Iceberg tables as targets: what a snapshot carries, what it does where others write the same table, and changes of columns."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table

import dialects
from auditor.connections.writer import open_writer
from auditor.errors import ConfigError, StatementRefused
from auditor.pipeline.events import TableSchema
from auditor.pipeline.merge.positions import is_at_one_moment
from auditor.pipeline.reset import forget_positions
from auditor.points import armed
from auditor.store import pipelines
from dialects.iceberg import commits, data_files, written_session
from dialects.iceberg.written_session import WritableIcebergSession
from tests import icebergs
from tests.durations import SetDurations
from tests.live import engine_params
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline.test_delta_columns import CHANGED, ORDERS, PRICED, Killed, columns, later, reason, stage_change
from tests.pipeline.test_schema_changes import add, change, comes, rename
from tests.pipeline_events import announce, batch, delete, insert, table

ITEMS = table(id="bigint", item="varchar(40) null")
MARK = f"auditor/{PIPELINE}/shop.orders"

pytestmark = pytest.mark.parametrize("engine", engine_params("iceberg"), indirect=True)


def lake_table(road: Road, name: str = "orders") -> Table:
    return icebergs.open_catalog(road.folder / "lake").load_table((road.schema, name))


def position(road: Road, mark: str = MARK) -> int:
    return commits.read_marks(lake_table(road), "orders", [mark])[0]


def others(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64()), "item": ["of another writer"] * len(numbers)})


def ids(road: Road) -> list[int]:
    return [row[0] for row in road.rows()]


@pytest.fixture
def begun(road: Road) -> Road:
    """A target that holds two orders."""
    road.stage_task(batch(comes(ORDERS, 10, ["1", "pen", "1.50"], ["2", None, "2.00"])))
    road.loader().merge_all()
    return road


def start(road: Road) -> None:
    road.stage(batch(announce(ITEMS, 1), insert(ITEMS, 10, ["1", "a"])))
    road.loader().merge_all()


def test_one_snapshot_has_the_deletes_the_rows_and_the_position(road: Road) -> None:
    start(road)
    road.stage(batch(insert(ITEMS, 20, ["2", "b"]), delete(ITEMS, 21, ["1", "a"])))
    assert road.loader().merge_all() == 2
    found = lake_table(road)
    last = found.current_snapshot()
    assert last and last.summary and len(found.snapshots()) == 2 and ids(road) == [2]
    about = last.summary.additional_properties
    assert (about[MARK], about["added-records"], about["deleted-records"]) == ("21", "1", "1") and position(road) == 21


def test_a_snapshot_carries_the_position_also_where_no_row_changes(road: Road) -> None:
    start(road)
    road.stage(batch(delete(ITEMS, 20, ["7", "never there"])))
    assert road.loader().merge_all() == 1
    assert (position(road), len(lake_table(road).snapshots())) == (20, 2)
    assert f"{position(road, f'{MARK}/schema'):012x}" == ITEMS.id
    pipelines.forget(road.store, PIPELINE)
    assert road.loader().merge_all() == 0 and len(lake_table(road).snapshots()) == 2


def test_a_branch_does_not_say_where_it_stands(road: Road) -> None:
    """Numbers are carried by the snapshots of the main branch; those of another one would be read as its own."""
    start(road)
    url = road.settings.connections["warehouse"].url
    found = lake_table(road)
    snapshot = found.current_snapshot()
    assert snapshot
    found.manage_snapshots().create_branch(snapshot.snapshot_id, "other").commit()
    for ref, refused in (("", nullcontext()), ("&ref=other", pytest.raises(StatementRefused, match="on its main branch alone"))):
        with closing(dialects.connect(f"{url}{ref}")) as session, refused:
            assert isinstance(session, WritableIcebergSession)
            assert session.read_marks((road.schema, "orders"), [MARK]) == [10]


def test_others_that_write_the_table_lose_nothing(road: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    start(road)
    write, quicker = data_files.write_files, [100, 101]

    def overtaken(*about: Any) -> Any:
        if quicker:
            lake_table(road).append(others(quicker.pop()))
        return write(*about)

    monkeypatch.setattr(written_session, "write_files", overtaken)
    road.stage(batch(insert(ITEMS, 20, ["2", "b"]), delete(ITEMS, 21, ["1", "a"])))
    assert road.loader().merge_all() == 2
    assert ids(road) == [2, 100, 101] and position(road) == 21
    data = Path(lake_table(road).location().removeprefix("file://"), "data")
    assert len(list(data.glob("*.parquet"))) == 4, "files of attempts that failed are deleted"


def test_a_merge_gives_way_to_one_that_never_pauses(road: Road, monkeypatch: pytest.MonkeyPatch, set_durations: SetDurations) -> None:
    start(road)
    write, numbers = data_files.write_files, iter(range(100, 200))

    def overtaken(*about: Any) -> Any:
        lake_table(road).append(others(next(numbers)))
        return write(*about)

    monkeypatch.setattr(written_session, "write_files", overtaken)
    set_durations(longest_commit_pause=0.0)
    road.stage(batch(insert(ITEMS, 20, ["2", "b"])))
    assert road.loader().merge_all() == 0
    report = pipelines.list_merges(road.store, PIPELINE)["wh"]["shop.orders"]
    assert report.state == "delayed" and "others wrote it 8 times while it was written" in report.reason
    monkeypatch.setattr(written_session, "write_files", write)
    assert road.loader().merge_all() == 1 and ids(road) == [1, 2, *range(100, 108)]


@pytest.mark.slow
def test_a_writer_in_another_process_and_the_merges_lose_nothing(road: Road) -> None:
    start(road)
    write = (
        "import sys, pyarrow as pa; from pathlib import Path; from tests import icebergs; print('begun', flush=True)\n"
        "table = icebergs.open_catalog(Path(sys.argv[1])).load_table((sys.argv[2], 'orders'))\n"
        "for n in range(100, 110): table.append(pa.table({'id': pa.array([n], pa.int64()), 'item': ['x']})); table.refresh()"
    )
    with subprocess.Popen([sys.executable, "-c", write, str(road.folder / "lake"), road.schema], stdout=subprocess.PIPE) as writer:
        assert writer.stdout and writer.stdout.readline()
        for number in range(2, 8):
            road.stage(batch(insert(ITEMS, 10 * number, [str(number), "b"])))
            road.loader().merge_all()
    assert writer.returncode == 0
    loader = road.loader()
    later(loader)
    assert ids(road) == [*range(1, 8), *range(100, 110)]


def test_the_position_outlasts_expired_snapshots_and_goes_back_with_the_table(road: Road) -> None:
    start(road)
    first = lake_table(road).metadata.current_snapshot_id
    road.stage(batch(insert(ITEMS, 20, ["2", "b"])))
    road.loader().merge_all()
    lake_table(road).append(others(100))
    found = lake_table(road)
    assert position(road) == 20 and first
    with found.manage_snapshots() as manage:
        manage.create_tag(first, "kept")
    with found.transaction() as change_:
        change_.update_snapshot().fast_append().commit()
    old = [one.snapshot_id for one in found.snapshots() if one.snapshot_id not in (first, found.metadata.current_snapshot_id)]
    found.maintenance.expire_snapshots().by_ids(old).commit()
    assert position(road) == 20 and road.loader().merge_all() == 0
    with lake_table(road).manage_snapshots() as manage:
        manage.set_current_snapshot(first)
    assert position(road) == 10, "its own summary says so"
    assert commits.read_marks(lake_table(road), "orders", ["auditor/another"]) == [0]


def test_a_rolled_back_table_whose_history_is_expired_stops(road: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    start(road)
    lake_table(road).append(others(100))
    middle = lake_table(road).metadata.current_snapshot_id
    road.stage(batch(insert(ITEMS, 20, ["2", "b"])))
    road.loader().merge_all()
    found = lake_table(road)
    assert middle
    with found.manage_snapshots() as manage:
        manage.set_current_snapshot(middle)
    found = lake_table(road)
    found.maintenance.expire_snapshots().by_ids([one.snapshot_id for one in found.snapshots() if one.snapshot_id != middle]).commit()
    with pytest.raises(StatementRefused, match="was rolled back to a snapshot whose ancestors are expired"):
        position(road)


def test_a_reset_lets_the_table_forget_and_keeps_its_rows(road: Road) -> None:
    start(road)
    forget_positions(road.settings, road.store, PIPELINE, "wh")
    pipelines.forget(road.store, PIPELINE)
    assert position(road) == 0 and ids(road) == [1]
    assert road.loader().merge_all() == 1 and ids(road) == [1]


def test_a_table_is_emptied_as_the_source_was(road: Road) -> None:
    loader = road.loader(clock=lambda: 0.0)
    road.stage_task(batch(comes(ITEMS, 10, ["1", "a"], ["2", "b"])))
    loader.merge_all()
    road.stage_task(batch(comes(ITEMS, 15, ["3", "old"]), change("orders", 20, {"op": "clear"}), comes(ITEMS, 30, ["4", "x"])))
    loader.merge_all()
    assert ids(road) == [4] and position(road) == 30
    road.stage_task(batch(change("orders", 40, {"op": "clear"})))
    loader.merge_all()
    assert ids(road) == [] and position(road) == 40


def test_small_files_that_gathered_are_written_again_as_one(road: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written_session, "GATHERED", 3)
    for number in range(1, 5):
        road.stage(batch(announce(ITEMS, 10 * number), insert(ITEMS, 10 * number + 1, [str(number), "a"])))
        road.loader().merge_all()
    assert len(icebergs.data_files(lake_table(road))) == 1 and ids(road) == [1, 2, 3, 4]


def test_rows_that_others_deleted_by_files_of_deletes_stay_deleted(road: Road) -> None:
    road.stage(batch(announce(ITEMS, 1), *(insert(ITEMS, 10 + n, [str(n), "a"]) for n in range(4))))
    road.loader().merge_all()
    found = lake_table(road)
    (file,) = icebergs.data_files(found)
    hidden = icebergs.write_file(found, icebergs.positions([(file, 0)]), DataFileContent.POSITION_DELETES)
    values = icebergs.with_ids(pa.table({"id": pa.array([1], pa.int64())}), (1,))
    equal = icebergs.write_file(found, values, DataFileContent.EQUALITY_DELETES, equality_ids=[1])
    icebergs.commit(found, deletes=[hidden, equal])
    assert ids(road) == [2, 3]
    road.stage(batch(delete(ITEMS, 50, ["2", "a"]), insert(ITEMS, 51, ["1", "again"])))
    assert road.loader().merge_all() == 2 and road.rows() == [(1, "again"), (3, "a")]


@pytest.mark.parametrize("point", ["merge.merged", "merge.commit", "merge.committed"])
def test_a_kill_around_a_commit_merges_each_event_once(road: Road, point: str) -> None:
    start(road)
    road.stage(batch(insert(ITEMS, 20, ["2", "b"]), delete(ITEMS, 21, ["1", "a"])))

    def kill() -> None:
        raise Killed

    write = commits.write
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        if point == "merge.committed":  # before anybody is told

            def written(*about: Any, **more: Any) -> None:
                write(*about, **more)
                kill()

            patch.setattr(commits, "write", written)
            road.loader().merge_all()
        else:
            with armed(point, kill):
                road.loader().merge_all()
    road.loader().merge_all()
    assert ids(road) == [2] and position(road) == 21 and len(lake_table(road).snapshots()) == 2


def test_columns_are_added_renamed_widened_and_dropped_by_the_metadata(begun: Road) -> None:
    before = icebergs.data_files(lake_table(begun))
    wider = table(id="bigint", item="varchar(40) null", price="decimal(14,2) null", note="text null")
    ops = (rename("amount", "price"), {"op": "modify", "column": "price"}, add("note", text=None))
    begun.stage_task(batch(change("orders", 20, *ops), comes(wider, 30, ["3", "ink", "123456789012.34", "x"])))
    begun.loader().merge_all()
    assert reason(begun) == "" and columns(begun, wider) == [
        (1, "pen", Decimal("1.50"), None), (2, None, Decimal("2.00"), None), (3, "ink", Decimal("123456789012.34"), "x"),
    ]  # fmt: skip
    assert icebergs.data_files(lake_table(begun))[:1] == before, "no row is written again"
    narrow = table(id="bigint", note="text null")
    gone = ({"op": "drop", "column": "price"}, {"op": "drop", "column": "item"})
    begun.stage_task(batch(change("orders", 40, *gone), comes(narrow, 50, ["4", "y"])))
    begun.loader().merge_all()
    assert columns(begun, narrow) == [(1, None), (2, None), (3, "x"), (4, "y")]
    assert icebergs.data_files(lake_table(begun))[:1] == before


def test_columns_exchange_their_names_by_the_metadata(begun: Road) -> None:
    pair = table(id="bigint", amount="varchar(40) null", item="decimal(10,2) null")
    swap = [rename("item", "amount"), rename("amount", "item")]
    begun.stage_task(batch(change("orders", 20, *swap), comes(pair, 30, ["3", "ink", "3.00"])))
    begun.loader().merge_all()
    assert columns(begun, pair) == [(1, "pen", Decimal("1.50")), (2, None, Decimal("2.00")), (3, "ink", Decimal("3.00"))]


def test_what_changes_values_is_one_snapshot_of_all_rows(begun: Road) -> None:
    """A column with a default and one of another scale, which the format has no promotion for."""
    stage_change(begun)
    begun.loader(auto_rows=1).merge_all()
    assert "its 2 rows in " in reason(begun)
    loader = begun.loader()
    later(loader)
    assert columns(begun, PRICED) == CHANGED and reason(begun) == ""


def stage_quick(road: Road) -> None:
    named = table(id="bigint", label="varchar(40) null", amount="decimal(10,2) null")
    road.stage_task(batch(change("orders", 20, rename("item", "label")), comes(named, 30, ["3", "ink", "3.00"])))


@pytest.mark.parametrize("point", ["merge.migrate", "merge.altered", "merge.changed"])
@pytest.mark.parametrize("stage", [stage_change, stage_quick], ids=["rewritten", "metadata"])
def test_a_loader_that_is_killed_inside_a_migration_goes_on(begun: Road, point: str, stage: Callable[[Road], None]) -> None:
    stage(begun)

    def kill() -> None:
        raise Killed

    with pytest.raises(Killed), armed(point, kill):
        begun.loader().merge_all()
    later(begun.loader())
    if stage is stage_change:
        assert columns(begun, PRICED) == CHANGED
    else:
        assert begun.query(f'SELECT id, label FROM "{begun.schema}"."orders" ORDER BY 1') == [(1, "pen"), (2, None), (3, "ink")]


LATER = TableSchema("shop", "later", ORDERS.columns, ORDERS.key)


def test_tables_exchange_their_names_with_their_rows(begun: Road) -> None:
    begun.stage_task(batch(comes(LATER, 30, ["9", "new", None])))
    later(begun.loader())
    begun.stage_task(
        batch(change("orders", 60, {"op": "moved", "from": "shop.later"})),
        batch(change("later", 60, {"op": "moved", "from": "shop.orders"})),
    )
    later(begun.loader())
    read = {name: begun.query(f'SELECT id FROM "{begun.schema}"."{name}" ORDER BY 1') for name in ("orders", "later")}
    assert read == {"orders": [(9,)], "later": [(1,), (2,)]}
    assert sorted(name for _, name in icebergs.open_catalog(begun.folder / "lake").list_tables(begun.schema)) == ["later", "orders"]


def test_a_column_that_was_renamed_right_before_its_table_keeps_its_values(begun: Road) -> None:
    renamed = tuple(replace(one, name="remark") if one.name == "item" else one for one in ORDERS.columns)
    now = TableSchema("shop", "later", renamed, ORDERS.key)
    begun.stage_task(
        batch(change("orders", 15, rename("item", "remark")), change("orders", 20, {"op": "gone", "to": "shop.later"})),
        batch(change("later", 20, {"op": "moved", "from": "shop.orders"})),
    )
    later(begun.loader())
    begun.stage_task(batch(comes(now, 30, ["4", "x", None])))
    later(begun.loader())
    assert begun.query(f'SELECT id, remark FROM "{begun.schema}"."later" ORDER BY 1') == [(1, "pen"), (2, None), (4, "x")]


def test_all_tables_at_one_moment_are_refused(road: Road) -> None:
    chosen = road.settings.pipelines[PIPELINE].table_targets["wh"].model_copy(update={"consistency": "target"})
    with open_writer("warehouse", road.settings.connections["warehouse"]) as session:
        assert not is_at_one_moment(session, road.settings.pipelines[PIPELINE].table_targets["wh"])
        with pytest.raises(ConfigError, match=r"a commit of iceberg is of one table; leave it out, or write consistency: table"):
            is_at_one_moment(session, chosen)
