SELECT toString("id"), "weight", toDecimalString("price", 2), CASE WHEN reinterpretAsInt64("at") >= -62167219200000000 AND reinterpretAsInt64("at") < 253402300800000000 THEN RTRIM(RTRIM(substring(toString("at", 'UTC'), 1, 26), '0'), '.') ELSE (toString(reinterpretAsInt64("at")) || ' units of 1/1000000 s since 1970') END
FROM "shop"."orders"
WHERE "id" >= 7
