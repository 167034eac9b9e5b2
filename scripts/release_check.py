"""Check what would be released: make release-check.

It builds the sdist, the wheel and the bill of materials of the images, reads their metadata and contents, looks up the pinned packages in a
database of advisories, installs wheel and sdist in clean environments, audits there without an extra, and asks there for what each extra
brings: without it the command that installs it is named, and in an environment with it the same command works. It runs the demonstration,
lets this version go on with the store of the last tag, and builds the documentation. Nothing is published, and no file is left. Exits with
1 if a check fails; a check that could not be made is named.
"""

from __future__ import annotations

import email
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import venv
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PACKAGES = ("auditor", "dialects", "sql_templates")
WHEEL_ALONE = re.compile(r"(auditor|dialects|sql_templates)/|auditor-[^/]+\.dist-info/")
NOT_RELEASED = re.compile(r"(^|/)(tests?|benchmarks|scripts|docs|build|dist|\.venv|\.git|__pycache__)(/|$)|\.db$|\.pyc$")
EXTRAS = frozenset(PROJECT["optional-dependencies"])
EXTRAS_FOR_DEVELOPMENT = frozenset({"bench", "docs", "mutation", "release", "test", "testing", "trial"})
PINS = ("demo", "service", "spark", "trial")
"""Files of requirements/: what the demonstration installs, and the images."""

DEMO = "2,150 rows missing, 300 extra, 785 changed"
"""What the demonstration finds."""

CONFIG = """
connections:
  here: {url: "duckdb:///here.duckdb"}
  there: {url: "duckdb:///there.duckdb", write: {url: "duckdb:///there.duckdb"}}
  shop: {url: "mysql://u:p@127.0.0.1:1/shop", write: {url: "mysql://u:p@127.0.0.1:1/shop"}}
store: {url: "sqlite:///auditor.db"}
audits:
  t: {source: {connection: here, table: t}, target: {connection: there, table: t}, key: [id], where: "id > 5"}
pipelines:
  p: {source: {connection: shop, tables: [shop.t]}, targets: {there: {connection: there, schema: main}}, staging: {path: staged}}
"""
MAKE_FILES = """
import duckdb
for name in ("here", "there"):
    with duckdb.connect(f"{name}.duckdb") as connection:
        connection.execute("CREATE TABLE t AS SELECT i AS id, 'v' || i AS v FROM range(1000) r(i)")
"""


@dataclass(frozen=True)
class Trial:
    """What needs an extra: a command, or a program in Python, and what it prints where the extra is there."""

    arguments: tuple[str, ...]
    expected: str
    python: bool = False


CLOSED = "127.0.0.1:1"
"""A port at which no server answers."""

READ_S3 = """
from auditor.pipeline.folders import S3Folder
try:
    S3Folder("s3://bucket/staged").get("part")
except OSError as error:
    print(error)
"""

TRIALS = {
    "mysql": Trial(("diff", f"mysql://u:p@{CLOSED}/d", "a", "b"), "Can't connect to MySQL server"),
    "postgres": Trial(("diff", f"postgresql://u:p@{CLOSED}/d", "a", "b"), "Connection refused"),
    "redshift": Trial(("diff", f"redshift://u:p@{CLOSED}/d", "a", "b"), "Connection refused"),
    "s3": Trial((READ_S3,), "Could not connect to the endpoint", python=True),
    "delta": Trial(("diff", "delta:///nowhere", "a", "b"), "there is no folder"),
    "iceberg": Trial(("diff", "iceberg://nowhere?type=sql&uri=sqlite:////no/such.db", "a", "b"), "there is no file"),
    "spark": Trial(("diff", "spark://local?master=local[1]", "a", "b"), "there is no table"),
    "connect": Trial(("diff", f"sc://{CLOSED}", "a", "b"), CLOSED),
    "pipeline": Trial(("pipeline", "check", "p"), "error: source shop"),
    "service": Trial(("serve", "--host", "192.0.2.1", "--insecure"), "192.0.2.1"),  # an address that no machine has
    "tracing": Trial(("from auditor.telemetry import start_tracing; print('tracing', start_tracing())",), "tracing True", python=True),
}
"""By the extra."""

