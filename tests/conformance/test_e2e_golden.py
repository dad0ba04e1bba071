"""The whole lifecycle of a pod, compared event by event with a recording of a real Kubernetes 1.36.2."""

import asyncio
import contextlib
import json
import re
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_controller.manager import ControllerConfig, ControllerManager
from dra_scheduler.config import SchedulerConfig
from dra_scheduler.wiring import new_scheduler
from dra_shared.client.rest import Client
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_36

from tests.conformance.test_http_golden import differences
from tests.support.reference import reference_path
from tests.support.waiting import until

PATHS = {
    "deviceclasses": "/apis/resource.k8s.io/v1/deviceclasses",
    "events": "/api/v1/namespaces/default/events",
    "nodes": "/api/v1/nodes",
    "pods": "/api/v1/namespaces/default/pods",
    "resourceclaims": "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
    "resourceclaimtemplates": "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates",
    "resourceslices": "/apis/resource.k8s.io/v1/resourceslices",
}
STAGES = ("45-before-pod", "60-bound", "80-after-succeeded", "90-end")
VERSIONED = ("deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices")
TABLES = ("resourceclaims", "resourceslices", "deviceclasses", "resourceclaimtemplates", "pods")
MERGE = {"Content-Type": "application/merge-patch+json"}
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
_GATES = FeatureGates(V1_36)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_GENERATED = re.compile(r"(pod0-gpus-|kube-api-access-)[a-z0-9]{5}")
_EVENT = re.compile(r"(pod0|node-0)\.[0-9a-f]{16}")


def golden(name: str) -> Any:
    return json.loads(reference_path("golden", "e2e", name).read_text())


def golden_events(kind: str) -> list[JsonObject]:
    lines = reference_path("golden", "e2e", f"watch-{kind}.json").read_text().splitlines()
    return [json.loads(line) for line in lines]


class Normal:
    """Replaces values that differ between runs. A UID is replaced by the name of its object."""

    def __init__(self, objects: list[JsonObject]) -> None:
        self._owners = {
            item["metadata"]["uid"]: _plain(item["metadata"]["name"])
            for item in objects
            if "uid" in item["metadata"]
        }

    def __call__(self, value: Any, at: str = "") -> Any:
        if isinstance(value, dict):
            return {self._text(key): self(item, key) for key, item in value.items()}
        if isinstance(value, list):
            items = [self(item) for item in value]
            return sorted(items, key=_manager) if at == "managedFields" else items
        if not isinstance(value, str):
            return value
        if at == "resourceVersion":
            return "RV" if value else ""
        if at == "reportingInstance" and value:
            return re.sub(r"-[^-]*$", "-HOST", value)
        return "TIME" if _TIME.fullmatch(value) else self._text(value)

    def _text(self, text: str) -> str:
        return _UID.sub(lambda found: f"uid of {self._owners.get(found[0], '?')}", _plain(text))


def normalize(obj: JsonObject) -> JsonObject:
    """Return the real server's object without empty managed fields."""
    meta = obj["metadata"]
    managers = meta.get("managedFields", [])
    if not managers:
        meta.pop("managedFields", None)
    return obj


def same_content(left: JsonObject, right: JsonObject) -> bool:
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def expected_events(kind: str) -> list[JsonObject]:
    """Return the recorded events, without those that change nothing after normalization."""
    events: list[JsonObject] = []
    for event in golden_events(kind):
        obj = normalize(event["object"])
        revision = obj["metadata"].pop("resourceVersion")
        last = events[-1]["object"] if events else None
        if event["type"] != "MODIFIED" or last is None or not same_content(obj, last):
            events.append(event)
        event["revision"] = revision
    for event in events:
        event["object"]["metadata"]["resourceVersion"] = event.pop("revision")
    return events


def _plain(text: str) -> str:
    return _EVENT.sub(r"\1.HEX", _GENERATED.sub(r"\1RAND", text))


def _manager(entry: JsonObject) -> tuple[str, str, str]:
    return entry["manager"], entry.get("subresource", ""), json.dumps(entry["fieldsV1"], sort_keys=True)


@dataclass
class Life:
    """The recorded results of one run."""

    watched: dict[str, list[JsonObject]] = field(default_factory=lambda: {kind: [] for kind in PATHS})
    made: dict[str, JsonObject] = field(default_factory=dict)
    stages: dict[tuple[str, str], list[JsonObject]] = field(default_factory=dict)
    raw: dict[tuple[str, str], JsonObject] = field(default_factory=dict)
    tables: dict[str, JsonObject] = field(default_factory=dict)

    def objects(self) -> list[JsonObject]:
        return [event["object"] for events in self.watched.values() for event in events]


def bare(obj: JsonObject, *spec: str) -> JsonObject:
    """Return the manifest from which the user created this object."""
    meta = {key: value for key, value in obj["metadata"].items() if key in ("name", "labels")}
    body = {key: value for key, value in obj["spec"].items() if not spec or key in spec}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": meta, "spec": body}


