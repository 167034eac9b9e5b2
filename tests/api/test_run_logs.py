"""Log lines and spans of a run carry its id, whichever thread writes them."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from contextlib import redirect_stderr

import pytest

from auditor import service, telemetry
from auditor.history.checkpoint import StoreCheckpoint
from tests.api.conftest import Service, TemporaryService


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service without runs."""
    with TemporaryService(tmp_path_factory.mktemp("run-logs"), run=False) as found:
        yield found


def test_every_log_line_of_a_run_has_its_id(own: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    save_chunk = StoreCheckpoint.save_chunk

    def log_and_save(self: StoreCheckpoint, *given: object) -> None:
        logging.getLogger("auditor.test").info("a chunk was read")
        save_chunk(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(StoreCheckpoint, "save_chunk", log_and_save)
    log_output, root = io.StringIO(), logging.getLogger()
    before, level = list(root.handlers), root.level
    with redirect_stderr(log_output):
        telemetry.configure_logging("json", "info")
        runs = [service.run_audit(own.settings, name, store=own.store).run for name in ("orders", "away")]
    for handler in set(root.handlers) - set(before):
        root.removeHandler(handler)
    root.setLevel(level)
    lines = [json.loads(line) for line in log_output.getvalue().splitlines()]
    assert [line["event"] for line in lines].count("a chunk was read") >= 2
    assert [line["error"] for line in lines if line["event"] == "the run failed"] == ["Unreachable"]
    assert {line["run"] for line in lines} == set(runs)
    assert {line["audit"] for line in lines} == {"orders", "away"}


def test_run_and_each_chunk_have_a_span(own: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter").InMemorySpanExporter()
    monkeypatch.setattr(telemetry, "tracers", [])
    telemetry.start_tracing(export.SimpleSpanProcessor(memory))
    run = service.run_audit(own.settings, "orders", store=own.store).run
    *chunks, whole = memory.get_finished_spans()
    assert (whole.name, whole.attributes) == ("run", {"run": run, "audit": "orders"})
    assert {chunk.attributes["side"] for chunk in chunks} == {"source", "target"}
    assert all(chunk.name == "chunk" and chunk.parent.span_id == whole.context.span_id for chunk in chunks)
