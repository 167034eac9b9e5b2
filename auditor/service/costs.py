"""Say what audits cost, by audit, day and connection, and what of the budgets of the day is used."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING

from auditor.api_models.cost import CostKey, CostLine, Costs, DayBudget
from auditor.config import Budget, Settings
from auditor.connections.budgets import amount_of, next_day
from auditor.errors import ConfigError
from auditor.model import DayCost
from auditor.service import audits
from auditor.store import costs

if TYPE_CHECKING:
    from auditor.store import Store

DAYS = 7
"""Days that are added up by default, today among them."""

BY_DEFAULT: tuple[CostKey, ...] = ("day", "audit")


def list_costs(
    settings: Settings,
    store: Store,
    *,
    first: dt.date | None = None,
    days: int | None = None,
    by: CostKey | None = None,
    among: Sequence[str] | None = None,
) -> Costs:
    """Return what runs cost since a day, or in the last ``days``, added up by day and audit, or by one of them or by connection.

    With ``among``, of these audits alone, and without the budgets of connections, which all audits use up together.

    Raises ConfigError for a day in the future, or for both ``first`` and ``days``, and StoreError.
    """
    if first and days:
        raise ConfigError("write either --since or --days")
    now, _ = costs.read_day(store, (), None)
    first = first or now.date() - dt.timedelta(days=(days or DAYS) - 1)
    if first > now.date():
        raise ConfigError(f"{first} is in the future: today is {now:%Y-%m-%d} (UTC)")
    keys: Sequence[CostKey] = (by,) if by else BY_DEFAULT
    total = costs.list_costs(store, first, now.date(), (), among)
    return Costs(
        first=first,
        last=now.date(),
        lines=tuple(map(_line, costs.list_costs(store, first, now.date(), keys, among))),
        total=_line(total[0]),
        budgets=tuple(one for one in list_day_budgets(settings, store) if among is None or one.whose == "audit"),
    )


def _line(cost: costs.CostSum) -> CostLine:
    return CostLine.model_validate({**cost.keys, **CostLine.fields_of(cost.spent), "runs": cost.runs, "unpriced": cost.unpriced})


def list_day_budgets(settings: Settings, store: Store) -> tuple[DayBudget, ...]:
    """Return the budgets of a day, of audits and of connections, with what is used of them today. Raises StoreError."""
    known = audits.with_defined_audits(settings, store)
    of_audits = {name: audit.budget for name, audit in known.audits.items() if audit.budget.per == "day"}
    of_connections = {
        name: connection.limits.budget for name, connection in known.connections.items() if connection.limits.budget.per == "day"
    }
    if not of_audits and not of_connections:
        return ()
    now, spent = costs.read_day(store, tuple(known.connections), None)
    budgets: list[DayBudget] = []
    for name, budget in of_audits.items():
        budgets += _used("audit", name, budget, [cost for cost in spent if cost.audit == name], now)
    for name, budget in of_connections.items():
        budgets += _used("connection", name, budget, [cost for cost in spent if cost.connection == name], now)
    return tuple(budgets)


def _used(whose: str, name: str, budget: Budget, spent: Sequence[DayCost], now: dt.datetime) -> list[DayBudget]:
    return [
        DayBudget.model_validate(
            {
                "whose": whose,
                "name": name,
                "what": what,
                "limit": limit,
                "used": sum(amount_of(cost.spent, what) for cost in spent),
                "whole_again": next_day(now),
            }
        )
        for what, limit in budget.limits.items()
    ]
