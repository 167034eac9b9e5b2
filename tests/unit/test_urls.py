"""Connection URLs: what is refused by name, what is passed on, and what a URL promises of its server."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import dialects
from auditor.cli import main
from auditor.config import find_secrets, validate_settings
from auditor.errors import BadUrl, ConfigError
from auditor.store import open_store
from auditor.store.database import parse_store_url
from dialects import parse_url
from dialects.mysql import login as mysql_login
from dialects.postgres import login as postgres_login

REFUSED = {
    "mysql://h/d?nonsense=1": "unknown option nonsense; use connect_timeout, ssl",
    "mysql://h/d?ssl-mode=VERIFY_IDENTITY": r"unknown option ssl-mode; did you mean ssl_mode\?",
    "mariadb+pymysql://h/d?read_default_file=/etc/my.cnf": r"unknown option read_default_file.*option files of the client are not read",
    "mysql://h/d?ssl=true": "ssl=true does not say what is verified; write ssl_mode=VERIFY_IDENTITY with ssl_ca, or ssl_mode=REQUIRED",
    "mysql://h/d?ssl=false&ssl_ca=/ca.pem": "with ssl_mode=DISABLED, ssl_ca would have no effect",
    "mysql://h/d?ssl_mode=strict": "ssl_mode=STRICT is unknown; use one of DISABLED",
    "mysql://h/d?ssl_mode=VERIFY_CA": "ssl_mode=VERIFY_CA needs an authority: ssl_ca=FILE, or ssl_ca=system",
    "mysql://h/d?ssl_mode=REQUIRED&ssl_ca=/ca.pem": "with ssl_mode=REQUIRED, ssl_ca would have no effect",
    "mysql://h/d?ssl_key=/key.pem": "ssl_key is the key of a certificate; add ssl_cert=FILE",
    "mysql://h/d?ssl_ca=/none.pem": "ssl_ca=/none.pem: there is no such file",
    "mysql://h/d?ssl_ca=": "ssl_ca=: there is no such file",
    "mysql://h/d?connect_timeout=0": "connect_timeout must be at least 1 second",
    "mysql://h/d?ssl_mode=REQUIRED&ssl_mode=DISABLED": "has the option ssl_mode twice",
    "postgresql://h/d?ssl=true": "unknown option ssl; .*sslmode says what is encrypted and verified",
    "postgresql://h/d?serach_path=x": "unknown option serach_path",
    "postgresql://h/d?application_name=x": "option application_name is the auditor's own",
    "postgresql://h/d?host=other": "host is there twice",
    "postgresql://h/d?sslmode=verify-full&sslrootcert=/none.pem": "sslrootcert=/none.pem: there is no such file",
}
ENGINES_ALONE = {
    "redshift://u:p@h/d?ssl_mode=x": r"unknown option ssl_mode; did you mean sslmode\?",
    "duckdb:///:memory:?threads=4": "unknown option threads; use access_mode, default_block_size",
    "duckdb:///:memory:?access_mode=rw": "access_mode=rw is unknown; use one of automatic, read_only, read_write",
    "duckdb:///:memory:?default_block_size=16k": "default_block_size=16k is no size of blocks; use one of 16384, 32768",
    "delta:///x?aws_regoin=1": r"unknown option aws_regoin; did you mean aws_region\?",
    "sc://h/?tokn=1": r"unknown option tokn; did you mean token\?",
    "spark://local?maste=local": r"unknown option maste; did you mean master\?",
}


@pytest.mark.parametrize(("url", "sentence"), [*REFUSED.items(), *ENGINES_ALONE.items()])
def test_option_that_would_have_no_effect_is_refused_by_name(url: str, sentence: str) -> None:
    with pytest.raises(BadUrl, match=sentence):
        dialects.connect(url)


@pytest.mark.parametrize(("url", "sentence"), [*REFUSED.items(), ("sqlite:////tmp/a.db?timeout=3", "options after a question mark")])
def test_store_refuses_the_same(url: str, sentence: str) -> None:
    with pytest.raises(BadUrl, match=sentence):
        open_store(url)


def test_options_of_libpq_are_passed_on() -> None:
    given = "postgresql+psycopg2://u:p@h/d?options=-csearch_path%3Dother&keepalives=0&target_session_attrs=read-only"
    wanted = {"host": "h", "user": "u", "password": "p", "dbname": "d", "connect_timeout": 10}
    wanted |= {"options": "-csearch_path=other", "keepalives": "0", "target_session_attrs": "read-only"}
    assert postgres_login.libpq_options(parse_url(given)) == wanted
    assert parse_store_url(given).options == wanted
    assert postgres_login.libpq_options(parse_url("postgresql:///?service=shop")) == {"service": "shop", "connect_timeout": 10}
    assert parse_url("postgresql://u@%2Frun%2FPostgres:5433/d").host == "/run/Postgres"


def test_what_a_url_leaves_open_is_left_to_libpq(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which database that is, is asked of the same places, since audits are told apart by it."""
    engine = dialects.get("postgres")
    monkeypatch.setenv("PGHOST", "db.example")
    monkeypatch.setenv("PGPORT", "6000")
    monkeypatch.setenv("PGDATABASE", "shop")
    assert engine.addresses.database_id(parse_url("postgresql://")) == "postgres://db.example:6000/shop"
    assert engine.addresses.database_id(parse_url("postgresql:///other?host=/run/pg&port=1")) == "postgres:///run/pg:1/other"
    assert not engine.addresses.is_local(parse_url("postgresql://")) and engine.addresses.is_local(parse_url("postgresql:///?host=/run/pg"))
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    assert engine.addresses.verifies_server(parse_url("postgresql://"))


