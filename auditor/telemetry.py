"""Logging, error counters and tracing.

Log lines go to standard error, as JSON or formatted for a console, and name the run they are about. They contain no secrets: secrets
of the configuration, tokens, and passwords in URLs are redacted, and an unexpected error is logged as its class and traceback
without its message, which may quote a row. Tracing needs OpenTelemetry's packages and environment variables; without both none of them
is imported.
"""

from __future__ import annotations

import contextvars
import importlib
import logging
import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from functools import wraps
from typing import Any, Literal, ParamSpec, TypeVar

from auditor.errors import AuditorError
from auditor.escaping import exact
from dialects import extras

P = ParamSpec("P")
R = TypeVar("R")
Line = MutableMapping[str, Any]

REDACTED = "***"

_SECRET_PATTERNS = re.compile(r"(aud_)[\w-]{8,}|(?<=://)([^\s/:@]*:)[^\s/@]+(?=@)|((?:bearer|basic)\s+)[\w.~+/=-]{8,}", re.IGNORECASE)
"""The auditor's tokens, passwords in URLs, and credentials in HTTP headers."""

_NOISY_LOGGERS = (
    "apprise",
    "botocore",
    "boto3",
    "s3transfer",
    "urllib3",
    "requests",
    "py4j",
    "asyncio",
    "alembic",
    "python_multipart",
    "httpx",
    "httpx2",
    "httpcore",
    "pyspark",
)
"""Libraries that log every step at INFO, with addresses. Only their warnings are logged."""

_lock = threading.Lock()
_counters: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
_log_context: contextvars.ContextVar[Mapping[str, str] | None] = contextvars.ContextVar("log_context", default=None)
"""The fields that `log_context` adds to every log line."""

tracers: list[Any] = []
"""The tracer of this process, after `start_tracing`."""


# logging


