"""The pages of lists: filters, order and pages in the URL, what their forms request, ETags and compression."""

from __future__ import annotations

import datetime as dt
import gzip
import io
import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import duckdb
import httpx2
import pyarrow.parquet as pq
import pytest
from sqlalchemy import update

from auditor import config, service
from auditor.api import create_app
from auditor.api.pages._differences import mark
from auditor.api.pages._overview import PAGE_SIZE
from auditor.api_models.run import ColumnValues
from auditor.history import records
from auditor.history.handover import Outcome
from auditor.model import Report, State, Verdict
from auditor.report import listing, render
from auditor.report.console import plain_text
from auditor.report.day import load_day
from auditor.report.sentences import tell_story
from auditor.store import Store, incidents, open_store, run_lifecycle, runs
from auditor.store.schema import runs as runs_table
from tests.api.conftest import make_client

GROUPED = 3
ROWS = 60


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> config.Settings:
    """Audits of two files: one that differs, 70 that are equal, and a group of three tables."""
    folder = tmp_path_factory.mktemp("pages")
    for side in ("source", "target"):
        with duckdb.connect(f"{folder}/{side}.duckdb") as database:
            database.execute(f"CREATE TABLE orders AS SELECT i::BIGINT AS id, 'item ' || i AS item, i AS amount FROM range({ROWS}) t(i)")
            database.execute("CREATE TABLE same AS SELECT * FROM orders")
            for number in range(GROUPED):
                database.execute(f"CREATE TABLE crm_{number} AS SELECT * FROM orders")
    with duckdb.connect(f"{folder}/target.duckdb") as database:
        database.execute("DELETE FROM orders WHERE id IN (3, 41); UPDATE orders SET item = 'itom 12' WHERE id = 12")
        database.execute("UPDATE orders SET amount = -1 WHERE id IN (20, 9)")
    ends = {side: {"connection": side} for side in ("source", "target")}

    def audit(table: str, **more: object) -> dict[str, object]:
        return {**{side: {**end, "table": table} for side, end in ends.items()}, "key": ["id"], **more}

    return config.validate_settings(
        {
            "connections": {side: {"url": f"duckdb:///{folder}/{side}.duckdb"} for side in ends},
            "audits": {
                "orders": audit("orders", schedule="30 6 * * *", owner="sales"),
                **{f"same-{number:02}": audit("same") for number in range(70)},
                "crm": {**ends, "tables": ["crm_*"], "key": ["id"]},
            },
            "store": {"url": f"sqlite:///{folder}/store.db"},
            "service": {"requests_per_minute": 100_000, "queue": 5},
        }
    )


@pytest.fixture(scope="module")
def store(settings: config.Settings) -> Iterator[Store]:
    """A store with two runs of ``orders``, and one of each table of the group."""
    assert settings.store
    opened = open_store(settings.store.url)
    for _ in range(2):
        service.run_audit(settings, "orders", store=opened, requested_by="ada")
    for number in range(GROUPED):
        service.run_audit(_with_group(settings, number), f"crm.crm_{number}", store=opened)
    yield opened
    opened.close()


def _with_group(settings: config.Settings, number: int) -> config.Settings:
    table = f"crm_{number}"
    return settings.model_copy(update={"audits": {**settings.audits, f"crm.{table}": settings.groups["crm"].audit(table, table)}})


@pytest.fixture(scope="module")
def client(settings: config.Settings, store: Store) -> Iterator[httpx2.Client]:
    with make_client(create_app(settings, store, insecure=True), follow_redirects=False) as opened:
        yield opened


def page(client: httpx2.Client, path: str) -> str:
    """Return a page without its spaces."""
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return " ".join(answer.text.split())


def names(text: str) -> list[str]:
    """Return the names of the audits that a page lists, in order."""
    return re.findall(r'<a class="name" href="[^"]*"><bdi>([^<]*)</bdi>', text)


def send(client: httpx2.Client, path: str, **fields: str) -> httpx2.Response:
    """Send a form of a page."""
    csrf = re.search(r'name="csrf" value="([^"]*)"', client.get("/").text)
    assert csrf
    return client.post(path, data={"csrf": csrf.group(1), **fields})


