"""Times of a zone in a type without one equal the same moments in a type with a zone, in summer and in winter."""

from __future__ import annotations

import datetime as dt
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from auditor.config import Audit, ConnectionSettings
from auditor.model import Report, Verdict
from auditor.run import audit_run
from dialects import Kind
from tests import tables
from tests.live import LiveEngine, LivePair, chosen_pairs

pytestmark = pytest.mark.engines_in_turn

BERLIN = ZoneInfo("Europe/Berlin")
STEPS = [dt.timedelta(minutes=7 * n) for n in range(-20, 20)]
SET_FORWARD, SET_BACK = (dt.datetime(2025, month, day, 1, tzinfo=dt.UTC) for month, day in ((3, 30), (10, 26)))
MOMENTS = [
    *(SET_FORWARD + step for step in STEPS),
    *(SET_BACK + step for step in STEPS),
    dt.datetime(2001, 9, 9, 1, 46, 40, 123456, dt.UTC),
]
NAIVE, AWARE = Kind("timestamp", scale=6), Kind("timestamptz", scale=6)


def load_zone(engine: LiveEngine) -> None:
    """Give a MySQL server what its tables need of Berlin, if they are empty; the other engines know every zone."""
    if engine.name not in _LOADED:
        _LOADED.add(engine.name)
        tables.load_zones(engine, ["Europe/Berlin"])


_LOADED: set[str] = set()


def run_audit(pair: LivePair, names: tuple[str, str], zone: str | None = None, **audit: Any) -> Report:
    ends = {side: {"connection": side, "table": table} for side, table in zip(("source", "target"), names, strict=True)}
    connections = {
        "source": ConnectionSettings(url=pair.source.url, zone=zone),
        "target": ConnectionSettings(url=pair.target.url),
    }
    return audit_run.run("zones", Audit.model_validate({**ends, "key": ["id"], **audit}), connections)


def make_tables(pair: LivePair, kind: Kind, moments: list[dt.datetime]) -> tuple[str, str]:
    columns = [("id", Kind("integer")), ("at", NAIVE)]
    local = [(n, moment.astimezone(BERLIN).replace(tzinfo=None)) for n, moment in enumerate(MOMENTS)]
    utc = [(n, moment.replace(tzinfo=None)) for n, moment in enumerate(moments)]
    return tables.shared_table(pair.source, columns, local), tables.shared_table(pair.target, [columns[0], ("at", kind)], utc)


@pytest.mark.quick_for("postgres-duckdb")
@pytest.mark.slow_on("spark")  # a target, whose times need no zone
def test_times_of_a_zone_equal_the_same_moments(pair: LivePair) -> None:
    load_zone(pair.target)
    names = make_tables(pair, AWARE, MOMENTS)
    hinted = run_audit(pair, names)
    assert hinted.verdict is Verdict.MISMATCH and hinted.differences is not None, hinted.reasons
    assert any("1 h or 2 h earlier than the source's, as with summer time" in one and "zone:" in one for one in hinted.reasons), (
        hinted.reasons
    )
    found = run_audit(pair, names, "Europe/Berlin")
    assert found.verdict is Verdict.MATCH and found.plan, found.reasons
    assert any("clocks of Europe/Berlin" in str(one) for one in found.plan.not_compared)
    wrong = [moment + dt.timedelta(hours=n == 5) for n, moment in enumerate(MOMENTS)]
    by_column = {"override": {"at": {"zone": "Europe/Berlin"}}}
    report = run_audit(pair, make_tables(pair, AWARE, wrong), columns=by_column)
    assert report.differences is not None and [one.key["id"] for one in report.differences.named] == ["5"], report.reasons


@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres"), indirect=True)
def test_zone_of_one_of_two_sides_without_zones(pair: LivePair) -> None:
    names = make_tables(pair, NAIVE, MOMENTS)

    def verdict(zone: Any, **more: Any) -> tuple[Verdict, str]:
        report = run_audit(pair, names, columns={"override": {"at": {"zone": zone}}}, **more)
        return report.verdict, report.reasons[0]

    assert run_audit(pair, names, "Europe/Berlin").verdict is Verdict.MATCH
    assert verdict({"source": "Europe/Berlin"})[0] is Verdict.MATCH
    assert verdict({"source": "Europe/Berlin", "target": "UTC"})[0] is Verdict.MATCH
    assert verdict({"source": "Europe/Berlin", "target": "Europe/Berlin"})[0] is Verdict.MISMATCH
    refused: list[tuple[Any, dict[str, Any], str]] = [
        ("Europe/Berlin", {}, "say whose it is"),
        ({"source": "Europe/Berlin", "target": "Asia/Tokyo"}, {}, "write an expr"),
        ({"target": "Asia/Tokyo"}, {}, "does not know the time zone Asia/Tokyo; load its time zone tables"),
        ({"source": "Europe/Berlin"}, {"partition": {"strategy": "time", "column": "at"}}, "neither partition nor settle"),
        ({"source": "Europe/Berlin"}, {"settle": {"column": "at", "lag": "1m"}}, "neither partition nor settle"),
    ]
    for zone, more, why in refused:
        found, reason = verdict(zone, **more)
        assert found is Verdict.UNKNOWN and why in reason, reason
    of_number = run_audit(pair, names, columns={"override": {"id": {"zone": "Europe/Berlin"}}})
    assert "for times whose type has no zone" in of_number.reasons[0]
