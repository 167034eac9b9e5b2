"""PostgreSQL's SQL.

https://www.postgresql.org/docs/current/functions.html
"""

from __future__ import annotations

from collections.abc import Sequence

from dialects.canonical import Canonical
from dialects.catalogue import HashAlgorithm
from dialects.hashes import Hashes
from dialects.kinds import Kind
from dialects.names import Names
from dialects.numbers import Numbers, Places
from dialects.text import Text
from dialects.times import MICROSECOND, MOST_MICROSECONDS, Times

NO_JSONB = r"\\u(0000|d[89a-f])|[0-9]{255}|[0-9]e[+-]?[0-9]{4}"
"""What a document of JSON holds, in any case of letters, that JSONB may refuse. https://www.postgresql.org/docs/current/datatype-json.html"""

WHOLE_UNITS = {0: "second", 3: "milliseconds"}
"""The unit of DATE_TRUNC that keeps so many digits of the seconds."""

HEXADECIMAL = f"'\\x{b'0123456789ABCDEFabcdef'.hex()}'"
"""The bytes of hexadecimal digits, as a literal of the type bytea."""

JOINED_AT_ONCE = 8
"""Parts that one chain of || joins: a row of 30 columns takes 5 % less time than in one chain of all of its parts."""


class PostgresNames(Names):
    """How PostgreSQL writes names and literals."""

    def binary_literal(self, value: bytes) -> str:
        return f"DECODE('{value.hex()}', 'hex')"


class PostgresText(Text):
    """What PostgreSQL does with texts."""

    TEXT_TYPE = "TEXT"

    def __init__(self, names: Names, *, is_utf8: bool) -> None:
        super().__init__(names)
        self.is_utf8 = is_utf8
        """Whether the database stores its text in UTF-8."""

    def hex_text(self, c: str) -> str:
        return f"ENCODE({c}, 'hex')"

    def cut_end(self, text: str, count: int) -> str:
        return f"LEFT({text}, -{count})"

    def is_one_of(self, c: str, texts: Sequence[str], native_type: str = "") -> str:
        if self.is_utf8 or all(text.isascii() for text in texts):
            return super().is_one_of(c, texts, native_type)
        # The database's encoding may not have a character of a literal, which would be an error; no index serves bytes.
        known = ", ".join(self.names.binary_literal(text.encode()) for text in texts)
        return f"CONVERT_TO({self.characters(c)}, 'UTF8') IN ({known})"

    def characters(self, c: str) -> str:
        # REPLACE and LIKE refuse nondeterministic collations, and other comparisons would take some different texts for equal.
        return self.bytewise(f"CAST({c} AS TEXT)")

    def lower(self, c: str) -> str:
        # In the locale C, LOWER and UPPER change the letters A to Z alone. https://www.postgresql.org/docs/current/collation.html
        return f"LOWER({self.bytewise(c)})"

    def upper(self, c: str) -> str:
        return f"UPPER({self.bytewise(c)})"

    def bytewise(self, c: str) -> str:
        return f'({c} COLLATE "C")'

    def utf8(self, text: str) -> str:
        return f"CONVERT_TO({text}, 'UTF8')"

    def small_digits(self, c: str) -> str:
        # In the locale C, LOWER takes a tenth of the time that it takes in others, whose letters no UUID has.
        return f'LOWER(({c}) COLLATE "C")'


