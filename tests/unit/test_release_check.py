"""The checks of a release find what they look for. The whole of it, with installations, is `make release-check`."""

from __future__ import annotations

import io
import re
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from scripts import release_check
from scripts.release_check import CheckFailed

DRIVERS = ("mysql", "postgres", "redshift", "s3")

METADATA = """\
Metadata-Version: 2.4
Name: {name}
Version: {version}
Summary: {summary}
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.11
{extras}

# auditor
"""


def make_wheel(folder: Path, *more: str, extras: frozenset[str] = release_check.EXTRAS) -> Path:
    """Return a wheel with all tracked files of the packages, empty, and more."""
    path = folder / "auditor-0.1.0-py3-none-any.whl"
    project = release_check.PROJECT
    lines = "\n".join(f"Provides-Extra: {extra}" for extra in sorted(extras))
    text = METADATA.format(name=project["name"], version=project["version"], summary=project["description"], extras=lines)
    with zipfile.ZipFile(path, "w") as archive:
        for name in (*release_check.output("git", "ls-files", "--", *release_check.PACKAGES), *more):
            archive.writestr(name, "")
        archive.writestr("auditor-0.1.0.dist-info/METADATA", text)
    return path


def test_wheel_with_the_packages_alone_passes(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path)
    assert "those of auditor, dialects, sql_templates alone" in release_check.check_wheel(wheel)
    assert f"{len(release_check.EXTRAS)} extras" in release_check.check_metadata(wheel)


@pytest.mark.parametrize(
    "name", ["tests/unit/test_cli.py", "auditor/tests/test_cli.py", "benchmarks/duel.py", "auditor.db", "scripts/x.py"]
)
def test_wheel_with_tests_or_tools_fails(name: str, tmp_path: Path) -> None:
    with pytest.raises(CheckFailed, match=f"not to be released: \\['{name}'\\]"):
        release_check.check_wheel(make_wheel(tmp_path, name))


def test_wheel_without_a_file_of_a_package_fails(tmp_path: Path) -> None:
    path = tmp_path / "auditor-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("auditor/__init__.py", "")
    with pytest.raises(CheckFailed, match=r"missing: \['auditor/__main__.py'"):
        release_check.check_wheel(path)


def test_metadata_without_an_extra_fails(tmp_path: Path) -> None:
    with pytest.raises(CheckFailed, match="extras are"):
        release_check.check_metadata(make_wheel(tmp_path, extras=release_check.EXTRAS - {"all"}))


def test_extra_all_gathers_what_users_may_need() -> None:
    extras = release_check.PROJECT["optional-dependencies"]

    def gather(name: str) -> set[str]:
        inner = {one for line in extras[name] for part in re.findall(r"^auditor\[([^]]+)\]", line) for one in part.split(",")}
        return inner.union(*map(gather, inner))

    assert gather("all") == release_check.EXTRAS - release_check.EXTRAS_FOR_DEVELOPMENT - {"all"}


def test_sdist_with_tests_or_without_the_licence_fails(tmp_path: Path) -> None:
    def make(*names: str) -> None:
        with tarfile.open(tmp_path / "auditor-0.1.0.tar.gz", "w:gz") as archive:
            for name in names:
                archive.addfile(tarfile.TarInfo(f"auditor-0.1.0/{name}"), io.BytesIO())

    whole = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "auditor/planning/build.py")
    make(*whole)
    assert release_check.check_sdist(tmp_path) == "5 files and folders"
    make(*whole, "tests/test_cli.py")
    with pytest.raises(CheckFailed, match="test_cli"):
        release_check.check_sdist(tmp_path)
    make("pyproject.toml", "README.md", "CHANGELOG.md")
    with pytest.raises(CheckFailed, match="LICENSE"):
        release_check.check_sdist(tmp_path)


def test_program_that_fails_is_a_failed_check_with_its_last_lines() -> None:
    with pytest.raises(CheckFailed, match=r"(?s)exited with 3.*why it failed"):
        release_check.output(sys.executable, "-c", "import sys; print('why it failed'); sys.exit(3)")


@pytest.mark.parametrize(
    ("pins", "extras"),
    [
        ("demo", ["demo"]),
        ("service", ["service", *DRIVERS]),
        ("spark", ["service", "demo", "connect", "pipeline", *DRIVERS]),
        ("trial", ["service", "demo", "connect", "pipeline", "trial", *DRIVERS]),
    ],
)
def test_pins_hold_all_that_the_extras_need(pins: str, extras: list[str]) -> None:
    text = (release_check.ROOT / "requirements" / f"{pins}.txt").read_text()
    versions = release_check.pinned(pins)
    assert text.count("--hash=sha256:") >= len(versions)
    optional = release_check.PROJECT["optional-dependencies"]
    wanted = [Requirement(one) for one in release_check.PROJECT["dependencies"]]
    while extras:
        found = [Requirement(one) for one in optional[extras.pop()]]
        extras += [extra for one in found if one.name == "auditor" for extra in one.extras]
        wanted += [one for one in found if one.name != "auditor"]
    missing = [str(one) for one in wanted if not one.specifier.contains(versions.get(one.name, "0"), prereleases=True)]
    assert missing == [], "run make pins"


def test_vulnerability_of_a_pinned_package_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def answer(stdout: str, code: int) -> None:
        (tmp_path / "pip_audit.py").write_text(
            f"import sys\nprint({stdout!r})\nprint('no route to host', file=sys.stderr)\nsys.exit({code})\n"
        )

    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    answer('{"dependencies": [{"name": "h11", "version": "0.14.0", "vulns": [{"id": "CVE-2025-43859"}]}]}', 1)
    with pytest.raises(CheckFailed, match=r"h11 0\.14\.0: CVE-2025-43859"):
        release_check.find_vulnerabilities()
    answer('{"dependencies": [{"name": "h11", "version": "0.16.0", "vulns": []}]}', 0)
    assert release_check.find_vulnerabilities().startswith("none in ")
    answer("", 1)
    assert release_check.find_vulnerabilities() == "NOT CHECKED: no route to host"
