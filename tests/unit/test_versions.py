"""What servers say of themselves, and what is noted of them or refused. Texts are as vendors' pages, or their issues, show them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from dialects import versions
from dialects.errors import ServerRefused, ServerTooOld, StatementRefused
from dialects.postgres import settings as postgres_settings
from dialects.versions import TRIED, VARIANTS, Recognised, recognise

PG15 = "PostgreSQL 15.4 on x86_64-pc-linux-gnu, compiled by gcc (GCC) 7.3.1"

SAID: list[tuple[str, Mapping[str, str], str]] = [
    # https://docs.aws.amazon.com/AmazonRDS/latest/AuroraUserGuide/AuroraMySQL.Updates.Versions.html
    ("mysql", {"version": "8.0.mysql_aurora.3.04.0"}, "Amazon Aurora MySQL 3.04.0"),
    ("mysql", {"version": "8.0.28", "comment": "Source distribution", "folder": "/rdsdbbin/oscar-8.0/"}, "Amazon Aurora MySQL"),
    # https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/mysql_rds_set_configuration.html
    ("mysql", {"version": "8.0.35", "comment": "Source distribution", "folder": "/rdsdbbin/mysql-8.0.35.R2/"}, "Amazon RDS"),
    ("mysql", {"version": "10.11.6-MariaDB-log", "comment": "managed by https://aws.amazon.com/rds/"}, "Amazon RDS"),
    # https://cloud.google.com/sql/docs/mysql/db-versions
    ("mysql", {"version": "8.0.31-google", "comment": "(Google)"}, "Google Cloud SQL"),
    # https://github.com/vitessio/vitess/issues/7498, of the Percona Server behind it
    ("mysql", {"version": "8.0.22-13", "comment": "Percona Server (GPL), Release '13', Revision '6f7822f'"}, "Percona Server"),
    # https://github.com/vitessio/vitess/pull/7337
    ("mysql", {"version": "5.7.9-vitess-10.0.0-SNAPSHOT"}, "Vitess, or PlanetScale 10.0.0"),
    # https://github.com/vitessio/vitess/issues/17645
    ("mysql", {"version": "8.0.40-Vitess"}, "Vitess, or PlanetScale"),
    # https://github.com/vitessio/vitess/issues/7498
    ("mysql", {"version": "8.0.22", "comment": "Version: 10.0.0 (Git revision a577cc4da)"}, "Vitess, or PlanetScale 10.0.0"),
    # https://docs.pingcap.com/tidb/v8.3/information-schema-tidb-servers-info
    ("mysql", {"version": "8.0.11-TiDB-v8.3.0"}, "TiDB 8.3.0"),
    # https://github.com/sysown/proxysql/issues/1832
    ("mysql", {"version": "8.0.13", "comment": "(ProxySQL)"}, "ProxySQL"),
    ("mysql", {"version": "5.7.25", "comment": "OtherDB 4.2 (r101)"}, "a server that says of itself 'OtherDB 4.2 (r101)'"),
    # https://docs.aws.amazon.com/AmazonRDS/latest/AuroraUserGuide/aurora_version.html
    ("postgres", {"version": PG15, "settings": "aurora_version rds.extensions"}, "Amazon Aurora PostgreSQL"),
    # https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/PostgreSQL.Concepts.General.FeatureSupport.Extensions.html
    ("postgres", {"version": PG15, "settings": "rds.extensions"}, "Amazon RDS"),
    # https://docs.aws.amazon.com/AmazonRDS/latest/AuroraUserGuide/babelfish-architecture.html
    ("postgres", {"version": PG15, "settings": "babelfishpg_tsql.migration_mode"}, "Babelfish"),
    # https://cloud.google.com/sql/docs/postgres/flags
    ("postgres", {"version": PG15, "settings": "cloudsql.iam_authentication"}, "Google Cloud SQL"),
    # https://cloud.google.com/alloydb/docs/reference/alloydb-flags
    ("postgres", {"version": PG15, "settings": "alloydb.iam_authentication google_columnar_engine.enabled"}, "Google AlloyDB"),
    # https://learn.microsoft.com/azure/postgresql/extensions/how-to-allow-extensions
    ("postgres", {"version": PG15, "settings": "azure.extensions"}, "Azure Database for PostgreSQL"),
    # https://docs.timescale.com/use-timescale/latest/hypertables/
    ("postgres", {"version": PG15, "extensions": "plpgsql timescaledb"}, "TimescaleDB"),
    # https://www.cockroachlabs.com/docs/stable/functions-and-operators#system-info-functions
    ("postgres", {"version": "CockroachDB CCL v24.1.2 (x86_64-pc-linux-gnu, built 2024/07/02 21:28:29, go1.22.2)"}, "CockroachDB 24.1.2"),
    # https://github.com/yugabyte/yugabyte-db/issues/5154
    ("postgres", {"version": "PostgreSQL 11.2-YB-2.18.0.1-b0 on x86_64-pc-linux-gnu"}, "YugabyteDB 2.18.0.1"),
    # https://dev.mo4tech.com/?p=153318
    ("postgres", {"version": "PostgreSQL 12beta2 (Greenplum Database 7.0.0-alpha.0+dev.1 build dev)"}, "Greenplum 7.0.0-alpha.0+dev.1"),
    # https://docs.aws.amazon.com/redshift/latest/dg/r_VERSION.html
    ("postgres", {"version": "PostgreSQL 8.0.2 on i686-pc-linux-gnu, Redshift 1.0.12103"}, "Amazon Redshift 1.0.12103"),
    ("postgres", {"version": "PostgreSQL 14.7 (OtherDB) on x86_64"}, "a server that says of itself 'PostgreSQL 14.7 (OtherDB) on x86_64'"),
]  # fmt: skip

PLAIN: list[tuple[str, Mapping[str, str]]] = [
    ("mysql", {"version": "9.7.4-2", "comment": "(Debian)", "folder": "/usr/"}),
    ("mysql", {"version": "8.4.2", "comment": "MySQL Community Server - GPL", "folder": "/usr/"}),
    ("mysql", {"version": "10.11.19-MariaDB-0+deb12u1-log", "comment": "Debian 12", "folder": "/usr"}),
    ("mysql", {"version": "11.4.5-MariaDB", "comment": "mariadb.org binary distribution", "folder": "/opt/mariadb"}),
    ("mysql", {"version": "9.7.4"}),
    ("postgres", {"version": "PostgreSQL 15.20 (Debian 15.20-0+deb12u1) on x86_64-pc-linux-gnu, compiled by gcc", "extensions": "plpgsql"}),
    ("postgres", {"version": "PostgreSQL 16.1, compiled by Visual C++ build 1937, 64-bit"}),
    ("postgres", {"version": "PostgreSQL 18beta1 on x86_64-linux, compiled by gcc-13"}),
]


@pytest.mark.parametrize(("protocol", "facts", "name"), SAID)
def test_a_variant_is_known_by_what_it_says_of_itself(protocol: str, facts: Mapping[str, str], name: str) -> None:
    [found] = recognise(protocol, facts)
    assert str(found) == name and found.note.startswith(f"{name}: not tried")


@pytest.mark.parametrize(("protocol", "facts"), PLAIN)
def test_a_product_itself_is_no_variant(protocol: str, facts: Mapping[str, str]) -> None:
    assert recognise(protocol, facts) == ()


def test_each_variant_is_shown_and_has_a_source() -> None:
    shown = {one.variant.name for protocol, facts, _ in SAID for one in recognise(protocol, facts)}
    assert {one.name for one in VARIANTS} <= shown
    assert all(one.source.startswith("https://") for one in VARIANTS)
    asked = " ".join([*postgres_settings.SIGNS, "aurora_version"])
    for one in VARIANTS:
        assert not one.signs.get("settings") or recognise("postgres", {"settings": asked}), one.name


@pytest.mark.parametrize(
    ("protocol", "version", "reason"),
    [
        ("mysql", "8.0.11-TiDB-v8.3.0", r"mysql://h/: the server is TiDB 8\.3\.0: it has no START TRANSACTION WITH CONSISTENT SNAPSHOT"),
        ("mysql", "8.0.40-Vitess", r"is Vitess, or PlanetScale: a transaction on several of its shards .* as the shards of one source"),
        ("postgres", "PostgreSQL 8.0.2 on i686-pc-linux-gnu, Redshift 1.0.12103", r"write redshift:// in place of postgresql://"),
    ],
)  # fmt: skip
def test_what_would_be_wrong_is_refused_with_its_source(protocol: str, version: str, reason: str) -> None:
    with pytest.raises(ServerRefused, match=reason) as refused:
        versions.refuse("mysql://h/", recognise(protocol, {"version": version}))
    assert refused.value.exit_code == 2 and "(https://" in str(refused.value)


VERSIONS = [
    ("MariaDB 12.1.2-MariaDB-log", "MariaDB 12.1: not tried; newest tried {newest}"),
    ("MariaDB 10.1.48", "MariaDB 10.1: not tried; oldest tried {oldest}"),
    ("MySQL 8.0.45", "MySQL 8.0: not tried; oldest tried {oldest}"),
    ("MySQL 10.0.1", "MySQL 10.0: not tried; newest tried {newest}"),
    ("PostgreSQL 99", "PostgreSQL 99: not tried; newest tried {newest}"),
    ("DuckDB 9.1.0", "DuckDB 9.1: not tried; newest tried {newest}"),
    ("Delta Lake (deltalake 1.6.6, DuckDB 9.1.0)", "DuckDB 9.1: not tried; newest tried {newest}"),
    ("Spark 3.5.1", "Spark 3.5: not tried; oldest tried {oldest}"),
]


@pytest.mark.parametrize(("server", "note"), VERSIONS)
def test_a_version_that_was_not_tried_is_noted(server: str, note: str) -> None:
    tried = TRIED[versions.parse(server)[0]].versions
    assert versions.notes(server) == [note.format(oldest=tried[0], newest=tried[-1])]


def test_a_version_that_was_tried_is_not_noted() -> None:
    for product, tried in TRIED.items():
        for version in tried.versions:
            assert versions.notes(f"{product} {version}") == versions.notes(f"{product} {version}.3") == []
    assert versions.notes("Amazon Redshift")[0].startswith("Amazon Redshift: not tried; what is known of it is from its manual")
    assert versions.notes("SQLite 3.45") == [], "an engine of another package"


def test_the_documentation_says_what_was_tried() -> None:
    page = (Path(__file__).parents[2] / "docs" / "connections.md").read_text()
    table = page.partition("| engine | oldest | tried on | cannot hold |")[2].partition("\n\n")[0]
    said = {row[0]: row[2] for line in table.splitlines() if len(row := [one.strip() for one in line.strip("|").split("|")]) == 4}
    for product, tried in TRIED.items():
        assert not tried.versions or said[product] == ", ".join(tried.versions), product
    logs = [f"{product} {version}" for product, tried in TRIED.items() for version in tried.logs]
    assert f"Pipelines were tried on the logs of {', '.join(logs[:-1])} and {logs[-1]}." in page


def test_of_a_fork_the_version_is_noted_too_and_of_others_not() -> None:
    percona = recognise("mysql", {"version": "8.0.22-13", "comment": "Percona Server (GPL), Release '13'"})
    assert versions.notes("MySQL 8.0.22-13", percona) == ["Percona Server: not tried", versions.note_version("MySQL 8.0.22-13")]
    roach = recognise("postgres", {"version": "CockroachDB CCL v24.1.2 (x86_64-pc-linux-gnu)"})
    assert versions.notes("PostgreSQL 13", roach) == ["CockroachDB 24.1.2: not tried; its transactions, catalogue and settings are its own"]


def test_a_source_whose_log_goes_at_once_is_noted() -> None:
    rds = recognise("mysql", {"version": "8.0.35", "folder": "/rdsdbbin/mysql-8.0.35.R2/"})
    assert any("'binlog retention hours'" in note for note in versions.note_log("MySQL 8.0.35", rds))


def test_an_error_of_a_variant_names_it_and_an_old_one_is_named() -> None:
    roach = recognise("postgres", {"version": "CockroachDB CCL v24.1.2 (x86_64-pc-linux-gnu)"})
    with pytest.raises(StatementRefused, match=r"unrecognized parameter; CockroachDB 24\.1\.2: not tried"), versions.naming(roach):
        raise StatementRefused("unrecognized parameter")
    greenplum = recognise("postgres", {"version": "PostgreSQL 12.12 (Greenplum Database 7.0.0 build) on x86_64"})
    found = versions.name_old(ServerTooOld("PostgreSQL 12.12 is too old"), "postgresql://h/", greenplum)
    assert isinstance(found, ServerRefused) and "the server is Greenplum 7.0.0, which was not tried" in str(found)
    too_old = ServerTooOld("PostgreSQL 12.12 is too old")
    assert versions.name_old(too_old, "postgresql://h/", ()) is too_old


def test_a_variant_without_a_version_of_its_own_is_named_alone() -> None:
    assert str(Recognised(VARIANTS[0])) == VARIANTS[0].name
