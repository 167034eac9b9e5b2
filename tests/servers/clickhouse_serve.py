"""The process of the ClickHouse stand-in: takes requests of ClickHouse's HTTP interface, and has chdb run their statements.

    python -c "from tests.servers import clickhouse_serve; clickhouse_serve.main(...)" PORT HOME

Each request has a connection of its own, so that nothing is left of the settings that came with it. A user is one of PROFILES, whose
settings hold before those of the request, as a profile of the server does. An error is an HTTP status with its code in a header. Results
are sent as a whole, and compressed where the client takes it.
https://clickhouse.com/docs/interfaces/http
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

TRANSPORT = frozenset({
    "query", "database", "query_id", "session_id", "session_timeout", "session_check", "wait_end_of_query", "buffer_size", "compress",
    "decompress", "enable_http_compression", "default_format", "client_protocol_version", "quota_key", "role",
    "send_progress_in_http_headers", "http_headers_progress_interval_ms", "cancel_http_readonly_queries_on_client_close",
})  # fmt: skip
"""Parameters of a request that are no settings of its statement, or say how the server speaks HTTP."""

PASSWORD = "audit"
PROFILES: dict[str, dict[str, str]] = {
    "auditor": {},
    "reader": {"readonly": "2"},
    "locked": {"readonly": "1"},
    "cutting": {
        "max_result_rows": "3", "result_overflow_mode": "break", "max_rows_to_group_by": "2", "group_by_overflow_mode": "any",
        "limit": "2", "final": "0",
    },
    "limited": {"max_rows_to_read": "5", "read_overflow_mode": "break"},
    "strange": {
        "join_use_nulls": "0", "session_timezone": "Asia/Tokyo", "aggregate_functions_null_for_empty": "0", "cast_keep_nullable": "0",
        "prefer_column_name_to_alias": "0", "date_time_output_format": "unix_timestamp", "transform_null_in": "1",
        "precise_float_parsing": "0", "asterisk_include_materialized_columns": "1",
    },
}  # fmt: skip
"""Settings of the server's profiles, by user."""

CONFIGURATION = "<clickhouse><merge_tree><allow_nullable_key>1</allow_nullable_key></merge_tree></clickhouse>"
"""Test tables have keys of the same types as other columns, which may be NULL."""

_KILL = re.compile(r"(?is)^(\s*KILL\s+QUERY\s+WHERE\s+)query_id = ('[^']*')")


class Refused(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, code: int, text: str) -> None:
        super().__init__(text)
        self.status, self.code, self.text = status, code, text


class Engine:
    """chdb over a directory."""

    def __init__(self, home: Path) -> None:
        configuration = home / "configuration.xml"
        configuration.write_text(CONFIGURATION)
        self._place = f"{home / 'data'}?config-file={configuration}"
        self._first = self._connect()  # the engine lives as long as a connection does

    def _connect(self) -> Any:
        import chdb

        return chdb.connect(self._place)  # type: ignore[no-untyped-call]

    def run(self, sql: str, parameters: dict[str, str], profile: dict[str, str]) -> bytes:
        """Run a statement and return its result in its format."""
        connection = self._connect()
        try:
            _set(connection, {"log_comment": parameters.get("query_id", "")} | profile)
            _set(connection, {name: value for name, value in parameters.items() if name not in TRANSPORT})
            if database := parameters.get("database"):
                self._query(connection, f"USE `{database}`")
            return self._query(connection, _KILL.sub(r"\1Settings['log_comment'] = \2", sql))
        finally:
            connection.close()

    @staticmethod
    def _query(connection: Any, sql: str) -> bytes:
        try:
            return bytes(connection.query(sql, "TabSeparated").bytes())
        except RuntimeError as error:
            raise _refused(str(error)) from error


def _set(connection: Any, settings: dict[str, str]) -> None:
    """Apply settings as the server does: all at once, and ``readonly`` after the others."""
    ordered = sorted(settings.items(), key=lambda setting: setting[0] == "readonly")
    literals = {name: value.replace("\\", "\\\\").replace("'", "\\'") for name, value in ordered}
    for some in ([name for name in literals if name != "readonly"], [name for name in literals if name == "readonly"]):
        if some:
            try:
                connection.query("SET " + ", ".join(f"{name} = '{literals[name]}'" for name in some), "TabSeparated")
            except RuntimeError as error:
                raise _refused(str(error)) from error


def _refused(text: str) -> Refused:
    found = re.search(r"Code: (\d+)", text)
    code = int(found[1]) if found else 1002
    return Refused({60: 404, 81: 404, 497: 403, 516: 403, 164: 500}.get(code, 500), code, text)


class Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # a body after its head would wait for an acknowledgement that the client delays
    engine: Engine

    def do_POST(self) -> None:
        """Answer a statement, in the body, or begun in the parameter ``query``."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._answer(body.decode("utf-8", "surrogateescape"))

    def do_GET(self) -> None:
        """Answer a statement in the parameter ``query``, or that the server lives."""
        self._answer("")

    def _answer(self, body: str) -> None:
        parts = urlsplit(self.path)
        parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
        try:
            profile = self._profile()
            sql = "\n".join(part for part in (parameters.get("query", ""), body) if part)
            result = self.engine.run(sql, parameters, profile) if sql else b"Ok.\n"
            self._send(200, result, {"X-ClickHouse-Query-Id": parameters.get("query_id", "")}, parameters)
        except Refused as refused:
            self._send(refused.status, refused.text.encode(), {"X-ClickHouse-Exception-Code": str(refused.code)}, {})

    def _profile(self) -> dict[str, str]:
        scheme, _, token = (self.headers.get("Authorization") or "").partition(" ")
        user, _, password = base64.b64decode(token).decode().partition(":") if scheme == "Basic" else ("default", "", "")
        if user not in PROFILES or password != PASSWORD:
            raise Refused(
                403,
                516,
                f"Code: 516. DB::Exception: {user}: Authentication failed: password is incorrect, or there is no user with such name."
                " (AUTHENTICATION_FAILED) (version 26.9.2.1 (official build))",
            )
        return PROFILES[user]

    def _send(self, status: int, data: bytes, headers: dict[str, str], parameters: dict[str, str]) -> None:
        taken = self.headers.get("Accept-Encoding") or ""
        if parameters.get("enable_http_compression") == "1" and "gzip" in taken and len(data) > 1000:
            data, headers = gzip.compress(data, 1), headers | {"Content-Encoding": "gzip"}
        self.send_response(status)
        for name, value in (
            {"Content-Type": "application/octet-stream", "X-ClickHouse-Timezone": "Etc/UTC", "X-ClickHouse-Summary": json.dumps({})}
            | headers
        ).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing of a request that went well."""


class Listener(ThreadingHTTPServer):
    """The server."""

    daemon_threads = True
    request_queue_size = 128


def main() -> None:
    """Serve on the port until the process is ended."""
    port, home = int(sys.argv[1]), Path(sys.argv[2])
    Handler.engine = Engine(home)
    Listener(("127.0.0.1", port), Handler).serve_forever()
