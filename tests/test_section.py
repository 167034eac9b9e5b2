"""Runs of a section of a table: exactly its rows are looked at, through the key's index, and nothing is claimed of the others."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from auditor import plan as plans
from auditor import render, run, survey
from auditor import section as sections
from auditor.config import Audit, Connection
from auditor.errors import ConfigError
from auditor.model import SIDES, Chunk, Plan, Report, Section, Side, State, Verdict
from dialects import Kind, Session
from tests import tables
from tests.engines import LivePair, pair_params

INTEGER, UNSIGNED, TEXT, MOMENT = Kind("integer"), Kind("integer", unsigned=True), Kind("text"), Kind("timestamp", scale=6)
Row = tuple[Any, ...]


def pairs(*names: str) -> pytest.MarkDecorator:
    every = {pair.id: pair for pair in pair_params()}
    return pytest.mark.parametrize("pair", [every[name] for name in names], indirect=True)


live = pairs("mysql-postgres", "duckdb-duckdb", "mariadb-redshift")


def audit(key: Sequence[str] = ("id",), **more: Any) -> Audit:
    return Audit.model_validate(
        {
            "source": {"connection": "source", "table": "section_source"},
            "target": {"connection": "target", "table": "section_target"},
            "key": tuple(key),
            **more,
        }
    )


def filled(
    pair: LivePair, columns: Sequence[tuple[str, Kind]], source: Sequence[Row], target: Sequence[Row], key: Sequence[str] = ("id",)
) -> None:
    tables.make(pair.source, "section_source", columns, source, key)
    tables.make(pair.target, "section_target", columns, target, key)


def connections(pair: LivePair) -> dict[str, Connection]:
    return {side: Connection(url=getattr(pair, side).url) for side in SIDES}


def looked(pair: LivePair, wanted: Audit, **overrides: Any) -> Report:
    return run.run("section", wanted, connections(pair), section=sections.asked(wanted, overrides))


def named(report: Report, column: str = "id") -> set[tuple[str, int]]:
    """What was found, by kind and key, ranges of rows spread out."""
    assert report.state is State.DONE and report.differences, report.reasons
    assert report.differences.exact
    found: set[tuple[str, int]] = {(one.kind, int(one.key[column] or "")) for one in report.differences.named}
    for span in report.differences.ranges:
        assert span.first is not None and span.last is not None
        found |= {(span.kind, key) for key in range(span.first, span.last + 1)}
    return found


def damaged(keys: Sequence[int], missing: Sequence[int], changed: Sequence[int], extra: Sequence[int]) -> tuple[list[Row], list[Row]]:
    """Both sides' rows: on the target some are missing and some changed, on the source those that are extra there are not."""
    source = [(key, f"row {key}") for key in keys if key not in extra]
    target = [(key, "changed" if key in changed else f"row {key}") for key in keys if key not in missing]
    return source, target


@live
@pytest.mark.parametrize("method", ["exact", "signature", "minhash", "counts"])
def test_only_the_damage_inside_is_seen(pair: LivePair, method: str) -> None:
    """Damage stands at each bound, one key before and one key behind it, and far away."""
    inside = {("missing", 1000), ("changed", 2000), ("extra", 1500)}
    source, target = damaged(range(5000), [1000, 999, 4000], [2000, 2001, 3], [1500, 4500])
    filled(pair, [("id", INTEGER), ("v", TEXT)], source, target)
    wanted = audit(method=method, partition={} if method == "counts" else {"rows": 128})
    report = looked(pair, wanted, keys={"from": 1000, "to": 2000})
    assert report.verdict is Verdict.MISMATCH, report.reasons
    assert report.reasons[0] == "only rows with keys 1,000 to 2,000 were compared; nothing is said of others"
    assert report.comparison and report.comparison.rows == {"source": 1000, "target": 1000}
    if method == "exact":
        assert named(report) == inside
        assert report.jaccard and report.jaccard.score.value == (2000 - 4) / (2000 + 4)
    for bounds, rows in (({"from": 1001, "to": 1499}, 499), ({"from": 2002, "to": 2500}, 499), ({"from": 1600, "to": 1600}, 1)):
        clean = looked(pair, wanted, keys=bounds)
        assert clean.verdict is Verdict.MATCH, clean.reasons
        assert clean.comparison and clean.comparison.rows == {"source": rows, "target": rows}


@live
def test_either_end_may_be_open(pair: LivePair) -> None:
    source, target = damaged(range(-300, 300), [-300, 299], [-20], [0])
    filled(pair, [("id", INTEGER), ("v", TEXT)], source, target)
    wanted = audit(partition={"size": 64})
    assert named(looked(pair, wanted, keys={"to": -20})) == {("missing", -300), ("changed", -20)}
    assert named(looked(pair, wanted, keys={"from": -19})) == {("extra", 0), ("missing", 299)}
    assert named(looked(pair, wanted, keys={"from": -(2**63), "to": 2**64 - 1})) == named(looked(pair, wanted))
    assert looked(pair, wanted, keys={"from": -19, "to": -1}).verdict is Verdict.MATCH


