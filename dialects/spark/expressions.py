"""Spark's SQL.

https://spark.apache.org/docs/latest/api/sql/
https://spark.apache.org/docs/latest/sql-ref-syntax-qry-select.html
"""

from __future__ import annotations

from collections.abc import Sequence

from dialects import nested
from dialects.canonical import Canonical
from dialects.catalogue import HashAlgorithm
from dialects.hashes import Hashes
from dialects.kinds import Kind
from dialects.names import Names
from dialects.numbers import Numbers
from dialects.text import Text
from dialects.times import BC, MICROSECOND, Times


class SparkNames(Names):
    """How Spark writes names and literals."""

    def quote(self, identifier: str) -> str:
        return "`" + identifier.replace("`", "``") + "`"

    def string_literal(self, value: str) -> str:
        # "${" would start a variable substitution, even in a literal.
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{") + "'"


class SparkText(Text):
    """What Spark does with texts."""

    TEXT_TYPE = "STRING"

    def trim_zeros(self, c: str) -> str:
        return f"TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM {c}))"

    def trim_right(self, c: str) -> str:
        return f"TRIM(TRAILING ' ' FROM {c})"

    def utf8(self, text: str) -> str:
        return f"ENCODE({text}, 'UTF-8')"

    def concat(self, parts: Sequence[str]) -> str:
        return f"CONCAT({', '.join(parts)})" if len(parts) > 1 else parts[0]

    def characters(self, c: str) -> str:
        return self.bytewise(c)  # texts of two collations do not combine

    def bytewise(self, c: str) -> str:
        return f"({c} COLLATE UTF8_BINARY)"


class SparkNumbers(Numbers):
    """What Spark does with numbers."""

    def decimal_text(self, c: str, scale: int, native: Kind) -> str:
        return self.text.as_text(f"CAST({c} AS DECIMAL(38,{scale}))")

    def word(self, digits: str, first: int, count: int) -> str:
        return f"CAST(CONV(SUBSTR({digits}, {first}, {count}), 16, 10) AS BIGINT)"

    def is_hexadecimal(self, digits: str) -> str:
        return f"{digits} RLIKE '^[0-9a-fA-F]+$'"

    def shift_right(self, c: str, bits: int) -> str:
        return f"SHIFTRIGHT({c}, {bits})"

    def number_sum(self, c: str, native: Kind) -> str:
        # Spark's sum of integers is a 64-bit integer, which could overflow.
        return f"SUM(CAST({c} AS DECIMAL(20,0)))" if native.name in ("integer", "year") else f"SUM({c})"

    def floor_divide(self, c: str, divisor: int, native: Kind) -> str:
        return f"({c} DIV {divisor} - CASE WHEN {c} % {divisor} < 0 THEN 1 ELSE 0 END)"  # DIV yields BIGINT


class SparkTimes(Times):
    """What Spark does with dates and times."""

    UTC_NOW = "CURRENT_TIMESTAMP()"

    def date_text(self, c: str) -> str:
        return self._with_era(c, f"DATE_FORMAT({c}, '-MM-dd')", self.text.as_text(c))

    def time_text(self, c: str) -> str:
        return f"DATE_FORMAT({c}, 'HH:mm:ss.SSSSSS')"

    def wall_time(self, c: str, native: Kind, zone: str) -> str:
        return f"FROM_UTC_TIMESTAMP({c}, {self.names.string_literal(zone)})"

    def timestamp_text(self, c: str, native: Kind, digits: int | None = None) -> str:
        is_cut = digits is not None and digits < 6
        pattern = "-MM-dd HH:mm:ss" + ("." + "S" * (digits or 0) if digits and is_cut else "" if is_cut else ".SSSSSS")
        after_year, whole = f"DATE_FORMAT({c}, '{pattern}')", f"DATE_FORMAT({c}, 'yyyy{pattern}')"
        if digits != 0:
            after_year, whole = self.text.trim_zeros(after_year), self.text.trim_zeros(whole)
        return self._with_era(c, after_year, whole if is_cut else self.text.as_text(c))  # a cast is faster, and prints no zeros at the end

    def _with_era(self, c: str, after_year: str, whole: str) -> str:
        """The text of a date or timestamp. Spark's years are signed: 0 is 1 BC, and those beyond 9999 have a plus."""
        early = f"CONCAT(LPAD(CAST(1 - YEAR({c}) AS STRING), 4, '0'), {after_year}, '{BC}')"
        return f"CASE WHEN YEAR({c}) < 1 THEN {early} ELSE TRIM(LEADING '+' FROM {whole}) END"

    def is_common_era(self, c: str) -> str:
        return f"YEAR({c}) >= 1"

    def later(self, c: str, nanoseconds: int, native: Kind) -> str:
        if native.name == "time":
            return f"({c} + INTERVAL '{nanoseconds / 1e9:.6f}' SECOND)"
        return f"TIMESTAMPADD(MICROSECOND, {nanoseconds // MICROSECOND}, {c})"

    def day_index(self, c: str) -> str:
        return f"DATEDIFF({c}, DATE'1970-01-01')"

    def microseconds(self, c: str, native: Kind) -> str:
        return f"UNIX_MICROS(CAST({c} AS TIMESTAMP))"  # the session's time zone is pinned to UTC

    def seconds_since(self, c: str) -> str:
        return f"(UNIX_MICROS(CURRENT_TIMESTAMP()) - UNIX_MICROS(CAST({c} AS TIMESTAMP))) / 1000000"


class SparkCanonical(Canonical):
    """How Spark writes canonical text."""

    def interval_text(self, c: str, native: Kind) -> str:
        if native.scale == 0:
            months = self.text.as_text(f"EXTRACT(YEAR FROM {c}) * 12 + EXTRACT(MONTH FROM {c})")
            return self.text.concat([months, "'m0d0us'"])
        micros = f"EXTRACT(HOUR FROM {c}) * 3600000000 + EXTRACT(MINUTE FROM {c}) * 60000000 + EXTRACT(SECOND FROM {c}) * 1000000"
        days = self.text.as_text(f"EXTRACT(DAY FROM {c})")
        return self.text.concat(["'0m'", days, "'d'", self.text.as_text(self.numbers.as_bigint(micros)), "'us'"])

    def json_text(self, c: str, native: Kind) -> str:
        if native.name == "json":
            return f"TO_JSON({c})"
        if native.name == "nested":
            json = f"TO_JSON({self._in_key_order(c, native)}, MAP('ignoreNullFields', 'false'))"
            return nested.with_small_digits(json, self.text.replace)
        return rf"""REGEXP_REPLACE({c}, '("(?:[^"\\\\]|\\\\.)*+")|\\s+', '$1')"""

    def _in_key_order(self, c: str, native: Kind, depth: int = 0) -> str:
        """An array or struct with the fields of every struct in the order of a JSON document's keys."""
        if not nested.has_struct(native):
            return c
        if not native.members[0][0]:
            x = f"x{depth}"
            return f"TRANSFORM({c}, {x} -> {self._in_key_order(x, native.members[0][1], depth + 1)})"
        fields = [
            f"{self.names.string_literal(name)}, {self._in_key_order(f'{c}.{self.names.quote(name)}', kind, depth)}"
            for name, kind in nested.in_key_order(native)
        ]
        return f"CASE WHEN {c} IS NOT NULL THEN NAMED_STRUCT({', '.join(fields)}) END"


class SparkHashes(Hashes):
    """How Spark hashes texts."""

    def row_hash(self, text: str, algorithm: HashAlgorithm) -> str:
        return f"MD5({text})" if algorithm == "md5" else f"SHA2({text}, 256)"
