"""Runs that are chosen by the writes in a settle column find on servers what runs without them find, by fewer bytes."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Mapping
from typing import Any

import pytest

from auditor.config import Audit, ConnectionSettings
from auditor.history.handover import EarlierRuns
from auditor.model import SIDES, Report, Side, Verdict
from auditor.planning import chunks, prescan, writes
from auditor.run import audit_run
from dialects import Kind
from tests import tables
from tests.live import LivePair, chosen_pairs

pytestmark = pytest.mark.engines_in_turn

COLUMNS = [("id", Kind("integer")), ("name", Kind("text")), ("moved", Kind("timestamp", scale=6))]
OLD, MATCH, NEW = (dt.datetime(2025, month, 1) for month in (1, 5, 6))
KEYS = [key for key in range(-300, 900) if key % 11]
HOT = range(700, 900)
DIFFER = [705, 760, 811, 890]
Row = tuple[int, str, dt.datetime]


@pytest.fixture(autouse=True)
def _small_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prescan, "AIM_ROWS", 32)
    monkeypatch.setattr(prescan, "LEAST_DIGEST_ROWS", 1)
    monkeypatch.setattr(writes, "LEAST_ROWS", 0)
    monkeypatch.setattr(chunks, "CHUNK_ROWS", 200)
    monkeypatch.setattr(chunks, "NO_SPILL_FACTOR", 1)


def fill(pair: LivePair, written: Any, differ: list[int]) -> dict[Side, str]:
    """Return tables in which rows of ``written`` are new, and those of ``differ`` changed; one is lost where nothing was written."""
    held: list[Row] = [(key, f"row {key}", NEW if key in written else OLD) for key in KEYS]
    sent = [(key, name + "!" * (key in differ), moved) for key, name, moved in held if key != 17 or not differ]
    names: dict[Side, str] = {}
    for side, rows in (("source", held), ("target", sent)):
        names[side] = tables.shared_table(getattr(pair, side), COLUMNS, rows, ["id"])  # type: ignore[index]
    return names


def perform(pair: LivePair, names: Mapping[Side, str], earlier: EarlierRuns | None = None, **more: Any) -> Report:
    ends = {side: {"connection": side, "table": names[side]} for side in SIDES}
    settle = {"column": "moved", "lag": "1h"}
    audit = Audit.model_validate({**ends, "key": ["id"], "partition": {"size": 8}, "settle": settle, **more})
    connections: dict[str, ConnectionSettings] = {side: ConnectionSettings(url=getattr(pair, side).url) for side in SIDES}
    return audit_run.perform("t", audit, connections, earlier=earlier).report


def findings(report: Report) -> Any:
    comparison, differences = report.comparison, report.differences
    assert comparison and differences is not None, report.reasons
    named = [(one.kind, one.key, one.columns) for one in differences.named]
    return report.verdict, comparison.rows, [one.partition for one in comparison.divergent], named, differences.ranges, report.jaccard


def after(report: Report, share: float | None = None, **more: Any) -> EarlierRuns:
    """Return what three runs like this one leave, after a match; with another share of partitions that differed."""
    comparison = report.comparison
    assert comparison
    unequal = tuple(one.key_range[0] for one in comparison.divergent if one.key_range)
    return EarlierRuns(
        verified_through=MATCH.replace(tzinfo=dt.UTC),
        unequal_shares=(share or comparison.unequal / comparison.total,) * 3,
        unequal_keys=unequal or (KEYS[0],),
        **more,
    )


PAIRS = pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres", "postgres-mariadb", "duckdb-duckdb"), indirect=True)


@pytest.mark.quick_for("mysql-postgres")
@PAIRS
@pytest.mark.few
def test_rows_are_counted_by_their_settle_column_and_read_at_once(pair: LivePair, monkeypatch: pytest.MonkeyPatch) -> None:
    has_digests = pair.source.dialect != "duckdb"
    if not has_digests:  # where a pre-scan costs too much for a gain
        monkeypatch.setattr(writes, "LEAST_GAIN", 0.0)
    names = fill(pair, HOT, DIFFER)
    plain = perform(pair, names, prescan=False)
    report = perform(pair, names, after(plain))
    assert report.plan and report.plan.prescan and report.plan.writes
    known = report.plan.writes
    assert known.origin == "settle column" and known.total == sum(key in HOT for key in KEYS)
    assert all(number * known.width < 900 and (number + 1) * known.width > 700 for number, _ in known.counts)
    assert report.plan.prescan.used and report.plan.prescan.at_once and bool(report.plan.prescan.digest_rows) == has_digests
    assert findings(report) == findings(plain)
    assert plain.verdict is Verdict.MISMATCH and report.differences is not None
    assert {one.key["id"] for one in report.differences.named} == {*map(str, DIFFER), "17"}, "one where nothing was written"


@pytest.mark.quick_for("1-mysql-postgres", "3-duckdb-duckdb")
@PAIRS
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.few
def test_a_wrong_distribution_changes_nothing_that_is_found(pair: LivePair, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writes, "LEAST_GAIN", -2.0)
    chance = random.Random(seed)
    names = fill(pair, (), [] if seed == 0 else chance.sample(KEYS, 3 * seed))
    plain = perform(pair, names, prescan=False)
    told = [chance.choice(KEYS) for _ in range(chance.randrange(1, 40))]
    report = perform(pair, names, after(plain, 0.5, events=lambda _, __: told))
    assert report.plan and report.plan.prescan and report.plan.prescan.at_once
    assert findings(report) == findings(plain)
    assert (report.verdict is Verdict.MATCH) == (seed == 0)


@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres"), indirect=True)
def test_a_column_without_an_index_is_not_asked_of_a_large_table(pair: LivePair, monkeypatch: pytest.MonkeyPatch) -> None:
    names = fill(pair, HOT, DIFFER)
    plain = perform(pair, names, prescan=False)
    monkeypatch.setattr(writes, "CHUNK_ROWS", 100)
    report = perform(pair, names, after(plain))
    assert report.plan and str(report.plan.writes) == "not known, because no index begins with the settle column moved"
    tables.execute(pair.source, f"CREATE TABLE indexed_writes (PRIMARY KEY (id), KEY (moved)) SELECT * FROM {names['source']}")
    report = perform(pair, {**names, "source": "indexed_writes"}, after(plain))
    assert report.plan and report.plan.writes and report.plan.writes.origin == "settle column" and report.plan.prescan
    assert report.plan.prescan.at_once and findings(report) == findings(plain)
