-- One row of a table, or of a view: its name, and the statement that makes it.
SHOW CREATE TABLE ${table}
