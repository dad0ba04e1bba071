"""Choose TCP ports of the loopback address for other processes."""

import errno
import socket
from typing import Self

from dra_shared.errors import UserError

_HOST = "127.0.0.1"


class PortTaken(UserError):
    """The port that a user chose is in use."""

    def __init__(self, number: int) -> None:
        super().__init__(f"port {number} is in use; choose another with --port (0 takes any free one)")


class Port:
    """A port that is reserved until ``close``. ``number`` 0 reserves any free port.

    The socket here is bound and never listens. With SO_REUSEADDR the process that the port is for can bind it
    too, also after a restart. The system gives it to no other process that binds port 0 or opens a
    connection.

    Raises:
        PortTaken: something listens on that port.
        UserError: it cannot be bound for another reason.
    """

    def __init__(self, number: int = 0, scheme: str = "http") -> None:
        self._scheme = scheme
        self.chosen = not number
        """True if this process chose the port, so that it may choose another one."""
        self._socket = _bind(number)

    @property
    def number(self) -> int:
        """The port's number."""
        number: int = self._socket.getsockname()[1]
        return number

    @property
    def url(self) -> str:
        """The URL of the process that listens on the port."""
        return f"{self._scheme}://{_HOST}:{self.number}"

    def move(self) -> None:
        """Reserve another free port, in place of the one that another program uses."""
        other = _bind(0)
        self._socket.close()
        self._socket = other

    def close(self) -> None:
        """Release the port."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _bind(number: int) -> socket.socket:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((_HOST, number))
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRINUSE and number:
            raise PortTaken(number) from error
        raise UserError(f"cannot use port {number}: {error.strerror}") from error
    return bound
