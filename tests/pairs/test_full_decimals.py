"""A decimal without a scale of its own is compared with all its digits: two values match only if they are the same number."""

from __future__ import annotations

from contextlib import closing
from decimal import Decimal
from functools import cache
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import dialects
from auditor import canonical
from auditor.config import Audit, ConnectionSettings
from auditor.model import SIDES, Verdict
from auditor.run import audit_run
from dialects import Kind
from tests import tables
from tests.live import LiveEngine, LivePair, chosen_pairs, engine_params

SCALE = 20
"""Digits behind the point that every engine's decimals can hold, with some before it."""

WIDE = Kind("decimal", 38, SCALE)


@cache
def pairs_of_numbers(count: int) -> list[tuple[Decimal, Decimal]]:
    """Draw pairs of decimals that are equal, or differ by one unit of any digit, most often one beyond the 18th."""
    drawn: list[tuple[Decimal, Decimal]] = []
    digit = st.integers(18, SCALE) | st.integers(-2, SCALE)

    @settings(max_examples=count, phases=[Phase.generate], database=None, derandomize=True, deadline=None)
    @given(st.integers(-(10**34), 10**34) | st.integers(-(10**4), 10**4), digit, digit, st.sampled_from([-1, 0, 0, 1]))
    def draw(units: int, scale: int, place: int, step: int) -> None:
        value = Decimal(units).scaleb(-SCALE).quantize(Decimal(1).scaleb(-max(0, scale)), context=canonical.EXACT)
        drawn.append((value, canonical.EXACT.add(value, Decimal(step).scaleb(-place))))

    draw()
    return drawn


@pytest.mark.parametrize("engine", engine_params(), indirect=True)
def test_full_text_of_a_decimal_equals_the_oracle(engine: LiveEngine, request: pytest.FixtureRequest) -> None:
    """Texts of columns with any scale, and of PostgreSQL's numeric without one, are the oracle's; so they differ if the numbers do."""
    drawn = pairs_of_numbers(10_000 if request.config.getoption("--deep") else 500)
    columns = [("n", Kind("integer")), ("a", WIDE), ("b", WIDE), ("whole", Kind("decimal", 38, 0))]
    unit = Decimal(1).scaleb(-SCALE)  # literals of one scale, for Spark finds a common type of a statement's rows and rounds to it
    stored = [(n, *(one.quantize(unit, context=canonical.EXACT) for one in pair), int(pair[0])) for n, pair in enumerate(drawn)]
    tables.make(engine, "full_decimals", columns, stored)
    full = canonical.FULL_DECIMAL
    with closing(dialects.connect(engine.url)) as session:
        render = session.dialect.canonical.canonical_text
        read = {"a": WIDE, "b": WIDE, "whole": Kind("decimal", 38, 0), "n": Kind("integer")}
        texts = [render(full, name, native) for name, native in read.items()]
        if engine.name == "postgres":
            texts += [render(full, f"CAST({name} AS NUMERIC)", full) for name in ("a", "b")]
        got = session.query(f"SELECT n, {', '.join(texts)} FROM full_decimals ORDER BY 1")
    for (a, b), (number, *found) in zip(drawn, got, strict=True):
        wanted = [canonical.text(full, value) for value in (a, b, Decimal(int(a)), Decimal(number))]
        assert found == wanted + wanted[:2] * (engine.name == "postgres")
        assert (found[0] == found[1]) == (a == b)


def make_numeric(engine: LiveEngine, rows: list[tuple[int, str]], native: str) -> None:
    values = ", ".join(f"({key}, {value})" for key, value in rows)
    create = f"CREATE TABLE numerics (id BIGINT PRIMARY KEY, v {native})"
    tables.execute(engine, "DROP TABLE IF EXISTS numerics", create, f"INSERT INTO numerics VALUES {values}")


