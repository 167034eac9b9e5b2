"""Audits of topics and tables: they match where they are equal, and otherwise name exactly what differs, or is wrong with the topic."""

from __future__ import annotations

import datetime as dt
import json
import re
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from confluent_kafka import Message, TopicPartition
from confluent_kafka.admin import AdminClient

import dialects
from auditor.cli import main
from auditor.config import validate_settings
from auditor.errors import ConfigError, StatementCancelled
from auditor.history import records
from auditor.model import Report, Side, State, Verdict
from auditor.pipeline.topic_side import fixed_topic, open_topics
from auditor.report import render
from auditor.service import patches, planning
from auditor.service.running import audit_tables, run_audit
from auditor.sql.merge import Positions
from tests.pipeline.kafka.compared import Edit, Said, audit_topic, copy_topic, faults, found, make_table, published_by, settings_of
from tests.pipeline.kafka.topic_road import PIPELINE, Made, TopicRoad
from tests.pipeline_events import announce, batch, delete, insert, note, table, update

ORDERS = table(id="int", item="varchar(20) null", price="decimal(10,2) null")
COLUMNS = "id INTEGER PRIMARY KEY, item VARCHAR, price DECIMAL(10, 2)"
DECLARED = {"key": ["id"], "columns": {"id": "int", "item": "varchar(20)", "price": "decimal(10,2)"}}
KEPT = {"cleanup": "delete"}

Rows = Sequence[Sequence[Any]]

pytestmark = pytest.mark.kafka


def order(number: int, item: str | None = "pen", price: str | None = "1.50") -> list[str | None]:
    return [str(number), item, price]


def publish(road: TopicRoad) -> list[tuple[int, str | None, str | None]]:
    """Publish changes of twenty rows, and return the rows that are left."""
    rows = [order(number) for number in range(20)]
    road.stage(
        batch(
            announce(ORDERS, 10),
            insert(ORDERS, 10, *rows),
            update(ORDERS, 11, (rows[3], order(3, "ink")), (rows[4], order(4, None, None))),
            delete(ORDERS, 12, rows[5]),
            update(ORDERS, 13, (rows[6], order(60, "moved"))),
            insert(ORDERS, 14, order(5, "again")),
        )
    )
    road.publish()
    changed: dict[int, list[str | None]] = {3: order(3, "ink"), 4: order(4, None, None), 5: order(5, "again"), 60: order(60, "moved")}
    last = {**{number: rows[number] for number in range(20)}, **changed}
    return [(number, row[1], row[2]) for number, row in sorted(last.items()) if number != 6]


@pytest.mark.quick_for("target")
@pytest.mark.parametrize("side", ["target", "source"])
def test_what_was_published_matches_on_either_side(side: Side, made: Made, tmp_path: Path) -> None:
    road = made.road(partitions=3, **KEPT)
    rows = publish(road)
    report = audit_topic(
        made, f"{road.prefix}.shop.orders", make_table(tmp_path, COLUMNS, *rows), {"published_by": published_by(road)}, side
    )
    assert (report.verdict, report.reasons) == (Verdict.MATCH, ("no difference",)), report
    topic = report.topics[side]
    assert (topic.rows, topic.messages, topic.faults) == (20, 28, ()) and topic.label == f"kafka: {road.prefix}.shop.orders"
    assert [(one.partition, one.begin) for one in topic.partitions] == [(0, 0), (1, 0), (2, 0)]
    assert sum(one.messages for one in topic.partitions) == 28 and all(one.end >= one.messages for one in topic.partitions)
    assert report.comparison and report.comparison.rows == {"source": 20, "target": 20}


class Bare:
    """A message without headers."""

    def __init__(self, message: Message) -> None:
        self._message = message

    def headers(self) -> None:
        return None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._message, name)


class Moved(Bare):
    """A message in the other of two partitions."""

    def partition(self) -> int:
        return 1 - (self._message.partition() or 0)


def value_of(message: Any, **changes: Any) -> bytes:
    """The value of a message in Debezium's form with another row after it."""
    body = json.loads(message.value())
    body["after"] |= changes
    return json.dumps(body).encode()


