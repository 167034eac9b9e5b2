"""The statements that make a table or bring one in line, in the forms of engines that differ; tests/repair/test_schema.py runs them."""

from __future__ import annotations

import pytest

import dialects
from auditor.errors import ConfigError
from auditor.model import DefinedColumn, DefinedTable
from auditor.sql import table_definition
from dialects import Column, Kind, Table
from dialects.mysql.writing import column_forms
from dialects.table_form import ColumnForm, TableKey

ID = DefinedColumn("id", "BIGINT", Kind("integer"), False)
NOTE = DefinedColumn("note", "TEXT", Kind("text"), True, "it's \\")
TABLE = DefinedTable((ID, NOTE), ("id",), {}, "a table")
ID_FORM = ColumnForm("int", " AUTO_INCREMENT")
NOTE_FORM = ColumnForm("varchar(9) COLLATE utf8mb4_bin", " DEFAULT 'x' COMMENT 'as it was'")

MADE = {
    "mysql": [
        "CREATE TABLE t (\n  `id` BIGINT NOT NULL,\n  `note` TEXT NULL COMMENT 'it\\'s \\\\',\n  PRIMARY KEY (`id`)\n)\nCOMMENT 'a table'"
    ],
    "postgres": [
        'CREATE TABLE t (\n  "id" BIGINT NOT NULL,\n  "note" TEXT,\n  PRIMARY KEY ("id")\n)',
        "COMMENT ON TABLE t IS 'a table'",
        "COMMENT ON COLUMN t.\"note\" IS 'it''s \\'",
    ],
}
CHANGED = {
    "mysql": [
        "ALTER TABLE t ADD COLUMN `note` TEXT NULL COMMENT 'it\\'s \\\\'",
        "ALTER TABLE t MODIFY COLUMN `note` TEXT NULL DEFAULT 'x' COMMENT 'as it was'",
        "ALTER TABLE t MODIFY COLUMN `note` varchar(9) COLLATE utf8mb4_bin NULL DEFAULT 'x' COMMENT 'as it was'",
        "ALTER TABLE t MODIFY COLUMN `id` int NOT NULL AUTO_INCREMENT",
        "ALTER TABLE t ADD PRIMARY KEY (`id`, `note`)",
    ],
    "postgres": [
        'ALTER TABLE t ADD COLUMN "note" TEXT',
        "COMMENT ON COLUMN t.\"note\" IS 'it''s \\'",
        'ALTER TABLE t ALTER COLUMN "note" TYPE TEXT',
        'ALTER TABLE t ALTER COLUMN "note" DROP NOT NULL',
        'ALTER TABLE t ALTER COLUMN "id" SET NOT NULL',
        'ALTER TABLE t ADD PRIMARY KEY ("id", "note")',
    ],
    "redshift": [
        'ALTER TABLE t ADD COLUMN "note" TEXT',
        "COMMENT ON COLUMN t.\"note\" IS 'it\\'s \\\\'",
        'ALTER TABLE t ADD PRIMARY KEY ("id", "note")',
    ],
}


@pytest.mark.parametrize("name", MADE)
def test_a_table_is_made(name: str) -> None:
    assert list(table_definition.create_table(dialects.get(name), "t", TABLE, {})) == MADE[name]


@pytest.mark.parametrize("name", CHANGED)
def test_a_table_is_brought_in_line(name: str) -> None:
    dialect = dialects.get(name)
    assert [
        *table_definition.add_column(dialect, "t", NOTE),
        *table_definition.change_type(dialect, "t", "note", NOTE, NOTE_FORM),
        *table_definition.change_null(dialect, "t", "note", NOTE, NOTE_FORM),
        *table_definition.change_null(dialect, "t", "id", ID, ID_FORM),
        *table_definition.add_key(dialect, "t", ("id", "note")),
    ] == CHANGED[name]


def test_a_column_is_not_changed_whose_definition_is_not_known() -> None:
    for change in (table_definition.change_type, table_definition.change_null):
        assert change(dialects.get("mysql"), "t", "note", NOTE, None) == []


DEFINITION = """\
CREATE TABLE `t` (
  `id` bigint(20) unsigned NOT NULL AUTO_INCREMENT COMMENT 'a, b',
  `id``` varchar(9) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `id````` enum('a NOT NULL,','b') NOT NULL DEFAULT 'b' /*!80023 INVISIBLE */,
  `hidden` int(11) INVISIBLE DEFAULT NULL COMMENT 'x',
  `twice` int GENERATED ALWAYS AS ((`id` * 2)) STORED,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB COMMENT='
  `at` datetime DEFAULT NULL'"""


def test_what_mysql_writes_of_columns_is_kept() -> None:
    natives = {
        "id": "bigint(20) unsigned",
        "id`": "varchar(9) character set latin1",
        "id``": "enum('a NOT NULL,','b')",
        "hidden": "int(11)",
        "twice": "int",
        "at": "date",
    }
    table = Table("`t`", tuple(Column(name, native, None, True) for name, native in natives.items()), ("id",), None)
    assert column_forms(DEFINITION, table) == {
        "id": ColumnForm("bigint(20) unsigned", " AUTO_INCREMENT COMMENT 'a, b'"),
        "id`": ColumnForm("varchar(9) CHARACTER SET latin1 COLLATE latin1_bin", ""),
        "id``": ColumnForm("enum('a NOT NULL,','b')", " DEFAULT 'b' /*!80023 INVISIBLE */"),
        "hidden": ColumnForm("int(11)", " INVISIBLE COMMENT 'x'"),
    }


def test_keys_of_redshift_are_those_of_its_columns() -> None:
    keys: dict[TableKey, tuple[str, ...]] = {"dist": ("ID",), "sort": ("id", "note")}
    [made, *_] = table_definition.create_table(dialects.get("redshift"), "t", TABLE, keys)
    assert made.endswith('\n)\nDISTKEY ("id")\nSORTKEY ("id", "note")')
    with pytest.raises(ConfigError, match="t has no column 'other' for its dist key; it has id, note"):
        list(table_definition.create_table(dialects.get("redshift"), "t", TABLE, {"dist": ("other",)}))
    with pytest.raises(ConfigError, match="postgres has no dist keys; leave out the dist key of t"):
        list(table_definition.create_table(dialects.get("postgres"), "t", TABLE, keys))