class PostgresNumbers(Numbers):
    """What PostgreSQL does with numbers."""

    DOUBLE, SINGLE = "DOUBLE PRECISION", "REAL"

    def __init__(self, text: Text, *, is_utf8: bool) -> None:
        super().__init__(text)
        self.is_utf8 = is_utf8
        """Whether the database stores its text in UTF-8."""

    def as_number(self, c: str, native: Kind) -> str:
        if native.name != "bit":
            return c
        if native.digits is not None and native.digits < 64:
            return f"CAST({c} AS BIGINT)"
        # A cast would make 2^63 and more negative, and there is none of BIT VARYING. No integer of any engine is 2^64 or more.
        padded, bits = f"(B'{'0' * 64}' || {c})", f"LENGTH({c})"
        high, low = (f"CAST(CAST(SUBSTRING({padded} FROM {bits} + {first} FOR 32) AS BIT(32)) AS BIGINT)" for first in (1, 33))
        beyond = f"CASE WHEN POSITION(B'1' IN {c}) BETWEEN 1 AND {bits} - 64 THEN {1 << 64} ELSE 0 END"
        return f"({high} * CAST({1 << 32} AS NUMERIC) + {low} + {beyond})"

    def decimal_text(self, c: str, scale: int, native: Kind) -> str:
        has_scale = native.name == "decimal" and native.digits is not None and native.scale == scale
        return self.text.as_text(c if has_scale else f"ROUND(CAST({c} AS NUMERIC), {scale})")

    def full_decimal_text(self, c: str, native: Kind) -> str:
        return self.text.as_text(f"TRIM_SCALE({c})") if native.name == "decimal" else super().full_decimal_text(c, native)

    def log2(self, c: str) -> str:
        return f"(LN({c}) / LN({self.double_literal('2')}))"

    def floor_divide(self, c: str, divisor: int, native: Kind) -> str:
        if native.name == "decimal":
            # Exact: the quotient of a multiple of the divisor has no digits to round.
            return f"CAST(({c} - MOD({c}, {divisor})) / {divisor} - CASE WHEN MOD({c}, {divisor}) < 0 THEN 1 ELSE 0 END AS BIGINT)"
        return self.as_bigint(f"{c} / {divisor} - CASE WHEN {c} % {divisor} < 0 THEN 1 ELSE 0 END")

    def uuid_number(self, c: str) -> str:
        # Reading bytes takes a third of the time of reading hexadecimal digits.
        byte = [f"GET_BYTE(UUID_SEND({c}), {number})" for number in range(16)]
        first, middle, last = (f"CAST((({byte[n]} & 15) << 16) + ({byte[n + 1]} << 8) + {byte[n + 2]} AS BIGINT)" for n in (1, 5, 13))
        return f"(({first} << 40) + ({middle} << 20) + {last})"

    def hex_word(self, digits: str) -> str:
        return f"CAST(CAST('x' || {digits} AS BIT(60)) AS BIGINT)"

    def word(self, digits: str, first: int, count: int) -> str:
        return f"CAST(CAST('x' || SUBSTR({digits}, {first}, {count}) AS BIT({4 * count})) AS BIGINT)"

    def digits_number(self, c: str, places: Places) -> str:
        whole = super().digits_number(c, places)
        if not self.is_utf8:
            return whole
        # Bytes are cut and looked up in a third of the time of characters, which they are where there are as many.
        cuts = " || ".join(f"SUBSTRING(TEXTSEND({c}), {first}, {count})" for first, count in places)
        number = self.hex_word(f"ENCODE({cuts}, 'escape')")
        checked = f"CASE WHEN OCTET_LENGTH(BTRIM({cuts}, {HEXADECIMAL})) = 0 THEN {number} END"
        return f"CASE WHEN OCTET_LENGTH({c}) = CHAR_LENGTH({c}) THEN {checked} ELSE {whole} END"


