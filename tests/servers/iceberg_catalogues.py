"""Catalogues of Iceberg tables other than SQLite: the REST server of Iceberg's own tests, and AWS Glue as moto imitates it.

The REST server is Iceberg's reference: https://github.com/apache/iceberg/tree/main/open-api#rest-compatibility-kit-rck. Its jars are taken
from the folder that AUDITOR_TEST_ICEBERG_REST names; docs/testing.md says which.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.servers import s3
from tests.servers.process import Daemon, free_port, own_directory

VARIABLE = "AUDITOR_TEST_ICEBERG_REST"


@contextmanager
def started(kind: str, folder: Path) -> Iterator[dict[str, str]]:
    """Start a catalogue without tables, ``rest`` or ``glue``, and yield the properties that lead to it; its files are in the folder."""
    if kind == "glue":
        server = s3.start(folder)
        try:
            yield {"type": "glue", "glue.endpoint": server.url, "glue.region": "eu-central-1", "warehouse": f"file://{folder}/warehouse"}
        finally:
            server.stop()
        return
    jars = os.environ.get(VARIABLE)
    if not jars:
        pytest.skip(f"{VARIABLE} names no folder with the jars of Iceberg's REST server")
    import pyspark

    hadoop = Path(pyspark.__file__).parent / "jars"
    path = ":".join([f"{jars}/*", *map(str, hadoop.glob("hadoop-client-*.jar"))])
    home, port = own_directory(folder, "rest"), free_port()
    variables = {
        "CATALOG_CATALOG__IMPL": "org.apache.iceberg.jdbc.JdbcCatalog", "CATALOG_URI": f"jdbc:sqlite:{home}/catalogue.db",
        "CATALOG_REST_PORT": str(port), "CATALOG_WAREHOUSE": f"file://{folder}/warehouse", "CATALOG_JDBC_SCHEMA__VERSION": "V1",
    }  # fmt: skip
    command = ["java", "-cp", path, "org.apache.iceberg.rest.RESTCatalogServer"]
    daemon = Daemon(command, home, environment={**os.environ, **variables})
    try:
        daemon.wait(lambda: urlopen(f"http://127.0.0.1:{port}/v1/config").read(), URLError)
        yield {"type": "rest", "uri": f"http://127.0.0.1:{port}"}
    finally:
        daemon.stop()
