"""Spark Connect: every wait ends by itself, cancelling never waits for the server, and an audit reads a real server.

The server runs from PySpark's own jars, in a Java process of its own.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dialects
from auditor.config import Audit, ConnectionSettings, Settings
from auditor.errors import BadUrl, ServerSilent, StatementCancelled, StatementRefused, StatementTimeout, Unreachable
from auditor.model import SIDES, Verdict
from auditor.run import audit_run
from auditor.service.selftest import selftest
from dialects.spark import java
from dialects.spark.connect import MICROSECONDS, ConnectSession, connection_string
from tests.durations import SetDurations
from tests.live import LiveEngine, engine_params
from tests.servers.process import free_port
from tests.servers.proxy import proxied

PATIENCE = 120.0
"""Seconds after which a test that hangs fails."""

SILENCING = "'fall silent' = 'fall silent'"
ENDLESS = "SELECT SUM(a.id * b.id) FROM RANGE(1000000) a, RANGE(1000000) b"

pytestmark = [pytest.mark.clock, pytest.mark.spark]
needs_client = pytest.mark.skipif(
    importlib.util.find_spec("grpc") is None, reason="Spark Connect's client is not installed: pip install 'auditor[connect]'"
)


@pytest.fixture
def impatient(set_durations: SetDurations) -> None:
    set_durations(silence_grace=0.5, cancel_grace=0.5)


class SilentSpark:
    """A Spark session whose server never answers: its calls end once the channel is closed."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.closed = threading.Event()
        self.client = self

    def sql(self, _: str) -> Any:
        return self._wait("sql")

    @property
    def version(self) -> Any:
        return self._wait("version")

    def interruptAll(self) -> Any:
        return self._wait("interrupt")

    def release_session(self) -> Any:
        return self._wait("release")

    def close(self) -> None:
        self.closed.set()

    def _wait(self, what: str) -> Any:
        self.asked.append(what)
        self.closed.wait(PATIENCE)
        raise RuntimeError("the channel was closed")


@pytest.mark.usefixtures("impatient")
def test_no_call_outlasts_its_limit() -> None:
    """At the login, in a statement, and in a statement that is cancelled; each call then ends with its channel."""
    for stage, error in (("login", Unreachable), ("statement", ServerSilent), ("cancelled", StatementCancelled)):
        spark = SilentSpark()
        session = ConnectSession(dialects.get("spark"), spark, "sc://h", 0.5)
        if stage != "login":
            session.wait_for_statements(600.0 if stage == "cancelled" else 0.5)
        session.cancel()
        assert not spark.asked, "there is nothing to cancel"
        canceller = threading.Timer(0.3, session.cancel)
        if stage == "cancelled":
            canceller.start()
        with pytest.raises(error):
            if stage == "login":
                session.read_version()
            else:
                session.query("SELECT 1")
        canceller.cancel()
        assert spark.closed.wait(PATIENCE), "the call goes on"
        assert ("interrupt" in spark.asked) == (stage != "login")
        session.close()


