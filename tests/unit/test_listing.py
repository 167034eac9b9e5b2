"""``auditor ls``, ``run --all`` and patterns, ``show --follow``, ``differences`` and ``completion``."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from auditor import config
from auditor.cli import main
from auditor.config import select_audits
from auditor.errors import UnknownAudit
from auditor.service import workers
from auditor.store import open_store


@pytest.fixture
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with two databases and a configuration of three audits: one equal, one that differs, one of another name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUDITOR_CONFIG", raising=False)
    for side in ("source", "target"):
        with duckdb.connect(f"{side}.duckdb") as database:
            for table in ("orders", "customers"):
                database.execute(f"CREATE TABLE {table} AS SELECT i AS id, 'v' || i AS v FROM range(50) r(i)")
    with duckdb.connect("target.duckdb") as database:
        database.execute("UPDATE orders SET v = 'x' WHERE id = 7")
        database.execute("DELETE FROM orders WHERE id = 9")

    def audit(table: str, **more: Any) -> dict[str, Any]:
        return {**{side: {"connection": side, "table": table} for side in ("source", "target")}, "key": ["id"], **more}

    value = {
        "connections": {side: {"url": f"duckdb:///{tmp_path}/{side}.duckdb"} for side in ("source", "target")},
        "audits": {
            "shop.orders": audit("orders", schedule="30 6 * * *"),
            "shop.customers": audit("customers"),
            "other": audit("customers"),
        },
    }
    (tmp_path / "auditor.yaml").write_text(json.dumps(value), encoding="utf-8")
    return tmp_path


def listed(capsys: pytest.CaptureFixture[str], *names: str) -> dict[str, dict[str, Any]]:
    assert main(["ls", *names, "--json"]) == 0
    return {one["audit"]: one for one in json.loads(capsys.readouterr().out)}


def test_ls_tells_what_each_audit_stands_at_without_asking_a_database(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "shop.*", "-q", "--json"]) == 1
    assert [one["audit"] for one in json.loads(capsys.readouterr().out)] == ["shop.orders", "shop.customers"]
    (workdir / "target.duckdb").unlink()
    found = listed(capsys)
    assert {name: (one["status"], one["verdict"], one["age"] is None) for name, one in found.items()} == {
        "shop.orders": ("mismatch", "mismatch", False),
        "shop.customers": ("match", "match", False),
        "other": ("never", None, True),
    }
    assert found["shop.orders"]["next_due"].endswith("06:30:00Z")
    assert list(listed(capsys, "o*")) == ["other"]
    assert main(["ls"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert next(line for line in lines if line[0] == "shop.orders")[:4] == ["shop.orders", "mismatch", lines[1][2], "seconds"]
    assert main(["ls", "nobody"]) == 2
    assert "there is no audit 'nobody' (audits here: other, shop.customers, shop.orders)" in capsys.readouterr().err


def test_run_all_runs_each_audit_once(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--all", "-q", "--json", "--no-store"]) == 1
    assert [one["audit"] for one in json.loads(capsys.readouterr().out)] == ["shop.orders", "shop.customers", "other"]
    for wrong, message in (
        (["run", "--all", "other"], "--all cannot be combined with audit names"),
        (["run", "--all", "--due"], "--due cannot be combined"),
        (["run"], "no audit given; name audits or patterns of their names, or use --all or --due"),
        (["run", "nothing.*"], "no audit matches 'nothing.*'"),
    ):
        assert main(wrong) == 2
        assert message in capsys.readouterr().err


def test_names_that_match_patterns_are_selected_once() -> None:
    known = ["a", "b", "ab", "odd[1]"]
    assert select_audits(known, ["b", "a*", "*b"]) == ["b", "a", "ab"]
    assert select_audits(known, ["odd[1]", "absent"]) == ["odd[1]", "absent"]
    with pytest.raises(UnknownAudit, match=r"no audit matches 'x\?'"):
        select_audits(known, ["x?"])


def test_partitions_of_a_run(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["run", "shop.orders", "--method", "minhash", "-q"])
    capsys.readouterr()
    assert main(["runs", "--json"]) == 0
    run = json.loads(capsys.readouterr().out)[0]["run"]
    assert main(["partitions", run]) == 0
    head, line, *more = capsys.readouterr().out.splitlines()
    assert head.split()[:2] == ["partition", "state"] and not more
    assert re.search(r"keys \S+ to \S+ +unequal +\d+ +\d+ +[01][\d.]* ± 0\.25 ", line), line
    assert main(["partitions", run, "--json"]) == 0
    [found] = json.loads(capsys.readouterr().out)
    assert (found["state"], found["similarity_error"]) == ("unequal", 0.25)
    assert main(["partitions", run, "--format", "csv"]) == 0
    [row] = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (row["label"], row["state"], row["similarity_error"]) == (found["label"], "unequal", "0.25")
    assert float(row["similarity"]) == pytest.approx(found["similarity"])
    assert main(["partitions", run, "--state", "equal"]) == 0
    assert capsys.readouterr().out == "no partition is in the state equal\n"
    assert main(["show", run]) == 0 and "± 0.25" in capsys.readouterr().out
    assert main(["partitions", "0" * 12]) == 2


def test_differences_of_a_run(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["run", "shop.orders", "shop.customers", "-q"])
    capsys.readouterr()
    assert main(["differences", "shop.orders"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert sorted((row["kind"], row["id"], row["column"]) for row in rows) == [("changed", "7", "v"), ("missing", "9", "")]
    assert main(["differences", "shop.orders", "--json"]) == 0
    assert sorted(one["key"]["id"] for one in json.loads(capsys.readouterr().out)) == ["7", "9"]
    assert main(["differences", "shop.orders", "--format", "parquet", "--output", "found.parquet"]) == 0
    assert capsys.readouterr().err == "wrote found.parquet\n"
    assert sorted(pq.read_table("found.parquet").column("id").to_pylist()) == [7, 9]
    assert (workdir / "found.parquet").stat().st_mode & 0o777 == 0o600
    assert main(["differences", "shop.customers", "-q"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert main(["differences", "absent"]) == 2
    assert "there is no run and no audit that ran called 'absent'; list the runs with: auditor runs" in capsys.readouterr().err
    assert main(["show", "shop.order"]) == 2
    assert "there is no run and no audit that ran called 'shop.order'; did you mean 'shop.orders'" in capsys.readouterr().err
    assert main(["show", "other"]) == 2
    assert "audit other has not run yet" in capsys.readouterr().err


def test_parquet_is_not_written_to_a_terminal(workdir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    main(["run", "shop.orders", "-q"])
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["differences", "shop.orders", "--format", "parquet"]) == 2
    assert "write it to a file with --output FILE" in capsys.readouterr().err


def test_follow_waits_for_the_end_and_exits_with_its_code(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = config.load(workdir / "auditor.yaml")
    assert settings.store
    store = open_store(settings.store.url)
    try:
        run = workers.request_run(settings, store, "shop.orders").run
        crew = workers.Workers(settings, store, 1)
        crew.start()
        try:
            assert main(["show", run, "--follow", "--json"]) == 1
        finally:
            crew.stop(10)
    finally:
        store.close()
    out, _ = capsys.readouterr()
    assert (json.loads(out)["run"], json.loads(out)["verdict"]) == (run, "mismatch")
    assert main(["show", run, "-q"]) == 0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["di"], {"diff", "differences"}),
        (["diff", "--f"], {"--format"}),
        (["diff", "--format", ""], {"text", "json", "markdown", "csv", "html"}),
        (["pipeline", "in"], {"init"}),
        (["completion", ""], {"bash", "zsh", "fish", "audits", "runs", "-h", "--help", "--config"}),
    ],
)
def test_bash_completes_commands_options_and_values(words: list[str], expected: set[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    line = " ".join(f"'{word}'" for word in ["auditor", *words])
    code = f"COMP_WORDS=({line}); COMP_CWORD={len(words)}; _auditor; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    shell = shutil.which("bash")
    assert shell
    done = subprocess.run([shell, "-c", capsys.readouterr().out + code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == expected
    assert done.stderr == ""


def test_bash_completes_names_of_audits_and_runs(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those with marks that a shell would act on are completed as they are written, and nothing in them is carried out."""
    wicked = "$(touch made) 'it'"
    text = json.loads((workdir / "auditor.yaml").read_text())
    text["audits"][wicked] = text["audits"]["shop.orders"]
    other = workdir / "other.yaml"
    other.write_text(json.dumps({**text, "store": {"url": f"sqlite:///{workdir}/auditor.db"}}))
    main(["run", "shop.orders", "-q", "--config", str(other)])
    capsys.readouterr()
    assert main(["completion", "runs", "--config", str(other)]) == 0
    (run,) = [line for line in capsys.readouterr().out.splitlines() if line not in text["audits"]]
    shell, home = shutil.which("bash"), Path(sys.executable).parent
    assert shell
    main(["completion", "bash"])
    script = capsys.readouterr().out

    def completed(*words: str) -> list[str]:
        given = ["auditor", *words]
        code = f"COMP_WORDS=({shlex.join(given)}); COMP_CWORD={len(words)}; _auditor; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        environment = {**os.environ, "PATH": f"{home}:{os.environ['PATH']}"}
        done = subprocess.run([shell, "-c", script + code], capture_output=True, text=True, check=True, cwd=workdir, env=environment)
        assert done.stderr == ""
        return done.stdout.splitlines()

    assert completed("run", "--config", str(other), "shop.o") == ["shop.orders"]
    assert completed("show", "--config", str(other), run[:3]) == [run]
    assert completed("report", "--config", str(other), "--run", "shop.o") == ["shop.orders"]
    assert completed("ls", "--config", str(other), "$") == [
        subprocess.run([shell, "-c", 'printf %q "$1"', "-", wicked], capture_output=True, text=True, check=True).stdout
    ]
    assert not (workdir / "made").exists()
    assert "shop.orders" in completed("run", "") and completed("run", "--config", "absent.yaml", "shop.o") == [""]


