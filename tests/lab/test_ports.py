import socket
import struct
from contextlib import ExitStack

import pytest
from dra_lab.ports import Port, PortTaken
from dra_shared.errors import UserError
from dra_shared.listening import AddressInUse, listening_socket

_LOCALHOST = "127.0.0.1"
# Linux's option that limits which ports a socket is given.
_IP_LOCAL_PORT_RANGE = 51


def _only_from(number: int) -> socket.socket:
    limited = socket.socket()
    try:
        limited.setsockopt(socket.IPPROTO_IP, _IP_LOCAL_PORT_RANGE, struct.pack("I", number << 16 | number))
    except OSError:
        limited.close()
        pytest.skip("this kernel cannot limit a socket to one port")
    return limited


def test_a_held_port_is_never_assigned_to_a_bind_of_port_0() -> None:
    with Port() as port, _only_from(port.number) as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with pytest.raises(OSError, match="in use"):
            other.bind((_LOCALHOST, 0))
        port.close()
        other.bind((_LOCALHOST, 0))


def test_a_held_port_is_never_assigned_to_a_connection() -> None:
    with listening_socket(_LOCALHOST, 0) as server, Port() as port, _only_from(port.number) as other:
        with pytest.raises(OSError, match="Cannot assign"):
            other.connect(server.getsockname())
        port.close()
        other.connect(server.getsockname())


def test_a_service_may_listen_repeatedly_on_its_held_port() -> None:
    with Port() as port:
        for _ in range(3):
            with (
                listening_socket(_LOCALHOST, port.number) as server,
                socket.create_connection(server.getsockname()),
            ):
                pass
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((_LOCALHOST, port.number))


def test_a_port_in_use_is_reported_in_one_line() -> None:
    with listening_socket(_LOCALHOST, 0) as server:
        number = server.getsockname()[1]
        with pytest.raises(PortTaken, match=rf"^port {number} is in use; choose another with --port"):
            Port(number)
        with pytest.raises(
            AddressInUse, match=rf"^cannot listen on {_LOCALHOST}:{number}: Address already in use$"
        ):
            listening_socket(_LOCALHOST, number)


def test_an_address_of_another_machine_is_reported_in_one_line() -> None:
    with pytest.raises(OSError, match=r"^cannot listen on 192\.0\.2\.1:0: Cannot assign requested address$"):
        listening_socket("192.0.2.1", 0)


def test_a_port_without_permission_is_not_reported_as_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", refuse)
    with pytest.raises(UserError, match=r"^cannot use port 80: Permission denied$"):
        Port(80)


def test_a_held_port_can_be_replaced() -> None:
    with ExitStack() as stack:
        port = stack.enter_context(Port())
        first = port.number
        # The ports are held, so that they are not found again.
        stack.enter_context(Port(first))
        port.move()
        assert port.number != first
        assert port.url == f"http://{_LOCALHOST}:{port.number}"
