"""A shell session with a user: lines come from a stream, and it behaves as on a terminal."""

import asyncio
import codecs
import contextlib
from collections.abc import Callable

from dra_node_agent.runtime.base import Streams
from dra_node_agent.runtime.shell.interpreter import Shell
from dra_node_agent.runtime.shell.syntax import ShellSyntaxError, parse

_LONGEST_LINE = 1 << 16
_ERASE, _INTERRUPT, _END, _KILL_LINE = "\x7f\b", "\x03", "\x04", "\x15"
_INTERRUPTED = 130


class Output:
    """The output of a command, sent in order. Commands print without waiting."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._queue: asyncio.Queue[tuple[bytes, bool] | None] = asyncio.Queue()
        self._sender = asyncio.get_running_loop().create_task(self._send())

    def out(self, text: str) -> None:
        """Print to standard output."""
        self._queue.put_nowait((self._encode(text), False))

    def err(self, text: str) -> None:
        """Print to standard error."""
        self._queue.put_nowait((self._encode(text), True))

    async def close(self) -> None:
        """Wait until everything is sent."""
        self._queue.put_nowait(None)
        await self._sender

    def cancel(self) -> None:
        """Stop sending."""
        self._sender.cancel()

    def _encode(self, text: str) -> bytes:
        return (text.replace("\n", "\r\n") if self._streams.tty else text).encode(errors="surrogateescape")

    async def _send(self) -> None:
        while (item := await self._queue.get()) is not None:
            await self._streams.write(item[0], stderr=item[1])


async def read_all(streams: Streams) -> str:
    """Return everything that the user sends."""
    pieces = []
    size = 0
    while (data := await streams.read()) and size < _LONGEST_LINE * 64:
        pieces.append(data)
        size += len(data)
    return b"".join(pieces).decode(errors="surrogateescape")


class _Keyboard:
    """The lines of a stream. On a terminal it echoes, lets the user correct the line, and knows the control keys."""

    def __init__(self, streams: Streams, output: Output, interrupt: Callable[[], bool]) -> None:
        self._streams = streams
        self._output = output
        self._interrupt = interrupt
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._line = ""

    async def line(self) -> str | None:
        """Return the next line with its end; empty after an interrupt; None at the end of the input."""
        return await self._lines.get()

    async def read(self) -> None:
        """Read the user's input until it ends."""
        while data := await self._streams.read():
            for char in self._decoder.decode(data):
                self._take(char)
        if self._line:
            self._lines.put_nowait(self._line)
        self._lines.put_nowait(None)

    def _take(self, char: str) -> None:
        if not self._streams.tty:
            self._line += char
            if char == "\n" or len(self._line) > _LONGEST_LINE:
                self._finish()
        elif char in "\r\n":
            self._output.out("\n")
            self._line += "\n"
            self._finish()
        elif char in _ERASE:
            if self._line:
                self._line = self._line[:-1]
                self._output.out("\b \b")
        elif char == _KILL_LINE:
            self._output.out("\b \b" * len(self._line))
            self._line = ""
        elif char == _INTERRUPT:
            self._output.out("^C\n")
            self._line = ""
            if not self._interrupt():
                self._lines.put_nowait("")
        elif char == _END:
            if not self._line:
                self._lines.put_nowait(None)
        elif char.isprintable() and len(self._line) < _LONGEST_LINE:
            self._line += char
            self._output.out(char)

    def _finish(self) -> None:
        self._lines.put_nowait(self._line)
        self._line = ""


async def converse(shell: Shell, streams: Streams, output: Output) -> int:
    """Run what the user types, until ``exit`` or the end of the input. Return the exit code of the shell."""
    running: asyncio.Future[bool] | None = None

    def interrupt() -> bool:
        if running is None or running.done():
            return False
        return running.cancel()

    keyboard = _Keyboard(streams, output, interrupt)
    reading = asyncio.get_running_loop().create_task(keyboard.read())
    pending = ""
    try:
        while True:
            if streams.tty:
                output.out("> " if pending else _prompt(shell))
            line = await keyboard.line()
            if line is None:
                if streams.tty:
                    output.out("exit\n" if shell.name.endswith("bash") else "\n")
                return shell.status
            if not line:
                pending = ""
                continue
            pending += line
            if _is_open(pending):
                continue
            text, pending = pending, ""
            running = asyncio.ensure_future(shell.run_line(text))
            try:
                if not await running:
                    return shell.status
            except asyncio.CancelledError:
                if not running.cancelled():
                    raise
                shell.status = _INTERRUPTED
    finally:
        if running is not None:
            running.cancel()
        reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reading


def _prompt(shell: Shell) -> str:
    if shell.name.endswith("bash"):
        return f"root@{shell.world.hostname}:{shell.directory}# "
    return f"{shell.directory} # "


def _is_open(text: str) -> bool:
    """Return True if a command continues in the next line."""
    if text.endswith("\\\n"):
        return True
    try:
        parse(text)
    except ShellSyntaxError as error:
        return "unexpected EOF" in str(error) or "unexpected end of file" in str(error)
    return False
