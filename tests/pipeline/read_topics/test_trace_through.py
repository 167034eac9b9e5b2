"""Rows that come by a topic of somebody else, damaged on the way into it and out of it: trace names the hop, or says why it cannot be told.

The test is the connector: it writes each change of the source into the topic as Debezium does. What the real one writes is traced by
test_trace_of_debezium.py.
"""

from __future__ import annotations

import html
import itertools
import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from auditor.api import create_app
from auditor.api_models.trace import Trace, TracedRow
from auditor.cli import main
from auditor.config import Settings, load
from auditor.model import Verdict
from auditor.service import running
from auditor.service.trace import Asked, trace
from auditor.store import Store, open_store, tokens
from tests.api.conftest import make_client
from tests.binlog import LiveLog
from tests.durations import SetDurations
from tests.live import Engines
from tests.pipeline.read_topics.plain_sink import PlainSink
from tests.pipeline.read_topics.test_debezium_topics import KEY, encoded, messages_key, schema
from tests.pipeline.read_topics.topics import Topics

pytestmark = [pytest.mark.kafka, pytest.mark.mysql, pytest.mark.alone]

TABLE = "traced_through"

COLUMNS = [("id", "int64", None, False), ("item", "string", None, True), ("price", "bytes", "org.apache.kafka.connect.data.Decimal", True)]

_runs = itertools.count()


class Chain:
    """A table of MySQL, a topic that the test fills as Debezium does, and a plain sink in DuckDB."""

    def __init__(
        self, folder: Path, url: str, topics: Topics, store: Path, partitions: int = 1, messages: str = "", **settings: str
    ) -> None:
        self.log, self.topics = LiveLog(url), topics
        self.topic = topics.make("shop.orders", partitions, **settings)
        self.sink = PlainSink(topics.server, self.topic, f"{topics.prefix}.sink", folder / "warehouse.duckdb")
        self.rows: dict[int, dict[str, Any] | None] = {}
        self.says_when, self.is_flat = True, False
        self.config = folder / "auditor.yaml"
        self.store_url = f"sqlite:///{store}"
        self.write_config(f"group: {topics.prefix}.sink{messages}")
        self.store: Store = open_store(self.store_url)
        self.log.run(f"DROP TABLE IF EXISTS {TABLE}", f"CREATE TABLE {TABLE} (id int PRIMARY KEY, item varchar(40), price decimal(8,2))")

    def write_config(self, more: str, audit: str = "") -> None:
        self.config.write_text(
            f"""\
connections:
  shop: {{url: "{self.log.url}"}}
  warehouse: {{url: "duckdb:///{self.sink.file}"}}
store: {{url: "{self.store_url}"}}
brokers: {{kafka: {{servers: "{self.topics.server}"}}}}
audits:
  orders:
    source: {{connection: shop, table: {TABLE}}}
    target: {{connection: warehouse, table: orders}}
    through: {{broker: kafka, topic: {self.topic}, {more}}}
{audit}
"""
        )

    @property
    def settings(self) -> Settings:
        return load(self.config)

    def change(self, key: int, item: str | None, *, publish: bool = True) -> tuple[Any, Any]:
        """Give a row of the source another item, make it, or delete it for None; return the message, which is sent if it is to be."""
        before, after = self.rows.get(key), None if item is None else {"id": key, "item": item, "price": encoded(100 * key)}
        gone = f"DELETE FROM {TABLE} WHERE id = {key}"
        sql = gone if after is None else f"REPLACE INTO {TABLE} VALUES ({key}, '{item}', {key})"
        self.log.run(sql)
        self.rows[key] = after
        end = self.log.end()
        block: dict[str, Any] = {"name": "shop", "db": "shop", "file": end.file, "pos": end.offset, "row": 0, "server_id": 1, "gtid": None}
        block |= {"snapshot": "false", "ts_ms": int(time.time()) * 1000} if self.says_when else {}
        op = "d" if after is None else "c" if before is None else "u"
        body = {"before": before, "after": after, "op": op, "source": block}
        message: tuple[Any, Any] = ({"schema": KEY, "payload": {"id": key}}, {"schema": schema(COLUMNS), "payload": body})
        if self.is_flat:
            said = {"__op": op, "__deleted": str(after is None).lower(), "__source_ts_ms": block["ts_ms"], "__source_name": "shop"}
            message = {"id": key}, {**(after or before or {}), **said}
        if publish:
            self.send(message)
        return message

    def send(self, *messages: tuple[Any, Any], partition: int | None = None) -> None:
        self.topics.send(self.topic, *messages, partition=partition)

    def pass_by(self, partition: int | None = None) -> None:
        """Publish a change of another row that is later than all that was read until now."""
        time.sleep(1.1)
        self.send(self.change(next(_runs) + 10_000, "passing by", publish=False), partition=partition)

    def trace(self, *keys: int, passing: bool = False) -> dict[str | None, TracedRow]:
        """Trace rows; while the trace waits, other rows of the table may be changed."""
        stopped = _Passing(self) if passing else threading.Event()
        found: Trace = trace(self.settings, self.store, "orders", Asked([str(key) for key in keys], stopped=stopped))
        return {row.key["id"]: row for row in found.rows}

    def close(self) -> None:
        self.sink.close()
        self.store.close()
        self.log.run(f"DROP TABLE IF EXISTS {TABLE}")


