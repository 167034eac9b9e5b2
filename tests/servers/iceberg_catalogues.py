"""Catalogues of Iceberg tables other than SQLite: the REST server of Iceberg's own tests, Hive, and AWS Glue as moto imitates it.

The REST server is Iceberg's reference: https://github.com/apache/iceberg/tree/main/open-api#rest-compatibility-kit-rck. Its jars are taken
from the folder that AUDITOR_TEST_ICEBERG_REST names; docs/testing.md says which. Hive's metastore is the one that PySpark has in its jars.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pyspark
import pytest
from hive_metastore.ThriftHiveMetastore import Client
from hive_metastore.ttypes import ShowLocksRequest
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from tests.servers import s3
from tests.servers.process import Daemon, free_port, own_directory

VARIABLE = "AUDITOR_TEST_ICEBERG_REST"

SPARK = Path(pyspark.__file__).parent / "jars"

METASTORE = {
    "javax.jdo.option.ConnectionDriverName": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
    "datanucleus.schema.autoCreateAll": "true",
    "hive.metastore.schema.verification": "false",
    "hive.async.log.enabled": "false",  # this and pools of connections need jars that PySpark leaves out
    "datanucleus.connectionPoolingType": "none",
}


@contextmanager
def started(kind: str, folder: Path) -> Iterator[dict[str, str]]:
    """Start a catalogue without tables, ``rest``, ``hive`` or ``glue``, and yield the properties that lead to it.

    Its files are in the folder.
    """
    match kind:
        case "glue":
            server = s3.start(folder)
            try:
                yield {
                    "type": "glue", "glue.endpoint": server.url, "glue.region": "eu-central-1", "warehouse": f"file://{folder}/warehouse",
                }  # fmt: skip
            finally:
                server.stop()
        case "hive":
            with _hive(folder) as port:
                yield {"type": "hive", "uri": f"thrift://127.0.0.1:{port}", "warehouse": f"file://{folder}/warehouse"}
        case "rest":
            with _rest(folder) as port:
                yield {"type": "rest", "uri": f"http://127.0.0.1:{port}"}


@contextmanager
def _rest(folder: Path) -> Iterator[int]:
    jars = os.environ.get(VARIABLE)
    if not jars:
        pytest.skip(f"{VARIABLE} names no folder with the jars of Iceberg's REST server")
    path = ":".join([f"{jars}/*", *map(str, SPARK.glob("hadoop-client-*.jar"))])
    home, port = own_directory(folder, "rest"), free_port()
    variables = {
        "CATALOG_CATALOG__IMPL": "org.apache.iceberg.jdbc.JdbcCatalog", "CATALOG_URI": f"jdbc:sqlite:{home}/catalogue.db",
        "CATALOG_REST_PORT": str(port), "CATALOG_WAREHOUSE": f"file://{folder}/warehouse", "CATALOG_JDBC_SCHEMA__VERSION": "V1",
    }  # fmt: skip
    command = ["java", "-cp", path, "org.apache.iceberg.rest.RESTCatalogServer"]
    daemon = Daemon(command, home, environment={**os.environ, **variables})
    try:
        daemon.wait(lambda: urlopen(f"http://127.0.0.1:{port}/v1/config").read(), URLError)
        yield port
    finally:
        daemon.stop()


@contextmanager
def _hive(folder: Path) -> Iterator[int]:
    with _metastore(folder, in_test="true") as port:  # which alone makes the tables of locks in Derby
        transport = TBufferedTransport(TSocket("127.0.0.1", port))
        with closing(transport):
            transport.open()
            Client(TBinaryProtocol(transport)).show_locks(ShowLocksRequest())
    with _metastore(folder, in_test="false") as port:  # in a test it refuses locks as pyiceberg asks for them
        yield port


@contextmanager
def _metastore(folder: Path, in_test: str) -> Iterator[int]:
    home, port = own_directory(folder, "hive"), free_port()
    settings = {
        **METASTORE,
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
        "hive.metastore.warehouse.dir": f"file://{folder}/warehouse",
        "hive.in.test": in_test,
    }
    listed = "".join(f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items())
    (home / "hive-site.xml").write_text(f"<configuration>{listed}</configuration>", encoding="utf-8")
    opened = [f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in ("lang", "net")]
    program = ["java", "-XX:TieredStopAtLevel=1", f"-Dhive.log.dir={home}", *opened, "-cp", f"{home}:{SPARK}/*"]
    daemon = Daemon([*program, "org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port)], home)
    try:
        daemon.wait(lambda: _try_to_connect(port), OSError)
        yield port
    finally:
        daemon.stop()


def _try_to_connect(port: int) -> str:
    with socket.create_connection(("127.0.0.1", port), 5):
        return ""
