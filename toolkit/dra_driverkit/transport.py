"""Connections between a kubelet and its plugins: gRPC on unix sockets, or calls within one process.

A gRPC server, its two sockets and the channels to it need more memory than everything else of a simulated
node. If kubelet and driver are in one process, the same services are called with the same messages, and no
socket is opened.
"""

import asyncio
import functools
import itertools
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

import grpc
from grpc import aio

CHANNEL_OPTIONS: Sequence[tuple[str, Any]] = (
    # The default authority is the escaped path of the socket. Other gRPC servers refuse that
    # (grpc/grpc#38142).
    ("grpc.default_authority", "localhost"),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
    # `min_reconnect_backoff_ms` is not set, because it limits how long connecting may take: 20 s, as in
    # grpc-go.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
)

_SERVER_OPTIONS: Sequence[tuple[str, Any]] = (("grpc.so_reuseport", 0),)
_READY, _GONE = grpc.ChannelConnectivity.READY, grpc.ChannelConnectivity.TRANSIENT_FAILURE


class PluginServer(Protocol):
    """A server to which services are added (``dra_driverkit.proto.rpc.serve``)."""

    def add_generic_rpc_handlers(self, handlers: Sequence[Any], /) -> None: ...

    async def start(self) -> None: ...

    async def stop(self, grace: float | None, /) -> None: ...


class Sockets(Protocol):
    """The paths on which plugins listen, and the connections to them."""

    def server(self, paths: Sequence[Path], add: Callable[[Any], None]) -> PluginServer:
        """Return a server with the services that ``add`` adds to it. Once started, it listens at all of the paths.

        Raises:
            OSError: it cannot listen at a path.
        """
        ...

    def channel(self, path: str) -> Any:
        """Return a channel to the server at a path: an ``aio.Channel``, or an object that is called like one."""
        ...

    def listeners(self, directory: Path) -> Iterator[tuple[str, int]]:
        """Yield the paths below the directory at which a server listens without a socket file, with unique numbers."""
        ...

    def watch(self, directory: Path, callback: Callable[[], None]) -> None:
        """Call back after each change of :meth:`listeners`."""
        ...


class UnixSockets:
    """Connections by gRPC on unix sockets."""

    def server(self, paths: Sequence[Path], add: Callable[[Any], None]) -> PluginServer:
        server = aio.server(options=_SERVER_OPTIONS)
        add(server)
        for path in paths:
            path.unlink(missing_ok=True)
            try:
                server.add_insecure_port(f"unix:{path}")
            except RuntimeError as error:
                raise OSError(f"cannot listen on {path}: {error}") from error
        made: PluginServer = server
        return made

    def channel(self, path: str) -> Any:
        return aio.insecure_channel(f"unix:{path}", options=CHANNEL_OPTIONS)

    def listeners(self, directory: Path) -> Iterator[tuple[str, int]]:
        return iter(())

    def watch(self, directory: Path, callback: Callable[[], None]) -> None:
        """Do nothing: files are watched elsewhere."""


class LocalSockets(UnixSockets):
    """Servers in this process, by the paths that their sockets would have.

    Other servers are reached through sockets.
    """

    def __init__(self) -> None:
        self._servers: dict[str, LocalServer] = {}
        self._folders: dict[str, dict[str, int]] = {}
        self._callbacks: dict[str, Callable[[], None]] = {}
        self._numbers = itertools.count(1)

    def server(self, paths: Sequence[Path], add: Callable[[Any], None]) -> PluginServer:
        server = LocalServer(functools.partial(self._listen, paths), functools.partial(self._leave, paths))
        add(server)
        return server

    def channel(self, path: str) -> Any:
        server = self._servers.get(path)
        return super().channel(path) if server is None else LocalChannel(server)

    def listeners(self, directory: Path) -> Iterator[tuple[str, int]]:
        return iter(list(self._folders.get(str(directory), {}).items()))

    def watch(self, directory: Path, callback: Callable[[], None]) -> None:
        self._callbacks[str(directory)] = callback

    def _listen(self, paths: Sequence[Path], server: "LocalServer") -> None:
        for path in paths:
            # As with a socket, the server that listened last at a path gets the calls.
            path.unlink(missing_ok=True)
            self._servers[str(path)] = server
            self._folders.setdefault(str(path.parent), {})[str(path)] = next(self._numbers)
        self._tell(paths)

    def _leave(self, paths: Sequence[Path], server: "LocalServer") -> None:
        for path in paths:
            if self._servers.get(str(path)) is server:
                del self._servers[str(path)], self._folders[str(path.parent)][str(path)]
        self._tell(paths)

    def _tell(self, paths: Sequence[Path]) -> None:
        for folder in dict.fromkeys(str(path.parent) for path in paths):
            if (callback := self._callbacks.get(folder)) is not None:
                callback()


