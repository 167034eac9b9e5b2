"""The Redshift stand-in: a PostgreSQL set up as Redshift is, behind the front that Amazon's driver accepts.

Nobody can start a Redshift locally, so without $AUDITOR_TEST_REDSHIFT_URL the tests run against PostgreSQL with
Redshift's functions and system views defined (redshift_functions.sql), Redshift's session defaults (UTC, bytewise
collation, backslash escapes in literals, snapshot isolation) and the real driver.

What it proves: that the rendered SQL runs through redshift_connector, that it calls functions which Redshift documents
with arguments of the documented types, and that canonical text and arithmetic come out right where PostgreSQL and
Redshift agree.

Where Redshift does otherwise, or its manual is silent, redshift_strict.py lists behaviours that can be switched by database with
`StandIn.behaving`: comparisons without blanks at the end or without case, the types of MOD and SUM, Amazon's words for errors, refusals of
columns without a type, of leader-node functions beside tables, of STL and STV relations. They are on (case apart) unless a test says
otherwise. Primary keys are not enforced.

What it cannot prove:

- that Redshift accepts the SQL: PostgreSQL also accepts what Redshift lacks (bit_xor, string_agg, FILTER, LATERAL,
  ON CONFLICT, RETURNING, casts to bit). tests/servers/redshift_allowed.py checks statements beside it;
- types: VARCHAR(n) counts characters here and bytes there; AVG of integers is an integer there; NUMERIC there ends at
  38 digits, with its own scale for division; SUPER is jsonb here, so the order of keys and duplicates are lost; VARBYTE
  is bytea; INTERVAL and the binary wire formats are PostgreSQL's;
- STRTOL of signs, prefixes, 16 digits or other bases than 16, and SHA2 of other lengths than 256 bits: refused here;
- plans, costs, distribution, sort keys, result cache, queueing, serializable conflicts;
- a session that changes its search_path without `redshift_functions` loses the functions.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import redshift_connector
from redshift_connector.core import Connection
from redshift_connector.error import Error

from tests.servers import postgres, redshift_strict
from tests.servers.process import Daemon, Server, Unavailable, free_port, given, own_directory

VARIABLE = "AUDITOR_TEST_REDSHIFT_URL"
FUNCTIONS = Path(__file__).with_name("redshift_functions.sql")
BEHAVIOURS = Path(__file__).with_name("redshift_strict.sql")
SERVE = "import sys; sys.path.insert(0, {root!r}); from tests.servers import redshift_serve; redshift_serve.main()"
CLUSTER = postgres.Cluster(
    name="redshift",
    # The method that both PostgreSQL and Amazon's driver know, whatever form the server stores the password in.
    authentication="password",
    settings={
        "timezone": "UTC",
        "datestyle": "ISO, MDY",
        "extra_float_digits": "0",
        "default_transaction_isolation": "repeatable read",
        "search_path": "public, redshift_functions, pg_catalog",
        "standard_conforming_strings": "off",
        "backslash_quote": "on",
        "escape_string_warning": "off",
        "jit": "off",
    },
    locales=(("--locale=C",),),
)


@dataclass(frozen=True, kw_only=True)
class StandIn(Server):
    """The stand-in, with the log that its front keeps of one database."""

    log: Path
    #: The PostgreSQL behind the front, as the URL of its first database.
    behind: str

    def statements(self) -> list[str]:
        """Return what the clients of this database sent, character by character, since the start or the last `forget`."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def forget(self) -> None:
        """Empty the log."""
        self.log.write_text("")

    @contextmanager
    def behaving(self, on: Collection[str]) -> Iterator[None]:
        """Give connections to this database that begin in the block these behaviours (redshift_strict.py), and no others."""
        switches = self.log.with_suffix(".switches")
        switches.write_text("\n".join(on))
        _compare_text(self.behind_database, on)
        try:
            yield
        finally:
            switches.unlink()
            _compare_text(self.behind_database, redshift_strict.STRICT)

    @contextmanager
    def unloading_to(self, endpoint: str) -> Iterator[None]:
        """Let UNLOAD in connections to this database write to S3 at that URL in the block."""
        place = self.log.with_suffix(".s3")
        place.write_text(endpoint)
        try:
            yield
        finally:
            place.unlink()

    @property
    def behind_database(self) -> str:
        """The URL of this database on the PostgreSQL behind the front."""
        return urlsplit(self.behind)._replace(path=urlsplit(self.url).path).geturl()