def test_fish_completes_commands_options_values_and_names(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shell = shutil.which("fish")
    if shell is None:
        pytest.skip("there is no fish here")
    assert main(["completion", "fish"]) == 0
    lines = [
        "auditor ru",
        "auditor run --met",
        "auditor run --method e",
        "auditor run shop.o",
        "auditor pipeline run --",
        "auditor token -",
    ]
    lines.append(f"auditor run --config {workdir}/none.yaml shop.o")
    asked = "; ".join(f"echo :; complete -C {shlex.quote(line)}" for line in lines)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(workdir)}
    done = subprocess.run(
        [shell, "-c", capsys.readouterr().out + asked], capture_output=True, text=True, check=True, cwd=workdir, env=environment
    )
    answers = [[line.split("\t")[0] for line in one.splitlines() if line] for one in done.stdout.split(":\n")[1:]]
    assert answers[:4] == [["run", "runs"], ["--method"], ["exact"], ["shop.orders"]], done.stdout
    assert "--target" in answers[4] and "--all" not in answers[4], "an action has its command's options, and no others"
    assert {"--help", "--audits"} <= set(answers[5])
    assert answers[6] == []


def test_zsh_completes_as_bash_does(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Zsh takes the function of bash: only what is written around it differs."""
    assert main(["completion", "bash"]) == 0
    bash = capsys.readouterr().out
    assert main(["completion", "zsh"]) == 0
    zsh = capsys.readouterr().out
    assert zsh.partition("_auditor() {")[2] == bash.partition("_auditor() {")[2] != ""
    assert "bashcompinit && bashcompinit" in zsh.partition("_auditor() {")[0]


def test_python_m_auditor_and_version() -> None:
    done = subprocess.run([sys.executable, "-m", "auditor", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("auditor ")