class LocalServer:
    """Services that are called within the process, as a gRPC server would call them."""

    def __init__(
        self, listen: Callable[["LocalServer"], None], leave: Callable[["LocalServer"], None]
    ) -> None:
        self._listen = listen
        self._leave = leave
        self._handlers: list[Any] = []
        self._calls: dict[asyncio.Task[Any], None] = {}
        self.stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def add_generic_rpc_handlers(self, handlers: Sequence[Any]) -> None:
        self._handlers += handlers

    async def start(self) -> None:
        self._listen(self)

    async def stop(self, grace: float | None) -> None:
        if self.stopped.done():
            return
        self._leave(self)
        self.stopped.set_result(None)
        if self._calls and grace:
            await asyncio.wait(self._calls, timeout=grace)
        for call in list(self._calls):
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)

    async def call(self, method: str, data: bytes, timeout: float | None) -> bytes:
        """Make a call with one answer.

        Raises:
            AioRpcError: as from gRPC.
        """
        handler = self.handler(method)
        task = asyncio.ensure_future(_answer(handler, data))
        self._calls[task] = None
        try:
            await asyncio.wait((task,), timeout=timeout)
            if not task.done():
                raise _error(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")
            if task.cancelled():
                raise _closed_error()
            return task.result()
        finally:
            self._calls.pop(task, None)
            task.cancel()

    def handler(self, method: str) -> Any:
        """Return the handler of the method. Raises AioRpcError."""
        if self.stopped.done():
            raise _closed_error()
        details = _Details(method)
        for generic in self._handlers:
            if (found := generic.service(details)) is not None:
                return found
        raise _error(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")


class LocalChannel:
    """A channel to a :class:`LocalServer`, with the part of an ``aio.Channel`` that kubelets use."""

    def __init__(self, server: LocalServer) -> None:
        self._server = server

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Do nothing: there is no connection."""

    async def channel_ready(self) -> None:
        """Return when the server is available. A server in this process is available, or has ended forever."""
        if self._server.stopped.done():
            await asyncio.get_running_loop().create_future()

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return _GONE if self._server.stopped.done() else _READY

    async def wait_for_state_change(self, last: grpc.ChannelConnectivity) -> None:
        if last is _READY:
            await asyncio.shield(self._server.stopped)
        else:
            await asyncio.get_running_loop().create_future()

    def unary_unary(self, method: str) -> Callable[..., Any]:
        async def call(data: bytes, timeout: float | None = None) -> bytes:
            return await self._server.call(method, data, timeout)

        return call

    def unary_stream(self, method: str) -> Callable[[bytes], "_Stream"]:
        return lambda data: _Stream(self._server, method, data)


class _Stream:
    """The answers of one call, until either side ends it.

    Raises:
        AioRpcError: as from gRPC.
    """

    def __init__(self, server: LocalServer, method: str, data: bytes) -> None:
        self._server = server
        self._method = method
        self._data = data
        self._handler: Any = None
        self._answers: AsyncGenerator[Any, None] | None = None
        self._closing: asyncio.Future[None] | None = None
        self._waiting: asyncio.Task[Any] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._handler is None:
            self._handler = self._server.handler(self._method)
            self._answers = self._handler.unary_stream(
                self._handler.request_deserializer(self._data), _Context()
            )
        answers = self._answers
        if answers is None:
            raise StopAsyncIteration
        task = self._waiting = asyncio.current_task()
        assert task is not None
        self._server.stopped.add_done_callback(self._wake_reader)
        try:
            found = await answers.__anext__()
        except StopAsyncIteration:
            self._answers = None
            raise
        except asyncio.CancelledError:
            # The cancelled generator ends by itself.
            self._answers = None
            if self._waiting is not None or task.uncancel():
                raise
            raise _closed_error() from None
        except Exception as error:
            self._answers = None
            raise _unexpected_error(error) from error
        finally:
            self._waiting = None
            self._server.stopped.remove_done_callback(self._wake_reader)
        data: bytes = self._handler.response_serializer(found)
        return data

    def _wake_reader(self, _: asyncio.Future[None]) -> None:
        """Wake the reader, because the server has gone. A task for this would cost each node 2 KiB."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def cancel(self) -> None:
        """End the call."""
        if self._answers is not None:
            self._closing = asyncio.ensure_future(self._answers.aclose())
            self._answers = None


class _Details:
    """The details by which a generic handler finds a method."""

    invocation_metadata = ()

    def __init__(self, method: str) -> None:
        self.method = method


class _Aborted(Exception):
    pass


class _Context:
    """The context of a call, as a method sees it."""

    def __init__(self) -> None:
        self.error: aio.AioRpcError | None = None

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()) -> None:
        self.error = _error(code, details)
        raise _Aborted

    def invocation_metadata(self) -> Sequence[Any]:
        return ()


async def _answer(handler: Any, data: bytes) -> bytes:
    context = _Context()
    try:
        answer: bytes = handler.response_serializer(
            await handler.unary_unary(handler.request_deserializer(data), context)
        )
    except Exception as error:
        if context.error is not None:
            raise context.error from error
        raise _unexpected_error(error) from error
    return answer


def _unexpected_error(error: Exception) -> aio.AioRpcError:
    return _error(grpc.StatusCode.UNKNOWN, f"Unexpected {type(error)}: {error}")


def _closed_error() -> aio.AioRpcError:
    return _error(grpc.StatusCode.UNAVAILABLE, "Socket closed")


def _error(code: grpc.StatusCode, details: str) -> aio.AioRpcError:
    return aio.AioRpcError(code, aio.Metadata(), aio.Metadata(), details)
