"""Heads of chains of evidence as rows of a target, on each engine whose rows can be written one by one."""

from __future__ import annotations

import pytest

from auditor.config import ConnectionSettings, WriteSettings
from auditor.errors import ConfigError, MayOnlyRead
from auditor.repair.evidence_heads import HEADS, write_head
from dialects import Place
from tests.live import LiveEngine, engine_params
from tests.tables import open_writable

AUDIT = 'größer\'s \\ "orders"'


@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", "postgres", "redshift", "duckdb"), indirect=True)
def test_heads_are_appended(engine: LiveEngine) -> None:
    with open_writable(engine) as session:
        session.execute(f"DROP TABLE IF EXISTS {HEADS}")
    connection = ConnectionSettings(url=engine.url, write=WriteSettings(url=engine.url))
    for number in (1, 2):
        write_head("warehouse", connection, Place(("orders",)), AUDIT, number, f"{number}" * 64)
    with open_writable(engine) as session:
        rows = session.query(f"SELECT audit, number, head FROM {HEADS} ORDER BY number")
        assert [(str(audit), int(number), str(head)) for audit, number, head in rows] == [(AUDIT, n, f"{n}" * 64) for n in (1, 2)]
        session.execute(f"DROP TABLE {HEADS}")


def test_connections_that_only_read_and_files_are_refused() -> None:
    url = "duckdb:///:memory:"
    with pytest.raises(MayOnlyRead, match="add write"):
        write_head("here", ConnectionSettings(url=url), Place(("orders",)), "orders", 1, "0" * 64)
    with pytest.raises(ConfigError, match="use a bucket"):
        written = ConnectionSettings(url=url, write=WriteSettings(url=url))
        write_head("here", written, Place((), "/data/orders.parquet", "parquet"), "orders", 1, "0" * 64)
