"""Proxy audits through a dump: splitting them into two legs, and combining the legs' results."""

from __future__ import annotations

import datetime as dt
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.config import Audit, ConnectionSettings, DialectSql, Proxy, Threshold
from auditor.errors import ConfigError
from auditor.model import Jaccard, Score, Verdict
from auditor.planning import proxy
from auditor.planning.proxy import Leg
from dialects import Column, Kind, Table

CONNECTIONS = {
    "shop": ConnectionSettings(url="mysql://u@h/shop"),
    "lake": ConnectionSettings(url="duckdb:///"),
    "warehouse": ConnectionSettings(url="redshift://u@h/w"),
}
NOW = dt.datetime(2024, 5, 2, 12, tzinfo=dt.UTC)


def audit(**more: Any) -> Audit:
    return Audit.model_validate(
        {
            "source": {"connection": "shop", "table": "orders"},
            "target": {"connection": "warehouse", "table": "dw.orders", "columns": {"name": "label"}},
            "key": ("id",),
            "via": {"connection": "lake", "table": "dump/orders.parquet"},
            **more,
        }
    )


def test_audit_is_split_into_source_to_dump_and_dump_to_target() -> None:
    found = proxy.split_audit("orders", audit(threshold=0.9, recheck={}), CONNECTIONS)
    first, second = found["orders.dump"], found["orders.target"]
    assert [(one.sources[0].connection, one.target.connection) for one in (first, second)] == [("shop", "lake"), ("lake", "warehouse")]
    assert first.target.place == second.sources[0].place
    assert first.target.columns == second.sources[0].columns == {}
    assert second.target.columns == {"name": "label"}
    for one in (first, second):
        assert (one.via, one.key, one.threshold.score, one.recheck is not None) == (None, ("id",), 0.9, True)


def test_legs_keep_sql_in_the_sources_dialect() -> None:
    columns = {"override": {"day": {"expr": "DATE(`at`)", "kind": "date"}, "name": {"trim": True}}}
    found = proxy.split_audit("orders", audit(where="at < now", columns=columns), CONNECTIONS)
    for leg in found.values():
        assert leg.where == "at < now"
        assert leg.columns.override["day"].expr == DialectSql(sql="DATE(`at`)", dialect="mysql")
        assert leg.columns.override["name"].trim


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"where": {"source": "a", "target": "b"}}, "where has one filter per side, .* write one in the portable language"),
        ({"columns": {"override": {"x": {"expr": {"source": "a", "target": "b"}, "kind": "text"}}}}, "expr of x has one expression"),
        ({"key": ()}, "a dump has no primary key"),
        ({"via": None}, "has no via"),
    ],
)
def test_audits_that_cannot_be_split_are_rejected(more: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        proxy.split_audit("orders", audit(**more), CONNECTIONS)


def test_key_and_excluded_columns_come_from_the_source_table() -> None:
    source = Table("orders", tuple(Column(name, "int", Kind("integer"), False) for name in ("no", "name", "junk")), ("no",), None)
    found = proxy.split_audit("orders", audit(key=(), columns={"exclude": ["Junk", "loaded_at"]}), CONNECTIONS, source)
    assert [one.key for one in found.values()] == [("no",), ("no",)]
    assert [one.columns.exclude for one in found.values()] == [("Junk",), ("Junk", "loaded_at")]


# bounds of the similarity

rows = st.lists(st.integers(0, 6), max_size=12)


def similarity(a: Counter[int], b: Counter[int]) -> float:
    union = (a | b).total()
    return (a & b).total() / union if union else 1.0


@given(rows, rows, rows)
def test_bounds_of_points_cover_the_similarity(a: list[int], b: list[int], c: list[int]) -> None:
    source, dump, target = Counter(a), Counter(b), Counter(c)
    first, second, true = similarity(source, dump), similarity(dump, target), similarity(source, target)
    lower, upper = proxy.bounds((first, first), (second, second))
    assert lower - 1e-12 <= true <= upper + 1e-12


unit = st.floats(0, 1)


@given(rows, rows, rows, unit, unit, unit, unit)
def test_bounds_of_intervals_cover_the_similarity(a: list[int], b: list[int], c: list[int], p: float, q: float, r: float, s: float) -> None:
    source, dump, target = Counter(a), Counter(b), Counter(c)
    first, second, true = similarity(source, dump), similarity(dump, target), similarity(source, target)
    lower, upper = proxy.bounds((first * p, first + (1 - first) * q), (second * r, second + (1 - second) * s))
    assert lower - 1e-12 <= true <= upper + 1e-12
    assert 0 <= lower <= upper <= 1


def test_identical_dump_keeps_the_bounds() -> None:
    assert proxy.bounds((1.0, 1.0), (0.8, 0.9)) == (0.8, 0.9)


def leg(verdict: Verdict, low: float = 1.0, high: float = 1.0, hours: int = 1, as_of: dt.datetime | None = NOW) -> Leg:
    similar = Jaccard(score=Score((low + high) / 2, low, high), least=low if low == high else low / 2, most=high, differing=0)
    return Leg(verdict=verdict, jaccard=similar, began=NOW - dt.timedelta(hours=hours), as_of=as_of)


MATCH, MISMATCH, UNKNOWN = Verdict.MATCH, Verdict.MISMATCH, Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (leg(MATCH), leg(MATCH), MATCH),
        (leg(MATCH), leg(MISMATCH), MISMATCH),
        (leg(MISMATCH), leg(MATCH), MISMATCH),
        (leg(MISMATCH), leg(UNKNOWN), UNKNOWN),
        (leg(MISMATCH), None, UNKNOWN),
        (None, leg(MATCH), UNKNOWN),
        (None, None, UNKNOWN),
    ],
)
def test_verdict_is_match_only_if_both_legs_match(first: Leg | None, second: Leg | None, expected: Verdict) -> None:
    found = proxy.combine(first, second, NOW)
    assert found.verdict is expected
    assert found.reasons


