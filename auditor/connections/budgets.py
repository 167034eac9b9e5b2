"""What a run costs on its connections, and the budgets that end it: those of the run, and those of the day, which many runs share.

Seconds are counted when a statement ends. The day is that of the store's clock in UTC, so that all processes mean the same day; what a run
spends behind midnight is of the new day. Costs are written to the store every `costs_shared` seconds and at the end, and what other runs
spent is read with that: so runs at the same time may exceed a day's budget together by what they spend meanwhile.
"""

from __future__ import annotations

import datetime as dt
import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import dialects
from auditor.background import Service
from auditor.config import Budget, ConnectionSettings, Price
from auditor.durations import durations
from auditor.errors import AuditorError, BudgetSpent, ConfigError
from auditor.model import ConnectionCost, DayCost, Side, SideCost, Spent
from auditor.quantities import plural

log = logging.getLogger(__name__)

HOUR = 3600.0

NAMED_SPENDERS = 5
"""Audits that are named at most where a day's budget is spent."""

SECONDS_PER_UNIT = {"rpu_hour": "RPU-seconds", "executor_hour": "executor seconds"}


ShareCosts = Callable[[str, Sequence[DayCost], Collection[str]], tuple[dt.datetime, Sequence[DayCost]] | None]
"""`auditor.history.handover.Checkpoint.share_costs`: what others spent is also what this run did before it was resumed."""


class ChargedTime:
    """Seconds in which at least one statement runs, of which each stretch is charged at least ``least`` seconds."""

    def __init__(self, least: float) -> None:
        self._least = least
        self._seconds = 0.0
        self._until = -math.inf
        """Until when seconds are charged already."""
        self._running = 0

    def begin(self, at: float) -> None:
        """Note that a statement begins."""
        self.seconds(at)
        self._running += 1
        if at > self._until:
            self._seconds += self._least
            self._until = at + self._least

    def end(self, at: float) -> None:
        """Note that a statement ends."""
        self.seconds(at)
        self._running -= 1

    def seconds(self, at: float) -> float:
        """Return what is charged up to a moment, none of which may be before the last one."""
        if self._running and at > self._until:
            self._seconds += at - self._until
            self._until = at
        return self._seconds


def charged_seconds(spans: Sequence[tuple[float, float]], least: float) -> float:
    """Return the seconds in which at least one of these spans, each from its begin to its end, was, each stretch at least ``least``."""
    charged, last = ChargedTime(least), 0.0
    moments = sorted([(began, False) for began, _ in spans] + [(max(span), True) for span in spans])  # begins before ends
    for last, ends in moments:
        (charged.end if ends else charged.begin)(last)
    return charged.seconds(last)


@dataclass(slots=True)
class _Meter:
    """What is measured on one connection."""

    name: str
    budget: Budget
    price: Price | None
    sides: list[Side]
    charged: ChargedTime | None
    """None of a connection without a price by units."""
    seconds: float = 0.0
    recorded: float | None = None
    """Unit-seconds by the server's record; None where it was not read."""
    source: str = "as this process saw them"
    settled: Spent = field(default_factory=lambda: Spent(usd=0.0))
    """What is attributed to a day already."""

    def unit_seconds(self, at: float) -> float:
        assert self.charged and self.price and self.price.units
        return self.charged.seconds(at) * self.price.units if self.recorded is None else self.recorded

    def usd(self, at: float) -> float | None:
        if self.price is None:
            return None
        return self.price.usd / HOUR * (self.unit_seconds(at) if self.charged else self.seconds)

    def basis(self, at: float) -> str:
        if self.price is None:
            return "costs in USD are unknown: the connection has no price"
        if self.charged is None:
            return f"{self.price.usd:g} USD for an hour of statements"
        return (
            f"at most, as if nothing else ran there: {self.unit_seconds(at):,.0f} {SECONDS_PER_UNIT[self.price.per]} {self.source},"
            f" {self.price.usd:g} USD for {HOUR:,.0f}"
        )


