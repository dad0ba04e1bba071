"""Cgroups of pods and containers. Cases with claims are the walkthroughs of KEP 5517."""

from typing import Any

import pytest
from dra_node_agent.kubelet.admission import Rejected, admit
from dra_node_agent.kubelet.cgroups import Cgroups
from dra_node_agent.runtime.base import LinuxResources
from dra_node_agent.runtime.cgroupfiles import cgroup_files
from dra_shared.api.codec import convert
from dra_shared.api.node import Node
from dra_shared.api.pod import Pod
from dra_shared.api.resources import NODES, PODS
from dra_shared.features import FeatureGates
from dra_shared.version import V1_36, V1_37, Version

from tests.support.cases import each_case

_GATE = "DRANodeAllocatableResources"
_GI = 1 << 30
_UNBOUNDED = LinuxResources()


def _cgroups(version: Version = V1_37, *, on: bool = True) -> Cgroups:
    return Cgroups(FeatureGates(version, **{_GATE: on}), 100 * _GI)


def _resources(cpu: str, memory: str, limit_cpu: str, limit_memory: str) -> dict[str, Any]:
    return {
        "requests": {"cpu": cpu, "memory": memory},
        "limits": {"cpu": limit_cpu, "memory": limit_memory},
    }


_SMALL, _LARGE = _resources("2", "2Gi", "4", "4Gi"), _resources("4", "4Gi", "8", "8Gi")
_CLAIM = {"mapping": [{"name": "cpu", "quantity": "5"}, {"name": "memory", "quantity": "5Gi"}]}


def _pod(*containers: dict[str, Any], claims: tuple[dict[str, Any], ...] = (_CLAIM,), **spec: Any) -> Pod:
    """Return a pod whose containers c1, c2 and so on share the claims."""
    names = [f"c{number}" for number in range(1, len(containers) + 1)]
    entries = [{"name": name, "resources": given} for name, given in zip(names, containers, strict=True)]
    statuses = [{"resourceClaimName": f"r{i}", "containers": names, **one} for i, one in enumerate(claims)]
    return convert(
        PODS,
        {
            "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
            "spec": {"containers": entries, **spec},
            "status": {"nodeAllocatableResourceClaimStatuses": statuses},
        },
    )


def _bounds(found: LinuxResources) -> tuple[float, float | None, float | None]:
    """Return shares and quota in CPUs, and memory in GiB."""
    return (
        found.cpu_shares / 1024,
        None if found.cpu_quota is None else found.cpu_quota / 100_000,
        None if found.memory is None else found.memory / _GI,
    )


_LEAST = 2 / 1024
_POD_LEVEL = {"requests": {"cpu": "5", "memory": "5Gi"}, "limits": {"cpu": "5", "memory": "5Gi"}}
_BUDGET = {"requests": {"cpu": "8", "memory": "8Gi"}, "limits": {"cpu": "15", "memory": "15Gi"}}
_SIDECAR = {"name": "sidecar", "restartPolicy": "Always"}


@each_case(
    ("pod", "whole", "each"),
    [
        (_pod(_SMALL), (7, 9, 9), [(2, 9, 9)]),
        (_pod({}), (5, None, None), [(_LEAST, None, None)]),
        (_pod(_SMALL, _LARGE), (11, 17, 17), [(2, 9, 9), (4, 13, 13)]),
        (_pod({}, {}, resources=_POD_LEVEL), (5, 5, 5), [(_LEAST, 5, 5), (_LEAST, 5, 5)]),
        (
            _pod(_SMALL, _LARGE, resources=_BUDGET, initContainers=[_SIDECAR]),
            (8, 15, 15),
            [(2, 9, 9), (4, 13, 13), (_LEAST, 15, 15)],
        ),
        (_pod(_SMALL, {}), (7, None, None), [(2, 9, 9), (_LEAST, None, None)]),
        (_pod(_SMALL, claims=()), (2, 4, 4), [(2, 4, 4)]),
    ],
    ids=[
        "request",
        "no-request",
        "shared",
        "pod-level",
        "pod-level-and-sidecar",
        "one-unlimited",
        "no-claim",
    ],
)
def test_claims_raise_the_limits_of_pod_and_containers(
    pod: Pod, whole: tuple[float | None, ...], each: list[tuple[float | None, ...]]
) -> None:
    cgroups = _cgroups()
    assert _bounds(cgroups.of_pod(pod)) == whole
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    assert [_bounds(cgroups.of_container(pod, container)) for container in containers] == each


@pytest.mark.parametrize(("version", "on"), [(V1_36, True), (V1_37, False)])
def test_claims_have_no_effect_without_the_gate_and_before_1_37(version: Version, on: bool) -> None:
    cgroups, pod = _cgroups(version, on=on), _pod(_SMALL)
    assert _bounds(cgroups.of_pod(pod)) == (2, 4, 4)
    assert _bounds(cgroups.of_container(pod, pod.spec.containers[0])) == (2, 4, 4)
    assert cgroups.raised_limits(pod) == {}


