"""Canonical texts of MySQL and MariaDB specifics: ZEROFILL, character sets, zero dates, fractional seconds, padding."""

from __future__ import annotations

import datetime as dt
from contextlib import closing
from typing import Any

import pytest

import dialects
from auditor import canonical
from dialects import Kind, Place
from tests import tables
from tests.live import LiveEngine, engine_params

COLUMNS = {
    "filled INT(6) ZEROFILL": ("42", "42"),
    "huge BIGINT UNSIGNED ZEROFILL": ("18446744073709551615", "18446744073709551615"),
    "latin VARCHAR(20) CHARACTER SET latin1": ("'é'", "é"),
    "wide VARCHAR(20) CHARACTER SET utf8mb4": ("'é😀'", "é😀"),
    "padded CHAR(8) CHARACTER SET latin1": ("'ab'", "ab"),
    "single FLOAT": ("16777217", "9007199254740992p24"),
    "seconds DATETIME": ("'2024-01-02 03:04:05'", "2024-01-02 03:04:05"),
    "tenths DATETIME(1)": ("'2024-01-02 03:04:05.6'", "2024-01-02 03:04:05.6"),
    "micros DATETIME(6)": ("'0001-01-01 00:00:00.000007'", "0001-01-01 00:00:00.000007"),
    "never DATE": ("'0000-00-00'", "0000-00-00"),
    "long_time TIME(3)": ("'-101:02:03.5'", "-101:02:03.5"),
    "labelled ENUM('a)','b') CHARACTER SET utf8mb4": ("'a)'", "a)"),
    "chosen SET('x','y','z') CHARACTER SET utf8mb4": ("'z,x'", "x,z"),
    "bits BIT(5)": ("b'00101'", "00101"),
    "since YEAR": ("1999", "1999"),
    "fixed BINARY(4)": ("'ab'", "61620000"),
}
"""A column's definition, a literal, and its canonical text."""


@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True)
def test_mysql_specific_columns_have_the_canonical_text(engine: LiveEngine) -> None:
    definitions, literals = ", ".join(COLUMNS), ", ".join(literal for literal, _ in COLUMNS.values())
    tables.execute(
        engine,
        "DROP TABLE IF EXISTS peculiar",
        f"CREATE TABLE peculiar ({definitions})",
        f"INSERT INTO peculiar VALUES ({literals})",
    )
    session = dialects.connect(engine.url)
    try:
        (table,) = session.dialect.catalogue.describe(session, Place(("peculiar",)))
        texts = [
            session.dialect.canonical.canonical_text(_kind(column.kind), session.dialect.names.quote(column.name), _kind(column.kind))
            for column in table.columns
        ]
        found: tuple[Any, ...] = session.query(f"SELECT {', '.join(texts)} FROM peculiar")[0]
    finally:
        session.close()
    expected = [text for _, text in COLUMNS.values()]
    assert {c.name: f for c, f in zip(table.columns, found, strict=True)} == {
        c.name: w for c, w in zip(table.columns, expected, strict=True)
    }


@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True)
def test_server_is_shown_with_the_version_that_it_reports(engine: LiveEngine) -> None:
    with closing(dialects.connect(engine.url)) as session:
        ((version,),) = session.query("SELECT VERSION()")
        assert session.server == f"{'MariaDB' if engine.name == 'mariadb' else 'MySQL'} {version}"


def _kind(kind: Kind | None) -> Kind:
    assert kind is not None
    return kind


@pytest.mark.parametrize("engine", engine_params("mariadb", "mariadb_new"), indirect=True)
def test_a_table_is_described_without_those_beside_it(engine: LiveEngine) -> None:
    """MariaDB's information_schema reads every table there is, system tables too, where a part of a statement names none."""
    tables.execute(engine, "DROP TABLE IF EXISTS described", "CREATE TABLE described (id INT, part INT, PRIMARY KEY (part, id))")

    def written() -> int:
        ((_, value),) = session.query("SHOW SESSION STATUS LIKE 'Handler_tmp_write'")
        return int(value)

    with closing(dialects.connect(engine.url)) as session:
        before = written()
        (table,) = session.dialect.catalogue.describe(session, Place(("described",)))
        assert written() - before < 100, "MariaDB's own tables have some thousand columns"
    assert list(table.primary_key) == ["part", "id"]


def test_oracle_agrees_on_long_times_and_rounded_floats() -> None:
    """The oracle has the same texts. 2^24 + 1 is not a single-precision number; FLOAT stores 2^24."""
    long = dt.timedelta(hours=-101, minutes=-2, seconds=-3, milliseconds=-500)
    assert canonical.text(Kind("time", scale=3), long) == "-101:02:03.5"
    assert canonical.text(Kind("time", scale=0), long) == "-101:02:03"
    assert canonical.text(Kind("float32"), 16777217.0) == "9007199254740992p24"
