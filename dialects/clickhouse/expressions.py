"""ClickHouse's SQL.

A String is any bytes, and so is what hashes; a function of characters has UTF8 in its name. Arithmetic of integers wraps around without an
error, and so do sums: both are widened here where they could reach their ends.
https://clickhouse.com/docs/sql-reference/functions
"""

from __future__ import annotations

from collections.abc import Sequence

from dialects.canonical import Canonical
from dialects.catalogue import HashAlgorithm, TimeUnit
from dialects.hashes import Hashes
from dialects.kinds import Kind
from dialects.names import Names
from dialects.numbers import Numbers
from dialects.text import ESCAPE, Text
from dialects.times import MICROSECOND, MIDNIGHT, Times

WIDEST_DIGITS = 76
"""The most digits of a decimal, Decimal256. https://clickhouse.com/docs/sql-reference/data-types/decimal"""

SAFE_DIGITS = 57
"""Digits of decimals of which 2^63 fit into the sum of Decimal256."""

SECONDS = (-2_208_988_800, 10_413_792_000)
"""Seconds from 1970 to the first moment that DateTime64 prints on every server, that of 1900, and to the one after the last, that of 2299.
Newer servers print the years 0 to 9999. A number beyond is printed as if it were the first or the last, or one near them.
https://clickhouse.com/docs/sql-reference/data-types/datetime64"""


class ClickHouseNames(Names):
    """How ClickHouse writes names and literals: a backslash begins an escape in both."""

    def quote(self, identifier: str) -> str:
        return '"' + identifier.replace("\\", "\\\\").replace('"', '\\"').replace("\0", "\\0") + '"'

    def string_literal(self, value: str) -> str:
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("\0", "\\0") + "'"

    def number_literal(self, digits: str) -> str:
        # Digits with a point, and more than 64 bits, are read as a double, also beside a decimal and in a CAST.
        whole, _, fraction = digits.partition(".")
        if not fraction and -(2**63) <= int(whole) < 2**64:
            return digits
        return f"toDecimal256('{digits}', {len(fraction)})"

    def binary_literal(self, value: bytes) -> str:
        return f"unhex('{value.hex()}')"

    def timestamp_literal(self, text: str) -> str:
        # A text beside a column would be read in the column's time zone.
        return f"toDateTime64({self.string_literal(text)}, {9 if len(text.partition('.')[2]) > 6 else 6}, 'UTC')"

    def date_literal(self, text: str) -> str:
        return f"toDate32({self.string_literal(text)})"


class ClickHouseText(Text):
    """What ClickHouse does with texts."""

    TEXT_TYPE = "String"

    def is_one_of(self, c: str, texts: Sequence[str], native_type: str = "") -> str:
        return super().is_one_of(self._of_label(c, native_type), texts, native_type)

    @staticmethod
    def _of_label(c: str, native_type: str) -> str:
        """An enum as text: beside a text that is none of its labels it may be an error."""
        return f"toString({c})" if "enum" in native_type.lower() else c

    def length(self, c: str) -> str:
        return f"lengthUTF8({c})"

    def byte_length(self, c: str) -> str:
        return f"length({c})"

    def left(self, c: str, count: int) -> str:
        return f"substringUTF8({c}, 1, {count})"

    def cut_end(self, text: str, count: int) -> str:
        return f"substringUTF8({text}, 1, greatest(toInt64(lengthUTF8({text})) - {count}, 0))"

    def as_text(self, c: str) -> str:
        return f"toString({c})"

    # Older servers do not parse RTRIM with the characters to trim.

    def trim_zeros(self, c: str) -> str:
        return f"trim(TRAILING '.' FROM trim(TRAILING '0' FROM {c}))"

    def trim_right(self, c: str) -> str:
        return f"trim(TRAILING ' ' FROM {c})"

    def column_characters(self, c: str, native: Kind) -> str:
        return self.characters(c) if native.name == "enum" else c  # as it is, so that the sorting key serves

    def characters(self, c: str) -> str:
        return f"toString({c})"  # an enum's label; of a String the String itself

    def lower(self, c: str) -> str:
        return f"lower({c})"  # the letters A to Z alone: https://clickhouse.com/docs/sql-reference/functions/string-functions#lower

    def upper(self, c: str) -> str:
        return f"upper({c})"

    def like(self, c: str, pattern: str) -> str:
        # The escape character is the backslash; ESCAPE is younger than the oldest version.
        parts, characters = [], iter(pattern)
        for character in characters:
            plain = next(characters, "") if character == ESCAPE else character
            parts.append(f"\\{plain}" if plain == "\\" or (character == ESCAPE and plain in "%_") else plain)
        return f"{c} LIKE {self.names.string_literal(''.join(parts))}"

    def utf8(self, text: str) -> str:
        return text


