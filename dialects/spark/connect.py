"""A session over Spark Connect, each of whose waits ends on its own.

The client has no limit on its waits that all versions share, and its calls cannot be interrupted: each runs in a thread of its own,
which nobody waits for longer than the call may take. Closing the channel then ends the call.
https://spark.apache.org/docs/latest/spark-connect-overview.html
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import quote

from dialects import errors, extras, session
from dialects.base import ColumnBatch, Dialect, Session, arrow_columns
from dialects.durations import durations
from dialects.oldest_versions import OldestVersion
from dialects.session import text_length
from dialects.spark import settings
from dialects.spark.lakes import LakeSession
from dialects.spark.session import first_line, translate_error
from dialects.url import Url

T = TypeVar("T")

FORWARDED = frozenset({"token", "use_ssl", "user_id", "user_agent", "session_id"})
"""Options of a URL that the client knows. https://spark.apache.org/docs/latest/spark-connect-overview.html, and its
docs/client-connection-string.md; those that begin with x- become headers, as Databricks' x-databricks-cluster-id."""

ANSI = "TYPEOF(COALESCE(1, '1')) = 'bigint'"
"""True in ANSI mode alone, in which a number beside a text makes a number. https://spark.apache.org/docs/latest/sql-ref-ansi-compliance.html"""

MICROSECONDS = "DATE_FORMAT(TIMESTAMP_NTZ'2001-02-03 04:05:06.000007', 'SSSSSS')"
"""``000007``, but ``000000`` under the legacy policy of formatting times.
https://spark.apache.org/docs/latest/sql-ref-datetime-pattern.html"""

NOT_SETTABLE = re.compile("CONFIG_NOT_AVAILABLE|CANNOT_MODIFY_CONFIG")
"""How a service refuses to change a setting."""

NOT_VERIFIED = re.compile("CERTIFICATE_VERIFY_FAILED|Verification Check failed", re.IGNORECASE)
"""How gRPC says that the server is not the one that the URL asks for."""

ALIASES = {"cluster_id": "x-databricks-cluster-id"}
OWN_OPTIONS = frozenset({"connect_timeout"})


