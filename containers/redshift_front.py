"""The front end of the Redshift stand-in for other containers: the one of the tests, which also copies from the bucket and unloads to it.

python redshift_front.py ADDRESS PORT UPSTREAM_HOST UPSTREAM_PORT NAME

ADDRESS is where it listens, NAME the host by which the PostgreSQL upstream reaches it. $AWS_ENDPOINT_URL_S3 is the URL of S3.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from tests.servers.redshift_serve import StrictFront  # mounted beside this file

DATABASE = "audit"


def main(address: str, port: str, upstream_host: str, upstream_port: str, name: str) -> None:
    """Serve until the process is terminated; no statement is logged, and none is refused that PostgreSQL takes."""
    with tempfile.TemporaryDirectory() as folder:
        switches = Path(folder, f"{DATABASE}.switches")
        switches.write_text("")
        switches.with_suffix(".s3").write_text(os.environ["AWS_ENDPOINT_URL_S3"])
        front = StrictFront((upstream_host, int(upstream_port)), None, Path(folder), address, name)
        asyncio.run(front.listen(int(port)))


if __name__ == "__main__":
    main(*sys.argv[1:])
