"""DuckDB's SQL.

https://duckdb.org/docs/stable/sql/functions/overview
"""

from __future__ import annotations

from dialects import nested
from dialects.canonical import Canonical
from dialects.catalogue import HashAlgorithm
from dialects.hashes import Hashes
from dialects.kinds import Kind
from dialects.names import Names
from dialects.numbers import Numbers
from dialects.text import Text
from dialects.times import BC, MICROSECOND, MOST_MICROSECONDS, Times

HUGEINT = Kind("decimal", 39, 0)
"""The kind of integers of 128 bits; no decimal of DuckDB has as many digits."""


class DuckDBNames(Names):
    """How DuckDB writes names and literals."""

    def string_literal(self, value: str) -> str:
        if "\0" in value:  # which would end the statement
            return f"DECODE({self.binary_literal(value.encode())})"
        return super().string_literal(value)

    def written_time(self, text: str) -> str:
        day, _, clock = super().written_time(text).removesuffix(BC).partition(" ")
        return f"{day} (BC){' ' if clock else ''}{clock}" if text.endswith(BC) else text

    def timestamp_literal(self, text: str) -> str:
        # TIMESTAMP holds microseconds; what has more digits is compared with a column of nanoseconds.
        return f"TIMESTAMP_NS '{text}'" if len(text.partition(".")[2]) > 6 else super().timestamp_literal(text)

    def binary_literal(self, value: bytes) -> str:
        return f"UNHEX('{value.hex()}')"


class DuckDBText(Text):
    """What DuckDB does with texts."""

    def cut_end(self, text: str, count: int) -> str:
        return f"LEFT({text}, -{count})"

    def characters(self, c: str) -> str:
        return self.bytewise(f"CAST({c} AS VARCHAR)")  # texts of two collations do not combine

    def bytewise(self, c: str) -> str:
        return f"({c} COLLATE C)"

    def trim(self, c: str) -> str:
        return f"TRIM({c}, ' ')"

    def utf8(self, text: str) -> str:
        return f"ENCODE({text})"

    def byte_length(self, c: str) -> str:
        return f"STRLEN({c})"


class DuckDBNumbers(Numbers):
    """What DuckDB does with numbers."""

    MIN_CALCULATED_DIGITS = 19  # the sum or product of two decimals of up to 18 digits has at most 18

    def decimal_text(self, c: str, scale: int, native: Kind) -> str:
        if scale == 0 and native.scale == 0:
            return self.text.as_text(c)
        # DECIMAL(p,p) would show no digit before the point.
        return self.text.as_text(f"CAST({c} AS DECIMAL(38,{scale}))")

    def as_number(self, c: str, native: Kind) -> str:
        if native.name != "bit":
            return c
        # A cast to BIGINT would make 2^63 and more negative; no integer of any engine has more than 127 bits.
        bits = f"('0' || LTRIM(CAST({c} AS VARCHAR), '0'))"
        return f"CASE WHEN LENGTH({bits}) > 128 THEN CAST({1 << 127} AS UHUGEINT) ELSE CAST(CAST({bits} AS BIT) AS UHUGEINT) END"

    def word(self, digits: str, first: int, count: int) -> str:
        return f"CAST('0x' || SUBSTR({digits}, {first}, {count}) AS BIGINT)"

    def floor_divide(self, c: str, divisor: int, native: Kind) -> str:
        if native.unsigned or native.name == "decimal":
            wide = f"CAST({c} AS HUGEINT)"
            return f"CAST({wide} // {divisor} - CASE WHEN {wide} % {divisor} < 0 THEN 1 ELSE 0 END AS BIGINT)"
        return self.as_bigint(f"{c} // {divisor} - CASE WHEN {c} % {divisor} < 0 THEN 1 ELSE 0 END")

    def number_sum(self, c: str, native: Kind) -> str:
        # The sum of a UHUGEINT would be a double.
        return f"SUM(CAST({c} AS HUGEINT))" if native.digits == HUGEINT.digits else f"SUM({c})"


