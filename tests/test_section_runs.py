"""What a run of a section leaves: its own findings in full, and how the audit stands exactly as it was."""

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
from auditor import cli, keep, notify, service
from auditor.config import Audit, Settings, checked
from auditor.errors import ConfigError
from auditor.model import Progress, Report, State, Verdict
from auditor.report import rendered
from auditor.report.day import day
from auditor.service import audits
from auditor.store import open_store, retention, runs, standing, stretches
from auditor.store.standing import Standing
from tests.test_notify import report as reported

pytestmark = pytest.mark.duckdb

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
INSIDE, OUTSIDE = {"keys": {"from": 1000, "to": 2000}}, {"keys": {"from": 3001, "to": 3999}}
TOLD = "only rows with keys 1,000 to 2,000 were compared; nothing is said of others"


class Table:
    """A table on both sides of an audit whose target lacks the row 1,500."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.paths = {side: folder / f"{side}.duckdb" for side in ("source", "target")}
        self.store = open_store(f"sqlite:///{folder}/store.db")
        for path in self.paths.values():
            with duckdb.connect(str(path)) as connection:
                connection.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR)")
                connection.execute("INSERT INTO t SELECT i, 'row ' || i FROM range(10000) r(i)")
        self.execute("DELETE FROM t WHERE id = 1500", ["target"])

    def mend(self) -> None:
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
        return checked(self.values(**audit))

    def run(self, overrides: dict[str, Any] | None = None, **audit: Any) -> Report:
        report = service.run_audit(self.settings(**audit), "t", store=self.store, overrides=overrides or {})
        assert report.state is State.DONE, report.reasons
        return report

    def latest(self) -> str | None:
        """The run by which the audit is said to stand, wherever that is said."""
        (one,) = audits.overview(self.settings(), self.store)
        (entry,) = day(self.store, self.settings(), dt.datetime.now(dt.UTC).date()).entries
        last = runs.latest(self.store, "t")
        found = {one.run if one else None for one in (one.latest, entry.run, last)}
        assert len(found) == 1 and [point.run for point in one.trend] == [point.run for point in entry.trend]
        return found.pop()


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def test_a_match_of_a_section_mends_nothing(table: Table) -> None:
    failing = table.run()
    partial = table.run(OUTSIDE)
    assert (failing.verdict, partial.verdict) == (Verdict.MISMATCH, Verdict.MATCH)
    assert table.latest() == failing.run
    assert partial.verified_through is None and standing.get(table.store, "t").verified_through is None
    assert [one.run for one in runs.listed(table.store, audit="t")] == [partial.run, failing.run], "it stands in the history"
    table.mend()
    whole = table.run()
    after = table.run(INSIDE)
    assert whole.verified_through and after.verified_through == whole.verified_through, "it adds nothing either"
    assert standing.get(table.store, "t").verified_through == whole.verified_through and table.latest() == whole.run


def test_an_audit_with_runs_of_sections_alone_was_never_run(table: Table) -> None:
    table.run(INSIDE)
    assert table.latest() is None
    (entry,) = day(table.store, table.settings(), dt.datetime.now(dt.UTC).date()).entries
    assert entry.status == "never" and standing.get(table.store, "t") == Standing()


def test_a_run_that_goes_on_is_shown_whatever_it_is_of(table: Table) -> None:
    """While it goes on it keeps others away, so it is to be seen."""
    runs.begin(table.store, run="a" * 32, audit="t", definition={}, method="exact", overrides=INSIDE)
    (one,) = audits.overview(table.settings(), table.store)
    (entry,) = day(table.store, table.settings(), dt.datetime.now(dt.UTC).date()).entries
    assert one.running and one.running.run == "a" * 32 and one.latest is None
    assert entry.running


@pytest.mark.parametrize(
    ("told", "verdict", "occasion"),
    [
        ("mismatch", Verdict.MATCH, None),
        ("unknown", Verdict.MATCH, None),
        (None, Verdict.MATCH, None),
        (None, Verdict.UNKNOWN, None),
        ("mismatch", Verdict.UNKNOWN, None),
        (None, Verdict.MISMATCH, "mismatch"),
        ("mismatch", Verdict.MISMATCH, None),
    ],
)
def test_whom_it_concerns(table: Table, told: str | None, verdict: Verdict, occasion: str | None) -> None:
    section = table.run(INSIDE).section
    assert section
    before = Standing(told_verdict=told, told_at=NOW if told else None)
    assert notify.decide(before, reported(verdict, section=section), NOW, 3600.0) == occasion
    failed = reported(verdict, section=section, state=State.FAILED, plan=None)
    assert verdict is Verdict.MISMATCH or notify.decide(before, failed, NOW, 3600.0) is None


def test_a_message_says_of_which_rows_it_is(table: Table) -> None:
    message = notify.message(table.run(INSIDE), "mismatch")
    assert message.title == "t: MISMATCH, 1 row differs among the rows with keys 1,000 to 2,000"
    assert message.lines[1] == TOLD


def test_it_teaches_the_next_runs_nothing(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a choice of method nor what counts as the columns of last time: a whole run has to see what a section's saw."""
    monkeypatch.setattr(keep, "HISTORY", 2)
    table.mend()
    audit = Audit.model_validate(table.settings().audits["t"].model_dump())
    table.run()
    known = keep.before(table.store, "t", audit)
    table.execute("ALTER TABLE t ADD COLUMN more INTEGER")
    table.execute("UPDATE t SET v = 'x'", ["target"])
    for _ in range(keep.HISTORY):
        partial = table.run(INSIDE)
    assert partial.verdict is Verdict.MISMATCH and partial.schema_changes
    after = keep.before(table.store, "t", audit)
    assert (after.shares, after.schema, after.runs) == (known.shares, known.schema, known.runs) == ((0.0,), known.schema, 1)
    assert len(table.run().schema_changes) == len(partial.schema_changes)


