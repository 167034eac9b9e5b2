"""Rows that refer to others of their table, or whose unique values move, are patched and undone in an order that the engine takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from auditor.errors import PatchFailed, PatchRefused
from auditor.service import patches
from auditor.service.patches import Followed
from tests import tables
from tests.live import Engines, LiveEngine, engine_params
from tests.repair import small
from tests.repair.small import Small

pytestmark = [pytest.mark.mariadb, pytest.mark.engines_in_turn]
SERVERS = pytest.mark.parametrize("engine", engine_params("postgres", "mysql", "mariadb"), indirect=True)
ON_POSTGRES = pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
TREE = "CREATE TABLE t (id INTEGER PRIMARY KEY, parent INTEGER, name VARCHAR(20), CONSTRAINT of_t FOREIGN KEY (parent) REFERENCES t (id))"


def trees(folder: Path, engine: LiveEngine, engines: Engines, source_rows: str, target_rows: list[str]) -> Small:
    start = ("CREATE TABLE s (id INTEGER PRIMARY KEY, parent INTEGER, name VARCHAR(20))", f"INSERT INTO s VALUES {source_rows}")
    end = ("DROP TABLE IF EXISTS t", TREE, *(f"INSERT INTO t VALUES {row}" for row in target_rows))
    return small.make(folder, engine, start, end, source=engines.live("mariadb"))


def source_rows(both: Small) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in tables.query(both.source, "SELECT * FROM s")), key=str)


def undo(both: Small, patch: str) -> None:
    patches.undo_patch(both.settings, both.store, patch, Followed())


@SERVERS
def test_a_table_that_refers_to_itself_is_patched_and_undone(engine: LiveEngine, engines: Engines, tmp_path: Path) -> None:
    # Each row refers to one with a greater key, so that the order of keys is the wrong one, over more than one batch of other tables.
    wanted = ", ".join(f"({n}, {n + 1}, 'a')" for n in range(1, 250)) + ", (250, NULL, 'root')"
    extra = ["(1002, NULL, 'x')", "(1001, 1002, 'x')", "(1000, 1001, 'x')", "(250, 1002, 'root')"]
    same = [f"({n}, NULL, 'same')" for n in range(3000, 3300)]
    both = trees(tmp_path, engine, engines, ", ".join([wanted, *same]), [*extra, ", ".join(same)])
    before = both.rows()
    assert "INSERT" in both.script() and both.script().index("VALUES (249") < both.script().index("VALUES (248")
    done = both.apply()
    assert both.rows() == source_rows(both) and done.patched.counts == {"inserted": 249, "updated": 1, "deleted": 3}
    undo(both, done.patched.patch)
    assert both.rows() == before


@SERVERS
def test_rows_that_refer_to_one_another_in_a_circle_are_refused(engine: LiveEngine, engines: Engines, tmp_path: Path) -> None:
    both = trees(tmp_path, engine, engines, "(1, 2, 'a'), (2, 1, 'b'), (3, NULL, 'c')", ["(3, NULL, 'c')"])
    with pytest.raises((PatchRefused, PatchFailed), match="refer to one another in a circle"):
        both.apply()
    assert both.rows() == [(3, None, "c")]


@pytest.mark.quick_for("(parent) NULLS NOT DISTINCT")
@ON_POSTGRES
@pytest.mark.parametrize(
    ("index", "source", "target"),
    [
        ("(LOWER(name))", "(1, 1, 'Pen'), (2, 1, 'ink')", ["(1, 1, 'INK')", "(2, 1, 'cap')"]),
        ("(parent) NULLS NOT DISTINCT", "(1, NULL, 'a'), (2, 7, 'b')", ["(1, 5, 'a')", "(2, NULL, 'b')"]),
        ("(name) WHERE parent > 0", "(1, 1, 'x'), (2, 1, 'y')", ["(1, 1, 'y')", "(2, 1, 'z')"]),
    ],
)
def test_unique_values_of_expressions_and_nulls_move_in_order(
    engine: LiveEngine, engines: Engines, tmp_path: Path, index: str, source: str, target: list[str]
) -> None:
    if "NULLS NOT DISTINCT" in index and tables.postgres_version(engine) < 150_000:
        pytest.skip("PostgreSQL before 15 has no NULLS NOT DISTINCT")
    both = trees(tmp_path, engine, engines, source, [])
    both.on_target("ALTER TABLE t DROP CONSTRAINT of_t", f"CREATE UNIQUE INDEX one_only ON t {index}")
    for row in target:
        both.on_target(f"INSERT INTO t VALUES {row}")
    assert both.apply().patched.counts == {"updated": 2}
    assert both.rows() == source_rows(both)


@SERVERS
def test_what_an_undo_does_not_bring_back_is_said_before(engine: LiveEngine, engines: Engines, tmp_path: Path) -> None:
    both = trees(tmp_path, engine, engines, "(1, NULL, 'a')", ["(1, NULL, 'a')", "(2, NULL, 'b')"])
    both.on_target(
        "DROP TABLE IF EXISTS child",
        "CREATE TABLE child (id INTEGER PRIMARY KEY, of_t INTEGER, FOREIGN KEY (of_t) REFERENCES t (id) ON DELETE CASCADE)",
        "INSERT INTO child VALUES (1, 2)",
    )
    with pytest.raises(PatchRefused, match=r"rows of .*child.* would be deleted .* note that an undo does not bring them back"):
        both.apply()
    run = both.run().run
    script = "".join(patches.print_patch(both.settings, both.store, run, small.EVERYTHING, "sql", accepted=("cascades",)))
    assert "child that cascading foreign keys delete or change with these are not brought back by an undo." in script
    both.on_target("DROP TABLE child")
