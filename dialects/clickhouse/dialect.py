"""ClickHouse 24.8 and later, over HTTP: tables of the MergeTree family, read with FINAL, and views of them.

https://clickhouse.com/docs/sql-reference
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from dialects.base import Dialect, Session
from dialects.clickhouse import login, settings
from dialects.clickhouse.catalogue import ClickHouseCatalogue
from dialects.clickhouse.expressions import (
    WIDEST_DIGITS,
    ClickHouseCanonical,
    ClickHouseHashes,
    ClickHouseNames,
    ClickHouseNumbers,
    ClickHouseText,
    ClickHouseTimes,
)
from dialects.clickhouse.login import ClickHouseAddresses
from dialects.clickhouse.server import ClickHouseServer
from dialects.clickhouse.session import ClickHouseSession
from dialects.clickhouse.table_parts import MergeTreeParts
from dialects.errors import StatementRefused
from dialects.kinds import Kind, parse_native
from dialects.oldest_versions import OldestVersion
from dialects.table_form import TableForm
from dialects.types import Types
from dialects.url import Url

INTEGER = Kind("integer")

OLDEST = OldestVersion("ClickHouse", "24.8", "the analyzer and the settings that statements rest on")


class ClickHouseTypes(Types):
    """The types of ClickHouse. https://clickhouse.com/docs/sql-reference/data-types"""

    MAX_DECIMAL_DIGITS = WIDEST_DIGITS

    KIND_BY_TYPE = {
        "bool": Kind("boolean"), "int8": INTEGER, "int16": INTEGER, "int32": INTEGER, "int64": INTEGER,
        "uint8": INTEGER, "uint16": INTEGER, "uint32": INTEGER, "uint64": Kind("integer", unsigned=True),
        "int128": Kind("decimal", 39, 0), "uint128": Kind("decimal", 39, 0), "int256": Kind("decimal", 77, 0),
        "uint256": Kind("decimal", 78, 0), "decimal": Kind("decimal", 10, 0), "float32": Kind("float32"), "float64": Kind("float64"),
        "string": Kind("text"), "fixedstring": Kind("binary"), "date": Kind("date"), "date32": Kind("date"), "uuid": Kind("uuid"),
        "ipv4": Kind("network"), "ipv6": Kind("network"),
    }  # fmt: skip
    """A DateTime is a moment, whatever zone it is shown in. Arrays, tuples, maps, documents, variants and states of aggregates have no
    canonical text."""

    TYPE_BY_KIND = {
        "boolean": "Bool", "integer": "Int64", "unsigned integer": "UInt64",
        "decimal": "Decimal({digits},{scale})", "float32": "Float32", "float64": "Float64",
        "text": "String", "char": "String", "json": "String", "enum": "String",
        "set": "String", "binary": "FixedString({digits})", "year": "UInt16", "date": "Date32",
        "timestamp": "DateTime64({scale},'UTC')", "timestamptz": "DateTime64({scale},'UTC')",
        "uuid": "UUID", "network": "String",
    }  # fmt: skip

    UNSUPPORTED_VALUES = {
        "bit": "there is no type of bit strings",
        "time": "Time and Time64 are newer than most servers, and not read",
        "interval": "no column may have an interval",
    }

    def native_type(self, kind: Kind) -> str:
        if kind.name == "binary" and kind.digits is None:
            raise LookupError(
                f"{self.engine} has no type for {kind}: a String is bytes as well, and its catalogue does not say which it holds"
            )
        return super().native_type(kind)

    def typed_value(self, value: str, kind: Kind) -> str:
        if kind.name == "decimal" and re.fullmatch(r"-?[\d.]+", value):
            value = f"'{value}'"  # else it would be read as a double before it is cast
        if kind.name == "timestamptz":
            value = value.replace("+00:00'", "'")  # a cast takes no offset, and makes NULL of a text with one
        return super().typed_value(value, kind)

    def temporary_table(self, name: str, columns: Sequence[tuple[str, Kind]], rows: Sequence[Sequence[str]]) -> list[str]:
        raise StatementRefused("a request of ClickHouse's HTTP interface is a session of its own, which has no temporary tables")

    def kind(self, native: str) -> Kind | None:
        plain = native.strip()
        while wrapped := re.fullmatch(r"(?:Nullable|LowCardinality)\((.*)\)", plain, re.IGNORECASE | re.DOTALL):
            plain = wrapped[1].strip()
        if re.match(r"Enum(?:8|16)?\(", plain, re.IGNORECASE):
            return Kind("enum")
        if moment := re.fullmatch(r"DateTime(?:64\((\d)(?:, *'[^']*')?\)|(?:32)?(?:\('[^']*'\))?)", plain, re.IGNORECASE):
            return Kind("timestamptz", scale=int(moment[1] or 0))
        parsed = parse_native(plain)
        return None if parsed is None or parsed.suffix else super().kind(plain)


class ClickHouse(Dialect):
    """ClickHouse."""

    name = "clickhouse"
    schemes: ClassVar[tuple[str, ...]] = ("clickhouse",)
    sqlglot_dialect = "clickhouse"
    TEMPLATES = "sql_templates.clickhouse"
    DRIVERS = {"clickhouse_connect": "clickhouse-connect"}

    ROW_STORE = False
    READ_CONSISTENCY = "each statement reads the parts of the table that are there when it begins, and no snapshot spans several"

    names = ClickHouseNames()
    text = ClickHouseText(names)
    numbers = ClickHouseNumbers(text)
    times = ClickHouseTimes(numbers)
    canonical = ClickHouseCanonical(times)
    hashes = ClickHouseHashes(canonical)
    types = ClickHouseTypes(name)
    addresses = ClickHouseAddresses(name)
    catalogue = ClickHouseCatalogue()
    server = ClickHouseServer()
    files = MergeTreeParts()
    TABLE_FORM: ClassVar[TableForm] = TableForm(
        create_schema="CREATE DATABASE {schema}", drop_schema="DROP DATABASE {schema}", enforces_keys=False, backslash_escapes=True
    )

    def pin_statements(self, statement_timeout: float, lock_timeout: float = 10.0) -> list[str]:
        # Sessions send them with each request; a console takes them as statements.
        pinned = settings.PINNED | settings.timeouts(statement_timeout, lock_timeout)
        return [f"SET {name} = {self.names.string_literal(value)}" for name, value in pinned.items()]

    def connect(self, url: Url, statement_timeout: float, lock_timeout: float = 10.0) -> Session:
        login.check(url)
        session = ClickHouseSession(self, url)
        try:
            OLDEST.check(session.server.removeprefix("ClickHouse "), str(url))
        except Exception:
            session.close()
            raise
        session.pin(statement_timeout, lock_timeout)
        return session
