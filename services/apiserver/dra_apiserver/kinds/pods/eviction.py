"""Evict a pod (upstream's `pkg/registry/core/pod/storage/eviction.go`)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject
from dra_shared.selectors import SelectorError, label_selector

from dra_apiserver.admission import Chain
from dra_apiserver.api import Api
from dra_apiserver.errors import GroupResource, StatusError, bad_request, not_found
from dra_apiserver.handlers.bodies import SUCCESS, read_body, reply
from dra_apiserver.handlers.options import write_options
from dra_apiserver.http import Request
from dra_apiserver.kinds.kubelets.restriction import restrict_eviction
from dra_apiserver.rest.delete import DeleteOptions, remove
from dra_apiserver.rest.meta import match_namespace
from dra_apiserver.storage import Put, Record
from dra_apiserver.target import Target

_PODS = GroupResource("", "pods")


async def evict(api: Api, request: Request, target: Target) -> None:
    """Delete a pod unless a disruption budget forbids it."""
    options = write_options(request, "CreateOptions")
    eviction = await read_body(api, request, "policy", "v1", "Eviction", options)
    match_namespace(target, eviction["metadata"])
    ctx = api.context(target, request.user, options.dry_run)
    restrict_eviction(ctx, target.name)
    await api.admit(request, target, eviction, ctx, "CREATE")
    # Check the name here, because admission may have changed it.
    match_namespace(target, eviction["metadata"])
    if (eviction["metadata"].get("name") or "") != target.name:
        raise bad_request("name in URL does not match name in Eviction object")
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
        # Policies and webhooks have already processed the Eviction.
        Chain(),
    )
    await reply(request, 201, SUCCESS)


async def _use_budget(api: Api, target: Target, dry_run: bool) -> None:
    """Count the eviction in the budgets that cover the pod, until the disruption controller updates them."""
    record = api.store.newest(target.resource, target.key)
    if record is None:
        raise not_found(_PODS, target.name)
    pod = record.object()
    over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed", "Pending")
    if over or pod["metadata"].get("deletionTimestamp"):
        # Evicting a pod that has ended or is already being deleted is not a disruption.
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
