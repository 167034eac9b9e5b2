"""What a pipeline's settings mean, and what is said of wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor import config
from auditor.config import find_secrets
from auditor.connections import writer
from auditor.errors import ConfigError, EngineError, UnknownPipeline

GOOD = """\
connections:
  shop: {url: "mysql://reader:r@db/shop"}
  warehouse:
    url: postgresql://reader:r@wh/dwh
    write: {url: "postgresql://loader:s3cret@wh/dwh"}
audits: {}
pipelines:
  shop:
    source: {connection: shop, tables: [orders, "crm_*"]}
    columns: {orders: {exclude: [password], mask: [email], rename: {zip: postcode}, where: "country = 'DE'"}}
    staging: {path: /var/lib/auditor/shop}
    targets: {warehouse: {connection: warehouse, schema: shop, every: 10s}}
"""


def load(folder: Path, text: str) -> config.Settings:
    path = folder / "auditor.yaml"
    path.write_text(text)
    return config.load(path, {})


def test_settings_of_a_pipeline(tmp_path: Path) -> None:
    settings = load(tmp_path, GOOD)
    pipeline = settings.pipeline("shop")
    assert pipeline.table_targets["warehouse"].every == 10 and pipeline.table_targets["warehouse"].schema_ == "shop"
    assert pipeline.master == "local[2]"
    assert [pipeline.replicates(table) for table in ("orders", "crm_leads", "order")] == [True, True, False]
    assert pipeline.columns_of("orders").mask == ("email",) and pipeline.columns_of("crm_leads").mask == ()
    assert "s3cret" in find_secrets(settings) and "s3cret" not in repr(settings)
    with pytest.raises(UnknownPipeline, match=r"there is no pipeline 'shopp'; did you mean 'shop'\? \(pipelines here: shop\)"):
        settings.pipeline("shopp")


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "connection: shop,",
            "connection: shopp,",
            "shop.source.connection: there is no connection 'shopp'; did you mean 'shop'?",
        ),
        (
            "connection: warehouse,",
            "connection: shop,",
            "shop.targets.warehouse: the connection 'shop' may only read; add write:",
        ),
        ("mask: [email]", "mask: [password]", "pipelines.shop.columns.orders: 'password' is excluded, so it cannot be masked or renamed"),
        (
            "mask: [email]",
            "table: [{name: eu, when: 'a = 1'}, {name: EU}]",
            "pipelines.shop.columns.orders: table names 'eu' twice; join both routes by OR, or write another name for one of them",
        ),
        (
            "mask: [email]",
            "table: [{name: eu}, {name: us, when: 'a = 1'}]",
            "pipelines.shop.columns.orders: table: a route before 'us' has no when, so that no row comes so far; write its when, or",
        ),
        (
            "mask: [email]",
            "table: {name: Orders, when: 'a = 1'}",
            "columns: {orders: {table: {name: Orders}}}: rows that no route takes go there, too; add a route without when for these, or",
        ),
        ("mask: [email]", "table: {name: ''}", "pipelines.shop.columns.orders.table.0.name: "),
        ("mask: [email]", "table: eu", "pipelines.shop.columns.orders.table: "),
        (
            'tables: [orders, "crm_*"]}\n    columns: {orders: {',
            "tables: [orders, ORDERS_EU]}\n    columns: {orders: {table: {name: orders_eu}, ",
            "columns: {orders: {table: {name: orders_eu}}}: ORDERS_EU is a table of the source itself; give the route another name",
        ),
        (
            "columns: {orders: {",
            "columns: {crm_a: {table: {name: all_of_them}}, orders: {table: {name: ALL_of_them}, ",
            "columns: {orders: {table: {name: ALL_of_them}}}: rows of crm_a go there, too; give one of the routes another name",
        ),
        ("{zip: postcode}", "{zip: b, c: B}", "pipelines.shop.columns.orders: rename gives two columns the name 'b'; write another"),
        ("columns: {orders", "columns: {customer", "pipelines.shop: columns: 'customer' is none of the source's tables (orders, crm_*)"),
        (
            "{zip: postcode}",
            "{zip: net}, compute: {net: {kind: integer, expr: a}}",
            "columns.orders: two columns would be named 'net'; write another name for the computed one",
        ),
        ("{zip: postcode}", "{}, compute: {net: {kind: float64, expr: a}}", "'float64' is no kind of a computed column; write integer"),
        ("{zip: postcode}", "{}, compute: {net: {kind: 'decimal(40,2)', expr: a}}", "a computed number has 1 to 38 digits"),
        ("{zip: postcode}", "{}, transform: {function: shop.rules, columns: {a: text}}", "columns.orders.transform.function"),
        ("{zip: postcode}", "{}, transform: {function: 'shop:rules', columns: {}}", "columns.orders.transform.columns"),
        (', tables: [orders, "crm_*"]', "", "pipelines.shop.source.tables: this setting is required; add it"),
        ("every: 10s", "every: often", "pipelines.shop.targets.warehouse.every: 'often' is not a duration; write 90s, 15m or 2h"),
        ("exclude:", "excluded:", "pipelines.shop.columns.orders.excluded: unknown setting 'excluded'; did you mean 'exclude'?"),
        ("staging: {path: /var/lib/auditor/shop}", "staging: {}", "pipelines.shop.staging.path: this setting is required; add it"),
        (
            "    staging:",
            "    tracker: {url: 'mysql://t:p@db:3306/'}\n    staging:",
            "shop.tracker: url: it leads to the source's own server; give the tracker a server of its own",
        ),
        ("    staging:", "    tracker: {url: 'postgresql://db/x'}\n    staging:", "shop.tracker: url: it is no MySQL or MariaDB; give the"),
        ("    staging:", "    tracker: {url: 'nothing'}\n    staging:", "shop.tracker: url: "),
    ],
)
def test_wrong_settings_name_what_is_wrong(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    assert GOOD.count(old) == 1
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, GOOD.replace(old, new))
    assert sentence in str(raised.value)


def test_a_service_runs_the_functions_alone_that_it_allows(tmp_path: Path) -> None:
    made = GOOD.replace("{zip: postcode}", "{}, transform: {function: 'rules:score', columns: {score: integer}}")
    assert load(tmp_path, made).pipeline("shop").transforms[0].function == "rules:score"
    with pytest.raises(ConfigError, match=r"service\.functions: the pipeline 'shop' runs 'rules:score', which is not allowed here; add it"):
        load(tmp_path, f"{made}service: {{pipelines: [shop]}}\n")
    assert load(tmp_path, f"{made}service: {{pipelines: [shop], functions: ['rules:score']}}\n").service.pipelines == ("shop",)
    anew = made.replace("    staging:", "    segment: {}\n    staging:") + "segments: {log: {pipelines: [shop]}}\n"
    with pytest.raises(ConfigError, match=r"service\.functions: the pipeline 'shop' runs 'rules:score'"):
        load(tmp_path, anew)


@pytest.mark.parametrize(("table", "settle"), [("orders", "heartbeat: {}, barrier: 60s"), ("crm_leads", "heartbeat: {}, barrier: 1h")])
def test_a_heartbeat_that_may_overtake_rows_is_no_barrier(tmp_path: Path, table: str, settle: str) -> None:
    ends = f"source: {{connection: shop, table: {table}}}, target: {{connection: warehouse, table: shop.{table}}}"
    text = GOOD.replace("audits: {}", f"audits: {{carried: {{{ends}, settle: {{column: at, {settle}}}}}}}")
    with pytest.raises(ConfigError, match=rf"the pipeline 'shop' merges each table on its own, so that .+ rows of {table}; remove barrier"):
        load(tmp_path, text)
    load(tmp_path, text.replace("barrier: ", "lag: "))
    load(tmp_path, text.replace(f"table: {table}", "table: elsewhere"))


def test_a_barrier_needs_a_heartbeat(tmp_path: Path) -> None:
    ends = "source: {connection: shop, table: t}, target: {connection: warehouse, table: t}"
    with pytest.raises(ConfigError, match=r"barrier waits for a heartbeat, and none is given; add the source's \(heartbeat: \{\}\)"):
        load(tmp_path, GOOD.replace("audits: {}", f"audits: {{a: {{{ends}, settle: {{column: at, lag: 1s, barrier: 60s}}}}}}"))


def test_the_password_of_a_tracker_is_a_secret(tmp_path: Path) -> None:
    settings = load(tmp_path, GOOD.replace("    staging:", "    tracker: {url: 'mysql://t:hidden7@other/'}\n    staging:"))
    assert "hidden7" in find_secrets(settings) and "hidden7" not in repr(settings)


def test_only_a_connection_with_write_is_written_to(tmp_path: Path) -> None:
    url = f"duckdb:///{tmp_path}/t.duckdb"
    may, may_not, cannot = (
        config.ConnectionSettings.model_validate(one)
        for one in ({"url": url, "write": {"url": url}}, {"url": url}, {"url": url, "write": {"url": "spark:///d"}})
    )
    with writer.open_writer("t", may) as session:
        session.execute("CREATE TABLE t AS SELECT 1 AS one")
        with pytest.raises(EngineError), writer.transaction(session):
            session.execute("DELETE FROM t")
            session.execute("SELECT * FROM nothing")
        assert session.query("SELECT one FROM t") == [(1,)], "the transaction was rolled back"
    with pytest.raises(ConfigError, match=r"'t' may only read; add write"), writer.open_writer("t", may_not):
        pass
    with pytest.raises(ConfigError, match=r"spark is no target of pipelines"), writer.open_writer("t", cannot):
        pass


def test_a_single_route_is_one_of_a_list_and_tables_are_known_by_both_names(tmp_path: Path) -> None:
    pipeline = load(tmp_path, GOOD.replace("mask: [email]", "table: {name: orders_eu, when: 'a = 1'}")).pipeline("shop")
    assert pipeline.columns["orders"].table == (config.Route(name="orders_eu", when="a = 1"),)
    assert pipeline.outputs_of("shop.orders") == ["shop.orders_eu", "shop.orders"] and pipeline.outputs_of("b.crm_a") == ["b.crm_a"]
    assert [pipeline.origin_of(one) for one in ("shop.orders_eu", "shop.orders", "b.crm_a")] == ["shop.orders", "shop.orders", "b.crm_a"]
    renamed = load(tmp_path, GOOD.replace("mask: [email]", "table: {name: Orders}")).pipeline("shop")
    assert renamed.outputs_of("shop.orders") == ["shop.Orders"] and renamed.origin_of("shop.Orders") == "shop.orders"
