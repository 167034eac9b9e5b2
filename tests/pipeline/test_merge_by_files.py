"""Redshift is loaded by files on S3 and one COPY of their manifest, in the transaction that merges them."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest

from auditor import config
from auditor.errors import ColumnRefused, ConfigError
from auditor.pipeline.merge import load_files, shared_load
from auditor.pipeline.merge.load_files import folder_of
from auditor.store import pipelines
from tests.live import Engines, engine_params
from tests.pipeline.conftest import BUCKET, ROLE
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline_events import announce, batch, delete, insert, table, update
from tests.servers.redshift import StandIn
from tests.servers.redshift_strict import STRICT

pytestmark = pytest.mark.parametrize("engine", engine_params("redshift"), indirect=True)

ORDERS = table(id="bigint", item="varchar(4) null", code="varbinary(3) null")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no table share a COPY with others, however small it is."""
    monkeypatch.setattr(shared_load, "SHARED_BYTES", 0)


def stored() -> list[str]:
    found = boto3.client("s3", region_name="us-east-1").list_objects_v2(Bucket=BUCKET)
    return [str(one["Key"]) for one in found.get("Contents", [])]


def report(road: Road) -> pipelines.MergeReport:
    return pipelines.list_merges(road.store, PIPELINE)["wh"]["shop.orders"]


def stage_two(road: Road) -> None:
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a\\\t\n", "00ff"])))
    road.stage(batch(insert(ORDERS, 20, ["2", "", None])))


def test_parts_are_copied_by_a_manifest_in_one_transaction(road: Road, engines: Engines) -> None:
    server = engines.server("redshift")
    assert isinstance(server, StandIn)
    left = f"auditor/{folder_of(PIPELINE, road.schema)}/killed/000000.txt"
    boto3.client("s3", region_name="us-east-1").put_object(Bucket=BUCKET, Key=left, Body=b"of a process that was killed")
    config_text = road.config_file.read_text().replace("schema: ", "tables: {orders: {dist_key: [id], sort_key: [item, id]}}, schema: ")
    road.config_file.write_text(config_text)
    keys = config.load(road.config_file).pipeline(PIPELINE).table_targets["wh"].tables
    stage_two(road)
    server.forget()
    assert road.loader(keys=keys).merge_all() == 2
    assert road.rows() == [(1, "a\\\t\n", r"\x00ff"), (2, "", None)]
    sent = server.statements()
    (created,) = [one for one in sent if one.startswith("CREATE TABLE") and "orders" in one]
    assert '"item" VARCHAR(16)' in created and created.endswith('DISTKEY ("id")\nSORTKEY ("item", "id")')
    copied = next(at for at, one in enumerate(sent) if one.startswith("COPY"))
    began = max(at for at, one in enumerate(sent[:copied]) if one == "BEGIN")
    inside = [one.split("\n")[0].split(' "')[0] for one in sent[began : sent.index("COMMIT", copied) + 1]]
    wanted = [
        "BEGIN", "LOCK", "SELECT table_name, position, schema_id", "DELETE FROM", "INSERT INTO", "DROP TABLE IF EXISTS",
        "CREATE TEMPORARY TABLE", "COPY", "SELECT", "CREATE TEMPORARY TABLE", "DELETE FROM", "INSERT INTO", "DROP TABLE", "DROP TABLE",
        "COMMIT",
    ]  # fmt: skip
    assert inside == wanted
    (copy,) = [one for one in sent if one.startswith("COPY")]
    assert re.search(rf"FROM 's3://{BUCKET}/auditor/[\w-]+/\w+/\w+/manifest' IAM_ROLE '{ROLE}' MANIFEST", copy)
    assert not re.search("access_key|secret|credentials|TRUNCATE", "\n".join(sent), re.IGNORECASE)
    assert stored() == [], "nothing is left, neither of this merge nor of the process that was killed"


def _delete(client: Any, key: str) -> None:
    client.delete_object(Bucket=BUCKET, Key=key)


def _cut(client: Any, key: str) -> None:
    body = client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    client.put_object(Bucket=BUCKET, Key=key, Body=body[:-1])


def _spoil(client: Any, key: str) -> None:
    body = client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    client.put_object(Bucket=BUCKET, Key=key, Body=body.replace(b"0\t1\ti", b"x\t1\ti"))


@pytest.mark.quick_for("spoiled")
@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (_delete, "Mandatory url is not present in manifest file"),
        (_cut, "is not the [0-9]+ of the manifest"),
        (_spoil, "Load into table '...' failed"),
    ],
    ids=["missing", "cut", "spoiled"],
)
def test_a_file_that_is_not_as_it_was_written_fails_the_whole_copy(
    road: Road, monkeypatch: pytest.MonkeyPatch, harm: Callable[[Any, str], None], reason: str
) -> None:
    now, written = [0.0], load_files.store_file

    def store_file(task: load_files.FileTask) -> Any:
        found = written(task)
        for file in found:  # each is harmed, because parts that fail together are tried one by one
            harm(boto3.client("s3", region_name="us-east-1"), file.url.partition(f"{BUCKET}/")[2])
        return found

    loader = road.loader(clock=lambda: now[0])
    stage_two(road)
    with monkeypatch.context() as patched:
        patched.setattr(load_files, "store_file", store_file)
        assert loader.merge_all() == 0
    assert re.search(reason, report(road).reason), report(road).reason
    assert road.rows() == [] and stored() == [] and report(road).position == 0
    now[0] += 100
    assert loader.merge_all() == 2 and len(road.rows()) == 2