class Budgets:
    """The costs and budgets of one run. Any number of threads spend of them."""

    def __init__(
        self,
        audit: str,
        whole: Budget,
        names: Mapping[Side, str],
        settings: Mapping[str, ConnectionSettings],
        cost: Callable[[Side], SideCost],
    ) -> None:
        """``whole`` is the audit's budget, ``names`` are the connections of sides; ``cost`` says what a side has cost so far."""
        self._audit, self._whole, self._names, self._cost = audit, whole, names, cost
        self._meters = {name: _meter(name, settings[name], names) for name in dict.fromkeys(names.values())}
        self._lock = threading.RLock()
        self._clock = dt.datetime.now(dt.UTC), time.monotonic()
        """The store's clock, or this host's where there is none, and when it was read (monotonic seconds)."""
        self._days: dict[tuple[dt.date, str], Spent] = {}
        """What this process spent, by day and connection."""
        self._others: Sequence[DayCost] | None = None
        """What others spent on the day of the clock; None where that is not asked for, so that no day's budget applies."""

    @contextmanager
    def shared(self, share: ShareCosts) -> Iterator[None]:
        """Within the block, budgets of a day apply, and costs are stored.

        Raises BudgetSpent if nothing is left of a day's budget, ConfigError if there is one and runs are not stored, and StoreError if what
        was spent of it cannot be read.
        """
        daily = self._daily()
        if daily:
            if not self._exchange(share):
                raise ConfigError(
                    f"the budget of {daily[0]} is per: day, which needs a store; run the audit without --no-store, or write per: run"
                )
            for name in self._meters:
                self._check(name)
        else:
            self._exchange_if_possible(share)
        try:
            with Service("costs", lambda: self._exchange(share) and None, durations().costs_shared, waits_first=True):
                yield
        finally:
            self._exchange_if_possible(share)

    @contextmanager
    def statement(self, side: Side) -> Iterator[None]:
        """Add the time of the block to what a side has cost. Raises BudgetSpent if nothing is left for it."""
        meter = self._meters[self._names[side]]
        self._check(meter.name)
        began = time.monotonic()
        with self._lock:
            if meter.charged:
                meter.charged.begin(time.monotonic())
        try:
            yield
        finally:
            with self._lock:
                ended = time.monotonic()
                meter.seconds += ended - began
                if meter.charged:
                    meter.charged.end(ended)

    def costs(self) -> tuple[ConnectionCost, ...]:
        """Return what this process spent on each connection."""
        at = time.monotonic()
        with self._lock:
            return tuple(
                ConnectionCost(connection=name, spent=self._total(name), basis=meter.basis(at)) for name, meter in self._meters.items()
            )

    def priced_by_units(self) -> dict[str, list[Side]]:
        """Return the sides of each connection whose price is for units of capacity."""
        return {name: meter.sides for name, meter in self._meters.items() if meter.charged}

    def record(self, name: str, spans: Sequence[tuple[float, float]], least: float, capacity: float | None) -> None:
        """Take the server's record of statements for what a connection has cost, where it holds them all; else the greater number.

        ``capacity`` are the units that it had on average, None where the server does not say.
        """
        with self._lock:
            self._settle()
            meter = self._meters[name]
            assert meter.price and meter.price.units
            units = capacity or meter.price.units
            statements, seen = self._total(name).statements, meter.unit_seconds(time.monotonic()) / meter.price.units * units
            seconds = charged_seconds(spans, least) * units
            is_complete = len(spans) >= statements
            before, meter.recorded = meter.usd(time.monotonic()), seconds if is_complete else max(seconds, seen)
            by_units = f"{units:g} units {'by the server' if capacity else 'by the price'}"
            if is_complete or seconds >= seen:
                meter.source = f"as the server recorded its statements, of {by_units}"
            else:
                meter.source = f"as this process saw them, of {by_units}, since the server recorded {len(spans)} of {statements} statements"
            self._scale(name, before, meter.usd(time.monotonic()))

    def _scale(self, name: str, before: float | None, now: float | None) -> None:
        """Let the days on which a connection was used add up to what it has cost by the server's record."""
        if not before or now is None:
            return
        for day, connection in self._days:
            if connection == name and (usd := self._days[day, name].usd) is not None:
                self._days[day, name] = replace(self._days[day, name], usd=usd * now / before)
        self._meters[name].settled = replace(self._meters[name].settled, usd=now)

    # the day, and what others spend of it

    def _daily(self) -> list[str]:
        """Return whose budgets are of a day."""
        audits = [f"the audit {self._audit}"] if self._whole.per == "day" else []
        return audits + [f"the connection {name}" for name, meter in self._meters.items() if meter.budget.per == "day"]

    def _exchange_if_possible(self, share: ShareCosts) -> None:
        try:
            self._exchange(share)
        except AuditorError as error:
            log.warning("what the run cost cannot be stored: %s", error, extra={"action": "costs_not_stored", "audit": self._audit})

    def _exchange(self, share: ShareCosts) -> bool:
        """Store what was spent, and read what others spent and the store's clock; return whether runs are stored."""
        with self._lock:
            self._settle()
            mine = [
                DayCost(day=day, audit=self._audit, connection=connection, spent=spent) for (day, connection), spent in self._days.items()
            ]
        known = share(self._audit, mine, tuple(self._meters) if self._daily() else ())
        if known is None:
            return False
        with self._lock:
            self._clock = known[0], time.monotonic()
            self._others = known[1]
        return True

    def _now(self) -> dt.datetime:
        now, at = self._clock
        return now + dt.timedelta(seconds=time.monotonic() - at)

    def _settle(self) -> None:
        """Attribute what was spent since the last call to the day that it is now."""
        day = self._now().date()
        for name, meter in self._meters.items():
            total, before = self._total(name), meter.settled
            if replace(total, usd=total.usd or 0.0) == replace(before, usd=before.usd or 0.0):
                continue
            new = Spent(
                statements=total.statements - before.statements,
                seconds=total.seconds - before.seconds,
                bytes=total.bytes - before.bytes,
                usd=None if total.usd is None else total.usd - (before.usd or 0.0),
            )
            known = self._days.get((day, name))
            self._days[day, name] = known + new if known else new
            meter.settled = total

    def _total(self, name: str) -> Spent:
        meter = self._meters[name]
        sides = [self._cost(side) for side in meter.sides]
        return Spent(
            statements=sum(side.statements for side in sides),
            seconds=meter.seconds,
            bytes=sum(side.bytes for side in sides),
            usd=meter.usd(time.monotonic()),
        )

    # what is left

    def _check(self, name: str) -> None:
        """Raise BudgetSpent if nothing is left for a statement on a connection."""
        for whose, budget, connections in (
            (f"the audit {self._audit}", self._whole, list(self._meters)),
            (f"the connection {name}", self._meters[name].budget, [name]),
        ):
            if budget.limits and budget.per == "run":
                self._check_run(whose, budget, connections)
            elif budget.limits and self._others is not None:
                self._check_day(whose, budget, connections, of_audit=budget is self._whole)

    def _check_run(self, whose: str, budget: Budget, connections: Sequence[str]) -> None:
        with self._lock:
            spent = _sum(self._total(name) for name in connections)
        for what, limit in budget.limits.items():
            if amount_of(spent, what) >= limit:
                raise BudgetSpent(
                    f"the run has cost {say_amount(what, amount_of(spent, what))}, and the budget of {whose} is {say_amount(what, limit)};"
                    f" raise budget: {what}, or continue the run by auditor resume, which has the whole budget again"
                )

    def _check_day(self, whose: str, budget: Budget, connections: Sequence[str], *, of_audit: bool) -> None:
        with self._lock:
            self._settle()
            now = self._now()
            mine = _sum(self._days[now.date(), name] for name in connections if (now.date(), name) in self._days)
            others = [
                other
                for other in self._others or ()
                if other.day == now.date() and (other.audit == self._audit if of_audit else other.connection in connections)
            ]
        for what, limit in budget.limits.items():
            used = amount_of(mine, what) + sum(amount_of(other.spent, what) for other in others)
            if used >= limit:
                raise BudgetSpent(describe_spent(whose, what, limit, used, now, amount_of(mine, what), others))


