"""Pods with volumes: their node, the objects that are written for them, and the reasons why no node fits."""

from typing import Any

from dra_shared.jsontypes import JsonObject

from tests.scheduler.objects import claim_json, class_json, node_json, pod_json, slice_json
from tests.scheduler.running import condition, events, node_of, nominated_node, quiet, run_scheduler
from tests.support.cases import each_case
from tests.support.fakeapi import FakeApi
from tests.support.waiting import until

_HELPLESS = "Preemption is not helpful for scheduling."
_BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


def _claim(
    name: str = "data", *, bound: str = "", annotations: JsonObject | None = None, **spec: Any
) -> JsonObject:
    meta = {"name": name, "namespace": "default", "annotations": annotations or (_BOUND if bound else {})}
    wanted: JsonObject = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "5Gi"}},
        "storageClassName": "slow",
        **spec,
    }
    if bound:
        wanted["volumeName"] = bound
    return {"kind": "PersistentVolumeClaim", "metadata": meta, "spec": wanted, "status": {}}


def _volume(
    name: str, on: str = "", *, size: str = "5Gi", labels: JsonObject | None = None, **spec: Any
) -> JsonObject:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [on]}]}
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}} if on else {}
    return {
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": size},
            "storageClassName": "slow",
            **affinity,
            **spec,
        },
        "status": {"phase": "Available"},
    }


def _class(
    mode: str = "WaitForFirstConsumer", provisioner: str = "d.example.com", **fields: Any
) -> JsonObject:
    meta = {"name": "slow"}
    return {
        "kind": "StorageClass",
        "metadata": meta,
        "provisioner": provisioner,
        "volumeBindingMode": mode,
        **fields,
    }


def _pod(name: str = "p", claim: str = "data", **fields: Any) -> JsonObject:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return pod_json(name, volumes=volumes, **fields)


def _finish(api: FakeApi, volume: str, claim: str = "data") -> None:
    """Bind the claim to the volume, as the volume controllers do."""
    obj = api.get("persistentvolumeclaims", "default", claim)
    obj["spec"]["volumeName"] = volume
    obj["metadata"].setdefault("annotations", {}).update(_BOUND)
    api.add(obj)


async def _message(*objects: JsonObject, pod: JsonObject | None = None) -> str:
    """Return the reason why the pod has no node, without upstream's remarks on preemption if no node was examined."""
    api = FakeApi(node_json("a"), node_json("b"), pod or _pod(), *objects)
    async with run_scheduler(api):
        await until(lambda: condition(api, "p"))
    text = str(condition(api, "p")["message"]).removeprefix("0/2 nodes are available: ")
    for end in (
        f" no new claims to deallocate, preemption: 0/2 nodes are available: 2 {_HELPLESS}",
        " not found",
    ):
        if text.endswith(f".{end}"):
            return text.removesuffix(end)
    raise AssertionError(text)


async def test_volume_informers_start_with_the_first_pod_that_has_a_claim() -> None:
    api = FakeApi(node_json("a"), pod_json("q"), _claim(bound="pv"), _volume("pv"))
    async with run_scheduler(api) as (scheduler, _):
        await until(lambda: node_of(api, "q"))
        assert not scheduler._pod_cycle._cycles["default-scheduler"]._volumes.is_synced
        api.add(_pod())
        await until(lambda: node_of(api, "p"))
        assert scheduler._pod_cycle._cycles["default-scheduler"]._volumes.is_synced


async def test_a_pod_is_scheduled_to_the_node_of_its_volume() -> None:
    api = FakeApi(node_json("a"), node_json("b"), _pod(), _claim(bound="pv"), _volume("pv", "b"))
    async with run_scheduler(api):
        await until(lambda: node_of(api, "p") == "b")
    assert not nominated_node(api, "p")
    assert not api.writes("persistentvolumes")


