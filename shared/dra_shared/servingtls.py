"""A server's certificate and the CA of its clients, reloaded when the files change.

Mirrors apiserver's pkg/server/dynamiccertificates. Upstream watches the files. Here each new connection
checks whether they have changed.
"""

import ssl
from pathlib import Path

from dra_shared.log import logger

_log = logger(__name__)


class ServingTLS:
    """TLS settings of a server. :attr:`context` is for its listener.

    With ``client_ca``, clients may send a certificate, which must be signed by one of the CAs in the file;
    otherwise the handshake fails.

    Raises:
        OSError: a file can't be read, or is invalid.
    """

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None = None) -> None:
        self._certificate, self._key, self._client_ca = certificate, key, client_ca
        self._seen = self._state()
        # The last reported problem, so that each is reported once and not for every connection.
        self._reported: tuple[object, str] | None = None
        self._current = self._load()
        # This context's callback reloads the files. A context created from the files could not be replaced.
        self.context = self._load()
        self.context.sni_callback = self._choose

    def _files(self) -> tuple[Path, ...]:
        more = () if self._client_ca is None else (self._client_ca,)
        return self._certificate, self._key, *more

    def _state(self) -> tuple[tuple[int, int, int], ...]:
        found = [file.stat() for file in self._files()]
        return tuple((each.st_ino, each.st_mtime_ns, each.st_size) for each in found)

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # kubectl's streams and WebSockets need HTTP/1.1.
        context.set_alpn_protocols(["http/1.1"])
        context.load_cert_chain(self._certificate, self._key)
        if self._client_ca is not None:
            context.load_verify_locations(self._client_ca)
            context.verify_mode = ssl.CERT_OPTIONAL
            # A resumed session would not be checked against the current CA.
            context.options |= ssl.OP_NO_TICKET
            context.num_tickets = 0
        return context

    def _choose(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        state = None
        try:
            state = self._state()
            if state != self._seen:
                self._current, self._seen = self._load(), state
                _log.info("certificates read again", files=[str(file) for file in self._files()])
        except OSError as error:
            # The new certificate may be there without its key. The old pair stays in use until both are
            # there.
            if self._reported != (state, str(error)):
                self._reported = state, str(error)
                _log.warning("cannot use the changed certificates yet", error=str(error))
        connection.context = self._current
