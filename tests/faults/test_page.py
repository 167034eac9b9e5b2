"""The page with the matrix of faults says what the code knows: every fault, every method, and why something is not seen."""

from __future__ import annotations

from tests.faults.faults import FAULTS
from tests.faults.matrix import BEGIN, END, FIRST, PAGE, read
from tests.faults.methods import METHODS


def test_the_page_has_every_fault_and_every_method() -> None:
    page = PAGE.read_text(encoding="utf-8")
    measured = page.partition(BEGIN)[2].partition(END)[0]
    table, _, reasons = measured.partition("\nWhy a method misses a fault:\n")
    found = read(table)
    assert all(set(cells) == {*FIRST[1:], *METHODS} for cells in found.values())
    assert {name: cells["where"] for name, cells in found.items()} == {name: fault.place for name, fault in FAULTS.items()}
    told = [line.removeprefix("- ").partition(": ")[0].split(", ") for line in reasons.splitlines() if line.startswith("- ")]
    missed = {(method, fault.strip("*")) for method, *faults in told for fault in faults}
    for name, cells in found.items():
        for method in METHODS:
            is_silent = cells[method] == "–" and cells["wrong in the target"] != "nothing" and method != "pipeline"
            assert is_silent == ((method, name) in missed), (name, method)
