-- Writes which chunk the transaction is; no row is changed if another attempt has the refresh.
UPDATE ${chunks}
SET number = ${number}, body = ${body}
WHERE refresh = ${refresh} AND attempt = ${attempt} AND number = ${known}
