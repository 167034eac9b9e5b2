"""Commands about the service: serving, its tokens, its schedules."""

from __future__ import annotations

import argparse
import datetime as dt
import gc
import logging
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from auditor.cli._output import printer, stored, who

if TYPE_CHECKING:
    from auditor.store.tokens import Token

log = logging.getLogger(__name__)

REQUESTS = 2
"""Seconds of the time to end that requests have; those that hang must not take it from the runs."""

LEAVING = 1.0
"""Seconds of the time to end that are left for what Python does at its end."""

SWITCH = 0.0005
"""Seconds after which a thread that computes lets others go on. A request stops and goes on a dozen times: beside a thread that computes,
the list of audits took 75 ms with Python's own 5 ms, and takes 19 ms with this."""

YOUNG = 10_000
"""Objects that are made before any are looked through again; a page of runs makes some thousands, and nearly all go by themselves."""


def serve(options: argparse.Namespace) -> int:
    """Serve until asked to end; then runs end, or wait again where they stand."""
    import uvicorn

    from auditor import telemetry
    from auditor.api import check_exposure, create_app
    from auditor.api.behind import secrets_of
    from auditor.schedule import Ticker
    from auditor.service.queueing import Workers
    from auditor.store import runs, tokens

    with stored(options) as (configured, store):
        here = configured.service
        host, port = options.host or here.host, here.port if options.port is None else options.port
        telemetry.configure("console" if sys.stderr.isatty() else "json", "info", secrets_of(configured))
        telemetry.trace()
        check_exposure(configured, store, host, options.insecure)
        if not options.insecure and not tokens.any_valid(store):
            print("auditor: nobody has a token yet: auditor token create --scope run --name NAME", file=sys.stderr)
        workers = Workers(configured, store, here.workers)
        ticker = Ticker(configured, store, str(runs.this_process()))
        app = create_app(configured, store, workers=workers, ticker=ticker, insecure=options.insecure)
        address: dict[str, Any] = {"host": host, "port": port, "forwarded_allow_ips": list(here.proxies)}
        quiet: dict[str, Any] = {"log_config": None, "access_log": False, "server_header": False}
        server = uvicorn.Server(uvicorn.Config(app, **address, **quiet, timeout_graceful_shutdown=REQUESTS))
        _stand_by()
        workers.start()
        ticker.start()
        try:
            server.run()
        except KeyboardInterrupt:  # uvicorn ends well first, and tells the signal again
            pass
        finally:
            left = max(here.grace / 2, here.grace - REQUESTS - LEAVING)
            _leave_in(left + LEAVING)
            ticker.stop()
            workers.stop(left)
    return 0 if server.started else 3


def _stand_by() -> None:
    """Let threads stop each other for moments only.

    What was loaded so far stays, and is never looked through again: that stopped every thread for a tenth of a second each time
    (https://docs.python.org/3/library/gc.html#gc.freeze).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, 20, 20)
    sys.setswitchinterval(SWITCH)


def _leave_in(seconds: float) -> None:
    """End this process in so many seconds if it has not ended: a thread whose database does not answer would hold it at its end."""

    def leave() -> None:
        log.warning("what a database does not answer to is left; the next process takes its run up", extra={"action": "left"})
        os._exit(3)

    timer = threading.Timer(seconds, leave)
    timer.daemon = True
    timer.start()


def token(options: argparse.Namespace) -> int:
    """Make, list or revoke tokens."""
    from auditor.config import seconds
    from auditor.errors import ConfigError
    from auditor.service import tokens
    from auditor.store import tokens as kept

    with stored(options) as (_, store):
        if options.action == "create":
            try:
                lives = dt.timedelta(seconds=seconds(options.expires)) if options.expires else None
            except (ValueError, OverflowError) as error:
                raise ConfigError(f"--expires: {error}") from None
            expires = dt.datetime.now(dt.UTC) + lives if lives else None
            print(tokens.create(store, name=options.name, scope=options.scope, expires=expires, by=who()))
        elif options.action == "revoke":
            tokens.revoke(store, options.name, by=who())
            print(f"{options.name} was revoked", file=sys.stderr)
        else:
            _list([one for one in kept.listed(store) if not one.is_session])
    return 0


def _list(found: list[Token]) -> None:
    from rich.table import Table

    table = Table("name", "scope", "made", "expires", "revoked", "last used", box=None, header_style="bold")
    for one in found:
        moments = (one.made, one.expires, one.revoked, one.last_used)
        table.add_row(one.name, one.scope, *(f"{at:%Y-%m-%d %H:%M}" if at else "" for at in moments))
    printer().print(table)


def pause(options: argparse.Namespace) -> int:
    """Let an audit rest from its schedule."""
    from auditor.service import audits

    with stored(options) as (configured, store):
        audits.pause(configured, store, options.audit, by=who())
    return 0


def unpause(options: argparse.Namespace) -> int:
    """Let an audit follow its schedule again."""
    from auditor.service import audits

    with stored(options) as (configured, store):
        audits.unpause(configured, store, options.audit, by=who())
    return 0


def crontab(options: argparse.Namespace) -> int:
    """Print lines for cron and Kubernetes."""
    from auditor import config, schedule

    path = config.find(options.config)
    print(schedule.crontab(config.load(path), path), end="")
    return 0
