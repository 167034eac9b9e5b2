"""Checks of the container files that need no Docker engine.

Nothing here builds or starts a container. `docker compose config` runs if the client is installed; with --slow the wheel is built,
installed and served as the Dockerfile does it.
"""

from __future__ import annotations

import fnmatch
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
import yaml

import dialects
from auditor import service
from auditor.config import Settings, load
from auditor.errors import EngineError
from auditor.store import open_store, runs
from dialects.redshift.unload import unloading
from tests.servers.process import free_port

ROOT = Path(__file__).parents[2]
COMPOSE: Mapping[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: Mapping[str, Mapping[str, Any]] = COMPOSE["services"]


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile as pairs of keyword and arguments, with continuation lines joined."""
    text = re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", (ROOT / "Dockerfile").read_text()))
    return [(line.split()[0], " ".join(line.split()[1:])) for line in text.splitlines() if line.strip()]


PINNED = r"[a-z./-]+:[\w.-]+@sha256:[0-9a-f]{64}"
"""An image by its digest, with the tag that it had for people."""


def stages() -> dict[str, tuple[str, list[tuple[str, str]]]]:
    """Return the base image and instructions of each stage by its name."""
    found: dict[str, tuple[str, list[tuple[str, str]]]] = {}
    for word, rest in instructions():
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            found[name] = (base, [])
        elif found:
            list(found.values())[-1][1].append((word, rest))
    return found


def all_instructions(stage: str) -> list[tuple[str, str]]:
    """Return a stage's instructions, preceded by those of the stages it is based on."""
    base, own = stages()[stage]
    return [*(all_instructions(base) if base in stages() else []), *own]


@pytest.mark.parametrize("stage", ["service", "spark"])
def test_images_run_without_root_and_have_a_health_check(stage: str) -> None:
    settings = dict(all_instructions(stage))
    assert settings["USER"].split(":")[0] not in ("0", "root")
    assert "/healthz" in settings["HEALTHCHECK"]
    assert settings["ENTRYPOINT"] == '["auditor"]'
    assert "serve" in settings["CMD"]
    assert any(word == "COPY" and "/opt/auditor" in rest for word, rest in all_instructions(stage))


def test_no_service_runs_as_root() -> None:
    assert [name for name, one in SERVICES.items() if str(one.get("user", "auditor")).split(":")[0] in ("0", "root")] == []
    owned = next(rest for word, rest in stages()["base"][1] if word == "RUN" and "useradd" in rest)
    (folder,) = {volume.split(":")[1] for volume in SERVICES["sample"]["volumes"] if volume.startswith("lake:")}
    assert f"--owner=auditor --group=auditor {folder}" in owned, "a new volume has the owner of the image's folder"
    assert "--home-dir /var/lib/auditor --create-home auditor" in owned


def test_images_install_what_is_pinned_and_nothing_else() -> None:
    installs = [part.strip() for word, rest in instructions() if word == "RUN" for part in rest.split("&&") if "pip install" in part]
    assert len(installs) == 6
    assert all("--require-hashes" in one or "--no-deps" in one for one in installs)


def test_service_is_the_default_target() -> None:
    assert list(stages())[-1] == "service"


def test_every_copied_file_exists_and_is_not_ignored() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    included = [line[1:] for line in lines if line.startswith("!")]
    for word, rest in instructions():
        if word != "COPY":
            continue
        sources = rest.split()[:-1]
        if sources[0].startswith("--from="):
            assert sources[0].removeprefix("--from=") in stages()
            continue
        for source in sources:
            assert (ROOT / source).exists(), source
            assert any(fnmatch.fnmatch(path, pattern) for path in (source, source.partition("/")[0]) for pattern in included), (
                f"{source} is excluded by .dockerignore"
            )


def test_ports_are_published_on_loopback_only() -> None:
    ports = [port for one in SERVICES.values() for port in one.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_services_wait_only_for_services_with_a_health_check() -> None:
    for name, one in SERVICES.items():
        for other, how in one.get("depends_on", {}).items():
            assert other in SERVICES, f"{name} depends on {other}"
            if how["condition"] == "service_healthy":
                own = SERVICES[other].get("healthcheck", {})
                assert "test" in own or ("build" in SERVICES[other] and not own.get("disable")), f"{other} has no health check"


def test_images_are_pinned_and_mounted_files_exist() -> None:
    for name, one in SERVICES.items():
        assert "build" in one or re.fullmatch(PINNED, one["image"]), f"{name}: {one['image']}"
        for volume in one.get("volumes", []):
            source = volume.split(":")[0]
            assert (ROOT / source).exists() if source.startswith("./") else source in COMPOSE["volumes"], f"{name}: {source}"
        if "build" in one:
            assert one["build"]["target"] in stages()
    assert re.fullmatch(PINNED, dict(instructions())["ARG"].partition("=")[2])
    assert {base for base, _ in stages().values()} - set(stages()) == {"${PYTHON}"}


DATA = {"mysql": "/var/lib/mysql", "mariadb": "/var/lib/mysql", "postgres": "/var/lib/postgresql/data"}
"""Where the images keep their databases."""


def test_databases_of_the_installation_outlive_their_containers_together() -> None:
    for name, one in SERVICES.items():
        folder = DATA.get(str(one.get("image", "")).partition(":")[0])
        if folder and "tests" not in one.get("profiles", []):
            named = [volume.split(":")[0] for volume in one.get("volumes", []) if volume.split(":")[1] == folder]
            assert named and named[0] in COMPOSE["volumes"], f"{name}: what {folder} holds would be lost beside a store that is kept"


def test_compose_publishes_the_ports_that_tests_use() -> None:
    published = {name: SERVICES[name]["ports"] for name in ("mysql", "mariadb", "postgres")}
    assert published == {"mysql": ["127.0.0.1:33306:3306"], "mariadb": ["127.0.0.1:33307:3306"], "postgres": ["127.0.0.1:35432:5432"]}


def test_docker_compose_accepts_the_file() -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("containers: docker compose is not installed, so docker-compose.yml is not checked")
    done = subprocess.run([docker, "compose", "config", "--quiet"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_configuration_refers_to_services_of_the_compose_file() -> None:
    settings = load(ROOT / "containers" / "auditor.yaml")
    assert settings.store
    urls = [(one.url, *((one.write.url,) if one.write else ())) for one in settings.connections.values()]
    for url in (settings.store.url, *chain.from_iterable(urls)):
        parts = urlsplit(url)
        if parts.scheme == "duckdb":
            assert parts.path.startswith("//var/lib/auditor/"), "its file would be lost with the container"
            continue
        assert parts.hostname in SERVICES, url
        exposed = {port.rpartition(":")[2] for port in SERVICES[str(parts.hostname)].get("ports", [])}
        assert str(parts.port) in exposed, url


def test_files_for_redshift_go_through_the_bucket_of_the_composition(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bucket's name before that of a host leads nowhere in a network of containers, which is what boto3 asks for by itself."""
    for name, value in SERVICES["auditor"]["environment"].items():
        monkeypatch.setenv(name, value.replace("/etc/auditor", str(ROOT / "containers")))
    [bucket] = SERVICES["s3"]["command"][2:]
    url = dialects.parse_url(load(ROOT / "containers" / "auditor.yaml").connections["warehouse"].write.url)  # type: ignore[union-attr]
    to = unloading(url)
    assert to and to.to.startswith(f"s3://{bucket}/")
    signed = to.client().generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "file"})
    assert signed.startswith(f"http://s3:{SERVICES['s3']['command'][1]}/{bucket}/file?")


def import_script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"containers_{name}", ROOT / "containers" / f"{name}.py")
    assert spec
    assert spec.loader
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def test_sample_is_loaded_once_and_each_audit_runs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = yaml.safe_load((ROOT / "containers" / "auditor.yaml").read_text())
    values["connections"] = {name: {"url": f"duckdb:///{tmp_path}/{name}.duckdb"} for name in values["connections"]}
    values["connections"]["lake"] = values["connections"]["shop"]  # its tables are files, named by path
    values["store"] = {"url": f"sqlite:///{tmp_path}/runs.db"}
    values["audits"]["flights_lake"]["target"]["table"] = f"{tmp_path}/flights.parquet"
    values["audits"] = {name: audit for name, audit in values["audits"].items() if "align" not in audit}
    for name in ("pipelines", "segments", "service"):  # which need a log
        del values[name]
    path = tmp_path / "auditor.yaml"
    path.write_text(yaml.safe_dump(values))
    monkeypatch.setenv("AUDITOR_CONFIG", str(path))
    monkeypatch.setenv("SAMPLE_ROWS", "3000")
    sample = import_script("sample")
    run_audit = service.run_audit

    def fail_at_the_lake(settings: Settings, name: str, **about: Any) -> Any:
        if name == "flights_lake":
            raise EngineError("gone")
        return run_audit(settings, name, **about)

    with monkeypatch.context() as patch:
        patch.setattr(service, "run_audit", fail_at_the_lake)
        assert sample.main() == 1
    assert sample.main() == 0, "the next start completes what was interrupted"
    assert verdicts(load(path)) == {
        "flights": ["mismatch"], "flights_quick": ["mismatch"], "flights_whole": ["match"], "flights_lake": ["mismatch"],
    }  # fmt: skip
    assert sample.main() == 0
    assert {len(found) for found in verdicts(load(path)).values()} == {1}


def verdicts(settings: Settings) -> dict[str, list[str]]:
    assert settings.store
    store = open_store(settings.store.url)
    try:
        return {name: [one.verdict.value for one in runs.list_runs(store, audit=name)] for name in settings.audits}
    finally:
        store.close()


@pytest.mark.slow
def test_steps_of_the_dockerfile_give_a_healthy_service(tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path)
    environment = tmp_path / "environment"
    # Only the wheel is installed; its dependencies come from the current environment, not from an index.
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    site = next((environment / "lib").glob("python*/site-packages"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    (site / "beside.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")) + "\n")
    (tmp_path / "auditor.yaml").write_text("connections: {}\naudits: {}\n")
    image = dict(all_instructions("service"))
    port = free_port()
    command = [str(environment / "bin" / "python"), "-m", "auditor", *yaml.safe_load(image["CMD"])]
    command[command.index("8080")] = str(port)
    variables = {**os.environ, "AUDITOR_CONFIG": str(tmp_path / "auditor.yaml"), "PYTHONSAFEPATH": "1"}
    subprocess.run(
        [*command[:3], "token", "create", "--scope", "read", "--name", "a"], env=variables, cwd=tmp_path, check=True, timeout=120
    )
    service = subprocess.Popen(command, env=variables, cwd=tmp_path)
    check = cast("list[str]", yaml.safe_load(image["HEALTHCHECK"].partition("CMD ")[2]))
    healthy = [command[0], *(part.replace("8080", str(port)) for part in check[1:])]
    try:
        until = time.monotonic() + 120
        while subprocess.run(healthy, capture_output=True, check=False, env=variables).returncode:
            assert service.poll() is None
            assert time.monotonic() < until
            time.sleep(1)
    finally:
        service.send_signal(signal.SIGTERM)
        assert service.wait(60) == 0


def build_wheel(directory: Path) -> Path:
    """Build the wheel as the Dockerfile does, from the files that .dockerignore includes."""
    source = directory / "source"
    for name in ("auditor", "dialects", "sql_templates"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(directory / "wheels"), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    (wheel,) = (directory / "wheels").glob("auditor-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
    files = [path for path in (ROOT / "auditor" / "api").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert {str(path.relative_to(ROOT)) for path in files} <= inside, "package-data in pyproject.toml omits files of the pages"
    return wheel
