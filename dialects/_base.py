"""What an engine has to state: facts, and short methods that each return a piece of SQL text.

A method's docstring says, in output characters, what its SQL yields. ``c`` is always SQL text of an expression, ``native``
the kind that the engine's own type of it stands for. Expressions yield SQL NULL for NULL until the row encoding.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import sql_templates
from dialects._errors import NoSuchObject
from dialects._kinds import FREE_TEXT, Kind, NativeType, parse_native
from dialects._session import Session
from dialects._url import Url

Algorithm = Literal["sha256", "md5"]
Unit = Literal["hour", "day", "month"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a table is: a name of one to three parts, or the path of files and the state of them to read."""

    parts: tuple[str, ...]
    path: str | None = None
    format: str | None = None
    version: int | str | None = None
    timestamp: str | None = None

    def __str__(self) -> str:
        state = f"@{self.version or self.timestamp}" if self.version is not None or self.timestamp else ""
        return (self.path or ".".join(self.parts)) + state


@dataclass(frozen=True, slots=True)
class Column:
    """A column as the engine's catalogue has it; ``kind`` is None where its type has no canonical kind."""

    name: str
    native: str
    kind: Kind | None
    nullable: bool


@dataclass(frozen=True, slots=True)
class Table:
    """A table as the engine's catalogue has it.

    ``sql`` is its name or path as FROM takes it; ``estimate`` the engine's own estimate of its rows.
    """

    sql: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    estimate: int | None


