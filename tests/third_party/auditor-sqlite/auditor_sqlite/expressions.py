"""SQLite's SQL: https://www.sqlite.org/lang.html"""

from __future__ import annotations

from dialects import Canonical, HashAlgorithm, Hashes, Kind, Names, Numbers, Text, Times, TimeUnit


class SQLiteNames(Names):
    def date_literal(self, text: str) -> str:
        return self.string_literal(text)

    def timestamp_literal(self, text: str) -> str:
        return self.string_literal(self.written_time(text))

    def written_time(self, text: str) -> str:
        written = super().written_time(text)
        return written.rstrip("0").rstrip(".") if "." in written else written  # times are texts, which are compared as such


class SQLiteText(Text):
    TEXT_TYPE = "TEXT"

    def bytewise(self, c: str) -> str:
        return f"({c} COLLATE BINARY)"

    def length(self, c: str) -> str:
        return f"LENGTH({c})"

    def byte_length(self, c: str) -> str:
        return f"LENGTH(CAST({c} AS BLOB))"

    def left(self, c: str, count: int) -> str:
        return f"SUBSTR({c}, 1, {count})"

    def cut_end(self, text: str, count: int) -> str:
        return f"SUBSTR({text}, 1, LENGTH({text}) - {count})"

    def trim(self, c: str) -> str:
        return f"TRIM({c}, ' ')"

    def lower(self, c: str) -> str:
        return f"LOWER({c})"  # the letters A to Z alone: https://www.sqlite.org/lang_corefunc.html#lower

    def upper(self, c: str) -> str:
        return f"UPPER({c})"

    def hex_text(self, c: str) -> str:
        return f"CASE WHEN {c} IS NOT NULL THEN LOWER(HEX({c})) END"

    def utf8(self, text: str) -> str:
        return f"CAST({text} AS BLOB)"


class SQLiteNumbers(Numbers):
    def boolean_text(self, c: str, native: Kind) -> str:
        return f"CASE WHEN TYPEOF({c}) = 'text' THEN {c} WHEN {c} THEN '1' WHEN NOT {c} THEN '0' END"

    def decimal_text(self, c: str, scale: int, native: Kind) -> str:
        held = native.scale if native.name == "decimal" and native.scale is not None and native.scale <= scale else -1
        return f"auditor_decimal({c}, {scale}, {held})"

    def rounded_text(self, c: str, scale: int, native: Kind) -> str:
        return super().rounded_text(c, scale, native) if native.name == "float64" else f"auditor_units({c}, {scale})"

    def as_double(self, c: str) -> str:
        return f"auditor_double({c})"

    def as_single(self, c: str) -> str:
        return f"auditor_single({c})"

    def double_literal(self, value: str) -> str:
        return f"auditor_double('{value}')"

    def non_finite_branches(self, x: str) -> str:
        return f"WHEN {x} = 9e999 THEN 'Infinity' WHEN {x} = -9e999 THEN '-Infinity' "

    def number_sum(self, c: str, native: Kind) -> str:
        return f"auditor_sum({c})"

    def word(self, digits: str, first: int, count: int) -> str:
        return f"auditor_word({digits}, {first}, {count})"

    def floor_divide(self, c: str, divisor: int, native: Kind) -> str:
        return f"({c} / {divisor} - CASE WHEN {c} % {divisor} < 0 THEN 1 ELSE 0 END)"


class SQLiteTimes(Times):
    UTC_NOW = "STRFTIME('%Y-%m-%d %H:%M:%f', 'now')"
    LAST_YEAR = 9999

    def date_text(self, c: str) -> str:
        return c

    def date_kind_text(self, kind: Kind, c: str, native: Kind) -> str:
        if native.name == "date":
            return c
        return self.with_last_moment(kind, c, native, f"SUBSTR({self.rounded_time(kind, c, native)}, 1, 10)", "")

    def time_text(self, c: str) -> str:
        return f"auditor_clock({c})"

    def rounded_clock_text(self, c: str, half: int, native: Kind) -> str:
        last = f"23:59:59.{1_000_000 - half // 1000:06}"
        return f"CASE WHEN {self.time_text(c)} >= '{last}' THEN '24:00:00.000000' ELSE {self.time_text(self.later(c, half, native))} END"

    def timestamp_text(self, c: str, native: Kind, digits: int | None = None) -> str:
        return f"auditor_moment({c}, {'NULL' if digits is None else digits})"

    def later(self, c: str, nanoseconds: int, native: Kind) -> str:
        return f"auditor_later({c}, {nanoseconds // 1000})"

    def wall_time(self, c: str, native: Kind, zone: str) -> str:
        return f"auditor_wall({c}, {self.names.string_literal(zone)})"

    def seconds_since(self, c: str) -> str:
        return f"(JULIANDAY('now') - JULIANDAY({c})) * 86400.0"

    def day_index(self, c: str) -> str:
        return f"(CAST(STRFTIME('%s', SUBSTR({c}, 1, 10)) AS INTEGER) / 86400)"

    def time_index(self, c: str, unit: TimeUnit) -> str:
        year, month, hour = (f"CAST(SUBSTR({c}, {first}, {count}) AS INTEGER)" for first, count in ((1, 4), (6, 2), (12, 2)))
        match unit:
            case "day":
                return self.day_index(c)
            case "hour":
                return f"({self.day_index(c)} * 24 + {hour})"
            case "month":
                return f"(({year} - 1970) * 12 + {month} - 1)"


class SQLiteCanonical(Canonical):
    def json_text(self, c: str, native: Kind) -> str:
        return f"auditor_json({c})"


class SQLiteHashes(Hashes):
    def row_hash(self, text: str, algorithm: HashAlgorithm) -> str:
        return f"auditor_{algorithm}({text})"

    def byte_count(self, kind: Kind, c: str, native: Kind) -> str:
        return f"LENGTH({self.hashed_bytes(kind, c, native)})"
