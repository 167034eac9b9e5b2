"""What is missing without an extra, and the command that is named then."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Mapping
from importlib.metadata import Distribution, PackageNotFoundError, packages_distributions
from pathlib import Path
from typing import Any

import pytest

import dialects
from auditor.cli import main
from auditor.errors import DriverMissing
from auditor.store import open_store
from dialects import extras

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


class Installed(Distribution):
    """A distribution with these files of metadata."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files_of_metadata = files

    def read_text(self, filename: str) -> str | None:
        return self.files_of_metadata.get(filename)

    def locate_file(self, path: Any) -> Any:
        raise NotImplementedError


def brought(extra: str) -> set[str]:
    """Return the distributions that an extra asks for, with those of the extras that it names."""
    names: set[str] = set()
    for requirement in PROJECT["optional-dependencies"][extra]:
        name, more = re.match(r"([\w.-]+)(?:\[([\w,-]+)\])?", requirement).groups()  # type: ignore[union-attr]
        names |= {one for each in more.split(",") for one in brought(each)} if name == "auditor" else {name}
        names |= {"grpcio"} if name == "pyspark" and more == "connect" else set()
    return names


@pytest.mark.parametrize("extra", extras.MODULES)
def test_an_extra_brings_its_modules(extra: str) -> None:
    of_module = {module: {name.lower().replace("_", "-") for name in names} for module, names in packages_distributions().items()}
    given = {name.lower() for name in brought(extra)} | ({"botocore"} if extra == "s3" else set())
    absent = [name for name in extras.MODULES[extra] if name in of_module and not of_module[name] & given]
    assert absent == []


def test_sources_of_a_clone_are_installed_from_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def absent(name: str) -> Distribution:
        raise PackageNotFoundError(name)

    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    monkeypatch.setattr(extras, "distribution", absent)
    clone = Path(__file__).resolve().parents[2]
    assert extras.install_command("service") == f"pip install --editable '{clone}[service]'"
    monkeypatch.setattr(extras, "CLONE", tmp_path)
    assert extras.install_command("service") == "pip install 'auditor[service]'"


URLS = {
    "mysql://u:p@127.0.0.1:1/d": ("MySQL or MariaDB needs pymysql", "mysql"),
    "mariadb://u:p@127.0.0.1:1/d": ("MySQL or MariaDB needs pymysql", "mysql"),
    "postgresql://u:p@127.0.0.1:1/d": ("PostgreSQL needs psycopg2", "postgres"),
    "redshift://u:p@127.0.0.1:1/d": ("Redshift needs redshift_connector", "redshift"),
    "delta:///nowhere": ("a Delta or Parquet table needs deltalake and fsspec", "delta"),
    "iceberg://nowhere": ("an Iceberg table needs pyiceberg", "iceberg"),
    "spark://local": ("Spark needs pyspark", "spark"),
    "sc://127.0.0.1:1": ("Spark Connect needs pyspark and grpc", "connect"),
}


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide what the extras bring."""
    for modules in extras.MODULES.values():
        for name in modules:
            if name not in ("pytest", "hypothesis", "pandas"):  # pandas: pyarrow does not stand its stand-in
                monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(extras, "distribution", lambda name: Installed({}))
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)


@pytest.mark.parametrize("url", URLS)
def test_a_connection_without_its_driver_says_what_installs_it(url: str, bare: None) -> None:
    sentence, extra = URLS[url]
    with pytest.raises(DriverMissing) as caught:
        dialects.connect(url)
    assert str(caught.value) == f"{sentence}, which this Python does not have; run: pip install 'auditor[{extra}]'"


@pytest.mark.parametrize(("url", "extra"), [("postgresql://u:p@127.0.0.1:1/d", "postgres"), ("mysql://u:p@127.0.0.1:1/d", "mysql")])
def test_a_store_without_its_driver_says_what_installs_it(url: str, extra: str, bare: None) -> None:
    with pytest.raises(DriverMissing, match=rf"the store .*127\.0\.0\.1.* pip install 'auditor\[{extra}\]'"):
        open_store(url)


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("serve", "the service needs fastapi, prometheus_client, python_multipart and uvicorn"),
        ("pipeline demo", "the demonstration of pipelines needs pyspark, pymysql and psycopg2"),
        # both sides connect at the same time, and the first failure is the one that is said
        ("diff mysql://u@127.0.0.1:1/d t mysql://u@127.0.0.1:1/e t", r"(source|target): MySQL or MariaDB needs pymysql"),
    ],
)
def test_a_command_says_in_a_sentence_what_is_missing(
    command: str, sentence: str, bare: None, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(command.split()) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert re.match(rf"auditor: {sentence}, which this Python does not have; run: pip install 'auditor\[", error)


def test_a_module_that_nobody_asked_for_before_is_named_as_well(
    bare: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ModuleNotFoundError("No module named 'boto3.session'", name="boto3.session")

    monkeypatch.setattr("auditor.config.find_file", fail)
    assert main(["ls"]) == 2
    sentence = "this command needs boto3, which this Python does not have; run: pip install 'auditor[s3]'"
    assert capsys.readouterr().err == f"auditor: {sentence}\n"


def origin(url: str, **more: object) -> dict[str, str]:
    return {"direct_url.json": json.dumps({"url": url, **more})}


def test_the_command_fits_where_the_auditor_came_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    clone = tmp_path / "a clone"
    clone.mkdir()
    (tmp_path / "auditor.whl").touch()
    commands = [
        ({}, "'auditor[mysql]'"),
        (origin(clone.as_uri(), dir_info={}), f"'{clone}[mysql]'"),
        (origin(clone.as_uri(), dir_info={"editable": True}), f"--editable '{clone}[mysql]'"),
        (origin((tmp_path / "auditor.whl").as_uri(), archive_info={}), f"'{tmp_path}/auditor.whl[mysql]'"),
        (origin((tmp_path / "gone.whl").as_uri(), archive_info={}), "'auditor[mysql]'"),
        (origin("https://example.org/auditor.whl", archive_info={}), "'auditor[mysql] @ https://example.org/auditor.whl'"),
        (
            origin("https://example.org/auditor", vcs_info={"vcs": "git", "commit_id": "c0ffee"}),
            "'auditor[mysql] @ git+https://example.org/auditor@c0ffee'",
        ),
    ]
    for files, requirement in commands:
        monkeypatch.setattr(extras, "distribution", lambda name, files=files: Installed(files))
        assert extras.install_command("mysql") == f"pip install {requirement}"
    monkeypatch.chdir(clone)
    monkeypatch.setattr(extras, "distribution", lambda name: Installed(origin(clone.as_uri(), dir_info={})))
    assert extras.install_command("mysql") == "pip install '.[mysql]'"


def test_the_command_fits_what_installed_the_auditor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "distribution", lambda name: Installed({"INSTALLER": "uv\n"}))
    assert extras.install_command("s3") == f"uv pip install --python {sys.executable} 'auditor[s3]'"
    monkeypatch.setattr(extras, "distribution", lambda name: Installed({"INSTALLER": "pip\n"}))
    monkeypatch.setenv("VIRTUAL_ENV", "/elsewhere")
    assert extras.install_command("s3") == f"{sys.executable} -m pip install 'auditor[s3]'"
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    (tmp_path / "uv-receipt.toml").touch()
    assert extras.install_command("s3") == "uv tool install --force 'auditor[s3]'"
    (tmp_path / "pipx_metadata.json").touch()
    assert extras.install_command("s3") == "pipx install --force 'auditor[s3]'"
