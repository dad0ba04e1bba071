"""Wait for one object with a list and a watch (staging/src/k8s.io/kubectl/pkg/cmd/wait/condition.go and delete.go)."""

import asyncio
import json
import time
from typing import Any

from dra_shared.client.errors import from_response
from dra_shared.client.rest import Client
from dra_shared.errors import UserError

from dra_kube.conditions import Condition
from dra_kube.objects import Target, is_unschedulable


class Deadline:
    """A deadline for all objects together, in seconds from now. With 0, each object is read once."""

    def __init__(self, seconds: float) -> None:
        self.once = seconds == 0
        self._end = time.monotonic() + seconds

    @property
    def seconds_left(self) -> float:
        """The remaining seconds."""
        return max(0.0, self._end - time.monotonic())


async def wait(client: Client, where: Target, met: Condition | None, deadline: Deadline) -> None:
    """Wait until the object meets the condition, or until it is deleted if there is no condition.

    If the object does not exist yet, wait for its creation, as kubectl does since 1.32
    (``--wait-for-creation``).

    Raises:
        UserError: the deadline passes.
        ApiError: the server rejects the request.
    """
    state = _State(met)
    if deadline.once:
        await _read(client, where, state)
        if not state.done:
            raise UserError(f"condition not met for {where.resource.plural}/{where.name}")
        return
    try:
        async with asyncio.timeout(deadline.seconds_left):
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
    """The last state of the object, and whether the wait is over."""

    def __init__(self, met: Condition | None) -> None:
        self._met = met
        self.done = False
        self.seen: dict[str, Any] | None = None

    def update(self, obj: dict[str, Any] | None) -> bool:
        """Record the object, None if it does not exist, and return True if the wait is over."""
        self.seen = obj
        if self._met is None:
            self.done = obj is None
        else:
            self.done = obj is not None and self._met(obj)
        return self.done


async def _read(client: Client, where: Target, state: _State) -> str:
    """Read the object, and return the revision of the answer."""
    response = await client.raw(
        "GET",
        where.resource.path(where.namespace),
        params={"fieldSelector": f"metadata.name={where.name}"},
    )
    if response.status_code >= 400:
        raise from_response(response.status_code, response.content)
    listed = response.json()
    state.update(next(iter(listed["items"]), None))
    return str(listed["metadata"]["resourceVersion"])


async def _follow(client: Client, where: Target, state: _State) -> None:
    """Read the object and watch it, until the wait is over or the watch ends."""
    revision = await _read(client, where, state)
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
                # The revision is too old. The caller reads the object again.
                return
            if state.update(None if event["type"] == "DELETED" else event["object"]):
                return
    finally:
        await response.aclose()
