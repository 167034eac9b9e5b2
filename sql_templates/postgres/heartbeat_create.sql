-- Makes the table of heartbeats, which has one row.
CREATE TABLE IF NOT EXISTS ${table} (
  id integer PRIMARY KEY,
  serial bigint NOT NULL,
  beat_at timestamp(6) NOT NULL,
  server bigint NOT NULL
)
