SELECT uniqExact(name) - uniqExactIf(name, column = 'price')
FROM system.parts_columns
WHERE active AND database = 'shop' AND table = 'orders'
