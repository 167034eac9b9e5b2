"""What a bootstrap refuses, each with its sentence and nothing written, and the command as a person uses it."""

from __future__ import annotations

import datetime as dt
import shutil
from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor import service
from auditor.bootstrap import use_cases
from auditor.cli import main
from auditor.config import load
from auditor.errors import AuditorError, BootstrapRefused, ColumnRefused, ConfigError
from auditor.points import armed
from auditor.service import audits
from auditor.store import bootstraps as stored
from auditor.store import open_store
from tests.live import LiveEngine, engine_params
from tests.repair import small
from tests.repair.bootstrapped import clean, left

SOURCE = ("CREATE TABLE s (id INTEGER PRIMARY KEY, name VARCHAR)", "INSERT INTO s VALUES (1, 'a'), (2, 'b'), (3, 'c')")
CLEAN = ("DROP TABLE IF EXISTS child", "DROP TABLE IF EXISTS t", "DROP TABLE IF EXISTS beneath")
PLAIN = ("CREATE TABLE t (id INTEGER PRIMARY KEY, name VARCHAR(20))", "INSERT INTO t VALUES (1, 'a'), (2, 'x'), (4, 'd')")


@dataclass(frozen=True)
class Case:
    """A target that is refused: its statements, and what the sentence says."""

    name: str
    target: tuple[str, ...]
    says: str
    after: str = ""
    """A statement that removes what a later case could not."""


POSTGRES = (
    Case(
        "view",
        ("CREATE TABLE beneath (id INTEGER PRIMARY KEY, name VARCHAR(20))", "CREATE VIEW t AS SELECT * FROM beneath"),
        "public.t is a view; audit the table beneath it, and copy that again",
        "DROP VIEW t",
    ),
    Case("no key", ("CREATE TABLE t (id INTEGER, name VARCHAR(20))",), "has no primary or unique key of id, so that rows could be doubled"),
    Case("trigger", (*PLAIN, "CREATE RULE deaf AS ON INSERT TO t DO INSTEAD NOTHING"), "has the triggers deaf, which would act on every"),
    Case(
        "child",
        (*PLAIN, "CREATE TABLE child (of INTEGER REFERENCES t (id))"),
        "foreign keys of child point at public.t, whose rows are deleted while they are exchanged",
    ),
    Case(
        "other column",
        ("CREATE TABLE t (id INTEGER PRIMARY KEY, name VARCHAR(20), kind VARCHAR(9))",),
        "the audit does not compare kind of public.t, whose values would be lost",
    ),
)  # fmt: skip

MARIADB = (
    Case("MyISAM", (f"{PLAIN[0]} ENGINE = MyISAM", PLAIN[1]), "is stored by MyISAM, which has no transactions"),
    Case(
        "child",
        (*PLAIN, "CREATE TABLE child (of INTEGER, FOREIGN KEY (of) REFERENCES t (id))"),
        "foreign keys of child point at",
        after="DROP TABLE child",
    ),
)


def refuse(case: Case, engine: LiveEngine, folder: Path) -> None:
    clean(engine)
    both = small.make(folder, engine, SOURCE, (*CLEAN, *case.target))
    before = both.rows()
    with pytest.raises(BootstrapRefused) as refused:
        use_cases.run_bootstrap(both.settings, both.store, "small")
    assert case.says in str(refused.value)
    assert both.rows() == before and left(engine) == [] and stored.list_bootstraps(both.store) == []
    both.on_target(*([case.after] if case.after else []))


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_tables_of_postgres_that_would_not_be_what_they_were_are_refused(engine: LiveEngine, tmp_path: Path) -> None:
    for number, case in enumerate(POSTGRES):
        folder = tmp_path / str(number)
        folder.mkdir()
        refuse(case, engine, folder)


@pytest.mark.parametrize("engine", engine_params("mariadb"), indirect=True)
def test_tables_of_mariadb_that_would_not_be_what_they_were_are_refused(engine: LiveEngine, tmp_path: Path) -> None:
    for number, case in enumerate(MARIADB):
        folder = tmp_path / str(number)
        folder.mkdir()
        refuse(case, engine, folder)


@pytest.fixture
def duck(tmp_path: Path) -> small.Small:
    """Two tables of one DuckDB file, which differ in three rows."""
    engine = LiveEngine("duckdb", "duckdb", f"duckdb:///{tmp_path}/source.duckdb")
    return small.make(tmp_path, engine, SOURCE, PLAIN, source=engine)


def refused(both: small.Small, kind: type[AuditorError], *args: Any) -> str:
    before = both.rows()
    with pytest.raises(kind) as found:
        use_cases.run_bootstrap(both.settings, both.store, "small", *args)
    assert both.rows() == before
    return str(found.value)


