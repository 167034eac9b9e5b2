"""Transactions of the binary log: where they end, what is in them, and that cuts change nothing."""

from __future__ import annotations

import json
from contextlib import closing
from itertools import pairwise

import pytest

from auditor.errors import EventsMissed, LogRefused
from auditor.pipeline.binlog.log_connection import Request
from auditor.pipeline.binlog.ranges import LogScan, Mark, as_offset, from_offset
from auditor.pipeline.binlog.row_events import RowEvents
from auditor.pipeline.events import Place, Position, TableSchema
from tests.binlog import LiveLog, in_short
from tests.live import LiveEngine, engine_params

pytestmark = pytest.mark.alone  # the log that they read is the whole server's

on_both = pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", "mariadb_new"), indirect=True)
on_mysql = pytest.mark.parametrize("engine", engine_params("mysql"), indirect=True)
on_mariadb = pytest.mark.parametrize("engine", engine_params("mariadb", "mariadb_new"), indirect=True)

MIXED = [
    "INSERT INTO entry VALUES (1, 'one'), (2, NULL)",
    "START TRANSACTION", "UPDATE entry SET t = 'zwei' WHERE id = 2", "UPDATE entry SET id = 20 WHERE id = 2", 
    "DELETE FROM entry WHERE id = 1", "COMMIT",
    "REPLACE INTO entry VALUES (20, 'again')",
    "INSERT INTO entry VALUES (20, 'x') ON DUPLICATE KEY UPDATE t = 'upserted'",
    *(f"INSERT INTO entry VALUES ({number}, REPEAT('x', 200))" for number in range(100, 130)),
    "DELETE FROM entry WHERE id >= 100",
]  # fmt: skip


@on_both
def test_rows_come_in_order_with_both_images(log: LiveLog) -> None:
    start = log.end()
    log.run(*MIXED)
    events = log.events(start, ["entry"])
    assert in_short(events)[:8] == [
        ("insert", None, ["1", "one"]),
        ("insert", None, ["2", None]),
        ("update", ["2", None], ["2", "zwei"]),
        ("update", ["2", "zwei"], ["20", "zwei"]),
        ("delete", ["1", "one"], None),
        ("update", ["20", "zwei"], ["20", "again"]),
        ("update", ["20", "again"], ["20", "upserted"]),
        ("insert", None, ["100", "x" * 200]),
    ]
    places = [(event["position"], event["row"]) for event in events]
    assert sorted(set(places)) == places, "positions are unique and sort as the log does"
    assert [event["row"] for event in events[:6]] == [0, 1, 0, 1, 2, 0], "rows count within their transaction"
    assert Position.unpack(events[0]["position"]).file == start.file_number
    times = [event["time"] for event in events]
    assert times == sorted(times)
    now = log.run("SELECT UTC_TIMESTAMP(6)")[0][0]
    assert abs((times[-1].replace(tzinfo=None) - now).total_seconds()) < 60


@on_both
def test_each_transaction_has_its_global_id(log: LiveLog, engine: LiveEngine) -> None:
    if engine.name == "mysql":
        log.run("SET GLOBAL gtid_mode = ON") if log.run("SELECT @@GLOBAL.gtid_mode")[0][0] != "ON" else None
    start = log.end()
    log.run("INSERT INTO entry VALUES (1, 'a')", "INSERT INTO entry VALUES (2, 'b')")
    found = [event["gtid"] for event in log.events(start, ["entry"])]
    if engine.name != "mysql":
        last = log.run("INSERT INTO entry VALUES (3, 'c')", "SELECT @@last_gtid")[0][0]
        assert [event["gtid"] for event in log.events(start, ["entry"])] == [*found, last]
    else:
        server = log.run("SELECT @@server_uuid")[0][0]
        assert all(gtid.startswith(f"{server}:") for gtid in found)
        assert log.run(f"SELECT GTID_SUBSET('{','.join(found)}', @@GLOBAL.gtid_executed)")[0][0] == 1
    first, second = (int(gtid.replace(":", "-").rpartition("-")[2]) for gtid in found)
    assert first < second


