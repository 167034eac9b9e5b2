"""Part load: response times of a service while it audits, and audit times while clients read, each compared with an idle service."""

from __future__ import annotations

import datetime as dt
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import insert, select

from auditor.client import Client
from auditor.store import Store
from auditor.store.schema import audit_versions, runs
from benchmarks import data
from benchmarks.servers import Servers
from benchmarks.shapes import Shape
from tests.programs.readers import Answers, Reading, reads
from tests.programs.serve import Served, serve

CLIENTS = 50
SECONDS = 30.0
"""Minimum seconds of a measurement with readers."""

CONCURRENT_AUDITS = 4
AUDITS = tuple(f"orders-{number:02}" for number in range(20))
HISTORY = 360
"""Earlier runs of each audit, spread over 30 days."""

PAUSES = (2.0, 1.0, 0.0)
"""Seconds between two requests of a client: two rates of dashboards, and without a pause."""

SERVICE_NICENESS = "-10"
"""Niceness of the service's session on Linux: in production the databases run on other machines and do not compete with it."""

STORES = ("sqlite", "postgres")


@dataclass
class Load:
    """Effect of readers and audits on each other at one pace; each list has one value in seconds per turn.

    ``idle`` is the median response time of the list of audits for one client of an idle service; ``p50`` and ``p99`` are percentiles of
    it under load. ``alone`` and ``loaded`` are the median durations of audits without and with readers. ``answers`` and ``seconds`` are
    totals of all turns; ``errors`` are failed requests and audits with a wrong result.
    """

    pair: str
    rows: int
    store: str
    clients: int
    pause: float
    idle: list[float] = field(default_factory=list)
    alone: list[float] = field(default_factory=list)
    p50: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)
    answers: int = 0
    seconds: float = 0.0
    loaded: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def latency_ratio(self) -> float:
        """p99 of the list of audits under load, as a multiple of its p50 on an idle service."""
        return statistics.median(self.p99) / statistics.median(self.idle)

    @property
    def duration_ratio(self) -> float:
        """Duration of audits with readers, as a multiple of that without."""
        return statistics.median(self.loaded) / statistics.median(self.alone)


def measure(
    servers: Servers, pair: tuple[str, str], store: str, rows: int, directory: Path, repeat: int, seconds: float = SECONDS
) -> list[Load]:
    """Measure each pace of the readers while audits run, alternating with audits alone. Raises Unavailable."""
    damage = data.damages(rows)[1]
    urls = [servers[engine].url for engine in pair]
    path = data.make_file(directory, damage.shape, rows)
    for engine, url in zip(pair, urls, strict=True):
        data.load(engine, url, damage.shape, path)
    data.apply_damage(pair[1], urls[1], damage)
    for engine, url in zip(pair, urls, strict=True):
        data.flush_and_warm(engine, url, damage.shape)
    with (
        tempfile.TemporaryDirectory(dir=directory, prefix="load-") as folder,
        serve(Path(folder), _config(urls, damage.shape, _store_url(servers, store, folder))) as served,
    ):
        _raise_priority(served.pid)
        client = Client(served.url, served.token)
        loads = [Load("-".join(pair), rows, store, CLIENTS, pause) for pause in PAUSES]
        _run_audits(client, len(damage.changed), loads[0].errors)  # warm-up
        _insert_history(served.store)
        for _ in range(repeat):
            for load in loads:
                _measure_turn(load, served, client, len(damage.changed), seconds)
                _print_progress(load)
    for engine, url in zip(pair, urls, strict=True):
        data.drop(engine, url, damage.shape)
    return loads


def _raise_priority(pid: int) -> None:
    """Give the service priority over the databases; without the privilege, measure it with equal priority."""
    try:
        Path(f"/proc/{pid}/autogroup").write_text(SERVICE_NICENESS)
    except OSError as error:
        print(f"  the service has no priority over the databases: {error}", file=sys.stderr)


