"""An endurance run: ``python -m benchmarks.soak --hours 24`` lets a pipeline, audits and a service work while all around them changes.

A source is written to without a pause. In turn its log is rotated, its password and its certificate are changed, and each part is killed
and started again: service, pipeline, source and target. Clocks are compressed: parts are kept for minutes, ten runs are kept of an audit,
and audits run every minute. At the end nothing may differ, no verdict may have been a mismatch, memory and store may not have grown in the
second half, nothing may be staged for much longer than it is kept, and the list of audits has to answer within half a second.

It prints its figures as Markdown, and exits with 1 where one of them is not as it has to be.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql
from sqlalchemy import select

from auditor.model import Verdict
from auditor.store import Store, open_store, tokens
from auditor.store.schema import runs
from benchmarks import process
from tests.certificates import Authority
from tests.servers import mysql
from tests.servers.killable import Killable, killable
from tests.servers.process import free_port

TABLES = tuple(f"t{number:02}" for number in range(20))
AUDITED = TABLES[:5]
KEYS = 5_000
"""Different keys of a table, so that it does not grow."""

TRANSACTION, CHANGES = 20, 1_000
"""Rows that a transaction changes, and rows that are changed in a second."""

SAMPLING = 15.0
PAUSE = 150.0
"""Seconds between two samples, and between two disturbances."""

AWAY = 20.0
"""Seconds for which a password is changed and not yet known to the processes."""

PATIENCE = 300.0

UNKNOWN = 3
"""The exit code of a process that could not do its work."""

GROWTH = 0.10
"""Share by which memory and store may grow from the third quarter of the run to the last. How many bytes are staged depends on how large
batches are, and so on how busy the machine is."""

KEPT = 300.0
"""Seconds for which parts are kept."""

STAGED_AT_MOST = 3 * KEPT
"""Seconds that the oldest file may be staged in the last quarter, as a median: parts wait for a target that is away, and to be pruned."""

PAGE_AT_MOST = 0.5
"""Seconds that the list of audits may take in the last quarter, as a median."""

CONFIGURATION: Mapping[str, Any] = {
    "store": {"url": "sqlite:///auditor.db"},
    "keep": {"runs": 10, "days": 1, "parts": f"{KEPT:g}s"},
    "pipelines": {"soak": {"staging": {"path": "staging"}, "targets": {"wh": {"connection": "wh", "schema": "soak"}}}},
    "service": {"workers": 2, "requests_per_minute": 100_000},
}


@dataclass
class Sample:
    """What was seen at one moment; bytes, and seconds of a page."""

    at: float
    memory: dict[str, int]
    store: int
    staging: int
    staged_for: float
    """Seconds since the oldest staged file was written."""
    page: float | None
    """None while the service does not answer."""


@dataclass
class Soak:
    """One endurance run in a folder."""

    folder: Path
    source: Killable
    target: Killable
    authority: Authority
    seconds: float
    changes: int = 0
    disturbances: Counter[str] = field(default_factory=Counter)
    samples: list[Sample] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    verdicts: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Audit and verdict of each run that ended; the store forgets most of them."""
    _password: str = field(default_factory=lambda: secrets.token_hex(8))
    _parts: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _port: int = field(default_factory=free_port)
    _token: str = ""
    _stopped: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Let everything work and be disturbed for its time, then wait until the target has all, and audit all tables."""
        self._prepare()
        for part in ("pipeline", "service"):
            self._start(part)
        time.sleep(AWAY)
        if ended := [part for part, running in self._parts.items() if running.poll() is not None]:
            logs = "".join((self.folder / f"{part}.log").read_text(errors="replace")[-2000:] for part in ended)
            raise RuntimeError(f"the {' and the '.join(ended)} did not begin:\n{logs}")
        watchers = [threading.Thread(target=work, daemon=True) for work in (self._write, self._watch)]
        for watcher in watchers:
            watcher.start()
        try:
            self._disturb()
        finally:
            self._stopped.set()
            for watcher in watchers:
                watcher.join()
        try:
            self._conclude()
        finally:
            for part in list(self._parts):
                self._end(part, signal.SIGTERM)

    # the source, and what works on it

    def _prepare(self) -> None:
        with self._root() as cursor:
            cursor.execute(f"CREATE USER soak IDENTIFIED BY '{self._password}' REQUIRE SSL")
            cursor.execute("GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT, SLAVE MONITOR ON *.* TO soak")
            for table in TABLES:
                cursor.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, amount DECIMAL(12,2), note VARCHAR(80), at DATETIME(6))")
        port = self.source.url.rpartition(":")[2].partition("/")[0]
        url = f"mariadb://soak:${{SOAK_PASSWORD}}@127.0.0.1:{port}/audit?ssl_ca={self.folder}/certificates/ca.pem&ssl_mode=VERIFY_CA"
        ends = {
            table: {"source": {"connection": "shop", "table": table}, "target": {"connection": "wh", "table": f"soak.{table}"}}
            for table in TABLES
        }
        configuration = {
            **CONFIGURATION,
            "connections": {"shop": {"url": url}, "wh": {"url": self.target.url, "write": {"url": self.target.url}}},
            "audits": {
                table: {**both, "align": "pipeline", **({"schedule": "* * * * *"} if table in AUDITED else {})}
                for table, both in ends.items()
            },
        }
        configuration["pipelines"]["soak"]["source"] = {"connection": "shop", "tables": list(TABLES)}
        (self.folder / "auditor.yaml").write_text(json.dumps(configuration), encoding="utf-8")
        with self._store() as store:
            self._token = tokens.create_token(store, name="soak", scope="read")

    def _certify(self) -> None:
        """Write a new certificate of the source, of the same authority."""
        certificates = self.folder / "certificates"
        self.authority.sign("localhost").write(certificates / "server.pem", certificates / "server.key")

    @contextmanager
    def _root(self) -> Iterator[Any]:
        with closing(mysql.connect(self.source.url)) as connection, connection.cursor() as cursor:
            yield cursor

    @contextmanager
    def _store(self) -> Iterator[Store]:
        with closing(open_store(f"sqlite:///{self.folder}/auditor.db")) as store:
            yield store

    def _write(self) -> None:
        draw = random.Random(7)
        due = time.monotonic()
        while not self._stopped.is_set():
            with suppress(pymysql.MySQLError, OSError), self._root() as cursor:
                while not self._stopped.wait(max(0.0, due - time.monotonic())):
                    cursor.execute("BEGIN")
                    for statement in _transaction(draw):
                        cursor.execute(statement)
                    cursor.execute("COMMIT")
                    self.changes += TRANSACTION
                    due = max(due + TRANSACTION / CHANGES, time.monotonic() - 1.0)
            self._stopped.wait(0.5)  # the source is away

    # the parts of the auditor

    def _start(self, part: str) -> None:
        commands = {"pipeline": ("pipeline", "run", "soak"), "service": ("serve", "--port", str(self._port))}
        environment = {
            **process.inherited_environment(), "PYTHONPATH": str(Path(__file__).parents[1]), "SOAK_PASSWORD": self._password,
        }  # fmt: skip
        with (self.folder / f"{part}.log").open("ab") as log:
            self._parts[part] = subprocess.Popen(
                [sys.executable, "-m", "auditor", *commands[part]], cwd=self.folder, env=environment, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def _end(self, part: str, how: signal.Signals, *, may_have_ended: bool = False) -> None:
        ended = self._parts.pop(part)
        if (code := ended.poll()) is not None and not (may_have_ended and code == UNKNOWN):
            self.failures.append(f"the {part} had ended with {code}; see {self.folder}/{part}.log")
        if how is signal.SIGKILL:
            with suppress(ProcessLookupError):
                os.killpg(ended.pid, how)
        else:
            ended.send_signal(how)
        try:
            ended.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.failures.append(f"the {part} did not end within {PATIENCE:.0f} s of {how.name}")
            os.killpg(ended.pid, signal.SIGKILL)
            ended.wait()

    def _restart(self, part: str, how: signal.Signals, *, may_have_ended: bool = False) -> None:
        self._end(part, how, may_have_ended=may_have_ended)
        self._start(part)

    # what disturbs them

    def _disturb(self) -> None:
        kinds: Mapping[str, Callable[[], None]] = {
            "log rotated, and older ones deleted": self._rotate_log,
            "service killed": lambda: self._restart("service", signal.SIGKILL),
            "password changed": self._change_password,
            "pipeline killed": lambda: self._restart("pipeline", signal.SIGKILL),
            "certificate changed": self._change_certificate,
            "target killed": lambda: self._kill(self.target),
            "pipeline stopped and started": lambda: self._restart("pipeline", signal.SIGTERM),
            "source killed": lambda: self._kill(self.source),
            "service stopped and started": lambda: self._restart("service", signal.SIGTERM),
        }
        until = time.monotonic() + self.seconds
        pause = min(PAUSE, self.seconds / (len(kinds) + 1))
        for kind, disturb in itertools.cycle(kinds.items()):
            if time.monotonic() + pause >= until:
                break
            self._stopped.wait(pause)
            disturb()
            self.disturbances[kind] += 1
            print(f"  {time.strftime('%H:%M:%S')} {kind}; {self.changes:,} changes", file=sys.stderr, flush=True)
        time.sleep(max(0.0, until - time.monotonic()))

    def _rotate_log(self) -> None:
        with self._root() as cursor:
            cursor.execute("FLUSH BINARY LOGS")
            cursor.execute("PURGE BINARY LOGS BEFORE NOW() - INTERVAL 10 MINUTE")

    def _change_password(self) -> None:
        self._password = secrets.token_hex(8)
        with self._root() as cursor:
            cursor.execute(f"ALTER USER soak IDENTIFIED BY '{self._password}'")
            mysql.end_sessions(cursor, "user = 'soak'")
        time.sleep(AWAY)
        for part in ("pipeline", "service"):
            self._restart(part, signal.SIGTERM, may_have_ended=True)  # who may not log in ends, and says so

    def _change_certificate(self) -> None:
        self._certify()
        with self._root() as cursor:
            cursor.execute("FLUSH SSL")
            mysql.end_sessions(cursor, "user = 'soak'")

    def _kill(self, server: Killable) -> None:
        server.kill()
        time.sleep(5)
        server.start()

    # what is measured

    def _watch(self) -> None:
        began = time.monotonic()
        while not self._stopped.wait(SAMPLING):
            memory = {part: _memory(running.pid) for part, running in list(self._parts.items()) if running.poll() is None}
            store = sum(path.stat().st_size for path in self.folder.glob("auditor.db*"))
            staged = [state for path in _files(self.folder / "staging") if (state := _stat(path))]
            oldest = max((time.time() - state.st_mtime for state in staged), default=0.0)
            size = sum(state.st_size for state in staged)
            self.samples.append(Sample(time.monotonic() - began, memory, store, size, oldest, self._time_page()))
            self._read_verdicts()

    def _read_verdicts(self) -> None:
        with self._store() as store, store.reading() as connection:
            ended = connection.execute(select(runs.c.run, runs.c.audit, runs.c.verdict).where(runs.c.ended.is_not(None))).all()
        self.verdicts |= {run: (audit, verdict) for run, audit, verdict in ended}

    def _time_page(self) -> float | None:
        request = urllib.request.Request(f"http://127.0.0.1:{self._port}/api/v1/audits")
        request.add_header("Authorization", f"Bearer {self._token}")
        began = time.monotonic()
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                answer.read()
        except (urllib.error.URLError, OSError):
            return None
        return time.monotonic() - began

    def _conclude(self) -> None:
        """Audit every table at one position of the stream, which waits until the target has come so far."""
        deadline = time.monotonic() + PATIENCE
        while True:
            environment = {**process.inherited_environment(), "SOAK_PASSWORD": self._password}
            command = [sys.executable, "-m", "auditor", "run", "--all", "-q", "--format", "json"]
            ran = subprocess.run(command, cwd=self.folder, env=environment, check=False, capture_output=True, text=True)
            if ran.returncode != 3 or time.monotonic() > deadline:
                break
            time.sleep(5)
        if ran.returncode:
            self.failures.append(f"at the end, auditor run --all ended with {ran.returncode}: {ran.stderr.strip()[-500:]}")
        self._read_verdicts()
        self.failures += [
            f"run {run[:12]} of {audit} was a mismatch"
            for run, (audit, verdict) in self.verdicts.items()
            if verdict == Verdict.MISMATCH.value
        ]

    def report(self) -> str:
        """Return the figures as Markdown, and add to the failures what grew."""
        verdicts = Counter(verdict for _, verdict in self.verdicts.values())
        lines = [
            f"{self.seconds / 3600:.1f} hours, {self.changes:,} changes of {len(TABLES)} tables, {self.disturbances.total()} disturbances",
            "",
            *(f"- {kind}: {count}" for kind, count in self.disturbances.items()),
            f"- runs by verdict: {', '.join(f'{verdict} {count:,}' for verdict, count in verdicts.most_common())}",
            "",
            "| | third quarter | last quarter | change |",
            "|---|--:|--:|--:|",
        ]
        third, last = (self._quarter(number) for number in (2, 3))
        figures: dict[str, Callable[[Sample], float | None]] = {
            "memory of the service, MiB": lambda sample: _mib(sample.memory.get("service")),
            "memory of the pipeline, MiB": lambda sample: _mib(sample.memory.get("pipeline")),
            "store, MiB": lambda sample: _mib(sample.store),
            "staging, MiB": lambda sample: _mib(sample.staging),
            "age of the oldest staged file, s": lambda sample: sample.staged_for,
            "list of audits, ms": lambda sample: None if sample.page is None else 1000 * sample.page,
        }
        at_most = {"age of the oldest staged file, s": STAGED_AT_MOST, "list of audits, ms": 1000 * PAGE_AT_MOST}
        for name, figure in figures.items():
            before, after = (_median([value for sample in some if (value := figure(sample)) is not None]) for some in (third, last))
            change = after / before - 1 if before else 0.0
            lines.append(f"| {name} | {before:,.1f} | {after:,.1f} | {change:+.0%} |")
            grew = change > GROWTH and name.startswith(("memory", "store"))
            if grew or (name in at_most and after > at_most[name]):
                self.failures.append(f"{name}: {before:,.1f} in the third quarter, {after:,.1f} in the last")
        return "\n".join([*lines, "", *(f"FAILED: {failure}" for failure in self.failures)])

    def _quarter(self, number: int) -> Sequence[Sample]:
        return [sample for sample in self.samples if int(4 * sample.at / (self.seconds + 1)) == number]


def _transaction(draw: random.Random) -> Iterator[str]:
    """Yield statements that change ``TRANSACTION`` rows of one table or two."""
    one, other = draw.sample(TABLES, 2)
    keys = draw.sample(range(KEYS), TRANSACTION // 2)
    values = ", ".join(f"({key}, {draw.randrange(10**6)} / 100, 'note {draw.randrange(10**9)}', NOW(6))" for key in keys)
    yield f"INSERT INTO {one} VALUES {values} ON DUPLICATE KEY UPDATE amount = VALUES(amount), note = VALUES(note), at = VALUES(at)"
    first = draw.randrange(KEYS)
    yield f"UPDATE {other} SET amount = amount + 1, at = NOW(6) WHERE id >= {first} ORDER BY id LIMIT {TRANSACTION // 2 - 2}"
    yield f"DELETE FROM {other} WHERE id < {first} ORDER BY id DESC LIMIT 2"


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            if path.is_file():
                yield path


def _stat(path: Path) -> os.stat_result | None:
    """Return a file's state; None if it was deleted meanwhile."""
    with suppress(FileNotFoundError):
        return path.stat()
    return None


