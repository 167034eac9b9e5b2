"""Messages of topics: events of the pipeline's stream as messages in Debezium's form, and messages as events.

Functions of bytes alone: nothing here connects to a broker. `writing` writes rows, `other_topics` what is written of transactions and of
statements that change tables, `reading` reads. `column_values` has the conversion of each type of column, `connect_schemas` the schemas
beside messages, and `registry` keeps them where a format needs that. What a format is, JSON or Avro: `formats`.
"""