def test_password_beyond_latin_1_is_sent_as_utf_8() -> None:
    for text in ("пароль€", "Größe"):
        assert mysql_login.login_options(parse_url(f"mysql://u:{text}@h/d"))["password"] == text.encode()
        assert parse_store_url(f"mysql://u:{text}@h/d").options["password"] == text.encode()


MODES = {
    "": "PREFERRED", "?ssl=false": "DISABLED", "?ssl_mode=required": "REQUIRED", "?ssl_ca=system": "VERIFY_IDENTITY",
    "?ssl_ca=system&ssl_mode=VERIFY_CA": "VERIFY_CA", "?ssl_cert=/c.pem": "REQUIRED",
}  # fmt: skip


@pytest.mark.parametrize(("options", "mode"), MODES.items())
def test_modes_are_those_of_the_mysql_client(options: str, mode: str) -> None:
    assert mysql_login.ssl_mode(parse_url(f"mysql+pymysql://h/d{options}")) == mode


UNVERIFIED = [
    "mysql://db1/shop", "mysql://db1/shop?ssl_mode=REQUIRED", "mysql://db1/shop?ssl_ca=system&ssl_mode=VERIFY_CA", "postgresql://db1/shop",
    "postgresql://db1/shop?sslmode=require", "postgresql:///shop?service=x", "redshift://u:p@wh/dev", "sc://spark:15002",
    "delta+s3://lake/x?aws_endpoint_url=http%3A%2F%2Fminio",
]  # fmt: skip
VERIFIED = [
    "mysql://db1/shop?ssl_ca=system", "mysql://127.0.0.1/shop", "mysql:///shop?unix_socket=/run/m.sock", "redshift://u:p@wh/dev?sslmode=verify-full",
    "postgresql://db1/shop?sslmode=verify-full", "postgresql://db1/shop?sslrootcert=system", "sc://spark:15002?use_ssl=true", "duckdb:///a.db",
    "delta+s3://lake/x", "parquet:///lake", "spark://local",
]  # fmt: skip


@pytest.mark.parametrize("url", [*UNVERIFIED, *VERIFIED])
def test_policy_refuses_what_is_not_verified_and_check_warns_of_it(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "PGSSLMODE", "PGHOST"):
        monkeypatch.delenv(name, raising=False)
    here = f"duckdb:///{tmp_path}/none.db"
    for name, values, place in (
        ("a", {"connections": {"a": {"url": url}}}, "connections.a.url"),
        ("b", {"connections": {"a": {"url": here, "write": {"url": url}}}}, "connections.a.write.url"),
        ("c", {"connections": {"a": {"url": here}}, "store": {"url": url}}, "store.url"),
    ):
        whole = {"store": {"url": f"sqlite:///{tmp_path}/{name}.db"}, "audits": {}, **values}
        sentence = f"{place}: the server"
        strict = {**whole, "connections": {**whole["connections"], "require_tls": "verified"}}  # type: ignore[dict-item]
        if url in VERIFIED:
            assert validate_settings(strict).require_tls == "verified"
        else:
            with pytest.raises(ConfigError, match=rf"{place}: the server .* is not verified.*\(connections: require_tls\)"):
                validate_settings(strict)
        if name == "c":
            continue  # there is no such store
        (tmp_path / "auditor.yaml").write_text(json.dumps(whole), encoding="utf-8")
        assert main(["check", "--config", str(tmp_path / "auditor.yaml")]) == 0
        assert (f"auditor: warning: {sentence}" in capsys.readouterr().err) == (url in UNVERIFIED)


def test_policy_has_one_word_and_one_place() -> None:
    with pytest.raises(ConfigError, match="require_tls"):
        validate_settings({"connections": {"require_tls": "yes"}, "audits": {}})
    with pytest.raises(ConfigError, match="write it below connections:"):
        validate_settings({"connections": {}, "audits": {}, "require_tls": "verified"})
    assert "require_tls" in validate_settings({"connections": {"require_tls": {"url": "duckdb:///a.db"}}, "audits": {}}).connections


def test_secrets_among_options_are_hidden_in_logs() -> None:
    urls = {"a": {"url": "postgresql://h/d?password=s3cret&sslpassword=t0psecret"}, "b": {"url": "sc://h/?token=d4ta"}}
    assert {"s3cret", "t0psecret", "d4ta"} <= set(find_secrets(validate_settings({"connections": urls, "audits": {}})))


def test_a_file_that_is_made_has_the_block_size_of_its_url(tmp_path: Path) -> None:
    def block_size(options: str) -> Any:
        with closing(dialects.connect(f"duckdb:///{tmp_path}/made.duckdb?access_mode={options}")) as session:
            [row] = session.query("SELECT block_size FROM pragma_database_size() WHERE database_name = 'made'")
        return row[0]

    assert block_size("read_write&default_block_size=32768") == 32768
    assert block_size("read_write") == 32768
    assert block_size("read_write&default_block_size=16384") == 32768, "a file that is there keeps its own"
    assert block_size("read_only&default_block_size=16384") == 32768