class Dialect(ABC):
    """One engine. See the package's docstring for how to write another."""

    name: ClassVar[str]
    """The word for this engine in URLs, templates and messages."""

    schemes: ClassVar[tuple[str, ...]]
    """URL schemes that mean this engine."""

    sqlglot: ClassVar[str]
    """What sqlglot calls this engine's SQL."""

    ancestors: ClassVar[tuple[str, ...]] = ()
    """Engines whose templates serve where this one has no file of its own, nearest first."""

    ROW_STORE: ClassVar[bool] = True
    """Whether rows lie together and a key range is read through an index, so that a scan is cut into chunks."""

    FENCE: ClassVar[str] = ""
    """What ends a derived table so that the optimiser computes its columns once instead of once per use."""

    FENCE_COLUMN: ClassVar[str] = ""
    """A further column of a derived table, with its comma, for an engine whose barrier has to be one."""

    BEGIN: ClassVar[tuple[str, ...]] = ()
    """Statements that open a consistent read-only snapshot."""

    END: ClassVar[tuple[str, ...]] = ()
    """Statements that close it."""

    SNAPSHOT: ClassVar[str] = "each statement reads its own consistent state"
    """What a run's statements on this engine see, in a sentence."""

    HAS_MD5: bool = True
    """Whether the server has MD5()."""

    LITERALS_NEED_CAST: ClassVar[bool] = True
    """Whether a text literal has to be cast to be stored in a column of another type."""

    MAX_DECIMAL_DIGITS: ClassVar[int] = 38
    """The most digits of a decimal."""

    TYPES: ClassVar[Mapping[str, Kind]] = {}
    """Native type name to canonical kind; numbers in the type's brackets refine it."""

    NATIVE: ClassVar[Mapping[str, str]] = {}
    """Canonical kind to the native type that holds it, with ``{digits}`` and ``{scale}`` where the type takes them."""

    GAPS: ClassVar[Mapping[str, str]] = {}
    """Values this engine cannot hold or cannot yield canonical text of, by capability, each with its reason."""

    # names and literals

    @abstractmethod
    def quote(self, identifier: str) -> str:
        """The identifier, quoted so that any character may stand in it."""

    @abstractmethod
    def string(self, value: str) -> str:
        """A text literal that reads back as exactly ``value``."""

    def literal(self, value: str | int | None) -> str:
        """A literal of text, integer or NULL."""
        if value is None:
            return "NULL"
        return str(value) if isinstance(value, int) else self.string(value)

    @abstractmethod
    def binary(self, value: bytes) -> str:
        """A literal of these bytes."""

    def table(self, *parts: str) -> str:
        """A table name of the given parts (catalogue, schema, table), each quoted."""
        return ".".join(self.quote(part) for part in parts)

    # the catalogue

    def template(self, name: str) -> str:
        """The text of a template for this engine."""
        return sql_templates.load(name, (self.name, *self.ancestors))

    def describe(self, session: Session, place: Place) -> list[Table]:
        """The tables that a name can mean, its letters' case aside; the caller chooses.

        Raises NoSuchObject for a path on an engine that reads none.
        """
        if place.path:
            raise NoSuchObject(f"{self.name} reads tables, not files: {place.path}")
        schema, name = (None, *place.parts)[-2:]
        found: dict[tuple[str, str], list[Column]] = {}
        names = {"schema": self.literal(schema), "table": self.literal(name)}
        for in_schema, table, column, native, nullable in session.query(self._catalogue("columns", names)):
            found.setdefault((str(in_schema), str(table)), []).append(
                Column(str(column), str(native), self.kind(str(native)), bool(nullable))
            )
        return [self._described(session, names, columns) for names, columns in found.items()]

    def tables(self, session: Session) -> list[tuple[str, str]]:
        """The tables of the connection's database: (schema, table)."""
        return [(str(row[0]), str(row[1])) for row in session.query(self._catalogue("tables", {}))]

    def _described(self, session: Session, names: tuple[str, str], columns: list[Column]) -> Table:
        literals = {"schema": self.literal(names[0]), "table": self.literal(names[1])}
        key = [str(row[0]) for row in session.query(self._catalogue("primary_key", literals))]
        estimate = session.query(self._catalogue("estimate", literals))
        rows = int(estimate[0][0]) if estimate and estimate[0][0] is not None else None
        return Table(self.table(*names), tuple(columns), tuple(key), rows)

    def _catalogue(self, name: str, fragments: Mapping[str, str]) -> str:
        template = self.template(name)
        return sql_templates.fill(template, {hole: fragments[hole] for hole in sql_templates.holes(template)})

    def kind(self, native: str) -> Kind | None:
        """The canonical kind of a native type as the catalogue writes it; None where there is none."""
        parsed = parse_native(native)
        known = self.TYPES.get(parsed.name) if parsed else None
        return refine(known, parsed) if known and parsed else None

    def native_type(self, kind: Kind) -> str:
        """The native type that holds a kind. Raises LookupError where the engine has none."""
        name = f"unsigned {kind.name}" if kind.unsigned else kind.name
        if name not in self.NATIVE:
            raise LookupError(f"{self.name} has no type for {kind}")
        digits = kind.digits or {"decimal": 38, "char": 1, "bit": 1, "binary": 16}.get(kind.name, 0)
        scale = (0 if kind.name == "decimal" else 6) if kind.scale is None else kind.scale
        return self.NATIVE[name].format(digits=digits, scale=scale)

    # canonical text

    def text(self, kind: Kind, c: str, native: Kind) -> str:
        """Canonical text of ``c`` as ``kind``; auditor.canonical has the characters of every kind in plain Python."""
        if native.name in FREE_TEXT and kind.name not in FREE_TEXT:
            return self.lower(self.characters(c)) if kind.name == "uuid" else self.characters(c)
        match kind.name:
            case "boolean":
                return self.boolean_text(c, native)
            case "integer" | "year":
                return self.integer_text(c, native)
            case "decimal":
                return self.decimal_text(c, kind.scale or 0, native)
            case "rounded":
                return self.rounded_text(c, kind.scale or 0, native)
            case "float64" | "float32":
                return self.float_text(c, kind, native)
            case "binary":
                return self.hex_text(c)
            case "date":
                return self.date_text(c) if native.name == "date" else f"LEFT({self.timestamp_text(c, native)}, 10)"
            case "time":
                return self.fraction(self.time_text(c), 8, kind.scale)
            case "timestamp" | "timestamptz":
                return self._timestamp(kind, c, native)
            case "uuid":
                return self.uuid_text(c, native)
            case "bit":
                return self.bit_text(c, native)
            case "interval":
                return self.interval_text(c, native)
            case "json":
                return self.json_text(c, native)
            case "char":
                return self.right_trimmed(self.characters(c))
            case _:
                return self.characters(c)

    def _timestamp(self, kind: Kind, c: str, native: Kind) -> str:
        if native.name == "date":
            zeros = "." + "0" * kind.scale if kind.scale else ""
            return self.concat([self.date_text(c), self.string(" 00:00:00" + zeros)])
        return self.fraction(self.timestamp_text(c, native), 19, kind.scale, max(6, native.scale or 0))

    def fraction(self, text: str, whole: int, wanted: int | None, held: int = 6) -> str:
        """``text`` (``whole`` characters, a point, ``held`` digits) with ``wanted`` digits of the fraction, cut or padded.

        Cut as text, because a cast rounds on some engines and truncates on others.
        """
        if wanted is None or wanted == held:
            return text
        if wanted > held:
            return self.concat([text, self.string("0" * (wanted - held))])
        return f"LEFT({text}, {whole + 1 + wanted if wanted else whole})"

    def boolean_text(self, c: str, native: Kind) -> str:
        """``1`` or ``0``."""
        if native.name == "boolean":
            return f"CASE WHEN {c} THEN '1' WHEN NOT {c} THEN '0' END"
        return f"CASE WHEN {self.number(c, native)} <> 0 THEN '1' WHEN {self.number(c, native)} = 0 THEN '0' END"

    def integer_text(self, c: str, native: Kind) -> str:
        """Decimal digits, a ``-`` before negative ones, no leading zero, no point."""
        if native.name == "boolean":
            return self.boolean_text(c, native)
        if native.name == "decimal":
            return self.decimal_text(c, 0, native)
        return self.as_text(self.number(c, native))

    def number(self, c: str, native: Kind) -> str:
        """``c`` as a number where its type is no number (a bit string)."""
        return c

    def as_text(self, c: str) -> str:
        """A number of whole units as decimal digits."""
        return f"CAST({c} AS VARCHAR)"

    @abstractmethod
    def decimal_text(self, c: str, scale: int, native: Kind) -> str:
        """Digits with exactly ``scale`` of them behind the point (no point for 0), at least one before it, rounded half away
        from zero; never ``-0``."""

    def rounded_text(self, c: str, scale: int, native: Kind) -> str:
        """How many units of 10^-scale, as an integer, rounded half away from zero; a float too large for that as float_text."""
        if native.name not in ("float32", "float64"):
            return self.decimal_text(f"({c}) * {10**scale}", 0, native)
        x = self.double(c)
        size = f"FLOOR(ABS({x}) * {self.double_literal(f'1e{scale}')} + {self.double_literal('0.5')})"
        units = self.as_text(self.bigint(f"CASE WHEN {x} < 0 THEN -{size} ELSE {size} END"))
        within = f"ABS({x}) < {self.double_literal(f'9e{18 - scale}')}"
        return f"CASE WHEN {within} THEN {units} ELSE {self.float_text(c, Kind('float64'), native)} END"

    # floats: |x| = m * 2^(e - 53) with e = floor(log2|x| + 0.3721), so that m is an integer in (2^52, 2^54).
    # Scaling by powers of two is exact in IEEE 754, so every engine finds the same m; the odd offset keeps the places where
    # a logarithm's last bit could decide e away from any natural number.

    def float_text(self, c: str, kind: Kind, native: Kind) -> str:
        """``<m>p<e>``, or ``0``, ``NaN``, ``Infinity``, ``-Infinity``; a ``-`` before negative ones; -0 is ``0``."""
        narrowed = self.single(c) if kind.name == "float32" and native.name != "float32" else c
        x = self.double(narrowed)
        size = f"ABS({x})"
        tiny = f"{size} < {self.double_literal('1e-270')}"
        y = f"CASE WHEN {tiny} THEN {size} * {self.power_of_two('1000')} ELSE {size} END"
        e = f"FLOOR({self.log2(y)} + {self.double_literal('0.3721')})"
        m = self.as_text(self.bigint(f"({y}) * {self.power_of_two(f'53 - {e}')}"))
        shifted = self.as_text(self.bigint(f"{e} - CASE WHEN {tiny} THEN 1000 ELSE 0 END"))
        finite = self.concat([f"CASE WHEN {x} < 0 THEN '-' ELSE '' END", m, "'p'", shifted])
        return f"CASE {self.not_finite(x)}WHEN {x} = 0 THEN '0' ELSE {finite} END"

    def not_finite(self, x: str) -> str:
        """WHEN branches for NaN and the infinities of a double; empty where the engine cannot hold them."""
        nan, plus, minus = (self.double_literal(value) for value in ("NaN", "Infinity", "-Infinity"))
        return f"WHEN {x} = {nan} THEN 'NaN' WHEN {x} = {plus} THEN 'Infinity' WHEN {x} = {minus} THEN '-Infinity' "

    @abstractmethod
    def double(self, c: str) -> str:
        """``c`` as a double."""

    @abstractmethod
    def single(self, c: str) -> str:
        """``c`` rounded to single precision."""

    @abstractmethod
    def double_literal(self, value: str) -> str:
        """A literal of type double."""

    def power_of_two(self, exponent: str) -> str:
        """2 to an integer exponent, as a double."""
        return f"POWER({self.double_literal('2')}, {exponent})"

    def log2(self, c: str) -> str:
        """The binary logarithm of a positive double, to within a few units of its last digit."""
        return f"LOG2({c})"

    def bigint(self, c: str) -> str:
        """A double that is an integer, as a signed 64-bit integer."""
        return f"CAST({c} AS BIGINT)"

    @abstractmethod
    def hex_text(self, c: str) -> str:
        """Two lower-case hexadecimal digits a byte."""

    @abstractmethod
    def date_text(self, c: str) -> str:
        """``YYYY-MM-DD``."""

    @abstractmethod
    def time_text(self, c: str) -> str:
        """``HH:MM:SS.ffffff``."""

    @abstractmethod
    def timestamp_text(self, c: str, native: Kind) -> str:
        """``YYYY-MM-DD HH:MM:SS.ffffff``, in UTC where the type knows its zone; nine digits of the fraction where it holds nine."""

    def uuid_text(self, c: str, native: Kind) -> str:
        """``xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx``, lower case; of 16 bytes in their own order for a binary column."""
        if native.name == "binary":
            digits = self.hex_text(c)
            cuts = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
            pieces = [f"SUBSTRING({digits}, {first}, {length})" for first, length in cuts]
            return self.concat([part for piece in pieces for part in (piece, "'-'")][:-1])
        return self.lower(self.as_text(c))

    def bit_text(self, c: str, native: Kind) -> str:
        """One ``0`` or ``1`` a bit, the highest first."""
        return self.as_text(c)

    def interval_text(self, c: str, native: Kind) -> str:
        """``<months>m<days>d<microseconds>us``."""
        raise LookupError(f"{self.name} maps no native type to interval")

    @abstractmethod
    def json_text(self, c: str, native: Kind) -> str:
        """The document as the engine writes it, without blanks between its tokens.

        Keys stay in the engine's order and numbers in its spelling: there is no common form of these in SQL.
        """

    def characters(self, c: str) -> str:
        """The characters of a text, enum or set, as they are."""
        return c

    def right_trimmed(self, c: str) -> str:
        """Text without the blanks (U+0020) at its end."""
        return f"RTRIM({c}, ' ')"

    def trimmed(self, c: str) -> str:
        """Text without the blanks (U+0020) at either end."""
        return f"TRIM(BOTH ' ' FROM {c})"

    def lower(self, c: str) -> str:
        """Text in lower case; engines agree for ASCII letters."""
        return f"LOWER({c})"

    def upper(self, c: str) -> str:
        """Text in upper case; engines agree for ASCII letters."""
        return f"UPPER({c})"

    # rows, hashes, words

    def concat(self, parts: Sequence[str]) -> str:
        """Texts one after another; NULL where one of them is NULL."""
        return "(" + " || ".join(parts) + ")" if len(parts) > 1 else parts[0]

    def joined(self, parts: Sequence[str], separator: str) -> str:
        """Texts with a separator between them; NULL where one of them is NULL."""
        between = self.string(separator)
        return self.concat([piece for part in parts for piece in (between, part)][1:])

    def replaced(self, c: str, old: str, new: str) -> str:
        """``c`` with every ``old`` replaced by ``new``, both plain characters, matched byte by byte."""
        return f"REPLACE({c}, {self.string(old)}, {self.string(new)})"

    @abstractmethod
    def row_hash(self, text: str, algorithm: Algorithm) -> str:
        """The hash of a text's UTF-8 bytes, as lower-case hexadecimal digits: 64 of them (sha256) or 32 (md5)."""

    @abstractmethod
    def word(self, digits: str, first: int, count: int) -> str:
        """The ``count`` (at most 15) hexadecimal digits from the 1-based ``first`` on, as a signed 64-bit integer."""

    def shifted(self, c: str, bits: int) -> str:
        """A non-negative integer without its lowest ``bits`` bits."""
        return f"({c} >> {bits})"

    def integer_sum(self, c: str) -> str:
        """The sum of 64-bit integers, exact, as a signed 64-bit integer."""
        return f"CAST(SUM({c}) AS BIGINT)"

    # partitions

    @abstractmethod
    def floor_divided(self, c: str, divisor: int, native: Kind) -> str:
        """floor(c / divisor) of an integer, exact over the type's whole range, as a signed 64-bit integer."""

    def remainder(self, c: str, divisor: int, native: Kind) -> str:
        """c - divisor * floor(c / divisor) of an integer, 0 .. divisor - 1, as a signed 64-bit integer."""
        rest = f"{c} % {divisor}"
        if not native.unsigned:
            rest = f"({rest} + CASE WHEN {rest} < 0 THEN {divisor} ELSE 0 END)"
        return self.bigint(rest) if native.unsigned or native.name == "decimal" else rest

    @abstractmethod
    def day_index(self, c: str) -> str:
        """Days from 1970-01-01 to a date or timestamp (negative before it)."""

    def time_index(self, c: str, unit: Unit) -> str:
        """Hours, days or months from the start of 1970 (UTC) to a date or timestamp, cut down, as a signed 64-bit integer."""
        match unit:
            case "day":
                index = self.day_index(c)
            case "hour":
                index = f"{self.day_index(c)} * 24 + EXTRACT(HOUR FROM {c})"
            case "month":
                index = f"(EXTRACT(YEAR FROM {c}) - 1970) * 12 + EXTRACT(MONTH FROM {c}) - 1"
        return self.bigint(index)

    # measures of the counts method

    def length(self, c: str) -> str:
        """How many characters (code points) a text has."""
        return f"CHAR_LENGTH({c})"

    # the connection

    def for_server(self, version: str) -> Dialect:
        """This dialect as the server of that version speaks it."""
        return self

    @abstractmethod
    def pins(self, statement_timeout: float) -> list[str]:
        """Statements that fix what a session's results depend on, and its time limit in seconds."""

    @abstractmethod
    def connect(self, url: Url, statement_timeout: float) -> Session:
        """Open a connection, pin it, and return it. Raises errors of ``dialects._errors``."""


def refine(known: Kind, native: NativeType) -> Kind:
    """``known`` with the numbers that the native type has in its brackets."""
    match known.name:
        case "decimal":
            digits = native.number(0, known.digits or 38)
            return Kind("decimal", digits, native.number(1, 0 if native.numbers else known.scale or 0))
        case "time" | "timestamp" | "timestamptz":
            return Kind(known.name, scale=native.number(0, 6 if known.scale is None else known.scale))
        case "char" | "bit" | "binary":
            return Kind(known.name, digits=native.number(0, known.digits or 0) or None)
        case _:
            return known
