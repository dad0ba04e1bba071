"""The container edits of the CDI devices in a driver's answer."""

from collections.abc import Mapping
from typing import Any

from dra_driverkit.cdi import ContainerEdits, Spec

from dra_conformance.session import Session


def edits_of(session: Session, answer: Any) -> Mapping[str, list[ContainerEdits]]:
    """Return the container edits for each device of the answer, by its name: those of its CDI devices and files."""
    known = edits_by_id(session)
    return {
        one.device_name: [edits for name in one.cdi_device_ids for edits in known.get(name, ())]
        for one in answer.devices
    }


def common_edits(session: Session, answer: Any) -> list[ContainerEdits]:
    """Return the edits of the CDI devices that each of several devices of the answer has."""
    if len(answer.devices) < 2:
        return []
    known = edits_by_id(session)
    shared = set.intersection(*(set(one.cdi_device_ids) for one in answer.devices))
    return [edits for name in sorted(shared) for edits in known.get(name, ())]


def edits_by_id(session: Session) -> Mapping[str, list[ContainerEdits]]:
    """Return the container edits of each CDI device in the directory, by its qualified name."""
    return {
        f"{spec.kind}={device.name}": [spec.container_edits, device.container_edits]
        for spec in session.cdi.specs().values()
        if isinstance(spec, Spec)
        for device in spec.devices
    }