def _meter(name: str, settings: ConnectionSettings, names: Mapping[Side, str]) -> _Meter:
    price = settings.price
    charged = None
    if price and price.per != "hour":
        charged = ChargedTime(dialects.by_scheme(dialects.parse_url(settings.url).scheme).server.PRICED_BY[price.per])
    return _Meter(name, settings.limits.budget, price, [side for side, its in names.items() if its == name], charged)


def _sum(costs: Iterator[Spent] | Sequence[Spent]) -> Spent:
    return sum(costs, start=Spent(usd=0.0))


def amount_of(spent: Spent, what: str) -> float:
    """Return what was spent of ``seconds``, ``statements``, ``bytes`` or ``usd``; what is not known counts as nothing."""
    return float(getattr(spent, what) or 0)


def say_amount(what: str, amount: float) -> str:
    """Return an amount of ``seconds``, ``statements``, ``bytes`` or ``usd`` for a person."""
    unit = "USD" if what == "usd" else what.removesuffix("s") if amount == 1 else what
    return f"{say_number(amount)} {unit}"


def say_number(amount: float) -> str:
    """Return an amount with as many digits as a person reads."""
    return f"{amount:,.0f}" if amount >= 100 or amount == int(amount) else f"{amount:,.3g}"


def next_day(now: dt.datetime) -> dt.datetime:
    """Return the next midnight in UTC, when the budgets of a day are whole again."""
    return dt.datetime.combine(now.date() + dt.timedelta(days=1), dt.time(), dt.UTC)


def describe_spent(whose: str, what: str, limit: float, used: float, now: dt.datetime, mine: float, others: Sequence[DayCost]) -> str:
    """Return a sentence: what of a day's budget was used, by which audits, and when there is budget again."""
    by: dict[str, float] = {}
    runs: dict[str, int] = {}
    for other in others:
        by[other.audit] = by.get(other.audit, 0.0) + amount_of(other.spent, what)
        runs[other.audit] = max(runs.get(other.audit, 0), other.runs)
    by = {audit: amount for audit, amount in by.items() if amount}
    most = sorted(by, key=lambda audit: -by[audit])[:NAMED_SPENDERS]
    named = [f"{say_amount(what, by[audit])} by the audit {audit} ({plural(runs[audit], 'run')})" for audit in most]
    if len(by) > NAMED_SPENDERS:
        named.append(f"the rest by {plural(len(by) - NAMED_SPENDERS, 'further audit')}")
    if mine:
        named.append(f"{say_amount(what, mine)} by this run")
    return (
        f"the budget of {whose} is {say_amount(what, limit)} a day, and {say_amount(what, used)} are used on {now:%Y-%m-%d} (UTC):"
        f" {', '.join(named)}; there is budget again from {next_day(now):%Y-%m-%d %H:%M} UTC on, or raise budget: {what}"
    )
