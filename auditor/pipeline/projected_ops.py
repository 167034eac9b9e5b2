"""Bring what a statement did to a table's columns to the columns that parts and targets have."""

from __future__ import annotations

from auditor.pipeline.binlog.ddl import ChangeBody, Op
from auditor.pipeline.columns import Rules, digest, refuse_short_year


def project_ops(body: ChangeBody, table: str, rules: Rules) -> ChangeBody:
    """Return the body of a note on a table without excluded columns, with renamed ones by their new names and masked values as digests.

    It stops the table if that has a YEAR(2) which is not excluded.
    """
    ops = [projected for op in body["ops"] if op["op"] != "short_year" for projected in _project(op, rules)]
    projected: ChangeBody = {**body, "ops": ops}
    short = [op["column"] for op in body["ops"] if op["op"] == "short_year" and not _is_in(op["column"], rules.columns.exclude)]
    if short and "reason" not in projected:
        projected.pop("advances", None)
        projected |= {"stage": "statement", "reason": refuse_short_year(table, short[0])}
    return projected


def _project(op: Op, rules: Rules) -> list[Op]:
    if op["op"] == "rename":
        return _renamed(op, rules)
    if "column" not in op:
        return [op]
    column = op["column"]
    if _is_in(column, rules.columns.exclude):
        return []
    projected = {**op, "column": _name(column, rules)}
    if "type" in op and _is_in(column, rules.columns.mask):
        projected["type"] = ""  # the digests of values, which may have changed
    if "value" in op and _is_in(column, rules.columns.mask):
        text = op["value"].get("hex", op["value"].get("text"))
        projected["value"] = {"text": digest(rules.salt, text)} if text is not None else op["value"]
    return [projected]


def _renamed(op: Op, rules: Rules) -> list[Op]:
    """Return what a renamed column is to the target: it may be excluded, or masked, under one of its names only."""
    old, new = op["from"], op["to"]
    was, now = (not _is_in(column, rules.columns.exclude) for column in (old, new))
    if was and now and _is_in(old, rules.columns.mask) == _is_in(new, rules.columns.mask):
        hidden = {"type": ""} if "type" in op and _is_in(new, rules.columns.mask) else {}
        return [{**op, "from": _name(old, rules), "to": _name(new, rules), **hidden}]
    value = {"unknown": f"it has the values that {old} had, to which other rules of the pipeline applied"}
    dropped = [{"op": "drop", "column": _name(old, rules)}] if was else []
    return dropped + ([{"op": "add", "column": _name(new, rules), "value": value}] if now else [])


def _name(column: str, rules: Rules) -> str:
    return next((new for old, new in rules.columns.rename.items() if old.lower() == column.lower()), column)


def _is_in(column: str, chosen: object) -> bool:
    return column.lower() in {name.lower() for name in chosen}  # type: ignore[attr-defined]
