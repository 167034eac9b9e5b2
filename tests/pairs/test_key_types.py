"""Keys of every type whose values an engine may read or order otherwise than others: what differs is named, and nothing else.

The tables have enough rows that a run decides by itself whether it begins with a pre-scan, and cuts the key into stretches.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from auditor.config import Audit, ConnectionSettings
from auditor.model import SIDES, Report, Side, Verdict
from auditor.run import audit_run
from tests import tables
from tests.live import LiveEngine, LivePair, chosen_pairs

ROWS = 10_240
FIRSTS = 64
"""Values of the first column of keys of two."""

PAIRS = ("mysql-postgres", "postgres-mariadb")
LABELS = ("zz", "b", "10", "9", "a", "B2", "-")


@dataclass(frozen=True)
class KeyType:
    """A type of a key, as MySQL and PostgreSQL have it, with its n-th value as a literal of each."""

    mysql: str
    postgres: str
    of_mysql: Callable[[int], str]
    of_postgres: Callable[[int], str] | None = None
    distinct: bool = True
    """Whether there are as many values as rows."""

    def literal(self, engine: LiveEngine, number: int) -> str:
        return (self.of_mysql if engine.dialect == "mysql" or self.of_postgres is None else self.of_postgres)(number)


def _year(n: int) -> str:
    return str(n % 2 and (1901 + n, 1960 + n)[n % 3 == 0])


def _binary(n: int) -> str:
    return f"{(n * 7919 * 65537 + n) & 0xFFFFFFFF:08x}"


TYPES = {
    "year": KeyType("YEAR", "SMALLINT", _year, distinct=False),
    "year to its last": KeyType("YEAR", "INT", lambda n: str((0, 2155, 1901, 1970, 2069)[n % 5]), distinct=False),
    "date": KeyType("DATE", "DATE", lambda n: f"'{dt.date(1999, 1, 1) + dt.timedelta(days=n * 7)}'"),
    "time": KeyType("TIME", "TIME(0)", lambda n: f"'{n // 3600:02}:{n // 60 % 60:02}:{n % 60:02}'"),
    "decimal": KeyType("DECIMAL(12,2)", "NUMERIC(12,2)", lambda n: f"{(n - 5000) * 1.75:.2f}"),
    "unsigned": KeyType("BIGINT UNSIGNED", "NUMERIC(20,0)", lambda n: str(2**63 - 5000 * 10**9 + n * 10**9)),
    "tiny": KeyType("TINYINT", "SMALLINT", lambda n: str(n - 40), distinct=False),
    "label": KeyType("ENUM('zz', 'b', '10', '9', 'a', 'B2', '-')", "VARCHAR(8)", lambda n: f"'{LABELS[n % 7]}'", distinct=False),
    "bits": KeyType("BIT(14)", "BIT(14)", lambda n: f"b'{(n * 37) % 2**14:014b}'"),
    "bytes": KeyType("BINARY(4)", "BYTEA", lambda n: f"X'{_binary(n)}'", lambda n: f"'\\x{_binary(n)}'"),
    "bytes that are short": KeyType("VARBINARY(9)", "BYTEA", lambda n: f"X'{n:x}00'" if len(f"{n:x}") % 2 == 0 else f"X'0{n:x}'",
                                    lambda n: f"'\\x{n:x}00'" if len(f"{n:x}") % 2 == 0 else f"'\\x0{n:x}'"),
    "padded": KeyType("CHAR(12)", "CHAR(12)", lambda n: f"'{'a ' * (n % 3)}{n:x}{' ' * (n % 4)}'"),
    "padded digits": KeyType("CHAR(6)", "VARCHAR(6)", lambda n: f"'{n * 3:06x}'"),
    "digits by their numbers": KeyType("CHAR(6)", 'VARCHAR(6) COLLATE "by_numbers"', lambda n: f"'{n * 1559:06x}'"),
    "digits behind letters": KeyType("CHAR(6)", 'VARCHAR(6) COLLATE "digits_last"', lambda n: f"'{n * 1559:06x}'"),
    "uuid": KeyType("CHAR(36)", "UUID", lambda n: f"'{uuid.uuid5(uuid.NAMESPACE_OID, str(n))}'"),
    "fractions": KeyType("DATETIME(6)", "TIMESTAMP(6)", lambda n: f"'2026-01-01 00:{n // 3600:02}:{n % 60:02}.{n * 9973 % 10**6:06}'"),
    "milliseconds": KeyType(
        "DATETIME(3)", "TIMESTAMP(3)", lambda n: f"'{dt.datetime(2026, 3, 1) + dt.timedelta(seconds=n)}.{n % 1000:03}'"
    ),
}  # fmt: skip

CASES = [(name, alone) for name, kind in TYPES.items() for alone in (True, False) if kind.distinct >= alone]


def collations(engine: LiveEngine) -> None:
    if engine.dialect == "postgres":
        for name, locale in (("by_numbers", "en-u-kn-true"), ("digits_last", "en-u-kr-latn-digit")):
            tables.execute(engine, f"CREATE COLLATION IF NOT EXISTS {name} (PROVIDER = icu, LOCALE = '{locale}')")


def make(engine: LiveEngine, name: str, kind: KeyType, alone: bool, side: Side) -> None:
    """Make a table of ROWS rows; the target's lacks one, has one more, and another value in a third."""
    collations(engine)
    native = kind.mysql if engine.dialect == "mysql" else kind.postgres
    key = "k" if alone else "k, n"
    tables.execute(engine, f"DROP TABLE IF EXISTS {name}", f"CREATE TABLE {name} (k {native}, n INT, v VARCHAR(20), PRIMARY KEY ({key}))")
    numbers = [n for n in range(ROWS + 1) if n != (ROWS if side == "source" else 4_444)]
    for start in range(0, len(numbers), 2_048):
        values = ", ".join(
            f"({kind.literal(engine, n if alone else n % FIRSTS)}, {n}, '{'damaged' if side == 'target' and n == 7_007 else n % 100}')"
            for n in numbers[start : start + 2_048]
        )
        tables.execute(engine, f"INSERT INTO {name} VALUES {values}")
    tables.execute(engine, f"ANALYZE {'TABLE ' if engine.dialect == 'mysql' else ''}{name}")


