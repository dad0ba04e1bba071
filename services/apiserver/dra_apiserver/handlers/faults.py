"""``/faults``: begins faults, lists those at work, and clears them. No counterpart upstream."""

from __future__ import annotations

import msgspec

from dra_apiserver.errors import bad_request, method_not_allowed
from dra_apiserver.faults import Fault, Faults
from dra_apiserver.http import Request

_decoder = msgspec.json.Decoder(Fault)


async def answer(faults: Faults, request: Request) -> None:
    """POST a fault (201), GET those at work, DELETE all.

    Raises:
        StatusError: 400, the body is no fault; 405, another method.
    """
    match request.method:
        case "POST":
            try:
                fault = _decoder.decode(await request.body())
            except msgspec.DecodeError as error:
                raise bad_request(f"cannot read the fault: {error}") from None
            await request.respond(201, msgspec.json.encode(faults.begin(fault)))
        case "GET":
            await request.respond(200, msgspec.json.encode({"items": faults.list()}))
        case "DELETE":
            faults.clear()
            await request.respond(200, msgspec.json.encode({"items": []}))
        case _:
            raise method_not_allowed()
