"""A DuckDB file that somebody else made reads nothing of this machine but itself."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

import dialects
from dialects import Place, errors


def make_file(folder: Path) -> str:
    """Make a file with a table, and views that read other files of this machine and of the network; return its URL."""
    subprocess.run([sys.executable, "-c", ""], check=True)  # files of a block that starts a process are opened and closed by each session
    (folder / "secret.txt").write_text("hunter2")
    with duckdb.connect(str(folder / "given.duckdb")) as database:
        database.execute("CREATE TABLE orders AS SELECT 1 AS id, 'a' AS note")
        database.execute(f"CREATE VIEW text AS SELECT 1 AS id, content FROM read_text('{folder}/secret.txt')")
        database.execute(
            f"CREATE VIEW lines AS SELECT * FROM read_csv('{folder}/secret.txt', header = false, columns = {{'a': 'VARCHAR'}})"
        )
        database.execute(f"CREATE VIEW names AS SELECT * FROM glob('{folder}/*')")
    return f"duckdb:///{folder}/given.duckdb"


def test_views_of_a_file_read_no_other_files(tmp_path: Path) -> None:
    url = make_file(tmp_path)
    for _ in range(2):
        with closing(dialects.connect(url)) as session, closing(dialects.connect(url)) as second:
            for one in (session, second):
                assert one.query("SELECT * FROM orders") == [(1, "a")]
                for view in ("text", "lines", "names"):
                    with pytest.raises(errors.StatementRefused, match="disabled by configuration"):
                        one.query(f"SELECT * FROM {view}")
                with pytest.raises(errors.AuditorError):
                    one.query("SET GLOBAL enable_external_access = true")
                settings = [f"current_setting('{name}_known_extensions')" for name in ("autoinstall", "autoload")]
                assert one.query(f"SELECT {', '.join(settings)}") == [(False, False)]


def test_path_is_read_by_a_connection_without_a_file(tmp_path: Path) -> None:
    url = make_file(tmp_path)
    with duckdb.connect() as writer:
        writer.execute(f"COPY (SELECT 1 AS id) TO '{tmp_path}/some.parquet' (FORMAT parquet)")
    place = Place((), path=str(tmp_path / "some.parquet"))
    with closing(dialects.connect("duckdb://")) as session:
        assert [column.name for column in session.dialect.catalogue.describe(session, place)[0].columns] == ["id"]
    with closing(dialects.connect(url)) as session, pytest.raises(errors.NoSuchObject, match="by one with the url duckdb://"):
        session.dialect.catalogue.describe(session, place)


def test_process_that_opened_the_file_decides_what_is_read(tmp_path: Path) -> None:
    url = make_file(tmp_path)
    with duckdb.connect(str(tmp_path / "given.duckdb"), read_only=True) as own:
        with closing(dialects.connect(url)) as session:
            assert session.query("SELECT * FROM orders") == [(1, "a")]
        assert own.execute("SELECT content FROM text").fetchall() == [("hunter2",)], "its own session is as it was"
