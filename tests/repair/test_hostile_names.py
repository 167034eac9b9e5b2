"""A person runs a printed script with the engine's own client: names that hold line breaks, quotes and comment signs run nothing."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb
import pytest

import dialects
from auditor import service
from auditor.config import Settings
from auditor.model import Verdict
from auditor.repair.keys import Selection
from auditor.service import patches
from auditor.service.target_schema import print_schema
from auditor.store import open_store
from dialects import Url
from tests import tables
from tests.live import LiveEngine, engine_params

NAMES = (
    "xm\nDROP TABLE victim; --",
    "xm\n\\! touch made\n--",
    "xm\ndelimiter x\n#",
    "x`; DROP TABLE victim; -- \\",
    "xm\rDROP TABLE victim; --",
    "xm\u2028DROP TABLE victim; --",
    "x'; DROP TABLE victim; -- \nz",
    'x"; DROP TABLE victim; -- \nz',
    "x*/ DROP TABLE victim; /*!50000 DROP TABLE victim */",
    "x\u202e\x1b[31m",
)


def client(engine: LiveEngine) -> tuple[list[str], dict[str, str]]:
    """Return the command of the engine's client that reads a script from its standard input, and its environment."""
    url: Url = dialects.parse_url(engine.url)
    if engine.dialect == "postgres":
        command = [
            "psql",
            "-X",
            "-q",
            "-v",
            "ON_ERROR_STOP=1",
            "-h",
            url.host or "",
            "-p",
            str(url.port),
            "-U",
            url.user or "",
            url.database,
        ]
        return command, {"PGPASSWORD": url.password or ""}
    command = ["mysql", "--no-defaults", "--protocol=tcp", "-h", url.host or "", "-P", str(url.port), "-u", url.user or "", url.database]
    return command, {"MYSQL_PWD": url.password or ""}


OTHER_LITERALS = {
    "postgres": ([], {"PGOPTIONS": "-c standard_conforming_strings=off"}),
    "mysql": (["--init-command=SET sql_mode = 'NO_BACKSLASH_ESCAPES'"], {}),
}
"""How each client gets a session in which a backslash in a literal means something else than by default."""


def run_script(engine: LiveEngine, script: str, folder: Path, options: Sequence[str] = (), settings: Mapping[str, str] = {}) -> None:
    """Run a script as a person would. Raises AssertionError with the client's message if it fails."""
    if engine.dialect == "duckdb":
        with duckdb.connect(engine.url.removeprefix("duckdb:///")) as connection:
            connection.execute(script)
        return
    command, more = client(engine)
    command[2:2] = options  # the first option of mysql is --no-defaults
    done = subprocess.run(
        command, input=script.encode(), capture_output=True, check=False, cwd=folder, env={**os.environ, **more, **settings}
    )
    assert done.returncode == 0, done.stderr.decode()


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@pytest.mark.quick_for("1-postgres", "2-mysql", "3-mariadb", "5-duckdb", "9-duckdb")
@pytest.mark.parametrize("engine", engine_params("postgres", "mysql", "mariadb", "duckdb"), indirect=True)
@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
@pytest.mark.few
def test_a_printed_script_runs_nothing_of_a_name(engine: LiveEngine, name: str, tmp_path: Path) -> None:
    if "\r" in name and engine.dialect != "duckdb":
        pytest.skip("only names in DuckDB are tried with a bare carriage return")
    write = dialects.get(engine.dialect)
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    tables.execute(engine, "DROP TABLE IF EXISTS victim", "CREATE TABLE victim (a INTEGER)")
    source, table = f"{tmp_path}/source.duckdb", write.names.quote(f"t{name}"[:60].rstrip())
    with duckdb.connect(source) as connection:
        connection.execute(f"CREATE TABLE s (id INTEGER PRIMARY KEY, {quoted(f'v{name}')} VARCHAR, {quoted(name)} MAP(VARCHAR, INTEGER))")
        connection.executemany("INSERT INTO s VALUES (?, ?, NULL)", [(1, name), (2, "plain"), (3, f"it's {name}")])
    place = {"connection": "b", "table": quoted(f"t{name}"[:60].rstrip())}
    written = {"url": engine.url, "max_share": "100%"}
    settings = Settings.model_validate(
        {
            "connections": {"a": {"url": f"duckdb:///{source}"}, "b": {"url": engine.url, "write": written}},
            "audits": {name: {"source": {"connection": "a", "table": "s"}, "target": place}},
        }
    )
    tables.execute(engine, f"DROP TABLE IF EXISTS {table}")
    run_script(engine, "".join(print_schema(settings, name)), tmp_path)
    extra = write.names.quote(f"e{name}"[:60].rstrip())
    tables.execute(engine, f"ALTER TABLE {table} ADD COLUMN {extra} INTEGER")  # the script's header mentions it
    run_script(engine, "".join(print_schema(settings, name)), tmp_path)
    audit = settings.audits[name]
    without = audit.columns.model_copy(update={"exclude": (name,)})  # it has no text to compare by
    settings = settings.model_copy(update={"audits": {name: audit.model_copy(update={"columns": without})}})
    report = service.run_audit(settings, name, store=store)
    assert report.verdict is Verdict.MISMATCH, (name, report.reasons)
    script = "".join(patches.print_patch(settings, store, report.run, Selection(delete_extra=True), "sql"))
    assert "\n-- Columns that are not written: " in script or name in script
    run_script(engine, script, tmp_path)
    assert service.run_audit(settings, name, store=store).verdict is Verdict.MATCH, script
    run_script(engine, service.sql(settings, name, ("target",))["target"], tmp_path)
    tables.execute(engine, f"DROP TABLE {table}")
    assert tables.query(engine, "SELECT COUNT(*) FROM victim") == [(0,)]
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("engine", engine_params("postgres", "mysql", "mariadb"), indirect=True)
@pytest.mark.parametrize("comment", ["'; DROP TABLE victim; -- ", "\\'; DROP TABLE victim; -- ", "\\\\'; DROP TABLE victim; -- "])
@pytest.mark.few
def test_a_comment_of_the_source_runs_nothing_whatever_a_session_takes_a_backslash_for(
    engine: LiveEngine, tmp_path: Path, comment: str
) -> None:
    tables.execute(engine, "DROP TABLE IF EXISTS victim", "CREATE TABLE victim (a INTEGER)", "DROP TABLE IF EXISTS commented")
    with duckdb.connect(f"{tmp_path}/source.duckdb") as connection:
        connection.execute("CREATE TABLE s (id INTEGER PRIMARY KEY)")
        connection.execute(f"COMMENT ON TABLE s IS '{comment.replace(chr(39), chr(39) * 2)}'")
        connection.execute(f"COMMENT ON COLUMN s.id IS '{comment.replace(chr(39), chr(39) * 2)}'")
    sides = {"source": {"connection": "a", "table": "s"}, "target": {"connection": "b", "table": "commented"}}
    connections = {"a": {"url": f"duckdb:///{tmp_path}/source.duckdb"}, "b": {"url": engine.url}}
    settings = Settings.model_validate({"connections": connections, "audits": {"all": sides}})
    options, more = OTHER_LITERALS[engine.dialect]
    run_script(engine, "".join(print_schema(settings, "all")), tmp_path, options, more)
    assert tables.query(engine, "SELECT COUNT(*) FROM victim") == [(0,)]
    assert "as it should be" in "".join(print_schema(settings, "all"))
