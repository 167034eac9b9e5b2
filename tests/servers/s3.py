"""Amazon S3 as moto imitates it, in a process of its own.

https://docs.getmoto.org/en/latest/docs/server_mode.html
"""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from tests.servers.process import Daemon, Server, free_port, own_directory


def start(directory: Path) -> Server:
    """Start S3 without a bucket; it takes any credentials."""
    home, port = own_directory(directory, "s3"), free_port()
    serve = f"from moto.server import main; main(['-H', '127.0.0.1', '-p', '{port}'])"
    daemon = Daemon([sys.executable, "-c", serve], home)
    url = f"http://127.0.0.1:{port}"
    daemon.wait(lambda: urlopen(f"{url}/moto-api/data.json").read(), URLError)
    return Server(url=url, version="moto", how="local process", stopper=daemon.stop)