class _Passing(threading.Event):
    """What is waited for while other rows of a table are changed."""

    def __init__(self, chain: Chain) -> None:
        super().__init__()
        self.chain = chain

    def wait(self, timeout: float | None = None) -> bool:
        self.chain.pass_by()
        return False


@pytest.fixture
def chain(engines: Engines, topics: Topics, tmp_path: Path, empty_store: Path, set_durations: SetDurations) -> Iterator[Chain]:
    set_durations(hold_reach=1, trace_pause=0.1)
    made = Chain(tmp_path, engines.live("mysql").url, topics, empty_store)
    yield made
    made.close()


def test_rows_that_are_lost_behind_the_topic(chain: Chain) -> None:
    for key in range(1, 8):
        chain.change(key, f"item {key}")
    chain.sink.apply(7)
    found = {key: (row.outcome, row.sentence) for key, row in chain.trace(1, 7, 99).items()}
    assert found.pop("99") == (
        "unknown",
        "it cannot be told, because neither side has a row with this key, and no event of it is kept; write it as reports print keys",
    )
    assert set(found.values()) == {("equal", "both sides have it alike by now")}
    chain.change(1, "lost")
    chain.change(2, "older")
    chain.change(2, "newer")
    chain.change(3, None)
    chain.change(4, "lost, and deleted")
    # the update of 1 is lost, those of 2 come in the wrong order, the delete of 3 is lost; 5 is edited and 6 deleted by others
    chain.sink.apply(5, lambda found: [found[2], found[1], found[4]])
    chain.sink.execute("UPDATE orders SET item = 'edited' WHERE id = 5", "DELETE FROM orders WHERE id IN (4, 6)")
    chain.change(7, "on its way")
    rows = chain.trace(*range(1, 8))
    said = {key: row.sentence for key, row in rows.items()}
    sink = ("lost", "sink")
    assert {key: (row.outcome, row.hop) for key, row in rows.items()} == {**dict.fromkeys("123456", sink), "7": ("in_flight", None)}, said
    update = rows["1"].events[-1]
    assert update.position
    assert said["1"].startswith(
        f"the target's row is as before the message at {update.offset} (update, {update.position.rpartition(':')[0]}, "
    )
    assert said["1"].endswith(f"the sink's group {chain.topics.prefix}.sink has read the partition up to offset 12")
    assert (update.kind, update.offset, update.merged, update.source, update.target) == ("update", "0:7", True, True, False)
    assert said["2"].startswith("the target's row is as before the message at 0:9 (") and said["3"].startswith(
        "the target's row is as before"
    )
    assert said["4"].startswith("the target does not have the row of the message at 0:11")
    assert "nor as any message before it: it was applied wrongly, or changed in the target by others" in said["5"]
    assert said["7"].endswith("is in the topic, and the sink's group has read its partition up to offset 12")


