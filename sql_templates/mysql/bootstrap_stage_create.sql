-- Makes an empty table with the columns, types and keys of a target's table.
CREATE TABLE ${stage} LIKE ${target}
