"""exec and attach."""

import httpx
import pytest

from tests.support.kubelet.channels import END, RESIZE, STDERR, STDIN, STDOUT, Answered, session
from tests.support.kubelet.endpoints import serve_kubelet

_SLEEPER = "sleep 60; echo later; trap 'exit 0' TERM; sleep 999 & wait"


def _exec(*command: str, flags: str = "output=1&error=1") -> str:
    return "/exec/ns/pod/main?" + "&".join([*(f"command={word}" for word in command), flags])


async def test_a_command_returns_output_and_success() -> None:
    async with (
        serve_kubelet(_SLEEPER) as (_, port),
        session(port, _exec("sh", "-c", "echo+a;echo+b+>%262")) as channels,
    ):
        assert channels.protocol == "v5.channel.k8s.io"
        assert await channels.read() == (STDOUT, b"")
        output, status = await channels.result()
        assert output == {STDOUT: b"a\n", STDERR: b"b\n"}
        assert status == {"metadata": {}, "status": "Success"}
        assert await channels.frame() == (8, b"\x03\xe8")


async def test_a_commands_exit_code_is_reported() -> None:
    async with serve_kubelet(_SLEEPER) as (_, port), session(port, _exec("sh", "-c", "exit+3")) as channels:
        _, status = await channels.result()
        assert status["reason"] == "NonZeroExitCode"
        assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]


async def test_an_unknown_program_is_an_error() -> None:
    async with serve_kubelet(_SLEEPER) as (_, port), session(port, _exec("nosuch")) as channels:
        _, status = await channels.result()
        assert (status["reason"], status["code"]) == ("InternalError", 500)
        assert 'exec: "nosuch": executable file not found in $PATH' in status["message"]


async def test_the_command_gets_all_of_its_input() -> None:
    async with serve_kubelet(_SLEEPER) as (_, port):
        async with session(port, _exec("sh", "-c", "cat+>+/tmp/f", flags="input=1&output=1")) as channels:
            await channels.send(STDIN, b"one\n")
            await channels.send(STDIN, b"tw", final=False)
            await channels.send(STDIN, b"o\n", opcode=0)
            await channels.send(END, bytes((STDIN,)))
            assert (await channels.result())[1]["status"] == "Success"
        async with session(port, _exec("cat", "/tmp/f")) as channels:
            assert (await channels.result())[0] == {STDOUT: b"one\ntwo\n"}


async def test_a_shell_is_interactive_on_a_terminal() -> None:
    async with (
        serve_kubelet(_SLEEPER) as (_, port),
        session(port, _exec("sh", flags="input=1&output=1&tty=1")) as channels,
    ):
        assert await channels.read_until(b"# ") == b"/ # "
        await channels.send(STDIN, b"echo hx\x7fi | cat\r")
        assert await channels.read_until(b"# ") == b"echo hx\b \bi | cat\r\nhi\r\n/ # "
        await channels.send(STDIN, b"for i in 1 2; do\r")
        assert await channels.read_until(b"> ") == b"for i in 1 2; do\r\n> "
        await channels.send(STDIN, b"echo $i; done\r")
        assert await channels.read_until(b"# ") == b"echo $i; done\r\n1\r\n2\r\n/ # "
        await channels.send(STDIN, b"exit 4\r")
        output, status = await channels.result()
        assert output == {STDOUT: b"exit 4\r\n"}
        assert status["details"]["causes"][0]["message"] == "4"


async def test_a_terminals_interrupt_ends_the_command_not_the_shell() -> None:
    async with (
        serve_kubelet(_SLEEPER) as (_, port),
        session(port, _exec("sh", flags="input=1&output=1&tty=1")) as channels,
    ):
        await channels.read_until(b"# ")
        await channels.send(STDIN, b"sleep 1000\r")
        await channels.read_until(b"1000\r\n")
        await channels.send(STDIN, b"\x03")
        assert await channels.read_until(b"# ") == b"^C\r\n/ # "
        await channels.send(STDIN, b"echo $?\r")
        assert await channels.read_until(b"# ") == b"echo $?\r\n130\r\n/ # "


