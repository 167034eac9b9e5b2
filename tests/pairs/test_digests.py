"""Audits whose pre-scan reads digests find what audits without a pre-scan find, whatever is damaged."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from auditor.config import Audit, ConnectionSettings
from auditor.errors import StatementCancelled
from auditor.history.handover import EarlierRuns, NoCheckpoint, Schemas
from auditor.model import SIDES, Chunk, Plan, Report, Side, State, Verdict
from auditor.planning import chunks, prescan
from auditor.run import audit_run
from auditor.summary import codec
from auditor.summary.arrays import Summaries
from dialects import Kind
from tests import tables
from tests.live import LivePair, chosen_pairs

pytestmark = pytest.mark.engines_in_turn

COLUMNS = [("id", Kind("integer")), ("name", Kind("text")), ("price", Kind("decimal", 12, 2)), ("seen", Kind("timestamp", scale=6))]
Row = tuple[Any, ...]


@pytest.fixture(autouse=True)
def _small_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prescan, "AIM_ROWS", 32)
    monkeypatch.setattr(prescan, "LEAST_DIGEST_ROWS", 1)


def rows() -> list[Row]:
    """Return rows with dense keys and some gaps, and with texts that need care."""
    import datetime as dt
    from decimal import Decimal

    generator = random.Random(5)
    found = []
    for key in (key for key in range(-200, 400) if key % 11):
        text = generator.choice([None, "", f"row {key}", "a|b", "|3", "é😀", "a|1b"])
        moment = dt.datetime(2026, 1, 1) + dt.timedelta(microseconds=generator.randrange(10**12) // 10 ** generator.randrange(7))
        found.append((key, text, Decimal(generator.randrange(10**6)).scaleb(-2), moment))
    return found


def damage(held: list[Row], how: str) -> list[Row]:
    found = {row[0]: row for row in held}
    for key in {"first": [-200], "last": [399], "few": [-7, 45, 46, 318], "none": []}.get(how, []):
        row = found[key]
        found[key] = (key, (row[1] or "") + "!", *row[2:])
    if how == "swapped":  # two rows with each other's values: each value is there, in another row
        found[70], found[71] = (70, *found[71][1:]), (71, *found[70][1:])
    if how == "moved":
        found[1000] = (1000, *found.pop(12)[1:])
    if how == "lost":
        for key in (3, 4, 5, 200):
            del found[key]
    if how == "range":
        found = {key: row for key, row in found.items() if not 100 <= key < 180}
    if how == "empty":
        found = {}
    return list(found.values())


def upper(text: str) -> str:
    """Return a text whose letters A to Z, those that the setting ``case`` folds, are capitals."""
    return "".join(one.upper() if one.isascii() else one for one in text)


def perform(
    pair: LivePair, names: Mapping[Side, str], checkpoint: NoCheckpoint | None = None, earlier: EarlierRuns | None = None, **more: Any
) -> Report:
    ends = {side: {"connection": side, "table": names[side]} for side in SIDES}
    audit = Audit.model_validate({**ends, "key": ["id"], "partition": {"size": 8}, **more})
    connections: dict[str, ConnectionSettings] = {side: ConnectionSettings(url=getattr(pair, side).url) for side in SIDES}
    return audit_run.perform("t", audit, connections, checkpoint=checkpoint, earlier=earlier).report


def findings(report: Report) -> Any:
    comparison, differences = report.comparison, report.differences
    assert comparison, report.reasons
    named = differences and [(one.kind, one.key, one.columns) for one in differences.named]
    ranges = differences and differences.ranges
    return report.verdict, comparison.rows, [one.partition for one in comparison.divergent], named, ranges, report.jaccard


@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres", "mariadb-mysql", "postgres-mariadb"), indirect=True)
@pytest.mark.parametrize("how", ["none", "first", "last", "few", "swapped", "moved", "lost", "range", "empty"])
@pytest.mark.few
def test_digests_change_nothing_that_is_found(pair: LivePair, how: str) -> None:
    names: dict[Side, str] = {
        "source": tables.shared_table(pair.source, COLUMNS, rows(), ["id"]),
        "target": tables.shared_table(pair.target, COLUMNS, damage(rows(), how), ["id"]),
    }
    plain, scanned = (perform(pair, names, prescan=wanted) for wanted in (False, True))
    assert scanned.plan and scanned.plan.prescan and scanned.plan.prescan.digest_rows
    assert findings(scanned) == findings(plain)
    assert (plain.verdict is Verdict.MATCH) == (how == "none")


@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres", "mariadb-mysql", "postgres-mariadb"), indirect=True)
@pytest.mark.parametrize("how", ["none", "few", "lost"])
@pytest.mark.parametrize("key", [["id"], ["name", "id"]], ids=["numbers", "texts"])
@pytest.mark.few
def test_groups_of_rows_that_are_hashed_as_bytes_change_nothing_either(pair: LivePair, how: str, key: list[str]) -> None:
    names: dict[Side, str] = {
        "source": tables.shared_table(pair.source, COLUMNS, rows(), ["id"]),
        "target": tables.shared_table(pair.target, COLUMNS, damage(rows(), how), ["id"]),
    }
    settings: dict[str, Any] = {"key": key, "partition": {"strategy": "hash", "buckets": 5}}
    plain, scanned = (perform(pair, names, prescan=wanted, **settings) for wanted in (False, True))
    assert scanned.plan and scanned.plan.prescan and scanned.plan.prescan.groups and scanned.plan.prescan.hashes_bytes
    assert (scanned.verdict, _named(scanned)) == (plain.verdict, _named(plain))
    assert (plain.verdict is Verdict.MATCH) == (how == "none")


def _named(report: Report) -> Any:
    return report.differences and sorted((one.kind, str(one.key), str(one.columns)) for one in report.differences.named)


@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres"), indirect=True)
def test_a_slice_and_settings_of_columns_are_read_by_digests_as_well(pair: LivePair) -> None:
    source = tables.shared_table(pair.source, COLUMNS, rows(), ["id"])
    target = tables.shared_table(pair.target, COLUMNS, [(row[0], row[1] and f" {upper(row[1])}", *row[2:]) for row in rows()], ["id"])
    names: dict[Side, str] = {"source": source, "target": target}
    settings: dict[str, Any] = {"columns": {"override": {"name": {"trim": True, "case": "lower"}}}, "where": "id > -100"}
    for method in ("exact", "signature"):
        report = perform(pair, names, prescan=True, method=method, **settings)
        assert report.plan and report.plan.prescan and report.plan.prescan.digest_rows
        assert report.verdict is Verdict.MATCH, report.reasons
        assert perform(pair, names, prescan=True, method=method).verdict is Verdict.MISMATCH


@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres", "mariadb-postgres"), indirect=True)
def test_tables_whose_rows_may_come_in_another_order_have_no_digests(pair: LivePair) -> None:
    """Without a primary key on a side, or with one that is stored in parts, each row is hashed by itself."""
    keyed = {side: tables.shared_table(getattr(pair, side), COLUMNS, rows(), ["id"]) for side in SIDES}
    plain = tables.shared_table(pair.target, COLUMNS, rows())
    tables.execute(
        pair.source,
        f"CREATE TABLE in_parts (PRIMARY KEY (id)) PARTITION BY HASH (id) PARTITIONS 3 SELECT * FROM {keyed['source']}",
    )
    for names in ({**keyed, "target": plain}, {**keyed, "source": "in_parts"}):
        report = perform(pair, names, prescan=True)
        assert report.verdict is Verdict.MATCH, report.reasons
        assert report.plan and report.plan.prescan and not report.plan.prescan.digest_rows and report.plan.prescan.hashes_bytes


class Interrupted(NoCheckpoint):
    """Keeps the stretches of a first attempt, as the store does, and ends it after so many chunks, before the one without an end."""

    def __init__(self, after: int) -> None:
        self.after = after
        self.resumed = False
        self.plan: Plan | None = None
        self.saved: dict[tuple[Side, Chunk], Summaries] = {}

    def save_plan(self, plan: Plan, schema: Schemas) -> None:
        self.plan = plan

    def save_stretches(self, side: Side, chunk: Chunk, summaries: Summaries, seconds: float, attempts: int) -> None:
        if len(self.saved) >= self.after or (chunk.end is None and not self.resumed):
            raise StatementCancelled
        self.saved[side, chunk] = codec.unpack_summaries(codec.pack_summaries(summaries, "stretches"))[1]

    def saved_stretches(self, side: Side) -> list[tuple[Chunk, Summaries]]:
        return [(chunk, one) for (of, chunk), one in self.saved.items() if of == side]


@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres"), indirect=True)
def test_a_resumed_run_reads_keys_that_came_since(pair: LivePair, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies before the least key and behind the greatest of the first attempt is compared as well."""
    monkeypatch.setattr(chunks, "CHUNK_ROWS", 100)
    monkeypatch.setattr(chunks, "NO_SPILL_FACTOR", 1)
    names: dict[Side, str] = {side: f"grows_{side}" for side in SIDES}
    for side in SIDES:
        tables.make(getattr(pair, side), names[side], COLUMNS, rows(), ["id"])
    checkpoint = Interrupted(3)
    first = perform(pair, names, checkpoint, prescan=True)
    assert first.state is not State.DONE, (first.plan, checkpoint.saved)
    assert checkpoint.plan and checkpoint.plan.prescan and checkpoint.plan.prescan.digest_rows and checkpoint.saved
    tables.insert(pair.source, names["source"], COLUMNS, [(-5000, "before", None, None), (5000, "behind", None, None)])
    tables.insert(pair.target, names["target"], COLUMNS, [(-5000, "before", None, None)])
    checkpoint.after, checkpoint.resumed = 1000, True
    report = perform(pair, names, checkpoint, EarlierRuns(plan=checkpoint.plan), prescan=True)
    assert report.verdict is Verdict.MISMATCH, report.reasons
    assert report.differences and (report.differences.missing, report.differences.extra, report.differences.changed) == (1, 0, 0)


