"""Try on a server itself, in a schema that is made for it and dropped again, all that audits and pipelines rest on.

The parts are the self-test, single facts, audits of every kind with known damage, merges of a pipeline, and the server's own log. What the
account may not do, or the engine does not have, is not tried, and the certificate says why. The other side of each audit is an embedded
DuckDB, or another engine; what must come out is known in Python.
"""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version as version_of
from pathlib import Path

import dialects
from auditor.errors import AuditorError, ConfigError, DriverMissing, EngineBroken, EngineError, NoSuchObject
from auditor.model.certificate import Certificate, CertifiedCheck, CertifiedPart
from auditor.service.certify.book import Book
from auditor.service.certify.log_columns import KINDS, samples_of
from auditor.service.certify.scratch import LOCK_TIMEOUT, STATEMENT_TIMEOUT, Scratch
from auditor.service.certify.source import CHANGES, STATEMENTS, check_log
from auditor.service.certify.target import STEPS, check_target
from auditor.service.certify.types import check_types, damage, samples, why_not
from auditor.service.selftest import Sample, check_session
from dialects import Dialect, Session

__all__ = ["FULL", "MINUTES", "PARTS", "Estimate", "Scale", "certify", "estimate", "ignore_check"]

PARTS: tuple[CertifiedPart, ...] = ("selftest", "facts", "types", "target", "source")
"""What can be tried, in this order."""

MINUTES = 60.0
"""How long it may take by default."""


REFUSED, NOT_OF_THE_SERVER = 2, (NoSuchObject, DriverMissing, EngineBroken)
"""The exit code of errors by which a server is refused for what it is, and those that have it for another reason."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is tried."""

    rows: int = 5_000
    """Rows that are loaded into a target."""
    steps: tuple[str, ...] = STEPS
    """Steps of a merge at which it is killed."""
    kinds: frozenset[str] | None = None
    """Names of the samples whose kinds are audited; None for all."""

    @property
    def samples(self) -> list[Sample]:
        """The samples whose kinds are audited."""
        return [sample for sample in samples() if self.kinds is None or sample.name in self.kinds]