def test_a_table_that_somebody_else_left_is_not_dropped(duck: small.Small) -> None:
    plan = use_cases.plan_bootstrap(duck.settings, duck.store, "small")
    stage = next(word for word in plan.split() if word.startswith("auditor_new_")).rstrip(",")
    duck.on_target(f"CREATE TABLE {stage} (id INTEGER)")
    assert f'there is a table {stage} beside "main"."t", which is of no bootstrap of this store' in refused(duck, BootstrapRefused)


def test_another_range_waits_for_one_that_did_not_end(duck: small.Small) -> None:
    def fail() -> None:
        raise BootstrapRefused("for the test")

    with pytest.raises(BootstrapRefused, match="for the test"), armed("bootstrap.verify", fail):
        use_cases.run_bootstrap(duck.settings, duck.store, "small")
    assert "of other keys, has not ended: continue that, or drop its copy with auditor bootstrap small --drop-old --apply" in refused(
        duck, BootstrapRefused, {"from": 1, "to": 2}
    )
    use_cases.drop_left(duck.settings, duck.store, "small")
    assert use_cases.run_bootstrap(duck.settings, duck.store, "small", {"from": 1, "to": 2}).rows == 2


def test_one_that_is_at_work_is_not_disturbed(duck: small.Small) -> None:
    told: list[str] = []

    def again() -> None:
        with pytest.raises(BootstrapRefused) as found:
            use_cases.run_bootstrap(duck.settings, duck.store, "small")
        told.append(str(found.value))

    with armed("bootstrap.verify", again):
        use_cases.run_bootstrap(duck.settings, duck.store, "small")
    assert "is at work; wait for its end" in told[0]


def test_a_disk_without_room_is_found_beforehand(duck: small.Small, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10, 0, 10))
    assert "0 MB are free; make room, or set TMPDIR to a larger disk" in refused(duck, BootstrapRefused)


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    engine = LiveEngine("duckdb", "duckdb", f"duckdb:///{tmp_path}/source.duckdb")
    override = {"columns": {"override": {"name": {"expr": "LOWER(name)", "kind": "text"}}}}
    both = small.make(tmp_path, engine, SOURCE, PLAIN, source=engine, **override)
    assert "the column 'name' cannot be copied: the audit compares the result of an expression there" in refused(both, ColumnRefused)
    reading = both.settings.model_copy(
        update={"connections": {**both.settings.connections, "b": both.settings.connections["b"].model_copy(update={"write": None})}}
    )
    with pytest.raises(ConfigError, match="the connection 'b' may only read; add write:"):
        use_cases.run_bootstrap(reading, both.store, "small")


def test_a_replica_is_read_only_if_it_matched_lately(duck: small.Small) -> None:
    duck.on_target("CREATE TABLE r AS SELECT * FROM s", "ALTER TABLE r ADD PRIMARY KEY (id)")
    connections = {**duck.settings.connections, "c": duck.settings.connections["a"]}
    replica = duck.settings.audits["small"].model_validate(
        {"source": {"connection": "a", "table": "s"}, "target": {"connection": "c", "table": "r"}, "key": ["id"]}
    )
    duck.settings = duck.settings.model_copy(update={"connections": connections, "audits": {**duck.settings.audits, "near": replica}})
    assert "there is no connection 'd'" in refused(duck, BootstrapRefused, None, "d")
    assert "c is not known to hold what the source of small holds" in refused(duck, BootstrapRefused, None, "c")
    assert service.run_audit(duck.settings, "near", store=duck.store).verdict.value == "match"
    result = use_cases.run_bootstrap(duck.settings, duck.store, "small", None, "c")
    (one,) = stored.list_bootstraps(duck.store)
    assert one.detail["source"] == "c: r" and result.after and result.after.verdict.value == "match"


def test_partitions_that_are_no_ranges_of_keys_are_refused(duck: small.Small) -> None:
    def says(kind: type[AuditorError], partitions: str) -> str:
        return refused(duck, kind, None, "", partitions)

    assert "small has no run whose partitions could be copied anew; run it first: auditor run small" in says(BootstrapRefused, "differing")
    definition = duck.settings.audits["small"].model_dump(by_alias=True, exclude_unset=True)

    def run(**partition: Any) -> None:
        audit = type(duck.settings.audits["small"]).model_validate({**definition, "partition": partition})
        duck.settings = duck.settings.model_copy(update={"audits": {"small": audit}})
        duck.run()

    run(strategy="hash", buckets=4)
    assert "are by hash, not ranges of keys that could be shown; copy a range with --keys" in says(BootstrapRefused, "differing")
    run(strategy="range", size=10)
    assert "--partitions x: write numbers of partitions such as 3,7..9, or differing" in says(ConfigError, "x")
    assert "write numbers of partitions such as" in says(ConfigError, "3..1")
    assert "are 201 ranges of keys, and one bootstrap copies at most 200" in says(BootstrapRefused, ",".join(map(str, range(0, 402, 2))))
    assert "--keys and --partitions both choose rows" in refused(duck, ConfigError, {"from": 1, "to": 2}, "", "differing")
    use_cases.run_bootstrap(duck.settings, duck.store, "small", partitions="differing")
    assert "no partition differed in run" in says(BootstrapRefused, "differing")


