"""A server's certificate and the CA of its clients, read again when the files change.

Mirrors apiserver's pkg/server/dynamiccertificates. Upstream watches the files; here each new connection looks whether
they have changed, so that a changed file counts from the next connection on.
"""

import ssl
from pathlib import Path

from dra_shared.log import logger

_log = logger(__name__)


class ServingTLS:
    """What a server needs to speak HTTPS; :attr:`context` is for its listener.

    With ``client_ca``, clients may show a certificate, which one of the CAs in the file must have signed: the
    handshake fails for any other.

    Raises:
        OSError: a file can't be read, or is of no use.
    """

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None = None) -> None:
        self._certificate, self._key, self._client_ca = certificate, key, client_ca
        self._seen = self._state()
        # What of the files was reported last: a server that many connect to would report nothing else.
        self._reported: tuple[object, str] | None = None
        self._current = self._load()
        # Its callback looks at the files, which a context that they have made could not do.
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
        # kubectl's streams and WebSockets are HTTP/1.1 alone.
        context.set_alpn_protocols(["http/1.1"])
        context.load_cert_chain(self._certificate, self._key)
        if self._client_ca is not None:
            context.load_verify_locations(self._client_ca)
            context.verify_mode = ssl.CERT_OPTIONAL
            # A session that goes on is not checked against the CA that there is now.
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
            # Half of a pair may be there already: what was good stays until both are.
            if self._reported != (state, str(error)):
                self._reported = state, str(error)
                _log.warning("changed certificates are of no use yet", error=str(error))
        connection.context = self._current
