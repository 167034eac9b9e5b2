"""The process of the Redshift stand-in's front: as strict, in each database, as the database's file of switches says.

    python -c "from tests.servers import redshift_serve; redshift_serve.main(...)" PORT UPSTREAM_HOST UPSTREAM_PORT LOGS

LOGS/DATABASE.switches holds the behaviours that are on (redshift_strict.py), one per line; without the file all of STRICT are. It is read
when a connection begins.
"""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

from tests.servers import redshift_strict
from tests.servers.redshift_copy import Copying
from tests.servers.redshift_front import Front, Manner
from tests.servers.redshift_unload import Unloading, Unloads


class StrictFront(Front):
    """The front of the tests, which finds the switches of databases in ``switches``; ``name``: the host where PostgreSQL reaches it."""

    def __init__(
        self, upstream: tuple[str, int], logs: Path | None, switches: Path, address: str = "127.0.0.1", name: str = "127.0.0.1"
    ) -> None:
        super().__init__(upstream, logs, address)
        self._switches = switches
        self._unloads = Unloads(name)

    async def listen(self, port: int) -> None:
        """Serve every connection, and receive what is unloaded."""
        await self._unloads.listen(self._address)
        await super().listen(port)

    def _manner(self, database: str) -> Manner:
        file = self._switches / f"{Path(database).name}.switches"
        endpoint = file.with_suffix(".s3")
        on = frozenset(file.read_text().split()) if file.exists() else redshift_strict.STRICT
        return Manner(
            parameters={"options": f"-c search_path={redshift_strict.search_path(on)}"},
            statement=_Strictness(on, Unloading(self._unloads, endpoint), Copying(self._unloads, endpoint)).statement,
            answer=redshift_strict.in_amazons_words if redshift_strict.MESSAGES in on else bytes,
        )


class _Strictness:
    """What becomes of the statements of one session."""

    def __init__(self, on: frozenset[str], unloading: Unloading, copying: Copying) -> None:
        self._on = on
        self._copying = copying
        self._unloading = unloading
        self._folds_names = redshift_strict.NAMES in on

    def statement(self, sql: str) -> str:
        """The statement, or one that fails as Redshift refuses it, so that the transaction fails as well."""
        if re.match(r"\s*set\s+enable_case_sensitive_identifier\s+to\s+true", sql, re.IGNORECASE):
            self._folds_names = False
        try:
            unloaded = self._unloading.in_place_of(sql)
            copied = self._copying.in_place_of(sql)
        except ValueError as error:
            return _failure("0A000", str(error))
        if copied:
            return copied
        if unloaded:
            query, wrapped = unloaded
            return wrapped.replace("{query}", self.statement(query))
        refused = redshift_strict.refusal(sql, self._on)
        if refused is None:
            return redshift_strict.folded(sql) if self._folds_names else sql
        return _failure(*refused)


def _failure(state: str, message: str) -> str:
    message = message.replace("'", "''")
    return f"SELECT redshift_functions.fail('{state}', '{message}')"


def main() -> None:
    """Serve until the process is ended."""
    port, upstream_host, upstream_port, logs = sys.argv[1:]
    asyncio.run(StrictFront((upstream_host, int(upstream_port)), Path(logs), Path(logs)).listen(int(port)))
