"""Which versions of servers were tried, and which other products speak their protocols: what is noted of them, and what is refused.

A server is known by what it says of itself when a session begins. What it says is gathered as *facts*, texts by name:

``version``     VERSION() of MySQL's protocol, version() of PostgreSQL's
``comment``     @@version_comment
``folder``      @@basedir
``settings``    which of PostgreSQL's settings of services and extensions exist, and ``aurora_version`` where that function does
``extensions``  the names in pg_extension
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from dialects.errors import EngineError, ServerRefused, ServerTooOld


@dataclass(frozen=True, slots=True)
class Tried:
    """What was tried of a product. Versions are those numbers that say which release it is, the oldest first."""

    versions: tuple[str, ...]
    """Versions on which audits were tried."""
    logs: tuple[str, ...] = ()
    """Versions whose binary log pipelines were tried on: its form changes from one to the next."""
    instead: str = ""
    """What was tried in place of a product that was not, as a clause."""


TRIED: Mapping[str, Tried] = {
    "MySQL": Tried(("9.7",), logs=("9.7",)),
    "MariaDB": Tried(("10.11", "11.4"), logs=("10.11", "11.4")),
    "PostgreSQL": Tried(("13", "14", "15", "16", "17", "18")),
    "Amazon Redshift": Tried((), instead="what is known of it is from its manual, and from a stand-in on PostgreSQL"),
    "ClickHouse": Tried((), instead="its engine ran in process, as chdb 26.9, behind an HTTP server of the tests"),
    "DuckDB": Tried(("1.5", "2.0")),
    "Spark": Tried(("4.0", "4.1", "4.2", "4.3")),
}
"""What was tried, by product as ``Session.server`` names it. docs/connections.md says the same."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A product that speaks the protocol of another, or a service that runs it."""

    name: str
    protocol: str
    """The engine whose protocol it speaks: ``mysql`` or ``postgres``."""
    signs: Mapping[str, str]
    """By the name of a fact a regular expression that its text matches; one is enough. A group is the variant's own version."""
    source: str
    """The page that shows the sign, or describes the difference."""
    differs: str = ""
    """What a person should know of it, as a clause; empty where no difference is known that matters."""
    refused: str = ""
    """Why an audit of it would be wrong or fail, and what to do, as clauses; empty where it is only noted."""
    log: str = ""
    """What a pipeline's source is to have besides, as a clause."""
    is_fork: bool = True
    """Whether the version of the product that it takes itself for says anything of it."""


RETENTION = (
    "it deletes files of its binary log as soon as it can, whatever binlog_expire_logs_seconds says: run CALL"
    " mysql.rds_set_configuration('binlog retention hours', 168)"
)
"""https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/mysql_rds_set_configuration.html"""

