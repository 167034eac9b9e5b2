"""MySQL 5.6, as unpacked by scripts/engines.sh: a server below the floor. It needs no tables, so that it is started without grants."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pymysql

from tests.servers.mysql import as_root
from tests.servers.process import Daemon, Server, Unavailable, free_port, own_directory


def start(directory: Path) -> Server:
    """Start MySQL 5.6, or raise Unavailable."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    program = cache / "auditor-tests" / "mysql-5.6" / "mysqld"
    if not program.exists():
        raise Unavailable("there is no MySQL 5.6 here: run scripts/engines.sh, where npm and Linux on x86-64 are")
    home, port = own_directory(directory, "mysql-old"), free_port()
    (home / "data" / "mysql").mkdir(parents=True)
    # Its own libaio lies beside it. https://dev.mysql.com/doc/refman/5.6/en/mysqld.html
    loaded = ["env", f"LD_LIBRARY_PATH={program.parent}", str(program), "--no-defaults", *as_root()]
    places = [f"--basedir={program.parent}", f"--datadir={home}/data", f"--lc-messages-dir={program.parent}/share"]
    tables = [path.read_text() for path in sorted((program.parent / "share").glob("mysql_system_tables*.sql"))]
    made = subprocess.run(
        [*loaded, "--bootstrap", *places], input="\n".join(["use mysql;", *tables]), capture_output=True, text=True, check=False
    )
    if made.returncode:
        raise Unavailable(f"MySQL 5.6 could not create its tables: {made.stderr.strip().splitlines()[-1:]}")
    options = ["--skip-grant-tables", "--socket=server.sock", "--pid-file=server.pid", "--bind-address=127.0.0.1", f"--port={port}"]
    daemon = Daemon([*loaded, *places, *options], home)
    url = f"mysql://root@127.0.0.1:{port}/?ssl=false"
    return Server(url=url, version=daemon.wait(lambda: _version(port), pymysql.MySQLError, 60), how="unpacked package", stopper=daemon.stop)


def _version(port: int) -> str:
    with pymysql.connect(host="127.0.0.1", port=port, user="root", ssl_disabled=True, connect_timeout=5) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT VERSION()")
        found = cursor.fetchone()
        assert found is not None
        return str(found[0])
