-- One row per row of a source that is copied: the line of text with which the target loads it; NULL if it could not be built.
SELECT ${line}
FROM ${table}
WHERE ${where}