@pairs("mysql-postgres", "postgres-mariadb")
def test_in_many_chunks(pair: LivePair, monkeypatch: pytest.MonkeyPatch) -> None:
    """A section that is long itself is read in pieces, as a whole table is, and through the index."""
    monkeypatch.setattr(plans, "CHUNK_ROWS", 256)
    source, target = damaged(range(6000), [999, 1000, 3000], [1700, 3001], [2500, 5999])
    filled(pair, [("id", INTEGER), ("v", TEXT)], source, target)
    for engine, table in ((pair.source, "section_source"), (pair.target, "section_target")):
        tables.execute(engine, f"ANALYZE {'' if engine.dialect == 'postgres' else 'TABLE '}{table}")
    report = looked(pair, audit(partition={"size": 64}), keys={"from": 1000, "to": 3000})
    assert named(report) == {("missing", 1000), ("changed", 1700), ("extra", 2500), ("missing", 3000)}
    assert report.plan and all(report.plan.sides[side].chunk_keys for side in SIDES)
    assert report.comparison and report.comparison.rows == {"source": 2000, "target": 1999}
    assert named(looked(pair, audit(partition={"size": 64}), keys={"from": 3001})) == {("changed", 3001), ("extra", 5999)}


@live
def test_unsigned_keys(pair: LivePair) -> None:
    greatest = 2**64 - 1
    keys = [*range(200), *range(2**63 - 100, 2**63 + 100), *range(greatest - 199, greatest + 1)]
    source, target = damaged(keys, [5, greatest], [2**63, 2**63 - 1], [greatest - 7])
    filled(pair, [("id", UNSIGNED), ("v", TEXT)], source, target)
    wanted = audit(partition={"size": 64})
    assert named(looked(pair, wanted, keys={"from": 2**63})) == {("changed", 2**63), ("missing", greatest), ("extra", greatest - 7)}
    assert named(looked(pair, wanted, keys={"from": greatest - 6, "to": greatest})) == {("missing", greatest)}
    assert named(looked(pair, wanted, keys={"from": -5, "to": 2**63 - 1})) == {("missing", 5), ("changed", 2**63 - 1)}
    assert looked(pair, wanted, keys={"to": -1}).verdict is Verdict.UNKNOWN, "nothing is equal because nothing was compared"


@live
def test_sparse_keys_are_in_buckets_and_have_sections_all_the_same(pair: LivePair) -> None:
    keys = [number * 1_000_003 for number in range(400)]
    source, target = damaged(keys, [keys[100], keys[300]], [keys[200]], [])
    filled(pair, [("id", INTEGER), ("v", TEXT)], source, target)
    wanted = audit(partition={"buckets": 8})
    report = looked(pair, wanted, keys={"from": keys[100], "to": keys[200] - 1})
    assert report.plan and report.plan.partitioning.strategy == "hash"
    assert named(report) == {("missing", keys[100])}


@live
def test_a_key_that_has_no_ranges(pair: LivePair) -> None:
    rows = [(f"k{number}", number, "v") for number in range(50)]
    filled(pair, [("name", TEXT), ("n", INTEGER), ("v", TEXT)], rows, rows, ())
    report = looked(pair, audit(["name"]), keys={"from": 1, "to": 2})
    assert report.state is State.FAILED and report.verdict is Verdict.UNKNOWN and report.exit_code == 2
    assert report.reasons[0].endswith("a range of keys needs a key of one integer column, and that of audit section is name (text)")
    with pytest.raises(ConfigError, match="a key of one integer column, and this audit's has several"):
        looked(pair, audit(["n", "name"]), keys={"from": 1, "to": 2})


