"""What became of scripts: how they are played, what is counted of them, and the table of docs/faults.md."""

from __future__ import annotations

import re
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pymysql

from auditor.errors import AuditorError
from tests.scripts.road import Found, ScriptRoad
from tests.scripts.server import LONGEST, SCRIPT_SECONDS, Stage, own_folder, write_point
from tests.scripts.written import Script

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"
BEGIN, END = "<!-- scripts: begin -->\n", "<!-- scripts: end -->\n"

ORDER = ("wrong", "ended", "stopped", "not comparable", "not carried", "match", "empty", "locked", "nothing", "not run")
"""What a script counts as: the first of these that became of one of its tables."""

MEANING = {
    "match": "every table that was carried was equal in both targets, at every point",
    "stopped": "the pipeline stopped a table and said why; no other table was wrong",
    "ended": "the whole pipeline was refused with a reason, such as a deleted log",
    "not comparable": "an audit refused a table with a reason; both sides had as many rows",
    "not carried": "it has views or sequences, which pipelines do not carry; all tables were equal",
    "empty": "its tables had no rows when they were audited",
    "locked": "it held its tables locked, left one crashed, ended its server, or took too long",
    "nothing": "it had no table when audits ran",
    "not run": "most need a server with other options or built for debugging",
    "wrong": "a table differed and nothing was reported, or an unknown error came up",
}
"""What each outcome of a script means, in the order of the page."""


CRASHED = {144, 145, 1194, 1195}
"""Errors of a server for a table that is damaged, as scripts about repairs leave it: HA_ERR_CRASHED_ON_REPAIR, HA_ERR_CRASHED_ON_USAGE,
ER_CRASHED_ON_USAGE, ER_CRASHED_ON_REPAIR (https://mariadb.com/kb/en/mariadb-error-code-reference/)."""

REASONS = {"stopped": "why a table stopped", "ended": "why a pipeline was refused", "not comparable": "why an audit refused"}
"""The outcomes whose sentences are counted, and what is printed before these."""


@dataclass
class Outcome:
    """What became of one script."""

    script: Script
    tables: list[tuple[str, str, str, Found]] = field(default_factory=list)
    """Point, table and target, and what became of it."""
    why_not: str = ""
    """Why it could not run."""
    seconds: float = 0.0

    @property
    def kind(self) -> str:
        """What it counts as."""
        kinds = {found.kind for *_, found in self.tables}
        return "not run" if self.why_not else next((kind for kind in ORDER if kind in kinds), "nothing")

    def sentences(self, kind: str) -> list[str]:
        """Return what was said of tables of one kind, with where it was."""
        found = [one for one in self.tables if one[3].kind == kind]
        return [f"{self.script.name}, {point}: {table} in {target}: {one.sentence}" for point, table, target, one in found]


def play(stage: Stage, script: Script, empty_store: Path, postgres: str, seed: int) -> Outcome:
    """Play a script to its end, and judge its tables at each of its points and behind it."""
    outcome, began = Outcome(script, why_not=script.why_not()), time.monotonic()
    if outcome.why_not:
        return outcome
    stage.prepare()
    with own_folder() as name:
        folder = Path(name)
        road: ScriptRoad | None = None
        try:
            with stage.sending(script, folder, write_point(folder), seed) as process:
                deadline = time.monotonic() + SCRIPT_SECONDS
                while (code := process.poll()) is None and time.monotonic() < min(deadline, began + LONGEST):
                    time.sleep(0.02)
                    for reached in sorted(folder.glob("reached.*")):
                        at = time.monotonic()
                        point = reached.name.removeprefix("reached.")
                        if road is None or (point.startswith("behind.") and road.is_done()):
                            road = _begin(road, folder, empty_store, stage.url, postgres)
                        elif point.startswith("behind."):
                            pass
                        elif not any(found.kind == "ended" for *_, found in outcome.tables):
                            outcome.tables += _look(road, f"point {point}")
                        reached.rename(folder / f"done.{point}")
                        deadline += time.monotonic() - at
            if road is None:
                said = (folder / "client.log").read_text(errors="replace").strip().splitlines()
                outcome.why_not = "needs what the server has not" if code == 62 else f"its client ended: {' '.join(said[-3:])[-200:]}"
            elif not any(found.kind == "ended" for *_, found in outcome.tables):
                outcome.tables += _look(road, "end")
            if code is None and not outcome.why_not:
                outcome.tables.append(("end", "", "", Found("locked", "its client was stopped, because it took too long")))
        except AuditorError as error:  # the source is refused as the script has set it up
            outcome.tables.append(("begin", "", "", Found("ended", str(error))))
        except Exception:
            outcome.tables.append(("", "", "", Found("wrong", traceback.format_exc(limit=-8))))
        finally:
            if road is not None:
                with suppress(AuditorError):  # PostgreSQL keeps its schemas, which no other script has
                    road.close()
    outcome.seconds = time.monotonic() - began
    return outcome


