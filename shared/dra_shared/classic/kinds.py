"""Classic kinds and their replacements."""

from dra_shared.classic.drivers import is_vendor_group
from dra_shared.classic.parameters import CLAIM_KINDS, CLASS_KINDS, IN_TREE_GROUP
from dra_shared.classic.pods import has_source
from dra_shared.jsontypes import JsonObject

_PARAMETERS = ("ClaimParameters", "ClassParameters")
_STATE = "the scheduler needs no such object: the claim's status has the allocated devices"
_PUBLISHED = "a driver publishes its devices as ResourceSlices"
_SUCCESSORS = {
    "PodScheduling": _STATE,
    "PodSchedulingContext": _STATE,
}


def is_structured(obj: JsonObject) -> bool:
    """True if the object uses structured parameters, the model of v1, in any API version."""
    spec = obj.get("spec")
    inner = (
        spec.get("spec") if isinstance(spec, dict) and obj.get("kind") == "ResourceClaimTemplate" else spec
    )
    if obj.get("kind") in ("ResourceClaim", "ResourceClaimTemplate"):
        return not (isinstance(inner, dict) and "resourceClassName" in inner)
    return obj.get("kind") in ("DeviceClass", "DeviceTaintRule", "ResourcePoolStatusRequest") or (
        obj.get("kind") == "ResourceSlice" and "driverName" not in obj
    )


def is_parameters(group: str, kind: str) -> bool:
    """True if such objects are the parameters of classes or claims."""
    return (is_vendor_group(group) or group == IN_TREE_GROUP) and kind in CLAIM_KINDS | CLASS_KINDS


def is_custom(group: str) -> bool:
    """True if the group's kinds are defined by CustomResourceDefinitions, and not by Kubernetes."""
    return "." in group and not group.endswith(".k8s.io")


def is_unknown_parameters(obj: JsonObject) -> bool:
    """True if the object has the name of a parameters kind and its driver is unknown."""
    group, kind = str(obj.get("apiVersion", "")).rpartition("/")[0], str(obj.get("kind"))
    return is_custom(group) and not is_vendor_group(group) and kind.endswith(_PARAMETERS)


def is_gone(group: str, kind: str) -> bool:
    """True if no current kind replaces this kind, such as those in which old drivers stored the state of each node."""
    if group == IN_TREE_GROUP:
        return kind in _SUCCESSORS
    return is_custom(group) and kind.endswith("AllocationState")


def successor(obj: JsonObject) -> str:
    """Return a sentence about the replacement of a classic object; empty if the object is not classic."""
    api_version, kind = str(obj.get("apiVersion", "")), str(obj.get("kind", ""))
    group, version = api_version.rpartition("/")[0], api_version.rpartition("/")[2]
    if has_source(obj):
        return "in spec.resourceClaims, resourceClaimName and resourceClaimTemplateName are no longer below source"
    if is_gone(group, kind):
        return explain_removal(kind)
    if is_parameters(group, kind):
        return "claims have their requests in spec.devices, and classes have spec.selectors and spec.config"
    if group == IN_TREE_GROUP and kind == "ResourceClass":
        return "DeviceClass of resource.k8s.io/v1 took its place"
    if kind == "DeviceClass" and is_vendor_group(group):
        return "DeviceClass of resource.k8s.io/v1 took its place, with CEL selectors"
    if group == IN_TREE_GROUP and kind in ("ResourceClaim", "ResourceClaimTemplate") and version != "v1":
        return f"{kind} of resource.k8s.io/v1 took its place"
    if group == IN_TREE_GROUP and kind in ("DeviceClass", "ResourceSlice") and version != "v1":
        return f"{kind} of resource.k8s.io/v1 took its place"
    return ""


def explain_removal(kind: str) -> str:
    """Explain why no current kind replaces a kind for which `is_gone` is true."""
    return _SUCCESSORS.get(kind, _PUBLISHED)