def test_a_ladder_keeps_its_turns(table: Table) -> None:
    """Every second run of the whole table goes up; a run of a section between takes no turn."""
    table.mend()
    ladder = {"levels": ["counts", "exact"], "every": 2}
    methods = [table.run(overrides, ladder=ladder).method for overrides in ({}, INSIDE, {}, INSIDE, INSIDE, {}, {})]
    assert [methods[at] for at in (0, 2, 5, 6)] == ["exact", "counts", "exact", "counts"]


def test_a_rolling_audit_goes_on_where_it_was(table: Table) -> None:
    rolling = {"rolling": {"per_run": "25%"}}
    first = table.run(**rolling)
    partial = table.run(INSIDE, **rolling)
    assert partial.plan and not partial.plan.stretches and partial.covered == 1 and partial.comparison
    assert partial.comparison.rows == {"source": 1001, "target": 1000}
    assert first.plan
    by = keep.layout(first.plan, keep.settings(runs.find(table.store, first.run).definition))
    assert [(one.first, one.end, one.run) for one in stretches.of(table.store, "t", by)] == [(0, 25, first.run)]
    whole = service.whole(table.store, "t")
    assert whole and (whole.read, whole.unequal) == (25, 1), "the picture of the whole table stays"
    second = table.run(**rolling)
    assert second.plan and second.plan.stretches == ((25, 50),)
    table.mend()
    reports = [table.run(OUTSIDE, **rolling) for _ in range(3)]
    assert not any(one.verified_through for one in reports)


def test_the_run_that_tells_how_it_stands_is_kept(table: Table) -> None:
    failing = table.run()
    for _ in range(3):
        partial = table.run(OUTSIDE)
    retention.prune(table.store, runs=1, days=None, now=dt.datetime.now(dt.UTC))
    assert [one.run for one in runs.listed(table.store)] == [partial.run, failing.run] and table.latest() == failing.run