def audited_copy(
    made: Made, road: TopicRoad, folder: Path, edit: Edit, rows: Sequence[Any], said: Said = DECLARED, **settings: str
) -> Report:
    """Audit a copy of what a road published, in which messages were changed."""
    topic = copy_topic(road, edit, **{"cleanup_policy": "delete", **settings})
    return audit_topic(made, topic, make_table(folder, COLUMNS, *rows), {"messages": {"decimals": "string"}, **said})


@pytest.mark.slow
def test_single_messages_that_were_changed_dropped_or_doubled_are_named(made: Made, tmp_path: Path) -> None:
    road = made.road(messages={"decimals": "string"}, **KEPT)
    rows = publish(road)

    def report_of(edit: Edit) -> tuple[Verdict, dict[str, list[str | None]], dict[str, int]]:
        report = audited_copy(made, road, tmp_path, edit, rows)
        assert report.state is State.DONE, report.reasons
        return report.verdict, found(report), faults(report)

    assert report_of(lambda messages: messages) == (Verdict.MATCH, {}, {})
    changed = report_of(lambda messages: [*messages[:7], (messages[7], value_of(messages[7], item="pan")), *messages[8:]])
    assert changed == (Verdict.MISMATCH, {"changed": ["7"]}, {})
    assert report_of(lambda messages: messages[:7] + messages[8:]) == (Verdict.MISMATCH, {"missing": ["7"]}, {"missing": 1})
    assert report_of(lambda messages: messages[1:]) == (Verdict.MISMATCH, {"missing": ["0"]}, {"missing": 1})
    assert report_of(lambda messages: messages[:8] + messages[7:]) == (Verdict.MISMATCH, {}, {"doubled": 1})
    late = report_of(lambda messages: [*messages, messages[3]])
    assert late == (Verdict.MISMATCH, {"changed": ["3"]}, {"doubled": 1, "not the latest": 1})
    swapped = report_of(lambda messages: [*messages[:7], messages[8], messages[7], *messages[9:]])
    assert swapped == (Verdict.MISMATCH, {}, {"disordered": 1})


def test_messages_of_others_say_what_they_do_not_show(made: Made, tmp_path: Path) -> None:
    """Without our header, as Debezium's are: order is held against the block of the source, and numbers there are none."""
    road = made.road(messages={"decimals": "string"}, **KEPT)
    rows = publish(road)

    def bare(messages: list[Message]) -> list[Any]:
        return [Bare(one) for one in messages]

    report = audited_copy(made, road, tmp_path, bare, rows)
    assert (report.verdict, faults(report)) == (Verdict.MATCH, {})
    assert [note for note in report.notes if "no numbers" in note] and not [
        note for note in report.notes if "order was not checked" in note
    ]
    again = audited_copy(made, road, tmp_path, lambda messages: [*bare(messages), Bare(messages[3])], rows)
    assert (again.verdict, found(again), faults(again)) == (Verdict.MISMATCH, {"changed": ["3"]}, {"not the latest": 1})
    assert "0:28 is of an earlier change than 0:20" in again.reasons[0]


def test_a_key_in_two_partitions_is_a_fault_without_any_value_of_it(made: Made, tmp_path: Path) -> None:
    road = made.road(partitions=2, messages={"decimals": "string"}, **KEPT)
    rows = publish(road)

    def move(messages: list[Message]) -> list[Any]:
        return [*messages, Moved(messages[0])]

    report = audited_copy(made, road, tmp_path, move, rows)
    assert report.verdict is Verdict.MISMATCH and faults(report)["two partitions"] == 1
    assert "(last messages at 0:" in next(fault.sentence for fault in report.topics["target"].faults if fault.kind == "two partitions")


def test_what_retention_removed_proves_nothing_of_the_rows_that_are_missing(made: Made, tmp_path: Path) -> None:
    road = made.road(messages={"decimals": "string"}, **KEPT)
    rows = publish(road)
    topic = f"{road.prefix}.shop.orders"
    admin = AdminClient({"bootstrap.servers": road.server})
    for answer in admin.delete_records([TopicPartition(topic, 0, 3)]).values():
        answer.result(20)
    said = {"messages": {"decimals": "string"}, **DECLARED}
    report = audit_topic(made, topic, make_table(tmp_path, COLUMNS, *rows), said)
    assert (report.verdict, found(report), faults(report)) == (Verdict.UNKNOWN, {"missing": ["0", "1", "2"]}, {})
    assert "nothing is proved of them" in report.reasons[0] and "partition 0 begins at offset 3" in report.topics["target"].removed
    beside = make_table(tmp_path, COLUMNS, *rows, (999, "new", "1.00"))
    assert audit_topic(made, topic, beside, said).verdict is Verdict.UNKNOWN
    changed = make_table(tmp_path, COLUMNS, *[(number, "other" if number == 9 else item, price) for number, item, price in rows])
    report = audit_topic(made, topic, changed, said)
    assert report.verdict is Verdict.MISMATCH and report.differences
    assert (report.differences.missing, report.differences.changed, report.differences.extra) == (3, 1, 0)
    left = make_table(tmp_path, COLUMNS, *rows[3:])
    report = audit_topic(made, topic, left, said)
    assert report.verdict is Verdict.MATCH and any("were removed" in note for note in report.notes)


