-- Writes which chunk the transaction is; no row is changed if another attempt has the bootstrap.
UPDATE ${chunks}
SET number = ${number}, body = ${body}
WHERE bootstrap = ${bootstrap} AND attempt = ${attempt} AND number = ${known}