def configure_logging(format: Literal["json", "console"] = "console", level: str = "info", secrets: Iterable[str] = ()) -> None:
    """Write the lines of all loggers to standard error, with ``secrets`` redacted. ``level`` is the name of a logging level."""
    import structlog

    redact = _make_redactor(secrets)
    processors: list[Any] = [
        _add_context,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _format_error,
        redact,
    ]
    renderer: Any = structlog.processors.JSONRenderer(ensure_ascii=False, default=str)
    if format == "console":
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), sort_keys=False)
    handler = logging.StreamHandler(exact(sys.stderr))  # whose texts are made visible, and whose colours are meant
    remove_meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=processors, processors=[remove_meta, renderer]))
    root = logging.getLogger()
    for earlier in [each for each in root.handlers if isinstance(each.formatter, structlog.stdlib.ProcessorFormatter)]:
        root.removeHandler(earlier)
    root.addHandler(handler)
    root.setLevel(level.upper())
    handler.addFilter(_count_errors)
    for name in _NOISY_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    for name in ("uvicorn", "uvicorn.error"):  # its own handlers have a different format
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = True
    access = logging.getLogger("uvicorn.access")  # the service logs each request itself, without the query string
    access.handlers.clear()
    access.propagate = False
    structlog.configure(
        processors=[*processors[:-2], structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


def _format_error(_logger: Any, _method: str, line: Line) -> Line:
    """Replace the exception of a line by its class and traceback; add the message only of an AuditorError, which quotes no row."""
    info = line.pop("exc_info", None)
    for unwanted in ("stack_info", "color_message"):  # the second is uvicorn's message again, with colours
        line.pop(unwanted, None)
    error = sys.exc_info()[1] if info is True else info if isinstance(info, BaseException) else info[1] if isinstance(info, tuple) else None
    if error is not None:
        line["error"] = type(error).__name__
        line["at"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)]
        if isinstance(error, AuditorError):
            line["error_message"] = str(error)
    return line


def _make_redactor(secrets: Iterable[str]) -> Callable[[Any, str, Line], Line]:
    longest_first = sorted({secret for secret in secrets if len(secret) >= 4}, key=len, reverse=True)
    exact = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def redact_text(value: str) -> str:
        value = exact.sub(REDACTED, value) if exact else value
        value = _SECRET_PATTERNS.sub(lambda match: f"{match[1] or match[2] or match[3]}{REDACTED}", value)
        return value if value.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in value)

    def redact_value(value: Any) -> Any:
        if isinstance(value, str):
            return redact_text(value)
        if isinstance(value, Mapping):
            return {redact_text(str(name)): redact_value(item) for name, item in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [redact_value(item) for item in value]
        return value if value is None or isinstance(value, bool | int | float) else redact_text(str(value))

    def redact(_logger: Any, _method: str, line: Line) -> Line:
        return {name: value if name.startswith("_") else redact_value(value) for name, value in line.items()}

    return redact


# context of log lines


@contextmanager
def log_context(**fields: str) -> Iterator[None]:
    """Add fields to every log line of the block: ``log_context(run=..., audit=...)``."""
    token = _log_context.set({**(_log_context.get() or {}), **fields})
    try:
        yield
    finally:
        _log_context.reset(token)


def _add_context(_logger: Any, _method: str, line: Line) -> Line:
    return {**(_log_context.get() or {}), **line}


def with_current_context(work: Callable[P, R]) -> Callable[P, R]:
    """Return ``work`` wrapped to run with this thread's context variables (log fields, open span) in any thread, also concurrently."""
    values = [(variable, variable.get()) for variable in contextvars.copy_context()]

    @wraps(work)
    def run(*arguments: P.args, **named: P.kwargs) -> R:
        context = contextvars.Context()
        for variable, value in values:
            context.run(variable.set, value)
        return context.run(work, *arguments, **named)

    return run


# counters


def increment_counter(name: str, by: float = 1, **labels: str) -> None:
    """Add ``by`` to the counter of this name and these labels. The service's metrics export the counters."""
    key = name, tuple(sorted(labels.items()))
    with _lock:
        _counters[key] = _counters.get(key, 0) + by


def get_counter(name: str) -> dict[tuple[tuple[str, str], ...], float]:
    """Return the values of a counter since the process started, by its sorted labels."""
    with _lock:
        return {labels: value for (counter, labels), value in _counters.items() if counter == name}


def _count_errors(record: logging.LogRecord) -> bool:
    """Count the errors of log lines: those with an exception, or with its class as the field ``error``. Always returns True."""
    exception = record.exc_info[1] if record.exc_info else None
    kind = type(exception).__name__ if exception is not None else getattr(record, "error", None)
    if isinstance(kind, str) and kind.isidentifier():
        increment_counter("errors", error=kind)
    return True


# tracing


def start_tracing(processor: Any = None) -> bool:
    """Start tracing if OpenTelemetry is installed and its environment variables request it, and return whether it was started.

    A span ``processor`` can be given instead of the one that the environment configures.
    """
    environment = os.environ
    requested = any(name.startswith("OTEL_EXPORTER_OTLP") for name in environment) or "OTEL_TRACES_EXPORTER" in environment
    off = environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or environment.get("OTEL_TRACES_EXPORTER") == "none"
    if processor is None and (off or not requested):
        return False
    try:
        sdk = importlib.import_module("opentelemetry.sdk.trace")
        resources = importlib.import_module("opentelemetry.sdk.resources")
        processor = processor or _make_span_processor()
    except ImportError as error:
        logging.getLogger(__name__).warning(
            "tracing is configured but %s is not installed; run: %s", error.name, extras.install_command("tracing")
        )
        return False
    name = environment.get("OTEL_SERVICE_NAME", "auditor")
    provider = sdk.TracerProvider(resource=resources.Resource.create({"service.name": name}))
    provider.add_span_processor(processor)
    tracers[:] = [provider.get_tracer("auditor")]
    return True


def _make_span_processor() -> Any:
    export = importlib.import_module("opentelemetry.sdk.trace.export")
    if os.environ.get("OTEL_TRACES_EXPORTER") == "console":
        return export.SimpleSpanProcessor(export.ConsoleSpanExporter(out=sys.stderr))
    http = importlib.import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    return export.BatchSpanProcessor(http.OTLPSpanExporter())


@contextmanager
def span(name: str, **attributes: str | int | float) -> Iterator[None]:
    """Trace the block as a child of the open span. An exception that leaves it is recorded by its class only."""
    if not tracers:
        yield
        return
    trace_api = importlib.import_module("opentelemetry.trace")
    with tracers[0].start_as_current_span(name, attributes=attributes, record_exception=False, set_status_on_exception=False) as current:
        try:
            yield
        except BaseException as error:
            current.set_status(trace_api.Status(trace_api.StatusCode.ERROR, type(error).__name__))
            raise


def record_span(name: str, seconds: float, **attributes: str | int | float) -> None:
    """Record a span that lasted ``seconds`` and has just ended."""
    if not tracers:
        return
    now = time.time_ns()
    tracers[0].start_span(name, start_time=now - int(seconds * 1e9), attributes=attributes).end(end_time=now)
