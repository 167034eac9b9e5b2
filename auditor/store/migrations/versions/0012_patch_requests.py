"""Store patches that are proposed before they are applied: their rows, the key of the request, and the run that looked again."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

from auditor.store._types import blob, name

revision = "0012"
down_revision = "0011"

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    """Add the columns, their indexes and the table of plans."""
    # MySQL changes tables outside of a transaction, so an interrupted migration may have done a part of this.
    seen = sa.inspect(op.get_bind())
    columns = {column["name"] for column in seen.get_columns("auditor_patches")}
    indexes = {index["name"] for index in seen.get_indexes("auditor_patches")}
    for column in (sa.Column("request_key", name(64)), sa.Column("after_run", name(64))):
        if column.name not in columns:
            op.add_column("auditor_patches", column)
    if "auditor_patches_request_key" not in indexes:
        op.create_index("auditor_patches_request_key", "auditor_patches", ["request_key"], unique=True)
    if "auditor_patches_after_run" not in indexes:
        op.create_index("auditor_patches_after_run", "auditor_patches", ["after_run"])
    if "auditor_patch_plans" not in set(seen.get_table_names()):
        owner = sa.ForeignKey("auditor_patches.patch", name="auditor_patch_plans_patch_fk", ondelete="CASCADE")
        op.create_table(
            "auditor_patch_plans", sa.Column("patch", name(64), owner, primary_key=True), sa.Column("body", blob(), nullable=False), **MYSQL
        )
    _move_runs()


def _move_runs() -> None:
    """Move the id of the run that looked again from a patch's details into its column."""
    patches = sa.table("auditor_patches", sa.column("patch"), sa.column("detail"), sa.column("after_run"))
    connection = op.get_bind()
    for row in connection.execute(sa.select(patches.c.patch, patches.c.detail)).all():
        detail = json.loads(row.detail)
        if after := detail.pop("after", None):
            moved = {"detail": json.dumps(detail, ensure_ascii=False), "after_run": after}
            connection.execute(sa.update(patches).where(patches.c.patch == row.patch).values(**moved))
