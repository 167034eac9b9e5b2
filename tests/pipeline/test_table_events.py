"""The events of a table as lines, from staged parts, behind any place; events are made by hand."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from auditor import config
from auditor.cli import main
from auditor.errors import ConfigError, IncarnationsDiffer, PartDamaged, PartsGone, TableStopped
from auditor.service.event_lines import EventLines, open_lines
from auditor.store import parts, pipelines, table_notes
from tests.durations import SetDurations
from tests.live import engine_params
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline.test_rebuild import FILE, change, read_through
from tests.pipeline_events import absent, announce, batch, delete, insert, note, refresh, table, update

pytestmark = pytest.mark.parametrize("engine", engine_params("duckdb"), indirect=True)

ORDERS = table(id="bigint", item="varchar(40) null")
NOTHING = [None, None]


def lines(road: Road, start: str = "earliest", name: str = "orders") -> list[dict[str, Any]]:
    return parsed(open_lines(road.settings, road.store, PIPELINE, name, start))


def parsed(opened: EventLines) -> list[dict[str, Any]]:
    return [json.loads(line) for piece in opened.read() for line in piece]


def short(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Position, operation, and the row after or before each line."""
    return [
        (
            one["position"],
            one["value"]["op"],
            (one["value"]["after"] or one["value"]["before"]) and {**(one["value"]["after"] or one["value"]["before"])},
        )
        for one in found
    ]


@pytest.fixture
def staged(road: Road) -> Road:
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"], ["2", "b"])))
    road.stage(batch(update(ORDERS, 20, (["1", "a"], ["1", "A"]), (["2", "b"], ["3", "b"])), delete(ORDERS, 30, ["1", "A"])))
    read_through(road, 40)
    return road


ALL = [
    (f"{FILE}:10:0", "c", {"id": 1, "item": "a"}),
    (f"{FILE}:10:1", "c", {"id": 2, "item": "b"}),
    (f"{FILE}:20:0", "u", {"id": 1, "item": "A"}),
    (None, "d", {"id": 2, "item": "b"}),
    (f"{FILE}:20:1", "c", {"id": 3, "item": "b"}),
    (f"{FILE}:30:0", "d", {"id": 1, "item": "A"}),
]


def test_lines_are_debeziums_envelopes_with_their_places(staged: Road) -> None:
    found = lines(staged)
    assert short(found) == ALL
    assert [one["key"] for one in found] == [{"id": 1}, {"id": 2}, {"id": 1}, {"id": 2}, {"id": 3}, {"id": 1}]
    first = found[0]["value"]
    assert first["before"] is None and first["transaction"] is None and isinstance(first["ts_ms"], int)
    source = first["source"]
    assert (source["connector"], source["name"], source["db"], source["table"]) == ("mysql", PIPELINE, "shop", "orders")
    assert (source["file"], source["pos"], source["row"], source["gtid"], source["snapshot"]) == (FILE, 10, 0, "0-1-10", "false")


@pytest.mark.parametrize("read", range(len(ALL) + 1))
def test_reading_goes_on_behind_each_line(staged: Road, read: int) -> None:
    start = next((str(position) for position, *_ in reversed(ALL[:read]) if position), "earliest")
    begins = max((number + 1 for number, (position, *_) in enumerate(ALL[:read]) if position), default=0)
    assert short(lines(staged, start)) == ALL[begins:], "the first line of an event that has two comes again with it"


@pytest.mark.parametrize(
    ("start", "begins"), [(f"{FILE}:9", 0), (f"{FILE}:10", 2), ("0:15", 2), (f"{FILE}:20", 5), ("latest", 6), ("0:99", 6)]
)
def test_reading_begins_behind_a_place_of_the_log(staged: Road, start: str, begins: int) -> None:
    assert short(lines(staged, start)) == ALL[begins:]


def test_refreshes_are_reads(road: Road) -> None:
    road.stage(batch(announce(ORDERS, 1), refresh(ORDERS, 10, ["1", "a"], bounds=(NOTHING, ["1", None])), absent(ORDERS, 20, ["7", None])))
    read_through(road, 30)
    assert [(position, op) for position, op, _ in short(lines(road))] == [(f"{FILE}:10:1", "r"), (f"{FILE}:20:0", "d")]


