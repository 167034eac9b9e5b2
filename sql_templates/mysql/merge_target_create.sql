-- Makes a target table with the columns and key of its source.
CREATE TABLE ${target} (
  ${columns},
  PRIMARY KEY (${key})
) ENGINE = InnoDB
${clauses}
