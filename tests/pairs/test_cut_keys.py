"""Audits whose pre-scan cuts the key into stretches find what audits without a pre-scan find, whatever the keys and the damage are."""

from __future__ import annotations

import datetime as dt
import hashlib
import itertools
import uuid
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from auditor.config import Audit, ConnectionSettings
from auditor.history.handover import EarlierRuns, NoCheckpoint, Schemas
from auditor.model import SIDES, Chunk, Plan, Report, Side, Verdict
from auditor.planning import prescan
from auditor.run import audit_run
from auditor.summary import codec
from auditor.summary.arrays import Summaries
from dialects import Kind
from tests import tables
from tests.live import LivePair, chosen_pairs

pytestmark = pytest.mark.engines_in_turn

Row = tuple[Any, ...]
VALUES = [("name", Kind("text")), ("size", Kind("integer"))]
PAIRS = ("mysql-postgres", "mariadb-mysql", "postgres-mariadb")

numbered = itertools.count()


@pytest.fixture(autouse=True)
def _any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prescan, "LEAST_DIGEST_ROWS", 1)


def uuid_of(number: int) -> uuid.UUID:
    return uuid.UUID(hashlib.md5(str(number).encode()).hexdigest(), version=4)


KEYS: dict[str, tuple[list[Kind], Any]] = {
    "uuid": ([Kind("uuid")], lambda n: (uuid_of(n),)),
    "uuid as char": ([Kind("char", 36)], lambda n: (str(uuid_of(n)),)),
    "uuid by time": ([Kind("char", 36)], lambda n: (f"0190a1b2-{n // 100:04x}-7{n % 100:03x}-8000-{n:012x}",)),
    "digits": ([Kind("char", 9)], lambda n: (f"{n * 7919:09d}",)),
    "numbers": ([Kind("integer"), Kind("integer")], lambda n: (n % 11 - 5, n // 11)),
    "number and day": ([Kind("integer"), Kind("date")], lambda n: (n % 7, dt.date(2026, 1, 1) + dt.timedelta(days=n))),
    "sparse": ([Kind("integer")], lambda n: (n * 10**12 - 10**14,)),
}


def columns_of(kinds: list[Kind]) -> list[tuple[str, Kind]]:
    return [*((f"k{number}", kind) for number, kind in enumerate(kinds)), *VALUES]


def rows_of(key: Any) -> list[Row]:
    return [(*key(n), f"row {n}" if n % 9 else None, n) for n in range(1, 301)]


def damage(held: list[Row], how: str, key: Any) -> list[Row]:
    found = list(held)
    if how == "few":
        for at in (0, 57, 58, 299):
            found[at] = (*found[at][:-1], -1)
    if how == "swapped":
        found[40], found[200] = (*found[40][:-2], *found[200][-2:]), (*found[200][:-2], *found[40][-2:])
    if how == "moved":
        found[77] = (*key(500), *found[77][-2:])
    if how == "lost":
        del found[100:104]
    if how == "empty":
        found = []
    return found


def perform(
    pair: LivePair,
    names: Mapping[Side, str],
    key: list[str],
    checkpoint: NoCheckpoint | None = None,
    earlier: EarlierRuns | None = None,
    **more: Any,
) -> Report:
    ends = {side: {"connection": side, "table": names[side]} for side in SIDES}
    audit = Audit.model_validate({**ends, "key": key, "partition": {"strategy": "hash", "buckets": 5}, **more})
    connections: dict[str, ConnectionSettings] = {side: ConnectionSettings(url=getattr(pair, side).url) for side in SIDES}
    return audit_run.perform("t", audit, connections, checkpoint=checkpoint, earlier=earlier).report


def is_cut(report: Report) -> bool:
    assert report.plan and report.plan.prescan, report.reasons
    return bool(report.plan.prescan.cuts)


def named(report: Report) -> Any:
    return report.differences and sorted((one.kind, str(one.key), str(one.columns)) for one in report.differences.named)


@pytest.mark.parametrize("pair", chosen_pairs(*PAIRS), indirect=True)
@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("how", ["none", "few", "swapped", "moved", "lost", "empty"])
@pytest.mark.few("kind")
def test_cut_keys_change_nothing_that_is_found(pair: LivePair, kind: str, how: str) -> None:
    kinds, key = KEYS[kind]
    columns, held = columns_of(kinds), rows_of(key)
    names_of_key = [name for name, _ in columns[: len(kinds)]]
    names: dict[Side, str] = {
        "source": tables.shared_table(pair.source, columns, held, names_of_key),
        "target": tables.shared_table(pair.target, columns, damage(held, how, key), names_of_key),
    }
    plain, scanned = (perform(pair, names, names_of_key, prescan=wanted) for wanted in (False, True))
    assert is_cut(scanned) == (how != "empty")
    assert (scanned.verdict, named(scanned)) == (plain.verdict, named(plain))
    assert (plain.verdict is Verdict.MATCH) == (how == "none")
    if how == "none" and is_cut(scanned):
        assert any("parts of the table are equal" in note for note in scanned.notes), scanned.notes


@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres"), indirect=True)
def test_rows_beyond_the_cuts_are_compared(pair: LivePair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows below the first cut and from the last on are a stretch of their own, which is always read by the method."""
    kinds, key = KEYS["uuid as char"]
    columns, held = columns_of(kinds), rows_of(key)
    names: dict[Side, str] = {
        "source": tables.shared_table(pair.source, columns, held, ["k0"]),
        "target": tables.shared_table(pair.target, columns, damage(held, "few", key), ["k0"]),
    }
    placed = prescan.place_cuts
    monkeypatch.setattr(prescan, "place_cuts", lambda *given: {side: cuts[20:40] for side, cuts in placed(*given).items()})
    plain, scanned = (perform(pair, names, ["k0"], prescan=wanted) for wanted in (False, True))
    assert is_cut(scanned) and scanned.differences and scanned.differences.changed == 4
    assert named(scanned) == named(plain)


def make_texts(pair: LivePair, contents: Mapping[Side, list[Row]]) -> dict[Side, str]:
    """Make tables with a text as primary key, under each server's own collation."""
    number = next(numbered)
    names: dict[Side, str] = {side: f"cut_texts_{number}_{side}" for side in SIDES}
    for side in SIDES:
        engine = getattr(pair, side)
        tables.execute(engine, f"CREATE TABLE {names[side]} (k0 VARCHAR(40) PRIMARY KEY, name VARCHAR(20), size BIGINT)")
        tables.insert(engine, names[side], [("k0", Kind("text")), *VALUES], contents[side])
    return names


def drop(pair: LivePair, names: Mapping[Side, str]) -> None:
    for side in SIDES:
        tables.execute(getattr(pair, side), f"DROP TABLE {names[side]}")


texts = st.lists(st.text("0123456789abcdefABCFgz-_ .é", min_size=1, max_size=12).map(str.strip), max_size=30)


@pytest.mark.slow
@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres"), indirect=True)
@given(texts=texts, damaged=st.booleans())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_keys_that_collations_order_in_their_own_ways_cost_only_time(pair: LivePair, texts: list[str], damaged: bool) -> None:
    """Keys of any form lie between two of hexadecimal digits, which are what the cuts are placed by."""
    folded = {text.lower().replace("é", "e"): text for text in texts if text and "00" < text.lower() < "ff"}
    keys = ["00000000", *(f"{n * 13:08x}" for n in range(1, 40)), *(k for k in folded.values() if len(k) != 8), "fffffff0"]
    held = [(key, "a", n) for n, key in enumerate(keys)]
    sent = [(key, "b" if damaged and n % 17 == 3 else "a", n) for n, key in enumerate(keys)]
    names = make_texts(pair, {"source": held, "target": sent})
    try:
        plain, scanned = (perform(pair, names, ["k0"], prescan=wanted) for wanted in (False, True))
        assert (scanned.verdict, named(scanned)) == (plain.verdict, named(plain))
        assert (scanned.verdict is Verdict.MATCH) != damaged
    finally:
        drop(pair, names)


@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres", "postgres-mariadb"), indirect=True)
def test_keys_that_are_no_digits_are_grouped_as_before(pair: LivePair) -> None:
    for keys in (["A0", "B1", "C2"], ["00", "01", "zz"], ["0", "11", "fe"], ["00", "01", "ff"], ["0-1", "01-"]):
        held = [(key, "a", n) for n, key in enumerate(keys)]
        names = make_texts(pair, {"source": held, "target": held})
        report = perform(pair, names, ["k0"], prescan=True)
        assert report.verdict is Verdict.MATCH and not is_cut(report), keys
        drop(pair, names)


def two_numbers(pair: LivePair, rows: list[Row], primary: str = "k0, k1", target: str = "") -> dict[Side, str]:
    number = next(numbered)
    names: dict[Side, str] = {side: f"cut_numbers_{number}_{side}" for side in SIDES}
    for side in SIDES:
        key = target if side == "target" and target else primary
        tables.execute(
            getattr(pair, side),
            f"CREATE TABLE {names[side]} (k0 INT, k1 INT, name VARCHAR(20), size BIGINT, PRIMARY KEY ({key}))",
        )
        tables.insert(getattr(pair, side), names[side], [("k0", Kind("integer")), ("k1", Kind("integer")), *VALUES], rows)
    return names


@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres", "postgres-mariadb"), indirect=True)
def test_a_key_of_another_order_is_not_cut(pair: LivePair) -> None:
    """An index that begins with another column would be read whole for each stretch."""
    rows = [(n % 7, n, "a", n) for n in range(100)]
    assert is_cut(perform(pair, two_numbers(pair, rows), ["k0", "k1"], prescan=True))
    for primary, target in (("k1, k0", ""), ("k0, k1", "k1, k0"), ("k1", "")):
        report = perform(pair, two_numbers(pair, rows, primary, target), ["k0", "k1"], prescan=True)
        assert report.verdict is Verdict.MATCH and not is_cut(report), (primary, target)


@pytest.mark.quick_for("types1", "types3")
@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres"), indirect=True)
@pytest.mark.parametrize("types", [("BINARY(16)", "UUID"), ("BINARY(16)", "BYTEA"), ("CHAR(36)", "UUID"), ("VARCHAR(40)", "TEXT")])
def test_uuids_are_cut_in_whatever_type_they_are_stored(pair: LivePair, types: tuple[str, str]) -> None:
    number = next(numbered)
    names: dict[Side, str] = {side: f"cut_uuids_{number}_{side}" for side in SIDES}
    for side, native in zip(SIDES, types, strict=True):
        tables.execute(getattr(pair, side), f"CREATE TABLE {names[side]} (k0 {native} PRIMARY KEY, name VARCHAR(20), size BIGINT)")
        is_bytes = native in ("BINARY(16)", "BYTEA")
        keys = [uuid_of(n).bytes if is_bytes else str(uuid_of(n)) for n in range(200)]
        rows = [(key, "a" if side == "source" or n % 50 else "b", n) for n, key in enumerate(keys)]
        tables.insert(getattr(pair, side), names[side], [("k0", Kind("binary" if is_bytes else "text")), *VALUES], rows)
    more: dict[str, Any] = {"columns": {"override": {"k0": {"kind": "uuid"}}}} if "UUID" in types or "BYTEA" in types else {}
    plain, scanned = (perform(pair, names, ["k0"], prescan=wanted, **more) for wanted in (False, True))
    assert is_cut(scanned) and scanned.differences and scanned.differences.changed == 4
    assert named(scanned) == named(plain)
    assert any("differ, and were read in full" in note for note in scanned.notes), scanned.notes


@pytest.mark.parametrize("pair", chosen_pairs("postgres-mariadb"), indirect=True)
def test_uuids_that_are_not_ordered_by_their_digits_are_not_cut(pair: LivePair) -> None:
    """MariaDB's own type compares the last digits first. https://mariadb.com/kb/en/uuid-data-type/"""
    names: dict[Side, str] = {side: f"cut_own_uuids_{side}" for side in SIDES}
    for side in SIDES:
        tables.execute(getattr(pair, side), f"CREATE TABLE {names[side]} (k0 UUID PRIMARY KEY, name VARCHAR(20), size BIGINT)")
        rows = [(uuid_of(n), "a", n) for n in range(100)]
        tables.insert(getattr(pair, side), names[side], [("k0", Kind("uuid")), *VALUES], rows)
    report = perform(pair, names, ["k0"], prescan=True)
    assert report.verdict is Verdict.MATCH and not is_cut(report)


@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres", "postgres-mariadb"), indirect=True)
def test_a_key_whose_rows_are_spread_unevenly_is_not_cut(pair: LivePair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearly all rows have one value of the first column: in more rows than are hashed as one nothing could be equal."""
    monkeypatch.setattr(prescan, "AIM_ROWS", 16)
    names = two_numbers(pair, [(0 if n % 50 else n, n, "a", n) for n in range(600)])
    for engine, name in ((pair.source, names["source"]), (pair.target, names["target"])):
        tables.execute(engine, f"ANALYZE {'TABLE ' if 'mysql' in engine.url or 'mariadb' in engine.url else ''}{name}")
    monkeypatch.setattr(prescan, "CUT_STRETCHES", 600)
    report = perform(pair, names, ["k0", "k1"], prescan=True)
    assert report.verdict is Verdict.MATCH and not is_cut(report)
    monkeypatch.setattr(prescan, "MOST_IN_LARGE", 1.0)
    report = perform(pair, names, ["k0", "k1"], prescan=True)
    assert report.verdict is Verdict.MATCH and is_cut(report)
    assert any("read in full" in note for note in report.notes), report.notes


@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres"), indirect=True)
def test_filters_masks_and_settings_of_columns(pair: LivePair) -> None:
    rows = [(n % 7, n, "a", n) for n in range(100)]
    names = two_numbers(pair, rows)
    tables.execute(pair.target, f"UPDATE {names['target']} SET size = -1 WHERE k1 = 95")
    report = perform(pair, names, ["k0", "k1"], prescan=True, where="k1 < 90")
    assert report.verdict is Verdict.MATCH and is_cut(report)
    report = perform(pair, names, ["k0", "k1"], prescan=True, where="k1 < 96 OR k1 = 98")
    assert report.differences and report.differences.changed == 1 and is_cut(report)
    for override in ({"k0": {"null_as": "0"}}, {"k1": {"mask": True}}, {"k0": {"mask": True}}):
        report = perform(pair, names, ["k0", "k1"], prescan=True, columns={"override": override})
        assert report.verdict is Verdict.MISMATCH and not is_cut(report), override


class Attempts(NoCheckpoint):
    """Keeps the source's stretches of a first attempt, as the store does of a run that ends before those of the target."""

    def __init__(self) -> None:
        self.plan: Plan | None = None
        self.saved: list[tuple[Chunk, Summaries]] = []

    def save_plan(self, plan: Plan, schema: Schemas) -> None:
        self.plan = plan

    def save_stretches(self, side: Side, chunk: Chunk, summaries: Summaries, seconds: float, attempts: int) -> None:
        if side == "source":
            self.saved.append((chunk, codec.unpack_summaries(codec.pack_summaries(summaries, "stretches"))[1]))

    def saved_stretches(self, side: Side) -> list[tuple[Chunk, Summaries]]:
        return list(self.saved) if side == "source" else []


@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres"), indirect=True)
def test_a_resumed_run_has_the_cuts_of_the_first_attempt(pair: LivePair) -> None:
    names = two_numbers(pair, [(n % 20, n, "a", n) for n in range(300)])
    checkpoint = Attempts()
    assert is_cut(perform(pair, names, ["k0", "k1"], checkpoint, prescan=True)) and len(checkpoint.saved) == 1
    for side in SIDES:  # keys on both ends, so that a run that begins now would cut elsewhere
        more = [(-900, 1, "a", 1), (900, 1, "a" if side == "source" else "b", 1)]
        tables.insert(getattr(pair, side), names[side], [("k0", Kind("integer")), ("k1", Kind("integer")), *VALUES], more)
    report = perform(pair, names, ["k0", "k1"], checkpoint, EarlierRuns(plan=checkpoint.plan), prescan=True)
    assert report.verdict is Verdict.MISMATCH and len(checkpoint.saved) == 1, report.reasons
    assert report.differences and [one.key for one in report.differences.named] == [{"k0": "900", "k1": "1"}], report.differences
