"""Bind a pod to a node (upstream's `BindingREST` in `pkg/registry/core/pod/storage/storage.go`)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject

from dra_apiserver.api import Api
from dra_apiserver.errors import (
    GroupResource,
    bad_request,
    conflict,
    invalid_object,
    missing_field,
    not_found,
    not_supported,
)
from dra_apiserver.handlers.bodies import SUCCESS, read_body, reply
from dra_apiserver.handlers.options import write_options
from dra_apiserver.http import Request
from dra_apiserver.kinds.pods.admission import topology_labels
from dra_apiserver.rest.meta import match_namespace
from dra_apiserver.storage import Put, Record
from dra_apiserver.storage.records import canonical
from dra_apiserver.target import Target

_PODS = GroupResource("", "pods")


async def bind(api: Api, request: Request, target: Target) -> None:
    """Bind a pod to a node, through pods/binding or through bindings with the pod's name inside."""
    options = write_options(request, "CreateOptions")
    binding = await read_body(api, request, "", "v1", "Binding", options)
    _check(target, binding)
    await api.admit(request, target, binding, api.context(target, request.user, options.dry_run), "CREATE")
    # Admission may have changed it.
    name = _check(target, binding)
    pods = api.registry.get("", "pods")
    assert pods is not None
    pod_target = Target(pods, "v1", target.namespace, name)

    def change(current: Record | None) -> Put:
        if current is None:
            raise not_found(_PODS, name)
        return Put(_bind_pod(api, current.object(), binding))

    await api.store.write(pods.storage, pod_target.key, change, options.dry_run)
    await reply(request, 201, SUCCESS)


def _check(target: Target, binding: JsonObject) -> str:
    """Return the name of the pod to bind.

    Raises:
        StatusError: 400 or 422, the Binding is for another pod, or has no node.
    """
    meta, node = binding["metadata"], binding.get("target") or {}
    match_namespace(target, meta)
    name: str = meta.get("name") or ""
    if target.subresource and name != target.name:
        raise bad_request("name in URL does not match name in Binding object")
    errors = []
    if node.get("kind") not in {None, "", "Node", "Minion"}:
        errors.append(not_supported("target.kind", node["kind"], ("Node", "<empty>")))
    if not node.get("name"):
        errors.append(missing_field("target.name"))
    if errors:
        raise invalid_object("", "Binding", name, errors)
    return name


def _bind_pod(api: Api, pod: JsonObject, binding: JsonObject) -> JsonObject:
    meta, spec = pod["metadata"], pod["spec"]
    name, node = meta["name"], binding["target"]["name"]
    qualified = GroupResource("", "pods/binding")
    wanted = binding["metadata"]
    if wanted.get("uid") and wanted["uid"] != meta["uid"]:
        text = f"Precondition failed: UID in precondition: {wanted['uid']}, UID in object meta: {meta['uid']}"
        raise conflict(qualified, name, text)
    if meta.get("deletionTimestamp"):
        raise conflict(qualified, name, f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise conflict(qualified, name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise conflict(qualified, name, f"pod {name} has non-empty .spec.schedulingGates")
    spec["nodeName"] = node
    record = api.store.get(("", "nodes"), node)
    if record is not None and b"topology.kubernetes.io/" in record.data:
        wanted["labels"] = {**(wanted.get("labels") or {}), **topology_labels(record.object())}
    for field in ("annotations", "labels"):
        if wanted.get(field):
            meta[field] = {**(meta.get(field) or {}), **wanted[field]}
    # ClearingNominatedNodeNameAfterBinding
    pod.setdefault("status", {}).pop("nominatedNodeName", None)
    conditions = pod["status"].setdefault("conditions", [])
    made: JsonObject = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": api.now(),
    }
    for index, found in enumerate(conditions):
        if found.get("type") == "PodScheduled":
            if found.get("status") == "True":
                made["lastTransitionTime"] = found.get("lastTransitionTime")
            conditions[index] = made
            break
    else:
        conditions.append(made)
    return canonical(pod)