def test_rows_that_are_lost_on_the_way_into_the_topic(chain: Chain) -> None:
    for key in range(1, 6):
        chain.change(key, f"item {key}")
    chain.sink.apply(5)
    chain.change(1, "lost", publish=False)
    chain.change(2, None, publish=False)
    older, newer = (chain.change(3, item, publish=False) for item in ("older", "newer"))
    chain.send(newer, older)
    chain.change(6, "never published", publish=False)
    chain.sink.apply(2)
    time.sleep(1.1)  # in whose second of the source's clock a message may be of a change that was made meanwhile
    rows = chain.trace(1, 2, 3, 6)
    assert {row.outcome for row in rows.values()} == {"unknown"}
    assert all("of no later change, so that the row's may be on its way" in row.sentence for row in rows.values())
    found = chain.trace(1, 2, 3, 4, 6, passing=True)
    capture = ("lost", "capture")
    assert {key: (row.outcome, row.hop) for key, row in found.items()} == {**dict.fromkeys("1236", capture), "4": ("equal", None)}
    assert "in its partition there is a message of a change that was committed after the row was read" in found["1"].sentence
    assert "is of an earlier change than the message at 0:5 (" in found["3"].sentence
    assert found["6"].sentence.startswith("the topic has no message of it, and in each of its partitions there is a message of a change")


