"""create (apiserver's `endpoints/handlers/create.go`)."""

from __future__ import annotations

from functools import partial

from dra_apiserver.api import Api
from dra_apiserver.handlers.bodies import answer, decode_object, write_body
from dra_apiserver.handlers.options import write_options
from dra_apiserver.http import Request
from dra_apiserver.rest import store
from dra_apiserver.rest.write import Write
from dra_apiserver.target import Target


async def create(api: Api, request: Request, target: Target) -> None:
    """Store a new object."""
    presenter = api.presenter(target, request)
    options = write_options(request, "CreateOptions")
    body = await write_body(request, target)
    ctx = api.context(target, request.user, options.dry_run)
    write = Write(api, request, target, ctx, options.manager, api.runner(target, len(body)))
    record = await store.create(write, partial(decode_object, api, request, target, options, body))
    await answer(api, request, presenter, 201, record)
