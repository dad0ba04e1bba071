"""Test the validation of statuses that controllers and kubelets write against kube-apiserver 1.36.2."""

import copy
from typing import Any

import httpx
from dra_shared.jsontypes import JsonObject

CORE = "/api/v1/namespaces/default"
APPS = "/apis/apps/v1/namespaces/default"
JOBS = "/apis/batch/v1/namespaces/default/jobs"


def job(**spec: Any) -> JsonObject:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    return {"metadata": {"name": "x"}, "spec": {"template": {"spec": pod}, **spec}}


def workload() -> JsonObject:
    pod = {"containers": [{"name": "c", "image": "i"}]}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod}
    return {
        "metadata": {"name": "x"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }


class Kind:
    """An object, with methods that write its status."""

    def __init__(self, client: httpx.AsyncClient, url: str) -> None:
        self._client = client
        self._url = url

    async def make(self, obj: JsonObject) -> None:
        answer = await self._client.post(self._url, json=obj)
        assert answer.status_code == 201, answer.text

    async def put(self, status: JsonObject) -> httpx.Response:
        obj = (await self._client.get(f"{self._url}/x")).json()
        obj["status"] = copy.deepcopy(status)
        return await self._client.put(f"{self._url}/x/status", json=obj)

    async def put_invalid(self, status: JsonObject) -> list[str]:
        answer = await self.put(status)
        assert answer.status_code == 422, answer.text
        return [f"{one.get('field')}: {one['message']}" for one in answer.json()["details"]["causes"]]

    async def put_valid(self, status: JsonObject) -> None:
        answer = await self.put(status)
        assert answer.status_code == 200, answer.text


async def test_ready_replicas_cannot_exceed_replicas(client: httpx.AsyncClient) -> None:
    sets = Kind(client, f"{APPS}/deployments")
    await sets.make(workload())
    above = "cannot be greater than status.replicas"
    assert await sets.put_invalid({"replicas": 1, "updatedReplicas": 2, "availableReplicas": 1}) == [
        f"status.updatedReplicas: Invalid value: 2: {above}",
        "status.availableReplicas: Invalid value: 1: cannot be greater than readyReplicas",
    ]
    await sets.put_valid({"replicas": 1, "readyReplicas": 1, "availableReplicas": 1, "collisionCount": 2})
    assert await sets.put_invalid({"collisionCount": 1}) == [
        "status.collisionCount: Invalid value: 1: cannot be decremented"
    ]


async def test_negative_counts_in_statuses_are_rejected(client: httpx.AsyncClient) -> None:
    text = "Invalid value: -1: must be greater than or equal to 0"
    for plural, field in (("replicasets", "replicas"), ("daemonsets", "numberReady")):
        sets = Kind(client, f"{APPS}/{plural}")
        await sets.make(workload())
        assert await sets.put_invalid({field: -1, "readyReplicas": -1} | {field: -1}) != []
        assert f"status.{field}: {text}" in await sets.put_invalid({field: -1})


async def test_a_finished_job_stays_finished(client: httpx.AsyncClient) -> None:
    jobs = Kind(client, JOBS)
    await jobs.make(job())
    complete = {"type": "Complete", "status": "True"}
    met = {"type": "SuccessCriteriaMet", "status": "True"}
    begun, ended = "2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z"
    assert await jobs.put_invalid({"completionTime": ended}) == [
        f'status.completionTime: Invalid value: "{ended}": '
        "cannot set completionTime when there is no Complete=True condition"
    ]
    assert await jobs.put_invalid({"conditions": [complete], "active": 1}) == [
        "status.completionTime: Required value: completionTime is required for Complete jobs",
        "status.conditions: Invalid value: "
        "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
        "status.active: Invalid value: 1: active>0 is invalid for finished job",
        "status.startTime: Required value: startTime is required for finished job",
    ]
    await jobs.put_valid(
        {"startTime": begun, "completionTime": ended, "conditions": [met, complete], "succeeded": 1}
    )
    assert await jobs.put_invalid({}) == [
        "status.conditions: Invalid value: cannot disable the terminal Complete=True condition",
        "status.succeeded: Invalid value: 0: cannot decrease the succeeded counter",
        "status.startTime: Invalid value: null: field is immutable for unsuspended job once set",
        "status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition",
    ]


async def test_invalid_indexes_of_a_job_are_rejected(client: httpx.AsyncClient) -> None:
    jobs = Kind(client, JOBS)
    await jobs.make(job(completionMode="Indexed", completions=4, parallelism=4, backoffLimitPerIndex=1))
    path, failed = "status.completedIndexes: Invalid value:", "status.failedIndexes: Invalid value:"
    for text, problem in (
        ("x", 'cannot convert string to integer for index: "x"'),
        ("-1", 'cannot convert string to integer for index: ""'),
        ("0,4", 'too large index: "4"'),
        ("2-1", "non-increasing order, previous: 2, current: 1"),
        ("1,1", "non-increasing order, previous: 1, current: 1"),
    ):
        found = await jobs.put_invalid({"completedIndexes": text})
        assert found == [f'{path} "{text}": error parsing completedIndexes: {problem}']
    assert await jobs.put_invalid({"completedIndexes": "0-2", "failedIndexes": "2,3"}) == [
        f'{failed} "2,3": failedIndexes and completedIndexes overlap at index: 2'
    ]
    await jobs.put_valid({"completedIndexes": "0-2", "failedIndexes": "3"})


async def test_namespaces_are_active_until_they_are_deleted(client: httpx.AsyncClient) -> None:
    namespaces = Kind(client, "/api/v1/namespaces")
    await namespaces.make({"metadata": {"name": "x"}})
    assert await namespaces.put_invalid({"phase": "Terminating"}) == [
        "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"
    ]


async def test_quantities_in_statuses_are_validated(client: httpx.AsyncClient) -> None:
    nodes = Kind(client, "/api/v1/nodes")
    await nodes.make({"metadata": {"name": "x"}})
    assert await nodes.put_invalid(
        {"capacity": {"cpu": "-5"}, "allocatable": {"example.com/gpu": "0.5"}}
    ) == [
        'status.capacity.cpu: Invalid value: "-5": must be greater than or equal to 0',
        'status.allocatable.example.com/gpu: Invalid value: "500m": must be an integer',
    ]
    claims = Kind(client, f"{CORE}/persistentvolumeclaims")
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await claims.make({"metadata": {"name": "x"}, "spec": asked})
    assert await claims.put_invalid({"capacity": {"storage": "-5"}}) == [
        "status.capacity[storage]: Invalid value: -5: must be a valid resource quantity"
    ]
    quotas = Kind(client, f"{CORE}/resourcequotas")
    await quotas.make({"metadata": {"name": "x"}})
    assert await quotas.put_invalid({"used": {"new-key": "1"}}) == [
        'status.used[new-key]: Invalid value: "new-key": must be a standard resource type or fully qualified',
        'status.used[new-key]: Invalid value: "new-key": must be a standard resource for quota',
    ]
    await quotas.put_valid({"used": {"gpu.example.com.deviceclass.resource.k8s.io/devices": "1"}})


async def test_invalid_statuses_of_budgets_are_rejected(client: httpx.AsyncClient) -> None:
    budgets = Kind(client, "/apis/policy/v1/namespaces/default/poddisruptionbudgets")
    await budgets.make({"metadata": {"name": "x"}, "spec": {"minAvailable": 1}})
    counts = {"disruptionsAllowed": -1, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}
    assert await budgets.put_invalid(counts) == [
        "status.disruptionsAllowed: Invalid value: -1: must be greater than or equal to 0"
    ]