def test_overview_comes_in_pages_and_folds_groups(client: httpx2.Client) -> None:
    first = page(client, "/")
    assert names(first)[0] == "orders" and "Page 1 of 2" in first
    assert len(names(first)) == PAGE_SIZE + 1 and names(first)[-1] == "crm"  # the group, whose audits match
    assert "3 match" in first[first.index("group:") :]
    second = page(client, "/?page=2")
    assert not set(names(first)[:-1]) & set(names(second)[:-1])
    assert names(page(client, "/?group=crm")) == [f"crm.crm_{number}" for number in range(GROUPED)]


def test_overview_is_filtered_and_sorted_by_its_url(client: httpx2.Client) -> None:
    assert names(page(client, "/?status=mismatch")) == ["orders"]
    assert names(page(client, "/?owner=sales")) == ["orders"] and 'href="/?owner=sales"' in page(client, "/")
    assert names(page(client, "/?tag=still")) == ["orders"] and names(page(client, "/?tag=new")) == []
    assert names(page(client, "/?q=same-1&sort=audit&down=1"))[:2] == ["same-19", "same-18"]
    assert names(page(client, "/?sort=rows&down=1"))[0] == "orders"
    sorted_page = page(client, "/?sort=since")
    assert 'aria-sort="ascending"' in sorted_page and names(sorted_page)[0] == "orders"
    assert "No audit matches" in page(client, "/?q=nobody")
    row = re.search(r'<tr class="row-mismatch">.*?</tr>', page(client, "/?status=mismatch"))
    assert row and '<b class="tabular">5</b>' in row.group() and 'class="d-mismatch"' in row.group()


def test_runs_of_a_view_are_requested_as_far_as_the_queue_has_room(client: httpx2.Client, store: Store) -> None:
    answer = send(client, "/run", q="same-0")
    assert answer.headers["location"] == "/runs?state=active&requested=5&left=5"
    waiting = page(client, answer.headers["location"])
    assert "5 audits were left out" in waiting and waiting.count('<td data-name="began">') == 5
    for run in runs.list_runs(store, state=runs.ACTIVE):
        run_lifecycle.request_cancel(store, run.run)
    assert "5 runs wait or run now" not in page(client, "/runs?state=active")


def test_change_is_new_then_still_then_recovered(settings: config.Settings, store: Store, client: httpx2.Client) -> None:
    def entry() -> dict[str, object]:
        listed: list[dict[str, object]] = client.get("/api/v1/audits", params={"limit": 200}).json()["items"]
        return next(audit for audit in listed if audit["name"] == "same-69")

    def end(verdict: Verdict) -> str:
        run = uuid.uuid4().hex
        run_lifecycle.start_run(store, run=run, audit="same-69", definition=service.definition(settings.audits["same-69"]), method="exact")
        report = Report(
            audit="same-69", run=run, state=State.DONE, verdict=verdict, reasons=("x",), seconds=1.0, exit_code=verdict.exit_code
        )
        records.save_result(store, Outcome(report))
        return run

    changes = []
    for verdict in (Verdict.MATCH, Verdict.MISMATCH, Verdict.MISMATCH, Verdict.MATCH, Verdict.MATCH):
        end(verdict)
        changes.append((entry()["change"], entry()["since"]))
    assert [change for change, _ in changes] == [None, "new", "still", "recovered", None]
    assert changes[1][1] == changes[2][1] and changes[3][1] == changes[4][1] != changes[2][1]


def test_latest_run_is_read_again_when_its_reasons_are_scrubbed(settings: config.Settings, store: Store, client: httpx2.Client) -> None:
    assert "2 missing, 3 changed" in page(client, "/?status=mismatch")
    newest = runs.list_runs(store, audit="orders", limit=1)[0]
    store.write(lambda c: c.execute(update(runs_table).where(runs_table.c.run == newest.run).values(reasons=["scrubbed"])))
    assert "2 missing, 3 changed" not in (after := page(client, "/?status=mismatch")) and "scrubbed" in after
    store.write(lambda c: c.execute(update(runs_table).where(runs_table.c.run == newest.run).values(reasons=list(newest.reasons))))


