"""The NodeRestriction admission plugin: a kubelet may only write its own objects
(plugin/pkg/admission/noderestriction).

The authorizer allows kubelets to write some kinds of objects without checking the object. This plugin checks
it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping

from dra_shared.jsontypes import JsonObject

from dra_apiserver.errors import GroupResource, forbidden_error, not_found, quote
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.kinds.kubelets import references
from dra_apiserver.kinds.kubelets.identity import NODES, node_of
from dra_apiserver.schema import same, same_members

_KUBELETS = frozenset(
    {
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "kubernetes.io/arch",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)
_KUBELETS_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
_RESERVED = ("node-restriction.kubernetes.io",)
_KUBERNETES = ("kubernetes.io", "k8s.io")


def forbidden_changes(labels: Mapping[str, str] | None, before: Mapping[str, str] | None) -> list[str]:
    """Return the sorted labels that were added, changed or removed and that kubelets must not set."""
    after, known = labels or {}, before or {}
    changed = {key for key in {*after, *known} if after.get(key) != known.get(key)}
    return sorted(filter(_is_forbidden, changed))


def _is_forbidden(key: str) -> bool:
    domain, slash, _ = key.partition("/")
    domain = domain if slash else ""
    if _is_of(domain, _RESERVED):
        return True
    return _is_of(domain, _KUBERNETES) and key not in _KUBELETS and not _is_of(domain, _KUBELETS_DOMAINS)


def _is_of(domain: str, domains: tuple[str, ...]) -> bool:
    return domain in domains or domain.endswith(tuple(f".{one}" for one in domains))


_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

NAME = "NodeRestriction"
_MIRROR = "kubernetes.io/config.mirror"
_LEASES = "kube-node-lease"
# The parts of a volume claim's status that a kubelet may change.
_RESIZED = ("capacity", "conditions", "allocatedResourceStatuses", "allocatedResources")
_KUBELET_SIGNERS = ("kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving")
_PODS, _NODES = GroupResource("", "pods"), GroupResource("", "nodes")


class _Refused(Exception):
    """The request is rejected. The message says why."""


def restrict(obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str) -> None:
    """Restrict nodes to their own objects. Other users are not restricted.

    Raises:
        StatusError: 403, the object is not the node's own; 404, an object that it names does not exist.
    """
    # Checked first, because it runs for every write of these kinds.
    node = node_of(ctx.user) if NODES in ctx.user.groups else None
    if node is not None:
        meta = (old or obj or {}).get("metadata") or {}
        name = meta.get("name") or meta.get("generateName") or "Unknown"
        _run(ctx, name, node, lambda known: _check(known, obj, old, ctx, operation))


def restrict_eviction(ctx: Context, name: str) -> None:
    """Restrict nodes to the eviction of their own pods.

    Raises:
        StatusError: the errors of :func:`restrict`.
    """

    def check(node: str) -> None:
        if (_pod(ctx, name).get("spec") or {}).get("nodeName") != node:
            raise _Refused(f"node {node} can only evict pods with spec.nodeName set to itself")

    _run(ctx, name, node_of(ctx.user), check)


def restrict_token(ctx: Context, account: str, wanted: JsonObject) -> None:
    """Restrict nodes to tokens for their own pods, and for the audiences that these use.

    `wanted` is the TokenRequest.

    Raises:
        StatusError: the errors of :func:`restrict`.
    """
    _run(
        ctx,
        account,
        node_of(ctx.user),
        lambda node: _check_token(node, ctx, account, wanted.get("spec") or {}),
    )


def _run(ctx: Context, name: str, node: str | None, check: Callable[[str], None]) -> None:
    if node is None or NAME in ctx.disabled_plugins:
        return
    try:
        if not node:
            raise _Refused(f"could not determine node from user {quote(ctx.user.name)}")
        check(node)
    except _Refused as error:
        raise forbidden_error(GroupResource(ctx.kind.group, ctx.kind.plural), name, str(error)) from None


def _check(node: str, obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str) -> None:
    match ctx.kind.group, ctx.kind.plural:
        case "", "pods":
            _check_pod(node, obj, old, ctx, operation)
        case "", "nodes":
            _check_node(node, obj, old, operation)
        case "", "persistentvolumeclaims":
            _check_claim(node, obj, old, ctx, operation)
        case "coordination.k8s.io", "leases":
            if ctx.namespace != _LEASES:
                raise _Refused(f'can only access leases in the "{_LEASES}" system namespace')
            if _name(old or obj) != node:
                raise _Refused("can only access node lease with the same name as the requesting node")
        case "storage.k8s.io", "csinodes":
            if _name(old or obj) != node:
                raise _Refused("can only access CSINode with the same name as the requesting node")
        case "resource.k8s.io", "resourceslices":
            _check_slice(node, obj, old, operation)
        case "certificates.k8s.io", "certificatesigningrequests":
            if not ctx.features.enabled("AllowInsecureKubeletCertificateSigningRequests"):
                _check_signing_request(node, (obj or {}).get("spec") or {}, operation)


def _check_pod(
    node: str, obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str
) -> None:
    if ctx.subresource == "status":
        _check_pod_status(node, obj or {}, old or {}, operation)
    elif ctx.subresource:
        raise _Refused(
            f"unexpected pod subresource {quote(ctx.subresource)}, only 'status' and 'eviction' are allowed"
        )
    elif operation == "CREATE":
        _check_mirror(node, obj or {}, ctx)
    elif operation == "DELETE":
        if ((old or {}).get("spec") or {}).get("nodeName") != node:
            raise _Refused(f"node {quote(node)} can only delete pods with spec.nodeName set to itself")
    else:
        raise _Refused(
            f"unexpected operation {quote(operation)}, node {quote(node)} can only create and delete mirror pods"
        )


def _check_mirror(node: str, pod: JsonObject, ctx: Context) -> None:
    meta, named = pod.get("metadata") or {}, f"node {quote(node)}"
    if _MIRROR not in (meta.get("annotations") or {}):
        raise _Refused(f'pod does not have "{_MIRROR}" annotation, {named} can only create mirror pods')
    if (pod.get("spec") or {}).get("nodeName") != node:
        raise _Refused(f"{named} can only create pods with spec.nodeName set to itself")
    owners = meta.get("ownerReferences") or []
    if len(owners) > 1:
        raise _Refused(f"{named} can only create pods with a single owner reference set to itself")
    if not owners or [owners[0].get(field) for field in ("apiVersion", "kind", "name")] != [
        "v1",
        "Node",
        node,
    ]:
        raise _Refused(f"{named} can only create pods with an owner reference set to itself")
    if not owners[0].get("controller"):
        raise _Refused(f"{named} can only create pods with a controller owner reference set to itself")
    if owners[0].get("blockOwnerDeletion"):
        raise _Refused(f"{named} must not set blockOwnerDeletion on an owner reference")
    registered = ctx.lookup("", "nodes", "", node)
    if registered is None:
        raise not_found(_NODES, node)
    uid, wanted = registered["metadata"]["uid"], owners[0].get("uid") or ""
    if uid != wanted:
        # Upstream's message calls the UID in the pod "expected".
        raise _Refused(f"node {node} UID mismatch: expected {wanted} got {uid}")
    if (what := references.needs(pod)) is not None:
        raise _Refused(f"{named} can not create pods that reference {what}")


def _check_pod_status(node: str, obj: JsonObject, old: JsonObject, operation: str) -> None:
    if operation != "UPDATE":
        raise _Refused(f"unexpected operation {quote(operation)}")
    if (old.get("spec") or {}).get("nodeName") != node:
        raise _Refused(
            f"node {quote(node)} can only update pod status for pods with spec.nodeName set to itself"
        )
    if (obj["metadata"].get("labels") or {}) != (old["metadata"].get("labels") or {}):
        raise _Refused(f"node {quote(node)} cannot update labels through pod status")
    status, before = obj.get("status") or {}, old.get("status") or {}
    if _claims(status) != _claims(before):
        # The misspelling is upstream's.
        raise _Refused(f"node {quote(node)} cannot update resource claim statues")
    if not same_members("io.k8s.api.core.v1.PodStatus", status, before, "extendedResourceClaimStatus"):
        raise _Refused(f"node {quote(node)} cannot update extended resource claim status")


def _claims(status: JsonObject) -> list[tuple[str, str | None]]:
    return [(one["name"], one.get("resourceClaimName")) for one in status.get("resourceClaimStatuses") or ()]


def _check_node(node: str, obj: JsonObject | None, old: JsonObject | None, operation: str) -> None:
    name = _name(old or obj)
    if name != node:
        raise _Refused(f"node {quote(node)} is not allowed to modify node {quote(name)}")
    if obj is None or operation not in ("CREATE", "UPDATE"):
        return
    meta, spec = obj["metadata"], obj.get("spec") or {}
    if old is None:
        if spec.get("configSource") is not None:
            raise _Refused(f"node {quote(node)} is not allowed to create pods with a non-nil configSource")
        if names := forbidden_changes(meta.get("labels"), None):
            raise _Refused(
                f"node {quote(node)} is not allowed to set the following labels: {', '.join(names)}"
            )
        return
    before, known = old["metadata"], old.get("spec") or {}
    if spec.get("configSource") is not None and not same_members(
        "io.k8s.api.core.v1.NodeSpec", spec, known, "configSource"
    ):
        raise _Refused(
            f"node {quote(node)} is not allowed to update configSource to a new non-nil configSource"
        )
    if not same_members("io.k8s.api.core.v1.NodeSpec", spec, known, "taints"):
        raise _Refused(f"node {quote(node)} is not allowed to modify taints")
    if not same_members(_META, meta, before, "ownerReferences"):
        raise _Refused(f"node {quote(node)} is not allowed to modify ownerReferences")
    if names := forbidden_changes(meta.get("labels"), before.get("labels")):
        raise _Refused(f"is not allowed to modify labels: {', '.join(names)}")


def _check_claim(
    node: str, obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str
) -> None:
    if ctx.subresource != "status":
        raise _Refused("may only update PVC status")
    if operation != "UPDATE":
        raise _Refused(f"unexpected operation {quote(operation)}")
    unresized = (_without_resize(one) if one is not None else None for one in (obj, old))
    if not same("io.k8s.api.core.v1.PersistentVolumeClaim", *unresized):
        raise _Refused(
            f"node {quote(node)} is not allowed to update fields other than status.quantity and status.conditions"
        )


def _without_resize(claim: JsonObject) -> JsonObject:
    meta = {**claim["metadata"], "resourceVersion": "", "managedFields": None}
    status = {key: value for key, value in (claim.get("status") or {}).items() if key not in _RESIZED}
    return {**claim, "metadata": meta, "status": status}


def _check_slice(node: str, obj: JsonObject | None, old: JsonObject | None, operation: str) -> None:
    if operation not in ("CREATE", "DELETE"):
        return
    verb = operation.lower()
    if ((obj if operation == "CREATE" else old) or {}).get("spec", {}).get("nodeName") != node:
        raise _Refused(f"can only {verb} ResourceSlice with the same NodeName as the requesting node")


def _check_signing_request(node: str, spec: JsonObject, operation: str) -> None:
    if operation != "CREATE" or spec.get("signerName") not in _KUBELET_SIGNERS:
        return
    wanted = f"system:node:{node}"
    if _common_name(spec.get("request") or "") != wanted:
        raise _Refused(f"can only create a node CSR with CN={wanted}")


def _common_name(request: str) -> str:
    """Return the common name of the requested certificate. `request` is a CSR's PEM, in base64."""
    # Imported here because it is slow to load, and few requests need it.
    from cryptography.x509 import load_pem_x509_csr
    from cryptography.x509.oid import NameOID

    try:
        pem = base64.b64decode(request)
        if b"-----BEGIN CERTIFICATE REQUEST-----" not in pem:
            raise ValueError("PEM block type must be CERTIFICATE REQUEST")
        subject = load_pem_x509_csr(pem).subject
    except ValueError as error:
        raise _Refused(f"unable to parse csr: {error}") from None
    names = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    # As in Go, the last one counts.
    return str(names[-1].value) if names else ""


