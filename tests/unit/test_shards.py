"""A source of several shards, on DuckDB: sums that add up whatever the split, damage named with its shard, and what is refused."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import closing
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console, RenderableType

from auditor import service
from auditor.api import create_app
from auditor.config import Audit, ConnectionSettings, Settings, validate_audit, validate_settings
from auditor.connections.reader import Reader
from auditor.errors import AuditorError, ConfigError
from auditor.history.handover import EarlierRuns, NoCheckpoint, Schemas
from auditor.history.stored_plan import dump_plan, load_plan
from auditor.model import Chunk, Plan, Report, Side, Verdict, shard_side
from auditor.planning import build
from auditor.report import difference_rows, html, json, markdown, text
from auditor.run import audit_run
from auditor.run.scan import scan
from auditor.service import audits
from auditor.store import open_store
from auditor.summary.arrays import Summaries

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Starlette recommends another HTTP client; this one does here
    from starlette.testclient import TestClient

pytestmark = pytest.mark.duckdb

Row = tuple[int, str | None, int]
COLUMNS = "id BIGINT PRIMARY KEY, name VARCHAR, amount DECIMAL(10,2)"
ROWS: list[Row] = [(number, f"name {number}", number * 3) for number in range(1, 601)]
LABELS = ("eu: orders", "us: orders")


def make(folder: Path, name: str, rows: Sequence[Row], columns: str = COLUMNS) -> None:
    """Create a database with one table; any earlier one is replaced."""
    import duckdb

    with duckdb.connect(str(folder / f"{name}.db")) as connection:
        connection.execute(f"CREATE OR REPLACE TABLE orders ({columns})")
        insert(connection, "orders", rows)


def insert(connection: Any, table: str, rows: Sequence[Row]) -> None:
    """Insert rows by columns, in one statement; by rows it would take a hundred times as long."""
    if rows:
        columns = [list(values) for values in zip(*rows, strict=True)]
        connection.execute(f"INSERT INTO {table} SELECT unnest($1), unnest($2), unnest($3)", columns)


def connections(folder: Path, *names: str) -> dict[str, ConnectionSettings]:
    return {name: ConnectionSettings(url=f"duckdb:///{folder}/{name}.db") for name in names}


def audit(*names: str, **more: Any) -> Audit:
    source = [{"connection": name, "table": "orders"} for name in names]
    return validate_audit({"source": source if len(source) > 1 else source[0], "target": {"connection": "dw", "table": "orders"}, **more})


def odd_and_even(folder: Path, more_in_eu: Sequence[Row] = (), target: Sequence[Row] = ROWS) -> None:
    make(folder, "eu", [*(row for row in ROWS if row[0] % 2), *more_in_eu])
    make(folder, "us", [row for row in ROWS if not row[0] % 2])
    make(folder, "dw", target)


def run(folder: Path, **more: Any) -> Report:
    return audit_run.run("orders", audit("eu", "us", partition={"size": 64}, **more), connections(folder, "eu", "us", "dw"))


def printed(shown: RenderableType) -> str:
    file = StringIO()
    Console(file=file, width=160).print(shown)
    return file.getvalue()


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.dictionaries(st.integers(-500, 500), st.tuples(st.none() | st.text("aé|~ ", max_size=4), st.integers(0, 10**6)), max_size=40),
    data=st.data(),
    method=st.sampled_from(["counts", "signature", "minhash", "exact"]),
)
def test_any_split_of_rows_over_shards_has_the_summaries_of_one_table(
    tmp_path: Path, rows: dict[int, tuple[str | None, int]], data: st.DataObject, method: str
) -> None:
    every: list[Row] = [(key, *values) for key, values in rows.items()]
    places = data.draw(st.lists(st.integers(0, 2), min_size=len(every), max_size=len(every)))
    for number, name in enumerate(("eu", "us", "asia")):
        make(tmp_path, name, [row for row, place in zip(every, places, strict=True) if place == number])
    make(tmp_path, "whole", every)
    make(tmp_path, "dw", every)
    how: dict[str, Any] = {"method": method, "salt": "s", "partition": {"strategy": "range", "size": 32}}
    split, whole = (source_summaries(tmp_path, *names, **how) for names in (("eu", "us", "asia"), ("whole",)))
    for name in Summaries.__slots__:
        np.testing.assert_array_equal(getattr(split, name), getattr(whole, name), name)


def source_summaries(folder: Path, *names: str, **how: Any) -> Summaries:
    defined = audit(*names, **how)
    sides = {side: table.connection for side, table in defined.places.items()}
    with Reader("test", sides, connections(folder, *names, "dw"), patient=False).open() as reader:
        plan = build.build_plan("test", defined, reader)
        assert load_plan(dump_plan(plan)) == plan
        return scan(reader, plan).sides["source"]


def test_each_kind_of_damage_is_named_with_its_shard(tmp_path: Path) -> None:
    target = [(n, "other" if n == 34 else name, amount) for n, name, amount in ROWS if n != 17 and not 128 <= n <= 255]
    odd_and_even(tmp_path, [ROWS[99]], [*target, (5000, "extra", 1)])
    report = run(tmp_path)
    assert report.verdict is Verdict.MISMATCH and report.differences is not None and report.differences.exact
    named = {one.key["id"]: (one.kind, one.shards, one.is_doubled) for one in report.differences.named}
    assert named == {
        "17": ("missing", ("eu: orders",), False),
        "34": ("changed", ("us: orders",), False),
        "100": ("missing", LABELS, True),
        "5000": ("extra", (), False),
    }
    ranges = {one.kind: one.shards for one in report.differences.ranges}
    assert ranges == {"missing": {"eu: orders": 64, "us: orders": 64}}
    counts = [(one.label, one.verdict.value, one.rows, one.missing, one.changed, one.doubled) for one in report.shards]
    assert counts == [("eu: orders", "mismatch", 301, 65, 0, 1), ("us: orders", "mismatch", 300, 64, 1, 1)]
    assert "1 key is doubled: several shards (eu: orders and us: orders)" in report.reasons[-1]
    assert report.comparison and report.comparison.rows["source"] == 601


def test_a_shard_without_differences_is_a_match_beside_one_with_some(tmp_path: Path) -> None:
    odd_and_even(tmp_path, target=[row for row in ROWS if row[0] != 17])
    report = run(tmp_path)
    assert [one.verdict for one in report.shards] == [Verdict.MISMATCH, Verdict.MATCH]
    odd_and_even(tmp_path)
    report = run(tmp_path)
    assert report.verdict is Verdict.MATCH and [one.verdict for one in report.shards] == [Verdict.MATCH, Verdict.MATCH]


def test_a_stale_copy_on_another_shard_and_a_run_of_doubled_keys_are_no_missing_rows(tmp_path: Path) -> None:
    stale: list[Row] = [(number, "stale", 0) for number in range(200, 220, 2)]
    odd_and_even(tmp_path, [*stale, *(row for row in ROWS if not row[0] % 2 and 300 <= row[0] < 400)])
    report = run(tmp_path)
    assert report.differences is not None and not report.differences.ranges
    assert {one.is_doubled for one in report.differences.named} == {True} and report.differences.doubled == 60
    assert [(one.missing, one.changed, one.doubled) for one in report.shards] == [(0, 0, 60), (0, 0, 60)]


def test_every_form_of_a_report_names_shards_and_doubled_keys(tmp_path: Path) -> None:
    odd_and_even(tmp_path, [ROWS[99]])
    report = run(tmp_path)
    shown = json.report(report)
    assert shown.differences and shown.differences.sample[0].doubled and shown.differences.sample[0].shards == (*LABELS,)
    assert [one.label for one in shown.shards] == [*LABELS] and shown.shards[0].cost
    assert report.differences is not None
    rows = list(difference_rows.as_differences(report.differences))
    header, line = difference_rows.csv_lines(rows, ["id"], has_shards=True)
    assert header.startswith('"kind","state","shards","id",') and line.startswith(f'"missing","confirmed","{" and ".join(LABELS)}","100",')
    assert "shards" not in next(difference_rows.csv_lines(rows, ["id"]))
    assert difference_rows.to_arrow(rows, {"id": "integer"}).column("shards").to_pylist() == [[*LABELS]]
    for page in (printed(text.report(report)), markdown.report(report), html.run(report)):
        assert "missing, doubled" in page and page.count("eu: orders") >= 2 and "1 doubled" in page + "1 doubled" * ("<table" in page)


def test_methods_that_name_no_rows_and_a_recheck_and_a_slice_and_rolling_read_all_shards(tmp_path: Path) -> None:
    odd_and_even(tmp_path, target=[row for row in ROWS if row[0] != 17])
    for more in ({"method": "counts"}, {"method": "minhash"}, {"recheck": {"times": 1, "wait": "0s"}}, {"partition": {"strategy": "hash"}}):
        defined = audit("eu", "us", **more)
        assert audit_run.run("orders", defined, connections(tmp_path, "eu", "us", "dw")).verdict is Verdict.MISMATCH, more
    sliced = audit_run.run(
        "orders",
        audit("eu", "us", where="id >= 100"),
        connections(tmp_path, "eu", "us", "dw"),
    )
    assert sliced.verdict is Verdict.MATCH and sliced.comparison and sliced.comparison.rows["source"] == 501


def test_rows_in_flight_of_any_shard_are_left_out(tmp_path: Path) -> None:
    columns, old, young = "id BIGINT PRIMARY KEY, name VARCHAR, seen TIMESTAMP", "2020-01-01 00:00:00", "(now() AT TIME ZONE 'UTC')"
    import duckdb

    for name, numbers in (("eu", [1, 3]), ("us", [2, 4]), ("dw", [1, 2, 3])):
        make(tmp_path, name, [], columns)
        with duckdb.connect(str(tmp_path / f"{name}.db")) as connection:
            for number in numbers:
                at = young if number == 4 else f"TIMESTAMP '{old}'"
                connection.execute(f"INSERT INTO orders VALUES ({number}, 'n', {at})")
    report = audit_run.run("orders", audit("eu", "us", settle={"column": "seen", "lag": "10m"}), connections(tmp_path, "eu", "us", "dw"))
    assert report.verdict is Verdict.MATCH and report.left_out == 1


def test_tables_of_one_connection_are_shards_too(tmp_path: Path) -> None:
    import duckdb

    odd_and_even(tmp_path, target=[row for row in ROWS if row[0] != 18])
    with duckdb.connect(str(tmp_path / "eu.db")) as connection:
        connection.execute(f"CREATE TABLE newer ({COLUMNS})")
        insert(connection, "newer", [row for row in ROWS if not row[0] % 2])
    source = [{"connection": "eu", "table": name} for name in ("orders", "newer")]
    defined = validate_audit({"source": source, "target": {"connection": "dw", "table": "orders"}})
    report = audit_run.run("orders", defined, connections(tmp_path, "eu", "dw"))
    assert report.differences is not None and [one.shards for one in report.differences.named] == [("eu: newer",)]


def test_drift_between_shards_is_told_and_what_cannot_be_read_alike_is_refused(tmp_path: Path) -> None:
    odd_and_even(tmp_path)
    make(tmp_path, "us", [], "ID INTEGER PRIMARY KEY, amount DECIMAL(10,2), name VARCHAR")
    make(tmp_path, "dw", [row for row in ROWS if row[0] % 2])
    report = run(tmp_path)
    assert report.verdict is Verdict.MATCH and report.plan
    assert any(
        "schema drift between shards: column id is BIGINT in eu: orders and INTEGER in us: orders" in one for one in report.plan.notes
    )
    make(tmp_path, "us", [], "id BIGINT PRIMARY KEY, name VARCHAR, amount DOUBLE")
    assert "column 'amount' is compared as" in run(tmp_path).reasons[0]
    make(tmp_path, "us", [], "id BIGINT PRIMARY KEY, name VARCHAR, price DECIMAL(10,2)")
    failed = run(tmp_path)
    assert failed.verdict is Verdict.UNKNOWN and "price" in failed.reasons[0]


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"via": {"connection": "dw", "table": "dump"}, "key": ["id"]}, "via and a source of several shards"),
        ({"settle": {"column": "at", "heartbeat": {"table": "beats", "column": "at"}}}, "one heartbeat says what one shard sent"),
        ({"counts": {"classes": ["name"]}}, "counts: classes or histogram"),
        ({"source": [{"connection": "eu", "table": "orders"}] * 2}, "occurs twice"),
        ({"source": [{"connection": "eu", "table": "orders"}]}, "source"),
        ({"source": [{"connection": "eu", "tabel": "orders"}, {"connection": "us", "table": "orders"}]}, "source.0.tabel"),
    ],
    ids=["via", "heartbeat", "classes", "twice", "alone", "typing error"],
)
def test_settings_that_mean_one_table_are_refused_with_shards(more: dict[str, Any], sentence: str) -> None:
    source = [{"connection": "eu", "table": "orders"}, {"connection": "us", "table": "orders"}]
    with pytest.raises(ConfigError) as caught:
        validate_audit({"source": source, "target": {"connection": "dw", "table": "orders"}, **more})
    assert sentence in str(caught.value)


def configured(folder: Path, **more: Any) -> Settings:
    written = {name: {"url": f"duckdb:///{folder}/{name}.db"} for name in ("eu", "us", "dw")}
    source = [{"connection": "eu", "table": "orders"}, {"connection": "us", "table": "orders"}]
    orders = {"source": source, "target": {"connection": "dw", "table": "orders"}, **more}
    return validate_settings({"connections": written, "audits": {"orders": orders}, "store": {"url": f"sqlite:///{folder}/store.db"}})


def test_what_needs_one_table_refuses_an_audit_of_shards_by_name(tmp_path: Path) -> None:
    odd_and_even(tmp_path)
    settings = configured(tmp_path)
    (plan,) = [one.plan for one in service.check(settings)]
    assert plan and plan.sides["source"].label == "eu: orders + us: orders" and plan.sides["source"].estimate == 600
    assert "source 2: us: orders, about 300 rows" in printed(text.plan(plan))
    with pytest.raises(AuditorError, match=r"SQL for consoles needs a source of one table, and this audit's has 2 shards \(eu: orders, us"):
        service.sql(settings, "orders")
    assert settings.audits["orders"].places[shard_side(2)].connection == "us"


@pytest.mark.quick_for("True")
@pytest.mark.parametrize("stored", [False, True])
def test_slice_of_keys_or_times_reads_all_shards(tmp_path: Path, stored: bool) -> None:
    import duckdb

    columns = "id BIGINT PRIMARY KEY, name VARCHAR, seen TIMESTAMP"
    for name, numbers in {"eu": range(1, 601, 2), "us": range(2, 601, 2), "dw": range(1, 600)}.items():
        make(tmp_path, name, [], columns)
        with duckdb.connect(str(tmp_path / f"{name}.db")) as connection:
            times = "TIMESTAMP '2024-01-01' + TO_DAYS(CAST(i AS INTEGER))"
            connection.execute(f"INSERT INTO orders SELECT i, 'n', {times} FROM (SELECT UNNEST($1) AS i)", [list(numbers)])
    settings = configured(tmp_path, partition={"strategy": "time", "column": "seen"})
    with closing(open_store(f"sqlite:///{tmp_path}/store.db")) as opened:
        store = opened if stored else None
        for overrides, verdict, rows in (
            ({"keys": {"from": 101, "to": 200}}, Verdict.MATCH, 100),
            ({"keys": {"from": 501}}, Verdict.MISMATCH, 100),
            ({"times": {"from": "2024-01-02", "to": "2024-01-12"}}, Verdict.MATCH, 10),
        ):
            report = service.run_audit(settings, "orders", store=store, overrides=overrides)
            assert report.verdict is verdict and report.comparison, report.reasons
            assert report.comparison.rows["source"] == rows
        with pytest.raises(ConfigError, match="keys"):
            service.run_audit(settings, "orders", store=store, overrides={"keys": {"from": "x"}})


class _Kept(NoCheckpoint):
    """Keeps what a run saves, and hands out the chunks of one shard."""

    def __init__(self) -> None:
        self.plan: Plan | None = None
        self.chunks: dict[Side, list[tuple[Chunk, Summaries]]] = {}

    def save_plan(self, plan: Plan, schema: Schemas) -> None:
        self.plan = load_plan(dump_plan(plan))

    def save_chunk(self, side: Side, chunk: Chunk, summaries: Summaries, seconds: float, attempts: int) -> None:
        self.chunks.setdefault(side, []).append((chunk, summaries))

    def saved_chunks(self, side: Side) -> list[tuple[Chunk, Summaries]]:
        return self.chunks.pop(side, []) if self.plan and side.endswith("1") else []


def test_a_resumed_run_reads_only_the_shards_whose_chunks_were_not_saved(tmp_path: Path) -> None:
    odd_and_even(tmp_path)
    defined, read = audit("eu", "us", method="signature"), connections(tmp_path, "eu", "us", "dw")
    kept = _Kept()
    first = audit_run.perform("orders", defined, read, checkpoint=kept)
    assert first.report.verdict is Verdict.MATCH and {str(side) for side in kept.chunks} == {"source 1", "source 2", "target"} and kept.plan
    make(tmp_path, "eu", [])  # seen only if this shard is read again
    resumed = audit_run.perform("orders", defined, read, checkpoint=kept, earlier=EarlierRuns(plan=kept.plan))
    assert resumed.report.verdict is Verdict.MATCH and [one.rows for one in resumed.report.shards] == [300, 300]
    other_order = audit("us", "eu", method="signature")
    refused = audit_run.perform("orders", other_order, read, earlier=EarlierRuns(plan=kept.plan))
    assert refused.report.verdict is Verdict.UNKNOWN and "start a new one" in refused.report.reasons[0]


def test_pages_and_answers_show_an_audit_of_shards_and_defining_one_is_checked(tmp_path: Path) -> None:
    odd_and_even(tmp_path, [ROWS[99]])
    settings = configured(tmp_path)
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    try:
        run = service.run_audit(settings, "orders", store=store).run
        client = TestClient(create_app(settings, store, insecure=True), raise_server_exceptions=False, base_url="http://localhost")
        shown = {path: client.get(path) for path in ("/", "/audits/orders", f"/runs/{run}", "/api/v1/audits/orders", "/metrics", "/day")}
        shown |= {path: client.get(path) for path in (f"/api/v1/runs/{run}/report", f"/api/v1/runs/{run}/differences")}
        assert {path: answer.status_code for path, answer in shown.items() if answer.status_code != 200} == {}
        assert "eu: orders</bdi> + <bdi>us: orders" in shown["/audits/orders"].text
        assert "<h3>Shards" in shown[f"/runs/{run}"].text and "missing, doubled" in shown[f"/runs/{run}"].text
        (difference,) = shown[f"/api/v1/runs/{run}/differences"].json()["items"]
        assert difference["shards"] == [*LABELS] and difference["doubled"]
        refused = client.get("/api/v1/audits/orders/sql")
        assert refused.status_code == 422 and "2 shards" in refused.json()["detail"]
        with pytest.raises(ConfigError, match=r"source\.format is only allowed in the configuration file"):
            audits.define(settings, store, "mine", {"source": [{"connection": "eu", "table": "o", "format": "csv"}]}, "test")
    finally:
        store.close()
