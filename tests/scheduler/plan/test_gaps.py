"""The planner names missing objects and contradictions."""

from typing import Any

import pytest
from dra_scheduler.plan.gaps import gaps
from dra_scheduler.plan.manifests import Manifests
from dra_scheduler.plan.objects import BY_KIND, Objects
from dra_shared.api.codec import convert
from dra_shared.api.resources import RESOURCE_CLAIMS, STORAGE_CLASSES
from dra_shared.jsontypes import JsonObject

from tests.support.cases import each_case

_GROUPS = {
    "Pod": "v1",
    "Node": "v1",
    "PersistentVolumeClaim": "v1",
    "PodGroup": "scheduling.k8s.io/v1beta1",
}


def _obj(kind: str, name: str, **more: Any) -> JsonObject:
    space = {} if kind in ("Node", "ResourceSlice", "DeviceClass") else {"namespace": "default"}
    api_version = _GROUPS.get(kind, "resource.k8s.io/v1")
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **space}, **more}


def _world(*objects: JsonObject) -> Objects:
    found = []
    for obj in objects:
        resource = BY_KIND[obj["apiVersion"].rpartition("/")[0], obj["kind"]]
        found.append((resource, convert(resource, obj)))
    return Objects().with_objects(found)


_AMOUNTS = {"cpu": "4", "pods": "10"}
_NODE = _obj("Node", "n", status={"allocatable": _AMOUNTS})
_CLASS = _obj("DeviceClass", "gpu", spec={})


def _slice(*devices: JsonObject, **more: Any) -> JsonObject:
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d", "nodeName": "n", "pool": pool, "devices": list(devices), **more}
    return _obj("ResourceSlice", "s", spec=spec)


def _claim(name: str, *results: JsonObject, reserved_for: str = "") -> JsonObject:
    found = [{"request": "r", "driver": "d", "pool": "n", **result} for result in results]
    status: JsonObject = {"allocation": {"devices": {"results": found}}}
    if reserved_for:
        status["reservedFor"] = [{"resource": "pods", "name": reserved_for, "uid": "u"}]
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    return _obj("ResourceClaim", name, spec={"devices": {"requests": [request]}}, status=status)


def _pod(
    name: str, spec: JsonObject | None = None, status: JsonObject | None = None, **meta: Any
) -> JsonObject:
    made = _obj("Pod", name, spec={"nodeName": "n", **(spec or {})}, status=status or {"phase": "Running"})
    made["metadata"] |= meta
    return made


_TEMPLATED = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}
_MADE = {"phase": "Running", "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p-gpu-x"}]}
_EXTENDED = {"phase": "Running", "extendedResourceClaimStatus": {"resourceClaimName": "p-extended"}}
_OWNER = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}]
_GPU: JsonObject = {"name": "g"}


