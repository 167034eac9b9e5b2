"""The front of the Redshift stand-in for other containers: the tests' own, which listens on loopback, on every address of this one.

python serve.py PORT UPSTREAM_HOST UPSTREAM_PORT
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from redshift_front import Front  # beside this file in the container


class Reachable(Front):
    """Listens on every address."""

    async def listen(self, port: int) -> None:
        """Converse with whoever connects."""
        server = await asyncio.start_server(self._converse, "0.0.0.0", port)
        await server.serve_forever()


def main(port: str, upstream_host: str, upstream_port: str) -> None:
    """Serve until the process is ended; what clients say is not kept."""
    with Path(os.devnull).open("a", encoding="utf-8") as nowhere:
        asyncio.run(Reachable((upstream_host, int(upstream_port)), nowhere).listen(int(port)))


if __name__ == "__main__":
    main(*sys.argv[1:])
