-- Removes the last changes once they are merged.
DROP TABLE ${last}
