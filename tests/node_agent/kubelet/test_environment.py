"""The environment of containers, admission and restart delays."""

from collections.abc import Mapping
from typing import Any

import pytest
from dra_node_agent.kubelet.admission import Rejected, admit, milli_requests
from dra_node_agent.kubelet.environment import ConfigError, environment, expand
from dra_shared.api.codec import convert
from dra_shared.api.resources import NODES, PODS

from tests.support.cases import each_case


class _Sources:
    async def config_map(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        return {"color": b"blue"} if name == "config" else None

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        return {"password": b"hunter2"} if name == "secret" else None


async def _env(container: dict[str, Any]) -> dict[str, str]:
    pod = convert(
        PODS,
        {
            "metadata": {
                "name": "pod",
                "namespace": "ns",
                "uid": "uid",
                "labels": {"app": "web", "tier": "front"},
                "annotations": {"note/a.b": "text"},
            },
            "spec": {"nodeName": "node", "containers": [{"name": "main", **container}]},
        },
    )
    return await environment(pod, pod.spec.containers[0], _Sources(), "10.0.0.2", "127.0.0.1", "node")


def _field(path: str) -> dict[str, Any]:
    return {"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}}


@each_case(
    ("entry", "value"),
    [
        ({"name": "X", "value": "plain"}, "plain"),
        (_field("metadata.name"), "pod"),
        (_field("metadata.uid"), "uid"),
        (_field("metadata.labels['app']"), "web"),
        (_field("metadata.annotations['note/a.b']"), "text"),
        (_field("metadata.labels"), 'app="web"\ntier="front"'),
        (_field("status.podIP"), "10.0.0.2"),
        (_field("status.hostIP"), "127.0.0.1"),
        ({"name": "X", "valueFrom": {"secretKeyRef": {"name": "secret", "key": "password"}}}, "hunter2"),
        ({"name": "X", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}, "2"),
        (
            {"name": "X", "valueFrom": {"resourceFieldRef": {"resource": "requests.cpu", "divisor": "1m"}}},
            "500",
        ),
        (
            {"name": "X", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
            "64",
        ),
    ],
)
async def test_environment_values_are_read_from_fields_and_resources(
    entry: dict[str, Any], value: str
) -> None:
    resources = {"limits": {"cpu": "1500m", "memory": "64Mi"}, "requests": {"cpu": "500m"}}
    assert (await _env({"env": [entry], "resources": resources}))["X"] == value


async def test_order_prefixes_and_references_of_variables_follow_upstream() -> None:
    env = await _env(
        {
            "envFrom": [
                {"configMapRef": {"name": "config"}, "prefix": "CFG_"},
                {"secretRef": {"name": "absent", "optional": True}},
            ],
            "env": [{"name": "A", "value": "$(CFG_color)-$(LATER)"}, {"name": "LATER", "value": "$$(A)"}],
        }
    )
    assert env == {"CFG_color": "blue", "A": "blue-$(LATER)", "LATER": "$(A)"}
    assert expand("$(A)$(B)$$", {"A": "1"}) == "1$(B)$"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"configMapKeyRef": {"name": "absent", "key": "x"}}, 'configmap "absent" not found'),
        ({"secretKeyRef": {"name": "secret", "key": "x"}}, "couldn't find key x in Secret ns/secret"),
        ({"fieldRef": {"fieldPath": "spec.color"}}, "unsupported fieldPath: spec.color"),
        ({"resourceFieldRef": {"resource": "colors.cpu"}}, "unsupported container resource : colors.cpu"),
        ({"resourceFieldRef": {"resource": "limits.cpu", "containerName": "no"}}, "container no not found"),
    ],
)
async def test_a_missing_source_of_a_variable_is_a_create_container_config_error(
    source: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        await _env({"env": [{"name": "X", "valueFrom": source}]})
    assert str(raised.value) == message


def _pod_with_requests(cpu: str, **spec: Any) -> Any:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu, "example.com/gpu": "1"}}}
    return convert(PODS, {"metadata": {"name": "p"}, "spec": {"containers": [container], **spec}})


def test_admission_adds_the_requests_of_other_pods() -> None:
    status = {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "3"}}
    node = convert(NODES, {"metadata": {"name": "node"}, "status": status})
    admit(_pod_with_requests("1"), node, [_pod_with_requests("1")])
    with pytest.raises(Rejected, match="requested: 1500, used: 1000, capacity: 2000") as raised:
        admit(_pod_with_requests("1500m"), node, [_pod_with_requests("1")])
    assert raised.value.reason == "OutOfcpu"
    with pytest.raises(Rejected, match="pods, requested: 1, used: 3, capacity: 3"):
        admit(_pod_with_requests("0"), node, [_pod_with_requests("0")] * 3)


def test_requests_are_the_maximum_over_init_containers_and_containers() -> None:
    init = [
        {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
        {"name": "big", "resources": {"requests": {"cpu": "4"}}},
    ]
    assert milli_requests(_pod_with_requests("2", initContainers=init))["cpu"] == 5000
    assert milli_requests(_pod_with_requests("6", initContainers=init, overhead={"cpu": "1"}))["cpu"] == 8000