CONFIGURATION = """
connections:
  shop: {url: "duckdb:///shop.duckdb"}
  dwh: {url: "duckdb:///dwh.duckdb", write: {url: "duckdb:///dwh.duckdb"}}
audits:
  orders: {source: {connection: shop, table: orders}, target: {connection: dwh, table: orders}}
"""


def test_a_table_is_planned_copied_and_its_old_rows_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUDITOR_CONFIG", raising=False)
    for name, rows in (("shop", "(1, 'a'), (2, 'b'), (3, 'c')"), ("dwh", "(1, 'a'), (2, 'x'), (4, 'd')")):
        with duckdb.connect(f"{name}.duckdb") as connection:
            connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, name VARCHAR)")
            connection.execute(f"INSERT INTO orders VALUES {rows}")
    Path("auditor.yaml").write_text(CONFIGURATION)
    assert main(["bootstrap", "orders", "--quiet"]) == 0
    plan = capsys.readouterr().out
    assert plan.endswith("to write it: auditor bootstrap orders --apply\n")
    with duckdb.connect("dwh.duckdb") as connection:
        assert connection.execute("SELECT * FROM orders ORDER BY id").fetchall() == [(1, "a"), (2, "x"), (4, "d")]
    assert plan.startswith("bootstrap of orders: the whole table from shop: orders to dwh: orders\n  rows     about 3 in 1 range,")
    assert main(["bootstrap", "orders", "--apply", "--quiet"]) == 0
    told = capsys.readouterr().out
    assert "  swap     in place" in told and ": 3 rows were copied and swapped in; the replaced ones are in orders_old_" in told
    assert "MATCH" in told
    assert main(["bootstrap", "orders", "--drop-old", "--quiet"]) == 0
    would, way = capsys.readouterr().out.splitlines()
    assert would.startswith("would drop orders_old_") and way == "to drop it: auditor bootstrap orders --drop-old --apply"
    assert main(["bootstrap", "orders", "--drop-old", "--apply", "--quiet"]) == 0
    assert capsys.readouterr().out == would.replace("would drop", "dropped") + "\n"
    assert main(["bootstrap", "orders", "--drop-old", "--quiet"]) == 0
    assert capsys.readouterr().out == "there is nothing to drop\n"
    assert main(["bootstrap", "orders", "--drop-old", "--keys", "1..2"]) == 2
    with duckdb.connect("dwh.duckdb") as connection:
        assert connection.execute("SELECT * FROM orders ORDER BY id").fetchall() == [(1, "a"), (2, "b"), (3, "c")]
        assert connection.execute(
            "SELECT COUNT(*) FROM duckdb_tables() WHERE database_name = 'dwh' AND table_name <> 'auditor_patch_marks'"
        ).fetchone() == (1,)


def test_bootstraps_that_are_due_are_claimed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUDITOR_CONFIG", raising=False)
    for name, rows in (("shop", "(1, 'a'), (2, 'b')"), ("dwh", "(1, 'x')")):
        with duckdb.connect(f"{name}.duckdb") as connection:
            connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, name VARCHAR)")
            connection.execute(f"INSERT INTO orders VALUES {rows}")
    schedule = 'schedule: {cron: "0 0 1 1 *", bootstrap: "* * * * *"}'
    Path("auditor.yaml").write_text(CONFIGURATION.replace("table: orders}}", f"table: orders}}, {schedule}}}"))
    assert main(["bootstrap", "--quiet"]) == 2 and main(["bootstrap", "orders", "--due", "--quiet"]) == 2
    assert "name either an audit, or --due" in capsys.readouterr().err
    assert main(["crontab"]) == 0
    assert " bootstrap --due --apply --quiet" in capsys.readouterr().out
    configured, store = load(tmp_path / "auditor.yaml"), open_store(f"sqlite:///{tmp_path}/auditor.db")
    now = dt.datetime.now(dt.UTC)
    assert use_cases.claim_due(configured, store, now - dt.timedelta(minutes=2), "a test") == ["orders"]
    assert use_cases.claim_due(configured, store, now - dt.timedelta(minutes=2), "a test") == []
    audits.pause(configured, store, "orders")
    assert use_cases.claim_due(configured, store, now, "a test") == []
    audits.unpause(configured, store, "orders")
    store.close()
    for _ in range(2):  # nothing is claimed by looking
        assert main(["bootstrap", "--due", "--quiet"]) == 0
        told = capsys.readouterr().out
        assert told.startswith("bootstrap of orders: ") and told.endswith("to write what is due: auditor bootstrap --due --apply\n")
    assert main(["bootstrap", "--due", "--apply", "--quiet"]) == 0
    told = capsys.readouterr().out
    assert ": 2 rows were copied and swapped in; the replaced ones are in orders_old_" in told and "MATCH" in told
