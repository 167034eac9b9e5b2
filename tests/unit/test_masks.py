"""Masked values of keys and other columns are stored by no method, and those stored earlier are removed."""

from __future__ import annotations

import os
import random
import re
import stat
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlalchemy import inspect

from auditor import cli, service
from auditor.config import Settings, validate_settings
from auditor.errors import ConfigError, PlanError
from auditor.history import key_digests, left_out, records
from auditor.history.left_out import LeftOut, LeftOutRow
from auditor.model import SIDES, Verdict
from auditor.planning.columns import are_mentioned, masked_columns
from auditor.report import render, text
from auditor.service import audits as audit_service
from auditor.service import workers
from auditor.store import Store, open_store, repairs, runs, salt
from auditor.store import audit_state as stored_left_out
from dialects import Place

ROWS = 2000
MASKS = ["orders.id", "orders.card", "*.email", "orders.moved"]
draw = random.Random(13)
NUMBERS = draw.sample(range(700_000_000, 799_999_999), ROWS)
CARDS = [f"4{draw.randrange(10**15):015}" for _ in range(ROWS)]
SECRETS = [str(number) for number in NUMBERS[:25]] + CARDS[:25]
"""Of 50 rows that differ, the keys and the cards."""


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("masks")
    for side in SIDES:
        with duckdb.connect(f"{folder}/{side}.duckdb") as connection:
            connection.execute("CREATE TABLE orders (id BIGINT PRIMARY KEY, card VARCHAR, email VARCHAR, note VARCHAR, moved TIMESTAMP)")
            columns = "unnest(?) AS id, unnest(?) AS card"
            insert = f"INSERT INTO orders SELECT id, card, card || '@example.org', 'n', TIMESTAMP '2020-01-01' FROM (SELECT {columns})"
            connection.execute(insert, [NUMBERS, CARDS])
            if side == "target":
                connection.execute("DELETE FROM orders WHERE id IN (SELECT unnest(?))", [NUMBERS[:10]])
                changed = "UPDATE orders SET card = card || 'x', email = email || 'x' WHERE id IN (SELECT unnest(?))"
                connection.execute(changed, [NUMBERS[10:20]])
                connection.execute("UPDATE orders SET note = 'other', card = 'x' WHERE id IN (SELECT unnest(?))", [NUMBERS[20:25]])
    return folder


def settings(folder: Path, audits: Mapping[str, Mapping[str, Any]], mask: Sequence[str] = tuple(MASKS)) -> Settings:
    tables = {side: {"connection": side, "table": "orders"} for side in SIDES}
    connections: dict[str, dict[str, Any]] = {side: {"url": f"duckdb:///{folder}/{side}.duckdb"} for side in SIDES}
    connections["source"]["mask"] = list(mask)
    return validate_settings({"connections": connections, "audits": {name: {**tables, **more} for name, more in audits.items()}})


def found_in(file: Path, store: Store) -> list[str]:
    """Return which secrets the store holds: in the bytes of its files, or in any value once it is unpacked."""
    store.close()
    raw = b"".join(path.read_bytes() for path in file.parent.glob(f"{file.name}*"))
    texts = [raw.decode("latin-1")]
    with store.reading() as connection:
        for table in inspect(store.engine).get_table_names():
            for row in connection.exec_driver_sql(f'SELECT * FROM "{table}"'):
                texts += [_unpacked(value) for value in row]
    return [secret for secret in SECRETS if any(secret in text for text in texts)]


def _unpacked(value: Any) -> str:
    if not isinstance(value, bytes):
        return str(value)
    try:
        return zlib.decompress(value).decode()
    except zlib.error:
        return value.decode("latin-1")


METHODS: dict[str, dict[str, Any]] = {
    "exact": {},
    "buckets": {"partition": {"buckets": 4}},
    "signature": {"method": "signature"},
    "minhash": {"method": "minhash"},
    "counts": {"method": "counts", "counts": {"classes": ["card"], "histogram": [{"column": "id", "buckets": 4}]}},
    "settled": {"settle": {"column": "moved", "lag": "1h"}, "recheck": {"times": 1, "wait": "0s"}},
    "computed": {"columns": {"override": {"card": {"expr": "substr(card, 1, 12)", "kind": "text"}}}},
}


def test_store_holds_none_of_fifty_masked_values(databases: Path, tmp_path: Path) -> None:
    configured = settings(databases, METHODS)
    file = tmp_path / "runs.db"
    store = open_store(f"sqlite:///{file}")
    for name in (*METHODS, "exact"):
        report = service.run_audit(configured, name, store=store)
        assert report.verdict is Verdict.MISMATCH, (name, report.reasons)
        shown = records.load_report(store, report.run)
        assert shown is not None
        for form in render.FORMATS:
            page = render.run(shown, records.load_partition_map(store, report.run), form)
            assert [secret for secret in SECRETS if secret in page.replace(",", "")] == [], (name, form)
    assert found_in(file, store) == []
    exact = [one.run for one in runs.list_runs(store, audit="exact")]
    first, again = ({str(one.key) for _, one in runs.list_differences(store, run)} for run in exact)
    assert first == again and len(first) == 25, "the same rows have the same digests in each run, and different ones differ"
    assert all(re.fullmatch(r"\{'id': '\*\*\*[0-9a-f]{16}'\}", key) for key in first)


