"""Hashes of PostgreSQL, and the numbers that hexadecimal digits denote.

https://www.postgresql.org/docs/current/functions-binarystring.html
"""

from __future__ import annotations

from collections.abc import Sequence

from dialects.base import Dialect
from dialects.catalogue import HashAlgorithm
from dialects.hex_numbers import Places

HEXADECIMAL = f"'\\x{b'0123456789ABCDEFabcdef'.hex()}'"
"""The bytes of hexadecimal digits, as a literal of the type bytea."""

JOINED_AT_ONCE = 8
"""Parts that one chain of || joins: a row of 30 columns takes 5 % less time than in one chain of all of its parts."""


class PostgresHashes(Dialect):
    """The part of PostgreSQL's dialect that writes the SQL of hashes, and of numbers made of hexadecimal digits."""

    database_encoding: str = "UTF8"
    """In what the database stores its text; the server converts it to UTF-8, except in a database of SQL_ASCII, which stores bytes."""

    def utf8(self, text: str) -> str:
        return f"CONVERT_TO({text}, 'UTF8')"

    def row_hash(self, text: str, algorithm: HashAlgorithm) -> str:
        data = self.utf8(text)
        return f"MD5({data})" if algorithm == "md5" else f"ENCODE(SHA256({data}), 'hex')"

    def row_word(self, text: str, algorithm: HashAlgorithm) -> str:
        # A text as it is sent to a client, whose encoding is pinned to UTF8: CONVERT_TO would verify every character again. A parallel
        # worker sends in the database's encoding, whatever its session's is: ParallelWorkerMain() in parallel.c.
        return self.bytes_word(f"TEXTSEND({text})" if self.database_encoding == "UTF8" else self.utf8(text), algorithm)

    def bytes_word(self, data: str, algorithm: HashAlgorithm) -> str:
        if algorithm == "md5":
            return self.word(f"MD5({data})", 1, 15)
        # Encoding eight bytes is faster than 32; the cast drops the last four of the 64 bits.
        return f"CAST(CAST('x' || ENCODE(SUBSTR(SHA256({data}), 1, 8), 'hex') AS BIT(60)) AS BIGINT)"

    def group_of_text(self, text: str) -> str:
        # RIGHT and SUBSTRING walk over the characters of a text, and copy.
        data, count = f"TEXTSEND({text})", f"OCTET_LENGTH({text})"
        zeros = self.binary_literal(bytes(8))
        last, eighth = (self.low_bits(f"GET_BYTE({byte})", 5) for byte in (f"{data}, {count} - 1", f"{data}, 7"))
        of_short = self.low_bits(f"GET_BYTE({zeros} || {data}, {count} + 7)", 5)
        return f"CASE WHEN {count} >= 8 THEN {last} * 32 + {eighth} ELSE {of_short} * 32 END"

    def digest_of_rows(self, data: str, between: bytes) -> str:
        return f"ENCODE(SHA256(STRING_AGG({data}, {self.binary_literal(between)})), 'hex')"

    def joined_bytes(self, parts: Sequence[str]) -> str:
        # Each || copies what stands left of it, so that a long chain copies the first columns once for each later one.
        while len(parts) > JOINED_AT_ONCE:
            parts = [self.concat(parts[start : start + JOINED_AT_ONCE]) for start in range(0, len(parts), JOINED_AT_ONCE)]
        return self.concat(parts)

    def text_bytes(self, text: str) -> str:
        return f"TEXTSEND({text})"

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
        if self.database_encoding != "UTF8":
            return whole
        # Bytes are cut and looked up in a third of the time of characters, which they are where there are as many.
        cuts = " || ".join(f"SUBSTRING(TEXTSEND({c}), {first}, {count})" for first, count in places)
        number = self.hex_word(f"ENCODE({cuts}, 'escape')")
        checked = f"CASE WHEN OCTET_LENGTH(BTRIM({cuts}, {HEXADECIMAL})) = 0 THEN {number} END"
        return f"CASE WHEN OCTET_LENGTH({c}) = CHAR_LENGTH({c}) THEN {checked} ELSE {whole} END"

    def small_digits(self, c: str) -> str:
        # In the locale C, LOWER takes a tenth of the time that it takes in others, whose letters no UUID has.
        return f'LOWER(({c}) COLLATE "C")'
