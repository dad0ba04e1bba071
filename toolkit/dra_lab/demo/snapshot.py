"""The demo's view of the cluster at one moment."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from dra_shared.api.container import Container
from dra_shared.api.node import Node
from dra_shared.api.pod import Pod
from dra_shared.api.resource import DeviceClass, DeviceRequestAllocationResult, ResourceClaim, ResourceSlice
from dra_shared.api.resources import DEVICE_CLASSES, EVENTS, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dra_shared.client.rest import Client


@dataclass(frozen=True)
class Snapshot:
    """Every object that the demo reports on. Pods and claims are those of its own namespaces."""

    nodes: tuple[Node, ...]
    slices: tuple[ResourceSlice, ...]
    classes: dict[str, DeviceClass]
    pods: tuple[Pod, ...]
    claims: dict[str, ResourceClaim]

    @classmethod
    async def take(cls, client: Client, namespaces: Iterable[str]) -> "Snapshot":
        """List all these objects once."""
        nodes, slices, classes, pods, claims = await asyncio.gather(
            client.list(NODES),
            client.list(RESOURCE_SLICES),
            client.list(DEVICE_CLASSES),
            client.list(PODS),
            client.list(RESOURCE_CLAIMS),
        )
        wanted = set(namespaces)
        return cls(
            nodes=nodes.items,
            slices=slices.items,
            classes={item.metadata.name: item for item in classes.items},
            pods=tuple(pod for pod in pods.items if pod.metadata.namespace in wanted),
            claims={claim.key: claim for claim in claims.items if claim.metadata.namespace in wanted},
        )

    def claims_of(self, pod: Pod) -> dict[str, ResourceClaim | None]:
        """Return the pod's claims by their names in the pod's spec; None for a claim that does not exist yet."""
        generated = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
        claims = {}
        for entry in pod.spec.resource_claims:
            name = entry.resource_claim_name or generated.get(entry.name)
            claims[entry.name] = self.claims.get(f"{pod.metadata.namespace}/{name}") if name else None
        return claims

    def devices_of(self, pod: Pod, container: Container) -> list[DeviceRequestAllocationResult]:
        """Return the devices of the container's own claim entries."""
        claims = self.claims_of(pod)
        devices = []
        for entry in container.resources.claims:
            claim = claims.get(entry.name)
            if claim is None or claim.status.allocation is None:
                continue
            devices += [
                result
                for result in claim.status.allocation.devices.results
                if not entry.request or result.request.split("/")[0] == entry.request
            ]
        return devices

    def attribute(self, result: DeviceRequestAllocationResult, name: str) -> str | None:
        """Return a text attribute of an allocated device, by its name without a domain."""
        for slice_ in self.slices:
            if slice_.spec.driver != result.driver or slice_.spec.pool.name != result.pool:
                continue
            for device in slice_.spec.devices:
                if device.name == result.device and name in device.attributes:
                    return device.attributes[name].string
        return None


async def warnings(client: Client, namespaces: Iterable[str]) -> list[str]:
    """Return the Warning events about the demo's objects, newest last."""
    wanted = set(namespaces)
    events = [
        event
        for event in (await client.list(EVENTS)).items
        if event.type == "Warning" and event.metadata.namespace in wanted
    ]
    events.sort(key=lambda event: event.last_timestamp or event.event_time or "")
    return [
        f"{event.involved_object.kind} {event.involved_object.namespace}/{event.involved_object.name}: "
        f"{event.reason}: {event.message}"
        for event in events
    ]
