"""Programs that listen on a port: `httpd` of busybox and `nc -l`."""

import asyncio
import html
import mimetypes
from urllib.parse import unquote

from dra_node_agent.runtime.ports import Serve
from dra_node_agent.runtime.shell.files import Files
from dra_node_agent.runtime.shell.options import Given, Syntax, UsageError, declare
from dra_node_agent.runtime.shell.world import Process

_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 501: "Not Implemented"}


def web_server(files: Files, root: str) -> Serve:
    """Return a handler that serves the files below `root` over HTTP: a directory's `index.html` or its listing."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        method, _, rest = head.split(b"\r\n", 1)[0].decode("latin-1").partition(" ")
        target = rest.partition(" ")[0]
        code, kind, body = 501, "text/plain", "Not Implemented\n"
        if method in {"GET", "HEAD"}:
            code, kind, body = _find_page(files, root, unquote(target.partition("?")[0]))
        data = body.encode(errors="surrogateescape")
        writer.write(
            f"HTTP/1.1 {code} {_REASONS[code]}\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n"
            "Connection: close\r\n\r\n".encode()
        )
        if method != "HEAD":
            writer.write(data)
        await writer.drain()

    return serve


def _find_page(files: Files, root: str, path: str) -> tuple[int, str, str]:
    if not path.startswith("/") or ".." in path.split("/"):
        return 400, "text/plain", "Bad Request\n"
    place = f"{root.rstrip('/')}{path}".rstrip("/") or "/"
    index = f"{place.rstrip('/')}/index.html"
    for name in (place, index):
        if name in files.content:
            return 200, mimetypes.guess_type(name)[0] or "text/plain", files.content[name]
    names = files.listing(place)
    if names is None:
        return 404, "text/plain", "Not Found\n"
    links = "".join(f'<li><a href="{html.escape(name)}">{html.escape(name)}</a></li>\n' for name in names)
    return 200, "text/html", f"<ul>\n{links}</ul>\n"


@declare(Syntax(flags="fv", valued="ph"))
async def httpd(process: Process, given: Given) -> int:
    """Serve files until the container must stop: `httpd [-f] [-p PORT] [-h DIRECTORY]`.

    Without ``-f`` it serves in the background.
    """
    port = given.value("p", "80").rpartition(":")[2]
    root = process.absolute(given.value("h", "."))
    world = process.shell.world
    serving = _listen(process, port, web_server(process.files, root), world.terminated)
    if "f" in given:
        return await serving
    job = asyncio.ensure_future(serving)
    world.jobs.add(job)
    job.add_done_callback(world.jobs.discard)
    # Wait until it listens on its port or has failed, before it goes to the background.
    await asyncio.sleep(0)
    return job.result() if job.done() else 0


@declare(Syntax(flags="lkvn", valued="p", leading=1 << 30))
async def nc(process: Process, given: Given) -> int:
    """Run `nc -l [-k] [-p] PORT`: print what a client sends, and send it the input; with `-k` for each client."""
    names = [word for word in (*given.values("p"), *given.operands) if word.isdigit()]
    if "l" not in given or not names:
        raise UsageError("only nc -l [-k] [-p] PORT is simulated, anything else is not simulated")
    done = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(process.stdin.encode(errors="surrogateescape"))
        await writer.drain()
        while data := await reader.read(1 << 16):
            process.out(data.decode(errors="surrogateescape"))
        if "k" not in given:
            done.set()

    return await _listen(process, names[0], serve, done)


async def _listen(process: Process, port: str, serve: Serve, end: asyncio.Event) -> int:
    world = process.shell.world
    try:
        with world.ports.listen(int(port) if port.isdigit() else 0, serve):
            waiting = [asyncio.ensure_future(event.wait()) for event in (end, world.terminated)]
            try:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waiting:
                    wait.cancel()
    except OSError as error:
        process.err(f"{process.argv[0]}: bind: {error}\n")
        return 1
    return 0