def test_a_compacted_topic_has_gaps_that_are_no_fault(made: Made, tmp_path: Path) -> None:
    road = made.road(messages={"decimals": "string"}, **KEPT)
    rows = publish(road)
    report = audited_copy(made, road, tmp_path, lambda messages: messages[:3] + messages[4:], rows, cleanup_policy="compact")
    assert (report.verdict, faults(report)) == (Verdict.MATCH, {}), report.reasons
    assert any("which compaction may have removed" in note for note in report.notes)
    report = audited_copy(made, road, tmp_path, lambda messages: messages[:8] + messages[7:], rows, cleanup_policy="compact")
    assert (report.verdict, faults(report)) == (Verdict.MISMATCH, {"doubled": 1})


def test_messages_that_cannot_be_read_refuse_the_audit_by_their_places(made: Made, tmp_path: Path) -> None:
    road = made.road(messages={"decimals": "string"}, **KEPT)
    rows = publish(road)
    report = audited_copy(made, road, tmp_path, lambda messages: [*messages[:2], (messages[2], b"{"), *messages[3:]], rows)
    assert (report.state, report.verdict, report.exit_code) == (State.FAILED, Verdict.UNKNOWN, 3)
    assert "1 message cannot be read, so its rows are not known (0:2: no JSON" in report.reasons[0]
    undeclared = audit_topic(made, f"{road.prefix}.shop.orders", make_table(tmp_path, COLUMNS, *rows))
    assert "it has no schema, and no columns were given" in undeclared.reasons[0]
    gone = audit_topic(made, f"{road.prefix}.nothing", make_table(tmp_path, COLUMNS, *rows), DECLARED)
    assert "is not on the broker kafka" in gone.reasons[0]
    other = {"key": ["item"], "columns": DECLARED["columns"]}
    report = audited_copy(made, road, tmp_path, lambda messages: messages[:20], rows, other)
    assert "its messages have the key (item), and rows are compared by (id)" in report.reasons[0]


def test_an_emptied_table_and_a_new_column_are_as_the_topic_says(made: Made, tmp_path: Path) -> None:
    road = made.road(partitions=2, **KEPT)
    wider = table(id="int", item="varchar(20) null", price="decimal(12,3) null", size="int null")
    road.stage_task(batch(announce(ORDERS, 10), insert(ORDERS, 10, *(order(number) for number in range(9)))))
    road.stage_task(batch(note("change", "orders", 20, {"ops": [{"op": "clear"}], "advances": True})))
    road.stage_task(batch(announce(ORDERS, 21), insert(ORDERS, 21, *(order(number, "ink") for number in range(3)))))
    changes = {"ops": [{"op": "add", "column": "size", "value": {"text": "7"}}], "advances": True}
    road.stage_task(batch(note("change", "orders", 30, changes)))
    road.stage_task(batch(announce(wider, 31), insert(wider, 31, ["3", "pan", "1.125", "4"])))
    for _ in range(3):
        road.publish()
    columns = "id INTEGER PRIMARY KEY, item VARCHAR, price DECIMAL(12, 3), size INTEGER"
    rows: list[tuple[Any, ...]] = [*((number, "ink", "1.50", 7) for number in range(3)), (3, "pan", "1.125", 4)]
    said = {"published_by": published_by(road)}
    report = audit_topic(made, f"{road.prefix}.shop.orders", make_table(tmp_path, columns, *rows), said)
    assert (report.verdict, found(report), faults(report)) == (Verdict.MISMATCH, {"changed": ["0", "1", "2"]}, {})
    assert any("3 rows came with messages that have no size, and NULL there" in one for one in report.notes)
    rows[:3] = [(*row[:3], None) for row in rows[:3]]
    assert audit_topic(made, f"{road.prefix}.shop.orders", make_table(tmp_path, columns, *rows), said).verdict is Verdict.MATCH