MISSING = "which this Python does not have; run: "

SECONDS = 1800
"""After which a program that a check runs is taken to hang."""


class CheckFailed(Exception):
    """A check found a fault; the message says which."""


def main() -> int:
    """Run all checks, print a line for each, and return the exit code."""
    failed = 0
    with tempfile.TemporaryDirectory(prefix="auditor-release-") as name:
        for title, check in checks(Path(name)):
            began = time.monotonic()
            try:
                result = check()
            except CheckFailed as fault:
                failed += 1
                result = f"FAILED: {fault}"
            print(f"{title:<34}{time.monotonic() - began:6.1f} s  {result}", flush=True)
    print(f"{failed} checks failed" if failed else "all checks passed")
    return min(failed, 1)


def checks(folder: Path) -> list[tuple[str, Callable[[], str]]]:
    """Return the checks in their order: each returns what it found, or raises CheckFailed."""
    dist, clean = folder / "dist", folder / "clean"
    return [
        ("build sdist and wheel", lambda: build(dist)),
        ("metadata (twine check)", lambda: check_description(dist)),
        ("metadata of the wheel", lambda: check_metadata(wheel(dist))),
        ("contents of the wheel", lambda: check_wheel(wheel(dist))),
        ("contents of the sdist", lambda: check_sdist(dist)),
        ("bill of materials", lambda: write_materials(dist)),
        ("published vulnerabilities", find_vulnerabilities),
        ("install the wheel alone", lambda: install(wheel(dist), clean)),
        ("install the sdist", lambda: install_sdist(sdist(dist), clean, folder)),
        ("the installed command", lambda: check_command(clean, folder)),
        ("an audit without extras", lambda: audit_files(clean, folder)),
        *((f"without [{extra}]", lambda extra=extra: try_without(clean, folder, extra)) for extra in TRIALS),
        *((f"with [{extra}]", lambda extra=extra: try_with(wheel(dist), clean, folder, extra)) for extra in TRIALS),
        *(
            (f"extra [{extra}] resolves", lambda extra=extra: resolve(wheel(dist), clean, extra))
            for extra in sorted(EXTRAS - EXTRAS_FOR_DEVELOPMENT - set(TRIALS))
        ),
        ("the demonstration, installed", lambda: run_demo(wheel(dist), clean, folder)),
        ("upgrade from the last tag", lambda: upgrade(wheel(dist), folder)),
        ("the documentation", lambda: build_documentation(folder)),
    ]


