SELECT
  CASE WHEN auditor_double(b.least) = 9e999 THEN 'Infinity' WHEN auditor_double(b.least) = -9e999 THEN '-Infinity' WHEN auditor_double(b.least) = 0 THEN '0' ELSE (CASE WHEN auditor_double(b.least) < 0 THEN '-' ELSE '' END || CAST(CAST((CASE WHEN ABS(auditor_double(b.least)) < auditor_double('1e-270') THEN ABS(auditor_double(b.least)) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double(b.least)) END) * POWER(auditor_double('2'), 53 - FLOOR(LOG2(CASE WHEN ABS(auditor_double(b.least)) < auditor_double('1e-270') THEN ABS(auditor_double(b.least)) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double(b.least)) END) + auditor_double('0.3721'))) AS BIGINT) AS TEXT) || 'p' || CAST(CAST(FLOOR(LOG2(CASE WHEN ABS(auditor_double(b.least)) < auditor_double('1e-270') THEN ABS(auditor_double(b.least)) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double(b.least)) END) + auditor_double('0.3721')) - CASE WHEN ABS(auditor_double(b.least)) < auditor_double('1e-270') THEN 1000 ELSE 0 END AS BIGINT) AS TEXT)) END AS least_text,
  CASE WHEN auditor_double(b.greatest) = 9e999 THEN 'Infinity' WHEN auditor_double(b.greatest) = -9e999 THEN '-Infinity' WHEN auditor_double(b.greatest) = 0 THEN '0' ELSE (CASE WHEN auditor_double(b.greatest) < 0 THEN '-' ELSE '' END || CAST(CAST((CASE WHEN ABS(auditor_double(b.greatest)) < auditor_double('1e-270') THEN ABS(auditor_double(b.greatest)) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double(b.greatest)) END) * POWER(auditor_double('2'), 53 - FLOOR(LOG2(CASE WHEN ABS(auditor_double(b.greatest)) < auditor_double('1e-270') THEN ABS(auditor_double(b.greatest)) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double(b.greatest)) END) + auditor_double('0.3721'))) AS BIGINT) AS TEXT) || 'p' || CAST(CAST(FLOOR(LOG2(CASE WHEN ABS(auditor_double(b.greatest)) < auditor_double('1e-270') THEN ABS(auditor_double(b.greatest)) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double(b.greatest)) END) + auditor_double('0.3721')) - CASE WHEN ABS(auditor_double(b.greatest)) < auditor_double('1e-270') THEN 1000 ELSE 0 END AS BIGINT) AS TEXT)) END AS greatest_text
FROM (
  SELECT
    MIN(v) AS least,
    MAX(v) AS greatest
  FROM (
    SELECT auditor_double("weight") AS v
    FROM "shop"."orders"
    WHERE 1 = 1
  ) valued_rows
  WHERE v >= auditor_double('-1.7976931348623157e308') AND v <= auditor_double('1.7976931348623157e308')
) b
