"""The scripts: where they are, which cannot run here, and where a pipeline is held against its source within them.

They are in the language of https://mariadb.com/docs/server/clients-and-utilities/testing-tools/mysqltest. A script is sent as it stands;
what is added to its text are points, commands that wait until all tables were audited, and keys for tables that have none.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

HOME = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "auditor-tests" / "mariadb-test"
"""Where scripts/regression.sh unpacks the packages."""

FILES = HOME / "usr" / "share" / "mysql" / "mysql-test"

SUITES = {
    "main": "main", "rpl": "suite/rpl/t", "binlog": "suite/binlog/t", "engines": "suite/engines/funcs/t", "iuds": "suite/engines/iuds/t",
}  # fmt: skip
"""The folder of each suite."""

MOST_POINTS = 2
"""Points of a script at most."""

KEY = "own_key"
"""The column that tables without a key get: invisible, so that no statement of a script has it in a list of values or a result."""

NOT_HERE = (
    ("needs a server that is stopped or restarted", r"restart_mysqld|shutdown_server|kill_mysqld|kill_and_restart|^\s*shutdown\b"),
    ("needs a server that was built for debugging", r"have_debug|debug_sync|debug_dbug"),
    ("needs a log of statements", r"have_binlog_format_(statement|mixed|mixed_or_statement)\.inc"),
    ("needs a server without a log", r"have_no_log_bin|not_log_bin|log_bin_off"),
    ("needs an embedded server", r"is_embedded|have_embedded"),
    ("needs Galera", r"wsrep|galera"),
    ("takes long", r"big_test\.inc|long_test\.inc"),
)
"""Why a script cannot run here, and what in its text, or in that of the files that it names, says so."""

DROP = re.compile(r"(eval\s+)?drop\s+(table|database|schema)\b", re.IGNORECASE)
NAME = r"(?:`[^`]+`|[\w$]+)"
CREATE = re.compile(
    rf"(?P<eval>eval\s+)?create\s+(or\s+replace\s+)?table\s+(if\s+not\s+exists\s+)?(?P<name>{NAME}(\.{NAME})?)", re.IGNORECASE
)
END_OF_REPLICATION = re.compile(r"source\s+include/rpl_end\.inc", re.IGNORECASE)
SETS_UP = re.compile(r"source\s+include/(master-slave|rpl_init|have_\w+|not_\w+|no_\w+)\.inc|let\s+\$rpl_\w+", re.IGNORECASE)
FILE = re.compile(r"(perl|write_file|append_file|cat_file_until)\b\s*(.*?);?$", re.IGNORECASE)
BLOCK = re.compile(r"(if|while)\b\s*\(|[{}]", re.IGNORECASE)


@dataclass(frozen=True)
class Script:
    """One script of a suite."""

    suite: str
    path: Path

    @property
    def name(self) -> str:
        """Return what it is called by: the suite, and the file's name without its end."""
        return f"{self.suite}/{self.path.stem}"

    @property
    def text(self) -> str:
        """Return its text; bytes that are no UTF-8 stay as they are once it is encoded the same way."""
        return self.path.read_text(encoding="utf-8", errors="surrogateescape")

    @property
    def replicates(self) -> bool:
        """Whether it needs a replica."""
        return bool(re.search(r"(master-slave|rpl_init)\.inc", self.whole()))

    def why_not(self) -> str:
        """Return why it cannot run here; empty if nothing is known that keeps it from running."""
        base = self.path.with_suffix("")
        beside = [f"{base}{end}" for end in (".opt", "-master.opt", "-slave.opt", ".cnf", ".combinations", ".sh", "-master.sh")]
        if any(Path(one).exists() for one in beside):
            return "needs a server with other options"
        listed = self.path.parent.parent / "disabled.def" if self.path.parent.name == "t" else self.path.parent / "disabled.def"
        disabled = listed.read_text() if listed.exists() else ""
        if re.search(rf"^{re.escape(self.path.stem)}\s*:", disabled, re.MULTILINE):
            return "is disabled by those who wrote it"
        text = self.text + "".join(_sourced(self, self.text, set()))
        return next((why for why, pattern in NOT_HERE if re.search(pattern, text, re.IGNORECASE | re.MULTILINE)), "")

    def whole(self) -> str:
        """Return its text with those of the files that it reads and that have statements of its own."""
        return _with_files(self, self.text, 0)


def _with_files(script: Script, text: str, depth: int) -> str:
    lines = []
    for line in text.splitlines(keepends=True):
        found = re.match(r"\s*(?:--\s*)?source\s+([\w./-]+)\s*;?\s*$", line, re.IGNORECASE)
        path = _file(script, found[1]) if found else None
        inner = path.read_text(encoding="utf-8", errors="surrogateescape") if path else ""
        is_own = depth < 5 and re.search(r"create\s+table", inner, re.IGNORECASE) and not re.search(r"begin_include_file", inner)
        lines.append(_with_files(script, inner, depth + 1).rstrip("\n") + "\n" if is_own else line)
    return "".join(lines)


