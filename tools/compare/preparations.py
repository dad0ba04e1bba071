"""Random lives of a node: pods whose claims are prepared and unprepared while drivers fail and the kubelet restarts.

After each step, its error, the calls of drivers, the checkpoint and the CDI devices of containers are compared with
the DRA manager of a kubelet.
"""

import asyncio
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc
from dra_driverkit.proto import dra_v1_pb2, rpc
from dra_driverkit.transport import LocalSockets
from dra_node_agent.kubelet.dra.checkpoint import STATE_FILE
from dra_node_agent.kubelet.dra.connection import V1, DriverError
from dra_node_agent.kubelet.dra.errors import DraError
from dra_node_agent.kubelet.dra.manager import DraManager
from dra_shared.api.codec import convert
from dra_shared.api.meta import Status
from dra_shared.api.pod import Pod
from dra_shared.api.resources import PODS, RESOURCE_CLAIMS
from dra_shared.client.errors import ApiError
from dra_shared.clock import FakeClock
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import RECORDED, V1_37, Version

from tools.compare.draw import Draw

_DRIVERS = ("gpu.example.com", "nic.example.com")
_CLAIMS = ("c0", "c1", "c2", "c3")
_REQUESTS = ("r0", "r1")
_RESOURCES = ("example.com/gpu", "example.com/nic")
_SKIPPED = (["*"], ["NodePrepareResources", "NodeUnprepareResources"], ["NodeUnprepareResources"], ["Future"])
_CODES = {"Unavailable": 14, "Internal": 13, "Unknown": 2, "ResourceExhausted": 8}


def draw_node(seed: str, kubernetes: Version) -> JsonObject:
    """Return the steps that are drawn from a seed, with only the features and fields that the release has."""
    return _Node(Draw(f"{kubernetes} {seed}"), kubernetes).draw(seed)


