"""A server that is not what it says: it asks for files of this machine, and sends answers that no memory holds."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

import dialects
from auditor.errors import PipelineFailed, StoreError
from auditor.pipeline import spark
from auditor.store import open_store
from dialects import errors
from dialects.mysql import driver as mysql_driver
from dialects.mysql import reading_lines

FEATURES = 0xF7FF  # all but TLS
GREETING = (
    b"\x0a8.4.0\x00" + struct.pack("<I", 7) + b"saltsalt\x00" + struct.pack("<H", FEATURES) + b"\xff" + struct.pack("<HH", 2, 0x00FF)
    + b"\x15" + b"\x00" * 10 + b"saltsaltsalt\x00mysql_native_password\x00"
)  # fmt: skip
OK = b"\x00\x00\x00\x02\x00\x00\x00"

Answer = Callable[[socket.socket, int], None]


def packet(number: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "little") + bytes([number]) + body


@contextmanager
def hostile(answer: Answer, to: bytes = b"") -> Iterator[str]:
    """Yield the URL of a server of MySQL's protocol that lets everybody in and gives this answer to each statement with ``to``."""

    def serve(listener: socket.socket) -> None:
        with suppress(OSError), listener.accept()[0] as line:
            line.sendall(packet(0, GREETING))
            line.recv(65536)
            line.sendall(packet(2, OK))
            while said := line.recv(65536):
                if to in said:
                    answer(line, 1)
                else:
                    line.sendall(packet(1, OK))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        yield f"mysql://u:p@127.0.0.1:{listener.getsockname()[1]}/x?ssl_mode=DISABLED"
        thread.join(10)


def test_file_that_a_server_asks_for_is_not_sent() -> None:
    def asks(line: socket.socket, number: int) -> None:
        line.sendall(packet(number, b"\xfb/etc/hostname"))

    with hostile(asks) as url, pytest.raises(errors.NotVerified, match="asked for a file of this machine"):
        dialects.connect(url)
    with hostile(asks) as url, pytest.raises(StoreError, match="asked for a file of this machine"):
        open_store(url)


def endless(line: socket.socket, number: int) -> None:
    part = b"\xff" * mysql_driver.FULL
    for more in range(20):
        line.sendall(packet((number + more) % 256, b"\x01" + part[1:]))


def test_answer_that_is_too_long_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mysql_driver, "LONGEST_VALUE", 40 << 20)
    with hostile(endless) as url, pytest.raises(errors.StatementRefused, match="a row of more than 40 MiB"):
        dialects.connect(url)


def test_line_that_is_too_long_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mysql_driver, "LONGEST_VALUE", 40 << 20)
    near, far = socket.socketpair()

    def send() -> None:
        with suppress(OSError):
            endless(far, 1)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    with near, far, near.makefile("rb") as file:
        with pytest.raises(errors.StatementRefused, match="a row of more than 40 MiB"):
            reading_lines.Rows(None, file.read1).read()
        near.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def test_result_that_no_task_signed_is_not_unpickled() -> None:
    import hmac
    import pickle

    key, body = b"k" * spark.SIGNATURE, pickle.dumps({"rows": 3})
    signed = hmac.digest(key, (7).to_bytes(8, "big") + body, "sha256") + body
    assert spark.verified_result(key, 7, signed) == {"rows": 3}
    for number, forged in ((8, signed), (7, b"x" * spark.SIGNATURE + body), (7, signed[:-1]), (7, b"")):
        with pytest.raises(PipelineFailed, match="not signed"):
            spark.verified_result(key, number, forged)
