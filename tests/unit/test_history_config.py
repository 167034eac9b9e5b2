"""Which audits may look rows up in a history, which pipelines keep one, and what is said of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor import config
from auditor.errors import ConfigError
from auditor.model import State
from auditor.run import audit_run
from tests import tables
from tests.live import LiveEngine

GOOD = """\
connections:
  shop: {url: "mysql://reader:r@db/shop"}
  other: {url: "mysql://reader:r@elsewhere/shop"}
  warehouse: {url: "postgresql://reader:r@wh/dwh"}
brokers:
  kafka: {servers: "k:9092"}
audits:
  orders:
    source: {connection: shop, table: orders}
    target: {connection: warehouse, table: live.orders}
    history: capture
pipelines:
  capture:
    source: {connection: shop, tables: [orders, items]}
    staging: {path: /var/lib/auditor/capture}
    history: {}
"""


def load(tmp_path: Path, *replaced: tuple[str, str]) -> config.Settings:
    text = GOOD
    for old, new in replaced:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "auditor.yaml"
    path.write_text(text)
    return config.load(path, {})


def test_a_pipeline_without_targets_keeps_a_history(tmp_path: Path) -> None:
    settings = load(tmp_path)
    history, kept = settings.audits["orders"].history, settings.pipeline("capture").history
    assert history and (history.pipeline, history.at_most) == ("capture", 600)
    assert kept and (settings.keep.versions, kept.bytes) == (86400, 1_000_000_000)
    assert not settings.pipeline("capture").targets
    assert config.history_table(settings.audits["orders"], settings.pipeline("capture"), settings.connections) == "shop.orders"
    given = load(tmp_path, ("history: capture", "history: {pipeline: capture, at_most: 90s}")).audits["orders"].history
    assert given and given.at_most == 90


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("history: capture", "history: catpure", "there is no pipeline 'catpure'; did you mean"),
        ("history: {}", "targets: {}", "a pipeline needs one at least, unless it keeps a history alone; add one, or history: {}"),
        ("tables: [orders, items]", "tables: [items]", "the pipeline capture does not read orders of shop; add it to its source: tables"),
        ("{connection: shop, tables", "{connection: other, tables", "the pipeline capture does not read orders of shop"),
        ("history: {}", 'history: {}\n    columns: {orders: {where: "id > 1"}}', "does not stage every row of orders"),
        ("history: capture", "history: capture\n    recheck: {}", "history and recheck cannot be combined; remove one of them"),
        ("history: capture", "history: capture\n    align: pipeline", "history and align cannot be combined"),
        ("history: capture", "history: capture\n    settle: {column: at, lag: 1m}", "history and settle cannot be combined"),
        ("history: capture", "history: capture\n    method: signature", "which the method signature does not find; use exact"),
        ("history: capture", "history: capture\n    method: auto", "which the method auto does not find; use exact"),
        ("history: capture", 'history: capture\n    where: {source: "a", target: "b"}', "write where as one text for both sides"),
        ("history: capture", "history: {pipeline: capture, at_most: 0s}", "greater than or equal to 1"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, (old, new))
    assert sentence in str(raised.value), str(raised.value)


def test_a_pipeline_that_keeps_no_history_is_named(tmp_path: Path) -> None:
    targets = "targets: {w: {connection: warehouse, schema: live}}"
    writing = ('/dwh"}', '/dwh", write: {url: "postgresql://l:l@wh/dwh"}}')
    with pytest.raises(ConfigError, match=r"the pipeline capture keeps no versions of rows; add history: \{\} to it"):
        load(tmp_path, ("history: {}", targets), writing)


def test_a_history_of_topics_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="history: versions of rows are those of a database's log"):
        load(tmp_path, ("{connection: shop, tables: [orders, items]}", "{broker: kafka, topics: {shop.orders: {}}}"))


def test_a_run_without_a_store_says_that_it_needs_one(tmp_path: Path) -> None:
    engine = LiveEngine("duckdb", "duckdb", f"duckdb:///{tmp_path}/tables.duckdb")
    with tables.open_writable(engine) as session:
        for name in ("a", "b"):
            session.execute(f"CREATE TABLE {name} (id integer PRIMARY KEY)")
            session.execute(f"INSERT INTO {name} VALUES (1)")
    connections = {"main": config.ConnectionSettings(url=engine.url)}
    sides = {side: {"connection": "main", "table": name} for side, name in (("source", "a"), ("target", "b"))}
    report = audit_run.run("orders", config.validate_audit({**sides, "history": "capture"}), connections)
    assert report.state is State.FAILED
    assert report.reasons == ("history: this run is not stored, so it cannot ask the pipeline; run it with a store",)
