"""The front end of the Redshift stand-in for other containers: the one of the tests, but listening on all addresses, not on loopback.

python serve.py PORT UPSTREAM_HOST UPSTREAM_PORT
"""

from __future__ import annotations

import asyncio
import sys

from redshift_front import Front  # beside this file in the container


class Reachable(Front):
    """The front end, listening on all addresses."""

    async def listen(self, port: int) -> None:
        """Accept connections on ``port`` until cancelled."""
        server = await asyncio.start_server(self._converse, "0.0.0.0", port)
        await server.serve_forever()


def main(port: str, upstream_host: str, upstream_port: str) -> None:
    """Serve until the process is terminated; the log of the clients' statements is discarded."""
    asyncio.run(Reachable((upstream_host, int(upstream_port)), None).listen(int(port)))


if __name__ == "__main__":
    main(*sys.argv[1:])