class ConnectSession(LakeSession):
    """A session on a Spark Connect server; ``cancel`` interrupts every statement that runs in it.

    While it is pinned the server has to answer within ``patience`` seconds. From ``wait_for_statements`` on a statement may run as long as
    its time limit; then it is interrupted, since Spark has no limit of its own, and its channel closed if the server does not end it.
    """

    def __init__(self, dialect: Dialect, spark: Any, where: str, patience: float) -> None:
        super().__init__(dialect, "")
        self.spark = spark
        self.where = where
        self._patience = patience
        self._statement_timeout: float | None = None
        self._changed = threading.Condition()
        self._deadline: float | None = None
        """When (monotonic seconds) the current wait ends; None if there is none."""
        self._is_cancelled = False
        self._interrupter: threading.Thread | None = None
        self._result_bytes = 0

    def wait_for_statements(self, statement_timeout: float) -> None:
        """Let each statement run this many seconds from now on."""
        self._statement_timeout = statement_timeout
        self.statements = 0

    def read_version(self) -> None:
        """Ask the server for its version; the first call that reaches it."""
        self.server = f"Spark {self._ask(lambda: self.spark.version)}"

    def pin(self, statement_timeout: float, lock_timeout: float) -> None:
        """Fix the settings, where the service allows to, and check that they are as they must be.

        Serverless services refuse to set most; what they have instead is the default, which does.
        https://docs.databricks.com/aws/en/spark/conf#configure-spark-properties-for-serverless-notebooks-and-jobs
        """
        for statement in self.dialect.pin_statements(statement_timeout, lock_timeout):
            try:
                self.execute(statement)
            except errors.EngineError as error:
                if not NOT_SETTABLE.search(str(error)):
                    self.close()
                    raise
        settings.restore(self.where, lambda: self._ask(lambda: dict(self.spark.conf.getAll)), self._write_setting)
        odd = "\\ '\"${x}"
        asked = f"CURRENT_TIMEZONE(), {self.dialect.names.string_literal(odd)}, {ANSI}, {MICROSECONDS}"
        zone, text, ansi, micros = self.query(f"SELECT {asked}")[0]
        if (zone, text, ansi, micros) != ("UTC", odd, True, "000007"):
            self.close()
            raise errors.StatementRefused(
                f"{self.where}: the server keeps settings on which results depend: time zone {zone}, text literals"
                f" {'as they must be' if text == odd else 'changed'}, ANSI mode {'on' if ansi else 'off'}, microseconds"
                f" {'printed' if micros == '000007' else 'lost'}; there, set spark.sql.session.timeZone = UTC,"
                " spark.sql.parser.escapedStringLiterals = false, spark.sql.variable.substitute = false, spark.sql.ansi.enabled = true and"
                " spark.sql.legacy.timeParserPolicy = CORRECTED"
            )
        self.statements = 0

    def _write_setting(self, name: str, value: str) -> None:
        self._ask(lambda: self.spark.conf.set(name, value))

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        stated = self.at_one_state(sql)
        rows = self._ask(lambda: [tuple(row) for row in self.spark.sql(stated).collect()])
        self._result_bytes += text_length(rows)
        return rows

    def execute(self, sql: str) -> None:
        self._ask(lambda: self.spark.sql(sql))

    def stream(self, sql: str) -> Iterator[ColumnBatch]:
        stated = self.at_one_state(sql)
        table = self._ask(lambda: self.spark.sql(stated).toArrow())
        self._result_bytes += table.nbytes
        for batch in table.to_batches():
            yield arrow_columns(batch)

    def bytes_received(self) -> int:
        return self._result_bytes

    def cancel(self) -> None:
        """Ask the server, in a thread that nobody waits for, to interrupt what runs; no effect if nothing does.

        A statement that has not ended CANCEL_GRACE seconds later loses its channel.
        """
        with self._changed:
            if self._deadline is None:
                return
            self._is_cancelled = True
            self._deadline = min(self._deadline, time.monotonic() + durations().cancel_grace)
            self._changed.notify_all()
        self._interrupt()

    def close(self) -> None:
        """Release the session on the server, and close the channel; a server that is slow to answer is not waited for much longer.

        Both end here, while the program runs: a channel that is still open when the interpreter ends keeps it from ending.
        """
        released = in_thread(self._release, "release")
        with suppress(TimeoutError):
            released.result(durations().cancel_grace + durations().close_grace)

    def _release(self) -> None:
        closer = threading.Timer(durations().cancel_grace, self._close_channel)
        closer.daemon = True
        closer.start()
        with suppress(Exception):  # the server ends the session after an hour without a statement
            self.spark.client.release_session()
        closer.cancel()
        self._close_channel()

    def _ask(self, work: Callable[[], T]) -> T:
        """Return what ``work`` returns, waiting for it as long as the server may take. Raises errors of ``dialects.errors``."""
        answer = in_thread(work, "statement")
        answer.add_done_callback(lambda _: self._notify())
        limit = self._patience if self._statement_timeout is None else self._statement_timeout
        is_interrupted = False
        with self._changed:
            self._is_cancelled, self._deadline = False, time.monotonic() + limit
            self._wait_for(answer)
            if not answer.done() and not self._is_cancelled and self._statement_timeout is not None:
                is_interrupted, self._deadline = True, time.monotonic() + durations().silence_grace
                self._interrupt()
                self._wait_for(answer)
            self._deadline = None
        if not answer.done():
            in_thread(self._close_channel, "close")
            raise self._cause_of_cut()
        self.statements += 1
        if error := answer.exception():
            raise self._translate(error, is_interrupted) from error
        return answer.result()

    def _wait_for(self, answer: Future[Any]) -> None:
        """Wait until there is an answer, or the deadline, which may be brought forward meanwhile, has passed."""
        while not answer.done() and self._deadline and (left := self._deadline - time.monotonic()) > 0:
            self._changed.wait(left)

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _interrupt(self) -> None:
        # The Spark session is not shared, so all its operations may be interrupted. Tags belong to the thread that set them.
        if self._interrupter is None or not self._interrupter.is_alive():
            self._interrupter = threading.Thread(target=self._request_interrupt, name="cancel", daemon=True)
            self._interrupter.start()

    def _request_interrupt(self) -> None:
        with suppress(Exception):  # the statement may have ended meanwhile; else its channel is closed
            self.spark.interruptAll()

    def _close_channel(self) -> None:
        with suppress(Exception):  # the channel may be closed already
            self.spark.client.close()

    def _cause_of_cut(self) -> errors.AuditorError:
        if self._is_cancelled:
            return errors.StatementCancelled(
                f"a statement was cancelled, and the server did not end it within {durations().cancel_grace:g} s"
            )
        if self._statement_timeout is None:
            return session.no_answer(self.where, self._patience)
        return errors.ServerSilent(
            f"{self.where}: no answer to a statement that ran longer than {self._statement_timeout:g} s, nor within"
            f" {durations().silence_grace:g} s to its cancellation; check that the server is not stuck, and what is between it and"
            " this host"
        )

    def _translate(self, error: BaseException, is_interrupted: bool) -> BaseException:
        """Return the error of ``dialects.errors`` for one of the client, else the error itself."""
        if not isinstance(error, Exception):
            return error
        if self._statement_timeout is None:
            known = errors.NotVerified if NOT_VERIFIED.search(str(error)) else errors.Unreachable
            return known(f"{self.where}: {_describe(error)}")
        if is_interrupted:
            return errors.StatementTimeout(f"a statement ran longer than {self._statement_timeout:g} s and was cancelled")
        if "StatusCode.UNAVAILABLE" in str(error):
            return errors.ConnectionLost(f"{self.where}: {_describe(error)}")
        return translate_error(error) or error


