"""Rolling audits: every part has its turn, and the whole table is known from the latest look at each of its partitions."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from auditor import service
from auditor.config import Settings, checked
from auditor.model import Report, Verdict
from auditor.report.day import day
from auditor.store import Store, open_store

ROWS = 10_000
SIZE = 1000


@pytest.fixture
def rolling(tmp_path: Path) -> Settings:
    for side in ("source", "target"):
        with duckdb.connect(str(tmp_path / f"{side}.duckdb")) as connection:
            connection.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR)")
            connection.execute(f"INSERT INTO t SELECT i, 'v' || i FROM range({ROWS}) r(i)")
    ends = {side: {"connection": side, "table": "t"} for side in ("source", "target")}
    return checked(
        {
            "connections": {side: {"url": f"duckdb:///{tmp_path}/{side}.duckdb"} for side in ends},
            "audits": {"t": {**ends, "rolling": {"per_run": "30%"}, "partition": {"size": SIZE}}},
        }
    )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(f"sqlite:///{tmp_path}/auditor.db")


def changed(tmp_path: Path, side: str, sql: str) -> None:
    with duckdb.connect(str(tmp_path / f"{side}.duckdb")) as connection:
        connection.execute(sql)


def ran(rolling: Settings, store: Store, times: int) -> list[Report]:
    return [service.run_audit(rolling, "t", store=store) for _ in range(times)]


def test_every_part_has_its_turn(rolling: Settings, store: Store) -> None:
    reports = ran(rolling, store, 4)
    assert [report.plan.stretches for report in reports if report.plan] == [((0, 3),), ((3, 6),), ((6, 9),), ((0, 2), (9, 10))]
    assert {report.verdict for report in reports} == {Verdict.MATCH}
    assert reports[0].coverage == {"rows": pytest.approx(0.3), "partitions": pytest.approx(0.3)}
    assert [bool(report.verified_through) for report in reports] == [False, False, False, True], "only when all of it was read"
    first = service.whole(store, "t")
    assert first and (first.verdict, first.partitions, first.read, first.unequal) == (Verdict.MATCH, 10, 10, 0)


def test_a_part_that_was_never_read_is_not_called_equal(rolling: Settings, store: Store) -> None:
    ran(rolling, store, 2)
    found = service.whole(store, "t")
    assert found and (found.verdict, found.read) == (Verdict.UNKNOWN, 6)
    assert "4 were never read" in found.sentence


def test_a_difference_stays_known_until_its_part_is_read_again(rolling: Settings, store: Store, tmp_path: Path) -> None:
    changed(tmp_path, "target", "DELETE FROM t WHERE id = 1500")
    assert [report.verdict.value for report in ran(rolling, store, 2)] == ["mismatch", "match"]
    found = service.whole(store, "t")
    assert found and (found.verdict, found.unequal) == (Verdict.MISMATCH, 1)
    today = day(store, rolling, found.oldest.date()) if found.oldest else None
    assert today and today.entries[0].status == "mismatch", "the report of the day tells of the whole table"
    changed(tmp_path, "target", "INSERT INTO t VALUES (1500, 'v1500')")
    reports = ran(rolling, store, 2)
    assert reports[-1].verified_through, "the part that differed was read again with the last"
    mended = service.whole(store, "t")
    assert mended and mended.verdict is Verdict.MATCH


def test_new_keys_are_read_first_and_starve_nothing(rolling: Settings, store: Store, tmp_path: Path) -> None:
    ran(rolling, store, 4)
    for turn in range(4):
        for side in ("source", "target"):
            changed(tmp_path, side, f"INSERT INTO t SELECT i, 'new' FROM range({ROWS + turn * SIZE}, {ROWS + (turn + 1) * SIZE}) r(i)")
        (report,) = ran(rolling, store, 1)
        assert report.plan and (10 + turn, 11 + turn) in [*report.plan.stretches, *_cells(report.plan.stretches)]
        assert sum(end - first for first, end in report.plan.stretches) > 1, "there is room for a part that was read before"


def _cells(stretches: tuple[tuple[int, int], ...]) -> list[tuple[int, int]]:
    return [(cell, cell + 1) for first, end in stretches for cell in range(first, end)]


def test_an_audit_that_is_not_rolling_has_no_parts(rolling: Settings, store: Store) -> None:
    whole = rolling.model_copy(update={"audits": {"t": rolling.audits["t"].model_copy(update={"rolling": None})}})
    ran(whole, store, 1)
    assert service.whole(store, "t") is None
