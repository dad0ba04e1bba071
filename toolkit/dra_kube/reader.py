"""A blocking client for commands that only read. It uses the standard library alone, because it imports fast."""

import contextlib
import http.client
import json
import signal
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any, Self
from urllib.parse import urlencode, urlsplit

from dra_shared.client.retry import MAX_RETRIES, retry_after
from dra_shared.errors import UserError

_TIMEOUT = 30.0
_LOOK_EVERY = 0.5


class Reader:
    """Reads from an API server over one connection, which stays open between requests."""

    def __init__(
        self,
        server: str,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        server_name: str | None = None,
    ) -> None:
        self.server = server
        self.tls = tls
        self.server_name = server_name
        self._parts = urlsplit(server)
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._connection: http.client.HTTPConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def json(
        self, path: str, params: Mapping[str, str | None] | None = None, accept: str = ""
    ) -> dict[str, Any]:
        """Return the object at a path.

        Raises:
            ApiError: the server rejects the request.
            UserError: the server cannot be reached.
        """
        found: dict[str, Any] = json.loads(self.read(path, params, accept))
        return found

    def read(self, path: str, params: Mapping[str, str | None] | None = None, accept: str = "") -> bytes:
        """Return the response for a path, as bytes.

        Raises:
            ApiError, UserError: as for :meth:`json`.
        """
        response = self._request_with_retries(path, params, accept)
        body = response.read()
        if response.status >= 400:
            raise _to_error(response.status, body)
        return body

    def lines(self, path: str, params: Mapping[str, str | None], accept: str = "") -> Iterator[bytes]:
        """Yield the lines of a watch or a log as they arrive.

        Raises:
            ApiError, UserError: as for :meth:`json`.
        """
        response = self._request_with_retries(path, params, accept, timeout=None)
        if response.status >= 400:
            raise _to_error(response.status, response.read())
        with _interrupt_reads():
            while line := response.readline():
                yield line

    def _request_with_retries(
        self,
        path: str,
        params: Mapping[str, str | None] | None,
        accept: str,
        timeout: float | None = _TIMEOUT,
    ) -> http.client.HTTPResponse:
        """Send the request, and retry while the server asks to (Retry-After)."""
        for left in range(MAX_RETRIES, -1, -1):
            response = self._request(path, params, accept, timeout)
            if (
                not left
                or (seconds := retry_after(response.status, response.getheader("Retry-After"))) is None
            ):
                break
            response.read()
            time.sleep(seconds)
        return response

    def _request(
        self,
        path: str,
        params: Mapping[str, str | None] | None,
        accept: str,
        timeout: float | None = _TIMEOUT,
    ) -> http.client.HTTPResponse:
        given = {name: value for name, value in (params or {}).items() if value}
        url = self._parts.path.rstrip("/") + path + (f"?{urlencode(given)}" if given else "")
        headers = {**self.headers, "Accept": accept or "application/json", "User-Agent": "dralab"}
        try:
            if timeout is None:
                self.close()
            if self._connection is None:
                self._connection = self._connect(timeout)
            self._connection.request("GET", url, headers=headers)
            return self._connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise UserError(f"cannot reach the API server at {self.server}: {error}") from error

    def _connect(self, timeout: float | None) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme != "https":
            return http.client.HTTPConnection(host, port, timeout=timeout)
        tls = self.tls or ssl.create_default_context()
        return _Tls(host, port, tls, self.server_name, timeout)


class _Tls(http.client.HTTPSConnection):
    """HTTPS to a server whose certificate may have a name other than its address."""

    def __init__(
        self, host: str, port: int | None, tls: ssl.SSLContext, name: str | None, timeout: float | None
    ) -> None:
        super().__init__(host, port, timeout=timeout, context=tls)
        self._tls, self._name = tls, name

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._name or self.host)


@contextlib.contextmanager
def _interrupt_reads() -> Iterator[None]:
    """Let Ctrl-C end a read that may block forever.

    Python runs its signal handlers between two bytecodes. A signal that arrives just before the read blocks would be
    handled only after the next line. A timer's signal interrupts the read regularly, so Python can run the handler.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    timer = signal.setitimer(signal.ITIMER_REAL, _LOOK_EVERY, _LOOK_EVERY)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *timer)


def _to_error(code: int, body: bytes) -> Exception:
    # Imported only when needed: the classes of errors import all of the API's types.
    from dra_shared.client.errors import from_response

    return from_response(code, body)
