SELECT
  CASE WHEN isNaN(toFloat64(a_b.a_least)) THEN 'NaN' WHEN toFloat64(a_b.a_least) = inf THEN 'Infinity' WHEN toFloat64(a_b.a_least) = -inf THEN '-Infinity' WHEN toFloat64(a_b.a_least) = 0 THEN '0' ELSE (CASE WHEN toFloat64(a_b.a_least) < 0 THEN '-' ELSE '' END || toString(accurateCastOrNull((CASE WHEN ABS(toFloat64(a_b.a_least)) < toFloat64('1e-270') THEN ABS(toFloat64(a_b.a_least)) * exp2(1000) ELSE ABS(toFloat64(a_b.a_least)) END) * exp2(53 - FLOOR(LOG2(CASE WHEN ABS(toFloat64(a_b.a_least)) < toFloat64('1e-270') THEN ABS(toFloat64(a_b.a_least)) * exp2(1000) ELSE ABS(toFloat64(a_b.a_least)) END) + toFloat64('0.3721'))), 'Int64')) || 'p' || toString(accurateCastOrNull(FLOOR(LOG2(CASE WHEN ABS(toFloat64(a_b.a_least)) < toFloat64('1e-270') THEN ABS(toFloat64(a_b.a_least)) * exp2(1000) ELSE ABS(toFloat64(a_b.a_least)) END) + toFloat64('0.3721')) - CASE WHEN ABS(toFloat64(a_b.a_least)) < toFloat64('1e-270') THEN 1000 ELSE 0 END, 'Int64'))) END AS least_text,
  CASE WHEN isNaN(toFloat64(a_b.a_greatest)) THEN 'NaN' WHEN toFloat64(a_b.a_greatest) = inf THEN 'Infinity' WHEN toFloat64(a_b.a_greatest) = -inf THEN '-Infinity' WHEN toFloat64(a_b.a_greatest) = 0 THEN '0' ELSE (CASE WHEN toFloat64(a_b.a_greatest) < 0 THEN '-' ELSE '' END || toString(accurateCastOrNull((CASE WHEN ABS(toFloat64(a_b.a_greatest)) < toFloat64('1e-270') THEN ABS(toFloat64(a_b.a_greatest)) * exp2(1000) ELSE ABS(toFloat64(a_b.a_greatest)) END) * exp2(53 - FLOOR(LOG2(CASE WHEN ABS(toFloat64(a_b.a_greatest)) < toFloat64('1e-270') THEN ABS(toFloat64(a_b.a_greatest)) * exp2(1000) ELSE ABS(toFloat64(a_b.a_greatest)) END) + toFloat64('0.3721'))), 'Int64')) || 'p' || toString(accurateCastOrNull(FLOOR(LOG2(CASE WHEN ABS(toFloat64(a_b.a_greatest)) < toFloat64('1e-270') THEN ABS(toFloat64(a_b.a_greatest)) * exp2(1000) ELSE ABS(toFloat64(a_b.a_greatest)) END) + toFloat64('0.3721')) - CASE WHEN ABS(toFloat64(a_b.a_greatest)) < toFloat64('1e-270') THEN 1000 ELSE 0 END, 'Int64'))) END AS greatest_text
FROM (
  SELECT
    MIN(a_valued_rows.a_v) AS a_least,
    MAX(a_valued_rows.a_v) AS a_greatest
  FROM (
    SELECT toFloat64("weight") AS a_v
    FROM "shop"."orders"
    WHERE 1 = 1
  ) a_valued_rows
  WHERE a_valued_rows.a_v >= toFloat64('-1.7976931348623157e308') AND a_valued_rows.a_v <= toFloat64('1.7976931348623157e308')
) a_b