class _Node:
    """The node whose steps are being drawn."""

    def __init__(self, draw: Draw, kubernetes: Version) -> None:
        self._draw = draw
        self._kubernetes = kubernetes
        self._templates = draw.weight()
        self._extended = draw.weight()
        self._broken = draw.pick((0.0, 0.0, 0.05, 0.2))
        self._failures = draw.pick((0.0, 0.1, 0.3))
        self._skips = draw.weight() if kubernetes >= V1_37 else 0.0
        self._drivers = _DRIVERS[: draw.pick((1, 1, 2))]

    def draw(self, name: str) -> JsonObject:
        draw = self._draw
        gates = {"DRAExtendedResource": True} if self._extended and draw.chance(0.8) else {}
        if self._skips:
            gates["DRAOptionalNodeOperations"] = draw.chance(0.8)
        pods = [self._pod(number) for number in range(draw.number(1, 3))]
        claims = [self._claim(one, len(pods)) for one in _CLAIMS if not draw.chance(self._broken)]
        drivers = [one for one in self._drivers if not draw.chance(self._broken)]
        steps = [self._step(claims, pods) for _ in range(draw.number(1, 9))]
        return {
            "name": name,
            "featureGates": gates,
            "pods": pods,
            "claims": claims,
            "drivers": drivers,
            "steps": steps,
        }

    def _pod(self, number: int) -> JsonObject:
        draw = self._draw
        entries: list[JsonObject] = []
        statuses: list[JsonObject] = []
        for index in range(draw.pick((0, 1, 1, 2, 2, 3))):
            entry: JsonObject = {"name": f"e{index}"}
            if draw.chance(self._templates):
                entry["resourceClaimTemplateName"] = "template"
                if not draw.chance(self._broken):
                    generated = {} if draw.chance(0.15) else {"resourceClaimName": draw.pick(_CLAIMS)}
                    statuses.append({"name": entry["name"], **generated})
            else:
                entry["resourceClaimName"] = draw.pick(_CLAIMS)
            entries.append(entry)
        containers = [self._container(f"k{index}", entries) for index in range(draw.pick((1, 1, 2)))]
        status: JsonObject = {"resourceClaimStatuses": statuses} if statuses else {}
        if draw.chance(self._extended):
            status["extendedResourceClaimStatus"] = {
                "resourceClaimName": draw.pick(_CLAIMS),
                "requestMappings": [
                    {
                        "containerName": draw.pick(("k0", "k1")),
                        "resourceName": draw.pick(_RESOURCES),
                        "requestName": draw.pick(_REQUESTS),
                    }
                    for _ in range(draw.number(1, 3))
                ],
            }
        return {
            "metadata": {"name": f"pod-{number}", "namespace": "default", "uid": f"pod-uid-{number}"},
            "spec": {"containers": containers, "resourceClaims": entries},
            "status": status,
        }

    def _container(self, name: str, entries: Sequence[JsonObject]) -> JsonObject:
        draw = self._draw
        resources: JsonObject = {}
        if entries and draw.chance(0.85):
            used = draw.sample([entry["name"] for entry in entries], 3)
            resources["claims"] = [
                {"name": one, "request": draw.pick(_REQUESTS)} if draw.chance(0.4) else {"name": one}
                for one in used
            ]
        if draw.chance(self._extended):
            requests = {one: draw.pick(("0", "1", "2")) for one in draw.sample(_RESOURCES, 2)}
            resources |= {"requests": requests, "limits": requests}
        return {"name": name, "image": "x", "resources": resources}

    def _claim(self, name: str, pods: int) -> JsonObject:
        draw = self._draw
        metadata: JsonObject = {
            "name": name,
            "namespace": "default",
            "uid": f"{name}-uid-{draw.number(0, 1)}" if draw.chance(self._broken) else f"{name}-uid",
        }
        if draw.chance(self._templates + self._extended):
            owner = draw.number(0, pods - 1)
            metadata["ownerReferences"] = [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": f"pod-{owner}",
                    "uid": f"pod-uid-{owner}",
                    "controller": True,
                }
            ]
        claim: JsonObject = {"metadata": metadata, "spec": {"devices": {}}, "status": {}}
        users = [number for number in range(pods) if not draw.chance(self._broken)]
        claim["status"]["reservedFor"] = [
            {"resource": "pods", "name": f"pod-{number}", "uid": f"pod-uid-{number}"} for number in users
        ]
        if not draw.chance(self._broken):
            results = [self._result(number) for number in range(draw.pick((0, 1, 1, 1, 2, 3)))]
            claim["status"]["allocation"] = {"devices": {"results": results}}
        return claim

    def _result(self, number: int) -> JsonObject:
        draw = self._draw
        result: JsonObject = {
            "request": draw.pick(_REQUESTS),
            "driver": draw.pick(self._drivers),
            "pool": "pool",
            "device": f"d{number}",
        }
        if draw.chance(self._skips):
            result["skipNodeOperations"] = draw.pick(_SKIPPED)
        return result

    def _step(self, claims: Sequence[JsonObject], pods: Sequence[JsonObject]) -> JsonObject:
        draw = self._draw
        step: JsonObject = {"pod": draw.number(0, len(pods) - 1), "behavior": self._behavior()}
        kind = draw.number(0, 29)
        if kind < 12:
            return {"operation": "prepare", **step}
        if kind < 19:
            return {"operation": "unprepare", **step}
        if kind < 24:
            return {"operation": "resources", **step}
        if kind < 27 or not claims:
            return {"operation": "restart"}
        if kind < 28:
            changed = draw.pick(claims)
            return {"operation": "setClaim", "claim": self._claim(changed["metadata"]["name"], len(pods))}
        if kind < 29:
            pod = self._pod(step["pod"])
            return {"operation": "setPod", "pod": step["pod"], "newPod": pod}
        return {"operation": draw.pick(("register", "deregister")), "driver": draw.pick(self._drivers)}

    def _behavior(self) -> JsonObject:
        return {driver: self._answers() for driver in self._drivers}

    def _answers(self) -> JsonObject:
        draw = self._draw
        if draw.chance(self._failures / 2):
            return {"code": draw.pick(tuple(_CODES.values())), "message": "out of order"}
        answers: JsonObject = {}
        for name in _CLAIMS:
            if draw.chance(self._failures):
                answers[f"{name}-uid"] = draw.pick((None, {"error": "no device"}))
            elif draw.chance(0.4):
                answers[f"{name}-uid"] = {
                    "devices": [self._device(name, number) for number in range(draw.number(0, 2))]
                }
        behavior: JsonObject = {"claims": answers} if answers else {}
        if draw.chance(self._failures / 4):
            behavior["unknown"] = "stranger"
        return behavior

    def _device(self, claim: str, number: int) -> JsonObject:
        draw = self._draw
        device: JsonObject = {"pool": "pool", "device": f"d{number}"}
        if draw.chance(0.6):
            device["requests"] = draw.sample(_REQUESTS, 2)
        if draw.chance(0.85):
            device["cdi"] = draw.sample(
                [f"x.com/{claim}={number}", f"x.com/shared={number}", "x.com/all=1"], 2
            )
        if self._kubernetes >= V1_37 and draw.chance(0.2):
            device["shareID"] = "11111111-1111-1111-1111-111111111111"
        return device


