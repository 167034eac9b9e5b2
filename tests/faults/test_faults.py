"""Faults under load, and what each method says of them; `make faults` runs all of them, and writes docs/faults.md."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from auditor.store import open_store
from tests.chaos.targets import open_targets
from tests.faults import matrix
from tests.faults.damage import find_damage
from tests.faults.delivery import running
from tests.faults.faults import FAULTS
from tests.faults.methods import METHODS, SCANS
from tests.faults.world import World
from tests.live import Engines


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a store in which nothing is stored yet."""
    path = tmp_path_factory.mktemp("store") / "auditor.db"
    open_store(f"sqlite:///{path}").close()
    return path


@pytest.mark.alone  # it compares places in the source's log
@pytest.mark.mysql
@pytest.mark.postgres
def test_an_alarm_is_raised_where_something_is_wrong(engines: Engines, tmp_path: Path, empty_store: Path) -> None:
    """The machinery of the matrix, with one method, and a target that is there anyway."""
    about = (tmp_path, empty_store, engines.live("mysql"), engines.live("postgres").url, "faulty", list(SCANS.values()))
    with closing(World(*about)) as world:
        world.fill(100)
        found = {}
        with running(world):
            for fault in ("lost delete", "truncated text"):
                FAULTS[fault].inject(world)
                row = matrix.Row(find_damage(world), {"exact aligned": METHODS["exact aligned"](world)})
                assert list(matrix.check(fault, row)) == []
                assert "not aligned" not in row.found["exact aligned"].sentence
                found[fault] = row.damage, row.found["exact aligned"].caught
        told = METHODS["pipeline"](world)
    assert found == {"lost delete": ("", False), "truncated text": ("1 changed", True)} and world.hits > 1
    assert told.caught and "came into parts; nothing of this batch was staged" in told.sentence, "the lost event is staged again"


MEASURED: dict[str, matrix.Row] = {}
"""What was found of each fault in this run."""


@pytest.fixture(scope="module")
def warehouse(engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the stand-in of Redshift, loaded from S3; what was found of faults is written once they are through."""
    with pytest.MonkeyPatch.context() as patch, open_targets(["redshift"], tmp_path_factory.mktemp("targets"), engines, patch) as targets:
        yield targets["redshift"].url
    matrix.write(MEASURED)


@pytest.mark.chaos
@pytest.mark.mysql
@pytest.mark.redshift
@pytest.mark.parametrize("fault", FAULTS)
def test_the_matrix(engines: Engines, tmp_path: Path, empty_store: Path, warehouse: str, fault: str) -> None:
    name = f"faulty_{list(FAULTS).index(fault)}"
    row = matrix.measure(fault, tmp_path, empty_store, engines.live("mysql"), warehouse, name)
    MEASURED[fault] = row
    print(f"\n{fault}: {row.damage or 'nothing'} is wrong in the target")
    for method, found in row.found.items():
        print(f"    {method}: {'ALARM' if found.caught else 'no alarm'}, {found.seconds:.1f} s: {found.sentence}", flush=True)
    assert list(matrix.check(fault, row)) == []