class DuckDBTimes(Times):
    """What DuckDB does with dates and times."""

    TIME_ROUNDING = "half from 1970"
    """A cast to TIMESTAMP_MS or TIMESTAMP_S, and from TIMESTAMP_NS, rounds the number since 1970; a half goes away from zero."""
    UTC_NOW = "MAKE_TIMESTAMP(EPOCH_US(NOW()))"

    def date_text(self, c: str) -> str:
        # STRFTIME formats years before Christ as negative numbers; the canonical form is PostgreSQL's, "0044-03-15 BC".
        return f"REPLACE(CAST({c} AS VARCHAR), ' (BC)', ' BC')"

    def time_text(self, c: str) -> str:
        text = f"CAST({c} AS VARCHAR)"
        return f"CASE WHEN LENGTH({text}) = 8 THEN {text} || '.000000' ELSE RPAD({text}, 15, '0') END"

    def short_time_text(self, c: str, native: Kind) -> str:
        return f"CAST({c} AS VARCHAR)"

    def timestamp_text(self, c: str, native: Kind, digits: int | None = None) -> str:
        at = f"({c} AT TIME ZONE 'UTC')" if native.name == "timestamptz" else c
        if native.scale is not None and native.scale < 6:  # STRFTIME would take them as nanoseconds, which end with the year 2262
            at = f"CAST({c} AS TIMESTAMP)"
        if digits is None or (native.scale is not None and native.scale <= digits):
            whole = f"CAST({at} AS VARCHAR)"
            early = f"REPLACE({whole}, ' (BC)', '') || '{BC}'"
            return f"CASE WHEN {at} < '0001-01-01' AND ISFINITE({at}) THEN {early} ELSE {whole} END" if native.scale != 9 else whole
        if native.scale == 9:  # years 1677 to 2262
            plain = self.cut_fraction(f"STRFTIME({at}, '%Y-%m-%d %H:%M:%S.%n')", digits, 9)
            return f"CASE WHEN ISFINITE({at}) THEN {plain} ELSE CAST({at} AS VARCHAR) END"
        plain = self.cut_fraction(f"STRFTIME({at}, '%Y-%m-%d %H:%M:%S.%f')", digits)
        clock = self.cut_fraction(f"STRFTIME({at}, ' %H:%M:%S.%f')", digits)
        early = f"REPLACE(CAST(CAST({at} AS DATE) AS VARCHAR), ' (BC)', '') || {clock} || '{BC}'"
        other = f"WHEN ISFINITE({at}) THEN {early} ELSE CAST({at} AS VARCHAR) END"
        return f"CASE WHEN {self.is_common_era(at)} THEN {plain} {other}"

    def is_common_era(self, c: str) -> str:
        return f"{c} >= '0001-01-01' AND {c} < 'infinity'"

    def later(self, c: str, nanoseconds: int, native: Kind) -> str:
        if native.scale == 9:
            return f"CASE WHEN ISFINITE({c}) THEN MAKE_TIMESTAMP_NS(EPOCH_NS({c}) + {nanoseconds}) ELSE {c} END"
        return f"({c} + INTERVAL {nanoseconds // MICROSECOND} MICROSECOND)"

    def day_index(self, c: str) -> str:
        return f"DATE_DIFF('day', DATE '1970-01-01', CAST({c} AS DATE))"

    def microseconds(self, c: str, native: Kind) -> str:
        if native.name == "time":
            return f"EPOCH_US({c})"
        return f"CASE WHEN ISFINITE({c}) THEN EPOCH_US({c}) WHEN {c} IS NOT NULL THEN {MOST_MICROSECONDS} END"

    def seconds_since(self, c: str) -> str:
        return f"EPOCH(NOW()) - EPOCH({c})"


class DuckDBCanonical(Canonical):
    """How DuckDB writes canonical text."""

    def interval_text(self, c: str, native: Kind) -> str:
        months = f"CAST(DATEPART('year', {c}) * 12 + DATEPART('month', {c}) AS BIGINT)"
        clock = f"DATEPART('hour', {c}) * 3600000000 + DATEPART('minute', {c}) * 60000000 + DATEPART('microsecond', {c})"
        days = f"CAST(DATEPART('day', {c}) AS BIGINT)"
        return self.text.concat([months, "'m'", days, "'d'", f"CAST({clock} AS BIGINT)", "'us'"])

    def json_text(self, c: str, native: Kind) -> str:
        if native.name == "nested":
            json = f"CASE WHEN {c} IS NOT NULL THEN CAST(TO_JSON({self._in_key_order(c, native)}) AS VARCHAR) END"
            return nested.with_small_digits(json, self.text.replace)
        return rf"""REGEXP_REPLACE(CAST({c} AS VARCHAR), '("(?:[^"\\]|\\.)*")|\s+', '\1', 'g')"""

    def _in_key_order(self, c: str, native: Kind, depth: int = 0) -> str:
        """An array or struct with the fields of every struct in the order of a JSON document's keys."""
        if not nested.has_struct(native):
            return c
        if not native.members[0][0]:
            x = f"x{depth}"
            return f"LIST_TRANSFORM({c}, LAMBDA {x}: {self._in_key_order(x, native.members[0][1], depth + 1)})"
        names = [(self.names.string_literal(name), kind) for name, kind in nested.in_key_order(native)]
        fields = [f"{name}: {self._in_key_order(f'STRUCT_EXTRACT({c}, {name})', kind, depth)}" for name, kind in names]
        return f"CASE WHEN {c} IS NOT NULL THEN {{{', '.join(fields)}}} END"


class DuckDBHashes(Hashes):
    """How DuckDB hashes texts."""

    def row_hash(self, text: str, algorithm: HashAlgorithm) -> str:
        return f"MD5({text})" if algorithm == "md5" else f"SHA256({text})"
