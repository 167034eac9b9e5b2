-- Deletes one row, if it still has the digest with which it was read.
DELETE FROM ${target}
WHERE ${key} AND ${digest} = ${expected}
