"""Run the services of docker-compose.yml without Docker: each by its own command, in the order of their conditions.

What the file says is taken as it stands: images, entrypoints, commands, variables, mounts, conditions and checks of health. What only
Docker has is stood in for:

- a service's host name is a loopback address of its own, on which it has the ports that it has in its container;
- a named volume is a folder that stays; anything else of a service goes when it is stopped, as a container's files do;
- a path of a container, in commands, variables and files of settings, is the folder that is mounted there;
- the programs of an image are those of this machine, and what its entrypoint does before the command is in `images`.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import psycopg2
import pyspark
import yaml

from dialects.spark import java
from tests.servers import mysql, postgres
from tests.servers.process import Daemon, Unavailable, own_directory, run, unprivileged_account

PATIENCE = 240.0
"""Seconds until a service that starts must be healthy, or has done its work."""

COMPLETED = "service_completed_successfully"


@dataclass(frozen=True, slots=True)
class Command:
    """What is run for a service."""

    words: Sequence[str | Path]
    variables: Mapping[str, str] = field(default_factory=dict)
    account: str | None = None
    prepare: Callable[[], str] | None = None
    """What an image's entrypoint does with a new database, once that answers."""


@dataclass(frozen=True, slots=True)
class Service:
    """A service of the file."""

    said: Mapping[str, Any]
    address: str
    hosts: Mapping[str, str]
    """The addresses of all services."""
    mounts: Mapping[str, Path]
    """What is mounted at which path of the container."""
    home: Path
    """What its container has besides."""

    def here(self, text: str) -> str:
        """Return a word of a command, the value of a variable, or a file of settings, as it is on this machine."""
        text = _interpolate(text)
        for host, address in self.hosts.items():
            text = re.sub(rf"(?<=[@/]){re.escape(host)}(?=:\d)", address, text)
        for path, place in sorted(self.mounts.items(), reverse=True):  # the longest first
            text = re.sub(rf"(?<![\w.]){re.escape(path)}(?![\w-])", str(place), text)
        return re.sub(r"\b(0\.0\.0\.0|127\.0\.0\.1)\b", self.address, text)

    @property
    def command(self) -> list[str]:
        """Its command, without an entrypoint."""
        return [self.here(word) for word in self.said.get("command", ())]

    @property
    def variables(self) -> dict[str, str]:
        """Its environment."""
        return {name: self.here(str(value)) for name, value in self.said.get("environment", {}).items()}


Images = Mapping[str, Callable[[Service], Command]]
"""By the name of an image without its tag: what is run here."""


def _interpolate(text: str) -> str:
    """Replace ``${NAME:-default}``, as Compose does."""
    return re.sub(r"\$\{(\w+):-([^}]*)\}", lambda found: os.environ.get(found[1]) or found[2], text)


def _mysql(service: Service) -> Command:
    """https://hub.docker.com/_/mysql: a server of an empty folder is initialised, with a database and root from any host."""
    program, _ = mysql.find_server()
    if program is None:
        raise Unavailable("there is no MySQL here: run scripts/engines.sh")
    data = service.mounts["/var/lib/mysql"]
    start: list[str | Path] = [program, "--no-defaults", *mysql.as_root()]
    if not any(data.iterdir()):
        run([*start, f"--datadir={data}", "--initialize-insecure"], service.home)
        names = service.variables
        (service.home / "first.sql").write_text(
            f"CREATE DATABASE {names['MYSQL_DATABASE']};\nCREATE USER root@'{names['MYSQL_ROOT_HOST']}';\n"
            f"GRANT ALL ON *.* TO root@'{names['MYSQL_ROOT_HOST']}' WITH GRANT OPTION;\n"
        )
        start.append(f"--init-file={service.home}/first.sql")
    small = ["--mysqlx=OFF", "--secure-file-priv=NULL", "--performance-schema=OFF", "--innodb-buffer-pool-size=128M"]
    return Command([*start, f"--datadir={data}", f"--bind-address={service.address}", "--socket=server.sock", *small, *service.command])


