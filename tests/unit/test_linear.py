"""Every regular expression takes steps in proportion to the length of what it reads.

Python's matcher backtracks, holds the interpreter's lock and has no time limit, so that an expression with a worse measure stops a
service with a few kilobytes. The test takes each expression of the code, lets a matcher that counts its steps read inputs made to let it
backtrack, and doubles them.
"""

from __future__ import annotations

import ast
import importlib
import re
import re._constants as op  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import dialects
from auditor import escaping
from auditor.errors import AuditorError, ResultError
from auditor.pipeline.binlog import sql_tokens, table_statements
from auditor.service import console_results
from auditor.sql.filter import _parser
from dialects import kinds

ROOT = Path(__file__).parents[2]
FUNCTIONS = ("compile", "match", "search", "sub", "subn", "split", "findall", "finditer", "fullmatch")
ANCHORED = ("match", "fullmatch")
CALL = re.compile(rf"\bre\.(?:{'|'.join(FUNCTIONS)})\(")

UNIT = 16
"""How often a piece is repeated in the shorter input."""

MOST = 3.0
"""The factor of steps that a doubled input may cost: 2 is linear, 4 quadratic."""

BUILT = {
    "auditor/cli/_option_values.py": "one of the two patterns of keys and times, against an option of the command line",
    "auditor/config/_file.py": "the plain name of a variable behind a word, against the configuration",
    "auditor/store/events.py": "a plain key between the ends of words, against what a person wrote",
    "auditor/pipeline/check.py": "alternatives of plain privileges, against the grants of one account",
    "auditor/pipeline/binlog/ddl.py": "one of the patterns of MOMENTS, against one literal",
    "auditor/pipeline/binlog/sql_tokens.py": "one pattern of tokens in two forms, whose repetitions are possessive",
    "auditor/pipeline/binlog/log_scope.py": "a table of a replica's filter, in which % is .*, against a name of at most 129 characters",
    "auditor/planning/columns.py": "the plain name of a column between the ends of a word",
    "auditor/sql/filter/_parser.py": "one of the patterns of FORMS, against one literal",
    "auditor/telemetry.py": "alternatives of plain secrets",
    "dialects/clickhouse/table_parts.py": "the plain name of a column between the ends of a word",
    "dialects/iceberg/commits.py": "a column of a SELECT that this module wrote: names in quotes, between words",
    "dialects/iceberg/layout.py": "the number of digits in a type of the metadata",
    "dialects/versions.py": "the signs of variants, of one repetition each, against 4,000 characters of what a server says of itself",
}
"""Modules with an expression that is put together when it runs, and of what: each is linear by what it is made of."""


@dataclass(frozen=True)
class Use:
    """An expression in the code, and how it is used."""

    module: str
    line: int
    pattern: str | bytes | None
    flags: int
    anchored: bool
    """Whether every use begins to match at one place only, where each other one tries all places."""


def _flags(call: ast.Call, how: str) -> int:
    found = 0
    at = {"compile": 1, "match": 2, "search": 2, "fullmatch": 2, "findall": 2, "finditer": 2, "split": 3, "sub": 4, "subn": 4}[how]
    given = [*call.args[at : at + 1], *(word.value for word in call.keywords if word.arg == "flags")]
    for one in given:
        for name in ast.walk(one):
            if isinstance(name, ast.Attribute):
                found |= int(getattr(re, name.attr))
    return found


