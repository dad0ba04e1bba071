"""Subresources with a kind of their own: binding, eviction, scale."""

from __future__ import annotations

from typing import Any

from dra_shared.selectors import SelectorError, label_selector

from dra_apiserver.admission.pods import topology_labels
from dra_apiserver.errors import (
    GroupResource,
    StatusError,
    bad_request,
    conflict,
    invalid_object,
    not_found,
    not_supported,
    required,
)
from dra_apiserver.handlers.api import Api, Target
from dra_apiserver.handlers.delete import DeleteOptions, remove
from dra_apiserver.handlers.options import WriteOptions, write_options
from dra_apiserver.http import Request
from dra_apiserver.present import canonical, encode, negotiate
from dra_apiserver.schema import decode_as
from dra_apiserver.storage import Put, Record

JsonObject = dict[str, Any]

_PODS = GroupResource("", "pods")
_SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


async def read_body(
    api: Api, request: Request, group: str, version: str, kind: str, options: WriteOptions
) -> JsonObject:
    """The request's body, of a kind that is no resource's."""
    body = await request.body()
    decoded = decode_as(
        api.registry,
        group,
        version,
        kind,
        None,
        body,
        request.header(b"content-type"),
        options.field_validation,
    )
    obj = decoded.obj
    for field in ("metadata", "spec", "target"):
        if obj.get(field) is not None and not isinstance(obj[field], dict):
            raise bad_request(f"{kind}: {field} must be an object")
    obj["metadata"] = obj.get("metadata") or {}
    return obj


async def reply(request: Request, code: int, document: JsonObject) -> None:
    """Answer with an object."""
    accepted = negotiate(request.header(b"accept"))
    await request.respond(code, encode(document, accepted), accepted.media_type)


async def bind(api: Api, request: Request, target: Target) -> None:
    """Assign a pod to a node; the scheduler's write (pods/binding, or bindings with the pod's name inside)."""
    options = write_options(request, "CreateOptions")
    binding = await read_body(api, request, "", "v1", "Binding", options)
    meta, node = binding["metadata"], binding.get("target") or {}
    pods = api.registry.get("", "pods")
    assert pods is not None
    if target.subresource:
        if meta.get("name") and meta["name"] != target.name:
            raise bad_request("name in URL does not match name in Binding object")
        name = target.name
    else:
        name = meta.get("name") or ""
    pod_target = Target(pods, "v1", target.namespace, name)
    errors = []
    if node.get("kind") not in {None, "", "Node", "Minion"}:
        errors.append(not_supported("target.kind", node["kind"], ("Node", "<empty>")))
    if not node.get("name"):
        errors.append(required("target.name"))
    if errors:
        raise invalid_object("", "Binding", name, errors)

    if api.dynamic is not None:
        meta["namespace"] = target.namespace
        ctx = api.context(target, request.user, options.dry_run)
        await api.dynamic.admit(request, target, binding, ctx, "CREATE")

    def change(current: Record | None) -> Put:
        if current is None:
            raise not_found(_PODS, name)
        return Put(_bound(api, current.object(), binding))

    await api.store.write(pods.storage, pod_target.key, change, options.dry_run)
    await reply(request, 201, _SUCCESS)


def _bound(api: Api, pod: JsonObject, binding: JsonObject) -> JsonObject:
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


async def evict(api: Api, request: Request, target: Target) -> None:
    """Delete a pod unless a disruption budget forbids it."""
    options = write_options(request, "CreateOptions")
    eviction = await read_body(api, request, "policy", "v1", "Eviction", options)
    if api.dynamic is not None:
        ctx = api.context(target, request.user, options.dry_run)
        await api.dynamic.admit(request, target, eviction, ctx, "CREATE")
    wanted = eviction.get("deleteOptions") or {}
    if not isinstance(wanted, dict):
        raise bad_request("Eviction: deleteOptions must be an object")
    await _use_budget(api, target, options.dry_run)
    preconditions = wanted.get("preconditions") or {}
    await remove(
        api,
        request,
        Target(target.kind, target.version, target.namespace, target.name),
        DeleteOptions(
            grace=wanted.get("gracePeriodSeconds"),
            uid=preconditions.get("uid") or "",
            resource_version=preconditions.get("resourceVersion") or "",
            propagation=wanted.get("propagationPolicy") or "",
            dry_run=options.dry_run or bool(wanted.get("dryRun")),
        ),
        # Policies and webhooks were asked about the Eviction.
        registered=None,
    )
    await reply(request, 201, _SUCCESS)


async def _use_budget(api: Api, target: Target, dry_run: bool) -> None:
    """Count the eviction in the budgets that cover the pod, until the disruption controller counts anew."""
    record = api.store.newest(target.resource, target.key)
    if record is None:
        raise not_found(_PODS, target.name)
    pod = record.object()
    over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed", "Pending")
    if over or pod["metadata"].get("deletionTimestamp"):
        # Nothing is disrupted.
        return
    labels = pod["metadata"].get("labels") or {}
    resource = ("policy", "poddisruptionbudgets")
    collection = api.store.collection(resource)

    def use(current: Record | None) -> Put | None:
        if current is None:
            return None
        budget = current.object()
        status = budget.setdefault("status", {})
        if status.get("disruptionsAllowed", 0) <= 0:
            raise _no_disruption(budget)
        status["disruptionsAllowed"] -= 1
        status["disruptedPods"] = {**(status.get("disruptedPods") or {}), target.name: api.now()}
        return Put(budget)

    for key in list(collection.range(f"{target.namespace}/")):
        budget = collection.records[key].object()
        try:
            selected = label_selector((budget.get("spec") or {}).get("selector")).matches(labels)
        except SelectorError:
            continue
        if selected:
            await api.store.write(resource, key, use, dry_run)


def _no_disruption(budget: JsonObject) -> StatusError:
    status = budget["status"]
    causes = [
        {
            "reason": "DisruptionBudget",
            "message": f"The disruption budget {budget['metadata']['name']} needs "
            f"{status.get('desiredHealthy', 0)} healthy pods and has {status.get('currentHealthy', 0)} currently",
        }
    ]
    text = "Cannot evict pod as it would violate the pod's disruption budget."
    return StatusError(429, "TooManyRequests", text, {"causes": causes})
