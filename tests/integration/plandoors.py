"""One cluster, and the four interfaces of the planner: command line, HTTP, console and ``World``."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from anyio.from_thread import BlockingPortal
from dra_apiserver.config import Config
from dra_apiserver.front import console
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_cli.commandline import run
from dra_kube.access import ChosenCluster
from dra_lab.console.server import pages
from dra_lab.ports import Port
from dra_scheduler.config import SchedulerConfig
from dra_scheduler.plan.answers import complete
from dra_scheduler.plan.routes import plan_routes
from dra_scheduler.wiring import new_scheduler
from dra_shared.client.rest import Client, PatchType
from dra_shared.errors import UserError
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import DEFAULT
from dra_worlds.world import WorldError
from dralab import World

from tests.scheduler.objects import DRIVER, claim_json, class_json, node_json, pod_json, slice_json
from tests.support.waiting import until

_PATHS = {
    "Node": "/api/v1/nodes",
    "Namespace": "/api/v1/namespaces",
    "LimitRange": "/api/v1/namespaces/defaulted/limitranges",
    "ResourceQuota": "/api/v1/namespaces/rationed/resourcequotas",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses",
    "Pod": "/api/v1/namespaces/default/pods",
    "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses",
    "ResourceSlice": "/apis/resource.k8s.io/v1/resourceslices",
    "ResourceClaim": "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
    "ResourceClaimTemplate": "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
}
_GATES = FeatureGates(DEFAULT, GenericWorkload=True, GangScheduling=True)
_WITHOUT = frozenset({"ServiceAccount", "TaintNodesByCondition"})


@dataclass(frozen=True)
class Question:
    """A planner question in three forms: command line (``FILE`` has the ``objects``), request body and ``World`` call.

    ``answer`` has the expected fields of the answer, computed by hand.
    """

    name: str
    words: str
    body: JsonObject
    ask: Callable[[World, list[JsonObject], Path], Any]
    answer: JsonObject
    objects: list[JsonObject] = field(default_factory=list)

    def __str__(self) -> str:
        return self.name


class Doors:
    """Asks a question through each interface."""

    def __init__(self, portal: BlockingPortal, url: str, front: httpx.AsyncClient, folder: Path) -> None:
        self._portal, self._url, self._front, self._folder = portal, url, front, folder

    def command_line(self, asked: Question, capsys: pytest.CaptureFixture[str]) -> tuple[int, JsonObject]:
        """Return the exit code and the answer of ``dralab plan``."""
        code = run("plan", [*self._words(asked), "-s", self._url, "-o", "json"])
        out = capsys.readouterr().out
        # The services of this process log to standard output, too.
        answer: JsonObject = json.loads(out[out.index("{\n") :])
        return code, answer

    def http(self, asked: Question) -> JsonObject:
        """Return the answer of the API server, which forwards to the cluster's scheduler."""
        return self._post(f"{self._url}/insight/plan/{asked.words.split()[0]}", asked)

    def console(self, asked: Question) -> JsonObject:
        """Return the answer of ``dralab console``, which has its own scheduler."""
        return self._post(f"/insight/plan/{asked.words.split()[0]}", asked)

    def world(self, asked: Question) -> JsonObject:
        """Return the answer of ``World``."""
        kubeconfig = self._folder / "kubeconfig"
        answer = asked.ask(World.from_kubeconfig(kubeconfig), asked.objects, self._folder)
        found: JsonObject = json.loads(json.dumps(_plain(answer)))
        return found

    def refusals(self, asked: Question) -> list[str]:
        """Return the error message of each interface for a question without an answer."""
        with pytest.raises(UserError) as command_line:
            run("plan", [*self._words(asked), "-s", self._url])
        question = asked.words.split()[0]
        paths = (f"{self._url}/insight/plan/{question}", f"/insight/plan/{question}")
        responses = [self._response(path, asked) for path in paths]
        assert [response.status_code for response in responses] == [400, 400]
        world = World.from_kubeconfig(self._folder / "kubeconfig")
        with pytest.raises(WorldError) as python:
            asked.ask(world, asked.objects, self._folder)
        details = [response.json()["detail"] for response in responses]
        return [str(command_line.value), *details, str(python.value)]

    def create(self, path: str, obj: JsonObject) -> None:
        """Create an object in the cluster."""

        async def post() -> httpx.Response:
            return await self._front.post(f"{self._url}{path}", json=obj)

        response = self._portal.call(post)
        assert response.status_code == 201, response.text

    def _words(self, asked: Question) -> list[str]:
        file = self._folder / "objects.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": asked.objects}))
        places = {
            "FILE": str(file),
            "TYPES": str(self._folder / "types.json"),
            "TIMES": str(self._folder / "times.csv"),
        }
        return [str(places.get(word, word)) for word in asked.words.split()]

    def _response(self, path: str, asked: Question) -> httpx.Response:
        body = {**({"objects": asked.objects} if asked.objects else {}), **asked.body}

        async def post() -> httpx.Response:
            return await self._front.post(path, json=body)

        return self._portal.call(post)

    def _post(self, path: str, asked: Question) -> JsonObject:
        response = self._response(path, asked)
        assert response.status_code == 200, response.text
        answer: JsonObject = response.json()
        return answer


