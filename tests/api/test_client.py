"""The Python client and `--server`, against a service that listens on a port."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from auditor import cli
from auditor.api_models.pipeline import PipelinePause
from auditor.client import Client
from auditor.client.http import Transport
from auditor.errors import (
    AlreadyRunning,
    AuditorError,
    ConfigError,
    Forbidden,
    Unauthorised,
    UnknownAudit,
    UnknownRepair,
    UnknownRun,
    Unreachable,
)
from tests.api.conftest import Service
from tests.durations import SetDurations


@pytest.fixture
def client(listening: tuple[Service, str]) -> Client:
    """A client with a token of scope run."""
    return Client(listening[1], listening[0].tokens["run"])


def test_run_is_requested_awaited_and_read(client: Client) -> None:
    seen: list[str] = []
    requested = client.request("orders", reason="to see", overrides={"t": 2}, idempotency="key")
    finished = client.wait(requested.run, lambda run: seen.append(run.state), seconds=60)
    assert (finished.verdict, finished.overrides, finished.requested_by) == ("mismatch", {"t": 2}, "the run token")
    assert seen[-1] == "done"
    assert client.report(requested.run).verdict == "mismatch"
    assert "MISMATCH" in client.report(requested.run, "text")
    assert [one.kind for one in client.differences(requested.run, kind="missing")] == ["missing"]
    assert client.runs("orders", limit=1)[0].run == requested.run
    assert client.runs(limit=0) == []
    assert client.request("orders", overrides={"t": 2}, idempotency="key").run == requested.run
    assert [one.name for one in client.audits()] == ["away", "orders", "same", "with/slash"]
    assert client.audit("with/slash").name == "with/slash"
    assert client.cancel(requested.run).state == "done"


def test_a_run_is_followed_to_its_end(listening: tuple[Service, str], monkeypatch: pytest.MonkeyPatch) -> None:
    found, url = listening
    opened, responses = Transport.open, list[HTTPResponse]()

    def noted(*arguments: Any, **more: Any) -> HTTPResponse:
        responses.append(opened(*arguments, **more))
        return responses[-1]

    monkeypatch.setattr(Transport, "open", noted)
    with Client(url, found.tokens["run"]) as client:
        run = client.request("orders", overrides={"t": 2}).run
        seen = list(client.follow(run))
        assert (seen[-1].state, seen[-1].verdict) == ("done", "mismatch")
        assert len({one.to_json() for one in seen}) == len(seen)
        assert list(client.follow(run)) == [client.run(run)]
        with pytest.raises(UnknownRun):
            next(client.follow("abcdef"))
        stream = client.follow(run)
        next(stream)
        assert not responses[-1].isclosed()
    assert responses[-1].isclosed()


def test_a_stream_that_breaks_off_is_opened_again(
    listening: tuple[Service, str], monkeypatch: pytest.MonkeyPatch, set_durations: SetDurations
) -> None:
    found, url = listening
    client = Client(url, found.tokens["run"])
    set_durations(client_poll=0.01)
    run, opened, headers = found.runs["orders"], Transport.open, []
    ended = client.run(run)
    shown = ended.model_copy(update={"seconds": 1.5})

    class Broken:
        def __iter__(self) -> Iterator[bytes]:
            data = f"data: {shown.to_json()}\n".encode()
            yield from (b"retry: 2000\n", b"\n", b"id: 0123\n", b"event: run\n", data, b"\n", b"event: run\n")
            raise ConnectionResetError

        def close(self) -> None:
            pass

    def once_broken(*arguments: object, **more: Any) -> Any:
        headers.append(more["headers"])
        return opened(*arguments, **more) if len(headers) > 1 else Broken()  # type: ignore[arg-type]

    monkeypatch.setattr(Transport, "open", once_broken)
    assert list(client.follow(run)) == [shown, ended]
    assert headers[1]["Last-Event-ID"] == "0123"


def test_differences_as_a_table_plan_and_sql(listening: tuple[Service, str]) -> None:
    found, url = listening
    client = Client(url, found.tokens["define"])
    table = client.differences_arrow(found.runs["orders"])
    assert table.column("id").to_pylist() == [700, 1500, 5000]
    assert table.column("range_first").to_pylist() == [None, None, None]
    assert client.differences_arrow(found.runs["orders"], kind="missing").column("id").to_pylist() == [700]
    assert client.plan("orders").key == ("id",)
    scripts = client.sql("orders", "target", "signature")
    assert scripts.source is None and scripts.target and "minhash" not in scripts.target
    assert {one.state for one in client.partitions(found.runs["orders"])} > {"equal"}
    assert client.day(time.strftime("%Y-%m-%d", time.gmtime())).audits
    assert [event.action for event in client.events()]


def test_audits_are_defined_paused_and_dropped(listening: tuple[Service, str]) -> None:
    found, url = listening
    client = Client(url, found.tokens["define"])
    ends = {"source": {"connection": "shop", "table": "same"}, "target": {"connection": "warehouse", "table": "same"}}
    assert client.define("defined", ends).definition["source"]["table"] == "same"
    assert client.define("defined", {**ends, "method": "counts"}, replace=True).method == "counts"
    assert client.pause("defined").model_dump() == {"name": "defined", "paused": True}
    assert client.unpause("defined").paused is False
    client.drop("defined")
    with pytest.raises(UnknownAudit):
        client.audit("defined")


def test_error_responses_become_auditor_errors(client: Client, listening: tuple[Service, str]) -> None:
    found, url = listening
    for error, call in (
        (UnknownAudit, lambda: client.request("nobody")),
        (UnknownRun, lambda: client.run("abcdef")),
        (ConfigError, lambda: client.request("orders", overrides={"sql": "x"})),
        (Unauthorised, lambda: Client(url).audits()),
        (Unauthorised, lambda: Client(url, "aud_wrong").audits()),
        (Forbidden, lambda: Client(url, found.tokens["read"]).request("orders")),
        (Unreachable, lambda: Client("http://127.0.0.1:1").audits()),
        (AuditorError, lambda: client.resume(found.runs["same"])),
    ):
        with pytest.raises(error) as raised:
            call()
        assert found.tokens["run"] not in str(raised.value)
    for wrong in ("ftp://x", "x", "http://u:p@h", "", "file:///etc/passwd"):
        with pytest.raises(ConfigError):
            Client(wrong)
    with pytest.raises(ConfigError):
        Client(url, "a\r\nX: y")


def test_second_request_while_a_run_is_active_is_rejected(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AlreadyRunning):
        for _ in range(20):
            client.request("same")
    client.wait(client.runs("same", limit=1)[0].run, seconds=60)


def test_commands_with_server(listening: tuple[Service, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found, url = listening
    monkeypatch.setenv("AUDITOR_TOKEN", found.tokens["run"])
    assert cli.main(["run", "same", "orders", "--server", url, "--reason", "by hand"]) == 1
    printed = capsys.readouterr()
    assert "MATCH  same" in printed.out
    assert "MISMATCH  orders" in printed.out
    assert cli.main(["run", "away", "--server", url, "--format", "json"]) == 3
    printed = capsys.readouterr()
    assert json.loads(printed.out)["verdict"] == "unknown"
    assert "auditor: away:" in printed.err
    assert cli.main(["history", "orders", "--server", url]) == 0
    assert "mismatch" in capsys.readouterr().out
    assert cli.main(["runs", "--server", url, "--format", "json", "--limit", "2"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 2
    assert cli.main(["show", "orders", "--server", url]) == 0
    assert "MISMATCH  orders" in capsys.readouterr().out
    assert cli.main(["cancel", found.runs["same"], "--server", url]) == 0
    assert "done" in capsys.readouterr().out
    assert cli.main(["ls", "o*", "--server", url, "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["audit"], listed["status"], listed["age"] >= 0) == ("orders", "mismatch", True)
    gate = ["wait", "--verified-through", "2026-01-01T00:00:00Z", "--timeout", "0", "--server", url]
    assert cli.main([*gate, "same"]) == 0
    assert "same: VERIFIED: everything up to" in capsys.readouterr().out
    assert cli.main([*gate, "s*", "orders"]) == 1
    assert "orders: MISMATCH: run" in capsys.readouterr().out
    assert cli.main(["costs", "--server", url]) == 0
    assert "orders" in capsys.readouterr().out
    assert cli.main(["differences", "orders", "--server", url]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
    assert cli.main(["show", "orders", "--follow", "--server", url, "-q"]) == 1
    assert "MISMATCH  orders" in capsys.readouterr().out
    assert cli.main(["run", "x*", "--server", url]) == 2
    assert "no audit matches 'x*'" in capsys.readouterr().err
    assert cli.main(["run", "nobody", "--server", url]) == 2
    assert cli.main(["run", "--due", "--server", url]) == 2
    assert cli.main(["run", "orders", "--force", "--server", url]) == 2
    monkeypatch.delenv("AUDITOR_TOKEN")
    assert cli.main(["runs", "--server", url]) == 2
    assert "AUDITOR_TOKEN" in capsys.readouterr().err


def test_costs_are_the_same_by_every_door(
    client: Client, listening: tuple[Service, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found, url = listening
    client.wait(client.request("same").run)
    monkeypatch.setenv("AUDITOR_TOKEN", found.tokens["read"])
    costs = client.costs(by="audit")
    assert {line.audit for line in costs.lines} >= {"same", "orders"} and costs.total.runs == sum(line.runs for line in costs.lines)
    assert costs.total.usd is None and costs.total.unpriced and costs.total.statements > 0
    assert cli.main(["costs", "--by", "audit", "--json", "--server", url]) == 0
    assert json.loads(capsys.readouterr().out)["first"] == costs.first.isoformat()
    assert cli.main(["costs", "--server", url]) == 0
    printed = capsys.readouterr().out
    assert "unknown" in printed and "not in USD, as the connection had no price: shop, warehouse" in printed
    assert [line.day for line in client.costs(since=costs.last, by="day").lines] == [costs.last]
    with pytest.raises(ConfigError, match="is in the future"):
        client.costs(since=dt.date(2999, 1, 1))
    with pytest.raises(ConfigError, match="since or days"):
        client.costs(since=costs.last, days=3)


def test_repairs_are_recorded_and_shown(
    client: Client, listening: tuple[Service, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found, url = listening
    run, repairer = found.runs["orders"], Client(url, found.tokens["repair"])
    with pytest.raises(Forbidden):
        client.record_repair(run, "patch", "not by me")
    with pytest.raises(UnknownRepair):
        client.repair("0" * 32)
    recorded = [repairer.record_repair(run, "patch", f"copied it again {n}", rows=n, idempotency=f"key{n}") for n in range(12)]
    assert client.repair(recorded[0].repair) == recorded[0]
    assert repairer.record_repair(run, "patch", "copied it again 0", rows=0, idempotency="key0") == recorded[0]
    assert list(client.repairs(run)) == recorded[::-1]
    monkeypatch.setenv("AUDITOR_TOKEN", found.tokens["read"])
    local = tmp_path / "auditor.yaml"
    assert found.settings.store
    local.write_text(f"connections: {{}}\naudits: {{}}\nstore: {{url: '{found.settings.store.url}'}}\n")
    for where in (["--server", url], ["--config", str(local)]):
        assert cli.main(["show", run, *where]) == 0
        printed = capsys.readouterr().out
        assert printed.index("MISMATCH  orders") < printed.index("copied it again 11")
        assert "repair (patch, 11 rows), recorded by the repair token on 20" in printed
        assert printed.count("copied it again") == 10 and printed.rstrip().endswith("and older ones")
        assert cli.main(["show", run, "--format", "json", *where]) == 0
        assert json.loads(capsys.readouterr().out)["run"] == run


def test_answers_that_are_lists_or_of_another_version_are_read_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    transport, answer = Transport("http://recorded", None, 1.0), b""
    monkeypatch.setattr(transport, "request", lambda *_: answer)
    answer = b'[{"pipeline": "shop", "paused": true, "since": "a later version"}]'
    assert transport.model_list(PipelinePause, "POST", "/x") == [PipelinePause(pipeline="shop", paused=True)]
    with pytest.raises(Unreachable, match="did not respond like an auditor service"):
        transport.model(PipelinePause, "POST", "/x")
    answer = b'{"pipeline": "shop"}'
    with pytest.raises(Unreachable, match=r"responded with another PipelinePause than this version reads \(paused\)"):
        transport.model(PipelinePause, "POST", "/x")
