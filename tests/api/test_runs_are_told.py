"""A run's lines and spans: all of them are of the run, in whatever thread it works."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from contextlib import redirect_stderr

import pytest

from auditor import service, telemetry
from auditor.kept import Kept
from tests.api.conftest import Service, made


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service of which nothing ran."""
    with made(tmp_path_factory.mktemp("told"), run=False) as found:
        yield found


def test_every_line_of_a_run_names_it(own: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    keep = Kept.chunk

    def told(self: Kept, *given: object) -> None:
        logging.getLogger("auditor.test").info("a chunk was read")
        keep(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Kept, "chunk", told)
    said, root = io.StringIO(), logging.getLogger()
    before, level = list(root.handlers), root.level
    with redirect_stderr(said):
        telemetry.configure("json", "info")
        runs = [service.run_audit(own.settings, name, store=own.store).run for name in ("orders", "away")]
    for handler in set(root.handlers) - set(before):
        root.removeHandler(handler)
    root.setLevel(level)
    lines = [json.loads(line) for line in said.getvalue().splitlines()]
    assert [line["event"] for line in lines].count("a chunk was read") >= 2
    assert [line["error"] for line in lines if line["event"] == "the run failed"] == ["Unreachable"]
    assert {line["run"] for line in lines} == set(runs)
    assert {line["audit"] for line in lines} == {"orders", "away"}


def test_a_span_for_the_run_and_for_each_chunk(own: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter").InMemorySpanExporter()
    monkeypatch.setattr(telemetry, "_tracers", [])
    telemetry.trace(export.SimpleSpanProcessor(memory))
    run = service.run_audit(own.settings, "orders", store=own.store).run
    *chunks, whole = memory.get_finished_spans()
    assert (whole.name, whole.attributes) == ("run", {"run": run, "audit": "orders"})
    assert {chunk.attributes["side"] for chunk in chunks} == {"source", "target"}
    assert all(chunk.name == "chunk" and chunk.parent.span_id == whole.context.span_id for chunk in chunks)
