-- Keeps every other attempt off a staging table until the transaction ends.
LOCK TABLE ${stage} IN ACCESS EXCLUSIVE MODE
