"""Which audits may be aligned, and what is said of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor import config
from auditor.config import Audit, find_carriers
from auditor.errors import ConfigError
from auditor.model import Verdict
from auditor.pipeline import aligned
from auditor.run import audit_run
from tests import tables
from tests.live import LiveEngine

GOOD = """\
connections:
  shop: {url: "mysql://reader:r@db/shop"}
  replica: {url: "mysql://reader:r@replica/shop"}
  warehouse: {url: "postgresql://reader:r@wh/dwh", write: {url: "postgresql://loader:l@wh/dwh"}}
  lake: {url: "delta:///lake", write: {url: "delta:///lake"}}
audits:
  orders:
    source: {connection: shop, table: orders}
    target: {connection: warehouse, table: live.orders}
    align: pipeline
pipelines:
  shop:
    source: {connection: shop, tables: [orders, items]}
    staging: {path: /var/lib/auditor/shop}
    targets:
      warehouse: {connection: warehouse, schema: live}
      lake: {connection: lake, schema: live}
"""


SHARDS = """\
connections:
  eu: {url: "mysql://reader:r@eu/shop"}
  us: {url: "mysql://reader:r@us/shop"}
  warehouse: {url: "postgresql://reader:r@wh/dwh", write: {url: "postgresql://loader:l@wh/dwh"}}
audits:
  orders:
    source: [{connection: eu, table: orders}, {connection: us, table: orders}]
    target: {connection: warehouse, table: live.orders}
    align: pipeline
pipelines:
  eu:
    source: {connection: eu, tables: [orders]}
    staging: {path: /var/lib/auditor/eu}
    targets: {warehouse: {connection: warehouse, schema: live}}
  us:
    source: {connection: us, tables: [orders, items]}
    staging: {path: /var/lib/auditor/us}
    targets: {warehouse: {connection: warehouse, schema: live}}
