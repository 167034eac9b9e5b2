"""Redshift's SQL.

https://docs.aws.amazon.com/redshift/latest/dg/c_SQL_functions.html
"""

from __future__ import annotations

from dialects.canonical import Canonical
from dialects.catalogue import HashAlgorithm
from dialects.hashes import PIECE_BYTES, Hashes
from dialects.kinds import Kind
from dialects.names import Names
from dialects.numbers import WHOLE_NUMBER_KINDS, Numbers
from dialects.postgres.expressions import PostgresTimes
from dialects.text import Text
from dialects.times import BC, Times

LONGEST_STRIPPED = 4096
"""Bytes of the longest text of a document from which white space is removed."""


class RedshiftNames(Names):
    """How Redshift writes names and literals."""

    def string_literal(self, value: str) -> str:
        # A backslash may be an escape character in literals, depending on server settings, so CHR(92) replaces it.
        pieces = ("'" + piece.replace("'", "''") + "'" for piece in value.split("\\"))
        return "(" + " || CHR(92) || ".join(pieces) + ")" if "\\" in value else next(pieces)

    def binary_literal(self, value: bytes) -> str:
        return f"TO_VARBYTE('{value.hex()}', 'hex')"

    def written_time(self, text: str) -> str:
        if "infinity" in text:
            raise LookupError("an infinite date or time")
        return super().written_time(text)


class RedshiftText(Text):
    """What Redshift does with texts."""

    TEXT_TYPE = "VARCHAR(41)"
    END_OF_GROUPED_TEXT = "."
    """Blanks at the end of a VARCHAR mean nothing in GROUP BY, IN and =.
    https://docs.aws.amazon.com/redshift/latest/dg/r_Character_types.html#r_Character_types-significance-of-trailing-blanks"""

    def hex_text(self, c: str) -> str:
        # The manual's examples have no letters. https://docs.aws.amazon.com/redshift/latest/dg/r_FROM_VARBYTE.html
        return f"LOWER(FROM_VARBYTE({c}, 'hex'))"

    def bytewise(self, c: str) -> str:
        # Comparison is by bytes, but for trailing blanks, and but for letters in a column or database created as case-insensitive.
        # https://docs.aws.amazon.com/redshift/latest/dg/r_COLLATE.html
        return f"COLLATE({c}, 'case_sensitive')"

    def exact_text(self, c: str) -> str:
        # Comparisons of VARCHAR ignore trailing blanks, and a collation can ignore case.
        # https://docs.aws.amazon.com/redshift/latest/dg/r_Character_types.html#r_Character_types-significance-of-trailing-blanks
        return self.utf8(c)

    def utf8(self, text: str) -> str:
        # https://docs.aws.amazon.com/redshift/latest/dg/r_TO_VARBYTE.html
        return f"TO_VARBYTE({text}, 'utf8')"

    def byte_length(self, c: str) -> str:
        # Texts are stored in UTF-8. https://docs.aws.amazon.com/redshift/latest/dg/r_OCTET_LENGTH.html
        return f"OCTET_LENGTH({c})"