def test_what_is_staged_later_follows_in_its_place(staged: Road) -> None:
    opened = open_lines(staged.settings, staged.store, PIPELINE, "shop.orders", "earliest")
    assert short(parsed(opened)) == ALL and parsed(opened) == []
    assert opened.place == f"{FILE}:30"
    wide = table(id="bigint", item="varchar(40) null", more="int null")
    change(staged, 50, {"op": "add", "column": "more", "value": {"text": None}})
    staged.stage(batch(announce(wide, 55), insert(wide, 60, ["4", "d", "7"])))
    change(staged, 70, {"op": "clear"})
    staged.stage(batch(insert(wide, 80, ["5", "e", None])))
    found = parsed(opened)
    assert short(found) == [
        (f"{FILE}:60:0", "c", {"id": 4, "item": "d", "more": 7}),
        (f"{FILE}:70", "t", None),
        (f"{FILE}:80:0", "c", {"id": 5, "item": "e", "more": None}),
    ]
    assert found[1]["key"] is None
    assert short(lines(staged, f"{FILE}:70")) == short(found[2:]) and short(lines(staged, f"{FILE}:60:0")) == short(found[1:])
    change(staged, 90, {"op": "clear"})
    read_through(staged, 95)
    assert short(parsed(opened)) == [(f"{FILE}:90", "t", None)] and parsed(opened) == []


