-- Exchanges a target's table and the one that was copied, at once.
RENAME TABLE ${target} TO ${old}, ${stage} TO ${target}
