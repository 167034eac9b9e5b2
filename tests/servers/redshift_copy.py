"""COPY from S3 on the Redshift stand-in: delimited files of a manifest, with escapes, as the manual has it.

The front fetches the files, and sends them to the program from which the server copies: into a table of texts first, because a VARBYTE is
read from its digits. https://docs.aws.amazon.com/redshift/latest/dg/r_COPY.html
"""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

from pyarrow.fs import S3FileSystem

from tests.servers.redshift_unload import Unloads

_COPY = re.compile(
    r"\s*copy\s+(\S+)\s+\(([^)]*)\)\s+from\s+'(s3://[^']+)'\s+iam_role\s+(?:default|'arn:aws:iam::\d{12}:role/[\w+=,.@/-]+')\s*(.*)",
    re.IGNORECASE | re.DOTALL,
)
_OPTIONS = re.compile(
    r"(?:manifest|delimiter\s+'\\t'|escape|(?:date|time)format\s+'auto'|(?:comp|stat)update\s+off)(?:\s+|$)", re.IGNORECASE
)
LONGEST_LINE = 4 << 20
"""https://docs.aws.amazon.com/redshift/latest/dg/r_COPY.html"""

_NUMBERS = itertools.count(1)


class Copying:
    """The COPY statements of one session; ``endpoint`` is the file that holds the URL of S3, if there is any."""

    def __init__(self, unloads: Unloads, endpoint: Path) -> None:
        self._unloads = unloads
        self._endpoint = endpoint

    def in_place_of(self, sql: str) -> str | None:
        """Return the statement that copies instead; None for any other statement. Raises ValueError for what the manual does not allow."""
        if not re.match(r"\s*copy\b.*\sfrom\s+'s3:", sql, re.IGNORECASE | re.DOTALL):
            return None
        found = _COPY.fullmatch(sql)
        if not found or _OPTIONS.sub("", found.group(4)).strip(" ;\n") or not re.search("manifest.*escape", found.group(4), re.IGNORECASE):
            raise ValueError('syntax error at or near "copy"')
        if not self._endpoint.exists():
            raise ValueError("S3ServiceException: Access Denied,Status 403,Error AccessDenied")
        number = f"copy {next(_NUMBERS)}"
        self._unloads.contents[number] = fetch(found.group(3), self._endpoint.read_text().strip())
        program = f"bash -c 'exec 3<>/dev/tcp/{self._unloads.host}/{self._unloads.port}; echo {number} >&3; cat <&3'"
        table, columns, source = (part.replace("'", "''") for part in (found.group(1), found.group(2), program))
        return f"SELECT redshift_functions.copy_from('{table}', '{columns}', '{source}')"


def fetch(manifest: str, endpoint: str) -> bytes:
    """Return the files of a manifest, one behind the other.

    Raises ValueError for one that is missing although it is mandatory, if none is there, for one of another length than the manifest says,
    and for a row of 4 MB. https://docs.aws.amazon.com/redshift/latest/dg/loading-data-files-using-manifest.html
    """
    files = S3FileSystem(endpoint_override=endpoint, region="us-east-1", access_key="tests", secret_key="tests")
    try:
        with files.open_input_stream(manifest.removeprefix("s3://")) as stream:
            entries = json.loads(stream.read())["entries"]
    except FileNotFoundError:
        raise ValueError("Problem reading manifest file - S3ServiceException:The specified key does not exist.,Status 404") from None
    contents = []
    for entry in entries:
        if set(entry) - {"url", "mandatory", "meta"} or not str(entry["url"]).startswith("s3://"):
            raise ValueError(f"Problem reading manifest file - invalid entry {entry}")
        try:
            with files.open_input_file(str(entry["url"]).removeprefix("s3://")) as file:
                contents.append(file.read(file.size()))  # by one request: moto copies the whole file for each
        except FileNotFoundError:
            if entry.get("mandatory"):  # by default a missing file is no error
                raise ValueError(f"Mandatory url is not present in manifest file {entry['url']}") from None
            continue
        stated = entry.get("meta", {}).get("content_length", len(contents[-1]))
        if stated != len(contents[-1]):
            raise ValueError(f"The length {len(contents[-1])} of {entry['url']} is not the {stated} of the manifest")
    if not contents:
        raise ValueError("The specified S3 prefix does not exist")
    if any(map(_has_long_line, contents)):
        raise ValueError("Row size exceeds the limit of 4194304 bytes. Check 'sys_load_error_detail' system table for details.")
    return b"".join(contents)


def _has_long_line(content: bytes) -> bool:
    start = 0
    while len(content) - start >= LONGEST_LINE:
        end = content.rfind(b"\n", start, start + LONGEST_LINE)
        if end < 0:
            return True
        start = end + 1
    return False