@live
@pytest.mark.parametrize("more", [{"partition": {"strategy": "time", "column": "seen"}}, {"settle": {"column": "seen", "lag": "1h"}}])
def test_a_section_of_times(pair: LivePair, more: dict[str, Any]) -> None:
    """From the first moment on and before the last, whatever the partitions are; rows without a time are in none."""
    day, second = dt.datetime(2024, 3, 1), dt.timedelta(seconds=1)

    def seen(number: int) -> dt.datetime | None:
        return None if number % 50 == 49 else day + number * dt.timedelta(minutes=10)

    source = [(number, f"row {number}", seen(number)) for number in range(1000)]
    target = [(number, "changed" if number in (144, 287, 143, 288, 149, 700) else v, at) for number, v, at in source if number != 200]
    filled(pair, [("id", INTEGER), ("v", TEXT), ("seen", MOMENT)], source, target)
    wanted = audit(**more)
    report = looked(pair, wanted, times={"from": "2024-03-02", "to": "2024-03-03"})
    assert named(report) == {("changed", 144), ("changed", 287), ("missing", 200)}
    told = "only rows with seen from 2024-03-02 00:00:00 UTC on and before 2024-03-03 00:00:00 UTC were compared"
    assert report.reasons[0].startswith(told)
    assert report.plan and any("on one side only is told as missing or extra" in note for note in report.plan.notes)
    same = {"from": "2024-03-02T01:00:00+01:00", "to": "2024-03-02T23:59:59.999999Z"}
    assert named(looked(pair, wanted, times=same)) == named(report)
    after = {"from": (day + 287 * dt.timedelta(minutes=10) + second).isoformat()}
    assert named(looked(pair, wanted, times=after)) == {("changed", 288), ("changed", 700)}
    both = looked(pair, wanted, times={"from": "2024-03-02", "to": "2024-03-03"}, keys={"from": 145, "to": 200})
    assert named(both) == {("missing", 200)}


@contextmanager
def planned(pair: LivePair, wanted: Audit, **overrides: Any) -> Iterator[tuple[Plan, dict[Side, Session]]]:
    with survey.opened(wanted, connections(pair)) as sides:
        yield survey.planned("section", wanted, sides, section=sections.asked(wanted, overrides)), sides


@pairs("mysql-postgres", "postgres-mariadb")
@pytest.mark.parametrize("keys", [{"from": 9000, "to": 9500}, {"from": 39_500}, {"from": 39_500, "to": 2**64 - 1}, {"from": -9, "to": 400}])
def test_the_keys_index_serves_it(pair: LivePair, keys: dict[str, int]) -> None:
    rows = [(number, f"row {number}") for number in range(40_000)]
    filled(pair, [("id", INTEGER), ("v", TEXT)], rows, rows)
    for engine, table in ((pair.source, "section_source"), (pair.target, "section_target")):
        tables.execute(engine, f"ANALYZE {'' if engine.dialect == 'postgres' else 'TABLE '}{table}")
    with planned(pair, audit(), keys=keys) as (plan, sides):
        assert plan.section and plan.span <= 501
        for side in SIDES:
            reading = sides[side].dialect.expected_reading(sides[side], render.summary(plan, side, sides[side].dialect, Chunk()))
            assert reading and not reading.full, (side, reading)
            assert reading.rows < 5000, (side, reading)


HOSTILE = ["1 OR 1=1", "0); DROP TABLE section_source; --", "' OR ''='", 1.5, True, 2**64, -(2**63) - 1, [1], {"a": 1}]


@pytest.mark.parametrize("value", HOSTILE)
def test_a_bound_is_a_key_or_is_refused(value: Any) -> None:
    wanted = audit()
    for bounds in ({"from": value}, {"to": value}, {"from": 1, "to": value}):
        with pytest.raises(ConfigError, match=r"keys\.(from|to): "):
            sections.asked(wanted, {"keys": bounds})


@pytest.mark.parametrize(
    "value", ["2024-01-01' OR '1'='1", "now()", "2024-13-01", "", "0001-01-01T00:00:00+14:00", 5, True, "2024-01-01\0"]
)
def test_a_time_is_a_time_or_is_refused(value: Any) -> None:
    wanted = audit(settle={"column": "seen", "lag": "1h"})
    with pytest.raises(ConfigError, match=r"times\.from: "):
        sections.asked(wanted, {"times": {"from": value}})


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({"keys": {}}, "write from, to or both"),
        ({"keys": {"from": 2, "to": 1}}, "from has to be at most to"),
        ({"keys": {"from": 2, "column": "id"}}, "there is no setting 'column' here"),
        ({"times": {"from": "2024-01-01", "to": "2024-01-01"}}, "from has to be before to"),
        ({"times": {"from": "2024-01-02"}}, "names no column of times; write partition"),
    ],
)
def test_what_makes_no_section(overrides: dict[str, Any], sentence: str) -> None:
    settled: dict[str, Any] = {} if "no column" in sentence else {"settle": {"column": "seen", "lag": "1h"}}
    with pytest.raises(ConfigError, match=sentence):
        sections.asked(audit(**settled), overrides)


def test_a_section_is_told_in_words() -> None:
    assert str(Section(first=7)) == "rows with keys from 7 on" and str(Section(last=-7)) == "rows with keys up to -7"
    both = Section(first=1, last=2000, before="2024-01-01 00:00:00.500000", column="seen")
    assert str(both) == "rows with keys 1 to 2,000 and seen before 2024-01-01 00:00:00.500000 UTC"
