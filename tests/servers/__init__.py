"""Real servers for the tests: each module starts one kind of server, small, private and on a free port.

Every module has `start(directory) -> Server`, which tries in this order:

1. a server that somebody already runs, named by a variable such as `AUDITOR_TEST_MYSQL_URL`;
2. the server's own programs on this machine, on a free port with a data directory of their own;
3. Docker, through testcontainers, where a Docker engine answers;

and otherwise raises `Unavailable` with a sentence that says what was missing. It never touches a server
that the system itself runs.

The servers are set up to be *unlike* what the auditor needs: a foreign time zone, day-first dates, padded
CHAR columns, a linguistic collation. Whatever a session must have, the auditor has to pin; a test that passes here does not
pass because the defaults happened to be kind.
"""