def audit(pair: LivePair, **more: Any) -> Audit:
    sides = {side: {"connection": side, "table": "numerics"} for side in SIDES}
    return Audit.model_validate({**sides, "key": ["id"], **more})


ROWS = [(1, "1.50"), (2, "0.123456789012345678901"), (3, "-7"), (4, "100000"), (5, "NULL"), (6, "0.00")]
NATIVE = {"postgres": "NUMERIC", "mysql": "DECIMAL(40,25)", "duckdb": "DECIMAL(38,25)"}


@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres", "postgres-duckdb"), indirect=True)
@pytest.mark.parametrize("method", ["exact", "counts"])
@pytest.mark.few
def test_a_difference_beyond_the_18th_digit_is_found(pair: LivePair, method: str) -> None:
    connections = {"source": ConnectionSettings(url=pair.source.url), "target": ConnectionSettings(url=pair.target.url)}
    make_numeric(pair.source, ROWS, NATIVE[pair.source.name])
    make_numeric(pair.target, ROWS, NATIVE[pair.target.name])
    equal = audit_run.run("numerics", audit(pair, method=method), connections)
    assert equal.verdict is Verdict.MATCH, equal.reasons
    assert equal.plan and [one for one in equal.plan.not_compared if one.column == "v"] == []
    make_numeric(pair.target, [(key, value[:-1] + "2" if len(value) > 18 else value) for key, value in ROWS], NATIVE[pair.target.name])
    report = audit_run.run("numerics", audit(pair, method=method), connections)
    assert report.verdict is Verdict.MISMATCH
    if method == "exact":
        assert report.differences is not None
        (found,) = report.differences.named
        assert [(one.source, one.target) for one in found.columns] == [("0.123456789012345678901", "0.123456789012345678902")]


@pytest.mark.parametrize("pair", chosen_pairs("postgres-postgres"), indirect=True)
def test_numeric_without_scale_on_both_sides(pair: LivePair) -> None:
    """Numbers of any size; and an override to fewer digits says that it cuts them."""
    connections = {side: ConnectionSettings(url=pair.source.url) for side in ("source", "target")}
    rows = [(1, "'NaN'"), (2, "1" + "0" * 60 + ".5"), (3, "0." + "0" * 60 + "1"), (4, "12")]
    make_numeric(pair.source, rows, "NUMERIC")
    tables.execute(pair.source, "DROP TABLE IF EXISTS numerics_too", "CREATE TABLE numerics_too (id BIGINT PRIMARY KEY, v NUMERIC)",
                   "INSERT INTO numerics_too SELECT id, CASE id WHEN 3 THEN v * 1.1 ELSE v + 0.000 END FROM numerics")  # fmt: skip
    two = {"connection": "target", "table": "numerics_too"}
    report = audit_run.run("numerics", audit(pair, target=two), connections)
    assert report.differences is not None and [one.key["id"] for one in report.differences.named] == ["3"]
    coarse = audit(pair, target=two, columns={"override": {"v": {"kind": "decimal(38,10)"}}})
    report = audit_run.run("numerics", coarse, connections)
    assert report.verdict is Verdict.MATCH and report.plan
    assert [str(one) for one in report.plan.not_compared] == ["v: values are rounded to 10 digits after the decimal point"]


@pytest.mark.parametrize("pair", chosen_pairs("postgres-postgres"), indirect=True)
def test_numeric_without_scale_against_text(pair: LivePair) -> None:
    """Text is taken as it is: the number as PostgreSQL prints it."""
    connections = {side: ConnectionSettings(url=pair.source.url) for side in ("source", "target")}
    make_numeric(pair.source, ROWS, "NUMERIC")
    tables.execute(pair.source, "DROP TABLE IF EXISTS numerics_too", "CREATE TABLE numerics_too AS SELECT id, v::text AS v FROM numerics")
    assert (
        audit_run.run("numerics", audit(pair, target={"connection": "target", "table": "numerics_too"}), connections).verdict
        is Verdict.MATCH
    )