VARIANTS: Sequence[Variant] = (
    Variant("Amazon Aurora MySQL", "mysql", {"version": r"mysql_aurora\.([\d.]+)", "folder": r"^/rdsdbbin/oscar"},
            "https://docs.aws.amazon.com/AmazonRDS/latest/AuroraUserGuide/AuroraMySQL.Updates.Versions.html",
            differs="its readers share the writer's storage instead of replaying its log", log=RETENTION),
    Variant("Amazon RDS", "mysql", {"folder": r"^/rdsdbbin/(?!oscar)", "comment": r"aws\.amazon\.com/rds"},
            "https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/mysql_rds_set_configuration.html", log=RETENTION),
    Variant("Google Cloud SQL", "mysql", {"version": r"-google", "comment": r"^\(Google\)$"},
            "https://cloud.google.com/sql/docs/mysql/db-versions"),
    Variant("Percona Server", "mysql", {"comment": r"^Percona (?:Server|XtraDB Cluster)"},
            "https://docs.percona.com/percona-server/8.4/percona-server-system-variables.html"),
    Variant("Vitess, or PlanetScale", "mysql", {"version": r"(?i)-vitess(?:-(\d[\w.]*))?", "comment": r"^Version: (\S+) \(Git revision"},
            "https://vitess.io/docs/archive/21.0/reference/compatibility/mysql-compatibility/", is_fork=False,
            refused="a transaction on several of its shards sees what others commit meanwhile (READ COMMITTED), so that it shows no"
            " snapshot; audit the MySQL servers behind it, as the shards of one source"),
    Variant("TiDB", "mysql", {"version": r"(?i)-tidb-v?(\d[\w.]*)", "comment": r"^TiDB Server"},
            "https://docs.pingcap.com/tidb/v8.3/sql-statement-start-transaction", is_fork=False,
            refused="it has no START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY, by which every snapshot here begins; audit a copy of"
            " its tables in MySQL"),
    Variant("ProxySQL", "mysql", {"comment": r"^\(ProxySQL\)"}, "https://github.com/sysown/proxysql/issues/1947",
            differs="it is between, and has sent statements of one transaction to several sessions"),
    Variant("Amazon Aurora PostgreSQL", "postgres", {"settings": r"aurora_version"},
            "https://docs.aws.amazon.com/AmazonRDS/latest/AuroraUserGuide/aurora_version.html",
            differs="its readers share the writer's storage instead of replaying its log"),
    Variant("Amazon RDS", "postgres", {"settings": r"^(?!.*aurora_version).*rds\.extensions"},
            "https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/PostgreSQL.Concepts.General.FeatureSupport.Extensions.html"),
    Variant("Babelfish", "postgres", {"settings": r"babelfishpg_tsql\.migration_mode", "extensions": r"\bbabelfishpg_tsql\b"},
            "https://docs.aws.amazon.com/AmazonRDS/latest/AuroraUserGuide/babelfish-architecture.html",
            differs="tables of T-SQL have types and collations of their own"),
    Variant("Google Cloud SQL", "postgres", {"settings": r"cloudsql\.iam_authentication"},
            "https://cloud.google.com/sql/docs/postgres/flags"),
    Variant("Google AlloyDB", "postgres", {"settings": r"alloydb\.iam_authentication|google_columnar_engine\.enabled"},
            "https://cloud.google.com/alloydb/docs/reference/alloydb-flags", differs="its columnar engine may answer queries"),
    Variant("Azure Database for PostgreSQL", "postgres", {"settings": r"azure\.extensions"},
            "https://learn.microsoft.com/azure/postgresql/extensions/how-to-allow-extensions"),
    Variant("TimescaleDB", "postgres", {"extensions": r"\btimescaledb\b"},
            "https://docs.timescale.com/use-timescale/latest/hypertables/", differs="rows of hypertables lie in chunks, some compressed"),
    Variant("CockroachDB", "postgres", {"version": r"^CockroachDB \S+ v([\d.]+)"},
            "https://www.cockroachlabs.com/docs/stable/functions-and-operators#system-info-functions", is_fork=False,
            differs="its transactions, catalogue and settings are its own"),
    Variant("YugabyteDB", "postgres", {"version": r"-YB-([\d.]+)"},
            "https://github.com/yugabyte/yugabyte-db/issues/5154", is_fork=False, differs="its transactions and catalogue are its own"),
    Variant("Greenplum", "postgres", {"version": r"\(Greenplum Database ([\w.+-]+)"}, "https://github.com/greenplum-db/gpdb", is_fork=False,
            differs="its tables are spread over segments, with a catalogue of its own"),
    Variant("Amazon Redshift", "postgres", {"version": r"\bRedshift ([\d.]+)"},
            "https://docs.aws.amazon.com/redshift/latest/dg/r_VERSION.html", is_fork=False,
            refused="it is an engine of its own here; write redshift:// in place of postgresql:// in its URL"),
)  # fmt: skip
"""Those that are known. Of each the page is named that shows its sign, or describes the difference."""

PLAIN = {
    "mysql": ("comment", r"(?i)mysql|mariadb|source distribution|debian|ubuntu|alpine|\barch\b|fedora|freebsd|homebrew|^$"),
    "postgres": ("version", r"^PostgreSQL \d[\w.]*(?: \((?:Debian|Ubuntu|Homebrew|Postgres\.app)[^)]*\))?(?: on |, compiled by )"),
}
"""By protocol the fact, and how its text is, by which a server is the product itself and no other that is not known here."""

LONGEST = 4_000
"""Characters of a fact that are looked at."""

_NUMBERS = re.compile(r"\d++(?:\.\d++)*+")


@dataclass(frozen=True, slots=True)
class Recognised:
    """A variant that a server is, with its own version, empty where it does not say so."""

    variant: Variant
    version: str = ""

    def __str__(self) -> str:
        return f"{self.variant.name} {self.version}".rstrip()

    @property
    def note(self) -> str:
        """What a person should know of it, as a sentence."""
        return "; ".join(note for note in (f"{self}: not tried", self.variant.differs) if note)


