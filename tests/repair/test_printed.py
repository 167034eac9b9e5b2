"""What a patch prints makes the target equal the source, when a person runs it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

import dialects
from auditor.model import Verdict
from auditor.repair.keys import Selection
from auditor.service import patches
from tests import tables
from tests.live import ENGINES, LivePair, chosen_pairs
from tests.repair import damaged

TARGETS = [engine.name for engine in ENGINES if engine.name != "spark"]
PAIRS = chosen_pairs(*(f"mariadb-{name}" for name in TARGETS))


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS, indirect=True)
def test_what_is_printed_makes_the_target_equal_the_source(pair: LivePair, tmp_path: Path) -> None:
    both = damaged.make(pair, tmp_path, rows=120, differences=30)
    found = both.run().differences
    assert found and found.missing + found.changed + found.extra == 30
    lines = list(patches.print_patch(both.settings, both.store, "all", Selection(delete_extra=True), "json"))
    made = [json.loads(line) for line in lines]
    tables.execute(pair.target, *dialects.get(pair.target.dialect).writing.WRITE_SETTINGS, *(one["sql"] for one in made))
    again = both.run()
    assert again.verdict is Verdict.MATCH, (again.reasons, again.differences)


@pytest.mark.parametrize("pair", chosen_pairs("postgres-duckdb"), indirect=True)
def test_the_script_and_the_table_hold_the_same_rows(pair: LivePair, tmp_path: Path) -> None:
    both = damaged.make(pair, tmp_path, rows=40, differences=9)
    both.run()
    script = both.script()
    assert script.startswith("-- Patch of all, from run ")
    assert script.endswith("-- 9 rows: 3 to insert, 3 to update, 3 to delete.\n")
    assert script.count("\nBEGIN;\n") == script.count("\nCOMMIT;\n") == 1
    lines = "".join(patches.print_patch(both.settings, both.store, "all", Selection(delete_extra=True), "csv"))
    read = list(csv.reader(io.StringIO(lines)))
    assert read[0] == ["auditor_change", *(name for name, _ in both.columns)]
    assert sorted(row[0] for row in read[1:]) == ["delete"] * 3 + ["insert"] * 3 + ["update"] * 3
    assert all(len(row) == len(read[0]) for row in read)