def test_the_command_the_api_and_the_page_show_the_topic(
    chain: Chain, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUDITOR_CONFIG", str(chain.config))
    for key in (1, 2):
        chain.change(key, f"item {key}")
    chain.change(1, "lost")
    chain.sink.apply(3, lambda found: found[:2])
    report = running.run_audit(chain.settings, "orders", store=chain.store)
    assert report.verdict is Verdict.MISMATCH
    assert report.notes[-1] == f"at which hop rows were lost: auditor trace {report.run[:12]}"
    assert main(["trace", report.run, "--quiet"]) == 1
    text = capsys.readouterr().out
    assert text.startswith(f"orders: 1 row of run {report.run[:12]}: 1 lost between the topic and the target\n")
    assert (
        f"topic kafka: {chain.topic}: 3 messages\n  partition 0: offsets 0 to 3; group {chain.topics.prefix}.sink has read it up to 3"
        in text
    )
    assert main(["trace", "orders", "--quiet"]) == 1
    text = capsys.readouterr().out
    ends = f"kafka: {chain.topic} up to 0:3"
    assert f"MATCH shop: {TABLE} -> kafka: {chain.topic}, at {ends}: no difference" in text
    behind = f"MISMATCH kafka: {chain.topic} -> warehouse: orders, at {ends}: "
    assert re.search(rf"{re.escape(behind)}1 of [\d,]+ rows differs: ", text), text
    assert main(["trace", "orders", "--key", "2", "--json", "--quiet"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["pipeline"], found["topic"]["messages"], found["rows"][0]["outcome"]) == (None, 3, "equal")
    secret = tokens.create_token(chain.store, name="runner", scope="run")
    with make_client(create_app(chain.settings, chain.store), headers={"Authorization": f"Bearer {secret}"}) as client:
        [row] = client.get(f"/api/v1/runs/{report.run}/trace").raise_for_status().json()["rows"]
        assert (row["key"], row["outcome"], row["hop"], row["events"][-1]["offset"]) == ({"id": "1"}, "lost", "sink", "0:2")
        assert f'action="/runs/{report.run}/trace"' in client.get(f"/runs/{report.run}").raise_for_status().text
        hops = client.get(f"/api/v1/runs/{report.run}/trace", params={"hops": "true"}).raise_for_status().json()["hops"]
        assert [(hop["hops"], hop["verdict"]) for hop in hops] == [(["capture"], "match"), (["sink"], "mismatch")]
        page = html.unescape(client.get(f"/runs/{report.run}/trace", params={"hops": "true"}).raise_for_status().text)
        assert "Each hop as a whole" in page and hops[1]["sentence"][1:] in page
        page = html.unescape(client.get(f"/runs/{report.run}/trace").raise_for_status().text)
        assert 'name="hops" value="true"' in page
        assert "1 row: 1 lost between the topic and the target." in page and row["sentence"][1:] in page
        assert f"The topic kafka: {chain.topic} has 3 messages" in page.replace("<bdi>", "").replace("</bdi>", "")


def test_what_the_messages_do_not_show_cannot_be_told(chain: Chain) -> None:
    chain.says_when = False
    for key in (1, 2, 3):
        chain.change(key, f"item {key}")
    chain.sink.apply(3)
    chain.change(1, "lost", publish=False)
    chain.change(2, "lost behind")
    rows = chain.trace(1, 2, passing=True)
    assert "its messages do not say when the source committed their changes" in rows["1"].sentence and rows["1"].outcome == "unknown"
    assert rows["2"].outcome == "in_flight"
    chain.write_config("group: nobody")
    chain.sink.apply(1, lambda found: [])
    assert chain.trace(2)["2"].sentence.endswith(
        "the consumer group nobody has committed no offset of partition 0, so that it shows nothing"
    )
    chain.write_config("messages: {values: debezium}")
    row = chain.trace(2)["2"]
    assert row.outcome == "unknown" and "name its consumer group in the audit (through: {group: ...})" in row.sentence
    chain.topics.send(chain.topic, (messages_key(9), b"none of Debezium's"))
    row = chain.trace(2)["2"]
    assert row.outcome == "unknown" and row.sentence.startswith("it cannot be told, because the topic cannot be read: topic kafka: ")


def test_a_key_in_two_partitions_and_messages_that_were_removed(
    engines: Engines, topics: Topics, tmp_path: Path, empty_store: Path, set_durations: SetDurations
) -> None:
    set_durations(hold_reach=1, trace_pause=0.1)
    chain = Chain(tmp_path, engines.live("mysql").url, topics, empty_store, 2)
    try:
        chain.send(chain.change(1, "first", publish=False), partition=0)
        chain.send(chain.change(1, "second", publish=False), partition=1)
        chain.send(chain.change(2, "kept", publish=False), partition=1)
        chain.sink.apply(3, lambda found: [])
        rows = chain.trace(1, 2)
        assert (rows["1"].outcome, rows["2"].hop) == ("unknown", "sink"), rows
        assert "its messages are in the partitions 0 and 1 of the topic, which have no order" in rows["1"].sentence
        chain.sink.execute("INSERT INTO orders VALUES (7, 'by hand', 1)")
        assert "neither the source nor the topic has the row" in chain.trace(7)["7"].sentence
        [gone] = topics.admin.delete_records([TopicPartition(chain.topic, 1, 2)]).values()
        gone.result()
        row = chain.trace(2)["2"]
        assert row.outcome == "unknown" and "messages at its beginning were removed (cleanup.policy: delete): partition 1" in row.sentence
    finally:
        chain.close()


@pytest.mark.slow
def test_flat_messages_say_when_the_source_committed_their_changes(chain: Chain) -> None:
    """They have no place in the log, and no schema beside them."""
    chain.is_flat = True
    columns = "columns: {id: int, item: varchar(40), price: 'decimal(8,2)'}, key: [id]"
    columns += ", messages: {values: flat, add: [op, source.ts_ms, source.name]}"
    chain.write_config(f"group: {chain.topics.prefix}.sink, {columns}")
    for key in (1, 2, 3):
        chain.change(key, f"item {key}")
    chain.sink.apply(3, lambda found: [])
    chain.sink.execute("INSERT INTO orders VALUES (1, 'item 1', 1), (2, 'item 2', 2), (3, 'other', 3)")
    chain.change(1, "lost", publish=False)
    chain.change(2, None, publish=False)
    time.sleep(1.1)
    rows = chain.trace(1, 2, 3, passing=True)
    capture = ("lost", "capture")
    assert {key: (row.outcome, row.hop) for key, row in rows.items()} == {"1": capture, "2": capture, "3": ("lost", "sink")}, rows
    [event] = rows["1"].events
    assert (event.kind, event.position, event.offset, event.target) == ("refresh", None, "0:0", True)
