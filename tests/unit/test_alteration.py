"""The statements by which Redshift changes a table's columns, where its catalogue says how they are stored."""

from __future__ import annotations

from typing import Any

import pytest

import dialects
from dialects import Column, Kind, Table
from dialects.alteration import Added, Alteration, Changes, Retyped

DIALECT = dialects.get("redshift")
ID, NOTE = Column("id", "integer", Kind("integer"), False), Column("note", "character varying(40)", Kind("text", bytes=40), True)
ORDERS = '"dwh"."orders"'


class Session:
    """Answers as Redshift's catalogue: a default, encoding, distribution key, and place in the sort key of each column."""

    dialect = DIALECT

    def __init__(self, **stored: tuple[bool, str, bool, int]) -> None:
        plain = (False, "lzo", False, 0)
        self._stored = {"id": plain, "note": plain} | stored

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        if "svv_redshift_columns" in sql:
            return [(name, *how) for name, how in self._stored.items()]
        return [("orders_pkey",)] if "pg_constraint" in sql else [("dev",)]


def altered(session: Session, changes: Changes, *key: str) -> Alteration:
    table = Table(ORDERS, (ID, NOTE), key, None, ("dwh", "orders"))
    return DIALECT.writing.altering.alter(session, table, changes)


LONGER = Changes(retyped=[Retyped(NOTE, "VARCHAR(80)", is_longer_text=True)])
MOVED = [
    f'ALTER TABLE {ORDERS} ADD COLUMN "auditor_retyped_0" VARCHAR(80)',
    f'UPDATE {ORDERS} SET "auditor_retyped_0" = CAST("note" AS VARCHAR(80))',
    f'ALTER TABLE {ORDERS} DROP COLUMN "note"',
    f'ALTER TABLE {ORDERS} RENAME COLUMN "auditor_retyped_0" TO "note"',
]


def test_a_text_is_made_longer_before_the_transaction() -> None:
    found = altered(Session(), LONGER)
    assert (found.before, found.statements) == ([f'ALTER TABLE {ORDERS} ALTER COLUMN "note" TYPE VARCHAR(80)'], [])


@pytest.mark.parametrize("stored", [(True, "lzo", False, 0), (False, "text255", False, 0)], ids=["default", "encoding"])
def test_a_text_that_cannot_be_made_longer_moves_into_another_column(stored: tuple[bool, str, bool, int]) -> None:
    found = altered(Session(note=stored), LONGER)
    assert (list(found.before), list(found.statements)) == ([], MOVED)


def test_a_column_of_the_key_moves_without_the_constraint() -> None:
    found = altered(Session(), Changes(retyped=[Retyped(ID, "BIGINT")]), "id")
    assert found.statements[0] == f'ALTER TABLE {ORDERS} DROP CONSTRAINT "orders_pkey"'
    assert found.statements[1] == f'ALTER TABLE {ORDERS} ADD COLUMN "auditor_retyped_0" BIGINT DEFAULT 0 NOT NULL'
    assert found.statements[-1] == f'ALTER TABLE {ORDERS} ADD PRIMARY KEY ("id")'


@pytest.mark.parametrize("changes", [Changes(dropped=["note"]), Changes(retyped=[Retyped(NOTE, "BIGINT")])], ids=["dropped", "retyped"])
@pytest.mark.parametrize(
    ("stored", "way_on"),
    [((False, "lzo", True, 0), "ALTER DISTSTYLE EVEN"), ((False, "lzo", False, 2), "ALTER SORTKEY NONE")],
    ids=["distribution key", "sort key"],
)
def test_a_distribution_or_sort_key_is_refused_with_the_way_on(changes: Changes, stored: tuple[bool, str, bool, int], way_on: str) -> None:
    found = altered(Session(note=stored), changes)
    assert not found.statements and f"run there: ALTER TABLE {ORDERS} {way_on}" in found.refused


def test_columns_are_added_one_by_each_statement_and_keep_their_default() -> None:
    found = altered(Session(), Changes(added=[Added("a", "BIGINT", "-7"), Added("b", "VARCHAR(9)")]))
    assert found.statements == [
        f'ALTER TABLE {ORDERS} ADD COLUMN "a" BIGINT DEFAULT -7',
        f'ALTER TABLE {ORDERS} ADD COLUMN "b" VARCHAR(9)',
    ]
