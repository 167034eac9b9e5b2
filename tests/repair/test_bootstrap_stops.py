"""What a bootstrap refuses of selections, sources and copies, or ends with half-way, each with its sentence and the table as it was."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from auditor.bootstrap import swapping, use_cases
from auditor.config import Audit, ConnectionSettings
from auditor.errors import AuditorError, BootstrapFailed, BootstrapRefused, UnknownBootstrap
from auditor.model import State, Verdict
from auditor.points import armed, followed
from auditor.store import bootstraps as stored
from tests import tables
from tests.durations import SetDurations
from tests.live import Engines, LiveEngine, engine_params
from tests.repair import small
from tests.repair.bootstrapped import clean, left
from tests.repair.small import Small

SOURCE = ("CREATE TABLE s (id INTEGER PRIMARY KEY, name VARCHAR)", "INSERT INTO s SELECT i, 'row ' || i FROM range(1, 41) AS r(i)")
TARGET = ("CREATE TABLE t (id INTEGER PRIMARY KEY, name VARCHAR)", "INSERT INTO t SELECT i, 'row ' || i FROM range(1, 31) AS r(i)")


@pytest.fixture
def duck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Small:
    """Two tables of one DuckDB file, the source's in four ranges."""
    monkeypatch.setattr("auditor.bootstrap.plan.RANGE_ROWS", 10)
    engine = LiveEngine("duckdb", "duckdb", f"duckdb:///{tmp_path}/both.duckdb")
    return small.make(tmp_path, engine, SOURCE, TARGET, source=engine)


def redefine(both: Small, **changed: object) -> None:
    definition = both.settings.audits["small"].model_dump(by_alias=True, exclude_unset=True)
    both.settings = both.settings.model_copy(update={"audits": {"small": Audit.model_validate({**definition, **changed})}})


def refused(
    both: Small,
    kind: type[AuditorError],
    keys: dict[str, int] | None = None,
    partitions: str = "",
) -> str:
    """Return the sentence with which a bootstrap ends, after a check that the table is as it was."""
    before = both.rows()
    with pytest.raises(kind) as found:
        use_cases.run_bootstrap(both.settings, both.store, "small", keys, partitions=partitions)
    assert both.rows() == before
    return str(found.value)


def test_a_range_needs_a_key_of_one_integer(tmp_path: Path) -> None:
    engine = LiveEngine("duckdb", "duckdb", f"duckdb:///{tmp_path}/both.duckdb")
    texts = [[statement.replace("id INTEGER", "id VARCHAR") for statement in side] for side in (SOURCE, TARGET)]
    both = small.make(tmp_path, engine, texts[0], texts[1], source=engine)
    says = "a range of keys needs a key of one integer column; copy the whole table"
    assert refused(both, BootstrapRefused, {"from": 1, "to": 2}) == says
    assert stored.list_bootstraps(both.store) == []


def test_files_and_dumps_are_refused(duck: Small, tmp_path: Path) -> None:
    table = {"connection": "b", "table": f"{tmp_path}/t.parquet", "format": "parquet"}
    duck.on_target(f"COPY t TO '{tmp_path}/t.parquet' (FORMAT parquet)")
    plain = duck.settings.audits["small"].target
    redefine(duck, target=table)
    assert "is files, which are not copied again by this command; write them again where they come from" in refused(duck, BootstrapRefused)
    redefine(duck, target=plain.model_dump(exclude_unset=True), via={"connection": "b", "table": "dump"})
    says = "small compares a dump, which is older than its source; audit the source itself, and copy from that"
    assert says in refused(duck, BootstrapRefused)
    assert stored.list_bootstraps(duck.store) == [] and left(duck.target) == []


def test_engines_that_no_bootstrap_writes_are_refused_by_name(duck: Small) -> None:
    spark = ConnectionSettings.model_validate({"url": "spark://localhost:1", "write": {"url": "spark://localhost:1"}})
    duck.settings = duck.settings.model_copy(update={"connections": {**duck.settings.connections, "b": spark}})
    with pytest.raises(BootstrapRefused, match="tables of spark cannot be copied again by this command; copy t by the engine's own means"):
        use_cases.run_bootstrap(duck.settings, duck.store, "small")
    assert stored.list_bootstraps(duck.store) == []


def test_rows_without_a_key_have_no_partition(tmp_path: Path) -> None:
    engine = LiveEngine("duckdb", "duckdb", f"duckdb:///{tmp_path}/both.duckdb")
    keyless = [[statement.replace(" PRIMARY KEY", "") for statement in side] for side in (SOURCE, TARGET)]
    both = small.make(
        tmp_path, engine, [*keyless[0], "INSERT INTO s VALUES (NULL, 'nobody')"], keyless[1], source=engine,
        partition={"strategy": "range", "size": 10},
    )  # fmt: skip
    both.run()
    says = "which have no range; copy the table"
    assert says in refused(both, BootstrapRefused, partitions="differing")