def test_notes_that_are_listed_with_later_parts_are_not_passed_by(staged: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that is staged between two queries of the store is read as a whole, or not at all."""
    opened = open_lines(staged.settings, staged.store, PIPELINE, "orders", f"{FILE}:30")
    listed = table_notes.list_notes

    def list_then_stage(*given: Any, **more: Any) -> Any:
        found = listed(*given, **more)
        monkeypatch.setattr(table_notes, "list_notes", listed)
        change(staged, 50, {"op": "clear"})
        staged.stage(batch(insert(ORDERS, 60, ["4", "d"])))
        return found

    monkeypatch.setattr(table_notes, "list_notes", list_then_stage)
    assert parsed(opened) == []
    assert [op for _, op, _ in short(parsed(opened))] == ["t", "c"]


def test_many_events_come_in_pieces(road: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("auditor.pipeline.staged_parts.ROWS_AT_ONCE", 7)
    for number in range(5):
        road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10 + number, *([str(100 * number + row), "x"] for row in range(20)))))
    opened = open_lines(road.settings, road.store, PIPELINE, "orders", f"{FILE}:11:4")
    pieces = list(opened.read())
    assert max(map(len, pieces)) <= 7
    assert [json.loads(line)["key"]["id"] for piece in pieces for line in piece] == [
        100 * number + row for number in range(1, 5) for row in range(20) if (number, row) > (1, 4)
    ]


def test_deleted_events_are_refused_with_the_earliest_place(staged: Road) -> None:
    opened = open_lines(staged.settings, staged.store, PIPELINE, "orders", "earliest")
    news = {"shop.orders": pipelines.MergeNews(10, "merged")}
    pipelines.report_merges(staged.store, PIPELINE, "wh", news)
    assert len(parts.delete_passed(staged.store, PIPELINE, -1, targets=["wh"])) == 1
    with pytest.raises(PartsGone, match=rf"events up to {FILE}:10 were deleted"):
        lines(staged, f"{FILE}:9")
    with pytest.raises(PartsGone):
        parsed(opened)
    assert short(lines(staged)) == short(lines(staged, f"{FILE}:10")) == ALL[2:]


def test_parts_that_are_listed_no_more_are_missed(staged: Road) -> None:
    staged.store.write(lambda connection: connection.execute(parts.parts.delete().where(parts.parts.c.first_position == 10)))
    with pytest.raises(PartsGone, match="no part of them is listed any more"):
        lines(staged)


def test_a_reset_is_noticed(staged: Road) -> None:
    pipelines.begin(staged.store, PIPELINE)
    opened = open_lines(staged.settings, staged.store, PIPELINE, "orders", "earliest")
    assert short(parsed(opened)) == ALL
    parts.forget(staged.store, PIPELINE)
    pipelines.forget(staged.store, PIPELINE)
    pipelines.begin(staged.store, PIPELINE)
    with pytest.raises(IncarnationsDiffer, match="was reset while events were read"):
        parsed(opened)


def test_a_damaged_part_ends_behind_what_is_before_it(staged: Road) -> None:
    [_, part] = parts.list_parts(staged.store, PIPELINE, "shop.orders", 0)
    path = staged.root / part.path
    path.write_bytes(b"\0" * len(path.read_bytes()))
    opened, found = open_lines(staged.settings, staged.store, PIPELINE, "orders", "earliest"), list[bytes]()
    with pytest.raises(PartDamaged):
        for piece in opened.read():
            found += piece
    assert short([json.loads(line) for line in found]) == ALL[:2]


def test_events_that_cannot_be_had_stop_the_lines_in_their_place(staged: Road) -> None:
    staged.stage_task(batch(note("poison", "orders", 50, {"stage": "decoding", "reason": "no utf8mb4"}, events=2)))
    staged.stage(batch(insert(ORDERS, 60, ["4", "d"])))
    opened, found = open_lines(staged.settings, staged.store, PIPELINE, "orders", f"{FILE}:20"), list[bytes]()
    with pytest.raises(TableStopped, match=rf"the events at {FILE}:50 cannot be had: no utf8mb4"):
        for piece in opened.read():
            found += piece
    assert short([json.loads(line) for line in found]) == ALL[5:]
    [stop] = [one for one in table_notes.list_notes(staged.store, PIPELINE) if one.stops]
    table_notes.skip(staged.store, PIPELINE, [stop], by="ada", reason="a test row")
    first, second = parsed(opened)
    assert first == {"position": f"{FILE}:50:0", "note": f"2 events were skipped at {FILE}:50:0 by ada: a test row"}
    assert second["value"]["op"] == "c" and parsed(opened) == []


def test_masked_columns_are_not_shown_nor_what_is_computed_of_them(road: Road) -> None:
    text = road.config_file.read_text().replace(
        'source: {url: "mysql://nobody@localhost/shop"}', 'source: {url: "mysql://nobody@localhost/shop", mask: ["orders.it*", "lines.id"]}'
    )
    computed = '{twice: {expr: "item || item", kind: text}, ten: {expr: id * 10, kind: integer}}'
    columns = f"columns: {{orders: {{rename: {{item: thing}}, compute: {computed}}}, "
    road.config_file.write_text(text.replace("columns: {", columns))
    road.settings = config.load(road.config_file)
    road.stage_task(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "secret"]), update(ORDERS, 11, (["1", "secret"], ["1", "hidden"]))))
    found = lines(road)
    assert [one["value"]["after"] for one in found] == [{"id": 1, "ten": 10}] * 2 and found[1]["value"]["before"] == {"id": 1, "ten": 10}
    assert "secret" not in json.dumps(found) and "hidden" not in json.dumps(found)
    keyed = table("lines", id="bigint", item="varchar(40) null")
    road.stage(batch(announce(keyed, 20), insert(keyed, 21, ["4711", "a"])))
    [line] = lines(road, name="lines")
    assert (line["key"], line["value"]["after"]) == (None, {"item": "a"})


@pytest.mark.parametrize("start", ["", "yesterday", f"{FILE}:x", f"{FILE}:1:x", "1:2:3:4", f"{FILE}:99999999999", f"300/{FILE}:1"])
def test_what_is_no_place_is_refused(staged: Road, start: str) -> None:
    with pytest.raises(ConfigError, match=r"no (position|event) of a stream"):
        lines(staged, start)


def test_tables_that_are_not_there_are_refused(staged: Road) -> None:
    with pytest.raises(ConfigError, match=r"it has of shop\.orders"):
        lines(staged, name="nothing")


def test_the_command_prints_lines_and_where_to_go_on(staged: Road, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["pipeline", "events", PIPELINE, "--table", "orders", "--config", str(staged.config_file)]
    assert main([*given, "--from", "earliest", "--limit", "2"]) == 0
    out, error = capsys.readouterr()
    assert short([json.loads(line) for line in out.splitlines()]) == ALL[:2]
    assert error == f"to continue after the last line: --from {FILE}:10:1\n"
    assert main([*given, "--from", f"{FILE}:10:1", "--quiet"]) == 0
    out, error = capsys.readouterr()
    assert short([json.loads(line) for line in out.splitlines()]) == ALL[2:] and error == ""
    assert main([*given, "--from", "earliest", "--limit", "4", "--quiet"]) == 0
    assert main([*given, "--from", "latest"]) == 0
    assert capsys.readouterr().err == f"to continue after the last line: --from {FILE}:40\n"
    assert main([*given, "--from", "tomorrow"]) == 2


def test_the_command_follows_until_a_signal(staged: Road) -> None:
    given = ["pipeline", "events", PIPELINE, "--table", "orders", "--config", str(staged.config_file), "--from", "earliest", "--follow"]
    process = subprocess.Popen([sys.executable, "-m", "auditor", *given], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout and process.stderr
    try:
        found = [json.loads(process.stdout.readline()) for _ in ALL]
        staged.stage(batch(insert(ORDERS, 60, ["4", "d"])))
        found.append(json.loads(process.stdout.readline()))
        process.terminate()
        assert process.wait(20) == 0
        assert short(found) == [*ALL, (f"{FILE}:60:0", "c", {"id": 4, "item": "d"})]
        assert f"--from {FILE}:60:0" in process.stderr.read()
    finally:
        process.kill()
        process.communicate()


def test_a_follower_ends_when_it_is_stopped(staged: Road, set_durations: SetDurations) -> None:
    set_durations(staged_poll=600)
    opened, stopped = open_lines(staged.settings, staged.store, PIPELINE, "orders", "earliest"), threading.Event()
    pieces = opened.follow(stopped)
    assert len([line for piece in iter(lambda: next(pieces), []) for line in piece]) == len(ALL)
    stopped.set()
    assert list(pieces) == []


def test_lines_of_a_file_are_what_was_staged(staged: Road, tmp_path: Path) -> None:
    """The files of the staging are only read."""
    before = {path: path.read_bytes() for path in staged.root.rglob("*") if path.is_file()}
    lines(staged)
    assert before == {path: path.read_bytes() for path in staged.root.rglob("*") if path.is_file()} and before