@each_case(
    ("objects", "text"),
    [
        (
            (_pod("p", _TEMPLATED, _MADE),),
            "no ResourceClaims, but objects refer to them: default/p (p-gpu-x)",
        ),
        (
            (_pod("p", None, _EXTENDED),),
            "no ResourceClaims, but objects refer to them: default/p (p-extended)",
        ),
        (
            (_pod("p", _TEMPLATED, _MADE),),
            "no ResourceClaimTemplates, but objects refer to them: default/p (t)",
        ),
        ((_pod("p", ownerReferences=_OWNER),), "no ReplicaSets, but objects refer to them: default/p (r)"),
        (
            (_pod("p", {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}),),
            "no PersistentVolumeClaims, but objects refer to them: default/p (data)",
        ),
        (
            (_obj("PersistentVolumeClaim", "data", spec={"volumeName": "pv"}),),
            "no PersistentVolumes, but objects refer to them: default/data (pv)",
        ),
        (
            (_pod("p", {"schedulingGroup": {"podGroupName": "g"}}),),
            "no PodGroups, but objects refer to them: default/p (g)",
        ),
        ((_slice(_GPU), _CLASS, _claim("c", {"device": "g"}, reserved_for="gone")), "no Pods, but"),
        (
            (
                _pod("p", {"priorityClassName": "gold"}),
                _pod("q", {"priorityClassName": "system-node-critical"}),
            ),
            "no PriorityClasses, but objects refer to them: default/p (gold); new pods",
        ),
        (
            (_pod("p", {"runtimeClassName": "kata"}),),
            "no RuntimeClasses, but objects refer to them: default/p (kata)",
        ),
        (
            (
                _slice(_GPU),
                _CLASS,
                _claim("c", {"device": "g"}, reserved_for="gone"),
                _pod("other"),
            ),
            "claims reserved for pods that are missing: default/c (gone)",
        ),
        (
            (_slice(_GPU), _obj("DeviceClass", "other", spec={}), _claim("c", {"device": "g"})),
            "claims whose device class is missing: default/c (gpu)",
        ),
        (
            (_slice(_GPU), _CLASS, _claim("a", {"device": "g"}), _claim("b", {"device": "g"})),
            "devices that several claims hold: d/n/g (default/a, default/b)",
        ),
        (
            (
                _slice({"name": "g", "allowMultipleAllocations": True}),
                _CLASS,
                _claim("a", {"device": "g", "shareID": "x"}),
                _claim("b", {"device": "g"}),
            ),
            "devices that several claims hold: d/n/g (default/a, default/b)",
        ),
        (
            (
                _slice(
                    {"name": "g", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "4"}}}
                ),
                _CLASS,
                _claim("a", {"device": "g", "shareID": "x", "consumedCapacity": {"memory": "3"}}),
                _claim("b", {"device": "g", "shareID": "y", "consumedCapacity": {"memory": "2"}}),
            ),
            "claims hold more than there is: d/n/g/memory (5 of 4)",
        ),
        (
            (
                _slice(
                    *(
                        {
                            "name": name,
                            "consumesCounters": [
                                {"counterSet": "set", "counters": {"memory": {"value": "3"}}}
                            ],
                        }
                        for name in "ab"
                    ),
                    sharedCounters=[{"name": "set", "counters": {"memory": {"value": "4"}}}],
                ),
                _CLASS,
                _claim("a", {"device": "a"}),
                _claim("b", {"device": "b"}),
            ),
            "claims hold more than there is: d/n/set/memory (6 of 4)",
        ),
        ((_obj("Node", "empty"),), "nodes without status.allocatable: empty"),
    ],
)
def test_missing_objects_and_contradictions_are_named(objects: tuple[JsonObject, ...], text: str) -> None:
    found = [line for line in gaps(_world(_NODE, *objects)) if text in line]
    assert len(found) == 1


def test_a_slice_of_a_missing_node_is_named() -> None:
    (line,) = gaps(_world(_obj("Node", "other", status={"allocatable": _AMOUNTS}), _slice(_GPU), _CLASS))
    assert line == "slices of a node that is missing: s (n); their devices count nowhere"


@pytest.mark.parametrize(
    "results",
    [
        ({"device": "g"}, {"device": "g", "adminAccess": True}),
        ({"device": "g", "shareID": "x"}, {"device": "g", "shareID": "y"}),
    ],
)
def test_a_shareable_device_that_two_claims_hold_is_not_called_a_contradiction(
    results: tuple[JsonObject, ...],
) -> None:
    claims = [_claim(f"c{number}", result) for number, result in enumerate(results)]
    assert gaps(_world(_NODE, _slice(_GPU), _CLASS, *claims)) == []


def test_references_of_finished_pods_to_missing_objects_are_not_named() -> None:
    done = _pod("p", _TEMPLATED, {**_MADE, "phase": "Succeeded"})
    assert gaps(_world(_NODE, _slice(_GPU), _CLASS, done)) == []


def test_manifests_with_unreadable_quantities_are_refused() -> None:
    pod = _pod("p", {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1 core"}}}]})
    with pytest.raises(
        ValueError, match=r"a Pod cannot be read: spec.containers\[0\].resources.requests\[cpu\]"
    ):
        Manifests.of([pod])


def test_kinds_without_objects_in_a_running_cluster_are_not_called_missing() -> None:
    claim = _obj("PersistentVolumeClaim", "v", spec={"storageClassName": "fast"})
    world = _world(_NODE, claim)
    assert [text for text in gaps(world) if "StorageClass" in text]
    assert gaps(world.with_known([STORAGE_CLASSES])) == []


def test_missing_claims_of_a_running_cluster_are_named() -> None:
    pod = _pod("p", {"resourceClaims": [{"name": "c", "resourceClaimName": "gone"}]})
    found = gaps(_world(_NODE, _CLASS, _slice({"name": "d"}), pod).with_known([RESOURCE_CLAIMS]))
    assert [text.partition(":")[0] for text in found] == ["pods whose claim is missing"]
