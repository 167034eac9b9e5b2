"""The interface of an engine: a ``Dialect`` (facts, and parts whose short methods return pieces of SQL text) and a ``Session``.

They are defined together because each needs the other: a dialect opens sessions and reads the catalogue through them; a session is
pinned with the statements of its dialect. How an engine is added: `dialects/__init__.py`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar

import sql_templates
from dialects import versions
from dialects.addresses import Addresses
from dialects.canonical import Canonical
from dialects.catalogue import PROTECTIONS, UNKNOWN_ORIGINS, Column, Origins, Place, ScanEstimate, ServerTimes, Table, TableName
from dialects.data_files import DataFiles
from dialects.errors import AccessDenied, AuditorError, NoSuchObject, ResultIncomplete, StatementRefused
from dialects.facts import Fact
from dialects.hashes import Hashes
from dialects.kinds import Kind
from dialects.names import Names
from dialects.numbers import Numbers
from dialects.table_form import ColumnForm, TableForm
from dialects.text import Text
from dialects.times import Times
from dialects.types import Types
from dialects.url import Url
from dialects.versions import Recognised
from dialects.writing import Hazard, StoredFile, Writing

ColumnBatch = list[Sequence[Any]]
"""One batch of a result by columns: a sequence of values per column, all of equal length."""


def arrow_columns(batch: Any) -> ColumnBatch:
    """Return the columns of a batch of Arrow's; a NULL is None, which of a number NumPy would make NaN."""
    return [column.to_pylist() if column.null_count else _values(column) for column in batch.columns]


