"""Every type of column of MySQL and MariaDB, with the edges of its values, as a binary log has to be decoded to."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PRINTED = "CAST({c} AS CHAR)"
CHARACTERS = "CONVERT({c} USING utf8mb4)"
DIGITS = "LOWER(HEX({c}))"
NUMBER = "CAST({c} + 0 AS CHAR)"
SINGLE = "CAST({c} + 0e0 AS DOUBLE)"
"""What the server prints of a FLOAT has six digits only."""

INTEGERS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
DECIMALS = [(1, 0), (1, 1), (5, 2), (9, 9), (10, 0), (12, 2), (18, 9), (19, 10), (20, 1), (38, 10), (65, 0), (65, 30), (30, 30), (65, 7)]
TIMES = ["838:59:59", "-838:59:59", "00:00:00", "-00:00:01", "-00:00:00.5", "12:34:56.123456", "-12:34:56.123456", "-00:00:00.000001"]
DATETIMES = ["2024-02-29 23:59:59.999999", "0000-00-00 00:00:00", "2024-00-10 01:02:03", "1000-01-01 00:00:00", "9999-12-31 23:59:58.4",
             "1969-07-20 20:17:40.123456"]  # fmt: skip
TIMESTAMPS = ["2024-02-29 23:59:59.999999", "1970-01-01 00:00:01", "2038-01-19 03:14:07", "0000-00-00 00:00:00", "2000-01-01 00:00:00.05"]


@dataclass(frozen=True)
class Sample:
    """A column: its type, how the server prints its values, and SQL of some of them."""

    type: str
    """Its type in CREATE TABLE."""
    printed: str
    """SQL of the text that the server prints for the column ``{c}``."""
    values: Sequence[str]
    """SQL of values."""
    logged: str | None = None
    """The type as a schema has it, where it is not the one above."""

    def is_text_of(self, text: str | None, printed: object) -> bool:
        """Return whether a decoded value is what the server prints; a FLOAT is compared as the number that it is."""
        if self.printed is SINGLE and text is not None and printed is not None:
            return struct.pack("<f", float(text)) == struct.pack("<f", printed)
        return text == (printed.decode() if isinstance(printed, bytes) else printed)


def _quoted(values: Sequence[str]) -> list[str]:
    return ["NULL", *(f"'{value}'" for value in values)]


def _decimals(digits: int, scale: int) -> list[str]:
    largest = ("9" * (digits - scale) or "0") + ("." + "9" * scale if scale else "")
    return ["0", largest, f"-{largest}", "NULL", f"0.{'0' * (scale - 1)}1" if scale else "-7"]


NUMBERS = [
    *(Sample(name, PRINTED, [str(-(1 << bits - 1)), str((1 << bits - 1) - 1), "0", "-1", "NULL"]) for name, bits in INTEGERS.items()),
    Sample("year", PRINTED, ["2024", "0", "1901", "2155"]),  # has a bit among the signs: what follows it proves that
    *(Sample(f"{name} unsigned", PRINTED, [str((1 << bits) - 1), "0", "NULL"]) for name, bits in INTEGERS.items()),
    Sample("int(5) zerofill", NUMBER, ["42"], "int unsigned"),
    *(Sample(f"decimal({digits},{scale})", PRINTED, _decimals(digits, scale)) for digits, scale in DECIMALS),
    Sample("decimal(10,2) unsigned", PRINTED, ["99999999.99"]),
    Sample("float", SINGLE, ["0", "1.5", "-1.1", "3.4028234e38", "1.17549e-38", "16777217", "0.1", "1e20", "1e-7", "123456.7", "NULL"]),
    Sample("double", PRINTED, ["0", "1.5", "0.1", "-1.7976931348623157e308", "2.2250738585072014e-308", "5e-324", "1e22", "1e14", "1e15",
                               "3231814999999999.5e0", "123456789012345678", "1e-14", "1e-15",
                               "1.5e-5", "123456.789e3", "9007199254740993", "1e16", "NULL"]),
    Sample("float unsigned", SINGLE, ["2.5"]),
    *(Sample(f"bit({size})", NUMBER, [f"b'{'1' * size}'", "b'1'", "b'0'", "NULL"]) for size in (1, 7, 8, 9, 64)),
]  # fmt: skip
MOMENTS = [
    Sample("date", PRINTED, _quoted(["2024-02-29", "0000-00-00", "2024-00-10", "1000-01-01", "9999-12-31", "2024-05-00"])),
    *(Sample(f"datetime({digits})" if digits else "datetime", PRINTED, _quoted(DATETIMES)) for digits in range(7)),
    *(Sample(f"timestamp({digits}) null", PRINTED, _quoted(TIMESTAMPS), f"timestamp({digits})") for digits in range(1, 7)),
    Sample("timestamp null", PRINTED, _quoted(TIMESTAMPS), "timestamp"),
    *(Sample(f"time({digits})" if digits else "time", PRINTED, _quoted(TIMES)) for digits in range(7)),
]
TEXTS = [
    Sample("char(10) character set utf8mb4", CHARACTERS, ["'a b '", "''", "'äöü😀'", "NULL"], "char(10)"),
    Sample("char(255) character set utf8mb4", CHARACTERS, ["repeat('😀', 255)"], "char(255)"),
    Sample("varchar(300) character set latin1", CHARACTERS, ["'äöü€'", "repeat('ß', 300)"], "varchar(300)"),
    Sample("varchar(5000) character set utf8mb4", CHARACTERS, ["repeat('x', 5000)", "'a b '", "NULL"], "varchar(5000)"),
    Sample("tinytext", CHARACTERS, ["'abc'"]),
    Sample("text", CHARACTERS, ["repeat('ab', 30000)", "''", "NULL"]),
    Sample("mediumtext", CHARACTERS, ["repeat('ab', 100000)"]),
    Sample("longtext character set utf8mb4", CHARACTERS, ["repeat('€', 100000)", "concat('a', char(0), 'b')"], "longtext"),
    Sample("binary(4)", DIGITS, ["x'00'", "x'01020300'", "x'0000ff00'", "x''", "NULL"]),
    Sample("binary(255)", DIGITS, ["x'01'", "x''"]),
    Sample("varbinary(10)", DIGITS, ["x'0100'", "x''"]),
    Sample("varbinary(1000)", DIGITS, ["x'ff'"]),
    Sample("tinyblob", DIGITS, ["x'00'"]),
    Sample("blob", DIGITS, ["x'fffe00'", "x''", "NULL"]),
    Sample("mediumblob", DIGITS, ["repeat(x'ff', 70000)"]),
    Sample("longblob", DIGITS, ["repeat(x'00', 70000)"]),
    Sample("geometry", DIGITS, ["ST_GeomFromText('POINT(1 2)')", "NULL"]),
    Sample("varchar(7) character set ucs2", CHARACTERS, ["'aä'"], "varchar(7)"),  # in MySQL a geometry before it has no character set
    Sample("polygon", DIGITS, ["ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))')"]),
    Sample("enum('a','b''c','ü') character set utf8mb4", CHARACTERS, ["'a'", "'ü'", "'b''c'", "NULL", "'none'"], "enum('a','b''c','ü')"),
    Sample("enum('x','ä') character set latin1", CHARACTERS, ["'ä'"], "enum('x','ä')"),
    Sample("set('a','b','c')", CHARACTERS, ["'a,c'", "''", "'a,b,c'", "NULL"]),
    Sample("set('ä','b') character set latin1", CHARACTERS, ["'ä,b'"], "set('ä','b')"),
    Sample("enum(" + ",".join(f"'v{number}'" for number in range(300)) + ")", CHARACTERS, ["'v299'"]),
    Sample("set(" + ",".join(f"'s{number}'" for number in range(64)) + ")", CHARACTERS, ["'s63'", "'s0,s33'"]),
]  # fmt: skip
DOCUMENTS = [
    "'null'", "'{}'", "'[]'", "NULL", "'1.0'", "'1e20'", "'1e300'", "'-1e-7'", "'18446744073709551615'", "'-9223372036854775808'",
    "'70000'", "'-70000'", "'5000000000'", "'\"\"'", "CAST(CAST(12.340 AS DECIMAL(65,30)) AS JSON)",
    """'{"a": 1, "bb": [1, 2.5, -3, true, false, null, "x\\\\u0001\\\\n\\\\"é😀/"], "": {"c": {}}}'""",
    "CAST(CAST('2024-02-29' AS DATE) AS JSON)", "CAST(CAST('-12:34:56.7' AS TIME(6)) AS JSON)",
    "CAST(TIMESTAMP'2024-02-29 01:02:03.000004' AS JSON)", "JSON_ARRAY(x'00ff', b'101')",
    "CONCAT('[', REPEAT('\"abcdefghij\",', 8000), '1]')", "CONCAT('{\"k\":\"', REPEAT('y', 70000), '\"}')",
    "JSON_OBJECT('a', 5, 'b', 70000, 'c', JSON_ARRAY(REPEAT('z', 70000), -100000, 3000000000, 1.5, 's'))",
    "JSON_ARRAY(0.00001, 1e-5, 123456789012345680000, 1e16, 1e15, 1.5e14, 0.1, 100.0, -0.0e0, 3231814999999999.5e0)",
    "JSON_ARRAY('\\t\\b\\f\\r\\\\', '\\u2028')",
]  # fmt: skip
OWN = {
    "mysql": [Sample("json", PRINTED, DOCUMENTS)],
    "mariadb": [
        Sample("json", CHARACTERS, ["'{\"a\":  1}'"], "longtext"),
        Sample("text compressed character set utf8mb4", CHARACTERS, ["repeat('äb', 1000)", "'short'", "''", "NULL"], "text"),
        Sample("blob compressed", DIGITS, ["repeat(x'ff', 1000)", "x''", "x'00'"], "blob"),
        Sample("varchar(1000) compressed character set utf8mb4", CHARACTERS, ["repeat('äb', 300)", "'s'", "''"], "varchar(1000)"),
        Sample("varbinary(200) compressed", DIGITS, ["repeat(x'ff', 200)", "x'00'"], "varbinary(200)"),
        Sample("longtext compressed", CHARACTERS, ["repeat('ab', 100000)"], "longtext"),
    ],
}

KINDS = ("numbers", "moments", "texts", "own")
"""Groups of types, each of one table."""


def samples_of(engine: str, kinds: str) -> Sequence[Sample]:
    """Return the samples of mysql or mariadb, of one of KINDS."""
    own = OWN[engine.removesuffix("_new")]
    shared: Mapping[str, Sequence[Sample]] = {"numbers": NUMBERS, "moments": MOMENTS, "texts": TEXTS, "own": own}
    return shared[kinds]
