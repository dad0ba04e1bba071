"""If two claims exist for one entry of a pod, one is kept, in whatever order the controller observes them."""

from itertools import permutations
from typing import Any

import pytest
from dra_controller.framework import Context
from dra_controller.resourceclaim import ResourceClaimController
from dra_controller.resourceclaim.views import SyncError
from dra_shared.api.codec import convert
from dra_shared.api.resources import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Resource
from dra_shared.claims import POD_CLAIM_ANNOTATION
from dra_shared.client.informer import InformerFactory
from dra_shared.clock import FakeClock
from dra_shared.features import FeatureGates
from prometheus_client import CollectorRegistry

from tests.support.cases import each_case
from tests.support.fakeapi import FakeApi

_RESOURCES: dict[str, Resource[Any]] = {
    "pods": PODS,
    "resourceclaims": RESOURCE_CLAIMS,
    "resourceclaimtemplates": RESOURCE_CLAIM_TEMPLATES,
}
_ORDERS = list(permutations((("pods", "pod"), ("resourceclaims", "first"), ("resourceclaims", "second"))))


def _claim(name: str) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": "pod", "controller": True}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "annotations": {POD_CLAIM_ANNOTATION: "gpu"},
            "ownerReferences": [owner],
        },
        "spec": {},
    }


_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "pod", "namespace": "default", "uid": "pod"},
    "spec": {
        "containers": [{"name": "c", "image": "busybox"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "template"}],
    },
    "status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "first"}]},
}
_TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "template", "namespace": "default", "uid": "template"},
    "spec": {"spec": {}},
}


@each_case("reconcile", ["after each", "at the end"])
@each_case("order", _ORDERS, ids=lambda order: "-".join(name for _, name in order))
async def test_one_of_two_claims_for_the_same_pod_entry_is_kept(
    order: tuple[tuple[str, str], ...], reconcile: str
) -> None:
    api = FakeApi(_POD, _TEMPLATE, _claim("first"), _claim("second"))
    informers = InformerFactory(api.client(), FakeClock())
    context = Context(api.client(), informers, FakeClock(), FeatureGates(), CollectorRegistry())
    controller = ResourceClaimController(context)

    def hear(plural: str, name: str) -> None:
        obj = api.find(_RESOURCES[plural], name, "default")
        informer = informers.informer(_RESOURCES[plural])
        if obj is None:
            informer._remove(f"default/{name}", None)
        else:
            informer._apply(obj)

    async def work() -> None:
        while len(controller.queue):
            key = await controller.queue.get()
            await controller.reconcile(key)
            controller.queue.done(key)

    hear("resourceclaimtemplates", "template")
    for plural, name in order:
        hear(plural, name)
        if reconcile == "after each":
            await work()
    await work()
    changed = {*order}
    for _ in range(3):
        changed |= {(plural, name) for plural, _, name in api.keys}
        for plural, name in sorted(changed):
            hear(plural, name)
            await work()
    (entry,) = api.get("pods", "default", "pod")["status"]["resourceClaimStatuses"]
    assert [obj["metadata"]["name"] for obj in api.of("resourceclaims")] == [entry["resourceClaimName"]]


async def test_a_sync_that_keeps_conflicting_is_requeued() -> None:
    api = FakeApi({**_POD, "status": {}}, _TEMPLATE)
    refused = ("patch", "pods")
    api.refuse = lambda call: (409, "Conflict", "a fault") if (call.verb, call.resource) == refused else None
    informers = InformerFactory(api.client(), FakeClock())
    context = Context(api.client(), informers, FakeClock(), FeatureGates(), CollectorRegistry())
    controller = ResourceClaimController(context)
    for plural in ("resourceclaimtemplates", "pods"):
        resource = _RESOURCES[plural]
        for obj in api.of(plural):
            informers.informer(resource)._apply(convert(resource, obj))
    key = await controller.queue.get()
    with pytest.raises(SyncError, match="a fault"):
        await controller.reconcile(key)
    # As often as client-go's retry.DefaultRetry.
    assert len(api.writes("pods")) == 5
    assert len(api.of("resourceclaims")) == 1
