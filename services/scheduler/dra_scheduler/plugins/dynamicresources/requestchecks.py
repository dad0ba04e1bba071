"""The checks of claims in PreFilter (upstream's ``validateDeviceClass`` and its caller)."""

from dra_shared.api.resource import ResourceClaim

from dra_scheduler.dra.classes import ClassResolver
from dra_scheduler.framework.status import Status, error, unresolvable


def check_requests(claim: ResourceClaim, classes: ClassResolver, *, prioritized: bool) -> Status | None:
    """Return a status if the claim cannot be allocated on any node. ``prioritized``: alternatives are allowed."""
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            status = _check_class(request.exactly.device_class_name, request.name, classes)
            if status is not None:
                return status
        elif request.first_available:
            if not prioritized:
                return unresolvable(
                    f"resource claim {claim.key}, request {request.name}: has subrequests, "
                    "but the DRAPrioritizedList feature is disabled"
                )
            for alternative in request.first_available:
                name = f"{request.name}/{alternative.name}"
                status = _check_class(alternative.device_class_name, name, classes)
                if status is not None:
                    return status
        else:
            return unresolvable(f"resource claim {claim.key}, request {request.name}: unknown request type")
    return None


def _check_class(class_name: str, request: str, classes: ClassResolver) -> Status | None:
    if not class_name:
        return error(f"request {request}: unsupported request type")
    if classes.get(class_name) is None:
        return unresolvable(f"request {request}: device class {class_name} does not exist")
    return None
