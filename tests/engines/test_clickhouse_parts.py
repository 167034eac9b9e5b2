"""Sums that are kept of ClickHouse's parts: equal to full scans whatever is done to a table, and read only for parts that are new."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auditor.config import Audit, ConnectionSettings, Settings
from auditor.connections.reader import Reader
from auditor.model import Report, Side
from auditor.planning import build, introspect
from auditor.run.cross_checks import CrossChecks
from auditor.run.file_summaries import FileSummaries
from auditor.run.scan import scan_side
from auditor.service import running
from auditor.store import Store, open_store
from auditor.store.file_sums import KeptFileSums
from dialects.clickhouse import table_parts
from dialects.clickhouse.dialect import ClickHouse
from dialects.clickhouse.table_parts import MergeTreeParts
from tests.live import LiveEngine, engine_params
from tests.servers import clickhouse

pytestmark = pytest.mark.parametrize("engine", engine_params("clickhouse"), indirect=True)

SIDES: dict[Side, str] = {"source": "p_a", "target": "p_b"}
"""Tables by side."""


@pytest.fixture
def run(engine: LiveEngine) -> Iterator[Callable[..., None]]:
    """Runs statements as another user of the server does."""
    with closing(clickhouse.connect(engine.url)) as client:

        def statements(*some: str) -> None:
            for sql in some:
                client.command(sql, settings={"mutations_sync": "2", "lightweight_deletes_sync": "2"})

        yield statements


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(f"sqlite:///{tmp_path}/store.db")) as opened:
        yield opened


def make(run: Callable[..., None], *names: str, engine: str = "MergeTree") -> None:
    for name in names or SIDES.values():
        run(f"DROP TABLE IF EXISTS {name}", f"CREATE TABLE {name} (id Int64, word String) ENGINE = {engine} ORDER BY id")
        run(f"SYSTEM STOP MERGES {name}")


def insert(run: Callable[..., None], table: str, first: int, end: int, word: str = "word") -> None:
    run(f"INSERT INTO {table} (id, word) SELECT number + {first}, concat('{word} ', toString(number)) FROM numbers({end - first})")


def settings(engine: LiveEngine, **more: Any) -> Settings:
    sides: dict[str, Any] = {side: {"connection": "ch", "table": name} for side, name in SIDES.items()}
    audit: dict[str, Any] = {**sides, "key": ["id"], "files": "kept", "partition": {"size": 64}, **more}
    return Settings.model_validate({"connections": {"ch": {"url": engine.url}}, "audits": {"words": audit}})


def audit(engine: LiveEngine, store: Store, **more: Any) -> Report:
    return running.run_audit(settings(engine, **more), "words", store=store)


def read(report: Report) -> dict[Side, tuple[int, int]]:
    """Return how many parts each side has, and how many were read."""
    return {side: (files.files, files.read) for side, files in report.files.items()}


def test_only_new_parts_are_read(engine: LiveEngine, run: Callable[..., None], store: Store) -> None:
    make(run)
    for table in SIDES.values():
        insert(run, table, 0, 300)
        insert(run, table, 300, 600)
    first = audit(engine, store)
    assert first.verdict == "match" and read(first) == {"source": (2, 2), "target": (2, 2)}
    insert(run, "p_b", 600, 605)
    run("SYSTEM START MERGES p_a", "DELETE FROM p_a WHERE id = 7", "OPTIMIZE TABLE p_a FINAL")
    found = audit(engine, store)
    assert found.differences and (found.differences.missing, found.differences.extra) == (0, 6)
    assert read(found) == {"source": (1, 1), "target": (3, 1)}
    assert read(audit(engine, store)) == {"source": (1, 0), "target": (3, 0)}


def test_a_part_of_the_same_name_with_other_rows_is_another(engine: LiveEngine, run: Callable[..., None], store: Store) -> None:
    make(run)
    for table in SIDES.values():
        insert(run, table, 0, 100)
    assert audit(engine, store).verdict == "match"
    make(run, "p_b")
    insert(run, "p_b", 0, 100, "lord")
    found = audit(engine, store)
    assert found.differences and found.differences.changed == 100 and read(found) == {"source": (1, 0), "target": (1, 1)}


STEPS = (
    "insert", "insert", "DELETE FROM p_b WHERE id % 11 = {n}", "ALTER TABLE p_b UPDATE word = concat(word, '{n}') WHERE id % 13 = {n}",
    "ALTER TABLE p_b DELETE WHERE id % 17 = {n}", "OPTIMIZE TABLE p_b FINAL",
    "ALTER TABLE p_b ADD COLUMN IF NOT EXISTS more Int32 DEFAULT {n}", "ALTER TABLE p_b DROP COLUMN IF EXISTS more",
    "ALTER TABLE p_b MODIFY COLUMN word Nullable(String)", "TRUNCATE TABLE p_b",
)  # fmt: skip


def follow(engine: LiveEngine, run: Callable[..., None], store: Store, seed: int, count: int) -> tuple[int, int]:
    """Compare the sums of a table's parts with a scan after each of so many changes; return parts there were and were read."""
    chance = random.Random(seed)
    make(run)
    run("SYSTEM START MERGES p_b")
    there = seen = key = 0
    for _ in range(count):
        step = chance.choice(STEPS)
        if step == "insert":
            insert(run, "p_b", key, key := key + chance.randrange(1, 300))
        else:
            run(step.format(n=chance.randrange(5)))
        sides = {side: {"connection": "ch", "table": "p_b"} for side in SIDES}
        given = Audit.model_validate({**sides, "key": ["id"], "files": "kept", "salt": "same"})
        files, names = FileSummaries(given, KeptFileSums(store, "history")), dict.fromkeys(SIDES, "ch")
        with Reader("history", names, {"ch": ConnectionSettings(url=engine.url)}, patient=False).open() as reader:
            tables = introspect.describe_tables(reader, given)
            plan = files.make_plan(reader, tables, build.draft_plan("history", given, reader, tables, None, None), CrossChecks(reader))
            kept, scanned = files.summaries(plan, "target"), scan_side(reader, plan, "target")
            for what in ("partition", "rows", "hashed", "words", "syndromes"):
                assert np.array_equal(getattr(kept, what), getattr(scanned, what)), (step, what)
        there, seen = there + files.read["target"].files, seen + files.read["source"].read
    return there, seen