def _begin(before: ScriptRoad | None, folder: Path, empty_store: Path, source: str, postgres: str) -> ScriptRoad:
    """Begin a pipeline, instead of one of which tables stopped."""
    if before is not None:
        before.close()
    own = folder / f"road.{len(list(folder.glob('road.*')))}"
    own.mkdir()
    return ScriptRoad(own, empty_store, source, postgres)


def _look(road: ScriptRoad, point: str) -> list[tuple[str, str, str, Found]]:
    try:
        road.catch_up()
        return [(point, *found) for found in road.judge()]
    except AuditorError as error:
        return [(point, "", "", Found("ended", str(error)))]
    except pymysql.Error as error:  # of the script: it holds everything, ended the server, or left a table that nobody can read
        if not isinstance(error, pymysql.OperationalError) and error.args[0] not in CRASHED:
            raise
        return [(point, "", "", Found("locked", str(error)))]


@dataclass
class Tally:
    """What became of many scripts."""

    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def wrong(self) -> list[Outcome]:
        """Return those of which something is wrong."""
        return [one for one in self.outcomes if one.kind == "wrong"]

    def sentences(self, kind: str) -> Counter[str]:
        """Count what was said of tables of one kind, without names, once a script."""
        found: Counter[str] = Counter()
        for one in self.outcomes:
            found.update({plain(each.sentence) for *_, each in one.tables if each.kind == kind})
        return found

    def __str__(self) -> str:
        """Return the counts, what is wrong, and the most common reasons."""
        kinds = Counter(one.kind for one in self.outcomes)
        tables = Counter(found.kind for one in self.outcomes for *_, found in one.tables)
        lines = [f"{len(self.outcomes)} scripts: {dict(kinds)}; tables at points: {dict(tables)}"]
        lines += [f"    {sentence}" for one in self.wrong for sentence in one.sentences("wrong")[:3]]
        for kind, about in REASONS.items():
            lines += [f"    {about}: {count} scripts: {sentence}" for sentence, count in self.sentences(kind).most_common(25)]
        return "\n".join(lines)


def plain(sentence: str) -> str:
    """Return a sentence with … for names and numbers, so that those of one kind are one."""
    sentence = re.sub(r"^[^\s:]+\.[^\s:]+(, [^:]*)?: ", "", sentence)
    sentence = re.sub(r"`[^`]*`|'[^']*'|\"[^\"]*\"|\b[\w$#@]+\.[\w$#@]+\b|\b\d[\w:.,/-]*", "…", sentence)
    return re.sub(r"…([ ,;]*(and )?…)+", "…", sentence)[:200]


def render(tally: Tally, suites: Sequence[str], version: str, seed: int, longest: int) -> str:
    """Return the table of the page."""
    kinds = Counter(one.kind for one in tally.outcomes)
    tables = Counter(found.kind for one in tally.outcomes for *_, found in one.tables)
    played = len(tally.outcomes) - kinds["not run"]
    ran = f"On {version}, suites {', '.join(suites)}, scripts of at most {longest:,} characters, seed {seed}: {played:,} ran"
    lines = [
        "",
        f"{ran}, and {tables['match']:,} audits of single tables said `match`.",
        "",
        "| outcome | scripts | means |",
        "| --- | --: | --- |",
        *(f"| {kind} | {kinds[kind]:,} | {means} |" for kind, means in MEANING.items()),
    ]
    return "\n".join([*lines, ""])


def write(table: str) -> None:
    """Write the table into the page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}{table}\n{END}{after}", encoding="utf-8")
