"""How MySQL and MariaDB write the columns of a table's definition, which no column of their catalogue has as a statement needs it."""

from __future__ import annotations

import re

from dialects.catalogue import Table
from dialects.mysql_text import CHARACTER_SET
from dialects.table_form import ColumnForm

_FORM = re.compile(
    r"(?P<characters>(?: CHARACTER SET \w+)?(?: COLLATE \w+)?)(?: NOT NULL| NULL)?"
    r"(?P<hidden>(?: INVISIBLE)?)(?: DEFAULT NULL)?(?P<rest>| .*)"
)
"""What follows a column's type. MariaDB writes INVISIBLE before the default, MySQL in a comment after it."""


def column_forms(definition: str, table: Table) -> dict[str, ColumnForm]:
    """Return the form of each column in what SHOW CREATE TABLE says of a described table; of computed columns there is none.

    https://dev.mysql.com/doc/refman/9.4/en/show-create-table.html
    """
    lines = definition.split("\n")
    forms = {}
    for column in table.columns:
        native = column.native.partition(CHARACTER_SET)[0]
        begin = f"  `{column.name.replace('`', '``')}` {native}"
        after = next((line.removesuffix(",")[len(begin) :] for line in lines if line.startswith(begin)), None)
        match = _FORM.fullmatch(after) if after is not None else None
        if match and not match["rest"].startswith(" GENERATED ALWAYS AS"):
            forms[column.name] = ColumnForm(native + match["characters"], match["hidden"] + match["rest"])
    return forms
