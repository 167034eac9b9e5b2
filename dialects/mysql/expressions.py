"""SQL of MySQL and MariaDB.

https://dev.mysql.com/doc/refman/9.4/en/functions.html
https://mariadb.com/kb/en/built-in-functions/
https://dev.mysql.com/doc/refman/9.4/en/charset-collation-coercibility.html
https://dev.mysql.com/doc/refman/9.4/en/fractional-seconds.html
https://dev.mysql.com/doc/refman/9.4/en/date-and-time-type-conversion.html
https://mariadb.com/kb/en/microseconds-in-mariadb/
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dialects.canonical import INTRICATE_KINDS, Canonical
from dialects.catalogue import HashAlgorithm
from dialects.hashes import Hashes
from dialects.kinds import Kind
from dialects.names import Names
from dialects.numbers import UUID_PLACES, Numbers, Places
from dialects.text import Text
from dialects.times import MICROSECOND, Times

CHARACTER_SET = " character set "
"""What stands before the character set in the type of a column whose set is not utf8mb4; see sql_templates/mysql/catalogue.sql."""

BOUNDED_KINDS = frozenset(
    {"boolean", "integer", "decimal", "float32", "float64", "year", "bit", "date", "time", "timestamp", "timestamptz", "uuid"}
)
"""Kinds of columns whose text is of some hundred characters at most."""

LEAST_PACKET = 1 << 20
"""max_allowed_packet from which no text that is built from a short value is too long."""

LONGEST_STRIPPED = 1 << 16
"""Bytes of the longest document of which MySQL removes the whitespace, well below those for which it takes too long."""

GROUP_CONCAT_BYTES = 1 << 26
"""group_concat_max_len of sessions: the most bytes of text that they join from the rows of a stretch."""

_COLLATE = " COLLATE utf8mb4_bin"
_COLLATED_COLUMN = re.compile(r"\(((?:`[^`]*`)+)" + _COLLATE + r"\)")


class MySQLNames(Names):
    """How MySQL writes names and literals."""

    def quote(self, identifier: str) -> str:
        return "`" + identifier.replace("`", "``") + "`"

    def string_literal(self, value: str) -> str:
        if value.isascii() and value.isprintable() and "\\" not in value:
            return "'" + value.replace("'", "''") + "'"
        return f"_utf8mb4 X'{value.encode().hex()}'"  # unlike the result of CONVERT, a literal takes the collation of what it meets

    def written_time(self, text: str) -> str:
        if not re.match(r"\d{4}-\d\d-\d\d( [\d:.]+)?$", text):
            raise LookupError("a date beyond the years 0 to 9999")
        return text


class MySQLText(Text):
    """What MySQL does with texts."""

    TEXT_TYPE = "CHAR"
    LIKE_OPERAND = "{c} COLLATE utf8mb4_bin"  # of a binary string, LIKE would match bytes
    INDEX_SERVES_LIKE = True
    UNICODE_LITERAL, UNICODE_COLLATIONS = "_utf8mb4 X'{hex}'", "utf8mb4_"
    TIME_IS_NULL = "{c} <=> NULL"  # IS NULL is also true of the date 0000-00-00 in a NOT NULL column

    def __init__(self, names: Names, *, trims_bytes: bool = False) -> None:
        super().__init__(names)
        self.trims_bytes = trims_bytes
        """Whether zeros are trimmed as bytes, which is faster; the result then is bytes, too, and serves only to be hashed or compared."""

    def stored_text(self, text: str) -> str:
        return f"CAST({text} AS CHAR(255))"

    def concat(self, parts: Sequence[str]) -> str:
        return f"CONCAT({', '.join(parts)})" if len(parts) > 1 else parts[0]

    def utf8(self, text: str) -> str:
        return f"CAST({self.characters(text)} AS BINARY)"

    def byte_length(self, c: str) -> str:
        return f"OCTET_LENGTH({self.characters(c)})"

    def is_one_of(self, c: str, texts: Sequence[str], native_type: str = "") -> str:
        # A literal with a character that the column's character set may not have is an error; bytes never are, but no index serves them.
        has_all = bool(native_type) and CHARACTER_SET not in native_type
        plain = [text for text in texts if has_all or text.isascii()]
        conditions = [super().is_one_of(c, plain, native_type)] if plain else []
        others = [self.names.binary_literal(text.encode()) for text in texts if not has_all and not text.isascii()]
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

    def trim_right(self, c: str) -> str:
        return f"TRIM(TRAILING ' ' FROM {c})"


class MySQLNumbers(Numbers):
    """What MySQL does with numbers."""

    SMALL_SUM_MAX_ROWS = 1 << 22

    def as_number(self, c: str, native: Kind) -> str:
        if native.name == "year" and native.digits:  # MariaDB's YEAR(2), which means a year from 1970 to 2069
            return f"YEAR(MAKEDATE({c}, 1))"
        return f"({c} + 0)" if native.name in ("bit", "year") else c

    def boolean_text(self, c: str, native: Kind) -> str:
        return self.text.as_text(f"({self.as_number(c, native)} <> 0)")

    def decimal_text(self, c: str, scale: int, native: Kind) -> str:
        has_scale = native.name == "decimal" and native.scale == scale
        return self.text.as_text(c if has_scale else f"CAST({c} AS DECIMAL(65,{scale}))")

    def non_finite_branches(self, x: str) -> str:
        return ""

    def as_double(self, c: str) -> str:
        # MySQL displays a FLOAT with six digits; arithmetic with a double yields the stored value.
        return f"({c} + 0e0)"

    def double_literal(self, value: str) -> str:
        return value if "e" in value else value + "e0"

    def as_bigint(self, c: str) -> str:
        return f"CAST({c} AS SIGNED)"

    def word(self, digits: str, first: int, count: int) -> str:
        # CONV yields text; without the cast, SUM would add doubles.
        piece = f"LEFT({digits}, {count})" if first == 1 else f"SUBSTR({digits}, {first}, {count})"
        return f"CAST(CONV({piece}, 16, 10) AS SIGNED)"

    def signed_remainder(self, c: str, divisor: int, native: Kind) -> str:
        rest = f"{c} % {divisor}"
        return self.as_bigint(rest) if native.name == "decimal" else rest  # MySQL computes with 64 bits whatever a column has

    def integer_sum(self, c: str) -> str:
        return f"CAST(SUM({c}) AS SIGNED)"

    def small_sum(self, c: str) -> str:
        # SUM over integers adds decimals, which takes three times as long as adding doubles; doubles are exact below 2^53.
        return f"CAST(SUM({c} + 0e0) AS SIGNED)"

    def floor_divide(self, c: str, divisor: int, native: Kind) -> str:
        if native.unsigned:
            return f"CAST({c} DIV {divisor} AS SIGNED)"
        return f"({c} DIV {divisor} - ({c} % {divisor} < 0))"

    def remainder(self, c: str, divisor: int, native: Kind) -> str:
        if native.unsigned or native.name == "decimal":
            return super().remainder(c, divisor, native)
        return f"(({c} % {divisor} + {divisor}) % {divisor})"  # computed with 64 bits whatever the column has, and quicker than by CASE

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
        return self.digits_number(self.text.as_text(c), UUID_PLACES)

    def uuid_bytes_number(self, c: str) -> str:
        words = [f"(UNCOMPRESSED_LENGTH(REVERSE(CONCAT(X'0000', SUBSTR({c}, {first}, 3)))) & 1048575)" for first in (2, 6, 14)]
        return f"CASE WHEN LENGTH({c}) = 16 THEN {_shifted_sum(words)} END"


class MySQLTimes(Times):
    """What MySQL does with dates and times."""

    UTC_NOW = "UTC_TIMESTAMP(6)"
    LAST_YEAR = 9999

    def __init__(self, numbers: Numbers, *, mariadb: bool, sql_mode: str) -> None:
        super().__init__(numbers)
        # MySQL rounds finer times that are stored, unless sql_mode has TIME_TRUNCATE_FRACTIONAL; MariaDB cuts them, unless it has
        # TIME_ROUND_FRACTIONAL. MySQL then rounds a timestamp to whole seconds before it takes its date; MariaDB never does.
        rounds = "TIME_ROUND_FRACTIONAL" in sql_mode if mariadb else "TIME_TRUNCATE_FRACTIONAL" not in sql_mode
        self.TIME_ROUNDING = "half up" if rounds else ""
        self.ROUNDS_TO_DATES = rounds and not mariadb

    def day_index(self, c: str) -> str:
        return f"DATEDIFF({c}, '1970-01-01')"

    def microseconds(self, c: str, native: Kind) -> str:
        at = f"ADDTIME('1970-01-01 00:00:00', {c})" if native.name == "time" else c
        return f"TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {at})"

    def seconds_since(self, c: str) -> str:
        # TIMESTAMP is displayed in the session's time zone, which is pinned to UTC.
        return f"TIMESTAMPDIFF(MICROSECOND, {c}, UTC_TIMESTAMP(6)) / 1000000"

    def printed(self, c: str) -> str:
        """A number or time as an argument of a function of texts: a column itself, because a cast costs more than the function."""
        return c if c.startswith("`") else self.text.as_text(c)

    def date_text(self, c: str) -> str:
        return self.text.as_text(c)

    def time_text(self, c: str) -> str:
        return f"TIME_FORMAT({c}, '%H:%i:%s.%f')"

    def wall_time(self, c: str, native: Kind, zone: str) -> str:
        # Of a zone that is not in the server's tables CONVERT_TZ makes NULL, which would equal NULL: then the time stays one of UTC.
        # https://dev.mysql.com/doc/refman/9.4/en/time-zone-support.html#time-zone-installation
        return f"COALESCE(CONVERT_TZ({c}, '+00:00', {self.names.string_literal(zone)}), {c})"

    def short_time_text(self, c: str, native: Kind) -> str:
        if native.scale is None:
            return super().short_time_text(c, native)
        return self.text.trim_zeros(self.printed(c)) if native.scale else self.text.as_text(c)

    def timestamp_text(self, c: str, native: Kind, digits: int | None = None) -> str:
        # A conversion to text shows as many fraction digits as the type has, and is faster than DATE_FORMAT.
        text = self.printed(c) if native.scale is not None else f"DATE_FORMAT({c}, '%Y-%m-%d %H:%i:%s.%f')"
        available = 6 if native.scale is None else native.scale
        if available == 0:
            return self.text.as_text(c)
        if digits == 0:
            return f"LEFT({text}, 19)"  # years have four digits
        return self.text.trim_zeros(text if digits is None or digits >= available else f"LEFT({text}, {20 + digits})")

    def cut_fraction(self, text: str, digits: int | None, available: int = 6) -> str:
        # What is left of a negative time can be zero, which has no sign.
        if digits is None or digits >= available:
            return super().cut_fraction(text, digits, available)
        zero = "00:00:00" + ("." + "0" * digits if digits else "")
        cut = self.text.replace(self.text.cut_end(text, available - digits if digits else available + 1), f"-{zero}", zero)
        return self.text.trim_zeros(cut) if digits else cut

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


class MySQLCanonical(Canonical):
    """How MySQL writes canonical text."""

    def __init__(self, times: Times, *, mariadb: bool, packet: int, operands: Canonical | None = None) -> None:
        super().__init__(times)
        self.mariadb = mariadb
        """Whether the server is MariaDB."""
        self.packet = packet
        """max_allowed_packet, in bytes."""
        self.operands = operands or self
        """What writes operands that are hashed or compared alone."""

    def can_fail(self, kind: Kind, native: Kind) -> bool:
        # Text beyond max_allowed_packet is NULL, with a warning. What is short grows at most to twice its size: by bars that are escaped,
        # or as hexadecimal digits. https://dev.mysql.com/doc/refman/9.4/en/string-functions.html
        if native.name in BOUNDED_KINDS:
            return kind.name in INTRICATE_KINDS or bool(kind.rounding)
        return not native.short or kind.name in INTRICATE_KINDS or self.packet < LEAST_PACKET

    def operand_text(self, kind: Kind, c: str, native: Kind) -> str:
        # CONCAT and COALESCE print numbers and times as a cast does, which would cost as much again. Beside UUIDs and addresses, MariaDB
        # would take the mark for NULL as one of these, and yield NULL for it.
        text = self.canonical_text(kind, c, native)
        if c.startswith("`") and native.name not in ("uuid", "network") and text == self.text.as_text(c):
            return c
        return self.operands.canonical_text(kind, c, native) if native.name in BOUNDED_KINDS else text

    def canonical_text(self, kind: Kind, c: str, native: Kind) -> str:
        # As text, ZEROFILL columns show leading zeros; adding 0 removes them, and changes neither a decimal's scale nor a float.
        return super().canonical_text(kind, f"({c} + 0)" if native.zero_filled else c, native)

    def uuid_text(self, c: str, native: Kind) -> str:
        if native.name != "binary":
            return super().uuid_text(c, native)
        cuts = ((1, 4), (5, 2), (7, 2), (9, 2))
        pieces = [*(f"HEX(SUBSTR({c}, {first}, {length}))" for first, length in cuts), f"HEX(SUBSTR({c}, 11))"]
        return f"LOWER({self.text.join(pieces, '-')})"

    def network_text(self, c: str) -> str:
        # MariaDB writes :: for a single group of zeros too, where others write 0: then there are as many colons as between eight groups.
        text = self.text.as_text(c)
        if not self.mariadb:
            return text
        colons = f"CHAR_LENGTH({text}) - CHAR_LENGTH(REPLACE({text}, ':', ''))"
        begins = f"WHEN {text} LIKE '::%' THEN CONCAT('0', SUBSTR({text}, 2))"
        ends = f"WHEN {text} LIKE '%::' THEN CONCAT(LEFT({text}, CHAR_LENGTH({text}) - 1), '0')"
        return f"CASE WHEN {colons} < 7 THEN {text} {begins} {ends} ELSE REPLACE({text}, '::', ':0:') END"

    def bit_text(self, c: str, native: Kind) -> str:
        return f"LPAD(BIN({c} + 0), {native.digits or 1}, '0')"

    def json_text(self, c: str, native: Kind) -> str:
        text = self.text.characters(c)
        if self.mariadb:  # whose regular expressions take the square of a document's length
            return f"COALESCE(JSON_COMPACT({text}), {text})"  # NULL is what is no document
        # Keeps string tokens unchanged and removes whitespace between tokens. The time of a match is limited, for all sessions alike.
        # https://dev.mysql.com/doc/refman/9.4/en/server-system-variables.html#sysvar_regexp_time_limit
        pattern = r'("(?:[^"\\\\]++|\\\\.)*+")|[ \\t\\r\\n]+'
        return f"CASE WHEN LENGTH({text}) > {LONGEST_STRIPPED} THEN {text} ELSE REGEXP_REPLACE({text}, '{pattern}', '$1') END"

    def printed_json(self, c: str, native: Kind) -> str:
        return self.text.characters(c)


class MySQLHashes(Hashes):
    """How MySQL hashes texts."""

    def __init__(self, canonical: Canonical, *, has_md5: bool, joined_bytes: int) -> None:
        super().__init__(canonical)
        self.HAS_MD5 = has_md5  # MySQL 9.6 moved MD5() to component_classic_hashing, which is not installed by default
        # Of GROUP_CONCAT: group_concat_max_len, which sessions pin, and on MariaDB max_allowed_packet, which sessions have from their
        # server; text beyond is cut with a warning. https://mariadb.com/kb/en/group_concat/
        self.MAX_JOINED_BYTES = joined_bytes

    def row_hash(self, text: str, algorithm: HashAlgorithm) -> str:
        return f"MD5({text})" if algorithm == "md5" else f"SHA2({text}, 256)"

    def digest_of_rows(self, data: str, between: bytes) -> str:
        return f"SHA2(GROUP_CONCAT({data} SEPARATOR {self.names.binary_literal(between)}), 256)"

    def joined_bytes(self, parts: Sequence[str]) -> str:
        # A literal of bytes alone would be converted to the characters of a column beside it.
        return self.text.concat([self.text.bytewise("''"), *parts])

    def text_bytes(self, text: str) -> str:
        # CONCAT joins a text with bytes as the bytes that it is, unless it was given a collation: then the bytes would have to be text.
        if bare := _COLLATED_COLUMN.fullmatch(text):
            return bare[1]
        return self.text.bytewise(text) if _COLLATE in text else text

    def joined_texts(self, texts: Sequence[str], between: str) -> list[str]:
        literal = self.names.string_literal(between)
        return [piece for text in texts for piece in (literal, text)][1:]

    def byte_for_null(self, value: bytes) -> str:
        return self.text.bytewise(self.names.binary_literal(value))


def _shifted_sum(words: Sequence[str]) -> str:
    """SQL of the number of three words of 20 bits, the highest first, as a signed 64-bit integer."""
    first, middle, last = words
    return f"({first} * {1 << 40} + {middle} * {1 << 20} + {last})"
