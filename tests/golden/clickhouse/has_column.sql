SELECT 1
FROM system.columns
WHERE database = 'shop' AND table = 'orders' AND name = 'price'
