"""Columns that bear the names that statements give to tables and columns of their own are compared as any other."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pytest

import dialects
from auditor.config import Audit, ConnectionSettings
from auditor.model import SIDES, Report, Verdict
from auditor.planning import prescan
from auditor.run import audit_run
from dialects import Kind
from tests import invented_names, tables
from tests.live import LiveEngine, engine_params

TOPICS = "id BIGINT PRIMARY KEY, topic VARCHAR(40), partition_id INT NOT NULL, msg_offset BIGINT, payload VARCHAR(200)"
ENDS = "first_key BIGINT, end_key BIGINT, name VARCHAR(40), PRIMARY KEY (first_key, end_key)"


def perform(engine: LiveEngine, source: str, target: str, **more: Any) -> Report:
    """Return the report of an audit of two tables of one server."""
    ends = {side: {"connection": side, "table": name} for side, name in zip(SIDES, (source, target), strict=True)}
    connections: dict[str, ConnectionSettings] = {side: ConnectionSettings(url=engine.url) for side in SIDES}
    return audit_run.run("named", Audit.model_validate({**ends, **more}), connections)


def make_two(engine: LiveEngine, name: str, columns: str, rows: str, damage: str) -> tuple[str, str]:
    """Make a table of these rows, which are a SELECT, and a copy that is damaged; return their names."""
    names = (f"{name}_source", f"{name}_target")
    made = [(f"DROP TABLE IF EXISTS {one}", f"CREATE TABLE {one} ({columns})", f"INSERT INTO {one} {rows}") for one in names]
    tables.execute(engine, *(sql for each in made for sql in each), damage.format(table=names[1]), *(f"ANALYZE {one}" for one in names))
    return names


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_a_column_is_not_taken_for_the_number_of_a_stretch(engine: LiveEngine) -> None:
    rows = "SELECT n, 'topic ' || n % 7, n % 8, n * 10, 'payload ' || n FROM GENERATE_SERIES(1, 20000) AS s(n)"
    names = make_two(engine, "ev", TOPICS, rows, "UPDATE {table} SET payload = 'damaged' WHERE partition_id = 5")
    report = perform(engine, *names)
    assert report.verdict is Verdict.MISMATCH and report.differences
    assert (report.differences.changed, report.differences.missing, report.differences.extra) == (2500, 0, 0)
    assert report.plan and report.plan.prescan and report.plan.prescan.digest_rows, "else no row was joined with others"


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_columns_are_not_taken_for_the_ends_of_a_stretch(engine: LiveEngine) -> None:
    rows = "SELECT n / 3, n % 3, 'name ' || n FROM GENERATE_SERIES(1, 30000) AS s(n)"
    names = make_two(engine, "ends", ENDS, rows, "UPDATE {table} SET name = 'damaged' WHERE first_key % 50 = 7")
    report = perform(engine, *names)
    assert report.verdict is Verdict.MISMATCH and report.differences
    assert (report.differences.changed, report.differences.missing, report.differences.extra) == (600, 0, 0)
    assert report.comparison and report.plan and report.plan.prescan and report.plan.prescan.cuts, "else the key was not cut"


@pytest.fixture
def small_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small tables be read by digests."""
    monkeypatch.setattr(prescan, "AIM_ROWS", 32)
    monkeypatch.setattr(prescan, "LEAST_DIGEST_ROWS", 1)


ROWS = 200
DAMAGED = range(40, 200, 40)
"""Numbers of the rows in which one value differs."""

PLACES = ("key", "second", "value", "filtered", "masked", "computed", "moment", "settled")
"""What the columns of a table are: those of its key; a value; one of the filter; one whose values are masked; one of which an expression is
made; one of time by which rows are partitioned; and one of time by which they settle."""

KINDS = {"value": Kind("text"), "masked": Kind("text"), **dict.fromkeys(("moment", "settled"), Kind("timestamp", scale=6))}
"""Kinds of these columns; whole numbers of all others."""


def row(number: int, damaged: str = "") -> tuple[Any, ...]:
    """Return a row, in which the column of one place is another, or a row that the filter leaves out of both sides."""
    at = dt.datetime(2026, 1, 1) + dt.timedelta(hours=number)
    values = [number, number % 3, f"row {number}", number % 10, f"secret {number}", 2 * number, at, at]
    others = [0, 0, "other", 8 - number % 10, "another", -1, at + dt.timedelta(days=2), at]
    return tuple(other if place == damaged else value for place, value, other in zip(PLACES, values, others, strict=True))


def make_named(engine: LiveEngine, names: Sequence[str], more: Sequence[str] = (), composite: bool = False) -> dict[str, str]:
    """Make a table whose columns bear these names in these places, and ``more`` as further values, and a damaged copy."""
    columns = [*((name, KINDS.get(place, Kind("integer"))) for name, place in zip(names, PLACES, strict=True))]
    columns += [(name, Kind("integer")) for name in more]
    changed = ("value", "masked", "computed", "moment")
    held = [(*row(number), *(number + at for at in range(len(more)))) for number in range(ROWS)]
    sent = list(held)
    for at, number in enumerate(DAMAGED):
        sent[number] = (*row(number, changed[at % len(changed)]), *held[number][len(PLACES) :])
    key = names[: 1 + composite]
    return {side: tables.shared_table(engine, columns, rows, key) for side, rows in zip(SIDES, (held, sent), strict=True)}


