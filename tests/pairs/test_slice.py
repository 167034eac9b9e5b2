"""Runs over a slice of a table compare exactly the rows of the slice, through the key's index, and claim nothing about other rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import pytest

from auditor.config import Audit, ConnectionSettings
from auditor.errors import ConfigError
from auditor.model import SIDES, Chunk, Plan, Report, Side, Slice, State, Verdict
from auditor.planning import chunks, requested_slice
from auditor.run import audit_run
from auditor.sql import render
from dialects import Kind, Session
from tests import audits, tables
from tests.live import LivePair, chosen_pairs

pytestmark = pytest.mark.engines_in_turn

INTEGER, UNSIGNED, TEXT, MOMENT = Kind("integer"), Kind("integer", unsigned=True), Kind("text"), Kind("timestamp", scale=6)
Row = tuple[Any, ...]


def on_pairs(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("pair", chosen_pairs(*names), indirect=True)


some_pairs = on_pairs("mysql-postgres", "duckdb-duckdb", "mariadb-redshift")


def audit(key: Sequence[str] = ("id",), **more: Any) -> Audit:
    return Audit.model_validate(
        {
            "source": {"connection": "source", "table": "section_source"},
            "target": {"connection": "target", "table": "section_target"},
            "key": tuple(key),
            **more,
        }
    )


def make_tables(
    pair: LivePair, columns: Sequence[tuple[str, Kind]], source: Sequence[Row], target: Sequence[Row], key: Sequence[str] = ("id",)
) -> None:
    tables.make(pair.source, "section_source", columns, source, key)
    tables.make(pair.target, "section_target", columns, target, key)


def connections(pair: LivePair) -> dict[str, ConnectionSettings]:
    return {side: ConnectionSettings(url=getattr(pair, side).url) for side in SIDES}


def run_slice(pair: LivePair, audit: Audit, **overrides: Any) -> Report:
    return audit_run.run("slice", audit, connections(pair), slice=requested_slice.parse(audit, overrides))


def found_differences(report: Report, column: str = "id") -> set[tuple[str, int]]:
    """Return the kind and key of every difference, with ranges expanded to single rows."""
    assert report.state is State.DONE and report.differences is not None, report.reasons
    assert report.differences.exact
    found: set[tuple[str, int]] = {(one.kind, int(one.key[column] or "")) for one in report.differences.named}
    for span in report.differences.ranges:
        assert span.first is not None and span.last is not None
        found |= {(span.kind, key) for key in range(span.first, span.last + 1)}
    return found


def make_rows(keys: Sequence[int], missing: Sequence[int], changed: Sequence[int], extra: Sequence[int]) -> tuple[list[Row], list[Row]]:
    """Return both sides' rows such that the target has these missing, changed and extra keys."""
    source = [(key, f"row {key}") for key in keys if key not in extra]
    target = [(key, "changed" if key in changed else f"row {key}") for key in keys if key not in missing]
    return source, target


def pairs_and_methods() -> list[Any]:
    """Return each of the pairs with each method; a normal run has the exact method on all, and each other one on one of them."""
    quick = {"mysql-postgres": "signature", "duckdb-duckdb": "minhash", "mariadb-redshift": "counts"}
    params = []
    for one, quick_beside in zip(chosen_pairs(*quick), quick.values(), strict=True):
        for method in ("exact", "signature", "minhash", "counts"):
            marks = [*one.marks, *([] if method in ("exact", quick_beside) else [pytest.mark.slow])]
            params.append(pytest.param(*one.values, method, id=f"{one.id}-{method}", marks=marks))
    return params