@on_mysql
def test_tagged_global_ids(log: LiveLog) -> None:
    start, server = log.end(), log.run("SELECT @@server_uuid")[0][0]
    before = log.run("SELECT UTC_TIMESTAMP(6)")[0][0]
    for number, tag in enumerate(["t", "t" * 32]):
        log.run(f"SET gtid_next = 'AUTOMATIC:{tag}'", f"INSERT INTO entry VALUES ({number}, 'tagged')")
    events = log.events(start, ["entry"])
    assert [event["gtid"].rpartition(":")[0] for event in events] == [f"{server}:t", f"{server}:{'t' * 32}"]
    executed = log.run("SELECT @@GLOBAL.gtid_executed")[0][0]
    assert all(log.run(f"SELECT GTID_SUBSET('{event['gtid']}', '{executed}')")[0][0] for event in events)
    assert all(event["time"].replace(tzinfo=None) >= before for event in events)


@on_both
def test_what_was_undone_is_not_there(log: LiveLog) -> None:
    start = log.end()
    log.run(
        "DROP TABLE IF EXISTS plain", "CREATE TABLE plain (id int) ENGINE = MyISAM",
        "START TRANSACTION", "INSERT INTO entry VALUES (1, 'kept')", "SAVEPOINT s", "INSERT INTO entry VALUES (2, 'undone')",
        "ROLLBACK TO s", "INSERT INTO entry VALUES (3, 'kept')", "COMMIT",
        "START TRANSACTION", "INSERT INTO entry VALUES (4, 'undone')", "ROLLBACK",
        "START TRANSACTION", "INSERT INTO plain VALUES (5)", "ROLLBACK",
    )  # fmt: skip
    assert [event["after"] for event in log.events(start)] == [["1", "kept"], ["3", "kept"], ["5"]]


@on_both
def test_rows_of_create_table_as_select(log: LiveLog) -> None:
    log.run("INSERT INTO entry VALUES (1, 'a'), (2, 'b')", "DROP TABLE IF EXISTS copied")
    start = log.end()
    log.run("CREATE TABLE copied AS SELECT * FROM entry", "INSERT INTO copied VALUES (3, 'c')")
    assert [event["after"] for event in log.events(start, ["copied"])] == [["1", "a"], ["2", "b"], ["3", "c"]]


XA = ["XA START 'one','b',7", "INSERT INTO entry VALUES (1, 'xa'), (2, 'xa')", "XA END 'one','b',7", "XA PREPARE 'one','b',7"]


@on_both
def test_xa_rows_wait_for_their_commit(log: LiveLog) -> None:
    start = log.end()
    log.run(*XA)
    log.run("INSERT INTO entry VALUES (3, 'between')")
    prepared = log.end()
    assert [event["after"][0] for event in log.events(start, ["entry"])] == ["3"]
    log.run("XA COMMIT 'one','b',7")
    events = log.events(start, ["entry"])
    assert [event["after"][0] for event in events] == ["3", "1", "2"], "in the order of their commits"
    commit = log.end().position(0).pack()
    assert [(event["position"], event["row"]) for event in events[1:]] == [(commit, 0), (commit, 1)]
    assert {event["gtid"] for event in events[1:]} != {events[0]["gtid"]}
    # A stream that is stopped between the two remembers where the rows stand, even when its ranges are small.
    small = log.cut_to(1)
    _, mark = small.marked(Mark(start), prepared)
    mark = from_offset(json.loads(json.dumps(as_offset(mark, 0))))
    assert list(mark.prepared) == ["6f6e65.62.7"]
    ranges, after = small.marked(mark)
    assert [event["after"][0] for event in small.decode(ranges, ["entry"]) if event["kind"] == "insert"] == ["1", "2"]
    assert not after.prepared
    with pytest.raises(LogRefused, match="an XA transaction is committed that was prepared before the stream began; refresh"):
        log.decode(log.scan(prepared), ["entry"])


