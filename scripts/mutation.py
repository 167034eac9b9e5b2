"""Mutation check: change the code in one place, and see whether a quick unit test fails.

Cosmic Ray proposes the changes. From all places of the pure packages a random sample is drawn, one change a place; each is applied to a
copy of the tree, whose unit tests run until the first fails. What survives is printed with its change: it is either equal in effect, or
something that no quick test looks at. The sample ends with the time that is given, and its figures say how many places there are.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
COPIED = ("auditor", "dialects", "sql_templates", "tests", "docs", "pyproject.toml", "README.md")

GOLDEN = "unit/test_golden.py::test_rendered_sql_equals_the_golden_file"

SUITES = {
    "auditor/canonical.py": (
        "unit/test_canonical_values.py", "unit/test_tolerance.py", "unit/test_planner.py", "unit/test_text_version.py",
        "engines/test_canonical.py",
    ),
    "auditor/compare": (
        "unit/test_compare_ranges.py", "unit/test_accounting.py", "unit/test_sampling.py", "unit/test_tolerance.py",
        "unit/test_score.py", "unit/test_counts.py", "unit/test_levels.py",
        "unit/test_text_forms.py", "pairs/test_exact.py", "unit/test_syndromes.py", "unit/test_patterns.py", "unit/test_verdict.py",
    ),
    "auditor/sql": (
        "unit/test_literals.py", "unit/test_column_text.py", "unit/test_filter_language.py", "unit/test_rendered_sql.py",
        "unit/test_counts.py", GOLDEN,
        "engines/test_counts_sql.py", "pairs/test_exact.py", "engines/test_canonical.py",
    ),
    "auditor/summary": (
        "unit/test_arrays.py", "unit/test_column_text.py", "unit/test_counts.py", "unit/test_codec.py", "engines/test_counts_sql.py",
        "pairs/test_exact.py",
    ),
}  # fmt: skip
"""Tests by what is changed, the quickest first. Those that are named like the changed module run before them."""

EQUAL = ("core/RemoveDecorator", "core/VariableInserter", "core/VariableReplacer", "core/ExceptionReplacer")
"""Operators that are left out: most of their changes are equal in effect, or fail at import."""

IMPORTED = "ignore:Module already imported:pytest.PytestAssertRewriteWarning"
"""Hypothesis is imported before pytest looks for plug-ins."""

LIMIT = 180.0
"""Seconds that the tests of a change have; a change that takes longer counts as found."""


@dataclass(frozen=True)
class Change:
    """A change of one place in a file."""

    path: str
    line: int
    operator: str
    occurrence: int


@dataclass(frozen=True)
class Trial:
    """A change that is being tried in a copy of the tree."""

    change: Change
    copy: Path
    before: str
    after: str
    began: float

    @property
    def difference(self) -> str:
        """Return the change as a difference."""
        return "".join(list(difflib.unified_diff(self.before.splitlines(True), self.after.splitlines(True), n=0))[2:])


def main() -> int:
    """Draw the sample, run it, and print the survivors. Returns 1 if more than the allowed share survived, 2 if tests fail as it is."""
    arguments = _arguments()
    places = _places(arguments.path or list(SUITES))
    random.Random(arguments.seed).shuffle(places)
    sample = places[: arguments.sample]
    print(f"{len(places)} places, of which up to {len(sample)} are changed within {arguments.minutes:g} minutes", flush=True)
    _import_heavy_packages()
    with tempfile.TemporaryDirectory() as folder:
        copies = [_copy(Path(folder) / str(number)) for number in range(arguments.workers)]
        failing = [start for start in SUITES if _wait_for({_start(copies[0], start): None})[1] != "survived"]
        if failing:
            print(f"the tests of {', '.join(failing)} fail, or take longer than {LIMIT:g} s, without any change; run them first")
            return 2
        outcomes = list(_outcomes(sample, copies, time.monotonic() + 60 * arguments.minutes))
    return _report(outcomes, arguments.most_survivors)


def _outcomes(sample: list[Change], copies: list[Path], deadline: float) -> Iterator[tuple[Change, str]]:
    """Try the changes, one at a time in each copy, until the deadline; yield how each ended, and print those that survived."""
    waiting, running = list(reversed(sample)), dict[int, Trial | None]()
    while running or (waiting and time.monotonic() < deadline):
        while copies and waiting and time.monotonic() < deadline:
            trial = _apply(waiting.pop(), copies[-1])
            if trial is not None:
                copies.pop()
                running[_start(trial.copy, trial.change.path)] = trial
        if not running:
            continue
        child, outcome = _wait_for(running)
        ended = running.pop(child)
        assert ended is not None
        (ended.copy / ended.change.path).write_text(ended.before, encoding="utf-8")
        copies.append(ended.copy)
        if outcome != "killed":
            place = f"{ended.change.path}:{ended.change.line} {ended.change.operator}"
            print(f"\n{outcome.upper()} {place}\n{ended.difference}", flush=True)
        yield ended.change, outcome


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("path", nargs="*", help="files or folders to change (default: all)")
    parser.add_argument("--sample", type=int, default=400, help="places to change (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=20.0, help="when to end, whatever is left (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="processes side by side (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="which sample is drawn (default: %(default)s)")
    parser.add_argument("--most-survivors", type=float, default=100.0, help="percent that may survive (default: %(default)s)")
    return parser.parse_args()


def _places(paths: Sequence[str]) -> list[Change]:
    """Return one change for each place, chosen among the operators that can change it."""
    from cosmic_ray.ast import ast_nodes, get_ast_from_path
    from cosmic_ray.commands.init import _operators

    operators = [(name, operator) for name, _, operator in _operators({}) if name not in EQUAL]
    changes_of: dict[tuple[str, tuple[int, int]], list[Change]] = {}
    for path in sorted(file for name in paths for file in ([ROOT / name] if name.endswith(".py") else (ROOT / name).rglob("*.py"))):
        name, nodes, idle = str(path.relative_to(ROOT)), list(ast_nodes(get_ast_from_path(path))), _idle_lines(path)
        for operator_name, operator in operators:
            starts = [start for node in nodes for start, _ in operator.mutation_positions(node)]
            for occurrence, start in enumerate(starts):
                if start not in idle:
                    changes_of.setdefault((name, start), []).append(Change(name, start[0], operator_name, occurrence))
    chance = random.Random(0)
    return [chance.choice(changes) for changes in changes_of.values()]


class _Idle(set[tuple[int, int]]):
    """Places whose change has no effect: annotations, which are not evaluated, and the arguments of decorators."""

    def __init__(self, tree: ast.AST) -> None:
        super().__init__()
        self.spans = [
            (node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or 0) for node in _unevaluated(tree)
        ]

    def __contains__(self, place: object) -> bool:
        assert isinstance(place, tuple)
        return any((first, column) <= place < (last, end) for first, column, last, end in self.spans)


def _idle_lines(path: Path) -> _Idle:
    return _Idle(ast.parse(path.read_text(encoding="utf-8")))


def _unevaluated(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign | ast.arg) and node.annotation is not None:
            yield node.annotation
        if isinstance(node, ast.FunctionDef):
            yield from [*node.decorator_list, *([node.returns] if node.returns else [])]
        if isinstance(node, ast.ClassDef):
            yield from node.decorator_list
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            yield node.test


def _import_heavy_packages() -> None:
    """Import what all tests import and no change touches, once: each change is tried in a fork of this process."""
    import duckdb  # noqa: F401
    import hypothesis  # noqa: F401
    import numpy as np  # noqa: F401
    import pyarrow as pa  # noqa: F401
    import pydantic  # noqa: F401
    import pytest  # noqa: F401
    import sqlalchemy  # noqa: F401
    import sqlglot  # noqa: F401


def _copy(folder: Path) -> Path:
    """Copy what the tests need into a folder of its own."""
    folder.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    return folder


def _apply(change: Change, copy: Path) -> Trial | None:
    """Write a changed file into a copy; return None if there is nothing to change."""
    path = copy / change.path
    before = path.read_text(encoding="utf-8")
    after = _mutated(before, change)
    if after is None or after == before:
        return None
    path.write_text(after, encoding="utf-8")
    return Trial(change, copy, before, after, time.monotonic())


def _mutated(code: str, change: Change) -> str | None:
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    mutant: str | None = mutate_code(code, get_operator(change.operator)(), change.occurrence)
    return mutant


def _tests(path: str) -> list[str]:
    suite = next(tests for start, tests in SUITES.items() if path.startswith(start))
    named = [f"test_{Path(path).stem}.py", f"test_{Path(path).parent.name}_{Path(path).stem.strip('_')}.py"]
    chosen = dict.fromkeys([*(f"unit/{name}" for name in named if (ROOT / "tests" / "unit" / name).is_file()), *suite])
    return [f"tests/{path}" for path in chosen]


def _start(copy: Path, path: str) -> int:
    """Run the tests of a file in a fork of this process, which has no other threads; return its process id."""
    child = os.fork()
    if child == 0:
        _become_pytest(copy, _tests(path))
    return child


def _wait_for(running: Mapping[int, Trial | None]) -> tuple[int, str]:
    """Return the process id of the first of these forks that ends, and ``killed``, ``survived`` or, if it had to be ended, ``timeout``."""
    began = time.monotonic()
    while True:
        for child, trial in running.items():
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return child, "survived" if os.waitstatus_to_exitcode(status) == 0 else "killed"
            if time.monotonic() - (trial.began if trial else began) > LIMIT:
                with suppress(ProcessLookupError):
                    os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return child, "timeout"
        time.sleep(0.05)


def _become_pytest(copy: Path, tests: list[str]) -> None:
    """Run the tests in this process, a fork, and end it."""
    code: Any = 99
    try:
        os.setsid()
        os.chdir(copy)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        sys.path.insert(0, str(copy))
        sys.dont_write_bytecode = True
        import pytest

        engines = "not (mysql or mariadb or postgres or redshift or spark)"
        code = pytest.main(["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-W", IMPORTED, "-m", engines, *tests])
    finally:
        os._exit(int(code))


def _report(outcomes: Sequence[tuple[Change, str]], most_survivors: float) -> int:
    for start in SUITES:
        here = [outcome for change, outcome in outcomes if change.path.startswith(start)]
        print(f"{start:<22} {len(here):>5} tried, {here.count('survived'):>4} survived, {here.count('timeout'):>3} ended by the time limit")
    survivors = sum(outcome == "survived" for _, outcome in outcomes)
    share = 100 * survivors / max(1, len(outcomes))
    print(f"{len(outcomes)} changes tried: {len(outcomes) - survivors} found, {survivors} survived ({share:.1f} %)")
    return 1 if not outcomes or share > most_survivors else 0


if __name__ == "__main__":
    sys.exit(main())
