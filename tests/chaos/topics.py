"""A pipeline into topics, of which every process and the broker can be killed, and a consumer that shares no code with it."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pymysql
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from auditor import config
from auditor.pipeline.binlog.log_connection import Source, log_status
from auditor.pipeline.events import Place
from auditor.store import open_store, parts, pipelines
from tests.chaos.application import Application, kill
from tests.chaos.disturbances import alterations
from tests.chaos.steps import DRIVER_STEPS, PUBLISHER_STEPS
from tests.chaos.transfers import DONE_ALREADY
from tests.chaos.writer import Session, Writer
from tests.servers import mysql
from tests.servers.kafka import Broker
from tests.servers.killable import Killable
from tests.servers.spark_connector import run_program

PIPELINE, TARGET = "shop", "events"
VICTIMS = ("driver", "publisher", "broker", "publisher")
PARTITIONS = 4
MARKERS = 0.5
"""Seconds in which the broker ends the transactions that it confirmed."""

LONGEST_PAUSE = 3.0
"""Seconds at most between the beginning of a round's writes and its kill, and for which a broker is away."""

BEAT = 1.0
"""Seconds between two small changes while something is waited for."""

SPARK_CONSUMER = """
import sys

server, *topics = sys.argv[1:]
read = spark.read.format("kafka").option("kafka.bootstrap.servers", server).option("kafka.isolation.level", "read_committed")
read.option("subscribe", ",".join(topics)).load().createOrReplaceTempView("messages")
changes = spark.sql('''
    SELECT topic, partition, offset, key, get_json_object(text, '$.op') AS op,
           get_json_object(text, '$.before') AS before, get_json_object(text, '$.after') AS after
    FROM (SELECT *, CAST(value AS STRING) AS text FROM messages WHERE value IS NOT NULL)
''')
changes.write.parquet("changes")
spark.read.parquet("changes").createOrReplaceTempView("changes")
latest = spark.sql('''
    SELECT topic, last.after AS row
    FROM (SELECT topic, MAX_BY(STRUCT(op, after), offset) AS last FROM changes WHERE key IS NOT NULL GROUP BY topic, partition, key)
    WHERE last.op <> 'd'
''')
without_key = spark.sql('''
    SELECT topic, row
    FROM (
        SELECT topic, row, EXPLODE(SEQUENCE(1, total))
        FROM (
            SELECT topic, row, CAST(SUM(one) AS INT) AS total
            FROM (SELECT topic, before AS row, -1 AS one FROM changes WHERE key IS NULL AND before IS NOT NULL
                  UNION ALL SELECT topic, after, 1 FROM changes WHERE key IS NULL AND after IS NOT NULL)
            GROUP BY topic, row
        )
        WHERE total > 0
    )
''')
for topic, row in latest.union(without_key).toLocalIterator():
    print(topic, row)
"""
"""A consumer in SQL alone: of each key the row of its last message; without a key what came less what went. One line for each row."""


