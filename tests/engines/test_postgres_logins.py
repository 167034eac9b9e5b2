"""Logins to PostgreSQL: what a URL says is passed on to libpq, and what it leaves open libpq reads where it always does."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import dialects
from auditor.errors import BadUrl
from tests import tables
from tests.live import LiveEngine, engine_params

pytestmark = pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)


def test_options_reach_the_server(engine: LiveEngine) -> None:
    tables.execute(engine, "CREATE SCHEMA IF NOT EXISTS elsewhere", "DROP TABLE IF EXISTS elsewhere.only_there")
    tables.execute(engine, "CREATE TABLE elsewhere.only_there (id bigint)")
    for scheme in ("postgresql", "postgresql+psycopg2"):
        url = urlsplit(engine.url)._replace(scheme=scheme, query="options=-csearch_path%3Delsewhere").geturl()
        with closing(dialects.connect(url)) as session:
            assert len(session.dialect.catalogue.describe(session, dialects.Place(("only_there",)))) == 1


def test_password_and_service_come_from_their_files(engine: LiveEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = urlsplit(engine.url)
    user, password, database = unquote(parts.username or ""), unquote(parts.password or ""), parts.path.lstrip("/")
    passwords, services = tmp_path / "passwords", tmp_path / "services"
    passwords.touch(0o600)
    passwords.write_text(f"{parts.hostname}:{parts.port}:*:{user}:{password}\n")
    services.write_text(f"[shop]\nhost={parts.hostname}\nport={parts.port}\nuser={user}\ndbname={database}\n")
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    dialects.connect(f"postgresql://{user}@{parts.hostname}:{parts.port}/{database}?passfile={passwords}").close()
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    dialects.connect("postgresql:///?service=shop").close()
    with pytest.raises(BadUrl, match="none_such"):
        dialects.connect("postgresql:///?service=none_such")
    for name, value in {"PGHOST": parts.hostname, "PGPORT": str(parts.port), "PGUSER": user, "PGDATABASE": database}.items():
        monkeypatch.setenv(name, value or "")
    dialects.connect("postgresql://").close()
