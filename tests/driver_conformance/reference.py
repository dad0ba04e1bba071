"""A driver as a vendor might write it by hand, on plain gRPC and HTTP: it passes every check of the suite."""

import asyncio
import contextlib
import json
import os
import shutil
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from dra_conformance.driverprocess import Ended, Usage
from dra_driverkit.proto import (
    dra_v1_pb2,
    dra_v1beta1_pb2,
    health_v1_pb2,
    health_v1alpha1_pb2,
    registration_v1_pb2,
    rpc,
)
from dra_shared.client.rest import Client
from dra_shared.jsontypes import JsonObject
from dra_shared.version import DEFAULT, V1_35, V1_36, V1_37
from grpc import aio

from tests.driver_conformance.servicers import DraServicer, HealthServicer, Refused, RegistrationServicer

_API = "/apis/resource.k8s.io/v1"
_SHARED = "board"
_TYPE = "partition"
_METADATA = ("metadata.resource.k8s.io/v1beta1", "metadata.resource.k8s.io/v1alpha1")


class Reference:
    """See the module's docstring.

    Args:
        root: with ``kubelet`` and ``cdi``, as the suite lays them out.
        log: what the driver writes to its log; it outlives the driver.
    """

    name = "mutant.example.com"
    kind = "mutant.example.com/device"
    period = 0.1
    report_every = 0.2
    serves_beta = True
    slice_size = 64
    version = DEFAULT
    rules: ClassVar[Sequence[JsonObject] | None] = None

    def __init__(
        self, root: Path, node: str, client: Client, log: list[str], instance: str = "0", count: int = 3
    ) -> None:
        self.count = count
        self.node = node
        self.client = client
        self.alive = True
        self.plugins = root / "kubelet" / "plugins" / self.name
        self.cdi = root / "cdi"
        self.registry = root / "kubelet" / "plugins_registry"
        self.socket = self.plugins / f"dra-{instance}.sock"
        self.registration_socket = self.registry / f"{self.name}-{instance}.sock"
        self.log = log
        self.prepared: dict[str, list[JsonObject]] = {}
        self.lock = asyncio.Lock()
        self.files: list[int] = []
        self.threads = 1
        self.memory = 0
        self._server: aio.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []

    # Start and stop.

    async def start(self) -> None:
        self.plugins.mkdir(parents=True, exist_ok=True)
        try:
            self.load()
        except ValueError as error:
            self.log.append(f"cannot read the checkpoint: {error}")
            self.alive = False
            return
        await self.serve()
        self._tasks = [asyncio.create_task(self.keep_publishing())]

    async def serve(self) -> None:
        server = self._server = aio.server(options=(("grpc.so_reuseport", 0),))
        rpc.serve(dra_v1_pb2, "DRAPlugin", DraServicer(self, dra_v1_pb2), server)
        if self.serves_beta:
            rpc.serve(dra_v1beta1_pb2, "DRAPlugin", DraServicer(self, dra_v1beta1_pb2), server)
        rpc.serve(health_v1_pb2, "DRAResourceHealth", HealthServicer(self), server)
        rpc.serve(health_v1alpha1_pb2, "DRAResourceHealth", HealthServicer(self), server)
        rpc.serve(registration_v1_pb2, "Registration", RegistrationServicer(self), server)
        for socket in (self.socket, self.registration_socket):
            self.listen(server, socket)
        await server.start()

    def listen(self, server: aio.Server, socket: Path) -> None:
        socket.unlink(missing_ok=True)
        server.add_insecure_port(f"unix:{socket}")

    async def stop(self) -> int | None:
        """Stop gracefully. Return the exit code, or None if the driver does not end."""
        await self.crash()
        for socket in (self.socket, self.registration_socket):
            socket.unlink(missing_ok=True)
        return 0

    async def crash(self) -> None:
        """Stop at once without any cleanup, as after SIGKILL."""
        self.alive = False
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server is not None:
            await self._server.stop(None)
        for descriptor in self.files:
            os.close(descriptor)
        self.files.clear()

    # Registration

    def services(self) -> Sequence[str]:
        return ("v1.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")

    def info(self) -> Any:
        return registration_v1_pb2.PluginInfo(
            type="DRAPlugin", name=self.name, endpoint=str(self.socket), supported_versions=self.services()
        )

    async def handle_notification(self, request: Any) -> None:
        self.log.append(f"registered: {request.plugin_registered} {request.error}")

    # Slices

    def devices(self) -> list[JsonObject]:
        attributes = {
            "model": {"string": "mutant"},
            "resource.kubernetes.io/pciBusID": {"string": "0000:65:00.0"},
            "resource.kubernetes.io/numaNode": {"int": 0},
        }
        plain: list[JsonObject] = [
            {"name": f"dev-{number}", "attributes": {**attributes, "serial": {"string": f"S{number}"}}}
            for number in range(self.count)
        ]
        shared = {
            "name": "shared-0",
            "allowMultipleAllocations": True,
            "capacity": {"memory": {"value": "8Gi", "requestPolicy": {"default": "1Gi"}}},
            **self.node_resources(),
        }
        parts = [
            {
                "name": name,
                "attributes": {_TYPE: {"string": name.partition("-")[0]}},
                "consumesCounters": [{"counterSet": _SHARED, "counters": {"units": {"value": units}}}],
            }
            for name, units in (("whole", "4"), ("part-0", "2"), ("part-1", "2"))
        ]
        # None means no health information: the driver only wants the device to be listed. Kubernetes 1.34
        # does not know it.
        effect = "None" if self.version >= V1_35 else "NoSchedule"
        taint = {"key": f"{self.name}/worn", "effect": effect, "value": "true"}
        return [*plain, shared, *parts, {"name": "worn-0", "taints": [taint]}]

    def contents(self) -> list[JsonObject]:
        """Return the contents of each slice."""
        counters = [{"name": _SHARED, "counters": {"units": {"value": "4"}}}]
        devices = self.devices()
        size = self.slice_size
        parts = [devices[start : start + size] for start in range(0, len(devices), size)]
        if self.version < V1_35:
            # In 1.34, counters have to be in the slice of the devices that consume them.
            parted = {"devices": parts[-1], "sharedCounters": counters}
            return [*({"devices": part} for part in parts[:-1]), parted]
        typed = {"partitionTypeAttribute": f"{self.name}/{_TYPE}"} if self.version >= V1_37 else {}
        return [
            *(
                {"devices": part, **(typed if any("consumesCounters" in one for one in part) else {})}
                for part in parts
            ),
            {"sharedCounters": counters},
        ]

    def node_resources(self) -> JsonObject:
        """Return the node resources of its shared device, in the form of the API server's version."""
        if self.version < V1_36:
            return {}
        if self.version < V1_37:
            return {
                "nodeAllocatableResourceMappings": {
                    "memory": {"capacityKey": "memory", "allocationMultiplier": "1"}
                }
            }
        return {
            "nodeAllocatableResources": {
                "memory": {"mapping": {"capacityKey": "memory", "capacityMultiplier": "1"}}
            }
        }

    async def keep_publishing(self) -> None:
        owner = await self.get(f"/api/v1/nodes/{self.node}")
        while True:
            with contextlib.suppress(OSError, RuntimeError):
                await self.publish(owner["metadata"]["uid"])
            await asyncio.sleep(self.period)

    async def publish(self, owner: str) -> None:
        contents = self.contents()
        found = await self.own_slices()
        generation = max((one["spec"]["pool"].get("generation", 1) for one in found), default=1)
        good = {id(one): self.is_current(one, contents) for one in found}
        if any(self.place(one) >= 0 and not good[id(one)] for one in found):
            # The whole pool is published again, because old and new slices must not be mistaken for one pool.
            generation, good = generation + 1, {}
        kept = [one for one in found if good.get(id(one))]
        for one in found:
            if one not in kept:
                await self.send("DELETE", f"{_API}/resourceslices/{one['metadata']['name']}")
        have = {self.place(one) for one in kept}
        for place, content in enumerate(contents):
            if place not in have:
                body = self.slice(place, content, generation, len(contents), owner)
                await self.send("POST", f"{_API}/resourceslices", body)

    def place(self, found: JsonObject) -> int:
        """Return the index of the wanted slice that ``found`` stores, or -1 if the driver did not create ``found``."""
        name: str = found["metadata"]["name"]
        return int(name.split("-")[0]) if name[0].isdigit() else -1

    def is_current(self, found: JsonObject, contents: Sequence[JsonObject]) -> bool:
        place = self.place(found)
        complete = found["spec"]["pool"]["resourceSliceCount"] == len(contents)
        return 0 <= place < len(contents) and complete and self.same(found["spec"], contents[place])

    async def own_slices(self) -> list[JsonObject]:
        selector = f"spec.nodeName={self.node},spec.driver={self.name}"
        listed = await self.get(f"{_API}/resourceslices?fieldSelector={selector.replace('=', '%3D')}")
        found: list[JsonObject] = listed["items"]
        return found

    def same(self, spec: JsonObject, content: JsonObject) -> bool:
        """True if the slice has these devices with these attributes."""
        published, wanted = (
            [(one["name"], one.get("attributes")) for one in part.get("devices") or ()]
            for part in (spec, content)
        )
        return published == wanted

    def slice(self, place: int, content: JsonObject, generation: int, count: int, owner: str) -> JsonObject:
        node = {"apiVersion": "v1", "kind": "Node", "name": self.node, "uid": owner, "controller": True}
        pool = {"name": self.node, "generation": generation, "resourceSliceCount": count}
        return {
            "metadata": {"generateName": f"{place}-{self.node}-", "ownerReferences": [node]},
            "spec": {"driver": self.name, "nodeName": self.node, "pool": pool, **content},
        }

    # Claims

    def message(self, messages: Any, device: JsonObject) -> JsonObject:
        """Return a prepared device in the messages of one version of the service."""
        return device

    async def prepare(self, claims: Sequence[Any]) -> dict[str, list[JsonObject] | str]:
        """Return devices, or an error, by UID."""
        answers: dict[str, list[JsonObject] | str] = {}
        for claim in claims:
            try:
                answers[claim.uid] = await self.prepare_one(claim)
            except Refused as error:
                answers[claim.uid] = str(error)
        return answers

    async def prepare_one(self, claim: Any) -> list[JsonObject]:
        found = await self.read(claim)
        async with self.lock:
            known = self.prepared.get(claim.uid)
            if known is None:
                self.check_free(found)
            devices = known if known is not None else self.ready(found)
            self.describe(found, devices)
            self.write_cdi(claim.uid, self.spec(claim.uid, devices))
            self.prepared[claim.uid] = devices
            self.save()
            return devices

    def check_free(self, claim: JsonObject) -> None:
        """Reject a device that another claim has, unless one of them has it as a share or with admin access."""
        held = {
            device["device_name"]
            for devices in self.prepared.values()
            for device in devices
            if not device["share_id"] and not device["admin"]
        }
        for result in claim["status"]["allocation"]["devices"]["results"]:
            if result["driver"] == self.name and result["device"] in held and not result.get("adminAccess"):
                raise Refused(f"{result['device']} is in use")

    async def read(self, claim: Any) -> JsonObject:
        try:
            found = await self.get(f"{_API}/namespaces/{claim.namespace}/resourceclaims/{claim.name}")
        except RuntimeError as error:
            raise Refused(f"claim {claim.name}: {error}") from error
        if found["metadata"]["uid"] != claim.uid:
            raise Refused(f"claim {claim.name} was replaced")
        if not found.get("status", {}).get("allocation"):
            raise Refused(f"claim {claim.name} is not allocated")
        return found

    def ready(self, claim: JsonObject) -> list[JsonObject]:
        """Return the claim's devices as in the driver's response."""
        devices = claim["status"]["allocation"]["devices"]
        known = {one["name"] for one in self.devices()}
        answers = []
        for result in devices["results"]:
            if result["driver"] != self.name:
                continue
            if result["device"] not in known:
                raise Refused(f"unknown device {result['device']}")
            color = self.color(self.configs_of(devices.get("config") or (), result["request"]))
            answers.append(self.answer(claim["metadata"]["uid"], result, color))
        for answer in answers:
            answer["shown"] = self.container_path(claim, answer["request_names"][0])
            answer["described"] = str(self.metadata_path(claim, answer["request_names"][0]))
        return answers

    def answer(self, uid: str, result: JsonObject, color: str) -> JsonObject:
        part = "-".join(filter(None, (uid, result["device"], result.get("shareID"))))
        return {
            "request_names": [result["request"].partition("/")[0]],
            "pool_name": result["pool"],
            "device_name": result["device"],
            "cdi_device_ids": [f"{self.kind}={part}"],
            "share_id": result.get("shareID"),
            "consumed": result.get("consumedCapacity", {}),
            "color": color,
            "admin": result.get("adminAccess", False),
        }

    def configs_of(self, configs: Sequence[JsonObject], request: str) -> Sequence[JsonObject]:
        """Return the configurations for the request. Those of the claim follow, and so override those of the class."""
        names = {request, request.partition("/")[0]}
        own = [one for one in configs if not one.get("requests") or names & set(one["requests"])]
        return sorted(own, key=lambda one: one["source"] == "FromClaim")

    def color(self, configs: Sequence[JsonObject]) -> str:
        color = "grey"
        for config in configs:
            if config["opaque"]["driver"] != self.name:
                continue
            parameters = config["opaque"]["parameters"]
            if (parameters.get("apiVersion"), parameters.get("kind")) != (f"{self.name}/v1", "Paint"):
                raise Refused("unknown kind of parameters")
            self.check_layers(parameters.get("layers", []))
            if unknown := parameters.keys() - {"apiVersion", "kind", "color", "layers"}:
                raise Refused(f"unknown fields: {', '.join(sorted(unknown))}")
            color = parameters.get("color", color)
            if not isinstance(color, str):
                raise Refused("color is no string")
        return color

    #: The fields of a layer of paint.
    layer_fields: ClassVar[frozenset[str]] = frozenset(("gloss",))

    def check_layers(self, layers: Any) -> None:
        if not isinstance(layers, list) or not all(isinstance(one, dict) for one in layers):
            raise Refused("layers is no list of objects")
        for layer in layers:
            if unknown := layer.keys() - self.layer_fields:
                raise Refused(f"unknown fields of a layer: {', '.join(sorted(unknown))}")

    async def unprepare(self, claims: Sequence[Any]) -> dict[str, str]:
        """Return an error by UID, empty on success."""
        return {claim.uid: await self.unprepare_one(claim) for claim in claims}

    async def unprepare_one(self, claim: Any) -> str:
        async with self.lock:
            self.remove_cdi(claim.uid)
            self.forget(claim)
            self.prepared.pop(claim.uid, None)
            self.save()
        return ""

    # Files

    def spec(self, uid: str, devices: Sequence[JsonObject]) -> JsonObject:
        return {
            "cdiVersion": "0.5.0",
            "kind": self.kind,
            "devices": [self.cdi_device(one) for one in devices],
        }

    def cdi_device(self, device: JsonObject) -> JsonObject:
        name = device["device_name"].upper().replace("-", "_")
        return {
            "name": device["cdi_device_ids"][0].partition("=")[2],
            "containerEdits": {
                # Needs 0.5.0, because the path on the host differs.
                "deviceNodes": [{"path": f"/dev/{device['device_name']}", "hostPath": "/dev/null"}],
                "env": [
                    f"{name}_COLOR={device['color']}",
                    *(f"{name}_{key.upper()}={value}" for key, value in device["consumed"].items()),
                ],
                "mounts": [
                    {"hostPath": "/tmp", "containerPath": "/mutant", "options": ["ro"]},
                    *self.metadata_mounts(device),
                ],
                "hooks": [{"hookName": "createContainer", "path": "/bin/sh", "args": ["sh", "-c", "true"]}],
            },
        }

    def cdi_path(self, uid: str) -> Path:
        return self.cdi / f"mutant.example.com-device_{uid}.json"

    def write_cdi(self, uid: str, document: JsonObject) -> None:
        path = self.cdi_path(uid)
        part = path.with_name(f".{path.name}.part")
        part.write_text(json.dumps(document))
        part.replace(path)

    def remove_cdi(self, uid: str) -> None:
        self.cdi_path(uid).unlink(missing_ok=True)

    @property
    def checkpoint(self) -> Path:
        return self.plugins / "checkpoint.json"

    def save(self) -> None:
        self.write_checkpoint(json.dumps(self.prepared).encode())

    def write_checkpoint(self, data: bytes) -> None:
        self.write_whole(self.checkpoint, data)

    def write_whole(self, path: Path, data: bytes) -> None:
        """Replace the file by a new one, so that a crash leaves one of them."""
        part = path.with_suffix(".part")
        part.write_bytes(data)
        part.replace(path)

    def load(self) -> None:
        if self.checkpoint.exists():
            self.prepared = json.loads(self.checkpoint.read_text())
        for path in self.cdi.glob("mutant.example.com-device_*.json"):
            if path.stem.rpartition("_")[2] not in self.prepared:
                path.unlink()

    # Metadata

    mount_options: ClassVar[Sequence[str]] = ("ro", "bind")

    def describe(self, claim: JsonObject, devices: Sequence[JsonObject]) -> None:
        """Write the metadata of each request's devices for programs in containers."""
        for request in {one["request_names"][0] for one in devices}:
            path = self.metadata_path(claim, request)
            path.parent.mkdir(parents=True, exist_ok=True)
            own = [one for one in devices if one["request_names"][0] == request]
            document = self.metadata(claim, request, own)
            path.write_text("\n".join(json.dumps(one) for one in self.versions(document)))

    def metadata(self, claim: JsonObject, request: str, devices: Sequence[JsonObject]) -> JsonObject:
        attributes = {one["name"]: one.get("attributes", {}) for one in self.devices()}
        meta = {key: claim["metadata"][key] for key in ("name", "namespace", "uid")}
        described = [
            {
                "driver": self.name,
                "pool": one["pool_name"],
                "name": one["device_name"],
                "attributes": attributes[one["device_name"]],
            }
            for one in devices
        ]
        return {
            "apiVersion": "metadata.resource.k8s.io/v1alpha1",
            "kind": "DeviceMetadata",
            "metadata": {**meta, "generation": 1},
            "requests": [{"name": request, "devices": described}],
        }

    def versions(self, document: JsonObject) -> list[JsonObject]:
        """Yield the metadata in each supported version."""
        return [
            {**document, "apiVersion": version} if "apiVersion" in document else document
            for version in _METADATA
        ]

    def metadata_path(self, claim: JsonObject, request: str) -> Path:
        uid: str = claim["metadata"]["uid"]
        return self.plugins / "metadata" / uid / f"{request}.json"

    def container_path(self, claim: JsonObject, request: str) -> str:
        meta = claim["metadata"]
        template = meta.get("annotations", {}).get("resource.kubernetes.io/pod-claim-name")
        owner = f"resourceclaimtemplates/{template}" if template else f"resourceclaims/{meta['name']}"
        return f"/var/run/kubernetes.io/dra-device-attributes/{owner}/{request}/{self.name}-metadata.json"

    def metadata_mounts(self, device: JsonObject) -> list[JsonObject]:
        if "described" not in device:
            return []
        return [
            {
                "hostPath": device["described"],
                "containerPath": device["shown"],
                "options": self.mount_options,
            }
        ]

    def forget(self, claim: Any) -> None:
        shutil.rmtree(self.plugins / "metadata" / claim.uid, ignore_errors=True)

    # Health

    async def reports(self) -> AsyncIterator[list[Any]]:
        while True:
            yield [self.health(device["name"]) for device in self.devices()]
            await asyncio.sleep(self.report_every)

    def health(self, device: str) -> Any:
        return health_v1_pb2.DeviceHealth(
            device=health_v1_pb2.DeviceIdentifier(pool_name=self.node, device_name=device),
            health="HEALTHY",
            last_updated_time=int(time.time()),
        )

    # The API server

    async def get(self, path: str) -> JsonObject:
        return await self.send("GET", path)

    async def send(self, method: str, path: str, body: JsonObject | None = None) -> JsonObject:
        content = None if body is None else json.dumps(body).encode()
        answer = await self.client.raw(method, path, content=content)
        if answer.status_code >= 400 and not (method == "DELETE" and answer.status_code == 404):
            raise RuntimeError(f"{method} {path}: {answer.status_code}")
        found: JsonObject = json.loads(answer.content)
        return found


class LocalDriver:
    """Starts, stops and kills such a driver for the suite."""

    restarts = True
    instances = True
    scales = True

    def __init__(self, made: type[Reference], root: Path, node: str, client: Client) -> None:
        self._made = made
        self._root, self._node, self._client = root, node, client
        self._log: list[str] = []
        self.devices = 3
        self._running: dict[str, Reference] = {}

    async def start(self, instance: str = "0") -> None:
        driver = self._made(self._root, self._node, self._client, self._log, instance, self.devices)
        self._running[instance] = driver
        await driver.start()

    async def stop(self, within: float, instance: str = "0") -> Ended:
        driver = self._running.pop(instance)
        code = await driver.stop()
        if code is None:
            await driver.crash()
        return Ended(code, 0.0)

    async def kill(self, instance: str = "0") -> None:
        driver = self._running.pop(instance, None)
        if driver is not None:
            await driver.crash()

    def alive(self) -> bool:
        return all(driver.alive for driver in self._running.values())

    def output(self) -> str:
        return "\n".join(self._log)

    def usage(self) -> Usage | None:
        driver = self._running["0"]
        return Usage(len(driver.files), driver.threads, driver.memory)
