"""Runs of a slice: they report their own findings in full and leave the audit's standing unchanged."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml

import dialects
from auditor import cli, service
from auditor.config import Audit, Settings, validate_settings
from auditor.errors import ConfigError
from auditor.history import fingerprint, records
from auditor.model import Progress, Report, State, Verdict
from auditor.report import render
from auditor.report.day import load_day
from auditor.service import audits, stored_runs
from auditor.store import audit_state, open_store, pruning, rolling_parts, run_lifecycle, runs
from auditor.store.audit_state import AuditState

pytestmark = pytest.mark.duckdb

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
INSIDE, OUTSIDE = {"keys": {"from": 1000, "to": 2000}}, {"keys": {"from": 3001, "to": 3999}}
ONLY_SLICE = "only rows with keys 1,000 to 2,000 were compared; nothing is said of others"


class Table:
    """A table on both sides of an audit; row 1,500 is missing in the target."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.paths = {side: folder / f"{side}.duckdb" for side in ("source", "target")}
        self.store = open_store(f"sqlite:///{folder}/store.db")
        for path in self.paths.values():
            with duckdb.connect(str(path)) as connection:
                connection.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR)")
                connection.execute("INSERT INTO t SELECT i, 'row ' || i FROM range(10000) r(i)")
        self.execute("DELETE FROM t WHERE id = 1500", ["target"])

    def repair(self) -> None:
        self.execute("INSERT OR IGNORE INTO t VALUES (1500, 'row 1500')", ["target"])

    def execute(self, sql: str, sides: Sequence[str] = ("source", "target")) -> None:
        for side in sides:
            with duckdb.connect(str(self.paths[side])) as connection:
                connection.execute(sql)

    def values(self, **audit: Any) -> dict[str, Any]:
        ends = {side: {"connection": side, "table": "t"} for side in self.paths}
        return {
            "connections": {side: {"url": f"duckdb:///{path}"} for side, path in self.paths.items()},
            "audits": {"t": {**ends, "key": ["id"], "partition": {"size": 100}, **audit}},
            "store": {"url": f"sqlite:///{self.folder}/store.db"},
        }

    def settings(self, **audit: Any) -> Settings:
        return validate_settings(self.values(**audit))

    def run(self, overrides: dict[str, Any] | None = None, **audit: Any) -> Report:
        report = service.run_audit(self.settings(**audit), "t", store=self.store, overrides=overrides or {})
        assert report.state is State.DONE, report.reasons
        return report

    def latest(self) -> str | None:
        """Return the run that decides the audit's standing; overview, daily report and store must agree on it."""
        (one,) = audits.overview(self.settings(), self.store)
        (entry,) = load_day(self.store, self.settings(), dt.datetime.now(dt.UTC).date()).entries
        last = runs.get_latest_run(self.store, "t")
        found = {one.run if one else None for one in (one.standing.run, entry.run, last)}
        assert len(found) == 1 and [point.run for point in one.trend] == [point.run for point in entry.trend]
        return found.pop()


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def test_match_of_a_slice_does_not_replace_the_latest_run(table: Table) -> None:
    failing = table.run()
    partial = table.run(OUTSIDE)
    assert (failing.verdict, partial.verdict) == (Verdict.MISMATCH, Verdict.MATCH)
    assert table.latest() == failing.run
    assert partial.verified_through is None and audit_state.get_state(table.store, "t").verified_through is None
    assert [one.run for one in runs.list_runs(table.store, audit="t")] == [partial.run, failing.run], "the history lists both runs"
    table.repair()
    whole = table.run()
    after = table.run(INSIDE)
    assert whole.verified_through and after.verified_through == whole.verified_through, "a matching slice does not advance it either"
    assert audit_state.get_state(table.store, "t").verified_through == whole.verified_through and table.latest() == whole.run


def test_audit_with_only_slice_runs_counts_as_never_run(table: Table) -> None:
    table.run(INSIDE)
    assert table.latest() is None
    (entry,) = load_day(table.store, table.settings(), dt.datetime.now(dt.UTC).date()).entries
    assert entry.status == "never" and audit_state.get_state(table.store, "t") == AuditState()


