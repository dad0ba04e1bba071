"""The device nodes and environment that a container gets with the CDI devices of its request."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dra_driverkit.cdi import ContainerEdits

from dra_conformance.areas.cdi import AREA
from dra_conformance.check import Breach, NotShown
from dra_conformance.claims import Claim, Device, Result
from dra_conformance.edits import common_edits, edits_of
from dra_conformance.session import Session

__all__ = ["AREA"]

_PROTO = "staging/src/k8s.io/kubelet/pkg/apis/dra/v1/api.proto (Device.request_names, Device.cdi_device_ids)"
_BASES = ("prepare.several-devices", "cdi.defined", "cdi.schema", "cdi.unique")


@dataclass
class Given:
    """The edits that containers get with each of two devices: in a claim for it alone, and in a claim for both."""

    devices: Sequence[Device]
    alone: dict[str, set[str]] = field(default_factory=dict)
    together: dict[str, set[str]] = field(default_factory=dict)

    def own(self, device: Device) -> set[str]:
        """Return the edits that containers get with this device and not with the other."""
        others = [self.alone.get(one.name, set()) for one in self.devices if one is not device]
        return self.alone.get(device.name, set()).difference(*others)

    @property
    def differs(self) -> bool:
        """True if each device has edits that the other lacks."""
        return all(self.own(device) for device in self.devices)


@dataclass
class Pair:
    """Two devices: the edits that containers get with each, and whether a shared CDI device has edits of only one."""

    nodes: Given
    environment: Given
    mixed: bool = False


async def prepare_pair(session: Session) -> Pair:
    """Prepare a claim for each of two devices, and one with requests for both.

    Raises:
        NotOffered: the devices have the same name.
    """
    devices = session.pick(2)
    if devices[0].name == devices[1].name:
        raise NotShown("the devices are of two pools, and have one name")
    seen = Pair(Given(devices), Given(devices))
    for device in devices:
        async with session.claim([Result(device)]) as claim:
            answer = await session.prepare_or_skip(claim)
            seen.nodes.alone |= _nodes_of(session, answer)
            seen.environment.alone |= _environment_of(session, answer, claim)
    # The names of requests and devices have opposite orders, so that a driver that sorts one of them mixes both up.
    results = [Result(device, f"r{number}") for number, device in enumerate(reversed(devices))]
    async with session.claim(results) as claim:
        answer = await session.prepare_or_skip(claim)
        seen.nodes.together = _nodes_of(session, answer)
        seen.environment.together = _environment_of(session, answer, claim)
        common = _texts(common_edits(session, answer), claim)
        seen.mixed = any(common & seen.environment.own(device) for device in devices)
    return seen


@AREA.check(
    "right-device",
    "a claim with two devices has what both have",
    promise="A device comes with its own device nodes and environment, whatever else its claim has.",
    source=_PROTO + "; https://github.com/google/gvisor/issues/9389 (an index that is no minor number)",
    cost="A container opens a device that is allocated to another pod.",
    rests_on=_BASES,
)
async def _check_right_device(session: Session) -> None:
    found = await session.once(prepare_pair)
    seen = found.nodes
    if not seen.differs and not found.environment.differs:
        raise NotShown("two devices have neither device nodes nor environment of their own in the CDI files")
    _check_environment(found.environment)
    if not seen.differs:
        return
    for device in seen.devices:
        given = seen.together.get(device.name, set())
        if missing := seen.own(device) - given:
            raise Breach(
                f"{device.name} alone has {', '.join(sorted(missing))}; in a claim with two devices"
                f" {', '.join(sorted(given)) or 'nothing'}"
            )


def _check_environment(seen: Given) -> None:
    """Check that the claim with both devices has the environment of each.

    A CDI device for the whole claim may join the values of its devices in one variable.
    """
    if not seen.differs:
        return
    given = [text.partition("=") for texts in seen.together.values() for text in texts]
    for device in seen.devices:
        for text in sorted(seen.own(device)):
            name, _, value = text.partition("=")
            if not any(known == name and value in joined for known, _, joined in given):
                raise Breach(f"{device.name} alone has {text}, and a claim with two devices has it nowhere")


@AREA.check(
    "by-request",
    "a request has the CDI devices of its own device only",
    promise="The CDI ids of a device have no device nodes of the claim's others, and no environment of theirs: a"
    " container may name one request.",
    source=_PROTO + "; pkg/kubelet/cm/dra/claiminfo.go (cdiDevicesAsList of a request)",
    cost="A container that names one request of its claim gets the devices of all, such as its sidecar's.",
    rests_on=(*_BASES, "cdi.right-device"),
)
async def _check_by_request(session: Session) -> None:
    found = await session.once(prepare_pair)
    # A CDI device that is used for the whole claim may describe all its devices in the environment.
    looked = [seen for seen in (found.nodes, *([] if found.mixed else [found.environment])) if seen.differs]
    if not looked and found.mixed:
        raise NotShown("a CDI device of the claim has the environment of several of its devices")
    if not looked:
        raise NotShown("two devices have neither device nodes nor environment of their own in the CDI files")
    for seen in looked:
        for device, other in itertools.permutations(seen.devices):
            if more := seen.together.get(device.name, set()) & seen.own(other):
                raise Breach(
                    f"the request for {device.name} comes with {', '.join(sorted(more))} of {other.name}"
                )


def _nodes_of(session: Session, answer: Any) -> dict[str, set[str]]:
    return {
        name: {node.path for part in edits for node in part.device_nodes}
        for name, edits in edits_of(session, answer).items()
    }


def _environment_of(session: Session, answer: Any, claim: Claim) -> dict[str, set[str]]:
    """Return the environment for each device, with the claim's own names replaced by fixed ones."""
    return {name: _texts(edits, claim) for name, edits in edits_of(session, answer).items()}


def _texts(edits: Sequence[ContainerEdits], claim: Claim) -> set[str]:
    return {text.replace(claim.uid, "UID").replace(claim.name, "NAME") for part in edits for text in part.env}
