"""The functions for each kind of case."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from dra_recordings.devicemanager import allocations, checkpoints, courses, hints, pods, registration

Answerer = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]

_KINDS: dict[str, Answerer] = {
    "devicesToAllocate": allocations.devices_to_allocate,
    "runContainerOptions": allocations.run_container_options,
    "updatePluginResources": allocations.update_plugin_resources,
    "pods": pods.pods,
    "restart": pods.restart,
    "capacity": courses.capacity,
    "podResources": courses.pod_resources,
    "checkpointWrite": checkpoints.write,
    "checkpointRead": checkpoints.read,
    "topologyHints": hints.topology_hints,
    "register": registration.register,
    "validatePlugin": registration.validate_plugin,
    "registrationSocketPath": registration.socket_path,
    "registrationCourse": registration.course,
    "admission": registration.admission,
}


def answer(case: dict[str, Any]) -> dict[str, Any]:
    """Return our answer to a case, which names its ``kind``.

    Raises:
        KeyError: the case is incomplete.
        ValueError: the kind is unknown.
    """
    kind = case["kind"]
    if kind not in _KINDS:
        raise ValueError(f"unknown kind {kind!r}")
    return {"kind": kind, "actual": asyncio.run(_answer(_KINDS[kind], case))}


async def _answer(answerer: Answerer, given: dict[str, Any]) -> dict[str, Any]:
    return await answerer(given)
