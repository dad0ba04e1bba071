"""In-place resize: compute the requests that scheduling counts for a resized pod."""

from collections.abc import Mapping, Sequence

import msgspec
from dra_shared.api.container import Container, ContainerStatus
from dra_shared.api.pod import Pod
from dra_shared.quantity import Quantity

_Quantities = Mapping[str, str]


def as_resized(pod: Pod) -> Pod:
    """Replace the pod's requests by the maximum of requested, allocated and actual ones (UseStatusResources).

    A request that the kubelet reports as infeasible does not count.
    """
    statuses = {status.name: status for status in pod.status.container_statuses if status.resources}
    statuses |= {status.name: status for status in pod.status.init_container_statuses if status.resources}
    if not statuses and pod.status.resources is None:
        return pod
    wanted = not _is_infeasible(pod)
    containers = tuple(_container(c, statuses.get(c.name), wanted) for c in pod.spec.containers)
    init_containers = tuple(_container(c, statuses.get(c.name), wanted) for c in pod.spec.init_containers)
    resources = pod.spec.resources
    if resources is not None and resources.requests and pod.status.resources is not None:
        most = _most(
            resources.requests if wanted else {},
            pod.status.resources.requests,
            pod.status.allocated_resources,
        )
        resources = msgspec.structs.replace(resources, requests=most)
    spec = msgspec.structs.replace(
        pod.spec, containers=containers, init_containers=init_containers, resources=resources
    )
    return msgspec.structs.replace(pod, spec=spec)


def same_resize(old: Pod, new: Pod) -> bool:
    """True if :func:`as_resized` gives the same result for both, apart from the spec."""
    before, after = old.status, new.status
    return (
        before.resources == after.resources
        and before.allocated_resources == after.allocated_resources
        and _same_resources(before.container_statuses, after.container_statuses)
        and _same_resources(before.init_container_statuses, after.init_container_statuses)
        and _is_infeasible(old) == _is_infeasible(new)
    )


def _same_resources(before: Sequence[ContainerStatus], after: Sequence[ContainerStatus]) -> bool:
    if len(before) != len(after):
        return not any(status.resources for status in (*before, *after))
    return all(
        one.resources == other.resources and one.allocated_resources == other.allocated_resources
        for one, other in zip(before, after, strict=True)
    )


def _container(container: Container, status: ContainerStatus | None, wanted: bool) -> Container:
    if status is None or status.resources is None:
        return container
    spec, actual, allocated = (
        container.resources.requests,
        status.resources.requests,
        status.allocated_resources,
    )
    if spec == actual and spec == allocated:
        return container
    most = _most(spec if wanted else {}, actual, allocated)
    return msgspec.structs.replace(
        container, resources=msgspec.structs.replace(container.resources, requests=most)
    )


def _most(*sets: _Quantities) -> dict[str, str]:
    most: dict[str, str] = {}
    for quantities in sets:
        for name, quantity in quantities.items():
            if name not in most or Quantity.parse(most[name]) < Quantity.parse(quantity):
                most[name] = quantity
    return most


def _is_infeasible(pod: Pod) -> bool:
    condition = next((c for c in pod.status.conditions if c.type == "PodResizePending"), None)
    return condition is not None and condition.reason == "Infeasible"