@pytest.mark.quick_for("3-refused0-4", "40-refused1-16")
@pytest.mark.parametrize(("refused", "slices"), [(frozenset[str](), 4), (frozenset({"serverless"}), load_files.UNKNOWN_SLICES)])
@pytest.mark.parametrize("parts", [1, 3, 40])
def test_files_of_a_copy_are_as_many_as_the_slices(
    road: Road, engines: Engines, monkeypatch: pytest.MonkeyPatch, refused: frozenset[str], slices: int, parts: int
) -> None:
    server, written, rows = engines.server("redshift"), load_files.store_file, 80
    assert isinstance(server, StandIn)
    stored_files: list[Any] = []

    def store_file(task: load_files.FileTask) -> Any:
        stored_files.extend(found := written(task))
        return found

    monkeypatch.setattr(load_files, "store_file", store_file)
    monkeypatch.setattr(load_files, "LEAST_FILE", 1)  # else a test would take many mebibytes
    road.stage(batch(announce(ORDERS, 1), *(insert(ORDERS, 10 + row, [str(row), "a", None]) for row in range(rows // parts))))
    for part in range(1, parts):
        first = part * (rows // parts)
        road.stage(batch(*(insert(ORDERS, 10 + first + row, [str(first + row), "a", None]) for row in range(rows // parts))))
    with server.behaving(STRICT - {"serverless"} | refused):
        assert road.loader().merge_all() == parts * (rows // parts)
    assert len(stored_files) == slices
    counts = [file.rows for file in stored_files]
    assert sum(counts) == parts * (rows // parts) and max(counts) <= 2 * -(-sum(counts) // slices)
    assert len(road.rows()) == sum(counts) and stored() == []


def test_values_beyond_the_bytes_of_a_column_are_refused_by_name(road: Road) -> None:
    assert road.prepare(ORDERS).longest == {"item": 16, "code": 3}
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "é" * 20, None])))
    assert road.loader().merge_all() == 0
    reason = "shop.orders.item holds a value of 40 bytes, and the target's column takes 16; exclude the column"
    assert report(road).reason.startswith(reason) and stored() == []


def test_keys_that_differ_by_blanks_at_their_ends_are_two(road: Road) -> None:
    names = table("names", ("name",), name="varchar(9)", note="varchar(9) null")
    road.stage(batch(announce(names, 1), insert(names, 10, ["a", "1"], ["a ", "2"], ["b ", "3"])))
    road.stage(batch(delete(names, 20, ["a", "1"]), update(names, 21, (["b ", "3"], ["b", "4"]))))
    road.loader().merge_all()
    assert road.query(f"SELECT name || '.', note FROM {road.schema}.names ORDER BY note") == [("a .", "2"), ("b.", "4")]


def test_what_a_connection_or_a_table_lacks_is_said(road: Road) -> None:
    url = road.settings.connections["warehouse"].url
    assert isinstance(url, str)
    road.config_file.write_text(road.config_file.read_text().replace(url, url.partition("&unload_to")[0]))
    stage_two(road)
    loader = road.loader()
    loader.settings = config.load(road.config_file).connections["warehouse"]
    assert loader.merge_all() == 0
    assert report(road).reason.endswith("its files go through S3: add unload_to=s3://bucket/folder and unload_role=ARN to write: url")


def test_types_and_keys_that_redshift_lacks_are_refused(road: Road) -> None:
    flags = table("flags", id="int", flag="bit(1)")
    with pytest.raises(ColumnRefused, match=r"shop\.flags\.flag is bit\(1\): redshift has no type for bit\(1\); exclude it"):
        road.prepare(flags)
    with pytest.raises(ConfigError, match=r"shop\.orders has no column 'nothing' for its sort key; it has id, item, code"):
        road.prepare(ORDERS, config.TargetKeys(sort_key=("nothing",)))


@pytest.mark.slow
def test_a_million_events_take_no_more_memory_than_a_part(road: Road) -> None:
    parts, rows = 20, 50_000
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["0", "a", "00"])))
    loader = road.loader()
    loader.merge_all()
    for part in range(parts):
        first = part * rows + 1
        road.stage(batch(insert(ORDERS, 100 + part, *([str(first + row), "abcd", "00ff00"] for row in range(rows)))))
    gc.collect()
    before = peak()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    assert loader.merge_all() == parts * rows
    print(f"{parts * rows:,} events; peak before {before} MiB, while they were merged {peak()} MiB")
    assert road.query(f"SELECT COUNT(*) FROM {road.schema}.orders") == [(parts * rows + 1,)] and stored() == []
    assert peak() < before + 300


def peak() -> int:
    """The most memory that this process has had, in MiB."""
    (found,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(found.split()[1]) >> 10
