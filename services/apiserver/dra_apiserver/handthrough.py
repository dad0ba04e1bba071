"""A connection that a client upgrades, joined to another one (upstream's upgradeaware proxy)."""

from __future__ import annotations

import asyncio

from dra_apiserver.connection import TAKE_OVER, Peer, TakeOver
from dra_apiserver.http import Request


async def hand_through(
    request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, first: bytes = b""
) -> None:
    """Join the client's connection, which it wants to upgrade, to another until either ends.

    `first` is what has been read of the other one.
    """
    take_over: TakeOver = request.scope[TAKE_OVER]
    try:
        gone = asyncio.Event()

        def to_node(data: bytes) -> None:
            writer.write(data)
            if writer.transport.get_write_buffer_size():
                peer.pause(True)
                drains.add(drain := asyncio.ensure_future(_drained(writer, peer)))
                drain.add_done_callback(drains.discard)

        drains: set[asyncio.Future[None]] = set()
        peer = take_over(to_node, gone.set)
        if first:
            peer.write(first)
        request.code = 101
        if request.audit is not None:
            request.audit.started()
        copying = asyncio.ensure_future(_copy(reader, peer))
        leaving = asyncio.ensure_future(gone.wait())
        await asyncio.wait((copying, leaving), return_when=asyncio.FIRST_COMPLETED)
        copying.cancel()
        leaving.cancel()
        await asyncio.gather(copying, leaving, *drains, return_exceptions=True)
        peer.close()
    finally:
        writer.close()


async def _drained(writer: asyncio.StreamWriter, peer: Peer) -> None:
    try:
        await writer.drain()
    except ConnectionError:
        return
    peer.pause(False)


async def _copy(reader: asyncio.StreamReader, peer: Peer) -> None:
    try:
        while data := await reader.read(1 << 16):
            peer.write(data)
    except ConnectionError:
        return
