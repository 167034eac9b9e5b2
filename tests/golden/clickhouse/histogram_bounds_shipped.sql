SELECT
  CASE WHEN reinterpretAsInt64(a_b.a_least) >= -2208988800000000 AND reinterpretAsInt64(a_b.a_least) < 10413792000000000 THEN trim(TRAILING '.' FROM trim(TRAILING '0' FROM substring(toString(a_b.a_least, 'UTC'), 1, 26))) WHEN reinterpretAsInt64(toDateTime64(substring(toString(a_b.a_least, 'UTC'), 1, 19), 0, 'UTC')) = (toInt64(intDiv(reinterpretAsInt64(a_b.a_least), 1000000)) - toInt64(reinterpretAsInt64(a_b.a_least) % 1000000 < 0)) THEN trim(TRAILING '.' FROM trim(TRAILING '0' FROM substring(toString(a_b.a_least, 'UTC'), 1, 26))) ELSE (toString(reinterpretAsInt64(a_b.a_least)) || ' units of 1/1000000 s since 1970') END AS least_text,
  CASE WHEN reinterpretAsInt64(a_b.a_greatest) >= -2208988800000000 AND reinterpretAsInt64(a_b.a_greatest) < 10413792000000000 THEN trim(TRAILING '.' FROM trim(TRAILING '0' FROM substring(toString(a_b.a_greatest, 'UTC'), 1, 26))) WHEN reinterpretAsInt64(toDateTime64(substring(toString(a_b.a_greatest, 'UTC'), 1, 19), 0, 'UTC')) = (toInt64(intDiv(reinterpretAsInt64(a_b.a_greatest), 1000000)) - toInt64(reinterpretAsInt64(a_b.a_greatest) % 1000000 < 0)) THEN trim(TRAILING '.' FROM trim(TRAILING '0' FROM substring(toString(a_b.a_greatest, 'UTC'), 1, 26))) ELSE (toString(reinterpretAsInt64(a_b.a_greatest)) || ' units of 1/1000000 s since 1970') END AS greatest_text
FROM (
  SELECT
    MIN(a_valued_rows.a_v) AS a_least,
    MAX(a_valued_rows.a_v) AS a_greatest
  FROM (
    SELECT "shipped" AS a_v
    FROM "shop"."orders"
    WHERE 1 = 1
  ) a_valued_rows
  WHERE a_valued_rows.a_v >= CAST('0001-01-01 00:00:00.000000' AS DateTime64(6,'UTC')) AND a_valued_rows.a_v <= CAST('9999-12-31 23:59:59.999999' AS DateTime64(6,'UTC'))
) a_b
