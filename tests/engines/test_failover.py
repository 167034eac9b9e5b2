"""A pipeline goes on from a replica once its source is dead: nothing is lost or read twice, and where rows may be missing it is refused."""

from __future__ import annotations

import random
import shlex
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from auditor import config
from auditor.cli import main
from auditor.errors import FailoverRefused
from auditor.pipeline.binlog.selection import Selection
from auditor.pipeline.failover import find_failover
from auditor.pipeline.source import EVENT_TYPE, MySQLBinlog
from auditor.service import failovers
from auditor.store import Store, open_store, parts, pipelines
from tests import documents
from tests.binlog import LiveLog
from tests.servers.process import open_directory
from tests.servers.replicas import PIPELINE, TABLE, Reader, arrived, is_mysql, kill, replicate, rows_of, start, write

CONFIGURATION = """\
# what stays
connections:
  old: {{url: "{source}"}}
  new: {{url: "{replica}"}}
  duck: {{url: "duckdb:///{folder}/d.duckdb", write: {{url: "duckdb:///{folder}/d.duckdb"}}}}
audits: {{}}
pipelines:
  shop:
    source: {{connection: old, tables: [orders]}}  # the server
    staging: {{path: "{folder}/staging"}}
    targets: {{duck: {{connection: duck, schema: main}}}}
store: {{url: "sqlite:///{folder}/store.db"}}
"""


@pytest.fixture(
    params=[pytest.param("mariadb", marks=pytest.mark.mariadb), pytest.param("mysql", marks=[pytest.mark.mysql, pytest.mark.slow])]
)
def servers(request: pytest.FixtureRequest) -> Iterator[tuple[LiveLog, LiveLog]]:
    """A source and its replica, each with an empty table ``orders``."""
    folder = open_directory()
    first = start(request.param, 1, folder)
    second = start(request.param, 2, folder)
    source, replica = LiveLog(first.url), LiveLog(second.url)
    replicate(source, replica)
    source.run(TABLE)
    yield source, replica
    for server in (first, second):
        server.stop()
    folder.rmdir()


def test_a_pipeline_goes_on_from_a_replica(servers: tuple[LiveLog, LiveLog], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, replica = servers
    chance, write.ids = random.Random(11), 0  # type: ignore[attr-defined]
    path = tmp_path / "auditor.yaml"
    path.write_text(CONFIGURATION.format(source=source.url, replica=replica.url, folder=tmp_path))
    settings = config.load(path)
    with closing(open_store(f"sqlite:///{tmp_path}/store.db")) as store:
        reader = Reader(path, store)
        begin: Any = MySQLBinlog(
            {"config": str(path), "connection": "old", "tables": "orders", "start": str(source.end())}
        ).streamReader(EVENT_TYPE)  # fmt: skip
        parts.record_batch(store, PIPELINE, [], {}, begin.initialOffset())
        with pytest.raises(FailoverRefused, match="no global id is known of the last transaction before"):
            _fail_over(settings, path, store)
        write(source, chance, 60)
        reader.read()
        arrived(replica, source)
        source.run("CREATE TABLE other (id int PRIMARY KEY)", "INSERT INTO other VALUES (1)")

        replica.run("STOP REPLICA" if is_mysql(source) else "STOP SLAVE")
        write(source, chance, 10)
        reader.read()
        with pytest.raises(FailoverRefused, match=r"transaction \S+, which was read last, at .+; fail over with --accept-gap"):
            _fail_over(settings, path, store)
        replica.run("CREATE TABLE elsewhere (id int PRIMARY KEY)", "INSERT INTO elsewhere VALUES (1)")
        replica.run("START REPLICA" if is_mysql(source) else "START SLAVE")
        write(source, chance, 60)
        arrived(replica, source)
        reader.read(max_bytes=4_000)
        assert reader.rows != rows_of(source), "something is left to be read from the replica"

        offset = pipelines.get_pipeline(store, PIPELINE).source_offset
        told = find_failover(offset, replica.source, Selection(["*"], "audit"))
        assert len(told.gaps) == 1 and "itself, before" in told.gaps[0] and told.gaps[0].endswith("with rows of audit.elsewhere")
        kill(source)
        [shown] = [block for block in documents.blocks(documents.ROOT / "docs" / "pipeline-stops.md", "console") if "failover" in block]
        dry, real = [shlex.split(command, comments=True) for command, _ in documents.sessions(shown)]
        assert main([*dry[1:], "--config", str(path)]) == 0 and "connection: old" in path.read_text()
        assert capsys.readouterr().out.endswith("nothing was changed; add --apply to fail over\n")
        assert main([*real[1:], "--config", str(path)]) == 0
        printed = capsys.readouterr().out
        assert f"behind transaction {offset['gtid']}\n" in printed and "gap: " not in printed
        assert "connection: new" in path.read_text() and path.read_text().startswith("# what stays") and "# the server" in path.read_text()

        write(replica, chance, 20)
        reader.read()
        assert reader.rows == rows_of(replica)
        assert set(reader.inserted.values()) == {1}, "each insert was read once"
        assert reader.positions == sorted(reader.positions), "positions keep growing"
        after = pipelines.get_pipeline(store, PIPELINE).source_offset
        assert after["epoch"] == offset["epoch"] + 1 and after["known"] and after["server"] != offset["server"]


def _fail_over(settings: config.Settings, path: Path, store: Store) -> failovers.FailedOver:
    return failovers.fail_over(settings, path, store, PIPELINE, "new", accept_gap=False, dry_run=False, by="me")