@needs_client
def test_connecting_to_a_silent_server_fails() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"sc://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(Unreachable, match="no answer within 1 s while connecting; check host, port and network"):
            dialects.connect(f"{url}?connect_timeout=1")
    with pytest.raises(Unreachable, match="onnect"):
        dialects.connect(f"{url}?connect_timeout=10")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Spark Connect server; ready once it answers."""
    import pyspark

    home, directory, port = Path(pyspark.__file__).parent, tmp_path_factory.mktemp("connect"), free_port()
    environment = {"JAVA_HOME": str(java.find_java_home(directory)[0]), "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": 2,
        "spark.local.dir": directory,
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    command = [str(home / "bin" / "spark-submit"), "--master", "local[2]", "--driver-memory", "700m", *options]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    with (directory / "log").open("w") as log:
        process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=log, stderr=log, cwd=directory)
    try:
        until = time.monotonic() + PATIENCE
        while "Spark Connect server started" not in (directory / "log").read_text():
            assert process.poll() is None and time.monotonic() < until, (directory / "log").read_text()[-2000:]
            time.sleep(0.2)
        yield f"sc://127.0.0.1:{port}?connect_timeout={PATIENCE:g}"
    finally:
        process.terminate()
        process.wait()


@pytest.mark.slow
@needs_client
def test_a_real_server_is_audited(server: str, tmp_path: Path) -> None:
    source, target = tmp_path / "source.duckdb", tmp_path / "rows.parquet"
    with duckdb.connect(str(source)) as connection:
        connection.execute("CREATE TABLE rows (id BIGINT PRIMARY KEY, v VARCHAR, made TIMESTAMP)")
        connection.execute("INSERT INTO rows SELECT i, 'v' || i, TIMESTAMP '2024-01-01' + INTERVAL 1 HOUR * i FROM range(3000) r(i)")
        connection.execute(f"COPY (SELECT * FROM rows WHERE id <> 77) TO '{target}'")
    connections = {"source": ConnectionSettings(url=f"duckdb:///{source}"), "target": ConnectionSettings(url=server)}
    ends = {"source": {"connection": "source", "table": "rows"}, "target": {"connection": "target", "table": str(target)}}
    report = audit_run.run("connect", Audit.model_validate({**ends, "key": ["id"]}), connections)
    assert report.verdict is Verdict.MISMATCH, report.reasons
    assert report.differences is not None and [(one.kind, one.key) for one in report.differences.named] == [("missing", {"id": "77"})]
    assert report.servers["target"].startswith("Spark 4.") and all(report.cost[side].statements for side in SIDES)


@pytest.mark.slow
@needs_client
def test_waits_on_a_real_server_end(server: str, set_durations: SetDurations) -> None:
    """It ends a statement that ran too long, or was cancelled; behind a proxy it falls silent in a statement."""
    with closing(dialects.connect(server, PATIENCE)) as session:
        assert session.query("SELECT 1 + 1") == [(2,)]
        threading.Timer(1.0, session.cancel).start()
        with pytest.raises(StatementCancelled):
            session.query(ENDLESS)
    with closing(dialects.connect(server, 2.0)) as session, pytest.raises(StatementTimeout):
        session.query(ENDLESS)
    set_durations(silence_grace=0.5)
    with proxied(server) as proxy, closing(dialects.connect(proxy.url, 2.0)) as session:
        proxy.silencing_text = SILENCING.encode()
        with pytest.raises(ServerSilent, match="no answer to a statement that ran longer than 2 s"):
            session.query(f"SELECT 1 WHERE {SILENCING}")


@pytest.mark.slow
@needs_client
def test_process_ends_after_its_report(server: str, tmp_path: Path) -> None:
    """No channel is left open that would keep the interpreter from ending."""
    source, target = tmp_path / "source.duckdb", tmp_path / "rows.parquet"
    with duckdb.connect(str(source)) as connection:
        connection.execute("CREATE TABLE rows AS SELECT i AS id, 'v' || i AS v FROM range(100) r(i)")
        connection.execute(f"COPY rows TO '{target}'")
    config = tmp_path / "auditor.yaml"
    config.write_text(
        f"connections:\n  source: {{url: 'duckdb:///{source}'}}\n  target: {{url: '{server}'}}\n"
        f"audits:\n  rows:\n    source: {{connection: source, table: rows}}\n    target: {{connection: target, table: '{target}'}}\n"
        "    key: [id]\n"
    )
    command = [sys.executable, "-m", "auditor", "run", "rows", "--no-store", "--config", str(config)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "MATCH" in ended.stdout


@pytest.mark.slow
@needs_client
def test_selftest_passes_on_a_real_server(server: str) -> None:
    found = selftest(Settings(connections={"lake": ConnectionSettings(url=server)}, audits={}), "lake")
    assert not found.failed, found.failed[:5]
    assert found.tables.startswith("temporary tables")


CONNECTION_STRINGS = {
    "sc://h": "sc://h:15002/",
    "sc://h:443/shop?token=a%2Fb%3B&use_ssl=true&connect_timeout=5": "sc://h:443/;token=a%2Fb%3B;use_ssl=true",
    "sc://h:443/;token=secret;use_ssl=true;x-databricks-cluster-id=12": "sc://h:443/;token=secret;use_ssl=true;x-databricks-cluster-id=12",
    "sc://h/?cluster_id=0123-abc&user_id=me": "sc://h:15002/;x-databricks-cluster-id=0123-abc;user_id=me",
}


@pytest.mark.parametrize("url", CONNECTION_STRINGS)
def test_options_reach_the_client(url: str) -> None:
    parsed = dialects.parse_url(url)
    assert connection_string(parsed, 15002) == CONNECTION_STRINGS[url]
    assert "secret" not in f"{parsed}{parsed!r}" and "a/b" not in f"{parsed}{parsed!r}"
    assert parsed.database in ("", "shop")


def test_unknown_option_is_refused() -> None:
    with pytest.raises(BadUrl, match="unknown option use_tls; did you mean use_ssl"):
        connection_string(dialects.parse_url("sc://h/?use_tls=true"), 15002)


@needs_client
def test_options_are_understood_by_the_client() -> None:
    from pyspark.sql.connect.client import DefaultChannelBuilder

    builder = DefaultChannelBuilder(connection_string(dialects.parse_url("sc://h:443/?token=a%2Fb%3B&use_ssl=true&cluster_id=7"), 15002))
    assert builder.secure and builder.token == "a/b;"
    assert ("x-databricks-cluster-id", "7") in builder.metadata()


class ServerlessSpark:
    """A Spark session of a service that lets nobody change most settings."""

    def __init__(self, zone: str = "UTC", micros: str = "000007") -> None:
        self.client = self
        self.conf = self
        self.getAll = {"spark.sql.session.timeZone": zone}
        self.zone = zone
        self.micros = micros
        self.set: list[str] = []

    def sql(self, statement: str) -> Any:
        if statement.startswith("SET"):
            if "TIME ZONE" not in statement and "ansi" not in statement:
                raise type("Refused", (Exception,), {"__module__": "pyspark.errors"})(
                    "[CONFIG_NOT_AVAILABLE] Configuration is not available."
                )
            self.set.append(statement)
        return self

    def collect(self) -> list[tuple[Any, ...]]:
        return [(self.zone, "\\ '\"${x}", True, self.micros)]

    def release_session(self) -> None: ...

    def close(self) -> None: ...


def test_settings_that_a_service_keeps_are_checked_instead() -> None:
    spark = ServerlessSpark()
    ConnectSession(dialects.get("spark"), spark, "sc://h/", 5.0).pin(10.0, 1.0)
    assert len(spark.set) == 2
    with pytest.raises(StatementRefused, match="time zone Europe/Berlin"):
        ConnectSession(dialects.get("spark"), ServerlessSpark("Europe/Berlin"), "sc://h/", 5.0).pin(10.0, 1.0)
    with pytest.raises(StatementRefused, match="microseconds lost"):
        ConnectSession(dialects.get("spark"), ServerlessSpark(micros="000000"), "sc://h/", 5.0).pin(10.0, 1.0)


@pytest.mark.parametrize("engine", engine_params("spark"), indirect=True)
def test_microseconds_tell_the_policy_of_formatting(engine: LiveEngine) -> None:
    with closing(dialects.connect(engine.url)) as session:
        assert session.query(f"SELECT {MICROSECONDS}") == [("000007",)]
        session.execute("SET spark.sql.legacy.timeParserPolicy = LEGACY")
        try:
            assert session.query(f"SELECT {MICROSECONDS}") == [("000000",)]
        finally:
            session.execute("SET spark.sql.legacy.timeParserPolicy = CORRECTED")
