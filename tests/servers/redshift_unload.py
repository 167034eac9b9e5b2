"""UNLOAD on the Redshift stand-in: the result of a query as Parquet files and a manifest on S3, strictly as the manual has it.

The front sends COPY TO PROGRAM in its place, so that the query runs in the session and its snapshot, and receives what COPY prints on a
port of its own. https://docs.aws.amazon.com/redshift/latest/dg/r_UNLOAD.html
"""

from __future__ import annotations

import asyncio
import csv
import io
import itertools
import json
import re
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow
import pyarrow.parquet
from pyarrow.fs import FileType, S3FileSystem

END = "END-OF-UNLOAD"
FILES = 2
"""Files that are written, as by so many slices."""

_UNLOAD = re.compile(r"\s*unload\s*\(\s*'((?:[^']|'')*)'\s*\)\s*to\s*'(s3://[^']+)'\s*(.*)", re.IGNORECASE | re.DOTALL)
_ROLE = re.compile(r"iam_role\s+(?:default|'arn:aws:iam::\d{12}:role/[\w+=,.@/-]+')\s*(.*)", re.IGNORECASE | re.DOTALL)
_OPTIONS = re.compile(
    r"(?:format\s+(?:as\s+)?parquet|manifest(?:\s+verbose)?|maxfilesize\s+(?:as\s+)?\d+(?:\.\d+)?\s*(?:mb|gb)|parallel\s+on"
    r"|allowoverwrite|region\s+(?:as\s+)?'[\w-]+')(?:\s+|$)",
    re.IGNORECASE,
)


@dataclass
class Unloads:
    """The files that one front writes."""

    host: str = "127.0.0.1"
    """Where the PostgreSQL behind the front reaches it."""
    port: int = 0
    places: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By the number of an UNLOAD: where its files go, and the URL of S3."""

    contents: dict[str, bytes] = field(default_factory=dict)
    """By the number of a COPY from S3: what it reads."""

    async def listen(self, address: str) -> None:
        """Receive what COPY prints, and send what it reads, on a free port of ``address``."""
        server = await asyncio.start_server(self._receive, address, 0, limit=1 << 26)
        self.port = int(server.sockets[0].getsockname()[1])

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = (await reader.readline()).decode().strip()
        if number in self.contents:
            writer.write(self.contents.pop(number))
            await writer.drain()
            writer.close()
            return
        lines = []
        while (line := (await reader.readline()).decode()).strip() != END:
            lines.append(line)
        (process_id,), *records = csv.reader(io.StringIO("".join(lines)))
        write_files([json.loads(one[0]) for one in records], *self.places.pop(number))
        writer.write(f"ok {process_id} {len(records)}\n".encode())
        await writer.drain()
        writer.close()


_NUMBERS = itertools.count(1)


class Unloading:
    """The UNLOAD statements of one session; ``endpoint`` is the file that holds the URL of S3, if there is any."""

    def __init__(self, unloads: Unloads, endpoint: Path) -> None:
        self._unloads = unloads
        self._endpoint = endpoint

    def in_place_of(self, sql: str) -> tuple[str, str] | None:
        """Return an UNLOAD's query and how it is wrapped (``{query}``); None for any other statement.

        Raises ValueError with the error's text for what the manual does not allow.
        """
        if not re.match(r"\s*unload\b", sql, re.IGNORECASE):
            return None
        query, to = parse(sql)
        if not self._endpoint.exists():
            raise ValueError("S3ServiceException: Access Denied,Status 403,Error AccessDenied")
        number = str(next(_NUMBERS))
        self._unloads.places[number] = to, self._endpoint.read_text().strip()
        send = f"exec 3<>/dev/tcp/{self._unloads.host}/{self._unloads.port}; echo {number} >&3; cat >&3; echo {END} >&3"
        keep = 'read -r answer pid count <&3; test "$answer" = ok && echo $count > unload_count_$pid'
        rows = "SELECT CAST(pg_backend_pid() AS TEXT) UNION ALL SELECT CAST(row_to_json(u) AS TEXT) FROM ({query}) u"
        return query, f"COPY ({rows}) TO PROGRAM 'bash -c ''{send}; {keep}''' WITH (FORMAT csv)"


def parse(sql: str) -> tuple[str, str]:
    """Return the query and the destination of an UNLOAD. Raises ValueError for what the manual does not allow."""
    found = _UNLOAD.fullmatch(sql)
    authorized = _ROLE.fullmatch(found.group(3)) if found else None
    if not found or not authorized or _OPTIONS.sub("", authorized.group(1)).strip(" ;\n"):
        raise ValueError('syntax error at or near "unload"')
    query = found.group(1).replace("''", "'")
    if re.search(r"\blimit\s+\d+\s*$", query, re.IGNORECASE):
        raise ValueError("LIMIT clause is not supported for the outer SELECT of UNLOAD")
    if not re.search(r"\bparquet\b", authorized.group(1), re.IGNORECASE) or not re.search(
        r"\bmanifest\b", authorized.group(1), re.IGNORECASE
    ):
        raise ValueError("the stand-in for Redshift unloads nothing but Parquet with a manifest")
    return query, found.group(2)


def write_files(rows: list[dict[str, object]], to: str, endpoint: str) -> None:
    """Write rows and the manifest; of no rows, the manifest of no files."""
    files = S3FileSystem(endpoint_override=endpoint, region="us-east-1", access_key="tests", secret_key="tests")
    prefix = to.removeprefix("s3://")
    entries = []
    for number in range(FILES):
        some = rows[number::FILES]
        if not some:
            continue
        table = pyarrow.Table.from_pylist(some)
        strings = [one.with_type(pyarrow.string()) if one.type == pyarrow.null() else one for one in table.schema]
        path = f"{prefix}{number:04}_part_00.parquet"
        if files.get_file_info(path).type != FileType.NotFound:
            raise ValueError("Specified unload destination on S3 is not empty")
        pyarrow.parquet.write_table(table.cast(pyarrow.schema(strings)), path, filesystem=files)
        entries.append({"url": f"s3://{path}", "meta": {"content_length": files.get_file_info(path).size, "record_count": len(some)}})
    with files.open_output_stream(f"{prefix}manifest") as manifest:
        manifest.write(json.dumps({"entries": entries}).encode())