def _postgres(service: Service) -> Command:
    """https://hub.docker.com/_/postgres: an empty folder is initialised, and what is mounted for that is run in the database."""
    binaries, account = postgres.find_binaries(), unprivileged_account()
    if binaries is None:
        raise Unavailable("there is no PostgreSQL here: run scripts/engines.sh")
    data, said = service.mounts["/var/lib/postgresql/data"], service.variables
    is_new = not any(data.iterdir())
    if is_new:
        if account:
            shutil.chown(data, account)
        password = service.home / "password"
        password.write_text(said["POSTGRES_PASSWORD"])
        password.chmod(0o644)
        how = [f"--auth-host={said.get('POSTGRES_HOST_AUTH_METHOD', 'scram-sha-256')}", *said.get("POSTGRES_INITDB_ARGS", "").split()]
        make: list[str | Path] = [binaries / "initdb", "-D", data, "-U", said["POSTGRES_USER"], f"--pwfile={password}"]
        run([*make, "-E", "UTF8", "--no-sync", "--auth-local=trust", *how], service.home, account)
    url = f"postgresql://{said['POSTGRES_USER']}:{said['POSTGRES_PASSWORD']}@{service.address}:5432/"

    def prepare() -> str:
        with closing(postgres.connect(url + "postgres")) as connection:
            connection.cursor().execute(f"CREATE DATABASE {said['POSTGRES_DB']}")
        with closing(postgres.connect(url + said["POSTGRES_DB"])) as connection:
            for path in sorted(path for path in service.mounts if path.startswith("/docker-entrypoint-initdb.d/")):
                connection.cursor().execute(service.mounts[path].read_text())
        return "prepared"

    program, *options = service.command or ["postgres"]
    here = {**postgres.SMALL, "listen_addresses": service.address, "unix_socket_directories": ""}
    words: list[str | Path] = [binaries / program, "-D", data, *postgres.as_options(here), *options]
    return Command(words, account=account, prepare=prepare if is_new else None)