def test_combined_result_has_bounds_and_ages() -> None:
    dump = NOW - dt.timedelta(hours=30)
    found = proxy.combine(leg(MISMATCH, 0.9, 0.95, 20, dump), leg(MISMATCH, 0.97, 0.98, 2, dump), NOW)
    assert [found.lower, found.upper] == pytest.approx([0.87, 0.98])
    assert (found.least, found.most) == (0.0, 1.0)
    assert (found.ages, found.dump_age) == ((20 * 3600.0, 2 * 3600.0), 30 * 3600.0)
    assert found.reasons == ("source and dump differ", "dump and target differ")


def test_legs_of_different_dumps_are_unknown() -> None:
    found = proxy.combine(leg(MATCH, as_of=NOW), leg(MATCH, as_of=NOW - dt.timedelta(days=1)), NOW)
    assert (found.verdict, found.lower, found.upper) == (UNKNOWN, 0.0, 1.0)
    assert "replaced" in found.reasons[0]


def test_match_through_a_dump_of_unknown_age_is_unknown() -> None:
    found = proxy.combine(leg(MATCH, as_of=None), leg(MATCH, as_of=None), NOW)
    assert (found.verdict, found.dump_age, found.lower, found.upper) == (UNKNOWN, None, 0.0, 1.0)
    assert "the moment that the dump stands for is unknown" in found.reasons[0]
    assert proxy.combine(leg(MATCH), leg(MATCH, as_of=None), NOW).verdict is UNKNOWN, "both legs need a known time"
    assert proxy.combine(leg(MATCH, as_of=None), leg(MISMATCH, as_of=None), NOW).verdict is MISMATCH


def test_threshold_applies_to_both_legs_combined() -> None:
    def verdict(first: Leg, second: Leg, **threshold: Any) -> Verdict:
        return proxy.combine(first, second, NOW, Threshold(**threshold)).verdict

    near = leg(MATCH, 0.99, 0.99)
    assert [verdict(near, near, score=score) for score in (0.99, 0.981, 0.98)] == [UNKNOWN, UNKNOWN, MATCH]
    assert verdict(near, near) is UNKNOWN
    assert [verdict(leg(MATCH), near, score=score) for score in (0.99, 0.98)] == [MATCH, MATCH], "the dump equals the source"
    four, six = replace(near, differing=4, rows=100), replace(near, differing=6, rows=200)
    assert [verdict(four, six, rows=rows) for rows in (9, 10)] == [UNKNOWN, MATCH]
    assert [verdict(four, six, share=share) for share in ("9.9%", "10%")] == [UNKNOWN, MATCH]
    assert verdict(four, near, rows=1000) is UNKNOWN, "the number of differing rows of the second leg is unknown"


# the time that the dump represents


def write_dump(path: Path, moment: dt.datetime, as_of_metadata: str | None = None) -> None:
    """Write a Parquet file with this modification time and, if given, this time in its metadata."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"id": [1]})
    pq.write_table(table.replace_schema_metadata({proxy.AS_OF: as_of_metadata} if as_of_metadata else {}), path)
    os.utime(path, (moment.timestamp(), moment.timestamp()))


def as_of(table: str, **more: Any) -> dt.datetime | None:
    return proxy.as_of(Proxy.model_validate({"connection": "lake", "table": table, **more}))


def test_configured_as_of_takes_precedence(tmp_path: Path) -> None:
    write_dump(tmp_path / "a.parquet", NOW, "2024-05-01T00:00:00Z")
    assert as_of(f"{tmp_path}/a.parquet", as_of="2024-04-01T02:00:00+02:00") == dt.datetime(2024, 4, 1, tzinfo=dt.UTC)
    assert as_of("s3://b/a.parquet", as_of="2024-04-01T00:00:00") == dt.datetime(2024, 4, 1, tzinfo=dt.UTC)


def test_as_of_falls_back_to_file_metadata_then_modification_time(tmp_path: Path) -> None:
    write_dump(tmp_path / "a.parquet", NOW, "2024-05-01T00:00:00+00:00")
    write_dump(tmp_path / "b.parquet", NOW - dt.timedelta(days=3))
    write_dump(tmp_path / "c.parquet", NOW, "yesterday")
    assert as_of(f"{tmp_path}/a.parquet") == dt.datetime(2024, 5, 1, tzinfo=dt.UTC)
    assert as_of(f"file://{tmp_path}/b.parquet") == NOW - dt.timedelta(days=3)
    assert as_of(f"{tmp_path}/c.parquet") == NOW
    assert as_of(f"{tmp_path}/*.parquet") == NOW - dt.timedelta(days=3)
    (tmp_path / "d.csv").write_text("id\n1\n")
    os.utime(tmp_path / "d.csv", (0, 0))
    assert as_of(f"{tmp_path}/d.csv") == dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def test_as_of_a_lake_table_is_its_newest_file(tmp_path: Path) -> None:
    write_dump(tmp_path / "lake" / "old.parquet", NOW - dt.timedelta(days=9))
    write_dump(tmp_path / "lake" / "new.parquet", NOW)
    assert as_of(f"{tmp_path}/lake", format="delta") == NOW


@pytest.mark.parametrize("table", ["dumps.orders", "s3://bucket/orders.parquet", "/nowhere/orders.parquet"])
def test_as_of_other_tables_is_unknown(table: str) -> None:
    assert as_of(table) is None