@each_case(
    ("objects", "message"),
    [
        ([], 'persistentvolumeclaim "data" not found.'),
        (
            [{**_claim(bound="pv"), "status": {"phase": "Lost"}}],
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "pv".',
        ),
        ([_claim()], "pod has unbound immediate PersistentVolumeClaims."),
        ([_claim(), _class("Immediate")], "pod has unbound immediate PersistentVolumeClaims."),
        ([_claim(volumeName="pv"), _class()], "pod has unbound immediate PersistentVolumeClaims."),
        ([_claim(bound="pv")], 'persistentvolume "pv" not found.'),
        (
            [_claim(bound="pv"), _volume("pv", "c")],
            "2 node(s) didn't match PersistentVolume's node affinity.",
        ),
        (
            [_claim(), _class(provisioner="kubernetes.io/no-provisioner"), _volume("pv", "c")],
            "2 node(s) didn't find available persistent volumes to bind.",
        ),
        (
            [
                _claim(),
                _class(
                    allowedTopologies=[{"matchLabelExpressions": [{"key": "zone", "values": ["x", "y"]}]}]
                ),
            ],
            "2 node(s) didn't find available persistent volumes to bind.",
        ),
        (
            [
                _claim(),
                _class(),
                {
                    "kind": "CSIDriver",
                    "metadata": {"name": "d.example.com"},
                    "spec": {"storageCapacity": True},
                },
                {
                    "kind": "CSIStorageCapacity",
                    "metadata": {"name": "one", "namespace": "default"},
                    "storageClassName": "slow",
                    "capacity": "4Gi",
                    "nodeTopology": {},
                },
            ],
            "2 node(s) did not have enough free storage.",
        ),
    ],
)
async def test_unschedulable_pod_reports_the_reason_of_its_volumes(
    objects: list[JsonObject], message: str
) -> None:
    assert await _message(*objects) == message


async def test_a_claim_that_is_being_deleted_is_not_used() -> None:
    claim = _claim(bound="pv")
    claim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert await _message(claim) == 'persistentvolumeclaim "data" is being deleted.'


