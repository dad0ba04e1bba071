"""Plans create no pod and no claim that a ResourceQuota rejects."""

from typing import Any

import pytest
from dra_scheduler.plan.fit import Wanted
from dra_scheduler.plan.objects import BY_KIND, Objects
from dra_scheduler.plan.planner import Planner
from dra_scheduler.plan.purchase.buyer import NodeType
from dra_scheduler.plan.purchase.recorded import RecordedNode
from dra_scheduler.plan.replaying.replayer import Arrival, Timeline
from dra_shared.api.codec import convert
from dra_shared.api.pod import Pod
from dra_shared.api.resources import NODES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from dra_shared.jsontypes import JsonObject

_API = {"ResourceQuota": "v1", "Node": "v1", "Pod": "v1"}


def _obj(kind: str, name: str, **more: Any) -> JsonObject:
    space = {} if kind in ("Node", "ResourceSlice", "DeviceClass") else {"namespace": "default"}
    api_version = _API.get(kind, "resource.k8s.io/v1")
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "uid": name, **space}, **more}


def _pod(name: str, *, node: str = "", claims: bool = False) -> JsonObject:
    container: JsonObject = {"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}}
    spec: JsonObject = {"schedulerName": "default-scheduler", "containers": [container]}
    if node:
        spec["nodeName"] = node
    if claims:
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    return _obj("Pod", name, spec=spec)


_DEVICES = [{"name": f"gpu-{number}"} for number in range(8)]
_POOL = {"name": "n", "generation": 1, "resourceSliceCount": 1}
_REQUEST = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
_CLAIM = {"devices": {"requests": [_REQUEST]}}
_TEMPLATE = _obj("ResourceClaimTemplate", "gpu", spec={"spec": _CLAIM})
_AMOUNTS = {"cpu": "64", "pods": "100"}


def _world(hard: dict[str, str], *objects: JsonObject) -> Objects:
    found: list[JsonObject] = [
        _obj("Node", "n", status={"allocatable": _AMOUNTS, "capacity": _AMOUNTS}),
        _obj(
            "ResourceSlice",
            "s",
            spec={"driver": "d", "nodeName": "n", "pool": _POOL, "devices": _DEVICES},
        ),
        _obj("DeviceClass", "gpu", spec={"extendedResourceName": "example.com/gpu"}),
        _obj("ResourceQuota", "q", spec={"hard": hard}),
        *objects,
    ]
    typed = []
    for obj in found:
        resource = BY_KIND[obj["apiVersion"].rpartition("/")[0], obj["kind"]]
        typed.append((resource, convert(resource, obj)))
    return Objects().with_objects(typed)


def _wanted_objects(**options: Any) -> Wanted:
    others = [(RESOURCE_CLAIM_TEMPLATES, convert(RESOURCE_CLAIM_TEMPLATES, _TEMPLATE))]
    return Wanted([_as_pod(_pod("p", **options))], (), others)


def _as_pod(pod: JsonObject) -> Pod:
    made: Pod = convert(PODS, pod)
    return made


@pytest.mark.parametrize(
    ("hard", "there", "fits"),
    [
        ({"pods": "3"}, 1, 2),
        ({"pods": "1"}, 1, 0),
        ({"count/pods": "4"}, 0, 4),
        ({"requests.cpu": "5"}, 2, 3),
        ({"limits.cpu": "2500m"}, 0, 2),
    ],
)
def test_pods_beyond_the_quota_do_not_fit(hard: dict[str, str], there: int, fits: int) -> None:
    pods = [_pod(f"there-{number}", node="n") for number in range(there)]
    planner = Planner(_world(hard, *pods))
    assert planner.fit(_wanted_objects(), most=True).fits == fits
    answer = planner.fit(_wanted_objects(), fits + 1)
    assert (answer.fits, answer.good) == (fits, False)
    (name,) = hard
    assert answer.pods[-1].message.startswith(
        f'pods "p-{fits + 1}" is forbidden: exceeded quota: q, requested: {name}='
    )
    # A trial has no lasting effect.
    assert planner.fit(_wanted_objects(), most=True).fits == fits


@pytest.mark.parametrize(
    "hard",
    [
        {"gpu.deviceclass.resource.k8s.io/devices": "3"},
        {"count/resourceclaims.resource.k8s.io": "3"},
        {"requests.example.com/gpu": "3"},
    ],
)
def test_claims_beyond_the_quota_are_not_created(hard: dict[str, str]) -> None:
    planner = Planner(_world(hard, _TEMPLATE))
    assert planner.fit(_wanted_objects(claims=True), most=True).fits == 3
    answer = planner.fit(_wanted_objects(claims=True), 4)
    assert answer.fits == 3
    assert "is forbidden: exceeded quota: q, requested:" in answer.pods[-1].message


def test_extended_resources_count_once_toward_a_quota() -> None:
    world = _world({"requests.example.com/gpu": "3"})
    pod = _pod("p")
    pod["spec"]["containers"][0]["resources"] = {
        side: {"example.com/gpu": "1"} for side in ("requests", "limits")
    }
    assert Planner(world).fit(Wanted([_as_pod(pod)]), most=True).fits == 3


def test_quotas_of_other_namespaces_do_not_count() -> None:
    quota = _obj("ResourceQuota", "q", spec={"hard": {"pods": "0"}})
    quota["metadata"]["namespace"] = "other"
    assert Planner(_world({"pods": "9"}, quota)).fit(_wanted_objects(), 5).fits == 5


def test_no_nodes_are_bought_for_pods_that_a_quota_rejects() -> None:
    world = _world({"pods": "2"})
    node = world.of(NODES)["n"]
    type_ = NodeType("t", 10.0, RecordedNode(node, []).make, None)
    answer = Planner(world.without(NODES, ["n"])).nodes([type_], _wanted_objects(), 3, seconds=60)
    assert (answer.wanted, len(answer.pods), [each.count for each in answer.nodes]) == (3, 2, [1])
    (unplaced,) = answer.unplaced
    assert "exceeded quota: q" in unplaced.message


def test_rejected_pods_are_created_once_the_quota_allows_them() -> None:
    pods = [_as_pod(_pod(name)) for name in "abc"]
    arrivals = [Arrival(0.0, 10.0, pod) for pod in pods]
    course = Planner(_world({"pods": "1"})).replay(Timeline(arrivals), starved_after=600.0).courses[0]
    assert (course.placed, course.waits.longest) == (3, 20)


def test_no_moves_are_proposed_for_pods_that_a_quota_rejects() -> None:
    answer = Planner(_world({"pods": "1"})).pack(_wanted_objects(), 2, seconds=60)
    assert answer.room is not None
    assert not answer.room.found


@pytest.mark.parametrize(("used", "there", "fits"), [("17", 0, 0), ("15", 1, 2), ("1", 3, 14)])
def test_usage_in_the_status_of_a_quota_counts(used: str, there: int, fits: int) -> None:
    """A dump may lack pods that the quota controller has counted, or contain pods that it has not counted yet."""
    pods = [_pod(f"there-{number}", node="n") for number in range(there)]
    quota = _obj("ResourceQuota", "q", spec={"hard": {"pods": "17"}}, status={"used": {"pods": used}})
    planner = Planner(_world({}, quota, *pods))
    assert planner.fit(_wanted_objects(), most=True).fits == fits
    assert planner.fit(_wanted_objects(), most=True).fits == fits


def test_pods_that_are_removed_with_their_node_use_no_quota() -> None:
    node = _obj("Node", "other", status={"allocatable": _AMOUNTS, "capacity": _AMOUNTS})
    quota = _obj("ResourceQuota", "q", spec={"hard": {"pods": "2"}}, status={"used": {"pods": "2"}})
    world = _world({}, quota, node, _pod("a", node="n"), _pod("b", node="other"))
    planner = Planner(world)
    assert planner.fit(_wanted_objects(), most=True).fits == 0
    assert planner.fit(_wanted_objects(), most=True, without=["other"]).fits == 1
    assert Planner(world).without_nodes(["other"]).fit(_wanted_objects(), most=True).fits == 1


def test_claims_in_the_planned_manifests_count() -> None:
    world = _world({"gpu.deviceclass.resource.k8s.io/devices": "1"})
    claims, pods = [], []
    for name in "ab":
        claim = _obj("ResourceClaim", name, spec=_CLAIM)
        claims.append((RESOURCE_CLAIMS, convert(RESOURCE_CLAIMS, claim)))
        pod = _pod(name)
        pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
        pods.append(_as_pod(pod))
    answer = Planner(world).fit(Wanted(pods, (), claims))
    assert [bool(pod.node) for pod in answer.pods] == [True, False]
    assert (
        'resourceclaims.resource.k8s.io "b" is forbidden: exceeded quota: q, requested: '
        in answer.pods[1].message
    )
