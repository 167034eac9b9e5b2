-- Makes the table that says what chunk a transaction of a refresh is, and keeps how far each refresh is.
CREATE TABLE IF NOT EXISTS ${chunks} (
  refresh VARCHAR(64) NOT NULL,
  pipeline VARCHAR(255) NOT NULL,
  attempt VARCHAR(64) NOT NULL,
  number BIGINT NOT NULL,
  body LONGTEXT NOT NULL,
  PRIMARY KEY (refresh)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin
