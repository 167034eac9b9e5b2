"""Repeat a run over random tables, or run many: ``python -m tests.deep --engines duckdb-duckdb --seed 7 --run 3``."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import new_stores
from tests.deep.runs import RUNS_PER_WORLD, Stage, Tally, duckdb_in
from tests.kept_open import keep_databases_open
from tests.live import Engines, LiveEngine
from tests.servers import mysql


def main(arguments: list[str]) -> int:
    """Run, print each wrong run and the tally; return 1 if a run was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.deep", description=__doc__)
    parser.add_argument("--engines", default="duckdb-duckdb", help="the source's engine and the target's (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="the first seed (default: %(default)s)")
    parser.add_argument("--run", type=int, help="one run of the seed; by default all")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds (default: %(default)s)")
    given = parser.parse_args(arguments)
    numbers = range(RUNS_PER_WORLD) if given.run is None else range(given.run, given.run + 1)
    tally, began = Tally(), time.monotonic()
    with _open_stage(given.engines) as stage:
        for seed in range(given.seed, given.seed + given.seeds):
            for outcome in stage.play(seed, numbers):
                tally.add(outcome)
                if outcome.wrong:
                    print(f"{outcome.command}\n    {outcome.wrong}", flush=True)
            if (seed - given.seed) % 25 == 24:
                print(f"seed {seed}: {str(tally).splitlines()[0]}", flush=True)
    print(f"{str(tally).splitlines()[0]}; {len(tally.wrong)} wrong; {tally.runs / (time.monotonic() - began):.1f} runs a second")
    return 1 if tally.wrong else 0


@contextmanager
def _open_stage(names: str) -> Iterator[Stage]:
    engines = Engines()
    with tempfile.TemporaryDirectory() as folder, keep_databases_open(), pytest.MonkeyPatch.context() as patch:
        new_stores.copy_new_stores(patch)
        new_stores.compile_once(patch)
        mysql.share_tls_context(patch)
        try:
            source, target = (
                _engine(engines, name, side, Path(folder)) for name, side in zip(names.split("-"), ("source", "target"), strict=True)
            )
            yield Stage(source, target, duckdb_in(Path(folder), "lake"), Path(folder))
        finally:
            engines.stop()


def _engine(engines: Engines, name: str, side: str, folder: Path) -> LiveEngine:
    return duckdb_in(folder, side) if name == "duckdb" else engines.live(name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
