"""What runs cost, and are expected to cost, as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from auditor.connections.budgets import say_amount, say_number
from auditor.model import ConnectionCost, ExpectedCost
from auditor.quantities import format_duration, format_size, plural
from auditor.report import formatting

if TYPE_CHECKING:
    from auditor.api_models.cost import CostLine, Costs, DayBudget


def spent(cost: ConnectionCost) -> str:
    """Return what a run cost on a connection: ``warehouse: 12 statements took 3.2 s, 1,234 bytes received, 0.0048 USD (...)``."""
    usd = f", {format_usd(cost.spent.usd)}" if cost.spent.usd is not None else ""
    return (
        f"connection {cost.connection}: {plural(cost.spent.statements, 'statement')} took {cost.spent.seconds:.2f} s,"
        f" {plural(cost.spent.bytes, 'byte')} received{usd} ({cost.basis})"
    )


def expected(cost: ExpectedCost) -> str:
    """Return what a run is expected to cost on a connection."""
    scan = f"expected on {cost.connection}: a scan of {plural(cost.scan_statements, 'statement')} and {plural(cost.scan_bytes, 'byte')}"
    if cost.seconds is None or cost.bytes is None:
        return f"{scan}; seconds and USD are not known before a run has ended"
    usd = format_usd(cost.usd) if cost.usd is not None else "USD are not known"
    last = "the last run" if cost.runs == 1 else f"the last {cost.runs} runs, in the median,"
    return f"{scan}; {last} took {cost.seconds:,.2f} s of statements and received {plural(cost.bytes, 'byte')}; {usd}"


def format_usd(usd: float) -> str:
    """Return US dollars with four digits behind the point, or three significant ones of less than a cent."""
    return f"{usd:,.4f} USD" if usd >= 0.01 or usd == 0 else f"{usd:.3g} USD"


def table(costs: Costs) -> RenderableType:
    """Return what audits cost as a table, with what is used of the budgets of the day."""
    if not costs.lines:
        return Group(Text(f"no run has cost anything from {costs.first} to {costs.last} (UTC)"), *_budgets(costs.budgets))
    keys = [key for key in ("day", "audit", "connection") if getattr(costs.lines[0], key) is not None]
    rows = Table(box=None, padding=(0, 2), header_style="dim")
    for key in keys:
        rows.add_column(key)
    for name in ("runs", "statements", "time", "received", "USD"):
        rows.add_column(name, justify="right")
    rows.add_column("not in USD")
    for line in costs.lines:
        rows.add_row(*(Text(formatting.visible(str(getattr(line, key)))) for key in keys), *_cells(line))
    if len(costs.lines) > 1:
        rows.add_row(*(Text("total" if index == 0 else "", "bold") for index, _ in enumerate(keys)), *_cells(costs.total))
    notes = ["time is that of statements, added up over sessions; what pipelines, repairs and traces run is not in it"]
    if costs.total.unpriced:
        notes.append(f"not in USD, as the connection had no price: {', '.join(map(formatting.visible, costs.total.unpriced))}")
    return Group(rows, *(Text(note, "dim") for note in notes), *_budgets(costs.budgets))


def _cells(line: CostLine) -> Iterator[Text]:
    yield Text(f"{line.runs:,}")
    yield Text(f"{line.statements:,}")
    yield Text(format_duration(line.seconds) if line.seconds >= 1 else f"{line.seconds:.2f} s")
    yield Text(format_size(line.bytes))
    yield Text("unknown" if line.usd is None else f"{line.usd:,.4f}")
    yield Text(formatting.visible(", ".join(line.unpriced)))


def _budgets(budgets: tuple[DayBudget, ...]) -> Iterator[Text]:
    for budget in budgets:
        is_spent = budget.used >= budget.limit
        ending = f"; nothing is left until {formatting.moment(budget.whole_again)}" if is_spent else ""
        yield Text(
            f"today, {budget.whose} {formatting.visible(budget.name)}: {say_number(budget.used)} of"
            f" {say_amount(budget.what, budget.limit)} used{ending}",
            "red" if is_spent else "",
        )
