"""Count what services and volume claims use of a ResourceQuota (pkg/quota/v1/evaluator/core). Pure."""

from dra_shared.api.core import (
    PersistentVolumeClaim,
    ResourceQuota,
    ScopedResourceSelectorRequirement,
    Service,
)
from dra_shared.quantity import Quantity
from dra_shared.quota import Usage

_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_CLASS_SUFFIX = ".storageclass.storage.k8s.io/"
_CLAIMS, _STORAGE = "persistentvolumeclaims", "requests.storage"
_SERVICES = frozenset({"count/services", "services", "services.loadbalancers", "services.nodeports"})


def is_service_resource(name: str) -> bool:
    """True if services count for a quota of that name."""
    return name in _SERVICES


def is_volume_claim_resource(name: str) -> bool:
    """True if volume claims count for a quota of that name, perhaps only those of one storage class."""
    plain = (_CLAIMS, _STORAGE)
    return name in (f"count/{_CLAIMS}", *plain) or any(name.endswith(_CLASS_SUFFIX + one) for one in plain)


def service_usage(service: Service) -> Usage:
    """Return the usage of a service. Node ports count before they are allocated, so the ports are counted."""
    usage = {"count/services": _quantity(1), "services": _quantity(1)}
    spec = service.spec
    if spec.type == "LoadBalancer":
        usage["services.loadbalancers"] = _quantity(1)
    if spec.type == "LoadBalancer" and spec.allocate_load_balancer_node_ports is False:
        usage["services.nodeports"] = _quantity(sum(1 for port in spec.ports if port.node_port))
    elif spec.type in ("LoadBalancer", "NodePort"):
        usage["services.nodeports"] = _quantity(len(spec.ports))
    return usage


def volume_claim_usage(claim: PersistentVolumeClaim) -> Usage:
    """Return the usage of a volume claim, which also counts for its storage class."""
    usage = {f"count/{_CLAIMS}": _quantity(1), _CLAIMS: _quantity(1)}
    storage = _storage(claim)
    if storage is not None:
        usage[_STORAGE] = storage
    storage_class = claim.metadata.annotations.get(_BETA_CLASS) or claim.spec.storage_class_name
    if storage_class:
        for name in (_CLAIMS, _STORAGE):
            if name in usage:
                usage[f"{storage_class}{_CLASS_SUFFIX}{name}"] = usage[name]
    return usage


def _storage(claim: PersistentVolumeClaim) -> Quantity | None:
    """Return the storage that is requested, or allocated if that is more, in whole bytes."""
    requested = claim.spec.resources.requests.get("storage")
    if requested is None:
        return None
    allocated = claim.status.allocated_resources.get("storage")
    found = [Quantity.parse(text) for text in (requested, allocated) if text is not None]
    most = found[0] if len(found) == 1 or found[0].compare(found[1]) >= 0 else found[1]
    return _quantity(most.value()) if most.milli_value() % 1000 else most


def selects_volume_claim(quota: ResourceQuota, claim: PersistentVolumeClaim) -> bool:
    """True if the quota's scopes include the volume claim. All scopes but VolumeAttributesClass are for pods."""
    requirements = [
        ScopedResourceSelectorRequirement(operator="Exists", scope_name=scope) for scope in quota.spec.scopes
    ]
    if quota.spec.scope_selector is not None:
        requirements += quota.spec.scope_selector.match_expressions
    names = _attributes_classes(claim)
    return all(one.scope_name == "VolumeAttributesClass" and _matches(one, names) for one in requirements)


def _attributes_classes(claim: PersistentVolumeClaim) -> set[str]:
    modified = claim.status.modify_volume_status
    names = {
        claim.spec.volume_attributes_class_name,
        claim.status.current_volume_attributes_class_name,
        modified.target_volume_attributes_class_name if modified is not None else "",
    }
    return {name for name in names if name}


def _matches(requirement: ScopedResourceSelectorRequirement, names: set[str]) -> bool:
    """True if one of the classes matches. A claim without a class matches terms that exclude classes."""
    values = set(requirement.values)
    match requirement.operator:
        case "Exists":
            return bool(names)
        case "DoesNotExist":
            return not names
        case "In":
            return bool(names & values)
        case "NotIn":
            return not names or bool(names - values)
    return False


def _quantity(number: int) -> Quantity:
    return Quantity.parse(str(number))
