"""What the auditor tells of itself while it works: log lines, counts of errors, and traces.

Lines go to standard error, as JSON or for a console, and each names the run that it is about. None holds a secret: what the
configuration calls one, tokens and passwords in URLs are hidden, and of an error that nobody foresaw only its kind and place are told,
because its text may quote a row. Traces need OpenTelemetry's packages and its environment variables; without both nothing of it is
imported.
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

P = ParamSpec("P")
R = TypeVar("R")
Line = MutableMapping[str, Any]

HIDDEN = "***"

_SHAPES = re.compile(r"(aud_)[\w-]{8,}|(?<=://)([^\s/:@]*:)[^\s/@]+(?=@)|((?:bearer|basic)\s+)[\w.~+/=-]{8,}", re.IGNORECASE)
"""Tokens of ours, passwords in URLs, and credentials as HTTP sends them."""

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")

_QUIET = ("apprise", "urllib3", "requests", "py4j", "asyncio", "alembic", "python_multipart", "httpx", "httpcore", "pyspark")
"""Libraries that tell of each of their steps, addresses and all."""

_lock = threading.Lock()
_counts: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
_ABOUT: contextvars.ContextVar[Mapping[str, str] | None] = contextvars.ContextVar("about", default=None)
"""What lines are about."""

_tracers: list[Any] = []
"""The tracer of this process, once it traces."""


# lines


def configure(format: Literal["json", "console"] = "console", level: str = "info", secrets: Iterable[str] = ()) -> None:
    """Let every logger tell standard error; ``secrets`` are hidden wherever they occur."""
    import structlog

    hide = _hider(secrets)
    first: list[Any] = [
        _about,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _failure,
        hide,
    ]
    last: Any = structlog.processors.JSONRenderer(ensure_ascii=False, default=str)
    if format == "console":
        last = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), sort_keys=False)
    handler = logging.StreamHandler(sys.stderr)
    removed = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=first, processors=[removed, last]))
    root = logging.getLogger()
    for old in [one for one in root.handlers if isinstance(one.formatter, structlog.stdlib.ProcessorFormatter)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    handler.addFilter(_counted)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    for name in ("uvicorn", "uvicorn.error"):  # its own handlers write in a form of their own
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = True
    access = logging.getLogger("uvicorn.access")  # the service tells of each request itself, without what the query holds
    access.handlers.clear()
    access.propagate = False
    structlog.configure(
        processors=[*first[:-2], structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


def _failure(_logger: Any, _method: str, line: Line) -> Line:
    """An error as its kind and the place where it was raised; its text only where it is one of ours, which hold no values."""
    info = line.pop("exc_info", None)
    for unwanted in ("stack_info", "color_message"):  # the second is what uvicorn says once more, in colours
        line.pop(unwanted, None)
    error = sys.exc_info()[1] if info is True else info if isinstance(info, BaseException) else info[1] if isinstance(info, tuple) else None
    if error is not None:
        line["error"] = type(error).__name__
        line["at"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)]
        if isinstance(error, AuditorError):
            line["said"] = str(error)
    return line


def _hider(secrets: Iterable[str]) -> Callable[[Any, str, Line], Line]:
    known = sorted({secret for secret in secrets if len(secret) >= 4}, key=len, reverse=True)
    exact = re.compile("|".join(map(re.escape, known))) if known else None

    def text(value: str) -> str:
        value = exact.sub(HIDDEN, value) if exact else value
        value = _SHAPES.sub(lambda found: f"{found[1] or found[2] or found[3]}{HIDDEN}", value)
        return _CONTROLS.sub(lambda found: repr(found[0])[1:-1], value)

    def plain(value: Any) -> Any:
        if isinstance(value, str):
            return text(value)
        if isinstance(value, Mapping):
            return {text(str(name)): plain(one) for name, one in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [plain(one) for one in value]
        return value if value is None or isinstance(value, bool | int | float) else text(str(value))

    def hide(_logger: Any, _method: str, line: Line) -> Line:
        return {name: value if name.startswith("_") else plain(value) for name, value in line.items()}

    return hide


# what lines are about


@contextmanager
def bound(**about: str) -> Iterator[None]:
    """Let every line of the block name what it is about: ``bound(run=..., audit=...)``."""
    before = _ABOUT.set({**(_ABOUT.get() or {}), **about})
    try:
        yield
    finally:
        _ABOUT.reset(before)


def _about(_logger: Any, _method: str, line: Line) -> Line:
    return {**(_ABOUT.get() or {}), **line}


def carried(work: Callable[P, R]) -> Callable[P, R]:
    """The work, to be done in another thread, telling of the same run as this one. Several threads may do it at once."""
    values = [(variable, variable.get()) for variable in contextvars.copy_context()]

    @wraps(work)
    def do(*arguments: P.args, **named: P.kwargs) -> R:
        context = contextvars.Context()
        for variable, value in values:
            context.run(variable.set, value)
        return context.run(work, *arguments, **named)

    return do


# counts


def count(name: str, by: float = 1, **labels: str) -> None:
    """Count something that happened, under names that a service's metrics export."""
    key = name, tuple(sorted(labels.items()))
    with _lock:
        _counts[key] = _counts.get(key, 0) + by