async def test_an_ephemeral_volume_waits_for_its_claim_and_rejects_claims_of_others() -> None:
    pod = pod_json("p", volumes=[{"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}])
    assert await _message(pod=pod) == (
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-tmp".'
    )
    assert await _message(_claim("p-tmp", bound="pv"), pod=pod) == (
        "PVC default/p-tmp was not created for pod default/p (pod is not owner)."
    )


async def test_the_smallest_volume_is_bound_before_the_pod() -> None:
    volumes = _volume("large", "b", size="9Gi"), _volume("right", "b"), _volume("small", size="1Gi")
    api = FakeApi(
        node_json("a"), node_json("b"), _claim(), _class(provisioner="kubernetes.io/no-provisioner")
    )
    for volume in volumes:
        api.add(volume)
    async with run_scheduler(api):
        api.add(_pod())
        await until(lambda: api.writes("persistentvolumes"))
        await quiet(api)
        assert (nominated_node(api, "p"), node_of(api, "p")) == ("b", None)
        bound = api.get("persistentvolumes", "", "right")
        assert bound["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
        assert bound["spec"]["claimRef"] == {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": "default",
            "name": "data",
            "uid": "data-uid",
            "resourceVersion": "3",
        }
        _finish(api, "right")
        await until(lambda: node_of(api, "p") == "b")


async def test_a_volume_is_provisioned_for_the_chosen_node() -> None:
    api = FakeApi(node_json("a"), _pod(), _claim(), _class())
    async with run_scheduler(api):
        await until(lambda: api.writes("persistentvolumeclaims"))
        annotations = api.get("persistentvolumeclaims", "default", "data")["metadata"]["annotations"]
        assert annotations == {"volume.kubernetes.io/selected-node": "a"}
        api.add(_volume("made", "a"))
        _finish(api, "made")
        await until(lambda: node_of(api, "p") == "a")


async def test_a_pod_reports_that_provisioning_of_its_volume_failed() -> None:
    api = FakeApi(node_json("a"), _pod(), _claim(), _class())
    async with run_scheduler(api):
        await until(lambda: api.writes("persistentvolumeclaims"))
        await quiet(api)
        claim = api.get("persistentvolumeclaims", "default", "data")
        claim["metadata"]["annotations"] = {"other": "x"}
        api.add(claim)
        await until(lambda: condition(api, "p"))
    assert condition(api, "p")["reason"] == "SchedulerError"
    text = 'running PreBind plugin "VolumeBinding": binding volumes: provisioning failed for PVC "data"'
    assert condition(api, "p")["message"] == text
    assert events(api, "p") == [f"FailedScheduling: {text}"]


async def test_binding_of_volumes_times_out_after_ten_minutes() -> None:
    api = FakeApi(node_json("a"), _pod(), _claim(), _class())
    async with run_scheduler(api) as (_, clock):
        await until(lambda: api.writes("persistentvolumeclaims"))
        await quiet(api)
        await clock.advance(601)
        await until(lambda: condition(api, "p"))
    assert condition(api, "p")["message"].endswith("binding volumes: context deadline exceeded")


async def test_two_pods_get_different_volumes() -> None:
    api = FakeApi(node_json("a"), _class(provisioner="kubernetes.io/no-provisioner"))
    for name in ("one", "two"):
        api.add(_volume(f"pv-{name}", "a"))
        api.add(_claim(name))
    async with run_scheduler(api):
        api.add(_pod("p", "one"))
        api.add(_pod("q", "two"))
        await until(lambda: len(api.writes("persistentvolumes")) == 2)
    claims = {api.get("persistentvolumes", "", f"pv-{n}")["spec"]["claimRef"]["name"] for n in ("one", "two")}
    assert claims == {"one", "two"}


async def test_a_new_volume_requeues_the_pod() -> None:
    api = FakeApi(node_json("a"), _pod(), _claim(), _class(provisioner="kubernetes.io/no-provisioner"))
    async with run_scheduler(api) as (_, clock):
        await until(lambda: condition(api, "p"))
        api.add(_volume("pv", "a"))
        await clock.advance(2)
        await until(lambda: api.writes("persistentvolumes"))


async def test_a_pod_is_scheduled_to_the_zone_of_its_volume() -> None:
    zone = "topology.kubernetes.io/zone"
    volume = _volume("pv", labels={"failure-domain.beta.kubernetes.io/zone": "x__y"})
    nodes = node_json("a", labels={zone: "z"}), node_json("b", labels={zone: "y"})
    api = FakeApi(*nodes, _claim(bound="pv"), volume, _pod())
    async with run_scheduler(api):
        await until(lambda: node_of(api, "p") == "b")
    api = FakeApi(nodes[0], _claim(bound="pv"), volume, _pod())
    async with run_scheduler(api):
        await until(lambda: condition(api, "p"))
    assert "1 node(s) had no available volume zone." in condition(api, "p")["message"]


async def test_a_read_write_once_pod_claim_is_used_by_one_pod() -> None:
    claim = _claim(bound="pv", accessModes=["ReadWriteOncePod"])
    user = _pod("user", nodeName="a", priority=0)
    api = FakeApi(node_json("a"), node_json("b"), claim, _volume("pv"), user, _pod())
    async with run_scheduler(api) as (_, clock):
        await until(lambda: condition(api, "p"))
        assert condition(api, "p")["message"].startswith(
            "0/2 nodes are available: 2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod "
            "access mode already in-use by another pod. no new claims to deallocate, preemption: "
            "0/2 nodes are available: 2 No preemption victims found for incoming pod."
        )
        api.remove("pods", "default", "user")
        await clock.advance(2)
        await until(lambda: node_of(api, "p"))


async def test_the_user_of_a_read_write_once_pod_claim_is_preempted() -> None:
    claim = _claim(bound="pv", accessModes=["ReadWriteOncePod"])
    user = _pod("user", nodeName="a", priority=0)
    api = FakeApi(node_json("a"), node_json("b"), claim, _volume("pv"), user, _pod(priority=10))
    async with run_scheduler(api) as (_, clock):
        await until(lambda: not api.has("pods", "default", "user"))
        await clock.advance(2)
        await until(lambda: node_of(api, "p") == "a")


@each_case(
    ("ours", "theirs", "together"),
    [
        ({"gcePersistentDisk": {"pdName": "x"}}, {"gcePersistentDisk": {"pdName": "x"}}, False),
        (
            {"gcePersistentDisk": {"pdName": "x", "readOnly": True}},
            {"gcePersistentDisk": {"pdName": "x", "readOnly": True}},
            True,
        ),
        ({"awsElasticBlockStore": {"volumeID": "x"}}, {"awsElasticBlockStore": {"volumeID": "x"}}, False),
        ({"iscsi": {"iqn": "x", "readOnly": True}}, {"iscsi": {"iqn": "x"}}, False),
        (
            {"rbd": {"monitors": ["m", "n"], "pool": "rbd", "image": "i"}},
            {"rbd": {"monitors": ["n"], "pool": "rbd", "image": "i"}},
            False,
        ),
        (
            {"rbd": {"monitors": ["m"], "pool": "rbd", "image": "i"}},
            {"rbd": {"monitors": ["n"], "pool": "rbd", "image": "i"}},
            True,
        ),
    ],
)
async def test_pods_that_use_one_disk_exclusively_do_not_share_a_node(
    ours: JsonObject, theirs: JsonObject, together: bool
) -> None:
    first = pod_json("first", nodeName="a", volumes=[{"name": "d", **theirs}])
    api = FakeApi(node_json("a"), first, pod_json("p", volumes=[{"name": "d", **ours}]))
    async with run_scheduler(api):
        await until(lambda: node_of(api, "p") or condition(api, "p"))
    if together:
        assert node_of(api, "p") == "a"
    else:
        assert "1 node(s) had no available disk." in condition(api, "p")["message"]


def _csi_node(name: str, count: int) -> JsonObject:
    driver = {"name": "d.example.com", "nodeID": name, "allocatable": {"count": count}}
    return {"kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": [driver]}}


async def test_a_node_has_at_most_its_limit_of_volumes() -> None:
    csi: JsonObject = {"driver": "d.example.com"}
    volumes = [_volume(f"pv-{n}", csi={**csi, "volumeHandle": n}) for n in ("one", "two", "left")]
    attachment = {
        "kind": "VolumeAttachment",
        "metadata": {"name": "left"},
        "spec": {
            "attacher": "d.example.com",
            "nodeName": "a",
            "source": {"persistentVolumeName": "pv-left"},
        },
    }
    api = FakeApi(
        node_json("a"),
        _csi_node("a", 2),
        *volumes,
        _claim("one", bound="pv-one"),
        _claim("two", bound="pv-two"),
        _pod("user", "one", nodeName="a"),
        _pod("same", "one"),
        attachment,
    )
    async with run_scheduler(api) as (_, clock):
        await until(lambda: node_of(api, "same"))
        api.add(_pod("p", "two"))
        await until(lambda: condition(api, "p"))
        assert "1 node(s) exceed max volume count." in condition(api, "p")["message"]
        api.remove("volumeattachments", "", "left")
        await clock.advance(2)
        await until(lambda: node_of(api, "p"))


async def test_pods_are_scheduled_to_nodes_that_declare_their_required_features() -> None:
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}]
    pod = pod_json("p", container={"restartPolicy": "Never", "restartPolicyRules": rules})
    api = FakeApi(node_json("a"), pod)
    async with run_scheduler(api) as (_, clock):
        await until(lambda: condition(api, "p"))
        assert condition(api, "p")["message"].startswith(
            "0/1 nodes are available: 1 node(s) didn't match Pod's required features."
        )
        node = node_json("a")
        node["status"]["declaredFeatures"] = ["RestartAllContainersOnContainerExits"]
        api.add(node)
        await clock.advance(2)
        await until(lambda: node_of(api, "p"))


def _with_device() -> JsonObject:
    pod = _pod()
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "c"}]
    return pod


