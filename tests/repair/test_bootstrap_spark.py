"""A table that executors of Spark copy anew holds exactly its source's rows, whatever their kinds and whatever happens meanwhile."""

from __future__ import annotations

import json
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from auditor.bootstrap import use_cases
from auditor.bootstrap.use_cases import Followed
from auditor.cli import main
from auditor.config import SparkCopy
from auditor.errors import BootstrapFailed, BootstrapRefused, StatementCancelled
from auditor.model import Verdict
from auditor.points import armed, followed
from auditor.store import bootstraps as stored
from tests.live import Engines, LiveEngine, LivePair, chosen_pairs, pair_params
from tests.repair import damaged, small
from tests.repair.bootstrap_killed import ROWS, kill
from tests.repair.bootstrapped import clean, left
from tests.repair.spread import spreading

pytestmark = pytest.mark.spark

COPIED = [
    pytest.param(param.values[0], id=param.id, marks=[*param.marks, pytest.mark.slow])
    for param in pair_params()
    if str(param.id).startswith(("mysql", "mariadb", "postgres")) and not str(param.id).endswith(("spark", "redshift"))
]
"""Pairs of engines whose source executors can read."""


def check_copied(pair: LivePair, folder: Path, rows: int) -> None:
    """Copy a damaged target by executors, and compare it with its source."""
    clean(pair.target)
    both = damaged.make(pair, folder, rows=rows, differences=rows // 2)
    before, names, steps = both.read_target(), [name for name, _ in both.columns], list[str]()
    with followed("bootstrap", steps.append):
        result = use_cases.run_bootstrap(both.settings, both.store, "all", spreading=spreading(both.settings, folder))
    assert steps.count("read") > 1, "several ranges were read by tasks"
    assert result.rows == len(both.source)
    assert result.after and result.after.verdict is Verdict.MATCH and not result.patched, (result.not_settled, result.after)
    assert result.after.jaccard and result.after.jaccard.score.lower == 1
    assert left(pair.target) == [result.old]
    assert damaged.read_exactly(pair.target, result.old, names) == before
    assert use_cases.drop_left(both.settings, both.store, "all") == [result.old]
    assert left(pair.target) == []
    both.store.close()


@pytest.mark.parametrize("pair", chosen_pairs("mariadb-postgres"), indirect=True)
def test_executors_copy_a_damaged_table(pair: LivePair, engines: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engines.live("spark")
    monkeypatch.setattr("auditor.bootstrap.plan.RANGE_ROWS", 20)
    check_copied(pair, tmp_path, 60)


@pytest.mark.parametrize("pair", COPIED, indirect=True)
def test_executors_copy_every_kind_of_value(pair: LivePair, engines: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engines.live("spark")
    monkeypatch.setattr("auditor.bootstrap.plan.RANGE_ROWS", 200)
    check_copied(pair, tmp_path, 600)


@pytest.mark.parametrize("pair", chosen_pairs("duckdb-postgres"), indirect=True)
def test_a_source_of_one_process_is_refused(pair: LivePair, tmp_path: Path) -> None:
    both = damaged.make(pair, tmp_path, rows=6, differences=3)
    with pytest.raises(BootstrapRefused, match=r"tables of duckdb are read by one process, not by executors of Spark; leave out --spark"):
        use_cases.plan_bootstrap(both.settings, both.store, "all", spreading=spreading(both.settings, tmp_path))
    both.store.close()


def test_a_cluster_needs_a_folder_that_its_hosts_share() -> None:
    with pytest.raises(ValueError, match=r"executors on other hosts need a folder that all of them share; add path: /folder beside master"):
        SparkCopy(master="spark://one:7077")


@pytest.mark.slow
@pytest.mark.parametrize("settle", [{"settle": {"column": "updated", "lag": "1s"}}, {}], ids=["settles", "copied again"])
def test_rows_that_change_between_the_ranges_are_left_out_or_copied_again(
    engines: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settle: dict[str, Any]
) -> None:
    """A server without names of snapshots: ranges are read at moments of their own."""
    engines.live("spark")
    monkeypatch.setattr("auditor.bootstrap.plan.RANGE_ROWS", 100)
    source, target = engines.live("mariadb"), engines.live("postgres")
    both = made_small(tmp_path, source, target, "DATETIME(6)", **settle)
    steps: list[str] = []

    def step(name: str) -> None:
        steps.append(name)
        if name == "read" and steps.count("read") == 5:  # all ranges are read
            both.on_source("UPDATE s SET v = 'newer', updated = UTC_TIMESTAMP(6) WHERE id IN (3, 333)")

    with followed("bootstrap", step):
        result = use_cases.run_bootstrap(both.settings, both.store, "small", spreading=spreading(both.settings, tmp_path))
    assert steps.count("verify") == (1 if settle else 2)
    assert result.rows == 500 and result.after and not result.not_settled, result
    if not settle:
        assert result.after.verdict is Verdict.MATCH and not result.patched
        assert {row[1] for row in both.rows() if row[0] in (3, 333)} == {"newer"}
    clean(target)


@pytest.mark.slow
def test_executors_read_one_snapshot_where_it_has_a_name(engines: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engines.live("spark")
    monkeypatch.setattr("auditor.bootstrap.plan.RANGE_ROWS", 100)
    source, target = engines.live("postgres"), engines.live("mariadb")
    both = made_small(tmp_path, source, target, "TIMESTAMP")
    steps: list[str] = []

    def step(name: str) -> None:
        steps.append(name)
        if name == "range":
            both.on_source("UPDATE s SET v = 'newer'")

    asked = spreading(both.settings, tmp_path)
    assert "compared row by row with the snapshot that it is read in" in use_cases.plan_bootstrap(
        both.settings, both.store, "small", spreading=asked
    )
    with followed("bootstrap", step):
        result = use_cases.run_bootstrap(both.settings, both.store, "small", spreading=asked)
    assert steps.count("verify") == 1 and result.rows == 500
    assert result.after and result.after.verdict is Verdict.MATCH and result.patched["updated"] == 500, result
    clean(target)


@pytest.mark.slow
@pytest.mark.parametrize("pair", chosen_pairs("mariadb-postgres", "postgres-mariadb", "mariadb-duckdb"), indirect=True)
def test_a_copy_by_executors_survives_kills(pair: LivePair, engines: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engines.live("spark")
    monkeypatch.setattr("auditor.bootstrap.plan.RANGE_ROWS", ROWS)
    clean(pair.target)
    both = damaged.make(pair, tmp_path, rows=60, differences=18)
    before = both.read_target()
    for step, nth in (("range", 1), ("read", 2), ("load", 1), ("loaded", 2), ("verify", 1), ("swapping", 1), ("swapped", 1)):
        if kill(both, tmp_path, step=step, nth=nth, by_spark=True) == 0:
            assert step == "loaded" and pair.target.dialect == "duckdb", "one session loads all files, so there is no second time"
            before = both.read_target()
        elif step not in ("swapping", "swapped"):
            assert both.read_target() == before
    result = use_cases.run_bootstrap(both.settings, both.store, "all", spreading=spreading(both.settings, tmp_path))
    assert result.after and result.after.verdict is Verdict.MATCH
    use_cases.drop_left(both.settings, both.store, "all")
    assert left(pair.target) == []
    both.store.close()


def made_small(folder: Path, source: LiveEngine, target: LiveEngine, moment: str, **audit: Any) -> small.Small:
    """Fill a source with 500 rows, and make an empty target."""
    clean(target)
    columns = f"(id BIGINT PRIMARY KEY, v VARCHAR(20), updated {moment})"
    rows = ", ".join(f"({number}, 'v{number}', '2024-01-01 00:00:00')" for number in range(500))
    kept = "DATETIME(6)" if target.dialect == "mysql" else "TIMESTAMP"
    made = ["DROP TABLE IF EXISTS t", f"CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR(80), updated {kept})"]
    filled = [f"CREATE TABLE s {columns}", f"INSERT INTO s VALUES {rows}"]
    return small.make(folder, target, filled, made, source=source, write={"max_rows": 1000}, **audit)


@pytest.mark.slow
def test_a_stop_and_a_damaged_file_leave_the_table_as_it_was(engines: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engines.live("spark")
    monkeypatch.setattr("auditor.bootstrap.plan.RANGE_ROWS", 100)
    both = made_small(tmp_path, engines.live("mariadb"), engines.live("postgres"), "DATETIME(6)")
    configured, stopped = spreading(both.settings, tmp_path), threading.Event()
    with pytest.raises(StatementCancelled), armed("bootstrap.read", stopped.set, nth=1):
        use_cases.run_bootstrap(both.settings, both.store, "small", followed=Followed(stopped=stopped), spreading=configured)
    assert both.rows() == []
    (one,) = stored.list_bootstraps(both.store)
    assert one.state == "stopped" and stored.list_ranges(both.store, one.bootstrap)

    def damage() -> None:
        (file,) = Path(tempfile.gettempdir()).glob(f"auditor-bootstrap-{one.bootstrap}/range-000003.txt")
        file.write_bytes(file.read_bytes().replace(b"v333", b"v334"))

    damaged_file = pytest.raises(BootstrapFailed, match=r"range-000003\.txt is not what was written there; drop the copy with --drop-old")
    with damaged_file, armed("bootstrap.load", damage, nth=1):
        use_cases.run_bootstrap(both.settings, both.store, "small", spreading=configured)
    assert both.rows() == []
    use_cases.drop_left(both.settings, both.store, "small")
    assert left(both.target) == []
    both.store.close()


@pytest.mark.slow
def test_the_command_tells_of_it_and_does_it(
    engines: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    engines.live("spark")
    monkeypatch.setattr("auditor.bootstrap.plan.RANGE_ROWS", 100)
    both = made_small(tmp_path, engines.live("mariadb"), engines.live("postgres"), "DATETIME(6)")
    asked = spreading(both.settings, tmp_path)
    written = json.loads(asked.config_file.read_text())
    written["store"] = {"url": both.store.name}
    written["connections"]["b"]["write"]["spark"] = {"above": 500, "path": str(tmp_path)}
    asked.config_file.write_text(json.dumps(written))
    command = ["bootstrap", "small", "--quiet", "--config", str(asked.config_file)]
    assert main(command) == 0
    assert "over the connection, without files" in capsys.readouterr().out
    written["connections"]["b"]["write"]["spark"]["above"] = 499
    asked.config_file.write_text(json.dumps(written))
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "road     by Spark: its executors read ranges into files, and load them" in printed
    assert "each range read at a moment of its own, then compared row by row with one snapshot" in printed
    assert main([*command, "--spark", "--apply"]) == 0
    assert "500 rows were copied and swapped in" in capsys.readouterr().out
    assert list(tmp_path.glob("auditor-bootstrap-*")) == [], "files are removed"
    assert main([*command, "--drop-old", "--apply"]) == 0
    both.store.close()
