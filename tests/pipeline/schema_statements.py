"""Statements that change tables, of every kind that a schema tracker follows."""

from __future__ import annotations

Statements = list[str | bytes]

DEFINITION = "id int PRIMARY KEY, a varchar(20) CHARACTER SET latin1, e enum('x', 'y'), n int unsigned"

CHANGES: dict[str, Statements] = {
    "labels": ["ALTER TABLE t MODIFY e enum('y', 'ä', 'x') AFTER id, MODIFY n int"],
    "comments": ["/* first */ -- second\n ALTER /*!50000 TABLE */ `t` /* , */ CHANGE a `b``c, d` varchar(20)"],
    "character set": ["ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4"],
    "two names": ["RENAME TABLE t TO v, u TO t, v TO u"],
    "like": [
        "CREATE TABLE v LIKE t",
        "ALTER TABLE v RENAME COLUMN a TO e, RENAME COLUMN e TO a",
        "DROP TABLE t",
        "ALTER TABLE v RENAME AS t",
    ],
    "select": ["DROP TABLE t", "CREATE TABLE t (PRIMARY KEY (id)) SELECT n AS a, id, e, a AS n FROM u"],
    "copy": [
        "CREATE TABLE _t_gho LIKE t",
        "ALTER TABLE _t_gho DROP COLUMN a, ADD COLUMN z date FIRST",
        "RENAME TABLE t TO _t_del, _t_gho TO t",
        "DROP TABLE IF EXISTS _t_del, beside.nothing",
    ],
    "index": [
        "CREATE UNIQUE INDEX i ON t (n)",
        "ALTER TABLE t DROP INDEX i, RENAME COLUMN n TO m",
        "CREATE INDEX i ON t (m)",
        "DROP INDEX i ON t",
    ],
    "other schema": [
        "CREATE TABLE beside.t (q int)",
        "ALTER TABLE beside.t ADD COLUMN r int",
        "USE beside",
        "ALTER TABLE t DROP COLUMN q",
        "ALTER TABLE {database}.t ADD COLUMN s int",
        "DROP TABLE t",
        "USE {database}",
    ],
    "foreign keys": [
        "CREATE TABLE beside.p (id int PRIMARY KEY)",
        "SET foreign_key_checks = 0",
        "ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (id) REFERENCES beside.p (id), ADD COLUMN a2 int",
        "ALTER TABLE t ADD CONSTRAINT g FOREIGN KEY (id) REFERENCES missing (id)",
        "ALTER TABLE t DROP FOREIGN KEY g, RENAME COLUMN a2 TO a3",
    ],
    "modes": [
        "SET sql_mode = 'ANSI_QUOTES,REAL_AS_FLOAT,NO_ENGINE_SUBSTITUTION'",
        'ALTER TABLE "t" ADD COLUMN "a b" real, ENGINE = MyISAM',
        "SET sql_mode = 'NO_BACKSLASH_ESCAPES'",
        "ALTER TABLE t ADD COLUMN k varchar(9) DEFAULT '\\' FIRST",
    ],
    "client": ["SET NAMES latin1", b"ALTER TABLE t CHANGE a `\xe4` varchar(20), MODIFY e enum('\xfc', 'x')", "SET NAMES utf8mb4"],
    "clear": ["TRUNCATE TABLE t", "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (n, id)"],
    "partitions": [
        "ALTER TABLE t PARTITION BY HASH (id) PARTITIONS 3",
        "ALTER TABLE t ADD PARTITION PARTITIONS 1",
        "ALTER TABLE t REMOVE PARTITIONING",
        "ALTER TABLE t RENAME COLUMN a TO b, ADD COLUMN a int",
    ],
    "invisible": ["ALTER TABLE t ADD COLUMN h int INVISIBLE FIRST, ADD COLUMN g int AS (id + 1) STORED, ADD COLUMN f int AS (id) VIRTUAL"],
    "failed": ["DROP TABLE IF EXISTS nothing_here", "CREATE TABLE IF NOT EXISTS t (other int)", "ALTER TABLE t RENAME COLUMN a TO b"],
}
"""Statements that change the tables ``t`` and ``u``."""

ONLY: dict[str, dict[str, Statements]] = {
    "mariadb": {
        "if exists": ["ALTER ONLINE TABLE IF EXISTS t WAIT 5 ADD COLUMN IF NOT EXISTS w uuid, DROP COLUMN IF EXISTS nothing"],
        "set statement": ["SET STATEMENT max_statement_time = 60 FOR ALTER TABLE t ADD COLUMN w inet6 FIRST"],
        "or replace": ["CREATE OR REPLACE TABLE t (x int PRIMARY KEY, j json, c varchar(30) COMPRESSED)"],
        "oracle": [
            "SET sql_mode = 'ORACLE'",
            "ALTER TABLE t ADD COLUMN w VARCHAR2(20), ADD COLUMN y NUMBER(5), ADD COLUMN z DATE",
            "SET sql_mode = ''",
        ],
        "sequence": ["CREATE OR REPLACE SEQUENCE w", "CREATE OR REPLACE TABLE t (x int PRIMARY KEY, y int DEFAULT nextval(w))"],
        "partition": [
            "ALTER TABLE t PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (10), PARTITION q VALUES LESS THAN MAXVALUE)",
            "ALTER TABLE t CONVERT PARTITION p TO TABLE v",
            "ALTER TABLE t RENAME COLUMN a TO b",
        ],
    },
    "mysql": {
        "no key": ["SET sql_generate_invisible_primary_key = 1", "DROP TABLE t", "CREATE TABLE t (x int, y int)"],
        "instant": ["ALTER TABLE t ADD COLUMN w int FIRST, ALGORITHM = INSTANT", "ALTER TABLE t DROP COLUMN a, ALGORITHM = INSTANT"],
        "expression": ["CREATE INDEX by_sum ON t ((id + n))", "ALTER TABLE t ADD COLUMN w int DEFAULT (7 * 6)"],
        "compressed": [
            "SET binlog_transaction_compression = 1",
            "DROP TABLE t",
            "CREATE TABLE t (PRIMARY KEY (id)) SELECT n AS a, id FROM u",
        ],
    },
}
