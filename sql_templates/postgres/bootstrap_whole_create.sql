-- Makes an empty table with all that the columns of a target's table have, to take its name.
CREATE TABLE ${stage} (LIKE ${target} INCLUDING ALL)