def output(*command: str, cwd: Path = ROOT, code: int | None = 0, **variables: str) -> list[str]:
    """Run a program, and return the lines that it prints. Raises CheckFailed with the last of them if it ends otherwise.

    A ``code`` of None lets it end as it does.
    """
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "AUDITOR_CONFIG", "VIRTUAL_ENV")}
    try:
        done = subprocess.run(command, cwd=cwd, env=kept | variables, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise CheckFailed(f"{' '.join(command)} did not end within {SECONDS} s") from None
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    if code is not None and done.returncode != code:
        raise CheckFailed("\n    ".join([f"{' '.join(command)} exited with {done.returncode}", *lines[-20:]]))
    return lines


def build(dist: Path) -> str:
    """Build both, the wheel from the sdist, so that the sdist is known to be complete."""
    output(sys.executable, "-m", "build", "--outdir", str(dist), str(ROOT))
    built = sorted(path.name for path in dist.iterdir())
    if len(built) != 2:
        raise CheckFailed(f"expected an sdist and a wheel: {built}")
    return ", ".join(f"{path.name} ({path.stat().st_size / 1024:,.0f} KiB)" for path in sorted(dist.iterdir()))


def check_description(dist: Path) -> str:
    """Let twine check that a registry can show the description."""
    checked = output(sys.executable, "-m", "twine", "check", "--strict", *map(str, sorted(dist.iterdir())))
    return f"{sum('PASSED' in line for line in checked)} files passed"


def wheel(dist: Path) -> Path:
    """Return the wheel. Raises CheckFailed if none was built."""
    wheels = list(dist.glob("*.whl"))
    if len(wheels) != 1:
        raise CheckFailed("there is no wheel")
    return wheels[0]


def sdist(dist: Path) -> Path:
    """Return the sdist. Raises CheckFailed if none was built."""
    archives = list(dist.glob("*.tar.gz"))
    if len(archives) != 1:
        raise CheckFailed("there is no sdist")
    return archives[0]


def read_metadata(path: Path) -> Message:
    """Return the metadata in a wheel."""
    with zipfile.ZipFile(path) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(archive.read(name))


def check_metadata(path: Path) -> str:
    """Compare the metadata with pyproject.toml."""
    metadata = read_metadata(path)
    expected = {"Name": PROJECT["name"], "Version": PROJECT["version"], "Requires-Python": PROJECT["requires-python"]}
    expected |= {"License-Expression": PROJECT["license"], "Summary": PROJECT["description"], "License-File": "LICENSE"}
    wrong = [f"{name} is {metadata[name]!r}, not {value!r}" for name, value in expected.items() if metadata[name] != value]
    extras = set(metadata.get_all("Provides-Extra", []))
    if extras != EXTRAS:
        wrong.append(f"extras are {sorted(extras)}, not {sorted(EXTRAS)}")
    if "# auditor" not in str(metadata.get_payload()):
        wrong.append("the description is not the README")
    if wrong:
        raise CheckFailed("; ".join(wrong))
    return f"{PROJECT['name']} {PROJECT['version']}, {len(metadata.get_all('Requires-Dist', []))} requirements, {len(extras)} extras"


def check_wheel(path: Path) -> str:
    """Find files that do not belong into a wheel, and files of the packages that are missing in it."""
    with zipfile.ZipFile(path) as archive:
        inside = {name for name in archive.namelist() if not name.endswith("/")}
    strange = [name for name in inside if not WHEEL_ALONE.match(name) or NOT_RELEASED.search(name)]
    tracked = output("git", "ls-files", "--", *PACKAGES)
    missing = sorted(set(tracked) - inside)
    if strange or missing:
        raise CheckFailed(f"inside, but not to be released: {strange[:5]}; missing: {missing[:5]}")
    return f"{len(inside)} files, those of {', '.join(PACKAGES)} alone"


def check_sdist(dist: Path) -> str:
    """Find files that do not belong into an sdist."""
    with tarfile.open(sdist(dist)) as archive:
        inside = [name.partition("/")[2] for name in archive.getnames()]
    strange = [name for name in inside if NOT_RELEASED.search(name)]
    missing = {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"} - set(inside)
    if strange or missing:
        raise CheckFailed(f"inside, but not to be released: {strange[:5]}; missing: {sorted(missing)}")
    return f"{len(inside)} files and folders"


def pinned(name: str) -> dict[str, str]:
    """Return the versions that a file of requirements/ pins, by the names of the packages."""
    lines = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return dict(re.split(r"==| ", line, maxsplit=2)[:2] for line in lines if re.match(r"[\w.-]+==", line))


def write_materials(dist: Path) -> str:
    """Write what the image with all parts consists of as CycloneDX: each pinned package with its version and hashes."""
    path = dist / f"auditor-{PROJECT['version']}.cdx.json"
    source = ROOT / "requirements" / "spark.txt"
    output(sys.executable, "-m", "cyclonedx_py", "requirements", str(source), "--pyproject", str(ROOT / "pyproject.toml"), "-o", str(path))
    listed = {component["name"]: component["version"] for component in json.loads(path.read_text(encoding="utf-8"))["components"]}
    if listed != (expected := pinned("spark")):
        raise CheckFailed(f"listed otherwise than pinned: {sorted(listed.items() ^ expected.items())[:5]}")
    return f"{path.name}, {len(listed)} packages"


def find_vulnerabilities() -> str:
    """Look up each pinned package in the database of https://osv.dev. Raises CheckFailed with those that have a published hole."""
    holes: set[str] = set()
    for name in PINS:
        source = str(ROOT / "requirements" / f"{name}.txt")
        command = [sys.executable, "-m", "pip_audit", "-s", "osv", "--require-hashes", "--disable-pip", "--format", "json", "-r", source]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        try:
            packages = json.loads(done.stdout)["dependencies"]
        except ValueError:
            return f"NOT CHECKED: {(done.stderr.splitlines() or [f'pip-audit exited with {done.returncode}'])[-1][:200]}"
        holes |= {f"{package['name']} {package['version']}: {hole['id']}" for package in packages for hole in package.get("vulns", [])}
    if holes:
        raise CheckFailed("\n    ".join(["make pins may help:", *sorted(holes)]))
    return f"none in {len({pin for name in PINS for pin in pinned(name).items()})} packages"


def install(path: Path, clean: Path) -> str:
    """Install a distribution without an extra in a new environment."""
    venv.create(clean, with_pip=True)
    pip(clean, "install", "--no-compile", str(path))
    pip(clean, "check")
    return f"{len(pip(clean, 'list', '--format', 'freeze'))} packages"


def install_sdist(path: Path, clean: Path, folder: Path) -> str:
    """Build and install the sdist in an environment of its own, beside the packages of the clean one."""
    place = extend(clean, folder / "from-sdist")
    pip(clean, "install", "--no-deps", "--force-reinstall", str(path), place=place)
    (where,) = output(str(place / "bin" / "python"), "-c", "import auditor; print(auditor.__file__)", cwd=folder)
    if str(place) not in where:
        raise CheckFailed(f"the environment imports {where}")
    return output(str(place / "bin" / "auditor"), "--version", cwd=folder)[0]


def extend(clean: Path, place: Path) -> Path:
    """Create an environment that has the packages of the clean one, and return it. To install them again would take minutes."""
    venv.create(place)
    (packages,) = place.glob("lib/*/site-packages")
    (shared,) = clean.glob("lib/*/site-packages")
    (packages / "clean.pth").write_text(f"{shared}\n", encoding="utf-8")
    return place


def pip(clean: Path, *arguments: str, place: Path | None = None) -> list[str]:
    """Run pip of the clean environment, in another one if it is named, and return the lines that it prints."""
    where = ["--python", str(place / "bin" / "python")] if place else []
    return output(str(clean / "bin" / "python"), "-m", "pip", *where, "--disable-pip-version-check", *arguments, cwd=clean)


def check_command(clean: Path, folder: Path) -> str:
    """Run the command in each way that it can be called, from a folder that holds no sources."""
    program, python = str(clean / "bin" / "auditor"), str(clean / "bin" / "python")
    versions = {*output(program, "--version", cwd=folder), *output(python, "-m", "auditor", "--version", cwd=folder)}
    if versions != {f"auditor {PROJECT['version']}"}:
        raise CheckFailed(f"auditor --version and python -m auditor --version print {versions}")
    for shell in ("bash", "zsh", "fish"):
        output(program, "completion", shell, cwd=folder)
    (where,) = output(python, "-c", "import auditor; print(auditor.__file__)", cwd=folder)
    if str(clean) not in where:
        raise CheckFailed(f"the environment imports {where}")
    return f"auditor {PROJECT['version']}, python -m auditor, completion"


def audit_files(clean: Path, folder: Path) -> str:
    """Audit two embedded databases, with a filter and a store on SQLite, where no extra is installed."""
    (folder / "auditor.yaml").write_text(CONFIG, encoding="utf-8")
    output(str(clean / "bin" / "python"), "-c", MAKE_FILES, cwd=folder)
    program = str(clean / "bin" / "auditor")
    run = next(line for line in output(program, "run", "t", "--json", "-q", cwd=folder) if '"run"' in line).split('"')[3]
    for arguments in (("ls",), ("history", "t"), ("show", run), ("report", "--run", run, "--format", "html"), ("differences", "t")):
        output(program, *arguments, cwd=folder)
    return "match"


def try_without(clean: Path, folder: Path, extra: str) -> str:
    """Run what needs an extra where none is installed. Raises CheckFailed unless a sentence names the command that installs it."""
    lines = attempt(clean, folder, TRIALS[extra])
    wanted = [line for line in lines if (MISSING in line or "is not installed; run: " in line) and f"[{extra}]" in line]
    if not wanted or any("Traceback" in line or "unexpected error" in line for line in lines):
        raise CheckFailed("\n    ".join(["no sentence says what is missing:", *lines[-20:]]))
    return wanted[0].partition("run: ")[2]


def try_with(path: Path, clean: Path, folder: Path, extra: str) -> str:
    """Run the same in an environment with the extra and what the clean one has, which is removed again."""
    trial, place = TRIALS[extra], extend(clean, folder / f"with-{extra}")
    try:
        more = pip(clean, "install", f"{path}[{extra}]", place=place)
        pip(clean, "check", place=place)
        lines = attempt(place, folder, trial)
        if not any(trial.expected in line for line in lines) or any(MISSING in line or "Traceback" in line for line in lines):
            raise CheckFailed("\n    ".join([f"{trial.expected!r} is not printed:", *lines[-20:]]))
        return f"{next((len(line.split()) - 2 for line in more if line.startswith('Successfully')), 0)} packages more; {trial.expected}"
    finally:
        shutil.rmtree(place)


def attempt(place: Path, folder: Path, trial: Trial) -> list[str]:
    """Return what a trial prints in an environment, whatever its exit code is."""
    program = [str(place / "bin" / "python"), *(["-c"] if trial.python else ["-m", "auditor"])]
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{CLOSED}", "AWS_ENDPOINT_URL": f"http://{CLOSED}"} | {
        "AWS_DEFAULT_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "nothing", "COLUMNS": "1000",
    }  # fmt: skip
    return output(*program, *trial.arguments, cwd=folder, code=None, **variables)


def upgrade(path: Path, folder: Path) -> str:
    """Run the last tag's version, and let this one go on with its store. There is nothing to try before the first tag."""
    tags = subprocess.run(["git", "describe", "--tags", "--abbrev=0"], cwd=ROOT, capture_output=True, text=True, check=False)
    if tags.returncode:
        return "NOT TRIED: there is no tag to upgrade from"
    tag, place, work = tags.stdout.strip(), folder / "of-the-tag", folder / "upgraded"
    work.mkdir()
    (work / "source.tar").write_bytes(subprocess.run(["git", "archive", tag], cwd=ROOT, capture_output=True, check=True).stdout)
    with tarfile.open(work / "source.tar") as archive:
        archive.extractall(work / "source", filter="data")
    venv.create(place, with_pip=True)
    pip(place, "install", f"{work / 'source'}[pipeline]")
    program = str(place / "bin" / "auditor")
    (work / "auditor.yaml").write_text(CONFIG.replace("sqlite:///", f"sqlite:///{work}/"), encoding="utf-8")
    output(str(place / "bin" / "python"), "-c", MAKE_FILES, cwd=work)
    output(program, "run", "t", "-q", cwd=work)
    output(program, "pipeline", "status", "p", cwd=work)
    pip(place, "install", "--no-compile", f"{path}[pipeline]", "--force-reinstall", "--no-deps")
    for arguments in (("history", "t"), ("run", "t", "-q"), ("ls",), ("pipeline", "status", "p")):
        output(program, *arguments, cwd=work)
    return f"the store of {tag} was upgraded"


def run_demo(path: Path, clean: Path, folder: Path) -> str:
    """Run the demonstration in the clean environment, whose data are an extra, and an audit of what it leaves."""
    pip(clean, "install", f"{path}[demo]")
    program = str(clean / "bin" / "auditor")
    for arguments in (("demo",), ("run", "flights", "--config", "demo-data/auditor.yaml")):
        if DEMO not in output(program, *arguments, "-q", cwd=folder, code=1):
            raise CheckFailed(f"auditor {' '.join(arguments)} does not print: {DEMO}")
    return DEMO


def resolve(path: Path, clean: Path, extra: str) -> str:
    """Let pip resolve an extra in the clean environment, without installing it."""
    lines = pip(clean, "install", "--dry-run", f"{path}[{extra}]")
    more = [word for line in lines if line.startswith("Would install") for word in line.split()[2:]]
    return f"{len(more)} packages more, {more[0]} to {more[-1]}" if more else "nothing more"


def build_documentation(folder: Path) -> str:
    """Build the site without a warning."""
    output(sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder / "site"), NO_MKDOCS_2_WARNING="1")
    return f"{len(list((folder / 'site').rglob('*.html')))} pages"


if __name__ == "__main__":
    sys.exit(main())