@on_both
def test_xa_transactions_that_end_otherwise(log: LiveLog) -> None:
    start = log.end()
    for _ in range(15):  # a checksum behind the statement may begin with a digit
        log.run("XA START 'a'", "INSERT INTO entry VALUES (1, 'rolled back')", "XA END 'a'", "XA PREPARE 'a'", "XA ROLLBACK 'a'")
    log.run("XA START 'b'", "INSERT INTO entry VALUES (2, 'one phase')", "XA END 'b'", "XA COMMIT 'b' ONE PHASE")
    assert [event["after"] for event in log.events(start, ["entry"])] == [["2", "one phase"]]
    assert not log.marked(Mark(start))[1].prepared


@on_mysql
def test_compressed_transactions_of_mysql(log: LiveLog) -> None:
    start = log.end()
    log.run("SET SESSION binlog_transaction_compression = ON", *MIXED)
    compressed = log.events(start, ["entry"])
    log.run("DELETE FROM entry")
    start = log.end()
    log.run(*MIXED)
    assert in_short(compressed) == in_short(log.events(start, ["entry"]))
    places = [(event["position"], event["row"]) for event in compressed]
    assert sorted(set(places)) == places
    assert [event["row"] for event in compressed[:6]] == [0, 1, 0, 1, 2, 0]


@on_mariadb
def test_compressed_events_of_mariadb(log: LiveLog) -> None:
    with log.globally(log_bin_compress="ON", log_bin_compress_min_len="10"):
        start = log.end()
        log.run(*MIXED)
        compressed = log.events(start, ["entry"])
    log.run("DELETE FROM entry")
    start = log.end()
    log.run(*MIXED)
    assert in_short(compressed) == in_short(log.events(start, ["entry"]))


@on_mysql
@pytest.mark.parametrize("repeats", [1, 30_000])
def test_compressed_xa_transactions_wait_for_their_commit(log: LiveLog, repeats: int) -> None:
    log.run("DROP TABLE IF EXISTS bulky", "CREATE TABLE bulky (id int, t longtext)")
    start = log.end()
    # Digests can be compressed to half their size only, so that the event is larger than what a scan keeps of it.
    bulk = "(SELECT GROUP_CONCAT(SHA2(n, 256) SEPARATOR '') FROM (WITH RECURSIVE s AS (SELECT 1 n UNION ALL SELECT n + 1 FROM s"
    bulk += f" WHERE n < {repeats}) SELECT n FROM s) s)"
    settings = ["SET SESSION binlog_transaction_compression = ON, group_concat_max_len = 4000000, cte_max_recursion_depth = 100000"]
    log.run(*settings, "XA START 'c'", f"INSERT INTO bulky VALUES (1, {bulk})", "XA END 'c'", "XA PREPARE 'c'")
    log.run(*settings, "XA START 'd'", f"INSERT INTO bulky VALUES (2, {bulk})", "XA END 'd'", "XA COMMIT 'd' ONE PHASE")
    log.run(*settings, f"INSERT INTO bulky VALUES (3, {bulk})")
    prepared = log.end()
    assert [event["after"][0] for event in log.events(start, ["bulky"])] == ["2", "3"]
    assert list(log.marked(Mark(start))[1].prepared) == ["63..1"]
    log.run("XA COMMIT 'c'")
    events = log.events(start, ["bulky"])
    assert [event["after"][0] for event in events] == ["2", "3", "1"]
    assert {len(event["after"][1]) for event in events} == {64 * repeats}
    assert events[-1]["position"] == log.end().position(0).pack() > prepared.position(0).pack()
    assert not log.marked(Mark(start))[1].prepared


