"""Log lines with the run's id in every thread, error counters, and tracing, which loads nothing unless enabled."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr
from typing import Any, Literal

import pytest

from auditor import telemetry
from auditor.errors import ConfigError
from dialects import extras
from tests.api.conftest import Service

log = logging.getLogger("auditor.test")


@pytest.fixture
def log_output(request: pytest.FixtureRequest) -> Iterator[io.StringIO]:
    """The log output, in JSON or in the format given as a parameter."""
    format: Literal["json", "console"] = getattr(request, "param", "json")
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    text = io.StringIO()
    with redirect_stderr(text):
        telemetry.configure_logging(format, "info", ["s3cret-word", "abc"])
    yield text
    for handler in set(root.handlers) - set(before):
        root.removeHandler(handler)
    root.setLevel(level)


def lines(text: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.getvalue().splitlines()]


def test_every_log_line_has_its_run_id(log_output: io.StringIO) -> None:
    def log_line(line: str) -> None:
        log.info(line)

    with telemetry.log_context(run="r1", audit="orders"):
        log.info("here")
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(telemetry.with_current_context(log_line), [f"there {n}" for n in range(4)]))
        thread = threading.Thread(target=telemetry.with_current_context(log_line), args=("beside",))
        thread.start()
        thread.join()
    log.info("after")
    found = lines(log_output)
    assert [line.get("run") for line in found] == ["r1"] * 6 + [None]
    assert {line["event"] for line in found} == {"here", "there 0", "there 1", "there 2", "there 3", "beside", "after"}
    assert all({"timestamp", "level", "logger"} <= set(line) for line in found)


def test_lines_of_concurrent_runs_have_their_own_run_id(log_output: io.StringIO) -> None:
    barrier = threading.Barrier(2)

    def work(run: str) -> None:
        with telemetry.log_context(run=run):
            for _ in range(20):
                barrier.wait()
                log.info(run)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, ["r1", "r2"]))
    assert all(line["event"] == line["run"] for line in lines(log_output))


def test_secrets_and_control_characters_are_redacted(log_output: io.StringIO) -> None:
    log.info(
        "a s3cret-word, mysql://u:p%%40ss@db:3306/x and Bearer abcdefghijkl",
        extra={"where": {"url": "x://u:pw@h"}, "parts": ["aud_0123456789"]},
    )
    log.info("two\nlines \x1b[31m and abc")
    first, second = lines(log_output)
    assert first["event"] == "a ***, mysql://u:***@db:3306/x and Bearer ***"
    assert (first["where"], first["parts"]) == ({"url": "x://u:***@h"}, ["aud_***"])
    assert second["event"] == r"two\nlines \x1b[31m and abc"  # secrets of three characters are not redacted: too many words contain them


def test_errors_are_logged_by_class_and_location_without_values(log_output: io.StringIO) -> None:
    before = telemetry.get_counter("errors")
    for error in (ValueError("the row 4711"), ConfigError("there is no connection 'x'")):
        try:
            raise error
        except Exception:
            log.exception("failed")
    unknown, known = lines(log_output)
    assert unknown["error"] == "ValueError"
    assert "4711" not in json.dumps(unknown)
    assert any("test_telemetry.py" in frame for frame in unknown["at"])
    assert known["error_message"] == "there is no connection 'x'"
    log.warning("the run failed", extra={"error": "LockTimeout"})
    after = telemetry.get_counter("errors")
    new = {dict(labels)["error"]: number - before.get(labels, 0) for labels, number in after.items() if number != before.get(labels, 0)}
    assert new == {"ValueError": 1, "ConfigError": 1, "LockTimeout": 1}


@pytest.mark.parametrize("log_output", ["console"], indirect=True)
def test_console_format(log_output: io.StringIO) -> None:
    with telemetry.log_context(run="r1"):
        log.info("a s3cret-word\n")
    (line,) = log_output.getvalue().splitlines()
    assert "run=r1" in line
    assert "s3cret" not in line


def test_configuring_twice_logs_each_line_once(log_output: io.StringIO) -> None:
    with redirect_stderr(log_output):
        telemetry.configure_logging("json", "info")
    log.info("once")
    assert len(lines(log_output)) == 1


def test_disabled_tracing_imports_nothing() -> None:
    program = (
        "import sys; from auditor import telemetry\n"
        "assert telemetry.start_tracing() is False\n"
        "with telemetry.span('x', run='r'): telemetry.record_span('chunk', 1.0)\n"
        "assert not [m for m in sys.modules if m.startswith(('opentelemetry', 'structlog', 'prometheus_client', 'fastapi'))]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={"PATH": ""}, timeout=60)


def test_spans_have_parents_durations_and_attributes(served: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter").InMemorySpanExporter()
    monkeypatch.setattr(telemetry, "tracers", [])
    assert telemetry.start_tracing(export.SimpleSpanProcessor(memory))
    with telemetry.span("run", run="r1"):
        with ThreadPoolExecutor(1) as pool:
            pool.submit(telemetry.with_current_context(lambda: telemetry.record_span("chunk", 0.5, side="source"))).result()
    with pytest.raises(ValueError, match="4711"), telemetry.span("fails"):
        raise ValueError("the row 4711")
    served.client("read").get("/api/v1/audits?x=1")
    chunk, run, fails, request = memory.get_finished_spans()
    assert chunk.parent.span_id == run.context.span_id
    assert 0.4e9 < chunk.end_time - chunk.start_time < 0.6e9
    assert run.attributes == {"run": "r1"}
    assert (fails.status.description, fails.events) == ("ValueError", ())
    assert request.attributes["path"] == "/api/v1/audits"


def test_missing_tracing_packages_are_reported(log_output: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "tracers", [])
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    assert telemetry.start_tracing() is False
    assert extras.install_command("tracing") in lines(log_output)[0]["event"]
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert telemetry.start_tracing() is False
