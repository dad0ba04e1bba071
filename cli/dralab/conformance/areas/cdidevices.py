"""Which devices of the node a container gets with the CDI devices of its request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dra_node_agent.cdi import ContainerEdits, Spec

from dralab.conformance.areas.cdi import AREA
from dralab.conformance.check import Breach, NotOffered
from dralab.conformance.claims import Device, Result
from dralab.conformance.session import Session

__all__ = ["AREA", "edits_of"]

_PROTO = "staging/src/k8s.io/kubelet/pkg/apis/dra/v1/api.proto (Device.request_names, Device.cdi_device_ids)"
_BASES = ("prepare.several-devices", "cdi.defined", "cdi.schema", "cdi.unique")


@dataclass
class Nodes:
    """The device nodes that two devices come with: each alone, and in a claim that has both; by device."""

    devices: Sequence[Device]
    alone: dict[str, set[str]] = field(default_factory=dict)
    together: dict[str, set[str]] = field(default_factory=dict)

    def own(self, device: Device) -> set[str]:
        """What comes with this device, and not with the other."""
        others = [self.alone[one.name] for one in self.devices if one is not device]
        return self.alone[device.name].difference(*others)


async def nodes(session: Session) -> Nodes:
    """Prepare two devices each alone, and both for a claim with two requests.

    Raises:
        NotOffered: containers get no device nodes that differ from device to device.
    """
    seen = Nodes(session.pick(2))
    first, second = seen.devices
    if first.name == second.name:
        raise NotOffered("the devices are of two pools, and have one name")
    for device in seen.devices:
        async with session.claim([Result(device)]) as claim:
            seen.alone |= _nodes_of(session, await session.ready(claim))
    if not (seen.own(first) and seen.own(second)):
        raise NotOffered("two devices have no device nodes of their own in the CDI files")
    results = [Result(device, f"r{number}") for number, device in enumerate(seen.devices)]
    async with session.claim(results) as claim:
        seen.together = _nodes_of(session, await session.ready(claim))
    return seen


@AREA.check(
    "right-device",
    "a claim with two devices has the nodes of both",
    promise="A device comes with its own device nodes, whatever else its claim has.",
    source=_PROTO + "; https://github.com/google/gvisor/issues/9389 (an index that is no minor number)",
    cost="A container opens a device that is allocated to another pod.",
    rests_on=_BASES,
)
async def _right_device(session: Session) -> None:
    seen = await session.once(nodes)
    for device in seen.devices:
        given = seen.together.get(device.name, set())
        if missing := seen.own(device) - given:
            raise Breach(
                f"{device.name} alone has {', '.join(sorted(missing))}; in a claim with two devices"
                f" {', '.join(sorted(given)) or 'nothing'}"
            )


@AREA.check(
    "by-request",
    "a request comes with its own device alone",
    promise="The CDI ids of a device have no device nodes of the claim's others: a container may name one request.",
    source=_PROTO + "; pkg/kubelet/cm/dra/claiminfo.go (cdiDevicesAsList of a request)",
    cost="A container that names one request of its claim gets the devices of all, such as its sidecar's.",
    rests_on=(*_BASES, "cdi.right-device"),
)
async def _by_request(session: Session) -> None:
    seen = await session.once(nodes)
    for device in seen.devices:
        for other in seen.devices:
            if other is not device and (more := seen.together.get(device.name, set()) & seen.own(other)):
                raise Breach(
                    f"the request for {device.name} comes with {', '.join(sorted(more))} of {other.name}"
                )


def edits_of(session: Session, answer: Any) -> Mapping[str, list[ContainerEdits]]:
    """What containers get with each device of the answer, by its name: its own edits, and those of its file."""
    known = {
        f"{spec.kind}={device.name}": [spec.container_edits, device.container_edits]
        for spec in session.cdi.specs().values()
        if isinstance(spec, Spec)
        for device in spec.devices
    }
    return {
        one.device_name: [edits for name in one.cdi_device_ids for edits in known.get(name, ())]
        for one in answer.devices
    }


def _nodes_of(session: Session, answer: Any) -> dict[str, set[str]]:
    return {
        name: {node.path for part in edits for node in part.device_nodes}
        for name, edits in edits_of(session, answer).items()
    }
