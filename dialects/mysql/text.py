"""Canonical text of MySQL and MariaDB: character sets, collations, the case of letters, JSON, and times as they are rounded when stored.

https://dev.mysql.com/doc/refman/9.4/en/charset-collation-coercibility.html
https://dev.mysql.com/doc/refman/9.4/en/fractional-seconds.html
https://dev.mysql.com/doc/refman/9.4/en/date-and-time-type-conversion.html
https://mariadb.com/kb/en/microseconds-in-mariadb/
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from dialects.base import Dialect
from dialects.hex_numbers import UUID_PLACES, Places
from dialects.kinds import Kind, Rounding, without_comments
from dialects.time_text import MICROSECOND

CHARACTER_SET = " character set "
"""What stands before the character set in the type of a column whose set is not utf8mb4; see sql_templates/mysql/catalogue.sql."""


LONGEST_STRIPPED = 1 << 16
"""Bytes of the longest document of which MySQL removes the whitespace, well below those for which it takes too long."""

GROUP_CONCAT_BYTES = 1 << 26
"""group_concat_max_len of sessions: the most bytes of text that they join from the rows of a stretch."""

_COLLATE = " COLLATE utf8mb4_bin"
_COLLATED_COLUMN = re.compile(r"\(((?:`[^`]*`)+)" + _COLLATE + r"\)")


def plain_type(native: str) -> str:
    """Return a column's type without its character set and MariaDB's comments, as in ``varchar(9) /*M!100301 COMPRESSED*/``."""
    return without_comments(native.partition(CHARACTER_SET)[0])


class MySQLText(Dialect):
    """The part of MySQL's and MariaDB's dialect that writes the SQL of text, and of dates and times."""

    TEMPLATES = "sql_templates.mysql"
    DRIVERS: ClassVar[Mapping[str, str]] = {"pymysql": "pymysql"}
    CHANGE_STREAM = "binlog"
    ZONE_TABLES = "load its time zone tables with mysql_tzinfo_to_sql"
    LONGEST_TEXT_SETTING = "max_allowed_packet"

    mariadb: bool = False
    """Whether the server is MariaDB."""

    trims_bytes: bool = False
    """Whether zeros are trimmed as bytes, which is faster; the result then is bytes, too, and serves only to be hashed or compared."""

    ZERO_DATES = True
    LONG_CLOCKS = True

    TIME_ROUNDING: Rounding = "half up"
    """MySQL rounds finer times that are stored, unless sql_mode has TIME_TRUNCATE_FRACTIONAL; MariaDB cuts them, unless sql_mode has
    TIME_ROUND_FRACTIONAL."""

    ROUNDS_TO_DATES: bool = True
    """MySQL rounds a timestamp to whole seconds before it takes its date; MariaDB never does."""

    LAST_YEAR: int | None = 9999

    def string_literal(self, value: str) -> str:
        if value.isascii() and value.isprintable() and "\\" not in value:
            return "'" + value.replace("'", "''") + "'"
        return f"_utf8mb4 X'{value.encode().hex()}'"  # unlike the result of CONVERT, a literal takes the collation of what it meets

    def is_one_of(self, c: str, texts: Sequence[str], native_type: str = "") -> str:
        # A literal with a character that the column's character set may not have is an error; bytes never are, but no index serves them.
        has_all = bool(native_type) and CHARACTER_SET not in native_type
        plain = [text for text in texts if has_all or text.isascii()]
        conditions = [super().is_one_of(c, plain, native_type)] if plain else []
        others = [self.binary_literal(text.encode()) for text in texts if not has_all and not text.isascii()]
        if others:
            conditions.append(f"{self.bytewise(self.characters(c))} IN ({', '.join(others)})")
        return conditions[0] if len(conditions) == 1 else f"({' OR '.join(conditions)})"

    def characters(self, c: str) -> str:
        # The hash is computed from bytes, which depend on the column's character set unless converted.
        return f"CONVERT({c} USING utf8mb4)"

    def column_characters(self, c: str, native: Kind) -> str:
        # CONCAT refuses columns of two different binary collations, unless their texts are given one.
        return f"({c}{_COLLATE})" if native.utf8 else self.characters(c)

    def unpadded_characters(self, c: str, native: Kind) -> str:
        # The server removes the spaces at the end of a CHAR, unless sql_mode has PAD_CHAR_TO_FULL_LENGTH, which sessions pin.
        is_bare = native.utf8 and native.name == "char"
        return self.column_characters(c, native) if is_bare else super().unpadded_characters(c, native)

    def bytewise(self, c: str) -> str:
        # Even binary collations may ignore trailing spaces; binary strings do not.
        return f"CAST({c} AS BINARY)"

    def lower(self, c: str) -> str:
        return self._fold("LOWER", c)

    def upper(self, c: str) -> str:
        return self._fold("UPPER", c)

    def _fold(self, function: str, c: str) -> str:
        # The bytes are read as Thai, a script without cases, whose character set keeps every byte as it is.
        folded = f"{function}(CAST({self.bytewise(self.characters(c))} AS CHAR CHARACTER SET tis620))"
        return self.characters(self.bytewise(folded))

    def trim_zeros(self, c: str) -> str:
        # Of a text whose characters may have several bytes, TRIM looks at each character from the first on; of bytes at the last ones.
        trimmed = self.bytewise(c) if self.trims_bytes else c
        return f"TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM {trimmed}))"

    def digest_of_rows(self, data: str, between: bytes) -> str:
        return f"SHA2(GROUP_CONCAT({data} SEPARATOR {self.binary_literal(between)}), 256)"

    def joined_bytes(self, parts: Sequence[str]) -> str:
        # A literal of bytes alone would be converted to the characters of a column beside it.
        return self.concat([self.bytewise("''"), *parts])

    def text_bytes(self, text: str) -> str:
        # CONCAT joins a text with bytes as the bytes that it is, unless it was given a collation: then the bytes would have to be text.
        if bare := _COLLATED_COLUMN.fullmatch(text):
            return bare[1]
        return self.bytewise(text) if _COLLATE in text else text

    def joined_texts(self, texts: Sequence[str], between: str) -> list[str]:
        literal = self.string_literal(between)
        return [piece for text in texts for piece in (literal, text)][1:]

    def byte_for_null(self, value: bytes) -> str:
        return self.bytewise(self.binary_literal(value))

    def trim_right(self, c: str) -> str:
        return f"TRIM(TRAILING ' ' FROM {c})"

    def json_text(self, c: str, native: Kind) -> str:
        text = self.characters(c)
        if self.mariadb:  # whose regular expressions take the square of a document's length
            return f"COALESCE(JSON_COMPACT({text}), {text})"  # NULL is what is no document
        # Keeps string tokens unchanged and removes whitespace between tokens. The time of a match is limited, for all sessions alike.
        # https://dev.mysql.com/doc/refman/9.4/en/server-system-variables.html#sysvar_regexp_time_limit
        pattern = r'("(?:[^"\\\\]++|\\\\.)*+")|[ \\t\\r\\n]+'
        return f"CASE WHEN LENGTH({text}) > {LONGEST_STRIPPED} THEN {text} ELSE REGEXP_REPLACE({text}, '{pattern}', '$1') END"

    def printed_json(self, c: str, native: Kind) -> str:
        return self.characters(c)

    def digits_number(self, c: str, places: Places) -> str:
        # CONV reads fifteen digits slower than UNCOMPRESSED_LENGTH reads three times five: the first four of more than four bytes, the
        # lowest first, less two bits. UNHEX is NULL where something is no digit.
        # https://dev.mysql.com/doc/refman/9.4/en/encryption-functions.html#function_uncompressed-length
        words: list[list[str]] = [[], [], []]
        digits = 0
        for first, count in places:  # of which none goes beyond a fifth digit
            words[digits // 5].append(f"SUBSTRING({c}, {first}, {count})")
            digits += count
        return _shifted_sum([f"UNCOMPRESSED_LENGTH(REVERSE(UNHEX(CONCAT('00000', {', '.join(pieces)}))))" for pieces in words])

    def uuid_number(self, c: str) -> str:
        return self.digits_number(self.as_text(c), UUID_PLACES)

    def uuid_bytes_number(self, c: str) -> str:
        words = [f"(UNCOMPRESSED_LENGTH(REVERSE(CONCAT(X'0000', SUBSTR({c}, {first}, 3)))) & 1048575)" for first in (2, 6, 14)]
        return f"CASE WHEN LENGTH({c}) = 16 THEN {_shifted_sum(words)} END"

    def drop_temporary_table(self, name: str) -> list[str]:
        return [f"DROP TEMPORARY TABLE {name}"]  # drops nothing else, and commits nothing

    def written_time(self, text: str) -> str:
        if not re.match(r"\d{4}-\d\d-\d\d( [\d:.]+)?$", text):
            raise LookupError("a date beyond the years 0 to 9999")
        return text

    def printed(self, c: str) -> str:
        """A number or time as an argument of a function of texts: a column itself, because a cast costs more than the function."""
        return c if c.startswith("`") else self.as_text(c)

    def date_text(self, c: str) -> str:
        return self.as_text(c)

    def time_text(self, c: str) -> str:
        return f"TIME_FORMAT({c}, '%H:%i:%s.%f')"

    def wall_time(self, c: str, native: Kind, zone: str) -> str:
        # Of a zone that is not in the server's tables CONVERT_TZ makes NULL, which would equal NULL: then the time stays one of UTC.
        # https://dev.mysql.com/doc/refman/9.4/en/time-zone-support.html#time-zone-installation
        return f"COALESCE(CONVERT_TZ({c}, '+00:00', {self.string_literal(zone)}), {c})"

    def short_time_text(self, c: str, native: Kind) -> str:
        if native.scale is None:
            return super().short_time_text(c, native)
        return self.trim_zeros(self.printed(c)) if native.scale else self.as_text(c)

    def timestamp_text(self, c: str, native: Kind, digits: int | None = None) -> str:
        # A conversion to text shows as many fraction digits as the type has, and is faster than DATE_FORMAT.
        text = self.printed(c) if native.scale is not None else f"DATE_FORMAT({c}, '%Y-%m-%d %H:%i:%s.%f')"
        available = 6 if native.scale is None else native.scale
        if available == 0:
            return self.as_text(c)
        if digits == 0:
            return f"LEFT({text}, 19)"  # years have four digits
        return self.trim_zeros(text if digits is None or digits >= available else f"LEFT({text}, {20 + digits})")

    def cut_fraction(self, text: str, digits: int | None, available: int = 6) -> str:
        # What is left of a negative time can be zero, which has no sign.
        if digits is None or digits >= available:
            return super().cut_fraction(text, digits, available)
        zero = "00:00:00" + ("." + "0" * digits if digits else "")
        cut = self.replace(self.cut_end(text, available - digits if digits else available + 1), f"-{zero}", zero)
        return self.trim_zeros(cut) if digits else cut

    def date_kind_text(self, kind: Kind, c: str, native: Kind) -> str:
        # A cast to a date would yield NULL for a date with zeros, and round.
        if native.name == "date":
            return self.date_text(c)
        day = f"LEFT({self.printed(self.rounded_time(kind, c, native))}, 10)"
        return self.with_last_moment(kind, c, native, day, "")

    def later(self, c: str, nanoseconds: int, native: Kind) -> str:
        # NULL for dates with zeros, and beyond the last year.
        return f"COALESCE(DATE_ADD({c}, INTERVAL {nanoseconds // MICROSECOND} MICROSECOND), {c})"

    def rounded_clock_text(self, c: str, half: int, native: Kind) -> str:
        # A negative time is rounded like a positive one. At the end of the type's range the sum is NULL on MySQL.
        added = f"00:00:00.{half // MICROSECOND:06}"
        end = f"CASE WHEN {c} < 0 THEN '-838:59:59.000000' WHEN {c} >= 0 THEN '838:59:59.000000' END"
        moved = f"ADDTIME({c}, CASE WHEN {c} < 0 THEN '-{added}' ELSE '{added}' END)"
        return f"COALESCE({self.time_text(moved)}, {end})"


def _shifted_sum(words: Sequence[str]) -> str:
    """SQL of the number of three words of 20 bits, the highest first, as a signed 64-bit integer."""
    first, middle, last = words
    return f"({first} * {1 << 40} + {middle} * {1 << 20} + {last})"
