-- Updates one row, if it still has the digest with which it was read.
UPDATE ${target}
SET ${values}
WHERE ${key} AND ${digest} = ${expected}
