"""Rows in flight with methods that name no rows: differences they could explain are unknown, all others are mismatches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor import service
from auditor.config import validate_settings
from auditor.model import SIDES, Report, Verdict

pytestmark = pytest.mark.duckdb
SETTLE = {"column": "moved", "lag": "1h"}
ROWS = "INSERT INTO t SELECT i, 'row ' || i, TIMESTAMP '2020-01-01' + INTERVAL (i) MINUTE FROM range(1000) r(i)"
MOVED = "UPDATE t SET v = 'new', moved = now() AT TIME ZONE 'UTC' WHERE "
WRONG = "UPDATE t SET v = 'another text' WHERE "
METHODS_WITHOUT_NAMES = ("counts", "signature", "minhash")


def run_audit(folder: Path, audit: Mapping[str, Any], source: Sequence[str] = (), target: Sequence[str] = (), rows: str = ROWS) -> Report:
    """Create both tables, apply these statements to each side, and audit them."""
    for side, statements in zip(SIDES, (source, target), strict=True):
        with duckdb.connect(str(folder / f"{side}.duckdb")) as connection:
            for statement in ("CREATE OR REPLACE TABLE t (id BIGINT, v VARCHAR, moved TIMESTAMP)", rows, *statements):
                connection.execute(statement)
    ends: dict[str, Any] = {side: {"connection": side, "table": "t"} for side in SIDES}
    connections = {side: {"url": f"duckdb:///{folder}/{side}.duckdb"} for side in SIDES}
    whole = {"key": ["id"], "settle": SETTLE, "partition": {"size": 100}, **ends, **audit}
    return service.run_audit(validate_settings({"connections": connections, "audits": {"t": whole}}), "t")


@pytest.mark.parametrize("method", METHODS_WITHOUT_NAMES)
def test_partition_explained_by_rows_in_flight_is_unknown(tmp_path: Path, method: str) -> None:
    found = run_audit(tmp_path, {"method": method}, [MOVED + "id IN (5, 205)"])
    assert (found.verdict, found.exit_code) == (Verdict.UNKNOWN, 3)
    assert "2 rows of the source are in flight, and old versions in the target may explain all of the difference" in found.reasons
    assert "use the method exact or a ladder that ends with it" in found.reasons[-1]


@pytest.mark.parametrize("method", METHODS_WITHOUT_NAMES)
def test_difference_beyond_rows_in_flight_is_a_mismatch(tmp_path: Path, method: str) -> None:
    none_in_flight = run_audit(tmp_path, {"method": method}, [], [WRONG + "id = 5"])
    other_partition = run_audit(tmp_path, {"method": method}, [MOVED + "id = 5"], ["DELETE FROM t WHERE id IN (300, 301)"])
    more_than_in_flight = run_audit(tmp_path, {"method": method}, [MOVED + "id = 5"], ["DELETE FROM t WHERE id IN (6, 7, 8)"])
    assert [one.verdict for one in (none_in_flight, other_partition, more_than_in_flight)] == [Verdict.MISMATCH] * 3


def test_wrong_row_in_a_partition_without_rows_in_flight_is_a_mismatch(tmp_path: Path) -> None:
    assert run_audit(tmp_path, {"method": "signature"}, [MOVED + "id = 5"], [WRONG + "id = 500"]).verdict is Verdict.MISMATCH


def test_one_row_in_flight_does_not_explain_equal_row_counts(tmp_path: Path) -> None:
    """A row in flight is left out of the source only, so the row counts would differ."""
    deletion = "DELETE FROM t WHERE id = 7"
    assert run_audit(tmp_path, {"method": "signature"}, [MOVED + "id = 5"], [deletion]).verdict is Verdict.MISMATCH


def test_counts_treats_the_whole_table_as_one_partition(tmp_path: Path) -> None:
    whole = {"method": "counts", "partition": {}}
    assert run_audit(tmp_path, whole, [MOVED + "id = 5"]).verdict is Verdict.UNKNOWN
    assert run_audit(tmp_path, whole, [MOVED + "id = 5"], ["DELETE FROM t WHERE id > 900"]).verdict is Verdict.MISMATCH
    allowed = {
        **whole,
        "counts": {"allow": {"rows": 5, "* characters": "1%", "* bytes": "1%", "* sum": "1%", "* min": "10000", "* max": "10000"}},
    }
    assert run_audit(tmp_path, allowed, [MOVED + "id = 5"]).verdict is Verdict.MATCH


def test_row_in_flight_may_move_between_time_partitions(tmp_path: Path) -> None:
    by_time = {"method": "signature", "partition": {"column": "moved", "unit": "hour"}}
    assert run_audit(tmp_path, by_time, [MOVED + "id = 5"]).verdict is Verdict.UNKNOWN
    assert run_audit(tmp_path, by_time, [], [WRONG + "id = 5"]).verdict is Verdict.MISMATCH


def test_ladder_escalates_to_exact_and_names_rows_in_flight(tmp_path: Path) -> None:
    found = run_audit(tmp_path, {"ladder": ["counts", "signature", "exact"]}, [MOVED + "id = 5"])
    assert (found.method, found.verdict) == ("exact", Verdict.MATCH)
    assert found.differences is not None and found.differences.in_flight == 1
    assert run_audit(tmp_path, {"ladder": ["counts", "signature"]}, [MOVED + "id = 5"]).verdict is Verdict.UNKNOWN


MANY = "INSERT INTO t SELECT i, 'row ' || i, '2020-01-01' FROM range(60000) r(i)"
FEW_ROWS_LISTED = {"partition": {"size": 1000}, "limits": {"max_rows_listed": 1000}}


def test_estimated_differences_may_be_in_flight(tmp_path: Path) -> None:
    found = run_audit(tmp_path, FEW_ROWS_LISTED, [MOVED + "id % 3 = 0"], rows=MANY)
    assert found.differences is not None and found.differences.partitions["estimated"] == 60 and not found.differences.named
    assert found.verdict is Verdict.UNKNOWN
    assert "20,000 rows of the source are in flight" in found.reasons[-2] and "raise limits.max_rows_listed" in found.reasons[-1]


@pytest.mark.slow
def test_estimated_differences_beyond_rows_in_flight_are_a_mismatch(tmp_path: Path) -> None:
    assert run_audit(tmp_path, FEW_ROWS_LISTED, [], [WRONG + "id % 3 = 0"], rows=MANY).verdict is Verdict.MISMATCH
    assert run_audit(tmp_path, FEW_ROWS_LISTED, [MOVED + "id = 5"], [WRONG + "id % 3 = 0"], rows=MANY).verdict is Verdict.MISMATCH


def test_differences_beyond_max_differences_are_unsettled(tmp_path: Path) -> None:
    found = run_audit(tmp_path, {"limits": {"max_differences": 0}}, [MOVED + "id = 5"])
    assert found.verdict is Verdict.UNKNOWN and found.differences is not None and found.differences.unsettled == 1
    assert any("beyond limits.max_differences and not rechecked" in reason for reason in found.reasons)


def test_recheck_needs_a_method_that_names_rows(tmp_path: Path) -> None:
    recheck = {"recheck": {"times": 1, "wait": "1ms"}}
    for method in METHODS_WITHOUT_NAMES:
        with pytest.raises(Exception, match="recheck"):
            run_audit(tmp_path, {"method": method, **recheck})
    assert run_audit(tmp_path, {"ladder": ["counts", "exact"], **recheck}, [MOVED + "id = 5"]).verdict is Verdict.MATCH
