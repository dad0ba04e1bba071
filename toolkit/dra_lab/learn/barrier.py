"""Wait until scheduler and controllers have observed all earlier writes.

A learner's next try recreates claims, templates and pods under the same names. A component whose informer lags would
judge the new pod by an old object: the claim controller creates a claim from the old template, and the scheduler, which
retries a conflicting status update on whatever claim has the name, allocates what the old claim asked for. Upstream's
do the same (bindClaim in pkg/scheduler/framework/plugins/dynamicresources).

The barrier is a pod with a claim from a template, both new. An informer reports objects of a kind in the order of their
writes. So when the claim exists, the controller has observed every earlier change of pods, claims and templates.
When the scheduler reports the claim's unknown device class, it has done so too.
"""

from typing import Any

import orjson
from dra_kube import objects
from dra_kube.discovery import Discovery
from dra_shared.api.resources import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Resource
from dra_shared.client.errors import from_response
from dra_shared.client.rest import Client
from dra_shared.clock import Clock

_NAME = "learn-barrier-"
_CLASS = "class-of-the-barrier"
_POLL = 0.02
# The timeout: a learner may have stopped the scheduler. Then the lesson is judged without the barrier.
_LONGEST = 10.0


async def pass_barrier(client: Client, discovery: Discovery, clock: Clock, namespace: str) -> None:
    """Return once scheduler and claim controller have observed all earlier writes, or after ten seconds.

    Raises:
        ApiError: the server refuses an object of the barrier.
    """
    request = {"name": "device", "exactly": {"deviceClassName": _CLASS}}
    template = await _create(
        client, RESOURCE_CLAIM_TEMPLATES, namespace, {"spec": {"devices": {"requests": [request]}}}
    )
    claim = {"name": "device", "resourceClaimTemplateName": template}
    containers = [{"name": "none", "image": "none"}]
    pod = await _create(client, PODS, namespace, {"containers": containers, "resourceClaims": [claim]})
    began = clock.monotonic()
    while _CLASS not in await _scheduled_message(client, namespace, pod):
        if clock.monotonic() - began > _LONGEST:
            break
        await clock.sleep(_POLL)
    await _delete(client, discovery, namespace, pod, template)


async def _create(client: Client, resource: Resource[Any], namespace: str, spec: dict[str, Any]) -> str:
    """Create an object with a generated name and return the name."""
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"generateName": _NAME},
        "spec": spec,
    }
    response = await client.raw("POST", resource.path(namespace), content=orjson.dumps(body))
    if response.status_code >= 400:
        raise from_response(response.status_code, response.content)
    return str(response.json()["metadata"]["name"])


async def _scheduled_message(client: Client, namespace: str, pod: str) -> str:
    """Return the message of the pod's PodScheduled condition, empty without one."""
    found = await client.get(PODS, pod, namespace)
    messages = [one.message for one in found.status.conditions if one.type == "PodScheduled"]
    return messages[0] if messages else ""


async def _delete(client: Client, discovery: Discovery, namespace: str, pod: str, template: str) -> None:
    """Delete the objects of the barrier, the claim that was created for the pod too, and wait until they are gone."""
    claims = await client.list(RESOURCE_CLAIMS, namespace)
    mine = [
        claim.metadata.name
        for claim in claims.items
        if any(owner.name == pod for owner in claim.metadata.owner_references)
    ]
    targets = [
        objects.Target(discovery.resolve("pods"), namespace, pod),
        *(objects.Target(discovery.resolve("resourceclaims"), namespace, name) for name in mine),
        objects.Target(discovery.resolve("resourceclaimtemplates"), namespace, template),
    ]
    await objects.delete(client, targets, missing_ok=True, grace_period=0)
