SELECT mutation_id
FROM system.mutations
WHERE NOT is_done AND database = 'shop' AND table = 'orders'