@pytest.mark.parametrize("pair", chosen_pairs("mariadb-postgres"), indirect=True)
def test_rows_in_flight_are_left_out_of_digests(pair: LivePair) -> None:
    """What was written since the watermark is read on neither side, with a pre-scan as without one."""
    import datetime as dt

    young = dt.datetime.now(dt.UTC).replace(tzinfo=None) + dt.timedelta(minutes=5)
    held = [(*row[:3], young if row[0] % 7 == 0 else row[3]) for row in rows()]
    sent = [(row[0], f"{row[1]}!", *row[2:]) if row[3] == young else row for row in held]
    names: dict[Side, str] = {"source": "flight_source", "target": "flight_target"}
    for side, content in (("source", held), ("target", sent)):
        tables.make(getattr(pair, side), names[side], COLUMNS, content, ["id"])  # type: ignore[index]
    settle = {"column": "seen", "lag": "1h"}
    plain, scanned = (perform(pair, names, prescan=wanted, settle=settle) for wanted in (False, True))
    assert scanned.plan and scanned.plan.prescan and scanned.plan.prescan.digest_rows
    assert plain.verdict is scanned.verdict is Verdict.MATCH, (plain.reasons, scanned.reasons)
    assert plain.comparison and scanned.comparison and plain.comparison.rows == scanned.comparison.rows
    assert plain.comparison.rows["source"] < len(held)
    without = perform(pair, names, prescan=True)
    assert without.verdict is Verdict.MISMATCH


