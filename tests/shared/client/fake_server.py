"""A server for client tests that sends scripted bytes through real sockets."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Handler = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serve(handle: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serve ``handle(request, writer)`` for each request, and return the URL."""

    async def handle_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = 0
                for line in head.lower().split(b"\r\n"):
                    if line.startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                await handle(head + await reader.readexactly(length), writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle_connection, "127.0.0.1", 0, ssl=tls)
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def reply(body: bytes, status: str = "200 OK", headers: str = "") -> bytes:
    """Return a whole response."""
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body


def chunk(data: bytes) -> bytes:
    """Return one chunk of a chunked response."""
    return b"%x\r\n%b\r\n" % (len(data), data)


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