def _spark(service: Service) -> Command:
    """https://hub.docker.com/r/apache/spark: the scripts of the Spark that is installed here."""
    home, folder = Path(pyspark.__file__).parent, service.home
    program, *options = (word.replace("/opt/spark", str(home)) for word in service.command)
    here = {
        "spark.connect.grpc.binding.address": service.address,
        "spark.driver.bindAddress": service.address,
        "spark.driver.host": service.address,
        "spark.driver.memory": "700m",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    variables = {
        "JAVA_HOME": str(java.find_java_home(folder)[0]),
        "SPARK_HOME": str(home),
        "SPARK_LOG_DIR": str(folder),
        "SPARK_PID_DIR": str(folder),
        "SPARK_LOCAL_DIRS": str(folder),
    }
    more = [part for name, value in here.items() for part in ("--conf", f"{name}={value}")]
    return Command(["bash", program, *options, *more], {**variables, **service.variables})


def images(built: Mapping[str, str], variables: Mapping[str, str]) -> Images:
    """Return what is run for each image; ``built`` are the instructions of that which the Dockerfile builds, with its variables."""

    def auditor(service: Service) -> Command:
        words = [*service.said.get("entrypoint", yaml.safe_load(built["ENTRYPOINT"]))]
        words += service.said.get("command", yaml.safe_load(built["CMD"]))
        own = {name: service.here(value) for name, value in variables.items() if name != "PATH"}
        quick = {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1", "SPARK_LOCAL_IP": service.address}
        return Command(
            [*_program(words[0]), *(service.hosts.get(word) or service.here(word) for word in words[1:])],
            {**quick, **own, **service.variables},
        )

    return {"mysql": _mysql, "postgres": _postgres, "apache/spark": _spark, "auditor": auditor}


def _program(name: str) -> list[str]:
    """Return a program of an image as it is here."""
    if name == "mysqladmin":  # which is not among the programs that scripts/engines.sh unpacks
        return [sys.executable, "-c", "import pymysql, sys; pymysql.connect(host=sys.argv[2].partition('=')[2]).ping()"]
    if name == "pg_isready":
        return [str((postgres.find_binaries() or Path()) / name)]
    return {"python": [sys.executable], "auditor": [sys.executable, "-m", "auditor"]}.get(name, [name])


class Composition:
    """The services of a file, below a folder in which volumes stay while services come and go."""

    def __init__(self, root: Path, said: Mapping[str, Any], folder: Path, built: Mapping[str, str], variables: Mapping[str, str]) -> None:
        self._root, self._folder = root, folder
        self._images, self._built = images(built, variables), built
        self._services: Mapping[str, Any] = {name: one for name, one in said["services"].items() if "profiles" not in one}
        self.volumes = {name: folder / "volumes" / name for name in said["volumes"]}
        for volume in self.volumes.values():
            volume.mkdir(parents=True)
        self.addresses = _addresses(list(self._services))
        self._running: dict[str, Daemon] = {}
        self.logs: dict[str, str] = {}
        """What each service printed that was stopped, or did its work."""

    def up(self, *names: str) -> None:
        """Start these services, or all, each once those that it depends on are as it says. Raises Unavailable if one fails."""
        for name in self._order(names or self._services):
            self._start(name)

    def down(self) -> None:
        """Stop every service, the last one first, and remove what is in no volume."""
        while self._running:
            name, daemon = self._running.popitem()
            self.logs[name] = daemon.output()
            daemon.stop()
            with suppress(ProcessLookupError):  # what a script of an image started
                os.killpg(daemon.pid, signal.SIGKILL)

    def outputs(self) -> str:
        """Return the last lines of each service, for a test that fails."""
        printed = {**self.logs, **{name: daemon.output() for name, daemon in self._running.items()}}
        return "\n".join(f"--- {name}\n{text[-3000:]}" for name, text in printed.items())

    def service(self, name: str) -> Service:
        """Return a service, with a folder for what its container has."""
        said, home = self._services[name], own_directory(self._folder, name)
        home.chmod(0o711)
        mounts: dict[str, Path] = {}
        for volume in said.get("volumes", ()):
            source, path = volume.split(":")[:2]
            mounts[path] = home / path.lstrip("/") if source.startswith("./") else self.volumes[source]
        service = Service(said, self.addresses[name], self.addresses, mounts, home)
        for volume in said.get("volumes", ()):
            source, path = volume.split(":")[:2]
            if source.startswith("./"):
                self._mount(service, self._root / source, mounts[path])
        return service

    def _mount(self, service: Service, source: Path, place: Path) -> None:
        """Put a file, or a folder, where it stands beside what else is mounted: programs find each other by that."""
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            place.symlink_to(source)
        elif source.suffix == ".yaml":  # it names hosts, and paths of containers
            place.write_text(service.here(source.read_text()))
        else:
            shutil.copy(source, place)

    def command(self, service: Service) -> Command:
        """Return what is run for a service."""
        return self._images[re.split("[:@]", service.said["image"])[0]](service)

    def _order(self, names: Iterable[str]) -> list[str]:
        ordered: list[str] = []

        def add(name: str) -> None:
            for other in self._services[name].get("depends_on", {}):
                add(other)
            if name not in ordered:
                ordered.append(name)

        for name in names:
            add(name)
        return ordered

    def _start(self, name: str) -> None:
        service = self.service(name)
        command = self.command(service)
        environment = {**os.environ, **command.variables}
        if any(one.get("depends_on", {}).get(name, {}).get("condition") == COMPLETED for one in self._services.values()):
            run(command.words, service.home, environment=environment)
            self.logs[name] = (service.home / "prepare.log").read_text()
            shutil.rmtree(service.home)
            return
        if command.account:
            shutil.chown(service.home, command.account)
        account = command.account
        daemon = Daemon(command.words, service.home, account=account, stop_signal=signal.SIGTERM, environment=environment, patience=60)
        if command.prepare:
            daemon.wait(command.prepare, psycopg2.OperationalError, PATIENCE)
        if check := self._health(service):
            daemon.wait(lambda: _check(check, environment), AssertionError, PATIENCE)
        self._running[name] = daemon

    def _health(self, service: Service) -> list[str]:
        """Return the command that says whether a service is healthy; empty if there is none."""
        said = service.said.get("healthcheck", {})
        if said.get("disable"):
            return []
        words: list[str] = said.get("test") or ["CMD", *yaml.safe_load(self._built["HEALTHCHECK"].partition("CMD ")[2])]
        assert words[0] == "CMD"
        return [*_program(words[1]), *map(service.here, words[2:])]


def _addresses(names: Sequence[str]) -> dict[str, str]:
    """Return a loopback address for each of these hosts that no other run of the tests is likely to have."""
    chosen = Random()
    network = f"127.{chosen.randrange(2, 255)}.{chosen.randrange(1, 255)}"
    return {name: f"{network}.{number}" for number, name in enumerate(names, 1)}


def _check(command: Sequence[str], environment: Mapping[str, str]) -> str:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    return "healthy"