def test_day_shows_how_audits_stood_at_its_end(client: httpx2.Client, store: Store) -> None:
    today = dt.datetime.now(dt.UTC).date()
    assert names(page(client, f"/day?date={today}&status=mismatch")) == ["orders"]
    earlier = page(client, f"/day?date={today - dt.timedelta(days=1)}")
    assert "As of the end of the day" in earlier and 'class="row-mismatch"' not in earlier
    assert "Page 2 of 2" in page(client, f"/day?date={today}&page=2&sort=audit")


def test_story_says_how_many_rows_by_kind_and_column(store: Store, client: httpx2.Client) -> None:
    run = runs.list_runs(store, audit="orders", limit=1)[0].run
    report = records.load_report(store, run, 0)
    assert report and tell_story(report) == "5 of 60 rows differ: 2 missing, 3 changed (amount, item)"
    for path in (f"/runs/{run}", "/audits/orders"):
        text = page(client, path)
        assert '<p class="story">5 of 60 rows differ: 2 missing, 3 changed (amount, item).</p>' in text
    assert '<details class="more evidence">' in page(client, f"/runs/{run}")
    for path in ("/", "/day"):
        assert "5 of 60 rows differ: 2 missing, 3 changed (amount, item)" in page(client, path)
        assert "columns that differ most often" not in page(client, path)


def test_story_comes_first_in_the_daily_report_and_in_what_an_audit_stands_at(settings: config.Settings, store: Store) -> None:
    story = "5 of 60 rows differ: 2 missing, 3 changed (amount, item)"
    today = load_day(store, settings, dt.datetime.now(dt.UTC).date())
    told = render.day(today, "text").splitlines()
    place = told.index("MISMATCH  orders")
    assert told[place + 1] == f"  {story}"
    of_audit = told[place + 1 : told.index("", place)]
    first_row, score = (next(n for n, line in enumerate(of_audit) if line.startswith(f"  {word}")) for word in ("differs:", "score "))
    assert first_row < score, "score and partitions come last"
    assert f"- {story}" in render.day(today, "markdown").replace("\\", "")
    whole = render.day(today, "html")
    section = whole[whole.index('id="audit-1"') :]
    assert section.index(story) < section.index("score <b>")
    run = runs.list_runs(store, audit="orders", limit=1)[0].run
    report, standing = records.load_report(store, run), next(one.standing for one in today.entries if one.audit == "orders")
    assert report and len(standing.reasons) > 1
    shown = [plain_text(listing.standing("orders", standing, known)).splitlines() for known in (None, report)]
    assert [lines[1] for lines in shown] == [f"  {story}"] * 2
    assert "columns that differ most often" in "".join(shown[0]) and "columns" not in "".join(shown[1]), "the report below has it"


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("", {"3", "9", "12", "20", "41"}),
        ("kind=missing", {"3", "41"}),
        ("column=amount", {"9", "20"}),
        ("column=item", {"12"}),
        ("key=12", {"12"}),
        ("key=1", set()),
        ("kind=changed&column=amount&key=9", {"9"}),
    ],
)
def test_differences_are_filtered_alike_on_the_page_in_the_api_and_in_files(
    query: str, keys: set[str], store: Store, client: httpx2.Client
) -> None:
    run = runs.list_runs(store, audit="orders", limit=1)[0].run
    api = client.get(f"/api/v1/runs/{run}/differences?{query}").json()["items"]
    assert {row["key"]["id"] for row in api} == keys
    shown = set(re.findall(r'data-name="key"><bdi>(\d+)</bdi>', page(client, f"/runs/{run}?{query}")))
    assert shown == keys
    lines = client.get(f"/runs/{run}/differences.ndjson?{query}").text.splitlines()
    assert {json.loads(line)["key"]["id"] for line in lines} == keys
    table = pq.read_table(io.BytesIO(client.get(f"/runs/{run}/differences.parquet?{query}").content))
    assert set(map(str, table.column("id").to_pylist())) == keys
    again = client.get(f"/api/v1/runs/{run}/differences?{query}", headers={"Accept": "application/vnd.apache.parquet"})
    assert pq.read_table(io.BytesIO(again.content)).num_rows == len(keys)