def test_a_topic_whose_key_was_changed_holds_no_rows(made: Made, tmp_path: Path) -> None:
    road = made.road(**KEPT)
    both = table("orders", ["id", "item"], id="int", item="varchar(20)", price="decimal(10,2) null")
    road.stage(batch(announce(ORDERS, 10), insert(ORDERS, 10, order(1))))
    road.publish()
    road.stage(batch(announce(both, 11), insert(both, 11, order(1))))
    for _ in range(2):
        road.publish()
    said = {"published_by": published_by(road)}
    report = audit_topic(made, f"{road.prefix}.shop.orders", make_table(tmp_path, COLUMNS, (1, "pen", "1.50")), said)
    assert "its messages have several keys, (id) and (id, item), so that later ones replace no earlier ones" in report.reasons[0]


def test_two_topics_are_compared(made: Made, tmp_path: Path) -> None:
    road = made.road(partitions=2, messages={"decimals": "string"}, **KEPT)
    publish(road)
    said = {"messages": {"decimals": "string"}, **DECLARED}
    copy = copy_topic(road, lambda messages: messages, cleanup_policy="delete")
    topics = {"source": f"{road.prefix}.shop.orders", "target": copy}
    sides = {side: {"broker": "kafka", "topic": topic, **said} for side, topic in topics.items()}
    values = {"connections": {}, "brokers": {"kafka": {"servers": road.server}}, "audits": {"orders": sides}}
    report = run_audit(validate_settings(values), "orders")
    assert report.verdict is Verdict.MATCH, report.reasons
    assert [topic.rows for topic in report.topics.values()] == [20, 20]


def test_rows_that_were_written_while_the_topic_was_read_are_left_out(made: Made, tmp_path: Path) -> None:
    timed = table(id="int", item="varchar(20) null", changed="datetime(3)")
    road, old = made.road(**KEPT), "2020-01-01 00:00:00.000"
    road.stage(batch(announce(timed, 10), insert(timed, 10, *([str(number), "pen", old] for number in range(9)))))
    road.publish()
    now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    rows = [*((number, "pen", old) for number in range(7)), (7, "changed", now), (8, "pen", old), (9, "new", now)]
    other = make_table(tmp_path, "id INTEGER PRIMARY KEY, item VARCHAR, changed TIMESTAMP", *rows)
    topic, said = f"{road.prefix}.shop.orders", {"published_by": published_by(road)}
    report = audit_topic(made, topic, other, said, settle={"column": "changed", "lag": "5m"})
    assert (report.verdict, report.left_out) == (Verdict.MATCH, 2), report.reasons
    assert audit_topic(made, topic, other, said).verdict is Verdict.MISMATCH


def test_commands_check_run_and_show_a_topic_and_refuse_what_needs_a_table(made: Made, tmp_path: Path) -> None:
    road = made.road(partitions=2, **KEPT)
    rows = publish(road)
    topic = f"{road.prefix}.shop.orders"
    settings = settings_of(made, topic, make_table(tmp_path, COLUMNS, *rows), {"published_by": published_by(road)})
    [checked] = planning.check(settings)
    assert checked.error is None and checked.plan and checked.plan.sides["target"].label == f"kafka: {topic}"
    with pytest.raises(ConfigError, match="SQL for consoles needs two tables, and this audit's target is the topic kafka: "):
        planning.sql(settings, "orders")
    report = run_audit(settings, "orders", store=road.store)
    assert report.verdict is Verdict.MATCH and not report.resumable
    stored = records.load_report(road.store, report.run)
    assert stored and stored.topics == report.topics
    with pytest.raises(ConfigError, match="a patch needs two tables"):
        patches.find_run(settings, road.store, report.run)
    shown = " ".join(render.run(report, None, "text").split())
    assert f"target topic kafka: {topic} (" in shown and "offsets by partition: 0 from 0 to " in shown
    body = json.loads(render.run(report, None, "json"))["topics"]
    assert [(one["side"], one["rows"], one["faults"], len(one["partitions"])) for one in body] == [("target", 20, [], 2)]