def counts(name: str) -> dict[tuple[tuple[str, str], ...], float]:
    """What was counted under a name since the process began, by its labels."""
    with _lock:
        return {labels: number for (one, labels), number in _counts.items() if one == name}


def _counted(record: logging.LogRecord) -> bool:
    """Count the errors that lines tell of: those that carry one, or its class under ``error``."""
    told = record.exc_info[1] if record.exc_info else None
    kind = type(told).__name__ if told is not None else getattr(record, "error", None)
    if isinstance(kind, str) and kind.isidentifier():
        count("errors", error=kind)
    return True


# traces


def trace(processor: Any = None) -> bool:
    """Begin to trace, if OpenTelemetry is installed and its environment asks for it; ``processor`` takes the spans in its place."""
    environment = os.environ
    wanted = any(name.startswith("OTEL_EXPORTER_OTLP") for name in environment) or "OTEL_TRACES_EXPORTER" in environment
    off = environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or environment.get("OTEL_TRACES_EXPORTER") == "none"
    if processor is None and (off or not wanted):
        return False
    try:
        sdk = importlib.import_module("opentelemetry.sdk.trace")
        resources = importlib.import_module("opentelemetry.sdk.resources")
        processor = processor or _processor()
    except ImportError as error:
        logging.getLogger(__name__).warning("traces are asked for, and %s is not installed: pip install 'auditor[tracing]'", error.name)
        return False
    name = environment.get("OTEL_SERVICE_NAME", "auditor")
    provider = sdk.TracerProvider(resource=resources.Resource.create({"service.name": name}))
    provider.add_span_processor(processor)
    _tracers[:] = [provider.get_tracer("auditor")]
    return True


def _processor() -> Any:
    export = importlib.import_module("opentelemetry.sdk.trace.export")
    if os.environ.get("OTEL_TRACES_EXPORTER") == "console":
        return export.SimpleSpanProcessor(export.ConsoleSpanExporter(out=sys.stderr))
    http = importlib.import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    return export.BatchSpanProcessor(http.OTLPSpanExporter())


@contextmanager
def span(name: str, **about: str | int | float) -> Iterator[None]:
    """Trace the block, within the span that is open; an error that leaves it is named by its class alone."""
    if not _tracers:
        yield
        return
    trace_api = importlib.import_module("opentelemetry.trace")
    with _tracers[0].start_as_current_span(name, attributes=about, record_exception=False, set_status_on_exception=False) as opened:
        try:
            yield
        except BaseException as error:
            opened.set_status(trace_api.Status(trace_api.StatusCode.ERROR, type(error).__name__))
            raise


def done(name: str, seconds: float, **about: str | int | float) -> None:
    """Trace what took so long and has just ended."""
    if not _tracers:
        return
    now = time.time_ns()
    _tracers[0].start_span(name, start_time=now - int(seconds * 1e9), attributes=about).end(end_time=now)