class PostgresTimes(Times):
    """What PostgreSQL does with dates and times."""

    UTC_NOW = "(CURRENT_TIMESTAMP AT TIME ZONE 'UTC')"
    TIME_ROUNDING = "half from 2000"
    """AdjustTimestampForTypmod() in timestamp.c rounds the microseconds since 2000-01-01; a half goes away from zero."""

    def date_text(self, c: str) -> str:
        # With DateStyle ISO; unlike TO_CHAR, a cast also shows infinities and years before Christ.
        return f"CAST({c} AS TEXT)"

    def time_text(self, c: str) -> str:
        return f"TO_CHAR({c}, 'HH24:MI:SS.US')"

    def short_time_text(self, c: str, native: Kind) -> str:
        return f"CAST({c} AS TEXT)"

    def timestamp_text(self, c: str, native: Kind, digits: int | None = None) -> str:
        # Unlike TO_CHAR, which takes three times as long, a cast also shows infinities and years before Christ.
        at = f"({c} AT TIME ZONE 'UTC')" if native.name == "timestamptz" else c
        if digits is not None and digits < (6 if native.scale is None else native.scale):
            at = self._cut_time(at, digits)
        return f"CAST({at} AS TEXT)"

    def _cut_time(self, c: str, digits: int) -> str:
        """A timestamp without its digits beyond so many; a cast to a coarser type would round."""
        if digits in WHOLE_UNITS:
            return f"DATE_TRUNC('{WHOLE_UNITS[digits]}', {c})"
        rest = f"CAST(EXTRACT(MICROSECONDS FROM {c}) AS BIGINT) % {10 ** (6 - digits)}"
        return f"COALESCE({c} - {rest} * INTERVAL '1 microsecond', {c})"  # an infinity has no microseconds

    def is_common_era(self, c: str) -> str:
        return f"{c} >= '0001-01-01' AND {c} < 'infinity'"

    def later(self, c: str, nanoseconds: int, native: Kind) -> str:
        return f"({c} + INTERVAL '{nanoseconds // MICROSECOND} microseconds')"

    def day_index(self, c: str) -> str:
        # Infinity has no day index: like NULL, it belongs to no partition.
        # https://www.postgresql.org/docs/18/functions-datetime.html
        return f"(CASE WHEN ISFINITE({c}) THEN CAST({c} AS DATE) - DATE '1970-01-01' END)"

    def microseconds(self, c: str, native: Kind) -> str:
        # By day and clock, because EXTRACT(EPOCH) yields a double before version 14, and one has too few digits for late years.
        fields = (("HOUR", "3600000000"), ("MINUTE", "60000000"), ("MICROSECONDS", "1"))
        clock = " + ".join(f"CAST(EXTRACT({field} FROM {c}) AS BIGINT) * {each}" for field, each in fields)
        if native.name == "time":
            return f"({clock})"
        within = f"CAST({self.day_index(c)} AS BIGINT) * 86400000000 + {clock}"
        return f"CASE WHEN ISFINITE({c}) THEN {within} WHEN {c} IS NOT NULL THEN {MOST_MICROSECONDS} END"

    def year(self, c: str) -> str:
        # 1 BC is -1. https://www.postgresql.org/docs/current/functions-datetime.html#FUNCTIONS-DATETIME-EXTRACT
        return f"(EXTRACT(YEAR FROM {c}) + CASE WHEN EXTRACT(YEAR FROM {c}) < 0 THEN 1 ELSE 0 END)"

    def seconds_since(self, c: str) -> str:
        return f"EXTRACT(EPOCH FROM CLOCK_TIMESTAMP() - {c})"


