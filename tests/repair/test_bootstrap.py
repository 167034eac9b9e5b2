"""A table that is copied anew holds exactly its source's rows, whatever their kinds."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor.bootstrap import use_cases
from auditor.model import Verdict
from tests.live import LivePair, pair_params
from tests.repair import damaged
from tests.repair.bootstrapped import clean, left

QUICK = ("mariadb-postgres", "postgres-duckdb", "duckdb-mysql")
"""Pairs of a normal run: each way of loading and swapping once."""

COPIED = [
    pytest.param(param.values[0], id=param.id, marks=[*param.marks, *([] if param.id in QUICK else [pytest.mark.slow])])
    for param in pair_params()
    if not str(param.id).endswith(("spark", "redshift"))
]
"""Pairs of engines whose target is copied anew."""


@pytest.mark.quick_for("mariadb-postgres", "duckdb-mysql")
@pytest.mark.parametrize("pair", COPIED, indirect=True)
def test_a_damaged_table_is_copied_anew_with_every_kind_of_value(pair: LivePair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("auditor.bootstrap.plan.RANGE_ROWS", 20)
    clean(pair.target)
    both = damaged.make(pair, tmp_path, rows=60, differences=30)
    before, names = both.read_target(), [name for name, _ in both.columns]
    result = use_cases.run_bootstrap(both.settings, both.store, "all")
    assert result.rows == len(both.source)
    assert result.after and result.after.verdict is Verdict.MATCH and not result.patched, (result.not_settled, result.after)
    assert result.after.jaccard and result.after.jaccard.score.lower == 1
    assert left(pair.target) == [result.old]
    assert damaged.read_exactly(pair.target, result.old, names) == before
    assert use_cases.drop_left(both.settings, both.store, "all") == [result.old]
    assert left(pair.target) == []