"""


def load(folder: Path, old: str = "", new: str = "", text: str = GOOD) -> config.Settings:
    assert old in text
    (folder / "auditor.yaml").write_text(text.replace(old, new, 1))
    return config.load(folder / "auditor.yaml", {})


def test_the_pipeline_that_carries_the_table_is_found(tmp_path: Path) -> None:
    settings = load(tmp_path)
    audit = settings.audits["orders"]
    [found] = find_carriers(audit.sources[0], audit.target, settings.pipelines, settings.connections)
    assert (found.pipeline, found.table, found.target, found.schema) == ("shop", "orders", "warehouse", "live")
    assert (found.output, found.where) == ("orders", None)


ROUTES = "tables: [orders, items]}\n    columns: {orders: {table: {name: large, when: 'a > 1'}}}\n"


def test_the_route_by_which_rows_come_is_found(tmp_path: Path) -> None:
    (tmp_path / "auditor.yaml").write_text(GOOD.replace("tables: [orders, items]}\n", ROUTES).replace("live.orders", "live.large"))
    settings = config.load(tmp_path / "auditor.yaml", {})
    audit = settings.audits["orders"]
    [found] = find_carriers(audit.sources[0], audit.target, settings.pipelines, settings.connections)
    assert (found.table, found.output, found.where) == ("orders", "large", "a > 1")
    text = GOOD.replace("tables: [orders, items]}\n", ROUTES).replace("align: pipeline", "summaries: live")
    (tmp_path / "auditor.yaml").write_text(text)
    with pytest.raises(
        ConfigError, match=r"carries only rows of orders where \(a > 1\) IS NOT TRUE, so its stream cannot keep the summaries"
    ):
        config.load(tmp_path / "auditor.yaml", {})
    (tmp_path / "auditor.yaml").write_text(
        text.replace("summaries: live", "summaries: live\n    where: (a > 1) IS NOT TRUE\n    where_on: source")
    )
    assert config.load(tmp_path / "auditor.yaml", {}).audits["orders"].summaries == "live"


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("table: orders}", "table: visits}", "no pipeline carries visits of shop into live.orders; add it to one, or remove align"),
        (
            "table: live.orders",
            "table: live.items",
            "the pipeline shop does not carry orders into live.items of warehouse; name a table of",
        ),
        (
            "table: live.orders",
            "table: old.orders",
            "the pipeline shop does not carry orders into old.orders of warehouse; name a table of",
        ),
        ("table: orders}", "table: other.orders}", "the pipeline shop does not carry other.orders into live.orders of warehouse"),
        (
            "{connection: warehouse, table: live.orders}",
            "{connection: lake, table: live.orders, version: 3}",
            "brings the newest version of a table to a position, and the target is an older one; remove version, or align",
        ),
        (
            "live.orders}\n    align: pipeline\n",
            "orders}\n    align: pipeline\n",
            "",
        ),
        (
            "    targets:\n",
            "    targets:\n      second: {connection: warehouse, schema: live}\n",
            "several targets of pipelines may hold orders (second of shop, warehouse of shop); write the target's table with its schema",
        ),
        (
            "align: pipeline",
            "align: pipeline\n    snapshot: per_chunk",
            "align reads each side in one snapshot; remove snapshot: per_chunk",
        ),
        ("align: pipeline", "align: pipeline\n    rolling: {per_run: 5%}", "align and rolling cannot be combined: a rolling audit puts"),
        (
            "align: pipeline",
            "align: pipeline\n    via: {connection: lake, table: dump}",
            "align and via cannot be combined: a dump is at no position of the stream",
        ),
        ("align: pipeline", "align: heartbeat", "audits.orders.align"),
    ],
)
def test_what_cannot_be_aligned_is_refused(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    if not sentence:
        assert load(tmp_path, old, new).audits["orders"].align
        return
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, old, new)
    assert sentence in str(refused.value)
    assert "auditor.yaml:" in str(refused.value)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("", "", ""),
        (
            "source: {connection: us, tables: [orders, items]}",
            "source: {connection: us, tables: [items]}",
            "no pipeline carries orders of us into live.orders; each shard needs one; add it to one, or remove align",
        ),
        (
            "{connection: us, table: orders}",
            "{connection: us, table: shop.orders}",
            "",
        ),
        (
            "{connection: us, table: orders}",
            "{connection: us, table: items}",
            "the pipeline us does not carry items into live.orders of warehouse; name a table of its targets",
        ),
        (
            "schema: live}}\n  us:",
            "schema: old}}\n  us:",
            "the pipeline eu does not carry orders into live.orders of warehouse; name a table of its targets",
        ),
        (
            "{connection: us, table: orders}",
            "{connection: eu, table: shop.orders}",
            "eu: orders and eu: shop.orders are one table, which the pipeline eu carries; remove one of these shards",
        ),
    ],
)
def test_every_shard_needs_a_pipeline_of_its_own(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    if not sentence:
        settings = load(tmp_path, old, new, SHARDS)
        holds = aligned.find_holds(settings, None, settings.audits["orders"])  # type: ignore[arg-type]
        assert not isinstance(holds, str) and [hold.pipeline for hold in holds.values()] == ["eu", "us"]
        return
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, old, new, SHARDS)
    assert sentence in str(refused.value)


def test_shards_in_different_schemas_are_not_one_table(tmp_path: Path) -> None:
    text = SHARDS.replace("live.orders", "orders").replace("schema: live}}\n  us:", "schema: old}}\n  us:")
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, text=text)
    sentence = "eu: orders and us: orders are carried into different schemas (old by eu, live by us); write the target's table with its"
    assert sentence in str(refused.value)


def test_align_decides_how_and_not_what_is_compared(tmp_path: Path) -> None:
    from auditor.history import fingerprint

    audit = load(tmp_path).audits["orders"]
    plain = audit.model_copy(update={"align": None})
    assert fingerprint.hash_audit("a", audit, {}) == fingerprint.hash_audit("b", plain, {})


def two_tables(folder: Path) -> tuple[Audit, dict[str, config.ConnectionSettings]]:
    engine = LiveEngine("duckdb", "duckdb", f"duckdb:///{folder}/tables.duckdb")
    with tables.open_writable(engine) as session:
        for name in ("a", "b"):
            session.execute(f"CREATE TABLE {name} AS SELECT 1 AS id, 'x' AS item")
    sides = {side: {"connection": "db", "table": name} for side, name in (("source", "a"), ("target", "b"))}
    return Audit.model_validate({**sides, "key": ["id"], "align": "pipeline"}), {"db": config.ConnectionSettings(url=engine.url)}


def test_a_run_that_is_not_stored_is_not_aligned_and_says_so(tmp_path: Path) -> None:
    audit, connections = two_tables(tmp_path)
    report = audit_run.run("orders", audit, connections)
    assert (report.verdict, report.aligned) == (Verdict.MATCH, None)
    assert report.not_aligned == "this run is not stored, so it cannot ask the pipeline"


def test_an_audit_of_another_server_than_the_pipeline_reads_says_so_in_its_runs(tmp_path: Path) -> None:
    settings = load(tmp_path, "{connection: shop, table: orders}", "{connection: replica, table: orders}")
    why = aligned.find_holds(settings, None, settings.audits["orders"])  # type: ignore[arg-type]
    assert why == "the pipeline shop reads orders by the connection shop, which leads elsewhere than replica; audit the same server"


def test_an_audit_that_no_pipeline_carries_says_so_in_its_runs(tmp_path: Path) -> None:
    settings = load(tmp_path)
    audit = settings.audits["orders"].model_copy(update={"target": settings.audits["orders"].source})
    why = aligned.find_holds(settings, None, audit)  # type: ignore[arg-type]
    assert why == "the pipeline shop does not carry orders into orders of shop; name a table of its targets"
