"""Random small tables in any partitioning: they match if and only if they are equal, and every difference is counted once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from auditor.config import Audit, ConnectionSettings
from auditor.model import SIDES, Report, Side, Verdict
from auditor.run import audit_run
from tests.kept_open import keep_databases_open

pytestmark = pytest.mark.duckdb
KEYS = st.one_of(st.integers(-20, 60), st.integers(0, 12).map(lambda n: 900_000_007 * n))
DAYS = st.one_of(st.none(), st.integers(0, 5))
DAMAGED = ["missing", "extra", "changed"]
FEW, MANY = st.sampled_from(["equal"] * 20 + DAMAGED), st.sampled_from(["equal"] * 3 + DAMAGED)
PARTITIONINGS: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.builds(lambda size: {"size": size}, st.sampled_from([2, 5, 8, 64])),
    st.builds(lambda buckets: {"buckets": buckets}, st.integers(1, 6)),
    st.builds(lambda unit: {"column": "day", "unit": unit}, st.sampled_from(["day", "month"])),
)
ROWS = st.one_of(
    st.dictionaries(KEYS | st.none(), st.tuples(FEW, DAYS), min_size=20, max_size=60),
    st.dictionaries(KEYS | st.none(), st.tuples(MANY, DAYS), min_size=1, max_size=40),
)
"""For each key: what happens to its row in the target, and its day."""


class Tables:
    """Both sides' tables in DuckDB, refilled for every example."""

    def __init__(self, folder: Path) -> None:
        self.paths = {side: folder / f"{side}.duckdb" for side in SIDES}

    def fill(self, key: str, sides: Mapping[Side, list[str]]) -> None:
        for side, rows in sides.items():
            with duckdb.connect(str(self.paths[side])) as connection:
                connection.execute(f"CREATE OR REPLACE TABLE t (id {key}, v VARCHAR, day DATE)")
                if rows:
                    connection.execute(f"INSERT INTO t VALUES {', '.join(rows)}")

    def run_audit(self, **audit: Any) -> Report:
        ends = {side: {"connection": side, "table": "t"} for side in SIDES}
        definition = Audit.model_validate({**ends, "key": ["id"], "salt": "", "allow_empty": True, **audit})
        return audit_run.run("t", definition, {side: ConnectionSettings(url=f"duckdb:///{path}") for side, path in self.paths.items()})


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    with keep_databases_open():
        yield Tables(tmp_path_factory.mktemp("property"))


def row(key: int | None, text: str, day: int | None, as_text: bool) -> str:
    id_ = "NULL" if key is None else f"'k{key}'" if as_text else str(key)
    moment = "NULL" if day is None else f"'2026-01-{28 + day}'::DATE" if day < 4 else f"'2026-02-0{day}'::DATE"
    return f"({id_}, '{text}', {moment})"


@settings(max_examples=settings().max_examples * 3 // 10)  # a share of the profile's examples, which --slow and --deep raise
@given(
    rows=ROWS,
    partition=PARTITIONINGS,
    as_text=st.booleans(),
    t=st.sampled_from([1, 1, 2, 4]),
    recheck=st.sampled_from([None, {"times": 1, "wait": "0ms"}, {"times": 2, "wait": "0ms"}]),
    snapshot=st.sampled_from(["whole", "per_chunk"]),
)
def test_tables_match_if_and_only_if_they_are_equal(
    both: Tables,
    rows: dict[int | None, tuple[str, int | None]],
    partition: dict[str, Any],
    as_text: bool,
    t: int,
    recheck: dict[str, Any] | None,
    snapshot: str,
) -> None:
    as_text = as_text and "size" not in partition
    fates = Counter(fate for fate, _ in rows.values())
    source = [row(key, "v", day, as_text) for key, (fate, day) in rows.items() if fate != "extra"]
    target = [row(key, "x" if fate == "changed" else "v", day, as_text) for key, (fate, day) in rows.items() if fate != "missing"]
    both.fill("VARCHAR" if as_text else "BIGINT", {"source": source, "target": target})
    report = both.run_audit(partition=partition, t=t, snapshot=snapshot, **({"recheck": recheck} if recheck else {}))
    differs = any(fates[kind] for kind in DAMAGED)
    assert report.verdict is (Verdict.MISMATCH if differs else Verdict.MATCH), report.reasons
    found = report.differences
    assert found is not None and report.plan
    assert [getattr(found, kind) for kind in DAMAGED] == [fates[kind] for kind in DAMAGED], report.reasons
    counted = Counter[str](one.kind for one in found.named)
    for span in found.ranges:
        counted[span.kind] += span.rows
    assert counted == Counter({kind: fates[kind] for kind in DAMAGED}), "each difference is named or in a range, and counted once"
    expected = {None if key is None else f"k{key}" if as_text else str(key): fate for key, (fate, _) in rows.items()}
    assert all(expected[one.key["id"]] == one.kind for one in found.named), "each difference is named with its own key"
    assert found.cleared == found.unsettled == found.vanished == found.unaccounted == 0 and found.exact
    event(f"{report.plan.partitioning.strategy}, {'ranges' if found.ranges else 'no ranges'}")
    if found.partitions["refined"]:
        event("refined by a second scan")


@settings(max_examples=settings().max_examples * 2 // 5)
@given(
    days=st.dictionaries(
        st.integers(0, 40), st.tuples(st.integers(0, 5), st.integers(0, 5), st.sampled_from("vvx")), min_size=1, max_size=30
    ),
    unit=st.sampled_from(["day", "month"]),
    t=st.sampled_from([1, 4]),
    recheck=st.sampled_from([None, {"times": 1, "wait": "0ms"}]),
    most=st.sampled_from([None, None, 0]),
)
def test_row_whose_time_changed_is_one_difference(
    both: Tables,
    days: dict[int, tuple[int, int, str]],
    unit: str,
    t: int,
    recheck: dict[str, Any] | None,
    most: int | None,
) -> None:
    """Each key has a day on the source and one on the target (5: it has no row there): it is named once, by its key."""
    source = [row(key, "v", day, False) for key, (day, _, _) in days.items() if day < 5]
    target = [row(key, text, day, False) for key, (_, day, text) in days.items() if day < 5]
    both.fill("BIGINT", {"source": source, "target": target})
    limits = {} if most is None else {"max_rows_listed": most}
    audit: dict[str, Any] = {"partition": {"column": "day", "unit": unit}, "t": t, "limits": limits}
    report = both.run_audit(**audit, **({"recheck": recheck} if recheck else {}))
    kinds = {
        key: "missing" if there == 5 else "extra" if here == 5 else "changed" if text == "x" or here != there else "equal"
        for key, (here, there, text) in days.items()
        if min(here, there) < 5
    }
    expected = Counter(kinds.values())
    found = report.differences
    assert found is not None
    if most == 0 and not found.exact:
        assert report.verdict is not Verdict.MATCH
        return
    assert [getattr(found, kind) for kind in DAMAGED] == [expected[kind] for kind in DAMAGED], report.reasons
    assert report.verdict is (Verdict.MISMATCH if set(kinds.values()) - {"equal"} else Verdict.MATCH), report.reasons
    named = [int(one.key["id"] or -1) for one in found.named]
    assert len(named) == len(set(named)) and all(kinds[int(one.key["id"] or -1)] == one.kind for one in found.named)
    assert all(column.name in ("v", "day") for one in found.named for column in one.columns)
    assert all(one.columns for one in found.named if one.kind == "changed")
