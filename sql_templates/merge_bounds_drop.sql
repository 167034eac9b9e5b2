-- Removes the ends of intervals once they are merged.
DROP TABLE ${bounds}