@pytest.mark.quick_for("duckdb-duckdb-exact", "mysql-postgres-signature")
@pytest.mark.parametrize(("pair", "method"), pairs_and_methods(), indirect=["pair"])
@pytest.mark.few
def test_only_differences_inside_the_slice_are_found(pair: LivePair, method: str) -> None:
    """There are differences at each bound, one key outside each bound, and far away."""
    inside = {("missing", 1000), ("changed", 2000), ("extra", 1500)}
    source, target = make_rows(range(5000), [1000, 999, 4000], [2000, 2001, 3], [1500, 4500])
    make_tables(pair, [("id", INTEGER), ("v", TEXT)], source, target)
    settings = audit(method=method, partition={} if method == "counts" else {"rows": 128})
    report = run_slice(pair, settings, keys={"from": 1000, "to": 2000})
    assert report.verdict is Verdict.MISMATCH, report.reasons
    assert report.reasons[0] == "only rows with keys 1,000 to 2,000 were compared; nothing is said of others"
    assert report.comparison and report.comparison.rows == {"source": 1000, "target": 1000}
    if method == "exact":
        assert found_differences(report) == inside
        assert report.jaccard and report.jaccard.score.value == (2000 - 4) / (2000 + 4)
    for bounds, rows in (({"from": 1001, "to": 1499}, 499), ({"from": 2002, "to": 2500}, 499), ({"from": 1600, "to": 1600}, 1)):
        clean = run_slice(pair, settings, keys=bounds)
        assert clean.verdict is Verdict.MATCH, clean.reasons
        assert clean.comparison and clean.comparison.rows == {"source": rows, "target": rows}


@some_pairs
def test_slice_may_be_open_at_either_end(pair: LivePair) -> None:
    source, target = make_rows(range(-300, 300), [-300, 299], [-20], [0])
    make_tables(pair, [("id", INTEGER), ("v", TEXT)], source, target)
    settings = audit(partition={"size": 64})
    assert found_differences(run_slice(pair, settings, keys={"to": -20})) == {("missing", -300), ("changed", -20)}
    assert found_differences(run_slice(pair, settings, keys={"from": -19})) == {("extra", 0), ("missing", 299)}
    assert found_differences(run_slice(pair, settings, keys={"from": -(2**63), "to": 2**64 - 1})) == found_differences(
        run_slice(pair, settings)
    )
    assert run_slice(pair, settings, keys={"from": -19, "to": -1}).verdict is Verdict.MATCH