def _plain(answer: Any) -> Any:
    import msgspec

    return msgspec.to_builtins(complete(answer))


@asynccontextmanager
async def doors(portal: BlockingPortal, folder: Path, *, waiting: bool = False) -> AsyncIterator[Doors]:
    """Start the cluster. With ``waiting`` it has a pending pod that requests four GPUs."""
    with Port() as port:
        config = Config(
            port=0,
            data=folder / "data",
            database=IN_MEMORY,
            disabled_plugins=_WITHOUT,
            features=_GATES,
            runtime_config="api/all=true",
            scheduler_url=f"http://127.0.0.1:{port.number}",
        )
        async with ApiServer(config) as server, Client(server.url) as client:
            await _fill(client)
            if waiting:
                await _wait_for_four(client)
            _write(folder, server.url)
            setup = SchedulerConfig(health_port=port.number, gates=_GATES)
            scheduler = new_scheduler(setup, client=client)
            scheduler.add_routes(plan_routes(scheduler.informers, setup, client))
            app = pages(ChosenCluster(server=server.url), client, console.Settings())
            transports = {"http://console": httpx.ASGITransport(app=app)}
            async with (
                scheduler,
                httpx.AsyncClient(base_url="http://console", mounts=transports, timeout=60) as front,
            ):
                await until(lambda: scheduler.ready)
                yield Doors(portal, server.url, front, folder)


def _write(folder: Path, url: str) -> None:
    """Write a kubeconfig, and a catalog with nodes such as ``n0``."""
    entries = {
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    }
    config = {"apiVersion": "v1", "kind": "Config", "current-context": "x", **entries}
    (folder / "kubeconfig").write_text(json.dumps(config))
    (folder / "node.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": node_type()}))
    types = {"types": [{"name": "four", "price": 3, "from": "node.json"}]}
    (folder / "types.json").write_text(json.dumps(types))
    (folder / "times.csv").write_text("start,end,shape,name\n0,10,p,a\n0,10,p,b\n0,10,p,c\n5,20,p,d\n")


def node_type() -> list[JsonObject]:
    """Return a node type with four GPUs and eight CPUs."""
    node = _node("x", "8")
    node["metadata"]["uid"] = "x"
    return [
        {"apiVersion": "v1", **node},
        {"apiVersion": "resource.k8s.io/v1", **slice_json("x", 4)},
    ]


# The cluster: n0 and n1 have four GPUs and eight CPUs each, n2 has two big GPUs and four CPUs. Each pod has
# one GPU and one CPU, except train-0, which has two GPUs. n0 has one free GPU, n1 two, and n2 two.


def _node(name: str, cpu: str) -> JsonObject:
    node = node_json(name)
    amounts = {"cpu": cpu, "memory": "32Gi", "pods": "20"}
    return node | {"status": {"allocatable": amounts, "capacity": amounts}}


def _size(size: str) -> JsonObject:
    return {"selectors": [{"cel": {"expression": f'device.attributes["{DRIVER}"].size == "{size}"'}}]}


def template(name: str, count: int = 1, device_class: str = "gpu") -> JsonObject:
    """Return a claim template."""
    request = {"count": count, "deviceClassName": device_class}
    spec = claim_json(name, request=request)["spec"]
    meta = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": meta,
        "spec": {"spec": spec},
    }