async def test_devices_are_allocated_while_volumes_are_being_bound() -> None:
    devices = class_json(), slice_json("a", 1), claim_json("c")
    api = FakeApi(node_json("a"), _with_device(), _claim(), _class(), *devices)
    async with run_scheduler(api):
        await until(lambda: api.get("resourceclaims", "default", "c")["status"].get("allocation"))
        await quiet(api)
        assert not node_of(api, "p")
        api.add(_volume("made", "a"))
        _finish(api, "made")
        await until(lambda: node_of(api, "p") == "a")


async def test_devices_are_released_if_binding_volumes_fails() -> None:
    devices = class_json(), slice_json("a", 1), claim_json("c")
    api = FakeApi(node_json("a"), _with_device(), _claim(), _class(), *devices)
    async with run_scheduler(api) as (_, clock):
        await until(lambda: api.get("resourceclaims", "default", "c")["status"].get("reservedFor"))
        await quiet(api)
        await clock.advance(601)
        await until(lambda: condition(api, "p"))
        assert "context deadline exceeded" in condition(api, "p")["message"]
        given_back = {"reservedFor": [{"$patch": "delete", "uid": "uid-p"}]}
        assert [c.body["status"] for c in api.writes("resourceclaims") if c.verb == "patch"] == [given_back]


async def test_a_victim_whose_volumes_are_being_bound_is_requeued_instead_of_deleted() -> None:
    low = _pod(priority=0, requests={"cpu": "3"})
    api = FakeApi(node_json("a"), low, _claim(), _class())
    async with run_scheduler(api):
        await until(lambda: api.writes("persistentvolumeclaims"))
        await quiet(api)
        api.add(pod_json("high", requests={"cpu": "3"}, priority=10))
        await until(lambda: condition(api, "p"))
        text = 'running PreBind plugin "VolumeBinding": preempted by DefaultPreemption'
        assert condition(api, "p")["message"] == text
        assert api.has("pods", "default", "p")