@on_both
def test_files_with_and_without_checksums(log: LiveLog) -> None:
    start = log.end()
    checksum = log.run("SELECT @@GLOBAL.binlog_checksum")[0][0]
    other = "NONE" if checksum == "CRC32" else "CRC32"
    log.run("INSERT INTO entry VALUES (1, 'a')")
    with log.globally(binlog_checksum=other):
        log.run("INSERT INTO entry VALUES (2, 'b')")
        assert [event["after"][0] for event in log.events(start, ["entry"])] == ["1", "2"]
    log.run("INSERT INTO entry VALUES (3, 'c')")
    ranges = log.scan(start)
    assert [event["after"][0] for event in log.events(start, ["entry"])] == ["1", "2", "3"]
    assert len({log_range.start.file for log_range in ranges}) == 3, "a range lies in one file"


@on_both
def test_any_cut_leaves_the_same_events(log: LiveLog) -> None:
    start = log.end()
    log.run(*MIXED)
    end = log.end()
    whole = log.events(start, ["entry"])
    ranges = log.cut_to(1).scan(start, end)
    assert len(ranges) == 35, "each transaction by itself"
    assert all(one.end == other.start.offset for one, other in pairwise(ranges))
    cut = [event for event in log.decode(ranges, ["entry"]) if event["kind"] != "schema"]
    assert cut == whole
    assert log.cut_to(700).scan(start, end) == log.cut_to(700).scan(start, end)
    for log_range in ranges[::7]:  # from the end of any transaction on, the rest is the same
        later = log.scan(log_range.start, end)
        expected = [event for event in whole if event["position"] > log_range.start.position(0).pack()]
        assert [event for event in log.decode(later, ["entry"]) if event["kind"] != "schema"] == expected


@on_both
def test_a_scan_stops_after_so_many_bytes_and_goes_on(log: LiveLog) -> None:
    start = log.end()
    log.run(*MIXED[:-1])
    end, mark, stops = log.end(), Mark(start), []
    scan = LogScan(Request(log.source, start, 77_778), mark, 1 << 20, log.patience)
    with closing(scan):
        while scan.mark.place != end:
            begin = scan.mark.place
            scan.advance(end, max_bytes=1500)
            stops.append(scan.mark.place)
            assert scan.mark.place.offset - begin.offset >= 1500 or scan.mark.place == end
            assert scan.mark.place.offset - begin.offset < 4000, "no more than the transaction in which the limit lies"
    assert len(stops) > 3
    assert [place for place in stops if place not in {Place(r.start.file, r.end) for r in log.cut_to(1).scan(start, end)} | {end}] == []


@on_both
def test_each_range_announces_the_schemas_of_its_events(log: LiveLog) -> None:
    start = log.end()
    log.run(
        "INSERT INTO entry VALUES (1, 'a')",
        "ALTER TABLE entry ADD COLUMN more int unsigned",
        "INSERT INTO entry VALUES (2, 'b', 3)",
        "INSERT INTO entry VALUES (4, 'd', 5)",
    )
    for size in (1, 1 << 20):
        for log_range in log.cut_to(size).scan(start):
            known = set()
            for event in log.decode([log_range], ["entry"]):
                if event["kind"] == "schema":
                    schema = TableSchema.from_json(event["after"][0])
                    assert schema.id == event["schema_id"]
                    known.add(schema.id)
                    assert event["row"] < 0, "before the rows of its position"
                assert event["schema_id"] in known
    events = log.events(start, ["entry"])
    assert [event["after"] for event in events] == [["1", "a"], ["2", "b", "3"], ["4", "d", "5"]]
    assert len({event["schema_id"] for event in events}) == 2