def test_it_is_resumed_as_it_was_begun(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """The section is kept with the run: whoever goes on with it looks at the same rows, also where the plan is made anew."""

    def interrupted(told: Progress) -> None:
        if told.doing == "naming differences":
            raise KeyboardInterrupt

    settings = table.settings()
    first = service.run_audit(settings, "t", interrupted, table.store, overrides=INSIDE)
    assert first.state is State.CANCELLED and first.resumable
    table.execute("DELETE FROM t WHERE id = 5000", ["target"])
    resumed = service.resume(settings, table.store, first.run)
    assert resumed.verdict is Verdict.MISMATCH and resumed.reasons[0] == TOLD
    assert resumed.section and (resumed.section.first, resumed.section.last) == (1000, 2000)
    assert resumed.differences and [one.key for one in resumed.differences.named] == [{"id": "1500"}]
    assert runs.find(table.store, first.run).overrides == INSIDE and not runs.find(table.store, first.run).is_whole


def test_a_store_tells_sections_from_settings(table: Table) -> None:
    """What is asked otherwise does not make a run one of a section."""
    plain = table.run({"t": 2, "threshold": 0.5, "method": "exact"})
    assert table.latest() == plain.run and runs.find(table.store, plain.run).is_whole


def test_every_report_says_so(table: Table) -> None:
    report = table.run(INSIDE)
    kept = keep.report(table.store, report.run)
    assert kept and kept.section == report.section
    for format in rendered.FORMATS:
        text = rendered.run(kept, keep.picture(table.store, report.run), format)
        assert "only rows with keys 1,000 to 2,000 were compared" in text, format
        assert "of all rows are in both tables" not in text, format
    assert json.loads(rendered.run(kept, None, "json"))["section"] == "rows with keys 1,000 to 2,000"


def test_it_is_looked_at_without_a_store_too(table: Table) -> None:
    report = service.run_audit(table.settings(), "t", overrides=OUTSIDE)
    assert report.verdict is Verdict.MATCH and report.comparison and report.comparison.rows["source"] == 999


def test_an_audit_cannot_stand_for_a_section(table: Table) -> None:
    """A standing audit of some rows is one with a filter; a section is asked for anew each time."""
    with pytest.raises(ConfigError, match="there is no setting 'keys' here"):
        table.settings(keys={"from": 1})


class TestCommandLine:
    @pytest.fixture
    def command(self, table: Table, monkeypatch: pytest.MonkeyPatch) -> Table:
        (table.folder / "auditor.yaml").write_text(yaml.safe_dump(table.values()))
        monkeypatch.chdir(table.folder)
        return table

    def test_runs_and_shows(self, command: Table, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["run", "t", "--keys", "1501..", "--quiet"]) == 0
        assert "rows with keys from 1,501 on" in capsys.readouterr().out
        assert cli.main(["run", "t", "--keys", "1000..2000", "--quiet"]) == 1
        told = capsys.readouterr().out
        assert TOLD in told and "of the rows with keys 1,000 to 2,000 are in both tables" in told
        assert cli.main(["show", "t"]) == 0
        assert capsys.readouterr().out.split("\n")[1:4] == told.split("\n")[1:4]
        assert cli.main(["run", "t", "--keys=-5..1499", "--quiet", "--no-store"]) == 0

    @pytest.mark.parametrize("text", ["", "5", "..", "1..x", "1..2..3", "1.5..2", "1;..2", "1000-2000"])
    def test_what_is_no_range(self, command: Table, text: str, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as left:
            cli.main(["run", "t", f"--keys={text}"])
        assert left.value.code == 2 and "is no range; write FROM..TO, FROM.. or ..TO" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("asked", "sentence"),
        [
            (["--keys", "9..1"], "keys: from has to be at most to"),
            (["--keys", f"..{2**64}"], "keys.to: this should be less than or equal to"),
            (["--times", "2024-01-01.."], "times: the audit names no column of times"),
            (["--times", "yesterday.."], "times.from: write a time as 2026-11-01"),
        ],
    )
    def test_what_makes_no_section(self, command: Table, asked: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["run", "t", *asked]) == 2
        assert sentence in capsys.readouterr().err

    def test_what_is_due_is_of_whole_tables(self, command: Table, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["run", "--due", "--keys", "1..2"]) == 2
        assert "is of whole tables" in capsys.readouterr().err

    def test_lists_say_which_runs_are_of_a_section(self, command: Table, capsys: pytest.CaptureFixture[str]) -> None:
        command.run()
        partial = command.run(INSIDE)
        runs.begin(command.store, run="a" * 32, audit="t", definition={}, method="exact", overrides={"keys": {"to": 5}})
        assert cli.main(["history", "t"]) == 0
        told = capsys.readouterr().out
        assert [told.count(one) for one in (" t  ", " t (keys 1000..2000) ", " t (keys ..5) ")] == [1, 1, 1]
        assert cli.main(["show", "a" * 32]) == 0
        assert "t (keys ..5): run" in capsys.readouterr().out
        assert cli.main(["show", partial.run]) == 0
        assert TOLD in capsys.readouterr().out

    def test_times_with_fractions(self, command: Table, capsys: pytest.CaptureFixture[str]) -> None:
        (command.folder / "auditor.yaml").write_text(yaml.safe_dump(command.values(settle={"column": "seen", "lag": "1h"})))
        command.execute("ALTER TABLE t ADD COLUMN seen TIMESTAMP DEFAULT TIMESTAMP '2024-01-01 00:00:00.25'")
        bounds = "2024-01-01T00:00:00.25..2024-01-01T01:00:00.250001+01:00"
        assert cli.main(["run", "t", "--times", bounds, "--quiet", "--format", "json"]) == 1
        assert json.loads(capsys.readouterr().out)["rows"] == {"source": 10000, "target": 9999}
        assert cli.main(["run", "t", "--times", "2024-01-01T00:00:00.250001..", "--quiet"]) == 3, "no row, no claim"


def test_the_wrong_rows_are_never_read(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every statement on the table, whatever it is for, holds the bounds of the section."""
    seen: list[str] = []
    with contextlib.closing(dialects.connect(f"duckdb:///{table.paths['source']}")) as session:
        kind = type(session)
    real = kind.query, kind.stream

    def query(self: Any, sql: str, *rest: Any) -> Any:
        seen.append(sql)
        return real[0](self, sql, *rest)

    def stream(self: Any, sql: str, *rest: Any) -> Any:
        seen.append(sql)
        return real[1](self, sql, *rest)

    monkeypatch.setattr(kind, "query", query)
    monkeypatch.setattr(kind, "stream", stream)
    for overrides in ({}, {"recheck": {"times": 1, "wait": "1ms"}}, {"method": "counts"}, {"method": "minhash"}):
        table.run({**overrides, **INSIDE})
    of_table = [sql for sql in seen if '."t"' in sql or ' "t"' in sql]
    assert len(of_table) > 12
    assert [sql for sql in of_table if '"id" >= 1000' not in sql or '"id" <= 2000' not in sql] == []


def test_the_answer_of_a_run_that_could_not_be_planned_says_so_too(table: Table) -> None:
    table.execute("DROP TABLE t", ["target"])
    report = service.run_audit(table.settings(), "t", store=table.store, overrides=INSIDE)
    assert report.state is State.FAILED and report.section and str(report.section) == "rows with keys 1,000 to 2,000"
