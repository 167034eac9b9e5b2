-- Makes the table of heartbeats, which has one row. Who reads the binary log knows the table by its name and these types.
CREATE TABLE IF NOT EXISTS ${table} (
  id INT NOT NULL,
  serial BIGINT NOT NULL,
  beat_at DATETIME(6) NOT NULL,
  server BIGINT NOT NULL,
  PRIMARY KEY (id)
) ENGINE=InnoDB
