-- Removes a staging table, and whatever an attempt that failed left in it.
DROP TEMPORARY TABLE IF EXISTS ${stage}