FULL = Scale()


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a certification will cost a server, roughly."""

    parts: tuple[CertifiedPart, ...]
    """What will be tried, as far as the account may."""
    lacking: Mapping[CertifiedPart, str]
    """What the engine does not have, and why."""
    statements: int
    """Statements that are sent."""
    rows: int
    """Rows that are written."""
    bytes: int
    """Bytes that are written and read."""


SELFTEST_STATEMENTS, AUDIT_STATEMENTS, MERGE_STATEMENTS = 320, 14, 30
"""Statements of a self-test, of one side of a small audit, and of a merge with what it asks before."""

ROW_BYTES = 400
"""Bytes that a row costs on its way to the server and back, with the statements around it."""


def estimate(url: str, parts: Collection[str] = (), scale: Scale = FULL) -> Estimate:
    """Return what ``certify`` will cost the server behind a URL, without asking it. Raises BadUrl and ConfigError."""
    dialect = dialects.by_scheme(dialects.parse_url(url).scheme)
    lacking = _lacking(dialect)
    chosen = tuple(part for part in _chosen(parts) if part not in lacking)
    statements = rows = 0
    if "selftest" in chosen:
        statements += SELFTEST_STATEMENTS
    if "facts" in chosen:
        statements += len(dialect.FACTS)
    if "types" in chosen:
        for sample in scale.samples:
            if not why_not(dialect, sample):
                made = damage(sample, sample.kind)
                rows += len(made.rows) + len(made.damaged)
                statements += 5 + 2 * AUDIT_STATEMENTS
    if "target" in chosen:
        merges = 13 + 2 * len(scale.steps)
        rows += scale.rows * (3 + len(scale.steps) // 5)
        statements += merges * MERGE_STATEMENTS + (4 + len(scale.steps)) * AUDIT_STATEMENTS
    if "source" in chosen:
        depth = [max(len(sample.values) for sample in samples_of("mysql", kinds)) for kinds in KINDS]
        rows += sum(depth)
        statements += sum(depth) + 12 * (len(KINDS) + len(STATEMENTS) + len(CHANGES))
    return Estimate(chosen, lacking, statements, rows, (rows + statements) * ROW_BYTES)


def ignore_check(_: CertifiedCheck) -> None:
    """Ignore a check."""


def certify(
    url: str,
    against: str = "",
    *,
    parts: Collection[str] = (),
    scale: Scale = FULL,
    minutes: float = MINUTES,
    on_check: Callable[[CertifiedCheck], None] = ignore_check,
) -> Certificate:
    """Try the parts (none given: all) on the server behind a URL, and return what was found.

    ``against`` is the URL of the engine that holds the other side of the audits, by default an embedded DuckDB. ``on_check`` receives each
    check as it ends. Raises BadUrl and ConfigError, and errors of the tree if the server cannot be reached or the connection is lost; the
    schema that was made is dropped then, too.
    """
    chosen, began = _chosen(parts), dt.datetime.now(dt.UTC).replace(microsecond=0)
    parsed = dialects.parse_url(url)
    dialect = dialects.by_scheme(parsed.scheme)
    if dialect.OPENS_FILES and parsed.database == ":memory:":
        raise ConfigError("a database in memory is gone with each session; name a file, which may be a new one")
    book = Book(on_check, minutes * 60)
    with tempfile.TemporaryDirectory(prefix="auditor-certify-") as folder:
        opposite = against or f"duckdb:///{folder}/oracle.duckdb"
        try:
            head = _begin(book, dialect, url, chosen)
        except EngineError as error:
            if error.exit_code != REFUSED or isinstance(error, NOT_OF_THE_SERVER):
                raise
            head = Head(refused=str(error))
        else:
            _try_in_schema(book, url, opposite, Path(folder), [part for part in chosen if part in ("types", "target", "source")], scale)
    return Certificate(
        auditor=version_of("auditor"),
        made=began,
        engine=dialect.name,
        server=head.server,
        version=head.version,
        variant=head.variant,
        stand_in=head.stand_in,
        against=dialects.by_scheme(dialects.parse_url(opposite).scheme).name,
        refused=head.refused,
        checks=tuple(book.checks),
        cost=book.meter.cost,
    )


@dataclass(frozen=True, slots=True)
class Head:
    """What a server says of itself."""

    server: str = ""
    version: str = ""
    variant: str = ""
    stand_in: str = ""
    refused: str = ""


def _chosen(parts: Collection[str]) -> list[CertifiedPart]:
    if unknown := sorted(set(parts) - set(PARTS)):
        raise ConfigError(f"there is no part {unknown[0]!r} to try; choose from {', '.join(PARTS)}")
    return [part for part in PARTS if not parts or part in parts]


def _lacking(dialect: Dialect) -> dict[CertifiedPart, str]:
    """Return the parts that an engine does not have, and why."""
    lacking: dict[CertifiedPart, str] = {}
    if not dialect.FACTS:
        lacking["facts"] = f"nothing of {dialect.name} is to be asked for by hand"
    if not dialect.TABLE_FORM.create_schema:
        lacking["types"] = lacking["target"] = f"tables of {dialect.name} are files, for which no schema is made"
    if not dialect.is_written:
        lacking["target"] = f"{dialect.name} is no target of pipelines"
    if dialect.CHANGE_STREAM != "binlog":
        lacking["source"] = f"{dialect.name} has no log that pipelines read"
    return lacking


def _begin(book: Book, dialect: Dialect, url: str, chosen: Sequence[CertifiedPart]) -> Head:
    """Ask who answers, run the parts that write nothing, and return what the server says of itself."""
    with closing(_open(dialect, url)) as session:
        variant = ", ".join(map(str, session.variants))
        head = Head(session.server, _version(session), variant, session.dialect.server.stand_in(session))
        lacking = _lacking(session.dialect)
        for part in chosen:
            if part in lacking:
                book.skip(part, "everything", lacking[part])
        if "selftest" in chosen:
            check_session(session, "certify", book.add_selftest)
        if "facts" in chosen and "facts" not in lacking:
            _check_facts(book, session)
        book.meter.add_session(session)
    return head


def _open(dialect: Dialect, url: str) -> Session:
    """Open a session that reads. An engine that opens files makes the file, so that a new one can be named."""
    parsed = dialects.parse_url(url)
    return dialect.connect(dialect.addresses.write_url(parsed) if dialect.OPENS_FILES else parsed, STATEMENT_TIMEOUT, LOCK_TIMEOUT)


def _version(session: Session) -> str:
    try:
        return " ".join(str(session.query("SELECT VERSION()")[0][0]).split())
    except AuditorError:  # the engine has no such function
        return ""


def _try_in_schema(book: Book, url: str, against: str, folder: Path, chosen: Sequence[CertifiedPart], scale: Scale) -> None:
    """Make schemas on both engines, run the parts that need tables, and drop the schemas, however the parts end."""
    here, twin = Scratch(url, book.meter), Scratch(against)
    lacking = _lacking(here.dialect)
    wanted = [part for part in chosen if part not in lacking]
    if not wanted:
        return
    made: list[Scratch] = []
    try:
        for scratch in (here, twin):
            try:
                scratch.make()
            except AuditorError as error:
                for part in wanted:
                    book.skip(part, "everything", f"no schema could be made on {scratch.dialect.name}: {error}")
                return
            made.append(scratch)
        if "types" in wanted:
            check_types(book, here, twin, scale.samples)
        if "target" in wanted:
            _try_target(book, here, twin, folder, scale)
        if "source" in wanted:
            check_log(book, here, url)
    finally:
        for scratch in made:
            book.clean(f"the schema {scratch.name} of {scratch.dialect.name} is dropped", scratch.drop)
    with here.writing() as session:
        book.meter.ask_server(session)


def _try_target(book: Book, here: Scratch, twin: Scratch, folder: Path, scale: Scale) -> None:
    """Try a target, unless files must be loaded and the session has no place for them."""
    if here.dialect.writing.LOADS == "by files":
        with here.writing() as session:
            why = session.loading.why_no_files()
        if why:
            book.skip("target", "everything", why)
            return
    check_target(book, here, twin, folder / "pipeline", scale.rows, scale.steps)


def _check_facts(book: Book, session: Session) -> None:
    """Ask for the single facts on which the SQL of the session's dialect rests."""
    for fact in session.dialect.FACTS:
        book.ask("facts", fact.name, fact.sql, partial(_answer, session, fact.sql), fact.expected, fact.shows)


def _answer(session: Session, sql: str) -> object:
    rows = session.query(sql)
    return rows[0][0] if rows else "no row"