class RedshiftNumbers(Numbers):
    """What Redshift does with numbers."""

    DOUBLE, SINGLE = "DOUBLE PRECISION", "REAL"

    def decimal_text(self, c: str, scale: int, native: Kind) -> str:
        if native.name in WHOLE_NUMBER_KINDS:  # nor is it documented that ROUND makes no float of a whole number
            return self.text.as_text(f"CAST({c} AS DECIMAL({min(38, 20 + scale)},{scale}))")
        # An explicit cast truncates; ROUND rounds half away from zero. https://docs.aws.amazon.com/redshift/latest/dg/r_ROUND.html
        digits = min(38, max(native.digits or 38, 19) + max(0, scale - (native.scale or 0)))
        return self.text.as_text(f"CAST(ROUND({c}, {scale}) AS DECIMAL({digits},{scale}))")

    def rounded_text(self, c: str, scale: int, native: Kind) -> str:
        if native.name in ("float32", "float64"):
            return super().rounded_text(c, scale, native)
        digits = min(38, (native.digits or 19) + scale)
        return self.text.as_text(f"CAST(ROUND(CAST({c} AS DECIMAL({digits},{native.scale or 0})) * {10**scale}, 0) AS DECIMAL(38,0))")

    def log2(self, c: str) -> str:
        # LN may be computed even for rows whose CASE branch is not taken, so zero must not reach it.
        return f"(LN(NULLIF({c}, 0)) / LN({self.double_literal('2')}))"

    def non_finite_branches(self, x: str) -> str:
        # Whether NaN equals itself is not documented, so both tests are made.
        return super().non_finite_branches(x).replace(" THEN 'NaN'", f" OR {x} <> {x} THEN 'NaN'")

    def hex_word(self, digits: str) -> str:
        return f"STRTOL({digits}, 16)"

    def word(self, digits: str, first: int, count: int) -> str:
        return f"STRTOL(SUBSTRING({digits}, {first}, {count}), 16)"

    # MOD of a BIGINT and an INTEGER yields an INTEGER, whose products would overflow, and it takes no BIGINT with a SMALLINT, nor a
    # DECIMAL with an integer. https://docs.aws.amazon.com/redshift/latest/dg/r_MOD.html

    def modulo(self, c: str, divisor: int) -> str:
        return f"{c} % CAST({divisor} AS BIGINT)"

    def column_modulo(self, c: str, divisor: int, native: Kind) -> str:
        if native.name == "decimal":
            return f"MOD({c}, CAST({divisor} AS DECIMAL(19,0)))"
        return self.modulo(self.as_bigint(c), divisor)

    def low_bits(self, c: str, bits: int) -> str:
        return f"({c} & CAST({2**bits - 1} AS BIGINT))"

    def floor_divide(self, c: str, divisor: int, native: Kind) -> str:
        rest = self.column_modulo(c, divisor, native)
        if native.name == "decimal":  # exact: the quotient of a multiple of the divisor has no digits to round
            return f"CAST(({c} - {rest}) / CAST({divisor} AS DECIMAL(19,0)) - CASE WHEN {rest} < 0 THEN 1 ELSE 0 END AS BIGINT)"
        return self.as_bigint(f"{self.as_bigint(c)} / CAST({divisor} AS BIGINT) - CASE WHEN {rest} < 0 THEN 1 ELSE 0 END")

    def number_sum(self, c: str, native: Kind) -> str:
        # The sum of BIGINTs is a BIGINT, which may overflow. https://docs.aws.amazon.com/redshift/latest/dg/r_SUM.html
        return f"SUM(CAST({c} AS DECIMAL(38,0)))" if native.name in WHOLE_NUMBER_KINDS else super().number_sum(c, native)


class RedshiftTimes(PostgresTimes):
    """What Redshift does with dates and times."""

    UTC_NOW = "GETDATE()"

    def date_text(self, c: str) -> str:
        # TO_CHAR drops "BC". https://docs.aws.amazon.com/redshift/latest/dg/r_FORMAT_strings.html
        return f"(TO_CHAR({c}, 'YYYY-MM-DD') || CASE WHEN {self.is_common_era(c)} THEN '' ELSE '{BC}' END)"

    def is_common_era(self, c: str) -> str:
        return f"{c} >= '0001-01-01'"

    def time_text(self, c: str) -> str:
        return f"TO_CHAR(DATE '2000-01-01' + {c}, 'HH24:MI:SS.US')"

    def short_time_text(self, c: str, native: Kind) -> str:
        return Times.short_time_text(self, c, native)

    def timestamp_text(self, c: str, native: Kind, digits: int | None = None) -> str:
        text = self.cut_fraction(f"TO_CHAR({c}, 'YYYY-MM-DD HH24:MI:SS.US')", digits)
        return f"({text} || CASE WHEN {self.is_common_era(c)} THEN '' ELSE '{BC}' END)"

    def day_index(self, c: str) -> str:
        return f"(CAST({c} AS DATE) - DATE '1970-01-01')"  # Redshift has no infinite dates

    def microseconds(self, c: str, native: Kind) -> str:
        # https://docs.aws.amazon.com/redshift/latest/dg/r_DATEDIFF_function.html
        at = f"DATE '1970-01-01' + {c}" if native.name == "time" else c
        return f"DATEDIFF(microsecond, TIMESTAMP '1970-01-01 00:00:00', {at})"

    def year(self, c: str) -> str:
        # What EXTRACT yields before Christ is not documented, so such dates are moved by 4,800 years, after which the calendar repeats.
        moved = f"EXTRACT(YEAR FROM CAST({c} AS DATE) + {12 * 146_097}) - 4800"
        return f"CASE WHEN {self.is_common_era(c)} THEN EXTRACT(YEAR FROM {c}) ELSE {moved} END"

    def seconds_since(self, c: str) -> str:
        return f"EXTRACT(EPOCH FROM GETDATE()) - EXTRACT(EPOCH FROM {c})"


