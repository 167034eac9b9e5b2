"""TLS to each server: with the right authority, another one, another host, an expired certificate, none at all, and a proxy between."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

import dialects
from auditor.config import ConnectionSettings, validate_audit
from auditor.errors import AccessDenied, AuditorError, NotVerified, StoreError
from auditor.run import audit_run
from auditor.store import open_store
from tests.certificates import Authority
from tests.servers import mariadb, mysql, postgres
from tests.servers.process import Server, Unavailable, open_directory, own_directory, unprivileged_account
from tests.servers.proxy import Proxy, proxied

pytestmark = pytest.mark.engines_in_turn

OURS, OTHERS = Authority("ours"), Authority("others")
LIFE = 4
"""Seconds after which a certificate expires that a server has to load before, as MySQL loads none that has expired."""

PASSWORD = "geheim-€-пароль"

SERVERS = {
    "right": OURS.sign("localhost"),
    "wrong host": OURS.sign("other.example"),
    "expired": OURS.sign("localhost", days=-1),
    "wrong authority": OTHERS.sign("localhost"),
}


@dataclass
class Encrypted:
    """A server whose certificate a test chooses."""

    name: str
    server: Server
    folder: Path
    reload: Callable[[], None]

    def show(self, certificate: str) -> None:
        """Let the server show one of SERVERS from now on."""
        shown = OURS.sign("localhost", days=LIFE / 86400) if certificate == "expired" else SERVERS[certificate]
        shown.write(self.folder / "server.pem", self.folder / "server.key")
        (OTHERS if certificate == "wrong authority" else OURS).write(self.folder / "of-server.pem")
        self.reload()
        if certificate == "expired":
            time.sleep(LIFE)

    def url(self, options: str, *, user: str = "", base: str = "") -> str:
        parts = urlsplit(base or self.server.url)
        login = f"{user}:{quote(PASSWORD)}" if user else parts.netloc.rpartition("@")[0]
        return parts._replace(netloc=f"{login}@localhost:{parts.port}", query=options).geturl()

    @property
    def verified(self) -> str:
        """The options that verify the server by our authority."""
        authority = self.folder / "ca.pem"
        return f"sslmode=verify-full&sslrootcert={authority}" if self.name == "postgres" else f"ssl_ca={authority}"

    @property
    def only_encrypted(self) -> str:
        return "sslmode=require" if self.name == "postgres" else "ssl_mode=REQUIRED"

    @property
    def only_by_authority(self) -> str:
        return self.verified.replace("verify-full", "verify-ca") if self.name == "postgres" else f"{self.verified}&ssl_mode=VERIFY_CA"

    @property
    def in_clear(self) -> str:
        return "sslmode=disable" if self.name == "postgres" else "ssl_mode=DISABLED"


NAMES = [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("mysql", "mariadb", "postgres")]


@pytest.fixture(scope="module", params=NAMES)
def encrypted(request: pytest.FixtureRequest) -> Iterator[Encrypted]:
    home = open_directory()
    try:
        with _started(str(request.param), home) as started:
            yield started
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def _started(name: str, home: Path) -> Iterator[Encrypted]:
    account = unprivileged_account() if name == "postgres" else None
    folder = own_directory(home, "certificates", account)
    folder.chmod(0o755)
    SERVERS["right"].write(folder / "server.pem", folder / "server.key")
    OURS.write(OURS.write(folder / "ca.pem").with_name("of-server.pem"))
    OURS.sign("client").write(folder / "client.pem", folder / "client.key")
    if account:
        shutil.chown(folder / "server.key", account)
    try:
        if name == "postgres":
            files = {
                "ssl": "on",
                "ssl_ca_file": f"{folder}/ca.pem",
                "ssl_cert_file": f"{folder}/server.pem",
                "ssl_key_file": f"{folder}/server.key",
            }
            locales = (("--locale=C",),)
            server = postgres.cluster(home, postgres.Cluster(name="tls", authentication="scram-sha-256", settings=files, locales=locales))
        else:
            options = [f"--ssl-ca={folder}/of-server.pem", f"--ssl-cert={folder}/server.pem", f"--ssl-key={folder}/server.key"]
            server = (mysql if name == "mysql" else mariadb).start_private(home, options)
    except Unavailable as error:
        pytest.fail(str(error)) if os.environ.get("CI", "").lower() == "true" else pytest.skip(str(error))

    def run(statement: str) -> object:
        if name == "postgres":
            with closing(postgres.connect(server.url)) as connection:
                cursor = connection.cursor()
                cursor.execute(statement)
                return cursor.fetchone() if cursor.description else None
        with mysql.connect(server.url) as other, other.cursor() as found:
            return found.execute(statement)

    def reload() -> None:
        if name != "postgres":
            run("ALTER INSTANCE RELOAD TLS" if name == "mysql" else "FLUSH SSL")
            return
        loaded = "SELECT pg_conf_load_time()"  # of the postmaster, when this session began
        before = run(loaded)
        run("SELECT pg_reload_conf()")
        while run(loaded) == before:
            time.sleep(0.05)

    run(f"CREATE USER reader PASSWORD '{PASSWORD}'" if name == "postgres" else f"CREATE USER reader@'%' IDENTIFIED BY '{PASSWORD}'")
    try:
        yield Encrypted(name, server, folder, reload)
    finally:
        server.stop()


def reached(url: str) -> str:
    with closing(dialects.connect(url)) as session:
        return session.reached


@pytest.mark.slow_on("mysql")
@pytest.mark.few
def test_server_is_verified_and_the_report_says_so(encrypted: Encrypted) -> None:
    encrypted.show("right")
    for options, how in (
        (encrypted.verified, "verified"), (encrypted.only_by_authority, "host not verified"), (encrypted.only_encrypted, "not verified"),
        ("", "not verified"),
    ):  # fmt: skip
        assert reached(encrypted.url(options)) == f"by TLS 1.3, {how}", options
    assert reached(encrypted.url(encrypted.in_clear)) == "in clear"
    urls = {"a": encrypted.url(encrypted.verified), "b": encrypted.url(encrypted.in_clear)}
    connections = {name: ConnectionSettings(url=url) for name, url in urls.items()}
    audit = validate_audit({"source": {"connection": "a", "table": "t"}, "target": {"connection": "b", "table": "t"}, "key": ["id"]})
    servers = audit_run.run("t", audit, connections).servers
    assert servers["source"].endswith(", reached by TLS 1.3, verified") and servers["target"].endswith(", reached in clear")


@pytest.mark.quick_for("wrong authority", "wrong host")
@pytest.mark.parametrize("certificate", ["wrong host", "expired", "wrong authority"])
def test_server_with_another_certificate_is_refused_before_the_password_is_sent(encrypted: Encrypted, certificate: str) -> None:
    encrypted.show(certificate)
    try:
        with pytest.raises(NotVerified) as caught:
            dialects.connect(encrypted.url(encrypted.verified))
        assert not caught.value.retryable
        assert reached(encrypted.url(encrypted.only_encrypted)) == "by TLS 1.3, not verified"
        if certificate == "wrong host":
            assert reached(encrypted.url(encrypted.only_by_authority)) == "by TLS 1.3, host not verified"
        else:
            with pytest.raises(NotVerified):
                dialects.connect(encrypted.url(encrypted.only_by_authority))
        with pytest.raises(StoreError, match="the server's identity could not be verified"):
            open_store(encrypted.url(encrypted.verified))
    finally:
        encrypted.show("right")


def test_store_is_reached_by_tls_and_a_password_beyond_latin_1(encrypted: Encrypted) -> None:
    encrypted.show("right")
    assert "verified" in reached(
        encrypted.url(encrypted.verified, user="reader").replace("/audit?", "/?" if encrypted.name != "postgres" else "/audit?")
    )
    store = open_store(encrypted.url(encrypted.verified))
    with store.engine.connect() as connection:
        sock = getattr(connection.connection.driver_connection, "_sock", None)
        assert isinstance(sock, ssl.SSLSocket) or connection.connection.driver_connection.info.ssl_in_use  # type: ignore[union-attr]
    store.close()


def test_client_shows_its_certificate(encrypted: Encrypted) -> None:
    encrypted.show("right")
    prefix = "ssl" if encrypted.name == "postgres" else "ssl_"
    files = f"{prefix}cert={encrypted.folder}/client.pem&{prefix}key={encrypted.folder}/client.key"
    asked = {
        "postgres": "SELECT client_dn FROM pg_stat_ssl WHERE pid = pg_backend_pid()",
        "mysql": "SELECT 'client' FROM DUAL",
        "mariadb": "SELECT 'client' FROM DUAL",
    }[encrypted.name]
    if encrypted.name != "postgres":
        with mysql.connect(encrypted.server.url) as other, other.cursor() as cursor:
            cursor.execute("CREATE USER IF NOT EXISTS shown@'%' REQUIRE X509")
            cursor.execute(f"ALTER USER shown@'%' IDENTIFIED BY '{PASSWORD}'")
        url = encrypted.url(encrypted.verified, user="shown").replace("/audit?", "/?")
        with pytest.raises(AccessDenied):
            dialects.connect(url)
        url += f"&{files}"
    else:
        url = encrypted.url(f"{encrypted.verified}&{files}")
    with closing(dialects.connect(url)) as session:
        assert "client" in str(session.query(asked)[0][0])


class Downgrading(Proxy):
    """A proxy that tells clients that the server has no TLS."""

    def _hear_server(self, line: object, data: bytes) -> bytes:
        if data[4:5] == b"\x0a":  # MySQL's greeting: the flags are behind version, thread and salt
            at = data.index(b"\0", 5) + 1 + 4 + 8 + 1
            return data[: at + 1] + bytes([data[at + 1] & ~0x08]) + data[at + 2 :]
        return b"N" if data == b"S" else data


@pytest.mark.parametrize("options", ["verified", "only_by_authority", "only_encrypted"])
def test_proxy_that_denies_tls_gets_no_password(encrypted: Encrypted, options: str, monkeypatch: pytest.MonkeyPatch) -> None:
    encrypted.show("right")
    monkeypatch.setattr("tests.servers.proxy.Proxy", Downgrading)
    with proxied(encrypted.server.url) as proxy:
        url = encrypted.url(getattr(encrypted, options), user="reader", base=proxy.url)
        with pytest.raises(NotVerified):
            dialects.connect(url)
        with pytest.raises(StoreError, match="the server's identity could not be verified"):
            open_store(url.replace("/?", "/audit?"))
        assert not any(b"reader" in data for _, data in proxy.log)


@contextmanager
def answering(certificate: str, folder: Path, *, greets: bool) -> Iterator[tuple[int, list[bytes]]]:
    """Listen with one of SERVERS, and yield the port and what clients said inside TLS; ``greets``: after PostgreSQL's request for it."""
    SERVERS[certificate].write(folder / "server.pem", folder / "server.key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    context.set_alpn_protocols(["h2"])
    heard: list[bytes] = []

    def accept(listener: socket.socket) -> None:
        while True:
            try:
                client = listener.accept()[0]
            except OSError:
                return
            with suppress(OSError), client:
                client.settimeout(5)
                if greets:
                    client.recv(8)
                    client.sendall(b"S")
                with context.wrap_socket(client, server_side=True) as inside:
                    heard.append(inside.recv(65536))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept, args=(listener,), daemon=True)
        thread.start()
        yield listener.getsockname()[1], heard
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.redshift
@pytest.mark.filterwarnings("ignore:ssl.:DeprecationWarning")
@pytest.mark.parametrize("certificate", SERVERS)
def test_redshift_driver_says_nothing_to_a_server_that_it_does_not_trust(
    certificate: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(OURS.write(tmp_path / "ca.pem")))
    with answering(certificate, tmp_path, greets=True) as (port, heard):
        with pytest.raises(AuditorError) as caught:
            dialects.connect(f"redshift://reader:pw@localhost:{port}/d?sslmode=verify-full&connect_timeout=5")
        assert isinstance(caught.value, NotVerified) == (certificate != "right"), caught.value
        assert (b"reader" in b"".join(heard)) == (certificate == "right")


@pytest.mark.spark
@pytest.mark.parametrize("certificate", ["wrong host", "expired", "wrong authority"])
def test_spark_connect_says_nothing_to_a_server_that_it_does_not_trust(
    certificate: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("grpc")
    monkeypatch.setenv("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", str(OURS.write(tmp_path / "ca.pem")))
    with answering(certificate, tmp_path, greets=False) as (port, heard):
        with pytest.raises(AuditorError) as caught:
            dialects.connect(f"sc://localhost:{port}?use_ssl=true&token=s3cret&connect_timeout=5")
        assert isinstance(caught.value, NotVerified), caught.value
        assert not any(heard)