class ClickHouseNumbers(Numbers):
    """What ClickHouse does with numbers."""

    DOUBLE = "Float64"
    SINGLE = "Float32"
    MIN_CALCULATED_DIGITS = 39  # Decimal256: what the others cannot hold is an error
    SMALL_SUM_MAX_ROWS = 1 << 31

    def decimal_text(self, c: str, scale: int, native: Kind) -> str:
        if native.scale == 0 and scale == 0:
            return self.text.as_text(c)
        held = c if native.name == "decimal" and native.scale is not None and native.scale <= scale else f"round({c}, {scale})"
        # Without digits after the point toDecimalString leaves the point of a type that has some, and toString leaves none.
        return f"toDecimalString({held}, {scale})" if scale else self.text.as_text(held)

    def full_decimal_text(self, c: str, native: Kind) -> str:
        # Without zeros at its end, whatever the setting of output: of these, toString knows none.
        return self.text.as_text(c) if native.name == "decimal" else super().full_decimal_text(c, native)

    def rounded_text(self, c: str, scale: int, native: Kind) -> str:
        if native.name in ("float32", "float64"):
            return super().rounded_text(c, scale, native)
        wide = f"toDecimal256({c}, {native.scale or 0 if native.name == 'decimal' else 0})"
        return self.decimal_text(f"{wide} * toDecimal256('{10**scale}', 0)", 0, Kind("decimal"))

    def non_finite_branches(self, x: str) -> str:
        return f"WHEN isNaN({x}) THEN 'NaN' WHEN {x} = inf THEN 'Infinity' WHEN {x} = -inf THEN '-Infinity' "

    def as_double(self, c: str) -> str:
        return f"toFloat64({c})"

    def as_single(self, c: str) -> str:
        return f"toFloat32({c})"

    def double_literal(self, value: str) -> str:
        return f"toFloat64('{value.replace('Infinity', 'inf')}')"

    def power_of_two(self, exponent: str) -> str:
        return f"exp2({exponent})"

    def as_bigint(self, c: str) -> str:
        # NULL instead of an error for NaN and beyond: of a CASE that two columns share, branches are computed that are not taken.
        return f"accurateCastOrNull({c}, 'Int64')"

    def floor_divide(self, c: str, divisor: int, native: Kind) -> str:
        if native.name == "decimal":
            wide = f"toInt256({c})"
            return f"accurateCast(intDiv({wide}, {divisor}) - toInt256({wide} % {divisor} < 0), 'Int64')"
        if native.unsigned:
            return f"accurateCast(intDiv({c}, {divisor}), 'Int64')"
        return f"(toInt64(intDiv({c}, {divisor})) - toInt64({c} % {divisor} < 0))"

    def shift_right(self, c: str, bits: int) -> str:
        return f"bitShiftRight({c}, {bits})"

    def low_bits(self, c: str, bits: int) -> str:
        return f"bitAnd({c}, {2**bits - 1})"

    def integer_sum(self, c: str) -> str:
        return f"accurateCast(sum(toInt128({c})), 'Int64')"

    def small_sum(self, c: str) -> str:
        return f"sum(toInt64({c}))"

    def number_sum(self, c: str, native: Kind) -> str:
        if native.name != "decimal":
            return f"sum(toInt128({c}))"
        if native.scale is not None and (native.digits or WIDEST_DIGITS + 1) <= SAFE_DIGITS:
            return f"sum(toDecimal256({c}, {native.scale}))"
        # A sum that has wrapped around is far from that of the doubles.
        wide = c if native.scale is None or native.digits in (None, WIDEST_DIGITS) else f"toInt256({c})"
        total, about, size = f"sum({wide})", f"sum(toFloat64({c}))", f"sum(abs(toFloat64({c})))"
        wrapped = f"abs(toFloat64({total}) - {about}) > 1e-6 * {size}"
        return f"if(throwIf(coalesce({wrapped}, false), 'a sum has more digits than ClickHouse adds up') = 0, {total}, NULL)"

    def is_hexadecimal(self, digits: str) -> str:
        return f"match({digits}, '^[0-9a-fA-F]+$')"

    def column_modulo(self, c: str, divisor: int, native: Kind) -> str:
        return self.modulo(f"toInt256({c})" if native.name == "decimal" else c, divisor)

    def word(self, digits: str, first: int, count: int) -> str:
        return f"reinterpretAsInt64(reverse(unhex(leftPad(substring({digits}, {first}, {count}), 16, '0'))))"


