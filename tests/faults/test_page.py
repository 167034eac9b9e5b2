"""The page with the matrix of faults says what the code knows: every fault, every method, and why something is not seen."""

from __future__ import annotations

from tests.faults.faults import FAULTS
from tests.faults.matrix import BEGIN, END, PAGE
from tests.faults.methods import METHODS


def test_the_page_has_every_fault_and_every_method() -> None:
    page = PAGE.read_text(encoding="utf-8")
    measured = page.partition(BEGIN)[2].partition(END)[0]
    table, _, reasons = measured.partition("\nWhy a method misses a fault:\n")
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("|"))
    assert head == ["fault", "where", "wrong in the target", *METHODS]
    assert [(row[0], row[1]) for row in rows] == [(name, fault.place) for name, fault in FAULTS.items()]
    told = [line.removeprefix("- ").partition(": ")[0].split(", ") for line in reasons.splitlines() if line.startswith("- ")]
    missed = {(method, fault.strip("*")) for method, *faults in told for fault in faults}
    for row in rows:
        cells = dict(zip(head, row, strict=True))
        for method in METHODS:
            is_silent = cells[method] == "–" and cells["wrong in the target"] != "nothing" and method != "pipeline"
            assert is_silent == ((method, row[0]) in missed), (row[0], method)