def test_differences_are_sorted_by_key_over_pages(store: Store, client: httpx2.Client) -> None:
    run = runs.list_runs(store, audit="orders", limit=1)[0].run
    for order, expected in (("key", ["3", "9", "12", "20", "41"]), ("-key", ["41", "20", "12", "9", "3"])):
        found: list[str] = []
        cursor: str | None = ""
        while cursor is not None:
            answer = client.get(
                f"/api/v1/runs/{run}/differences", params={"order": order, "limit": 2, **({"cursor": cursor} if cursor else {})}
            )
            found += [row["key"]["id"] for row in answer.json()["items"]]
            cursor = answer.json()["next"]
        assert found == expected
        assert re.findall(r'data-name="key"><bdi>(\d+)</bdi>', page(client, f"/runs/{run}?order={order}")) == expected


def test_characters_that_differ_are_marked() -> None:
    def marked(source: str | None, target: str | None) -> tuple[str, str]:
        first, second = mark(ColumnValues(name="x", source=source, target=target, reason=""))
        return str(first), str(second)

    assert marked("item 12", "itom 12") == ("it<mark>e</mark>m 12", "it<mark>o</mark>m 12")
    assert marked("abc", "abcd") == ("abc", "abc<mark>d</mark>")
    assert marked(None, "x") == ('<mark class="null">NULL</mark>', "<mark>x</mark>")
    assert marked("<b>", "<i>") == ("&lt;<mark>b</mark>&gt;", "&lt;<mark>i</mark>&gt;")
    assert marked("a ", "a") == ("<mark>&#39;a &#39;</mark>", "<mark>a</mark>")
    long = "a" * 500
    assert marked(f"{long}x{long}", f"{long}y{long}")[0] == f"{long}<mark>x</mark>{long}"


def test_two_runs_are_compared(store: Store, client: httpx2.Client) -> None:
    later, earlier = (run.run for run in runs.list_runs(store, audit="orders", state="done", limit=2))
    text = page(client, f"/runs/{later}/changes?since={earlier}")
    assert "0 differences are new, 0 are gone, 5 are the same." in text
    assert f'/runs/{later}/changes?since={earlier}">See which' in page(client, "/audits/orders")
    assert 'name="other"' in page(client, f"/runs/{later}") and 'name="other"' in text
    named = page(client, f"/runs/{later}/changes?since={later}&other={earlier[:12]}")
    assert named[named.index('<p class="story">') :] == text[text.index('<p class="story">') :], (
        "a run that is named counts before a chosen one"
    )


def test_run_again_keeps_the_settings_of_the_run(store: Store, client: httpx2.Client) -> None:
    sent = send(client, "/audits/orders/run", method="counts")
    run = sent.headers["location"].rpartition("/")[2]
    run_lifecycle.request_cancel(store, run)
    again = send(client, f"/runs/{run}/again").headers["location"].rpartition("/")[2]
    assert again != run and runs.get_run(store, again).overrides == {"method": "counts"}
    assert runs.get_run(store, again).reason == f"again, after run {run[:12]}"
    run_lifecycle.request_cancel(store, again)


def test_incident_is_acknowledged_and_withdrawn_on_the_page(store: Store, client: httpx2.Client) -> None:
    assert "Incident 1: open" in page(client, "/audits/orders")
    refused = send(client, "/audits/orders/acknowledge", why=" ")
    assert refused.status_code == 422 and "say why" in refused.text
    until = (dt.datetime.now(dt.UTC) + dt.timedelta(days=1)).strftime("%Y-%m-%dT%H:%M")
    assert send(client, "/audits/orders/acknowledge", why="a backfill", how="muted", differences="known", until=until).status_code == 303
    shown = page(client, "/audits/orders")
    assert "Incident 1: muted" in shown and "a backfill" in shown and "or when another row differs" in shown
    assert names(page(client, "/?tag=muted")) == ["orders"] and names(page(client, "/"))[0] != "orders"
    assert send(client, "/audits/orders/withdraw").status_code == 303
    opened = incidents.get_open(store, "orders")
    assert opened and opened.acknowledgement is None


