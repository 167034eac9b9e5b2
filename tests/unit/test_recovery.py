"""A recovery is reported when everything that differed was seen equal, not after a part of the table or by a weaker method."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor import service
from auditor.config import Settings, validate_settings
from auditor.model import Verdict
from auditor.service import notify, stored_runs
from auditor.store import Store, open_store

pytestmark = pytest.mark.duckdb
ROWS, SIZE = 10_000, 1000


class Told:
    """Runs an audit with a channel, and keeps the titles that were sent."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.store: Store = open_store(f"sqlite:///{folder}/auditor.db")
        self.titles: list[str] = []
        monkeypatch.setattr(notify, "send", lambda _, __, message, *___: self.titles.append(message.title))
        for side in ("source", "target"):
            self.execute(side, "CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR)")
            self.execute(side, f"INSERT INTO t SELECT i, 'v' || i FROM range({ROWS}) r(i)")

    def execute(self, side: str, sql: str) -> None:
        with duckdb.connect(str(self.folder / f"{side}.duckdb")) as connection:
            connection.execute(sql)

    def run(self, overrides: dict[str, Any] | None = None, **audit: Any) -> Verdict:
        ends = {side: {"connection": side, "table": "t"} for side in ("source", "target")}
        settings: Settings = validate_settings(
            {
                "connections": {side: {"url": f"duckdb:///{self.folder}/{side}.duckdb"} for side in ends},
                "audits": {"t": {**ends, "partition": {"size": SIZE}, **audit}},
                "notify": {"channels": {"ops": {"url": "json://127.0.0.1"}}},
            }
        )
        report = service.run_audit(settings, "t", store=self.store, overrides=overrides or {})
        assert notify.notify_run(settings.notify, self.store, report) == []
        return report.verdict


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Told:
    return Told(tmp_path, monkeypatch)


ROLLING: dict[str, Any] = {"rolling": {"per_run": "30%"}}


def test_rolling_audit_recovers_once_the_part_that_differed_is_read_again(told: Told) -> None:
    told.execute("target", "UPDATE t SET v = 'x' WHERE id = 7")
    assert told.run(**ROLLING) is Verdict.MISMATCH
    assert [told.run(**ROLLING) for _ in range(2)] == [Verdict.MATCH] * 2, "other parts match"
    assert told.titles == ["t: MISMATCH, 1 row differs"]
    told.execute("target", "UPDATE t SET v = 'v7' WHERE id = 7")
    assert told.run(**ROLLING) is Verdict.MATCH
    assert told.titles[1:] == ["t: MATCH again"], "the fourth run reads the first partitions again"


@pytest.mark.slow
def test_rolling_audit_whose_settings_changed_recovers_after_all_is_read(told: Told) -> None:
    """Parts that were read under other settings are forgotten, and with them that they differed."""
    told.execute("target", "UPDATE t SET v = 'x' WHERE id = 9007")
    assert [told.run(**ROLLING) for _ in range(4)].count(Verdict.MISMATCH) == 1
    changed = {**ROLLING, "columns": {"override": {"v": {"trim": True}}}}
    assert told.run(**changed) is Verdict.MATCH and len(told.titles) == 1
    told.execute("target", "UPDATE t SET v = 'v9007' WHERE id = 9007")
    while len(told.titles) == 1:
        assert told.run(**changed) is Verdict.MATCH
        table = stored_runs.rolling_table(told.store, "t")
        assert table and (len(told.titles) == 2) == (table.partitions_read == table.partitions)
    assert told.titles[1:] == ["t: MATCH again"]


def test_rolling_audit_recovers_when_extra_rows_beyond_the_source_are_deleted(told: Told) -> None:
    told.execute("target", f"INSERT INTO t SELECT i, 'extra' FROM range({ROWS}, {ROWS + SIZE}) r(i)")
    verdicts = [told.run(rolling={"per_run": "100%"})]
    told.execute("target", f"DELETE FROM t WHERE id >= {ROWS}")
    verdicts.append(told.run(rolling={"per_run": "100%"}))
    assert verdicts == [Verdict.MISMATCH, Verdict.MATCH] and told.titles[1:] == ["t: MATCH again"]
    table = stored_runs.rolling_table(told.store, "t")
    assert table and table.verdict is Verdict.MATCH and table.partitions == ROWS // SIZE, "nobody reads beyond the bounds again"


def test_runs_with_other_settings_are_told_to_nobody(told: Told) -> None:
    told.execute("target", "UPDATE t SET v = 'x' WHERE id = 7007")
    assert told.run({"keys": {"from": 7000, "to": 7100}}) is Verdict.MISMATCH and told.titles == []
    assert told.run() is Verdict.MISMATCH and len(told.titles) == 1
    assert told.run({"threshold": 0}) is Verdict.MATCH and len(told.titles) == 1, "nothing recovered"
    assert told.run() is Verdict.MISMATCH and len(told.titles) == 1, "known already"
    told.execute("target", "UPDATE t SET v = 'v7007' WHERE id = 7007")
    assert told.run() is Verdict.MATCH and told.titles[1:] == ["t: MATCH again"]


@pytest.mark.slow
def test_counts_do_not_tell_that_a_changed_value_matches_again(told: Told) -> None:
    told.execute("target", "UPDATE t SET v = 'w7' WHERE id = 7")
    ladder: dict[str, Any] = {"ladder": {"levels": ["counts", "exact"], "every": 3}}
    assert told.run(**ladder) is Verdict.MISMATCH, "the first run goes through all levels"
    told.execute("target", "UPDATE t SET v = 'v7' WHERE id = 7")
    assert [told.run(**ladder) for _ in range(2)] == [Verdict.MATCH] * 2 and len(told.titles) == 1
    assert told.run(**ladder) is Verdict.MATCH and told.titles[1:] == ["t: MATCH again"]
