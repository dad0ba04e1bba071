"""gRPC calls to drivers, with decoding of their answers, which may contain anything.

The library's stubs return None for answers that they cannot decode. Texts are those of Go's gRPC, which
reach users through events.
"""

import re
from collections.abc import AsyncGenerator
from typing import Any, TypeVar

from dra_shared.quoting import go_quote
from google.protobuf.message import DecodeError, Message
from grpc import aio

M = TypeVar("M", bound=Message)

# The library's messages for a failed dial, a connection closed by the driver, and an answer that is too long.
_DIALED = re.compile(r"connect failed: addr: unix:(?P<path>.+) error: (?P<why>.+)$")
_CLOSED = ("Socket closed", "Stream removed (Socket closed)")
_TOO_LONG = re.compile(r"Received message larger than max \((\d+) vs\. (\d+)\)")
# Codes that Go spells differently from the camel case of the library's names.
_SPELLED = {"OK": "OK", "CANCELLED": "Canceled"}
_UNDECODABLE = "grpc: failed to unmarshal the received message: proto: cannot parse invalid wire-format data"


class CallError(Exception):
    """A call failed. The text is the error as printed by Go's gRPC. ``code`` is its code in Go's spelling."""

    def __init__(self, code: str, details: str) -> None:
        super().__init__(f"rpc error: code = {code} desc = {details}")
        self.code = code


async def call(channel: Any, method: str, request: Message, answer: type[M], timeout: float | None) -> M:
    """Call ``method``, a path such as ``/v1.DRAPlugin/NodePrepareResources``, with a timeout in seconds.

    Raises:
        CallError: it failed, or the answer could not be decoded.
    """
    try:
        data: bytes = await channel.unary_unary(method)(request.SerializeToString(), timeout=timeout)
    except aio.AioRpcError as error:
        raise call_error(error) from error
    return _decode(answer, data)


async def stream(channel: Any, method: str, request: Message, answer: type[M]) -> AsyncGenerator[M]:
    """Yield the answers to ``method`` until the driver ends the stream.

    Raises:
        CallError: the stream broke, or an answer could not be decoded.
    """
    answers = channel.unary_stream(method)(request.SerializeToString())
    data = aiter(answers)
    try:
        while True:
            # Do not bind the answer to a name, which would keep it in memory until the next one, on thousands
            # of nodes.
            yield _decode(answer, await anext(data))
    except StopAsyncIteration:
        return
    except aio.AioRpcError as error:
        raise call_error(error) from error
    finally:
        answers.cancel()


def call_error(error: aio.AioRpcError) -> CallError:
    """Return the error with Go's text."""
    code: str = error.code().name
    details = error.details() or ""
    if code == "DEADLINE_EXCEEDED" and details == "Deadline Exceeded":
        details = "context deadline exceeded"
    elif code == "UNAVAILABLE" and (dialed := _DIALED.search(details)):
        cause = f"dial unix {dialed['path']}: connect: {dialed['why'].lower()}"
        details = f"connection error: desc = {go_quote(f'transport: Error while dialing: {cause}')}"
    elif code == "UNAVAILABLE" and details in _CLOSED:
        details = "error reading from server: EOF"
    elif code == "RESOURCE_EXHAUSTED" and (size := _TOO_LONG.search(details)):
        details = f"grpc: received message larger than max ({size[1]} vs. {size[2]})"
    return CallError(_SPELLED.get(code) or "".join(part.capitalize() for part in code.split("_")), details)


def _decode(answer: type[M], data: bytes) -> M:
    try:
        return answer.FromString(data)
    except DecodeError as error:
        raise CallError("Internal", _UNDECODABLE) from error
