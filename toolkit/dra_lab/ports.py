"""TCP ports of the loopback address that are chosen here for another process."""

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
    """A port that is held until ``close``; ``number`` 0 takes any free one.

    The socket here is bound and never listens. With SO_REUSEADDR the process that the port is for can bind it too, and
    again after a restart, while the system gives it to no one else: neither to a bind of port 0 nor to a connection.

    Raises:
        PortTaken: something listens on that port.
        UserError: it cannot be bound for another reason.
    """

    def __init__(self, number: int = 0, scheme: str = "http") -> None:
        self._scheme = scheme
        self.chosen = not number
        """True if it was chosen here and may be replaced by another."""
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
        """Take another port."""
        other = _bind(0)
        self._socket.close()
        self._socket = other

    def close(self) -> None:
        """Let go of it."""
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
