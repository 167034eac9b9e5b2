"""A forked program behaves as one that was started anew, and what it needs is loaded already."""

from __future__ import annotations

import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.programs.forking import PRELOADED, Forked


@pytest.mark.parametrize("module", PRELOADED)
def test_each_preloaded_module_exists(module: str) -> None:
    assert find_spec(module), "a module that does not exist is left out without a word, and loaded by each process"


def test_a_forked_command_ends_as_a_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    (tmp_path / "auditor.yaml").write_text("connections: {a: {url: 'duckdb://a.duckdb'}}\naudits: {}\n")
    for arguments in (["--version"], ["run", "unknown"]):
        forked = Forked("auditor", arguments, tmp_path, stderr=True)
        out, err = forked.communicate(60.0)
        new = subprocess.run([sys.executable, "-m", "auditor", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (out, err, forked.returncode) == (new.stdout, new.stderr, new.returncode)


def test_a_forked_process_is_told_how_it_ended(tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text("import sys\nprint('ready', flush=True)\nsys.exit(7 if sys.stdin.read() == 'end' else 0)\n")
    for given, number, code in (("end", None, 7), ("", None, 0), ("", signal.SIGKILL, -9), ("", signal.SIGTERM, -15)):
        waiting = Forked("waits", [], tmp_path)
        assert waiting.stdout and waiting.stdout.readline() == "ready\n" and waiting.poll() is None
        waiting.stdin.write(given)
        if number:
            waiting.send_signal(number)
        waiting.communicate(30.0)
        assert waiting.returncode == code