async def _fill(client: Client) -> None:
    driver = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    size = {"size": {"string": "small"}}, {"size": {"string": "big"}}
    for obj in (
        class_json("gpu", selectors=driver, extendedResourceName="example.com/gpu"),
        class_json("big", **_size("big")),
        *(_node(name, cpu) for name, cpu in (("n0", "8"), ("n1", "8"), ("n2", "4"))),
        *(slice_json(name, 4, attributes=size[0]) for name in ("n0", "n1")),
        slice_json("n2", 2, attributes=size[1]),
        template("one"),
        template("two", 2),
        _budget(),
        *_rules(),
    ):
        await _create(client, obj)
    await _place(client, "web-0", "n0", ["gpu-0"], "one", owner="ReplicaSet")
    await _place(client, "web-1", "n1", ["gpu-0"], "one", owner="ReplicaSet")
    await _place(client, "train-0", "n0", ["gpu-1", "gpu-2"], "two", owner="StatefulSet")
    await _place(client, "lone", "n1", ["gpu-1"], "", owner="")


def _rules() -> list[JsonObject]:
    """Return objects that admission reads: a PriorityClass, a RuntimeClass, a LimitRange and a ResourceQuota."""
    limits = [{"type": "Container", "default": {"cpu": "3"}}]
    quota = {"kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}}
    return [
        {"kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 1000},
        {
            "kind": "RuntimeClass",
            "metadata": {"name": "heavy"},
            "handler": "heavy",
            "overhead": {"podFixed": {"cpu": "3"}},
        },
        {"kind": "Namespace", "metadata": {"name": "defaulted"}},
        {"kind": "Namespace", "metadata": {"name": "rationed"}},
        {"kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": limits}},
        {**quota, "status": {"hard": {"pods": "2"}, "used": {"pods": "0"}}},
    ]


async def _wait_for_four(client: Client) -> None:
    for name, value in (("four", template("four", 4)), ("late", claim_json("late", request={"count": 4}))):
        await _create(client, {**value, "metadata": {"name": name}})
    pod = pod_json("late", claims={"gpu": "late"}, container={"image": "x"})
    await _create(client, {**pod, "metadata": {"name": "late"}, "status": {}})


def _budget() -> JsonObject:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    status = {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}
    meta = {"name": "web", "namespace": "default"}
    return {"kind": "PodDisruptionBudget", "metadata": meta, "spec": spec, "status": status}


async def _place(
    client: Client, name: str, node: str, devices: list[str], template_name: str, *, owner: str
) -> None:
    """Create a running pod, and its claim for the devices."""
    pod = pod_json(name, requests={"cpu": "1"}, labels={"app": name.partition("-")[0]}, nodeName=node)
    pod["spec"]["containers"][0] |= {"image": "x"}
    pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    entry = {"resourceClaimTemplateName": template_name} if template_name else {"resourceClaimName": name}
    pod["spec"]["resourceClaims"] = [{"name": "gpu", **entry}]
    pod["metadata"] = {"name": name, "labels": pod["metadata"]["labels"]}
    if owner:
        reference = {"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "o", "controller": True}
        pod["metadata"]["ownerReferences"] = [reference]
    claims = [{"name": "gpu", "resourceClaimName": name}] if template_name else []
    status = {"phase": "Running", **({"resourceClaimStatuses": claims} if claims else {})}
    made = await _create(client, pod | {"status": status})
    uid = made["metadata"]["uid"]
    claim = claim_json(name, request={"count": len(devices)})
    claim["metadata"] = {"name": name}
    if template_name:
        mine = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": True}
        claim["metadata"]["ownerReferences"] = [mine]
    results = [{"request": "gpu", "driver": DRIVER, "pool": node, "device": each} for each in devices]
    claim["status"] = {
        "allocation": {"devices": {"results": results}},
        "reservedFor": [{"resource": "pods", "name": name, "uid": uid}],
    }
    await _create(client, claim)


async def _create(client: Client, obj: JsonObject) -> JsonObject:
    path = _PATHS[obj["kind"]]
    body = {key: value for key, value in obj.items() if key not in ("status", "apiVersion")}
    made = await client.raw("POST", path, content=json.dumps(body).encode())
    assert made.status_code == 201, made.text
    if obj.get("status"):
        status = json.dumps({"status": obj["status"]}).encode()
        path = f"{path}/{obj['metadata']['name']}/status"
        made = await client.raw("PATCH", path, content=status, content_type=PatchType.MERGE)
        assert made.status_code == 200, made.text
    created: JsonObject = made.json()
    return created
