SELECT
  CASE WHEN auditor_double(a_b.a_least) = 9e999 THEN 'Infinity' WHEN auditor_double(a_b.a_least) = -9e999 THEN '-Infinity' WHEN auditor_double(a_b.a_least) = 0 THEN '0' ELSE (CASE WHEN auditor_double(a_b.a_least) < 0 THEN '-' ELSE '' END || CAST(CAST((CASE WHEN ABS(auditor_double(a_b.a_least)) < auditor_double('1e-270') THEN ABS(auditor_double(a_b.a_least)) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double(a_b.a_least)) END) * POWER(auditor_double('2'), 53 - FLOOR(LOG2(CASE WHEN ABS(auditor_double(a_b.a_least)) < auditor_double('1e-270') THEN ABS(auditor_double(a_b.a_least)) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double(a_b.a_least)) END) + auditor_double('0.3721'))) AS BIGINT) AS TEXT) || 'p' || CAST(CAST(FLOOR(LOG2(CASE WHEN ABS(auditor_double(a_b.a_least)) < auditor_double('1e-270') THEN ABS(auditor_double(a_b.a_least)) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double(a_b.a_least)) END) + auditor_double('0.3721')) - CASE WHEN ABS(auditor_double(a_b.a_least)) < auditor_double('1e-270') THEN 1000 ELSE 0 END AS BIGINT) AS TEXT)) END AS least_text,
  CASE WHEN auditor_double(a_b.a_greatest) = 9e999 THEN 'Infinity' WHEN auditor_double(a_b.a_greatest) = -9e999 THEN '-Infinity' WHEN auditor_double(a_b.a_greatest) = 0 THEN '0' ELSE (CASE WHEN auditor_double(a_b.a_greatest) < 0 THEN '-' ELSE '' END || CAST(CAST((CASE WHEN ABS(auditor_double(a_b.a_greatest)) < auditor_double('1e-270') THEN ABS(auditor_double(a_b.a_greatest)) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double(a_b.a_greatest)) END) * POWER(auditor_double('2'), 53 - FLOOR(LOG2(CASE WHEN ABS(auditor_double(a_b.a_greatest)) < auditor_double('1e-270') THEN ABS(auditor_double(a_b.a_greatest)) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double(a_b.a_greatest)) END) + auditor_double('0.3721'))) AS BIGINT) AS TEXT) || 'p' || CAST(CAST(FLOOR(LOG2(CASE WHEN ABS(auditor_double(a_b.a_greatest)) < auditor_double('1e-270') THEN ABS(auditor_double(a_b.a_greatest)) * POWER(auditor_double('2'), 1000) ELSE ABS(auditor_double(a_b.a_greatest)) END) + auditor_double('0.3721')) - CASE WHEN ABS(auditor_double(a_b.a_greatest)) < auditor_double('1e-270') THEN 1000 ELSE 0 END AS BIGINT) AS TEXT)) END AS greatest_text
FROM (
  SELECT
    MIN(a_valued_rows.a_v) AS a_least,
    MAX(a_valued_rows.a_v) AS a_greatest
  FROM (
    SELECT auditor_double("weight") AS a_v
    FROM "shop"."orders"
    WHERE 1 = 1
  ) a_valued_rows
  WHERE a_valued_rows.a_v >= auditor_double('-1.7976931348623157e308') AND a_valued_rows.a_v <= auditor_double('1.7976931348623157e308')
) a_b
