"""Joined writes."""

import asyncio

from dra_apiserver.connection import JoiningTransport


class Socket(asyncio.Transport):
    """Notes what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[list[bytes]] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append([bytes(data)])

    def writelines(self, list_of_data: object) -> None:
        assert isinstance(list_of_data, list)
        self.written.append(list(list_of_data))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


async def test_what_is_written_in_one_turn_goes_out_together() -> None:
    socket = Socket()
    transport = JoiningTransport(socket, asyncio.get_running_loop())
    transport.write(b"head")
    transport.write(b"body")
    assert socket.written == []
    await asyncio.sleep(0)
    transport.write(b"event")
    await asyncio.sleep(0)
    assert socket.written == [[b"head", b"body"], [b"event"]]


async def test_large_writes_do_not_wait() -> None:
    socket = Socket()
    transport = JoiningTransport(socket, asyncio.get_running_loop())
    transport.write(b"head")
    transport.write(bytes(1 << 17))
    assert socket.written == [[b"head", bytes(1 << 17)]]


async def test_close_sends_what_is_held() -> None:
    socket = Socket()
    transport = JoiningTransport(socket, asyncio.get_running_loop())
    transport.write(b"last")
    transport.close()
    assert socket.written == [[b"last"]]
    assert transport.is_closing()


async def test_nothing_is_written_to_a_closed_socket() -> None:
    socket = Socket()
    transport = JoiningTransport(socket, asyncio.get_running_loop())
    transport.write(b"late")
    socket.close()
    await asyncio.sleep(0)
    assert socket.written == []
