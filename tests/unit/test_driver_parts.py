"""Parts of drivers that these do not promise are used in one module per driver, which names the versions on which they were tried."""

from __future__ import annotations

import ast
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest

from dialects.mysql import driver as mysql
from dialects.redshift import driver as redshift
from dialects.spark import driver as spark

ROOT = Path(__file__).parents[2]
MODULES = {"pymysql": mysql, "redshift-connector": redshift, "pyspark": spark}

OWN = {"_asdict", "_exit", "_mapping", "_replace"}
"""Names that begin with an underscore, and that their libraries promise."""


@pytest.mark.parametrize("driver", MODULES)
def test_installed_version_was_tried(driver: str) -> None:
    assert version(driver) in MODULES[driver].TRIED


def _private_parts(module: Path) -> set[str]:
    """Return the private attributes of connections, cursors and sessions of a driver that a module names."""
    attributes = [node for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.Attribute)]
    private = [node for node in attributes if node.attr.startswith("_") and not node.attr.startswith("__") and node.attr not in OWN]
    return {ast.unparse(node) for node in private if ast.unparse(node.value).split(".")[-1] in HOLDERS}


HOLDERS = {"SparkContext", "connection", "conn", "cursor", "driver", "result", "spark", "sparkContext", "pymysql", "psycopg2", "duckdb"}
"""What objects of drivers are called."""


def _file(module: ModuleType) -> Path:
    assert module.__file__
    return Path(module.__file__)


def test_private_parts_are_used_in_one_module_per_driver() -> None:
    allowed = {_file(module) for module in MODULES.values()}
    used = {path: _private_parts(path) for folder in ("auditor", "dialects") for path in (ROOT / folder).rglob("*.py")}
    assert {path for path, parts in used.items() if parts} == allowed, {str(path): parts for path, parts in used.items() if parts}