DLPACK_TYPES = frozenset({*(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "float", "double"})
TEXT_TYPES = frozenset({"string", "large_string", "string_view", "binary", "large_binary"})


def _values(column: Any) -> Sequence[Any]:
    """Return the values of an Arrow array without NULLs. Where it can be, without ``to_numpy``, which imports pandas for half a second."""
    kind = str(column.type)
    if kind in DLPACK_TYPES:
        import numpy as np

        return np.from_dlpack(column)  # type: ignore[return-value]
    return column.to_pylist() if kind in TEXT_TYPES else column.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


LISTED_AT_ONCE = 500
"""Tables that one statement asks a catalogue for."""


class Catalogue:
    """What a database's catalogue says of its tables. The methods ask a session, whose dialect writes what they ask with."""

    HIDES_COLUMNS: ClassVar[bool] = False
    """Whether the catalogue shows a user only the columns that it may read, so that others are missing without an error."""

    SYSTEM_SCHEMAS: ClassVar[frozenset[str]] = frozenset({"information_schema"})
    """Schemas of the server's own tables, in lower case, which show what others do: their statements, samples of their values."""

    FOLDED: ClassVar[str] = "LOWER({})"
    """How the catalogue's own names and others are written in small letters."""

    def knows_zone(self, session: Session, zone: str) -> bool:
        """Return whether the server knows what clocks of this zone show."""
        return True

    def describe(self, session: Session, place: Place) -> list[Table]:
        """Return all tables whose name matches ``place`` case-insensitively; the caller chooses among them.

        A name without a schema is looked up where the session resolves such names. The list is empty if no table matches.
        Raises NoSuchObject for a path if the engine does not read files, or does not find them.
        """
        return self.describe_each(session, [place])[0]

    def describe_each(self, session: Session, places: Sequence[Place]) -> list[list[Table]]:
        """Return what ``describe`` does of each place; those that are listed are asked for together, by a few statements a schema.

        Raises what ``describe`` raises of any of them.
        """
        names: dict[str | None, dict[str, None]] = {}
        for place in places:
            if self.is_listed(place):
                schema, name = (None, *place.parts)[-2:]
                names.setdefault(schema, {})[str(name)] = None
        listed = {schema: self._describe_listed(session, schema, list(wanted)) for schema, wanted in names.items()}
        found: list[list[Table]] = []
        for place in places:
            if self.is_listed(place):
                schema, name = (None, *place.parts)[-2:]
                found.append(listed[schema].get(str(name).lower(), []))
            else:
                found.append(self._describe_alone(session, place))
        return found

    def is_listed(self, place: Place) -> bool:
        """Return whether the catalogue says of this place and of many others together, in one answer, which tables they are."""
        return not place.path and len(place.parts) <= 2

    def _describe_alone(self, session: Session, place: Place) -> list[Table]:
        """Return the tables of a place that is not listed."""
        if place.path:
            raise NoSuchObject(
                f"{session.dialect.name} reads tables, not files: {place.path}; write a table's name that has a slash in double quotes"
            )
        if not self.is_own_database(session, place.parts[0]):
            raise NoSuchObject(
                f"{place} is of another database than the URL's, and {session.dialect.name} reads none of those: connect to that one"
            )
        return self.describe(session, replace(place, parts=place.parts[-2:]))

    def _describe_listed(self, session: Session, schema: str | None, names: Sequence[str]) -> dict[str, list[Table]]:
        """Return the tables of these names, in whatever case, by their name in small letters; without a schema those where the session
        resolves such names."""
        wanted = {name.lower() for name in names}
        columns: dict[tuple[str, str], list[Column]] = {}
        for holes in self._holes(session, schema, names):
            some: dict[tuple[str, str], list[Column]] = {}
            rows = session.query_listed(session.dialect.catalogue_query("columns", holes))
            for in_schema, table, column, native, nullable, *loose in rows:
                if str(table).lower() not in wanted or (schema is not None and str(in_schema).lower() != schema.lower()):
                    continue  # a catalogue's collation may take "ete" for "été"
                collation = str(loose[0]) if loose and loose[0] is not None else None
                some.setdefault((str(in_schema), str(table)), []).append(
                    Column(str(column), str(native), session.dialect.types.kind(str(native)), bool(nullable), collation)
                )
            columns |= some  # a table that two statements find has its columns once
        by_schema: dict[str, dict[str, list[Column]]] = {}
        for (in_schema, table), described in columns.items():
            by_schema.setdefault(in_schema, {})[table] = described
        found: dict[str, list[Table]] = {}
        for in_schema, tables in by_schema.items():
            for one in self._describe_tables(session, in_schema, tables):
                found.setdefault(one.names[-1].lower(), []).append(one)
        return found

    def _holes(self, session: Session, schema: str | None, names: Sequence[str]) -> Iterator[dict[str, str]]:
        """Yield what fills the holes of a template about tables of a schema, for as many tables as one statement asks for.

        ``tables`` is their names, and ``folded`` the same in small letters.
        """
        literal = session.dialect.names.literal
        for first in range(0, len(names), LISTED_AT_ONCE):
            literals = [literal(name) for name in names[first : first + LISTED_AT_ONCE]]
            folded = ", ".join(self.FOLDED.format(name) for name in literals)
            yield {"schema": literal(schema), "tables": ", ".join(literals), "folded": folded}

    def describe_query(self, session: Session, query: str) -> tuple[Column, ...]:
        """Return the columns of the result of a SELECT, of which no row is read, with their types as ``describe`` writes them.

        Two columns may have one name. Raises NoSuchObject if the engine does not say what a query returns, and for a table that is missing;
        StatementRefused for a query that the server refuses.
        """
        raise NoSuchObject(f"{session.dialect.name} does not say which columns a query returns; read a view of it instead")

    def is_own_database(self, session: Session, name: str) -> bool:
        """Return whether this, the first part of a table's name, is the session's database."""
        return bool(session.query(f"SELECT {session.dialect.CURRENT_DATABASE}")[0][0] == name)

    def column_forms(self, session: Session, table: Table) -> dict[str, ColumnForm]:
        """Return how a described table's columns are defined, by name, as far as a statement can change each by its whole definition."""
        return {}

    def list_tables(self, session: Session) -> list[TableName]:
        """Return the tables and views in the session's database, ordered by their names."""
        rows = session.query_listed(session.dialect.catalogue_query("tables", {}))
        return [TableName(str(schema), str(name), bool(is_view), bool(is_visible)) for schema, name, is_view, is_visible in rows]

    def protections(self, session: Session, table: Table) -> list[str]:
        """Return sentences, each of a reason why a session may not read a described table as it is: policies on its rows or values.

        Run it outside a snapshot: a refused statement ends a transaction on some engines.
        """
        if not table.names:
            return []
        return self._policies(session, table, "protections")

    def origins(self, session: Session, table: Table) -> Origins:
        """Return the other tables whose values a described table shows. Run it outside a snapshot."""
        return self._origins(session, table, "origins")

    def _origins(self, session: Session, table: Table, template: str) -> Origins:
        """Return what the rows of a template say: a kind (``part``, ``view`` or ``unknown``), a schema and a name."""
        if not table.names:
            return Origins(unknown=UNKNOWN_ORIGINS["missing"])
        try:
            sql = session.dialect.catalogue_query(
                template,
                {"schema": session.dialect.names.literal(table.names[-2]), "table": session.dialect.names.literal(table.names[-1])},
            )
        except LookupError:
            return Origins(unknown=UNKNOWN_ORIGINS["missing"])
        rows = [(str(kind), str(schema), str(name)) for kind, schema, name in session.query(sql)]
        tables = tuple((schema, name) for kind, schema, name in rows if kind != "unknown" and (schema, name) != table.names[-2:])
        reasons = [UNKNOWN_ORIGINS[name] for kind, _, name in rows if kind == "unknown"]
        return Origins(tables, any(kind == "view" for kind, _, _ in rows) or UNKNOWN_ORIGINS["view"] in reasons, "; ".join(reasons))

    def _policies(self, session: Session, table: Table, template: str) -> list[str]:
        """Return the sentences of a template's rows, each once."""
        try:
            sql = session.dialect.catalogue_query(
                template,
                {"schema": session.dialect.names.literal(table.names[-2]), "table": session.dialect.names.literal(table.names[-1])},
            )
        except LookupError:
            return []
        return list(dict.fromkeys(PROTECTIONS[str(what)].format(table=table.sql, name=name) for what, name in session.query(sql)))

    def hides_columns(self, session: Session, table: Table) -> bool:
        """Return whether the catalogue leaves out columns of a table that this session may not read. Run it outside a snapshot."""
        if self.HIDES_COLUMNS:
            try:  # the asterisk stands for all columns
                session.query(f"SELECT * FROM {table.sql} LIMIT 0")
            except AccessDenied:
                return True
        return False

    def hazards(self, session: Session, table: Table) -> list[Hazard]:
        """Return what of a described table decides what a write does to it. Raises LookupError if the engine cannot be patched."""
        names = {"schema": session.dialect.names.literal(table.names[-2]), "table": session.dialect.names.literal(table.names[-1])}
        return [
            Hazard(kind, str(name), str(column or ""))
            for kind, name, column in session.query(session.dialect.catalogue_query("hazards", names))
        ]

    def version(self, session: Session, schema: str) -> str | None:
        """Return a text that is another once anything of a schema's tables is defined otherwise, as `describe` and `hazards` say of them.

        So a text that is as it was says at once of thousands of tables that none has to be described again. None where the catalogue has
        no such thing, or nothing of that schema.
        """
        try:
            sql = session.dialect.catalogue_query("catalogue_version", {"schema": session.dialect.names.literal(schema)})
        except LookupError:
            return None
        version = session.query(sql)[0][0]
        return None if version is None else str(version)

    def _describe_tables(self, session: Session, schema: str, columns: Mapping[str, Sequence[Column]]) -> list[Table]:
        """Return tables of a schema with their keys and sizes, of which the ``columns`` are known by their names."""
        keys: dict[str, list[str]] = {}
        sizes: dict[str, tuple[int | None, bool]] = {}
        for holes in self._holes(session, schema, list(columns)):
            some: dict[str, list[str]] = {}
            for name, part in session.query_listed(session.dialect.catalogue_query("primary_key", holes)):
                some.setdefault(str(name), []).append(str(part))
            keys |= some
            sizes |= self._read_sizes(session, holes, list(columns))
        return [
            Table(session.dialect.names.table(schema, name), tuple(described), tuple(keys.get(name, ())), rows, (schema, name), in_order)
            for name, described in columns.items()
            for rows, in_order in [sizes.get(name, (None, True))]
        ]

    def _read_sizes(self, session: Session, holes: Mapping[str, str], names: Sequence[str]) -> dict[str, tuple[int | None, bool]]:
        """Return by table how many rows the engine believes that it has, None where it does not say, and ``Table.yields_in_order``."""
        return {
            str(name): (None if rows is None else int(rows), not any(obstacles))
            for name, rows, *obstacles in session.query(session.dialect.catalogue_query("estimate", holes))
        }


class Server:
    """What a server says of its load, and of how it runs statements. The methods ask a session, whose dialect writes what they ask with."""

    LOAD_MEASURES: ClassVar[tuple[str, ...]] = ()
    """Measures that ``server_load`` supports, of ``threads_running``, ``active_sessions``, ``queued`` and ``lag``."""

    PRICED_BY: ClassVar[Mapping[str, float]] = {}
    """Units of capacity that such servers are charged by while statements run, ``rpu_hour`` or ``executor_hour``, each with the least
    seconds that are charged once a statement begins."""

    def server_load(self, session: Session, names: Iterable[str], own: int = 0) -> dict[str, float]:
        """Return the named measures of the server's load, excluding this session and ``own`` other statements of the caller.

        ``threads_running`` and ``active_sessions`` count sessions that run a statement; ``queued`` counts statements that wait to run.
        ``lag`` is the replication delay in seconds: 0 on a server that is no replica, infinite where replication is stopped or broken.
        Raises LookupError for a name that is not in LOAD_MEASURES.
        """
        return {name: self._load_measure(session, name, own) for name in names}

    def _load_measure(self, session: Session, name: str, own: int) -> float:
        raise LookupError(f"{session.dialect.name} does not report {name}")

    def heartbeat_age(self, session: Session, place: Place, column: str, rows: Mapping[str, str] = MappingProxyType({})) -> float:
        """Return the seconds since the latest time in a column (UTC unless it has a zone), by the server's clock; infinite if it has none,
        negative if that time is in the future. ``rows`` are values of other columns, by name: only rows that have them count."""
        latest = session.dialect.times.seconds_since(session.dialect.names.latest(column, rows))
        age = session.query(
            session.dialect.catalogue_query("heartbeat_age", {"age": latest, "table": session.dialect.names.table(*place.parts)})
        )[0][0]
        return math.inf if age is None else float(age)

    def leading_index_columns(self, session: Session, table: str) -> set[str] | None:
        """Return the first column of each index that can serve key ranges; None if the engine has no such indexes.

        ``table`` is the table's name as SQL text.
        """
        return None

    def estimate_scan(self, session: Session, sql: str) -> ScanEstimate | None:
        """Return what the planner expects a SELECT to read of stored tables; None if the engine reports no such estimate."""
        return None

    def estimate_each(self, session: Session, statements: Sequence[str]) -> list[int]:
        """Return how many rows the planner expects each of several SELECTs of one table to read, asked for at once; empty if the engine
        reports no such estimates."""
        return []

    def server_times(self, session: Session, process_ids: Collection[int], seconds: float) -> ServerTimes | None:
        """Return what the server recorded of the statements that sessions, by their process ids, began in the last so many seconds.

        None if the engine keeps no such record. It may be written a little later than the statements end."""
        return None

    def busy_spans(self, session: Session, process_ids: Collection[int], seconds: float) -> list[tuple[float, float]] | None:
        """Return when statements ran that sessions, by their process ids, began in the last so many seconds: begin and end of each, in
        seconds of the server's clock; None if the engine keeps no such record. It may be written a little later than they end."""
        return None

    def capacity(self, session: Session, seconds: float) -> float | None:
        """Return the average number of units of PRICED_BY in the last so many seconds; None if the engine keeps no such record.

        Raises errors of the tree for an account that may not read it."""
        return None

    def stand_in(self, session: Session) -> str:
        """Return by what a server was recognised that only stands in for this engine, as a clause; '' for the engine itself."""
        return ""


class Dialect(ABC):
    """One engine: facts, and parts, each with the pieces of SQL of a subject.

    The docstring of the package ``dialects`` says how to add another.
    """

    name: ClassVar[str]
    """The engine's name: in entry points, template directories and messages."""

    schemes: ClassVar[tuple[str, ...]]
    """URL schemes of this engine."""

    sqlglot_dialect: ClassVar[str]
    """The name of this engine's SQL in sqlglot."""

    TEMPLATES: ClassVar[str] = "sql_templates"
    """The package whose ``.sql`` files hold this class's templates, as ``import`` writes it. A template that is in none of them is taken
    from the package of the class that it derives from, and in the end from the common one."""

    UNAVAILABLE_TEMPLATES: ClassVar[frozenset[str]] = frozenset()
    """Templates of the classes that it derives from that do not work on this engine; ``template`` raises LookupError for them."""

    ROW_STORE: ClassVar[bool] = True
    """Whether rows are stored together and key ranges are read through an index; scans are then cut into smaller chunks."""

    DRIVERS: ClassVar[Mapping[str, str]] = {}
    """What ``connect`` imports, and what pip calls it: driver modules by the names that are imported."""

    CHANGE_STREAM: ClassVar[str] = ""
    """The stream of changes that a pipeline can read: ``binlog``; empty for an engine without one that is read here."""

    TABLES_ARE_FILES: ClassVar[bool] = False
    """Whether tables are files that others write, so that a new table is a Parquet file and not the result of CREATE TABLE."""

    ZONE_TABLES: ClassVar[str] = ""
    """How the server learns time zones that it does not know, as a clause; empty where it knows them all."""

    LONGEST_TEXT_SETTING: ClassVar[str] = ""
    """The server's setting that limits how long a text a statement builds; empty where there is none."""

    OPENS_FILES: ClassVar[bool] = False
    """Whether a session is a file opened in this process: that takes no time to speak of, and the process must not end meanwhile."""

    FINDS_KEY_RANGES: ClassVar[bool] = True
    """Whether a statement on a range of keys reads less than the whole table: by an index, a sort key, or the extents of its blocks."""

    SPILLS_LARGE_DERIVED_TABLES: ClassVar[bool] = False
    """Whether a derived table of more than some hundred thousand rows is written to disk; chunks then stay below that size."""

    SUMS_WHOLE_WORDS: ClassVar[bool] = False
    """Whether one sum of a row's whole word is cheaper than one of each half; the engine's template is then ``signature_joined``."""

    CUTS_STORED_TEXTS: ClassVar[bool] = False
    """Whether a text that is stored in a derived table may lose its end, because the server expects computed texts to be shorter than they
    are. The results of such an engine are counted beside their texts: see ``Session.stream_counted``."""

    HAS_LATERAL: ClassVar[bool] = False
    """Whether a subquery in FROM may refer to what stands before it: one statement then reads any number of ranges of a key."""

    TAKES_SEVERAL_STATEMENTS: ClassVar[bool] = False
    """Whether sessions send several statements at once, with semicolons between them, and wait once for all of them."""

    OPTIMIZER_BARRIER: ClassVar[str] = ""
    """SQL at the end of a derived table that makes the optimizer compute its columns once instead of once per use."""

    OPTIMIZER_BARRIER_COLUMN: ClassVar[str] = ""
    """SQL of an extra column of a derived table, for engines where the barrier must be a column."""

    BEGIN_SNAPSHOT: ClassVar[tuple[str, ...]] = ()
    """Statements that open a consistent read-only snapshot; empty for an engine without one."""

    END_SNAPSHOT: ClassVar[tuple[str, ...]] = ()
    """Statements that close the snapshot."""

    SHARES_SNAPSHOT_BY_LOCK: ClassVar[bool] = False
    """Whether sessions share a snapshot only by a lock that keeps writers off the table for a moment."""

    EXPORTS_SNAPSHOT: ClassVar[bool] = False
    """Whether a snapshot has a name by which sessions of other processes and hosts can join it."""

    READ_CONSISTENCY: ClassVar[str] = "each statement reads its own consistent state"
    """What the statements of a run see on this engine, as a clause for the notes of a plan."""

    CURRENT_DATABASE: ClassVar[str] = "CURRENT_DATABASE()"
    """SQL of the name that the first part of a table's name in three parts must have."""

    PARALLEL_WORKERS: ClassVar[str] = ""
    """The statement that lets those of a session be run by so many further ``{workers}``; empty for an engine that has no such setting."""

    MAX_STATEMENT_BYTES: int = 16 << 20
    """The longest statement that the server accepts; where an engine has no such limit, one that costs it no memory to speak of.
    Redshift's is 16 MB: https://docs.aws.amazon.com/redshift/latest/dg/c_redshift-sql.html"""

    TABLE_FORM: ClassVar[TableForm] = TableForm()
    """How the definition of a table is written."""

    LINE_SETTINGS: ClassVar[Sequence[str]] = ()
    """Statements after which a session of a source writes numbers as text with all their digits."""

    names: Names
    """How names and literals are written."""

    text: Text
    """What is done with texts."""

    numbers: Numbers
    """What is done with numbers."""

    times: Times
    """What is done with dates and times."""

    canonical: Canonical
    """How canonical text is written."""

    hashes: Hashes
    """How texts are hashed."""

    types: Types
    """The native types."""

    addresses: Addresses
    """How the engine's URLs are read."""

    catalogue: Catalogue = Catalogue()
    """What the database's catalogue says of its tables."""

    server: Server = Server()
    """What the server says of its load, and of how it runs statements."""

    writing: Writing
    """How the engine is written to. One that pipelines and repairs do not write has none: ask ``is_written`` before."""

    files: DataFiles
    """How tables consist of immutable files. An engine whose tables are none, or which does not say so, has none: ask ``has_files``."""

    FACTS: ClassVar[Sequence[Fact]] = ()
    """Single facts on which the engine's SQL rests, where no server of it was at hand to try them on; ``auditor certify`` asks for them."""

    @property
    def is_written(self) -> bool:
        """Whether pipelines and repairs write to the engine."""
        return hasattr(self, "writing")

    @property
    def has_files(self) -> bool:
        """Whether tables consist of immutable files, which are read one by one."""
        return hasattr(self, "files")

    @classmethod
    def template_packages(cls) -> tuple[str, ...]:
        """Return the packages in which templates are looked up, the engine's own first."""
        return tuple(vars(base)["TEMPLATES"] for base in cls.__mro__ if "TEMPLATES" in vars(base))

    def template(self, name: str) -> str:
        """Return the text of a template for this engine. Raises LookupError if it has none."""
        if name in self.UNAVAILABLE_TEMPLATES:
            raise LookupError(f"template {name} is not available on {self.name}")
        return sql_templates.load(name, self.template_packages())

    def catalogue_query(self, name: str, fragments: Mapping[str, str]) -> str:
        """Return the statement of a template, whose holes are filled with those of the fragments that it has holes for.

        Raises LookupError if the engine has no such template.
        """
        template = self.template(name)
        return sql_templates.fill(template, {hole: fragments[hole] for hole in sql_templates.holes(template)})

    def counted(self, sql: str) -> str:
        """Return a statement whose rows are those of a SELECT, in any order, with how many they are in front of each.

        It stores the SELECT's result; on an engine that CUTS_STORED_TEXTS no computed text may be in it but ``stored_text``.
        The names of the SELECT's columns must differ. Where it has no rows there is a single one of NULLs. So a result that was cut is
        recognised, to the last row: see ``Session.stream_whole``.
        """
        return sql_templates.fill(self.template("counted"), {"statement": sql.rstrip()})

    # the connection

    def for_server(self, version: str) -> Dialect:
        """Return this dialect adapted to a server that reports ``version``."""
        return self

    @abstractmethod
    def pin_statements(self, statement_timeout: float, lock_timeout: float = 10.0) -> list[str]:
        """Return the statements that fix every session setting on which results depend, and set the timeouts.

        ``statement_timeout`` limits a statement and ``lock_timeout`` its wait for a lock; both are in seconds.
        """

    @abstractmethod
    def connect(self, url: Url, statement_timeout: float, lock_timeout: float = 10.0) -> Session:
        """Open a connection, pin it and return its session; timeouts in seconds. Raises errors of ``dialects.errors``."""


class Loading(ABC):
    """How a session writes rows. What its engine does not state (``Writing.LOADS``, ``READS_FILES``) is refused."""

    @abstractmethod
    def write(self, sql: str) -> int:
        """Run a statement that writes, and return how many rows it changed. Raises EngineError."""

    def write_each(self, statements: Sequence[str]) -> list[int]:
        """Run statements that write in their order, and return how many rows each changed. Raises EngineError at the first that fails.

        A server that takes several statements at once is asked once.
        """
        return [self.write(sql) for sql in statements]

    def load(self, table: str, columns: Mapping[str, Kind], rows: Any) -> int | None:
        """Insert the rows of an Arrow table of texts into a table with these columns; ``table`` is its name as SQL text.

        Returns how many rows the server says it has inserted; None where it does not say.

        Texts are what the engine's type of the column's kind reads: numbers in digits, times in ISO format and UTC, texts as they are,
        binary strings in lower-case hexadecimal digits, bit strings in binary digits. Raises EngineError.
        """
        raise StatementRefused("this engine cannot be loaded")

    def insertion(self, table: str, columns: Mapping[str, Kind], rows: Sequence[Sequence[str | None]]) -> str:
        """Return a statement that inserts a few rows of texts as `load` does, to be sent with others; '' where only `load` does it."""
        return ""

    def load_lines(self, table: str, columns: Sequence[str], blocks: Iterable[bytes]) -> None:
        """Insert rows given as lines of the dialect's LINES, in blocks of whole lines in UTF-8; names as SQL text. Raises EngineError."""
        raise StatementRefused("this engine takes no lines")

    def analyze(self, table: str) -> str:
        """Renew the statistics of a table, by the dialect's ANALYZE; ``table`` is its name as SQL text.

        Returns what the server says of a statement that it passes by without an error, '' if it carried it out. Raises EngineError.
        """
        raise StatementRefused("this engine has no statement that renews statistics")

    def why_no_files(self) -> str:
        """Return why this session cannot load files of lines, as a clause that says what to do; '' if it can."""
        return ""

    def load_files(self, table: str, columns: Mapping[str, Kind], paths: Sequence[str], folder: str) -> None:
        """Insert the rows of files of lines of the dialect's LINES; ``table`` and the columns are names as SQL text. Raises EngineError.

        An engine that reads files elsewhere gets copies below ``folder``, which are deleted afterwards.
        """
        raise StatementRefused("this engine reads no files of lines")

    def copy_stored(self, table: str, columns: Sequence[str], folder: str, files: Sequence[StoredFile]) -> None:
        """Insert the rows of files that ``store_lines`` wrote below ``folder``, all or none; names as SQL text. Raises EngineError."""
        raise StatementRefused("this engine reads no files of lines")

    def count_slices(self) -> int:
        """Return how many files of one ``copy_stored`` are read side by side; 0 where the server does not say it to this user."""
        return 0

    def remove_stored(self, folder: str) -> int:
        """Delete what lies below a folder of ``store_lines``, and return how many files that were. Raises UnloadFailed."""
        raise StatementRefused("this engine reads no files of lines")


class Session(ABC):
    """One pinned, read-only connection. Use it in one thread at a time; only ``cancel`` may be called from another."""

    loading: Loading
    """How rows are written; a session of an engine that is not written has none."""

    def __init__(self, dialect: Dialect, server: str) -> None:
        self.dialect = dialect
        self.server = server
        """Name and version of the server, as it reports them."""
        self.statements = 0
        """Statements run in this session since it was pinned."""
        self.process_id = 0
        """Number of the session's process on the server; 0 where nothing asks for it."""
        self.variants: Sequence[Recognised] = ()
        """Which products that only speak this engine's protocol, or services that run it, the server is."""
        self.reached = ""
        """How the server was reached: ``by TLS 1.3, verified``, ``in clear``; empty where there is none."""

    @property
    def notes(self) -> list[str]:
        """What a person should know of the server, a sentence each: that its version, or what it is, was not tried."""
        return versions.notes(self.server, self.variants)

    @abstractmethod
    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement with a small result and return its rows."""

    @abstractmethod
    def stream(self, sql: str) -> Iterator[ColumnBatch]:
        """Run a statement and yield its result batch by batch."""

    def stream_lines(self, sql: str) -> Iterator[tuple[int, bytes | None]]:
        """Run a statement of one column of texts and yield these in blocks: how many, and each in UTF-8 with a line feed after it.

        None stands for a block with a NULL.
        """
        for columns in self.stream(sql):
            texts = list(columns[0])
            yield len(texts), None if None in texts else ("\n".join(texts) + "\n").encode()

    def stream_many(self, sql: str, rows: int) -> Iterator[ColumnBatch]:
        """As ``stream``, for a result of about so many rows, which may come another way where they are many."""
        return self.stream(sql)

    def stream_whole(self, sql: str, rows: int = 0) -> Iterator[ColumnBatch]:
        """As ``stream_many``, of a SELECT whose columns have different names, and in any order: all rows, or ResultIncomplete."""
        return _hold_whole(self.stream_many(self.dialect.counted(sql), rows))

    def stream_counted(self, sql: str, count: str) -> Iterator[ColumnBatch]:
        """As ``stream``, of a SELECT whose first column says how many rows there are: all rows, without that column, or ResultIncomplete.

        ``count`` is the statement that counts them, for a result without rows.
        """
        return _hold_whole(self.stream(sql), lambda: int(self.query_row(count)[0]))

    def query_whole(self, sql: str) -> list[tuple[Any, ...]]:
        """As ``query``, of a SELECT whose columns have different names, and in any order: all rows, or ResultIncomplete."""
        rows = self.query(self.dialect.counted(sql))
        columns: ColumnBatch = list(zip(*rows, strict=True))
        return [row for batch in _hold_whole(iter([columns] if rows else [])) for row in zip(*batch, strict=True)]

    def query_listed(self, sql: str) -> list[tuple[Any, ...]]:
        """As ``query``, of a SELECT whose last column says how many rows there are: all rows, without that column, or ResultIncomplete."""
        rows = self.query(sql)
        if rows and len(rows) != int(rows[0][-1]):
            raise ResultIncomplete(f"the server sent {len(rows):,} of a list's {int(rows[0][-1]):,} rows; {CUT}")
        return [row[:-1] for row in rows]

    def query_row(self, sql: str) -> tuple[Any, ...]:
        """Run a statement that has one row and return it. Raises ResultIncomplete if none arrives."""
        rows = self.query(sql)
        if len(rows) != 1:
            raise ResultIncomplete(f"the server sent {len(rows):,} rows of a result that has one; {CUT}")
        return rows[0]

    def summarise(self, sql: str) -> Iterator[ColumnBatch]:
        """Run a statement with one row per partition and yield its result batch by batch: all rows, or ResultIncomplete."""
        return _hold_whole(self.stream_summaries(self.dialect.counted(sql)))

    def stream_summaries(self, sql: str) -> Iterator[ColumnBatch]:
        """As ``stream``, for a statement with few rows that reads many."""
        return self.stream(sql)

    @abstractmethod
    def execute(self, sql: str) -> None:
        """Run a statement without a result."""

    def execute_all(self, statements: Sequence[str]) -> None:
        """Run statements without results within a transaction, in as few messages as the server takes."""
        for sql in statements:
            self.execute(sql)

    @abstractmethod
    def cancel(self) -> None:
        """Cancel the running statement on the server; no effect if none runs."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection; no error if it is already lost."""

    @abstractmethod
    def bytes_received(self) -> int:
        """Return the bytes received from the server so far; for an engine in this process, the size of the results."""

    def pin(self, statement_timeout: float, lock_timeout: float) -> None:
        """Fix the settings on which results depend; timeouts in seconds. Closes the session if that fails, and raises the error."""
        try:
            statements = self.dialect.pin_statements(statement_timeout, lock_timeout)
            for statement in ["; ".join(statements)] if self.dialect.TAKES_SEVERAL_STATEMENTS else statements:
                self.execute(statement)
        except AuditorError:
            self.close()
            raise
        self.statements = 0

    def allow_workers(self, workers: int) -> None:
        """Let each statement be run by up to ``workers`` further processes of the server. Raises LookupError if that cannot be set."""
        if not self.dialect.PARALLEL_WORKERS:
            raise LookupError(f"{self.dialect.name} has no setting for the parallel workers of a statement")
        self.execute(self.dialect.PARALLEL_WORKERS.format(workers=workers))
        self.statements = 0

    def share_snapshot(self, sessions: Sequence[Session], table: str, helper: Session | None) -> bool:
        """Let these open sessions read the same snapshot of ``table`` (its name as SQL text) as this one; False if that cannot be done.

        Call it inside the snapshot. Some engines replace that snapshot with a newer one that all these sessions share, and where
        SHARES_SNAPSHOT_BY_LOCK holds they need a ``helper``, a further session that is of no use afterwards. Raises LockTimeout if the
        lock was not available; this session is inside a snapshot then, and of the others nothing is known.
        """
        return False

    def export_snapshot(self) -> str:
        """Return a name by which other sessions can join the open snapshot until it ends; '' where EXPORTS_SNAPSHOT does not hold."""
        return ""

    def join_snapshot(self, name: str) -> None:
        """Open the snapshot of this name, as ``begin`` opens one of its own. Raises EngineError if it has ended."""
        raise StatementRefused("this engine's snapshots have no names")

    def state_read(self, table: str) -> str:
        """Return which version of ``table`` (its name as SQL text) is read, as a clause for notes; '' if the engine numbers none."""
        return ""

    def snapshot_position(self) -> str:
        """Return where in the engine's stream of changes the open snapshot stands, as its tools write it; '' where it does not say."""
        return ""

    def begin(self) -> None:
        """Open a consistent read-only snapshot; no effect on an engine without one."""
        for statement in self.dialect.BEGIN_SNAPSHOT:
            self.execute(statement)

    def end(self) -> None:
        """Close the snapshot."""
        for statement in self.dialect.END_SNAPSHOT:
            self.execute(statement)


CUT = (
    "a setting of the server, what is between, or the driver cuts results (on MySQL and MariaDB sql_select_limit does): find and undo"
    " that, and run the audit again"
)


def _hold_whole(batches: Iterator[ColumnBatch], count: Callable[[], int] | None = None) -> Iterator[ColumnBatch]:
    """Yield the columns of a counted statement without what counts its rows. Raises ResultIncomplete at the end if rows are missing.

    Without any row it is ``count`` that says how many there are.
    """
    arrived, total = 0, None
    for counts, *columns in batches:
        if total is None and len(counts):
            total = 0 if counts[0] is None or counts[0] != counts[0] else int(counts[0])
        if total:
            arrived += len(counts)
            yield columns
    if total is None and count is not None:
        total = count()
    if total is None:
        raise ResultIncomplete(f"the server sent nothing of a result, not even how many rows it has; {CUT}")
    if arrived != total:
        raise ResultIncomplete(f"the server sent {arrived:,} of a result's {total:,} rows; {CUT}")
