"""What an engine has to state: facts, and short methods that each return a piece of SQL text.

A method's docstring says, in output characters, what its SQL yields. ``c`` is always SQL text of an expression, ``native``
the kind that the engine's own type of it stands for. Expressions yield SQL NULL for NULL until the row encoding.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import sql_templates
from dialects._errors import NoSuchObject
from dialects._kinds import Kind, NativeType, parse_native
from dialects._session import Session
from dialects._text import CanonicalText
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


@dataclass(frozen=True, slots=True)
class Reading:
    """What an engine's planner expects of a SELECT: about how many rows it reads, and whether a table or an index from end to end."""

    rows: int
    full: bool


class Dialect(CanonicalText):
    """One engine. See the package's docstring for how to write another."""

    schemes: ClassVar[tuple[str, ...]]
    """URL schemes that mean this engine."""

    PORT: ClassVar[int | None] = None
    """The port of a URL that names none."""

    sqlglot: ClassVar[str]
    """What sqlglot calls this engine's SQL."""

    ancestors: ClassVar[tuple[str, ...]] = ()
    """Engines whose templates serve where this one has no file of its own, nearest first."""

    WITHOUT: ClassVar[frozenset[str]] = frozenset()
    """Templates of its ancestors that mean nothing on this engine."""

    ROW_STORE: ClassVar[bool] = True
    """Whether rows lie together and a key range is read through an index, so that a scan is cut into chunks."""

    SPILLS: ClassVar[bool] = False
    """Whether a derived table of more than some hundred thousand rows goes to disk, so that statements have to stay below."""

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

    NOW: ClassVar[str] = "CURRENT_TIMESTAMP"
    """The present moment in UTC, as a timestamp without a time zone."""

    LOADS: ClassVar[tuple[str, ...]] = ()
    """The measures of its load that this engine can say, of ``threads_running``, ``active_sessions``, ``queued`` and ``lag``."""

    SMALL_SUM: ClassVar[int | None] = None
    """The most integers that ``small_sum`` adds up exactly; None for any number."""

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

    def reached(self, url: Url) -> str:
        """Which database a URL leads to: one text for all that lead to the same, whoever asks there, as far as their spelling tells."""
        return f"{self.name}://{url.host or 'localhost'}:{url.port or self.PORT or ''}/{url.database}"

    # names and literals

    @abstractmethod
    def quote(self, identifier: str) -> str:
        """The identifier, quoted so that any character may stand in it."""

    def literal(self, value: str | int | None) -> str:
        """A literal of text, integer or NULL."""
        if value is None:
            return "NULL"
        return str(value) if isinstance(value, int) else self.string(value)

    @abstractmethod
    def binary(self, value: bytes) -> str:
        """A literal of these bytes."""

    def moment(self, text: str) -> str:
        """A literal of a moment in UTC, written ``2001-02-03 04:05:06.000007``."""
        return f"TIMESTAMP {self.string(text)}"

    def table(self, *parts: str) -> str:
        """A table name of the given parts (catalogue, schema, table), each quoted."""
        return ".".join(self.quote(part) for part in parts)

    # the catalogue

    def template(self, name: str) -> str:
        """The text of a template for this engine. Raises LookupError where it has none."""
        if name in self.WITHOUT:
            raise LookupError(f"{self.name} has no use for the template {name}")
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

    # rows, hashes, words

    @abstractmethod
    def row_hash(self, text: str, algorithm: Algorithm) -> str:
        """The hash of a text's UTF-8 bytes, as lower-case hexadecimal digits: 64 of them (sha256) or 32 (md5)."""

    @abstractmethod
    def word(self, digits: str, first: int, count: int) -> str:
        """The ``count`` (at most 15) hexadecimal digits from the 1-based ``first`` on, as a signed 64-bit integer."""

    def row_word(self, text: str, algorithm: Algorithm) -> str:
        """The first 60 bits of the hash of a text, as a signed 64-bit integer: ``word(row_hash(text), 1, 15)``."""
        return self.word(self.row_hash(text, algorithm), 1, 15)

    def shifted(self, c: str, bits: int) -> str:
        """A non-negative integer without its lowest ``bits`` bits."""
        return f"({c} >> {bits})"

    def integer_sum(self, c: str) -> str:
        """The sum of 64-bit integers, exact, as a signed 64-bit integer."""
        return f"CAST(SUM({c}) AS BIGINT)"

    def number_sum(self, c: str, native: Kind) -> str:
        """The sum of integers or decimals of that kind, exact, as a number that may exceed 64 bits."""
        return f"SUM({c})"

    def small_sum(self, c: str) -> str:
        """The sum of integers 0 .. 2^31 - 1 as a signed 64-bit integer, exact for up to SMALL_SUM of them."""
        return self.integer_sum(c)

    # partitions

    @abstractmethod
    def floor_divided(self, c: str, divisor: int, native: Kind) -> str:
        """floor(c / divisor) of an integer, exact over the type's whole range, as a signed 64-bit integer."""

    def remainder(self, c: str, divisor: int, native: Kind) -> str:
        """c - divisor * floor(c / divisor) of an integer, 0 .. divisor - 1, as a signed 64-bit integer."""
        rest = f"{c} % {divisor}"
        if not native.unsigned:
            rest = f"({rest} + CASE WHEN {rest} < 0 THEN {divisor} ELSE 0 END)"
        return self.bigint(rest)  # a narrow column's remainder is of its type, in which a position's square would overflow

    @abstractmethod
    def day_index(self, c: str) -> str:
        """Days from 1970-01-01 to a date or timestamp (negative before it)."""

    def time_index(self, c: str, unit: Unit) -> str:
        """Hours, days or months from the start of 1970 (UTC) to a date or timestamp, cut down, as a signed 64-bit integer."""
        match unit:
            case "day":
                index = self.day_index(c)
            case "hour":
                index = f"{self.bigint(self.day_index(c))} * 24 + EXTRACT(HOUR FROM {c})"
            case "month":
                index = f"(EXTRACT(YEAR FROM {c}) - 1970) * 12 + EXTRACT(MONTH FROM {c}) - 1"
        return self.bigint(index)

    # how busy the server is, and how it reads

    def load(self, session: Session, names: Iterable[str], own: int = 0) -> dict[str, float]:
        """How busy the server is, by measure; the asking session is left out, and so are the ``own`` statements that the caller runs.

        ``threads_running`` and ``active_sessions`` count sessions that run a statement, ``queued`` statements that wait for
        their turn. ``lag`` is the seconds that a replica is behind: 0 on a server that replicates nothing, infinite on a replica
        that does not replicate now. Raises LookupError for a name that is not in LOADS.
        """
        return {name: self._measured(session, name, own) for name in names}

    def _measured(self, session: Session, name: str, own: int) -> float:
        raise LookupError(f"{self.name} cannot say {name}")

    def heartbeat_age(self, session: Session, place: Place, column: str) -> float:
        """Seconds by the server's clock since the latest time in a column; infinite where there is none, negative for the future.

        A column whose type has no time zone is taken to hold UTC.
        """
        latest = self.seconds_since(f"MAX({self.quote(column)})")
        age = session.query(self._catalogue("heartbeat_age", {"age": latest, "table": self.table(*place.parts)}))[0][0]
        return math.inf if age is None else float(age)

    @abstractmethod
    def seconds_since(self, c: str) -> str:
        """Seconds from a date and time until now by the server's clock, as a number; a time without a zone is UTC."""

    def leading_indexes(self, session: Session, table: str) -> set[str] | None:
        """The first column of each index that serves key ranges of a table, its SQL name given; None where no engine's index does."""
        return None

    def expected_reading(self, session: Session, sql: str) -> Reading | None:
        """What the planner expects a SELECT to read of tables, derived ones aside; None where the engine does not say."""
        return None

    # the connection

    def for_server(self, version: str) -> Dialect:
        """This dialect as the server of that version speaks it."""
        return self

    @abstractmethod
    def pins(self, statement_timeout: float, lock_timeout: float = 10.0) -> list[str]:
        """Statements that fix what a session's results depend on, and its limits in seconds: of a statement, of its wait for a lock."""

    @abstractmethod
    def connect(self, url: Url, statement_timeout: float, lock_timeout: float = 10.0) -> Session:
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
