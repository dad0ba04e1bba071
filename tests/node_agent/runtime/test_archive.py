"""`tar` and programs that listen, in simulated containers."""

import asyncio
import io
import tarfile
from datetime import UTC, datetime
from typing import Any

import pytest
from dra_node_agent.runtime.base import RuntimeFailure
from dra_node_agent.runtime.ports import PodPorts
from dra_node_agent.runtime.shell.files import Files
from dra_node_agent.runtime.shell.interpreter import Shell
from dra_node_agent.runtime.shell.programs import base_programs, reads_input
from dra_node_agent.runtime.shell.world import Process, World

from tests.support.waiting import until


class _Container:
    def __init__(self, **content: str) -> None:
        self.files = Files({f"/data/{name}": text for name, text in content.items()})
        self.out: list[str] = []
        self.err: list[str] = []

        async def exit_127(process: Process) -> int:
            return 127

        programs = base_programs(lambda: datetime(2026, 1, 2, tzinfo=UTC))
        self.world = World(programs, asyncio.sleep, exit_127, self.files, reads_input=reads_input)
        self.shell = Shell(self.world, {}, self.out.append, self.err.append)

    async def run(self, script: str, stdin: bytes = b"") -> int:
        async def read_input() -> str:
            return stdin.decode(errors="surrogateescape")

        self.shell.input = read_input
        self.out.clear()
        self.err.clear()
        return await self.shell.run(script)

    @property
    def output(self) -> bytes:
        return "".join(self.out).encode(errors="surrogateescape")


def _archive(**content: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, data in content.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


async def test_files_are_unchanged_by_tar() -> None:
    binary = bytes(range(256)) * 300
    container = _Container()
    assert await container.run("tar -xmf - -C /tmp", _archive(one=binary, **{"sub/two": b"2"})) == 0
    assert await container.run("tar cf - /tmp/one /tmp/sub") == 0
    with tarfile.open(fileobj=io.BytesIO(container.output)) as archive:
        assert archive.getnames() == ["tmp/one", "tmp/sub", "tmp/sub/two"]
        taken = archive.extractfile("tmp/one")
        assert taken is not None
        assert taken.read() == binary


async def test_files_of_a_directory_are_archived_with_relative_names() -> None:
    container = _Container(a="1", b="2")
    assert await container.run("tar cf /tmp/x.tar -C /data . && tar tf /tmp/x.tar") == 0
    assert container.output == b".\n./a\n./b\n"
    assert await container.run("mkdir /new; tar xf /tmp/x.tar -C /new; cat /new/b") == 0
    assert container.output == b"2"


@pytest.mark.parametrize(
    ("script", "stdin", "message"),
    [
        ("tar cf - /none", b"", "tar: /none: No such file or directory\n"),
        ("tar xf -", b"x" * 600, "tar: This does not look like a tar archive\n"),
        ("tar -f -", b"", "tar: You must specify one of the '-ctx' options\n"),
        ("tar xf -", _archive(**{"../up": b""}), "tar: ../up: Member name contains '..'\n"),
        ("tar xf -", _archive(big=b"x" * (5 << 20)), "tar: /big: No space left on device\n"),
    ],
)
async def test_errors_of_tar_are_those_of_gnu_tar(script: str, stdin: bytes, message: str) -> None:
    container = _Container()
    assert await container.run(script, stdin) == 2
    assert "".join(container.err) == message


async def test_a_port_has_one_listener_until_it_ends() -> None:
    ports = PodPorts()

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hi")

    with ports.listen(80, greet):
        with pytest.raises(OSError, match="Address already in use"), ports.listen(80, greet):
            pass
        reader, writer = await ports.connect(80)
        assert await reader.read() == b"hi"
        writer.close()
    with pytest.raises(RuntimeFailure, match="connection refused"):
        await ports.connect(80)


async def test_a_web_server_serves_its_directory_until_the_container_stops() -> None:
    container = _Container(a="<1>", b="2")
    running = asyncio.ensure_future(container.run("httpd -f -p 80 -h /data"))

    async def connect() -> Any:
        try:
            return await container.world.ports.connect(80)
        except RuntimeFailure:
            return None

    _, writer = await until(connect, every=0)

    async def get(target: str, method: str = "GET") -> bytes:
        reader, writer = await container.world.ports.connect(80)
        writer.write(f"{method} {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        return answer

    writer.close()
    assert (await get("/a?x")).endswith(b"Content-Length: 3\r\nConnection: close\r\n\r\n<1>")
    assert b'<a href="b">b</a>' in await get("/")
    assert (await get("/none")).startswith(b"HTTP/1.1 404 ")
    assert (await get("/../etc/passwd")).startswith(b"HTTP/1.1 400 ")
    assert (await get("/a", "POST")).startswith(b"HTTP/1.1 501 ")
    assert (await get("/a", "HEAD")).endswith(b"\r\n\r\n")
    assert await container.run("httpd -p 80") == 1
    assert "".join(container.err) == "httpd: bind: Address already in use\n"
    container.world.terminated.set()
    assert await running == 0
