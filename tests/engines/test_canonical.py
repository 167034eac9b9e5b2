"""Every engine's canonical text and row hash equal the plain-Python oracle's, on random values and edge cases.

The tests are those that ``auditor.testing.oracle`` has for the engines of other distributions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from auditor.testing import columns, oracle
from dialects import HashAlgorithm, Kind, Session
from tests import tables
from tests.live import LiveEngine, and_lakes, engine_params

pytestmark = pytest.mark.parametrize("engine", [*and_lakes(), *engine_params("clickhouse")], indirect=True)

ALIASES: Mapping[str, Mapping[Kind, Kind]] = {
    "mariadb": {Kind("json"): Kind("text")},  # https://mariadb.com/kb/en/json/
    "redshift": {Kind("uuid"): Kind("text"), Kind("network"): Kind("text"), Kind("integer", unsigned=True): Kind("decimal", 20, 0)},
}


@pytest.fixture(autouse=True)
def made_as_tables_of_lakes(engine: LiveEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the tests make tables of an engine that runs no CREATE TABLE."""

    def make_table(_: str, name: str, some: columns.Columns, rows: Sequence[Sequence[Any]], key: str = "") -> None:
        tables.make(engine, name, some, rows, [key] if key else [])

    if engine.dialect in ("delta", "iceberg"):
        for module in (columns, oracle):
            monkeypatch.setattr(module, "make_table", make_table)


@pytest.fixture
def engine_url(engine: LiveEngine) -> str:
    return engine.url


@pytest.fixture
def oracle_examples(request: pytest.FixtureRequest) -> int:
    return 5000 if request.config.getoption("--deep") else 200


@pytest.fixture
def catalogue_aliases(engine: LiveEngine) -> Mapping[Kind, Kind]:
    return ALIASES.get(engine.name, {})


class TestCanonicalText(oracle.TestCanonicalText):
    @pytest.mark.slow_on("spark")
    @pytest.mark.parametrize("algorithm", ["sha256", pytest.param("md5", marks=pytest.mark.slow)])
    def test_row_hashes_equal_the_oracle(self, engine_session: Session, algorithm: HashAlgorithm, oracle_examples: int) -> None:
        super().test_row_hashes_equal_the_oracle(engine_session, algorithm, oracle_examples)