def _constant(node: ast.expr, module: Any) -> str | bytes | None:
    """Return the text of an expression that is known without running the function it stands in."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str | bytes) else None
    try:
        value = eval(compile(ast.Expression(node), "expression", "eval"), vars(module))
    except NameError:
        return None
    return value if isinstance(value, str | bytes) else None


def uses() -> Iterator[Use]:
    for name, text in SOURCES.items():
        if not CALL.search(text):
            continue
        tree = ast.parse(text)
        calls = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
            and node.func.attr in FUNCTIONS
        ]
        if not calls:
            continue
        kept = {one.value: one.targets[0].id for one in tree.body if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name)}
        module = importlib.import_module(name.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
        for call in calls:
            assert isinstance(call.func, ast.Attribute)
            how = call.func.attr
            anchored = how in ANCHORED or (how == "compile" and _is_anchored(kept.get(call, ""), name))
            yield Use(name, call.lineno, _constant(call.args[0], module), _flags(call, how), anchored)


def _is_anchored(kept: str, module: str) -> bool:
    """Return whether what a module keeps under a name is only used to match at one place; anything else that is done with it is not."""
    if not kept:
        return False
    files = [module] if kept.startswith("_") else [one for one, text in SOURCES.items() if kept in text]
    found = [method for one in files for method in re.findall(rf"\b{kept}\b(?! = re)(?:\.(\w+)\()?", SOURCES[one])]
    imports = sum(len(re.findall(rf"import [^\n]*\b{kept}\b", SOURCES[one])) for one in files)
    return len([method for method in found if method not in ANCHORED]) <= imports


SOURCES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted([*ROOT.glob("auditor/**/*.py"), *ROOT.glob("dialects/**/*.py")])
}
USES = list(uses())


class TooManySteps(Exception):
    """A match that takes more steps than any linear one."""


class Matcher:
    """A matcher that backtracks as Python's does, and counts how many items it tries."""

    def __init__(self, pattern: str | bytes, flags: int, limit: int) -> None:
        text = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
        self.tree = parser.parse(text, flags)
        self.flags = self.tree.state.flags
        self.limit = limit
        self.steps = 0

    def search(self, text: str, starts: range) -> int:
        """Return the steps to find all matches that begin at these places, one after another."""
        self.text, self.steps, at = text, 0, starts.start
        while at < starts.stop:
            end = self._run(list(self.tree), 0, at, {}, lambda place, _: place)
            at = max(at + 1, end) if end is not None else at + 1
        return self.steps

    def _run(
        self, items: list[Any], number: int, at: int, groups: dict[int, tuple[int, int]], then: Callable[..., int | None]
    ) -> int | None:
        self.steps += 1
        if self.steps > self.limit:
            raise TooManySteps
        if number == len(items):
            return then(at, groups)
        kind, value = items[number]

        def go_on(place: int, found: dict[int, tuple[int, int]]) -> int | None:
            return self._run(items, number + 1, place, found, then)

        if kind is op.MAX_REPEAT or kind is op.MIN_REPEAT or kind is op.POSSESSIVE_REPEAT:
            return self._repeat(kind, value, at, groups, go_on)
        if kind is op.SUBPATTERN:
            group, _, _, inner = value
            begin = at
            return self._run(list(inner), 0, at, groups, lambda end, found: go_on(end, {**found, group: (begin, end)} if group else found))
        if kind is op.ATOMIC_GROUP:
            end = self._run(list(value), 0, at, groups, lambda place, _: place)
            return None if end is None else go_on(end, groups)
        if kind is op.BRANCH:
            for one in value[1]:
                if (end := self._run(list(one), 0, at, groups, go_on)) is not None:
                    return end
            return None
        if kind is op.ASSERT or kind is op.ASSERT_NOT:
            direction, inner = value
            width = inner.getwidth()[1] if direction < 0 else 0
            found = at >= width and self._run(list(inner), 0, at - width, groups, lambda place, _: place) is not None
            return go_on(at, groups) if found is (kind is op.ASSERT) else None
        if kind is op.AT:
            return go_on(at, groups) if self._is_at(value, at) else None
        if kind is op.GROUPREF:
            begin, end = groups.get(value, (0, 0))
            return go_on(at + end - begin, groups) if self.text.startswith(self.text[begin:end], at) else None
        return go_on(at + 1, groups) if at < len(self.text) and self.is_one((kind, value), self.text[at]) else None

    def _repeat(self, kind: Any, value: Any, at: int, groups: Any, go_on: Callable[..., int | None]) -> int | None:
        least, most, inner = value
        items = list(inner)
        if len(items) == 1 and items[0][0] in (op.LITERAL, op.NOT_LITERAL, op.IN, op.ANY):  # as the matcher does, without recursion
            places, place = [at], at
            while kind is op.MIN_REPEAT:
                if place - at >= least and (end := go_on(place, groups)) is not None:
                    return end
                self.steps += 1
                if place - at >= most or place == len(self.text) or not self.is_one(items[0], self.text[place]):
                    return None
                place += 1
            while len(places) <= most and place < len(self.text) and self.is_one(items[0], self.text[place]):
                self.steps += 1
                place += 1
                places.append(place)
            able = places[least:]
            for one in able[-1:] if kind is op.POSSESSIVE_REPEAT else able[::-1]:
                if (end := go_on(one, groups)) is not None:
                    return end
            return None

        if kind is op.POSSESSIVE_REPEAT:
            count, place = 0, at
            while count < most and (end := self._run(items, 0, place, groups, lambda end, _: end)) is not None and end > place:
                count, place = count + 1, end
            return go_on(place, groups) if count >= least else None

        def once_more(count: int, place: int, found: Any) -> int | None:
            def after(end: int, now: Any) -> int | None:
                return once_more(count + 1, end, now) if end > place or count < least else None

            if kind is op.MIN_REPEAT and count >= least and (end := go_on(place, found)) is not None:
                return end
            if count < most and (end := self._run(items, 0, place, found, after)) is not None:
                return end
            return go_on(place, found) if kind is not op.MIN_REPEAT and count >= least else None

        return once_more(0, at, groups)

    def _is_at(self, where: Any, at: int) -> bool:
        text = self.text
        if where in (op.AT_BEGINNING, op.AT_BEGINNING_STRING):
            return at == 0
        if where is op.AT_END_STRING:
            return at == len(text)
        if where is op.AT_END:
            return at == len(text) or text[at:] == "\n"
        is_word = [0 <= place < len(text) and (text[place].isalnum() or text[place] == "_") for place in (at - 1, at)]
        return (is_word[0] is not is_word[1]) is (where is op.AT_BOUNDARY)

    def is_one(self, item: tuple[Any, Any], character: str) -> bool:
        """Return whether an item matches a character."""
        kind, value = item
        if kind is op.ANY:
            return bool(self.flags & re.DOTALL) or character != "\n"
        candidates = {character, character.lower(), character.upper()} if self.flags & re.IGNORECASE else {character}
        if kind is op.LITERAL:
            return chr(value) in candidates
        if kind is op.NOT_LITERAL:
            return chr(value) not in candidates
        negated = bool(value[0][0] is op.NEGATE)
        return any(_is_in(one, other, c) for one, other in value if one is not op.NEGATE for c in candidates) is not negated


