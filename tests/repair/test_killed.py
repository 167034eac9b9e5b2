"""A patch or an undo that is killed leaves no half batch, and the next start knows what was committed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from auditor.model import Verdict
from auditor.repair.keys import Selection
from auditor.service import patches
from auditor.store import patches as stored
from tests.live import LivePair, chosen_pairs
from tests.repair import damaged
from tests.repair.damaged import Damaged
from tests.repair.killed import ROWS, STEPS, kill

DIFFERENCES = 18

QUICK = [*chosen_pairs("mariadb-postgres")]
EVERY = [*chosen_pairs("mariadb-postgres", "postgres-mariadb", "mariadb-mysql", "mariadb-duckdb", "mariadb-redshift", "duckdb-delta")]


@pytest.fixture
def both(pair: LivePair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Damaged]:
    monkeypatch.setattr("auditor.repair.batch.PATCH_BATCH_ROWS", ROWS)
    made = damaged.make(pair, tmp_path, rows=50, differences=DIFFERENCES)
    yield made
    made.store.close()


@pytest.mark.parametrize("pair", QUICK, indirect=True)
def test_a_patch_that_is_killed_is_settled_by_the_next_start(both: Damaged, tmp_path: Path) -> None:
    """It is killed after the commit of its second batch, before anybody knows of that."""
    run = both.run().run
    assert kill(both, tmp_path, run=run, step="committed", nth=2) == -9
    check_journal(both, run)
    finish(both, run)


@pytest.mark.slow
@pytest.mark.parametrize("pair", EVERY, indirect=True)
def test_a_patch_and_its_undo_survive_a_kill_at_each_step_and_at_random_moments(both: Damaged, tmp_path: Path) -> None:
    generator = random.Random(7)
    before, run = both.read_target(), both.run().run
    moments = [Moment(step) for step in STEPS]
    moments += [Moment("", generator.randrange(1, 20), generator.random() / 50) for _ in range(13)]
    for moment in moments:
        code = kill(both, tmp_path, run=run, **moment._asdict())
        check_journal(both, run)
        if code == 0 or both.run().verdict is Verdict.MATCH:
            undo_all(both, run)
            assert both.read_target() == before
    finish(both, run)
    for moment in moments:
        last = [one for one in stored.list_patches(both.store, run) if one.undoes is None and one.state in ("done", "failed")]
        if not last:
            break
        kill(both, tmp_path, undo=last[-1].patch, **moment._asdict())
        check_journal(both, run)
    undo_all(both, run)
    assert both.read_target() == before


class Moment(NamedTuple):
    """When a process is killed; see ``kill``."""

    step: str
    nth: int = 1
    delay: float = 0.0


def undo_all(both: Damaged, run: str) -> None:
    """Undo all patches of a run, the last one first."""
    for one in reversed(stored.list_patches(both.store, run)):
        if one.undoes is None and one.state in ("done", "failed"):
            patches.undo_patch(both.settings, both.store, one.patch)


def check_journal(both: Damaged, run: str) -> None:
    """Settle what was killed, and check that each batch's rows are in the target, all of them or none, as the journal says."""
    patches.settle_dead(both.settings, both.store)
    for patch in stored.list_patches(both.store, run):
        assert patch.state != "running"
        for batch in stored.list_batches(both.store, patch.patch):
            assert batch.state in ("applied", "void")
            if batch.state == "applied":
                assert {row["outcome"] for row in batch.rows or ()} == {"written"}


def finish(both: Damaged, run: str) -> None:
    """Patch what is left, and check that all is equal."""
    patches.apply_patch(both.settings, both.store, run, Selection(delete_extra=True))
    written = [row for one in stored.list_patches(both.store, run) for batch in stored.list_batches(both.store, one.patch)
               if batch.state == "applied" and one.undoes is None for row in batch.rows or ()]  # fmt: skip
    assert len({tuple(row["key"]) for row in written}) == DIFFERENCES
    assert both.run().verdict is Verdict.MATCH
