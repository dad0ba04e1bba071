"""The TCP sockets that services listen on."""

import contextlib
import errno
import os
import socket

ADDRESS_IN_USE = 98
"""The exit code of a process whose port is in use."""


CANNOT_RUN = 78
"""The exit code (EX_CONFIG) of a process that cannot run in its configuration, so that a restart would not help."""


REPORT = "DRALAB_LISTENING_FD"
"""Environment variable with a file descriptor. A process writes its address there when it listens."""


_PROBE_AFTER = 180  # Seconds.


class AddressInUse(OSError):
    """The port is in use."""


def listening_socket(host: str, port: int, backlog: int = 128) -> socket.socket:
    """Return a socket that listens on ``host``. With ``port`` 0, use any free port.

    Raises:
        AddressInUse: the port is in use.
        OSError: listening fails for another reason.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with contextlib.ExitStack() as on_error:
        listener = on_error.enter_context(socket.socket(family, socket.SOCK_STREAM))
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            _watch_peers(listener)
            listener.bind((host, port))
            # Two sockets may bind a port at once if neither listens yet. Then this call fails.
            listener.listen(backlog)
            listener.setblocking(False)
        except OSError as error:
            kind = AddressInUse if error.errno == errno.EADDRINUSE else OSError
            raise kind(f"cannot listen on {address(host, port)}: {error.strerror}") from error
        on_error.pop_all()
    _report(listener)
    return listener


def _watch_peers(listener: socket.socket) -> None:
    """Let the kernel close connections whose peer became unreachable (apiserver's tcpKeepAliveListener)."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _PROBE_AFTER)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _PROBE_AFTER)


def _report(listener: socket.socket) -> None:
    number = os.environ.pop(REPORT, "")
    if number:
        with open(int(number), "w") as supervisor:
            supervisor.write(address(*listener.getsockname()[:2]) + "\n")


def address(host: str, port: int) -> str:
    """Return ``host:port`` as in URLs, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
