-- Removes the last changes once they are merged.
DROP TEMPORARY TABLE ${last}
