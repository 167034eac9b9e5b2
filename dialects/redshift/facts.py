"""Facts of Redshift that its manual leaves open, or on which this engine's SQL rests, as `auditor certify` asks a cluster for them.

What must be is what statements rely on. What an answer shows is what would let them be simpler: they are right either way.
"""

from __future__ import annotations

from dialects.facts import Fact

FACTS = (
    Fact(
        "The product",
        "SELECT VERSION()",
        shows="the version, to be named with each report",
    ),
    Fact(
        "Fifteen digits make a number",
        "SELECT STRTOL('fffffffffffffff', 16)",
        expected="1152921504606846975",
    ),
    Fact(
        "SHA-256 of UTF-8, in small letters",
        "SELECT SHA2('é', 256)",
        expected="4a99557e4033c3539de2eb65472017cad5f9557f7a0625a09f1c3f6e2ba69c4c",
    ),
    Fact(
        "MD5 of UTF-8, which the published encoding needs",
        "SELECT MD5('é')",
        expected="66ddcd97cfdeabb2f6fb8a999b4bc76f",
    ),
    Fact(
        "Remainders in 64 bits",
        "SELECT CAST(4611686018427387904 AS BIGINT) % CAST(2147483647 AS BIGINT)",
        expected="1",
    ),
    Fact(
        "Whether a remainder by an integer is an integer",
        "SELECT (CAST(2147483646 AS BIGINT) % 2147483647) * (CAST(2147483646 AS BIGINT) % 2147483647)",
        shows="`4611686009837453316`, or an overflow, which casts to BIGINT prevent",
    ),
    Fact(
        "Sums of 64-bit numbers",
        "SELECT SUM(n) FROM (SELECT CAST(9223372036854775807 AS BIGINT) AS n UNION ALL SELECT CAST(1 AS BIGINT) AS n) numbers",
        shows="`9223372036854775808`, or an overflow, which a cast to DECIMAL(38,0) prevents",
    ),
    Fact(
        "Rounding a whole number",
        "SELECT CAST(ROUND(CAST(9007199254740993 AS DECIMAL(19,0)), 0) AS DECIMAL(38,0))",
        expected="9007199254740993",
    ),
    Fact(
        "Bits of a float",
        "SELECT CAST(CAST('0.1' AS DOUBLE PRECISION) * POWER(CAST('2' AS DOUBLE PRECISION), 56) AS BIGINT)",
        expected="7205759403792794",
    ),
    Fact(
        "Whether NaN equals itself",
        "SELECT CAST('NaN' AS DOUBLE PRECISION) = CAST('NaN' AS DOUBLE PRECISION)",
        shows="true as in PostgreSQL, or false as in IEEE 754",
    ),
    Fact(
        "Blanks at the end of a text",
        "SELECT COUNT(*) FROM (SELECT c"
        " FROM (SELECT CAST('a' AS VARCHAR(9)) AS c UNION ALL SELECT CAST('a ' AS VARCHAR(9)) AS c) texts GROUP BY c) grouped",
        shows="`1`, as trailing blanks mean nothing in GROUP BY; with `2` they do",
    ),
    Fact(
        "Bytes count every blank",
        "SELECT TO_VARBYTE('a', 'utf8') = TO_VARBYTE('a ', 'utf8')",
        expected="False",
    ),
    Fact(
        "Hexadecimal digits of bytes",
        "SELECT LOWER(FROM_VARBYTE(TO_VARBYTE('ff00', 'hex'), 'hex'))",
        expected="ff00",
    ),
    Fact(
        "JSON documents",
        'SELECT JSON_SERIALIZE(JSON_PARSE(\'{"b": [1, 2.50], "a": null}\'))',
        shows='the order of keys, and whether 2.50 stays: `{"b":[1,2.50],"a":null}`',
    ),
    Fact(
        "Microseconds",
        "SELECT TO_CHAR(CAST('2024-02-29 13:04:05.000007' AS TIMESTAMP), 'YYYY-MM-DD HH24:MI:SS.US')",
        expected="2024-02-29 13:04:05.000007",
    ),
    Fact(
        "Backslashes in literals",
        "SELECT LEN(CHR(92) || 'n')",
        expected="2",
    ),
    Fact(
        "NULL of no type",
        "SELECT MIN(k) FROM (SELECT NULL AS k) rows_without_type",
        shows='the error `failed to find conversion function from "unknown" to text`, which casts prevent, or nothing.',
    ),
    Fact(
        "Days",
        "SELECT CAST('1969-12-31' AS DATE) - DATE '1970-01-01'",
        expected="-1",
    ),
    Fact(
        "What a row count costs",
        "SELECT COUNT(*) FROM svv_table_info",
        shows="whether this user sees the view of tables at all; `permission denied` means that rows are estimated by ANALYZE",
    ),
    Fact(
        "What ran, and how long it waited",
        "SELECT status, queue_time, elapsed_time, LEFT(query_text, 60) FROM sys_query_history ORDER BY start_time DESC LIMIT 20",
        shows="times in microseconds. The report of a run has their sums over its own sessions (`auditor run --verbose`); on"
        " Serverless each second counts",
    ),
)
