"""Claims for extended resources that a device class provides.

Mirrors upstream's ``pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from dra_shared.api.container import Container
from dra_shared.api.meta import ObjectMeta, OwnerReference
from dra_shared.api.pod import ContainerExtendedResourceRequest, Pod
from dra_shared.api.resource import DeviceRequest, ExactDeviceRequest, ResourceClaim
from dra_shared.claims import EXTENDED_RESOURCE_ANNOTATION
from dra_shared.quantity import Quantity

from dra_scheduler.framework.resources import is_sidecar

# The claim's name until the API server generates one. It is not a valid name, so no real claim has it.
IN_MEMORY_NAME = "<extended-resources>"

Mappings = tuple[ContainerExtendedResourceRequest, ...]


def in_memory_claim(pod: Pod, uid: str) -> ResourceClaim:
    """Return the claim for the pod's extended resources before it is created. ``uid`` is a temporary one."""
    meta = pod.metadata
    owner = OwnerReference(api_version="v1", kind="Pod", name=meta.name, uid=meta.uid, controller=True)
    return ResourceClaim(
        metadata=ObjectMeta(
            namespace=meta.namespace,
            name=IN_MEMORY_NAME,
            uid=uid,
            generate_name=f"{meta.name}-extended-resources-",
            owner_references=(owner,),
            annotations={EXTENDED_RESOURCE_ANNOTATION: "true"},
        )
    )


def is_in_memory(claim: ResourceClaim) -> bool:
    """True if the claim has not been created yet."""
    return claim.metadata.name == IN_MEMORY_NAME


def requests_and_mappings(
    pod: Pod, resources: Iterable[str], class_name: Callable[[str], str | None]
) -> tuple[tuple[DeviceRequest, ...], Mappings]:
    """Return the device requests for those extended resources, and the container request that each serves.

    Init containers that end before the others start use the devices of later containers, and share among
    themselves any that they need in addition (upstream's createRequestsAndMappings).
    """
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    inits = len(pod.spec.init_containers)
    short = [i for i, container in enumerate(containers) if i < inits and not is_sidecar(container)]
    long = [i for i in range(len(containers)) if i not in short]
    requests: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    for resource in sorted(resources):
        name = class_name(resource)
        if name is None:
            continue
        lasting: dict[int, DeviceRequest] = {}
        for i in long:
            request, served = _container_request(i, containers[i], resource, name, ())
            mappings += served
            if request is not None:
                lasting[i] = request
        passing: dict[str, DeviceRequest] = {}
        passing_mappings: list[ContainerExtendedResourceRequest] = []
        for i in short:
            reusable = [lasting[j] for j in sorted(lasting) if j >= i]
            request, served = _container_request(i, containers[i], resource, name, reusable)
            passing_mappings += served
            if request is not None:
                passing[request.name] = request
        if passing:
            largest = max(passing.values(), key=_count)
            requests.append(largest)
            passing_mappings = [
                ContainerExtendedResourceRequest(
                    container_name=m.container_name,
                    resource_name=m.resource_name,
                    request_name=largest.name if m.request_name in passing else m.request_name,
                )
                for m in passing_mappings
            ]
        requests += lasting.values()
        mappings += passing_mappings
    return tuple(sorted(requests, key=lambda request: request.name)), tuple(mappings)


def _container_request(
    index: int, container: Container, resource: str, class_name: str, reusable: Sequence[DeviceRequest]
) -> tuple[DeviceRequest | None, list[ContainerExtendedResourceRequest]]:
    wanted = _whole(container.resources.requests, resource)
    served: list[ContainerExtendedResourceRequest] = []
    if not wanted:
        return None, served

    def serve(request_name: str) -> None:
        served.append(
            ContainerExtendedResourceRequest(
                container_name=container.name, resource_name=resource, request_name=request_name
            )
        )

    covered = 0
    for other in reusable:
        covered += _count(other)
        serve(other.name)
        if covered >= wanted:
            return None, served
    position = sorted(container.resources.requests).index(resource)
    request = DeviceRequest(
        name=f"container-{index}-request-{position}",
        exactly=ExactDeviceRequest(
            device_class_name=class_name, allocation_mode="ExactCount", count=wanted - covered
        ),
    )
    serve(request.name)
    return request, served


def _whole(quantities: Mapping[str, str], resource: str) -> int:
    text = quantities.get(resource)
    return 0 if text is None else Quantity.parse(text).as_int64() or 0


def _count(request: DeviceRequest) -> int:
    return (request.exactly.count or 0) if request.exactly is not None else 0
