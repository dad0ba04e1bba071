"""Test fields of pods that depend on feature gates."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_apiserver.verdict import Judge
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_35, V1_36, V1_37, Version

from tests.support.cases import each_case

_PODS = "/api/v1/namespaces/default/pods"
_EXTENDED = {
    "resourceClaimName": "made",
    "requestMappings": [
        {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "container-0-request-0"}
    ],
}


def _pod(**spec: Any) -> JsonObject:
    amounts = {"limits": {"example.com/gpu": "1"}, "requests": {"example.com/gpu": "1"}}
    containers = [{"name": "c", "image": "busybox", "resources": amounts}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"containers": containers, **spec},
    }


@pytest.mark.parametrize(
    ("version", "field", "value"),
    [
        (V1_35, "workloadRef", {"name": "w", "podGroup": "g"}),
        (V1_36, "schedulingGroup", {"podGroupName": "g"}),
        (V1_37, "schedulingGroup", {"podGroupName": "g"}),
    ],
)
def test_the_scheduling_group_of_a_pod_is_dropped_if_its_gate_is_disabled(
    version: Version, field: str, value: JsonObject
) -> None:
    pod = _pod(**{field: value})
    assert Judge(FeatureGates(version)).create(pod).dropped == (f"spec.{field}",)
    on = Judge(FeatureGates(version, GenericWorkload=True))
    assert on.create(pod).dropped == ()
    # A pod keeps a field that it has already.
    pod["metadata"]["uid"] = "1"
    assert Judge(FeatureGates(version)).keep(pod).dropped == ()


_TEMPLATE: JsonObject = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "i"}], "schedulingGroup": {"podGroupName": "g"}},
}
_JOB_TEMPLATE = {**_TEMPLATE, "spec": {**_TEMPLATE["spec"], "restartPolicy": "Never"}}
_SELECTOR = {"matchLabels": {"a": "b"}}


@each_case(
    ("version", "kind", "content", "path"),
    [
        ("v1", "PodTemplate", {"template": _TEMPLATE}, "template"),
        (
            "v1",
            "ReplicationController",
            {"spec": {"selector": {"a": "b"}, "template": _TEMPLATE}},
            "spec.template",
        ),
        *(
            ("apps/v1", kind, {"spec": {"selector": _SELECTOR, "template": _TEMPLATE}}, "spec.template")
            for kind in ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")
        ),
        ("batch/v1", "Job", {"spec": {"template": _JOB_TEMPLATE}}, "spec.template"),
        (
            "batch/v1",
            "CronJob",
            {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": _JOB_TEMPLATE}}}},
            "spec.jobTemplate.spec.template",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isalpha() else "",
)
def test_the_scheduling_group_of_a_pod_template_is_dropped_if_its_gate_is_disabled(
    version: str, kind: str, content: JsonObject, path: str
) -> None:
    obj = {"apiVersion": version, "kind": kind, "metadata": {"name": "a", "namespace": "default"}, **content}
    assert Judge(FeatureGates(V1_37)).create(obj).dropped == (f"{path}.spec.schedulingGroup",)
    assert Judge(FeatureGates(V1_37, GenericWorkload=True)).create(obj).dropped == ()
    obj["metadata"]["uid"] = "1"
    assert Judge(FeatureGates(V1_37)).keep(obj).dropped == ()


async def test_fields_dropped_from_a_template_do_not_change_the_generation(tmp_path: Path) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    plain = {**_TEMPLATE, "spec": {"containers": _TEMPLATE["spec"]["containers"]}}
    obj = {"metadata": {"name": "a"}, "spec": {"selector": _SELECTOR, "template": plain}}
    async with _server(tmp_path) as client:
        made = (await client.post(path, json=obj)).json()
        made["spec"]["template"]["spec"]["schedulingGroup"] = {"podGroupName": "g"}
        answer = (await client.put(f"{path}/a", json=made)).json()
    assert "schedulingGroup" not in answer["spec"]["template"]["spec"]
    assert answer["metadata"]["generation"] == 1


@contextlib.asynccontextmanager
async def _server(path: Path, **gates: bool) -> AsyncIterator[httpx.AsyncClient]:
    config = Config(port=0, data=path, database=IN_MEMORY, features=FeatureGates(V1_36, **gates))
    async with ApiServer(config) as server, httpx.AsyncClient(base_url=server.url) as client:
        yield client


@pytest.mark.parametrize("on", [True, False])
async def test_the_extended_resource_claim_status_is_dropped_if_its_gate_is_disabled(
    tmp_path: Path, on: bool
) -> None:
    async with _server(tmp_path, DRAExtendedResource=on) as client:
        made = (await client.post(_PODS, json=_pod())).json()
        status = {**made["status"], "extendedResourceClaimStatus": _EXTENDED}
        answer = await client.put(f"{_PODS}/a/status", json={**made, "status": status})
    assert answer.status_code == 200
    assert answer.json()["status"].get("extendedResourceClaimStatus") == (_EXTENDED if on else None)