def manifests() -> dict[str, JsonObject]:
    node = golden("10-node-create-response.json")
    status = {key: node["status"][key] for key in ("allocatable", "capacity")}
    condition = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "hand-made node"}
    pod = bare(golden("50-pod-create-response.json"), "containers", "resourceClaims")
    for container in pod["spec"]["containers"]:
        for name in ("imagePullPolicy", "terminationMessagePath", "terminationMessagePolicy", "volumeMounts"):
            del container[name]
    return {
        "nodes": {**bare(node, "none"), "status": {**status, "conditions": [condition]}},
        "deviceclasses": bare(golden("20-deviceclass-create-response.json")),
        "resourceslices": bare(golden("30-slice-create-response.json")),
        "resourceclaimtemplates": bare(golden("40-template-create-response.json")),
        "pods": pod,
    }


class Run:
    """Repeats the steps of the recording with our services."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self.life = Life()

    async def items(self, kind: str) -> list[JsonObject]:
        items: list[JsonObject] = (await self._get(PATHS[kind])).json()["items"]
        return items

    async def _get(self, path: str, **headers: str) -> httpx.Response:
        answer = await self._http.get(path, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        # Events that never arrive are found when the record is compared.
        with contextlib.suppress(TimeoutError):
            await until(condition, 30, every=0.02)

    async def watch(self, kind: str, revision: str) -> None:
        url = f"{PATHS[kind]}?watch=true&resourceVersion={revision}"
        async with self._http.stream("GET", url, timeout=None) as answer:
            async for line in answer.aiter_lines():
                event = json.loads(line)
                # With slow informers the scheduler tries the pod before it knows of the claim or the slice, and again.
                if event["object"].get("reason") != "FailedScheduling":
                    self.life.watched[kind].append(event)

    async def create(self, kind: str, body: JsonObject) -> None:
        answer = await self._http.post(f"{PATHS[kind]}?fieldManager=kubectl-create", json=body)
        assert answer.status_code == 201, answer.text
        self.life.made[kind] = answer.json()

    async def set_status(self, kind: str, name: str, status: JsonObject) -> None:
        url = f"{PATHS[kind]}/{name}/status?fieldManager=kubectl-patch"
        answer = await self._http.patch(url, json={"status": status}, headers=MERGE)
        assert answer.status_code == 200, answer.text

    async def wait_for_events(self, kind: str, count: int) -> None:
        async def enough() -> bool:
            return len(self.life.watched[kind]) >= count

        await self.until(enough)

    async def stage(self, name: str) -> None:
        for kind in PATHS:
            if kind != "events":
                self.life.stages[name, kind] = await self.items(kind)

    async def look(self) -> None:
        for version in ("v1", "v1beta1", "v1beta2"):
            for kind in VERSIONED:
                path = PATHS[kind].replace("/v1/", f"/{version}/")
                self.life.raw[version, kind] = (await self._get(path)).json()
        for kind in TABLES:
            self.life.tables[kind] = (await self._get(PATHS[kind], **TABLE)).json()

    async def live(self) -> Life:
        wanted = manifests()
        await self.create("nodes", wanted["nodes"])
        await self.wait_for_events("nodes", len(expected_events("nodes")))
        for kind in ("deviceclasses", "resourceslices", "resourceclaimtemplates"):
            await self.create(kind, wanted[kind])
        await self.stage("45-before-pod")
        await self.create("pods", wanted["pods"])
        await self.wait_for_events("pods", 4)
        await self.wait_for_events("resourceclaims", 3)
        await self.wait_for_events("events", 2)
        await self.stage("60-bound")
        await self.look()
        (claim,) = await self.items("resourceclaims")
        devices = golden("70-claim-device-status.json")["status"]["devices"]
        await self.set_status("resourceclaims", claim["metadata"]["name"], {"devices": devices})
        conditions = [{"type": "Ready", "status": "True"}]
        await self.set_status("pods", "pod0", {"phase": "Running", "conditions": conditions})
        await self.set_status("pods", "pod0", {"phase": "Succeeded"})

        async def is_released() -> bool:
            return not await self.items("resourceclaims")

        await self.until(is_released)
        await self.stage("80-after-succeeded")
        answer = await self._http.delete(f"{PATHS['pods']}/pod0")
        assert answer.status_code == 200, answer.text

        async def is_gone() -> bool:
            return not await self.items("pods")

        await self.until(is_gone)
        await self.stage("90-end")
        for kind in self.life.watched:
            await self.wait_for_events(kind, len(expected_events(kind)))
        return self.life


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Life:
    return asyncio.run(_live(tmp_path_factory.mktemp("e2e")))


async def _live(data: Path) -> Life:
    async with AsyncExitStack() as stack:
        config = Config(port=0, data=data, database=IN_MEMORY, runtime_config="api/all=true", features=_GATES)
        server = await stack.enter_async_context(ApiServer(config))
        http = await stack.enter_async_context(httpx.AsyncClient(base_url=server.url, timeout=30))
        manager = await stack.enter_async_context(
            Client(server.url, user_agent="kube-controller-manager/v1.36.2")
        )
        scheduler = await stack.enter_async_context(Client(server.url, user_agent="kube-scheduler/v1.36.2"))
        await stack.enter_async_context(ControllerManager(ControllerConfig(features=_GATES), manager))
        await stack.enter_async_context(
            new_scheduler(SchedulerConfig(identity="x_1", gates=_GATES), client=scheduler)
        )
        run = Run(http)
        revision = (await http.get(PATHS["pods"])).json()["metadata"]["resourceVersion"]
        async with _watching(run, revision):
            return await run.live()


class _watching:
    def __init__(self, run: Run, revision: str) -> None:
        self._run = run
        self._revision = revision
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> None:
        self._tasks = [asyncio.create_task(self._run.watch(kind, self._revision)) for kind in PATHS]

    async def __aexit__(self, *error: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@pytest.fixture(scope="module")
def ours(life: Life) -> Normal:
    return Normal(life.objects())


@pytest.fixture(scope="module")
def theirs() -> Normal:
    return Normal([event["object"] for kind in PATHS for event in golden_events(kind)])


def compare(left: Any, right: Any) -> None:
    problems = list(differences(left, right))
    assert not problems, "\n" + "\n".join(problems)


@pytest.mark.parametrize("kind", PATHS)
def test_watch_events_equal_the_recorded_ones(kind: str, life: Life, ours: Normal, theirs: Normal) -> None:
    events, wanted = ours(life.watched[kind]), theirs(expected_events(kind))
    assert [event["type"] for event in events] == [event["type"] for event in wanted]
    if kind == "events":
        # A controller and the scheduler write one each. Either may be first.
        events, wanted = [
            sorted(one, key=lambda event: event["object"]["reason"]) for one in (events, wanted)
        ]
    if kind == "nodes":
        # One controller annotates the node and another labels it. The order is random.
        events, wanted = [events[0], events[-1]], [wanted[0], wanted[-1]]
    compare(events, wanted)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("nodes", "10-node-create-response.json"),
        ("deviceclasses", "20-deviceclass-create-response.json"),
        ("resourceslices", "30-slice-create-response.json"),
        ("resourceclaimtemplates", "40-template-create-response.json"),
        ("pods", "50-pod-create-response.json"),
    ],
)
def test_responses_to_creates_equal_the_recorded_ones(
    kind: str, name: str, life: Life, ours: Normal, theirs: Normal
) -> None:
    compare(ours(_as_printed(life.made[kind])), theirs(normalize(golden(name))))


@pytest.mark.parametrize("kind", [kind for kind in PATHS if kind != "events"])
@pytest.mark.parametrize("stage", STAGES)
def test_objects_at_each_stage_equal_the_recorded_ones(
    stage: str, kind: str, life: Life, ours: Normal, theirs: Normal
) -> None:
    wanted = [normalize(item) for item in golden(f"{stage}-{kind}.json")["items"]]
    found = [{**_type_of(wanted), **item} for item in life.stages[stage, kind]]
    compare(ours(found), theirs(wanted))


def _as_printed(obj: JsonObject) -> JsonObject:
    """Return the object as kubectl prints it."""
    meta = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": meta}


def _type_of(items: list[JsonObject]) -> JsonObject:
    return {key: items[0][key] for key in ("apiVersion", "kind")} if items else {}


@pytest.mark.parametrize("kind", VERSIONED)
@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1beta2"])
def test_lists_in_each_version_equal_the_recorded_ones(
    version: str, kind: str, life: Life, ours: Normal, theirs: Normal
) -> None:
    compare(ours(life.raw[version, kind]), theirs(golden(f"65-raw-{version}-{kind}.json")))


def test_the_table_of_claims_equals_the_recorded_one(life: Life, ours: Normal, theirs: Normal) -> None:
    found, wanted = ours(life.tables["resourceclaims"]), theirs(golden("67-table-claims.json"))
    for table in (found, wanted):
        for column in table["columnDefinitions"]:
            del column["description"]
        for row in table["rows"]:
            row["cells"][-1] = "AGE"
    compare(found, wanted)


def test_tables_equal_the_recorded_output_of_kubectl(life: Life) -> None:
    printed = reference_path("golden", "e2e", "66-table.txt").read_text().strip().split("\n\n")
    assert len(printed) == len(TABLES)
    for kind, text in zip(TABLES, printed, strict=True):
        header, *rows = [re.split(r" {2,}", line.strip()) for line in text.splitlines()]
        table = life.tables[kind]
        shown = [n for n, column in enumerate(table["columnDefinitions"]) if column["priority"] == 0]
        assert [table["columnDefinitions"][n]["name"].upper() for n in shown] == header
        cells = [[_plain(str(row["cells"][n])) for n in shown] for row in table["rows"]]
        wanted = [[_plain(row[0].partition("/")[2]), *row[1:]] for row in rows]
        assert [row[:-1] for row in cells] == [row[:-1] for row in wanted]