def test_overhead_is_added_once_to_the_pod_and_to_each_container() -> None:
    overhead = {"overhead": [{"name": "memory", "perPod": "3Gi", "perContainer": "1Gi"}]}
    pod = _pod(_SMALL, _LARGE, claims=(overhead,))
    cgroups = _cgroups()
    assert _bounds(cgroups.of_pod(pod)) == (6, 12, 4 + 8 + 3 + 2)
    assert [_bounds(cgroups.of_container(pod, c))[2] for c in pod.spec.containers] == [8, 12]
    assert dict(cgroups.raised_limits(pod)["c1"]) == {"cpu": "4", "memory": "8Gi"}


def test_huge_pages_of_claims_are_limited_if_no_container_limits_them() -> None:
    pod = _pod({}, claims=({"mapping": [{"name": "hugepages-2Mi", "quantity": "64Mi"}]},))
    cgroups = _cgroups()
    found = cgroups.of_container(pod, pod.spec.containers[0])
    assert found.huge_pages == cgroups.of_pod(pod).huge_pages == {"2MB": 64 << 20}
    files = cgroup_files(found)
    assert files["/sys/fs/cgroup/hugetlb.2MB.max"] == f"{64 << 20}\n"
    assert files["/sys/fs/cgroup/hugetlb.1GB.max"] == "0\n"


@each_case(
    ("pod", "scores"),
    [
        (_pod(_resources("1", "10Gi", "1", "10Gi"), claims=()), [-997]),
        (_pod({}), [1000]),
        (_pod(_resources("1", "10Gi", "2", "20Gi"), claims=()), [900]),
        # A claim's memory is shared equally by the containers that use it.
        (_pod(_resources("1", "10Gi", "2", "20Gi"), _resources("1", "1Gi", "2", "2Gi")), [875, 965]),
        (_pod({"requests": {"cpu": "1"}}, claims=()), [999]),
        (
            _pod(_resources("1", "90Gi", "2", "99Gi"), _resources("1", "99.9Gi", "2", "200Gi"), claims=()),
            [100, 3],
        ),
        (_pod(_SMALL, priority=2_000_001_000), [-997]),
    ],
)
def test_oom_score_follows_the_qos_class_and_requests(pod: Pod, scores: list[int]) -> None:
    cgroups = _cgroups()
    assert [cgroups.of_container(pod, c).oom_score_adj for c in pod.spec.containers] == scores


def test_the_oom_score_of_a_sidecar_is_at_most_that_of_the_containers() -> None:
    pod = _pod(
        _resources("1", "10Gi", "2", "20Gi"), claims=(), initContainers=[{**_SIDECAR, "resources": {}}]
    )
    assert _cgroups().of_container(pod, pod.spec.init_containers[0]).oom_score_adj == 900


def test_cgroup_files_in_a_container_have_the_limits() -> None:
    pod = _pod(_SMALL)
    files = cgroup_files(_cgroups().of_container(pod, pod.spec.containers[0]))
    assert files["/sys/fs/cgroup/cpu.max"] == "900000 100000\n"
    # 2048 shares are a weight of 174, as runc 1.3 has it.
    assert files["/sys/fs/cgroup/cpu.weight"] == "174\n"
    assert files["/sys/fs/cgroup/memory.max"] == f"{9 * _GI}\n"
    unbounded = cgroup_files(_UNBOUNDED)
    assert unbounded["/sys/fs/cgroup/cpu.max"] == "max 100000\n"
    assert unbounded["/sys/fs/cgroup/cpu.weight"] == "1\n"
    assert unbounded["/sys/fs/cgroup/memory.max"] == "max\n"


@pytest.mark.parametrize(("shares", "weight"), [(2, 1), (1024, 100), (262144, 10000), (1 << 20, 10000)])
def test_cpu_shares_are_converted_to_weights(shares: int, weight: int) -> None:
    files = cgroup_files(LinuxResources(cpu_shares=shares))
    assert files["/sys/fs/cgroup/cpu.weight"] == f"{weight}\n"


def test_a_pod_is_rejected_if_resources_of_claims_exceed_the_node() -> None:
    node: Node = convert(
        NODES, {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "8", "memory": "1Ti"}}}
    )
    pod, other = _pod(_SMALL), _pod({"requests": {"cpu": "2"}}, claims=())
    admit(pod, node, [])
    with pytest.raises(Rejected) as caught:
        admit(pod, node, [other], claims=True)
    assert str(caught.value) == (
        "Node didn't have enough resource: cpu, requested: 7000, used: 2000, capacity: 8000"
    )
    admit(pod, node, [other])
