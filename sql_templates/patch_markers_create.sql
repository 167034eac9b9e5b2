-- Makes the table of a target in which each batch of a patch leaves a mark, by which it is known whether it was committed.
CREATE TABLE IF NOT EXISTS ${markers} (
  patch ${text} NOT NULL,
  batch ${integer} NOT NULL,
  PRIMARY KEY (patch, batch)
)