async def test_a_terminal_has_the_size_of_the_client() -> None:
    async with (
        serve_kubelet(_SLEEPER) as (_, port),
        session(port, _exec("sh", flags="input=1&output=1&tty=1")) as channels,
    ):
        await channels.read_until(b"# ")
        await channels.send(STDIN, b"stty size\r")
        assert b"Inappropriate ioctl" in await channels.read_until(b"# ")
        for text in (b'{"Width": 100, "Height": 30}', b"no size", b'{"Width": 120, "Height": 40}'):
            await channels.send(RESIZE, text)
        await channels.send(STDIN, b"stty size; echo $COLUMNS\r")
        assert (await channels.read_until(b"# ")).endswith(b"40 120\r\n120\r\n/ # ")


async def test_attach_streams_new_output() -> None:
    async with (
        serve_kubelet(_SLEEPER) as (bench, port),
        session(port, "/attach/ns/pod/main?output=1") as channels,
    ):
        assert await channels.read() == (STDOUT, b"")
        await bench.clock.advance(61)
        assert await channels.read() == (STDOUT, b"later\n")


@pytest.mark.parametrize("protocol", ["v4.channel.k8s.io", "channel.k8s.io"])
async def test_older_versions_of_the_exec_protocol_are_supported(protocol: str) -> None:
    async with serve_kubelet(_SLEEPER) as (_, port), session(port, _exec("echo", "hi"), protocol) as channels:
        assert channels.protocol == protocol
        assert [await channels.read() for _ in range(2)] == [(STDOUT, b""), (STDOUT, b"hi\n")]


@pytest.mark.parametrize(
    ("path", "protocol", "code", "text"),
    [
        (
            "/exec/ns/pod/other?command=ls&output=1",
            "v5.channel.k8s.io",
            404,
            'container "other" not found in pod "pod"',
        ),
        ("/exec/ns/gone/main?command=ls&output=1", "v5.channel.k8s.io", 404, 'pod "ns/gone" not found'),
        ("/exec/ns/pod/main?command=ls", "v5.channel.k8s.io", 400, "at least 1 of stdin, stdout, stderr"),
        ("/exec/ns/pod/main?command=ls&output=1", "v9.channel.k8s.io", 400, "unable to negotiate protocol"),
        ("/run/ns/pod/main?command=ls&output=1", "v5.channel.k8s.io", 404, "404 page not found"),
    ],
)
async def test_invalid_exec_requests_are_rejected(path: str, protocol: str, code: int, text: str) -> None:
    async with serve_kubelet(_SLEEPER) as (_, port):
        with pytest.raises(Answered) as refused:
            async with session(port, path, protocol):
                pass
        assert refused.value.code == code
        assert text in refused.value.text


async def test_a_command_is_killed_when_its_client_disconnects() -> None:
    async with serve_kubelet(_SLEEPER) as (bench, port):
        async with session(port, _exec("sh", "-c", "sleep+5;+touch+/tmp/done")) as channels:
            assert await channels.read() == (STDOUT, b"")
        async with session(port, _exec("ls", "/tmp")) as channels:
            await bench.clock.advance(10)
            assert (await channels.result())[0] == {}


@pytest.mark.parametrize("headers", [{"origin": "http://evil.example"}, {"host": "evil.example"}])
async def test_requests_from_web_pages_are_rejected(headers: dict[str, str]) -> None:
    upgrade = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    async with (
        serve_kubelet(_SLEEPER) as (_, port),
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client,
    ):
        for path in (_exec("echo"), "/attach/ns/pod/main?output=1"):
            response = await client.get(path, headers=upgrade | headers)
            assert response.status_code == 403
            assert response.text.startswith("forbidden: ")
