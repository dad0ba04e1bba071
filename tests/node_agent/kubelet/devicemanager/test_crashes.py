"""A kubelet that is killed at any step of an allocation keeps every device of a container, and allocates none twice."""

import asyncio
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from dra_driverkit.files import write_atomically
from dra_driverkit.proto import deviceplugin_v1beta1_pb2 as pb
from dra_node_agent.kubelet.devicemanager.checkpoint import CHECKPOINT_FILE, decode
from dra_node_agent.kubelet.devicemanager.manager import DeviceManager, Surroundings
from dra_node_agent.kubelet.devicemanager.types import Device, DeviceError, PluginOptions
from dra_shared.api.container import Container, ResourceRequirements
from dra_shared.api.meta import ObjectMeta
from dra_shared.api.pod import Pod, PodSpec
from dra_shared.clock import FakeClock

from tests.support.sampling import sample

RESOURCE = "example.com/gpu"
DEVICES = [Device(f"g{number}") for number in range(4)]


class Killed(BaseException):
    """The process has been killed."""


@dataclass
class Steps:
    """Counts the steps of an allocation, and kills the kubelet at one of them."""

    fatal: int = -1
    names: list[str] = field(default_factory=list)

    def reach(self, name: str) -> None:
        """Count one step."""
        self.names.append(name)
        if len(self.names) - 1 == self.fatal:
            raise Killed


class Plugin:
    """A plugin that survives the kubelet, like another process."""

    def __init__(self) -> None:
        self.steps = Steps()

    async def get_options(self) -> PluginOptions:
        return PluginOptions(get_preferred_allocation_available=True)

    async def get_preferred_allocation(
        self, available: Collection[str], must_include: Collection[str], size: int
    ) -> Sequence[Sequence[str]]:
        self.steps.reach("asked for a preference")
        return [sorted(available)[-size:]]

    async def allocate(self, devices: Collection[str]) -> Sequence[pb.ContainerAllocateResponse]:
        self.steps.reach("asked to allocate")
        await asyncio.sleep(0)
        self.steps.reach("allocated")
        return [pb.ContainerAllocateResponse(envs={"IDS": ",".join(sorted(devices))})]

    async def pre_start_container(self, devices: Collection[str]) -> None:
        return


class Kubelet:
    """A kubelet's device manager that can be restarted in one directory."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory = directory
        self.plugin = Plugin()
        self.pods: dict[str, Pod] = {}
        self.running: set[tuple[str, str]] = set()
        self.ready = True
        self.manager = self._new()
        monkeypatch.setattr("dra_node_agent.kubelet.checkpointmanager.write_atomically", self._write)

    def _new(self) -> DeviceManager:
        around = Surroundings(lambda: tuple(self.pods), lambda: self.ready)
        return DeviceManager(self.directory, FakeClock(), around, durable=False)

    def _write(self, path: Path, data: bytes, *, durable: bool) -> None:
        self.plugin.steps.reach("about to write")
        write_atomically(path, data, durable=durable)
        self.plugin.steps.reach("written")

    async def start(self) -> None:
        """Restart. Running pods are admitted before the plugin has registered, the others afterwards."""
        self.plugin.steps = Steps()
        self.manager, self.ready = self._new(), False
        self.manager.start(frozenset(self.running))
        for uid, pod in self.pods.items():
            if (uid, "c") in self.running:
                await self.manager.allocate(pod, pod.spec.containers[0])
        self.ready = True
        await self.manager.plugin_connected(RESOURCE, self.plugin)
        await self.manager.plugin_devices(RESOURCE, DEVICES)

    async def admit(self, uid: str, number: int) -> bool:
        """Admit a pod and start its container. Return False if there are not enough devices."""
        limits = ResourceRequirements(limits={RESOURCE: str(number)})
        container = Container(name="c", resources=limits)
        pod = self.pods[uid] = Pod(metadata=ObjectMeta(uid=uid), spec=PodSpec(containers=(container,)))
        try:
            await self.manager.allocate(pod, container)
        except DeviceError:
            del self.pods[uid]
            return False
        self.running.add((uid, "c"))
        return True

    def remove(self, uid: str) -> None:
        """Remove a pod that has ended."""
        del self.pods[uid]
        self.running.discard((uid, "c"))

    def devices_of(self, uid: str) -> set[str]:
        """Return the devices of the pod's container."""
        return self.manager.state.pod_devices.pod_devices(uid, RESOURCE)

    def check(self) -> None:
        """Check that no device has two pods, and that the file equals the manager's state."""
        seen: set[str] = set()
        for uid in self.pods:
            held = self.devices_of(uid)
            assert not held & seen
            seen |= held
        decode((self.directory / CHECKPOINT_FILE).read_bytes())


@pytest.fixture
def kubelet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kubelet:
    """Return a kubelet's device manager that has not started yet."""
    return Kubelet(tmp_path, monkeypatch)


STEPS = ("asked for a preference", "asked to allocate", "allocated", "about to write", "written")


@pytest.mark.parametrize("fatal", range(len(STEPS)))
async def test_a_kill_at_any_step_of_an_allocation_loses_no_device(kubelet: Kubelet, fatal: int) -> None:
    await kubelet.start()
    assert await kubelet.admit("first", 1)
    first = kubelet.devices_of("first")
    kubelet.plugin.steps = Steps(fatal)
    with pytest.raises(Killed):
        await kubelet.admit("second", 2)
    assert kubelet.plugin.steps.names == list(STEPS[: fatal + 1])
    await kubelet.start()
    kubelet.check()
    assert kubelet.devices_of("first") == first, "a running container keeps its devices"
    # The pod's container did not start, so the pod is admitted again, with the written devices or with
    # others.
    assert await kubelet.admit("second", 2)
    assert len(kubelet.devices_of("second")) == 2
    assert await kubelet.admit("third", 1)
    kubelet.check()
    assert not await kubelet.admit("fourth", 1), "nothing is lost, and nothing is left"


@pytest.mark.parametrize("fatal", [0, 1])
async def test_a_kill_while_a_device_list_is_written_loses_no_device(kubelet: Kubelet, fatal: int) -> None:
    await kubelet.start()
    assert await kubelet.admit("first", 1)
    kubelet.plugin.steps = Steps(fatal)
    with pytest.raises(Killed):
        await kubelet.manager.plugin_devices(RESOURCE, DEVICES[:2])
    first = kubelet.devices_of("first")
    await kubelet.start()
    assert kubelet.devices_of("first") == first
    assert (await kubelet.manager.get_capacity()).capacity == {RESOURCE: 4}


@pytest.mark.parametrize("seed", sample(range(20), 7))
async def test_random_kills_while_pods_start_and_end_lose_no_device(kubelet: Kubelet, seed: int) -> None:
    chance = random.Random(seed)
    await kubelet.start()
    promised: dict[str, set[str]] = {}
    for number in range(40):
        act = chance.choice(("admit", "admit", "remove"))
        kubelet.plugin.steps = Steps(chance.choice((-1, -1, *range(len(STEPS)))))
        if act == "remove" and kubelet.pods:
            uid = chance.choice(sorted(kubelet.pods))
            kubelet.remove(uid)
            promised.pop(uid, None)
            continue
        uid = f"pod-{number}"
        try:
            if await kubelet.admit(uid, chance.randint(1, 2)):
                promised[uid] = kubelet.devices_of(uid)
        except Killed:
            kubelet.remove(uid)
            await kubelet.start()
        kubelet.check()
        assert {pod: kubelet.devices_of(pod) for pod in promised} == promised