class ManyTables(Writer):
    """Writes into orders, stock and their ledger, a table without a key, and others that are altered meanwhile."""

    def __init__(self, url: str, seed: int, tables: int) -> None:
        super().__init__(url, seed)
        self.altered = [f"extra_{number:02d}" for number in range(tables - len(Writer.tables) - 1)]
        self.tables = [*Writer.tables, "log", *self.altered]
        self._alterations = deque(alterations(self.altered))
        self._count, self._every = itertools.count(1), 1

    def create(self) -> None:
        """Make the tables."""
        super().create()
        with mysql.connect(self.url) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE log (number BIGINT, line VARCHAR(40) CHARACTER SET utf8mb4)")
            for table in self.altered:
                cursor.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, amount BIGINT NOT NULL)")
                cursor.execute(f"INSERT INTO {table} VALUES {', '.join(f'({number}, 100)' for number in range(20))}")

    def spread(self, transactions: int) -> None:
        """Spread the statements that alter tables over about so many transactions."""
        self._every = max(1, transactions // (len(self._alterations) + 1))

    def transaction(self, session: Session, choice: random.Random) -> int:
        """Run one transaction and return the number of rows that it changed."""
        number = next(self._count)
        if number % self._every == 0:
            self._alter(session)
        if number % 2:
            return super().transaction(session, choice)
        session.execute("BEGIN")
        table = choice.choice(self.altered)
        changed = session.execute(f"UPDATE {table} SET amount = amount + 1 WHERE id BETWEEN {choice.randrange(20)} AND 20")
        moved, line = choice.randrange(20), choice.randrange(10)
        changed += session.execute(f"DELETE FROM {table} WHERE id = {moved}")
        changed += session.execute(f"INSERT INTO {table} (id, amount) VALUES ({moved}, {choice.randrange(1000)})")
        changed += session.execute(f"INSERT INTO log VALUES ({line}, 'line {number} é'), ({line}, 'line {number} é')")
        if choice.random() < 0.3:
            changed += session.execute(f"DELETE FROM log WHERE number = {choice.randrange(10)} LIMIT 3")
        session.execute("COMMIT")
        return changed

    def _alter(self, session: Session) -> None:
        with self._lock:
            if not self._alterations:
                return
            statement = self._alterations.popleft()
            try:
                session.execute(statement)
            except pymysql.OperationalError as error:
                if error.args[0] not in DONE_ALREADY:
                    raise

    def touch(self) -> None:
        """Run the statements that are left, and change every row of the altered tables, so that each is in the topic as it is now."""
        session = Session(self.url)
        while self._alterations:
            self._alter(session)
        for table in self.altered:
            session.execute(f"UPDATE {table} SET amount = amount + 1")
        session.close()


class TopicChaos:
    """A pipeline from a source into topics, with everything that can be killed."""

    def __init__(self, folder: Path, writer: ManyTables, source: Killable, broker: Broker, seed: int) -> None:
        self.folder, self.writer, self.source, self.broker = folder, writer, source, broker
        self.random = random.Random(seed)
        (folder / "auditor.yaml").write_text(
            f"""\
connections:
  source: {{url: "{source.url}"}}
brokers:
  kafka: {{servers: "{broker.server}", timeout: 10s}}
audits: {{}}
pipelines:
  {PIPELINE}:
    source: {{connection: source, tables: [{", ".join(writer.tables)}]}}
    staging: {{path: "{folder}/staging"}}
    targets:
      {TARGET}:
        broker: kafka
        cleanup: delete
        partitions: {PARTITIONS}
        transactions: "{PIPELINE}.transactions"
        every: 0s
        timeout: 10s
        max_transaction: 5000
        messages: {{decimals: string, times: isostring, binary: hex}}
"""
        )
        self.settings = config.load(folder / "auditor.yaml")
        assert self.settings.store
        self.store = open_store(self.settings.store.url)
        writer.create()
        self.application = Application(folder, "pipeline", "run", PIPELINE)
        self.kills: Counter[str] = Counter()

    def close(self) -> None:
        self.application.close()
        self.store.close()

    def begin(self) -> None:
        """Wait until something is published."""
        self.application.until(lambda: pipelines.get_pipeline(self.store, PIPELINE).source_offset is not None, "the beginning")
        self.go_on()

    def positions(self) -> dict[str, int]:
        """Up to where each table is reported to be published."""
        found = pipelines.list_merges(self.store, PIPELINE, TARGET).get(TARGET, {})
        return {table: report.position for table, report in found.items()}

    def go_on(self) -> None:
        """Wait until something is published that was committed from now on."""
        before = self.positions().get("audit.ledger", 0)
        self.application.until(self._beating(lambda: self.positions().get("audit.ledger", 0) > before), "progress", every=BEAT)

    def _beating(self, reached: Callable[[], bool]) -> Callable[[], bool]:
        def look() -> bool:
            self.writer.beat()
            return reached()

        return look

    def choose_kills(self, count: int) -> list[str]:
        """Return one kill at each named step, and the others at random moments, every fourth of the broker."""
        steps = [*DRIVER_STEPS, *(f"publisher: {step}" for step in PUBLISHER_STEPS)]
        brokers = ["broker"] * max(1, count // 4)
        victims = itertools.cycle(("driver", "publisher"))
        others = [*self.random.sample(steps, min(len(steps), count - len(brokers)))]
        others += [next(victims) for _ in range(count - len(brokers) - len(others))]
        return self.random.sample([*brokers, *others], count)

    def kill_at(self, step: str, events: int) -> None:
        """Write, and let a process kill itself at a named step; prove that it did."""
        hit = self.folder / "hit"
        hit.unlink(missing_ok=True)
        (self.folder / "armed").write_text(step)
        self.writer.write(events)
        self.application.until(self._beating(hit.exists), f"the step {step}", every=BEAT)
        self.kills[step] += 1

    def kill_one(self, victim: str, events: int) -> None:
        """Write, and kill a victim at a random moment."""
        from tests.chaos.chaos import _Writing

        with _Writing(self.writer, events):
            time.sleep(self.random.uniform(0, LONGEST_PAUSE))
            if victim == "broker":
                self._kill_broker()
            else:
                self.application.until(lambda: self._kill(victim), f"a {victim} to kill")
        self.kills[victim] += 1

    def _kill(self, victim: str) -> bool:
        found = [self.application.process.pid] if victim == "driver" else self.application.find(victim)
        return bool(found) and kill(self.random.choice(found))

    def _kill_broker(self) -> None:
        """Kill the broker in whatever transaction the publisher is, but not between a commit that it confirmed and its markers.

        A single broker that is killed there forgets to write them, and what was committed stays hidden until a person sees to it; which
        the publisher refuses by name (tests/pipeline/kafka). Of several brokers another one would write them.
        """
        stopped = self.application.find("publisher")
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        time.sleep(MARKERS)
        self.broker.kill()
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        time.sleep(self.random.uniform(0, LONGEST_PAUSE))
        self.broker.start()

    def wait_for_end(self) -> None:
        """Wait until everything that is committed was staged and published."""
        with closing(Source(self.source.url, "source").connect()) as connection:
            end = log_status(connection).end

        def has_arrived() -> bool:
            offset = pipelines.get_pipeline(self.store, PIPELINE).source_offset
            if offset is None or Place(offset["file"], offset["position"]).order < end.order:
                return False
            held = self.positions()
            return all(held.get(table, 0) >= staged.staged_through for table, staged in parts.list_tables(self.store, PIPELINE).items())

        self.application.until(has_arrived, "the end")

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Ask the source."""
        with mysql.connect(self.source.url) as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def check(self) -> int:
        """Hold every table as its topic says, to two consumers, against the source; return the number of messages."""
        total, ended = 0, Counter[str]()
        told = Counter[str]()
        topics = [f"{PIPELINE}.audit.{table}" for table in self.writer.tables]
        (scratch := self.folder / "spark").mkdir()
        by_spark: dict[str, list[dict[str, Any]]] = {topic: [] for topic in topics}
        for line in run_program(SPARK_CONSUMER, scratch, self.broker.server, *topics).splitlines():
            topic, _, row = line.partition(" ")
            by_spark[topic].append(json.loads(row))
        for table in self.writer.tables:
            messages = list(read(self.broker.server, f"{PIPELINE}.audit.{table}"))
            total += len(messages)
            check_order(table, messages)
            told[table] = sum(message.value() is not None for message in messages)
            columns = [str(row[0]) for row in self.query(f"SHOW COLUMNS FROM {table}")]
            rows = [dict(zip(columns, row, strict=True)) for row in self.query(f"SELECT * FROM {table}")]
            expected = sorted(json.dumps({name: written(value) for name, value in row.items()}) for row in rows)
            for consumer, kept in (("plain", rebuild(messages)), ("Spark", by_spark[f"{PIPELINE}.audit.{table}"])):
                found = sorted(json.dumps({name: as_written(name, row[name]) for name in columns}) for row in kept)
                assert found == expected, (consumer, table, len(found), len(expected))
        for message in read(self.broker.server, f"{PIPELINE}.transactions"):
            body = json.loads(message.value() or b"")
            for one in body["data_collections"] or () if body["status"] == "END" else ():
                ended[one["data_collection"].partition(".")[2]] += one["event_count"]
        assert ended == told
        return total


def written(value: Any) -> Any:
    """Return a value of the source as its message has it."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    return value.hex() if isinstance(value, bytes) else value


def as_written(column: str, value: Any) -> Any:
    """Return a message's value in the same form: unsigned numbers beyond 2^63 are negative there, and times have a zone."""
    if column == "quantity" and isinstance(value, int):
        return value % (1 << 64)
    return datetime.fromisoformat(value).replace(tzinfo=None).isoformat() if column == "at" and value else value


def read(server: str, topic: str) -> Iterator[Message]:
    """Yield the committed messages of a topic, those of each partition in their order."""
    settings = {"bootstrap.servers": server, "group.id": "chaos", "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    try:
        partitions = consumer.list_topics(topic, timeout=20).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        ended: set[int | None] = set()
        while len(ended) < len(partitions):
            message = consumer.poll(20)
            assert message is not None, f"the broker says nothing of {topic}"
            error = message.error()
            if error is None:
                yield message
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(message.partition())
    finally:
        consumer.close()


def check_order(table: str, messages: Sequence[Message]) -> None:
    """Check that no message is there twice, or missing, and that those of a partition, and so of a key, are in the order of the source."""
    seen = set[tuple[bytes, str]]()
    counts = Counter[int]()
    last: dict[int, tuple[int, int]] = {}
    partitions: dict[bytes, int] = {}
    for message in messages:
        headers: Any = message.headers() or ()
        said: bytes = dict(headers)["auditor"]
        place, _, count = said.rpartition(b".")
        value, key, number = message.value(), message.key(), message.partition() or 0
        assert int(count) == counts[number], f"{table}: partition {number} has the number {count!r} where {counts[number]} is next"
        counts[number] += 1
        kind = "tombstone" if value is None else json.loads(value)["op"]
        assert (place, kind) not in seen, f"{table}: {place!r} is there twice"
        seen.add((place, kind))
        position, row, _ = place.split(b".")
        assert last.get(number, (0, 0)) <= (int(position), int(row)), f"{table}: {place!r} is behind its place"
        last[number] = int(position), int(row)
        assert partitions.setdefault(key or b"", number) == number, f"{table}: {key!r} is in two partitions"


def rebuild(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return the rows that messages leave; without a key equal rows are as good as each other."""
    rows: dict[bytes, dict[str, Any]] = {}
    keyless: Counter[str] = Counter()
    for message in messages:
        key, value = message.key(), message.value()
        body = json.loads(value) if value is not None else None
        if key is None:
            assert body
            keyless.subtract([json.dumps(body["before"])] if body["before"] else [])
            keyless.update([json.dumps(body["after"])] if body["after"] else [])
        elif body is None or body["op"] == "d":
            rows.pop(key, None)
        else:
            rows[key] = body["after"]
    assert not keyless or min(keyless.values()) >= 0
    return [*rows.values(), *(json.loads(row) for row in keyless.elements())]
