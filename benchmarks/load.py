"""Part (e): a service that is read by many while it audits, each measured against itself at rest in the same minutes."""

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
from auditor.store._schema import audits as versions
from auditor.store._schema import runs as kept
from benchmarks import data
from benchmarks.servers import Servers
from tests.readers import Answers, Reading, reads
from tests.serve import Served, serve

CLIENTS = 50
SECONDS = 30.0
AT_ONCE = 4
AUDITS = tuple(f"orders-{number:02}" for number in range(20))
HISTORY = 360
"""Runs of each audit in the 30 days before."""

PAUSES = (2.0, 1.0, 0.0)
"""Seconds from one request of a client to its next: two paces of dashboards, and as fast as it can."""

PREFERRED = "-10"
"""The niceness of the service's session on Linux: the databases stand for machines of their own, and would not take its processor."""

STORES = ("sqlite", "postgres")


@dataclass
class Load:
    """What readers and audits did to each other. Seconds; ``errors`` are answers that were none, and audits that were not right.

    ``idle`` are the middle answers to one client with nothing else to do, ``alone`` the audits' middle times without readers.
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
    def slower(self) -> float:
        """p99 of the list of audits, as a multiple of its p50 at rest."""
        return statistics.median(self.p99) / statistics.median(self.idle)

    @property
    def longer(self) -> float:
        """How many times as long the audits took."""
        return statistics.median(self.loaded) / statistics.median(self.alone)


def measure(
    servers: Servers, pair: tuple[str, str], store: str, rows: int, directory: Path, repeat: int, seconds: float = SECONDS
) -> list[Load]:
    """Read at each pace while four audits run, in turns with audits alone. Raises Unavailable."""
    damage = data.damages(rows)[1]
    urls = [servers[engine].url for engine in pair]
    path = data.make_file(directory, damage.shape, rows)
    for engine, url in zip(pair, urls, strict=True):
        data.load(engine, url, damage.shape, path)
    data.damage(pair[1], urls[1], damage)
    for engine, url in zip(pair, urls, strict=True):
        data.settle(engine, url, damage.shape)
    with (
        tempfile.TemporaryDirectory(dir=directory, prefix="load-") as folder,
        serve(Path(folder), _configured(urls, damage.shape, _kept_in(servers, store, folder))) as served,
    ):
        _prefer(served.pid)
        client = Client(served.url, served.token)
        found = [Load("-".join(pair), rows, store, CLIENTS, pause) for pause in PAUSES]
        _round(client, len(damage.changed), found[0].errors)  # which warms what there is to be warmed
        _history(served.store)
        for _ in range(repeat):
            for load in found:
                _turn(load, served, client, len(damage.changed), seconds)
                _tell(load)
    for engine, url in zip(pair, urls, strict=True):
        data.drop(engine, url, damage.shape)
    return found


def _prefer(pid: int) -> None:
    """Let the service go before the databases on this machine's processors. Without the right to, it is measured as one among them."""
    try:
        Path(f"/proc/{pid}/autogroup").write_text(PREFERRED)
    except OSError as error:
        print(f"  the service takes its turn among the databases: {error}", file=sys.stderr)


def _turn(load: Load, served: Served, client: Client, differ: int, seconds: float) -> None:
    """At rest, audits alone, and both at once, for so many seconds at least, until the audits end."""
    with reads(Reading(served.url, served.readers(1), AUDITS, 0.05)) as idle:
        time.sleep(seconds / 3)
    load.idle.append(idle.percentile(0.5))
    load.alone.append(statistics.median(_round(client, differ, load.errors)))
    tokens, times = served.readers(CLIENTS), list[float]()
    with reads(Reading(served.url, tokens, AUDITS, load.pause)) as answers:
        began = time.monotonic()
        while time.monotonic() < began + seconds:
            times += _round(client, differ, load.errors)
        load.seconds += time.monotonic() - began
    load.loaded.append(statistics.median(times))
    _note(load, answers)


def _note(load: Load, answers: Answers) -> None:
    load.p50.append(answers.percentile(0.5))
    load.p99.append(answers.percentile(0.99))
    load.answers += len(answers.listed) + len(answers.others)
    load.errors += answers.errors


def _round(client: Client, differ: int, errors: list[str]) -> list[float]:
    """Four audits at once: their seconds. Those that did not find what differs are among the errors."""
    asked = [client.request(name) for name in AUDITS[:AT_ONCE]]
    ended = [client.wait(run["run"]) for run in asked]
    errors += [f"{run['audit']}: {run['verdict']}, {run['changed']}: {run['reasons']}" for run in ended if run["changed"] != differ]
    return [run["seconds"] for run in ended]


def _configured(urls: list[str], shape: data.Shape, store: str) -> Mapping[str, Any]:
    sides = ("source", "target")
    audit = {side: {"connection": side, "table": shape.table} for side in sides} | {"key": list(shape.key)}
    return {
        "connections": {side: {"url": url} for side, url in zip(sides, urls, strict=True)},
        "audits": {name: {**audit, "schedule": "0 6 1 1 *"} for name in AUDITS},
        "store": {"url": store},
        "service": {"workers": AT_ONCE, "rate": 1_000_000},  # all clients have one address
    }


def _kept_in(servers: Servers, store: str, folder: str) -> str:
    if store == "sqlite":
        return f"sqlite:///{folder}/store.db"
    from tests.servers import postgres

    url, name = servers["postgres"].url, f"store_{uuid.uuid4().hex}"
    with closing(postgres.connect(url)) as connection:
        connection.cursor().execute(f"CREATE DATABASE {name}")
    return f"{url.rpartition('/')[0]}/{name}"


def _history(store: Store) -> None:
    """Each audit was run every two hours for a month: copies of a run that ended, which go before."""
    with store.reading() as connection:
        first = dict(connection.execute(select(kept).order_by(kept.c.number)).first()._mapping)  # type: ignore[union-attr]
        version = dict(connection.execute(select(versions).where(versions.c.audit == first["audit"])).one()._mapping)
        known = set(connection.execute(select(versions.c.audit)).scalars())
    now = dt.datetime.now(dt.UTC)
    made = [
        {**first, "run": uuid.uuid4().hex, "audit": name, "started": at, "ended": at + dt.timedelta(seconds=first["seconds"])}
        for at in (now - dt.timedelta(days=30) * (1 - number / HISTORY) for number in range(HISTORY))
        for name in AUDITS
    ]
    for run in made:
        del run["number"]

    def work(connection: Any) -> None:
        connection.execute(insert(versions), [{**version, "audit": name} for name in AUDITS if name not in known])
        connection.execute(insert(kept), made)

    store.write(work)
    if store.engine.dialect.name == "postgresql":
        with store.engine.begin() as connection:
            connection.exec_driver_sql("ANALYZE")  # which it does by itself, a minute later


def _tell(load: Load) -> None:
    print(
        f"  {load.pair} {load.store:8} pause {load.pause} s: idle p50 {load.idle[-1] * 1000:.1f} ms, p50 {load.p50[-1] * 1000:.1f} ms,"
        f" p99 {load.p99[-1] * 1000:.1f} ms ({load.slower:.1f} x), audits {load.alone[-1]:.1f} s alone, {load.loaded[-1]:.1f} s"
        f" ({load.longer:.2f} x), {load.answers:,} answers in {load.seconds:.0f} s, {len(load.errors)} errors",
        file=sys.stderr,
        flush=True,
    )
