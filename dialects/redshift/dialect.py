"""Amazon Redshift, through Amazon's own driver.

https://docs.aws.amazon.com/redshift/latest/dg/c_SQL_functions.html
https://docs.aws.amazon.com/redshift/latest/dg/c_redshift-and-postgres-sql.html

Redshift is derived from PostgreSQL 8.0.2: whatever is not stated here is as in PostgreSQL.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dialects import extras
from dialects.base import Dialect, Session
from dialects.canonical_text import WHOLE_NUMBER_KINDS
from dialects.catalogue import HashAlgorithm
from dialects.hashes import PIECE_BYTES
from dialects.hex_numbers import HexNumbers, Places
from dialects.kinds import Kind, parse_native
from dialects.postgres.dialect import APPLICATION_NAME, Postgres
from dialects.redshift import facts
from dialects.redshift.catalogue import RedshiftCatalogue
from dialects.redshift.driver import close_sockets_of_failed_login, socket_of
from dialects.redshift.login import RedshiftAddresses, check_options, sign_in_options
from dialects.redshift.server import RedshiftServer
from dialects.redshift.session import DATE_STYLE, RedshiftSession, translate_error
from dialects.redshift.unload import unloading
from dialects.redshift.writing import TABLE_FORM, RedshiftWriting
from dialects.session import Driver
from dialects.time_text import BC
from dialects.url import Url
from dialects.wire import describe_encryption

LONGEST_STRIPPED = 4096
"""Bytes of the longest text of a document from which white space is removed."""


class Redshift(Postgres):
    """Amazon Redshift."""

    name = "redshift"
    schemes = ("redshift", "redshift+redshift_connector", "redshift+psycopg2")
    sqlglot_dialect = "redshift"
    TABLE_FORM = TABLE_FORM
    addresses = RedshiftAddresses(name)
    catalogue = RedshiftCatalogue()
    server = RedshiftServer()
    writing = RedshiftWriting(name)
    TEMPLATES = "sql_templates.redshift"
    DRIVERS = {"redshift_connector": "redshift-connector"}

    UNAVAILABLE_TEMPLATES = frozenset({"active_sessions", "aurora", "aurora_lag", "heartbeat_create", "heartbeat_write", "indexes", "lag"})
    ROW_STORE = False
    TAKES_SEVERAL_STATEMENTS = False  # the driver prepares each
    MAX_JOINED_BYTES = 0  # LISTAGG yields at most 65,535 bytes

    OPTIMIZER_BARRIER = ""
    PARALLEL_WORKERS = ""  # its slices always work in parallel
    OPTIMIZER_BARRIER_COLUMN = "RANDOM()"
    """A hope, not a promise: a volatile column keeps a planner derived from PostgreSQL's from merging the subquery, and the manual offers
    no hint that does, except that LIMIT and OFFSET would send all rows to the leader node. If it does not help, a row is hashed once for
    each sum, which costs time and changes no result. https://docs.aws.amazon.com/redshift/latest/dg/r_RANDOM.html"""

    BEGIN_SNAPSHOT = ("BEGIN READ ONLY",)
    EXPORTS_SNAPSHOT = False
    READ_CONSISTENCY = "all statements read the snapshot of the transaction's first one (serializable or snapshot isolation)"
    UTC_NOW = "GETDATE()"
    END_OF_GROUPED_TEXT = "."
    """Blanks at the end of a VARCHAR mean nothing in GROUP BY, IN and =.
    https://docs.aws.amazon.com/redshift/latest/dg/r_Character_types.html#r_Character_types-significance-of-trailing-blanks"""
    MAX_DECIMAL_DIGITS = 38
    MAX_TEXT_BYTES = 65_535
    """https://docs.aws.amazon.com/redshift/latest/dg/r_Character_types.html#r_Character_types-storage-and-ranges"""
    FACTS = facts.FACTS
    LINE_SETTINGS = ("SET extra_float_digits TO 2",)
    """By default a float is written with 15 digits. https://docs.aws.amazon.com/redshift/latest/dg/r_extra_float_digits.html"""

    UNTRIED_VALUES = {"nan": "the manual does not say how NaN and infinities are written"}
    UNSUPPORTED_VALUES = {
        "NUL in text": "text ends at, or refuses, the character U+0000",
        "interval": "EXTRACT of an INTERVAL column is not documented for all parts",
        "uuid": "there is no uuid type; use VARCHAR(36)",
        "bit": "there is no bit type",
    }

    KIND_BY_TYPE = {
        "boolean": Kind("boolean"), "smallint": Kind("integer"), "integer": Kind("integer"), "bigint": Kind("integer"),
        "numeric": Kind("decimal", 18, 0), "real": Kind("float32"), "double precision": Kind("float64"),
        "character varying": Kind("text"), "text": Kind("text"), "character": Kind("char", 1), "bpchar": Kind("char"),
        "binary varying": Kind("binary"), "varbyte": Kind("binary"), "bytea": Kind("binary"),
        "date": Kind("date"), "time": Kind("time"), "time without time zone": Kind("time"),
        "timestamp": Kind("timestamp"), "timestamp without time zone": Kind("timestamp"),
        "timestamp with time zone": Kind("timestamptz"), "super": Kind("json"), "jsonb": Kind("json"),
        # as the catalogue spells types of external tables and datashares
        "bool": Kind("boolean"), "int": Kind("integer"), "tinyint": Kind("integer"), "int2": Kind("integer"), "int4": Kind("integer"),
        "int8": Kind("integer"), "decimal": Kind("decimal", 18, 0), "float": Kind("float32"), "float4": Kind("float32"),
        "double": Kind("float64"), "float8": Kind("float64"), "string": Kind("text"), "varchar": Kind("text"), "char": Kind("char", 1),
        "varbinary": Kind("binary"), "timestamptz": Kind("timestamptz"),
    }  # fmt: skip
    """BYTEA and JSONB exist only in the tests, where PostgreSQL stands in for Redshift. A FLOAT of an external table has 4 bytes.
    https://docs.aws.amazon.com/redshift/latest/dg/r_CREATE_EXTERNAL_TABLE.html"""

    TYPE_BY_KIND = {
        "boolean": "BOOLEAN", "integer": "BIGINT", "unsigned integer": "DECIMAL(20,0)", "decimal": "DECIMAL({digits},{scale})",
        "float32": "REAL", "float64": "DOUBLE PRECISION", "text": "VARCHAR(65535)", "char": "CHAR({digits})", "json": "SUPER",
        "enum": "VARCHAR(256)", "set": "VARCHAR(256)", "binary": "VARBYTE", "year": "SMALLINT", "date": "DATE",
        "time": "TIME", "timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMP WITH TIME ZONE", "uuid": "VARCHAR(36)",
        "network": "VARCHAR(43)",
    }  # fmt: skip

    def string_literal(self, value: str) -> str:
        # A backslash may be an escape character in literals, depending on server settings, so CHR(92) replaces it.
        pieces = ("'" + piece.replace("'", "''") + "'" for piece in value.split("\\"))
        return "(" + " || CHR(92) || ".join(pieces) + ")" if "\\" in value else next(pieces)

    def binary_literal(self, value: bytes) -> str:
        return f"TO_VARBYTE('{value.hex()}', 'hex')"

    def typed_value(self, value: str, kind: Kind) -> str:
        # A cast of text to SUPER is one string, whatever it holds. https://docs.aws.amazon.com/redshift/latest/dg/JSON_PARSE.html
        return f"JSON_PARSE({value})" if kind.name == "json" and value != "NULL" else super().typed_value(value, kind)

    def document(self, literal: str) -> str:
        return f"JSON_PARSE({literal})"

    def written_time(self, text: str) -> str:
        if "infinity" in text:
            raise LookupError("an infinite date or time")
        return super().written_time(text)

    def kind(self, native: str) -> Kind | None:
        if native.startswith("interval") or native.endswith(("]", ">")):
            return None
        kind, parsed = super().kind(native), parse_native(native)
        if kind is None or parsed is None or kind.name not in ("text", "char", "binary"):
            return kind
        # Lengths are of bytes; that of a binary column says nothing of its values' width, as that of a BINARY(16) elsewhere does.
        stated = parsed.number(0, 0) or None
        return replace(kind, bytes=stated, digits=None if kind.name == "binary" else kind.digits)

    def as_text(self, c: str) -> str:
        return f"CAST({c} AS VARCHAR(41))"

    def decimal_text(self, c: str, scale: int, native: Kind) -> str:
        if native.name in WHOLE_NUMBER_KINDS:  # nor is it documented that ROUND makes no float of a whole number
            return self.as_text(f"CAST({c} AS DECIMAL({min(38, 20 + scale)},{scale}))")
        # An explicit cast truncates; ROUND rounds half away from zero. https://docs.aws.amazon.com/redshift/latest/dg/r_ROUND.html
        digits = min(38, max(native.digits or 38, 19) + max(0, scale - (native.scale or 0)))
        return self.as_text(f"CAST(ROUND({c}, {scale}) AS DECIMAL({digits},{scale}))")

    def rounded_text(self, c: str, scale: int, native: Kind) -> str:
        if native.name in ("float32", "float64"):
            return super().rounded_text(c, scale, native)
        digits = min(38, (native.digits or 19) + scale)
        return self.as_text(f"CAST(ROUND(CAST({c} AS DECIMAL({digits},{native.scale or 0})) * {10**scale}, 0) AS DECIMAL(38,0))")

    def log2(self, c: str) -> str:
        # LN may be computed even for rows whose CASE branch is not taken, so zero must not reach it.
        return f"(LN(NULLIF({c}, 0)) / LN({self.double_literal('2')}))"

    def non_finite_branches(self, x: str) -> str:
        # Whether NaN equals itself is not documented, so both tests are made.
        return super().non_finite_branches(x).replace(" THEN 'NaN'", f" OR {x} <> {x} THEN 'NaN'")

    def hex_text(self, c: str) -> str:
        # The manual's examples have no letters. https://docs.aws.amazon.com/redshift/latest/dg/r_FROM_VARBYTE.html
        return f"LOWER(FROM_VARBYTE({c}, 'hex'))"

    def full_decimal_text(self, c: str, native: Kind) -> str:
        return Dialect.full_decimal_text(self, c, native)

    def date_text(self, c: str) -> str:
        # TO_CHAR drops "BC". https://docs.aws.amazon.com/redshift/latest/dg/r_FORMAT_strings.html
        return f"(TO_CHAR({c}, 'YYYY-MM-DD') || CASE WHEN {self.is_common_era(c)} THEN '' ELSE '{BC}' END)"

    def is_common_era(self, c: str) -> str:
        return f"{c} >= '0001-01-01'"

    def cut_end(self, text: str, count: int) -> str:
        return Dialect.cut_end(self, text, count)

    def time_text(self, c: str) -> str:
        return f"TO_CHAR(DATE '2000-01-01' + {c}, 'HH24:MI:SS.US')"

    def short_time_text(self, c: str, native: Kind) -> str:
        return Dialect.short_time_text(self, c, native)

    def timestamp_text(self, c: str, native: Kind, digits: int | None = None) -> str:
        text = self.cut_fraction(f"TO_CHAR({c}, 'YYYY-MM-DD HH24:MI:SS.US')", digits)
        return f"({text} || CASE WHEN {self.is_common_era(c)} THEN '' ELSE '{BC}' END)"

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

    def characters(self, c: str) -> str:
        return c

    def lower(self, c: str) -> str:
        return Dialect.lower(self, c)

    def upper(self, c: str) -> str:
        return Dialect.upper(self, c)

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
        return f"CASE WHEN {self.byte_count(kind, c, native)} <= {most} THEN {self.canonical_text(kind, f'({short})', native)} END"

    def hexadecimal_pieces(self, kind: Kind, c: str, native: Kind, pieces: int) -> list[str]:
        data = f"JSON_SERIALIZE_TO_VARBYTE({c})" if native.name == "json" else self._data(kind, c, native)
        short = f"CASE WHEN {self.byte_count(kind, c, native)} <= {pieces * PIECE_BYTES} THEN {data} END"
        return [self.hex_text(f"SUBSTRING({short}, {1 + number * PIECE_BYTES}, {PIECE_BYTES})") for number in range(pieces)]

    def row_hash(self, text: str, algorithm: HashAlgorithm) -> str:
        return f"MD5({text})" if algorithm == "md5" else f"SHA2({text}, 256)"

    def row_word(self, text: str, algorithm: HashAlgorithm) -> str:
        return self.word(self.row_hash(text, algorithm), 1, 15)

    def uuid_number(self, c: str) -> str:
        return Dialect.uuid_number(self, c)

    def digits_number(self, c: str, places: Places) -> str:
        return HexNumbers.digits_number(self, c, places)

    def small_digits(self, c: str) -> str:
        return Dialect.small_digits(self, c)

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

    def day_index(self, c: str) -> str:
        return f"(CAST({c} AS DATE) - DATE '1970-01-01')"  # Redshift has no infinite dates

    def year(self, c: str) -> str:
        # What EXTRACT yields before Christ is not documented, so such dates are moved by 4,800 years, after which the calendar repeats.
        moved = f"EXTRACT(YEAR FROM CAST({c} AS DATE) + {12 * 146_097}) - 4800"
        return f"CASE WHEN {self.is_common_era(c)} THEN EXTRACT(YEAR FROM {c}) ELSE {moved} END"

    def seconds_since(self, c: str) -> str:
        return f"EXTRACT(EPOCH FROM GETDATE()) - EXTRACT(EPOCH FROM {c})"

    def pin_statements(self, statement_timeout: float, lock_timeout: float = 10.0) -> list[str]:
        # No parameter limits the wait for a lock; statement_timeout includes that wait.
        # https://docs.aws.amazon.com/redshift/latest/dg/cm_chap_ConfigurationRef.html
        return [
            "SET timezone TO 'UTC'",
            f"SET datestyle TO '{DATE_STYLE}'",
            # Else quoted names are folded: https://docs.aws.amazon.com/redshift/latest/dg/r_enable_case_sensitive_identifier.html
            "SET enable_case_sensitive_identifier TO true",
            f"SET statement_timeout TO {max(1, round(statement_timeout * 1000))}",
        ]

    def connect(self, url: Url, statement_timeout: float, lock_timeout: float = 10.0) -> Session:
        extras.require("Redshift", "redshift")
        import redshift_connector

        check_options(url)
        patience = url.patience

        def log_in() -> Any:
            try:
                connection = redshift_connector.connect(timeout=patience, **sign_in_options(url, APPLICATION_NAME))
            except Exception as error:
                close_sockets_of_failed_login(error)
                raise
            connection.autocommit = True
            socket_of(connection).settimeout(
                None
            )  # the driver would apply its connect timeout to every statement; the session bounds those
            return connection

        driver = Driver(str(url), patience, log_in, lambda connection: int(socket_of(connection).fileno()), translate_error)
        unloaded = unloading(url)
        session = RedshiftSession(self, "Amazon Redshift", driver.connect(), driver)
        session.unloading, session.reached = unloaded, describe_encryption(socket_of(session.connection))
        with session.closed_on_error():
            session.pin(statement_timeout, lock_timeout)
            if group := url.options.get("query_group"):  # https://docs.aws.amazon.com/redshift/latest/dg/r_query_group.html
                session.execute(f"SET query_group TO {self.string_literal(group)}")
            session.read_process_id()
        session.wait_for_statements(statement_timeout)
        return session