def recognise(protocol: str, facts: Mapping[str, str]) -> tuple[Recognised, ...]:
    """Return which variants a server is that says this of itself; one that is none, nor the product itself, is named by its own words."""
    recognised = []
    for variant in VARIANTS:
        if variant.protocol != protocol:
            continue
        matches = [match for fact, sign in variant.signs.items() if (match := re.search(sign, facts.get(fact, "")[:LONGEST]))]
        if matches:
            recognised.append(Recognised(variant, next((group for match in matches for group in match.groups() if group), "")))
    fact, plain = PLAIN[protocol]
    said = " ".join(facts.get(fact, "").split())[:80]
    if not recognised and fact in facts and not re.search(plain, said):
        recognised.append(Recognised(Variant(f"a server that says of itself {said!r}", protocol, {}, "")))
    return tuple(recognised)


def refuse(where: str, recognised: Iterable[Recognised]) -> None:
    """Raise ServerRefused for a variant of which an audit would be wrong or fail; ``where`` is the URL."""
    for product in recognised:
        if product.variant.refused:
            raise ServerRefused(f"{where}: the server is {product}: {product.variant.refused} ({product.variant.source})")


@contextmanager
def naming(recognised: Sequence[Recognised]) -> Iterator[None]:
    """Say of errors that leave the block that the server is a variant which was not tried."""
    try:
        yield
    except EngineError as error:
        if not recognised:
            raise
        raise type(error)(f"{error}; {'; '.join(product.note for product in recognised)}") from error


def name_old(error: ServerTooOld, where: str, recognised: Sequence[Recognised]) -> EngineError:
    """Return the error of a server that is too old by the version of the product that it takes itself for; ``where`` is the URL."""
    if not recognised or recognised[0].variant.is_fork:
        return error
    return ServerRefused(
        f"{where}: the server is {recognised[0]}, which was not tried, and takes itself for a version that is too old: {error}"
    )


def notes(server: str, recognised: Iterable[Recognised] = ()) -> list[str]:
    """Return what a person should know of a server, a sentence each: ``server`` is its name and version, ``recognised`` its variants."""
    known = list(recognised)
    said = [product.note for product in known]
    if all(product.variant.is_fork for product in known) and (note := note_version(server)):
        said.append(note)
    return said


def note_version(server: str) -> str:
    """Return a sentence about a version that was not tried, as ``MariaDB 12.1: not tried; newest tried 11.8``; '' for one that was."""
    product, version = parse(server)
    tried = TRIED.get(product)
    if tried is None or version in tried.versions:
        return ""
    if not tried.versions:
        return f"{product}: not tried; {tried.instead}"
    numbers, oldest, newest = _numbers(version), tried.versions[0], tried.versions[-1]
    if numbers > _numbers(newest):
        beside = f"newest tried {newest}"
    elif numbers < _numbers(oldest):
        beside = f"oldest tried {oldest}"
    else:
        beside = f"tried {' and '.join(tried.versions)}"
    return f"{product} {version}: not tried; {beside}"


def note_log(server: str, recognised: Iterable[Recognised] = ()) -> list[str]:
    """Return what a person should know of a pipeline's source, a sentence each; ``recognised`` are its variants."""
    said = ["; ".join(note for note in (product.note, product.variant.log) if note) for product in recognised]
    product, version = parse(server)
    if version in TRIED[product].logs:
        return said
    tried = ", ".join(f"{name} {version}" for name, known in TRIED.items() for version in known.logs)
    return [
        f"the source is {product} {version}, on which pipelines were not tried (tried: {tried}); audit the tables after changes of every"
        " kind, and report what differs",
        *said,
    ]


def parse(server: str) -> tuple[str, str]:
    """Return a product, and the numbers of its version that say which release it is, of a server's name and version; '' if not known."""
    for product in TRIED:
        before, _, after = server.partition(product)
        if before != server and (not before or before[-1] in "( "):  # Delta's server names the DuckDB that reads it
            match = _NUMBERS.match(after.lstrip())
            return product, ".".join(match[0].split(".")[: 1 if product == "PostgreSQL" else 2]) if match else ""
    return "", ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split(".") if number)
