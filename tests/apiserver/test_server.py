"""Test the server's socket."""

import contextlib
import socket
import sys
from pathlib import Path

from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer


async def test_three_hundred_connections_can_wait_to_be_accepted(server: ApiServer) -> None:
    address = server.url.removeprefix("http://").rsplit(":", 1)
    with contextlib.ExitStack() as callers:
        # Nothing is accepted meanwhile, because this does not yield to the event loop. A caller beyond the
        # limit gets no answer.
        for _ in range(300):
            callers.enter_context(socket.create_connection((address[0], int(address[1])), timeout=0.5))


async def test_two_servers_in_one_process_can_stop_in_any_order(tmp_path: Path) -> None:
    before = sys.getrecursionlimit()
    first, second = contextlib.AsyncExitStack(), contextlib.AsyncExitStack()
    for stack, name in ((first, "a"), (second, "b")):
        await stack.enter_async_context(ApiServer(Config(port=0, data=tmp_path / name, relaxed=True)))
    within = sys.getrecursionlimit()
    await first.aclose()
    assert sys.getrecursionlimit() == within > before
    await second.aclose()
    assert sys.getrecursionlimit() == before
