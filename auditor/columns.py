"""The columns of two tables: found by the audit's names, and for each the kind that both sides' types share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from auditor import canonical, expressions, tolerance
from auditor.canonical import Shared
from auditor.config import Audit, Override, Per, Sql, Written
from auditor.errors import ColumnRefused, NoKey, NoSuchObject, PlanError
from auditor.model import SIDES, ColumnPlan, Method, Side
from dialects import Column, Dialect, Kind, Table, get


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One side as it was found: its connection's name, the dialect its server speaks, the table."""

    connection: str
    label: str
    dialect: Dialect
    table: Table


class Names:
    """The audit's names, found in the two catalogues: exactly as written, else whatever their letters' case."""

    def __init__(self, audit: Audit, ends: Mapping[Side, Endpoint]) -> None:
        self.audit = audit
        self.ends = ends
        self.problems: list[str] = []
        self.left_out: list[str] = []
        self.renamed = {self._of_source(a): b for a, b in audit.target.columns.items()}
        self.taken = {found.name: a for a, b in self.renamed.items() if (found := self._named("target", b))}

    def find(self, side: Side, name: str) -> Column | None:
        """The column of a side that the source's ``name`` stands for: of the target none that another column is mapped to."""
        if side == "source":
            return self._named("source", name)
        here = self._of_source(name)
        if here in self.renamed:
            return self._named("target", self.renamed[here])
        found = self._named("target", here)
        return None if found and found.name in self.taken else found

    def _of_source(self, name: str) -> str:
        """The name as the source's catalogue has it; as it is where the source has no such column."""
        found = self._named("source", name)
        return found.name if found else name

    def _named(self, side: Side, name: str) -> Column | None:
        columns = self.ends[side].table.columns
        exact = [c for c in columns if c.name == name]
        loose = [c for c in columns if c.name.lower() == name.lower()]
        return exact[0] if exact else loose[0] if len(loose) == 1 else None

    def key(self) -> list[str]:
        """The key's columns by the source's names. Raises NoKey, or NoSuchObject for a column that a side does not have."""
        key = self.audit.key or self.ends["source"].table.primary_key
        if not key:
            raise NoKey(f"{self.ends['source'].label} has no primary key: write key: [column, ...] in the audit")
        for name in key:
            for side in SIDES:
                if not self.find(side, name):
                    raise NoSuchObject(f"the key's column {name!r} is not in the {side} ({self.ends[side].label}){self.hint(side, name)}")
        return [column.name for name in key if (column := self.find("source", name))]

    def compared(self, key: Sequence[str]) -> list[str]:
        """The compared columns by the source's names, the key's first; notes what is left out and what is missing."""
        rules = self.audit.columns
        excluded = {name.lower() for name in rules.exclude}
        included = {name.lower() for name in rules.include}
        computed = {name.lower(): name for name, rule in rules.override.items() if rule.expr is not None}
        here = [column.name for column in self.ends["source"].table.columns]
        every = [*here, *(name for low, name in computed.items() if low not in {h.lower() for h in here})]
        self._check_written([*rules.exclude, *rules.include, *rules.override, *self.audit.target.columns], every)
        wanted = list(key)
        for name in every:
            low = name.lower()
            if name in wanted:
                continue
            if low in excluded or (included and low not in included):
                self.left_out.append(f"{name}: left out by the audit")
            elif low not in computed and not self.find("target", name):
                self.problems.append(f"column {name!r} is not in the target ({self.ends['target'].label}){self.hint('target', name)}")
            else:
                wanted.append(name)
        self._check_shared([name for name in wanted if name.lower() not in computed])
        known = {column.name for name in [*wanted, *every] if (column := self.find("target", name))}
        extra = [c.name for c in self.ends["target"].table.columns if c.name not in known and c.name.lower() not in excluded]
        self.left_out += [f"{name}: only in the target" for name in extra]
        return wanted

    def hint(self, side: Side, name: str) -> str:
        """What to write about a column that a side lacks."""
        if side == "source":
            return ""
        namesake = self._named("target", self._of_source(name))
        owner = self.taken.get(namesake.name) if namesake else None
        why = f": its {namesake.name!r} stands for the source's {owner!r}" if namesake and owner else ""
        return f"{why}; map it under target: columns: {{source name: target name}}, or exclude it"

    def _check_shared(self, wanted: Sequence[str]) -> None:
        """No column of the target is compared with two of the source: another of its columns would then go unseen."""
        there: dict[str, str] = {}
        for name in wanted:
            column = self.find("target", name)
            first = there.setdefault(column.name, name) if column else name
            if column and first != name:
                self.problems.append(
                    f"columns {first!r} and {name!r} of the source both stand for the target's {column.name!r};"
                    " map each to a column of its own under target: columns: {source name: target name}, or exclude one"
                )

    def _check_written(self, written: Sequence[str], every: Sequence[str]) -> None:
        known = {name.lower() for side in SIDES for name in (c.name for c in self.ends[side].table.columns)}
        known |= {name.lower() for name in every}
        self.problems += [f"the audit names a column {name!r} that neither side has" for name in written if name.lower() not in known]

    def for_expressions(self, side: Side, shared: bool) -> dict[str, str]:
        """Names a person may write in a filter, in lower case, to this side's names.

        In what is ``shared`` by both sides a name of the source's is never taken for the target's column of another.
        """
        found = {c.name.lower(): c.name for c in self.ends[side].table.columns}
        for column in self.ends["source"].table.columns:
            if there := self.find(side, column.name):
                found[column.name.lower()] = there.name
            elif shared:
                found.pop(column.name.lower(), None)
        return found


