SELECT name, hash_of_all_files, rows, bytes_on_disk, has_lightweight_delete, COUNT(*) OVER ()
FROM system.parts
WHERE active AND database = 'shop' AND table = 'orders'
ORDER BY name
