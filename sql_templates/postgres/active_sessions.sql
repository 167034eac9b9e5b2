-- One row: the number of client sessions that run a statement, without the auditor's own, and whether this user may see the activity
-- of other users' sessions.
SELECT COUNT(*), pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')
FROM pg_catalog.pg_stat_activity
WHERE state = 'active'
  AND backend_type = 'client backend'
  AND application_name <> 'auditor'
  AND pid <> pg_backend_pid()