def _is_in(kind: Any, value: Any, character: str) -> bool:
    if kind is op.LITERAL:
        return bool(ord(character) == value)
    if kind is op.RANGE:
        return bool(value[0] <= ord(character) <= value[1])
    is_digit, is_space = character.isdigit(), character.isspace()
    found = {op.CATEGORY_DIGIT: is_digit, op.CATEGORY_SPACE: is_space, op.CATEGORY_WORD: character.isalnum() or character == "_"}
    opposite = {op.CATEGORY_NOT_DIGIT: op.CATEGORY_DIGIT, op.CATEGORY_NOT_SPACE: op.CATEGORY_SPACE, op.CATEGORY_NOT_WORD: op.CATEGORY_WORD}
    return bool(not found[opposite[value]] if value in opposite else found[value])


PROBES = "a1_ -'\"`\\/*.,:;()[]<>{}|#@&=+~%$\n\t\u2502\u2500\u00e9AZ09fx!"


def _atoms(items: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the items of an expression, at any depth, that match one character."""
    for kind, value in items:
        if kind in (op.LITERAL, op.NOT_LITERAL, op.IN, op.ANY):
            yield kind, value
        elif kind is op.SUBPATTERN:
            yield from _atoms(value[3])
        elif kind is op.BRANCH:
            for one in value[1]:
                yield from _atoms(one)
        elif kind is op.ATOMIC_GROUP:
            yield from _atoms(value)
        elif kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
            yield from _atoms(value[2])


class Inputs:
    """Texts made of what an expression asks for: repeated pieces of it behind what comes before them, with and without a wrong end."""

    def __init__(self, matcher: Matcher) -> None:
        self.matcher = matcher
        self.pieces: set[str] = set()
        self.prefixes: set[str] = {""}
        atoms = list(_atoms(matcher.tree))
        by_kind = {tuple(matcher.is_one(atom, c) for atom in atoms): c for c in reversed(PROBES)}
        self.probes = list(by_kind.values())
        """One character of each kind that the expression tells apart."""
        self._walk(list(matcher.tree), "")

    def _sample(self, items: list[Any]) -> str:
        """Return a short text that the items match, if they need no more than their own characters."""
        text = ""
        for kind, value in items:
            if kind is op.LITERAL:
                text += chr(value)
            elif kind in (op.NOT_LITERAL, op.IN, op.ANY):
                text += next((c for c in PROBES if self.matcher.is_one((kind, value), c)), "")
            elif kind is op.SUBPATTERN:
                text += self._sample(list(value[3]))
            elif kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
                text += self._sample(list(value[2])) * max(1, value[0])
            elif kind is op.BRANCH:
                text += self._sample(list(value[1][0]))
            elif kind is op.ATOMIC_GROUP:
                text += self._sample(list(value))
        return text

    def _walk(self, items: list[Any], before: str) -> None:
        for number, (kind, value) in enumerate(items):
            here = before + self._sample(items[:number])
            inner: list[list[Any]] = []
            if kind is op.SUBPATTERN:
                inner = [list(value[3])]
            elif kind is op.BRANCH:
                inner = [list(one) for one in value[1]]
            elif kind is op.ATOMIC_GROUP:
                inner = [list(value)]
            elif kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
                inner = [list(value[2])]
                self.prefixes.add(here)
                self.pieces.add(self._sample(list(value[2])))
                self.pieces.add(self._sample(items[number : number + 2]))
                self.pieces.add(self._sample(items[:number]))
                # Characters that two repeats share are what makes them share out a text in many ways.
                if len(value[2]) == 1 and value[2][0][0] in (op.LITERAL, op.NOT_LITERAL, op.IN, op.ANY):
                    self.pieces |= {c for c in self.probes if self.matcher.is_one(value[2][0], c)}
            for one in inner:
                self.pieces.add(self._sample(one))
                self._walk(one, here)

    def __iter__(self) -> Iterator[tuple[str, str, str]]:
        for prefix in sorted(self.prefixes):
            for piece in sorted(self.pieces - {""}):
                yield prefix, piece, "\n\x00"


def growth(pattern: str | bytes, flags: int, anchored: bool) -> tuple[float, str]:
    """Return the greatest factor of steps that a doubled input costs, and what is repeated in it."""
    worst, reason = 0.0, ""
    limit = 4_000 * UNIT
    matcher = Matcher(pattern, flags, limit)
    for prefix, piece, end in Inputs(matcher):
        steps = []
        for length in (UNIT, 2 * UNIT):
            text = prefix + piece * length + end
            starts = range(1) if anchored else range(len(text) + 1)
            try:
                steps.append(matcher.search(text, starts))
            except TooManySteps:
                return float("inf"), f"{prefix!r} + {piece!r} * n"
        if steps[1] > 30 * UNIT and steps[1] / steps[0] > worst:
            worst, reason = steps[1] / steps[0], f"{prefix!r} + {piece!r} * n + {end!r}"
    return worst, reason


def _read_result(text: str) -> object:
    with tempfile.NamedTemporaryFile("w", suffix=".csv", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        return console_results.read_rows(Path(file.name), ())


def _tokenize(text: str) -> object:
    return _parser.tokenize(text)


def _url(text: str) -> object:
    return dialects.parse_url(f"mysql://{text}")


@pytest.fixture(autouse=True)
def deep() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    yield
    sys.setrecursionlimit(before)


def known() -> list[Use]:
    """Return each expression once for each way it is used."""
    found: dict[tuple[Any, ...], Use] = {}
    for use in USES:
        if use.pattern is not None:
            found.setdefault((use.pattern, use.flags, use.anchored), use)
    return list(found.values())


@pytest.mark.parametrize("use", known(), ids=lambda use: f"{use.module}:{use.line}")
def test_a_doubled_input_costs_about_twice_the_steps(use: Use) -> None:
    assert use.pattern is not None
    factor, reason = growth(use.pattern, use.flags, use.anchored)
    assert factor < MOST, f"{use.pattern!r} takes {factor:.1f} times as many steps for twice {reason}"


def test_an_expression_that_is_built_when_it_runs_is_named_here() -> None:
    assert {use.module for use in USES if use.pattern is None} == set(BUILT)


@pytest.mark.parametrize(
    ("pattern", "anchored"),
    [
        (r"\s*[|+:\s-]*[-=][|+:\s-]*", True), (r"(a+)+b", True), (r"(?:\s+|x)*y", True), (r"\s*/\*.*?\*/", False), (r"\s+START", False),
        (r"(://[^\s:@/]*):\S*@", False), (r'(?:"(?:[^"]|"")+"\.?)+ ADD', True), (r"_+(.+?)(?:_\d{14})?_(gho|new)", True),
    ],
)  # fmt: skip
def test_the_test_finds_expressions_that_backtrack(pattern: str, anchored: bool) -> None:
    assert growth(pattern, 0, anchored)[0] > MOST


# code

SIZE = 20_000
"""Characters of the shorter text."""

READERS: dict[str, tuple[Callable[[str], object], tuple[str, ...]]] = {
    "a saved result": (_read_result, ("SET\n", "a,", "|\n", "| - ", "-", " ", '"', "(1 row)\n", "partition_id|row_count\n---\n")),
    "a filter": (_tokenize, ("'", '"', "a ", "''", "1.", "(", "-- ")),
    "a statement": (sql_tokens.tokens, ("/*", "'", "`", "\\'", "/*a*/", "_a ", "--", "x'")),
    "a statement within a transaction": (
        lambda text: table_statements.refusal(text.encode()),
        (" ", "/*", "/*a*/", "--\n", "#\n", "/*M!1"),
    ),
    "a savepoint": (lambda text: table_statements.savepoint(text.encode()), ("ROLLBACK ", "ROLLBACK TO ", "SAVEPOINT ", " ", "\n", "a")),
    "a native type": (kinds.parse_native, ("a", " ", "a(", "1,", "/*")),
    "a comment in a type": (kinds.without_comments, ("/*", "*/", " /*a*/", " ")),
    "Markdown": (escaping.markdown_text, ("_", "a_", "`", "://", "&", "[](")),
    "code in Markdown": (escaping.markdown_code, ("`", "`a", "|")),
    "a line for a chat": (escaping.chat_line, ("@", "](", "://", "<!")),
    "text for a terminal": (escaping.visible_lines, ("\x1b", "a", "\u202e\n")),
    "a word of a shell": (escaping.shell_word, ("'", "\n", "%", "\\")),
    "a URL": (_url, ("a", ":", "@", "/", "?a=b&", "%41")),
}
"""What reads text from outside, and what is repeated in it."""


@pytest.mark.clock
@pytest.mark.parametrize("what", READERS)
def test_code_takes_about_twice_as_long_for_twice_the_text(what: str) -> None:
    read, pieces = READERS[what]
    for piece in pieces:
        texts = [(piece * SIZE)[: times * SIZE] for times in (1, 2)]
        shortest = [min(_cost(read, text) for _ in range(5)) for text in texts]
        assert shortest[1] < max(MOST * shortest[0], 0.05), (piece, shortest)


def _cost(read: Callable[[str], object], text: str) -> float:
    """Return the seconds of this thread's processor for reading a text."""
    began = time.thread_time()
    with suppress(AuditorError):
        read(text)
    return time.thread_time() - began


@pytest.mark.parametrize("line", ["-" * 4000 + "x", " " * 4000 + "x", "|-" * 2000 + "x"])
def test_a_small_upload_does_not_hold_the_service(tmp_path: Path, line: str) -> None:
    path = tmp_path / "result.csv"
    path.write_text(f"partition_id | row_count\n{line}\n", encoding="utf-8")
    assert _cost(lambda _: console_results.read_rows(path, ()), "") < 1


def test_a_line_beyond_any_result_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "result.csv"
    path.write_text("partition_id,row_count\n" + "1" * (console_results.MAX_LINE + 1), encoding="utf-8")
    with pytest.raises(ResultError, match=r":2: the line has 1,048,577 characters, and a result at most 1,048,576"):
        console_results.read_rows(path, ())