@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres"), indirect=True)
def test_a_run_of_some_partitions_reads_digests_of_these_alone(pair: LivePair) -> None:
    """Ranges begin and end within stretches, two in one stretch; what differs elsewhere is not seen, what differs there is."""
    names: dict[Side, str] = {
        "source": tables.shared_table(pair.source, COLUMNS, rows(), ["id"]),
        "target": tables.shared_table(pair.target, COLUMNS, damage(rows(), "few"), ["id"]),
    }
    chosen: list[tuple[tuple[tuple[int, int], ...], set[str]]] = [
        (((-21, -18), (-17, -3), (7, 30)), set()),
        (((-3, 1), (2, 3), (5, 6)), {"-7", "45", "46"}),
    ]
    for ranges, wanted in chosen:
        earlier = EarlierRuns(choose_partitions=partial(_choose, ranges))
        plain, scanned = (perform(pair, names, None, earlier, prescan=one) for one in (False, True))
        assert findings(plain) == findings(scanned)
        assert scanned.plan and scanned.plan.prescan and scanned.plan.prescan.digest_rows
        assert scanned.differences is not None
        assert {one.key["id"] for one in scanned.differences.named} == wanted


def _choose(ranges: tuple[tuple[int, int], ...], _: Plan) -> tuple[tuple[int, int], ...]:
    return ranges