def perform(pair: LivePair, names: Mapping[Side, str], key: list[str], prescan: bool | None) -> Report:
    ends = {side: {"connection": side, "table": names[side]} for side in SIDES}
    audit = Audit.model_validate({**ends, "key": key, "prescan": prescan})
    connections: dict[str, ConnectionSettings] = {side: ConnectionSettings(url=getattr(pair, side).url) for side in SIDES}
    return audit_run.perform("t", audit, connections).report


def found(report: Report) -> Any:
    assert report.differences, report.reasons
    differences = report.differences
    return report.verdict, (differences.missing, differences.extra, differences.changed), len(differences.named)


@pytest.mark.quick_for(
    "uuid-True", "bytes-True", "fractions-True", "digits by their numbers-True", "padded-True", "time-True", "year-False", "label-False"
)
@pytest.mark.parametrize("pair", chosen_pairs(*PAIRS), indirect=True)
@pytest.mark.parametrize(("name", "alone"), CASES)
@pytest.mark.few
def test_only_what_differs_is_named(pair: LivePair, name: str, alone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = TYPES[name]
    monkeypatch.setattr("auditor.planning.prescan.MOST_IN_LARGE", 1.0)  # stretches of any size are read
    names: dict[Side, str] = {side: f"key_types_{side}" for side in SIDES}
    for side in SIDES:
        make(getattr(pair, side), names[side], kind, alone, side)
    for prescan in (None, True):
        report = perform(pair, names, ["k"] if alone else ["k", "n"], prescan)
        assert found(report) == (Verdict.MISMATCH, (1, 1, 1), 3), report.differences
        kinds = {one.kind: one.key.get("n", one.key["k"]) for one in report.differences.named} if report.differences else {}
        assert alone or kinds == {"missing": "4444", "extra": str(ROWS), "changed": "7007"}
