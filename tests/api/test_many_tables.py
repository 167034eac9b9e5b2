"""A pipeline of many tables over HTTP: the store is asked as often as for few, and tables are found."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from auditor.api import create_app
from auditor.service.pipeline_problems import look_at_pipelines
from auditor.store import Store, open_store, parts, pipelines, tokens
from auditor.store.pipelines import MergeNews
from tests import many_tables
from tests.api.conftest import make_client
from tests.many_tables import PIPELINE


def client_of(store: Store, folder: Path) -> httpx2.Client:
    secret = tokens.create_token(store, name="ops", scope="pipeline")
    return make_client(create_app(many_tables.configure(folder), store), headers={"Authorization": f"Bearer {secret}"})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path}/auditor.db")
    many_tables.create(opened, 60)
    yield opened
    opened.close()


@pytest.mark.parametrize(
    "path",
    [
        "/metrics",
        "/api/v1/pipelines",
        "/api/v1/pipelines/many",
        "/api/v1/pipelines/many?table=*",
        "/pipelines",
        "/pipelines/many",
        "/pipelines/many?q=crm&page=2",
        "/pipelines/many/table?target=lake&table=crm.table_0000",
    ],
)
def test_the_store_is_asked_as_often_for_many_tables_as_for_few(tmp_path: Path, path: str) -> None:
    counts = []
    for tables in (5, 60):
        store = open_store(f"sqlite:///{tmp_path}/{tables}.db")
        many_tables.create(store, tables, batches=2)
        client = client_of(store, tmp_path)
        client.get(path).raise_for_status()
        while tokens.list_tokens(store)[0].last_used is None:  # which another thread notes
            time.sleep(0.01)
        with many_tables.counted(store) as statements:
            client.get(path).raise_for_status()
        store.close()
        counts.append(len(statements))
    assert counts[0] == counts[1] < 50


def test_the_api_answers_of_the_tables_that_are_asked_for(store: Store, tmp_path: Path) -> None:
    client = client_of(store, tmp_path)

    def tables(query: str) -> list[str]:
        return list(client.get(f"/api/v1/pipelines/many{query}").raise_for_status().json()["targets"]["lake"]["tables"])

    assert tables("") == many_tables.names(60)
    assert tables("?table=crm.*") == [name for name in many_tables.names(60) if name.startswith("crm.")]
    assert tables("?table=table_0001") == ["shop.table_0001"]
    refused = client.get("/api/v1/pipelines/many?table=shop.nothing")
    assert refused.status_code == 422 and "has staged nothing of a table 'shop.nothing'" in refused.text


def test_a_page_has_some_of_the_tables_and_leads_to_the_others(store: Store, tmp_path: Path) -> None:
    client = client_of(store, tmp_path)

    def rows(query: str) -> list[str]:
        held = client.get(f"/pipelines/many?{query}").raise_for_status().text.partition('id="held"')[2]
        return [part.partition("</bdi>")[0] for part in held.split("<bdi>")[1::2]]

    found = [rows(f"page={number}") for number in (1, 2, 3)]
    assert [len(page) for page in found] == [50, 50, 20] and rows("page=99") == found[2]
    assert sorted(table for page in found for table in page) == sorted(2 * many_tables.names(60))
    assert rows("state=stopped") == ["crm.table_0000"] and rows("state=stopped&target=lake") == []
    assert rows("q=LAKE+crm.table_0004&target=lake") == ["crm.table_0004"] and rows("q=nothing") == []
    page = client.get("/pipelines/many?target=lake&page=1").text
    assert "/pipelines/many?target=lake&amp;page=2#tables" in page and "Previous page" not in page
    assert client.get("/pipelines/many?page=0").status_code == 422


def test_a_problem_that_tables_share_is_one_line(store: Store, tmp_path: Path) -> None:
    about = {table: MergeNews(0, "stopped", "the target is full") for table in parts.list_tables(store, PIPELINE)}
    pipelines.report_merges(store, PIPELINE, "lake", about)
    look_at_pipelines(many_tables.configure(tmp_path), store, dt.datetime.now(dt.UTC))
    page = client_of(store, tmp_path).get("/pipelines/many").text
    problems = page.partition("<h2>Problems</h2>")[2].partition("</tbody>")[0]
    assert problems.count("<tr>") < 8 and problems.count("60 tables in <bdi>lake</bdi>") == 1
