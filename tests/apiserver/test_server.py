"""The server's socket."""

import contextlib
import socket

from dra_apiserver.server import ApiServer


async def test_callers_who_come_all_at_once_are_let_in(server: ApiServer) -> None:
    address = server.url.removeprefix("http://").rsplit(":", 1)
    with contextlib.ExitStack() as callers:
        # Nothing is accepted meanwhile: this does not yield to the event loop. A caller too many gets no answer.
        for _ in range(300):
            callers.enter_context(socket.create_connection((address[0], int(address[1])), timeout=0.5))