def _memory(pid: int) -> int:
    return sum(process.proportional_bytes(one) for one in process.process_tree(pid))


def _mib(size: int | None) -> float | None:
    return None if size is None else size / (1 << 20)


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2] if values else 0.0


def main() -> int:
    """Run for so many hours, and print what was measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--hours", type=float, default=2.0, metavar="N", help="how long (default: %(default)g)")
    options = parser.parse_args()
    authority = Authority("soak")
    with tempfile.TemporaryDirectory(prefix="auditor-soak-") as name, ExitStack() as stack:
        certificates = Path(name, "certificates")
        certificates.mkdir()
        authority.write(certificates / "ca.pem")
        authority.sign("localhost").write(certificates / "server.pem", certificates / "server.key")
        tls = [f"--ssl-{what}={certificates}/{file}" for what, file in (("ca", "ca.pem"), ("cert", "server.pem"), ("key", "server.key"))]
        log = ("--log-bin=binlog", "--binlog-format=ROW", "--server-id=1", "--binlog-row-metadata=FULL")
        source = stack.enter_context(killable("mariadb", *log, *tls))
        target = stack.enter_context(killable("postgres"))
        soak = Soak(Path(name), source, target, authority, options.hours * 3600)
        soak.run()
        print(soak.report())
        if soak.failures:
            kept = Path(tempfile.mkdtemp(prefix="auditor-soak-failed-"))
            for path in Path(name).glob("*.log"):
                shutil.copy(path, kept)
            print(f"the logs are in {kept}", file=sys.stderr)
    return int(bool(soak.failures))


if __name__ == "__main__":
    sys.exit(main())
