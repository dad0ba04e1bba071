"""Authorize changes of a claim's status by part (`DRAResourceClaimGranularStatusAuthorization`).

Upstream's authorizer checks synthetic subresources: `resourceclaims/binding` for the allocation and its
users, `resourceclaims/driver` with a driver's name for the device status of that driver.
"""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject
from dra_shared.names import dns_subdomain

from dra_apiserver.errors import FieldError, GroupResource, forbidden_error, forbidden_field
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.schema import same, same_members
from dra_apiserver.user import service_account

_DEVICE = "io.k8s.api.resource.v1.AllocatedDeviceStatus"
_CLAIMS = GroupResource("resource.k8s.io", "resourceclaims")
_NODE_NAME = "authentication.kubernetes.io/node-name"


def check_binding(status: JsonObject, old: JsonObject, ctx: Context, path: str) -> list[FieldError]:
    """Require permission for `resourceclaims/binding` in all namespaces if the allocation or reservation changes."""
    if same_members("io.k8s.api.resource.v1.ResourceClaimStatus", status, old, "allocation", "reservedFor"):
        return []
    problem = _refusal(ctx.verb, "binding", "", "", ctx)
    if problem is None:
        return []
    text = (
        'changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", '
        f'verb="{ctx.verb}" permission: {problem}'
    )
    return [forbidden_field(path, text)]


def check_drivers(status: JsonObject, old: JsonObject, ctx: Context, path: str) -> list[FieldError]:
    """Require permission for `resourceclaims/driver` with a driver's name if that driver's device status changes."""
    verbs = [f"arbitrary-node:{ctx.verb}"]
    if _is_on_node(ctx, _only_node(status.get("allocation") or {})):
        verbs.insert(0, f"associated-node:{ctx.verb}")
    errors = []
    for driver in _changed_drivers(status, old):
        problems = [_refusal(verb, "driver", ctx.namespace, driver, ctx) for verb in verbs]
        if None not in problems:
            text = (
                f'changing status.devices requires resource="resourceclaims/driver", verb="[{" ".join(verbs)}]" '
                f"permission: {problems[0]}"
            )
            errors.append(forbidden_field(path, text))
    return errors


def _refusal(verb: str, subresource: str, namespace: str, name: str, ctx: Context) -> str | None:
    reason = ctx.authorize(verb, f"resourceclaims/{subresource}", namespace, name)
    if reason is None:
        return None
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    text = (
        f'User "{ctx.user.name}" cannot {verb} resource "resourceclaims/{subresource}" '
        f'in API group "resource.k8s.io" {where}'
    )
    return forbidden_error(_CLAIMS, name, f"{text}: {reason}" if reason else text).message


def _changed_drivers(status: JsonObject, old: JsonObject) -> list[str]:
    left = {_identify(device): device for device in old.get("devices") or ()}
    changed = set[str]()
    for device in status.get("devices") or ():
        # Each stored entry matches at most one new entry, so the second of two equal entries counts as new.
        before = left.pop(_identify(device), None)
        if before is None or not same(_DEVICE, before, device):
            changed.add(device.get("driver") or "")
    return sorted(changed.union(driver for driver, *_ in left))


def _identify(device: JsonObject) -> tuple[str, ...]:
    return tuple(device.get(name) or "" for name in ("driver", "pool", "device", "shareID"))


def _only_node(allocation: JsonObject) -> str:
    """Return the only node of an allocation, if it is selected by name and in no other way; else ""."""
    terms = (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or []
    if len(terms) != 1 or terms[0].get("matchExpressions"):
        return ""
    fields = terms[0].get("matchFields") or []
    if len(fields) != 1 or (fields[0].get("key"), fields[0].get("operator")) != ("metadata.name", "In"):
        return ""
    values = fields[0].get("values") or []
    return values[0] if len(values) == 1 else ""


def _is_on_node(ctx: Context, node: str) -> bool:
    """True if the user is a service account with a token that is bound to a pod on that node."""
    if not node or service_account(ctx.user.name) is None:
        return False
    nodes = ctx.user.extra.get(_NODE_NAME) or ()
    return len(nodes) == 1 and nodes[0] == node and not dns_subdomain(node)