class RedshiftCanonical(Canonical):
    """How Redshift writes canonical text."""

    def json_text(self, c: str, native: Kind) -> str:
        # JSON_SERIALIZE prints no whitespace between tokens. https://docs.aws.amazon.com/redshift/latest/dg/JSON_SERIALIZE.html
        if native.name == "json":  # and of NULL the text null
            return f"CASE WHEN {c} IS NOT NULL THEN JSON_SERIALIZE({c}) END"
        # Back-references in the replacement are not documented, nor whether literals take backslashes as escapes: so white space is found
        # by what follows it, an even number of quotation marks, while control characters, which JSON's texts cannot hold, stand for
        # escaped ones. https://docs.aws.amazon.com/redshift/latest/dg/REGEXP_REPLACE.html
        hidden = f"REPLACE(REPLACE({c}, CHR(92) || CHR(92), CHR(1)), CHR(92) || '\"', CHR(2))"
        bare = f"""REGEXP_REPLACE({hidden}, '[[:space:]]+(?=[^"]*("[^"]*"[^"]*)*$)', '', 1, 'p')"""
        shown = f"REPLACE(REPLACE({bare}, CHR(2), CHR(92) || '\"'), CHR(1), CHR(92) || CHR(92))"
        # Looking ahead to the end at each white space takes the square of a document's length, which therefore is limited.
        kept = f"CHARINDEX(CHR(1), {c}) + CHARINDEX(CHR(2), {c}) > 0 OR OCTET_LENGTH({c}) > {LONGEST_STRIPPED}"
        return f"CASE WHEN {kept} THEN {c} ELSE {shown} END"


class RedshiftHashes(Hashes):
    """How Redshift hashes texts."""

    MAX_JOINED_BYTES = 0  # LISTAGG yields at most 65,535 bytes
    MAX_TEXT_BYTES = 65_535
    """https://docs.aws.amazon.com/redshift/latest/dg/r_Character_types.html#r_Character_types-storage-and-ranges"""

    # A SUPER and a VARBYTE hold up to 16 MB, while SHA2 takes a VARCHAR alone: what is longer than one is read as bytes, in pieces.
    # https://docs.aws.amazon.com/redshift/latest/dg/JSON_SERIALIZE_TO_VARBYTE.html, r_json_size.html, and varbyte-functions.html

    def byte_count(self, kind: Kind, c: str, native: Kind) -> str:
        if native.name == "json":
            return f"CASE WHEN {c} IS NOT NULL THEN JSON_SIZE({c}) END"
        return super().byte_count(kind, c, native)

    def short_text(self, kind: Kind, c: str, native: Kind, most: int) -> str:
        if native.name not in ("json", "binary"):
            return super().short_text(kind, c, native, most)
        # The inner CASE keeps a long value from the function even where that is computed for rows whose branch is not taken.
        short = f"CASE WHEN {self.byte_count(kind, c, native)} <= {most} THEN {c} END"
        return (
            f"CASE WHEN {self.byte_count(kind, c, native)} <= {most} THEN {self.canonical.canonical_text(kind, f'({short})', native)} END"
        )

    def hexadecimal_pieces(self, kind: Kind, c: str, native: Kind, pieces: int) -> list[str]:
        data = f"JSON_SERIALIZE_TO_VARBYTE({c})" if native.name == "json" else self.hashed_bytes(kind, c, native)
        short = f"CASE WHEN {self.byte_count(kind, c, native)} <= {pieces * PIECE_BYTES} THEN {data} END"
        return [self.text.hex_text(f"SUBSTRING({short}, {1 + number * PIECE_BYTES}, {PIECE_BYTES})") for number in range(pieces)]

    def row_hash(self, text: str, algorithm: HashAlgorithm) -> str:
        return f"MD5({text})" if algorithm == "md5" else f"SHA2({text}, 256)"
