"""``auditor init --from-dbt`` with the manifest that a real dbt writes of the project in the recipe, and the gate before ``dbt build``."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from auditor.cli import main
from auditor.config import load
from tests.integrations.conftest import environment, execute
from tests.unit.test_docs import recipe

pytestmark = [pytest.mark.slow]
PYTHON = environment("dbt")

PROJECT = {
    "dbt_project.yml": "{name: shop, version: '1.0', profile: shop, model-paths: [models]}",
    "profiles.yml": "shop: {target: dev, outputs: {dev: {type: duckdb, path: dwh.duckdb}}}",
    "models/revenue.sql": "SELECT id, amount FROM {{ source('raw', 'orders') }}",
    "models/models.yml": "models: [{name: revenue, config: {meta: {auditor: {source: shop.orders, key: [id]}}}}]",
}


@pytest.mark.closes_files
def test_the_recipe_writes_audits_of_what_dbt_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for database, schema in (("sales", "shop"), ("dwh", "public")):
        with duckdb.connect(f"{database}.duckdb") as connection:
            connection.execute(f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.orders (id INTEGER, amount DECIMAL(9, 2))")
            connection.execute(f"INSERT INTO {schema}.orders SELECT i, i / 4 FROM range(100) t(i)")
    Path("models").mkdir()
    for name, text in {**PROJECT, "models/sources.yml": recipe("dbt", "yaml")}.items():
        Path(name).write_text(text, encoding="utf-8")
    dbt, settings = PYTHON.with_name("dbt"), {"DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}
    parse, init, gate = recipe("dbt", "sh").splitlines()
    assert parse == "dbt parse" and gate == "auditor run --all -q && dbt build"
    execute(tmp_path, settings, dbt, "parse")
    program, *arguments = [
        {"mysql://reader@db1/shop": "duckdb:///sales.duckdb", "redshift://auditor@wh:5439/analytics": "duckdb:///dwh.duckdb"}.get(
            word, word
        )
        for word in init.split()
    ]
    assert program == "auditor" and main(arguments) == 0
    audits = load(Path("auditor.yaml"), {}).audits.values()
    assert {(audit.sources[0].table, audit.target.table, audit.key) for audit in audits} == {("shop.orders", "public.orders", ("id",))}
    assert "# main.revenue: target: there is no table main.revenue" in Path("auditor.yaml").read_text(encoding="utf-8"), "not built yet"
    assert main(["run", "--all", "-q"]) == 0
    execute(tmp_path, settings, dbt, "build")
    assert main([*arguments, "--output", "again.yaml"]) == 0
    assert {audit.target.table for audit in load(Path("again.yaml"), {}).audits.values()} == {"public.orders", "main.revenue"}
