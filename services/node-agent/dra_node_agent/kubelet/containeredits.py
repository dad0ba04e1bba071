"""The devices of a pod's containers: the claim of each CDI device, and its container edits.

The kubelet passes CDI ids to the runtime, which edits the container according to its spec files. On a real node
``crictl inspect`` shows the result. Here an endpoint of the kubelet serves the ids and the edits.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from dra_shared.api.container import Container
from dra_shared.api.pod import Pod
from dra_shared.jsontypes import JsonObject

from dra_node_agent.kubelet.containers import plugin_devices
from dra_node_agent.kubelet.devicemanager.manager import DeviceManager
from dra_node_agent.kubelet.devicemanager.types import DeviceRunContainerOptions
from dra_node_agent.kubelet.dra.errors import DraError
from dra_node_agent.kubelet.dra.manager import DraManager
from dra_node_agent.kubelet.podstatus import ephemeral_containers
from dra_node_agent.runtime.base import Runtime, RuntimeFailure
from dra_node_agent.runtime.cdiedits import plugin_edits


class PreparedDevice(msgspec.Struct, rename="camel", omit_defaults=True):
    """A device of a claim as prepared by its driver."""

    claim: str
    driver: str
    pool: str
    device: str
    requests: Sequence[str] = ()
    share_id: str = msgspec.field(default="", name="shareID")
    cdi_devices: Sequence[str] = ()


class Injected(msgspec.Struct, rename="camel", omit_defaults=True):
    """The edits of one CDI device, or of device plugins if it has no name.

    ``problem`` is set if the spec file is missing.
    """

    name: str
    edits: JsonObject = msgspec.field(default_factory=dict)
    problem: str = ""


class EditedContainer(msgspec.Struct, rename="camel"):
    """A container: the devices of its claims, those of device plugins by resource, and their edits."""

    name: str
    devices: Sequence[PreparedDevice]
    plugin_devices: dict[str, list[str]]
    injected: Sequence[Injected]


class EditedPod(msgspec.Struct):
    """All containers of a pod."""

    containers: Sequence[EditedContainer]


def of_pod(pod: Pod, dra: DraManager, devices: DeviceManager, runtime: Runtime) -> EditedPod:
    """Return the pod's containers in the spec's order."""
    containers = (*pod.spec.init_containers, *pod.spec.containers, *ephemeral_containers(pod))
    return EditedPod([_of_container(pod, container, dra, devices, runtime) for container in containers])


def _of_container(
    pod: Pod, container: Container, dra: DraManager, devices: DeviceManager, runtime: Runtime
) -> EditedContainer:
    uid = pod.metadata.uid
    try:
        ids = dra.containers.cdi_device_ids(pod, container)
        prepared = list(_prepared_devices(pod, container, dra, frozenset(ids)))
    except DraError:
        # A claim is not prepared, so the container has not started either.
        ids, prepared = [], []
    options = devices.container_options(uid, container.name) or DeviceRunContainerOptions()
    injected = list(_injected_edits([*ids, *options.cdi_devices], runtime))
    if own := plugin_edits(plugin_devices(options), options.envs):
        injected.append(Injected("", own))
    plugins = {
        resource: sorted(found)
        for resource, found in (devices.get_devices(uid, container.name) or {}).items()
    }
    return EditedContainer(container.name, prepared, plugins, injected)


def _prepared_devices(
    pod: Pod, container: Container, dra: DraManager, ids: frozenset[str]
) -> Iterator[PreparedDevice]:
    """Yield the devices of the container's claims. Of a partially used claim, only the devices that it got."""
    for info in dra.containers.claims(pod, container):
        for driver, devices in info.devices.items():
            for device in devices:
                cdi_devices = device.cdi_device_ids or ()
                if cdi_devices and not ids.intersection(cdi_devices):
                    continue
                yield PreparedDevice(
                    info.name,
                    driver,
                    device.pool_name,
                    device.device_name,
                    device.request_names or (),
                    device.share_id or "",
                    cdi_devices,
                )


def _injected_edits(ids: Iterable[str], runtime: Runtime) -> Iterator[Injected]:
    for name in dict.fromkeys(ids):
        try:
            yield Injected(name, runtime.cdi_edits(name))
        except RuntimeFailure as error:
            yield Injected(name, problem=str(error))
