"""``/faults``: begin faults, list the active ones, and end them. Not part of upstream."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from dra_shared.faults.places import PATH
from dra_shared.numerals import integer, is_digits

from dra_apiserver.errors import StatusError, bad_request, method_not_allowed
from dra_apiserver.handlers.faultregister import Register
from dra_apiserver.http import Request


async def answer(register: Register, request: Request) -> None:
    """POST a fault (201), GET the active faults or one by its number, DELETE all or one.

    Raises:
        StatusError: 400, the body is not a fault; 404, there is no fault of that number; 405, another method.
    """
    number = request.path.removeprefix(PATH).strip("/")
    match request.method, bool(number):
        case "POST", False:
            begun = await register.begin(await request.body())
            await request.respond(201, msgspec.json.encode(begun))
            await register.begin_held(begun.id)
        case "GET", False:
            await request.respond(200, msgspec.json.encode({"items": await register.list_active()}))
        case "GET", True:
            await request.respond(200, msgspec.json.encode(await _one(register.get, number)))
        case "DELETE", True:
            await request.respond(200, msgspec.json.encode(await _one(register.end, number)))
        case "DELETE", False:
            await register.clear()
            await request.respond(200, msgspec.json.encode({"items": []}))
        case _:
            raise method_not_allowed()


async def _one(find: Callable[[int], Awaitable[object]], number: str) -> object:
    if not is_digits(number):
        raise bad_request(f"{PATH}/{number}: {number} is not the number of a fault")
    found = await find(integer(number))
    if found is None:
        raise StatusError(404, "NotFound", f"there is no fault {number}, or its result is no longer kept")
    return found
