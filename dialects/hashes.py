"""SQL of hashes: of rows, and of texts that an engine cannot build at once.

``c`` is SQL text of an expression, ``native`` the canonical kind of its own type, ``kind`` the kind as which it is compared. The SQL
yields NULL where ``c`` is NULL.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from dialects.canonical import Canonical
from dialects.catalogue import HashAlgorithm
from dialects.kinds import Kind

PIECE_BYTES = 32_000
"""Bytes of a piece of a long value: twice as many hexadecimal digits fit into the shortest of the longest texts, Redshift's 65,535."""

NO_END = 1 << 30
"""More characters than a text has."""


class Hashes(ABC):
    """How an engine hashes texts."""

    MAX_TEXT_BYTES: ClassVar[int | None] = None
    """The most bytes of a text that the engine builds; None where no table comes near it, or the server's setting decides."""

    MAX_JOINED_BYTES: int = 0
    """The most bytes of text that the engine joins from many rows, in the order of a primary key, to hash them as one; 0 where it does
    not, or where that would cost more than hashing each row. Where it is not 0, bytes are hashed as well as text is."""

    HAS_MD5: bool = True
    """Whether the server has MD5()."""

    def __init__(self, canonical: Canonical) -> None:
        self.canonical = canonical
        self.numbers = canonical.numbers
        self.text = canonical.text
        self.names = canonical.names

    @abstractmethod
    def row_hash(self, text: str, algorithm: HashAlgorithm) -> str:
        """The hash of a text's UTF-8 bytes as lower-case hexadecimal digits: 64 for sha256, 32 for md5."""

    def row_word(self, text: str, algorithm: HashAlgorithm) -> str:
        """The first 60 bits of a text's hash as a signed 64-bit integer, equal to ``word(row_hash(text, algorithm), 1, 15)``."""
        return self.numbers.word(self.row_hash(text, algorithm), 1, 15)

    def bytes_word(self, data: str, algorithm: HashAlgorithm) -> str:
        """The same of the hash of bytes (``joined_bytes``). Only where MAX_JOINED_BYTES is not 0."""
        return self.row_word(data, algorithm)

    def group_of_text(self, text: str) -> str:
        """A number made of five bits of the last byte of a text (times 32) and of its eighth, which are 0 where there is none. Only where
        MAX_JOINED_BYTES is not 0."""
        data = self.text.bytewise(text)
        last, eighth = (f"({self.text.code_point(byte)} & 31)" for byte in (f"RIGHT({data}, 1)", f"SUBSTRING({data}, 8, 1)"))
        return f"({last} * 32 + {eighth})"

    def digest_of_rows(self, data: str, between: bytes) -> str:
        """An aggregate: the SHA-256, as 64 lower-case hexadecimal digits, of the bytes of all rows (``joined_bytes``) in the order in which
        they come, with ``between`` between them. NULL if there are no rows. Only where MAX_JOINED_BYTES is not 0."""
        raise LookupError("this engine does not hash many rows as one")

    def joined_bytes(self, parts: Sequence[str]) -> str:
        """Bytes, concatenated: each part is ``text_bytes``, or a ``binary_literal``."""
        return self.text.concat(list(parts))

    def text_bytes(self, text: str) -> str:
        """The UTF-8 bytes of a text that ``operand_text`` yields, as a part of ``joined_bytes``."""
        return self.text.utf8(text)

    def joined_texts(self, texts: Sequence[str], between: str) -> list[str]:
        """The UTF-8 bytes of texts that ``operand_text`` yields, with ``between``, plain characters, between them, as parts of
        ``joined_bytes``."""
        return [self.text_bytes(self.text.join(texts, between))]

    def byte_for_null(self, value: bytes) -> str:
        """A byte that stands for NULL in COALESCE or CASE beside ``text_bytes``."""
        return self.names.binary_literal(value)

    def digest_of_pieces(self, kind: Kind, c: str, native: Kind, pieces: int) -> str:
        """64 lower-case hexadecimal digits that stand for a canonical text, also for one that is too long to be built at once.

        The SHA-256 of ``0`` and the text, if it has at most PIECE_BYTES bytes; else of ``1`` and the SHA-256 of each piece, a piece being
        PIECE_BYTES bytes in hexadecimal digits, and the last of ``pieces`` pieces all that is left. Of a binary value its own bytes
        count, not the digits that are its canonical text. NULL where an engine cannot build the last piece.
        """
        short = self.text.concat(["'0'", self.short_text(kind, c, native, PIECE_BYTES)])
        hashed = [self.row_hash(piece, "sha256") for piece in self.hexadecimal_pieces(kind, c, native, pieces)]
        long = self.text.concat(["'1'", *hashed])
        return f"COALESCE({self.row_hash(short, 'sha256')}, {self.row_hash(long, 'sha256')})"

    def short_text(self, kind: Kind, c: str, native: Kind, most: int) -> str:
        """The canonical text of a value of at most so many bytes, its own if it is binary; NULL for longer ones."""
        return f"CASE WHEN {self.byte_count(kind, c, native)} <= {most} THEN {self.canonical.canonical_text(kind, c, native)} END"

    def byte_count(self, kind: Kind, c: str, native: Kind) -> str:
        """How many bytes those are."""
        return f"OCTET_LENGTH({self.hashed_bytes(kind, c, native)})"

    def hexadecimal_pieces(self, kind: Kind, c: str, native: Kind, pieces: int) -> list[str]:
        """The pieces of ``digest_of_pieces``, those beyond the end of a value empty."""
        digits, size = self.text.hex_text(self.hashed_bytes(kind, c, native)), 2 * PIECE_BYTES
        return [f"SUBSTRING({digits}, {1 + number * size}, {size if number + 1 < pieces else NO_END})" for number in range(pieces)]

    def hashed_bytes(self, kind: Kind, c: str, native: Kind) -> str:
        """The bytes of a canonical text, of a binary value its own."""
        return c if kind.name == "binary" else self.text.utf8(self.canonical.canonical_text(kind, c, native))