class PostgresCanonical(Canonical):
    """How PostgreSQL writes canonical text."""

    def interval_text(self, c: str, native: Kind) -> str:
        months = f"CAST(EXTRACT(YEAR FROM {c}) * 12 + EXTRACT(MONTH FROM {c}) AS BIGINT)"
        micros = f"EXTRACT(HOUR FROM {c}) * 3600000000 + EXTRACT(MINUTE FROM {c}) * 60000000 + EXTRACT(MICROSECONDS FROM {c})"
        days = f"CAST(EXTRACT(DAY FROM {c}) AS BIGINT)"
        return self.text.concat([months, "'m'", days, "'d'", f"CAST({micros} AS BIGINT)", "'us'"])

    def network_text(self, c: str) -> str:
        # FORMAT prints as a result would be; a cast adds the length of the prefix to an address, and FORMAT shows NULL as no characters.
        return f"CASE WHEN {c} IS NOT NULL THEN FORMAT('%s', {c}) END"

    def ordered_json(self, c: str, native: Kind) -> str:
        if native.form != "ordered":
            return c
        # JSONB refuses some documents that JSON holds: with U+0000, half a surrogate pair, or numbers of more than 131,072 digits.
        text = f"CAST({c} AS TEXT)"
        return f"CASE WHEN {text} ~* '{NO_JSONB}' THEN {text} ELSE CAST(CAST({c} AS JSONB) AS TEXT) END"

    def printed_json(self, c: str, native: Kind) -> str:
        return f"CAST({c} AS TEXT)"

    def json_text(self, c: str, native: Kind) -> str:
        if native.name == "nested":
            c = f"TO_JSONB({c})"
        # Keeps string tokens unchanged and removes whitespace between tokens.
        return rf"""REGEXP_REPLACE(CAST({c} AS TEXT), '("(?:[^"\\]|\\.)*")|\s+', '\1', 'g')"""


class PostgresHashes(Hashes):
    """How PostgreSQL hashes texts."""

    def __init__(self, canonical: Canonical, *, is_utf8: bool) -> None:
        super().__init__(canonical)
        self.is_utf8 = is_utf8
        """Whether the database stores its text in UTF-8."""
        # Of STRING_AGG, whose result has at most 1 GB. https://www.postgresql.org/docs/current/functions-aggregate.html
        self.MAX_JOINED_BYTES = 1 << 26 if is_utf8 else 0

    def row_hash(self, text: str, algorithm: HashAlgorithm) -> str:
        data = self.text.utf8(text)
        return f"MD5({data})" if algorithm == "md5" else f"ENCODE(SHA256({data}), 'hex')"

    def row_word(self, text: str, algorithm: HashAlgorithm) -> str:
        # A text as it is sent to a client, whose encoding is pinned to UTF8: CONVERT_TO would verify every character again. A parallel
        # worker sends in the database's encoding, whatever its session's is: ParallelWorkerMain() in parallel.c.
        return self.bytes_word(f"TEXTSEND({text})" if self.is_utf8 else self.text.utf8(text), algorithm)

    def bytes_word(self, data: str, algorithm: HashAlgorithm) -> str:
        if algorithm == "md5":
            return self.numbers.word(f"MD5({data})", 1, 15)
        # Encoding eight bytes is faster than 32; the cast drops the last four of the 64 bits.
        return f"CAST(CAST('x' || ENCODE(SUBSTR(SHA256({data}), 1, 8), 'hex') AS BIT(60)) AS BIGINT)"

    def group_of_text(self, text: str) -> str:
        # RIGHT and SUBSTRING walk over the characters of a text, and copy.
        data, count = f"TEXTSEND({text})", f"OCTET_LENGTH({text})"
        zeros = self.names.binary_literal(bytes(8))
        last, eighth = (self.numbers.low_bits(f"GET_BYTE({byte})", 5) for byte in (f"{data}, {count} - 1", f"{data}, 7"))
        of_short = self.numbers.low_bits(f"GET_BYTE({zeros} || {data}, {count} + 7)", 5)
        return f"CASE WHEN {count} >= 8 THEN {last} * 32 + {eighth} ELSE {of_short} * 32 END"

    def digest_of_rows(self, data: str, between: bytes) -> str:
        return f"ENCODE(SHA256(STRING_AGG({data}, {self.names.binary_literal(between)})), 'hex')"

    def joined_bytes(self, parts: Sequence[str]) -> str:
        # Each || copies what stands left of it, so that a long chain copies the first columns once for each later one.
        while len(parts) > JOINED_AT_ONCE:
            parts = [self.text.concat(parts[start : start + JOINED_AT_ONCE]) for start in range(0, len(parts), JOINED_AT_ONCE)]
        return self.text.concat(parts)

    def text_bytes(self, text: str) -> str:
        return f"TEXTSEND({text})"
