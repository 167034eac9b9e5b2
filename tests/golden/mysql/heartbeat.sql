CREATE TABLE IF NOT EXISTS `shop`.`auditor_heartbeat` (
  id INT NOT NULL,
  serial BIGINT NOT NULL,
  beat_at DATETIME(6) NOT NULL,
  server BIGINT NOT NULL,
  PRIMARY KEY (id)
) ENGINE=InnoDB;
INSERT INTO `shop`.`auditor_heartbeat` (id, serial, beat_at, server)
VALUES (1, 1, UTC_TIMESTAMP(6), @@GLOBAL.server_id)
ON DUPLICATE KEY UPDATE serial = serial + 1, beat_at = UTC_TIMESTAMP(6), server = @@GLOBAL.server_id;
SELECT serial, beat_at
FROM `shop`.`auditor_heartbeat`
WHERE id = 1
