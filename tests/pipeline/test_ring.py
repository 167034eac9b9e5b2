"""Pipelines into MySQL and MariaDB: two in a ring do not echo each other, and two into one table keep a state each."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from auditor import config
from auditor.errors import ConfigError
from auditor.pipeline.events import Place
from tests.binlog import LiveLog
from tests.live import Engines
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline_events import announce, batch, delete, insert, table, update

_numbers = itertools.count()
ORDERS = table(id="bigint", item="varchar(40) null")
SERVERS = pytest.mark.parametrize(
    "servers",
    [
        pytest.param(("mysql", "mariadb"), id="mysql-mariadb", marks=[pytest.mark.mysql, pytest.mark.mariadb]),
        pytest.param(("mysql", "mysql"), id="mysql", marks=[pytest.mark.mysql, pytest.mark.slow]),
        pytest.param(("mariadb", "mariadb"), id="mariadb", marks=[pytest.mark.mariadb, pytest.mark.slow]),
    ],
)


@contextmanager
def database_on(log: LiveLog) -> Iterator[LiveLog]:
    """A database of its own on a server, with an empty table."""
    name = f"ring_{next(_numbers)}"
    own = replace(log, url=urlsplit(log.url)._replace(path=f"/{name}").geturl())
    log.run(f"CREATE DATABASE {name}")
    try:
        own.run("CREATE TABLE orders (id bigint PRIMARY KEY, item varchar(40))")
        yield own
    finally:
        log.run(f"DROP DATABASE IF EXISTS {name}")


class Way:
    """One pipeline of a ring, from a log to the other's database."""

    def __init__(self, source: LiveLog, road: Road) -> None:
        self.source, self.road = source, road
        self.at: Place = source.end()

    def go(self, skip: tuple[str, ...]) -> int:
        """Replicate what was logged since the last time; return the number of events that were merged."""
        start, self.at = self.at, self.source.end()
        ranges = self.source.scan(start, self.at)
        batches = (one for part in ranges for one in self.source.reading(["*"], skip).batches(part))
        self.road.stage_task(*batches)
        return self.road.loader().merge_all()

    def rows(self) -> list[tuple[object, ...]]:
        return self.source.run("SELECT * FROM orders ORDER BY id")


@pytest.mark.alone  # the logs that it reads are the whole servers'
@SERVERS
def test_two_pipelines_in_a_ring_do_not_echo(servers: tuple[str, str], engines: Engines, tmp_path: Path, empty_store: Path) -> None:
    one, other = (LiveLog(engines.live(name).url) for name in servers)
    with database_on(one) as here, database_on(other) as there:
        roads = []
        for name, log in (("forth", there), ("back", here)):
            (tmp_path / name).mkdir()
            roads.append(Road(tmp_path / name, log.url, empty_store, log.database))
        forth, back = Way(here, roads[0]), Way(there, roads[1])
        here.run("INSERT INTO orders VALUES (1, 'here'), (2, 'here')")
        there.run("INSERT INTO orders VALUES (11, 'there')")
        echoed = Way(there, roads[1])
        assert (forth.go((PIPELINE,)), back.go((PIPELINE,))) == (2, 1)
        here.run("UPDATE orders SET item = 'here again' WHERE id = 11", "DELETE FROM orders WHERE id = 2")
        there.run("UPDATE orders SET item = 'there too' WHERE id = 1")
        assert (forth.go((PIPELINE,)), back.go((PIPELINE,))) == (2, 1)
        assert (forth.go((PIPELINE,)), back.go((PIPELINE,))) == (0, 0), "what a pipeline wrote is not sent back"
        assert forth.rows() == back.rows() == [(1, "there too"), (11, "here again")]
        events = [event for one in there.scan(echoed.at) for found in there.reading(["*"]).batches(one) for event in found.to_pylist()]
        kinds = [(event["table"], event["kind"]) for event in events if event["kind"] != "schema"]
        assert len(kinds) > 3 and {name for name, _ in kinds} == {"orders"}, "without skip_pipelines they are events; positions never are"
        for road in roads:
            road.close()


@pytest.mark.parametrize("engine", [pytest.param("mariadb", marks=pytest.mark.mariadb)], indirect=True)
def test_two_pipelines_into_one_table_keep_a_state_each(road: Road, tmp_path: Path, empty_store: Path) -> None:
    (tmp_path / "second").mkdir()
    second = Road(tmp_path / "second", road.settings.connections["warehouse"].url, empty_store, road.schema)
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"], ["2", "a"])))
    second.stage(batch(announce(ORDERS, 1), insert(ORDERS, 7, ["1001", "b"], ["1002", "b"])), pipeline="shard_b")
    assert road.loader(pipeline=PIPELINE).merge_all() == 2
    assert second.loader(pipeline="shard_b").merge_all() == 2
    road.stage(batch(update(ORDERS, 20, (["1", "a"], ["1", "A"]))))
    assert road.loader().merge_all() == 1
    second.stage(batch(delete(ORDERS, 30, ["1001", "b"])), pipeline="shard_b")
    assert second.loader(pipeline="shard_b").merge_all() == 1
    assert road.rows() == [(1, "A"), (2, "a"), (1002, "b")]
    named = f"{road.schema}.auditor_positions WHERE table_name <> ''"
    positions = road.query(f"SELECT pipeline, table_name, position FROM {named} ORDER BY pipeline")
    assert positions == [("shard_b", "shop.orders", 30), ("shop", "shop.orders", 20)]
    second.close()


def test_a_ring_that_would_echo_is_refused(tmp_path: Path) -> None:
    def write(skip: str) -> Path:
        file = tmp_path / "auditor.yaml"
        file.write_text(
            f"""\
connections:
  here: {{url: "mysql://reader@one/shop", write: {{url: "mysql://writer@one:3306/"}}}}
  there: {{url: "mariadb://reader@two/shop", write: {{url: "mariadb://writer@two/shop"}}}}
audits: {{}}
pipelines:
  forth:
    source: {{connection: here, tables: ["*"], skip_pipelines: [back]}}
    staging: {{path: /a}}
    targets: {{t: {{connection: there, schema: shop}}}}
  back:
    source: {{connection: there, tables: ["*"]{skip}}}
    staging: {{path: /b}}
    targets: {{t: {{connection: here, schema: shop}}}}
"""
        )
        return file

    with pytest.raises(ConfigError, match="the pipeline 'forth' writes into this source what it reads from a target"):
        config.load(write(""))
    source = config.load(write(", skip_pipelines: [forth]")).pipeline("back").log_source
    assert source and source.skip_pipelines == ("forth",)