def _check_token(node: str, ctx: Context, account: str, spec: JsonObject) -> None:
    reference = spec.get("boundObjectRef") or {}
    if reference.get("apiVersion") != "v1" or reference.get("kind") != "Pod" or not reference.get("name"):
        raise _Refused("node requested token not bound to a pod")
    if not reference.get("uid"):
        raise _Refused("node requested token with a pod binding without a uid")
    pod = _pod(ctx, reference["name"])
    if reference["uid"] != pod["metadata"]["uid"]:
        raise _Refused(
            f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
    if (pod.get("spec") or {}).get("nodeName") != node:
        raise _Refused("node requested token bound to a pod scheduled on a different node")
    _check_audience(ctx, account, pod, spec.get("audiences") or [])


def _check_audience(ctx: Context, account: str, pod: JsonObject, audiences: list[str]) -> None:
    """Check the gate ServiceAccountNodeAudienceRestriction, which is always on here."""
    if len(audiences) > 1:
        raise _Refused("node may only request 0 or 1 audiences")
    audience = audiences[0] if audiences else ""
    if audience in _audiences(ctx, pod):
        return
    # Upstream authorizes with the audience in place of a resource.
    if ctx.authorize("request-serviceaccounts-token-audience", audience, ctx.namespace, account) is None:
        return
    raise _Refused(
        f"audience {quote(audience)} not found in pod spec volume, "
        f"{ctx.user.name} is not authorized to request tokens for this audience"
    )


def _audiences(ctx: Context, pod: JsonObject) -> Iterable[str]:
    """Yield the audiences of the tokens in the pod's volumes."""
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            if source.get("serviceAccountToken") is not None:
                yield source["serviceAccountToken"].get("audience") or ""
        driver = ctx.lookup("storage.k8s.io", "csidrivers", "", _driver(ctx, pod, volume))
        for request in ((driver or {}).get("spec") or {}).get("tokenRequests") or ():
            yield request.get("audience") or ""


def _driver(ctx: Context, pod: JsonObject, volume: JsonObject) -> str:
    """Return the CSI driver of a pod's volume; "" if it has none."""
    claim = (volume.get("persistentVolumeClaim") or {}).get("claimName") or ""
    if volume.get("ephemeral") is not None:
        claim = f"{pod['metadata']['name']}-{volume['name']}"
    if not claim:
        return (volume.get("csi") or {}).get("driver") or ""
    found = ctx.lookup("", "persistentvolumeclaims", ctx.namespace, claim) or {}
    bound = ctx.lookup("", "persistentvolumes", "", (found.get("spec") or {}).get("volumeName") or "") or {}
    return ((bound.get("spec") or {}).get("csi") or {}).get("driver") or ""


def _pod(ctx: Context, name: str) -> JsonObject:
    found = ctx.lookup("", "pods", ctx.namespace, name)
    if found is None:
        raise not_found(_PODS, name)
    return found


def _name(obj: JsonObject | None) -> str:
    return str(((obj or {}).get("metadata") or {}).get("name") or "")


NODE_RESTRICTION = (NAME, restrict)
"""The plugin, for the kinds that kubelets write."""
