"""Manifests whose pods can be counted, and manifests whose pods cannot."""

from typing import Any

import pytest
from dra_scheduler.plan.errors import PlanError
from dra_scheduler.plan.manifests import Manifests
from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.wanted import of
from dra_shared.api.resources import RESOURCE_CLAIM_TEMPLATES
from dra_shared.jsontypes import JsonObject

from tests.support.cases import each_case

_CONTAINERS: JsonObject = {"containers": [{"name": "c", "image": "x"}]}
_POD: JsonObject = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": _CONTAINERS}


def _object(api_version: str, kind: str, **spec: Any) -> JsonObject:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "x", "namespace": "n"},
        "spec": spec,
    }


_MAKE_PODS = [
    _object("kubevirt.io/v1", "VirtualMachine", template={"spec": {"domain": {"devices": {"gpus": []}}}}),
    _object("sparkoperator.k8s.io/v1beta2", "SparkApplication", driver={"template": {"spec": _CONTAINERS}}),
    _object("serving.kserve.io/v1beta1", "InferenceService", predictor={"model": {}}),
    _object("extensions/v1beta1", "Deployment", template={"spec": _CONTAINERS}),
    _object("apps/v1beta2", "Rollout", template={"spec": _CONTAINERS}),
]
_MAKE_NONE = [
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"containers": "[]"}},
    {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "x"}, "template": {"spec": _CONTAINERS}},
    _object("rbac.authorization.k8s.io/v1", "Role"),
    _object("networking.k8s.io/v1", "Ingress"),
    _object("gateway.networking.k8s.io/v1", "HTTPRoute"),
    _object("monitoring.coreos.com/v1", "ServiceMonitor"),
    _object("cert-manager.io/v1", "Certificate"),
    _object("security.istio.io/v1", "PeerAuthentication"),
    _object("kueue.x-k8s.io/v1beta1", "LocalQueue"),
    _object("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    _object("resource.nvidia.com/v1beta1", "ComputeDomain", numNodes=0),
]


@pytest.mark.parametrize("obj", _MAKE_PODS, ids=lambda obj: str(obj["kind"]))
def test_a_plan_names_workloads_of_unknown_kinds(obj: JsonObject) -> None:
    for given in (obj, {"apiVersion": "v1", "kind": "List", "items": [obj]}):
        found = Manifests.of([given, _POD])
        assert (found.left_out, len(found.objects)) == ([f"{obj['kind']} n/x"], 1)
        assert of(found, Objects()).left_out == (f"{obj['kind']} n/x",)


@each_case("obj", _MAKE_NONE, ids=lambda obj: str(obj["kind"]))
def test_a_plan_does_not_name_objects_that_create_no_pods(obj: JsonObject) -> None:
    assert Manifests.of([obj, _POD]).left_out == []


def test_manifests_with_only_unknown_workloads_are_rejected() -> None:
    with pytest.raises(PlanError, match="of unknown kinds: VirtualMachine n/x") as refused:
        of(Manifests.of([_MAKE_PODS[0]]), Objects())
    assert refused.value.left_out == ("VirtualMachine n/x",)


def test_a_compute_domain_gives_the_claim_template_of_its_channels() -> None:
    channel = {"resourceClaimTemplate": {"name": "channels"}}
    ((resource, template),) = Manifests.of(
        [_object("resource.nvidia.com/v1beta1", "ComputeDomain", channel=channel)]
    ).objects
    assert (resource, template.key) == (RESOURCE_CLAIM_TEMPLATES, "n/channels")


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        ({"kind": "Pod"}, "needs apiVersion and kind"),
        (
            {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {}},
            "a Pod cannot be read: it has no name",
        ),
        (
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": 1}},
            "a Pod cannot be read: ",
        ),
    ],
)
def test_an_invalid_manifest_is_rejected(obj: JsonObject, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Manifests.of([obj])
