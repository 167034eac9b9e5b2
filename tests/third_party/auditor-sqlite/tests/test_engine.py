"""SQLite against auditor's reference: ``pytest -p auditor.testing.engine_oracle``."""

from pathlib import Path

import pytest

from auditor.testing.oracle import *  # noqa: F403


@pytest.fixture
def engine_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file of its own for the whole run."""
    return f"sqlite:///{tmp_path_factory.getbasetemp()}/oracle.db"


@pytest.fixture
def golden_folder() -> Path:
    """The statements that people review."""
    return Path(__file__).parent / "golden"
