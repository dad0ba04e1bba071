"""A kubelet by itself: API server in memory, simulated runtime, and a clock that tests advance."""

import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dra_node_agent.kubelet.devicemanager.manager import DeviceManager, Surroundings
from dra_node_agent.kubelet.kubelet import Kubelet, KubeletConfig
from dra_node_agent.kubelet.node import NodeShape
from dra_node_agent.kubelet.registration.watch import DirectoryWatcher
from dra_node_agent.runtime.base import ContainerRecord, LogOptions
from dra_node_agent.runtime.fake import FakeRuntime
from dra_shared.api.codec import convert
from dra_shared.api.core import ConfigMap
from dra_shared.api.pod import Pod
from dra_shared.api.resources import EVENTS, PODS, RESOURCE_CLAIMS
from dra_shared.client.store import Store
from dra_shared.clock import FakeClock, settle
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject

from tests.support.fakeapi import FakeApi
from tests.support.waiting import until

#: A program that exits on SIGTERM. Its line says so.
SLEEPER = ["sh", "-c", "trap 'exit 0' TERM; echo hello; sleep 9999 & wait"]


def pod(name: str = "pod", *containers: JsonObject, **spec: Any) -> JsonObject:
    """Return a pod on the test's node, by default with one container that runs until it is stopped."""
    main = list(containers) or [{"name": "main", "image": "busybox", "command": SLEEPER}]
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": f"{name}-uid", "generation": 1},
        "spec": {"nodeName": "node", "restartPolicy": "Always", "containers": main, **spec},
        "status": {"phase": "Pending"},
    }


def claim(name: str, *pods: str, driver: str = "test-driver") -> JsonObject:
    """Return an allocated claim that is reserved for these pods."""
    result = {"request": "request", "driver": driver, "pool": "pool", "device": name}
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": f"{name}-uid"},
        "spec": {"devices": {"requests": [{"name": "request"}]}},
        "status": {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": name, "uid": f"{name}-uid"} for name in pods],
        },
    }


def no_devices(folder: Path) -> DeviceManager:
    """Return the device manager of a node without device plugins."""
    around = Surroundings(active_pods=lambda: (), sources_ready=lambda: True)
    return DeviceManager(folder / "device-plugins", FakeClock(), around, durable=False)


class Bench:
    """See the module's docstring. Leaving the context ends the kubelet, as a stop of its process does."""

    def __init__(
        self,
        folder: Path | None = None,
        api: FakeApi | None = None,
        clock: FakeClock | None = None,
        topology_policy: str = "none",
        features: FeatureGates | None = None,
    ) -> None:
        # Sockets need short paths.
        self._temporary = None if folder else tempfile.TemporaryDirectory(prefix="k", dir="/tmp")
        self.folder = folder or Path(self._temporary.name if self._temporary else "")
        self.api = api or FakeApi()
        self.clock = clock or FakeClock()
        self.cdi = self.folder / "cdi"
        self.cdi.mkdir(exist_ok=True)
        self.root = self.folder / "kubelet"
        self.registry = self.root / "plugins_registry"
        self.device_plugins = self.root / "device-plugins"
        self.registry.mkdir(parents=True, exist_ok=True)
        self._watcher = DirectoryWatcher()
        self.runtime = FakeRuntime(
            self.folder / "runtime", self.cdi, self.clock, readable=(self.root,), node_ip="127.0.0.1"
        )
        self.config_maps: Store[ConfigMap] = Store()
        self.kubelet = Kubelet(
            KubeletConfig(
                self.root,
                NodeShape("node"),
                features or FeatureGates(),
                durable=False,
                topology_policy=topology_policy,
            ),
            self.api.client(),
            self.clock,
            self.runtime,
            self._watcher,
            self.config_maps,
        )
        self.api.on_write = self._handle_change

    async def __aenter__(self) -> Self:
        await self._watcher.__aenter__()
        await self.kubelet.start()
        for obj in self.api.find_all(PODS):
            self.kubelet.handle_pod(obj)
        self.kubelet.mark_synced()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.api.on_write = lambda event, resource, obj: None
        await self.kubelet.close()
        await self._watcher.__aexit__(kind, error, traceback)
        if self._temporary is not None:
            self._temporary.cleanup()

    def _handle_change(self, event: str, resource: str, obj: JsonObject) -> None:
        if resource != "pods":
            return
        pod = convert(PODS, obj)
        if event == "DELETED":
            self.kubelet.handle_deletion(pod)
        else:
            self.kubelet.handle_pod(pod)

    def create(self, obj: JsonObject) -> None:
        """Create a pod that is bound to this node."""
        self.api.put(PODS, obj)

    def add_claim(self, obj: JsonObject) -> None:
        """Create a claim."""
        self.api.put(RESOURCE_CLAIMS, obj)

    def delete(self, name: str, grace: int = 30) -> None:
        """Request the deletion of a pod, as a client does."""
        obj = self.api.get("pods", "ns", name)
        obj["metadata"] = {
            **obj["metadata"],
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "deletionGracePeriodSeconds": grace,
        }
        self.api.add(obj)

    def force_delete(self, name: str) -> None:
        """Remove a pod's object without notice to the kubelet."""
        self.api.remove("pods", "ns", name)

    def pod(self, name: str = "pod") -> Pod | None:
        """Return the stored pod."""
        found: Pod | None = self.api.find(PODS, name, "ns")
        return found

    def phase(self, name: str = "pod") -> str:
        """Return the pod's phase. Empty once it is gone."""
        found = self.pod(name)
        return found.status.phase if found is not None else ""

    async def wait_for_running(self, *names: str) -> None:
        """Wait until the pods are Running, and each of their containers has printed something.

        A kubelet reports a container before its program has set its traps, and a signal that comes earlier is lost.
        """
        for name in names or ("pod",):
            await until(partial(self._runs, name))

    async def _runs(self, name: str) -> bool:
        printed = [await self._read_log(record) for record in self.kubelet.records(f"{name}-uid")]
        return self.phase(name) == "Running" and all(printed)

    async def events(self, kind: str = "") -> list[tuple[str, str]]:
        """Return reason and message of every event, or of those about objects of ``kind``, in order."""
        await settle(50)
        return [
            (event.reason, event.message)
            for event in self.api.find_all(EVENTS)
            if kind in ("", event.involved_object.kind)
        ]

    async def log(self, name: str = "pod") -> str:
        """Return the output of the pod's newest container."""
        records = sorted(self.kubelet.records(f"{name}-uid"), key=lambda record: record.attempt)
        return await self._read_log(records[-1])

    async def prints(self, text: str) -> None:
        """Wait until the pod's newest container has printed this, and nothing else."""

        async def has_printed() -> bool:
            return bool(self.kubelet.records("pod-uid")) and await self.log() == text

        await until(has_printed, describe=self.log)

    async def _read_log(self, record: ContainerRecord) -> str:
        return b"".join([piece async for piece in self.runtime.logs(record.id, LogOptions())]).decode()


def reasons(events: Sequence[tuple[str, str]]) -> list[str]:
    """Return the events' reasons."""
    return [reason for reason, _ in events]
