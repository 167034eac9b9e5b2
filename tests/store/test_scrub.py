"""Removing masked values, and one key, from a store, on every database."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlalchemy import inspect

from auditor import service
from auditor.config import Settings, validate_settings
from auditor.model import SIDES, Verdict
from auditor.service import forgetting
from auditor.service.scrub import scrub
from auditor.store import Store, open_store, repairs, runs
from tests.store.conftest import Make

pytestmark = pytest.mark.duckdb
SECRETS = [f"41111111{number:08}" for number in range(12)]


def settings(folder: Path, mask: list[str]) -> Settings:
    ends = {side: {"connection": side, "table": "orders"} for side in SIDES}
    connections: dict[str, dict[str, Any]] = {side: {"url": f"duckdb:///{folder}/{side}.duckdb"} for side in SIDES}
    connections["source"]["mask"] = mask
    return validate_settings({"connections": connections, "audits": {"scrubbed": {**ends, "key": ["card"]}}})


def found_in(store: Store) -> list[str]:
    """Return the secrets that any value of any table holds, also once it is unpacked."""
    texts: list[str] = []
    quote = store.engine.dialect.identifier_preparer.quote
    with store.reading() as connection:
        for table in inspect(store.engine).get_table_names():
            texts += [unpacked(value) for row in connection.exec_driver_sql(f"SELECT * FROM {quote(table)}") for value in row]
    return [secret for secret in SECRETS if any(secret in text for text in texts)]


def unpacked(value: Any) -> str:
    if not isinstance(value, (bytes, memoryview)):
        return str(value)
    try:
        return zlib.decompress(value).decode()
    except zlib.error:
        return bytes(value).decode("latin-1")


def make_tables(folder: Path) -> None:
    for side in SIDES:
        with duckdb.connect(f"{folder}/{side}.duckdb") as connection:
            connection.execute("CREATE TABLE orders (card VARCHAR PRIMARY KEY, v BIGINT)")
            connection.executemany("INSERT INTO orders VALUES (?, ?)", [(card, int(side == "target")) for card in SECRETS])


def test_scrub_removes_masked_values(make_url: Make, tmp_path: Path) -> None:
    make_tables(tmp_path)
    store = open_store(make_url())
    try:
        report = service.run_audit(settings(tmp_path, []), "scrubbed", store=store)
        key = next(one.key for _, one in runs.list_differences(store, report.run) if one.key)
        repairs.record_repair(store, run=report.run, audit="scrubbed", kind="patch", note="", who="me", rows=1, keys=[key])
        assert report.verdict is Verdict.MISMATCH and found_in(store) == SECRETS
        assert scrub(settings(tmp_path, ["orders.card"]), store) == 1
        assert found_in(store) == []
        kept = runs.get_run(store, report.run)
        assert (kept.verdict, kept.changed) == (Verdict.MISMATCH, len(SECRETS))
    finally:
        store.close()


def test_a_forgotten_key_is_gone_and_so_is_every_row_of_its_runs(make_url: Make, tmp_path: Path) -> None:
    make_tables(tmp_path)
    store = open_store(make_url())
    try:
        configured = settings(tmp_path, [])
        reports = [service.run_audit(configured, "scrubbed", store=store) for _ in range(2)]
        keys: list[dict[str, str | None]] = [{"card": SECRETS[place]} for place in (3, 4)]
        repairs.record_repair(store, run=reports[0].run, audit="scrubbed", kind="patch", note="", who="me", rows=2, keys=keys)
        assert found_in(store) == SECRETS
        found = {place.place: place for place in forgetting.forget(configured, store, "scrubbed", SECRETS[3], apply=True, by="me").places}
        assert [(found[place].found, found[place].removed) for place in ("runs", "repairs")] == [(2, 2), (1, 1)]
        assert found_in(store) == []
        kept = runs.get_run(store, reports[1].run)
        assert (kept.verdict, kept.changed) == (Verdict.MISMATCH, len(SECRETS))
    finally:
        store.close()
