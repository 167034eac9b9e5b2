"""What a run may cost: budgets of its audit and of its connections, held against what its statements have cost before each one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from auditor.config import Budget
from auditor.errors import BudgetSpent
from auditor.model import Side, SideCost


class Budgets:
    """The budgets of one run. Any number of threads spend of them."""

    def __init__(
        self, audit: str, whole: Budget, names: Mapping[Side, str], each: Mapping[str, Budget], cost: Callable[[Side], SideCost]
    ) -> None:
        """``whole`` is the audit's budget, ``each`` those of connections by name; ``cost`` says what a side has cost so far."""
        self._audit, self._whole, self._names, self._each, self._cost = audit, whole, names, each, cost
        self._seconds = dict.fromkeys(names, 0.0)
        self._lock = threading.Lock()

    @contextmanager
    def statement(self, side: Side) -> Iterator[None]:
        """Add the time of the block to what a side has cost. Raises BudgetSpent if nothing is left for it."""
        self._check(side)
        began = time.monotonic()
        try:
            yield
        finally:
            with self._lock:
                self._seconds[side] += time.monotonic() - began

    def _check(self, side: Side) -> None:
        name = self._names[side]
        sharing = [sharer for sharer, its in self._names.items() if its == name]
        for whose, budget, sides in (
            (f"the audit {self._audit}", self._whole, list(self._names)),
            (f"the connection {name}", self._each[name], sharing),
        ):
            for what, limit in budget.limits.items():
                if (spent := self._spent(what, sides)) >= limit:
                    raise BudgetSpent(
                        f"the run has cost {spent:,.0f} {what}, and the budget of {whose} is {limit:,.0f}; raise budget: {what}, or"
                        " continue the run by auditor resume, which has the whole budget again"
                    )

    def _spent(self, what: str, sides: Sequence[Side]) -> float:
        if what == "seconds":
            return sum(self._seconds[side] for side in sides)
        return float(sum(getattr(self._cost(side), what) for side in sides))
