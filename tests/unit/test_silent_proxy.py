"""The proxy of the tests of silent servers leaves no connection open, whenever it is closed."""

from __future__ import annotations

import socket
from contextlib import closing

from tests.servers.proxy import Line


def test_connection_to_the_server_is_closed_also_if_it_is_made_late() -> None:
    client, client_of_server = socket.socketpair()
    server, behind_server = socket.socketpair()
    with closing(client_of_server), closing(behind_server):
        line = Line(client)
        line.close()
        line.reach(server)
        assert client.fileno() == server.fileno() == -1
        assert behind_server.recv(1) == b"", "the server sees the end"
