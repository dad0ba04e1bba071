"""An extender on a real socket with answers that the test chooses."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from dra_shared.jsontypes import JsonObject

# The answer of a verb: a function of the arguments, a body, or a status code.
Answer = Callable[[JsonObject], object]


@dataclass
class Server:
    """An HTTP server. ``calls`` has the verb and the arguments of each request."""

    answers: dict[str, Answer]
    port: int = 0
    calls: list[tuple[str, JsonObject]] = field(default_factory=list)
    serving: set[asyncio.Task[None] | None] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        self.serving.add(asyncio.current_task())
        while head := await _head(reader):
            lines = head.decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
            body = json.loads(await reader.readexactly(int(headers["content-length"])))
            verb = lines[0].split(" ")[1].removeprefix("/scheduler/")
            self.calls.append((verb, body))
            answer = self.answers[verb](body)
            code, content = (answer, b"") if isinstance(answer, int) else (200, json.dumps(answer).encode())
            writer.write(f"HTTP/1.1 {code} Any\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content)
            await writer.drain()
        writer.close()
        await writer.wait_closed()

    def of(self, verb: str) -> list[JsonObject]:
        """Return the arguments that the verb was called with."""
        return [body for called, body in self.calls if called == verb]


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


@asynccontextmanager
async def extender(tls: ssl.SSLContext | None = None, **answers: Answer) -> AsyncIterator[Server]:
    """Run an extender with these verbs at ``http://127.0.0.1:PORT/scheduler``."""
    made = Server(answers)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=tls)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        # The clients have disconnected by now.
        await asyncio.gather(*filter(None, made.serving))
