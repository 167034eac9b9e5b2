"""The bytes of a row that a pre-scan hashes, on each engine that hashes bytes: of every kind, and of every character set."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace

import pytest

import dialects
from auditor.config import Audit
from auditor.model import SIDES
from auditor.sql.prescan import row_bytes
from auditor.summary.row_bytes import is_closed
from auditor.testing import columns
from tests import tables
from tests.audits import open_plan
from tests.engines.test_digests import on_digesting
from tests.engines.test_text_keys import CHARACTER_SETS, held
from tests.live import LiveEngine, LivePair, engine_params

EXAMPLES = 200


def bytes_of(closed: Sequence[bool], texts: Sequence[bytes | None]) -> Iterator[bytes]:
    """Yield the text of each column, or what stands for NULL, and before each but the first what separates it from the one before."""
    for at, (stands_closed, text) in enumerate(zip(closed, texts, strict=True)):
        if at:
            yield b"|" if stands_closed and closed[at - 1] else b"\xff"
        yield text if text is not None else b"" if stands_closed else b"\xfe"


@pytest.mark.quick_for("mysql", "postgres")
@on_digesting
def test_rows_of_every_kind_have_the_bytes_of_the_oracle(engine: LiveEngine) -> None:
    """Each column in each kind in which it is compared, by itself and beside others: its text, or what stands for NULL."""
    drawn = columns.draw_rows(EXAMPLES)
    columns.ensure_table(engine.url, EXAMPLES)
    with closing(dialects.connect(engine.url)) as session:
        compared = columns.column_plans(session)
        random.Random(engine.name).shuffle(compared)
        chosen = [*([one] for one in compared), *(compared[at : at + 10] for at in range(0, len(compared), 10))]
        plans = [columns.make_plan(session, [one.column for one in some]) for some in chosen]
        found = session.query(
            f"SELECT n, {', '.join(row_bytes(plan, 'source', session.dialect) for plan in plans)} FROM {columns.TABLE} ORDER BY n"
        )
    for row, (_, *read) in zip(drawn, found, strict=True):
        for some, plan, data in zip(chosen, plans, read, strict=True):
            closed = [is_closed(column) for column in plan.columns]
            texts = [None if (wanted := columns.expected(one, row)) is None else wanted.encode() for one in some]
            assert bytes(data) == b"".join(bytes_of(closed, texts)), [one.column.name for one in some]


@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True)
@pytest.mark.parametrize("character_set", CHARACTER_SETS)
def test_bytes_are_utf8_whatever_the_character_set(engine: LiveEngine, character_set: str) -> None:
    keys = held(character_set)
    values = ", ".join(f"(_utf8mb4 X'{key.encode().hex()}', _utf8mb4 X'{key.encode().hex()}')" for key in keys)
    tables.execute(
        engine,
        "DROP TABLE IF EXISTS bytes_here",
        f"CREATE TABLE bytes_here (k VARCHAR(40) CHARACTER SET {character_set}, c CHAR(40) CHARACTER SET {character_set})",
        f"INSERT INTO bytes_here VALUES {values}",
    )
    ends = {side: {"connection": side, "table": "bytes_here"} for side in SIDES}
    with open_plan(LivePair(engine, engine), Audit.model_validate({**ends, "key": ["k"]})) as (plan, sessions):
        sql = row_bytes(replace(plan, salt=""), "source", sessions["source"].dialect)
        found = sessions["source"].query(f"SELECT {sql} FROM {plan.sides['source'].table}")
    assert {bytes(data) for (data,) in found} == {key.encode() + b"\xff" + key.encode() for key in keys}
