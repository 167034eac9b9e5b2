-- Makes the table of a target in which its merges keep the sums of live summaries.
CREATE TABLE IF NOT EXISTS ${sums} (
  epoch ${name} NOT NULL,
  place ${integer} NOT NULL,
  piece ${integer} NOT NULL,
  previous ${integer} NOT NULL,
  layout ${text} NOT NULL,
  shape ${text} NOT NULL,
  digest ${text} NOT NULL,
  size ${integer} NOT NULL,
  body ${text} NOT NULL,
  PRIMARY KEY (epoch, place, piece)
)
