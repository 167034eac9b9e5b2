"""A pytest plug-in for the engine of another distribution: ``pytest -p auditor.testing.engine_oracle``.

A test module of the engine imports the tests and says where the engine is::

    from auditor.testing.oracle import *

    @pytest.fixture
    def engine_url(tmp_path):
        return f"sqlite:///{tmp_path}/oracle.db"

The URL leads to a database in which the tests may create tables. It needs the extra ``auditor[testing]``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from dialects import Kind, Session

EXAMPLES = 200
"""Rows of random values, by default."""

pytest.register_assert_rewrite("auditor.testing.oracle", "auditor.testing.columns")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the tests."""
    group = parser.getgroup("auditor's engine oracle")
    group.addoption("--engine-url", help="where the engine is, unless the fixture engine_url says it")
    group.addoption("--oracle-examples", type=int, default=EXAMPLES, help="rows of random values (default: %(default)s)")
    group.addoption("--update-statements", action="store_true", help="write the golden statements anew")


@pytest.fixture
def engine_url(request: pytest.FixtureRequest) -> str:
    """The URL of the engine under test."""
    url: str | None = request.config.getoption("--engine-url")
    if not url:
        raise pytest.UsageError("say where the engine is: --engine-url URL, or define the fixture engine_url")
    return url


@pytest.fixture
def oracle_examples(request: pytest.FixtureRequest) -> int:
    """The number of rows of random values."""
    count: int = request.config.getoption("--oracle-examples")
    return count


@pytest.fixture
def catalogue_aliases() -> Mapping[Kind, Kind]:
    """Kinds that the catalogue reports in place of the kind that a column was created with, because the engine lacks the latter."""
    return {}


@pytest.fixture
def golden_folder() -> Path | None:
    """The folder of the golden statements; None for none."""
    return None


@pytest.fixture
def engine_session(engine_url: str, oracle_examples: int) -> Iterator[Session]:
    """A session on the engine, whose table of every kind is filled."""
    import dialects
    from auditor.testing.columns import ensure_table

    ensure_table(engine_url, oracle_examples)
    with closing(dialects.connect(engine_url)) as opened:
        yield opened
