"""A patch that is applied makes the target equal the source, and its undo brings the damage back, row by row."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor.model import Verdict
from auditor.repair.keys import Selection
from auditor.service import patches
from tests.live import LivePair, pair_params
from tests.repair import damaged

PATCHED = [param for param in pair_params() if "spark" not in str(param.id)]
"""Pairs of engines that can be patched."""


@pytest.mark.quick_for("mariadb-postgres", "redshift-mariadb")
@pytest.mark.parametrize("pair", PATCHED, indirect=True)
def test_a_patch_mends_every_kind_of_damage_and_its_undo_brings_it_back(pair: LivePair, tmp_path: Path) -> None:
    mend_and_undo(damaged.make(pair, tmp_path, rows=60, differences=30), 30)


@pytest.mark.slow
@pytest.mark.parametrize("pair", PATCHED, indirect=True)
def test_300_differences_among_100_000_rows_are_mended_and_brought_back(pair: LivePair, tmp_path: Path) -> None:
    both = damaged.make(pair, tmp_path, rows=100_000, differences=300)
    mend_and_undo(both, 300)


def mend_and_undo(both: damaged.Damaged, differences: int) -> None:
    found = both.run()
    assert found.differences is not None
    assert found.differences.missing + found.differences.changed + found.differences.extra == differences
    before = both.read_target()
    result = patches.apply_patch(both.settings, both.store, found.run, Selection(delete_extra=True))
    counts = result.patched.counts
    assert counts["inserted"] + counts["updated"] + counts["deleted"] == counts.total() == differences
    assert result.after and result.after.verdict is Verdict.MATCH, result.after
    assert result.after.jaccard and result.after.jaccard.score.lower == 1 and not result.after.differences.named  # type: ignore[union-attr]
    undone = patches.undo_patch(both.settings, both.store, result.patched.patch)
    assert undone.patched.counts.total() == differences and not undone.patched.counts["left"]
    assert both.read_target() == before
