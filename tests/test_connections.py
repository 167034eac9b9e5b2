"""Several connections read one table's chunks side by side, inside one snapshot."""

from __future__ import annotations

import pytest

import dialects
from auditor import plan, run
from auditor.config import Audit, Connection
from auditor.model import Report
from dialects import Kind, Session
from tests import tables
from tests.engines import LiveEngine, LivePair, engine_params, pair_params

ROWS = 3000


def audited(pair: LivePair, connections: int) -> Report:
    here = {
        side: Connection(url=engine.url, connections=connections) for side, engine in (("source", pair.source), ("target", pair.target))
    }
    source, target = ({"connection": side, "table": f"wide_{side}"} for side in ("source", "target"))
    return run.run("wide", Audit.model_validate({"source": source, "target": target, "key": ("id",), "partition": {"rows": 100}}), here)


@pytest.mark.parametrize("pair", pair_params("postgres", "mariadb"), indirect=True)
def test_more_connections_find_the_same(pair: LivePair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "CHUNK_ROWS", 500)
    rows = [(number, f"row {number}") for number in range(ROWS)]
    columns = [("id", Kind("integer")), ("label", Kind("text"))]
    tables.make(pair.source, "wide_source", columns, rows, key=["id"])
    tables.make(pair.target, "wide_target", columns, [row for row in rows if row[0] not in (7, 2500)], key=["id"])
    one, three = (audited(pair, connections) for connections in (1, 3))
    assert one.differences and three.differences, (one.reasons, three.reasons)
    assert (
        [found.key for found in one.differences.named] == [found.key for found in three.differences.named] == [{"id": "7"}, {"id": "2500"}]
    )
    assert one.plan and three.plan and one.plan.sides["source"].chunk_keys
    assert three.cost["source"].statements > one.cost["source"].statements, "the further connections' statements count too"


@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", "postgres"), indirect=True)
def test_siblings_read_one_snapshot(engine: LiveEngine) -> None:
    """A row that comes after the snapshot is seen by none of them."""
    tables.make(engine, "settled", [("id", Kind("integer"))], [(1,), (2,)])
    session = dialects.connect(engine.url)
    others: list[Session] = []
    try:
        session.begin()
        others = session.siblings(2, session.dialect.quote("settled"))
        tables.execute(engine, f"INSERT INTO {session.dialect.quote('settled')} VALUES (3)")
        counts = [one.query(f"SELECT COUNT(*) FROM {one.dialect.quote('settled')}")[0][0] for one in (session, *others)]
    finally:
        for one in (session, *others):
            one.close()
    assert counts == [2, 2, 2]
