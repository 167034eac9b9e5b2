"""Small tables of one transaction into Redshift share one COPY, and none of them stops because of what it shares."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import boto3
import pytest

from auditor.pipeline.events import TableSchema
from auditor.pipeline.merge import load_files, shared_load
from auditor.pipeline.merge.shared_load import StoredTables
from auditor.sql.shared_stage import MOST_COLUMNS
from auditor.store import pipelines
from tests.live import Engines, engine_params
from tests.pipeline.conftest import BUCKET
from tests.pipeline.road import PIPELINE, Road, pass_time
from tests.pipeline_events import Row, announce, batch, delete, insert, refresh, table, update
from tests.servers.redshift import StandIn

pytestmark = pytest.mark.parametrize("engine", engine_params("redshift"), indirect=True)


@pytest.fixture
def server(engines: Engines, road: Road) -> StandIn:
    found = engines.server("redshift")
    assert isinstance(found, StandIn)
    return found


def small(name: str) -> TableSchema:
    return table(name, ("id",), id="bigint", item="varchar(4) null")


def stage(road: Road, *tables: TableSchema, position: int = 10, row: Row = ("1", "a")) -> None:
    road.stage(*(batch(announce(one, 1), insert(one, position, row)) for one in tables))


def copies(server: StandIn) -> list[str]:
    """Into which tables rows were copied."""
    return [one.split()[1].strip('"') for one in server.statements() if one.startswith("COPY")]


def states(road: Road) -> dict[str, str]:
    return {name.removeprefix("shop."): one.state for name, one in pipelines.list_merges(road.store, PIPELINE)["wh"].items()}


def reason(road: Road, name: str) -> str:
    return pipelines.list_merges(road.store, PIPELINE)["wh"][f"shop.{name}"].reason


def shape(sql: str) -> str:
    """A statement without the names and numbers of its table."""
    return re.sub(r"\d+", "0", sql)


def test_thirty_tables_are_loaded_by_one_copy_and_merged_by_two_statements_each(road: Road, server: StandIn) -> None:
    many = [small(f"many_{number}") for number in range(30)]
    loader = road.loader()
    stage(road, *many)
    assert loader.merge_all() == 30
    road.stage(*(batch(update(one, 20, (["1", "a"], ["2", "b"])), insert(one, 21, ["3", ""], ["4", None])) for one in many))
    road.stage(*(batch(delete(one, 30, ["3", ""])) for one in many))
    server.forget()
    assert loader.merge_all() == 30 * 4
    assert {tuple(road.rows(one.table)) for one in many} == {((2, "b"), (4, None))}
    sent = server.statements()[: server.statements().index("COMMIT") + 1]
    assert copies(server) == ["auditor_stage_shared"]
    own = [one for one in sent if "many_" in one and "auditor_positions" not in one]
    assert len(own) == 2 * 30 and len({shape(one) for one in own}) == 2
    assert len(sent) - len(own) == 10, [one[:60] for one in sent if one not in own]


KINDS = {
    "t": "varchar(40) null", "long": "longtext null", "b": "varbinary(40) null", "j": "json null", "d": "decimal(20,4) null",
    "f": "double null", "g": "float null", "small": "smallint null", "u": "bigint unsigned null", "y": "year null", "day": "date null",
    "at": "datetime(6) null", "moment": "timestamp(6) null", "clock": "time(6) null", "e": "enum('a','b') null", "yes": "tinyint(1) null",
    "c": "char(4) null",
}  # fmt: skip
NUMBERS = ["-12345.6789", "1.5e300", "0.25", "-32768", "18446744073709551615", "2024"]
TIMES = ["2024-02-29", "2024-02-29 23:59:59.999999", "1999-01-01 00:00:00.000001", "23:59:59.000001", "b", "1", "ab"]
OTHERS = ["00ff5c09", '{"a": "\\\\ \\n \\u0001", "b": [1, null]}', *NUMBERS, *TIMES]
TEXTS = ["", "\\", "\\N", "a\\tb\tc\nd\re", 'it\'s "q" ${x} %s', "é漢😀", " blanks ", "NULL", "x\x01y", "\\\\n"]


def test_values_of_each_kind_are_those_of_a_copy_of_its_own(road: Road, server: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[Row] = [[str(1 + number), text, text * 9, *OTHERS] for number, text in enumerate(TEXTS)]
    rows += [["100", *[None] * len(KINDS)], ["101", "z", None, "", "null", *["0"] * 4, "0", "2000", *[None] * 5, "0", None]]
    both = {}
    for name, most in (("alone", 0), ("shared", shared_load.SHARED_BYTES)):
        kinds = table(f"kinds_{name}", ("id",), id="bigint", **KINDS)
        road.stage(batch(announce(kinds, 1), insert(kinds, 10, *rows)))
        server.forget()
        with monkeypatch.context() as patched:
            patched.setattr(shared_load, "SHARED_BYTES", most)
            assert road.loader().merge_all() == len(rows), reason(road, kinds.table)
        both[name] = road.rows(kinds.table)
        assert [one == "auditor_stage_shared" for one in copies(server)] == [name == "shared"]
    assert both["alone"] == both["shared"]
    assert [row[1] for row in both["shared"]] == [*TEXTS, None, "z"]


def test_keys_of_each_exact_kind_find_their_rows(road: Road, server: StandIn) -> None:
    keys = table("keyed", ("n", "t", "b", "at"), n="decimal(9,2)", t="varchar(9)", b="varbinary(4)", at="datetime(6)", v="int null")
    key, blanks = ["1.50", "a", "5c00", "2024-01-01 00:00:00.000000"], ["1.50", "a ", "5c00", "2024-01-01 00:00:00.000000"]
    road.stage(batch(announce(keys, 1), insert(keys, 10, [*key, "1"], [*blanks, "2"])))
    loader = road.loader()
    loader.merge_all()
    server.forget()
    road.stage(batch(update(keys, 20, ([*key, "1"], [*key, "7"])), delete(keys, 21, [*blanks, "2"])))
    assert loader.merge_all() == 2 and copies(server) == ["auditor_stage_shared"]
    assert [row[-1] for row in road.rows("keyed")] == [7]


@pytest.mark.slow
def test_value_that_does_not_fit_stops_its_table_alone(road: Road, server: StandIn, caplog: pytest.LogCaptureFixture) -> None:
    many = [small(f"many_{number}") for number in range(5)]
    loader = road.loader()
    stage(road, *many)
    assert loader.merge_all() == 5
    road.execute(f"ALTER TABLE {road.schema}.many_2 ALTER COLUMN item TYPE varchar(2)")  # which the loader has looked at before
    road.stage(*(batch(insert(one, 20, ["2", "ok"]), insert(one, 30, ["3", "abc"])) for one in many))
    stage(road, small("named"), position=40, row=("1", "é" * 20))
    caplog.set_level(logging.WARNING)
    loader.merge_all()
    assert states(road) == {**{one.table: "merged" for one in many}, "many_2": "stopped", "named": "stopped"}
    assert "shop.named.item holds a value of 40 bytes, and the target's column takes 16" in reason(road, "named")
    assert "shop.many_2.item holds a value of 3 bytes, and the target's column takes 2" in reason(road, "many_2")
    assert "shop.many_2 cannot share a COPY with others: value too long" in caplog.text
    assert [len(road.rows(one.table)) for one in many] == [3, 3, 2, 3, 3], "it goes on to the value"


def test_tables_of_many_columns_or_rows_are_copied_by_themselves(road: Road, server: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    widest = table("widest", ("id",), id="bigint", **{f"v{number}": "int null" for number in range(1, MOST_COLUMNS)})
    wider = table("wider", ("id",), id="bigint", **{f"v{number}": "int null" for number in range(MOST_COLUMNS)})
    large = table("large", ("id",), id="bigint", item="varchar(40) null")
    row = [str(number) for number in range(MOST_COLUMNS + 1)]
    [part] = road.stage(batch(announce(large, 1), insert(large, 10, *([str(number), f"{number:x}" * 9] for number in range(2000)))))
    road.stage(batch(announce(widest, 1), insert(widest, 10, row[:-1])), batch(announce(wider, 1), insert(wider, 10, row)))
    stage(road, small("little"))
    monkeypatch.setattr(shared_load, "SHARED_BYTES", part.bytes - 1)
    server.forget()
    assert road.loader().merge_all() == 2003
    assert copies(server).count("auditor_stage_shared") == 1 and len(copies(server)) == 3
    assert road.rows("widest") == [tuple(map(int, row[:-1]))] and road.rows("wider") == [tuple(map(int, row))]
    assert len(road.rows("large")) == 2000 and road.rows("little") == [(1, "a")]


def test_values_that_no_text_of_the_staging_table_holds_are_copied_by_themselves(road: Road, server: StandIn) -> None:
    documents = table("documents", ("id",), id="bigint", body="json null", code="blob null")
    body, code = f'["{"x" * 40_000}", "{"y" * 40_000}"]', "ab" * 40_000
    road.stage(batch(announce(documents, 1), insert(documents, 10, ["1", body, None], ["2", None, code])))
    stage(road, small("little"))
    server.forget()
    assert road.loader().merge_all() == 3
    assert len(copies(server)) == 2
    found = road.query(f"SELECT OCTET_LENGTH(code), id FROM {road.schema}.documents ORDER BY id")
    assert found == [(None, 1), (40_000, 2)] and road.rows("little") == [(1, "a")]


def test_keys_that_only_the_target_can_compare_are_copied_by_themselves(road: Road, server: StandIn) -> None:
    floats = table("floats", ("f",), f="double", v="int null")
    road.stage(batch(announce(floats, 1), insert(floats, 10, ["0", "1"]), update(floats, 20, (["0", "1"], ["-0", "2"]))))
    stage(road, small("little"))
    server.forget()
    assert road.loader().merge_all() == 3
    assert len(copies(server)) == 2 and [row[1] for row in road.rows("floats")] == [2]


def test_range_of_a_refresh_is_loaded_by_itself_beside_others(road: Road) -> None:
    one, other = small("one"), small("other")
    stage(road, one, other)
    loader = road.loader()
    loader.merge_all()
    road.stage(batch(refresh(one, 20, ["1", "b"], bounds=(["1", None], ["9", None]))), batch(insert(other, 20, ["2", "b"])))
    loader.merge_all()
    assert states(road) == {"one": "merged", "other": "merged"}
    assert road.rows("one") == [(1, "b")] and len(road.rows("other")) == 2


def harmed(monkeypatch: pytest.MonkeyPatch, harm: Callable[[Any, str], None]) -> None:
    """Let each file that tables share be harmed once it is written."""
    written = load_files.store_file

    def store_file(task: load_files.FileTask) -> Any:
        found = written(task)
        if isinstance(found, StoredTables):
            harm(boto3.client("s3", region_name="us-east-1"), found.file.url.partition(f"{BUCKET}/")[2])
        return found

    monkeypatch.setattr(load_files, "store_file", store_file)


def test_tables_whose_common_copy_fails_are_copied_by_themselves(road: Road, server: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    stage(road, *(small(f"many_{number}") for number in range(3)))
    harmed(monkeypatch, lambda client, key: client.delete_object(Bucket=BUCKET, Key=key))
    server.forget()
    assert road.loader().merge_all() == 3
    assert len(copies(server)) == 4 and set(states(road).values()) == {"merged"}
    assert boto3.client("s3", region_name="us-east-1").list_objects_v2(Bucket=BUCKET).get("Contents", []) == []


def test_rows_that_are_missing_are_found_by_table(road: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    def mix(client: Any, key: str) -> None:
        body = client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        client.put_object(Bucket=BUCKET, Key=key, Body=body.replace(b"1\ti\t", b"0\ti\t"))

    stage(road, *(small(f"many_{number}") for number in range(3)))
    loader = road.loader()
    with monkeypatch.context() as patched:
        harmed(patched, mix)
        loader.merge_all()
    failed = [name for name, state in states(road).items() if state != "merged"]
    assert failed and all("changes were loaded, and" in reason(road, name) for name in failed)
    assert all(road.rows(name) == [] for name in failed)
    pass_time(loader)
    loader.merge_all()
    assert set(states(road).values()) == {"merged"} and [len(road.rows(f"many_{number}")) for number in range(3)] == [1, 1, 1]


def test_files_are_packed_by_their_bytes(road: Road, server: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [small(f"many_{number}") for number in range(6)]
    parts = road.stage(*(batch(announce(one, 1), insert(one, 10, ["1", "a"])) for one in many))
    monkeypatch.setattr(shared_load, "FILE_BYTES", 2 * max(part.bytes for part in parts))
    written, write = list[int](), load_files.store_files

    def store_files(run_tasks: load_files.RunFileTasks, tasks: Any) -> Any:
        written.append(len(tasks))
        return write(run_tasks, tasks)

    monkeypatch.setattr("auditor.pipeline.merge.table_merge.store_files", store_files)
    server.forget()
    assert road.loader().merge_all() == 6
    assert written == [3] and copies(server) == ["auditor_stage_shared"]