def written(sql: Sql, what: str, ends: Mapping[Side, Endpoint], names: Names, side: Side) -> str:
    """A person's SQL, as this side has to spell it."""
    write = ends[side].dialect
    match sql:
        case Per():
            text, read = (sql.source if side == "source" else sql.target), write
        case Written():
            try:
                text, read = sql.sql, get(sql.dialect)
            except LookupError as error:
                raise PlanError(f"{what}: {error}") from None
        case _:
            text, read = sql, ends["source"].dialect
    return expressions.translate(text, read, write, names.for_expressions(side, not isinstance(sql, Per)), what)


def column_plan(audit: Audit, ends: Mapping[Side, Endpoint], names: Names, name: str, method: Method) -> ColumnPlan:
    """How a column, by the source's name, is compared. Raises PlanError."""
    rules = {key.lower(): rule for key, rule in audit.columns.override.items()}
    rule = rules.get(name.lower(), Override())
    found = {side: names.find(side, name) for side in SIDES}
    asked = canonical.parse_kind(rule.kind) if rule.kind else None
    if rule.round is not None:
        asked = Kind("rounded", scale=rule.round)
    if rule.expr is not None and asked:
        return ColumnPlan(
            name=name,
            kind=asked,
            native=dict.fromkeys(SIDES, _unmeasured(asked)),
            expression={side: f"({written(rule.expr, f'expr of {name}', ends, names, side)})" for side in SIDES},
            types=dict.fromkeys(SIDES, "an expression"),
            why="the audit's expression",
            trim=rule.trim,
            case=rule.case,
            null_as=rule.null_as,
            masked=rule.mask,
        )
    both = {side: column for side, column in found.items() if column}
    native = {side: _native(column, name, side, ends[side]) for side, column in both.items()}
    allowed, fine = None, dict[Side, Kind]()
    if rule.tolerance and method != "counts":  # it has deviations of its own that are allowed
        _check_tolerance(audit, names, name, rule)
        allowed = tolerance.of(rule.tolerance)
        shared, fine = tolerance.kinds(name, native, {side: column.native for side, column in both.items()}, allowed)
    else:
        shared = _asked(asked, native, name, both) if asked else _negotiated(native, name, both)
    for kind in {shared.kind, *fine.values()}:
        _check_digits(kind, native, name, ends)
    return ColumnPlan(
        name=name,
        kind=shared.kind,
        native=native,
        expression={side: ends[side].dialect.quote(column.name) for side, column in both.items()},
        types={side: column.native for side, column in both.items()},
        why=shared.why,
        lossy=shared.lossy,
        trim=rule.trim,
        case=rule.case,
        null_as=rule.null_as,
        masked=rule.mask,
        tolerance=allowed,
        fine=fine,
    )


def _check_tolerance(audit: Audit, names: Names, name: str, rule: Override) -> None:
    """A tolerance is for values that are fetched and compared: of no column that says which row, or in which partition, it is."""
    if name in names.key():
        raise ColumnRefused(f"column {name!r} is of the key, which identifies a row: it cannot have a tolerance")
    if (audit.partition.column or "").lower() == name.lower():
        raise ColumnRefused(f"column {name!r} is what partitions are cut by: it cannot have a tolerance")
    if rule.mask:
        raise ColumnRefused(f"column {name!r}: the values of a masked column are not fetched; write either mask or tolerance")


def _unmeasured(asked: Kind) -> Kind:
    """What is known of the values of a person's expression: their kind, and not how many digits they hold."""
    return Kind(asked.name) if asked.name in ("decimal", "timestamp", "timestamptz", "time") else asked


def _native(column: Column, name: str, side: Side, end: Endpoint) -> Kind:
    if column.kind is None:
        raise ColumnRefused(
            f"column {name!r}: {end.dialect.name}'s type {column.native!r} of the {side} has no canonical text;"
            f" exclude it, or write columns: override: {{{name}: {{expr: ..., kind: ...}}}}"
        )
    return column.kind


def _negotiated(native: Mapping[Side, Kind], name: str, both: Mapping[Side, Column]) -> Shared:
    shared = canonical.share(native["source"], native["target"])
    if shared is None:
        types = " and ".join(both[side].native for side in SIDES)
        raise ColumnRefused(
            f"column {name!r}: {types} share no kind; exclude it, or write columns: override: {{{name}: {{kind: ...}}}} (or round:, expr:)"
        )
    return shared


def _asked(kind: Kind, native: Mapping[Side, Kind], name: str, both: Mapping[Side, Column]) -> Shared:
    for side in SIDES:
        if not canonical.can_render(kind, native[side]):
            raise ColumnRefused(f"column {name!r}: the {side}'s {both[side].native} cannot be compared as {kind}")
    lossy = f"values are rounded to {kind.scale} digits behind the point" if kind.name == "rounded" else None
    return Shared(kind, "the audit says so", lossy)


def _check_digits(kind: Kind, native: Mapping[Side, Kind], name: str, ends: Mapping[Side, Endpoint]) -> None:
    if kind.name != "decimal":
        return
    for side in SIDES:
        whole = (native[side].digits or 0) - (native[side].scale or 0)
        most = ends[side].dialect.MAX_DECIMAL_DIGITS
        if whole + (kind.scale or 0) > most:
            raise ColumnRefused(
                f"column {name!r}: {whole} digits before the point and {kind.scale} behind it are more than the {most} that"
                f" {ends[side].dialect.name} computes with; write columns: override: {{{name}: {{kind: 'decimal(38,{most - whole})'}}}}"
            )