def test_running_slice_is_shown(table: Table) -> None:
    """A running slice blocks other runs, so it has to be visible."""
    run_lifecycle.start_run(table.store, run="a" * 32, audit="t", definition={}, method="exact", overrides=INSIDE)
    (one,) = audits.overview(table.settings(), table.store)
    (entry,) = load_day(table.store, table.settings(), dt.datetime.now(dt.UTC).date()).entries
    assert one.standing.active and one.standing.active.run == "a" * 32 and one.standing.newest is None
    assert one.standing.status == entry.status == "never" and "with other settings: keys 1000..2000" in entry.running


def test_message_is_marked_in_every_format(table: Table) -> None:
    report = table.run({**INSIDE, "threshold": 0.5, "t": 3})
    assert report.verdict is Verdict.MATCH and report.other_settings == "keys 1000..2000, threshold 0.5", "t: 3 is the audit's own"
    stored = records.load_report(table.store, report.run)
    assert stored
    for format in render.FORMATS:
        assert "keys 1000..2000, threshold 0.5" in " ".join(render.run(stored, None, format).split()), format


def test_slice_leaves_nothing_for_later_runs(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice changes neither the choice of method nor the remembered schema: the next whole run reports the same changes."""
    monkeypatch.setattr(records, "LOOKBACK_RUNS", 2)
    table.repair()
    audit = Audit.model_validate(table.settings().audits["t"].model_dump())
    table.run()
    connections = table.settings().connections
    known = records.load_earlier_runs(table.store, "t", audit, connections)
    table.execute("ALTER TABLE t ADD COLUMN more INTEGER")
    table.execute("UPDATE t SET v = 'x' WHERE id % 100 = 0", ["target"])
    for _ in range(records.LOOKBACK_RUNS):
        partial = table.run(INSIDE)
    assert partial.verdict is Verdict.MISMATCH and partial.schema_changes
    after = records.load_earlier_runs(table.store, "t", audit, connections)
    unchanged = (known.differing_shares, known.schema, known.ended_runs)
    assert (after.differing_shares, after.schema, after.ended_runs) == unchanged == ((0.0,), known.schema, 1)
    assert len(table.run().schema_changes) == len(partial.schema_changes)


@pytest.mark.slow
def test_slice_runs_do_not_count_for_the_ladder(table: Table) -> None:
    """Every second run of the whole table escalates; runs of a slice in between do not count."""
    table.repair()
    ladder = {"levels": ["counts", "exact"], "every": 2}
    methods = [table.run(overrides, ladder=ladder).method for overrides in ({}, INSIDE, {}, INSIDE, INSIDE, {}, {})]
    assert [methods[at] for at in (0, 2, 5, 6)] == ["exact", "counts", "exact", "counts"]


@pytest.mark.slow
def test_rolling_audit_continues_after_a_slice(table: Table) -> None:
    rolling = {"rolling": {"per_run": "25%"}}
    first = table.run(**rolling)
    partial = table.run(INSIDE, **rolling)
    assert partial.plan and not partial.plan.partition_ranges and partial.covered == 1 and partial.comparison
    assert partial.comparison.rows == {"source": 1001, "target": 1000}
    assert first.plan
    by = fingerprint.hash_layout(first.plan, fingerprint.hash_settings(runs.get_run(table.store, first.run).definition))
    assert [(one.first, one.end, one.run) for one in rolling_parts.list_parts(table.store, "t", by)] == [(0, 25, first.run)]
    whole = stored_runs.rolling_table(table.store, "t")
    assert whole and (whole.partitions_read, whole.unequal) == (25, 1), "the state of the whole table is unchanged"
    second = table.run(**rolling)
    assert second.plan and second.plan.partition_ranges == ((25, 50),)
    table.repair()
    reports = [table.run(OUTSIDE, **rolling) for _ in range(3)]
    assert not any(one.verified_through for one in reports)


def test_prune_keeps_the_latest_whole_run(table: Table) -> None:
    failing = table.run()
    for _ in range(3):
        partial = table.run(OUTSIDE)
    pruning.prune(table.store, runs=1, days=None, now=dt.datetime.now(dt.UTC))
    assert [one.run for one in runs.list_runs(table.store)] == [partial.run, failing.run] and table.latest() == failing.run


def test_resumed_slice_reads_the_same_rows(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """The slice is stored with the run, so a resumed run reads the same rows even if it is planned again."""

    def interrupted(progress: Progress) -> None:
        if progress.doing == "finding the rows that differ":
            raise KeyboardInterrupt

    settings = table.settings()
    first = service.run_audit(settings, "t", interrupted, table.store, overrides=INSIDE)
    assert first.state is State.CANCELLED and first.resumable
    table.execute("DELETE FROM t WHERE id = 5000", ["target"])
    resumed = stored_runs.resume(settings, table.store, first.run)
    assert resumed.verdict is Verdict.MISMATCH and resumed.reasons[0] == ONLY_SLICE
    assert resumed.slice and (resumed.slice.first, resumed.slice.last) == (1000, 2000)
    assert resumed.differences is not None and [one.key for one in resumed.differences.named] == [{"id": "1500"}]
    assert runs.get_run(table.store, first.run).overrides == INSIDE and runs.get_run(table.store, first.run).is_one_off


@pytest.mark.quick_for("overrides0", "overrides2")
@pytest.mark.parametrize("overrides", [{"t": 2}, {"threshold": 0}, {"method": "counts"}, {"recheck": {"times": 1, "wait": "1ms"}}])
def test_run_with_other_settings_is_a_one_off_run(table: Table, overrides: dict[str, Any]) -> None:
    own = table.run({"t": 3, "method": "exact", "threshold": 1, "force": True})
    assert not runs.get_run(table.store, own.run).is_one_off and runs.get_run(table.store, own.run).overrides == {"force": True}
    other = table.run(overrides)
    assert runs.get_run(table.store, other.run).is_one_off and other.other_settings
    assert table.latest() == own.run and audit_state.get_state(table.store, "t").run_count == 1


def test_every_report_format_names_the_slice(table: Table) -> None:
    report = table.run(INSIDE)
    stored = records.load_report(table.store, report.run)
    assert stored and stored.slice == report.slice
    for format in render.FORMATS:
        text = render.run(stored, records.load_partition_map(table.store, report.run), format)
        assert "only rows with keys 1,000 to 2,000 were compared" in text, format
        assert "of all rows are in both tables" not in text, format
    assert json.loads(render.run(stored, None, "json"))["slice"] == "rows with keys 1,000 to 2,000"


def test_slice_runs_without_a_store(table: Table) -> None:
    report = service.run_audit(table.settings(), "t", overrides=OUTSIDE)
    assert report.verdict is Verdict.MATCH and report.comparison and report.comparison.rows["source"] == 999


def test_audit_settings_cannot_contain_a_slice(table: Table) -> None:
    """An audit of some rows uses where; a slice is requested for each run."""
    with pytest.raises(ConfigError, match="unknown setting 'keys'"):
        table.settings(keys={"from": 1})


class TestCommandLine:
    @pytest.fixture
    def command(self, table: Table, monkeypatch: pytest.MonkeyPatch) -> Table:
        (table.folder / "auditor.yaml").write_text(yaml.safe_dump(table.values()))
        monkeypatch.chdir(table.folder)
        return table

    @pytest.mark.slow
    def test_run_and_show_name_the_slice(self, command: Table, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["run", "t", "--keys", "1501..", "--quiet"]) == 0
        assert "rows with keys from 1,501 on" in capsys.readouterr().out
        assert cli.main(["run", "t", "--keys", "1000..2000", "--quiet"]) == 1
        printed = capsys.readouterr().out
        assert ONLY_SLICE in printed and "of the rows with keys 1,000 to 2,000 are in both tables" in printed
        assert cli.main(["show", "t"]) == 0
        shown = capsys.readouterr().out
        assert "t: NEVER RUN" in shown and shown.split("\n")[4:7] == printed.split("\n")[1:4]
        assert cli.main(["run", "t", "--keys=-5..1499", "--quiet", "--no-store"]) == 0
        capsys.readouterr()
        assert cli.main(["run", "t", "--method", "signature", "--quiet", "--no-store"]) == 1
        assert "run with other settings (method signature)" in capsys.readouterr().out
        assert cli.main(["run", "t", "--method", "exact", "--t", "5", "--quiet", "--no-store"]) == 1
        assert "run with other settings (t 5)" in capsys.readouterr().out

    @pytest.mark.parametrize("text", ["", "5", "..", "1..x", "1..2..3", "1.5..2", "1;..2", "1000-2000"])
    def test_invalid_range_is_rejected(self, command: Table, text: str, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as caught:
            cli.main(["run", "t", f"--keys={text}"])
        assert caught.value.code == 2 and "is not a range; write FROM..TO, FROM.. or ..TO" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("flags", "sentence"),
        [
            (["--keys", "9..1"], "argument --keys: '9..1': the first key is greater than the last; exchange them"),
            (["--keys", f"..{2**64}"], "write keys from -"),
            (["--times", "2024-02-01..2024-01-01"], "argument --times: '2024-02-01..2024-01-01': the first time is not before the last"),
            (["--times", "yesterday.."], "argument --times: 'yesterday..': write a time as 2026-11-01"),
            (["--t", "17"], "argument --t: '17' is not a number of differences; write 1 to 16"),
        ],
    )
    def test_invalid_slice_is_rejected(self, command: Table, flags: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as caught:
            cli.main(["run", "t", *flags])
        error = capsys.readouterr().err
        assert caught.value.code == 2 and error.count(sentence) == 1, "once, in the words of the command line"

    def test_times_of_an_audit_without_them_are_refused(self, command: Table, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["run", "t", "--times", "2024-01-01.."]) == 2
        assert "the audit names no column of times" in capsys.readouterr().err

    def test_due_cannot_be_combined_with_keys(self, command: Table, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["run", "--due", "--keys", "1..2"]) == 2
        assert "--due cannot be combined with" in capsys.readouterr().err

    def test_history_marks_slice_runs(self, command: Table, capsys: pytest.CaptureFixture[str]) -> None:
        command.run()
        partial = command.run(INSIDE)
        run_lifecycle.start_run(command.store, run="a" * 32, audit="t", definition={}, method="exact", overrides={"keys": {"to": 5}})
        assert cli.main(["history", "t"]) == 0
        printed = capsys.readouterr().out
        marks = (" t  ", " t (one-off) ", ": with other settings: keys 1000..2000", ": with other settings: keys ..5")
        assert [printed.count(one) for one in marks] == [1, 2, 1, 1]
        assert cli.main(["show", "a" * 32]) == 0
        assert "t (with other settings: keys ..5): run" in capsys.readouterr().out
        assert cli.main(["show", partial.run]) == 0
        assert ONLY_SLICE in capsys.readouterr().out

    def test_times_may_have_fractions_and_offsets(self, command: Table, capsys: pytest.CaptureFixture[str]) -> None:
        (command.folder / "auditor.yaml").write_text(yaml.safe_dump(command.values(settle={"column": "seen", "lag": "1h"})))
        command.execute("ALTER TABLE t ADD COLUMN seen TIMESTAMP DEFAULT TIMESTAMP '2024-01-01 00:00:00.25'")
        bounds = "2024-01-01T00:00:00.25..2024-01-01T01:00:00.250001+01:00"
        assert cli.main(["run", "t", "--times", bounds, "--quiet", "--format", "json"]) == 1
        assert json.loads(capsys.readouterr().out)["rows"] == {"source": 10000, "target": 9999}
        assert cli.main(["run", "t", "--times", "2024-01-01T00:00:00.250001..", "--quiet"]) == 3, "no rows, so no verdict"


def test_rows_outside_the_slice_are_never_read(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every statement on the table contains the bounds of the slice."""
    statements: list[str] = []
    with contextlib.closing(dialects.connect(f"duckdb:///{table.paths['source']}")) as session:
        kind = type(session)
    real = kind.query, kind.stream

    def query(self: Any, sql: str, *rest: Any) -> Any:
        statements.append(sql)
        return real[0](self, sql, *rest)

    def stream(self: Any, sql: str, *rest: Any) -> Any:
        statements.append(sql)
        return real[1](self, sql, *rest)

    monkeypatch.setattr(kind, "query", query)
    monkeypatch.setattr(kind, "stream", stream)
    for overrides in ({}, {"recheck": {"times": 1, "wait": "1ms"}}, {"method": "counts"}, {"method": "minhash"}):
        table.run({**overrides, **INSIDE})
    of_table = [sql for sql in statements if '."t"' in sql or ' "t"' in sql]
    assert len(of_table) > 12
    assert [sql for sql in of_table if '"id" >= 1000' not in sql or '"id" <= 2000' not in sql] == []


def test_report_of_an_unplannable_run_names_the_slice(table: Table) -> None:
    table.execute("DROP TABLE t", ["target"])
    report = service.run_audit(table.settings(), "t", store=table.store, overrides=INSIDE)
    assert report.state is State.FAILED and report.slice and str(report.slice) == "rows with keys 1,000 to 2,000"