def answer(case: Mapping[str, Any]) -> JsonObject:
    """Run the steps with dralab's DRA manager, and return the state after each of them."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_live(case, Path(folder)))


async def _live(case: Mapping[str, Any], folder: Path) -> JsonObject:
    kubelet = _Kubelet(case, folder)
    await kubelet.start()
    try:
        return {"steps": [await kubelet.take(step) for step in case["steps"]]}
    finally:
        await kubelet.stop()


class _Claims:
    """A fake API server that has claims only."""

    def __init__(self, claims: Sequence[JsonObject]) -> None:
        self.claims = {claim["metadata"]["name"]: claim for claim in claims}

    async def get(self, _: object, name: str, namespace: str) -> Any:
        if name not in self.claims:
            raise ApiError(Status(message=f'resourceclaims.resource.k8s.io "{name}" not found'))
        return convert(RESOURCE_CLAIMS, self.claims[name])


class _Driver:
    """A driver that answers as the current step prescribes, and records its calls."""

    def __init__(self, name: str, calls: list[JsonObject]) -> None:
        self._name = name
        self._calls = calls
        self.behavior: JsonObject = {}

    async def NodePrepareResources(self, request: Any, context: Any) -> Any:
        answers = await self._record("NodePrepareResources", request, context)
        return dra_v1_pb2.NodePrepareResourcesResponse(
            claims={uid: _convert_answer(answered) for uid, answered in answers.items()}
        )

    async def NodeUnprepareResources(self, request: Any, context: Any) -> Any:
        answers = await self._record("NodeUnprepareResources", request, context)
        return dra_v1_pb2.NodeUnprepareResourcesResponse(
            claims={
                uid: dra_v1_pb2.NodeUnprepareResourceResponse(error=answered.get("error", ""))
                for uid, answered in answers.items()
            }
        )

    async def _record(self, method: str, request: Any, context: Any) -> dict[str, JsonObject]:
        claims = [{"namespace": one.namespace, "uid": one.uid, "name": one.name} for one in request.claims]
        self._calls.append({"driver": self._name, "method": method, "claims": claims})
        if code := self.behavior.get("code"):
            found = next(one for one in grpc.StatusCode if one.value[0] == code)
            await context.abort(found, self.behavior.get("message", ""))
        answers: dict[str, JsonObject] = {}
        chosen = self.behavior.get("claims") or {}
        for claim in claims:
            cdi = f"{self._name}/claim={claim['uid']}"
            default = {"devices": [{"pool": "pool", "device": claim["name"], "cdi": [cdi]}]}
            if (answered := chosen.get(claim["uid"], default)) is not None:
                answers[claim["uid"]] = answered
        if unknown := self.behavior.get("unknown"):
            answers[unknown] = {}
        return answers


def _convert_answer(answered: JsonObject) -> dra_v1_pb2.NodePrepareResourceResponse:
    devices = [
        dra_v1_pb2.Device(
            pool_name=device.get("pool", ""),
            device_name=device.get("device", ""),
            share_id=device.get("shareID"),
            request_names=device.get("requests"),
            cdi_device_ids=device.get("cdi"),
        )
        for device in answered.get("devices") or ()
    ]
    return dra_v1_pb2.NodePrepareResourceResponse(error=answered.get("error", ""), devices=devices)


class _Kubelet:
    """A DRA manager that can be started again with the same files."""

    def __init__(self, case: Mapping[str, Any], folder: Path) -> None:
        kubernetes = Version.parse(case.get("kubernetesVersion", str(RECORDED)))
        # The drivers do not serve health, so that no test has to wait for a health stream.
        self._features = FeatureGates(kubernetes, **{"ResourceHealthStatus": False, **case["featureGates"]})
        self._folder = folder
        self._client = _Claims(case["claims"])
        self._pods = list(case["pods"])
        self._registered = dict.fromkeys(case["drivers"])
        self._sockets = LocalSockets()
        self._drivers: dict[str, _Driver] = {}
        self._calls: list[JsonObject] = []
        self._manager: DraManager

    async def start(self) -> None:
        client: Any = self._client
        self._manager = DraManager(
            self._folder, client, FakeClock(), self._features, durable=False, sockets=self._sockets
        )
        for driver in sorted(self._registered):
            await self._register(driver)

    async def stop(self) -> None:
        await self._manager.close()

    def _endpoint(self, driver: str) -> Path:
        return self._folder / f"{driver}.sock"

    async def _register(self, driver: str) -> None:
        if driver not in self._drivers:
            made = self._drivers[driver] = _Driver(driver, self._calls)

            def add(server: Any) -> None:
                rpc.serve(dra_v1_pb2, "DRAPlugin", made, server)

            await self._sockets.server([self._endpoint(driver)], add).start()
        self._manager.connections.register(driver, str(self._endpoint(driver)), [V1])

    async def take(self, step: JsonObject) -> JsonObject:
        """Perform a step, and return the state after it."""
        for name, driver in self._drivers.items():
            driver.behavior = (step.get("behavior") or {}).get(name, {})
        self._calls.clear()
        found: JsonObject = {}
        try:
            devices = await self._act(step)
        except (DraError, DriverError) as error:
            found["error"] = str(error)
            if "driver" in step:
                found["error"] = found["error"].replace(str(self._endpoint(step["driver"])), "ENDPOINT")
            devices = {}
        data = json.loads((self._folder / STATE_FILE).read_text())["Data"]
        uids = dict.fromkeys(pod["metadata"]["uid"] for pod in self._pods)
        return {
            **found,
            "calls": list(self._calls),
            "checkpoint": json.loads(data)["ClaimInfoStateList"],
            "devices": devices,
            "inUse": [uid for uid in uids if self._manager.might_need_to_unprepare(uid)],
        }

    async def _act(self, step: JsonObject) -> JsonObject:
        # Save the checkpoint explicitly: the real manager writes it for every pod, ours only if a claim changes it.
        match step["operation"]:
            case "prepare":
                await self._manager.prepare(self._pod(step))
                await self._manager.cache.save()
            case "unprepare":
                await self._manager.unprepare(self._pod(step))
                await self._manager.cache.save()
            case "resources":
                return self._list_devices(self._pod(step))
            case "restart":
                await self.stop()
                await self.start()
            case "register":
                self._registered[step["driver"]] = None
                await self._register(step["driver"])
            case "deregister":
                self._registered.pop(step["driver"], None)
                self._manager.connections.deregister(step["driver"], str(self._endpoint(step["driver"])))
            case "setClaim":
                self._client.claims[step["claim"]["metadata"]["name"]] = step["claim"]
            case "setPod":
                self._pods[step["pod"]] = step["newPod"]
        return {}

    def _pod(self, step: JsonObject) -> Pod:
        return convert(PODS, self._pods[step["pod"]])

    def _list_devices(self, pod: Pod) -> JsonObject:
        devices: JsonObject = {}
        for container in pod.spec.containers:
            try:
                devices[container.name] = sorted(self._manager.containers.cdi_device_ids(pod, container))
            except DraError as error:
                devices[container.name] = [f"error: {error}"]
        return devices


def agrees(ours: JsonObject, theirs: JsonObject) -> bool:
    """True if the answers agree. The order of drivers and claims is ignored, because it is random in Go maps."""
    return [_sort(step) for step in ours["steps"]] == [_sort(step) for step in theirs["steps"]]


def _sort(step: Mapping[str, Any]) -> Any:
    return (
        step.get("error"),
        sorted(map(_sort_claims, step["calls"]), key=lambda call: str(call["driver"])),
        sorted(step.get("checkpoint") or (), key=lambda claim: str(claim["ClaimName"])),
        step.get("devices") or {},
        step["inUse"],
    )


def _sort_claims(call: JsonObject) -> JsonObject:
    # Since 1.37 the kubelet unprepares claims in the random order of a Go map.
    if call["method"] == "NodePrepareResources":
        return call
    return {**call, "claims": sorted(call["claims"], key=lambda claim: str(claim["name"]))}
