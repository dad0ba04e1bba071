"""The resources of pods' and containers' cgroups, and the order in which the OOM killer kills them.

Follows pkg/kubelet/cm/helpers_linux.go, pkg/kubelet/kuberuntime/kuberuntime_container_linux.go and
pkg/kubelet/qos/policy.go. Since Kubernetes 1.37, the CPU, memory and huge pages of claims are included.
According to KEP 5517, a container's CPU shares are still those of its requests.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from dra_shared.api.container import Container
from dra_shared.api.pod import Pod
from dra_shared.features import FeatureGates
from dra_shared.quantity import Format, Quantity
from dra_shared.version import V1_37

from dra_node_agent.kubelet import claimamounts
from dra_node_agent.kubelet.admission import milli_requests
from dra_node_agent.kubelet.claimamounts import milli
from dra_node_agent.kubelet.qos import qos_class
from dra_node_agent.kubelet.restarts import is_sidecar
from dra_node_agent.runtime.base import LinuxResources

_MIN_SHARES, _MAX_SHARES, _SHARES_A_CPU = 2, 262144, 1024
_PERIOD, _MIN_QUOTA = 100_000, 1000
_GUARANTEED_SCORE, _BEST_EFFORT_SCORE = -997, 1000
_HUGE_PAGES = "hugepages-"
_NODE_CRITICAL = 2_000_001_000


class Cgroups:
    """The cgroups of a node's pods.

    Args:
        memory: the node's memory in bytes.
    """

    def __init__(self, features: FeatureGates, memory: int) -> None:
        self._memory = memory
        self._claims = features.version >= V1_37 and features.enabled("DRANodeAllocatableResources")

    def limits(self, pod: Pod, container: Container) -> Mapping[str, str]:
        """Return the container's limits including those of its claims. Resources without a limit stay unlimited."""
        brought = self._claim_amounts(pod, container)
        return {
            name: _raise_limit(name, value, brought[name]) if brought[name] else value
            for name, value in container.resources.limits.items()
        }

    def raised_limits(self, pod: Pod) -> Mapping[str, Mapping[str, str]]:
        """Return the limits of those containers whose limits are raised by claims."""
        if not self._claims or not pod.status.node_allocatable_resource_claim_statuses:
            return {}
        containers = (*pod.spec.init_containers, *pod.spec.containers)
        return {container.name: self.limits(pod, container) for container in containers}

    def of_container(self, pod: Pod, container: Container) -> LinuxResources:
        """Return the container's resources for the runtime (LinuxContainerResources of CRI)."""
        requests, brought = milli(container.resources.requests), self._claim_amounts(pod, container)
        own, whole = milli(container.resources.limits), milli(_pod_level(pod))
        limits = {name: own[name] + brought[name] if own[name] else whole[name] for name in ("cpu", "memory")}
        pages = {name: own[name] + brought[name] for name in {*own, *brought} if name.startswith(_HUGE_PAGES)}
        cpu = requests["cpu"] or (0 if "cpu" in container.resources.requests else own["cpu"])
        return LinuxResources(
            cpu_shares=_shares(cpu),
            cpu_quota=_quota(limits["cpu"]),
            memory=_whole(limits["memory"]),
            huge_pages=_pages(pages),
            oom_score_adj=self._oom_score(pod, container),
        )

    def of_pod(self, pod: Pod) -> LinuxResources:
        """Return the limits of the whole pod. They apply only if each container has some, or the pod itself."""
        requests = milli_requests(pod, claims=self._claims)
        limits, quality = self._pod_limits(pod), qos_class(pod)
        bounded = {
            name: quality != "BestEffort" and (name in _pod_level(pod) or _all_limit(pod, name))
            for name in ("cpu", "memory")
        }
        return LinuxResources(
            cpu_shares=_shares(requests["cpu"]),
            cpu_quota=_quota(limits["cpu"]) if bounded["cpu"] else None,
            memory=_whole(limits["memory"]) if bounded["memory"] else None,
            huge_pages=_pages(requests),
        )

    def describe(self, pod: Pod) -> dict[str, Any]:
        """Describe the pod's cgroup and those of its containers with CRI's field names."""
        containers = (*pod.spec.init_containers, *pod.spec.containers)
        return {
            "pod": _describe(self.of_pod(pod)),
            "containers": [
                {"name": container.name, **_describe(self.of_container(pod, container))}
                for container in containers
            ],
        }

    def _claim_amounts(self, pod: Pod, container: Container) -> Counter[str]:
        return claimamounts.of_container(pod, container.name) if self._claims else Counter()

    def _pod_limits(self, pod: Pod) -> Counter[str]:
        """Compute PodLimits of component-helpers."""
        total: Counter[str] = Counter()
        for container in pod.spec.containers:
            total.update(milli(container.resources.limits))
        sidecars: Counter[str] = Counter()
        for container in pod.spec.init_containers:
            own = milli(container.resources.limits)
            if is_sidecar(container):
                total.update(own)
                sidecars.update(own)
            else:
                total |= sidecars + own
        if self._claims:
            total.update(claimamounts.of_pod(pod))
        total.update({name: amount for name, amount in milli(pod.spec.overhead).items() if total[name]})
        return Counter({**total, **milli(_pod_level(pod))})

    def _oom_score(self, pod: Pod, container: Container) -> int:
        quality = qos_class(pod)
        if (pod.spec.priority or 0) >= _NODE_CRITICAL or quality == "Guaranteed":
            return _GUARANTEED_SCORE
        if quality == "BestEffort":
            return _BEST_EFFORT_SCORE
        rest = self._rest_of_memory(pod)
        score = self._linear_score(self._memory_request(pod, container) + rest)
        if is_sidecar(container) and container in pod.spec.init_containers:
            least = min(_bytes(one) for one in pod.spec.containers)
            score = min(score, self._linear_score(least + rest))
        if score < 1000 + _GUARANTEED_SCORE:
            return 1000 + _GUARANTEED_SCORE
        return score - 1 if score == _BEST_EFFORT_SCORE else score

    def _linear_score(self, memory: int) -> int:
        return 1000 - 1000 * memory // self._memory if self._memory else _BEST_EFFORT_SCORE

    def _memory_request(self, pod: Pod, container: Container) -> int:
        return _bytes(container) + (claimamounts.memory_share(pod, container.name) if self._claims else 0)

    def _rest_of_memory(self, pod: Pod) -> int:
        """Return each container's part of the pod-level memory request that no container requests."""
        if pod.spec.resources is None or "memory" not in pod.spec.resources.requests:
            return 0
        containers = (*pod.spec.containers, *pod.spec.init_containers)
        rest = Quantity.parse(pod.spec.resources.requests["memory"]).value() - sum(map(_bytes, containers))
        return rest // len(containers)