@on_both
def test_batches_of_a_table_come_in_the_order_of_its_events(log: LiveLog) -> None:
    log.run("CREATE TABLE turned (a INT PRIMARY KEY)", "CREATE TABLE steady (a INT PRIMARY KEY)")
    start = log.end()
    for number in range(0, 8, 2):  # the same two schemas in turns
        log.run(f"INSERT INTO turned (a) VALUES ({number})", "ALTER TABLE turned ADD b INT")
        log.run(f"INSERT INTO turned VALUES ({number + 1}, 7)", "ALTER TABLE turned DROP b", f"INSERT INTO steady VALUES ({number})")
    read = [one for log_range in log.scan(start) for one in log.reading(["turned", "steady"]).batches(log_range)]
    rows = [row for one in read for row in one.to_pylist() if row["kind"] != "schema" and row["table"] == "turned"]
    assert [row["after"] for row in rows] == [[str(number), *["7"] * (number % 2)] for number in range(8)]
    steady = [one["table"].to_pylist().count("steady") for one in read if one["kind"][0].as_py() != "schema"]
    assert [count for count in steady if count] == [4], "the other table's rows come together"


@on_both
def test_tables_are_chosen_by_name_and_pattern(log: LiveLog) -> None:
    start = log.end()
    for name in ("crm_a", "crm_b", "other"):
        log.run(f"DROP TABLE IF EXISTS {name}", f"CREATE TABLE {name} (id int)", f"INSERT INTO {name} VALUES (1)")
    log.run("INSERT INTO entry VALUES (1, 'a')")
    chosen = log.events(start, ["crm_*", f"{log.database}.entry"])
    assert [event["table"] for event in chosen] == ["crm_a", "crm_b", "entry"]
    assert {event["database"] for event in chosen} == {log.database}
    assert log.events(start, ["elsewhere.*"]) == []


@on_both
def test_events_larger_than_a_packet(log: LiveLog) -> None:
    log.run("DROP TABLE IF EXISTS large", "CREATE TABLE large (id int, t longtext CHARACTER SET utf8mb4)")
    start = log.end()
    sizes = [(1 << 24) + 5]  # a packet carries less than 2^24 bytes
    log.run(*(f"INSERT INTO large VALUES ({size}, REPEAT('a', {size}))" for size in sizes), "INSERT INTO large VALUES (1, 'after')")
    events = log.events(start, ["large"])
    assert [(int(event["after"][0]), len(event["after"][1])) for event in events] == [*((size, size) for size in sizes), (1, 5)]


@on_both
@pytest.mark.slow
def test_a_transaction_of_a_gibibyte(log: LiveLog) -> None:
    log.run("DROP TABLE IF EXISTS huge", "CREATE TABLE huge (id int PRIMARY KEY, t longtext)")
    start = log.end()
    log.run("START TRANSACTION", *(f"INSERT INTO huge VALUES ({row}, REPEAT('x', 4000000))" for row in range(270)), "COMMIT")
    ranges = log.scan(start)
    assert len(ranges) == 1 and ranges[0].end - ranges[0].start.offset > 1 << 30
    most, rows = 0, []
    for batch in log.reading(["huge"]).batches(ranges[0]):
        most = max(most, batch.nbytes)
        rows += batch["row"].to_pylist()
    assert rows == [-1, *range(270)]
    assert most < 40 << 20, "it passes in pieces"


@on_both
def test_a_task_that_passes_events_by_fails(log: LiveLog, monkeypatch: pytest.MonkeyPatch) -> None:
    start = log.end()
    log.run(*MIXED)
    monkeypatch.setattr(RowEvents, "rows", lambda *_: ())
    with pytest.raises(EventsMissed, match=r"the log sent 3\d events of the tables that are read, and 0 were taken"):
        log.events(start, ["entry"])


@on_both
def test_the_position_of_rows_is_the_end_of_their_transaction(log: LiveLog) -> None:
    ends, start = [], log.end()
    for statements in (
        ["INSERT INTO entry VALUES (1, 'a'), (2, 'b')"],
        ["BEGIN", *(f"INSERT INTO entry VALUES ({n}, 'c')" for n in range(3, 6)), "COMMIT"],
    ):
        log.run(*statements)
        ends.append(log.end().position(0).pack())
    found = [(event["position"], event["row"]) for event in log.events(start, ["entry"])]
    assert found == [(ends[0], 0), (ends[0], 1), (ends[1], 0), (ends[1], 1), (ends[1], 2)]
