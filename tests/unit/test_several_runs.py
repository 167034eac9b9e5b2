"""Several audits in one command: a line each, details of what is no match, one last line; side by side; stopped by a signal."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor import config
from auditor.background import Interruption, side_by_side
from auditor.cli import main
from auditor.errors import StoreError
from auditor.history import records
from auditor.model import SIDES
from auditor.store import open_store, runs
from tests.durations import SetDurations

AUDITS = 6


@pytest.fixture
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Six audits: four match, ``t4`` has a changed row, and ``t5`` is empty on both sides; ``gone`` is of no table."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUDITOR_CONFIG", raising=False)
    for side in SIDES:
        with duckdb.connect(f"{tmp_path}/{side}.duckdb") as database:
            for number in range(AUDITS):
                rows = 0 if number == AUDITS - 1 else 50
                database.execute(f"CREATE TABLE t{number} AS SELECT i::BIGINT AS id, 'v' || i AS v FROM range({rows}) r(i)")
    with duckdb.connect(f"{tmp_path}/target.duckdb") as database:
        database.execute("UPDATE t4 SET v = 'other' WHERE id = 7")
    audits = {f"t{number}": f"t{number}" for number in range(AUDITS)}
    value = {
        "connections": {side: {"url": f"duckdb:///{tmp_path}/{side}.duckdb"} for side in SIDES},
        "audits": {
            name: {**{side: {"connection": side, "table": table} for side in SIDES}, "key": ["id"]} for name, table in audits.items()
        },
    }
    (tmp_path / "auditor.yaml").write_text(json.dumps(value, indent=1), encoding="utf-8")
    return tmp_path


def stored(folder: Path) -> dict[str, str]:
    """Return the state of the last run of each audit."""
    settings = config.load(folder / "auditor.yaml")
    assert settings.store
    store = open_store(settings.store.url)
    try:
        return {run.audit: f"{run.state.value} {run.verdict.value}" for run in reversed(runs.list_runs(store, limit=100))}
    finally:
        store.close()


@pytest.mark.parametrize("jobs", [(), ("-j", "3")])
def test_each_audit_is_a_line_and_what_is_no_match_has_its_details(
    workdir: Path, jobs: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--all", "-q", *jobs]) == 3
    lines = capsys.readouterr().out.splitlines()
    heads = [line for line in lines if re.match(r"[A-Z]+  t\d|\d", line)]
    assert sorted(line.split()[0] for line in heads[:-1]) == ["MATCH"] * 4 + ["MISMATCH", "UNKNOWN"]
    assert re.fullmatch(r"6 audits: 4 match, 1 mismatch, 1 unknown in \d+\.\d s", heads[-1]) and lines[-1] == heads[-1]
    details = {head: lines[lines.index(head) + 1 : lines.index(following)] for head, following in pairwise(heads)}
    for head, below in details.items():
        assert not below if head.startswith("MATCH") else "Details: auditor show" in below[-1], (head, below)
    assert any("other" in line for line in details[next(head for head in heads if head.startswith("MISMATCH"))])


def test_verbose_prints_all_in_full_and_one_audit_has_no_last_line(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["run", "t0", "t1", "-q", "-v"])
    out = capsys.readouterr().out
    assert out.count("published score") == 2 and "bytes received" in out and "2 audits: 2 match in" in out
    main(["run", "t0", "-q"])
    assert "audit:" not in capsys.readouterr().out


def test_what_did_not_begin_is_counted(workdir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from auditor import service

    run = service.run_audit

    def run_audit(settings: Any, name: str, *given: Any, **more: Any) -> Any:
        if name == "t1":
            raise StoreError("the store is full")
        return run(settings, name, *given, **more)

    monkeypatch.setattr(service, "run_audit", run_audit)
    assert main(["run", "t0", "t1", "-q"]) == 3
    out, error = capsys.readouterr()
    assert error == "auditor: t1: the store is full\n"
    assert re.search(r"^2 audits: 1 match, 1 not run in", out, re.MULTILINE)


def test_json_is_in_the_order_of_the_names(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["run", "t3", "t0", "t4", "t1", "-q", "--json", "-j", "4"])
    assert [report["audit"] for report in json.loads(capsys.readouterr().out)] == ["t3", "t0", "t4", "t1"]


def test_due_runs_are_printed_the_same(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value = json.loads((workdir / "auditor.yaml").read_text())
    for audit in value["audits"].values():
        audit["schedule"] = "* * * * *"
    (workdir / "auditor.yaml").write_text(json.dumps(value))
    assert main(["run", "--due", "-j", "2"]) == 3
    out = capsys.readouterr().out
    assert re.search(r"^6 audits: 4 match, 1 mismatch, 1 unknown in \d", out, re.MULTILINE) and out.count("MATCH  t") == 5
    assert set(stored(workdir).values()) == {"done match", "done mismatch", "done unknown"}


# side by side


def test_no_more_than_so_many_run_at_once_and_results_come_as_they_end() -> None:
    running, most, lock = 0, 0, threading.Lock()

    def work(number: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02 * (3 - number % 3))
        with lock:
            running -= 1
        return number

    found = list(side_by_side([partial(work, number) for number in range(9)], 3, threading.Event(), Interruption()))
    assert sorted(found) == list(range(9)) and found != list(range(9)) and most == 3


def test_a_work_that_fails_stops_the_others_and_none_begins_after_it(set_durations: SetDurations) -> None:
    set_durations(signal_poll=0.01)
    interruption, begun = Interruption(), list[int]()

    def work(number: int) -> int:
        begun.append(number)
        if number == 1:
            raise ValueError("a bug")
        stop = threading.Event()
        with interruption.calling(stop.set):
            assert stop.wait(60)
        return number

    results: list[int] = []
    with pytest.raises(ValueError, match="a bug"):
        for number in side_by_side([partial(work, number) for number in range(5)], 2, threading.Event(), interruption):
            results.append(number)  # what came before the error counts
    assert (results, sorted(begun)) == ([0], [0, 1])


def test_what_begins_after_somebody_asked_is_stopped_at_once() -> None:
    interruption, stopped = Interruption(), threading.Event()
    interruption.ask()
    with interruption.calling(stopped.set):
        assert stopped.is_set()


# signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("after", [0.0, 0.001, 0.003, 0.01, 0.03, 0.1])
def test_a_signal_loses_no_run(
    workdir: Path, number: int, jobs: str, after: float, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A signal arrives at a moment around the storing of the first outcome: each run that began is whole or cancelled."""
    save, sent = records.save_result, threading.Event()

    def save_result(*given: Any, **more: Any) -> Any:
        if not sent.is_set():
            sent.set()
            threading.Timer(after, os.kill, (os.getpid(), number)).start()
        time.sleep(0.02)  # so that the signal arrives at each moment of it
        return save(*given, **more)

    monkeypatch.setattr(records, "save_result", save_result)
    code = main(["run", "--all", "-q", "-j", jobs])
    out, error = capsys.readouterr()
    states = stored(workdir)
    assert states and set(states.values()) <= {"done match", "done mismatch", "done unknown", "cancelled unknown"}, states
    assert states["t0"] == "done match" or jobs == "2"
    if "stopping the runs" in error:
        assert code == 3, error
        shown = len(re.findall(r"^(?:MATCH|MISMATCH|UNKNOWN) ", out, re.MULTILINE))
        assert shown == len(states)
        assert ("not run" in out) == (len(states) < AUDITS)