def _describe(resources: LinuxResources) -> dict[str, Any]:
    found: dict[str, Any] = {"cpuShares": resources.cpu_shares, "cpuPeriod": _PERIOD}
    if resources.cpu_quota is not None:
        found["cpuQuota"] = resources.cpu_quota
    if resources.memory is not None:
        found["memoryLimitInBytes"] = resources.memory
    if resources.huge_pages:
        found["hugepageLimits"] = [
            {"pageSize": size, "limit": limit} for size, limit in sorted(resources.huge_pages.items())
        ]
    if resources.oom_score_adj:
        found["oomScoreAdj"] = resources.oom_score_adj
    return found


def _pod_level(pod: Pod) -> Mapping[str, str]:
    return {} if pod.spec.resources is None else pod.spec.resources.limits


def _all_limit(pod: Pod, name: str) -> bool:
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return all(milli(container.resources.limits)[name] for container in containers)


def _bytes(container: Container) -> int:
    return Quantity.parse(container.resources.requests.get("memory", "0")).value()


def _raise_limit(name: str, value: str, milli_amount: int) -> str:
    total = Quantity.parse(value).milli_value() + milli_amount
    if name == "cpu":
        return str(Quantity(total, -3))
    return str(Quantity(_whole(total) or 0, format=Format.BINARY_SI))


def _shares(milli_cpu: int) -> int:
    return min(max(milli_cpu * _SHARES_A_CPU // 1000, _MIN_SHARES), _MAX_SHARES)


def _quota(milli_cpu: int) -> int | None:
    return max(milli_cpu * _PERIOD // 1000, _MIN_QUOTA) if milli_cpu else None


def _whole(thousandths: int) -> int | None:
    return -(-thousandths // 1000) or None


def _pages(amounts: Mapping[str, int]) -> dict[str, int]:
    """Return the limits by page size, with the names of the kernel's files: ``2MB``, ``1GB``."""
    return {
        f"{name.removeprefix(_HUGE_PAGES).removesuffix('i')}B": _whole(amount) or 0
        for name, amount in amounts.items()
        if name.startswith(_HUGE_PAGES)
    }
