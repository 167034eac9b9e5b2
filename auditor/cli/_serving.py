"""Commands about the service: serve, token, pause, unpause and crontab."""

from __future__ import annotations

import argparse
import datetime as dt
import logging
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from auditor import config
from auditor.cli._output import (
    console,
    current_user,
    find_audits,
    open_optional_store,
    print_json,
    settings_and_store,
    with_known_groups,
)
from auditor.config import find_file, find_secrets, parse_duration
from auditor.durations import durations
from auditor.errors import ConfigError, PackageMissing
from auditor.store import leases
from auditor.store import tokens as store_tokens
from dialects import extras

if TYPE_CHECKING:
    import uvicorn

    from auditor.api_models.access import Token
    from auditor.config import Service

log = logging.getLogger(__name__)


def serve(options: argparse.Namespace) -> int:
    """Serve until a signal; runs that do not end within the grace period return to the queue with their completed chunks."""
    if names := extras.missing("service"):
        raise PackageMissing(extras.explain("the service", names, "service"))
    from auditor import telemetry
    from auditor.api import check_exposure, create_app
    from auditor.service.pipeline_problems import PipelineNotices
    from auditor.service.pipeline_processes import PipelineProcesses, heartbeat_command
    from auditor.service.scheduler import Ticker
    from auditor.service.workers import Workers

    with settings_and_store(options) as (loaded, store):
        configured = with_known_groups(loaded, store)
        service = configured.service
        host, port = options.host or service.host, service.port if options.port is None else options.port
        telemetry.configure_logging("console" if sys.stderr.isatty() else "json", "info", find_secrets(configured))
        telemetry.start_tracing()
        check_exposure(configured, store, host, options.insecure)
        if not options.insecure and not store_tokens.has_valid_token(store):
            print("auditor: there is no valid token yet; create one: auditor token create --scope run --name NAME", file=sys.stderr)
        workers = Workers(configured, store, service.workers)
        ticker = Ticker(configured, store, str(leases.this_process()))
        config_file = find_file(options.config).resolve()
        processes = PipelineProcesses(config_file, service.pipelines)
        heartbeats = PipelineProcesses(config_file, service.heartbeats, heartbeat_command)
        notices = PipelineNotices(configured, store)
        app = create_app(configured, store, workers=workers, ticker=ticker, pipelines=processes, insecure=options.insecure)
        server = _make_server(app, service, host, port)
        workers.start()
        ticker.start()
        processes.start()
        heartbeats.start()
        notices.start()
        try:
            server.run()
        except KeyboardInterrupt:  # uvicorn shuts down, then raises the signal again
            pass
        finally:
            remaining = max(service.grace / 2, service.grace - durations().shutdown_requests - durations().exit_margin)
            _exit_after(remaining + durations().exit_margin)
            ticker.stop()
            notices.stop(durations().notices_end)
            deadline = time.monotonic() + remaining
            for background_service in (processes, heartbeats):
                background_service.ask_to_stop()
            workers.stop(remaining)
            for background_service in (processes, heartbeats):
                background_service.stop(max(0.0, deadline - time.monotonic()))
    return 0 if server.started else 3


def _make_server(app: Any, service: Service, host: str, port: int) -> uvicorn.Server:
    """Return the server of an application, with what clients may hold open."""
    import uvicorn

    from auditor.api import connections

    limits = connections.Limits(service.connections_per_client, service.proxies)
    address: dict[str, Any] = {"host": host, "port": port, "forwarded_allow_ips": list(service.proxies)}
    quiet: dict[str, Any] = {"log_config": None, "access_log": False, "server_header": False}
    connection_options: dict[str, Any] = {"http": limits.protocol(), "ws": "none", "backlog": connections.BACKLOG}
    logging.getLogger("asyncio").addFilter(connections.OncePerMinute())
    return uvicorn.Server(
        uvicorn.Config(app, **address, **quiet, **connection_options, timeout_graceful_shutdown=durations().shutdown_requests)
    )


def _exit_after(seconds: float) -> None:
    """Exit the process after this many seconds unless it has ended; a thread whose database does not answer would block the exit."""

    def leave() -> None:
        log.warning(
            "shutdown timed out waiting for a database; the run will be resumed by the next process", extra={"action": "exit_forced"}
        )
        os._exit(3)

    timer = threading.Timer(seconds, leave)
    timer.daemon = True
    timer.start()


def token(options: argparse.Namespace) -> int:
    """Create, list or revoke tokens."""
    from auditor.service import tokens

    with settings_and_store(options) as (_, store):
        if options.action == "create":
            try:
                lifetime = dt.timedelta(seconds=parse_duration(options.expires)) if options.expires else None
            except (ValueError, OverflowError) as error:
                raise ConfigError(f"--expires: {error}") from None
            expires = dt.datetime.now(dt.UTC) + lifetime if lifetime else None
            limits = {"expires": expires, "audits": options.audits}
            print(tokens.create(store, name=options.name, scope=options.scope, by=current_user(), **limits))
        elif options.action == "revoke":
            tokens.revoke(store, options.name, by=current_user())
            if not options.quiet:
                print(f"{options.name} was revoked", file=sys.stderr)
        else:
            _print_tokens(tokens.list_tokens(store), options.format)
    return 0


def _print_tokens(tokens: list[Token], form: str) -> None:
    if form == "json":
        print_json(tokens)
        return
    from rich.table import Table

    table = Table("name", "scope", "audits", "created", "expires", "revoked", "last used", "made by", box=None, header_style="bold")
    for token in tokens:
        moments = (token.created_at, token.expires, token.revoked, token.last_used)
        table.add_row(
            token.name, token.scope, ", ".join(token.audits), *(f"{at:%Y-%m-%d %H:%M}" if at else "" for at in moments), token.created_by
        )
    console().print(table)


def pause(options: argparse.Namespace) -> int:
    """Stop scheduling an audit."""
    from auditor.service import audits

    with settings_and_store(options) as (configured, store):
        audits.pause(configured, store, options.audit, by=current_user())
    return 0


def unpause(options: argparse.Namespace) -> int:
    """Schedule a paused audit again."""
    from auditor.service import audits

    with settings_and_store(options) as (configured, store):
        audits.unpause(configured, store, options.audit, by=current_user())
    return 0


def crontab(options: argparse.Namespace) -> int:
    """Print a crontab and a Kubernetes CronJob."""
    from auditor.service import scheduler

    path = config.find_file(options.config)
    missing = [name for name in config.find_variables(path) if name not in os.environ]
    configured = config.load(path, {**config.stand_ins(path, missing), **os.environ})
    if missing:
        print(f"auditor: these variables are not set here, and what runs the lines needs them: {', '.join(missing)}", file=sys.stderr)
    if missing and configured.groups:
        print(f"auditor: audits of {', '.join(configured.groups)} are run, and not listed, as the store is not read", file=sys.stderr)
    with open_optional_store(configured, skip=bool(missing) or not configured.groups) as store:
        configured, _ = find_audits(configured, [], store)
    print(scheduler.crontab(configured, path, config.find_variables(path)), end="")
    return 0
