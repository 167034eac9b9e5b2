SELECT
  a_stretches.a_partition_id AS partition_id,
  a_digested_rows.a_row_count AS row_count,
  a_digested_rows.a_hashed AS hashed,
  a_digested_rows.a_key_min AS key_min,
  a_digested_rows.a_key_max AS key_max,
  CAST(CAST('x' || SUBSTR(a_digested_rows.a_digest, 1, 15) AS BIT(60)) AS BIGINT) AS word_0,
  CAST(CAST('x' || SUBSTR(a_digested_rows.a_digest, 16, 15) AS BIT(60)) AS BIGINT) AS word_1,
  CAST(CAST('x' || SUBSTR(a_digested_rows.a_digest, 31, 15) AS BIT(60)) AS BIGINT) AS word_2,
  CAST(CAST('x' || SUBSTR(a_digested_rows.a_digest, 46, 15) AS BIT(60)) AS BIGINT) AS word_3
FROM GENERATE_SERIES(CAST(0 AS BIGINT), CAST(2 AS BIGINT)) AS a_stretches(a_partition_id)
CROSS JOIN LATERAL (
  SELECT
    COUNT(*) AS a_row_count,
    CASE WHEN COUNT(*) <= 20000 THEN COUNT(*) ELSE 0 END AS a_hashed,
    MIN(a_ordered_rows.a_k) AS a_key_min,
    MAX(a_ordered_rows.a_k) AS a_key_max,
    ENCODE(SHA256(STRING_AGG(a_ordered_rows.a_v, DECODE('fd', 'hex'))), 'hex') AS a_digest
  FROM (
    SELECT
      "id" AS a_k,
      COALESCE(CASE WHEN OCTET_LENGTH("name") > 16383 THEN NULL ELSE (TEXTSEND(COALESCE(CAST("id" AS TEXT), '')) || DECODE('ff', 'hex') || COALESCE(TEXTSEND((CAST("name" AS TEXT) COLLATE "C")), DECODE('fe', 'hex')) || DECODE('ff', 'hex') || TEXTSEND((COALESCE(CAST("price" AS TEXT), '') || '|' || COALESCE(CASE WHEN CAST("weight" AS DOUBLE PRECISION) = CAST('NaN' AS DOUBLE PRECISION) THEN 'NaN' WHEN CAST("weight" AS DOUBLE PRECISION) = CAST('Infinity' AS DOUBLE PRECISION) THEN 'Infinity' WHEN CAST("weight" AS DOUBLE PRECISION) = CAST('-Infinity' AS DOUBLE PRECISION) THEN '-Infinity' WHEN CAST("weight" AS DOUBLE PRECISION) = 0 THEN '0' ELSE (CASE WHEN CAST("weight" AS DOUBLE PRECISION) < 0 THEN '-' ELSE '' END || CAST(CAST((CASE WHEN ABS(CAST("weight" AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN ABS(CAST("weight" AS DOUBLE PRECISION)) * POWER(CAST('2' AS DOUBLE PRECISION), 1000) ELSE ABS(CAST("weight" AS DOUBLE PRECISION)) END) * POWER(CAST('2' AS DOUBLE PRECISION), 53 - FLOOR((LN(CASE WHEN ABS(CAST("weight" AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN ABS(CAST("weight" AS DOUBLE PRECISION)) * POWER(CAST('2' AS DOUBLE PRECISION), 1000) ELSE ABS(CAST("weight" AS DOUBLE PRECISION)) END) / LN(CAST('2' AS DOUBLE PRECISION))) + CAST('0.3721' AS DOUBLE PRECISION))) AS BIGINT) AS TEXT) || 'p' || CAST(CAST(FLOOR((LN(CASE WHEN ABS(CAST("weight" AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN ABS(CAST("weight" AS DOUBLE PRECISION)) * POWER(CAST('2' AS DOUBLE PRECISION), 1000) ELSE ABS(CAST("weight" AS DOUBLE PRECISION)) END) / LN(CAST('2' AS DOUBLE PRECISION))) + CAST('0.3721' AS DOUBLE PRECISION)) - CASE WHEN ABS(CAST("weight" AS DOUBLE PRECISION)) < CAST('1e-270' AS DOUBLE PRECISION) THEN 1000 ELSE 0 END AS BIGINT) AS TEXT)) END, '') || '|' || COALESCE(CAST("shipped" AS TEXT), '') || '|' || COALESCE(CASE WHEN "paid" THEN '1' WHEN NOT "paid" THEN '0' END, '')))) END, DECODE('fc736f75726365', 'hex')) AS a_v
    FROM "shop"."orders"
    WHERE "id" >= 16000 AND "id" < 48000 AND "id" >= a_stretches.a_partition_id * 16384 AND "id" < a_stretches.a_partition_id * 16384 + 16384
    ORDER BY "id"
    LIMIT (SELECT 20000 + 1)
  ) a_ordered_rows
) a_digested_rows
WHERE a_digested_rows.a_row_count > 0
ORDER BY 1