def connect(url: str) -> Connection:
    """A plain connection with Amazon's driver, for setting tests up."""
    parts = urlsplit(url)
    connection = redshift_connector.connect(
        host=parts.hostname,
        port=parts.port or 5439,
        database=parts.path.lstrip("/"),
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        ssl=parse_qs(parts.query).get("sslmode") != ["disable"],
        application_name="tests",  # else the driver looks through the whole stack for a name
    )
    connection.autocommit = True
    return connection


def version(url: str) -> str:
    """What the server calls itself."""
    with closing(connect(url)) as connection:
        cursor = connection.cursor()
        cursor.execute("select version()")
        row = cursor.fetchone()
    assert row is not None
    return str(row[0])


def start(directory: Path) -> Server:
    """Start the stand-in, or raise Unavailable."""
    server = given(VARIABLE, version, Error)
    if server is not None:
        return server
    behind = postgres.cluster(directory, CLUSTER)
    _define_functions(behind.url)
    try:
        return _front(directory, behind)
    except Unavailable:
        behind.stop()
        raise


def database(server: Server, name: str) -> Server:
    """Create a database on the server, with Redshift's functions on the stand-in; it is dropped when the result is stopped."""
    url = urlsplit(server.url)._replace(path=f"/{name}").geturl()
    if not isinstance(server, StandIn):
        _run(server.url, f"CREATE DATABASE {name}")
        return replace(server, url=url, stopper=lambda: _run(server.url, f"DROP DATABASE {name}"))
    made = postgres.database(replace(server, url=server.behind), name)
    _define_functions(made.url)
    return replace(server, url=url, log=server.log.with_name(f"{name}.jsonl"), stopper=made.stopper)


def _run(url: str, statement: str) -> None:
    try:
        with closing(connect(url)) as connection:
            connection.cursor().execute(statement)
    except Error as error:
        raise Unavailable(f"the account may not create or drop a database ({error})") from error


def _define_functions(url: str) -> None:
    with closing(postgres.connect(url)) as connection:
        connection.cursor().execute(FUNCTIONS.read_text())
        connection.cursor().execute(BEHAVIOURS.read_text())
    _compare_text(url, redshift_strict.STRICT)


def _compare_text(url: str, on: Collection[str]) -> None:
    """Let the database compare text as the behaviours say."""
    schema = "redshift_case" if "case" in on else "redshift_blanks" if "blanks" in on else "pg_catalog"
    with closing(postgres.connect(url)) as connection:
        connection.cursor().execute(f"SELECT redshift_functions.compare_text_as('{schema}')")


def _front(directory: Path, behind: Server) -> StandIn:
    parts = urlsplit(behind.url)
    home, port = own_directory(directory, "redshift-front"), free_port()
    serve = SERVE.format(root=str(Path(__file__).parents[2]))
    daemon = Daemon([sys.executable, "-c", serve, str(port), str(parts.hostname), str(parts.port), home], home)
    url = f"redshift://audit:audit@127.0.0.1:{port}/audit?sslmode=disable"
    daemon.wait(lambda: version(url), Error)

    def stop() -> None:
        daemon.stop()
        behind.stop()

    name = f"stand-in on PostgreSQL {behind.version}"
    return StandIn(url=url, version=name, how=behind.how, stopper=stop, log=home / "audit.jsonl", behind=behind.url)
