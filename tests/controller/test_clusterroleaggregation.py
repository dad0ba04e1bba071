"""ClusterRoles that aggregate the rules of others."""

from typing import Any

from dra_controller.clusterroleaggregation import ClusterRoleAggregationController
from dra_controller.framework import Context
from dra_shared.api.codec import convert
from dra_shared.api.resources import CLUSTER_ROLES
from dra_shared.client.informer import Informer, InformerFactory
from dra_shared.clock import FakeClock
from dra_shared.features import FeatureGates
from prometheus_client import CollectorRegistry

from tests.support.fakeapi import FakeApi

_READ = {"verbs": ["get", "list"], "apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"]}
_PATH = {"verbs": ["get"], "nonResourceURLs": ["/metrics"]}


def _role(name: str, *rules: dict[str, Any], labels: dict[str, str] | None = None) -> dict[str, Any]:
    meta = {"name": name, "uid": name, "resourceVersion": "1", "labels": labels or {}}
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    return {**kind, "metadata": meta, "rules": list(rules)}


def _aggregated_role(name: str, *rules: dict[str, Any]) -> dict[str, Any]:
    selectors = [{"matchLabels": {"to": "view"}}, {"matchLabels": {"too": "view"}}]
    return _role(name, *rules) | {"aggregationRule": {"clusterRoleSelectors": selectors}}


def _start_controller(
    *roles: dict[str, Any],
) -> tuple[FakeApi, Informer[Any], ClusterRoleAggregationController]:
    api = FakeApi(*roles)
    informers = InformerFactory(api.client(), FakeClock())
    context = Context(api.client(), informers, FakeClock(), FeatureGates(), CollectorRegistry())
    controller = ClusterRoleAggregationController(context)
    informer = informers.informer(CLUSTER_ROLES)
    for role in roles:
        informer._apply(convert(CLUSTER_ROLES, role))
    return api, informer, controller


async def test_each_rule_is_aggregated_once_in_order_of_selector_and_name() -> None:
    api, informer, controller = _start_controller(
        _aggregated_role("view"),
        _role("b", _READ, labels={"to": "view"}),
        _role("a", _PATH, _READ, labels={"to": "view", "too": "view"}),
        _role("other", {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
    )
    await controller.reconcile("view")
    (write,) = api.writes("clusterroles")
    assert write.body["rules"] == [_PATH, _READ]
    gathered = _aggregated_role("view", _PATH, _READ)
    gathered["metadata"]["resourceVersion"] = "2"
    informer._apply(convert(CLUSTER_ROLES, gathered))
    await controller.reconcile("view")
    assert len(api.writes("clusterroles")) == 1


async def test_a_change_of_any_role_enqueues_the_aggregated_roles() -> None:
    _, informer, controller = _start_controller(_aggregated_role("view"), _role("plain"))
    seen = set()
    while len(controller.queue):
        key = await controller.queue.get()
        seen.add(key)
        controller.queue.done(key)
    assert seen == {"view"}
    informer._remove("plain", None)
    assert len(controller.queue) == 1


async def test_a_role_without_aggregation_rule_is_not_changed() -> None:
    api, _, controller = _start_controller(_role("plain", _READ))
    await controller.reconcile("plain")
    await controller.reconcile("gone")
    assert api.writes("clusterroles") == []