class ClickHouseTimes(Times):
    """What ClickHouse does with dates and times.

    A time is a number since 1970, whatever time zone its column shows it in: all are read in UTC. A finer time that is stored is cut.
    """

    UTC_NOW = "now64(6, 'UTC')"
    LAST_YEAR = 9999

    def wall_time(self, c: str, native: Kind, zone: str) -> str:
        offset = f"timezoneOffset(toTimeZone({c}, {self.names.string_literal(zone)}))"
        return f"addSeconds(toTimeZone({c}, 'UTC'), {offset})"

    def date_text(self, c: str) -> str:
        return f"toString({c})"

    def date_kind_text(self, kind: Kind, c: str, native: Kind) -> str:
        if native.name == "date":
            return self.date_text(c)
        day = f"substring({self.timestamp_text(self.rounded_time(kind, c, native), native)}, 1, 10)"
        return self.with_last_moment(kind, c, native, day, "")

    def time_text(self, c: str) -> str:
        text = f"toString({c})"
        whole = f"substringIndex({text}, '.', 1)"
        fraction = f"rightPad(substring({text}, length({whole}) + 2), 6, '0')"
        return f"concat({whole}, '.', {fraction})"

    def rounded_clock_text(self, c: str, half: int, native: Kind) -> str:
        last = self.names.string_literal(f"23:59:59.{1_000_000 - half // MICROSECOND:06}")
        within = self.time_text(self.later(c, half, native))
        return f"CASE WHEN {self.time_text(c)} >= {last} THEN '24:00:00.000000' ELSE {within} END"

    def timestamp_text(self, c: str, native: Kind, digits: int | None = None) -> str:
        text = f"toString({c}, 'UTC')"
        if native.scale != 0:
            text = self.text.trim_zeros(text if digits is None else f"substring({text}, 1, {20 + digits})")
        if native.scale == 9 or native.scale is None:  # which ends within those years, or is a sum with such a one
            return text
        unit = 10**native.scale
        ticks = f"reinterpretAsInt64({c})"
        beyond = self.text.concat([f"toString({ticks})", self.names.string_literal(f" units of 1/{unit} s since 1970")])
        within = f"{ticks} >= {SECONDS[0] * unit} AND {ticks} < {SECONDS[1] * unit}"
        reread = f"reinterpretAsInt64(toDateTime64(substring(toString({c}, 'UTC'), 1, 19), 0, 'UTC'))"
        is_printed = f"{reread} = {self.numbers.floor_divide(ticks, unit, Kind('integer'))}"
        return f"CASE WHEN {within} THEN {text} WHEN {is_printed} THEN {text} ELSE {beyond} END"

    def with_last_moment(self, kind: Kind, c: str, native: Kind, text: str, midnight: str) -> str:
        return text if native.scale == 9 else super().with_last_moment(kind, c, native, text, midnight)

    def later(self, c: str, nanoseconds: int, native: Kind) -> str:
        if (native.scale or 0) > 6:
            return f"addNanoseconds({c}, {nanoseconds})"
        return f"addMicroseconds({c}, {nanoseconds // MICROSECOND})"

    def _midnight_text(self, c: str) -> str:
        return self.text.concat([self.date_text(c), self.names.string_literal(MIDNIGHT)])

    def day_index(self, c: str) -> str:
        return f"dateDiff('day', toDate32('1970-01-01'), {c}, 'UTC')"

    def time_index(self, c: str, unit: TimeUnit) -> str:
        return f"toInt64(dateDiff('{unit}', toDateTime64('1970-01-01 00:00:00', 0, 'UTC'), {c}, 'UTC'))"

    def microseconds(self, c: str, native: Kind) -> str:
        if native.name == "time" or native.scale is None:
            raise LookupError("ClickHouse has no expression for the microseconds of a time of day")
        ticks = f"reinterpretAsInt64({c})"
        if native.scale > 6:
            return self.numbers.floor_divide(ticks, 10 ** (native.scale - 6), Kind("integer"))
        return f"({ticks} * {10 ** (6 - native.scale)})"

    def seconds_since(self, c: str) -> str:
        return f"(toUnixTimestamp64Micro({self.UTC_NOW}) - toUnixTimestamp64Micro(toDateTime64({c}, 6, 'UTC'))) / 1e6"


class ClickHouseCanonical(Canonical):
    """How ClickHouse writes canonical text."""

    def json_text(self, c: str, native: Kind) -> str:
        return f"""replaceRegexpAll({self.text.characters(c)}, '("(?:[^"\\\\\\\\]|\\\\\\\\.)*")|\\\\s+', '\\\\1')"""


class ClickHouseHashes(Hashes):
    """How ClickHouse hashes texts."""

    def row_hash(self, text: str, algorithm: HashAlgorithm) -> str:
        return f"lower(hex({self._function(algorithm)}({text})))"

    def row_word(self, text: str, algorithm: HashAlgorithm) -> str:
        first = f"reinterpretAsUInt64(reverse(substring({self._function(algorithm)}({text}), 1, 8)))"
        return f"toInt64(bitShiftRight({first}, 4))"

    @staticmethod
    def _function(algorithm: HashAlgorithm) -> str:
        return "SHA256" if algorithm == "sha256" else "MD5"

    def byte_count(self, kind: Kind, c: str, native: Kind) -> str:
        return f"length({self.hashed_bytes(kind, c, native)})"
