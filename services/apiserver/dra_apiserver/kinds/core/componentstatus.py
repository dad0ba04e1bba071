"""ComponentStatuses: computed on request, never stored.

Upstream calls the health ports of scheduler and controller manager on its own machine. Ours listen on
configured addresses, so their leases are used instead. Components without a lease are omitted.
"""

from __future__ import annotations

from dra_shared.clock import parse_rfc3339
from dra_shared.jsontext import dumps
from dra_shared.jsontypes import JsonObject

from dra_apiserver.api import Api
from dra_apiserver.errors import not_found
from dra_apiserver.http import Request
from dra_apiserver.storage import Record, object_key
from dra_apiserver.target import Target

_LEASES = ("coordination.k8s.io", "leases")
_LEADERS = {"scheduler": "kube-scheduler", "controller-manager": "kube-controller-manager"}


def _component(name: str, problem: str | None) -> JsonObject:
    condition = {
        "type": "Healthy",
        "status": "True" if problem is None else "False",
        "message": "ok" if problem is None else problem,
    }
    return {
        "kind": "ComponentStatus",
        "apiVersion": "v1",
        "metadata": {"name": name},
        "conditions": [condition],
    }


def _components(api: Api) -> dict[str, JsonObject]:
    found = {}
    for name, leader in _LEADERS.items():
        record = api.store.get(_LEASES, object_key("kube-system", leader))
        if record is not None:
            found[name] = _component(name, _lease_problem(api, record.object().get("spec") or {}))
    found["etcd-0"] = _component("etcd-0", api.store.failure)
    return found


def _lease_problem(api: Api, spec: JsonObject) -> str | None:
    if not spec.get("holderIdentity") or not spec.get("renewTime"):
        return "there is no leader"
    age = (api.clock.now() - parse_rfc3339(spec["renewTime"])).total_seconds()
    limit = spec.get("leaseDurationSeconds") or 0
    return f"the leader renewed its lease {age:.0f} s ago" if age > limit else None


async def list_components(api: Api, request: Request, target: Target) -> None:
    """Respond with all components."""
    presenter = api.presenter(target, request)
    records = [Record(name, 0, dumps(obj)) for name, obj in _components(api).items()]
    await request.respond(200, presenter.listing(records, {}), presenter.accepted.media_type)


async def get_component(api: Api, request: Request, target: Target) -> None:
    """Respond with one component."""
    presenter = api.presenter(target, request)
    found = _components(api).get(target.name)
    if found is None:
        raise not_found(target.qualified_resource, target.name)
    await request.respond(200, presenter.one(dumps(found)), presenter.accepted.media_type)
