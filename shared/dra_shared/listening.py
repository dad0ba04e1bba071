"""The TCP sockets that services listen on."""

import contextlib
import errno
import os
import socket

ADDRESS_IN_USE = 98
"""A process ends with this exit code when something else has the port that it was to listen on."""


CANNOT_RUN = 78
"""A process ends with this exit code (EX_CONFIG) when it cannot run as things are: another start would not help."""


REPORT = "DRALAB_LISTENING_FD"
"""Environment variable with the number of an open file: a process writes the address there once it listens."""


_PROBE_AFTER = 180  # Seconds.


class AddressInUse(OSError):
    """Something else listens on that port."""


def listening_socket(host: str, port: int, backlog: int = 128) -> socket.socket:
    """A socket that listens on ``host``; ``port`` 0 takes any free one.

    Raises:
        AddressInUse: the port is taken.
        OSError: it cannot listen there for another reason.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with contextlib.ExitStack() as on_error:
        listener = on_error.enter_context(socket.socket(family, socket.SOCK_STREAM))
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            _watch_peers(listener)
            listener.bind((host, port))
            # Two may bind a port at once, where neither listens yet: then this fails.
            listener.listen(backlog)
            listener.setblocking(False)
        except OSError as error:
            kind = AddressInUse if error.errno == errno.EADDRINUSE else OSError
            raise kind(f"cannot listen on {address(host, port)}: {error.strerror}") from error
        on_error.pop_all()
    _report(listener)
    return listener


def _watch_peers(listener: socket.socket) -> None:
    """Have the kernel end connections whose other end is gone without a word (apiserver's tcpKeepAliveListener)."""
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
    """``host:port`` as URLs have it, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
