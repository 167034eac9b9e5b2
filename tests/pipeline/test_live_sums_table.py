"""The table of sums on each engine whose merges are transactions: written, read in order, sized and emptied."""

from __future__ import annotations

from contextlib import closing

import pytest

from auditor.config import ConnectionSettings, WriteSettings
from auditor.connections.writer import open_session, transaction
from auditor.run.live.running_sums import Link
from auditor.run.live.statements import PIECE, LiveSums, as_text, read_links
from tests.live import LiveEngine, engine_params

SCHEMA = "live_sums_table"
LINKS = [
    Link("0123456789abcdef", "range 1024", 1 << 62, (1 << 62) + 5, "", ""),
    Link("0123456789abcdef", "range 1024", (1 << 62) + 5, (1 << 62) + 9, "feed", "x" * (2 * PIECE + 7)),
]


@pytest.mark.parametrize("engine", engine_params("postgres", "duckdb", "mysql", "mariadb", "redshift"), indirect=True)
def test_links_are_read_as_they_were_written(engine: LiveEngine) -> None:
    # Redshift's files, of which there are none here.
    files = "&unload_to=s3://bucket/folder&unload_role=default" if engine.name == "redshift" else ""
    settings = ConnectionSettings(url=engine.url, write=WriteSettings(url=f"{engine.url}{files}"))
    with closing(open_session("target", settings)) as session:
        drop = f"DROP SCHEMA IF EXISTS {session.dialect.names.quote(SCHEMA)}{'' if session.dialect.name == 'mysql' else ' CASCADE'}"
        session.execute(drop)
        session.execute(f"CREATE SCHEMA {session.dialect.names.quote(SCHEMA)}")
        sums = LiveSums(session.dialect, SCHEMA)
        for _ in range(2):
            session.execute(sums.create())
        with transaction(session):
            for link in reversed(LINKS):
                for statement in sums.write(link):
                    session.execute(statement)
        epoch = LINKS[0].epoch
        assert read_links(epoch, session.query(sums.list(epoch))) == LINKS
        rows, size, last, shape = session.query(sums.sizes(epoch))[0]
        assert (int(rows), int(size), int(last), as_text(shape)) == (4, 2 * PIECE + 7, LINKS[1].place, "feed")
        session.execute(sums.forget("another"))
        session.execute(sums.forget("a third", epoch))
        assert session.query(sums.list(epoch)) == []
        assert session.query(sums.sizes(epoch))[0][2] is None
        session.execute(drop)