@on_pairs("mysql-postgres", "postgres-mariadb")
def test_large_slice_is_read_in_chunks(pair: LivePair, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large slice is read in chunks, like a whole table, and through the index."""
    monkeypatch.setattr(chunks, "CHUNK_ROWS", 256)
    source, target = make_rows(range(6000), [999, 1000, 3000], [1700, 3001], [2500, 5999])
    make_tables(pair, [("id", INTEGER), ("v", TEXT)], source, target)
    for engine, table in ((pair.source, "section_source"), (pair.target, "section_target")):
        tables.execute(engine, f"ANALYZE {'' if engine.dialect == 'postgres' else 'TABLE '}{table}")
    report = run_slice(pair, audit(partition={"size": 64}), keys={"from": 1000, "to": 3000})
    assert found_differences(report) == {("missing", 1000), ("changed", 1700), ("extra", 2500), ("missing", 3000)}
    assert report.plan and all(report.plan.sides[side].chunk_keys for side in SIDES)
    assert report.comparison and report.comparison.rows == {"source": 2000, "target": 1999}
    assert found_differences(run_slice(pair, audit(partition={"size": 64}), keys={"from": 3001})) == {("changed", 3001), ("extra", 5999)}


@some_pairs
def test_slice_of_unsigned_keys(pair: LivePair) -> None:
    greatest = 2**64 - 1
    keys = [*range(200), *range(2**63 - 100, 2**63 + 100), *range(greatest - 199, greatest + 1)]
    source, target = make_rows(keys, [5, greatest], [2**63, 2**63 - 1], [greatest - 7])
    make_tables(pair, [("id", UNSIGNED), ("v", TEXT)], source, target)
    settings = audit(partition={"size": 64})
    assert found_differences(run_slice(pair, settings, keys={"from": 2**63})) == {
        ("changed", 2**63),
        ("missing", greatest),
        ("extra", greatest - 7),
    }
    assert found_differences(run_slice(pair, settings, keys={"from": greatest - 6, "to": greatest})) == {("missing", greatest)}
    assert found_differences(run_slice(pair, settings, keys={"from": -5, "to": 2**63 - 1})) == {("missing", 5), ("changed", 2**63 - 1)}
    assert run_slice(pair, settings, keys={"to": -1}).verdict is Verdict.UNKNOWN, "an empty slice must not be a match"


@some_pairs
def test_slice_of_sparse_keys_in_hash_buckets(pair: LivePair) -> None:
    keys = [number * 1_000_003 for number in range(400)]
    source, target = make_rows(keys, [keys[100], keys[300]], [keys[200]], [])
    make_tables(pair, [("id", INTEGER), ("v", TEXT)], source, target)
    settings = audit(partition={"buckets": 8})
    report = run_slice(pair, settings, keys={"from": keys[100], "to": keys[200] - 1})
    assert report.plan and report.plan.partitioning.strategy == "hash"
    assert found_differences(report) == {("missing", keys[100])}


@some_pairs
def test_slice_needs_a_key_of_one_integer_column(pair: LivePair) -> None:
    rows = [(f"k{number}", number, "v") for number in range(50)]
    make_tables(pair, [("name", TEXT), ("n", INTEGER), ("v", TEXT)], rows, rows, ())
    report = run_slice(pair, audit(["name"]), keys={"from": 1, "to": 2})
    assert report.state is State.FAILED and report.verdict is Verdict.UNKNOWN and report.exit_code == 2
    assert report.reasons[0].endswith("a range of keys needs a key of one integer column, and that of audit slice is name (text)")
    with pytest.raises(ConfigError, match="a key of one integer column, and this audit's key has several"):
        run_slice(pair, audit(["n", "name"]), keys={"from": 1, "to": 2})


SETTLED = [
    pytest.param(*one.values, {"settle": {"column": "seen", "lag": "1h"}}, id=f"{one.id}-settled", marks=[*one.marks, *more])
    for name, more in {"mysql-postgres": [], "duckdb-duckdb": [pytest.mark.slow], "mariadb-redshift": [pytest.mark.slow]}.items()
    for one in chosen_pairs(name)
]
BY_TIME = [
    pytest.param(*one.values, {"partition": {"strategy": "time", "column": "seen"}}, id=f"{one.id}-by time", marks=one.marks)
    for one in chosen_pairs("mysql-postgres", "duckdb-duckdb", "mariadb-redshift")
]


@pytest.mark.quick_for("duckdb-duckdb-by time")
@pytest.mark.parametrize(("pair", "more"), [*SETTLED, *BY_TIME], indirect=["pair"])
def test_time_slice_includes_its_start_and_excludes_its_end(pair: LivePair, more: dict[str, Any]) -> None:
    """A time slice includes its start and excludes its end, for any partitioning; rows without a time are in no slice."""
    day, second = dt.datetime(2024, 3, 1), dt.timedelta(seconds=1)

    def seen(number: int) -> dt.datetime | None:
        return None if number % 50 == 49 else day + number * dt.timedelta(minutes=10)

    source = [(number, f"row {number}", seen(number)) for number in range(1000)]
    target = [(number, "changed" if number in (144, 287, 143, 288, 149, 700) else v, at) for number, v, at in source if number != 200]
    make_tables(pair, [("id", INTEGER), ("v", TEXT), ("seen", MOMENT)], source, target)
    settings = audit(**more)
    report = run_slice(pair, settings, times={"from": "2024-03-02", "to": "2024-03-03"})
    assert found_differences(report) == {("changed", 144), ("changed", 287), ("missing", 200)}
    restriction = "only rows with seen from 2024-03-02 00:00:00 UTC on and before 2024-03-03 00:00:00 UTC were compared"
    assert report.reasons[0].startswith(restriction)
    assert report.plan and any("on one side only is reported as missing or extra" in note for note in report.plan.notes)
    same_slice = {"from": "2024-03-02T01:00:00+01:00", "to": "2024-03-02T23:59:59.999999Z"}
    assert found_differences(run_slice(pair, settings, times=same_slice)) == found_differences(report)
    after = {"from": (day + 287 * dt.timedelta(minutes=10) + second).isoformat()}
    assert found_differences(run_slice(pair, settings, times=after)) == {("changed", 288), ("changed", 700)}
    both = run_slice(pair, settings, times={"from": "2024-03-02", "to": "2024-03-03"}, keys={"from": 145, "to": 200})
    assert found_differences(both) == {("missing", 200)}


def open_plan(pair: LivePair, audit: Audit, **overrides: Any) -> AbstractContextManager[tuple[Plan, dict[Side, Session]]]:
    return audits.open_plan(pair, audit, requested_slice.parse(audit, overrides))


@on_pairs("mysql-postgres", "postgres-mariadb")
def test_slice_is_read_through_the_index_of_the_key(pair: LivePair) -> None:
    rows = [(number, f"row {number}") for number in range(40_000)]
    make_tables(pair, [("id", INTEGER), ("v", TEXT)], rows, rows)
    for engine, table in ((pair.source, "section_source"), (pair.target, "section_target")):
        tables.execute(engine, f"ANALYZE {'' if engine.dialect == 'postgres' else 'TABLE '}{table}")
    for keys in ({"from": 9000, "to": 9500}, {"from": 39_500}, {"from": 39_500, "to": 2**64 - 1}, {"from": -9, "to": 400}):
        with open_plan(pair, audit(), keys=keys) as (plan, sides):
            assert plan.slice and plan.span <= 501
            for side in SIDES:
                estimate = sides[side].dialect.server.estimate_scan(sides[side], render.summary(plan, side, sides[side].dialect, Chunk()))
                assert estimate and not estimate.full_scan, (side, keys, estimate)
                assert estimate.rows < 5000, (side, keys, estimate)


HOSTILE = ["1 OR 1=1", "0); DROP TABLE section_source; --", "' OR ''='", 1.5, True, 2**64, -(2**63) - 1, [1], {"a": 1}]


@pytest.mark.parametrize("value", HOSTILE)
def test_invalid_key_bounds_are_rejected(value: Any) -> None:
    settings = audit()
    for bounds in ({"from": value}, {"to": value}, {"from": 1, "to": value}):
        with pytest.raises(ConfigError, match=r"keys\.(from|to): "):
            requested_slice.parse(settings, {"keys": bounds})


@pytest.mark.parametrize(
    "value", ["2024-01-01' OR '1'='1", "now()", "2024-13-01", "", "0001-01-01T00:00:00+14:00", 5, True, "2024-01-01\0"]
)
def test_invalid_time_bounds_are_rejected(value: Any) -> None:
    settings = audit(settle={"column": "seen", "lag": "1h"})
    with pytest.raises(ConfigError, match=r"times\.from: "):
        requested_slice.parse(settings, {"times": {"from": value}})


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({"keys": {}}, "write from, to or both"),
        ({"keys": {"from": 2, "to": 1}}, "from is greater than to"),
        ({"keys": {"from": 2, "column": "id"}}, "unknown setting 'column'"),
        ({"times": {"from": "2024-01-01", "to": "2024-01-01"}}, "from is not before to"),
        ({"times": {"from": "2024-01-02"}}, "names no column of times, by which a range of times is chosen"),
    ],
)
def test_invalid_slices_are_rejected(overrides: dict[str, Any], sentence: str) -> None:
    settled: dict[str, Any] = {} if "no column" in sentence else {"settle": {"column": "seen", "lag": "1h"}}
    with pytest.raises(ConfigError, match=sentence):
        requested_slice.parse(audit(**settled), overrides)


def test_slice_is_described_in_words() -> None:
    assert str(Slice(first=7)) == "rows with keys from 7 on" and str(Slice(last=-7)) == "rows with keys up to -7"
    both = Slice(first=1, last=2000, before="2024-01-01 00:00:00.500000", column="seen")
    assert str(both) == "rows with keys 1 to 2,000 and seen before 2024-01-01 00:00:00.500000 UTC"