def _file(script: Script, name: str) -> Path | None:
    folders = (FILES, script.path.parent, script.path.parent.parent)
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def _sourced(script: Script, text: str, seen: set[str]) -> Iterator[str]:
    """Yield the texts of the files that a script reads beside those that only look at what the server has."""
    for name in re.findall(r"source\s+([\w./-]+)", text):
        path = _file(script, name)
        if path is None or name in seen or re.match(r"include/(have|not|no|rpl|wait|master|begin|end|show|count|restore|save)", name):
            continue
        seen.add(name)
        found = path.read_text(encoding="utf-8", errors="replace")
        yield found
        yield from _sourced(script, found, seen)


def choose_scripts(count: int, seed: int, longest: int, only: Sequence[str] = ()) -> list[Script]:
    """Return scripts of at most so many characters in a random order, no more than ``count`` that may run here; or those of these names.

    Long ones make hundreds of tables, one after the other. A name is ``suite/name``.
    """
    found = [Script(suite, path) for suite in SUITES for path in sorted((FILES / SUITES[suite]).glob("*.test"))]
    if only:
        return [script for script in found if script.name in only]
    random.Random(seed).shuffle(found)
    chosen, left = [], count
    for script in found:
        if not left:
            break
        if len(script.whole()) > longest:
            continue
        chosen.append(script)
        left -= not script.why_not()
    return chosen


def with_points(text: str, seed: int) -> str:
    """Return a script's text with points before some of its DROP statements, and a key for each table that has none.

    The pipeline begins behind what sets up replication and looks at the server. A point is ``exec $AUDITOR_POINT NUMBER``; behind the
    statements that drop tables follows ``behind.NUMBER``, where a pipeline of which tables stopped may begin anew.
    """
    pieces = list(_pieces(text))
    begin = max((number + 1 for number, piece in enumerate(pieces[:80]) if SETS_UP.search(piece.text)), default=0)
    first = next((number for number, piece in enumerate(pieces) if CREATE.match(piece.text.lstrip())), len(pieces))
    places = [number for number, piece in enumerate(pieces) if number > max(begin, first) and _is_place(piece, pieces[number - 1])]
    chosen = {*places[-1:], *random.Random(seed).sample(places, min(len(places), MOST_POINTS - 1))}
    lines, left = [], 0
    for number, piece in enumerate(pieces):
        if left and not DROP.match(piece.text.lstrip()) and pieces[number - 1].is_free:
            lines.append(f"--exec $AUDITOR_POINT behind.{left}\n")
            left = 0
        if number == begin:
            lines.append("--exec $AUDITOR_POINT begin\n")
        if number in chosen:
            lines.append(f"--exec $AUDITOR_POINT {number}\n")
            left = number
        lines.append(piece.text)
        if piece.is_free and (made := CREATE.match(piece.text.lstrip())):
            add = f"ALTER TABLE {made['name']} ADD COLUMN {KEY} BIGINT NOT NULL AUTO_INCREMENT INVISIBLE PRIMARY KEY;\n"
            lines.append((made["eval"] or "") + add)
    return "".join(lines)


@dataclass(frozen=True)
class _Piece:
    """A statement, a command, or a line that is neither."""

    text: str
    is_free: bool = False
    """Whether it is a statement that ends with a semicolon and has no command before it that is about it alone."""


def _is_place(piece: _Piece, before: _Piece) -> bool:
    if END_OF_REPLICATION.search(piece.text):
        return True
    return piece.is_free and bool(DROP.match(piece.text.lstrip())) and not DROP.match(before.text.lstrip())


def _pieces(text: str) -> Iterator[_Piece]:
    delimiter, bound, end = ";", False, ""
    statement: list[str] = []
    for line in text.splitlines(keepends=True):
        bare = line.strip()
        if end:  # within a file or a program that the script holds
            statement.append(line)
            if bare == end:
                yield _Piece("".join(statement))
                statement, end = [], ""
            continue
        if not statement and (not bare or bare.startswith("#") or (BLOCK.match(bare) and not bare.endswith(delimiter))):
            yield _Piece(line)
            continue
        is_command = bare.startswith("--")
        if not statement and (held := FILE.match(bare.lstrip("- "))):
            words = held[2].split()
            end = (words[-1] if words and (held[1].lower() == "perl" or len(words) > 1) else "EOF").rstrip(";")
            statement.append(line)
            continue
        if not statement and is_command:
            command = bare[2:].strip()
            if named := re.match(r"delimiter\s+(\S+)", command, re.IGNORECASE):
                delimiter = named[1]
            bound = bound or bool(re.match(r"(error|send|reap)", command, re.IGNORECASE))
            yield _Piece(line)
            continue
        statement.append(line)
        if bare.endswith(delimiter):
            whole, statement = "".join(statement), []
            if named := re.match(r"\s*delimiter\s+(.+)", whole, re.IGNORECASE | re.DOTALL):
                delimiter = named[1].strip().removesuffix(delimiter).strip() or delimiter
            yield _Piece(whole, is_free=delimiter == ";" and not bound and not re.match(r"\s*delimiter", whole, re.IGNORECASE))
            bound = bool(re.match(r"\s*(error|send|reap)\b", whole, re.IGNORECASE))
    if statement:
        yield _Piece("".join(statement))
