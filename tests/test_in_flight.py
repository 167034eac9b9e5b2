"""Where rows are in flight and nobody can say which: nothing is claimed of what they can explain, and all of what they cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor import service
from auditor.config import checked
from auditor.model import SIDES, Report, Verdict

pytestmark = pytest.mark.duckdb
SETTLE = {"column": "moved", "lag": "1h"}
ROWS = "INSERT INTO t SELECT i, 'row ' || i, TIMESTAMP '2020-01-01' + INTERVAL (i) MINUTE FROM range(1000) r(i)"
MOVED = "UPDATE t SET v = 'new', moved = now() AT TIME ZONE 'UTC' WHERE "
WRONG = "UPDATE t SET v = 'another text' WHERE "
NAMELESS = ("counts", "signature", "minhash")


def ran(folder: Path, audit: Mapping[str, Any], source: Sequence[str] = (), target: Sequence[str] = (), rows: str = ROWS) -> Report:
    for side, statements in zip(SIDES, (source, target), strict=True):
        with duckdb.connect(str(folder / f"{side}.duckdb")) as connection:
            for statement in ("CREATE OR REPLACE TABLE t (id BIGINT, v VARCHAR, moved TIMESTAMP)", rows, *statements):
                connection.execute(statement)
    ends: dict[str, Any] = {side: {"connection": side, "table": "t"} for side in SIDES}
    connections = {side: {"url": f"duckdb:///{folder}/{side}.duckdb"} for side in SIDES}
    whole = {"key": ["id"], "settle": SETTLE, "partition": {"size": 100}, **ends, **audit}
    return service.run_audit(checked({"connections": connections, "audits": {"t": whole}}), "t")


@pytest.mark.parametrize("method", NAMELESS)
def test_nothing_is_claimed_of_a_partition_that_rows_in_flight_explain(tmp_path: Path, method: str) -> None:
    found = ran(tmp_path, {"method": method}, [MOVED + "id IN (5, 205)"])
    assert (found.verdict, found.exit_code) == (Verdict.UNKNOWN, 3)
    assert "2 rows of the source are in flight, and their old versions in the target can be all that differs" in found.reasons
    assert "use the method exact, or a ladder that ends with it" in found.reasons[-1]


@pytest.mark.parametrize("method", NAMELESS)
def test_what_rows_in_flight_cannot_explain_differs(tmp_path: Path, method: str) -> None:
    nowhere_young = ran(tmp_path, {"method": method}, [], [WRONG + "id = 5"])
    beside_others = ran(tmp_path, {"method": method}, [MOVED + "id = 5"], ["DELETE FROM t WHERE id IN (300, 301)"])
    more_than_young = ran(tmp_path, {"method": method}, [MOVED + "id = 5"], ["DELETE FROM t WHERE id IN (6, 7, 8)"])
    assert [one.verdict for one in (nowhere_young, beside_others, more_than_young)] == [Verdict.MISMATCH] * 3


def test_a_wrong_row_elsewhere_is_seen_by_its_partition(tmp_path: Path) -> None:
    assert ran(tmp_path, {"method": "signature"}, [MOVED + "id = 5"], [WRONG + "id = 500"]).verdict is Verdict.MISMATCH


def test_one_row_in_flight_does_not_explain_as_many_rows_on_both_sides(tmp_path: Path) -> None:
    """It is left out on the source alone, so that the counts would not be equal."""
    lost = "DELETE FROM t WHERE id = 7"
    assert ran(tmp_path, {"method": "signature"}, [MOVED + "id = 5"], [lost]).verdict is Verdict.MISMATCH


def test_the_whole_table_of_counts_is_one_partition(tmp_path: Path) -> None:
    whole = {"method": "counts", "partition": {}}
    assert ran(tmp_path, whole, [MOVED + "id = 5"]).verdict is Verdict.UNKNOWN
    assert ran(tmp_path, whole, [MOVED + "id = 5"], ["DELETE FROM t WHERE id > 900"]).verdict is Verdict.MISMATCH
    allowed = {**whole, "counts": {"allow": {"rows": 5, "* characters": "1%", "* sum": "1%", "* min": "10000", "* max": "10000"}}}
    assert ran(tmp_path, allowed, [MOVED + "id = 5"]).verdict is Verdict.MATCH


def test_an_update_may_move_a_row_to_another_partition_of_time(tmp_path: Path) -> None:
    by_time = {"method": "signature", "partition": {"column": "moved", "unit": "hour"}}
    assert ran(tmp_path, by_time, [MOVED + "id = 5"]).verdict is Verdict.UNKNOWN
    assert ran(tmp_path, by_time, [], [WRONG + "id = 5"]).verdict is Verdict.MISMATCH


def test_a_ladder_goes_up_and_names_them(tmp_path: Path) -> None:
    found = ran(tmp_path, {"ladder": ["counts", "signature", "exact"]}, [MOVED + "id = 5"])
    assert (found.method, found.verdict) == ("exact", Verdict.MATCH)
    assert found.differences and found.differences.in_flight == 1
    assert ran(tmp_path, {"ladder": ["counts", "signature"]}, [MOVED + "id = 5"]).verdict is Verdict.UNKNOWN


MANY = "INSERT INTO t SELECT i, 'row ' || i, '2020-01-01' FROM range(60000) r(i)"
BRIEF = {"partition": {"size": 1000}, "limits": {"max_rows_listed": 1000}}


def test_what_is_only_estimated_may_be_in_flight(tmp_path: Path) -> None:
    found = ran(tmp_path, BRIEF, [MOVED + "id % 3 = 0"], rows=MANY)
    assert found.differences and found.differences.partitions["estimated"] == 60 and not found.differences.named
    assert found.verdict is Verdict.UNKNOWN
    assert "20,000 rows of the source are in flight" in found.reasons[-2] and "raise limits.max_rows_listed" in found.reasons[-1]


def test_what_is_only_estimated_and_not_in_flight_differs(tmp_path: Path) -> None:
    assert ran(tmp_path, BRIEF, [], [WRONG + "id % 3 = 0"], rows=MANY).verdict is Verdict.MISMATCH
    assert ran(tmp_path, BRIEF, [MOVED + "id = 5"], [WRONG + "id % 3 = 0"], rows=MANY).verdict is Verdict.MISMATCH


def test_differences_that_are_kept_by_no_key_are_unsettled(tmp_path: Path) -> None:
    found = ran(tmp_path, {"limits": {"max_differences": 0}}, [MOVED + "id = 5"])
    assert found.verdict is Verdict.UNKNOWN and found.differences and found.differences.unsettled == 1
    assert any("beyond limits.max_differences and not looked at" in reason for reason in found.reasons)


def test_no_row_is_looked_at_again_by_a_method_that_names_none(tmp_path: Path) -> None:
    again = {"recheck": {"times": 1, "wait": "1ms"}}
    for method in NAMELESS:
        with pytest.raises(Exception, match="recheck"):
            ran(tmp_path, {"method": method, **again})
    assert ran(tmp_path, {"ladder": ["counts", "exact"], **again}, [MOVED + "id = 5"]).verdict is Verdict.MATCH
