"""Run the matrix, and write what was found as the table of docs/faults.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from auditor.service import segment_audits
from tests.faults.damage import find_damage
from tests.faults.delivery import running
from tests.faults.faults import FAULTS
from tests.faults.methods import AUDITS, METHODS, ORDER, SCANS, Found, begin_live
from tests.faults.world import SEGMENTS, World
from tests.live import LiveEngine

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "faults.md"
BEGIN, END = "<!-- measured: begin -->\n", "<!-- measured: end -->\n"


@dataclass(frozen=True, slots=True)
class Row:
    """What was found of one fault."""

    damage: str
    """What all rows of both tables, compared in plain Python, show to be wrong in the target; '' if nothing is."""
    found: Mapping[str, Found]
    """By method."""


def measure(fault: str, folder: Path, empty_store: Path, source: LiveEngine, into: str, name: str) -> Row:
    """Inject a fault into a pipeline of its own under load, and let all methods look."""
    with closing(World(folder, empty_store, source, into, name, list(SCANS.values()))) as world:
        world.fill()
        segment_audits.run(world.settings, world.store, SEGMENTS)  # it begins to read the log before the fault
        with running(world):
            begin_live(world)
            FAULTS[fault].inject(world)
            assert bool(world.hits) == (fault != "no fault"), f"{fault} took place {world.hits} times"
            found = {method: METHODS[method](world) for method in ORDER}
            return Row(find_damage(world), {method: found[method] for method in METHODS})


def check(fault: str, row: Row) -> Iterable[str]:
    """Yield every false word: an alarm where nothing is wrong, and none where something is that is not explained."""
    for method, found in row.found.items():
        if method in AUDITS and found.caught and not row.damage:
            yield f"{fault}: {method} raises an alarm, and the target is right: {found.sentence}"
        if method != "pipeline" and row.damage and not found.caught and method not in FAULTS[fault].unseen:
            yield f"{fault}: {method} raises no alarm, and the target has {row.damage}: {found.sentence}"
        if fault == "no fault" and found.caught:
            yield f"{fault}: {method} raises an alarm: {found.sentence}"
        if found.caught and method in FAULTS[fault].unseen:
            yield f"{fault}: {method} does raise an alarm, and the matrix explains why it does not: {found.sentence}"


FIRST = ["fault", "where", "wrong in the target"]


def read(table: str) -> dict[str, dict[str, str]]:
    """Return, by fault and column, the cells of a table that `render` returned."""
    head, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("| "))
    return {
        fault: {name: cell for names, cell in zip(head[1:], row[1:], strict=True) for name in names.split(", ")}
        for row in rows
        for fault in row[0].split("; ")
        if fault in FAULTS
    }


def render(rows: Mapping[str, Row], before: str) -> str:
    """Return the table in Markdown, and why methods miss faults: of these faults what was found now, of others what is in ``before``.

    Faults of which the same was found share a row, and methods that say the same of all faults a column.
    """
    cells = read(before) if before.strip() else {}
    for fault, row in rows.items():
        said = {method: "yes" if row.found[method].caught else "–" for method in METHODS}
        cells[fault] = {"where": FAULTS[fault].place, "wrong in the target": row.damage or "nothing", **said}
    faults: dict[tuple[str, ...], list[str]] = {}
    for fault in FAULTS:
        if fault in cells:
            faults.setdefault(tuple(cells[fault][name] for name in [*FIRST[1:], *METHODS]), []).append(fault)
    columns: dict[tuple[str, ...], list[str]] = {}
    for place, name in enumerate([*FIRST[1:], *METHODS]):
        columns.setdefault(tuple(row[place] for row in faults), []).append(name)
    head = ["fault", *(", ".join(names) for names in columns.values())]
    table = [head, ["---"] * len(head), *zip(("; ".join(names) for names in faults.values()), *columns, strict=True)]
    return "\n".join(["", *(f"| {' | '.join(row)} |" for row in table), "", *_explanations(), ""])


def _explanations() -> Iterator[str]:
    """Yield a line for each reason why a method misses faults, with these."""
    missed: dict[tuple[str, str], list[str]] = {}
    for name, fault in FAULTS.items():
        for method, reason in fault.unseen.items():
            missed.setdefault((method, reason), []).append(name)
    yield "Why a method misses a fault:"
    yield ""
    for (method, reason), names in missed.items():
        yield f"- {method}, {', '.join(f'*{name}*' for name in names)}: {reason}"


def write(rows: Mapping[str, Row]) -> None:
    """Write what was found of some faults into the page's table; the others stay as they are."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    measured, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}{render(rows, measured)}\n{END}{after}", encoding="utf-8")