def settings_of(engine: LiveEngine, names: Sequence[str], key: Sequence[str]) -> dict[str, Any]:
    """Return the settings of an audit in which a column of each name has its place."""
    _, _, _, filtered, masked, computed, _, settled = names
    override = {masked: {"mask": True}, computed: {"expr": f"{dialects.get(engine.dialect).names.quote(computed)} + 1", "kind": "integer"}}
    return {
        "key": list(key),
        "where": f'"{filtered}" >= 0 AND "{filtered}" < 9',
        "settle": {"column": settled, "lag": "1m"},
        "columns": {"override": override},
    }


HOW: dict[str, dict[str, Any]] = {
    "exact range": {"prescan": False, "partition": {"size": 32}},
    "digests": {"prescan": True, "partition": {"size": 8}},
    "levels": {"prescan": False, "t": 8, "k": 4, "partition": {"strategy": "hash", "buckets": 5}},
    "groups": {"prescan": True, "partition": {"strategy": "hash", "buckets": 5}},
    "time": {"prescan": False, "partition": {"strategy": "time"}},
    "minhash": {"method": "minhash", "partition": {"size": 20}},
    "counts": {"method": "counts"},
}
"""Audits in every way in which statements read rows."""


def check_named(engine: LiveEngine, names: Sequence[str], how: str, more: Sequence[str] = (), *, composite: bool = False) -> None:
    """Audit both tables, and find the damage exactly."""
    made, key = make_named(engine, names, more, composite), names[: 1 + composite]
    moment = names[PLACES.index("moment")]
    settings = {**settings_of(engine, names, key), **HOW[how]}
    if how == "time":
        settings["partition"] = {"strategy": "time", "column": moment}
    if how == "counts":
        histogram = [{"column": names[3], "buckets": 4}, {"column": moment, "buckets": 4}]
        settings["counts"] = {"classes": [names[2]], "histogram": histogram}
    report = perform(engine, made["source"], made["target"], **settings)
    assert report.verdict is Verdict.MISMATCH and report.comparison, (how, names, report.reasons)
    seen = sum(number % 10 < 9 for number in range(ROWS))
    assert set(report.comparison.rows.values()) == {seen}, (how, names)
    if how == "counts":
        unequal = {one.name.split()[0] for one in report.measures}
        assert unequal == {names[2], names[4], names[5], moment}, (names, report.measures)
        return
    if how == "minhash":
        assert {one.partition for one in report.comparison.divergent} == {number // 20 for number in DAMAGED}, names
        return
    assert report.differences, (how, names, report.reasons)
    found = {int(str(one.key[names[0]])): one.kind for one in report.differences.named}
    assert found == dict.fromkeys(DAMAGED, "changed"), (how, names)


PLACED = ("partition_id", "first_key", "v", "row_count", "k", "x", "kv", "bucket")
"""Names in these places in a normal run; every other name is a value beside them."""


QUICK_ON_SPARK = ("exact range", "digests", "groups", "counts")
"""Those that a normal run makes on Spark too. The statements of the others run there in `test_collations.py` beside this module, and in
`test_exact.py` and `test_time_partitions.py` of `tests/pairs/`; that no name is mistaken in them is proved by
`tests/unit/test_invented_names.py`."""


@pytest.mark.slow_on("spark")
@pytest.mark.parametrize("engine", engine_params(), indirect=True)
@pytest.mark.parametrize("how", [how if how in QUICK_ON_SPARK else pytest.param(how, marks=pytest.mark.slow_on("spark")) for how in HOW])
@pytest.mark.usefixtures("small_stretches")
@pytest.mark.few
def test_damage_is_found_whatever_columns_are_named(engine: LiveEngine, how: str) -> None:
    more = [name for name in invented_names.dangerous() if name not in PLACED]
    if engine.name == "spark":  # which takes minutes to insert as many literals
        more = more[::24]
    check_named(engine, PLACED, how, more)


@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", "postgres"), indirect=True)
@pytest.mark.usefixtures("small_stretches")
def test_a_composite_key_of_such_names_is_cut(engine: LiveEngine) -> None:
    check_named(engine, ("first_key", "end_key", *PLACED[2:6], "partition_id", "hashed"), "groups", composite=True)


@pytest.mark.slow
@pytest.mark.parametrize("engine", engine_params(), indirect=True)
@pytest.mark.parametrize("how", HOW)
@pytest.mark.usefixtures("small_stretches")
def test_damage_is_found_whatever_name_a_column_has_in_whatever_place(engine: LiveEngine, how: str) -> None:
    names = invented_names.every()
    around = [*names, *names]
    for start in range(0, len(names), 1 if engine.name != "spark" else 8):
        check_named(engine, around[start : start + len(PLACES)], how, composite=how in ("levels", "groups"))