def test_what_is_at_work_is_neither_dropped_nor_begun_nor_continued(duck: Small) -> None:
    told: list[str] = []

    def disturb() -> None:
        (one,) = stored.list_bootstraps(duck.store)
        about: dict[str, Any] = {"bootstrap": "f" * 32, "audit": "small", "target": one.target, "who": "", "detail": {}}
        for work in (
            lambda: use_cases.drop_left(duck.settings, duck.store, "small"),
            lambda: stored.begin_bootstrap(duck.store, **about),
            lambda: stored.continue_bootstrap(duck.store, one.bootstrap),
        ):
            with pytest.raises(BootstrapRefused) as found:
                work()
            told.append(str(found.value))

    with armed("bootstrap.verify", disturb, nth=1):
        done = use_cases.run_bootstrap(duck.settings, duck.store, "small").bootstrap
    assert told[0] == f"bootstrap {done} of this table is at work; wait for its end"
    assert f"bootstrap {done} of this table has not ended (" in told[1] and told[1].endswith("; continue it, or drop its copy")
    assert f"bootstrap {done} of this table is at work (" in told[2] and told[2].endswith("; wait for its end")
    assert len(duck.rows()) == 40
    with pytest.raises(UnknownBootstrap, match="there is no bootstrap 'ffff'; the page of its audit lists them"):
        stored.get_bootstrap(duck.store, "ffff")


def test_a_source_that_changes_faster_than_it_is_copied_is_given_up(duck: Small) -> None:
    """Ranges of an earlier attempt differ in each of three snapshots."""

    def stop() -> None:
        raise BootstrapRefused("for the test")

    seen: list[str] = []

    def change(name: str) -> None:
        seen.append(name)
        if name == "range" and seen.count("range") <= 2:  # before DuckDB's snapshot, which begins with the first row that is read
            here = "BETWEEN 11 AND 40" if seen.count("range") == 1 else "< 11"
            duck.on_source(f"UPDATE s SET name = 'change {seen.count('range')}' WHERE id {here}")

    with armed("bootstrap.verify", stop):
        refused(duck, BootstrapRefused)
    duck.on_source("UPDATE s SET name = 'changed meanwhile' WHERE id < 11")
    with followed("bootstrap", change):
        says = refused(duck, BootstrapFailed)
    assert says.startswith("the source changed faster than it was copied; ") and says.endswith(" is as it was: run it again to continue")
    assert seen.count("verify") == 3
    result = use_cases.run_bootstrap(duck.settings, duck.store, "small")
    assert result.after and result.after.verdict.value == "match"


def test_a_file_that_somebody_changed_is_not_loaded(duck: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))

    def change() -> None:
        (file,) = tmp_path.glob("auditor-bootstrap-*/range-000000.txt")
        file.write_bytes(file.read_bytes()[::-1])

    with armed("bootstrap.loaded", change, nth=1):
        says = refused(duck, BootstrapFailed)
    assert "range-000000.txt is not what manifest.json says of it; drop the copy with --drop-old --apply, and copy again" in says
    use_cases.drop_left(duck.settings, duck.store, "small")
    assert use_cases.run_bootstrap(duck.settings, duck.store, "small").rows == 40 and not list(tmp_path.glob("auditor-bootstrap-*"))


def test_a_copy_of_which_nothing_could_be_compared_is_not_swapped_in(duck: Small) -> None:
    def refuse(*_: object, **__: object) -> SimpleNamespace:
        report = SimpleNamespace(verdict=Verdict.UNKNOWN, state=State.DONE, reasons=["the server went away."])
        return SimpleNamespace(report=report)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("auditor.bootstrap.verifying.audit_run.perform", refuse)
        says = refused(duck, BootstrapFailed)
    assert says == "the copy could not be compared with its source: the server went away.; run it again to continue"


def test_a_rename_that_still_waits_for_the_table_is_not_overtaken(set_durations: SetDurations) -> None:
    """An earlier process's statement that cannot be ended might exchange the tables a second time."""
    killed: list[str] = []
    names = SimpleNamespace(literal=lambda text: f"'{text}'")
    dialect = SimpleNamespace(template=lambda _: "${table}", names=names)
    session = SimpleNamespace(dialect=dialect, query=lambda _: [(7,)], execute=killed.append)
    plan = SimpleNamespace(stage="auditor_new_1", table=SimpleNamespace(sql="`t`"))
    set_durations(swap_pauses=(0.0, 0.0))
    with pytest.raises(BootstrapFailed, match="a statement of an earlier process still waits for `t`; end it, then run this again"):
        swapping.end_waiting(session, plan)  # type: ignore[arg-type]
    assert killed == ["KILL 7", "KILL 7"]


@pytest.mark.slow
@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_a_line_that_the_source_cannot_build_is_named(engine: LiveEngine, engines: Engines, tmp_path: Path) -> None:
    clean(engine)
    source = engines.live("mariadb")
    ((limit,),) = tables.query(source, "SELECT @@max_allowed_packet")
    long = f"REPEAT('x', {int(int(limit) * 0.6)})"
    start = ("CREATE TABLE s (id INTEGER PRIMARY KEY, one LONGTEXT, two LONGTEXT)", f"INSERT INTO s VALUES (1, {long}, {long})")
    end = ("DROP TABLE IF EXISTS child", "DROP TABLE IF EXISTS t", "CREATE TABLE t (id INTEGER PRIMARY KEY, one TEXT, two TEXT)")
    both = small.make(tmp_path, engine, start, end, source=source)
    assert "a row's line is longer than the source can build; raise max_allowed_packet there" in refused(both, BootstrapFailed)
