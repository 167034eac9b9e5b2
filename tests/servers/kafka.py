"""Kafka, and a schema registry beside it: from $AUDITOR_TEST_KAFKA, or from the jars that scripts/kafka.sh unpacks.

$AUDITOR_TEST_KAFKA is ``host:port``, and $AUDITOR_TEST_REGISTRY the URL of a registry of Confluent's protocol.
One node, without replicas, in KRaft mode; the registry is Apicurio in memory.
"""

from __future__ import annotations

import os
import shutil
import socket
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen
from weakref import WeakKeyDictionary

import pytest

from tests.servers.process import Daemon, Server, Unavailable, find_program, free_port, own_directory, run

VARIABLE = "AUDITOR_TEST_KAFKA"
REGISTRY_VARIABLE = "AUDITOR_TEST_REGISTRY"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "auditor-tests"
LIBRARIES = CACHE / "kafka" / "libs"
REGISTRY = CACHE / "kafka" / "registry"

JAVA = ("-Xms256m", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

SETTINGS = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={home}/data
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
num.partitions=1
log.cleaner.backoff.ms=500
{more}
"""


@dataclass
class Broker:
    """A broker that can be killed and started again on its data and its port."""

    home: Path
    port: int
    more: str = ""
    daemon: Daemon = field(init=False)

    def __post_init__(self) -> None:
        controller = free_port()
        places = {"port": self.port, "controller": controller}
        text = SETTINGS.format(home=self.home, more=self.more.format(**places), **places)
        (self.home / "server.properties").write_text(text)
        cluster = uuid.uuid4().hex[:22]
        run(self._java("kafka.tools.StorageTool", "format", "-t", cluster, "-c", f"{self.home}/server.properties"), self.home)
        self.start()

    @property
    def server(self) -> str:
        """Where it is: host and port."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        runs = own_directory(self.home, "run")  # which is removed with the process, and not the data
        self.daemon = Daemon(self._java("kafka.Kafka", f"{self.home}/server.properties"), runs)
        self.daemon.wait(lambda: answer(self.server), OSError)

    def kill(self) -> None:
        """End it as a crash does."""
        self.daemon.stop()

    def stop(self) -> None:
        """End it, and remove its data."""
        self.kill()
        shutil.rmtree(self.home, ignore_errors=True)

    def _java(self, main: str, *arguments: str) -> list[str | Path]:
        return [_java(), *JAVA, f"-Dkafka.logs.dir={self.home}", "-cp", f"{LIBRARIES}/*", main, *arguments]


def answer(server: str) -> str:
    """Return a word if a broker answers there: it lists itself. Raises OSError."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    host, _, port = server.rpartition(":")
    socket.create_connection((host, int(port)), 1).close()  # the client would wait longer
    try:
        found = AdminClient({"bootstrap.servers": server, "log_level": 0}).list_topics(timeout=5)
    except KafkaException as error:
        raise OSError(str(error)) from error
    return f"cluster {found.cluster_id}"


def start(directory: Path) -> Server:
    """Start a broker, or raise Unavailable; its URL is ``kafka://host:port``."""
    if given := os.environ.get(VARIABLE):
        try:
            return Server(url=f"kafka://{given}", version=answer(given), how=f"given by ${VARIABLE}", given=True)
        except OSError as error:
            raise Unavailable(f"${VARIABLE} is set, but no broker answers there ({error})") from error
    broker = start_private(directory)
    return Server(url=f"kafka://{broker.server}", version=_version(), how="local jars", stopper=broker.stop)


def start_private(directory: Path, more: str = "") -> Broker:
    """Start a broker of the caller's own, or raise Unavailable; ``more`` are lines of settings, with ``{port}`` and ``{controller}``."""
    if not list(LIBRARIES.glob("kafka_*.jar")):
        raise Unavailable(f"there is no Kafka here: run scripts/kafka.sh, which needs Maven, or set ${VARIABLE}")
    _java()
    return Broker(own_directory(directory, "kafka"), free_port(), more)


def start_registry(directory: Path) -> Server:
    """Start a schema registry without schemas, or raise Unavailable; its URL is that of Confluent's protocol."""
    if given := os.environ.get(REGISTRY_VARIABLE):
        return Server(url=given, version="", how=f"given by ${REGISTRY_VARIABLE}", given=True)
    jars = list(REGISTRY.glob("*-runner.jar"))
    if not jars:
        raise Unavailable(f"there is no schema registry here: run scripts/kafka.sh, which needs Maven, or set ${REGISTRY_VARIABLE}")
    home, port = own_directory(directory, "registry"), free_port()
    options = [f"-Dquarkus.http.port={port}", "-Dquarkus.http.host=127.0.0.1"]
    daemon = Daemon([_java(), *JAVA, *options, "-jar", jars[0]], home)
    url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
    daemon.wait(lambda: urlopen(f"{url}/subjects").read().decode(), URLError)
    return Server(url=url, version="Apicurio", how="local jar", stopper=daemon.stop)


def know_leaders(patch: pytest.MonkeyPatch) -> None:
    """Let a client hear who leads a topic before it asks for offsets of it first, and a producer whom it talks to before it begins.

    librdkafka asks by itself, but where the answer comes before it listens for one, it waits three seconds, or half of one, and asks again.
    """
    try:
        import confluent_kafka
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient
    except ModuleNotFoundError:
        return
    ask, known = AdminClient.list_offsets, WeakKeyDictionary[AdminClient, set[str]]()

    def list_offsets(self: AdminClient, partitions: Any, **options: Any) -> Any:
        heard = known.setdefault(self, set())
        for topic in {one.topic for one in partitions} - heard:
            with suppress(KafkaException):  # which the client then says itself
                self.list_topics(topic, timeout=1)
                heard.add(topic)
        return ask(self, partitions, **options)

    class Acquainted(confluent_kafka.Producer):
        """A producer that has a connection when it begins."""

        def init_transactions(self, *arguments: Any) -> None:
            with suppress(KafkaException):
                self.list_topics("__transaction_state", timeout=1)
            super().init_transactions(*arguments)

    patch.setattr(AdminClient, "list_offsets", list_offsets)
    patch.setattr(confluent_kafka, "Producer", Acquainted)


def _version() -> str:
    return next(LIBRARIES.glob("kafka_*.jar")).stem.rpartition("-")[2]


def _java() -> Path:
    program = find_program("java")
    if program is None:
        raise Unavailable("there is no Java here, which Kafka needs; install Java 17 or later")
    return program
