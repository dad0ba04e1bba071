"""Resource requests of pods and allocatable resources of nodes, as plain integers.

Mirrors upstream's ``component-helpers/resource``.
"""

import functools
from collections.abc import Iterable, Mapping

import msgspec
from dra_shared.api.container import Container
from dra_shared.api.pod import NodeAllocatableResourceClaimStatus, Pod
from dra_shared.quantity import Quantity

# CPU in thousandths, everything else in whole units, rounded up.
Amounts = dict[str, int]

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"

# The requests for scoring of a container without requests (upstream's util.DefaultMilliCPURequest).
_DEFAULT_REQUESTS = {CPU: 100, MEMORY: 200 * 1024 * 1024}
_NATIVE = {CPU, MEMORY, EPHEMERAL_STORAGE, PODS}
_POD_LEVEL = ("cpu", "memory")


@functools.lru_cache(maxsize=1 << 16)
def amount(resource: str, quantity: str) -> int:
    """Convert a quantity of a resource to an integer."""
    parsed = Quantity.parse(quantity)
    return parsed.milli_value() if resource == CPU else parsed.value()


def amounts(quantities: Mapping[str, str]) -> Amounts:
    """Convert the quantities of a map to integers."""
    return {name: amount(name, quantity) for name, quantity in quantities.items()}


def add(total: Amounts, more: Mapping[str, int]) -> None:
    """Add ``more`` to ``total``."""
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def subtract(total: Amounts, less: Mapping[str, int]) -> None:
    """Subtract ``less`` from ``total``. Amounts that reach zero are removed."""
    for name, value in less.items():
        left = total.get(name, 0) - value
        if left:
            total[name] = left
        else:
            total.pop(name, None)


def _raise_to(total: Amounts, other: Mapping[str, int]) -> None:
    for name, value in other.items():
        if value > total.get(name, 0):
            total[name] = value


def is_sidecar(container: Container) -> bool:
    """True if an init container keeps running next to the other containers."""
    return container.restart_policy == "Always"


def pod_requests(
    pod: Pod, *, defaults: Mapping[str, int] | None = None, pod_level: bool = True, claims: bool = True
) -> Amounts:
    """Return the resources that the pod needs from its node (component-helpers' PodRequests).

    Init containers run one after the other before the rest, but sidecars keep running. ``defaults`` replace
    missing requests of a container. With ``pod_level``, ``spec.resources`` overrides CPU and memory. With
    ``claims``, the node's resources used by the pod's claims
    (``status.nodeAllocatableResourceClaimStatuses``) are added.
    """
    total: Amounts = {}
    for container in pod.spec.containers:
        add(total, _requests(container, defaults))
    if pod.spec.init_containers:
        _add_init_containers(total, pod.spec.init_containers, defaults)
    if claims:
        for status in pod.status.node_allocatable_resource_claim_statuses:
            _add_claim(total, status)
    if pod_level and pod.spec.resources is not None:
        for name, quantity in pod.spec.resources.requests.items():
            if name in _POD_LEVEL or name.startswith("hugepages-"):
                total[name] = amount(name, quantity)
    if pod.spec.overhead:
        add(total, amounts(pod.spec.overhead))
    return total


def _add_claim(total: Amounts, status: NodeAllocatableResourceClaimStatus) -> None:
    """Add a claim's resources once, and its overhead for the pod and each container that uses the claim."""
    add(total, amounts(status.resources))
    for mapped in status.mapping:
        add(total, {mapped.name: amount(mapped.name, mapped.quantity)})
    for overhead in status.overhead:
        once, each = overhead.per_pod or "0", overhead.per_container or "0"
        name, users = overhead.name, len(status.containers)
        add(total, {name: amount(name, once) + amount(name, each) * users})


def container_overhead(pod: Pod, container: str) -> Amounts:
    """Return the resource overhead of claims that the container uses. Its own limits must cover it."""
    total: Amounts = {}
    for status in pod.status.node_allocatable_resource_claim_statuses:
        if container in status.containers:
            for overhead in status.overhead:
                for text in (overhead.per_pod, overhead.per_container):
                    add(total, {overhead.name: amount(overhead.name, text or "0")})
    return total


def _add_init_containers(
    total: Amounts, containers: Iterable[Container], defaults: Mapping[str, int] | None
) -> None:
    sidecars: Amounts = {}
    highest: Amounts = {}
    for container in containers:
        needs = _requests(container, defaults)
        if is_sidecar(container):
            add(total, needs)
            add(sidecars, needs)
            _raise_to(highest, sidecars)
        else:
            add(needs, sidecars)
            _raise_to(highest, needs)
    _raise_to(total, highest)


def pod_limits(pod: Pod) -> Amounts:
    """Return the sum of the limits of containers and of claims (component-helpers' AggregateContainerLimits)."""

    def with_limits(container: Container) -> Container:
        resources = msgspec.structs.replace(container.resources, requests=container.resources.limits)
        return msgspec.structs.replace(container, resources=resources)

    spec = msgspec.structs.replace(
        pod.spec,
        containers=tuple(map(with_limits, pod.spec.containers)),
        init_containers=tuple(map(with_limits, pod.spec.init_containers)),
        overhead={},
    )
    return pod_requests(msgspec.structs.replace(pod, spec=spec), pod_level=False)


def scoring_requests(pod: Pod) -> Amounts:
    """Return the pod's CPU and memory for scoring, where containers without requests have defaults."""
    return pod_requests(pod, defaults=_DEFAULT_REQUESTS)


def extended_requests(pod: Pod) -> Amounts:
    """Return the extended resources that the pod requests. Fast for the many pods that request none."""
    spec = pod.spec
    if not spec.overhead and not pod.status.node_allocatable_resource_claim_statuses:
        containers = (*spec.init_containers, *spec.containers)
        if not any(is_extended(name) for container in containers for name in container.resources.requests):
            return {}
    return {name: value for name, value in pod_requests(pod).items() if value and is_extended(name)}


def _requests(container: Container, defaults: Mapping[str, int] | None) -> Amounts:
    needs = amounts(container.resources.requests)
    return {**defaults, **needs} if defaults else needs


def scalars(needs: Mapping[str, int]) -> Iterable[tuple[str, int]]:
    """Return the resources other than CPU, memory, ephemeral storage and pods."""
    return ((name, value) for name, value in needs.items() if name not in _NATIVE)


def is_extended(name: str) -> bool:
    """True if device plugins or device classes provide the resource (schedutil.IsDRAExtendedResourceName)."""
    if name.startswith("deviceclass.resource.kubernetes.io/"):
        return True
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")
