"""Commands about the service: serving, its tokens, its schedules."""

from __future__ import annotations

import argparse
import datetime as dt
import sys
from typing import TYPE_CHECKING

from auditor.cli._output import printer, stored, who

if TYPE_CHECKING:
    from auditor.store.tokens import Token


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
        # Requests that hang must not take from the runs the time that they have to end.
        server = uvicorn.Server(
            uvicorn.Config(app, host=host, port=port, log_config=None, access_log=False, server_header=False, timeout_graceful_shutdown=2)
        )
        workers.start()
        ticker.start()
        try:
            server.run()
        except KeyboardInterrupt:  # uvicorn ends well first, and tells the signal again
            pass
        finally:
            ticker.stop()
            workers.stop(here.grace)
    return 0 if server.started else 3


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
            _list(kept.listed(store))
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