def test_runs_are_filtered_by_their_url_and_in_the_api(client: httpx2.Client) -> None:
    today = dt.datetime.now(dt.UTC).date()
    text = page(client, f"/runs?audit=orders&verdict=mismatch&since={today}&until={today}")
    assert text.count('<td data-name="began">') == 2
    assert "No run matches" in page(client, f"/runs?until={today - dt.timedelta(days=1)}")
    assert client.get("/runs?since=yesterday").status_code == 422
    found = client.get("/api/v1/runs", params={"verdict": "mismatch", "audit": "orders", "since": f"{today}T00:00:00Z"}).json()["items"]
    assert len(found) == 2
    assert client.get("/api/v1/runs", params={"until": f"{today}T00:00:00Z"}).json()["items"] == []


def test_schedules_say_when_audits_are_due(client: httpx2.Client) -> None:
    text = page(client, "/schedules")
    assert "30 6 * * *" in text and text.count("06:30 UTC</time>") == 5
    (entry,) = client.get("/api/v1/schedules", params={"times": 3}).json()["items"]
    assert entry["audit"] == "orders" and len(entry["next"]) == 3 and entry["next"] == sorted(entry["next"])


def test_connections_are_checked_and_say_nothing_of_where_they_lead(client: httpx2.Client, settings: config.Settings) -> None:
    text = page(client, "/connections")
    assert "source" in text and "duckdb:///" not in text and str(Path(settings.connections["source"].url).parent.name) not in text
    answer = client.post("/api/v1/connections/source/check").json()
    assert answer["reachable"] and answer["tables"] == 2 + GROUPED and answer["server"].startswith("DuckDB") and answer["error"] == ""
    rights = {one["table"]: one for one in answer["rights"]}
    assert "orders" in rights["orders"]["audits"] and rights["orders"]["problems"] == []
    shown = send(client, "/connections/source/check").text
    assert "source</bdi> answers" in shown
    assert f"nothing is known against reading {len(rights)}." in shown
    assert client.post("/api/v1/connections/nobody/check").status_code == 404


def test_api_page_describes_every_operation(client: httpx2.Client) -> None:
    document = client.get("/api/v1/openapi.json").json()
    text = page(client, "/docs")
    operations = [(method, path, found) for path, methods in document["paths"].items() for method, found in methods.items()]
    for method, path, found in operations:
        assert f"<b>{method.upper()}</b> {path}</code>" in text
        assert found["summary"] and not found["summary"].endswith(".") and " " in found["summary"]
    assert "https://" not in text.partition("<main")[2]


def test_lists_and_pages_have_an_etag_and_are_compressed(client: httpx2.Client) -> None:
    for path in ("/api/v1/audits?limit=200", "/docs", "/schedules"):
        first = client.get(path, headers={"Accept-Encoding": "gzip"})
        assert first.headers["content-encoding"] == "gzip" and "Accept-Encoding" in first.headers["vary"]
        plain = client.get(path, headers={"Accept-Encoding": "identity"})
        assert "content-encoding" not in plain.headers
        again = client.get(path, headers={"If-None-Match": plain.headers["etag"], "Accept-Encoding": "gzip"})
        assert (again.status_code, again.content) == (304, b"")
        assert first.headers["cache-control"] == "private, no-cache"
    assert "etag" not in client.get("/audits/orders").headers  # it shows values of rows


def test_length_of_a_compressed_page_varies(client: httpx2.Client) -> None:
    lengths = {client.get("/docs", headers={"Accept-Encoding": "gzip"}).headers["content-length"] for _ in range(12)}
    assert len(lengths) > 1
    with client.stream("GET", "/docs", headers={"Accept-Encoding": "gzip"}) as answer:
        assert gzip.decompress(b"".join(answer.iter_raw())).startswith(b"<!DOCTYPE html>")
