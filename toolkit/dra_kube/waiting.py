"""Waiting for one object (staging/src/k8s.io/kubectl/pkg/cmd/wait/condition.go and delete.go): a list, then a watch."""

import asyncio
import json
import time
from typing import Any

from dra_shared.client.errors import from_response
from dra_shared.client.rest import Client
from dra_shared.errors import UserError

from dra_kube.conditions import Met
from dra_kube.objects import Target, is_unschedulable


class Deadline:
    """When to give up: so many seconds from now, for all objects together; with 0 they are looked at once."""

    def __init__(self, seconds: float) -> None:
        self.once = seconds == 0
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """The seconds that are left."""
        return max(0.0, self._end - time.monotonic())


async def wait(client: Client, where: Target, met: Met | None, deadline: Deadline) -> None:
    """Wait until the object fulfils the condition, or is gone where there is none.

    An object that is not there yet is waited for, as by kubectl since 1.32 (``--wait-for-creation``).

    Raises:
        UserError: time runs out.
        ApiError: the server refuses.
    """
    state = _State(met)
    if deadline.once:
        await _look(client, where, state)
        if not state.done:
            raise UserError(f"condition not met for {where.resource.plural}/{where.name}")
        return
    try:
        async with asyncio.timeout(deadline.left):
            while not state.done:
                await _follow(client, where, state)
    except TimeoutError:
        hint = ""
        if (
            where.resource.plural == "pods"
            and state.seen
            and is_unschedulable(state.seen.get("status") or {})
        ):
            hint = f"; `dralab explain pod/{where.name} -n {where.namespace}` says why it has no node"
        message = f"timed out waiting for the condition on {where.resource.plural}/{where.name}{hint}"
        raise UserError(message) from None


class _State:
    """What is known of the object."""

    def __init__(self, met: Met | None) -> None:
        self._met = met
        self.done = False
        self.seen: dict[str, Any] | None = None

    def see(self, obj: dict[str, Any] | None) -> bool:
        """Take note of the object as it is now, None where it is not; gives whether that is what is waited for."""
        self.seen = obj
        if self._met is None:
            self.done = obj is None
        else:
            self.done = obj is not None and self._met(obj)
        return self.done


async def _look(client: Client, where: Target, state: _State) -> str:
    """Look at the object; gives the revision of the answer."""
    response = await client.raw(
        "GET",
        where.resource.path(where.namespace),
        params={"fieldSelector": f"metadata.name={where.name}"},
    )
    if response.status_code >= 400:
        raise from_response(response.status_code, response.content)
    listed = response.json()
    state.see(next(iter(listed["items"]), None))
    return str(listed["metadata"]["resourceVersion"])


async def _follow(client: Client, where: Target, state: _State) -> None:
    """Look at the object and watch it, until it is as wanted or the watch ends."""
    revision = await _look(client, where, state)
    if state.done:
        return
    response = await client.stream(
        "GET",
        where.resource.path(where.namespace),
        params={
            "fieldSelector": f"metadata.name={where.name}",
            "watch": "true",
            "resourceVersion": revision,
        },
    )
    try:
        if response.status_code >= 400:
            raise from_response(response.status_code, await response.aread())
        async for line in response.aiter_lines():
            event = json.loads(line)
            if event["type"] == "ERROR":
                # The revision is too old: look again.
                return
            if state.see(None if event["type"] == "DELETED" else event["object"]):
                return
    finally:
        await response.aclose()