def _measure_turn(load: Load, served: Served, client: Client, differ: int, seconds: float) -> None:
    """Measure an idle service, audits alone, and audits with readers for at least ``seconds``, until the last audits end."""
    with reads(Reading(served.url, served.readers(1), AUDITS, 0.05)) as idle:
        time.sleep(seconds / 3)
    load.idle.append(idle.percentile(0.5))
    load.alone.append(statistics.median(_run_audits(client, differ, load.errors)))
    tokens, times = served.readers(CLIENTS), list[float]()
    with reads(Reading(served.url, tokens, AUDITS, load.pause)) as answers:
        start = time.monotonic()
        while time.monotonic() < start + seconds:
            times += _run_audits(client, differ, load.errors)
        load.seconds += time.monotonic() - start
    load.loaded.append(statistics.median(times))
    _record(load, answers)


def _record(load: Load, answers: Answers) -> None:
    load.p50.append(answers.percentile(0.5))
    load.p99.append(answers.percentile(0.99))
    load.answers += len(answers.listed) + len(answers.others)
    load.errors += answers.errors


def _run_audits(client: Client, differ: int, errors: list[str]) -> list[float]:
    """Run four audits at once and return their seconds; ``errors`` gets those that did not find the damaged rows."""
    requested = [client.request(name) for name in AUDITS[:CONCURRENT_AUDITS]]
    finished = [client.wait(run.run) for run in requested]
    errors += [f"{run.audit}: {run.verdict}, {run.changed}: {run.reasons}" for run in finished if run.changed != differ]
    return [run.seconds or 0.0 for run in finished]


def _config(urls: list[str], shape: Shape, store: str) -> Mapping[str, Any]:
    sides = ("source", "target")
    audit = {side: {"connection": side, "table": shape.table} for side in sides} | {"key": list(shape.key)}
    return {
        "connections": {side: {"url": url} for side, url in zip(sides, urls, strict=True)},
        "audits": {name: {**audit, "schedule": "0 6 1 1 *"} for name in AUDITS},
        "store": {"url": store},
        "service": {"workers": CONCURRENT_AUDITS, "requests_per_minute": 1_000_000},  # all clients have one address
    }


def _store_url(servers: Servers, store: str, folder: str) -> str:
    if store == "sqlite":
        return f"sqlite:///{folder}/store.db"
    from tests.servers import postgres

    url, name = servers["postgres"].url, f"store_{uuid.uuid4().hex}"
    with closing(postgres.connect(url)) as connection:
        connection.cursor().execute(f"CREATE DATABASE {name}")
    return f"{url.rpartition('/')[0]}/{name}"


def _insert_history(store: Store) -> None:
    """Insert a history of runs for each audit, one every two hours for a month: copies of the first run."""
    with store.reading() as connection:
        first = dict(connection.execute(select(runs).order_by(runs.c.number)).first()._mapping)  # type: ignore[union-attr]
        version = dict(connection.execute(select(audit_versions).where(audit_versions.c.audit == first["audit"])).one()._mapping)
        known = set(connection.execute(select(audit_versions.c.audit)).scalars())
    now = dt.datetime.now(dt.UTC)
    copies = [
        {**first, "run": uuid.uuid4().hex, "audit": name, "started": at, "ended": at + dt.timedelta(seconds=first["seconds"])}
        for at in (now - dt.timedelta(days=30) * (1 - number / HISTORY) for number in range(HISTORY))
        for name in AUDITS
    ]
    for run in copies:
        del run["number"]

    def work(connection: Any) -> None:
        connection.execute(insert(audit_versions), [{**version, "audit": name} for name in AUDITS if name not in known])
        connection.execute(insert(runs), copies)

    store.write(work)
    if store.engine.dialect.name == "postgresql":
        with store.engine.begin() as connection:
            connection.exec_driver_sql("ANALYZE")  # autovacuum would do this a minute later


def _print_progress(load: Load) -> None:
    print(
        f"  {load.pair} {load.store:8} pause {load.pause} s: idle p50 {load.idle[-1] * 1000:.1f} ms, p50 {load.p50[-1] * 1000:.1f} ms,"
        f" p99 {load.p99[-1] * 1000:.1f} ms ({load.latency_ratio:.1f} x), audits {load.alone[-1]:.1f} s alone, {load.loaded[-1]:.1f} s"
        f" ({load.duration_ratio:.2f} x), {load.answers:,} answers in {load.seconds:.0f} s, {len(load.errors)} errors",
        file=sys.stderr,
        flush=True,
    )