def test_a_run_that_is_stopped_while_it_reads_leaves_no_file(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    road = made.road(**KEPT)
    publish(road)
    settings = settings_of(made, f"{road.prefix}.shop.orders", make_table(tmp_path, COLUMNS), {"published_by": published_by(road)})
    stopped = threading.Event()
    stopped.set()
    with open_topics(settings, settings.audits["orders"]) as topics, pytest.raises(StatementCancelled):
        assert topics and [*(tmp_path / "temporary").iterdir()]
        topics.read(lambda *_: None, stopped)
    assert not [*(tmp_path / "temporary").iterdir()]


def test_a_topic_is_read_as_of_a_position_of_its_publishers_stream(made: Made, tmp_path: Path) -> None:
    road = made.road(partitions=2, **KEPT)
    publish(road)
    topic = f"{road.prefix}.shop.orders"
    settings = settings_of(made, topic, make_table(tmp_path, COLUMNS), {"published_by": published_by(road)})
    with open_topics(settings, settings.audits["orders"]) as topics:
        assert topics
        found_before = topics.read(lambda *_: None, threading.Event())
        assert found_before["target"].rows == 20
        topics.read_through(12, PIPELINE, "shop.orders", threading.Event())
        assert found_before["target"].rows == 19, "what was read first tells of this reading"
        with duckdb.connect(topics.connections["kafka"].url.removeprefix("duckdb:///"), read_only=True) as connection:
            rows = connection.execute(f'SELECT id, item FROM "{topic}" ORDER BY id').fetchall()
            [(table_name, position, _)] = connection.execute(Positions(dialects.get("duckdb"), "main", PIPELINE).list()).fetchall()
    changed = {3: "ink", 4: None}
    assert rows == [(number, changed.get(number, "pen")) for number in range(20) if number != 5]
    assert (table_name, int(position)) == ("shop.orders", 12)


def test_messages_that_its_publisher_wrote_behind_the_last_one_are_missing(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    road = made.road(partitions=2, **KEPT)
    rows = publish(road)
    read_publisher = fixed_topic._read_publisher

    def says_more(*given: Any) -> Any:
        published, schemas = read_publisher(*given)
        return replace(published, counts=(published.counts[0], published.counts[1] + 2)), schemas

    monkeypatch.setattr(fixed_topic, "_read_publisher", says_more)
    said = {"published_by": published_by(road)}
    report = audit_topic(made, f"{road.prefix}.shop.orders", make_table(tmp_path, COLUMNS, *rows), said)
    assert (report.verdict, faults(report)) == (Verdict.MISMATCH, {"missing": 2})
    assert re.search(r"2 messages are missing \(partition 1: number \d+ to \d+\)", report.reasons[0])

    def says_longer(*given: Any) -> Any:
        published, schemas = read_publisher(*given)
        return replace(published, ends=(published.ends[0], published.ends[1] + 7)), schemas

    monkeypatch.setattr(fixed_topic, "_read_publisher", says_longer)
    report = audit_topic(made, f"{road.prefix}.shop.orders", make_table(tmp_path, COLUMNS, *rows), said)
    [note] = [one for one in report.topics["target"].notes if "before what their publisher says" in one]
    assert re.search(r"\(1 at \d+ of \d+\), so that messages behind were not looked for", note)


def test_one_line_compares_a_topic(made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    road = made.road(messages={"schemas": True, "source_types": True}, **KEPT)
    table_behind, topic = make_table(tmp_path, COLUMNS, *publish(road)), f"{road.prefix}.shop.orders"
    given = ["diff", table_behind["url"], "orders", f"kafka://{road.server}", topic, "-q"]
    assert main(given) == 0
    assert capsys.readouterr().out.startswith("MATCH  orders")
    report = audit_tables((f"kafka://{road.server}", topic), (table_behind["url"], "orders"))
    assert (report.verdict, report.topics["source"].rows) == (Verdict.MATCH, 20)
    for option, sentence in {"?colour=red": "has no option 'colour'", "/topics": "write kafka://HOST:PORT and the name of a topic"}.items():
        with pytest.raises(ConfigError, match=sentence):
            audit_tables((f"kafka://{road.server}{option}", topic), (table_behind["url"], "orders"))