def test_search_finds_what_is_stored_without_masks(databases: Path, tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    store = open_store(f"sqlite:///{file}")
    service.run_audit(settings(databases, {"exact": {}}, ()), "exact", store=store)
    assert set(SECRETS) - set(found_in(file, store)) == set(CARDS[:10]), "of missing rows only the keys are stored"


def test_runs_that_end_early_leave_none(databases: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cancelled run keeps its chunks, in which counts has the least and greatest values: of masked columns these are not kept."""
    file = tmp_path / "runs.db"
    store = open_store(f"sqlite:///{file}")

    def stop(*_: object, **__: object) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("auditor.run.audit_run.deviations.deviations", stop)
    report = service.run_audit(settings(databases, {"counts": {"method": "counts"}}, ("orders.id", "orders.card")), "counts", store=store)
    assert report.state.value == "cancelled" and not report.resumable
    with store.reading() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM auditor_chunks").scalar() == 0
    monkeypatch.setattr("auditor.run.audit_run.locate_differences", stop)
    report = service.run_audit(settings(databases, {"exact": {}}), "exact", store=store)
    assert report.resumable and found_in(file, store) == []


def test_audit_over_http_cannot_see_them(databases: Path, tmp_path: Path) -> None:
    """A definition cannot mask less than the connection, and cannot ask for ranges of masked values."""
    configured, store = settings(databases, {}), open_store(f"sqlite:///{tmp_path}/runs.db")
    definition: dict[str, Any] = {**{side: {"connection": side, "table": "main.orders"} for side in SIDES}, "method": "exact"}
    audit_service.define(configured, store, "mine", definition, "somebody")
    defined = audit_service.with_defined_audits(configured, store)
    found = service.run_audit(defined, "mine", store=store)
    assert found.plan and {c.name: c.masked for c in found.plan.columns} == {
        "id": True, "card": True, "email": True, "note": False, "moved": True,
    }  # fmt: skip
    assert "SELECT" in service.sql(defined, "mine")["source"]
    scripts = str(service.sql(defined, "mine")) + render.run(found, None, "json")
    assert [secret for secret in SECRETS if secret in scripts] == []
    before = len(runs.list_runs(store))
    for request in (service.run_audit, workers.request_run):
        with pytest.raises(PlanError, match="is masked"):
            request(defined, name="mine", store=store, overrides={"keys": {"from": 0, "to": 10**9}})
    assert len(runs.list_runs(store)) == before, "not even the range that was asked for is stored"
    for more in ({"partition": {"size": 100}}, {"partition": {"strategy": "time", "column": "moved"}}, {"rolling": {"per_run": "40%"}}):
        refused = service.run_audit(settings(databases, {"a": more}), "a", store=store)
        assert refused.exit_code == 2 and "masked" in refused.reasons[0], refused.reasons
    timed = settings(databases, {"a": {"settle": {"column": "moved", "lag": "1h"}}})
    assert "is masked" in service.run_audit(timed, "a", overrides={"times": {"from": "2020-01-01"}}).reasons[0]


@pytest.mark.parametrize(
    ("patterns", "place", "masked"),
    [
        (("orders.card",), Place(("orders",)), "card"),
        (("ORDERS.Card",), Place(("Shop", "Orders")), "card"),
        (("shop.orders.card",), Place(("orders",)), "card"),
        (("shop.orders.card",), Place(("other", "orders")), ""),
        (("order.card", "orders2.card", "orders.car"), Place(("orders",)), ""),
        (("*.*mail",), Place(("a", "b", "c")), "email"),
        (("orders.*",), Place(("orders",)), "card email"),
        (("orders.card",), Place((), "lake/2024/orders.parquet"), "card"),
        (("orders.card",), Place((), "lake/orders", "delta"), "card"),
        (("orders.card",), Place((), "lake/o*.parquet"), "card"),
        (("orders.card",), Place((), "lake/users.parquet"), ""),
    ],
)
def test_patterns_of_masks(patterns: Sequence[str], place: Place, masked: str) -> None:
    assert masked_columns(patterns, place, ["Card", "email"]) == frozenset(masked.split())


def test_plan_shows_what_is_masked_and_which_mask_is_mistyped(databases: Path) -> None:
    configured = settings(databases, {"a": {}}, ("orders.card", "orders.emial", "*.nothing", "users.name"))
    shown = render.plain_text(text.plan(service.make_plan(configured, "a", configured.audits["a"])))
    assert "card (masked)" in shown and "email (masked)" not in shown
    assert "the mask 'orders.emial' of the connection source names no column of orders" in shown
    assert "nothing" not in shown and "users" not in shown


def test_expressions_over_masked_columns_are_masked() -> None:
    assert are_mentioned({"card"}, '(substr("Card", 1, 4))') and not are_mentioned({"card"}, '("cards")')


def test_mask_without_a_table_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"write a table and a column, e\.g\. orders\.card"):
        validate_settings({"connections": {"shop": {"url": "duckdb:///x", "mask": ["card"]}}, "audits": {}})


def test_rows_left_out_are_followed_by_their_digests(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    store, young = open_store(f"sqlite:///{file}"), "moved = now() AT TIME ZONE 'UTC'"
    for side in SIDES:
        with duckdb.connect(f"{tmp_path}/{side}.duckdb") as connection:
            connection.execute("CREATE TABLE orders (id BIGINT PRIMARY KEY, moved TIMESTAMP)")
            connection.execute(f"INSERT INTO orders SELECT {NUMBERS[0]} + i, '2020-01-01' FROM range(9) r(i)")
    configured = settings(tmp_path, {"t": {"settle": {"column": "moved", "lag": "1h"}, "overdue_after": 3}}, ("orders.id",))
    for _ in range(3):
        for side in SIDES:
            with duckdb.connect(f"{tmp_path}/{side}.duckdb") as connection:
                connection.execute(f"UPDATE orders SET {young} WHERE id = {NUMBERS[0]}")
        report = service.run_audit(configured, "t", store=store)
    assert (report.overdue_rows, report.overdue[0].runs) == (1, 3)
    assert found_in(file, store) == []


def test_files_are_readable_by_their_owner_alone(databases: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = os.umask(0)
    try:
        store = open_store(f"sqlite:///{tmp_path}/auditor.db")
        salt.get_salt(store)
        with store.reading():
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
        assert modes == dict.fromkeys(("auditor.db", "auditor.db-wal", "auditor.db-shm"), 0o600)
        store.close()
        (tmp_path / "auditor.yaml").write_text("connections: {}\naudits: {}\n")
        assert cli.main(["report", "--config", f"{tmp_path}/auditor.yaml", "--output", f"{tmp_path}/day.html", "--format", "html"]) == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "day.html").stat().st_mode) == 0o600


def test_salt_is_the_stores_own(tmp_path: Path) -> None:
    one, same, other = (open_store(f"sqlite:///{tmp_path}/{name}.db") for name in ("a", "a", "b"))
    assert salt.get_salt(one) == salt.get_salt(same) != salt.get_salt(other)
    digest = key_digests.salted(salt.get_salt(one))
    assert digest(digest("7")) == digest("7") != key_digests.salted(salt.get_salt(other))("7")
    assert digest("***") == "***"


SCRUBBED: dict[str, dict[str, Any]] = {
    "exact": {},
    "ranges": {"partition": {"size": 100_000}},
    "counts": {"method": "counts", "counts": {"classes": ["card"]}},
    "rolling": {"rolling": {"per_run": "100%"}, "partition": {"size": 1_000_000}},
}


def test_scrub_removes_what_was_stored_before_a_column_was_masked(
    databases: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "auditor.db"
    store = open_store(f"sqlite:///{file}")
    before = settings(databases, SCRUBBED, ())
    for name in SCRUBBED:
        assert service.run_audit(before, name, store=store).verdict is Verdict.MISMATCH
    ranged = runs.list_runs(store, audit="ranges")[0].run
    key = next(one.key for _, one in runs.list_differences(store, ranged) if one.key)
    repairs.record_repair(store, run=ranged, audit="ranges", kind="patch", note="", who="me", rows=1, keys=[key])
    row = LeftOutRow(3, runs.get_run(store, ranged).started)
    stored_left_out.save_left_out(store, "exact", "settings", left_out.pack(LeftOut({(SECRETS[0],): row})))
    assert len(found_in(file, store)) > 25
    file.chmod(0o644)
    masked = settings(databases, SCRUBBED)
    config = tmp_path / "auditor.yaml"
    config.write_text(masked.model_dump_json(include={"connections"}, by_alias=True)[:-1] + ',"audits":{}}')
    assert cli.main(["store", "scrub", "--config", str(config)]) == 0
    assert f"masked values were removed from {len(SCRUBBED)} runs" in capsys.readouterr().out
    assert found_in(file, store) == [] and stat.S_IMODE(file.stat().st_mode) == 0o600
    for run in runs.list_runs(store):
        report = records.load_report(store, run.run)
        assert report and report.verdict is Verdict.MISMATCH and run.verdict is Verdict.MISMATCH
        assert render.run(report, records.load_partition_map(store, run.run), "html")
    exact = records.load_report(store, runs.list_runs(store, audit="exact")[0].run)
    assert exact and exact.differences is not None and len(exact.differences.named) == 25
    assert {column.source for one in exact.differences.named for column in one.columns if column.name == "note"} == {"n"}