@pytest.mark.parametrize(("seed", "count"), [(1, 5), *(pytest.param(seed, 12, marks=pytest.mark.slow) for seed in (2, 3))])
def test_sums_are_those_of_a_scan_after_random_changes(
    engine: LiveEngine, run: Callable[..., None], store: Store, seed: int, count: int
) -> None:
    there, seen = follow(engine, run, store, seed, count)
    assert 0 < seen < there


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(10))
def test_sums_are_those_of_a_scan_after_a_thousand_changes(engine: LiveEngine, run: Callable[..., None], store: Store, seed: int) -> None:
    there, seen = follow(engine, run, store, 100 + seed, 100)
    assert 0 < seen < there


def test_parts_that_are_merged_while_they_are_read_are_not_believed(
    engine: LiveEngine, run: Callable[..., None], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(run)
    for table in SIDES.values():
        insert(run, table, 0, 100)
        insert(run, table, 100, 200)
    show, merges = MergeTreeParts.show, ["p_b"]

    def merging(self: MergeTreeParts, session: Any, table: str, *about: Any) -> str:
        shown = show(self, session, table, *about)
        if table.endswith('"p_b"') and merges:
            run("SYSTEM START MERGES p_b", f"OPTIMIZE TABLE {merges.pop()} FINAL")
        return shown

    monkeypatch.setattr(MergeTreeParts, "show", merging)
    found = audit(engine, store)
    assert found.verdict == "match" and read(found) == {"source": (2, 2), "target": (1, 1)} and found.retries == 1


@pytest.mark.parametrize(
    ("statements", "sentence"),
    [
        (["DROP TABLE p_b", "CREATE TABLE p_b (id Int64, word String) ENGINE = ReplacingMergeTree ORDER BY id"],
         "is a table of the engine ReplacingMergeTree, which makes rows of several parts"),
        pytest.param(["DROP TABLE p_b", "CREATE TABLE p_b (id Int64, word String) ENGINE = Memory"],
                     "only those of MergeTree consist of parts", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_tables_that_are_not_their_parts_are_scanned_or_refused(
    engine: LiveEngine, run: Callable[..., None], store: Store, statements: list[str], sentence: str
) -> None:
    make(run)
    run(*statements)
    for table in SIDES.values():
        insert(run, table, 0, 50)
    one = audit(engine, store)
    assert one.verdict == "match" and read(one) == {"source": (1, 1)}, "the other side is scanned"
    both = audit(engine, store, source={"connection": "ch", "table": "p_b"})
    assert both.exit_code == 2 and sentence in both.reasons[0]


@pytest.mark.parametrize(
    ("column", "definition", "sentence"),
    [
        pytest.param("later", "String DEFAULT toString(now())", "1 parts are older than the column later, whose default (toString(now()))",
                     marks=pytest.mark.slow),
        ("later", "String ALIAS upper(word)", "later is an ALIAS, computed at each reading"),
        pytest.param('it"s `\\\\', "String ALIAS upper(word)", "is an ALIAS, computed at each reading", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_columns_that_are_computed_at_each_reading_are_refused(
    engine: LiveEngine, run: Callable[..., None], store: Store, column: str, definition: str, sentence: str
) -> None:
    make(run)
    quoted = ClickHouse().names.quote(column)
    for table in SIDES.values():
        insert(run, table, 0, 50)
        run(f"ALTER TABLE {table} ADD COLUMN {quoted} {definition}")
    found = audit(engine, store)
    assert found.verdict == "unknown" and sentence in found.reasons[0]
    excluded = audit(engine, store, columns={"exclude": [column]})
    assert excluded.verdict == "match" and read(excluded) == {"source": (1, 1), "target": (1, 1)}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda part: (part[0], part[1], part[2] + 1, *part[3:]), "51 rows in its parts, and 50 for this user: a row policy hides some"),
        (lambda part: (f"patch-{part[0]}", *part[1:]), "1 parts that change rows of others (patch-"),
    ],
)
def test_tables_whose_rows_are_not_those_of_their_parts_are_refused(
    engine: LiveEngine,
    run: Callable[..., None],
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Any], Any],
    sentence: str,
) -> None:
    make(run)
    for table in SIDES.values():
        insert(run, table, 0, 50)
    list_parts = table_parts._list
    monkeypatch.setattr(table_parts, "_list", lambda *about: [change(part) for part in list_parts(*about)])
    found = audit(engine, store)
    assert found.verdict == "unknown" and sentence in found.reasons[0]