def _describe(error: Exception) -> str:
    """Return what a call failed with in one line; the text of gRPC's own errors has it in the middle."""
    details = re.search(r'details = "(.*)"', str(error))
    return details.group(1) if details else first_line(error)


def in_thread(work: Callable[[], T], name: str) -> Future[T]:
    """Run ``work`` in a daemon thread; return its outcome, which may never come."""
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return outcome


def connection_string(url: Url, default_port: int | None) -> str:
    """Return the client's own form of a URL, with the options that it knows. Raises BadUrl for any other."""
    given = {ALIASES.get(name, name): value for name, value in url.options.items() if name not in OWN_OPTIONS}
    hint = "headers begin with x-"
    url.refuse_unknown({*FORWARDED, *ALIASES, *OWN_OPTIONS}, lambda name: name.startswith(("x-", "grpc_")), hint)
    parameters = "".join(f";{name}={quote(value, safe='')}" for name, value in given.items())
    return f"sc://{url.host}:{url.port or default_port}/{parameters}"


def connect(dialect: Dialect, url: Url, statement_timeout: float, lock_timeout: float, oldest: OldestVersion) -> Session:
    """Open a session on a Spark Connect server. Raises DriverMissing, and Unreachable if the server does not answer."""
    try:
        # Not by SparkSession.builder.remote(): it keeps Spark from running in this process too.
        from pyspark.sql.connect.session import SparkSession as Driver
    except ImportError as error:
        raise errors.DriverMissing(f"Spark Connect needs further packages ({error}); run: {extras.install_command('connect')}") from None
    patience = url.patience
    spark = Driver(connection=connection_string(url, dialect.addresses.DEFAULT_PORT))  # the channel is opened by the first call
    spark.client.set_retry_policies([])  # a run retries itself, and knows when to stop
    opened = ConnectSession(dialect, spark, str(url), patience)
    opened.reached = "by TLS, verified" if url.flag("use_ssl") else "in clear"  # the client verifies by this machine's authorities
    try:
        opened.read_version()
        oldest.check(str(opened.server).removeprefix("Spark "), str(url))
        opened.pin(statement_timeout, lock_timeout)
        if url.database:
            opened.execute(f"USE {dialect.names.quote(url.database)}")
    except BaseException:
        opened.close()
        raise
    opened.wait_for_statements(statement_timeout)
    return opened
