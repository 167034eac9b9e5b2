"""The targets of a chaos run: their servers, how their connections are ended, and how each counts what is applied to it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

import boto3
import pytest

import dialects
from dialects import Dialect
from tests.live import Engines
from tests.servers import mysql, postgres, s3
from tests.servers.killable import Killable, killable
from tests.servers.redshift import StandIn

SCHEMA, BUCKET, ROLE = "chaos", "chaos-rows", "arn:aws:iam::123456789012:role/copy"

COUNT_ON_POSTGRES = f"""
CREATE TABLE {SCHEMA}.applied (number BIGINT NOT NULL);
CREATE FUNCTION {SCHEMA}.count_applied() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN INSERT INTO {SCHEMA}.applied SELECT number FROM added; RETURN NULL; END $$;
CREATE TRIGGER count_applied AFTER INSERT ON {SCHEMA}.ledger
  REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION {SCHEMA}.count_applied()
"""
COUNT_ON_MYSQL = (
    f"CREATE TABLE {SCHEMA}.applied (number BIGINT NOT NULL)",
    f"CREATE TRIGGER {SCHEMA}.count_applied AFTER INSERT ON {SCHEMA}.ledger FOR EACH ROW INSERT INTO {SCHEMA}.applied VALUES (NEW.number)",
)
"""Counts how often each number reached the target's ledger, in the merge's own transaction."""


FILES = {
    "duck": "duckdb:///{folder}/duck/warehouse.duckdb", "lake": "delta://{folder}/lake", "files": "parquet://{folder}/files",
    "ice": "iceberg://default?type=sql&uri=sqlite:///{folder}/ice/catalog.db&warehouse=file://{folder}/ice/warehouse",
}  # fmt: skip
"""Targets that no server keeps."""


@dataclass(frozen=True)
class Target:
    """One target."""

    url: str
    """As the pipeline has it."""
    server: Killable | None = None
    """The server, if it is the test's own."""
    behind: str = ""
    """The URL of the server behind a stand-in."""

    @property
    def counts(self) -> bool:
        """Whether it counts what is applied to it."""
        return bool(self.server or self.behind)

    @property
    def stages_once(self) -> bool:
        """Whether its loader keeps a session whose staging tables outlive every connection that can be ended here."""
        return self.url.startswith(("delta", "iceberg", "parquet"))

    @property
    def can_be_held(self) -> bool:
        """Whether audits of it can be aligned."""
        return not self.url.startswith(("delta", "iceberg", "parquet"))

    @property
    def dialect(self) -> Dialect:
        """Its engine."""
        return dialects.by_scheme(urlsplit(self.url).scheme)

    @property
    def _is_mysql(self) -> bool:
        return self.url.startswith(("mariadb", "mysql"))

    def count_applied(self) -> None:
        """Let the server count what is applied to its ledger from now on."""
        if self._is_mysql:
            with mysql.connect(self.url) as session, session.cursor() as cursor:
                for statement in COUNT_ON_MYSQL:
                    cursor.execute(statement)
        else:
            with closing(postgres.connect(self.behind or self.url)) as connection, connection.cursor() as cursor:
                cursor.execute(COUNT_ON_POSTGRES)

    def end_connections(self, choice: random.Random, every: bool) -> bool:
        """End one connection of a loader, or every one; return whether there was any."""

        def choose(numbers: list[int]) -> list[int]:
            return numbers if every else choice.sample(numbers, min(1, len(numbers)))

        if self._is_mysql:
            with mysql.connect(self.url) as session, session.cursor() as sessions:
                return bool(mysql.end_sessions(sessions, "db = 'audit'", choose))
        with closing(postgres.connect(self.behind or self.url)) as connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
                " AND backend_type = 'client backend'"
            )
            found = sorted(number for (number,) in cursor.fetchall())
            for number in choose(found):
                cursor.execute("SELECT pg_terminate_backend(%s)", (number,))
            return bool(found)


@contextmanager
def open_targets(names: list[str], folder: Path, engines: Engines, patch: pytest.MonkeyPatch) -> Iterator[Mapping[str, Target]]:
    """Run the targets' servers for the block."""
    with ExitStack() as held:
        found: dict[str, Target] = {}
        for name in names:
            if name in FILES:
                (folder / name).mkdir()
                found[name] = Target(FILES[name].format(folder=folder))
            elif name == "redshift":
                found[name] = held.enter_context(_redshift(engines, patch))
            else:
                server = held.enter_context(killable({"pg": "postgres", "my": "mysql", "maria": "mariadb"}[name]))
                found[name] = Target(server.url, server)
        yield found


@contextmanager
def _redshift(engines: Engines, patch: pytest.MonkeyPatch) -> Iterator[Target]:
    server = engines.server("redshift")
    if not isinstance(server, StandIn):
        pytest.skip(f"redshift: {server.how}, which needs a bucket of its own")
    endpoint = engines.companion("s3", s3.start).url
    for name, value in {"ENDPOINT_URL": endpoint, "ACCESS_KEY_ID": "tests", "SECRET_ACCESS_KEY": "tests"}.items():
        patch.setenv(f"AWS_{name}", value)
    boto3.client("s3", region_name="us-east-1").create_bucket(Bucket=BUCKET)
    to, role = quote(f"s3://{BUCKET}/auditor", safe=""), quote(ROLE, safe="")
    with server.unloading_to(endpoint):
        yield Target(f"{server.url}&unload_to={to}&unload_role={role}&region=us-east-1", behind=server.behind_database)
        with closing(postgres.connect(server.behind_database)) as connection, connection.cursor() as cursor:
            cursor.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
