"""A host that vanishes: two network namespaces with a wire between, whose far end stops answering without a word.

Run as a program within a new namespace (``unshare --net``), it waits for such a host in two ways and prints what ended each wait.
"""

from __future__ import annotations

import errno
import socket
import subprocess
import sys
import threading
from concurrent.futures import Future

from dialects import wire

HERE, THERE, PORT = "10.77.0.1", "10.77.0.2", 4000
QUICKLY = {"TCP_KEEPIDLE": 1, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 4000}


def serve() -> None:
    """Accept connections and keep them, on the far host; the first line says that it does."""
    with socket.create_server((THERE, PORT)) as listener:
        print("listening", flush=True)
        kept = []
        while True:
            kept.append(listener.accept())
            print("accepted", flush=True)


def _ip(*words: str, far: int | None = None) -> None:
    inside = ["nsenter", f"--target={far}", "--net"] if far else []
    subprocess.run([*inside, "ip", *words], check=True)


def wait_for_a_vanished_host() -> dict[str, str]:
    """Return what ended the wait of a connection that is idle, and of one whose data nobody acknowledges."""
    wire.KEEPALIVE.update(QUICKLY if "--quickly" in sys.argv else {})
    script = "echo ready; read go; exec $0 -m tests.process.vanishing serve"
    far = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", script, sys.executable], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert far.stdin and far.stdout
    try:
        assert far.stdout.readline() == "ready\n"  # it has its namespace
        _ip("link", "add", "near", "type", "veth", "peer", "name", "far", "netns", str(far.pid))
        for device, address, where in (("near", HERE, None), ("far", THERE, far.pid)):
            _ip("address", "add", f"{address}/24", "dev", device, far=where)
            _ip("link", "set", device, "up", far=where)
        far.stdin.write("go\n")
        far.stdin.flush()
        assert far.stdout.readline() == "listening\n"
        ends = {name: socket.create_connection((THERE, PORT)) for name in ("idle", "unacknowledged")}
        wires = [wire.Wire(end.fileno()) for end in ends.values()]
        assert [far.stdout.readline() for _ in ends] == ["accepted\n"] * 2
        _ip("route", "add", "blackhole", f"{HERE}/32", far=far.pid)  # it still hears, and no word of it arrives
        ends["unacknowledged"].sendall(b"SELECT 1")
        found = {name: _outcome(end) for name, end in ends.items()}
        told = {name: one.result() for name, one in found.items()}
        for end, one in zip(ends.values(), wires, strict=True):
            one.close()
            end.close()
        return told
    finally:
        far.kill()
        far.wait()


def _outcome(end: socket.socket) -> Future[str]:
    outcome: Future[str] = Future()

    def wait() -> None:
        try:
            outcome.set_result(f"received {end.recv(1)!r}")
        except OSError as error:
            outcome.set_result(errno.errorcode.get(error.errno or 0, repr(error)))

    threading.Thread(target=wait, daemon=True).start()
    return outcome


if __name__ == "__main__":
    if "serve" in sys.argv:
        serve()
    else:
        print(wait_for_a_vanished_host())
